/* names.h: numbers for names (clients, domains, workers), so that rows are short; both ways cached in memory.
 *
 * A name's number never changes and is never given to another. The cache holds what a transaction in progress
 * has added: after a rollback it must be cleared. Bounded: when full it is emptied and fills again. */
#ifndef PP_ADAPTER_SQLITE_NAMES_H
#define PP_ADAPTER_SQLITE_NAMES_H

#include "db.h"

enum pp_name_kind { PP_NAME_CLIENT = 1, PP_NAME_DOMAIN, PP_NAME_WORKER };

struct pp_name;

struct pp_names {
    struct pp_name *by_name, *by_num; /* uthash */
};

/* The number of `name`, giving it one if it has none. 0 with db->err set on failure. */
int64_t pp_name_add(struct pp_names *n, struct pp_sq_db *db, enum pp_name_kind kind, const char *name);
/* The number of `name`, or 0 if it has none. */
int64_t pp_name_num(struct pp_names *n, struct pp_sq_db *db, enum pp_name_kind kind, const char *name);
/* The name of `num`; valid until the next call on `n`. "" where there is none. */
const char *pp_name_text(struct pp_names *n, struct pp_sq_db *db, int64_t num);
void pp_names_clear(struct pp_names *n);

/* The same without a cache, for readers. */
int64_t pp_name_find(struct pp_sq_db *db, enum pp_name_kind kind, const char *name);

#endif
