/* cancel.c: cancels a batch. It marks the batch first, so that items planned later end as
 * cancelled, and then closes the open items in slices. A repeated call continues where the last
 * one stopped. */
#include <string.h>

#include "ops.h"
#include "steps.h"

struct owner {
    struct pp_arena *a;
    const char *client; /* the batch's owner; NULL: the store does not have the batch */
};

static enum pp_err on_batch(void *data, const bson_t *doc)
{
    struct owner *o = data;
    return pp_mg_doc_copy(doc, "c", o->a, &o->client);
}

/* Returns whether this call may create the batch's document, because the caller says that the batch
 * exists although none of its items is planned yet. */
static bool may_make(const struct pp_store_cancel *r)
{
    return r->created_at && r->owner && (!r->client || !strcmp(r->client, r->owner));
}

enum pp_err pp_mg_cancel(struct pp_mg_thread *t, struct pp_store_cancel *r)
{
    struct owner o = {&t->tmp, NULL};
    struct pp_mg_moved moved = {.arena = &t->tmp};
    struct pp_mg_closed closed = {0};
    r->items_cancelled = r->photos_cancelled = 0;
    enum pp_err err = pp_mg_each(t, MQ_BATCH_LOOK, on_batch, &o, "s", r->batch_id);
    if (err == PP_OK && !o.client && may_make(r)) {
        o.client = r->owner;
        err = pp_mg_write(t, MQ_BATCH_MAKE, NULL, "ssdiii", r->batch_id, r->owner, (int)r->refresh,
                          r->created_at, (int64_t)r->items, (int64_t)r->photos);
    }
    if (err == PP_OK && (!o.client || (r->client && strcmp(r->client, o.client) != 0)))
        err = PP_ENOTFOUND;
    if (err == PP_OK) /* changes nothing if the batch is marked already, or has ended */
        err = pp_mg_write(t, MQ_BATCH_CANCEL, NULL, "si", r->batch_id, r->now_ms);
    if (err == PP_OK)
        err = pp_mg_cancel_open(t, r->batch_id, o.client, r->now_ms, &moved, &closed);
    if (err == PP_OK && !pp_mg_moved_batch(&moved, r->batch_id, o.client))
        err = PP_ENOMEM;
    if (err == PP_OK)
        err = pp_mg_batches_check(t, &moved, true, r->now_ms);
    pp_assert(closed.items == moved.items_finished, "other items are finished than cancelled");
    r->items_cancelled = closed.items;
    r->photos_cancelled = closed.photos;
    return err;
}
