/* ingest_ops.c: the operations ack, poison, cancel, get, list, stats, clean and check. Entries that
 * are set aside: ingest_aside.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { ACK_SLICE = 64, LIST_MAX = 1001 };

/* An operation on many ids, a slice at a time. The call in flight has n ids, of which the first is
 * number `from`. */
struct riq_slices {
    struct pp_riq_op op;
    const char *const *ids;
    uint8_t *states; /* where a check stores the states; NULL: the operation is an ack */
    size_t total, from, n;
};

/* --- ack, check: in slices --- */

static void on_slice(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply);

static void send_slice(struct riq_slices *s)
{
    struct pp_riq_op *op = &s->op;
    pp_assert(s->from <= s->total, "a slice begins behind the last id");
    s->n = s->total - s->from < ACK_SLICE ? s->total - s->from : ACK_SLICE;
    pp_riq_begin(op, s->states ? PP_RIQ_CHECK : PP_RIQ_ACK, on_slice);
    for (size_t i = s->from; i < s->from + s->n; i++) {
        if (!s->states)
            pp_riq_key(op, "parts", s->ids[i]);
        pp_riq_done_key(op, s->ids[i], s->states != NULL);
    }
    pp_riq_args(op);
    for (size_t i = s->from; i < s->from + s->n; i++) {
        pp_redis_put_text(&op->call, s->ids[i]);
        pp_riq_digest(op, s->ids[i]);
    }
    pp_riq_send(op);
}

static void on_slice(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct riq_slices *s = (struct riq_slices *)op;
    if (err == PP_OK && s->states && (reply->type != REDIS_REPLY_STRING || (size_t)reply->len != s->n))
        err = PP_EIO;
    for (size_t i = 0; err == PP_OK && i < s->n; i++) {
        if (s->states)
            s->states[s->from + i] = reply->str[i] == 'w'   ? PP_INGEST_WAITING
                                     : reply->str[i] == 'p' ? PP_INGEST_PLANNED
                                                            : PP_INGEST_UNKNOWN;
        else
            pp_riq_let_go(op->q, s->ids[s->from + i]);
    }
    s->from += s->n;
    if (err == PP_OK && s->from < s->total)
        send_slice(s);
    else
        pp_riq_end(op, pp_riq_err(err, reply));
}

/* Begins a check, or an ack if `states` is NULL. */
static enum pp_err begin_slices(struct pp_ingest_queue *base, struct pp_req *req, const char *const *ids,
                                size_t total, uint8_t *states)
{
    enum pp_err err;
    struct riq_slices *s = (struct riq_slices *)pp_riq_op_new((struct pp_riq *)base, sizeof *s, req, &err);
    if (!s)
        return err;
    s->ids = ids;
    s->total = total;
    s->states = states;
    send_slice(s);
    return PP_OK;
}

enum pp_err pp_riq_ack(struct pp_ingest_queue *base, struct pp_ingest_ack *r)
{
    return begin_slices(base, &r->req, r->batch_ids, r->n, NULL);
}

enum pp_err pp_riq_check(struct pp_ingest_queue *base, struct pp_ingest_check *r)
{
    r->states = pp_arena_array(r->req.arena, r->n, sizeof *r->states);
    return r->states ? begin_slices(base, &r->req, r->batch_ids, r->n, r->states) : PP_ENOMEM;
}

/* --- cancel --- */

enum pp_err pp_riq_cancel(struct pp_ingest_queue *base, struct pp_ingest_cancel *r)
{
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_begin_op(base, &r->req, PP_RIQ_CANCEL, pp_riq_on_found_or_not, &err);
    if (!op)
        return err;
    pp_riq_args(op);
    pp_redis_put_text(&op->call, r->batch_id);
    pp_riq_send(op);
    return PP_OK;
}

/* --- get, list --- */

static void on_got(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_riq_op *op = data;
    struct pp_ingest_get *r = (void *)op->req;
    if (err == PP_OK)
        err = reply->type == REDIS_REPLY_STRING ? pp_riq_parse_meta(r->req.arena, r->batch_id, reply->str,
                                                                    (size_t)reply->len, &r->entry, NULL)
                                                : PP_ENOTFOUND;
    if (err == PP_OK && r->client && strcmp(r->client, r->entry.client) != 0)
        err = PP_ENOTFOUND;
    pp_riq_end(op, err);
}

enum pp_err pp_riq_get(struct pp_ingest_queue *base, struct pp_ingest_get *r)
{
    struct pp_riq *q = (struct pp_riq *)base;
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_op_new(q, sizeof *op, &r->req, &err);
    if (!op)
        return err;
    const char *argv[] = {"HGET", q->keys[PP_INGEST_META], r->batch_id};
    err = pp_redis_command(q->redis, 3, argv, NULL, on_got, op);
    if (err != PP_OK)
        pp_riq_drop(op);
    return err;
}

static void on_listed(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct pp_ingest_list *r = (void *)op->req;
    if (err == PP_OK && !pp_redis_is(reply, ""))
        err = PP_EIO;
    r->entries = err == PP_OK ? pp_arena_array(r->req.arena, reply->elements / 2, sizeof *r->entries) : NULL;
    if (err == PP_OK && !r->entries)
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
    pp_riq_end(op, pp_riq_err(err, reply));
}

enum pp_err pp_riq_list(struct pp_ingest_queue *base, struct pp_ingest_list *r)
{
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_begin_op(base, &r->req, PP_RIQ_LIST, on_listed, &err);
    if (!op)
        return err;
    r->n = 0;
    r->more = false;
    pp_riq_args(op);
    pp_redis_put_text(&op->call, r->client ? r->client : "");
    pp_redis_put_text(&op->call, r->after ? r->after : "");
    pp_redis_put_num(&op->call, r->limit < LIST_MAX ? (int64_t)r->limit + 1 : LIST_MAX);
    pp_riq_send(op);
    return PP_OK;
}

/* --- stats, clean --- */

static void on_counted(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct pp_ingest_stats *r = (void *)op->req;
    struct pp_ingest_entry oldest;
    if (err != PP_OK || !pp_redis_is(reply, "ttt")) {
        pp_riq_end(op, err != PP_OK ? pp_riq_err(err, reply) : PP_EIO);
        return;
    }
    uint64_t *const to[] = {&r->entries, &r->photos, &r->poisoned};
    for (size_t i = 0; i < 3; i++)
        *to[i] = strtoull(reply->element[i]->str, NULL, 10);
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
    struct pp_riq_op *op = pp_riq_begin_op(base, &r->req, PP_RIQ_STATS, on_counted, &err);
    if (!op)
        return err;
    pp_riq_args(op);
    pp_redis_put_num(&op->call, r->write);
    pp_riq_send(op);
    return PP_OK;
}

enum pp_err pp_riq_clean(struct pp_ingest_queue *base, struct pp_ingest_clean *r)
{
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_begin_op(base, &r->req, PP_RIQ_CLEAN, pp_riq_on_found_or_not, &err);
    if (!op)
        return err;
    pp_riq_args(op);
    int64_t before = pp_redis_ms(((struct pp_riq *)base)->redis, r->before_ms);
    pp_buf_printf(pp_redis_word_open(&op->call), "%016" PRId64, before > 0 ? before : 0);
    pp_redis_word_close(&op->call);
    pp_riq_send(op);
    return PP_OK;
}
