/* value.h: one value between its YAML node and its field. Internal to lib/config.
 *
 * types.c has a row per enum pp_param_type. A list type is described by its item; the list itself is handled
 * in value.c, once. */
#ifndef PP_CONFIG_VALUE_H
#define PP_CONFIG_VALUE_H

#include "config/config.h"
#include "config/params.h"

#include <yaml.h>

/* A value on its way in: where it goes, where it came from, and where to complain. */
struct pp_value {
    struct pp_config *cfg;
    const struct pp_param *param;
    yaml_document_t *doc; /* resolves the items of lists and maps; NULL for a bare scalar */
    const char *file;     /* name for messages; not owned */
    bool lines;           /* the document's line numbers mean something to the operator */
    struct pp_config_error *err;
};

/* How to write: YAML in flow style, or JSON. secrets: passwords as they are, for comparing only. */
struct pp_put {
    FILE *f;
    bool json;
    bool secrets;
};

/* Reads `node` into `field`. PP_EINVAL (err filled), PP_ENOMEM. */
typedef enum pp_err (*pp_value_set_fn)(const struct pp_value *v, yaml_node_t *node, void *field);
typedef void (*pp_value_put_fn)(const struct pp_put *put, const struct pp_param *p, const void *field);

struct pp_type {
    const char *name;    /* for the reference: "size" */
    const char *noun;    /* for errors: "a size" */
    const char *example; /* "64KiB or 32MiB"; NULL = the choices say it */
    size_t item_size;    /* of a list's item; 0 = no list */
    size_t max_items;
    pp_value_set_fn set; /* of the field, or of an item of the list */
    pp_value_put_fn put;
    const struct pp_unit *units; /* of numbers, and of the range */
};

const struct pp_type *pp_type(enum pp_param_type type);

/* The list types share one layout. */
struct pp_list_field {
    void *item;
    size_t n;
};

/* A node into the parameter's field, with the list around it; what a field had before stays in the arena. */
pp_must_check enum pp_err pp_value_set(const struct pp_value *v, yaml_node_t *node);

/* The same from the text of a flag or variable: literal for single values, YAML in flow style for lists,
 * brackets optional. */
pp_must_check enum pp_err pp_value_set_text(struct pp_value *v, const char *text);

/* The field's value, in a form that pp_value_set reads back (but for masked passwords). */
void pp_value_put(const struct pp_put *put, const struct pp_config *cfg, const struct pp_param *p);

/* A text, quoted where it has to be. */
void pp_put_text(const struct pp_put *put, const char *text);

/* A URL with its password and secret parameters shown as ***. */
void pp_put_url(const struct pp_put *put, const char *url);

/* The scalar of a node as a C string, or NULL with err filled: not a scalar, NUL inside, not UTF-8 or with
 * control characters. */
const char *pp_value_scalar(const struct pp_value *v, yaml_node_t *node);

/* True for a plain ~, null or nothing. */
bool pp_value_is_null(const yaml_node_t *node);

/* "FILE:LINE: KEY: <what>; allowed: ..." into err. Answers PP_EINVAL. */
enum pp_err pp_value_fail(const struct pp_value *v, const yaml_node_t *node, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

/* "<text> is not <noun>" by pp_value_fail; the text of a secret is not shown. */
enum pp_err pp_value_not(const struct pp_value *v, const yaml_node_t *node);

/* Fails unless the parameter's range has x. */
pp_must_check enum pp_err pp_value_in_range(const struct pp_value *v, const yaml_node_t *node, double x);

/* A scalar with one of the units into *out. */
pp_must_check enum pp_err pp_value_unit(const struct pp_value *v, yaml_node_t *node,
                                        const struct pp_unit *units, int64_t *out);

/* error.c. Fills err; key and file may be ""; what is cleaned of control characters and cut to fit. */
void pp_config_fail(struct pp_config_error *err, const char *file, int line, const char *key, const char *fmt,
                    ...) __attribute__((format(printf, 5, 6)));

/* HOST or HOST:PORT of n bytes, with a port from 1; an IPv6 address is in brackets. */
bool pp_is_host_port(const char *s, size_t n);

/* value_net.c, value_map.c: readers and writers of compound items. */
enum pp_err pp_set_listen(const struct pp_value *v, yaml_node_t *node, void *field);
enum pp_err pp_set_port_range(const struct pp_value *v, yaml_node_t *node, void *field);
enum pp_err pp_set_network(const struct pp_value *v, yaml_node_t *node, void *field);
enum pp_err pp_set_resolve(const struct pp_value *v, yaml_node_t *node, void *field);
enum pp_err pp_set_tier(const struct pp_value *v, yaml_node_t *node, void *field);
enum pp_err pp_set_key(const struct pp_value *v, yaml_node_t *node, void *field);
void pp_put_listen(const struct pp_put *put, const struct pp_param *p, const void *field);
void pp_put_port_range(const struct pp_put *put, const struct pp_param *p, const void *field);
void pp_put_resolve(const struct pp_put *put, const struct pp_param *p, const void *field);
void pp_put_tier(const struct pp_put *put, const struct pp_param *p, const void *field);
void pp_put_key(const struct pp_put *put, const struct pp_param *p, const void *field);

#endif
