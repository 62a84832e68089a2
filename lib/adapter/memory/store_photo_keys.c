/* store_photo_keys.c: reads the keys of all photos, in their order. The place where a page ends is
 * its last key. Each page looks at all photos: nobody reads them often. */
#include <stdlib.h>
#include <string.h>

#include "store_data.h"

static int by_key(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct pp_key));
}

enum pp_err pp_ms_run_photo_keys(struct pp_memory_store *s, struct pp_store_keys *r)
{
    struct pp_ms_client *c, *next;
    size_t n = 0, all = 0;

    for (c = s->clients; c; c = c->hh.next)
        all += HASH_COUNT(c->photos);
    r->end = r->after;
    r->keys = pp_arena_array(r->req.arena, all, sizeof *r->keys);
    if (!r->keys)
        return PP_ENOMEM;
    HASH_ITER (hh, s->clients, c, next)
        for (const struct pp_ms_photo *photo = c->photos; photo; photo = photo->hh.next)
            if (by_key(&photo->key, &r->after.key) > 0)
                r->keys[n++] = photo->key;
    qsort(r->keys, n, sizeof *r->keys, by_key);
    r->n = n < r->limit ? n : r->limit;
    r->more = n > r->limit;
    if (r->n > 0)
        r->end.key = r->keys[r->n - 1];
    return PP_OK;
}
