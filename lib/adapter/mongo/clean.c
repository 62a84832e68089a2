/* clean.c: retention. Deletes old batches with their items, in slices.
 *
 * A stub of each item's newest revision stays (_id, c, i, r), so that the next revision gets a
 * revision number and a result id that were never used before. A revision is deleted only while a
 * higher one exists, so concurrent cleaners and planners never lose the highest number. After a
 * crash the batch still exists with fewer items, and the next call continues. */
#include <string.h>

#include "ops.h"
#include "steps.h"

enum { SLICE = 500, MEND = 100 };

/* --- batches that have ended, but whose end is not recorded --- */

static enum pp_err on_unrecorded(void *data, const bson_t *doc)
{
    const char *id = pp_mg_doc_text(doc, "_id"), *client = pp_mg_doc_text(doc, "c");
    if (!id || !client)
        return PP_ECORRUPT;
    return pp_mg_moved_batch(data, id, client) ? PP_OK : PP_ENOMEM;
}

/* Records the end of batches that are old enough to be deleted. */
static enum pp_err mend(struct pp_mg_thread *t, int64_t before_ms)
{
    struct pp_mg_moved moved = {.arena = &t->tmp};
    enum pp_err err =
        pp_mg_each(t, MQ_CLEAN_UNRECORDED, on_unrecorded, &moved, "ii", before_ms, (int64_t)MEND);
    return err == PP_OK && moved.n > 0 ? pp_mg_batches_check(t, &moved, true, 0) : err;
}

/* --- items --- */

struct slice {
    struct pp_mg_thread *t;
    const char *client, *batch;
    const char **ids, **items; /* the _ids of the documents; the ids of the items */
    uint32_t *revisions, *newest;
    size_t n, room;
};

static enum pp_err init_slice(struct pp_mg_thread *t, size_t room, struct slice *s)
{
    *s = (struct slice){.t = t, .room = room};
    s->ids = pp_arena_array(&t->tmp, room, sizeof *s->ids);
    s->items = pp_arena_array(&t->tmp, room, sizeof *s->items);
    s->revisions = pp_arena_array(&t->tmp, room, sizeof *s->revisions);
    s->newest = pp_arena_array(&t->tmp, room, sizeof *s->newest);
    return s->ids && s->items && s->revisions && s->newest ? PP_OK : PP_ENOMEM;
}

static enum pp_err on_oldest(void *data, const bson_t *doc)
{
    struct slice *s = data;
    enum pp_err err = pp_mg_doc_copy(doc, "_id", &s->t->tmp, &s->batch);
    return err == PP_OK ? pp_mg_doc_copy(doc, "c", &s->t->tmp, &s->client) : err;
}

static enum pp_err on_item(void *data, const bson_t *doc)
{
    struct slice *s = data;
    if (s->n == s->room)
        return PP_EFULL;
    s->revisions[s->n] = (uint32_t)pp_mg_doc_int(doc, "r");
    enum pp_err err = pp_mg_doc_copy(doc, "_id", &s->t->tmp, &s->ids[s->n]);
    if (err == PP_OK)
        err = pp_mg_doc_copy(doc, "i", &s->t->tmp, &s->items[s->n]);
    s->n++;
    return err;
}

/* Turns newest revisions into stubs, and deletes the other revisions and older stubs. */
static enum pp_err forget_slice(struct pp_mg_thread *t, struct slice *s)
{
    struct pp_mg_bulk bulk;
    enum pp_err err = pp_mg_newest(t, s->client, s->items, s->n, s->newest);
    if (err != PP_OK)
        return err;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < s->n; i++) {
        bool newer = s->newest[i] > s->revisions[i];
        pp_mg_bulk_add(&bulk, newer ? MQ_CLEAN_ITEM : MQ_CLEAN_TO_STUB, "sss", s->client, s->ids[i],
                       s->batch);
        if (!newer && s->revisions[i] > 1)
            pp_mg_bulk_add(&bulk, MQ_CLEAN_OLDER_STUB, "ssi", s->client, s->items[i],
                           (int64_t)s->revisions[i]);
    }
    return pp_mg_bulk_run(&bulk);
}

enum pp_err pp_mg_clean(struct pp_mg_thread *t, struct pp_store_clean *r)
{
    struct slice s;
    r->items = 0;
    enum pp_err err = r->limit ? mend(t, r->finished_before_ms) : PP_OK;
    while (err == PP_OK && r->items < r->limit) {
        size_t left = r->limit - r->items, room = left < SLICE ? left : SLICE;
        err = init_slice(t, room, &s);
        if (err == PP_OK) /* finds the batch that ended first */
            err = pp_mg_each(t, MQ_CLEAN_OLDEST, on_oldest, &s, "i", r->finished_before_ms);
        if (err != PP_OK || !s.batch)
            break;
        err = pp_mg_each(t, MQ_CLEAN_ITEMS, on_item, &s, "ssi", s.client, s.batch, (int64_t)room);
        if (err == PP_OK && s.n > 0)
            err = forget_slice(t, &s);
        if (err == PP_OK)
            r->items += s.n;
        if (err == PP_OK && s.n < room)
            pp_mg_write(t, MQ_CLEAN_BATCH, "s", s.batch);
        err = err == PP_OK ? t->err : err;
        pp_arena_fini(&t->tmp);
    }
    return err;
}
