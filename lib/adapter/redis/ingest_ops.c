/* ingest_ops.c: ack, poison, cancel, get, list, stats, clean, check. See ingest_internal.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { SLICE = 64, LIST_MAX = 1001, IDLE_PLANNER_MS = 3600000 };

/* An operation and its request; slices of a long one begin at `from`. */
struct simple {
    struct pp_riq_op op;
    void *r;
    size_t from, n;
};

static struct simple *new_simple(struct pp_ingest_queue *base, struct pp_req *req, void *r, bool retry,
                                 enum pp_err *err)
{
    struct simple *s = (struct simple *)pp_riq_op_new((struct pp_riq *)base, sizeof *s, req, err);
    if (!s)
        return NULL;
    s->r = r;
    s->op.retry = retry;
    return s;
}

/* Of scripts that answer 0 where there is no such entry. */
static void found_or_not(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    if (err != PP_OK)
        pp_riq_end(op, pp_riq_err(err, reply));
    else
        pp_riq_end(op, reply->type == REDIS_REPLY_INTEGER && reply->integer == 0 ? PP_ENOTFOUND : PP_OK);
}

/* --- ack --- */

static void next_acks(struct simple *s);

static void acked(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct simple *s = (struct simple *)op;
    const struct pp_ingest_ack *r = s->r;
    if (err != PP_OK) {
        pp_riq_end(op, pp_riq_err(err, reply));
        return;
    }
    for (size_t i = s->from; i < s->from + s->n; i++)
        pp_riq_let_go(op->q, r->batch_ids[i]);
    s->from += s->n;
    if (s->from < r->n)
        next_acks(s);
    else
        pp_riq_end(op, PP_OK);
}

static void next_acks(struct simple *s)
{
    const struct pp_ingest_ack *r = s->r;
    struct pp_riq_op *op = &s->op;
    s->n = r->n - s->from < SLICE ? r->n - s->from : SLICE;
    pp_riq_begin(op, PP_RIQ_ACK);
    for (size_t i = s->from; i < s->from + s->n; i++) {
        pp_riq_key(op, "parts", r->batch_ids[i]);
        pp_riq_done_key(op, r->batch_ids[i], false);
    }
    pp_riq_number(op, PP_RIQ_DONE_MS);
    for (size_t i = s->from; i < s->from + s->n; i++) {
        pp_riq_text(op, r->batch_ids[i]);
        pp_riq_digest(op, r->batch_ids[i]);
    }
    op->answered = acked;
    pp_riq_send(op);
}

enum pp_err pp_riq_ack(struct pp_ingest_queue *base, struct pp_ingest_ack *r)
{
    enum pp_err err;
    struct simple *s = new_simple(base, &r->req, r, true, &err);
    if (s)
        next_acks(s);
    return err;
}

/* --- poison, cancel --- */

static void set_aside(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    const struct pp_ingest_poison *r = ((struct simple *)op)->r;
    if (err == PP_OK)
        pp_riq_let_go(op->q, r->batch_id);
    found_or_not(op, err, reply);
}

enum pp_err pp_riq_poison(struct pp_ingest_queue *base, struct pp_ingest_poison *r)
{
    enum pp_err err;
    struct simple *s = new_simple(base, &r->req, r, true, &err);
    if (!s)
        return err;
    struct pp_riq_op *op = &s->op;
    pp_riq_begin(op, PP_RIQ_POISON);
    pp_riq_key(op, "parts", r->batch_id);
    pp_riq_done_key(op, r->batch_id, false);
    pp_riq_text(op, r->batch_id);
    pp_riq_digest(op, r->batch_id);
    pp_riq_text(op, r->reason);
    pp_riq_number(op, pp_redis_now(op->q->redis));
    pp_riq_number(op, PP_RIQ_ASIDE);
    pp_riq_number(op, PP_RIQ_ASIDE_MS);
    pp_riq_number(op, PP_RIQ_DONE_MS);
    op->answered = set_aside;
    pp_riq_send(op);
    return PP_OK;
}

enum pp_err pp_riq_cancel(struct pp_ingest_queue *base, struct pp_ingest_cancel *r)
{
    enum pp_err err;
    struct simple *s = new_simple(base, &r->req, r, true, &err);
    if (!s)
        return err;
    pp_riq_begin(&s->op, PP_RIQ_CANCEL);
    pp_riq_text(&s->op, r->batch_id);
    s->op.answered = found_or_not;
    pp_riq_send(&s->op);
    return PP_OK;
}

/* --- get, list --- */

static void got(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct simple *s = data;
    struct pp_ingest_get *r = s->r;
    if (err == PP_OK)
        err = reply->type == REDIS_REPLY_STRING ? pp_riq_parse_meta(r->req.arena, r->batch_id, reply->str,
                                                                    (size_t)reply->len, &r->entry, NULL)
                                                : PP_ENOTFOUND;
    if (err == PP_OK && r->client && strcmp(r->client, r->entry.client) != 0)
        err = PP_ENOTFOUND;
    pp_riq_end(&s->op, err);
}

enum pp_err pp_riq_get(struct pp_ingest_queue *base, struct pp_ingest_get *r)
{
    struct pp_riq *q = (struct pp_riq *)base;
    enum pp_err err;
    struct simple *s = new_simple(base, &r->req, r, false, &err);
    if (!s)
        return err;
    const char *argv[] = {"HGET", q->fixed[PP_RIQ_META], r->batch_id};
    err = pp_redis_command(q->redis, 3, argv, NULL, got, s);
    if (err != PP_OK)
        pp_riq_drop(&s->op);
    return err;
}

static void listed(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct pp_ingest_list *r = ((struct simple *)op)->r;
    if (err != PP_OK || reply->type != REDIS_REPLY_ARRAY) {
        pp_riq_end(op, err != PP_OK ? pp_riq_err(err, reply) : PP_EIO);
        return;
    }
    r->entries = pp_arena_array(r->req.arena, reply->elements / 2, sizeof *r->entries);
    if (!r->entries)
        err = PP_ENOMEM;
    for (size_t i = 0; err == PP_OK && i + 1 < reply->elements; i += 2) {
        const struct redisReply *id = reply->element[i], *line = reply->element[i + 1];
        if (r->n == r->limit || r->n == LIST_MAX - 1) {
            r->more = true;
            break;
        }
        if (!id->str || !line->str)
            continue;
        err = pp_riq_parse_meta(r->req.arena, id->str, line->str, (size_t)line->len, &r->entries[r->n], NULL);
        r->n += err == PP_OK;
        err = err == PP_ECORRUPT ? PP_OK : err;
    }
    pp_riq_end(op, err);
}

enum pp_err pp_riq_list(struct pp_ingest_queue *base, struct pp_ingest_list *r)
{
    enum pp_err err;
    struct simple *s = new_simple(base, &r->req, r, false, &err);
    if (!s)
        return err;
    r->n = 0;
    r->more = false;
    pp_riq_begin(&s->op, PP_RIQ_LIST);
    pp_riq_text(&s->op, r->client ? r->client : "");
    pp_riq_text(&s->op, r->after ? r->after : "");
    pp_riq_number(&s->op, r->limit < LIST_MAX ? (int64_t)r->limit + 1 : LIST_MAX);
    s->op.answered = listed;
    pp_riq_send(&s->op);
    return PP_OK;
}

/* --- stats, clean --- */

static void counted(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct pp_ingest_stats *r = ((struct simple *)op)->r;
    struct pp_ingest_entry oldest;
    if (err != PP_OK || reply->type != REDIS_REPLY_ARRAY || reply->elements < 3) {
        pp_riq_end(op, err != PP_OK ? pp_riq_err(err, reply) : PP_EIO);
        return;
    }
    uint64_t *const to[] = {&r->entries, &r->photos, &r->poisoned};
    for (size_t i = 0; i < 3; i++)
        *to[i] = reply->element[i]->str ? strtoull(reply->element[i]->str, NULL, 10) : 0;
    r->oldest_ms = 0;
    const struct redisReply *line = reply->elements > 3 ? reply->element[3] : NULL;
    if (line && line->str &&
        pp_riq_parse_meta(&op->mem, "", line->str, (size_t)line->len, &oldest, NULL) == PP_OK)
        r->oldest_ms = oldest.created_at;
    pp_riq_end(op, PP_OK);
}

enum pp_err pp_riq_stats(struct pp_ingest_queue *base, struct pp_ingest_stats *r)
{
    enum pp_err err;
    struct simple *s = new_simple(base, &r->req, r, false, &err);
    if (!s)
        return err;
    pp_riq_begin(&s->op, PP_RIQ_STATS);
    s->op.answered = counted;
    pp_riq_send(&s->op);
    return PP_OK;
}

static void cleaned(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    pp_riq_end(op, pp_riq_err(err, reply));
}

enum pp_err pp_riq_clean(struct pp_ingest_queue *base, struct pp_ingest_clean *r)
{
    enum pp_err err;
    struct simple *s = new_simple(base, &r->req, r, false, &err);
    if (!s)
        return err;
    pp_riq_begin(&s->op, PP_RIQ_CLEAN);
    pp_riq_text(&s->op, pp_arena_printf(&s->op.mem, "%016" PRId64, r->before_ms > 0 ? r->before_ms : 0));
    pp_riq_number(&s->op, IDLE_PLANNER_MS);
    s->op.answered = cleaned;
    pp_riq_send(&s->op);
    return PP_OK;
}

/* --- check --- */

static void next_checks(struct simple *s);

static void checked(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct simple *s = (struct simple *)op;
    struct pp_ingest_check *r = s->r;
    if (err != PP_OK || reply->type != REDIS_REPLY_STRING || (size_t)reply->len != s->n) {
        pp_riq_end(op, err != PP_OK ? pp_riq_err(err, reply) : PP_EIO);
        return;
    }
    for (size_t i = 0; i < s->n; i++)
        r->states[s->from + i] = reply->str[i] == 'w'   ? PP_INGEST_WAITING
                                 : reply->str[i] == 'p' ? PP_INGEST_PLANNED
                                                        : PP_INGEST_UNKNOWN;
    s->from += s->n;
    if (s->from < r->n)
        next_checks(s);
    else
        pp_riq_end(op, PP_OK);
}

static void next_checks(struct simple *s)
{
    const struct pp_ingest_check *r = s->r;
    struct pp_riq_op *op = &s->op;
    s->n = r->n - s->from < SLICE ? r->n - s->from : SLICE;
    pp_riq_begin(op, PP_RIQ_CHECK);
    for (size_t i = s->from; i < s->from + s->n; i++)
        pp_riq_done_key(op, r->batch_ids[i], true);
    pp_riq_number(op, PP_RIQ_SLOTS);
    for (size_t i = s->from; i < s->from + s->n; i++) {
        pp_riq_text(op, r->batch_ids[i]);
        pp_riq_digest(op, r->batch_ids[i]);
    }
    op->answered = checked;
    pp_riq_send(op);
}

enum pp_err pp_riq_check(struct pp_ingest_queue *base, struct pp_ingest_check *r)
{
    enum pp_err err;
    struct simple *s = new_simple(base, &r->req, r, false, &err);
    if (!s)
        return err;
    r->states = pp_arena_array(r->req.arena, r->n, sizeof *r->states);
    if (!r->states)
        s->op.failed = true;
    next_checks(s);
    return PP_OK;
}
