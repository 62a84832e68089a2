/* journal_read.c: the operations other than append. See journal_internal.h.
 *
 * The answer is that of `inner`, the queue that the journal wraps, plus entries that are only in
 * `own`, the journal's own durable log. While inner is away the journal answers from own, and the
 * answer lacks entries that other nodes accepted. */
#include <string.h>

#include "adapter/journal/journal_internal.h"

enum read_op { READ_ack, READ_get, READ_list, READ_cancel, READ_stats, READ_clean, READ_check, READ_OPS };

/* An operation that sends a copy of the caller's request to inner or own. */
struct jq_read {
    struct jq_op op;
    enum read_op what;
    union {
        struct pp_req req; /* the first member of each of these */
        struct pp_ingest_ack ack;
        struct pp_ingest_get get;
        struct pp_ingest_list list;
        struct pp_ingest_cancel cancel;
        struct pp_ingest_stats stats;
        struct pp_ingest_clean clean;
        struct pp_ingest_check check;
    } sub;
};

static enum pp_err send_sub(struct jq_read *s, struct pp_ingest_queue *to, void (*done)(struct pp_req *req))
{
    s->sub.req = jq_req(&s->op, done);
    switch (s->what) {
#define CASE(op) \
    case READ_##op: return to->ops->op(to, &s->sub.op)
        CASE(ack);
        CASE(get);
        CASE(list);
        CASE(cancel);
        CASE(stats);
        CASE(clean);
        CASE(check);
#undef CASE
    case READ_OPS: break;
    }
    return PP_EINVAL;
}

/* Sends the second request of an operation. If the submit fails the operation ends. */
static void send_second(struct jq_read *s, struct pp_ingest_queue *to, void (*done)(struct pp_req *req))
{
    enum pp_err err = send_sub(s, to, done);
    if (err != PP_OK)
        jq_end(&s->op, err);
}

/* --- answers, one function for each operation --- */

static void on_acked(struct pp_req *req)
{
    struct jq_read *s = req->data;
    if (req->err == PP_OK)
        jq_release(s->op.q, s->sub.ack.batch_ids, s->sub.ack.n);
    jq_end(&s->op, req->err);
}

static void on_inner_cleaned(struct pp_req *req)
{
    jq_end(&((struct jq_read *)req->data)->op, req->err);
}

static void on_own_cleaned(struct pp_req *req)
{
    struct jq_read *s = req->data;
    if (req->err != PP_OK || s->op.q->closing)
        jq_end(&s->op, req->err);
    else
        send_second(s, s->op.q->inner, on_inner_cleaned);
}

static void on_got(struct pp_req *req)
{
    struct jq_read *s = req->data;
    struct pp_ingest_get *r = (struct pp_ingest_get *)s->op.r;
    const struct jq_entry *e = jq_find(s->op.q, r->batch_id);
    enum pp_err err = req->err;

    r->entry = s->sub.get.entry;
    if (e && (jq_failed(err) || (err == PP_ENOTFOUND && e->state != JQ_SURE)))
        err = !r->client || strcmp(r->client, e->e.client) == 0 ? jq_entry_copy(r->req.arena, e, &r->entry)
                                                                : PP_ENOTFOUND;
    jq_end(&s->op, err);
}

/* Inserts a copy of `e` into r->entries, which are ordered by id, newest first, and at most
 * r->limit. Does nothing if the entry is there already. */
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
        n--; /* drops the oldest entry */
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
    struct jq_read *s = req->data;
    struct pp_ingest_list *r = (struct pp_ingest_list *)s->op.r;
    r->entries = s->sub.list.entries;
    r->n = s->sub.list.n;
    r->more = s->sub.list.more;
    jq_end(&s->op, req->err);
}

static void on_listed(struct pp_req *req)
{
    struct jq_read *s = req->data;
    struct jq *q = s->op.q;
    struct pp_ingest_list *r = (struct pp_ingest_list *)s->op.r;

    if (jq_failed(req->err) && !q->closing) {
        s->sub.list = *r;
        send_second(s, q->own, on_own_listed);
        return;
    }
    if (req->err == PP_OK && !pp_list_empty(&q->open))
        req->err = merge_missing(q, &s->sub.list);
    on_own_listed(req);
}

static void add_stats(struct pp_ingest_stats *r, const struct jq_entry *e)
{
    r->entries++;
    r->photos += e->e.n_photos;
    if (r->oldest_ms == 0 || e->e.created_at < r->oldest_ms)
        r->oldest_ms = e->e.created_at;
}

/* Answers stats. If inner gave no answer, the journal counts the entries of own and returns PP_OK,
 * because it still accepts batches. */
static void on_counted(struct pp_req *req)
{
    struct jq_read *s = req->data;
    struct jq *q = s->op.q;
    struct pp_ingest_stats *r = (struct pp_ingest_stats *)s->op.r, sum = {.req = r->req};
    bool own = q->away || jq_failed(req->err);

    if (!own) {
        sum = s->sub.stats;
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
    *r = sum;
    jq_end(&s->op, own ? PP_OK : req->err);
}

static void on_checked(struct pp_req *req)
{
    struct jq_read *s = req->data;
    struct pp_ingest_check *r = (struct pp_ingest_check *)s->op.r;
    r->states = s->sub.check.states;
    for (size_t i = 0; req->err == PP_OK && i < r->n; i++)
        if (r->states[i] == PP_INGEST_UNKNOWN && jq_find(s->op.q, r->batch_ids[i]))
            r->states[i] = PP_INGEST_WAITING;
    jq_end(&s->op, req->err);
}

static void on_own_cancelled(struct pp_req *req)
{
    struct jq_read *s = req->data;
    struct jq_entry *e = jq_find(s->op.q, s->sub.cancel.batch_id);
    if (e && req->err == PP_OK)
        e->e.cancelled = true;
    jq_end(&s->op, req->err);
}

/* Marks the entry as cancelled in own: if the round appends it to inner again, it is still
 * cancelled. If inner gave no answer, or did not have the entry, the round tells inner later. */
static void on_inner_cancelled(struct pp_req *req)
{
    struct jq_read *s = req->data;
    struct jq *q = s->op.q;
    struct jq_entry *e = jq_find(q, s->sub.cancel.batch_id);
    enum pp_err err = req->err;
    bool late = jq_failed(err) || (err == PP_ENOTFOUND && e && e->state != JQ_SURE);

    if (!e || q->closing || (err != PP_OK && !late)) {
        jq_end(&s->op, err);
        return;
    }
    e->untold |= late;
    send_second(s, q->own, on_own_cancelled);
}

/* --- the operations --- */

/* Which queue gets the first request of each operation, and the function that gets the answer.
 * While inner is away, get, list and stats go to own. */
static const struct {
    bool own, own_if_away;
    void (*done)(struct pp_req *req), (*done_if_away)(struct pp_req *req);
} reads[READ_OPS] = {
    [READ_ack] = {false, false, on_acked},
    [READ_get] = {false, true, on_got, on_got},
    [READ_list] = {false, true, on_listed, on_own_listed},
    [READ_cancel] = {false, false, on_inner_cancelled},
    [READ_stats] = {false, true, on_counted, on_counted},
    [READ_clean] = {true, false, on_own_cleaned},
    [READ_check] = {false, false, on_checked},
};

/* Begins an operation for the caller's request `r` of `size` bytes. */
static enum pp_err begin_read(struct pp_ingest_queue *base, struct pp_req *r, size_t size, enum read_op what)
{
    struct jq *q = (struct jq *)base;
    enum pp_err err;
    struct jq_read *s = (struct jq_read *)jq_op_new(q, sizeof *s, r, &err);
    if (!s)
        return err;
    bool away = q->away && reads[what].own_if_away;
    pp_assert(size <= sizeof s->sub, "a request is larger than its copy");
    memcpy(&s->sub, r, size);
    s->what = what;
    err = send_sub(s, reads[what].own || away ? q->own : q->inner,
                   away ? reads[what].done_if_away : reads[what].done);
    if (err != PP_OK)
        jq_drop(&s->op);
    return err;
}

#define READ(name, type)                                             \
    enum pp_err jq_##name(struct pp_ingest_queue *q, struct type *r) \
    {                                                                \
        return begin_read(q, &r->req, sizeof *r, READ_##name);       \
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
    return begin_read(q, &r->req, sizeof *r, READ_list);
}

enum pp_err jq_take(struct pp_ingest_queue *base, struct pp_ingest_take *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->take(inner, r);
}

enum pp_err jq_poison(struct pp_ingest_queue *base, struct pp_ingest_poison *r)
{
    struct pp_ingest_queue *inner = ((struct jq *)base)->inner;
    return inner->ops->poison(inner, r); /* the round learns from inner later that the entry is planned */
}
