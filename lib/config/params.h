/* params.h: the table of parameters and what may be asked of it.
 *
 * One row (params.c) gives a parameter's YAML key, environment variable, flag, help, place in the reference
 * page, type, default, range and field. A type is a row of the table in types.c: how it is read, written and
 * described. */
#ifndef PP_CONFIG_PARAMS_H
#define PP_CONFIG_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum pp_param_type {
    PP_TYPE_BOOL,
    PP_TYPE_STRING, /* range: length in bytes */
    PP_TYPE_URL,    /* choices: prefixes; upper case stands for what has to follow */
    PP_TYPE_LISTEN,
    PP_TYPE_COUNT,
    PP_TYPE_COUNT_OR_NULL,
    PP_TYPE_SIZE,
    PP_TYPE_DURATION, /* range in milliseconds, in lists too */
    PP_TYPE_NUMBER,
    PP_TYPE_ENUM, /* choices: names, in the order of the C enum */
    PP_TYPE_PORTS,
    PP_TYPE_NETWORKS,
    PP_TYPE_RESOLVES,
    PP_TYPE_DURATIONS,
    PP_TYPE_DURATIONS_OR_ALL,
    PP_TYPE_TIERS,
    PP_TYPE_KEYS,
    PP_TYPE_N
};

enum { PP_PARAM_RELOADABLE = 1, PP_PARAM_SECRET = 2 };

struct pp_param {
    const char *name; /* "http.listen": section, dot, key */
    enum pp_param_type type;
    const char *def; /* as it would be written; DIR and VERSION stand for the data directory and the program's
                        version */
    double min, max; /* in the unit of the field; not used where both are 0 */
    const char *choices; /* "a|b" or NULL */
    unsigned flags;
    size_t offset; /* in struct pp_config */
    const char *help;
};

struct pp_section {
    const char *name;
    const char *help;
};

/* The whole table, in the order of the reference; *n rows. Parameters of a section stand together. */
const struct pp_param *pp_params(size_t *n);

/* The sections, in the same order. */
const struct pp_section *pp_sections(size_t *n);

/* NULL if there is none of that name. */
const struct pp_param *pp_param_find(const char *name);

/* True if name is a section, or the start of one up to a dot. */
bool pp_param_is_section(const char *name);

/* The parameter that was probably meant by an unknown name (or by an unknown variable), or NULL. Compares by
 * optimal string alignment distance: at most 2 edits, and at most a third of the name; a name without its
 * section counts as near. */
const struct pp_param *pp_param_near(const char *name);

/* Edits from a to b (insert, delete, replace, swap neighbours); texts over 63 bytes are far from everything.
 */
size_t pp_edit_distance(const char *a, const char *b);

/* "PHOTOPOOL_HTTP_LISTEN"; cut at n bytes. */
void pp_param_env(const struct pp_param *p, char *buf, size_t n);

/* What is allowed, for errors and reference: "a size from 1KiB to 1GiB, as 64KiB or 32MiB". */
void pp_param_allowed(const struct pp_param *p, FILE *f);

#endif
