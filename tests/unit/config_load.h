/* config_load.h: loads configurations from texts, for tests. */
#ifndef PP_TEST_CONFIG_LOAD_H
#define PP_TEST_CONFIG_LOAD_H

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

#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define PRINT_MAX 65536

static inline enum pp_err load(struct pp_config **cfg, const char *yaml, const char *env, const char *set,
                               struct pp_config_error *err)
{
    const char *envs[] = {env, NULL};
    struct pp_config_sources src = {.file = yaml ? "t.yaml" : "",
                                    .text = yaml,
                                    .text_len = yaml ? strlen(yaml) : 0,
                                    .env = envs,
                                    .sets = &set,
                                    .n_sets = set != NULL};
    return pp_config_load(cfg, &src, err);
}

static inline struct pp_config *must_load(const char *yaml, const char *env, const char *set)
{
    struct pp_config *cfg;
    struct pp_config_error err;
    if (load(&cfg, yaml, env, set, &err) != PP_OK)
        fail_msg("%s", err.text);
    return cfg;
}

static inline char *printed(const struct pp_config *cfg, enum pp_config_format format)
{
    char *text = calloc(1, PRINT_MAX);
    FILE *f = fmemopen(text, PRINT_MAX, "w");
    assert_non_null(f);
    pp_config_print(f, cfg, format);
    assert_true(ftell(f) < PRINT_MAX - 1);
    fclose(f);
    return text;
}

static inline const struct pp_config_origin *origin(const struct pp_config *cfg, const char *name)
{
    size_t n;
    const struct pp_param *p = pp_param_find(name);
    assert_non_null(p);
    return &cfg->origin[p - pp_params(&n)];
}

/* Writes the value of a parameter as JSON to buf, and returns buf. */
static inline const char *value_of(const struct pp_config *cfg, const char *name, char *buf, size_t n)
{
    char head[128], *text = printed(cfg, PP_PRINT_JSON);
    snprintf(head, sizeof head, "{\"name\": \"%s\", \"value\": ", name);
    const char *start = strstr(text, head);
    assert_non_null(start);
    start += strlen(head);
    const char *end = strstr(start, ", \"source\"");
    assert_non_null(end);
    snprintf(buf, n, "%.*s", (int)(end - start), start);
    free(text);
    return buf;
}

#endif
