/* ingest_take.c: takes entries, fetches and unpacks their payloads, and sends heartbeats for them.
 *
 * take (one at a time) -> in hand -> parts of large ones, TAKE_PARTS at once -> unpack (lane) ->
 * done
 *
 * An entry is in hand from the answer of the script until its ack or poison: the caller has the
 * entry, or will get it with this take. While entries are in hand, a timer tells Redis regularly
 * that this planner is still working on them. If fetching their payloads fails, they are no longer
 * in hand, and the next take gets them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { TAKE_PARTS = 4, LIMIT_MAX = 1000, HAND_MAX = 4000 };

/* An entry in hand: taken by this process and not acked yet. */
struct riq_hand {
    struct pp_node node;
    char sid[PP_RIQ_SID_MAX];
    char batch[]; /* the batch id with its NUL */
};

struct riq_body { /* the payload of an entry that is being taken */
    struct pp_riq_meta meta;
    /* Arrays of meta.parts packed parts and their lengths, in op.mem. A part is NULL until it has
     * come. A payload inside the message is one part. */
    char **parts;
    size_t *lens;
    bool damaged;
    void *raw;
};

struct riq_take {
    struct pp_riq_op op;
    struct pp_node queued; /* links the take into q->takes */
    struct pp_ingest_take *r;
    struct riq_body *bodies;
    size_t entry; /* The next part to fetch is part number `part` of entry number `entry`. */
    uint32_t part;
    size_t in_flight;
    enum pp_err err;
};

struct riq_part_ask {
    struct riq_take *t;
    size_t entry;
    uint32_t part;
};

static void send_next(struct pp_riq *q);

/* --- in hand --- */

void pp_riq_let_go(struct pp_riq *q, const char *batch_id)
{
    pp_list_each (node, &q->hand) {
        struct riq_hand *h = pp_container_of(node, struct riq_hand, node);
        if (strcmp(h->batch, batch_id) != 0)
            continue;
        pp_list_remove(&q->hand, node);
        free(h);
    }
    if (pp_list_empty(&q->hand) && !q->closing)
        pp_timer_stop(q->alive);
}

static bool hold(struct pp_riq *q, const char *batch_id, const char *sid)
{
    size_t n = strlen(batch_id) + 1;
    struct riq_hand *h = malloc(sizeof *h + n);
    if (!h)
        return false;
    snprintf(h->sid, sizeof h->sid, "%s", sid);
    memcpy(h->batch, batch_id, n);
    if (pp_list_empty(&q->hand))
        pp_timer_start(q->alive, q->silence_ms / 3, q->silence_ms / 3);
    pp_list_push(&q->hand, &h->node);
    return true;
}

static void on_refreshed(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct pp_riq *q = op->q;
    for (size_t i = 0; err == PP_OK && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        pp_list_each (node, &q->hand) {
            struct riq_hand *h = pp_container_of(node, struct riq_hand, node);
            if (strcmp(h->sid, reply->element[i]->str) != 0)
                continue;
            pp_log(q->log, PP_LOG_WARN, "entry lost: another planner has it, or it is gone", "batch",
                   h->batch, NULL);
            pp_list_remove(&q->hand, node);
            free(h);
        }
    pp_riq_end(op, err);
}

/* Adds the stream ids of all entries in hand as arguments. */
static void put_hand(struct pp_riq_op *op)
{
    pp_list_each (node, &op->q->hand)
        pp_redis_put_text(&op->call, pp_container_of(node, struct riq_hand, node)->sid);
}

static void on_alive_timer(void *data)
{
    struct pp_riq *q = data;
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_op_new(q, sizeof *op, NULL, &err);
    if (!op)
        return;
    pp_riq_begin(op, PP_RIQ_REFRESH, on_refreshed);
    pp_riq_args(op);
    pp_redis_put_text(&op->call, q->consumer);
    put_hand(op);
    pp_riq_send(op);
}

/* --- the end of a take --- */

static void end_take(struct riq_take *t, enum pp_err err)
{
    struct pp_riq *q = t->op.q;
    struct pp_ingest_take *r = t->r;

    pp_assert(q->takes.head.next == &t->queued, "a take ends before its turn");
    pp_assert(t->in_flight == 0, "a take ends with parts in flight");
    pp_list_remove(&q->takes, &t->queued);
    for (size_t i = 0; err != PP_OK && i < r->n; i++)
        pp_riq_let_go(q, r->entries[i].batch_id);
    if (err != PP_OK)
        r->n = 0;
    if (err == PP_OK && r->n > 0 && r->n_skip > 0)
        snprintf(q->turn, sizeof q->turn, "%s", r->entries[r->n - 1].client);
    send_next(q); /* precedes done(), which may close the queue */
    pp_riq_end(&t->op, err);
}

/* --- unpacking --- */

static void unpack_one(struct riq_take *t, size_t i)
{
    struct riq_body *b = &t->bodies[i];
    enum pp_err err = PP_ECORRUPT;

    b->raw = pp_arena_alloc(t->r->req.arena, b->meta.raw + 1);
    if (!b->raw)
        t->err = PP_ENOMEM;
    else if (b->meta.parts > 0 && !b->damaged)
        err = pp_riq_unpack((const void *const *)b->parts, b->lens, b->meta.parts, b->raw, b->meta.raw);
    if (err == PP_ENOMEM)
        t->err = err;
    b->damaged = err != PP_OK;
}

static void unpack(void *state, struct pp_job *job)
{
    struct riq_take *t = pp_container_of(job, struct riq_take, op.job);
    (void)state;
    for (size_t i = 0; i < t->r->n; i++)
        unpack_one(t, i);
}

static void on_unpacked(struct pp_riq_op *op)
{
    struct riq_take *t = (struct riq_take *)op;
    struct pp_ingest_take *r = t->r;
    for (size_t i = 0; t->err == PP_OK && i < r->n; i++) {
        struct riq_body *b = &t->bodies[i];
        r->entries[i].payload =
            b->damaged ? "" : b->raw; /* the planner poisons an entry whose payload is empty */
        r->entries[i].payload_n = b->damaged ? 0 : b->meta.raw;
        if (b->damaged)
            pp_log(op->q->log, PP_LOG_ERROR, "entry payload damaged or gone from Redis", "batch",
                   r->entries[i].batch_id, NULL);
    }
    end_take(t, op->q->closing ? PP_ECLOSED : t->err);
}

static void on_all_parts(struct riq_take *t)
{
    if (t->err == PP_OK && t->r->n > 0)
        t->err = pp_riq_work(&t->op, unpack, on_unpacked);
    if (t->err != PP_OK || t->r->n == 0)
        end_take(t, t->err);
}

/* --- parts --- */

static void ask_parts(struct riq_take *t);

static bool keep_part(struct riq_take *t, struct riq_body *b, uint32_t part, const struct redisReply *bytes)
{
    b->lens[part] = (size_t)bytes->len;
    b->parts[part] = pp_arena_copy(&t->op.mem, bytes->str, b->lens[part]);
    return b->parts[part];
}

static void on_part(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct riq_part_ask *ask = data;
    struct riq_take *t = ask->t;
    struct riq_body *b = &t->bodies[ask->entry];

    pp_assert(t->in_flight > 0 && ask->part < b->meta.parts, "a part comes that nobody asked for");
    t->in_flight--;
    if (err != PP_OK && t->err == PP_OK)
        t->err = err;
    if (err == PP_OK && reply->type != REDIS_REPLY_STRING)
        b->damaged = true;
    else if (err == PP_OK && !keep_part(t, b, ask->part, reply))
        t->err = PP_ENOMEM;
    ask_parts(t);
}

static void ask_part(struct riq_take *t, size_t entry, uint32_t part)
{
    struct riq_part_ask *ask = pp_arena_alloc(&t->op.mem, sizeof *ask);
    const char *argv[] = {
        "HGET", pp_arena_printf(&t->op.mem, "%sparts:%s", t->op.q->tag, t->r->entries[entry].batch_id),
        pp_arena_printf(&t->op.mem, "%u", part)};
    if (!ask || !argv[1] || !argv[2]) {
        t->err = PP_ENOMEM;
        return;
    }
    *ask = (struct riq_part_ask){t, entry, part};
    t->err = pp_redis_command(t->op.q->redis, 3, argv, NULL, on_part, ask);
    t->in_flight += t->err == PP_OK;
}

static void ask_parts(struct riq_take *t)
{
    while (t->err == PP_OK && t->entry < t->r->n && t->in_flight < TAKE_PARTS) {
        const struct riq_body *b = &t->bodies[t->entry];
        if (b->damaged || t->part >= b->meta.parts) {
            t->entry++;
            t->part = 0;
        } else if (b->parts[t->part]) {
            t->part++;
        } else {
            ask_part(t, t->entry, t->part++);
        }
    }
    if (t->in_flight == 0)
        on_all_parts(t);
}

/* --- taking --- */

/* Reads one entry from the script's answer: {batch, line of META, deliveries, payload or nil}. */
static enum pp_err read_entry(struct riq_take *t, const struct redisReply *row)
{
    struct pp_ingest_take *r = t->r;
    struct riq_body *b = &t->bodies[r->n];
    struct pp_ingest_entry *e = &r->entries[r->n];

    if (row->type != REDIS_REPLY_ARRAY || row->elements < 3 || !row->element[0]->str || !row->element[1]->str)
        return PP_ECORRUPT;
    const struct redisReply *payload = row->elements > 3 ? row->element[3] : NULL;
    enum pp_err err = pp_riq_parse_meta(r->req.arena, row->element[0]->str, row->element[1]->str,
                                        (size_t)row->element[1]->len, e, &b->meta);
    if (err != PP_OK)
        return err;
    e->deliveries = (uint32_t)row->element[2]->integer;
    bool inside = payload && payload->type == REDIS_REPLY_STRING;
    if (inside)
        b->meta.parts = 1;
    b->parts = pp_arena_array(&t->op.mem, b->meta.parts, sizeof *b->parts);
    b->lens = pp_arena_array(&t->op.mem, b->meta.parts, sizeof *b->lens);
    if (!b->parts || !b->lens || (inside && !keep_part(t, b, 0, payload)) ||
        !hold(t->op.q, e->batch_id, b->meta.sid))
        return PP_ENOMEM;
    r->n++;
    return PP_OK;
}

static enum pp_err read_entries(struct riq_take *t, const struct redisReply *list)
{
    struct pp_ingest_take *r = t->r;
    pp_assert(r->n == 0, "a take has entries before its answer");
    r->entries = pp_arena_array(r->req.arena, list->elements, sizeof *r->entries);
    t->bodies = pp_arena_array(&t->op.mem, list->elements, sizeof *t->bodies);
    enum pp_err err = r->entries && t->bodies ? PP_OK : PP_ENOMEM;
    for (size_t i = 0; err == PP_OK && i < list->elements; i++) {
        err = read_entry(t, list->element[i]);
        if (err == PP_ECORRUPT) { /* photopool did not write this line, so an operator must look at it */
            pp_log(t->op.q->log, PP_LOG_ERROR, "ingest queue line unreadable", "key",
                   t->op.q->keys[PP_INGEST_META], NULL);
            err = PP_OK;
        }
    }
    return err;
}

static void on_taken(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct riq_take *t = (struct riq_take *)op;
    if (err != PP_OK || !pp_redis_is(reply, "ai")) {
        end_take(t, err == PP_OK ? PP_EIO : pp_riq_err(err, reply));
        return;
    }
    t->err = read_entries(t, reply->element[0]);
    op->q->hungry = op->q->hungry && t->r->n == 0;
    if (t->r->n == 0 && t->r->limit > 0)
        pp_riq_hungry(op->q, reply->element[1]->integer);
    ask_parts(t);
}

static void send_next(struct pp_riq *q)
{
    if (pp_list_empty(&q->takes) || q->closing)
        return;
    pp_assert(q->consumer, "a take has no consumer");
    struct riq_take *t = pp_container_of(q->takes.head.next, struct riq_take, queued);
    const struct pp_ingest_take *r = t->r;
    struct pp_riq_op *op = &t->op;

    pp_riq_begin(op, PP_RIQ_TAKE, on_taken);
    pp_riq_args(op);
    pp_redis_put_text(&op->call, q->consumer);
    pp_redis_put_num(&op->call, r->limit < LIMIT_MAX ? (int64_t)r->limit : LIMIT_MAX);
    pp_redis_put_num(&op->call, r->max_bytes < INT64_MAX ? (int64_t)r->max_bytes : INT64_MAX);
    pp_redis_put_num(&op->call, q->silence_ms);
    pp_redis_put_text(&op->call, q->turn);
    pp_redis_put_num(&op->call, (int64_t)r->n_skip);
    for (size_t i = 0; i < r->n_skip; i++)
        pp_redis_put_text(&op->call, r->skip[i]);
    put_hand(op);
    pp_riq_send(op);
}

enum pp_err pp_riq_take(struct pp_ingest_queue *base, struct pp_ingest_take *r)
{
    struct pp_riq *q = (struct pp_riq *)base;
    enum pp_err err;
    if (q->hand.n > HAND_MAX || r->n_skip > LIMIT_MAX)
        return PP_EFULL;
    struct riq_take *t = (struct riq_take *)pp_riq_op_new(q, sizeof *t, &r->req, &err);
    if (!t)
        return err;
    if (!q->consumer && !(q->consumer = strdup(r->consumer))) {
        pp_riq_drop(&t->op);
        return PP_ENOMEM;
    }
    pp_assert(strcmp(q->consumer, r->consumer) == 0, "the takes of a queue have different consumers");
    r->n = 0;
    r->entries = NULL;
    t->r = r;
    pp_list_push(&q->takes, &t->queued);
    if (q->takes.n == 1)
        send_next(q);
    return PP_OK;
}

/* --- life --- */

bool pp_riq_take_open(struct pp_riq *q)
{
    q->alive = pp_timer_open(q->loop, on_alive_timer, q);
    return q->alive;
}

static void give_back(struct pp_riq *q)
{
    enum pp_err err;
    struct pp_riq_op *op = pp_list_empty(&q->hand) ? NULL : pp_riq_op_new(q, sizeof *op, NULL, &err);
    if (!op)
        return;
    pp_riq_begin(op, PP_RIQ_BACK, pp_riq_on_found_or_not);
    pp_riq_args(op);
    pp_redis_put_text(&op->call, q->consumer);
    pp_redis_put_num(&op->call, q->silence_ms);
    put_hand(op);
    struct pp_redis_script whole =
        *op->call
             .script; /* sends the script's text: after the close, no answer can say that Redis lacks it */
    whole.sha1[0] = '\0';
    op->call.script = &whole;
    pp_riq_send(op);
}

void pp_riq_take_close(struct pp_riq *q)
{
    struct pp_node *node;
    give_back(q);
    q->closing = true;
    pp_timer_close(q->alive);
    while (q->takes.n > 1) { /* ends the takes that were not sent */
        struct riq_take *t = pp_container_of(q->takes.head.prev, struct riq_take, queued);
        pp_list_remove(&q->takes, &t->queued);
        pp_riq_end(&t->op, PP_ECLOSED);
    }
    while ((node = pp_list_pop(&q->hand)))
        free(pp_container_of(node, struct riq_hand, node));
}
