/* ingest_append.c: payloads packed and sent. See ingest_internal.h.
 *
 *   pack (lane) --small--> append
 *               \-large--> ask -> parts, PARTS at once -> append with the last part
 *
 * Parts are stored with a time to live, which the append takes away: an entry is there with its last part or
 * not at all, and parts without an entry expire. Asking first keeps what would be refused from being sent.
 * Where a part's outcome is unknown the whole begins again with asking: sending a part twice changes nothing.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { PARTS = 2, PART_TTL_MS = 3600000, ANSWER_RAW = 1024 };

struct append {
    struct pp_riq_op op; /* asks, and appends */
    struct pp_ingest_append *r;
    void *packed;
    size_t packed_n;
    char *answer; /* 'r' and the bytes, or 'z', the number of bytes as u32 and what zlib made of them */
    size_t answer_n;
    uint32_t parts;        /* 0: inside */
    uint32_t next, on_way; /* parts: the next to be sent, sent and not answered */
    enum pp_err part_err;
};

struct part {
    struct pp_riq_op op;
    struct append *a;
};

static void end(struct append *a, enum pp_err err)
{
    free(a->packed);
    free(a->answer);
    pp_riq_end(&a->op, err);
}

/* --- on the lane --- */

static bool pack_answer(struct append *a)
{
    const struct pp_ingest_append *r = a->r;
    size_t n = r->answer_n, packed_n = 0;
    char *packed = n > ANSWER_RAW ? pp_riq_pack(r->answer, n, &packed_n) : NULL;
    if (n > ANSWER_RAW && (!packed || n > UINT32_MAX))
        return false;
    a->answer_n = packed ? packed_n + 5 : n + 1;
    a->answer = malloc(a->answer_n);
    if (a->answer && packed) {
        uint32_t raw_n = (uint32_t)n;
        a->answer[0] = 'z';
        memcpy(a->answer + 1, &raw_n, 4);
        memcpy(a->answer + 5, packed, packed_n);
    } else if (a->answer) {
        a->answer[0] = 'r';
        memcpy(a->answer + 1, r->answer ? r->answer : "", n);
    }
    free(packed);
    return a->answer;
}

static void pack(void *state, struct pp_job *job)
{
    struct append *a = pp_container_of(job, struct append, op.job);
    (void)state;
    a->packed = pp_riq_pack(a->r->entry.payload, a->r->entry.payload_n, &a->packed_n);
    if (a->r->key && a->packed && !pack_answer(a)) {
        free(a->packed);
        a->packed = NULL;
    }
}

/* --- what Redis said --- */

static void old_answer(struct append *a, const struct redisReply *reply)
{
    struct pp_ingest_append *r = a->r;
    const char *s = reply->str;
    size_t n = (size_t)reply->len;
    uint32_t raw_n;

    if (n >= 5 && s[0] == 'z') {
        memcpy(&raw_n, s + 1, 4);
        const void *part = s + 5;
        const size_t part_n = n - 5;
        char *raw = raw_n <= PP_RIQ_RAW_MAX ? pp_arena_alloc(r->req.arena, (size_t)raw_n + 1) : NULL;
        enum pp_err err = raw ? pp_riq_unpack(&part, &part_n, 1, raw, raw_n) : PP_ENOMEM;
        if (err == PP_OK) {
            r->old_answer = raw;
            r->old_answer_n = raw_n;
        }
        end(a, err == PP_OK ? PP_EEXISTS : err);
        return;
    }
    if (n < 1 || s[0] != 'r') {
        end(a, PP_ECORRUPT);
        return;
    }
    r->old_answer = pp_arena_copy(r->req.arena, s + 1, n - 1);
    r->old_answer_n = r->old_answer ? n - 1 : 0;
    end(a, r->old_answer ? PP_EEXISTS : PP_ENOMEM);
}

/* There already. What was sent more than once may be our own. */
static void exists(struct append *a, const struct redisReply *answer)
{
    bool own =
        a->op.maybe &&
        (!answer || ((size_t)answer->len == a->answer_n && memcmp(answer->str, a->answer, a->answer_n) == 0));
    if (own)
        end(a, PP_OK);
    else if (answer)
        old_answer(a, answer);
    else
        end(a, PP_EEXISTS);
}

/* True: it is over. */
static bool refused(struct append *a, enum pp_err err, const struct redisReply *reply)
{
    if (err != PP_OK) {
        end(a, pp_riq_err(err, reply));
        return true;
    }
    const char *word = reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0]->str : NULL;
    if (word && strcmp(word, "ok") == 0)
        return false;
    if (word && strcmp(word, "exists") == 0)
        exists(a, reply->elements > 1 ? reply->element[1] : NULL);
    else if (word && strcmp(word, "mismatch") == 0)
        end(a, PP_EMISMATCH);
    else if (word && strcmp(word, "full") == 0)
        end(a, PP_EFULL);
    else /* "parts": expired, or evicted */
        end(a, PP_EIO);
    return true;
}

/* --- the script --- */

static void write_call(struct append *a, bool only_ask)
{
    const struct pp_ingest_append *r = a->r;
    const struct pp_ingest_entry *e = &r->entry;
    struct pp_riq_op *op = &a->op;
    size_t last = a->parts ? (size_t)(a->parts - 1) * PP_RIQ_PART_BYTES : 0;

    pp_riq_begin(op, PP_RIQ_APPEND);
    pp_riq_key(op, "parts", e->batch_id);
    pp_riq_key(op, "key", pp_arena_printf(&op->mem, "%s:%s", e->client, r->key ? r->key : ""));
    pp_riq_done_key(op, e->batch_id, true);
    pp_riq_text(op, e->batch_id);
    pp_riq_text(op, e->client);
    pp_riq_number(op, (int64_t)e->n_photos);
    pp_riq_text(op,
                pp_arena_printf(&op->mem, "%d %d %" PRId64 " %u %" PRIu64 " %zu %u", (int)e->refresh,
                                e->replay, e->created_at, e->n_items, e->n_photos, e->payload_n, a->parts));
    pp_riq_number(op, r->only_key ? 0 : (int64_t)r->high_water);
    pp_riq_digest(op, e->batch_id);
    pp_riq_text(op, only_ask ? "1" : "0");
    pp_riq_text(op, r->key ? "1" : "0");
    pp_riq_text(op, pp_arena_printf(&op->mem, "%016" PRId64, r->now_ms));
    pp_riq_arg(op, r->body_hash, sizeof r->body_hash);
    pp_riq_arg(op, a->answer ? a->answer : "", a->answer_n);
    pp_riq_number(op, op->q->key_ttl_ms);
    pp_riq_number(op, a->parts);
    pp_riq_arg(op, (const char *)a->packed + last, only_ask ? 0 : a->packed_n - last);
    pp_riq_text(op, e->cancelled ? "10" : "00");
}

static void appended(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct append *a = (struct append *)op;
    if (!refused(a, err, reply))
        end(a, PP_OK);
}

static void append(struct append *a)
{
    write_call(a, a->r->only_key);
    a->op.answered = appended;
    pp_riq_send(&a->op);
}

/* --- large ones --- */

static void send_parts(struct append *a);

static void part_stored(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct append *a = ((struct part *)op)->a;
    err = pp_riq_err(err, reply);
    pp_riq_end(op, err);
    a->on_way--;
    if (err != PP_OK && a->part_err == PP_OK)
        a->part_err = err;
    send_parts(a);
}

static bool send_part(struct append *a)
{
    enum pp_err err;
    struct part *p = (struct part *)pp_riq_op_new(a->op.q, sizeof *p, NULL, &err);
    if (!p) {
        a->part_err = err;
        return false;
    }
    p->a = a;
    p->op.retry = true;
    p->op.answered = part_stored;
    pp_riq_begin(&p->op, PP_RIQ_PART);
    pp_riq_key(&p->op, "parts", a->r->entry.batch_id);
    pp_riq_text(&p->op, a->r->entry.batch_id);
    pp_riq_number(&p->op, a->next);
    pp_riq_arg(&p->op, (const char *)a->packed + (size_t)a->next * PP_RIQ_PART_BYTES, PP_RIQ_PART_BYTES);
    pp_riq_number(&p->op, PART_TTL_MS);
    a->next++;
    a->on_way++;
    pp_riq_send(&p->op);
    return true;
}

static void send_parts(struct append *a)
{
    while (a->part_err == PP_OK && a->next + 1 < a->parts && a->on_way < PARTS)
        if (!send_part(a))
            break;
    if (a->on_way > 0)
        return;
    if (a->part_err != PP_OK)
        end(a, a->part_err == PP_EUNKNOWN || a->part_err == PP_ETIMEOUT ? PP_EIO : a->part_err);
    else
        append(a); /* all but the last are there */
}

static void asked(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct append *a = (struct append *)op;
    if (!refused(a, err == PP_EUNKNOWN || err == PP_ETIMEOUT ? PP_EIO : err, reply))
        send_parts(a);
}

static void ask(struct append *a)
{
    write_call(a, true);
    a->op.answered = asked;
    pp_riq_send(&a->op);
}

/* --- the operation --- */

static void packed(struct pp_riq_op *op)
{
    struct append *a = (struct append *)op;
    if (op->q->closing || !a->packed) {
        end(a, op->q->closing ? PP_ECLOSED : PP_ENOMEM);
        return;
    }
    if (a->packed_n <= PP_RIQ_INSIDE_BYTES) {
        append(a);
        return;
    }
    a->parts = (uint32_t)((a->packed_n + PP_RIQ_PART_BYTES - 1) / PP_RIQ_PART_BYTES);
    if (a->parts > 1)
        ask(a);
    else
        append(a);
}

enum pp_err pp_riq_append(struct pp_ingest_queue *base, struct pp_ingest_append *r)
{
    enum pp_err err;
    struct append *a = (struct append *)pp_riq_op_new((struct pp_riq *)base, sizeof *a, &r->req, &err);
    if (!a)
        return err;
    r->old_answer = NULL;
    r->old_answer_n = 0;
    a->r = r;
    a->op.retry = true;
    err = r->entry.payload_n > PP_RIQ_RAW_MAX ? PP_EINVAL : pp_riq_work(&a->op, pack, packed);
    if (err != PP_OK)
        pp_riq_drop(&a->op);
    return err;
}
