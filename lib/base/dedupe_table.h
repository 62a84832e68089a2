/* dedupe_table.h: the keys, owners and outcomes of one server of port/dedupe.h, in memory.
 *
 * The owners are in two tables by time: a key that the current one lacks may be in the previous
 * one, and is then copied. Outcomes are in a hash table in the order of telling; the oldest goes
 * when there are too many. The functions carry requests out at once and return their error; `now`
 * is any clock in ms that does not go back. Not thread safe. */
#ifndef PP_BASE_DEDUPE_TABLE_H
#define PP_BASE_DEDUPE_TABLE_H

#include <stdint.h>

#include "base/owner_table.h"
#include "photopool/port/dedupe.h"

struct pp_dedupe_told;

struct pp_dedupe_table {
    int64_t window_ms, began_ms; /* when the current table began; INT64_MIN: nothing was asked yet */
    struct pp_owner_table current, previous;
    struct pp_dedupe_told *told; /* a hash table by key, in the order of telling */
    size_t outcomes_max;
};

/* Makes an empty server with windows of `window_ms`, which knows at most `keys_max` keys a window
 * and `outcomes_max` outcomes. */
void pp_dedupe_table_init(struct pp_dedupe_table *t, int64_t window_ms, size_t keys_max, size_t outcomes_max);
/* Frees everything. The server is then empty. */
void pp_dedupe_table_fini(struct pp_dedupe_table *t);

/* Carry out a request; outcomes are copied into its arena. PP_ENOMEM when there is no memory for
 * that. Keys that there is no room for are not recorded, and have no other owner. */
enum pp_err pp_dedupe_table_ask(struct pp_dedupe_table *t, struct pp_dedupe_ask *r, int64_t now_ms);
enum pp_err pp_dedupe_table_replace(struct pp_dedupe_table *t, struct pp_dedupe_replace *r, int64_t now_ms);
enum pp_err pp_dedupe_table_tell(struct pp_dedupe_table *t, const struct pp_dedupe_tell *r, int64_t now_ms);

#endif
