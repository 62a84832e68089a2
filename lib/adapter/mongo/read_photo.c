/* read_photo.c: one photo's record and task, and whose an object is. */
#include <string.h>

#include "run.h"

enum pp_err pp_mg_photo(struct pp_mg_thread *t, struct pp_store_photo *r)
{
    enum pp_err err = PP_OK;
    bson_t filter = BSON_INITIALIZER, none = BSON_INITIALIZER;
    r->photo = (struct pp_photo){0};
    r->open = r->claimed = false;
    r->tier = r->losses = 0;
    r->attempts = 0;
    r->due_ms = 0;
    BSON_APPEND_UTF8(&filter, F_CLIENT, r->client);
    pp_mg_put_key(&filter, F_ID, &r->key);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_PHOTOS, &filter, &none);
    const bson_t *doc = pp_mg_next(&rows);
    if (doc)
        err = pp_mg_read_photo(doc, r->req.arena, &r->photo);
    int64_t state = doc ? pp_mg_doc_int(doc, F_T_STATE) : 0;
    if (state == PP_MG_WAITING || state == PP_MG_CLAIMED) {
        r->open = true;
        r->claimed = state == PP_MG_CLAIMED;
        r->tier = (uint8_t)pp_mg_doc_int(doc, F_T_TIER);
        r->losses = (uint8_t)pp_mg_doc_int(doc, F_T_LOSSES);
        r->attempts = (uint32_t)pp_mg_doc_int(doc, F_T_ATTEMPTS);
        r->due_ms = pp_mg_doc_int(doc, F_T_DUE);
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&none);
    return end != PP_OK ? end : err;
}

enum pp_err pp_mg_object(struct pp_mg_thread *t, struct pp_store_object *r)
{
    bson_iter_t it;
    enum pp_err err = PP_ENOTFOUND;
    bson_t filter = BSON_INITIALIZER, *opts = BCON_NEW("limit", BCON_INT64(1), "projection", "{", F_ID,
                                                       BCON_INT32(0), F_OBJECT, BCON_INT32(1), "}");
    pp_mg_put_bytes(&filter, F_OBJECT_HASH, r->sha256, sizeof r->sha256);
    if (r->client)
        BSON_APPEND_UTF8(&filter, F_CLIENT, r->client);
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_PHOTOS, &filter, opts);
    const bson_t *doc = pp_mg_next(&rows);
    if (doc)
        err = bson_iter_init_find(&it, doc, F_OBJECT) ? pp_mg_read_object(&it, &r->object) : PP_ECORRUPT;
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(opts);
    return end != PP_OK ? end : err;
}
