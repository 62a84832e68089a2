/* plan.c: the steps of planning a chunk. Each can be repeated. README.md, "plan", explains their
 * order. */
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "ops.h"
#include "plan.h"

/* --- the batch --- */

static enum pp_err begin_batch(struct pp_mg_planning *p)
{
    const struct pp_store_plan *r = p->r;
    int64_t highest = 0;
    p->lowest = INT64_MAX;
    for (size_t i = 0; i < r->n; i++) {
        int64_t index = r->items[i].index;
        p->lowest = index < p->lowest ? index : p->lowest;
        highest = index >= highest ? index + 1 : highest;
    }
    const bson_t *was =
        pp_mg_modify(p->t, MQ_BATCH_BEGIN, "ssdiiii", r->batch_id, r->client, (int)r->refresh,
                     r->batch_created_at, (int64_t)r->batch_items, (int64_t)r->batch_photos, highest);
    p->begun = was && pp_mg_doc_int(was, "pb") > p->lowest;
    p->cancelled = was && pp_mg_doc_int(was, "ca") != 0;
    p->planned = was && pp_mg_doc_int(was, "pl") != 0;
    p->numbered = was ? pp_mg_doc_int(was, "pd") : 0;
    return p->t->err;
}

/* Records up to which index the items' numbers are safe (`pd`), and, if this chunk is the batch's
 * last one, that it is planned. Sets *cancelled if another call has cancelled the batch meanwhile.
 */
static enum pp_err end_batch(struct pp_mg_planning *p, bool *cancelled)
{
    int64_t numbered = 0;
    bool last = p->r->last && !p->planned;
    for (size_t i = 0; i < p->r->n; i++)
        if (p->rows[i].seq > 0 && p->rows[i].item->index >= numbered)
            numbered = p->rows[i].item->index + 1;
    const bson_t *doc = !last && numbered <= p->numbered
                            ? pp_mg_first(p->t, MQ_BATCH_LOOK, "s", p->r->batch_id)
                            : pp_mg_modify(p->t, MQ_BATCH_PLANNED, "syI", p->r->batch_id, (int)last,
                                           numbered > p->numbered ? &numbered : NULL);
    *cancelled = doc && pp_mg_doc_int(doc, "ca") != 0;
    return p->t->err;
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

/* Counts, for each new item, one more import that was answered from the record. A crash may lose
 * the count: the photo is then fetched one import later. */
static enum pp_err count_skips(struct pp_mg_planning *p)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, p->t);
    for (size_t i = 0; i < p->r->n; i++) {
        const struct pp_plan_item *item = p->rows[i].item;
        for (uint32_t k = 0; k < item->n_photos && p->rows[i].inserted && !p->cancelled; k++)
            if (item->photos[k].outcome.kind == PP_OUTCOME_SKIPPED && !skipped_before(item, k))
                pp_mg_bulk_add(&bulk, MQ_SKIP, "ks", &item->photos[k].key, p->r->client);
    }
    return pp_mg_bulk_run(&bulk);
}

/* --- older revisions --- */

struct older {
    struct pp_mg_planning *p;
    const char **ids;
    size_t n, cap;
};

static enum pp_err add_older(struct older *o, const char *id)
{
    if (!id || !pp_mg_grow(&o->p->t->tmp, &o->ids, sizeof *o->ids, o->n, &o->cap))
        return PP_ENOMEM;
    o->ids[o->n++] = id;
    return PP_OK;
}

static bool had_before(const struct pp_mg_plan_row *row)
{
    return row->repeated && row->item->revision > 1;
}

/* Collects an open revision if it is older than the one that this batch made of the same item. */
static enum pp_err on_open_revision(void *data, const bson_t *doc)
{
    struct older *o = data;
    const struct pp_mg_planning *p = o->p;
    const char *name = pp_mg_doc_text(doc, "i"), *id;
    size_t i = name ? pp_mg_plan_first(p, name) : p->r->n;
    if (i == p->r->n || strcmp(p->by_name[i]->item->id, name) != 0)
        return PP_ECORRUPT;
    if (pp_mg_doc_int(doc, "r") >= p->by_name[i]->item->revision)
        return PP_OK;
    enum pp_err err = pp_mg_doc_copy(doc, "_id", &p->t->tmp, &id);
    return err == PP_OK ? add_older(o, id) : err;
}

/* Finds older open revisions of a chunk that was begun before: the process that planned it may
 * have died before it superseded them. */
static enum pp_err find_older(struct pp_mg_planning *p, struct older *o)
{
    size_t n = 0;
    const char **names = pp_arena_array(&p->t->tmp, p->r->n, sizeof *names);
    for (size_t i = 0; names && i < p->r->n; i++)
        if (had_before(&p->rows[i]))
            names[n++] = p->rows[i].item->id;
    if (n == 0)
        return names ? PP_OK : PP_ENOMEM;
    return pp_mg_each(p->t, MQ_ITEMS_OLDER, on_open_revision, o, "sS", p->r->client, names, n);
}

static enum pp_err supersede(struct pp_mg_planning *p)
{
    struct older o = {.p = p};
    struct pp_mg_closed closed = {0};
    enum pp_err err = p->begun ? find_older(p, &o) : PP_OK;
    for (size_t i = 0; i < p->r->n && err == PP_OK; i++) {
        const struct pp_mg_plan_row *row = &p->rows[i];
        if (row->inserted && row->newest_open)
            err = add_older(&o, pp_mg_item_id(&p->t->tmp, p->r->client, row->item->id, row->newest));
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

static enum pp_err prepare(struct pp_mg_planning *p)
{
    struct pp_store_plan *r = p->r;
    p->rows = pp_arena_array(&p->t->tmp, r->n, sizeof *p->rows);
    p->by_name = pp_arena_array(&p->t->tmp, r->n, sizeof *p->by_name);
    p->names = pp_arena_array(&p->t->tmp, r->n, sizeof *p->names);
    r->backlog = NULL;
    r->n_backlog = 0;
    r->tasks_opened = r->items_finished = 0;
    if (!p->rows || !p->by_name || !p->names)
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

/* Cleans up after another call cancelled the batch while this call, or an earlier interrupted call,
 * planned the chunk. Cancels the items that were inserted open, and deletes tasks that were created
 * after their items had ended. */
static enum pp_err cancel_rest(struct pp_mg_planning *p)
{
    struct pp_mg_closed closed = {0};
    enum pp_err err = pp_mg_cancel_open(p->t, p->r->batch_id, p->r->client, p->r->now_ms, &p->moved, &closed);
    for (size_t i = 0; i < p->r->n && err == PP_OK; i++)
        if (p->rows[i].n_open)
            err = pp_mg_leave(p->t, p->r->client, p->rows[i].open, p->rows[i].n_open);
    return err;
}

/* Closes the blocks of numbers, and finishes batches that have no open item. */
static enum pp_err finish_chunk(struct pp_mg_planning *p)
{
    bool cancelled;
    enum pp_err err = end_batch(p, &cancelled);
    /* after a failure the blocks stay open until they lapse */
    for (size_t i = 0; i < p->n_blocks && err == PP_OK; i++)
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
    pp_assert(r->n_backlog == 0, "a plan is reported twice");
    if (!r->backlog || !client)
        return PP_ENOMEM;
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        if (p->due[q] != INT64_MAX)
            r->backlog[r->n_backlog++] = (struct pp_backlog_row){client, q, p->due[q]};
    return PP_OK;
}

enum pp_err pp_mg_plan(struct pp_mg_thread *t, struct pp_store_plan *r)
{
    static enum pp_err (*const steps[])(struct pp_mg_planning *) = {
        prepare,   pp_mg_plan_newest, begin_batch, pp_mg_plan_items, pp_mg_plan_ensure, count_skips,
        supersede, finish_chunk,      report};
    struct pp_mg_planning p = {.t = t, .r = r};
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && err == PP_OK; i++)
        err = steps[i](&p);
    return err;
}
