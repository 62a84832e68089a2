/* field.c: reads a parameter's value, or a list of values, into its field, and writes it as text.
 * The parameter's type says how one value is read and written (types.c). */
#include "config/value.h"

#include <string.h>

/* a value in a flag or an environment variable has at most this many bytes */
#define TEXT_MAX_BYTES 65536

/* Reads one value: a value that is not a list, or one item of a list. */
static enum pp_err set_one(const struct pp_value *v, yaml_node_t *node, void *field)
{
    const char *s = v->type->map ? NULL : pp_value_scalar(v, node);
    return s || v->type->map ? v->type->set(v, node, s, field) : PP_EINVAL;
}

/* Reads item i of a list, or pair i of a map, into its place. */
static enum pp_err set_item(const struct pp_value *v, yaml_node_t *node, size_t i, void *field)
{
    if (!v->type->pairs)
        return set_one(v, yaml_document_get_node(v->doc, node->data.sequence.items.start[i]), field);
    const yaml_node_pair_t *pair = &node->data.mapping.pairs.start[i];
    const char *name = pp_value_scalar(v, yaml_document_get_node(v->doc, pair->key));
    return name ? v->type->set(v, yaml_document_get_node(v->doc, pair->value), name, field) : PP_EINVAL;
}

static size_t count_items(const yaml_node_t *node)
{
    if (node->type == YAML_MAPPING_NODE)
        return (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
    return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

static enum pp_err set_list(const struct pp_value *v, yaml_node_t *node, struct pp_list_field *list)
{
    const struct pp_type *t = v->type;

    if (v->param->type == PP_TYPE_DURATIONS_OR_ALL && node->type == YAML_SCALAR_NODE &&
        strcmp((const char *)node->data.scalar.value, "all") == 0) {
        *list = (struct pp_list_field){0};
        return PP_OK;
    }
    if (node->type != (t->pairs ? YAML_MAPPING_NODE : YAML_SEQUENCE_NODE))
        return pp_value_not(v, node);
    size_t n = count_items(node);
    if (n > t->max_items)
        return pp_value_fail(v, node, "%zu entries, and %zu are the limit", n, t->max_items);
    char *items = pp_arena_array(&v->cfg->arena, n, t->item_size);
    if (!items)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        /* the list grows with its items, so that an item finds those before it */
        *list = (struct pp_list_field){items, i};
        enum pp_err e = set_item(v, node, i, items + i * t->item_size);
        if (e != PP_OK)
            return e;
    }
    *list = (struct pp_list_field){items, n};
    return PP_OK;
}

enum pp_err pp_value_set(struct pp_value *v, yaml_node_t *node)
{
    void *field = (char *)v->cfg + v->param->offset;

    v->type = pp_type(v->param->type);
    return v->type->item_size ? set_list(v, node, field) : set_one(v, node, field);
}

/* Reads a list given as text: "[80, 443]", or "80,443", which needs no quotes in a shell. A map is
 * "{a: b, c: d}", or without the braces. */
static enum pp_err set_list_text(struct pp_value *v, const char *text, size_t n)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    const char *brackets = v->type->pairs ? "{}" : "[]";
    bool bare = text[strspn(text, " ")] != brackets[0] && strcmp(text, "all") != 0;
    char *flow = bare ? pp_arena_printf(&v->cfg->arena, "%c%s%c", brackets[0], text, brackets[1])
                      : pp_arena_printf(&v->cfg->arena, "%s", text);
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
    size_t n = strnlen(text, TEXT_MAX_BYTES + 1);

    v->type = pp_type(v->param->type);
    if (n > TEXT_MAX_BYTES)
        return pp_value_fail(v, NULL, "over %d bytes", TEXT_MAX_BYTES);
    if (v->type->item_size)
        return set_list_text(v, text, n);
    char *copy = pp_arena_copy(&v->cfg->arena, text, n);
    if (!copy)
        return PP_ENOMEM;
    yaml_node_t node = {.type = YAML_SCALAR_NODE,
                        .data.scalar = {(yaml_char_t *)copy, n, YAML_PLAIN_SCALAR_STYLE}};
    return pp_value_set(v, &node);
}

void pp_value_put(const struct pp_put *put, const struct pp_config *cfg, const struct pp_param *p)
{
    const struct pp_type *t = pp_type(p->type);
    const struct pp_put one = {put->f, p, put->json, put->secrets};
    const void *field = (const char *)cfg + p->offset;
    if (!t->item_size) {
        t->put(&one, field);
        return;
    }
    const struct pp_list_field *list = field;
    if (!list->n && p->type == PP_TYPE_DURATIONS_OR_ALL) {
        pp_put_text(put, "all");
        return;
    }
    fputc(t->pairs ? '{' : '[', put->f);
    for (size_t i = 0; i < list->n; i++) {
        fputs(i ? ", " : "", put->f);
        t->put(&one, (const char *)list->item + i * t->item_size);
    }
    fputc(t->pairs ? '}' : ']', put->f);
}
