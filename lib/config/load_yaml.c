/* load_yaml.c: reads the configuration file with libyaml's document functions, because their nodes
 * know their lines.
 *
 * A parameter's name is either nested ("http", then "listen" below it) or whole ("http.listen").
 * Each name must be a parameter or the start of one, so the table bounds the depth, even if an
 * alias makes the document a ring. This file handles names only; types.c reads the values. */
#include "config/value.h"

#include <string.h>

#define NAME_MAX_BYTES 128

static int line_of(const yaml_node_t *node)
{
    return (int)node->start_mark.line + 1;
}

/* Returns true if the text has only characters that are usual in names. Other text may be a whole
 * assignment, such as "auth: {ticket_secret: X}". */
static bool is_name(const char *s)
{
    return !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")];
}

enum pp_err pp_config_unknown(const char *file, int line, const char *name, struct pp_config_error *err)
{
    const struct pp_param *near = pp_param_near(name);
    if (!is_name(name))
        return pp_config_fail(err, file, line, "",
                              "no such parameter, and not shown, because it may hold a secret; "
                              "allowed: see photopool config --help");
    if (pp_param_is_section(name))
        return pp_config_fail(err, file, line, name,
                              "is a section, not a parameter; allowed: its keys, as %s.KEY", name);
    if (near)
        return pp_config_fail(err, file, line, name, "no such parameter (did you mean %s?)", near->name);
    return pp_config_fail(err, file, line, name, "no such parameter; allowed: see photopool config --help");
}

static enum pp_err set_param(struct pp_value *v, const struct pp_param *p, yaml_node_t *key,
                             yaml_node_t *node)
{
    struct pp_config_origin *origin = pp_config_origin(v->cfg, p);
    if (origin->source == PP_SOURCE_FILE)
        return pp_config_fail(v->err, v->file, line_of(key), p->name, "is given twice, first in line %d",
                              origin->line);
    *origin = (struct pp_config_origin){PP_SOURCE_FILE, v->file, line_of(key)};
    v->param = p;
    return pp_value_set(v, node);
}

static enum pp_err walk_map(struct pp_value *v, const char *prefix, yaml_node_t *map);

static enum pp_err walk_pair(struct pp_value *v, const char *prefix, yaml_node_t *key, yaml_node_t *node)
{
    char name[NAME_MAX_BYTES];
    const char *text = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : NULL;
    if (!text || strlen(text) != key->data.scalar.length)
        return pp_config_fail(v->err, v->file, line_of(key), prefix, "a key has to be a plain name");
    int n = snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", text);
    const struct pp_param *p = n < (int)sizeof name ? pp_param_find(name) : NULL;
    if (p)
        return set_param(v, p, key, node);
    if (n < (int)sizeof name && *text && pp_param_is_section(name)) {
        if (pp_value_is_null(node))
            return PP_OK; /* the section has no parameters: all of them are commented out */
        if (node->type == YAML_MAPPING_NODE)
            return walk_map(v, name, node);
    }
    return pp_config_unknown(v->file, line_of(key), name, v->err);
}

/* Sets the parameters of a YAML map. The caller has set cfg, doc, file and err of v; this function
 * sets v->param for each parameter. */
static enum pp_err walk_map(struct pp_value *v, const char *prefix, yaml_node_t *map)
{
    enum pp_err e = PP_OK;
    yaml_node_pair_t *p = map->data.mapping.pairs.start;
    for (; p < map->data.mapping.pairs.top && e == PP_OK; p++)
        e = walk_pair(v, prefix, yaml_document_get_node(v->doc, p->key),
                      yaml_document_get_node(v->doc, p->value));
    return e;
}

/* Returns the line of a parse error. For bytes that are not text, libyaml gives only an offset, so
 * this function counts the lines before it. */
static int problem_line(const yaml_parser_t *parser, const char *text, size_t len)
{
    if (parser->error != YAML_READER_ERROR)
        return (int)parser->problem_mark.line + 1;
    int line = 1;
    for (size_t i = 0; i < len && i < parser->problem_offset; i++)
        line += text[i] == '\n';
    return line;
}

/* Returns the usual cause for two messages of libyaml that are hard to understand; "" for
 * others. */
static const char *yaml_hint(const char *problem)
{
    if (strstr(problem, "cannot start any token"))
        return " (a tab? indent with spaces, and quote what starts with @ or `)";
    if (strstr(problem, "mapping values are not allowed"))
        return " (quote a value that ends in ':', as \"local:\", or has \": \" in it)";
    return "";
}

static enum pp_err fail_yaml(const yaml_parser_t *parser, const char *name, const char *text, size_t len,
                             struct pp_config_error *err)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return PP_ENOMEM;
    const char *problem = parser->problem ? parser->problem : "the reason is unknown";
    return pp_config_fail(err, name, problem_line(parser, text, len), "", "not YAML: %s%s", problem,
                          yaml_hint(problem));
}

static enum pp_err apply_document(struct pp_config *cfg, const char *name, yaml_document_t *doc,
                                  struct pp_config_error *err)
{
    struct pp_value v = {.cfg = cfg, .doc = doc, .file = name, .lines = true, .err = err};
    yaml_node_t *root = yaml_document_get_root_node(doc);
    if (!root || pp_value_is_null(root))
        return PP_OK; /* the file is empty, which is allowed */
    if (root->type == YAML_MAPPING_NODE)
        return walk_map(&v, "", root);
    return pp_config_fail(err, name, line_of(root), "",
                          "not a map; allowed: keys and values, as http: {listen: ...}");
}

/* Loads the first YAML document of the text, and checks that there is no second one. */
static enum pp_err parse(yaml_parser_t *parser, struct pp_config *cfg, const char *name, const char *text,
                         size_t len, struct pp_config_error *err)
{
    yaml_document_t doc;
    if (!yaml_parser_load(parser, &doc))
        return fail_yaml(parser, name, text, len, err);
    bool empty = !yaml_document_get_root_node(&doc);
    enum pp_err e = apply_document(cfg, name, &doc, err);
    yaml_document_delete(&doc);
    if (e != PP_OK || empty)
        return e;

    if (!yaml_parser_load(parser, &doc))
        return fail_yaml(parser, name, text, len, err);
    yaml_node_t *second = yaml_document_get_root_node(&doc);
    if (second)
        e = pp_config_fail(err, name, line_of(second), "", "a second document; allowed: one");
    yaml_document_delete(&doc);
    return e;
}

enum pp_err pp_config_apply_yaml(struct pp_config *cfg, const char *name, const char *text, size_t len,
                                 struct pp_config_error *err)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return PP_ENOMEM;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    enum pp_err e = parse(&parser, cfg, name, text, len, err);
    yaml_parser_delete(&parser);
    return e;
}
