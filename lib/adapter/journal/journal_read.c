/* journal_read.c: the journal's operations other than append.
 *
 * The answer is that of the shared queue (`inner`), plus entries that are only in the local log
 * (`own`). While the shared queue is away the journal answers from the local log, and the answer
 * lacks entries that other nodes accepted. */
#include <string.h>

#include "adapter/journal/journal_internal.h"

/* --- answers, one function for each operation --- */

static void end_ack(struct jq_op *op)
{
    jq_release(op->q, op->sub.ack.batch_ids, op->sub.ack.n);
    jq_end(op, PP_OK);
}

static void on_acked(struct pp_req *req)
{
    struct jq_op *op = req->data;
    struct jq *q = op->q;

    if (req->err != PP_OK)
        jq_end(op, req->err);
    else if (!q->loaded && !q->closing)
        pp_list_push(&q->early_acks, &op->node);
    else
        end_ack(op);
}

void jq_ack_early(struct jq *q)
{
    struct pp_node *node;
    while ((node = pp_list_pop(&q->early_acks)))
        end_ack(pp_container_of(node, struct jq_op, node));
}

static void on_inner_cleaned(struct pp_req *req)
{
    jq_end(req->data, req->err);
}

static void on_own_cleaned(struct pp_req *req)
{
    struct jq_op *op = req->data;
    if (req->err != PP_OK || op->q->closing)
        jq_end(op, req->err);
    else
        jq_go_on(op, jq_send(op, op->q->inner, JQ_clean, on_inner_cleaned));
}

/* --- entries of which the journal does not know whether they are planned --- */

/* A request about one entry, of which the shared queue has said that it does not have it. */
struct jq_one {
    struct jq_op op;
    const char *batch_id; /* belongs to the caller's request */
    enum pp_err there;    /* a cancel: the answer of the shared queue */
};

/* The shared queue does not have the entry. Returns true if that may mean that the entry is planned
 * as well as that the shared queue has lost it: then the journal must ask. It knows nothing of any
 * entry before it is loaded. */
static bool may_be_planned(struct jq *q, const char *batch_id)
{
    const struct jq_entry *e = jq_find(q, batch_id);
    return e ? e->state == JQ_DOUBTFUL : !q->loaded;
}

static void ask_if_planned(struct jq_one *one, void (*done)(struct pp_req *req))
{
    one->op.sub.check = (struct pp_ingest_check){.batch_ids = &one->batch_id, .n = 1};
    jq_go_on(&one->op, jq_send(&one->op, one->op.q->inner, JQ_check, done));
}

/* Returns true if the answer to the question says that the entry is planned; then releases it. */
static bool is_planned(struct jq_one *one)
{
    const struct pp_ingest_check *check = &one->op.sub.check;
    bool planned = check->req.err == PP_OK && check->states[0] == PP_INGEST_PLANNED;

    if (planned && jq_find(one->op.q, one->batch_id))
        jq_release(one->op.q, &one->batch_id, 1);
    return planned;
}

/* --- get --- */

/* Answers with the journal's copy of the entry if it has one, else with `err`. */
static void end_get(struct jq_op *op, enum pp_err err)
{
    struct pp_ingest_get *r = (struct pp_ingest_get *)op->r;
    const struct jq_entry *e = jq_find(op->q, r->batch_id);

    if (e)
        err = !r->client || strcmp(r->client, e->e.client) == 0 ? jq_entry_copy(r->req.arena, e, &r->entry)
                                                                : PP_ENOTFOUND;
    jq_end(op, err);
}

static void on_get_checked(struct pp_req *req)
{
    struct jq_one *one = req->data;

    if (is_planned(one))
        jq_end(&one->op, PP_ENOTFOUND);
    else
        end_get(&one->op, PP_ENOTFOUND);
}

static void on_got(struct pp_req *req)
{
    struct jq_one *one = req->data;
    struct jq *q = one->op.q;
    struct pp_ingest_get *r = (struct pp_ingest_get *)one->op.r;
    const struct jq_entry *e = jq_find(q, r->batch_id);

    r->entry = one->op.sub.get.entry;
    if (req->err == PP_ENOTFOUND && !q->closing && may_be_planned(q, r->batch_id))
        ask_if_planned(one, on_get_checked);
    else if (jq_failed(req->err) || (req->err == PP_ENOTFOUND && e && e->state == JQ_MISSING))
        end_get(&one->op, req->err);
    else
        jq_end(&one->op, req->err);
}

/* While the shared queue is away, the local log answers. */
static void on_own_got(struct pp_req *req)
{
    struct jq_one *one = req->data;

    ((struct pp_ingest_get *)one->op.r)->entry = one->op.sub.get.entry;
    if (jq_failed(req->err))
        end_get(&one->op, req->err);
    else
        jq_end(&one->op, req->err);
}

/* --- list --- */

/* Inserts a copy of `e` into r->entries, which are ordered by id, newest first, and at most
 * r->limit. Does nothing if the entry is already there. */
static enum pp_err merge_entry(struct pp_ingest_list *r, const struct jq_entry *e)
{
    size_t i = 0;
    int order = -1;
    pp_assert(r->n <= r->limit, "a list is longer than its limit");
    while (i < r->n && (order = strcmp(r->entries[i].batch_id, e->batch_id)) > 0)
        i++;
    if (i < r->n && order == 0)
        return PP_OK;
    size_t n = r->n;
    if (n == r->limit) {
        r->more = true;
        if (i == n)
            return PP_OK;
        n--; /* the oldest entry is dropped */
    }
    memmove(&r->entries[i + 1], &r->entries[i], (n - i) * sizeof *r->entries);
    r->n = n + 1;
    return jq_entry_copy(r->req.arena, e, &r->entries[i]);
}

static enum pp_err merge_missing(struct jq *q, struct pp_ingest_list *r)
{
    struct pp_ingest_entry *entries = pp_arena_array(r->req.arena, r->limit, sizeof *entries);
    enum pp_err err = entries ? PP_OK : PP_ENOMEM;
    if (entries && r->n)
        memcpy(entries, r->entries, r->n * sizeof *entries);
    r->entries = entries;
    pp_list_each (node, &q->open) {
        const struct jq_entry *e = pp_container_of(node, struct jq_entry, node);
        if (err != PP_OK || e->state != JQ_MISSING || (r->client && strcmp(r->client, e->e.client) != 0) ||
            (r->after && strcmp(e->batch_id, r->after) >= 0))
            continue;
        err = merge_entry(r, e);
    }
    return err;
}

static void on_own_listed(struct pp_req *req)
{
    struct jq_op *op = req->data;
    struct pp_ingest_list *r = (struct pp_ingest_list *)op->r;
    r->entries = op->sub.list.entries;
    r->n = op->sub.list.n;
    r->more = op->sub.list.more;
    jq_end(op, req->err);
}

static void on_listed(struct pp_req *req)
{
    struct jq_op *op = req->data;
    struct jq *q = op->q;
    struct pp_ingest_list *r = (struct pp_ingest_list *)op->r;

    if (jq_failed(req->err) && !q->closing) {
        op->sub.list = *r;
        jq_go_on(op, jq_send(op, q->own, JQ_list, on_own_listed));
        return;
    }
    if (req->err == PP_OK && !pp_list_empty(&q->open))
        req->err = merge_missing(q, &op->sub.list);
    on_own_listed(req);
}

static void add_stats(struct pp_ingest_stats *r, const struct jq_entry *e)
{
    r->entries++;
    r->photos += e->e.n_photos;
    if (r->oldest_ms == 0 || e->e.created_at < r->oldest_ms)
        r->oldest_ms = e->e.created_at;
}

static void on_own_written(struct pp_req *req)
{
    jq_end(req->data, req->err);
}

/* Answers stats. If the shared queue gave no answer, the journal counts the entries of the local
 * log and returns PP_OK, because it still accepts batches. With
 * `write` the local log must be writable in any case. */
static void on_counted(struct pp_req *req)
{
    struct jq_op *op = req->data;
    struct jq *q = op->q;
    struct pp_ingest_stats *r = (struct pp_ingest_stats *)op->r, sum = {.req = r->req};
    bool own = q->away || jq_failed(req->err);

    if (!own) {
        sum = op->sub.stats;
        sum.req = r->req;
    }
    pp_list_each (node, &q->open) {
        const struct jq_entry *e = pp_container_of(node, struct jq_entry, node);
        if (own || e->state == JQ_MISSING)
            add_stats(&sum, e);
    }
    for (int level = 0; own && level < JQ_LEVELS; level++)
        pp_list_each (node, &q->sure[level])
            add_stats(&sum, pp_container_of(node, struct jq_entry, node));
    sum.write = r->write;
    *r = sum;
    enum pp_err err = own ? PP_OK : req->err;
    if (err != PP_OK || !r->write || q->closing) {
        jq_end(op, err);
        return;
    }
    op->sub.stats = (struct pp_ingest_stats){.write = true};
    jq_go_on(op, jq_send(op, q->own, JQ_stats, on_own_written));
}

static void on_checked(struct pp_req *req)
{
    struct jq_op *op = req->data;
    struct pp_ingest_check *r = (struct pp_ingest_check *)op->r;
    r->states = op->sub.check.states;
    for (size_t i = 0; req->err == PP_OK && i < r->n; i++)
        if (r->states[i] == PP_INGEST_UNKNOWN && jq_find(op->q, r->batch_ids[i]))
            r->states[i] = PP_INGEST_WAITING;
    jq_end(op, req->err);
}

/* --- cancel --- */

static void on_own_cancelled(struct pp_req *req)
{
    struct jq_one *one = req->data;
    struct jq_entry *e = jq_find(one->op.q, one->batch_id);

    if (e && req->err == PP_OK)
        e->e.cancelled = true;
    /* If the local log does not have the entry, the shared queue's answer counts. */
    jq_end(&one->op, req->err == PP_ENOTFOUND ? one->there : req->err);
}

/* Marks the entry as cancelled in the local log, so that it stays cancelled if the round appends it
 * again. If the shared queue was not told, the round tells it later. */
static void cancel_own(struct jq_one *one)
{
    struct jq *q = one->op.q;
    struct jq_entry *e = jq_find(q, one->batch_id);

    if (e)
        e->untold |= one->there != PP_OK;
    one->op.sub.cancel = (struct pp_ingest_cancel){.batch_id = one->batch_id};
    jq_go_on(&one->op, jq_send(&one->op, q->own, JQ_cancel, on_own_cancelled));
}

static void on_cancel_checked(struct pp_req *req)
{
    struct jq_one *one = req->data;

    if (is_planned(one))
        jq_end(&one->op, PP_ENOTFOUND);
    else if (one->op.q->closing || (req->err != PP_OK && !jq_find(one->op.q, one->batch_id)))
        jq_end(&one->op, req->err == PP_OK ? PP_ECLOSED : req->err);
    else
        cancel_own(one);
}

static void on_inner_cancelled(struct pp_req *req)
{
    struct jq_one *one = req->data;
    struct jq *q = one->op.q;
    const struct jq_entry *e = jq_find(q, one->batch_id);
    /* The local log alone can cancel the entry, if the round tells the shared queue later. */
    bool own_can = e && (jq_failed(req->err) || (req->err == PP_ENOTFOUND && e->state == JQ_MISSING));

    bool over = q->closing || (!e && q->loaded);

    one->there = req->err;
    if (!over && req->err == PP_ENOTFOUND && may_be_planned(q, one->batch_id))
        ask_if_planned(one, on_cancel_checked);
    else if (!over && (req->err == PP_OK || own_can))
        cancel_own(one);
    else
        jq_end(&one->op, req->err);
}

/* --- the operations --- */

/* Says for each operation whether its first request goes to the local log (`own`) or to the shared
 * queue, and which function gets the answer. While the shared queue is away, get, list and stats go
 * to the local log. */
static const struct {
    bool own, own_if_away;
    void (*done)(struct pp_req *req), (*done_if_away)(struct pp_req *req);
} reads[] = {
    [JQ_ack] = {false, false, on_acked},
    [JQ_get] = {false, true, on_got, on_own_got},
    [JQ_list] = {false, true, on_listed, on_own_listed},
    [JQ_cancel] = {false, false, on_inner_cancelled},
    [JQ_stats] = {false, true, on_counted, on_counted},
    [JQ_clean] = {true, false, on_own_cleaned},
    [JQ_check] = {false, false, on_checked},
};

/* Begins an operation for the caller's request `r` of `size` bytes: sends a copy to a queue. */
static enum pp_err begin_read(struct pp_ingest_queue *base, struct pp_req *r, size_t size, enum jq_what what)
{
    struct jq *q = (struct jq *)base;
    enum pp_err err;
    struct jq_one *one = (struct jq_one *)jq_op_new(q, sizeof *one, r, &err);
    if (!one)
        return err;
    struct jq_op *op = &one->op;
    bool away = q->away && reads[what].own_if_away;
    pp_assert(size <= sizeof op->sub, "a request is larger than its copy");
    memcpy(&op->sub, r, size);
    one->batch_id = what == JQ_get      ? op->sub.get.batch_id
                    : what == JQ_cancel ? op->sub.cancel.batch_id
                                        : NULL;
    err = jq_send(op, reads[what].own || away ? q->own : q->inner, what,
                  away ? reads[what].done_if_away : reads[what].done);
    if (err != PP_OK)
        jq_drop(op);
    return err;
}

#define READ(name, type)                                             \
    enum pp_err jq_##name(struct pp_ingest_queue *q, struct type *r) \
    {                                                                \
        return begin_read(q, &r->req, sizeof *r, JQ_##name);         \
    }
READ(ack, pp_ingest_ack)
READ(get, pp_ingest_get)
READ(cancel, pp_ingest_cancel)
READ(stats, pp_ingest_stats)
READ(clean, pp_ingest_clean)
READ(check, pp_ingest_check)

enum pp_err jq_list(struct pp_ingest_queue *q, struct pp_ingest_list *r)
{
    r->n = 0;
    r->more = false;
    return begin_read(q, &r->req, sizeof *r, JQ_list);
}

enum pp_err jq_take(struct pp_ingest_queue *base, struct pp_ingest_take *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->take(inner, r);
}

/* An entry that is set aside is in the shared queue only. */
enum pp_err jq_list_aside(struct pp_ingest_queue *base, struct pp_ingest_list_aside *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->list_aside(inner, r);
}

enum pp_err jq_put_back(struct pp_ingest_queue *base, struct pp_ingest_put_back *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->put_back(inner, r);
}

enum pp_err jq_poison(struct pp_ingest_queue *base, struct pp_ingest_poison *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->poison(inner,
                              r); /* the round later learns from the shared queue that the entry is planned */
}
