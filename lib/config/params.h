/* params.h: the table of parameters, and functions that look parameters up.
 *
 * One row (params.c) gives a parameter's YAML key, environment variable, flag, help, place in the
 * reference page, type, default, range and field. A type is a row of the table in types.c, which
 * says how a value of the type is read, written and described. */
#ifndef PP_CONFIG_PARAMS_H
#define PP_CONFIG_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum pp_param_type {
    PP_TYPE_BOOL,
    PP_TYPE_STRING, /* the range is the length in bytes */
    /* The choices are the allowed prefixes; upper-case words stand for text that must follow. */
    PP_TYPE_URL,
    PP_TYPE_LISTEN,
    PP_TYPE_COUNT,
    PP_TYPE_COUNT_OR_NULL,
    PP_TYPE_COUNT_OR_OFF,
    PP_TYPE_SIZE,
    PP_TYPE_DURATION, /* the range is in milliseconds, for each item if it is a list */
    PP_TYPE_DURATION_OR_OFF,
    PP_TYPE_NUMBER,
    PP_TYPE_ENUM, /* the choices are the names, in the order of the C enum */
    PP_TYPE_PORTS,
    PP_TYPE_NETWORKS,
    PP_TYPE_HOSTS,
    PP_TYPE_URLS, /* the choices as for PP_TYPE_URL */
    PP_TYPE_RESOLVES,
    PP_TYPE_DURATIONS,
    PP_TYPE_DURATIONS_OR_ALL,
    PP_TYPE_TIERS,
    PP_TYPE_KEYS,
    PP_TYPE_PROPERTIES, /* a map; values whose names sound like a secret are not shown */
    PP_TYPE_N
};

enum { PP_PARAM_RELOADABLE = 1, PP_PARAM_SECRET = 2 };

struct pp_param {
    const char *name; /* the parameter's name: section, dot and key, such as "http.listen" */
    enum pp_param_type type;
    /* default as a user would write it; DIR stands for the data directory, VERSION for the
     * program's version */
    const char *def;
    double min, max;     /* the allowed range, in the unit of the field; 0 and 0: no range */
    const char *choices; /* the allowed values, such as "a|b"; NULL: not limited to choices */
    unsigned flags;
    size_t offset; /* offset of the field in struct pp_config */
    const char *help;
};

struct pp_section {
    const char *name;
    const char *help;
};

/* Returns the table in the order of the reference; sets *n to its rows. Parameters of a section are
 * adjacent. */
const struct pp_param *pp_params(size_t *n);

/* Returns the sections in the order of the table, and sets *n to their number. */
const struct pp_section *pp_sections(size_t *n);

/* Returns the parameter of that name, or NULL. */
const struct pp_param *pp_param_find(const char *name);

/* Returns true if name is a section, or the beginning of a section's name up to a dot. */
bool pp_param_is_section(const char *name);

/* Returns the parameter whose name is closest to an unknown name or variable, or NULL if none is
 * close: at most 2 edits (optimal string alignment), and at most a third of the name. A name
 * without its section counts as close. */
const struct pp_param *pp_param_near(const char *name);

/* Returns the number of edits from a to b: insert, delete, replace, swap neighbours. A text over 63
 * bytes is far from every other. */
size_t pp_edit_distance(const char *a, const char *b);

/* Writes the name of the parameter's environment variable, such as "PHOTOPOOL_HTTP_LISTEN", cut to
 * n bytes. */
void pp_param_env(const struct pp_param *p, char *buf, size_t n);

#endif
