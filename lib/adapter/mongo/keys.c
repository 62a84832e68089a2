/* keys.c: see keys.h. */
#include "keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "docs.h"

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct pp_key));
}

static int compare_places(const void *a, const void *b)
{
    const struct pp_mg_place *x = a, *y = b;
    int c = compare_keys(&x->key, &y->key);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

void pp_mg_places_sort(struct pp_mg_place *places, size_t n)
{
    qsort(places, n, sizeof *places, compare_places);
}

const struct pp_mg_place *pp_mg_places_find(const struct pp_mg_place *places, size_t n,
                                            const struct pp_key *key)
{
    size_t lo = 0, hi = n;
    pp_assert(n == 0 || compare_keys(&places[0].key, &places[n - 1].key) <= 0,
              "places are not in order of keys");
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (compare_keys(&places[mid].key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && !compare_keys(&places[lo].key, key) ? &places[lo] : NULL;
}

size_t pp_mg_keys_unique(struct pp_key *keys, size_t n)
{
    size_t kept = 0;
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || compare_keys(&keys[kept - 1], &keys[i]))
            keys[kept++] = keys[i];
    return kept;
}

size_t pp_mg_keys_at(const struct pp_key *sorted, size_t n, const struct pp_key *key)
{
    pp_assert(n == 0 || compare_keys(&sorted[0], &sorted[n - 1]) <= 0, "keys are not in order");
    const struct pp_key *at = n ? bsearch(key, sorted, n, sizeof *sorted, compare_keys) : NULL;
    return at ? (size_t)(at - sorted) : n;
}

struct read_keys {
    struct pp_key *keys;
    size_t n;
};

static enum pp_err on_key(void *data, const bson_iter_t *it)
{
    struct read_keys *r = data;
    return pp_mg_read_key(it, &r->keys[r->n++]);
}

enum pp_err pp_mg_read_keys(const bson_t *doc, const char *name, struct pp_arena *a, struct pp_key **keys,
                            size_t *n)
{
    struct read_keys r = {.n = 0};
    *n = 0;
    if (!bson_has_field(doc, name))
        return PP_ECORRUPT;
    *keys = r.keys = pp_arena_array(a, pp_mg_list_length(doc, name), sizeof *r.keys);
    enum pp_err err = r.keys ? pp_mg_read_list(doc, name, on_key, &r) : PP_ENOMEM;
    *n = r.n;
    return err;
}
