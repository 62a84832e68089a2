/* Tests the configuration as text: printed and read back, changes, secrets, damaged files, the
 * reference page, example files. */
#include "base/text.h"
#include "config_load.h"

static void count_change(void *arg, const struct pp_config_change *change)
{
    (void)change;
    ++*(int *)arg;
}

static const char rich[] =
    "http: {listen: '[::1]:0', max_body: 2000, tls: {cert: 'a b', key: c}}\n"
    "clients: {rpm: null}\n"
    "worker: {tiers: [30s], id: 'null'}\n"
    "fetch: {allow_networks: ['::/0', 10.0.0.0/8], allow_ports: [1-3, 5], resolve: ['a:1:::1'],\n"
    "        user_agent: \"a \\\"b\\\" \\\\ # {c: [d], e} \\u00e9\", ca_file: '~'}\n"
    "retry.delays: [1500ms, 0]\n"
    "store.url: sqlite:/a b/#c, d\n";

/* Prints the configuration in each form. Reading the text must give the same values. */
static void prints_are_read_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"", rich};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct pp_config *cfg = must_load(texts[i], NULL, NULL);
        char *yaml = printed(cfg, PP_PRINT_YAML);
        struct pp_config *again = must_load(yaml, NULL, NULL);
        int changes = 0;
        pp_config_diff(cfg, again, count_change, &changes);
        assert_int_equal(changes, 0);
        free(yaml);
        pp_config_free(again);

        size_t n;
        const struct pp_param *p = pp_params(&n);
        for (size_t j = 0; j < n; j++) {
            char value[600], line[700];
            value_of(cfg, p[j].name, value, sizeof value);
            snprintf(line, sizeof line, "%s: %s\n", p[j].name, value);
            if (strcmp(p[j].name, "worker.tiers") && strncmp(p[j].name, "http.tls.", 9))
                pp_config_free(must_load(line, NULL, NULL));
        }
        pp_config_free(cfg);
    }
}

static void write_change(void *arg, const struct pp_config_change *change)
{
    char *out = arg;
    sprintf(out + strlen(out), "%s: %s -> %s\n", change->param->name, change->from, change->to);
}

/* A row shows what is in force: a parameter that is not reloadable keeps the value of the start. */
static void rows_are_in_force(void **state)
{
    (void)state;
    struct pp_config *started = must_load("worker.lease: 10s\n", NULL, NULL);
    struct pp_config *later = must_load("worker.lease: 20s\nclients.rpm: 5\n", NULL, NULL);
    size_t n, seen = 0;
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++) {
        char *row = pp_config_row(started, later, i), *lease = strstr(row, "\"worker.lease\"");
        assert_non_null(strstr(row, p[i].name));
        if (lease || strcmp(p[i].name, "clients.rpm") == 0) {
            assert_non_null(strstr(row, lease ? "\"value\": \"10s\"" : "\"value\": 5,"));
            seen++;
        }
        free(row);
    }
    assert_int_equal(seen, 2);
    assert_null(pp_config_row(started, later, n));
    pp_config_free(started);
    pp_config_free(later);
}

static void diff_names_what_changed(void **state)
{
    (void)state;
    struct pp_config *a = must_load("store.url: mongodb://u:one@h\n", NULL, NULL);
    struct pp_config *b = must_load("store.url: mongodb://u:two@h\nclients.rpm: 5\n", NULL, NULL);
    char changes[400] = "";
    pp_config_diff(a, b, write_change, changes);
    assert_string_equal(changes, "store.url: \"mongodb://u:***@h\" -> \"mongodb://u:***@h\"\n"
                                 "clients.rpm: 600 -> 5\n");
    pp_config_free(a);
    pp_config_free(b);
}

static void secrets_are_masked(void **state)
{
    (void)state;
    static const struct {
        const char *set, *shown;
    } cases[] = {
        {"store.url=mongodb://user:hunter2@h:1/db", "\"mongodb://user:***@h:1/db\""},
        {"store.url=mongodb://user:hun/t@er?2@h:1/db?w=majority", "\"mongodb://user:***@h:1/db?w=majority\""},
        {"store.url=mongodb://user@h", "\"mongodb://user@h\""},
        {"coordinator.url=redis://:hunter2@h", "\"redis://:***@h\""},
        {"coordinator.url=rediss://u:hunter2@h?ca=/a&cert=/c&key=/k",
         "\"rediss://u:***@h?ca=/a&cert=/c&key=***\""},
        {"coordinator.url=redis+sentinel://u:hunter2@a,b:1/m", "\"redis+sentinel://u:***@a,b:1/m\""},
        {"blobs.url=s3://b?region=x&secret_access_key=hunter2&access_Key_id=a",
         "\"s3://b?region=x&secret_access_key=***&access_Key_id=***\""},
        {"blobs.url=s3://b?a&&=&token=", "\"s3://b?a&&=&token=***\""},
        {"blobs.url=file:/a@b", "\"file:/a@b\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[64], buf[256];
        struct pp_config *cfg = must_load(NULL, NULL, cases[i].set);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(cases[i].set, "="), cases[i].set);
        assert_string_equal(value_of(cfg, name, buf, sizeof buf), cases[i].shown);
        char *yaml = printed(cfg, PP_PRINT_YAML);
        assert_null(strstr(yaml, "hunter2"));
        free(yaml);
        pp_config_free(cfg);
    }
    struct pp_config *cfg;
    struct pp_config_error err;
    assert_int_equal(load(&cfg, NULL, NULL, "store.url=mongo://u:hunter2@h", &err), PP_EINVAL);
    assert_null(strstr(err.text, "hunter2"));
}

/* photopool reads a damaged file, or refuses it with an error of one line. */
static void damaged_files(void **state)
{
    (void)state;
    struct pp_rng rng;
    pp_rng_seed(&rng, 11);
    int refused = 0;
    for (int i = 0; i < 3000; i++) {
        char text[sizeof rich];
        memcpy(text, rich, sizeof rich);
        for (uint64_t edits = 1 + pp_rng_below(&rng, 3); edits; edits--)
            text[pp_rng_below(&rng, sizeof rich - 1)] = (char)pp_rng_below(&rng, 256);
        struct pp_config *cfg;
        struct pp_config_error err;
        struct pp_config_sources src = {
            .file = "t\n.yaml", .text = text, .text_len = pp_rng_below(&rng, sizeof rich)};
        if (pp_config_load(&cfg, &src, &err) != PP_OK) {
            refused++;
            assert_null(cfg);
            assert_true(*err.text && strlen(err.text) < sizeof err.text);
            for (const char *c = err.text; *c; c++)
                assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
        }
        pp_config_free(cfg);
    }
    assert_in_range(refused, 300, 2999);
}

static char *read_file(const char *name)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = fopen(name, "r");
    if (!f)
        fail_msg("%s: run in the repository's root", name);
    if (getdelim(&text, &n, '\0', f) < 0)
        fail_msg("%s: empty", name);
    fclose(f);
    return text;
}

static void the_reference_is_current(void **state)
{
    (void)state;
    char *page = read_file("configs/README.md"), *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    pp_config_markdown(f);
    fclose(f);
    if (strcmp(page, text))
        fail_msg("configs/README.md is stale: photopool config --markdown > configs/README.md");
    free(text);
    f = open_memstream(&text, &n);
    pp_config_help(f);
    fclose(f);
    size_t count;
    const struct pp_param *p = pp_params(&count);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(strstr(page, p[i].name));
        assert_non_null(strstr(text, p[i].name));
    }
    free(text);
    free(page);
}

static void example_files_are_valid(void **state)
{
    (void)state;
    static const char *const names[] = {"configs/small.yaml", "configs/development.yaml",
                                        "configs/large.yaml"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct pp_config *cfg;
        struct pp_config_error err;
        struct pp_config_sources src = {.file = names[i]};
        if (pp_config_load(&cfg, &src, &err) != PP_OK || pp_config_check(cfg, &err) != PP_OK)
            fail_msg("%s", err.text);
        pp_config_free(cfg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_are_read_back),    cmocka_unit_test(diff_names_what_changed),
        cmocka_unit_test(rows_are_in_force),       cmocka_unit_test(secrets_are_masked),
        cmocka_unit_test(damaged_files),           cmocka_unit_test(the_reference_is_current),
        cmocka_unit_test(example_files_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
