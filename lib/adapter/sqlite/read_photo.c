/* read_photo.c: reads records of photos, on the reader lane. */
#include <string.h>

#include "store.h"

static void unpack(struct pp_sq_db *db, sqlite3_stmt *st, int i, struct pp_arena *a, struct pp_photo *photo)
{
    pp_sq_fail(db, pp_unpack_photo(pp_sq_bytes(st, i), a, photo));
}

enum pp_err pp_sr_lookup(struct pp_sq_db *db, struct pp_store_lookup *r)
{
    int64_t client = pp_sq_name_find(db, PP_NAME_CLIENT, r->client);
    r->photos = pp_sq_array(db, r->req.arena, r->n, sizeof *r->photos);
    if (!client || !r->photos)
        return db->err;
    for (size_t i = 0; i < r->n; i++) {
        sqlite3_stmt *st = pp_sq_bind(db, PP_Q_PHOTO_FIND, "ib", client, &r->keys[i], sizeof r->keys[i]);
        if (!pp_sq_row(db, st))
            continue;
        unpack(db, st, 2, r->req.arena, &r->photos[i]);
        pp_sq_done(st);
    }
    return db->err;
}

enum pp_err pp_sr_photo(struct pp_sq_db *db, struct pp_store_photo *r)
{
    r->photo = (struct pp_photo){0};
    r->open = r->claimed = false;
    r->tier = r->losses = 0;
    r->attempts = 0;
    r->due_ms = 0;
    int64_t client = pp_sq_name_find(db, PP_NAME_CLIENT, r->client);
    sqlite3_stmt *st = client ? pp_sq_bind(db, PP_Q_PHOTO_STATE, "ib", client, &r->key, sizeof r->key) : NULL;
    if (!pp_sq_row(db, st))
        return db->err;
    unpack(db, st, 0, r->req.arena, &r->photo);
    r->open = !pp_sq_is_null(st, 1);
    r->claimed = !pp_sq_is_null(st, 2);
    r->tier = (uint8_t)pp_sq_col(st, 3);
    r->losses = (uint8_t)pp_sq_col(st, 4);
    r->attempts = (uint32_t)pp_sq_col(st, 5);
    r->due_ms = pp_sq_col(st, 6);
    pp_sq_done(st);
    return db->err;
}

enum pp_err pp_sr_object(struct pp_sq_db *db, struct pp_store_object *r)
{
    int64_t client = r->client ? pp_sq_name_find(db, PP_NAME_CLIENT, r->client) : 0,
            sha = pp_packed_sha(r->sha256);
    if (r->client && !client)
        return pp_sq_refuse(db, PP_ENOTFOUND);
    sqlite3_stmt *st = r->client ? pp_sq_bind(db, PP_Q_PHOTO_BY_SHA_CLIENT, "ii", sha, client)
                                 : pp_sq_bind(db, PP_Q_PHOTO_BY_SHA, "i", sha);
    bool found = false;
    while (!found && pp_sq_row(db, st)) {
        struct pp_photo photo;
        unpack(db, st, 0, r->req.arena, &photo);
        found = photo.object.type && !memcmp(photo.object.sha256, r->sha256, sizeof r->sha256);
        if (found)
            r->object = photo.object;
    }
    pp_sq_done(st);
    return found ? db->err : pp_sq_refuse(db, PP_ENOTFOUND);
}
