/* lookup.c: what is known of photos, by key. */
#include <string.h>

#include "keys.h"
#include "run.h"

enum { SLICE = 1000 };

static enum pp_err read_found(struct pp_store_lookup *r, const bson_t *doc, const struct pp_mg_place *places)
{
    bson_iter_t it;
    struct pp_key key;
    struct pp_photo photo;
    if (!bson_iter_init_find(&it, doc, F_ID))
        return PP_ECORRUPT;
    enum pp_err err = pp_mg_read_key(&it, &key);
    if (err == PP_OK)
        err = pp_mg_read_photo(doc, r->req.arena, &photo);
    const struct pp_mg_place *at = err == PP_OK ? pp_mg_places_find(places, r->n, &key) : NULL;
    for (; at && at < places + r->n && !memcmp(&at->key, &key, sizeof key); at++)
        r->photos[at->at] = photo;
    return err;
}

static enum pp_err find_slice(struct pp_mg_thread *t, struct pp_store_lookup *r, const struct pp_key *keys,
                              size_t n, const struct pp_mg_place *places)
{
    bson_t projection, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    BSON_APPEND_UTF8(&filter, F_CLIENT, r->client);
    pp_mg_put_keys_in(&filter, F_ID, keys, n);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_CLIENT, 0);
    BSON_APPEND_INT32(&projection, F_EPOCH, 0);
    BSON_APPEND_INT32(&projection, F_TASK, 0);
    bson_append_document_end(&opts, &projection);
    pp_mg_hint(&opts, "_id_");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_PHOTOS, &filter, &opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows)))
        err = read_found(r, doc, places);
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

enum pp_err pp_mg_lookup(struct pp_mg_thread *t, struct pp_store_lookup *r)
{
    enum pp_err err = PP_OK;
    struct pp_mg_place *places = pp_arena_array(&t->tmp, r->n, sizeof *places);
    struct pp_key *keys = pp_arena_array(&t->tmp, r->n, sizeof *keys);
    r->photos = pp_arena_array(r->req.arena, r->n, sizeof *r->photos);
    if (!places || !keys || !r->photos)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        places[i] = (struct pp_mg_place){r->keys[i], (uint32_t)i};
        keys[i] = r->keys[i];
    }
    pp_mg_places_sort(places, r->n);
    size_t n = pp_mg_keys_unique(keys, r->n);
    for (size_t at = 0; at < n && err == PP_OK; at += SLICE)
        err = find_slice(t, r, keys + at, n - at < SLICE ? n - at : SLICE, places);
    return err;
}
