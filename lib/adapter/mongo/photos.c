/* photos.c: reads photos: many by key, one with its task, and those with the same bytes. */
#include <string.h>

#include "steps.h"

enum { LOOKUP_SLICE = 1000 };

/* --- by keys --- */

void pp_mg_lookup(struct pp_mg_thread *t, struct pp_store_lookup *r)
{
    struct pp_mg_place *places = pp_mg_array(t, r->n, sizeof *places);
    struct pp_key *keys = pp_mg_array(t, r->n, sizeof *keys);
    r->photos = pp_mg_alloc(t, r->req.arena, r->n, sizeof *r->photos);
    if (t->err != PP_OK)
        return;
    for (size_t i = 0; i < r->n; i++) {
        places[i] = (struct pp_mg_place){r->keys[i], (uint32_t)i};
        keys[i] = r->keys[i];
    }
    pp_mg_places_sort(places, r->n);
    size_t n = pp_mg_keys_unique(keys, r->n);
    for (size_t from = 0; from < n; from += LOOKUP_SLICE) {
        pp_mg_query(t, MQ_LOOKUP, "sK", r->client,
                    PP_MG_LIST(keys + from, n - from < LOOKUP_SLICE ? n - from : LOOKUP_SLICE));
        for (const bson_t *row; (row = pp_mg_next(t));) {
            struct pp_key key = pp_mg_id_key(t, row);
            struct pp_photo photo;
            pp_mg_fail(t, pp_mg_read_photo(row, r->req.arena, &photo));
            const struct pp_mg_place *at = pp_mg_places_find(places, r->n, &key);
            for (; at && at < places + r->n && !memcmp(&at->key, &key, sizeof key); at++)
                r->photos[at->at] = photo;
        }
    }
}

/* --- one --- */

static const struct pp_mg_field attempt_fields[] = {
    PP_MG_FIELD("d", struct pp_attempt, at),
    PP_MG_FIELD("ms", struct pp_attempt, ms),
    PP_MG_FIELD("c", struct pp_attempt, code),
    PP_MG_FIELD("h", struct pp_attempt, http_status),
    PP_MG_FIELD("t", struct pp_attempt, tier),
    PP_MG_FIELD("ip", struct pp_attempt, address),
    {NULL},
};
static const struct pp_mg_field attempts_field[] = {
    PP_MG_FIELD_LIST("a", struct pp_store_photo, ended, n_ended, attempt_fields), {NULL}};

static const struct pp_mg_field task_fields[] = {
    PP_MG_FIELD("tier", struct pp_store_photo, tier),
    PP_MG_FIELD("l", struct pp_store_photo, losses),
    PP_MG_FIELD("at", struct pp_store_photo, attempts),
    PP_MG_FIELD("due", struct pp_store_photo, due_ms),
    PP_MG_FIELD("lc", struct pp_store_photo, last_code),
    PP_MG_FIELD("wu", struct pp_store_photo, wait_until_ms),
    {NULL},
};
static const struct pp_mg_field task_field[] = {PP_MG_FIELD_WITHIN("t", task_fields), {NULL}};

void pp_mg_photo(struct pp_mg_thread *t, struct pp_store_photo *r)
{
    *r = (struct pp_store_photo){.req = r->req, .client = r->client, .key = r->key};
    const bson_t *doc = pp_mg_first(t, MQ_PHOTO, "sk", r->client, &r->key);
    if (!doc)
        return;
    r->named = true;
    int64_t state = pp_mg_doc_int(doc, "t.s");
    r->open = state == PP_MG_WAITING || state == PP_MG_CLAIMED;
    r->claimed = state == PP_MG_CLAIMED;
    pp_mg_fail(t, pp_mg_read_photo(doc, r->req.arena, &r->photo));
    pp_mg_fail(t, pp_mg_read(doc, attempts_field, r->req.arena, r));
    if (r->open)
        pp_mg_fail(t, pp_mg_read(doc, task_field, r->req.arena, r));
    if (!r->open)
        return;
    r->parked = pp_mg_doc_int(doc, "t.pk") != 0;
    r->due_ms = pp_mg_our_ms(t, r->due_ms);
    r->wait_until_ms = pp_mg_our_ms_or_0(t, r->wait_until_ms);
}

static const struct pp_mg_field object_field[] = {PP_MG_FIELD("o", struct pp_store_object, object), {NULL}};

void pp_mg_object(struct pp_mg_thread *t, struct pp_store_object *r)
{
    r->object = (struct pp_object){0};
    pp_mg_require(t, pp_mg_one(t, MQ_OBJECT, object_field, &t->tmp, r, "hs", r->sha256, r->client),
                  PP_ENOTFOUND);
}
