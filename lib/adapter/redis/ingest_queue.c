/* ingest_queue.c: open, close, the operations; calls of scripts. See ingest_internal.h. */
#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/ingest_internal.h"

enum { AGAIN_MS = 100, PATIENCE_MS = 4000, SILENCE_MS = 30000, TIMEOUT_MS = 5000, CAPACITY = 4096 };
#define KEY_TTL_MS (INT64_C(25) * 3600000)

PP_REDIS_LUA_DECLARE(ingest_common);
#define X(id, file) PP_REDIS_LUA_DECLARE(ingest_##file);
PP_RIQ_SCRIPTS(X)
#undef X

static const char *const fixed_names[PP_RIQ_FIXED] = {"stream", "meta",    "lines", "heads",  "taken",
                                                      "ids",    "clients", "state", "poison", "wake"};

/* --- operations and their arguments --- */

struct pp_riq_op *pp_riq_op_new(struct pp_riq *q, size_t size, struct pp_req *req, enum pp_err *err)
{
    *err = q->closing ? PP_ECLOSED : req && q->under_way >= q->capacity ? PP_EFULL : PP_ENOMEM;
    struct pp_riq_op *op = *err == PP_ENOMEM ? calloc(1, size) : NULL;
    if (!op)
        return NULL;
    *err = PP_OK;
    op->q = q;
    op->req = req;
    q->under_way += req != NULL;
    pp_arena_init(&op->mem, 0);
    return op;
}

void pp_riq_drop(struct pp_riq_op *op)
{
    op->q->under_way -= op->req != NULL;
    pp_arena_fini(&op->mem);
    free(op->argv);
    free(op->lens);
    free(op);
}

void pp_riq_end(struct pp_riq_op *op, enum pp_err err)
{
    struct pp_req *req = op->req;
    pp_riq_drop(op);
    if (!req)
        return;
    req->err = err;
    req->done(req);
}

void pp_riq_arg(struct pp_riq_op *op, const void *p, size_t n)
{
    if (op->argc == op->room && !op->failed) {
        int room = op->room ? 2 * op->room : 32;
        const char **argv = realloc(op->argv, (size_t)room * sizeof *argv);
        op->argv = argv ? argv : op->argv;
        size_t *lens = argv ? realloc(op->lens, (size_t)room * sizeof *lens) : NULL;
        op->lens = lens ? lens : op->lens;
        op->room = lens ? room : op->room;
        op->failed = !lens;
    }
    op->failed |= !p;
    if (op->failed)
        return;
    op->argv[op->argc] = p;
    op->lens[op->argc++] = n;
}

void pp_riq_text(struct pp_riq_op *op, const char *s)
{
    pp_riq_arg(op, s, s ? strlen(s) : 0);
}

void pp_riq_number(struct pp_riq_op *op, int64_t v)
{
    pp_riq_text(op, pp_arena_printf(&op->mem, "%" PRId64, v));
}

void pp_riq_begin(struct pp_riq_op *op, int script)
{
    op->script = script;
    op->argc = op->n_keys = 0;
    op->sends = 0;
    op->maybe = false;
    op->since = pp_loop_now(op->q->loop);
    for (int i = 0; i < PP_RIQ_FIXED; i++)
        pp_riq_text(op, op->q->fixed[i]);
    op->n_keys = PP_RIQ_FIXED;
}

void pp_riq_key(struct pp_riq_op *op, const char *kind, const char *name)
{
    assert(op->argc == op->n_keys || op->failed); /* keys first */
    pp_riq_text(op, pp_arena_printf(&op->mem, "%s%s:%s", op->q->tag, kind, name));
    op->n_keys++;
}

/* 8 bytes that stand for a batch id, and the bucket that they are in. */
static unsigned digest(const char *batch_id, uint8_t out[8])
{
    uint8_t hash[EVP_MAX_MD_SIZE] = {0};
    unsigned n = 0;
    int ok = EVP_Digest(batch_id, strlen(batch_id), hash, &n, EVP_sha256(), NULL);
    assert(ok == 1 && n == 32);
    (void)ok;
    memcpy(out, hash, 8);
    return (hash[8] << 8 | hash[9]) % PP_RIQ_BUCKETS;
}

void pp_riq_done_key(struct pp_riq_op *op, const char *batch_id, bool all)
{
    uint8_t bytes[8];
    char name[32];
    unsigned bucket = digest(batch_id, bytes);
    int64_t now = pp_redis_now(op->q->redis) / PP_RIQ_SLOT_MS % PP_RIQ_SLOTS;
    for (int64_t slot = 0; slot < PP_RIQ_SLOTS; slot++) {
        if (!all && slot != now)
            continue;
        snprintf(name, sizeof name, "%d:%03x", (int)slot, bucket);
        pp_riq_key(op, "done", name);
    }
}

void pp_riq_digest(struct pp_riq_op *op, const char *batch_id)
{
    uint8_t bytes[8];
    digest(batch_id, bytes);
    pp_riq_arg(op, pp_arena_copy(&op->mem, bytes, sizeof bytes), sizeof bytes);
}

/* --- calls --- */

/* Refused for now: by a server that is not the one, or not yet. */
static bool is_for_now(const struct redisReply *reply)
{
    static const char *const words[] = {"LOADING",  "READONLY", "MASTERDOWN", "CLUSTERDOWN",
                                        "TRYAGAIN", "ASK",      "MOVED",      "NOREPLICAS"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncmp(reply->str, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

enum pp_err pp_riq_err(enum pp_err err, const struct redisReply *reply)
{
    if (err == PP_EIO && reply &&
        (strncmp(reply->str, "OOM", 3) == 0 || strncmp(reply->str, "MISCONF", 7) == 0))
        return PP_ENOSPC;
    return err;
}

static void put_again(struct pp_riq_op *op, int64_t ms)
{
    pp_list_push(&op->q->again, &op->node);
    pp_timer_sooner(op->q->again_timer, ms);
}

static void on_answer(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_riq_op *op = data;
    struct pp_riq *q = op->q;
    bool lost = err != PP_OK && (!reply || is_for_now(reply));
    if (op->retry && lost && !q->closing && pp_loop_now(q->loop) - op->since < q->patience_ms) {
        op->maybe |= err != PP_EIO;
        put_again(op, AGAIN_MS);
        return;
    }
    if (err == PP_EIO && op->maybe) { /* this one was not executed, one before may have been */
        err = PP_EUNKNOWN;
        reply = NULL;
    }
    op->answered(op, err, reply);
}

void pp_riq_send(struct pp_riq_op *op)
{
    struct pp_riq *q = op->q;
    enum pp_err err = op->failed ? PP_ENOMEM
                                 : pp_redis_eval(q->redis, &q->scripts[op->script], op->n_keys, op->argc,
                                                 op->argv, op->lens, on_answer, op);
    op->sends++;
    if (err == PP_OK)
        return;
    op->refused = err;
    put_again(op, 0);
}

/* *closed: one of these has closed the queue, which must not be touched any more. Not inlined: the compiler
 * would see the address of a local stay in a queue that is gone. */
static __attribute__((noinline)) void send_those(struct pp_riq *q, bool *closed)
{
    q->closed = closed;
    for (size_t n = q->again.n; n > 0 && !*closed; n--) {
        struct pp_riq_op *op = pp_container_of(pp_list_pop(&q->again), struct pp_riq_op, node);
        enum pp_err err = op->refused;
        op->refused = PP_OK;
        if (err != PP_OK)
            op->answered(op, err, NULL);
        else
            pp_riq_send(op);
    }
    if (!*closed)
        q->closed = NULL;
}

static void send_again(void *data)
{
    bool closed = false;
    send_those(data, &closed);
}

/* --- life --- */

static void on_state(void *data, bool up)
{
    struct pp_riq *q = data;
    if (up)
        pp_riq_ask_durability(q);
}

static bool open_scripts(struct pp_riq *q)
{
    static const struct {
        const char *name;
        const unsigned char *text;
        const size_t *n;
    } files[PP_RIQ_SCRIPT_COUNT] = {
#define X(id, file) {"ingest_" #file, pp_lua_ingest_##file, &pp_lua_ingest_##file##_n},
        PP_RIQ_SCRIPTS(X)
#undef X
    };
    for (int i = 0; i < PP_RIQ_SCRIPT_COUNT; i++) {
        size_t n = pp_lua_ingest_common_n + *files[i].n;
        if (!(q->texts[i] = malloc(n)))
            return false;
        memcpy(q->texts[i], pp_lua_ingest_common, pp_lua_ingest_common_n);
        memcpy(q->texts[i] + pp_lua_ingest_common_n, files[i].text, *files[i].n);
        pp_redis_script_init(&q->scripts[i], files[i].name, q->texts[i], n);
    }
    return true;
}

static bool roundtrips(struct pp_ingest_queue *base, size_t i, const char **name, uint64_t *n)
{
    return pp_redis_roundtrips(((struct pp_riq *)base)->redis, i, name, n);
}

static void free_queue(struct pp_riq *q)
{
    pp_lane_home_close(q->home);
    for (int i = 0; i < PP_RIQ_SCRIPT_COUNT; i++)
        free(q->texts[i]);
    free(q->consumer);
    free(q->url);
    free(q);
}

static void on_worked(struct pp_job *job)
{
    struct pp_riq_op *op = pp_container_of(job, struct pp_riq_op, job);
    struct pp_riq *q = op->q;
    op->worked(op); /* may close */
    q->in_lane--;
    if (q->closing && q->in_lane == 0)
        free_queue(q);
}

enum pp_err pp_riq_work(struct pp_riq_op *op, void (*work)(void *state, struct pp_job *job),
                        void (*done)(struct pp_riq_op *op))
{
    op->job = (struct pp_job){.work = work, .done = on_worked};
    op->worked = done;
    enum pp_err err = pp_lane_submit(op->q->home, &op->job);
    op->q->in_lane += err == PP_OK;
    return err;
}

/* Requests that are left are done here, but for those on the lane: the last of these frees. */
static void close_queue(struct pp_ingest_queue *base)
{
    struct pp_riq *q = (struct pp_riq *)base;
    struct pp_node *node;
    pp_riq_take_close(q);
    pp_riq_watch_close(q);
    pp_redis_close(q->redis);
    while ((node = pp_list_pop(&q->again))) {
        struct pp_riq_op *op = pp_container_of(node, struct pp_riq_op, node);
        op->answered(op, op->maybe ? PP_EUNKNOWN : PP_ECLOSED, NULL);
    }
    pp_timer_close(q->again_timer);
    if (q->lane)
        pp_lane_close(q->lane);
    assert(q->under_way <= q->in_lane);
    if (q->closed)
        *q->closed = true;
    if (q->in_lane == 0)
        free_queue(q);
}

static const struct pp_ingest_queue_ops ops = {
#define X(name, type) .name = pp_riq_##name,
    PP_RIQ_OPS(X)
#undef X
        .watch = pp_riq_watch,
    .durability = pp_riq_durability,
    .roundtrips = roundtrips,
    .close = close_queue,
};

static bool good_prefix(const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] <= ' ' || s[i] == '{' || s[i] == '}' || s[i] == 0x7f)
            return false;
    return n > 0 && n <= PP_RIQ_PREFIX_MAX;
}

static int64_t or_default(int64_t v, int64_t otherwise)
{
    return v > 0 ? v : otherwise;
}

static void set_options(struct pp_riq *q, const struct pp_redis_ingest_options *o, const char *prefix)
{
    snprintf(q->tag, sizeof q->tag, "{%s}:", prefix);
    for (int i = 0; i < PP_RIQ_FIXED; i++)
        snprintf(q->fixed[i], sizeof q->fixed[i], "%s%s", q->tag, fixed_names[i]);
    q->log = o->log;
    q->timeout_ms = or_default(o->timeout_ms, TIMEOUT_MS);
    q->patience_ms = or_default(o->patience_ms, PATIENCE_MS);
    q->silence_ms = or_default(o->silence_ms, SILENCE_MS);
    q->key_ttl_ms = or_default(o->key_ttl_ms, KEY_TTL_MS);
    q->capacity = o->capacity ? o->capacity : CAPACITY;
}

static enum pp_err open_all(struct pp_riq *q, const char *url)
{
    const struct pp_lane_options lane = {
        .name = "ingest-pack", .threads = 1, .capacity = 2 * q->capacity, .max_batch = 16};
    const struct pp_redis_options redis = {.url = url,
                                           .log = q->log,
                                           .timeout_ms = q->timeout_ms,
                                           .max_in_flight = 2 * q->capacity + 256,
                                           .state = on_state,
                                           .data = q};
    q->again_timer = pp_timer_open(q->loop, send_again, q);
    q->url = strdup(url);
    if (!q->again_timer || !q->url || !open_scripts(q) || !pp_riq_take_open(q) || !pp_riq_watch_open(q))
        return PP_ENOMEM;
    q->lane = pp_lane_open(&lane);
    q->home = q->lane ? pp_lane_home_open(q->lane, q->loop) : NULL;
    return q->home ? pp_redis_open(q->loop, &redis, &q->redis) : PP_ENOMEM;
}

enum pp_err pp_redis_ingest_queue_open(struct pp_loop *loop, const struct pp_redis_ingest_options *o,
                                       struct pp_ingest_queue **out)
{
    const char *prefix = o->prefix ? o->prefix : "photopool:ingest";
    struct pp_riq *q = good_prefix(prefix) ? calloc(1, sizeof *q) : NULL;
    if (!q)
        return good_prefix(prefix) ? PP_ENOMEM : PP_EINVAL;
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
