/* owner_table.h: a table of hashed keys and their owners, in 18 to 23 bytes a key.
 *
 * Open addressing with linear probing over two packed arrays; no key is ever removed, except all at
 * once. Of a key's 16 bytes the table keeps 8, so it takes two keys for one with a probability of
 * 2^-64 for each pair; the caller must bear that. Not thread safe. */
#ifndef PP_BASE_OWNER_TABLE_H
#define PP_BASE_OWNER_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct pp_owner_table {
    uint64_t *keys;   /* 0: the place is free */
    uint64_t *owners; /* at the same place */
    size_t places, n, max;
};

/* Makes an empty table of at most `max` keys. Allocates nothing. */
void pp_owner_table_init(struct pp_owner_table *t, size_t max);
/* Frees all keys. The table may be used again. */
void pp_owner_table_fini(struct pp_owner_table *t);
/* Returns the owner of the key; NULL if the table does not have the key. The caller may write to
 * it. Valid until the next add. */
uint64_t *pp_owner_table_find(const struct pp_owner_table *t, const uint8_t key[16]);
/* Adds a key that the table does not have. Returns its owner, 0, which the caller sets; NULL if the
 * table is full or out of memory. */
uint64_t *pp_owner_table_add(struct pp_owner_table *t, const uint8_t key[16]);

#endif
