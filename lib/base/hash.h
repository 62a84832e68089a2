/* hash.h: hash tables (uthash) under a secret key. Callers choose the keys of many tables: client
 * ids, host names, addresses. With a public hash function they could choose keys that all fall into
 * one bucket, and each look-up would walk through all of them. This header makes uthash hash under
 * random bytes that each process draws at its start. Everybody includes it instead of <uthash.h>.
 *
 * uthash iterates in the order of insertion, which the random bytes do not change.
 *
 * By default uthash ends the process when it has no memory. Here PP_HASH_ADD returns false instead,
 * and the compiler refuses uthash's own macros that add an element. */
#ifndef PP_BASE_HASH_H
#define PP_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"

/* Returns the hash of `n` bytes under this process's key. It differs in each process: never store
 * it, and never send it. Any thread. */
uint64_t pp_hash(const void *p, size_t n);

/* Draws this process's key. It has one when main() begins; only the simulator draws another, for
 * each seed. No table and no other thread may exist. */
void pp_hash_draw_key(void);

#define HASH_FUNCTION(key, n, hash) ((hash) = (unsigned)pp_hash((key), (n)))
#define HASH_NONFATAL_OOM           1
#include <uthash.h>

/* Adds `elt` to the table `head` under a key of `n` bytes, which belong to the element. Returns
 * false when out of memory; then the table is as before, and the element still belongs to the
 * caller. */
#define PP_HASH_ADD(head, key, n, elt) PP_HASH_ADD_BY(hh, head, key, n, elt)

/* The same for an element whose handle is not named `hh`. */
#define PP_HASH_ADD_BY(hh, head, key, n, elt)                               \
    pp_hash_added(__extension__({                                           \
        unsigned pp_hashv;                                                  \
        HASH_VALUE(key, n, pp_hashv);                                       \
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, (head), (key), (n), pp_hashv, elt); \
        &(elt)->hh;                                                         \
    }))

/* Only for PP_HASH_ADD_BY: uthash clears `tbl` of an element that it could not add. */
static inline pp_must_check bool pp_hash_added(const struct UT_hash_handle *hh)
{
    return hh->tbl != NULL;
}

#undef HASH_ADD
#undef HASH_ADD_INT
#undef HASH_ADD_KEYPTR
#undef HASH_ADD_PTR
#undef HASH_ADD_STR
#undef HASH_REPLACE
#undef HASH_REPLACE_INT
#undef HASH_REPLACE_PTR
#undef HASH_REPLACE_STR
#undef HASH_SELECT
#pragma GCC poison HASH_ADD HASH_ADD_INT HASH_ADD_KEYPTR HASH_ADD_PTR HASH_ADD_STR
#pragma GCC poison HASH_REPLACE HASH_REPLACE_INT HASH_REPLACE_PTR HASH_REPLACE_STR HASH_SELECT

#endif
