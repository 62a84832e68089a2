/* types.c: the table of parameter types, with the functions that read and write a single value.
 *
 * To add a type: add a name in params.h, a row here, and its C type in params.c. */
#include "config/value.h"

#include "base/units.h"

#include <stdlib.h>
#include <string.h>

static enum pp_err set_bool(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(s, words[i]))
            continue;
        *(bool *)field = i % 2;
        return PP_OK;
    }
    return pp_value_not(v, node);
}

static void put_bool(const struct pp_put *put, const void *field)
{
    bool on = *(const bool *)field;
    fputs(put->json ? (on ? "true" : "false") : (on ? "on" : "off"), put->f);
}

static enum pp_err keep_text(const struct pp_value *v, const char *s, void *field)
{
    const char *copy = pp_arena_strdup(&v->cfg->arena, s);
    if (!copy)
        return PP_ENOMEM;
    *(const char **)field = copy;
    return PP_OK;
}

static enum pp_err set_string(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    if (pp_value_is_null(node))
        s = "";
    enum pp_err e = pp_value_in_range(v, node, (double)strlen(s));
    return e == PP_OK ? keep_text(v, s, field) : e;
}

static void put_string(const struct pp_put *put, const void *field)
{
    const char *text = *(const char *const *)field;
    bool hidden = (put->param->flags & PP_PARAM_SECRET) && !put->secrets && *text;
    pp_put_text(put, hidden ? "***" : text);
}

/* Returns true if the value matches a choice: "sqlite:PATH" needs a text after "sqlite:", and
 * "local:" must have none. */
static bool url_matches(const char *s, const char *choice, size_t n)
{
    size_t fixed = 0;
    while (fixed < n && !(choice[fixed] >= 'A' && choice[fixed] <= 'Z'))
        fixed++;
    if (strncmp(s, choice, fixed))
        return false;
    return fixed < n ? s[fixed] != '\0' : s[fixed] == '\0';
}

static enum pp_err set_url(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    for (const char *c = v->param->choices; *c;) {
        size_t n = strcspn(c, "|");
        if (url_matches(s, c, n))
            return keep_text(v, s, field);
        c += n + (c[n] == '|');
    }
    return pp_value_not(v, node);
}

static void put_url(const struct pp_put *put, const void *field)
{
    pp_put_url(put, *(const char *const *)field);
}

/* Reads a count, size or duration, either alone or as an item of a list. */
static enum pp_err set_integer(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    int64_t n;
    if (pp_unit_parse(s, v->type->units, &n) != PP_OK)
        return pp_value_not(v, node);
    enum pp_err e = pp_value_in_range(v, node, (double)n);
    if (e == PP_OK)
        *(int64_t *)field = n;
    return e;
}

static enum pp_err set_integer_or_null(const struct pp_value *v, yaml_node_t *node, const char *s,
                                       void *field)
{
    if (!pp_value_is_null(node))
        return set_integer(v, node, s, field);
    *(int64_t *)field = PP_CONFIG_NONE;
    return PP_OK;
}

static enum pp_err set_integer_or_off(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    if (strcmp(s, "off") != 0)
        return set_integer(v, node, s, field);
    *(int64_t *)field = PP_CONFIG_NONE;
    return PP_OK;
}

static void put_integer(const struct pp_put *put, const void *field)
{
    int64_t n = *(const int64_t *)field;
    enum pp_param_type type = put->param->type;
    bool count = type == PP_TYPE_COUNT || type == PP_TYPE_COUNT_OR_NULL || type == PP_TYPE_COUNT_OR_OFF;
    char text[40];
    if (n == PP_CONFIG_NONE && type == PP_TYPE_COUNT_OR_NULL) {
        fputs("null", put->f);
    } else if (n == PP_CONFIG_NONE && (type == PP_TYPE_DURATION_OR_OFF || type == PP_TYPE_COUNT_OR_OFF)) {
        pp_put_text(put, "off");
    } else if (count && put->json) {
        fprintf(put->f, "%lld", (long long)n);
    } else {
        pp_unit_format(n, pp_type(type)->units, text, sizeof text);
        pp_put_text(put, text);
    }
}

static enum pp_err set_number(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    size_t digits = strspn(s, "0123456789"),
           decimals = s[digits] == '.' ? strspn(s + digits + 1, "0123456789") : 0;
    size_t end = digits + (decimals ? decimals + 1 : 0);
    if (!digits || s[end] || end > 20)
        return pp_value_not(v, node);
    double x = strtod(s, NULL);
    enum pp_err e = pp_value_in_range(v, node, x);
    if (e == PP_OK)
        *(double *)field = x;
    return e;
}

static void put_number(const struct pp_put *put, const void *field)
{
    fprintf(put->f, "%.15g", *(const double *)field);
}

static enum pp_err set_enum(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    int i = 0;
    for (const char *c = v->param->choices; *c; i++) {
        size_t n = strcspn(c, "|");
        if (strlen(s) == n && memcmp(s, c, n) == 0) {
            *(int *)field = i;
            return PP_OK;
        }
        c += n + (c[n] == '|');
    }
    return pp_value_not(v, node);
}

static void put_enum(const struct pp_put *put, const void *field)
{
    const char *c = put->param->choices;
    for (int i = *(const int *)field; i > 0; i--)
        c += strcspn(c, "|") + 1;
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(c, "|"), c);
    pp_put_text(put, word);
}

static const struct pp_type types[] = {
    [PP_TYPE_BOOL] = {"a switch", "on or off", .set = set_bool, .put = put_bool},
    [PP_TYPE_STRING] = {"a text", .set = set_string, .put = put_string},
    [PP_TYPE_URL] = {"a URL", .set = set_url, .put = put_url},
    [PP_TYPE_LISTEN] = {"an address and port", "127.0.0.1:8080, [::1]:8080, 0.0.0.0:8080 or unix:PATH",
                        .set = pp_set_listen, .put = pp_put_listen},
    [PP_TYPE_COUNT] = {"a count", "250, 10k or 5M", 0, 0, 0, set_integer, put_integer, pp_units_count},
    [PP_TYPE_COUNT_OR_NULL] = {"a count or null", "250, 10k or null", 0, 0, 0, set_integer_or_null,
                               put_integer, pp_units_count},
    [PP_TYPE_COUNT_OR_OFF] = {"a count or off", "250, 10k or off", 0, 0, 0, set_integer_or_off, put_integer,
                              pp_units_count},
    [PP_TYPE_SIZE] = {"a size", "64KiB or 32MiB", 0, 0, 0, set_integer, put_integer, pp_units_size},
    [PP_TYPE_DURATION] = {"a duration", "250ms, 5s, 2h or 30d", 0, 0, 0, set_integer, put_integer,
                          pp_units_duration},
    [PP_TYPE_DURATION_OR_OFF] = {"a duration or off", "250ms, 5s, 2h or off", 0, 0, 0, set_integer_or_off,
                                 put_integer, pp_units_duration},
    [PP_TYPE_NUMBER] = {"a number", "1.2", .set = set_number, .put = put_number},
    [PP_TYPE_ENUM] = {"one of the choices", .set = set_enum, .put = put_enum},
    [PP_TYPE_PORTS] = {"a list of ports", "[80, 443, \"1024-65535\"]", sizeof(struct pp_config_port_range),
                       1000, false, pp_set_port_range, pp_put_port_range, NULL},
    [PP_TYPE_NETWORKS] = {"a list of networks", "[10.0.0.0/8, \"fd00::/8\"]", sizeof(char *), 1000, false,
                          pp_set_network, put_string, NULL},
    [PP_TYPE_HOSTS] = {"a list of host names", "[photos.example]", sizeof(char *), 1000, false, pp_set_host,
                       put_string, NULL},
    [PP_TYPE_URLS] = {"a list of URLs", "[\"redis://10.0.0.5\", \"redis://10.0.0.6\"]", sizeof(char *), 16,
                      false, set_url, put_url, NULL},
    [PP_TYPE_RESOLVES] = {"a list of host:port:address", "[\"shop.example:80:127.0.0.1\"]",
                          sizeof(struct pp_config_resolve), 10000, false, pp_set_resolve, pp_put_resolve,
                          NULL},
    [PP_TYPE_DURATIONS] = {"a list of durations", "[1s, 10s, 60s]", sizeof(int64_t), 16, false, set_integer,
                           put_integer, pp_units_duration},
    [PP_TYPE_DURATIONS_OR_ALL] = {"all or a list of durations", "all or [1s, 5s]", sizeof(int64_t),
                                  PP_CONFIG_MAX_TIERS, false, set_integer, put_integer, pp_units_duration},
    [PP_TYPE_TIERS] = {"a list of tiers", "[{timeout: 1s, concurrency: 256}], at most 8, timeouts growing",
                       sizeof(struct pp_config_tier), PP_CONFIG_MAX_TIERS, true, pp_set_tier, pp_put_tier,
                       pp_units_duration},
    [PP_TYPE_KEYS] = {"a list of keys",
                      "[{name: shop, sha256: 64 hex digits, scopes: [submit, read, admin], client: \"42\"}]",
                      sizeof(struct pp_config_key), 1000, true, pp_set_key, pp_put_key, NULL},
    [PP_TYPE_PROPERTIES] = {"a map of properties",
                            "{security.protocol: SASL_SSL, sasl.username: shop, sasl.password: TEXT}",
                            sizeof(struct pp_config_property), 100, true, pp_set_property, pp_put_property,
                            NULL, .pairs = true},
};
_Static_assert(sizeof types / sizeof types[0] == PP_TYPE_N, "a row for each type");

const struct pp_type *pp_type(enum pp_param_type type)
{
    return &types[type];
}
