/* plan.c: the steps of planning a chunk. Each can be repeated. README.md, "plan", explains their
 * order. */
#include <stdlib.h>
#include <string.h>

#include "steps.h"

/* --- the batch --- */

static void begin_batch(struct pp_mg_planning *p)
{
    const struct pp_store_plan *r = p->r;
    int64_t highest = 0;
    p->lowest = INT64_MAX;
    for (size_t i = 0; i < r->n; i++) {
        int64_t index = r->items[i].index;
        p->lowest = index < p->lowest ? index : p->lowest;
        highest = index >= highest ? index + 1 : highest;
    }
    const bson_t *was = pp_mg_modify(p->t, MQ_BATCH_BEGIN, "ssdiiiisi", r->batch_id, r->client,
                                     (int)r->refresh, r->batch_created_at, (int64_t)r->batch_items,
                                     (int64_t)r->batch_photos, (int64_t)r->batch_rejected, r->label, highest);
    p->begun = was && pp_mg_doc_int(was, "pb") > p->lowest;
    p->cancelled = was && pp_mg_doc_int(was, "ca") != 0;
    p->planned = was && pp_mg_doc_int(was, "pl") != 0;
    p->numbered = was ? pp_mg_doc_int(was, "pd") : 0;
}

/* Records up to which index the items' numbers are safe (`pd`), and, if this chunk is the batch's
 * last one, that it is planned. Returns true if another call has cancelled the batch meanwhile. */
static bool end_batch(struct pp_mg_planning *p)
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
    return doc && pp_mg_doc_int(doc, "ca") != 0;
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
static void count_skips(struct pp_mg_planning *p)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, p->t);
    for (size_t i = 0; i < p->r->n; i++) {
        const struct pp_plan_item *item = p->rows[i].item;
        for (uint32_t k = 0; k < item->n_photos && p->rows[i].inserted && !p->cancelled; k++)
            if (item->photos[k].outcome.kind == PP_OUTCOME_SKIPPED && !skipped_before(item, k))
                pp_mg_bulk_add(&bulk, MQ_SKIP, "ks", &item->photos[k].key, p->r->client);
    }
    pp_mg_bulk_run(&bulk);
}

/* --- older revisions --- */

struct older {
    struct pp_mg_planning *p;
    const char **ids;
    size_t n, cap;
};

static void add_older(struct older *o, const char *id)
{
    pp_mg_require(o->p->t, id, PP_ENOMEM);
    if (id && pp_mg_grow(o->p->t, &o->p->t->tmp, &o->ids, sizeof *o->ids, o->n, &o->cap))
        o->ids[o->n++] = id;
}

/* Finds older open revisions of a chunk that was begun before: the process that planned it may
 * have died before it superseded them. */
static void find_older(struct pp_mg_planning *p, struct older *o)
{
    size_t n = 0;
    const char **names = pp_mg_array(p->t, p->r->n, sizeof *names);
    for (size_t i = 0; names && i < p->r->n; i++)
        if (p->rows[i].repeated && p->rows[i].item->revision > 1)
            names[n++] = p->rows[i].item->id;
    if (n == 0)
        return;
    pp_mg_query(p->t, MQ_ITEMS_OLDER, "sS", p->r->client, PP_MG_LIST(names, n));
    for (const bson_t *doc; (doc = pp_mg_next(p->t));) {
        size_t end, i = pp_mg_plan_rows(p, doc, "i", &end);
        pp_mg_require(p->t, i < end, PP_ECORRUPT);
        if (i < end && pp_mg_doc_int(doc, "r") < p->by_name[i]->item->revision)
            add_older(o, pp_mg_copy(p->t, doc, "_id"));
    }
}

static void supersede(struct pp_mg_planning *p)
{
    struct older o = {.p = p};
    if (p->begun)
        find_older(p, &o);
    for (size_t i = 0; i < p->r->n; i++) {
        const struct pp_mg_plan_row *row = &p->rows[i];
        if (row->inserted && row->newest_open)
            add_older(&o, pp_mg_item_id(&p->t->tmp, p->r->client, row->item->id, row->newest));
    }
    pp_mg_items_close(p->t, p->r->client, o.ids, o.n, PP_ITEM_SUPERSEDED, p->r->date_ms);
}

/* --- rejected items --- */

static void write_rejected(struct pp_mg_planning *p)
{
    struct pp_mg_bulk bulk;
    char id[PP_MG_PART_MAX];
    pp_mg_bulk_init(&bulk, p->t);
    for (size_t i = 0; i < p->r->n_rejected; i++) {
        const struct pp_rejected_part *part = &p->r->rejected[i];
        pp_mg_part_id(id, p->r->batch_id, part->number);
        pp_mg_bulk_add(&bulk, MQ_REJECTED_PUT, "ssB", id, p->r->client, part->bytes, part->n);
    }
    pp_mg_bulk_run(&bulk);
}

/* --- together --- */

static int by_item_id(const void *a, const void *b)
{
    return strcmp((*(struct pp_mg_plan_row *const *)a)->item->id,
                  (*(struct pp_mg_plan_row *const *)b)->item->id);
}

static void prepare(struct pp_mg_planning *p)
{
    struct pp_store_plan *r = p->r;
    p->rows = pp_mg_array(p->t, r->n, sizeof *p->rows);
    p->by_name = pp_mg_array(p->t, r->n, sizeof *p->by_name);
    p->names = pp_mg_array(p->t, r->n, sizeof *p->names);
    r->backlog = NULL;
    r->n_backlog = 0;
    r->tasks_opened = r->items_finished = 0;
    if (p->t->err != PP_OK)
        return;
    for (size_t i = 0; i < r->n; i++) {
        p->rows[i].item = &r->items[i];
        p->by_name[i] = &p->rows[i];
    }
    qsort(p->by_name, r->n, sizeof *p->by_name, by_item_id);
    for (int q = 0; q < PP_QUEUES; q++)
        p->due[q] = INT64_MAX;
}

/* Cleans up after another call cancelled the batch while this call, or an earlier interrupted call,
 * planned the chunk. Cancels the items that were inserted open, and deletes tasks that were created
 * after their items had ended. */
static void cancel_rest(struct pp_mg_planning *p)
{
    pp_mg_cancel_open(p->t, p->r->batch_id, p->r->client, p->r->date_ms);
    for (size_t i = 0; i < p->r->n; i++)
        if (p->rows[i].n_open)
            pp_mg_leave(p->t, p->r->client, p->rows[i].open, p->rows[i].n_open);
}

/* Closes the blocks of numbers, and finishes batches that have no open item. After a failure the
 * blocks stay open until they lapse. */
static void finish_chunk(struct pp_mg_planning *p)
{
    struct pp_mg_thread *t = p->t;
    bool cancelled = end_batch(p);
    for (size_t i = 0; i < p->n_blocks; i++)
        pp_mg_seq_close(t, &p->blocks[i]);
    if (cancelled && (!p->cancelled || p->begun))
        cancel_rest(p);
    if (p->r->last || p->planned)
        pp_mg_moved_add(t, p->r->batch_id, p->r->client, 0, 0);
    if (t->moved.n)
        pp_mg_batches_check(t, true, p->r->date_ms);
}

static void report(struct pp_mg_planning *p)
{
    struct pp_store_plan *r = p->r;
    for (size_t i = 0; i < r->n; i++)
        r->items_finished += p->rows[i].inserted && p->rows[i].status != PP_ITEM_OPEN;
    r->items_finished += p->t->moved.items_finished;
    r->backlog = pp_mg_alloc(p->t, r->req.arena, PP_QUEUES, sizeof *r->backlog);
    const char *client = pp_mg_text(p->t, r->req.arena, r->client);
    pp_assert(r->n_backlog == 0, "a plan is reported twice");
    for (uint8_t q = 0; q < PP_QUEUES && p->t->err == PP_OK; q++)
        if (p->due[q] != INT64_MAX)
            r->backlog[r->n_backlog++] = (struct pp_backlog_row){client, q, p->due[q]};
}

void pp_mg_plan(struct pp_mg_thread *t, struct pp_store_plan *r)
{
    static void (*const steps[])(struct pp_mg_planning *) = {
        prepare,           pp_mg_plan_newest, begin_batch, write_rejected, pp_mg_plan_items,
        pp_mg_plan_ensure, count_skips,       supersede,   finish_chunk,   report};
    struct pp_mg_planning p = {.t = t, .r = r};
    for (size_t i = 0; i < sizeof steps / sizeof *steps && t->err == PP_OK; i++)
        steps[i](&p);
}
