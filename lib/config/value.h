/* value.h: how one value gets from its YAML node into its field; internal to lib/config.
 *
 *   field.c (lists, texts) -> types.c (a row per type) -> value_net.c, value_map.c
 *   -> value.c (scalars, texts, errors)
 *
 * A row of types.c describes the item of a list; field.c handles every list alike. */
#ifndef PP_CONFIG_VALUE_H
#define PP_CONFIG_VALUE_H

#include "config/config.h"
#include "config/params.h"

#include <yaml.h>

/* A value that is being read: its field, its source, and where errors are reported. */
struct pp_value {
    struct pp_config *cfg;
    const struct pp_param *param;
    const struct pp_type *type; /* type of the parameter; pp_value_set sets this */
    /* The YAML document with the items of lists and maps; NULL for a bare scalar. */
    yaml_document_t *doc;
    const char *file; /* name of the configuration file for messages; the caller owns the text */
    /* True if error messages shall show line numbers of the document. */
    bool lines;
    struct pp_config_error *err;
};

/* How to write values: as JSON if `json`, else in YAML flow style. If `secrets`, passwords are not
 * replaced by ***; only comparisons use this. */
struct pp_put {
    FILE *f;
    const struct pp_param *param; /* the parameter whose value is written; pp_value_put sets this */
    bool json;
    bool secrets;
};

/* Reads `node` into `field`. `s` is the node's text; NULL if the node is not a scalar. Returns
 * PP_EINVAL and fills err if the value is wrong, or returns PP_ENOMEM. */
typedef enum pp_err (*pp_value_set_fn)(const struct pp_value *v, yaml_node_t *node, const char *s,
                                       void *field);
typedef void (*pp_value_put_fn)(const struct pp_put *put, const void *field);

struct pp_type {
    const char *noun; /* the type's name in the reference and in error messages, such as "a size" */
    /* examples for messages, such as "64KiB or 32MiB"; NULL: the choices serve as examples */
    const char *example;
    size_t item_size; /* if the type is a list: size of one item in bytes; else 0 */
    size_t max_items;
    bool map;            /* true: the value, or an item of the list, is a map; false: a scalar */
    pp_value_set_fn set; /* reads a value, or one item of a list, into its field */
    pp_value_put_fn put;
    const struct pp_unit *units; /* the units that numbers of this type may have */
    /* true: the list is written as one map, whose pairs are its items. `set` gets the name of a
     * pair as the text, and its value as the node. */
    bool pairs;
};

const struct pp_type *pp_type(enum pp_param_type type);

/* Writes the allowed values of `p`, whose type is `t`, for example "a size from 1KiB to 1GiB, as
 * 64KiB or 32MiB". */
void pp_type_allowed(const struct pp_type *t, const struct pp_param *p, FILE *f);

/* The memory layout of all list fields. */
struct pp_list_field {
    void *item;
    size_t n;
};

/* Reads a node into the parameter's field, also if the field is a list. The field's previous value
 * stays in the arena. */
pp_must_check enum pp_err pp_value_set(struct pp_value *v, yaml_node_t *node);

/* Reads the text of a flag or variable: a single value literally, a list in YAML flow style with or
 * without brackets. */
pp_must_check enum pp_err pp_value_set_text(struct pp_value *v, const char *text);

/* Writes the field's value in a form that pp_value_set can read back (except for masked
 * passwords). */
void pp_value_put(const struct pp_put *put, const struct pp_config *cfg, const struct pp_param *p);

/* Writes a text, in quotes if YAML or JSON requires quotes. */
void pp_put_text(const struct pp_put *put, const char *text);

/* Writes a URL; its password and secret parameters are shown as ***. */
void pp_put_url(const struct pp_put *put, const char *url);

/* Returns the scalar of a node as a C string, or NULL with err filled if the node is not a scalar,
 * contains NUL or control characters, or is not UTF-8. */
const char *pp_value_scalar(const struct pp_value *v, yaml_node_t *node);

/* Returns true if the n bytes, the name of a value, contain a word such as "password": then the
 * value is not shown. */
bool pp_is_secret_name(const char *name, size_t n);

/* Returns true for a plain ~ or null, and for an empty value. */
bool pp_value_is_null(const yaml_node_t *node);

/* Writes "FILE:LINE: KEY: <what>; allowed: ..." to err. Returns PP_EINVAL. */
enum pp_err pp_value_fail(const struct pp_value *v, const yaml_node_t *node, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports that the value is not of its type, as in "\"abc\" is not a size". The text of a secret is
 * not shown. */
enum pp_err pp_value_not(const struct pp_value *v, const yaml_node_t *node);

/* Returns PP_EINVAL and fills err unless x is in the parameter's range. */
pp_must_check enum pp_err pp_value_in_range(const struct pp_value *v, const yaml_node_t *node, double x);

/* Fills err with a message. key and file may be "". Control characters in the message are replaced,
 * and the message is cut to fit. Returns PP_EINVAL. */
enum pp_err pp_config_fail(struct pp_config_error *err, const char *file, int line, const char *key,
                           const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Writes "no such parameter (did you mean ...?)" to err. Returns PP_EINVAL. */
enum pp_err pp_config_unknown(const char *file, int line, const char *name, struct pp_config_error *err);

/* Returns the record of where the parameter's value came from. */
static inline struct pp_config_origin *pp_config_origin(const struct pp_config *cfg, const struct pp_param *p)
{
    size_t n;
    return &cfg->origin[p - pp_params(&n)];
}

/* Applies a configuration file's text. `name` is the file's name for messages and origins, and must
 * live as long as cfg. Returns PP_EINVAL and fills err, or returns PP_ENOMEM. */
pp_must_check enum pp_err pp_config_apply_yaml(struct pp_config *cfg, const char *name, const char *text,
                                               size_t len, struct pp_config_error *err);

/* Checks the constraints between values. Returns PP_EINVAL and fills err if one is violated. */
pp_must_check enum pp_err pp_config_cross_check(const struct pp_config *cfg, struct pp_config_error *err);

/* Returns true if the n bytes are HOST or HOST:PORT with a port of at least 1. An IPv6 address must
 * be in brackets. */
bool pp_is_host_port(const char *s, size_t n);

/* These read and write the items of lists that have a format of their own (value_net.c,
 * value_map.c). */
enum pp_err pp_set_listen(const struct pp_value *v, yaml_node_t *node, const char *s, void *field);
enum pp_err pp_set_port_range(const struct pp_value *v, yaml_node_t *node, const char *s, void *field);
enum pp_err pp_set_network(const struct pp_value *v, yaml_node_t *node, const char *s, void *field);
enum pp_err pp_set_host(const struct pp_value *v, yaml_node_t *node, const char *s, void *field);
enum pp_err pp_set_resolve(const struct pp_value *v, yaml_node_t *node, const char *s, void *field);
enum pp_err pp_set_tier(const struct pp_value *v, yaml_node_t *node, const char *s, void *field);
enum pp_err pp_set_key(const struct pp_value *v, yaml_node_t *node, const char *s, void *field);
enum pp_err pp_set_property(const struct pp_value *v, yaml_node_t *node, const char *s, void *field);
void pp_put_listen(const struct pp_put *put, const void *field);
void pp_put_port_range(const struct pp_put *put, const void *field);
void pp_put_resolve(const struct pp_put *put, const void *field);
void pp_put_tier(const struct pp_put *put, const void *field);
void pp_put_key(const struct pp_put *put, const void *field);
void pp_put_property(const struct pp_put *put, const void *field);

#endif
