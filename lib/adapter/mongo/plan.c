/* plan.c: the steps of planning a chunk. README.md, "plan", says why in this order. Each can be repeated. */
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "plan.h"

/* --- the batch --- */

static void batch_filter(const struct pp_mg_planning *p, bson_t *filter)
{
    bson_init(filter);
    BSON_APPEND_UTF8(filter, F_ID, p->r->batch_id);
}

/* {$setOnInsert: {c}, $set: {rf, cr, ni, np}, $max: {pb: items begun}} */
static void build_begin(const struct pp_store_plan *r, int64_t begun, bson_t *update)
{
    bson_t sub;
    bson_init(update);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$setOnInsert", &sub);
    BSON_APPEND_UTF8(&sub, F_CLIENT, r->client);
    bson_append_document_end(update, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &sub);
    BSON_APPEND_INT32(&sub, F_REFRESH, (int32_t)r->refresh);
    BSON_APPEND_INT64(&sub, F_CREATED, r->batch_created_at);
    BSON_APPEND_INT64(&sub, F_N_ITEMS, (int64_t)r->batch_items);
    BSON_APPEND_INT64(&sub, F_N_PHOTOS, (int64_t)r->batch_photos);
    bson_append_document_end(update, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$max", &sub);
    BSON_APPEND_INT64(&sub, F_BEGUN, begun);
    bson_append_document_end(update, &sub);
}

static enum pp_err begin_batch(struct pp_mg_planning *p)
{
    int64_t lowest = INT64_MAX, highest = 0;
    bson_t filter, update, reply, was;
    bool found;
    for (size_t i = 0; i < p->r->n; i++) {
        int64_t index = p->r->items[i].index;
        lowest = index < lowest ? index : lowest;
        highest = index >= highest ? index + 1 : highest;
    }
    batch_filter(p, &filter);
    build_begin(p->r, highest, &update);
    enum pp_err err =
        pp_mg_find_and_modify(p->t, PP_MG_BATCHES, &filter, &update, true, false, &reply, &was, &found);
    if (err == PP_OK && found) {
        p->begun = pp_mg_doc_int(&was, F_BEGUN) > lowest;
        p->cancelled = pp_mg_doc_int(&was, F_CANCELLED) != 0;
        p->planned = pp_mg_doc_int(&was, F_PLANNED) != 0;
        p->numbered = pp_mg_doc_int(&was, F_NUMBERED);
    }
    bson_destroy(&reply);
    bson_destroy(&filter);
    bson_destroy(&update);
    return err;
}

/* {$set: {pl}, $max: {pd}}, as far as there is something to be said; empty: there is not. */
static void build_end(const struct pp_mg_planning *p, bson_t *update)
{
    int64_t numbered = 0;
    bson_t sub;
    bson_init(update);
    if (p->r->last && !p->planned) {
        BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &sub);
        BSON_APPEND_BOOL(&sub, F_PLANNED, true);
        bson_append_document_end(update, &sub);
    }
    for (size_t i = 0; i < p->r->n; i++)
        if (p->rows[i].seq > 0 && p->rows[i].item->index >= numbered)
            numbered = p->rows[i].item->index + 1;
    if (numbered > p->numbered) {
        BSON_APPEND_DOCUMENT_BEGIN(update, "$max", &sub);
        BSON_APPEND_INT64(&sub, F_NUMBERED, numbered);
        bson_append_document_end(update, &sub);
    }
}

/* Planned to its end, if this was the last chunk; its items' numbers are right. *cancelled: somebody has
 * cancelled it meanwhile. */
static enum pp_err end_batch(struct pp_mg_planning *p, bool *cancelled)
{
    bson_t filter, update, reply, doc;
    bool found;
    enum pp_err err = PP_OK, end;
    const bson_t *row;
    batch_filter(p, &filter);
    build_end(p, &update);
    *cancelled = false;
    if (!bson_empty(&update)) {
        err = pp_mg_find_and_modify(p->t, PP_MG_BATCHES, &filter, &update, false, true, &reply, &doc, &found);
        *cancelled = err == PP_OK && found && pp_mg_doc_int(&doc, F_CANCELLED) != 0;
        bson_destroy(&reply);
    } else {
        struct pp_mg_rows rows = pp_mg_find(p->t, PP_MG_BATCHES, &filter, NULL);
        while ((row = pp_mg_next(&rows)))
            *cancelled = pp_mg_doc_int(row, F_CANCELLED) != 0;
        end = pp_mg_rows_end(&rows);
        err = end;
    }
    bson_destroy(&filter);
    bson_destroy(&update);
    return err;
}

/* --- skips --- */

static bool skipped_before(const struct pp_plan_item *item, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (item->photos[i].outcome.kind == PP_OUTCOME_SKIPPED &&
            !memcmp(&item->photos[i].key, &item->photos[n].key, sizeof(struct pp_key)))
            return true;
    return false;
}

static void add_skip(struct pp_mg_planning *p, struct pp_mg_bulk *bulk, const struct pp_key *key)
{
    bson_t sub, filter = BSON_INITIALIZER, update = BSON_INITIALIZER;
    pp_mg_put_key(&filter, F_ID, key);
    BSON_APPEND_UTF8(&filter, F_CLIENT, p->r->client);
    pp_mg_put_exists(&filter, F_FAIL_CODE, true);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$inc", &sub);
    BSON_APPEND_INT64(&sub, F_SKIPS, 1);
    bson_append_document_end(&update, &sub);
    pp_mg_bulk_update(bulk, &filter, &update, false);
    bson_destroy(&filter);
    bson_destroy(&update);
}

/* One more import answered from the record, for each new item. A crash between may lose it: an import more
 * until the photo is asked for again. */
static enum pp_err count_skips(struct pp_mg_planning *p)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, p->t, PP_MG_PHOTOS);
    for (size_t i = 0; i < p->r->n; i++) {
        const struct pp_plan_item *item = p->rows[i].item;
        for (uint32_t k = 0; k < item->n_photos && p->rows[i].inserted && !p->cancelled; k++)
            if (item->photos[k].outcome.kind == PP_OUTCOME_SKIPPED && !skipped_before(item, k))
                add_skip(p, &bulk, &item->photos[k].key);
    }
    return pp_mg_bulk_run(&bulk);
}

/* --- older revisions --- */

struct older {
    const char **ids;
    size_t n, cap;
};

static enum pp_err add_older(struct pp_mg_planning *p, struct older *o, const char *id)
{
    if (o->n == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 64;
        const char **more = pp_arena_array(&p->t->tmp, cap, sizeof *more);
        if (!more)
            return PP_ENOMEM;
        if (o->n)
            memcpy(more, o->ids, o->n * sizeof *more);
        o->ids = more;
        o->cap = cap;
    }
    o->ids[o->n++] = id;
    return id ? PP_OK : PP_ENOMEM;
}

static bool had_before(const struct pp_mg_plan_row *row)
{
    return row->repeated && row->item->revision > 1;
}

/* An open revision of an item that was planned before: older than what this batch has made of it? */
static enum pp_err read_older(struct pp_mg_planning *p, struct older *o, const bson_t *doc)
{
    const char *id = pp_mg_doc_text(doc, F_ID), *name = pp_mg_doc_text(doc, F_ITEM);
    size_t i = name ? pp_mg_plan_first(p, name) : p->r->n;
    if (!id || i == p->r->n || strcmp(p->by_name[i]->item->id, name) != 0)
        return PP_ECORRUPT;
    if (pp_mg_doc_int(doc, F_REVISION) >= p->by_name[i]->item->revision)
        return PP_OK;
    return add_older(p, o, pp_arena_strdup(&p->t->tmp, id));
}

/* Of a chunk that had been begun, every older open revision: who planned it may have died before this step.
 */
static enum pp_err find_older(struct pp_mg_planning *p, struct older *o)
{
    bson_t projection, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    const bson_t *doc;
    enum pp_err err = PP_OK, last;
    size_t n = 0;
    const char **names = pp_arena_array(&p->t->tmp, p->r->n, sizeof *names);
    for (size_t i = 0; names && i < p->r->n; i++)
        if (had_before(&p->rows[i]))
            names[n++] = p->rows[i].item->id;
    if (n == 0)
        return names ? PP_OK : PP_ENOMEM;
    BSON_APPEND_UTF8(&filter, F_CLIENT, p->r->client);
    pp_mg_put_texts_in(&filter, F_ITEM, names, n);
    BSON_APPEND_INT32(&filter, F_SEQ, 0);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
    BSON_APPEND_INT32(&projection, F_ITEM, 1);
    BSON_APPEND_INT32(&projection, F_REVISION, 1);
    bson_append_document_end(&opts, &projection);
    pp_mg_hint(&opts, "newest");
    struct pp_mg_rows rows = pp_mg_find(p->t, PP_MG_ITEMS, &filter, &opts);
    while (err == PP_OK && (doc = pp_mg_next(&rows)))
        err = read_older(p, o, doc);
    last = pp_mg_rows_end(&rows);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return err != PP_OK ? err : last;
}

static enum pp_err supersede(struct pp_mg_planning *p)
{
    struct older o = {0};
    struct pp_mg_closed closed = {0};
    enum pp_err err = p->begun ? find_older(p, &o) : PP_OK;
    for (size_t i = 0; i < p->r->n && err == PP_OK; i++) {
        const struct pp_mg_plan_row *row = &p->rows[i];
        if (row->inserted && row->newest_open)
            err = add_older(p, &o, pp_mg_item_id(&p->t->tmp, p->r->client, row->item->id, row->newest));
    }
    return err == PP_OK ? pp_mg_items_close(p->t, p->r->client, o.ids, o.n, PP_ITEM_SUPERSEDED, p->r->now_ms,
                                            &p->moved, &closed)
                        : err;
}

/* --- together --- */

static int by_item_id(const void *a, const void *b)
{
    return strcmp((*(struct pp_mg_plan_row *const *)a)->item->id,
                  (*(struct pp_mg_plan_row *const *)b)->item->id);
}

static enum pp_err start(struct pp_mg_planning *p)
{
    struct pp_store_plan *r = p->r;
    p->rows = pp_arena_array(&p->t->tmp, r->n, sizeof *p->rows);
    p->by_name = pp_arena_array(&p->t->tmp, r->n, sizeof *p->by_name);
    r->backlog = NULL;
    r->n_backlog = 0;
    r->tasks_opened = r->items_finished = 0;
    if (!p->rows || !p->by_name)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        p->rows[i].item = &r->items[i];
        p->by_name[i] = &p->rows[i];
    }
    qsort(p->by_name, r->n, sizeof *p->by_name, by_item_id);
    for (int q = 0; q < PP_QUEUES; q++)
        p->due[q] = INT64_MAX;
    p->moved.arena = &p->t->tmp;
    return PP_OK;
}

/* Cancelled since we began, or since somebody did who was interrupted: what was made open ends, too, and so
 * do tasks made after their items had ended. */
static enum pp_err cancel_rest(struct pp_mg_planning *p)
{
    struct pp_mg_closed closed = {0};
    enum pp_err err = pp_mg_cancel_open(p->t, p->r->batch_id, p->r->client, p->r->now_ms, &p->moved, &closed);
    for (size_t i = 0; i < p->r->n && err == PP_OK; i++)
        if (p->rows[i].n_open)
            err = pp_mg_leave(p->t, p->r->client, p->rows[i].open, p->rows[i].n_open);
    return err;
}

/* Then whatever has nothing open is finished. */
static enum pp_err end(struct pp_mg_planning *p)
{
    bool cancelled;
    enum pp_err err = end_batch(p, &cancelled);
    for (size_t i = 0; i < p->n_blocks && err == PP_OK; i++) /* else they lapse */
        pp_mg_seq_close(p->t, &p->blocks[i]);
    if (err == PP_OK && cancelled && (!p->cancelled || p->begun))
        err = cancel_rest(p);
    if (err == PP_OK && (p->r->last || p->planned) &&
        !pp_mg_moved_batch(&p->moved, p->r->batch_id, p->r->client))
        err = PP_ENOMEM;
    return err == PP_OK && p->moved.n ? pp_mg_batches_check(p->t, &p->moved, true, p->r->now_ms) : err;
}

static enum pp_err report(struct pp_mg_planning *p)
{
    struct pp_store_plan *r = p->r;
    for (size_t i = 0; i < r->n; i++)
        r->items_finished += p->rows[i].inserted && p->rows[i].status != PP_ITEM_OPEN;
    r->items_finished += p->moved.items_finished;
    r->backlog = pp_arena_array(r->req.arena, PP_QUEUES, sizeof *r->backlog);
    const char *client = pp_arena_strdup(r->req.arena, r->client);
    if (!r->backlog || !client)
        return PP_ENOMEM;
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        if (p->due[q] != INT64_MAX)
            r->backlog[r->n_backlog++] = (struct pp_backlog_row){client, q, p->due[q]};
    return PP_OK;
}

enum pp_err pp_mg_plan(struct pp_mg_thread *t, struct pp_store_plan *r)
{
    static enum pp_err (*const steps[])(struct pp_mg_planning *) = {start,
                                                                    pp_mg_plan_newest,
                                                                    begin_batch,
                                                                    pp_mg_plan_items,
                                                                    pp_mg_plan_ensure,
                                                                    count_skips,
                                                                    supersede,
                                                                    end,
                                                                    report};
    struct pp_mg_planning p = {.t = t, .r = r};
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && err == PP_OK; i++)
        err = steps[i](&p);
    return err;
}
