/* ingest_aside.c: sets entries aside, lists these entries, and puts them back into the queue. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { ASIDE_LIST_MAX = 1001, ASIDE_FIELDS = 5 /* of an entry in the answer of ingest_list_aside.lua */ };

static void on_set_aside(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    const struct pp_ingest_poison *r = (void *)op->req;
    if (err == PP_OK)
        pp_riq_let_go(op->q, r->batch_id);
    pp_riq_on_found_or_not(op, err, reply);
}

enum pp_err pp_riq_poison(struct pp_ingest_queue *base, struct pp_ingest_poison *r)
{
    size_t n = strlen(r->reason);
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_begin_op(base, &r->req, PP_RIQ_POISON, on_set_aside, &err);
    if (!op)
        return err;
    pp_riq_key(op, "parts", r->batch_id);
    pp_riq_done_key(op, r->batch_id, false);
    pp_riq_args(op);
    pp_redis_put_text(&op->call, r->batch_id);
    pp_riq_digest(op, r->batch_id);
    pp_redis_put(&op->call, r->reason, n < PP_INGEST_REASON_MAX ? n : PP_INGEST_REASON_MAX);
    pp_redis_put_num(&op->call, pp_redis_now(op->q->redis));
    pp_redis_put_num(&op->call, r->date_ms);
    pp_riq_send(op);
    return PP_OK;
}

/* Reads an entry of the answer: {batch, line of META, since, deliveries, reason}. */
static enum pp_err read_aside(struct pp_arena *a, struct redisReply *const *row, struct pp_ingest_aside *to)
{
    for (size_t i = 0; i < ASIDE_FIELDS; i++)
        if (row[i]->type != REDIS_REPLY_STRING)
            return PP_ECORRUPT;
    enum pp_err err = pp_riq_parse_meta(a, row[0]->str, row[1]->str, (size_t)row[1]->len, &to->entry, NULL);
    if (err != PP_OK)
        return err;
    to->since_ms = strtoll(row[2]->str, NULL, 10);
    to->entry.deliveries = (uint32_t)strtoul(row[3]->str, NULL, 10);
    to->reason = pp_arena_strdup(a, row[4]->str);
    return to->reason ? PP_OK : PP_ENOMEM;
}

static void on_listed(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct pp_ingest_list_aside *r = (void *)op->req;
    struct pp_arena *a = r->req.arena;

    if (err == PP_OK && !pp_redis_is(reply, ""))
        err = PP_EIO;
    r->entries = err == PP_OK ? pp_arena_array(a, reply->elements / ASIDE_FIELDS, sizeof *r->entries) : NULL;
    if (err == PP_OK && !r->entries)
        err = PP_ENOMEM;
    for (size_t i = 0; err == PP_OK && i + ASIDE_FIELDS <= reply->elements; i += ASIDE_FIELDS) {
        if (r->n == r->limit || r->n == ASIDE_LIST_MAX - 1) {
            r->more = true;
            break;
        }
        err = read_aside(a, &reply->element[i], &r->entries[r->n]);
        r->n += err == PP_OK;
        err = err == PP_ECORRUPT ? PP_OK : err;
    }
    pp_riq_end(op, pp_riq_err(err, reply));
}

enum pp_err pp_riq_list_aside(struct pp_ingest_queue *base, struct pp_ingest_list_aside *r)
{
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_begin_op(base, &r->req, PP_RIQ_LIST_ASIDE, on_listed, &err);
    if (!op)
        return err;
    r->n = 0;
    r->more = false;
    pp_riq_args(op);
    pp_redis_put_text(&op->call, r->after ? r->after : "");
    pp_redis_put_num(&op->call, r->limit < ASIDE_LIST_MAX ? (int64_t)r->limit + 1 : ASIDE_LIST_MAX);
    pp_riq_send(op);
    return PP_OK;
}

enum pp_err pp_riq_put_back(struct pp_ingest_queue *base, struct pp_ingest_put_back *r)
{
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_begin_op(base, &r->req, PP_RIQ_PUT_BACK, pp_riq_on_found_or_not, &err);
    if (!op)
        return err;
    pp_riq_key(op, "parts", r->batch_id);
    pp_riq_args(op);
    pp_redis_put_text(&op->call, r->batch_id);
    pp_redis_put_num(&op->call, r->give_up);
    pp_riq_send(op);
    return PP_OK;
}
