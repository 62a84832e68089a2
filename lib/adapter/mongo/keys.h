/* keys.h: sorted lists of photo keys. */
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
    uint32_t at; /* index of the photo at this place; places with equal keys are sorted by this index */
};

void pp_mg_places_sort(struct pp_mg_place *places, size_t n);
/* Returns the first place with this key. NULL: there is none. */
const struct pp_mg_place *pp_mg_places_find(const struct pp_mg_place *places, size_t n,
                                            const struct pp_key *key);
/* Sorts the keys, removes duplicates, and returns how many are left. */
size_t pp_mg_keys_unique(struct pp_key *keys, size_t n);
/* Returns the index of a key in sorted keys; n: it is not among them. */
size_t pp_mg_keys_at(const struct pp_key *sorted, size_t n, const struct pp_key *key);

/* Reads an array of keys into the arena. PP_ECORRUPT: the array is missing. */
pp_must_check enum pp_err pp_mg_read_keys(const bson_t *doc, const char *name, struct pp_arena *a,
                                          struct pp_key **keys, size_t *n);

#endif
