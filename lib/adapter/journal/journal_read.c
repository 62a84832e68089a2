/* journal_read.c: get, list, stats, check, cancel, ack, clean: inner's answer, and what only the journal
 * knows. See journal_internal.h.
 *
 * While inner is away the journal answers alone; what other nodes have accepted is then not seen. */
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_internal.h"

/* An operation with one request to inner or own at a time. */
struct reading {
    struct jq_op op;
    union {
        struct pp_ingest_ack ack;
        struct pp_ingest_get get;
        struct pp_ingest_list list;
        struct pp_ingest_cancel cancel;
        struct pp_ingest_stats stats;
        struct pp_ingest_clean clean;
        struct pp_ingest_check check;
    } sub;
};

static struct reading *begin(struct pp_ingest_queue *base, struct pp_req *r, enum pp_err *err)
{
    return (struct reading *)jq_op_new((struct jq *)base, sizeof(struct reading), r, err);
}

static enum pp_err sent(struct reading *s, enum pp_err err)
{
    if (err != PP_OK)
        jq_drop(&s->op);
    return err;
}

/* The second request of an operation: what can't be submitted is done, too. */
static void sent_on(struct reading *s, enum pp_err err)
{
    if (err != PP_OK)
        jq_end(&s->op, err);
}

/* Inner could not be asked. */
static bool failed(enum pp_err err)
{
    return err == PP_EIO || err == PP_ENOSPC || err == PP_ETIMEOUT || err == PP_EUNKNOWN;
}

/* --- ack, clean --- */

static void acked(struct pp_req *req)
{
    struct reading *s = req->data;
    const struct pp_ingest_ack *r = &s->sub.ack;
    if (req->err == PP_OK)
        jq_release(s->op.q, r->batch_ids, r->n);
    jq_end(&s->op, req->err);
}

enum pp_err jq_ack(struct pp_ingest_queue *base, struct pp_ingest_ack *r)
{
    enum pp_err err;
    struct reading *s = begin(base, &r->req, &err);
    if (!s)
        return err;
    s->sub.ack = *r;
    s->sub.ack.req = jq_req(&s->op, acked);
    return sent(s, s->op.q->inner->ops->ack(s->op.q->inner, &s->sub.ack));
}

static void cleaned(struct pp_req *req)
{
    jq_end(&((struct reading *)req->data)->op, req->err);
}

static void own_cleaned(struct pp_req *req)
{
    struct reading *s = req->data;
    struct jq *q = s->op.q;
    if (req->err != PP_OK || q->closing) {
        jq_end(&s->op, req->err);
        return;
    }
    s->sub.clean.req = jq_req(&s->op, cleaned);
    sent_on(s, q->inner->ops->clean(q->inner, &s->sub.clean));
}

enum pp_err jq_clean(struct pp_ingest_queue *base, struct pp_ingest_clean *r)
{
    enum pp_err err;
    struct reading *s = begin(base, &r->req, &err);
    if (!s)
        return err;
    s->sub.clean = *r;
    s->sub.clean.req = jq_req(&s->op, own_cleaned);
    return sent(s, s->op.q->own->ops->clean(s->op.q->own, &s->sub.clean));
}

/* --- get --- */

static void got(struct pp_req *req)
{
    struct reading *s = req->data;
    struct pp_ingest_get *r = (struct pp_ingest_get *)s->op.r;
    const struct jq_entry *e = jq_find(s->op.q, r->batch_id);
    enum pp_err err = req->err;

    r->entry = s->sub.get.entry;
    if (e && (failed(err) || (err == PP_ENOTFOUND && e->state != JQ_SURE)))
        err = !r->client || strcmp(r->client, e->e.client) == 0 ? jq_entry_copy(r->req.arena, e, &r->entry)
                                                                : PP_ENOTFOUND;
    jq_end(&s->op, err);
}

enum pp_err jq_get(struct pp_ingest_queue *base, struct pp_ingest_get *r)
{
    enum pp_err err;
    struct reading *s = begin(base, &r->req, &err);
    if (!s)
        return err;
    struct jq *q = s->op.q;
    struct pp_ingest_queue *from = q->away ? q->own : q->inner;
    s->sub.get = *r;
    s->sub.get.req = jq_req(&s->op, got);
    return sent(s, from->ops->get(from, &s->sub.get));
}

/* --- list --- */

/* Puts e into its place of r->entries (by id, newest first, at most r->limit), unless it is there. */
static enum pp_err merge(struct pp_ingest_list *r, const struct jq_entry *e)
{
    size_t i = 0;
    int order = -1;
    while (i < r->n && (order = strcmp(r->entries[i].batch_id, e->batch_id)) > 0)
        i++;
    if (i < r->n && order == 0)
        return PP_OK;
    size_t n = r->n;
    if (n == r->limit) {
        r->more = true;
        if (i == n)
            return PP_OK;
        n--; /* the oldest makes room */
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
        err = merge(r, e);
    }
    return err;
}

static void own_listed(struct pp_req *req)
{
    struct reading *s = req->data;
    struct pp_ingest_list *r = (struct pp_ingest_list *)s->op.r;
    r->entries = s->sub.list.entries;
    r->n = s->sub.list.n;
    r->more = s->sub.list.more;
    jq_end(&s->op, req->err);
}

static void inner_listed(struct pp_req *req)
{
    struct reading *s = req->data;
    struct jq *q = s->op.q;
    struct pp_ingest_list *r = (struct pp_ingest_list *)s->op.r;

    if (failed(req->err) && !q->closing) {
        s->sub.list = *r;
        s->sub.list.req = jq_req(&s->op, own_listed);
        sent_on(s, q->own->ops->list(q->own, &s->sub.list));
        return;
    }
    r->entries = s->sub.list.entries;
    r->n = s->sub.list.n;
    r->more = s->sub.list.more;
    enum pp_err err = req->err;
    if (err == PP_OK && !pp_list_empty(&q->open))
        err = merge_missing(q, r);
    jq_end(&s->op, err);
}

enum pp_err jq_list(struct pp_ingest_queue *base, struct pp_ingest_list *r)
{
    enum pp_err err;
    struct reading *s = begin(base, &r->req, &err);
    if (!s)
        return err;
    struct jq *q = s->op.q;
    struct pp_ingest_queue *from = q->away ? q->own : q->inner;
    r->n = 0;
    r->more = false;
    s->sub.list = *r;
    s->sub.list.req = jq_req(&s->op, q->away ? own_listed : inner_listed);
    return sent(s, from->ops->list(from, &s->sub.list));
}

/* --- stats --- */

static void add_stats(struct pp_ingest_stats *r, const struct jq_entry *e)
{
    r->entries++;
    r->photos += e->e.n_photos;
    if (r->oldest_ms == 0 || e->e.created_at < r->oldest_ms)
        r->oldest_ms = e->e.created_at;
}

static void counted(struct pp_req *req)
{
    struct reading *s = req->data;
    struct jq *q = s->op.q;
    struct pp_ingest_stats *r = (struct pp_ingest_stats *)s->op.r;
    const struct pp_ingest_stats *sub = &s->sub.stats;
    bool own = q->away || failed(req->err); /* accepting goes on: that is no failure */

    r->entries = own ? 0 : sub->entries;
    r->photos = own ? 0 : sub->photos;
    r->poisoned = own ? 0 : sub->poisoned;
    r->oldest_ms = own ? 0 : sub->oldest_ms;
    pp_list_each (node, &q->open) {
        const struct jq_entry *e = pp_container_of(node, struct jq_entry, node);
        if (own || e->state == JQ_MISSING)
            add_stats(r, e);
    }
    for (int level = 0; own && level < JQ_LEVELS; level++)
        pp_list_each (node, &q->sure[level])
            add_stats(r, pp_container_of(node, struct jq_entry, node));
    jq_end(&s->op, own ? PP_OK : req->err);
}

enum pp_err jq_stats(struct pp_ingest_queue *base, struct pp_ingest_stats *r)
{
    enum pp_err err;
    struct reading *s = begin(base, &r->req, &err);
    if (!s)
        return err;
    struct jq *q = s->op.q;
    struct pp_ingest_queue *from = q->away ? q->own : q->inner; /* own: to see that it answers */
    s->sub.stats = (struct pp_ingest_stats){.req = jq_req(&s->op, counted)};
    return sent(s, from->ops->stats(from, &s->sub.stats));
}

/* --- check --- */

static void checked(struct pp_req *req)
{
    struct reading *s = req->data;
    struct pp_ingest_check *r = (struct pp_ingest_check *)s->op.r;
    r->states = s->sub.check.states;
    for (size_t i = 0; req->err == PP_OK && i < r->n; i++)
        if (r->states[i] == PP_INGEST_UNKNOWN && jq_find(s->op.q, r->batch_ids[i]))
            r->states[i] = PP_INGEST_WAITING;
    jq_end(&s->op, req->err);
}

enum pp_err jq_check(struct pp_ingest_queue *base, struct pp_ingest_check *r)
{
    enum pp_err err;
    struct reading *s = begin(base, &r->req, &err);
    if (!s)
        return err;
    s->sub.check = *r;
    s->sub.check.req = jq_req(&s->op, checked);
    return sent(s, s->op.q->inner->ops->check(s->op.q->inner, &s->sub.check));
}

/* --- cancel --- */

static void own_cancelled(struct pp_req *req)
{
    struct reading *s = req->data;
    struct jq_entry *e = jq_find(s->op.q, s->sub.cancel.batch_id);
    if (e && req->err == PP_OK)
        e->e.cancelled = true;
    jq_end(&s->op, req->err);
}

/* Inner first; own remembers, so that an entry that is appended again has its mark, and one that inner could
 * not be told of is told later. */
static void inner_cancelled(struct pp_req *req)
{
    struct reading *s = req->data;
    struct jq *q = s->op.q;
    struct jq_entry *e = jq_find(q, s->sub.cancel.batch_id);
    enum pp_err err = req->err;
    bool late = failed(err) || (err == PP_ENOTFOUND && e && e->state != JQ_SURE);

    if (!e || q->closing || (err != PP_OK && !late)) {
        jq_end(&s->op, err);
        return;
    }
    e->tell |= late;
    s->sub.cancel.req = jq_req(&s->op, own_cancelled);
    sent_on(s, q->own->ops->cancel(q->own, &s->sub.cancel));
}

enum pp_err jq_cancel(struct pp_ingest_queue *base, struct pp_ingest_cancel *r)
{
    enum pp_err err;
    struct reading *s = begin(base, &r->req, &err);
    if (!s)
        return err;
    s->sub.cancel = *r;
    s->sub.cancel.req = jq_req(&s->op, inner_cancelled);
    return sent(s, s->op.q->inner->ops->cancel(s->op.q->inner, &s->sub.cancel));
}
