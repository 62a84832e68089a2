/* photos.c: reads photos: many by key, one with its task, and those with the same bytes. */
#include <string.h>

#include "keys.h"
#include "ops.h"

enum { LOOKUP_SLICE = 1000 };

/* --- by keys --- */

struct looking_up {
    struct pp_store_lookup *r;
    const struct pp_mg_place *places; /* for finding the position of a key in the request */
};

static enum pp_err on_known(void *data, const bson_t *doc)
{
    struct looking_up *l = data;
    struct pp_key key;
    struct pp_photo photo;
    enum pp_err err = pp_mg_doc_key(doc, &key);
    if (err == PP_OK)
        err = pp_mg_read_photo(doc, l->r->req.arena, &photo);
    const struct pp_mg_place *at = err == PP_OK ? pp_mg_places_find(l->places, l->r->n, &key) : NULL;
    for (; at && at < l->places + l->r->n && !memcmp(&at->key, &key, sizeof key); at++)
        l->r->photos[at->at] = photo;
    return err;
}

enum pp_err pp_mg_lookup(struct pp_mg_thread *t, struct pp_store_lookup *r)
{
    enum pp_err err = PP_OK;
    struct pp_mg_place *places = pp_arena_array(&t->tmp, r->n, sizeof *places);
    struct pp_key *keys = pp_arena_array(&t->tmp, r->n, sizeof *keys);
    struct looking_up l = {r, places};
    r->photos = pp_arena_array(r->req.arena, r->n, sizeof *r->photos);
    if (!places || !keys || !r->photos)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        places[i] = (struct pp_mg_place){r->keys[i], (uint32_t)i};
        keys[i] = r->keys[i];
    }
    pp_mg_places_sort(places, r->n);
    size_t n = pp_mg_keys_unique(keys, r->n);
    for (size_t at = 0; at < n && err == PP_OK; at += LOOKUP_SLICE)
        err = pp_mg_each(t, MQ_LOOKUP, on_known, &l, "sK", r->client, keys + at,
                         n - at < LOOKUP_SLICE ? n - at : (size_t)LOOKUP_SLICE);
    return err;
}

/* --- one --- */

static const struct pp_mg_field task_fields[] = {
    PP_MG_FIELD("tier", struct pp_store_photo, tier),
    PP_MG_FIELD("l", struct pp_store_photo, losses),
    PP_MG_FIELD("at", struct pp_store_photo, attempts),
    PP_MG_FIELD("due", struct pp_store_photo, due_ms),
    {NULL},
};
static const struct pp_mg_field task_field[] = {PP_MG_FIELD_WITHIN("t", task_fields), {NULL}};

static enum pp_err on_photo(void *data, const bson_t *doc)
{
    struct pp_store_photo *r = data;
    int64_t state = pp_mg_doc_int(doc, "t.s");
    enum pp_err err = pp_mg_read_photo(doc, r->req.arena, &r->photo);
    r->open = state == PP_MG_WAITING || state == PP_MG_CLAIMED;
    r->claimed = state == PP_MG_CLAIMED;
    return err == PP_OK && r->open ? pp_mg_read(doc, task_field, r->req.arena, r) : err;
}

enum pp_err pp_mg_photo(struct pp_mg_thread *t, struct pp_store_photo *r)
{
    r->photo = (struct pp_photo){0};
    r->open = r->claimed = false;
    r->tier = r->losses = 0;
    r->attempts = 0;
    r->due_ms = 0;
    return pp_mg_each(t, MQ_PHOTO, on_photo, r, "sk", r->client, &r->key);
}

static const struct pp_mg_field object_field[] = {PP_MG_FIELD("o", struct pp_store_object, object), {NULL}};

enum pp_err pp_mg_object(struct pp_mg_thread *t, struct pp_store_object *r)
{
    r->object = (struct pp_object){0};
    const bson_t *doc = pp_mg_first(t, MQ_OBJECT, "hs", r->sha256, r->client);
    if (!doc)
        return t->err == PP_OK ? PP_ENOTFOUND : t->err;
    return pp_mg_read(doc, object_field, NULL, r);
}
