/* cancel.c: cancelling a batch: the mark first, so that what is planned from then on ends as cancelled; then
 * its open items, slice by slice. Repeating it goes on where it was interrupted. */
#include <string.h>

#include "run.h"

enum { SLICE = 500 };

struct cancelling {
    struct pp_mg_thread *t;
    struct pp_store_cancel *r;
    const char *client; /* whose batch it is; NULL: there is none */
};

static void batch_filter(const struct cancelling *c, bson_t *filter)
{
    bson_init(filter);
    BSON_APPEND_UTF8(filter, F_ID, c->r->batch_id);
}

static enum pp_err find_batch(struct cancelling *c)
{
    bson_t filter;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    c->client = NULL;
    batch_filter(c, &filter);
    struct pp_mg_rows rows = pp_mg_find(c->t, PP_MG_BATCHES, &filter, NULL);
    while (err == PP_OK && (doc = pp_mg_next(&rows))) {
        const char *client = pp_mg_doc_text(doc, F_CLIENT);
        c->client = client ? pp_arena_strdup(&c->t->tmp, client) : NULL;
        if (!c->client)
            err = client ? PP_ENOMEM : PP_ECORRUPT;
    }
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    return err != PP_OK ? err : end;
}

/* The caller says that it exists, though nothing of it is planned. */
static bool may_make(const struct pp_store_cancel *r)
{
    return r->created_at && r->owner && (!r->client || !strcmp(r->client, r->owner));
}

static enum pp_err make_batch(struct cancelling *c)
{
    const struct pp_store_cancel *r = c->r;
    struct pp_mg_bulk bulk;
    bson_t set, filter, update = BSON_INITIALIZER;
    batch_filter(c, &filter);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$setOnInsert", &set);
    BSON_APPEND_UTF8(&set, F_CLIENT, r->owner);
    BSON_APPEND_INT32(&set, F_REFRESH, (int32_t)r->refresh);
    BSON_APPEND_INT64(&set, F_CREATED, r->created_at);
    BSON_APPEND_INT64(&set, F_N_ITEMS, (int64_t)r->items);
    BSON_APPEND_INT64(&set, F_N_PHOTOS, (int64_t)r->photos);
    bson_append_document_end(&update, &set);
    pp_mg_bulk_init(&bulk, c->t, PP_MG_BATCHES);
    pp_mg_bulk_update(&bulk, &filter, &update, true);
    c->client = r->owner;
    bson_destroy(&filter);
    bson_destroy(&update);
    return pp_mg_bulk_run(&bulk);
}

/* Unless it is marked, or at its end. */
static enum pp_err mark_batch(struct cancelling *c)
{
    struct pp_mg_bulk bulk;
    bson_t set, filter, update = BSON_INITIALIZER;
    batch_filter(c, &filter);
    pp_mg_put_exists(&filter, F_FINISHED, false);
    pp_mg_put_exists(&filter, F_CANCELLED, false);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
    BSON_APPEND_INT64(&set, F_CANCELLED, c->r->now_ms);
    bson_append_document_end(&update, &set);
    pp_mg_bulk_init(&bulk, c->t, PP_MG_BATCHES);
    pp_mg_bulk_update(&bulk, &filter, &update, false);
    bson_destroy(&filter);
    bson_destroy(&update);
    return pp_mg_bulk_run(&bulk);
}

/* Open items of the batch, at most SLICE. */
static enum pp_err find_open(struct pp_mg_thread *t, const char *batch, const char *client, const char **ids,
                             size_t *n)
{
    bson_t projection, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, end;
    *n = 0;
    BSON_APPEND_UTF8(&filter, F_CLIENT, client);
    BSON_APPEND_UTF8(&filter, F_BATCH, batch);
    BSON_APPEND_INT32(&filter, F_SEQ, 0);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_ID, 1);
    bson_append_document_end(&opts, &projection);
    BSON_APPEND_INT64(&opts, "limit", SLICE);
    pp_mg_hint(&opts, "batch");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && *n < SLICE && (doc = pp_mg_next(&rows))) {
        const char *id = pp_mg_doc_text(doc, F_ID);
        ids[*n] = id ? pp_arena_strdup(&t->tmp, id) : NULL;
        if (!ids[(*n)++])
            err = id ? PP_ENOMEM : PP_ECORRUPT;
    }
    end = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : end;
}

enum pp_err pp_mg_cancel_open(struct pp_mg_thread *t, const char *batch, const char *client, int64_t now_ms,
                              struct pp_mg_moved *moved, struct pp_mg_closed *closed)
{
    const char *ids[SLICE];
    size_t n;
    enum pp_err err;
    do {
        err = find_open(t, batch, client, ids, &n);
        if (err == PP_OK && n > 0)
            err = pp_mg_items_close(t, client, ids, n, PP_ITEM_CANCELLED, now_ms, moved, closed);
    } while (err == PP_OK && n == SLICE);
    return err;
}

enum pp_err pp_mg_cancel(struct pp_mg_thread *t, struct pp_store_cancel *r)
{
    struct cancelling c = {.t = t, .r = r};
    struct pp_mg_moved moved = {.arena = &t->tmp};
    struct pp_mg_closed closed = {0};
    r->items_cancelled = r->photos_cancelled = 0;
    enum pp_err err = find_batch(&c);
    if (err == PP_OK && !c.client && may_make(r))
        err = make_batch(&c);
    if (err == PP_OK && (!c.client || (r->client && strcmp(r->client, c.client) != 0)))
        err = PP_ENOTFOUND;
    if (err == PP_OK)
        err = mark_batch(&c);
    if (err == PP_OK)
        err = pp_mg_cancel_open(t, r->batch_id, c.client, r->now_ms, &moved, &closed);
    if (err == PP_OK && !pp_mg_moved_batch(&moved, r->batch_id, c.client))
        err = PP_ENOMEM;
    if (err == PP_OK)
        err = pp_mg_batches_check(t, &moved, true, r->now_ms);
    r->items_cancelled = closed.items;
    r->photos_cancelled = closed.photos;
    return err;
}
