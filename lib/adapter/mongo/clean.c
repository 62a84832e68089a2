/* clean.c: retention. Deletes old batches with their items, in slices.
 *
 * A stub of each item's newest revision stays (_id, c, i, r), so that the next revision gets a
 * revision number and a result id that were never used before. A revision is deleted only while a
 * higher one exists, so concurrent cleaners and planners never lose the highest number. After a
 * crash the batch still exists with fewer items, and the next call continues. */
#include "steps.h"

enum { SLICE = 500, MEND = 100 };

/* A batch's _id and client. */
struct old_batch {
    const char *id, *client;
};
static const struct pp_mg_field batch_fields[] = {
    PP_MG_FIELD_TEXT("_id", struct old_batch, id), PP_MG_FIELD_TEXT("c", struct old_batch, client), {NULL}};

/* Records the end of batches that are old enough to be deleted, if nobody has recorded it yet. */
static void mend(struct pp_mg_thread *t, int64_t before_ms)
{
    struct old_batch *batches;
    size_t n;
    struct pp_mg_page page = {&batches, &n, NULL, sizeof *batches, MEND, &t->tmp};
    pp_mg_rows(t, MQ_CLEAN_UNRECORDED, batch_fields, page, "ii", before_ms, (int64_t)MEND);
    for (size_t i = 0; i < n && t->err == PP_OK; i++)
        pp_mg_moved_add(t, batches[i].id, batches[i].client, 0, 0);
    if (t->moved.n > 0)
        pp_mg_batches_check(t, true, 0);
}

/* A revision of an item; `id` is the _id of its document. */
struct old_revision {
    const char *id, *item;
    uint32_t revision;
};
static const struct pp_mg_field item_fields[] = {PP_MG_FIELD_TEXT("_id", struct old_revision, id),
                                                 PP_MG_FIELD_TEXT("i", struct old_revision, item),
                                                 PP_MG_FIELD("r", struct old_revision, revision),
                                                 {NULL}};

/* Turns newest revisions into stubs, and deletes the other revisions and older stubs. */
static void forget_items(struct pp_mg_thread *t, const struct old_batch *b, const struct old_revision *items,
                         size_t n)
{
    struct pp_mg_bulk bulk;
    uint32_t *newest = pp_mg_newest(t, b->client, PP_MG_COLUMN(items, n, item));
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; newest && i < n; i++) {
        const struct old_revision *item = &items[i];
        bool newer = newest[i] > item->revision;
        pp_mg_bulk_add(&bulk, newer ? MQ_CLEAN_ITEM : MQ_CLEAN_TO_STUB, "sss", b->client, item->id, b->id);
        if (!newer && item->revision > 1)
            pp_mg_bulk_add(&bulk, MQ_CLEAN_OLDER_STUB, "ssi", b->client, item->item, (int64_t)item->revision);
    }
    pp_mg_bulk_run(&bulk);
}

/* Deletes the batch after the verdicts on its rejected items, so that a crash leaves none. */
static void forget_batch(struct pp_mg_thread *t, const struct old_batch *b)
{
    char from[PP_MG_PART_MAX], end[PP_MG_PART_MAX];
    pp_mg_part_id(from, b->id, 0);
    pp_mg_part_id(end, b->id, UINT32_MAX);
    pp_mg_write(t, MQ_REJECTED_DELETE, "sss", b->client, from, end);
    pp_mg_write(t, MQ_CLEAN_BATCH, "s", b->id);
}

void pp_mg_clean(struct pp_mg_thread *t, struct pp_store_clean *r)
{
    struct old_batch b = {0}; /* the batch that ended first */
    int64_t before_ms = pp_mg_before_ms(t, r->finished_before_ms);
    r->items = 0;
    if (r->limit)
        mend(t, before_ms);
    while (r->items < r->limit && pp_mg_one(t, MQ_CLEAN_OLDEST, batch_fields, &t->tmp, &b, "i", before_ms)) {
        struct old_revision *items;
        size_t n, left = r->limit - r->items;
        struct pp_mg_page page = {&items, &n, NULL, sizeof *items, left < SLICE ? left : SLICE, &t->tmp};
        pp_mg_rows(t, MQ_CLEAN_ITEMS, item_fields, page, "ssi", b.client, b.id, (int64_t)page.limit);
        if (n > 0)
            forget_items(t, &b, items, n);
        if (t->err == PP_OK)
            r->items += n;
        if (n < page.limit)
            forget_batch(t, &b);
        pp_arena_fini(&t->tmp);
    }
}
