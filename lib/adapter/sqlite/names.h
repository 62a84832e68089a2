/* names.h: maps names (clients, domains, workers) to numbers, so that rows are short, and back.
 * A cache in memory serves both directions.
 *
 * The number of a name never changes and is never given to another name. The cache contains
 * names that the open transaction added, so a rollback must clear it. A full cache is emptied. */
#ifndef PP_ADAPTER_SQLITE_NAMES_H
#define PP_ADAPTER_SQLITE_NAMES_H

#include "db.h"

enum pp_name_kind { PP_NAME_CLIENT = 1, PP_NAME_DOMAIN, PP_NAME_WORKER };

struct pp_sq_name;

struct pp_sq_names {
    struct pp_sq_db *db;
    struct pp_sq_name *by_name, *by_num; /* uthash tables */
};

/* Returns the number of `name`; adds the name if it has none. On failure returns 0 and sets
 * db->err. */
int64_t pp_sq_name_add(struct pp_sq_names *n, enum pp_name_kind kind, const char *name);
/* Returns the number of `name`; 0: it has none. */
int64_t pp_sq_name_num(struct pp_sq_names *n, enum pp_name_kind kind, const char *name);
/* Returns the name of `num`, valid until the next call on `n`; "" if there is none. */
const char *pp_sq_name_text(struct pp_sq_names *n, int64_t num);
void pp_sq_names_clear(struct pp_sq_names *n);

/* Like pp_sq_name_num(), without a cache; for readers. */
int64_t pp_sq_name_find(struct pp_sq_db *db, enum pp_name_kind kind, const char *name);

#endif
