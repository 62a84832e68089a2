/* Tests where the configuration comes from: which files photopool finds and trusts, and what a
 * reload may change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HEX_A    "00000000000000000000000000000000000000000000000000000000000000aa"

static enum pp_err try(struct pp_config **cfg, const char *yaml, struct pp_config_error *err)
{
    struct pp_config_sources src = {
        .file = yaml ? "test.yaml" : "", .text = yaml, .text_len = yaml ? strlen(yaml) : 0};
    return pp_config_load(cfg, &src, err);
}

/* Loads the text of a file; NULL: there is no file. */
static struct pp_config *load(const char *yaml)
{
    struct pp_config *cfg;
    struct pp_config_error err;
    if (try(&cfg, yaml, &err) != PP_OK)
        fail_msg("%s", err.text);
    return cfg;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

#define KEYS "auth.keys: [{name: a, sha256: '" HEX_A "', scopes: [read]}]\n"

static enum pp_err check_reload(const char *from, const char *to, struct pp_config_error *err)
{
    struct pp_config *in_force = load(from), *newer = load(to);
    enum pp_err e = pp_config_check_reload(in_force, newer, err);
    pp_config_free(in_force);
    pp_config_free(newer);
    return e;
}

static void a_reload_loses_neither_keys_nor_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *text; /* text: what the error says; NULL: the reload is permitted */
    } cases[] = {
        {KEYS "clients.rpm: 5\n", "clients.rpm: 6\n", "auth.keys: has no keys any more"},
        {KEYS, "auth.keys: []\nclients.rpm: 6\n", "auth.keys: has no keys any more"},
        {KEYS, "", "is empty"},
        {"clients.rpm: 5\n", "# a comment\n", "is empty"},
        {"clients.rpm: 5\n", "clients.rpm: 6\n", NULL},
        {"clients.rpm: 5\n", KEYS, NULL},
        {"http.tls: {cert: a, key: b}\n", "clients.rpm: 6\n", "http.tls.cert: is not set any more"},
        {"http.tls: {cert: a, key: b}\n", "http.tls: {cert: c, key: b}\n", NULL},
        {"clients.rpm: 6\n", "http.tls: {cert: a, key: b}\n", NULL},
        {"", "clients.rpm: 6\n", NULL},
        {"", "", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config_error err;
        assert_int_equal(check_reload(cases[i].from, cases[i].to, &err), cases[i].text ? PP_EINVAL : PP_OK);
        if (cases[i].text && !strstr(err.text, cases[i].text))
            fail_msg("case %zu: %s", i, err.text);
    }
    struct pp_config_error err;
    struct pp_config *in_force = load(KEYS), *newer = load(NULL);
    assert_int_equal(pp_config_check_reload(in_force, newer, &err), PP_EINVAL);
    assert_non_null(strstr(err.text, "is gone"));
    pp_config_free(in_force);
    pp_config_free(newer);
}

/* A writer was interrupted after any number of bytes. */
static void a_reload_of_half_a_file_keeps_the_keys(void **state)
{
    (void)state;
    static const char whole[] = "clients:\n  rpm: 5\nauth:\n  keys:\n    - name: a\n      sha256: " HEX_A
                                "\n      scopes: [read]\nfetch:\n  max_redirects: 3\n";
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        char half[sizeof whole];
        struct pp_config *in_force = load(whole), *newer;
        struct pp_config_error err;
        snprintf(half, sizeof half, "%.*s", (int)n, whole);
        if (try(&newer, half, &err) == PP_OK && pp_config_check_reload(in_force, newer, &err) == PP_OK)
            assert_int_equal(newer->auth.keys.n, 1);
        pp_config_free(in_force);
        pp_config_free(newer);
    }
}

static void files_are_found(void **state)
{
    (void)state;
    char dir[] = "/tmp/pp_config_XXXXXX", before[4096];
    struct pp_config *cfg;
    struct pp_config_error err;
    struct pp_config_sources src = {0};
    assert_non_null(getcwd(before, sizeof before));
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);

    src.file = "none.yaml";
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_EIO);
    assert_non_null(strstr(err.text, "none.yaml: can't be opened: No such file"));
    src.file = ".";
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_EIO);
    assert_non_null(strstr(err.text, ".: can't be read: Is a directory"));

    write_file("photopool.yaml", "clients.rpm: 5\n");
    src.file = NULL;
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_OK);
    assert_int_equal(cfg->clients.rpm, 5);
    assert_string_equal(cfg->file, "./photopool.yaml");
    pp_config_free(cfg);

    static const struct {
        mode_t file, folder;
        enum pp_err err;
    } modes[] = {{0666, 0700, PP_EINVAL}, {0620, 0700, PP_EINVAL}, {0644, 0777, PP_EINVAL},
                 {0644, 0770, PP_EINVAL}, {0644, 01777, PP_OK},    {0644, 0755, PP_OK}};
    for (size_t i = 0; i < COUNT(modes); i++) {
        assert_int_equal(chmod("photopool.yaml", modes[i].file), 0);
        assert_int_equal(chmod(".", modes[i].folder), 0);
        src.file = NULL;
        assert_int_equal(pp_config_load(&cfg, &src, &err), modes[i].err);
        if (modes[i].err != PP_OK)
            assert_non_null(strstr(err.text, "--config ./photopool.yaml"));
        pp_config_free(cfg);
        src.file = "./photopool.yaml"; /* the user names it */
        assert_int_equal(pp_config_load(&cfg, &src, &err), PP_OK);
        pp_config_free(cfg);
    }
    if (geteuid() == 0) {
        src.file = NULL;
        assert_int_equal(chown("photopool.yaml", 1, 1), 0);
        assert_int_equal(pp_config_load(&cfg, &src, &err), PP_EINVAL);
        assert_int_equal(chown("photopool.yaml", 0, 0), 0);
        assert_int_equal(chown(".", 1, 1), 0);
        assert_int_equal(pp_config_load(&cfg, &src, &err), PP_EINVAL);
        assert_int_equal(chown(".", 0, 0), 0);
    }
    write_file("other.yaml", "clients.rpm: 6\n");
    src.file = "other.yaml";
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_OK);
    assert_int_equal(cfg->clients.rpm, 6);
    pp_config_free(cfg);
    src.file = "";
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_OK);
    assert_int_equal(cfg->clients.rpm, 600);
    pp_config_free(cfg);

    FILE *f = fopen("other.yaml", "w");
    assert_non_null(f);
    for (int i = 0; i < (1 << 20) / 16 + 1; i++)
        fputs("# a long comment\n", f);
    fclose(f);
    src.file = "other.yaml";
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_EINVAL);
    assert_string_equal(err.text, "other.yaml: the file is over 1 MiB");

    unlink("other.yaml");
    unlink("photopool.yaml");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Where the server listens, and TLS: what goes together. */
static void tls_and_unix_sockets(void **state)
{
    (void)state;
    static const char long_name[] =
        "http.listen: unix:/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789"
        "/0123456789/0123456789/0123456789\n";
    static const struct {
        const char *yaml;
        int line; /* of the error; 0: there is none */
        const char *text;
    } cases[] = {
        {"http.listen: unix:/run/photopool.sock\n", 0, NULL},
        {"http.listen: unix:a:80\n", 0, NULL},
        {"http.listen: 'unix:'\n", 1, "http.listen: \"unix:\" has no path of 1 to 107 bytes"},
        {long_name, 1, "has no path of 1 to 107 bytes"},
        {"http:\n  tls: {cert: a, key: b}\n", 0, NULL},
        {"http:\n  tls: {key: a}\n", 2, "http.tls.key: is set, but http.tls.cert is not; allowed: both"},
        {"http:\n  tls.cert: a\n", 2, "http.tls.cert: is set, but http.tls.key is not; allowed: both"},
        {"http:\n  listen: unix:a\n  tls:\n    cert: a\n    key: a\n", 4, "allowed: one of them"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config *cfg;
        struct pp_config_error err;
        assert_int_equal(try(&cfg, cases[i].yaml, &err), cases[i].line > 0 ? PP_EINVAL : PP_OK);
        if (cases[i].line > 0) {
            assert_int_equal(err.line, cases[i].line);
            if (!strstr(err.text, cases[i].text))
                fail_msg("%s", err.text);
        }
        pp_config_free(cfg);
    }
    struct pp_config *cfg = load(cases[0].yaml);
    assert_string_equal(cfg->http.listen.unix_path, "/run/photopool.sock");
    assert_string_equal(cfg->http.listen.host, "");
    pp_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_found),
        cmocka_unit_test(a_reload_loses_neither_keys_nor_the_file),
        cmocka_unit_test(a_reload_of_half_a_file_keeps_the_keys),
        cmocka_unit_test(tls_and_unix_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
