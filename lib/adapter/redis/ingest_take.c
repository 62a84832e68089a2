/* ingest_take.c: entries taken, their payloads fetched and unpacked; signs of life. See ingest_internal.h.
 *
 *   take (one at a time) -> in hand -> parts of the large ones, PARTS at once -> unpack (lane) -> done
 *
 * What is in hand was given to the caller, or is on its way to it; it leaves by ack or poison. A timer, which
 * runs only while something is in hand, tells Redis that it is still being worked on, however long that
 * takes. Where fetching fails the entries leave our hand again, and the next take gets them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { PARTS = 4, LIMIT_MAX = 1000, HAND_MAX = 4000 };

struct body { /* of an entry */
    struct pp_riq_meta meta;
    char *inside; /* in op.mem; NULL: in parts */
    size_t inside_n;
    char **parts; /* in op.mem, of meta.parts, each NULL until it came */
    size_t *lens;
    bool damaged;
    void *raw;
};

struct take {
    struct pp_riq_op op;
    struct pp_node queued; /* in q->takes */
    struct pp_ingest_take *r;
    struct body *bodies;
    size_t entry;  /* whose parts are being asked for, */
    uint32_t part; /* from this one on */
    size_t on_way;
    enum pp_err err;
};

struct part_ask {
    struct take *t;
    size_t entry;
    uint32_t part;
};

static void begin_next(struct pp_riq *q);

/* --- in hand --- */

void pp_riq_let_go(struct pp_riq *q, const char *batch_id)
{
    pp_list_each (node, &q->hand) {
        struct pp_riq_hand *h = pp_container_of(node, struct pp_riq_hand, node);
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
    struct pp_riq_hand *h = malloc(sizeof *h + n);
    if (!h)
        return false;
    snprintf(h->sid, sizeof h->sid, "%s", sid);
    memcpy(h->batch, batch_id, n);
    if (pp_list_empty(&q->hand))
        pp_timer_start(q->alive, q->silence_ms / 3, q->silence_ms / 3);
    pp_list_push(&q->hand, &h->node);
    return true;
}

static void refreshed(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct pp_riq *q = op->q;
    for (size_t i = 0; err == PP_OK && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        pp_list_each (node, &q->hand) {
            struct pp_riq_hand *h = pp_container_of(node, struct pp_riq_hand, node);
            if (strcmp(h->sid, reply->element[i]->str) != 0)
                continue;
            pp_log(q->log, PP_LOG_WARN, "an entry went to another planner, or is gone", "batch", h->batch,
                   NULL);
            pp_list_remove(&q->hand, node);
            free(h);
        }
    pp_riq_end(op, err);
}

/* Arguments: who we are, what we hold. */
static void put_hand(struct pp_riq_op *op)
{
    pp_list_each (node, &op->q->hand)
        pp_riq_text(op, pp_arena_strdup(&op->mem, pp_container_of(node, struct pp_riq_hand, node)->sid));
}

static void stay_alive(void *data)
{
    struct pp_riq *q = data;
    enum pp_err err;
    struct pp_riq_op *op = pp_riq_op_new(q, sizeof *op, NULL, &err);
    if (!op)
        return;
    op->answered = refreshed;
    pp_riq_begin(op, PP_RIQ_REFRESH);
    pp_riq_text(op, pp_arena_strdup(&op->mem, q->consumer));
    put_hand(op);
    pp_riq_send(op);
}

/* --- the end of a take --- */

static void end(struct take *t, enum pp_err err)
{
    struct pp_riq *q = t->op.q;
    struct pp_ingest_take *r = t->r;

    pp_list_remove(&q->takes, &t->queued);
    for (size_t i = 0; err != PP_OK && i < r->n; i++)
        pp_riq_let_go(q, r->entries[i].batch_id);
    if (err != PP_OK)
        r->n = 0;
    if (err == PP_OK && r->n > 0 && r->n_skip > 0)
        snprintf(q->turn, sizeof q->turn, "%s", r->entries[r->n - 1].client);
    begin_next(q); /* before the caller, who may close */
    pp_riq_end(&t->op, err);
}

/* --- unpacking --- */

static void unpack_one(struct take *t, size_t i)
{
    struct body *b = &t->bodies[i];
    const void *inside = b->inside;
    enum pp_err err = PP_ECORRUPT;

    b->raw = pp_arena_alloc(t->r->req.arena, b->meta.raw + 1);
    if (!b->raw)
        t->err = PP_ENOMEM;
    else if (b->inside)
        err = pp_riq_unpack(&inside, &b->inside_n, 1, b->raw, b->meta.raw);
    else if (b->meta.parts > 0 && !b->damaged)
        err = pp_riq_unpack((const void *const *)b->parts, b->lens, b->meta.parts, b->raw, b->meta.raw);
    if (err == PP_ENOMEM)
        t->err = err;
    b->damaged = err != PP_OK;
}

static void unpack(void *state, struct pp_job *job)
{
    struct take *t = pp_container_of(job, struct take, op.job);
    (void)state;
    for (size_t i = 0; i < t->r->n; i++)
        unpack_one(t, i);
}

static void unpacked(struct pp_riq_op *op)
{
    struct take *t = (struct take *)op;
    struct pp_ingest_take *r = t->r;
    for (size_t i = 0; t->err == PP_OK && i < r->n; i++) {
        struct body *b = &t->bodies[i];
        r->entries[i].payload = b->damaged ? "" : b->raw; /* "" is no payload: the planner sets it aside */
        r->entries[i].payload_n = b->damaged ? 0 : b->meta.raw;
        if (b->damaged)
            pp_log(op->q->log, PP_LOG_ERROR, "the payload of an entry is damaged or gone from Redis", "batch",
                   r->entries[i].batch_id, NULL);
    }
    end(t, op->q->closing ? PP_ECLOSED : t->err);
}

static void all_here(struct take *t)
{
    if (t->err == PP_OK && t->r->n > 0)
        t->err = pp_riq_work(&t->op, unpack, unpacked);
    if (t->err != PP_OK || t->r->n == 0)
        end(t, t->err);
}

/* --- parts --- */

static void ask_parts(struct take *t);

static void part_came(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct part_ask *ask = data;
    struct take *t = ask->t;
    struct body *b = &t->bodies[ask->entry];

    t->on_way--;
    if (err != PP_OK && t->err == PP_OK)
        t->err = err;
    if (err == PP_OK && reply->type == REDIS_REPLY_STRING) {
        b->parts[ask->part] = pp_arena_copy(&t->op.mem, reply->str, (size_t)reply->len);
        b->lens[ask->part] = (size_t)reply->len;
        if (!b->parts[ask->part])
            t->err = PP_ENOMEM;
    } else if (err == PP_OK) {
        b->damaged = true;
    }
    free(ask);
    ask_parts(t);
}

static bool ask_part(struct take *t, size_t entry, uint32_t part)
{
    struct part_ask *ask = malloc(sizeof *ask);
    const char *argv[] = {
        "HGET", pp_arena_printf(&t->op.mem, "%sparts:%s", t->op.q->tag, t->r->entries[entry].batch_id),
        pp_arena_printf(&t->op.mem, "%u", part)};
    enum pp_err err = PP_ENOMEM;
    if (ask) {
        *ask = (struct part_ask){t, entry, part};
        if (argv[1] && argv[2])
            err = pp_redis_command(t->op.q->redis, 3, argv, NULL, part_came, ask);
    }
    if (err != PP_OK) {
        free(ask);
        t->err = err;
        return false;
    }
    t->on_way++;
    return true;
}

static void ask_parts(struct take *t)
{
    while (t->err == PP_OK && t->entry < t->r->n && t->on_way < PARTS) {
        const struct body *b = &t->bodies[t->entry];
        if (b->damaged || t->part >= b->meta.parts) {
            t->entry++;
            t->part = 0;
        } else if (!ask_part(t, t->entry, t->part++)) {
            break;
        }
    }
    if (t->on_way == 0)
        all_here(t);
}

/* --- taking --- */

/* {batch, line of META, deliveries, payload or nil} */
static enum pp_err read_entry(struct take *t, const struct redisReply *row)
{
    struct pp_ingest_take *r = t->r;
    struct body *b = &t->bodies[r->n];
    struct pp_ingest_entry *e = &r->entries[r->n];

    if (row->type != REDIS_REPLY_ARRAY || row->elements < 3 || !row->element[0]->str || !row->element[1]->str)
        return PP_ECORRUPT;
    const struct redisReply *payload = row->elements > 3 ? row->element[3] : NULL;
    enum pp_err err = pp_riq_parse_meta(r->req.arena, row->element[0]->str, row->element[1]->str,
                                        (size_t)row->element[1]->len, e, &b->meta);
    if (err != PP_OK)
        return err;
    e->deliveries = (uint32_t)row->element[2]->integer;
    if (payload && payload->type == REDIS_REPLY_STRING) {
        b->inside_n = (size_t)payload->len;
        b->inside = pp_arena_copy(&t->op.mem, payload->str, b->inside_n);
        if (!b->inside)
            return PP_ENOMEM;
        b->meta.parts = 0;
    }
    b->parts = pp_arena_array(&t->op.mem, b->meta.parts, sizeof *b->parts);
    b->lens = pp_arena_array(&t->op.mem, b->meta.parts, sizeof *b->lens);
    if (!b->parts || !b->lens || !hold(t->op.q, e->batch_id, b->meta.sid))
        return PP_ENOMEM;
    r->n++;
    return PP_OK;
}

static enum pp_err read_entries(struct take *t, const struct redisReply *list)
{
    struct pp_ingest_take *r = t->r;
    r->entries = pp_arena_array(r->req.arena, list->elements, sizeof *r->entries);
    t->bodies = pp_arena_array(&t->op.mem, list->elements, sizeof *t->bodies);
    enum pp_err err = r->entries && t->bodies ? PP_OK : PP_ENOMEM;
    for (size_t i = 0; err == PP_OK && i < list->elements; i++) {
        err = read_entry(t, list->element[i]);
        if (err == PP_ECORRUPT) { /* a line of META that nobody of us wrote: it waits for an operator */
            pp_log(t->op.q->log, PP_LOG_ERROR, "a line of the ingest queue in Redis makes no sense", "key",
                   t->op.q->fixed[PP_RIQ_META], NULL);
            err = PP_OK;
        }
    }
    return err;
}

static void taken(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    struct take *t = (struct take *)op;
    const struct redisReply *list = err == PP_OK && reply->type == REDIS_REPLY_ARRAY &&
                                            reply->elements == 2 &&
                                            reply->element[0]->type == REDIS_REPLY_ARRAY
                                        ? reply->element[0]
                                        : NULL;
    if (!list) {
        end(t, err == PP_OK ? PP_EIO : pp_riq_err(err, reply));
        return;
    }
    t->err = read_entries(t, list);
    op->q->hungry = op->q->hungry && t->r->n == 0;
    if (t->r->n == 0 && t->r->limit > 0)
        pp_riq_hungry(op->q, reply->element[1]->integer);
    ask_parts(t);
}

static void begin_next(struct pp_riq *q)
{
    if (pp_list_empty(&q->takes) || q->closing)
        return;
    struct take *t = pp_container_of(q->takes.head.next, struct take, queued);
    const struct pp_ingest_take *r = t->r;
    struct pp_riq_op *op = &t->op;

    pp_riq_begin(op, PP_RIQ_TAKE);
    pp_riq_text(op, q->consumer);
    pp_riq_number(op, r->limit < LIMIT_MAX ? (int64_t)r->limit : LIMIT_MAX);
    pp_riq_number(op, r->max_bytes < INT64_MAX ? (int64_t)r->max_bytes : INT64_MAX);
    pp_riq_number(op, q->silence_ms);
    pp_riq_text(op, q->turn);
    pp_riq_number(op, (int64_t)r->n_skip);
    for (size_t i = 0; i < r->n_skip; i++)
        pp_riq_text(op, r->skip[i]);
    put_hand(op);
    op->answered = taken;
    pp_riq_send(op);
}

/* The name that signs of life are given under. */
static bool set_consumer(struct pp_riq *q, const char *consumer)
{
    if (q->consumer && strcmp(q->consumer, consumer) == 0)
        return true;
    char *name = strdup(consumer);
    if (!name)
        return false;
    free(q->consumer);
    q->consumer = name;
    return true;
}

enum pp_err pp_riq_take(struct pp_ingest_queue *base, struct pp_ingest_take *r)
{
    struct pp_riq *q = (struct pp_riq *)base;
    enum pp_err err;
    if (q->hand.n > HAND_MAX || r->n_skip > LIMIT_MAX)
        return PP_EFULL;
    struct take *t = (struct take *)pp_riq_op_new(q, sizeof *t, &r->req, &err);
    if (!t)
        return err;
    if (!set_consumer(q, r->consumer)) {
        pp_riq_drop(&t->op);
        return PP_ENOMEM;
    }
    r->n = 0;
    r->entries = NULL;
    t->r = r;
    pp_list_push(&q->takes, &t->queued);
    if (q->takes.n == 1)
        begin_next(q);
    return PP_OK;
}

/* --- life --- */

bool pp_riq_take_open(struct pp_riq *q)
{
    q->scripts[PP_RIQ_BACK].sha1[0] = '\0'; /* nobody waits for its answer */
    q->alive = pp_timer_open(q->loop, stay_alive, q);
    return q->alive;
}

static void given_back(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    (void)reply;
    pp_riq_end(op, err);
}

static void give_back(struct pp_riq *q)
{
    enum pp_err err;
    struct pp_riq_op *op = pp_list_empty(&q->hand) ? NULL : pp_riq_op_new(q, sizeof *op, NULL, &err);
    if (!op)
        return;
    op->answered = given_back;
    pp_riq_begin(op, PP_RIQ_BACK);
    pp_riq_text(op, q->consumer);
    pp_riq_number(op, q->silence_ms);
    put_hand(op);
    pp_riq_send(op);
}

void pp_riq_take_close(struct pp_riq *q)
{
    struct pp_node *node;
    give_back(q);
    q->closing = true;
    pp_timer_close(q->alive);
    while (q->takes.n > 1) { /* those that have not begun */
        struct take *t = pp_container_of(q->takes.head.prev, struct take, queued);
        pp_list_remove(&q->takes, &t->queued);
        pp_riq_end(&t->op, PP_ECLOSED);
    }
    while ((node = pp_list_pop(&q->hand)))
        free(pp_container_of(node, struct pp_riq_hand, node));
}
