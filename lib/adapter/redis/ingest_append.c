/* ingest_append.c: packs the payloads of entries and sends them to Redis.
 *
 *   pack (lane) --small--> append
 *               \-large--> ask -> parts, PARTS at once -> append with the last part
 *
 * Parts have a time to live. The append stores the last part together with the entry and removes
 * the time to live. So an entry has all its parts, and parts without an entry expire. Asking first
 * avoids sending a large payload that Redis would refuse. Sending a part twice changes nothing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { PARTS = 2, ANSWER_RAW = 1024 };

struct riq_append {
    /* The operation that appends. For a large payload it first asks Redis whether it would accept
     * the entry. */
    struct pp_riq_op op;
    struct pp_ingest_append *r;
    void *packed;
    size_t packed_n;
    /* The packed answer: 'r' and its bytes; or 'z', the number of its bytes as u32, and the bytes
     * packed by zlib. */
    struct pp_buf answer;
    uint32_t parts;           /* number of parts; 0: the payload is in the message of the stream */
    uint32_t next, in_flight; /* the next part to send; number of parts that are sent and not answered */
    enum pp_err part_err;
};

struct riq_part {
    struct pp_riq_op op;
    struct riq_append *a;
};

static void end_append(struct riq_append *a, enum pp_err err)
{
    free(a->packed);
    pp_buf_fini(&a->answer);
    pp_riq_end(&a->op, err);
}

/* --- on the lane --- */

static bool pack_answer(struct riq_append *a)
{
    const struct pp_ingest_append *r = a->r;
    size_t packed_n = 0;
    char *packed = r->answer_n > ANSWER_RAW ? pp_riq_pack(r->answer, r->answer_n, &packed_n) : NULL;
    pp_buf_init(&a->answer, SIZE_MAX);
    if (packed && r->answer_n <= UINT32_MAX) {
        pp_buf_putc(&a->answer, 'z');
        pp_buf_u32(&a->answer, (uint32_t)r->answer_n);
        pp_buf_put(&a->answer, packed, packed_n);
    } else {
        pp_buf_putc(&a->answer, 'r');
        pp_buf_put(&a->answer, r->answer ? r->answer : "", r->answer_n);
    }
    free(packed);
    return !a->answer.failed;
}

static void pack(void *state, struct pp_job *job)
{
    struct riq_append *a = pp_container_of(job, struct riq_append, op.job);
    (void)state;
    a->packed = pp_riq_pack(a->r->entry.payload, a->r->entry.payload_n, &a->packed_n);
    if (a->r->key && a->packed && !pack_answer(a)) {
        free(a->packed);
        a->packed = NULL;
    }
}

/* --- Redis' answers --- */

static void end_with_old_answer(struct riq_append *a, const struct redisReply *reply)
{
    struct pp_ingest_append *r = a->r;
    struct pp_reader in = {.p = reply->str, .n = (size_t)reply->len};
    uint8_t kind = pp_read_u8(&in);
    size_t n = kind == 'z' ? pp_read_u32(&in) : in.n;
    enum pp_err err = PP_ECORRUPT;

    if (!in.failed && (kind == 'z' || kind == 'r')) {
        const void *part = in.p;
        char *answer = n <= PP_RIQ_RAW_MAX ? pp_arena_alloc(r->req.arena, n + 1) : NULL;
        if (answer && kind == 'r')
            memcpy(answer, in.p, n);
        err = !answer ? PP_ENOMEM : kind == 'z' ? pp_riq_unpack(&part, &in.n, 1, answer, n) : PP_OK;
        r->old_answer = err == PP_OK ? answer : NULL;
        r->old_answer_n = err == PP_OK ? n : 0;
    }
    end_append(a, err == PP_OK ? PP_EEXISTS : err);
}

/* Ends an append whose entry or key exists already. If the call was sent more than once, an earlier
 * sending may have created both; then the append has succeeded. */
static void on_exists(struct riq_append *a, const struct redisReply *answer)
{
    bool own = a->op.maybe && (!answer || ((size_t)answer->len == a->answer.n &&
                                           memcmp(answer->str, a->answer.p, a->answer.n) == 0));
    if (own)
        end_append(a, PP_OK);
    else if (answer)
        end_with_old_answer(a, answer);
    else
        end_append(a, PP_EEXISTS);
}

/* Ends the append unless Redis answered "ok". Returns true if it has ended. */
static bool end_if_refused(struct riq_append *a, enum pp_err err, const struct redisReply *reply)
{
    if (err != PP_OK) {
        end_append(a, pp_riq_err(err, reply));
        return true;
    }
    const char *word = reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0]->str : NULL;
    if (word && strcmp(word, "ok") == 0)
        return false;
    if (word && strcmp(word, "exists") == 0)
        on_exists(a, reply->elements > 1 ? reply->element[1] : NULL);
    else if (word && strcmp(word, "mismatch") == 0)
        end_append(a, PP_EMISMATCH);
    else if (word && strcmp(word, "full") == 0)
        end_append(a, PP_EFULL);
    else if (word && strcmp(word, "keys") == 0)
        end_append(a, PP_EBUSY);
    else /* "parts": earlier parts have expired, or Redis has evicted them */
        end_append(a, PP_EIO);
    return true;
}

/* --- the script --- */

static void send_call(struct riq_append *a, bool only_ask, pp_riq_cb on_answer)
{
    const struct pp_ingest_append *r = a->r;
    const struct pp_ingest_entry *e = &r->entry;
    struct pp_riq_op *op = &a->op;
    struct pp_redis_call *call = &op->call;
    int64_t now = pp_redis_ms(op->q->redis, r->now_ms);
    size_t last = a->parts ? (size_t)(a->parts - 1) * PP_RIQ_PART_BYTES : 0;

    pp_assert(last <= a->packed_n, "a payload has more parts than bytes");
    pp_riq_begin(op, PP_RIQ_APPEND, on_answer);
    pp_riq_key(op, "parts", e->batch_id);
    pp_buf_printf(pp_redis_word_open(call), "%skey:%s:%s", op->q->tag, e->client, r->key ? r->key : "");
    pp_redis_word_close(call);
    pp_buf_printf(pp_redis_word_open(call), "%skeys:%s:%" PRId64, op->q->tag, e->client,
                  now / PP_KEYS_HOUR_MS);
    pp_redis_word_close(call);
    pp_riq_done_key(op, e->batch_id, true);
    pp_riq_args(op);
    pp_redis_put_text(call, e->batch_id);
    pp_redis_put_text(call, e->client);
    pp_redis_put_num(call, (int64_t)e->n_photos);
    struct pp_buf *line = pp_redis_word_open(call);
    pp_buf_printf(line, "%d %d %" PRId64 " %u %" PRIu64 " %zu %u %u", (int)e->refresh, e->replay,
                  e->created_at, e->n_items, e->n_photos, e->payload_n, a->parts, e->n_rejected);
    pp_riq_put_more(line, e);
    pp_redis_word_close(call);
    pp_redis_put_num(call, r->only_key ? 0 : (int64_t)r->high_water);
    pp_riq_digest(op, e->batch_id);
    pp_redis_put_num(call, only_ask);
    pp_redis_put_num(call, r->key != NULL);
    pp_buf_printf(pp_redis_word_open(call), "%016" PRId64, now > 0 ? now : 0);
    pp_redis_word_close(call);
    pp_redis_put(call, r->body_hash, sizeof r->body_hash);
    pp_redis_put(call, a->answer.n ? a->answer.p : "", a->answer.n);
    pp_redis_put_num(call, op->q->key_ttl_ms);
    pp_redis_put_num(call, a->parts);
    pp_redis_put(call, (const char *)a->packed + last, only_ask ? 0 : a->packed_n - last);
    pp_redis_put_text(call, e->cancelled ? "10" : "00");
    pp_redis_put_num(call, r->only_key ? 0 : (int64_t)r->max_bytes);
    pp_redis_put_num(call, r->only_key ? 0 : (int64_t)r->max_keys);
    pp_riq_send(op);
}

static void on_appended(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct riq_append *a = (struct riq_append *)op;
    if (!end_if_refused(a, err, reply))
        end_append(a, PP_OK);
}

static void send_append(struct riq_append *a)
{
    send_call(a, a->r->only_key, on_appended);
}

/* --- large payloads --- */

static void send_parts(struct riq_append *a);

static void on_part_stored(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct riq_append *a = ((struct riq_part *)op)->a;
    err = pp_riq_err(err, reply);
    pp_riq_end(op, err);
    pp_assert(a->in_flight > 0, "more parts are answered than sent");
    a->in_flight--;
    if (err != PP_OK && a->part_err == PP_OK)
        a->part_err = err;
    send_parts(a);
}

static void send_part(struct riq_append *a)
{
    enum pp_err err;
    struct riq_part *p = (struct riq_part *)pp_riq_op_new(a->op.q, sizeof *p, NULL, &err);
    if (!p) {
        a->part_err = err;
        return;
    }
    p->a = a;
    pp_assert((size_t)(a->next + 1) * PP_RIQ_PART_BYTES <= a->packed_n, "a part ends behind its payload");
    pp_riq_begin(&p->op, PP_RIQ_PART, on_part_stored);
    pp_riq_key(&p->op, "parts", a->r->entry.batch_id);
    pp_riq_args(&p->op);
    pp_redis_put_text(&p->op.call, a->r->entry.batch_id);
    pp_redis_put_num(&p->op.call, a->next);
    pp_redis_put(&p->op.call, (const char *)a->packed + (size_t)a->next * PP_RIQ_PART_BYTES,
                 PP_RIQ_PART_BYTES);
    a->next++;
    a->in_flight++;
    pp_riq_send(&p->op);
}

static void send_parts(struct riq_append *a)
{
    while (a->part_err == PP_OK && a->next + 1 < a->parts && a->in_flight < PARTS)
        send_part(a);
    if (a->in_flight > 0)
        return;
    if (a->part_err != PP_OK)
        end_append(a, a->part_err == PP_EUNKNOWN || a->part_err == PP_ETIMEOUT ? PP_EIO : a->part_err);
    else
        send_append(a); /* all parts but the last are stored */
}

static void on_asked(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct riq_append *a = (struct riq_append *)op;
    if (!end_if_refused(a, err == PP_EUNKNOWN || err == PP_ETIMEOUT ? PP_EIO : err, reply))
        send_parts(a);
}

/* --- the operation --- */

static void on_packed(struct pp_riq_op *op)
{
    struct riq_append *a = (struct riq_append *)op;
    if (op->q->closing || !a->packed) {
        end_append(a, op->q->closing ? PP_ECLOSED : PP_ENOMEM);
        return;
    }
    if (a->packed_n <= PP_RIQ_INSIDE_BYTES) {
        send_append(a);
        return;
    }
    a->parts = (uint32_t)((a->packed_n + PP_RIQ_PART_BYTES - 1) / PP_RIQ_PART_BYTES);
    if (a->parts > 1)
        send_call(a, true, on_asked);
    else
        send_append(a);
}

enum pp_err pp_riq_append(struct pp_ingest_queue *base, struct pp_ingest_append *r)
{
    enum pp_err err;
    struct riq_append *a =
        (struct riq_append *)pp_riq_op_new((struct pp_riq *)base, sizeof *a, &r->req, &err);
    if (!a)
        return err;
    r->old_answer = NULL;
    r->old_answer_n = 0;
    a->r = r;
    err = r->entry.payload_n > PP_RIQ_RAW_MAX ? PP_EINVAL : pp_riq_work(&a->op, pack, on_packed);
    if (err != PP_OK)
        pp_riq_drop(&a->op);
    return err;
}
