/* photo_keys.c: reads the keys of all photos in the order of the index photos_key, from the index
 * alone. A place is a client's number and a key. */
#include "store.h"

enum pp_err pp_sr_photo_keys(struct pp_sq_db *db, struct pp_store_keys *r)
{
    r->n = 0;
    r->more = false;
    r->end = r->after;
    r->keys = pp_sq_array(db, r->req.arena, r->limit, sizeof *r->keys);
    if (!r->keys)
        return db->err;
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_PHOTO_KEYS, "ibi", (int64_t)r->after.row, &r->after.key,
                                  sizeof r->after.key, (int64_t)r->limit + 1);
    while (pp_sq_page(db, st, r->n, r->limit, &r->more)) {
        r->end.row = (uint64_t)pp_sq_col(st, 0);
        if (!pp_sq_exactly(st, 1, &r->end.key, sizeof r->end.key))
            pp_sq_fail(db, PP_ECORRUPT);
        r->keys[r->n++] = r->end.key;
    }
    return db->err;
}
