/* counters.c: the cache of a fleet's counters on Redis. The scripts (counter_*.lua) do the work;
 * this file packs their arguments and unpacks their answers.
 *
 * Cached sums are in PP_COUNTER_BUCKETS hashes, so that each has few fields: Redis stores a small
 * hash without pointers. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/stable_hash.h"

PP_REDIS_LUA_DECLARE(counter_add);
PP_REDIS_LUA_DECLARE(counter_read);
PP_REDIS_LUA_DECLARE(counter_days);
PP_REDIS_LUA_DECLARE(counter_remove);
PP_REDIS_LUA_DECLARE(counter_take);
PP_REDIS_LUA_DECLARE(counter_ack);
PP_REDIS_LUA_DECLARE(counter_sweep);

_Static_assert(PP_COUNTER_TOKENS_MS == PP_COUNTER_TOKEN_MS, "tokens are kept as the port says");

enum { COUNTER_PREFIX_MAX = 100, DAY_BYTES = 12 };

struct redis_counters {
    struct pp_counter_cache base;
    struct pp_redis *redis;
    struct pp_redis_call call;
    char meta[COUNTER_PREFIX_MAX + 16];
};

static struct pp_redis_call *begin_call(struct pp_counter_cache *base, const struct pp_redis_script *script)
{
    struct redis_counters *c = (struct redis_counters *)base;

    pp_redis_call_begin(&c->call, script->name, script);
    pp_redis_put_text(&c->call, c->meta);
    pp_redis_call_keys_end(&c->call);
    return &c->call;
}

/* Sends the call. The data of `cb` is the port's request, which begins with `req`. */
static enum pp_err send_call(struct pp_counter_cache *base, pp_redis_cb cb, struct pp_req *req)
{
    struct redis_counters *c = (struct redis_counters *)base;
    return pp_redis_send(c->redis, &c->call, cb, req);
}

static int64_t bucket_of(const char *key)
{
    return (int64_t)(pp_stable_hash_end(pp_stable_hash_add(PP_STABLE_HASH, key)) % PP_COUNTER_BUCKETS);
}

/* Adds one word with all rows. `by` and `stored` may be NULL. */
static void put_rows(struct pp_redis_call *call, const char *const *keys, const int64_t *by,
                     const struct pp_counter_stored *stored, size_t n)
{
    struct pp_buf *b = pp_redis_word_open(call);

    for (size_t i = 0; i < n; i++) {
        const int64_t row[] = {bucket_of(keys[i]), by ? by[i] : 0,
                               stored ? stored[i].sum : PP_COUNTER_UNKNOWN, stored ? stored[i].flush : 0};
        size_t length = strlen(keys[i]);
        pp_assert(length > 0 && length <= PP_COUNTER_KEY_MAX, "a counter's key is not valid");
        pp_redis_pack(b, PP_LAYOUT_COUNTER_ROW, row);
        pp_buf_u8(b, (uint8_t)length);
        pp_buf_put(b, keys[i], length);
    }
    pp_redis_word_close(call);
}

static enum pp_err read_sums(const struct redisReply *text, struct pp_arena *a, size_t n, int64_t **sums)
{
    struct pp_reader r = {.p = text->str, .n = text->len};

    *sums = pp_arena_array(a, n, sizeof(**sums));
    if (!*sums)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++)
        (*sums)[i] = (int64_t)pp_read_u64(&r);
    return r.failed ? PP_ECORRUPT : PP_OK;
}

/* --- add --- */

static enum pp_err read_added(struct pp_cache_add *r, const struct redisReply *reply)
{
    if (!pp_redis_is(reply, "tti"))
        return PP_ECORRUPT;
    const char *word = reply->element[0]->str;
    if (strcmp(word, "mismatch") == 0)
        return PP_EMISMATCH;
    if (strcmp(word, "full") == 0)
        return PP_EFULL;
    r->replayed = strcmp(word, "replayed") == 0;
    r->applied = r->replayed || strcmp(word, "done") == 0;
    r->generation = reply->element[2]->integer;
    return read_sums(reply->element[1], r->req.arena, r->n, &r->sums);
}

static void on_added(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_cache_add *r = data;
    pp_req_end(&r->req, err == PP_OK ? read_added(r, reply) : err);
}

static enum pp_err cache_add(struct pp_counter_cache *c, struct pp_cache_add *r)
{
    struct pp_redis_call *call = begin_call(c, &pp_lua_counter_add);
    const struct pp_counter_token *token = r->token;

    pp_redis_put_num(call, r->now_ms / PP_COUNTER_HOUR_MS);
    pp_redis_put_num(call, r->day);
    pp_redis_put_num(call, r->generation);
    pp_redis_put_text(call, r->force ? "1" : "0");
    pp_redis_put(call, token ? token->id : (const uint8_t *)"", token ? sizeof(token->id) : 0);
    pp_redis_put(call, token ? token->digest : (const uint8_t *)"", token ? sizeof(token->digest) : 0);
    put_rows(call, r->keys, r->by, r->stored, r->n);
    return send_call(c, on_added, &r->req);
}

/* --- read --- */

static void on_read(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_cache_read *r = data;

    if (err == PP_OK && !pp_redis_is(reply, "ti"))
        err = PP_ECORRUPT;
    if (err == PP_OK) {
        r->generation = reply->element[1]->integer;
        err = read_sums(reply->element[0], r->req.arena, r->n, &r->sums);
    }
    pp_req_end(&r->req, err);
}

static enum pp_err cache_read(struct pp_counter_cache *c, struct pp_cache_read *r)
{
    struct pp_redis_call *call = begin_call(c, &pp_lua_counter_read);

    pp_redis_put_num(call, r->now_ms / PP_COUNTER_HOUR_MS);
    pp_redis_put_num(call, r->generation);
    put_rows(call, r->keys, NULL, r->stored, r->n);
    return send_call(c, on_read, &r->req);
}

/* --- days --- */

static enum pp_err read_days(const struct redisReply *text, struct pp_arena *a, struct pp_counter_day **days,
                             size_t *n)
{
    struct pp_reader r = {.p = text->str, .n = text->len};
    int64_t values[2];

    *n = text->len / DAY_BYTES;
    *days = pp_arena_array(a, *n, sizeof(**days));
    if (!*days)
        return PP_ENOMEM;
    for (size_t i = 0; i < *n; i++) {
        if (!pp_redis_unpack(&r, PP_LAYOUT_COUNTER_DAY, values))
            return PP_ECORRUPT;
        (*days)[i] = (struct pp_counter_day){(int32_t)values[0], values[1]};
    }
    return PP_OK;
}

static void on_days(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_cache_days *r = data;

    if (err == PP_OK && !pp_redis_is(reply, "ittii"))
        err = PP_ECORRUPT;
    if (err == PP_OK) {
        struct redisReply **e = reply->element;
        r->flush = e[0]->integer;
        r->removed = e[3]->integer == 1;
        r->removing = e[4]->integer == 1;
        err = read_days(e[1], r->req.arena, &r->pending, &r->n_pending);
        if (err == PP_OK)
            err = read_days(e[2], r->req.arena, &r->processing, &r->n_processing);
    }
    pp_req_end(&r->req, err);
}

static enum pp_err cache_days(struct pp_counter_cache *c, struct pp_cache_days *r)
{
    pp_redis_put_text(begin_call(c, &pp_lua_counter_days), r->key);
    return send_call(c, on_days, &r->req);
}

/* --- remove --- */

static void on_removed(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_cache_remove *r = data;

    if (err == PP_OK && !pp_redis_is_text(reply))
        err = PP_ECORRUPT;
    if (err == PP_OK && strcmp(reply->str, "ok") != 0)
        err = PP_EFULL;
    pp_req_end(&r->req, err);
}

static enum pp_err cache_remove(struct pp_counter_cache *c, struct pp_cache_remove *r)
{
    struct pp_redis_call *call = begin_call(c, &pp_lua_counter_remove);

    pp_redis_put_num(call, r->now_ms / PP_COUNTER_HOUR_MS);
    pp_redis_put_num(call, bucket_of(r->key));
    pp_redis_put_text(call, r->key);
    return send_call(c, on_removed, &r->req);
}

/* --- take and ack --- */

static bool all_texts(const struct redisReply *reply)
{
    for (size_t i = 0; i < reply->elements; i++)
        if (!pp_redis_is_text(reply->element[i]))
            return false;
    return true;
}

static enum pp_err read_flush(struct pp_cache_take *r, const struct redisReply *reply)
{
    struct pp_arena *a = r->req.arena;

    if (!pp_redis_is(reply, "iiaa") || !all_texts(reply->element[2]) || !all_texts(reply->element[3]) ||
        reply->element[2]->elements % 2 != 0)
        return PP_ECORRUPT;
    const struct redisReply *rows = reply->element[2], *removed = reply->element[3];
    r->flush = reply->element[0]->integer;
    r->more = reply->element[1]->integer == 1;
    r->n = rows->elements / 2;
    r->n_removed = removed->elements;
    r->rows = pp_arena_array(a, r->n, sizeof(*r->rows));
    r->removed = pp_arena_array(a, r->n_removed, sizeof(*r->removed));
    if (!r->rows || !r->removed)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n_removed; i++)
        if (!(r->removed[i] = pp_arena_strdup(a, removed->element[i]->str)))
            return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        struct pp_counter_day *days;
        enum pp_err err = read_days(rows->element[2 * i + 1], a, &days, &r->rows[i].n);
        r->rows[i].key = pp_arena_strdup(a, rows->element[2 * i]->str);
        r->rows[i].days = days;
        if (err != PP_OK || !r->rows[i].key)
            return err != PP_OK ? err : PP_ENOMEM;
    }
    return PP_OK;
}

static void on_taken(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_cache_take *r = data;
    pp_req_end(&r->req, err == PP_OK ? read_flush(r, reply) : err);
}

static enum pp_err cache_take(struct pp_counter_cache *c, struct pp_cache_take *r)
{
    pp_redis_put_num(begin_call(c, &pp_lua_counter_take), r->floor);
    return send_call(c, on_taken, &r->req);
}

static void on_done(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_cache_ack *r = data;
    (void)reply;
    pp_req_end(&r->req, err);
}

static enum pp_err cache_ack(struct pp_counter_cache *c, struct pp_cache_ack *r)
{
    pp_assert(r->flush > 0, "a flush without a number");
    pp_redis_put_num(begin_call(c, &pp_lua_counter_ack), r->flush);
    return send_call(c, on_done, &r->req);
}

/* --- sweep --- */

static void on_swept(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_cache_sweep *r = data;

    if (err == PP_OK) {
        r->n = reply->type == REDIS_REPLY_INTEGER ? (uint64_t)reply->integer : 0;
        r->part = (r->part + PP_COUNTER_SWEEP) % PP_COUNTER_BUCKETS;
    }
    pp_req_end(&r->req, err);
}

static enum pp_err cache_sweep(struct pp_counter_cache *c, struct pp_cache_sweep *r)
{
    struct pp_redis_call *call = begin_call(c, &pp_lua_counter_sweep);

    pp_redis_put_num(call, r->part);
    pp_redis_put_num(call, PP_COUNTER_SWEEP);
    pp_redis_put_num(call, r->before_ms / PP_COUNTER_HOUR_MS);
    return send_call(c, on_swept, &r->req);
}

/* --- life --- */

static bool roundtrips(struct pp_counter_cache *c, size_t i, const char **name, uint64_t *n)
{
    return pp_redis_roundtrips(((struct redis_counters *)c)->redis, i, name, n);
}

static void close_cache(struct pp_counter_cache *base)
{
    struct redis_counters *c = (struct redis_counters *)base;
    pp_redis_close(c->redis);
    pp_redis_call_fini(&c->call);
    free(c);
}

static const struct pp_counter_cache_ops ops = {
#define X(name, type) .name = cache_##name,
    PP_CACHE_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_cache};

enum pp_err pp_redis_counters_open(struct pp_loop *loop, const struct pp_redis_counters_options *o,
                                   struct pp_counter_cache **out)
{
    const char *prefix = o->prefix ? o->prefix : "photopool:counters";

    if (!pp_redis_prefix_valid(prefix, COUNTER_PREFIX_MAX))
        return PP_EINVAL;
    struct redis_counters *c = calloc(1, sizeof(*c));
    if (!c)
        return PP_ENOMEM;
    c->base.ops = &ops;
    snprintf(c->meta, sizeof(c->meta), "{%s}:meta", prefix);
    const struct pp_redis_options redis = {.url = o->url, .log = o->log, .timeout_ms = o->timeout_ms};
    enum pp_err err = pp_redis_open(loop, &redis, &c->redis);
    if (err != PP_OK) {
        close_cache(&c->base);
        return err;
    }
    *out = &c->base;
    return PP_OK;
}
