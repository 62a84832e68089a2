/* ingest_queue.c: opens and closes the queue; the port's table of functions. See ingest_internal.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { PATIENCE_MS = 4000, SILENCE_MS = 30000, INGEST_TIMEOUT_MS = 5000, INGEST_CAPACITY = 4096 };
#define KEY_TTL_MS (PP_DAY_MS + 60 * PP_MINUTE_MS)

static void on_state(void *data, bool up)
{
    struct pp_riq *q = data;
    if (up)
        pp_riq_ask_durability(q);
}

static bool roundtrips(struct pp_ingest_queue *base, size_t i, const char **name, uint64_t *n)
{
    return pp_redis_roundtrips(((struct pp_riq *)base)->redis, i, name, n);
}

/* Closes the queue: ends all requests except those that have work on the lane. The last of these
 * frees the queue. */
static void close_queue(struct pp_ingest_queue *base)
{
    struct pp_riq *q = (struct pp_riq *)base;
    struct pp_node *node;
    pp_riq_take_close(q);
    pp_riq_watch_close(q);
    pp_redis_close(q->redis);
    while ((node = pp_list_pop(&q->again))) {
        struct pp_riq_op *op = pp_container_of(node, struct pp_riq_op, node);
        op->on_answer(op, op->maybe ? PP_EUNKNOWN : PP_ECLOSED, NULL);
    }
    pp_timer_close(q->again_timer);
    if (q->lane)
        pp_lane_close(q->lane);
    pp_assert(q->in_flight <= q->in_lane, "a closed queue has requests that nothing ends");
    if (q->closed)
        *q->closed = true;
    if (q->in_lane == 0)
        pp_riq_free(q);
}

static const struct pp_ingest_queue_ops ops = {
#define X(name, type) .name = pp_riq_##name,
    PP_INGEST_OPS(X)
#undef X
        .watch = pp_riq_watch,
    .durability = pp_riq_durability,
    .roundtrips = roundtrips,
    .close = close_queue,
};

static int64_t or_default(int64_t v, int64_t otherwise)
{
    return v > 0 ? v : otherwise;
}

static void set_options(struct pp_riq *q, const struct pp_redis_ingest_options *o, const char *prefix)
{
    static const char *const names[PP_INGEST_KEYS + 1] = {
        [PP_INGEST_STREAM] = "stream",   [PP_INGEST_META] = "meta",   [PP_INGEST_LINES] = "lines",
        [PP_INGEST_HEADS] = "heads",     [PP_INGEST_TAKEN] = "taken", [PP_INGEST_IDS] = "ids",
        [PP_INGEST_CLIENTS] = "clients", [PP_INGEST_STATE] = "state", [PP_INGEST_POISON] = "poison",
        [PP_INGEST_WAKE] = "wake"};
    snprintf(q->tag, sizeof q->tag, "{%s}:", prefix);
    for (int i = 1; i <= PP_INGEST_KEYS; i++)
        snprintf(q->keys[i], sizeof q->keys[i], "%s%s", q->tag, names[i]);
    q->log = o->log;
    q->timeout_ms = or_default(o->timeout_ms, INGEST_TIMEOUT_MS);
    q->patience_ms = or_default(o->patience_ms, PATIENCE_MS);
    q->silence_ms = or_default(o->silence_ms, SILENCE_MS);
    q->key_ttl_ms = or_default(o->key_ttl_ms, KEY_TTL_MS);
    q->capacity = o->capacity ? o->capacity : INGEST_CAPACITY;
}

static enum pp_err open_all(struct pp_riq *q, const char *url)
{
    const struct pp_lane_options lane = {
        .name = "ingest-pack", .threads = 1, .capacity = 2 * q->capacity, .max_batch = 16};
    const struct pp_redis_options redis = {.url = url,
                                           .log = q->log,
                                           .timeout_ms = q->timeout_ms,
                                           .max_in_flight = 2 * q->capacity + 256,
                                           .on_state = on_state,
                                           .data = q};
    q->again_timer = pp_timer_open(q->loop, pp_riq_on_again_timer, q);
    q->url = strdup(url);
    if (!q->again_timer || !q->url || !pp_riq_take_open(q) || !pp_riq_watch_open(q))
        return PP_ENOMEM;
    q->lane = pp_lane_open(&lane);
    q->home = q->lane ? pp_lane_home_open(q->lane, q->loop) : NULL;
    return q->home ? pp_redis_open(q->loop, &redis, &q->redis) : PP_ENOMEM;
}

enum pp_err pp_redis_ingest_queue_open(struct pp_loop *loop, const struct pp_redis_ingest_options *o,
                                       struct pp_ingest_queue **out)
{
    const char *prefix = o->prefix ? o->prefix : "photopool:ingest";
    if (!pp_redis_prefix_valid(prefix, PP_RIQ_PREFIX_MAX))
        return PP_EINVAL;
    struct pp_riq *q = calloc(1, sizeof *q);
    if (!q)
        return PP_ENOMEM;
    q->base.ops = &ops;
    q->loop = loop;
    pp_list_init(&q->again);
    pp_list_init(&q->takes);
    pp_list_init(&q->hand);
    set_options(q, o, prefix);
    enum pp_err err = open_all(q, o->url);
    if (err != PP_OK) {
        close_queue(&q->base);
        return err;
    }
    *out = &q->base;
    return PP_OK;
}
