/* owner_table.c: packed tables of keys and owners.
 *
 * A key's place follows from its 8 bytes, scaled to the number of places (Lemire, "Fast Random
 * Integer Generation in an Interval", 2019), so that the number need not be a power of two: a table
 * grows by a quarter when 7 of 8 places are taken. */
#include "base/owner_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { PLACES_MIN = 64 };

void pp_owner_table_init(struct pp_owner_table *t, size_t max)
{
    *t = (struct pp_owner_table){.max = max};
}

void pp_owner_table_fini(struct pp_owner_table *t)
{
    free(t->keys);
    free(t->owners);
    pp_owner_table_init(t, t->max);
}

static uint64_t short_key(const uint8_t key[16])
{
    uint64_t k;

    memcpy(&k, key, sizeof k);
    return k ? k : 1;
}

/* Returns the place of the key, or the free place where it belongs. */
static size_t place_of(const struct pp_owner_table *t, uint64_t k)
{
    size_t at = (size_t)(((unsigned __int128)k * t->places) >> 64);

    while (t->keys[at] && t->keys[at] != k)
        at = at + 1 == t->places ? 0 : at + 1;
    return at;
}

uint64_t *pp_owner_table_find(const struct pp_owner_table *t, const uint8_t key[16])
{
    if (t->n == 0)
        return NULL;
    size_t at = place_of(t, short_key(key));
    return t->keys[at] ? &t->owners[at] : NULL;
}

/* Returns false when out of memory; then the table is as before. */
static bool grow(struct pp_owner_table *t)
{
    struct pp_owner_table to = {.places = t->places ? t->places + t->places / 4 : PLACES_MIN};

    to.keys = calloc(to.places, sizeof *to.keys);
    to.owners = calloc(to.places, sizeof *to.owners);
    if (!to.keys || !to.owners) {
        free(to.keys);
        free(to.owners);
        return false;
    }
    for (size_t i = 0; i < t->places; i++) {
        if (!t->keys[i])
            continue;
        size_t at = place_of(&to, t->keys[i]);
        to.keys[at] = t->keys[i];
        to.owners[at] = t->owners[i];
    }
    free(t->keys);
    free(t->owners);
    t->keys = to.keys;
    t->owners = to.owners;
    t->places = to.places;
    return true;
}

uint64_t *pp_owner_table_add(struct pp_owner_table *t, const uint8_t key[16])
{
    uint64_t k = short_key(key);

    if (t->n >= t->max || ((t->n + 1) * 8 > t->places * 7 && !grow(t)))
        return NULL;
    size_t at = place_of(t, k);
    pp_assert(!t->keys[at], "a key is added twice");
    t->keys[at] = k;
    t->owners[at] = 0;
    t->n++;
    return &t->owners[at];
}
