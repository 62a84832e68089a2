/* test_config_properties.c: kafka.properties, a map of names that photopool does not know: how it
 * is read, and which of its values are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"
#include "config/params.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static enum pp_err load(struct pp_config **out, const char *yaml, const char *set,
                        struct pp_config_error *err)
{
    const char *const sets[] = {set};
    const struct pp_config_sources src = {.file = "t.yaml",
                                          .text = yaml ? yaml : "",
                                          .text_len = yaml ? strlen(yaml) : 0,
                                          .sets = sets,
                                          .n_sets = set != NULL};
    return pp_config_load(out, &src, err);
}

static struct pp_config *must_load(const char *yaml, const char *set)
{
    struct pp_config *cfg;
    struct pp_config_error err;
    if (load(&cfg, yaml, set, &err) != PP_OK)
        fail_msg("%s%s: %s", yaml ? yaml : "", set ? set : "", err.text);
    return cfg;
}

/* Returns the row of kafka.properties as GET /v1/config shows it. The caller frees it. */
static char *row_of(const struct pp_config *cfg)
{
    size_t n;
    const struct pp_param *all = pp_params(&n), *p = pp_param_find("kafka.properties");
    assert_non_null(p);
    char *row = pp_config_row(cfg, cfg, (size_t)(p - all));
    assert_non_null(row);
    return row;
}

static void is_read(void **state)
{
    static const char *const yamls[] = {
        "kafka:\n  properties:\n    security.protocol: SASL_SSL\n    linger.ms: 5\n",
        "kafka.properties: {security.protocol: \"SASL_SSL\", linger.ms: '5'}\n", NULL, NULL};
    static const char *const sets[] = {NULL, NULL,
                                       "kafka.properties={security.protocol: SASL_SSL, linger.ms: 5}",
                                       "kafka.properties=security.protocol: SASL_SSL, linger.ms: 5"};
    (void)state;
    for (size_t i = 0; i < COUNT(sets); i++) {
        struct pp_config *cfg = must_load(yamls[i], sets[i]);
        const struct pp_config_properties *p = &cfg->kafka.properties;
        assert_int_equal(p->n, 2);
        assert_string_equal(p->item[0].name, "security.protocol");
        assert_string_equal(p->item[0].value, "SASL_SSL");
        assert_string_equal(p->item[1].name, "linger.ms");
        assert_string_equal(p->item[1].value, "5");
        pp_config_free(cfg);
    }
    struct pp_config *none = must_load(NULL, NULL);
    assert_int_equal(none->kafka.properties.n, 0);
    pp_config_free(none);
}

static void wrong_maps_are_refused(void **state)
{
    static const struct {
        const char *set, *says;
    } cases[] = {
        {"kafka.properties=[a, b]", "list"},
        {"kafka.properties=a: hunter2, a: c", "\"a\" is given twice"},
        {"kafka.properties=a: [hunter2]", "the value of \"a\" is not a text"},
        {"kafka.properties=a b: hunter2", "the name of a property"},
        {"kafka.properties='': hunter2", "the name of a property"},
        {"kafka.properties=a: \"hunter2\\0\"", "the value of \"a\" is not a text"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config *cfg;
        struct pp_config_error err;
        if (load(&cfg, NULL, cases[i].set, &err) != PP_EINVAL)
            fail_msg("accepted: %s", cases[i].set);
        assert_string_equal(err.key, "kafka.properties");
        if (!strstr(err.text, cases[i].says) || strstr(err.text, "hunter2"))
            fail_msg("%s: %s", cases[i].set, err.text);
    }
}

static void secrets_are_not_shown(void **state)
{
    static const char yaml[] = "kafka:\n"
                               "  properties:\n"
                               "    sasl.username: joe\n"
                               "    sasl.password: hunter2\n"
                               "    ssl.key.pem: |\n"
                               "      hunter2\n"
                               "      hunter2\n"
                               "    SASL.OAUTHBEARER.CLIENT.SECRET: hunter2\n"
                               "    sasl.jaas.config: hunter2\n"
                               "    oauth.token: hunter2\n"
                               "    enable.ssl.certificate.verification: true\n";
    static const char shown[] = "{\"sasl.username\": \"joe\", \"sasl.password\": \"***\", "
                                "\"ssl.key.pem\": \"***\", \"SASL.OAUTHBEARER.CLIENT.SECRET\": \"***\", "
                                "\"sasl.jaas.config\": \"***\", \"oauth.token\": \"***\", "
                                "\"enable.ssl.certificate.verification\": \"true\"}";
    char *text = NULL;
    size_t n;
    (void)state;
    struct pp_config *cfg = must_load(yaml, NULL);
    assert_string_equal(cfg->kafka.properties.item[2].value, "hunter2\nhunter2\n");
    char *row = row_of(cfg);
    if (!strstr(row, shown))
        fail_msg("%s", row);
    free(row);
    FILE *f = open_memstream(&text, &n);
    pp_config_print(f, cfg, PP_PRINT_YAML);
    fclose(f);
    assert_null(strstr(text, "hunter2"));
    assert_non_null(strstr(text, "properties: {sasl.username: \"joe\", sasl.password: \"***\""));
    free(text);
    pp_config_free(cfg);
}

/* The arguments of a process are public on its machine. */
static void a_flag_is_hidden(void **state)
{
    char set[] = "--set=kafka.properties=sasl.password: hunter2", name[] = "photopool";
    char *argv[] = {name, set, NULL};
    int argc = 2;
    struct pp_config_sources src;
    struct pp_config_error err;
    (void)state;
    assert_int_equal(pp_config_args_take(&src, &argc, argv, &err), PP_OK);
    assert_null(strstr(set, "hunter2"));
    assert_non_null(strstr(src.sets[0], "hunter2"));
    pp_config_args_fini(&src);
}

static void note_change(void *arg, const struct pp_config_change *change)
{
    snprintf(arg, 300, "%s: %s -> %s", change->param->name, change->from, change->to);
}

/* A changed secret is a change, and the log that names it shows neither value. */
static void a_changed_secret_is_found(void **state)
{
    struct pp_config *a = must_load(NULL, "kafka.properties=sasl.password: one");
    struct pp_config *b = must_load(NULL, "kafka.properties=sasl.password: two");
    char change[300] = "";
    (void)state;
    pp_config_diff(a, b, note_change, change);
    assert_string_equal(change,
                        "kafka.properties: {\"sasl.password\": \"***\"} -> {\"sasl.password\": \"***\"}");
    pp_config_free(a);
    pp_config_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_read), cmocka_unit_test(wrong_maps_are_refused),
                                       cmocka_unit_test(secrets_are_not_shown),
                                       cmocka_unit_test(a_flag_is_hidden),
                                       cmocka_unit_test(a_changed_secret_is_found)};
    return cmocka_run_group_tests_name("kafka.properties", tests, NULL, NULL);
}
