/* Tests the parameters that say which callers the server takes, and how secrets are kept out of
 * sight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"

/* Loads a configuration with one option. Returns NULL if the option is refused. */
static struct pp_config *load(const char *set, struct pp_config_error *err)
{
    const struct pp_config_sources src = {.file = "", .sets = &set, .n_sets = 1};
    struct pp_config *cfg;

    return pp_config_load(&cfg, &src, err) == PP_OK ? cfg : NULL;
}

static void names_of_the_server(void **state)
{
    static const char *const bad[] = {"http.hosts=[a:80]",  "http.hosts=['[::1]:80']", "http.hosts=['']",
                                      "http.hosts=['a b']", "http.hosts=[http://a]",   "http.hosts=['[::1']"};
    struct pp_config_error err;
    struct pp_config *cfg = load("http.hosts=[Photos.example, '[FD00::1]', a_b]", &err);

    (void)state;
    assert_non_null(cfg);
    assert_int_equal(cfg->http.hosts.n, 3);
    assert_string_equal(cfg->http.hosts.item[0], "photos.example");
    assert_string_equal(cfg->http.hosts.item[1], "[fd00::1]");
    pp_config_free(cfg);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (load(bad[i], &err))
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(err.text, "http.hosts"));
    }
}

static void limits_of_callers(void **state)
{
    struct pp_config_error err;
    struct pp_config *cfg = load("callers.requests_per_second=null", &err);

    (void)state;
    assert_non_null(cfg);
    assert_int_equal(cfg->callers.requests_per_second, PP_CONFIG_NONE);
    assert_int_equal(cfg->callers.failures_per_second, 10);
    pp_config_free(cfg);
    cfg = load("callers.failures_per_second=3", &err);
    assert_int_equal(cfg->callers.requests_per_second, 2000);
    assert_int_equal(cfg->callers.failures_per_second, 3);
    pp_config_free(cfg);
    assert_null(load("callers.requests_per_second=0", &err));
    assert_null(load("callers.max_bytes=1KiB", &err));
}

/* Returns the configuration as a text, which the caller frees. */
static char *printed(const struct pp_config *cfg, enum pp_config_format format)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    pp_config_print(f, cfg, format);
    fclose(f);
    return text;
}

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void secrets_are_not_printed(void **state)
{
    static const char *const sets[] = {"auth.keys=[{name: shop, sha256: '" HASH "', scopes: [read]}]",
                                       "auth.ticket_secret=0123456789abcdef0123456789ABCDEF"};
    const struct pp_config_sources src = {.file = "", .sets = sets, .n_sets = 2};
    struct pp_config_error err;
    struct pp_config *cfg;

    (void)state;
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_OK);
    assert_string_equal(cfg->auth.ticket_secret, "0123456789abcdef0123456789ABCDEF");
    for (int i = 0; i < 2; i++) {
        char *text = printed(cfg, i == 0 ? PP_PRINT_YAML : PP_PRINT_JSON);
        assert_null(strstr(text, "00112233"));
        assert_null(strstr(text, "0123456789abcdef"));
        assert_non_null(strstr(text, "shop"));
        free(text);
    }
    pp_config_free(cfg);
    assert_null(load("auth.ticket_secret=hunter2", &err));
    assert_null(strstr(err.text, "hunter2"));
}

/* Other users can read the arguments of a process, so a password does not stay there. */
static void secrets_do_not_stay_in_the_arguments(void **state)
{
    char program[] = "photopool", flag[] = "--set", amqp[] = "amqp.url=amqp://u:hunter2@h",
         redis[] = "--set=coordinator.url=redis://:hunter2@h", rpm[] = "clients.rpm=7",
         keys[] = "auth.keys={name: a, sha256: '" HASH "', scopes: [read]}";
    char *argv[] = {program, flag, amqp, redis, flag, rpm, flag, keys, NULL};
    int argc = 8;
    struct pp_config_sources src;
    struct pp_config_error err;
    struct pp_config *cfg;

    (void)state;
    assert_int_equal(pp_config_args_take(&src, &argc, argv, &err), PP_OK);
    assert_string_equal(amqp, "amqp.url=******************");
    assert_null(strstr(redis, "hunter2"));
    assert_null(strstr(keys, "00112233"));
    assert_string_equal(rpm, "clients.rpm=7");
    src.file = "";
    src.env = NULL;
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_OK);
    assert_string_equal(cfg->amqp.url, "amqp://u:hunter2@h");
    assert_string_equal(cfg->coordinator.url, "redis://:hunter2@h");
    assert_int_equal(cfg->auth.keys.n, 1);
    pp_config_free(cfg);
    pp_config_args_fini(&src);
}

static void an_option_without_a_parameter_does_not_stay_in_the_arguments(void **state)
{
    char program[] = "photopool", flag[] = "--set", set[] = "auth: {ticket_secret: hunter2}";
    char *argv[] = {program, flag, set, NULL};
    int argc = 3;
    struct pp_config_sources src;
    struct pp_config_error err;

    (void)state;
    assert_int_equal(pp_config_args_take(&src, &argc, argv, &err), PP_OK);
    assert_null(strstr(set, "hunter2"));
    assert_string_equal(src.sets[0], "auth: {ticket_secret: hunter2}");
    pp_config_args_fini(&src);
}

/* Messages are copied into tickets and logs. An option that can't be read may be a secret as a
 * whole. */
static void secrets_are_not_in_messages(void **state)
{
    static const char *const sets[] = {
        "auth: {ticket_secret: hunter2}",
        "auth: {ticket_secret: hunter2=}",
        "auth.ticket_secret:hunter2",
        "auth.ticket_secret hunter2",
        "hunter2",
        "auth.keys=hunter2",
        "auth.keys={name: a, hunter2}",
        "auth.keys={name: 'hunter2!', sha256: '" HASH "', scopes: [read]}",
        "auth.keys={name: a, sha256: '" HASH "', scopes: [hunter2]}",
        "auth.keys={name: a, sha256: '" HASH "', scopes: [read], client: 'hunter2!'}",
        "auth.keys={name: a, sha256: hunter2, scopes: [read]}",
        "auth.keys={name: a, sha256: 'hunter2",
        "store.url=hunter2",
    };
    struct pp_config_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        assert_null(load(sets[i], &err));
        if (strstr(err.text, "hunter2") || strstr(err.key, "hunter2"))
            fail_msg("%s", err.text);
        assert_non_null(strstr(err.text, "allowed: "));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_the_server),
        cmocka_unit_test(limits_of_callers),
        cmocka_unit_test(secrets_are_not_printed),
        cmocka_unit_test(secrets_do_not_stay_in_the_arguments),
        cmocka_unit_test(an_option_without_a_parameter_does_not_stay_in_the_arguments),
        cmocka_unit_test(secrets_are_not_in_messages),
    };

    return cmocka_run_group_tests_name("config_callers", tests, NULL, NULL);
}
