/* cancel.c: cancels a batch. It marks the batch first, so that items planned later end as
 * cancelled, and then closes the open items in slices. A repeated call continues where the last
 * one stopped. */
#include <string.h>

#include "ops.h"
#include "steps.h"

/* Returns whether this call may create the batch's document, because the caller says that the batch
 * exists although none of its items is planned yet. */
static bool may_make(const struct pp_store_cancel *r)
{
    return r->created_at && r->owner && (!r->client || !strcmp(r->client, r->owner));
}

enum pp_err pp_mg_cancel(struct pp_mg_thread *t, struct pp_store_cancel *r)
{
    struct pp_mg_moved moved = {.arena = &t->tmp};
    const char *client = NULL; /* the batch's owner */
    r->items_cancelled = r->photos_cancelled = 0;
    const bson_t *doc = pp_mg_first(t, MQ_BATCH_LOOK, "s", r->batch_id);
    if (doc) {
        client = pp_mg_copy(t, doc, "c");
    } else if (may_make(r)) {
        client = r->owner;
        pp_mg_write(t, MQ_BATCH_MAKE, "ssdiii", r->batch_id, client, (int)r->refresh, r->created_at,
                    (int64_t)r->items, (int64_t)r->photos);
    }
    if (!client || (r->client && strcmp(r->client, client) != 0))
        return pp_mg_fail(t, PP_ENOTFOUND);
    /* changes nothing if the batch is marked already, or has ended */
    pp_mg_write(t, MQ_BATCH_CANCEL, "si", r->batch_id, r->now_ms);
    pp_mg_cancel_open(t, r->batch_id, client, r->now_ms, &moved);
    pp_mg_moved_add(t, &moved, r->batch_id, client, 0, 0);
    pp_assert(moved.n <= 1, "a cancelled batch has items of another");
    r->items_cancelled = moved.items_finished;
    r->photos_cancelled = moved.n ? moved.batches[0].photos : 0;
    return t->err == PP_OK ? pp_mg_fail(t, pp_mg_batches_check(t, &moved, true, r->now_ms)) : t->err;
}
