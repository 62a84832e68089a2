/* forget.c: deletes all revisions of one item.
 *
 *   find the revisions -> all are finished, and so are their batches -> stubs: the older ones,
 *   then the newest one
 *
 * Each revision becomes a stub (_id, c, i, r), as in clean.c. If a stalled planner still inserts
 * the revision, the stub's _id refuses it. A planner that repeats the plan of the batch does not
 * find the item, and looks whether the batch has ended (plan_items.c). So only items of batches
 * whose end is recorded are deleted; the counts of these batches no longer depend on the items.
 *
 * After a crash the newest revision still has its batch, so a repeated call finds it and
 * continues. A revision that is planned meanwhile is newer than all of these, and stays. */
#include <string.h>

#include "steps.h"

struct revision {
    const char *id, *batch;
    int64_t seq, finished_at;
};

static const struct pp_mg_field fields[] = {PP_MG_FIELD_TEXT("_id", struct revision, id),
                                            PP_MG_FIELD_TEXT("b", struct revision, batch),
                                            PP_MG_FIELD("q", struct revision, seq),
                                            PP_MG_FIELD("f", struct revision, finished_at),
                                            {NULL}};

/* Returns the id of a batch of these revisions whose end is not recorded; NULL: there is none, or
 * the operation has failed. */
static const char *running(struct pp_mg_thread *t, const struct revision *revisions, size_t n)
{
    const bson_t *doc = pp_mg_first(t, MQ_BATCHES_RUNNING, "S", PP_MG_COLUMN(revisions, n, batch));
    return doc ? pp_mg_copy(t, doc, "_id") : NULL;
}

/* Returns true if all batches have finished. If the process died that should have recorded the end
 * of one, reading the batch records it, some time after. */
static bool batches_finished(struct pp_mg_thread *t, const struct revision *revisions, size_t n)
{
    const char *id = running(t, revisions, n), *before = NULL;
    while (id && (!before || strcmp(before, id) != 0) && t->err == PP_OK) {
        struct pp_store_batch look = {.req = {.arena = &t->tmp}, .batch_id = id};
        pp_mg_batch(t, &look);
        before = id;
        id = running(t, revisions, n);
    }
    return !id;
}

static void find(struct pp_mg_thread *t, const struct pp_store_forget_item *r, struct revision **revisions,
                 size_t *n)
{
    struct pp_mg_page page = {revisions, n, NULL, sizeof **revisions, SIZE_MAX, &t->tmp, 0};
    bool open = false, kept = false;
    pp_mg_rows(t, MQ_ITEM_REVISIONS, fields, page, "ss", r->client, r->id);
    pp_mg_require(t, *n > 0, PP_ENOTFOUND);
    if (t->err != PP_OK)
        return;
    for (size_t i = 0; i < *n; i++) {
        const struct revision *it = &(*revisions)[i];
        open |= it->seq == 0;
        kept |= it->finished_at >= r->finished_before_ms || (uint64_t)it->seq > r->upto_seq;
    }
    pp_mg_require(t, !open && batches_finished(t, *revisions, *n), PP_EBUSY);
    pp_mg_require(t, !kept, PP_ESTALE);
}

static uint64_t to_stubs(struct pp_mg_thread *t, const char *client, const struct revision *revisions,
                         size_t n)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < n && t->err == PP_OK; i++)
        pp_mg_bulk_add(&bulk, MQ_CLEAN_TO_STUB, "sss", client, revisions[i].id, revisions[i].batch);
    pp_mg_bulk_run(&bulk);
    return bulk.done.modified;
}

void pp_mg_forget_item(struct pp_mg_thread *t, struct pp_store_forget_item *r)
{
    struct revision *revisions = NULL; /* the newest first */
    size_t n = 0;
    r->revisions = 0;
    find(t, r, &revisions, &n);
    if (t->err != PP_OK)
        return;
    pp_assert(n > 0, "an item without a revision is deleted");
    if (n > 1)
        r->revisions = to_stubs(t, r->client, revisions + 1, n - 1);
    if (t->err == PP_OK)
        r->revisions += to_stubs(t, r->client, revisions, 1);
    pp_mg_require(t, r->revisions > 0, PP_ENOTFOUND); /* another call has deleted all of them */
}
