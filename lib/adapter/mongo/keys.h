/* keys.h: places of photos' keys, found by key; keys of a document's array. */
#ifndef PP_ADAPTER_MONGO_KEYS_H
#define PP_ADAPTER_MONGO_KEYS_H

#include <bson/bson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "photopool/err.h"
#include "photopool/task.h"

struct pp_mg_place {
    struct pp_key key;
    uint32_t at; /* where it came from; equal keys stay in this order */
};

void pp_mg_places_sort(struct pp_mg_place *places, size_t n);
/* The first of those with this key; NULL: none. */
const struct pp_mg_place *pp_mg_places_find(const struct pp_mg_place *places, size_t n,
                                            const struct pp_key *key);
/* Sorts keys and drops the repeated ones; how many are left. */
size_t pp_mg_keys_unique(struct pp_key *keys, size_t n);
/* The place of a key among sorted ones; n: it is not there. */
size_t pp_mg_keys_at(const struct pp_key *sorted, size_t n, const struct pp_key *key);

/* The keys of the array at `it`. */
pp_must_check enum pp_err pp_mg_read_keys(const bson_iter_t *it, struct pp_arena *a, struct pp_key **keys,
                                          size_t *n);

#endif
