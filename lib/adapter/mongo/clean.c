/* clean.c: retention: old batches are forgotten with their items, in slices.
 *
 * Of an item's newest revision a stub stays (_id, c, i, r), so that the next one has a number, and a result
 * id, that was never given. A revision is deleted only where a higher one is there, and the highest is never
 * deleted: no order of several cleaners and planners loses it. A crash leaves fewer items of a batch that is
 * still there: the next call goes on. */
#include <string.h>

#include "run.h"

enum { SLICE = 500, MEND = 100 };

/* --- batches that ended, and whose end nobody has written down --- */

/* Among those that could be old enough. */
static enum pp_err mend(struct pp_mg_thread *t, int64_t before_ms)
{
    struct pp_mg_moved moved = {.arena = &t->tmp};
    const bson_t *doc;
    enum pp_err err = PP_OK;
    bson_t *filter = BCON_NEW(F_FINISHED, BCON_NULL, F_PLANNED, BCON_BOOL(true), F_CREATED, "{", "$lt",
                              BCON_INT64(before_ms), "}"),
           *opts = BCON_NEW("limit", BCON_INT64(MEND), "projection", "{", F_CLIENT, BCON_INT32(1), "}");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_BATCHES, filter, opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows))) {
        const char *id = pp_mg_doc_text(doc, F_ID), *client = pp_mg_doc_text(doc, F_CLIENT);
        if (!id || !client)
            err = PP_ECORRUPT;
        else if (!pp_mg_moved_batch(&moved, id, client))
            err = PP_ENOMEM;
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(filter);
    bson_destroy(opts);
    if (err != PP_OK || end != PP_OK || moved.n == 0)
        return err != PP_OK ? err : end;
    return pp_mg_batches_check(t, &moved, true, 0);
}

/* --- items --- */

struct slice {
    const char *client, *batch;
    const char **ids, **items; /* documents' _ids, items' */
    uint32_t *revisions, *newest;
    size_t n, room;
};

static enum pp_err slice_init(struct pp_mg_thread *t, size_t room, struct slice *s)
{
    *s = (struct slice){.room = room};
    s->ids = pp_arena_array(&t->tmp, room, sizeof *s->ids);
    s->items = pp_arena_array(&t->tmp, room, sizeof *s->items);
    s->revisions = pp_arena_array(&t->tmp, room, sizeof *s->revisions);
    s->newest = pp_arena_array(&t->tmp, room, sizeof *s->newest);
    return s->ids && s->items && s->revisions && s->newest ? PP_OK : PP_ENOMEM;
}

/* The batch that ended first, if before then; else s->batch is NULL. */
static enum pp_err find_old(struct pp_mg_thread *t, int64_t before_ms, struct slice *s)
{
    bson_t *filter = BCON_NEW(F_FINISHED, "{", "$lt", BCON_INT64(before_ms), "}"),
           *opts = BCON_NEW("sort", "{", F_FINISHED, BCON_INT32(1), "}", "limit", BCON_INT64(1), "projection",
                            "{", F_CLIENT, BCON_INT32(1), "}");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_BATCHES, filter, opts);
    const bson_t *doc = pp_mg_next(&rows);
    const char *id = doc ? pp_mg_doc_text(doc, F_ID) : NULL,
               *client = doc ? pp_mg_doc_text(doc, F_CLIENT) : NULL;
    s->batch = id ? pp_arena_strdup(&t->tmp, id) : NULL;
    s->client = client ? pp_arena_strdup(&t->tmp, client) : NULL;
    enum pp_err err = doc && (!s->batch || !s->client) ? PP_ENOMEM : PP_OK, end = pp_mg_rows_end(&rows);
    bson_destroy(filter);
    bson_destroy(opts);
    return end != PP_OK ? end : err;
}

static enum pp_err read_slice(struct pp_mg_thread *t, struct slice *s)
{
    const bson_t *doc;
    enum pp_err err = PP_OK;
    bson_t *filter = BCON_NEW(F_CLIENT, BCON_UTF8(s->client), F_BATCH, BCON_UTF8(s->batch)),
           *opts = BCON_NEW("limit", BCON_INT64((int64_t)s->room), "projection", "{", F_ITEM, BCON_INT32(1),
                            F_REVISION, BCON_INT32(1), "}");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, filter, opts);
    while (err == PP_OK && s->n < s->room && (doc = pp_mg_next(&rows))) {
        const char *id = pp_mg_doc_text(doc, F_ID), *item = pp_mg_doc_text(doc, F_ITEM);
        s->revisions[s->n] = (uint32_t)pp_mg_doc_int(doc, F_REVISION);
        s->ids[s->n] = id ? pp_arena_strdup(&t->tmp, id) : NULL;
        s->items[s->n] = item ? pp_arena_strdup(&t->tmp, item) : NULL;
        if (!s->ids[s->n] || !s->items[s->n])
            err = id && item ? PP_ENOMEM : PP_ECORRUPT;
        s->n++;
    }
    enum pp_err end = pp_mg_rows_end(&rows);
    bson_destroy(filter);
    bson_destroy(opts);
    return err != PP_OK ? err : end;
}

/* The item becomes a stub, and an older stub goes. */
static void add_stub(struct pp_mg_bulk *bulk, const struct slice *s, const bson_t *item, size_t i)
{
    bson_t *update = BCON_NEW("0", "{", "$project", "{", F_CLIENT, BCON_INT32(1), F_ITEM, BCON_INT32(1),
                              F_REVISION, BCON_INT32(1), "}", "}");
    bson_t *older =
        BCON_NEW(F_CLIENT, BCON_UTF8(s->client), F_ITEM, BCON_UTF8(s->items[i]), F_REVISION, "{", "$lt",
                 BCON_INT64(s->revisions[i]), "}", F_BATCH, "{", "$exists", BCON_BOOL(false), "}");
    pp_mg_bulk_update(bulk, item, update, false);
    if (s->revisions[i] > 1)
        pp_mg_bulk_remove(bulk, older);
    bson_destroy(update);
    bson_destroy(older);
}

static enum pp_err forget_slice(struct pp_mg_thread *t, struct slice *s)
{
    struct pp_mg_bulk bulk;
    enum pp_err err = pp_mg_newest(t, s->client, s->items, s->n, s->newest);
    if (err != PP_OK)
        return err;
    pp_mg_bulk_init(&bulk, t, PP_MG_ITEMS);
    for (size_t i = 0; i < s->n; i++) {
        bson_t *item = BCON_NEW(F_CLIENT, BCON_UTF8(s->client), F_ID, BCON_UTF8(s->ids[i]), F_BATCH,
                                BCON_UTF8(s->batch));
        if (s->newest[i] > s->revisions[i])
            pp_mg_bulk_remove(&bulk, item);
        else
            add_stub(&bulk, s, item, i);
        bson_destroy(item);
    }
    return pp_mg_bulk_run(&bulk);
}

static enum pp_err forget_batch(struct pp_mg_thread *t, const char *batch)
{
    struct pp_mg_bulk bulk;
    bson_t filter = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&filter, F_ID, batch);
    pp_mg_bulk_init(&bulk, t, PP_MG_BATCHES);
    pp_mg_bulk_remove(&bulk, &filter);
    bson_destroy(&filter);
    return pp_mg_bulk_run(&bulk);
}

enum pp_err pp_mg_clean(struct pp_mg_thread *t, struct pp_store_clean *r)
{
    struct slice s;
    r->items = 0;
    enum pp_err err = r->limit ? mend(t, r->finished_before_ms) : PP_OK;
    while (err == PP_OK && r->items < r->limit) {
        size_t left = r->limit - r->items, room = left < SLICE ? left : SLICE;
        err = slice_init(t, room, &s);
        if (err == PP_OK)
            err = find_old(t, r->finished_before_ms, &s);
        if (err != PP_OK || !s.batch)
            break;
        err = read_slice(t, &s);
        if (err == PP_OK && s.n > 0)
            err = forget_slice(t, &s);
        if (err == PP_OK)
            r->items += s.n;
        if (err == PP_OK && s.n < room)
            err = forget_batch(t, s.batch);
        pp_arena_fini(&t->tmp);
    }
    return err;
}
