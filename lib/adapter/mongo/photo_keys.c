/* photo_keys.c: reads the keys of all photos in the order of their _id, from the index alone. The
 * place where a page ends is its last key. */
#include "steps.h"

static const struct pp_mg_field key_field[] = {{"_id", 'k', 0, 0, NULL, 0}, {NULL}};

void pp_mg_photo_keys(struct pp_mg_thread *t, struct pp_store_keys *r)
{
    pp_mg_rows(t, MQ_PHOTO_KEYS, key_field, PP_MG_PAGE(r, keys, r->limit), "ki", &r->after.key,
               (int64_t)r->limit + 1);
    r->end = r->after;
    if (r->n > 0)
        r->end.key = r->keys[r->n - 1];
}
