/* value.c: reading a value into its field: scalars, lists, ranges, and what to say when it does not fit. */
#include "config/value.h"

#include "base/text.h"
#include "config/units.h"

#include <stdarg.h>
#include <string.h>

#define PP_VALUE_MAX 65536 /* bytes of a value in a flag or a variable */

enum pp_err pp_value_fail(const struct pp_value *v, const yaml_node_t *node, const char *what, ...)
{
    char reason[300], allowed[256] = "";
    va_list ap;
    va_start(ap, what);
    vsnprintf(reason, sizeof reason, what, ap);
    va_end(ap);
    FILE *f = fmemopen(allowed, sizeof allowed, "w");
    if (f) {
        pp_param_allowed(v->param, f);
        fclose(f);
        allowed[sizeof allowed - 1] = '\0';
    }
    int line = v->lines && node ? (int)node->start_mark.line + 1 : 0;
    pp_config_fail(v->err, v->file, line, v->param->name, "%s; allowed: %s", reason, allowed);
    return PP_EINVAL;
}

enum pp_err pp_value_not(const struct pp_value *v, const yaml_node_t *node)
{
    const char *noun = pp_type(v->param->type)->noun;
    if (node->type != YAML_SCALAR_NODE)
        return pp_value_fail(v, node, "a %s is not %s", node->type == YAML_MAPPING_NODE ? "map" : "list",
                             noun);
    if (v->param->flags & PP_PARAM_SECRET)
        return pp_value_fail(v, node, "this is not %s", noun);
    if (pp_value_is_null(node))
        return pp_value_fail(v, node, "there is no value");
    return pp_value_fail(v, node, "\"%.100s\" is not %s", (const char *)node->data.scalar.value, noun);
}

bool pp_value_is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    const char *s = (const char *)node->data.scalar.value;
    return !*s || strcmp(s, "~") == 0 || strcmp(s, "null") == 0 || strcmp(s, "Null") == 0 ||
           strcmp(s, "NULL") == 0;
}

const char *pp_value_scalar(const struct pp_value *v, yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE) {
        (void)pp_value_fail(v, node, "a %s where a single value belongs",
                            node->type == YAML_MAPPING_NODE ? "map" : "list");
        return NULL;
    }
    const char *s = (const char *)node->data.scalar.value;
    size_t n = node->data.scalar.length;
    bool good = pp_utf8_valid(s, n);
    for (size_t i = 0; good && i < n; i++)
        good = (unsigned char)s[i] >= ' ' && s[i] != 0x7f;
    if (good)
        return s;
    (void)pp_value_fail(v, node, "control characters and bytes that are not UTF-8 have no place here");
    return NULL;
}

enum pp_err pp_value_in_range(const struct pp_value *v, const yaml_node_t *node, double x)
{
    const struct pp_param *p = v->param;
    if ((p->min == 0 && p->max == 0) || (x >= p->min && x <= p->max))
        return PP_OK;
    if (p->type == PP_TYPE_STRING)
        return pp_value_fail(v, node, "%.0f bytes are out of range", x);
    return pp_value_fail(v, node, "%.60s is out of range", (const char *)node->data.scalar.value);
}

enum pp_err pp_value_unit(const struct pp_value *v, yaml_node_t *node, const struct pp_unit *units,
                          int64_t *out)
{
    const char *s = pp_value_scalar(v, node);
    if (!s)
        return PP_EINVAL;
    return pp_unit_parse(s, units, out) == PP_OK ? PP_OK : pp_value_not(v, node);
}

static enum pp_err set_list(const struct pp_value *v, yaml_node_t *node, const struct pp_type *t,
                            struct pp_list_field *list)
{
    if (v->param->type == PP_TYPE_DURATIONS_OR_ALL && node->type == YAML_SCALAR_NODE &&
        strcmp((const char *)node->data.scalar.value, "all") == 0) {
        *list = (struct pp_list_field){0};
        return PP_OK;
    }
    if (node->type != YAML_SEQUENCE_NODE)
        return pp_value_not(v, node);
    size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (n > t->max_items)
        return pp_value_fail(v, node, "%zu entries, and %zu are the limit", n, t->max_items);
    char *items = pp_arena_array(&v->cfg->arena, n, t->item_size);
    if (!items)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        yaml_node_t *item = yaml_document_get_node(v->doc, node->data.sequence.items.start[i]);
        enum pp_err e = t->set(v, item, items + i * t->item_size);
        if (e != PP_OK)
            return e;
    }
    *list = (struct pp_list_field){items, n};
    return PP_OK;
}

enum pp_err pp_value_set(const struct pp_value *v, yaml_node_t *node)
{
    const struct pp_type *t = pp_type(v->param->type);
    void *field = (char *)v->cfg + v->param->offset;
    return t->item_size ? set_list(v, node, t, field) : t->set(v, node, field);
}

/* A list given as text: "[80, 443]", or "80,443" to save a shell the quoting. */
static enum pp_err set_list_text(struct pp_value *v, const char *text, size_t n)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    bool bare = text[strspn(text, " ")] != '[' && strcmp(text, "all") != 0;
    char *flow = pp_arena_printf(&v->cfg->arena, bare ? "[%s]" : "%s", text);
    if (!flow || !yaml_parser_initialize(&parser))
        return PP_ENOMEM;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)flow, n + (bare ? 2 : 0));
    enum pp_err e;
    if (!yaml_parser_load(&parser, &doc)) {
        e = parser.error == YAML_MEMORY_ERROR ? PP_ENOMEM
                                              : pp_value_fail(v, NULL, "not YAML: %s", parser.problem);
    } else {
        v->doc = &doc;
        yaml_node_t *root = yaml_document_get_root_node(&doc);
        e = root ? pp_value_set(v, root) : pp_value_fail(v, NULL, "there is no value");
        v->doc = NULL;
        yaml_document_delete(&doc);
    }
    yaml_parser_delete(&parser);
    return e;
}

enum pp_err pp_value_set_text(struct pp_value *v, const char *text)
{
    size_t n = strnlen(text, PP_VALUE_MAX + 1);
    if (n > PP_VALUE_MAX)
        return pp_value_fail(v, NULL, "over %d bytes", PP_VALUE_MAX);
    if (pp_type(v->param->type)->item_size)
        return set_list_text(v, text, n);
    char *copy = pp_arena_copy(&v->cfg->arena, text, n);
    if (!copy)
        return PP_ENOMEM;
    yaml_node_t node = {.type = YAML_SCALAR_NODE,
                        .data.scalar = {(yaml_char_t *)copy, n, YAML_PLAIN_SCALAR_STYLE}};
    return pp_value_set(v, &node);
}
