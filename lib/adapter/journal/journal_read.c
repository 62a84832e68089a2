/* journal_read.c: the journal's operations other than append.
 *
 * The answer is that of the shared queue (`inner`), plus entries that are only in the local log
 * (`own`). While the shared queue is away the journal answers from the local log, and the answer
 * lacks entries that other nodes accepted. */
#include <string.h>

#include "adapter/journal/journal_internal.h"

/* --- answers, one function for each operation --- */

static void on_acked(struct pp_req *req)
{
    struct jq_op *op = req->data;
    if (req->err == PP_OK)
        jq_release(op->q, op->sub.ack.batch_ids, op->sub.ack.n);
    jq_end(op, req->err);
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

static void on_got(struct pp_req *req)
{
    struct jq_op *op = req->data;
    struct pp_ingest_get *r = (struct pp_ingest_get *)op->r;
    const struct jq_entry *e = jq_find(op->q, r->batch_id);
    enum pp_err err = req->err;

    r->entry = op->sub.get.entry;
    if (e && (jq_failed(err) || (err == PP_ENOTFOUND && e->state != JQ_SURE)))
        err = !r->client || strcmp(r->client, e->e.client) == 0 ? jq_entry_copy(r->req.arena, e, &r->entry)
                                                                : PP_ENOTFOUND;
    jq_end(op, err);
}

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

static void on_own_cancelled(struct pp_req *req)
{
    struct jq_op *op = req->data;
    struct jq_entry *e = jq_find(op->q, op->sub.cancel.batch_id);
    if (e && req->err == PP_OK)
        e->e.cancelled = true;
    jq_end(op, req->err);
}

/* Marks the entry as cancelled in the local log, so that it stays cancelled if the round appends it
 * again. If the shared queue gave no answer, or did not have the entry, the round tells it
 * later. */
static void on_inner_cancelled(struct pp_req *req)
{
    struct jq_op *op = req->data;
    struct jq *q = op->q;
    struct jq_entry *e = jq_find(q, op->sub.cancel.batch_id);
    enum pp_err err = req->err;
    bool late = jq_failed(err) || (err == PP_ENOTFOUND && e && e->state != JQ_SURE);

    if (!e || q->closing || (err != PP_OK && !late)) {
        jq_end(op, err);
        return;
    }
    e->untold |= late;
    jq_go_on(op, jq_send(op, q->own, JQ_cancel, on_own_cancelled));
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
    [JQ_get] = {false, true, on_got, on_got},
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
    struct jq_op *op = jq_op_new(q, sizeof *op, r, &err);
    if (!op)
        return err;
    bool away = q->away && reads[what].own_if_away;
    pp_assert(size <= sizeof op->sub, "a request is larger than its copy");
    memcpy(&op->sub, r, size);
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

enum pp_err jq_poison(struct pp_ingest_queue *base, struct pp_ingest_poison *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->poison(inner,
                              r); /* the round later learns from the shared queue that the entry is planned */
}
