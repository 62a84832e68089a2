/* ingest_queue.c: the frame of the ingest queue's operations: calls scripts, repeats calls if that
 * is safe, and runs work on the lane. Also opens and closes the queue. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum {
    AGAIN_MS = 100,
    PATIENCE_MS = 4000,
    SILENCE_MS = 30000,
    INGEST_TIMEOUT_MS = 5000,
    INGEST_CAPACITY = 4096 /* most requests that have not ended */
};
#define KEY_TTL_MS (PP_DAY_MS + 60 * PP_MINUTE_MS)

#define X(id, file, repeats) PP_REDIS_LUA_DECLARE(ingest_##file);
PP_RIQ_SCRIPTS(X)
#undef X

static const struct {
    const struct pp_redis_script *script;
    bool repeats;
} scripts[] = {
#define X(id, file, repeats) {&pp_lua_ingest_##file, repeats},
    PP_RIQ_SCRIPTS(X)
#undef X
};

/* --- life of an operation --- */

struct pp_riq_op *pp_riq_op_new(struct pp_riq *q, size_t size, struct pp_req *req, enum pp_err *err)
{
    *err = q->closing ? PP_ECLOSED : req && q->in_flight >= INGEST_CAPACITY ? PP_EFULL : PP_ENOMEM;
    struct pp_riq_op *op = *err == PP_ENOMEM ? calloc(1, size) : NULL;
    if (!op)
        return NULL;
    *err = PP_OK;
    op->q = q;
    op->req = req;
    q->in_flight += req != NULL;
    pp_arena_init(&op->mem, 0);
    return op;
}

void pp_riq_drop(struct pp_riq_op *op)
{
    pp_assert(!op->req || op->q->in_flight > 0, "more operations end than began");
    op->q->in_flight -= op->req != NULL;
    pp_arena_fini(&op->mem);
    pp_redis_call_fini(&op->call);
    free(op);
}

void pp_riq_end(struct pp_riq_op *op, enum pp_err err)
{
    struct pp_req *req = op->req;
    pp_riq_drop(op);
    if (req)
        pp_req_end(req, err);
}

/* --- keys and arguments --- */

void pp_riq_begin(struct pp_riq_op *op, enum pp_riq_script script, pp_riq_cb on_answer)
{
    const struct pp_redis_script *s = scripts[script].script;
    pp_redis_call_begin(&op->call, s->name, s);
    op->repeats = scripts[script].repeats;
    op->on_answer = on_answer;
    op->maybe = false;
    op->since = pp_loop_now(op->q->loop);
    for (int i = 1; i <= PP_INGEST_KEYS; i++)
        pp_redis_put_text(&op->call, op->q->keys[i]);
}

struct pp_riq_op *pp_riq_begin_op(struct pp_ingest_queue *base, struct pp_req *req, enum pp_riq_script script,
                                  pp_riq_cb on_answer, enum pp_err *err)
{
    struct pp_riq_op *op = pp_riq_op_new((struct pp_riq *)base, sizeof *op, req, err);
    if (op)
        pp_riq_begin(op, script, on_answer);
    return op;
}

void pp_riq_key(struct pp_riq_op *op, const char *kind, const char *name)
{
    pp_assert(op->call.n_keys == 0, "a key follows arguments");
    pp_buf_printf(pp_redis_word_open(&op->call), "%s%s:%s", op->q->tag, kind, name);
    pp_redis_word_close(&op->call);
}

/* Computes the 8 bytes by which Redis remembers a batch id. Returns the number of the bucket that
 * has them. */
static unsigned digest_of(const char *batch_id, uint8_t out[8])
{
    uint8_t hash[EVP_MAX_MD_SIZE] = {0};
    unsigned n = 0;
    int ok = EVP_Digest(batch_id, strlen(batch_id), hash, &n, EVP_sha256(), NULL);
    pp_assert(ok == 1 && n == 32, "libcrypto has no SHA-256");
    memcpy(out, hash, 8);
    return (hash[8] << 8 | hash[9]) % PP_RIQ_BUCKETS;
}

void pp_riq_done_key(struct pp_riq_op *op, const char *batch_id, bool all)
{
    uint8_t bytes[8];
    char name[32];
    unsigned bucket = digest_of(batch_id, bytes);
    int64_t current = pp_redis_now(op->q->redis) / PP_RIQ_SLOT_MS % PP_INGEST_DONE_SLOTS;
    for (int64_t slot = 0; slot < PP_INGEST_DONE_SLOTS; slot++) {
        if (!all && slot != current)
            continue;
        snprintf(name, sizeof name, "%d:%03x", (int)slot, bucket);
        pp_riq_key(op, "done", name);
    }
}

void pp_riq_args(struct pp_riq_op *op)
{
    pp_redis_call_keys_end(&op->call);
}

void pp_riq_digest(struct pp_riq_op *op, const char *batch_id)
{
    uint8_t bytes[8];
    digest_of(batch_id, bytes);
    pp_redis_put(&op->call, bytes, sizeof bytes);
}

/* --- calls --- */

/* Returns true if the refusal is temporary: the server is not the primary, is loading, or lacks
 * replicas. */
static bool is_for_now(const struct redisReply *reply)
{
    static const char *const words[] = {"LOADING",  "READONLY", "MASTERDOWN", "CLUSTERDOWN",
                                        "TRYAGAIN", "ASK",      "MOVED",      "NOREPLICAS"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (pp_redis_refused_with(reply, words[i]))
            return true;
    return false;
}

enum pp_err pp_riq_err(enum pp_err err, const struct redisReply *reply)
{
    bool is_full = pp_redis_refused_with(reply, "OOM") || pp_redis_refused_with(reply, "MISCONF");
    return err == PP_EIO && is_full ? PP_ENOSPC : err;
}

static void put_again(struct pp_riq_op *op, int64_t ms)
{
    pp_assert(!op->node.next, "an operation waits twice");
    pp_list_push(&op->q->again, &op->node);
    pp_timer_sooner(op->q->again_timer, ms);
}

static void on_reply(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_riq_op *op = data;
    struct pp_riq *q = op->q;
    bool lost = err != PP_OK && (!reply || is_for_now(reply));
    if (op->repeats && lost && !q->closing && pp_loop_now(q->loop) - op->since < q->patience_ms) {
        op->maybe |= err != PP_EIO;
        put_again(op, AGAIN_MS);
        return;
    }
    /* Redis did not execute the call this time, but may have executed it an earlier time. */
    if (err == PP_EIO && op->maybe) {
        err = PP_EUNKNOWN;
        reply = NULL;
    }
    op->on_answer(op, err, reply);
}

void pp_riq_send(struct pp_riq_op *op)
{
    pp_assert(op->call.n_keys >= PP_INGEST_KEYS, "a call lacks keys");
    op->refused = pp_redis_send(op->q->redis, &op->call, on_reply, op);
    if (op->refused != PP_OK)
        put_again(op, 0);
}

/* Sends the calls in q->again. A callback may close and free the queue; then *closed becomes true.
 * The function is not inlined, because the compiler would warn that q->closed keeps the address of
 * a local variable. */
static __attribute__((noinline)) void send_those(struct pp_riq *q, bool *closed)
{
    q->closed = closed;
    for (size_t n = q->again.n; n > 0 && !*closed; n--) {
        struct pp_riq_op *op = pp_container_of(pp_list_pop(&q->again), struct pp_riq_op, node);
        if (op->refused != PP_OK)
            op->on_answer(op, op->refused, NULL);
        else
            pp_riq_send(op);
    }
    if (!*closed)
        q->closed = NULL;
}

static void on_again_timer(void *data)
{
    bool closed = false;
    send_those(data, &closed);
}

void pp_riq_on_found_or_not(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply)
{
    if (err == PP_OK && reply->type == REDIS_REPLY_INTEGER && reply->integer == 0)
        err = PP_ENOTFOUND;
    pp_riq_end(op, pp_riq_err(err, reply));
}

/* --- work on the lane --- */

static void free_queue(struct pp_riq *q)
{
    pp_assert(q->in_flight == 0, "the queue is freed with operations left");
    pp_lane_home_close(q->home);
    free(q->consumer);
    free(q->url);
    free(q);
}

static void on_job_done(struct pp_job *job)
{
    struct pp_riq_op *op = pp_container_of(job, struct pp_riq_op, job);
    struct pp_riq *q = op->q;
    bool was_closing = q->closing;
    op->on_worked(op); /* the callback may close the queue, which frees it after the last job */
    if (was_closing && pp_lane_in_flight(q->home) == 0)
        free_queue(q);
}

enum pp_err pp_riq_work(struct pp_riq_op *op, void (*work)(void *state, struct pp_job *job),
                        void (*on_worked)(struct pp_riq_op *op))
{
    pp_assert(op->req, "work without a request is not counted");
    op->job = (struct pp_job){.work = work, .done = on_job_done};
    op->on_worked = on_worked;
    return pp_lane_submit(op->q->home, &op->job);
}

/* --- opening and closing --- */

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
    size_t in_lane = q->home ? pp_lane_in_flight(q->home) : 0;
    pp_assert(q->in_flight <= in_lane, "a closed queue has requests that nothing ends");
    if (q->closed)
        *q->closed = true;
    if (in_lane == 0)
        free_queue(q);
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
    q->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : INGEST_TIMEOUT_MS;
    q->patience_ms = o->patience_ms > 0 ? o->patience_ms : PATIENCE_MS;
    q->silence_ms = o->silence_ms > 0 ? o->silence_ms : SILENCE_MS;
    q->key_ttl_ms = o->key_ttl_ms > 0 ? o->key_ttl_ms : KEY_TTL_MS;
}

static enum pp_err open_all(struct pp_riq *q, const char *url)
{
    const struct pp_lane_options lane = {
        .name = "ingest-pack", .threads = 1, .capacity = 2 * INGEST_CAPACITY, .max_batch = 16};
    const struct pp_redis_options redis = {.url = url,
                                           .log = q->log,
                                           .timeout_ms = q->timeout_ms,
                                           .max_in_flight = 2 * INGEST_CAPACITY + 256,
                                           .on_state = pp_riq_on_state,
                                           .data = q};
    q->again_timer = pp_timer_open(q->loop, on_again_timer, q);
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
