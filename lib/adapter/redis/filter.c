/* filter.c: the filter of known photos on strings of Redis. The scripts (filter_*.lua) do the work;
 * this file packs their arguments and unpacks their answers.
 *
 * A filter belongs to one life of the server, as the event log's numbers do: after a restart or a
 * failover the server may have lost the latest keys, so the scripts then find no filter. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "base/arena.h"
#include "base/check.h"

PP_REDIS_LUA_DECLARE(filter_ask);
PP_REDIS_LUA_DECLARE(filter_look);
PP_REDIS_LUA_DECLARE(filter_build);
PP_REDIS_LUA_DECLARE(filter_discard);

enum { FILTER_PREFIX_MAX = 100, FILTER_KEY_MAX = FILTER_PREFIX_MAX + 16, FILTER_KEYS = 4 };

struct redis_filter {
    struct pp_filter base;
    struct pp_redis *redis;
    struct pp_redis_call call;
    char keys[FILTER_KEYS][FILTER_KEY_MAX];
};

static struct pp_redis_call *begin_call(struct pp_filter *base, const struct pp_redis_script *script)
{
    struct redis_filter *f = (struct redis_filter *)base;

    pp_assert(f->redis, "a request comes after the close");
    pp_redis_call_begin(&f->call, script->name, script);
    for (int i = 0; i < FILTER_KEYS; i++)
        pp_redis_put_text(&f->call, f->keys[i]);
    pp_redis_call_keys_end(&f->call);
    return &f->call;
}

/* Sends the call. The data of `cb` is the port's request, which begins with `req`. */
static enum pp_err send_call(struct pp_filter *base, pp_redis_cb cb, struct pp_req *req)
{
    struct redis_filter *f = (struct redis_filter *)base;
    return pp_redis_send(f->redis, &f->call, cb, req);
}

/* --- ask --- */

static enum pp_err read_absent(struct pp_filter_ask *r, const struct redisReply *reply)
{
    if (!pp_redis_is_text(reply))
        return PP_ECORRUPT;
    r->complete = reply->len > 0;
    r->absent = pp_arena_array(r->req.arena, r->n, sizeof(*r->absent));
    if (!r->absent)
        return PP_ENOMEM;
    if (r->complete && reply->len != r->n)
        return PP_ECORRUPT;
    for (size_t i = 0; r->complete && i < r->n; i++)
        r->absent[i] = reply->str[i] == '1';
    return PP_OK;
}

static void on_asked(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_filter_ask *r = data;
    pp_req_end(&r->req, err == PP_OK ? read_absent(r, reply) : err);
}

static enum pp_err filter_ask(struct pp_filter *f, struct pp_filter_ask *r)
{
    struct pp_redis_call *call = begin_call(f, &pp_lua_filter_ask);
    pp_assert(r->n > 0, "a filter is asked for no key");
    pp_redis_put(call, r->keys, r->n * sizeof(*r->keys));
    return send_call(f, on_asked, &r->req);
}

/* --- look --- */

static void on_looked(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_filter_look *r = data;

    if (err == PP_OK && !pp_redis_is(reply, "iiiit"))
        err = PP_ECORRUPT;
    if (err == PP_OK) {
        struct redisReply **e = reply->element;
        r->complete = e[0]->integer == 1;
        r->keys = (uint64_t)e[1]->integer;
        r->bytes = (uint64_t)e[2]->integer;
        r->age_ms = e[3]->integer;
        snprintf(r->build, sizeof(r->build), "%s", e[4]->str);
    }
    pp_req_end(&r->req, err);
}

static enum pp_err filter_look(struct pp_filter *f, struct pp_filter_look *r)
{
    begin_call(f, &pp_lua_filter_look);
    return send_call(f, on_looked, &r->req);
}

/* --- build --- */

static void on_built(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_filter_build *r = data;

    if (err == PP_OK && !pp_redis_is_text(reply))
        err = PP_ECORRUPT;
    r->lost = err == PP_OK && strcmp(reply->str, "ok") != 0;
    pp_req_end(&r->req, err);
}

static enum pp_err filter_build(struct pp_filter *f, struct pp_filter_build *r)
{
    static const char *const steps[] = {
        [PP_FILTER_BEGIN] = "begin", [PP_FILTER_ADD] = "add", [PP_FILTER_FINISH] = "finish"};
    struct pp_redis_call *call = begin_call(f, &pp_lua_filter_build);

    pp_redis_put_text(call, r->build);
    pp_redis_put_text(call, steps[r->step]);
    switch (r->step) {
    case PP_FILTER_BEGIN: pp_redis_put_num(call, (int64_t)(r->bytes / PP_FILTER_BLOCK_BYTES)); break;
    case PP_FILTER_ADD:
        pp_redis_put_num(call, (int64_t)r->offset);
        pp_redis_put(call, r->bits, r->n);
        break;
    case PP_FILTER_FINISH: pp_redis_put_num(call, (int64_t)r->keys); break;
    }
    return send_call(f, on_built, &r->req);
}

/* --- discard --- */

static void on_discarded(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct pp_filter_discard *r = data;
    (void)reply;
    pp_req_end(&r->req, err);
}

static enum pp_err filter_discard(struct pp_filter *f, struct pp_filter_discard *r)
{
    begin_call(f, &pp_lua_filter_discard);
    return send_call(f, on_discarded, &r->req);
}

/* --- life --- */

static bool filter_roundtrips(struct pp_filter *f, size_t i, const char **name, uint64_t *n)
{
    return pp_redis_roundtrips(((struct redis_filter *)f)->redis, i, name, n);
}

static void filter_close(struct pp_filter *base)
{
    struct redis_filter *f = (struct redis_filter *)base;
    pp_redis_close(f->redis);
    pp_redis_call_fini(&f->call);
    free(f);
}

static const struct pp_filter_ops ops = {.ask = filter_ask,
                                         .look = filter_look,
                                         .build = filter_build,
                                         .discard = filter_discard,
                                         .roundtrips = filter_roundtrips,
                                         .close = filter_close};

enum pp_err pp_redis_filter_open(struct pp_loop *loop, const struct pp_redis_filter_options *o,
                                 struct pp_filter **out)
{
    static const char *const names[FILTER_KEYS] = {"meta", "a", "b", "pieces"};
    const char *prefix = o->prefix ? o->prefix : "photopool:filter";

    if (!pp_redis_prefix_valid(prefix, FILTER_PREFIX_MAX))
        return PP_EINVAL;
    struct redis_filter *f = calloc(1, sizeof(*f));
    if (!f)
        return PP_ENOMEM;
    f->base.ops = &ops;
    for (int i = 0; i < FILTER_KEYS; i++)
        snprintf(f->keys[i], sizeof(f->keys[i]), "{%s}:%s", prefix, names[i]);
    const struct pp_redis_options redis = {.url = o->url, .log = o->log, .timeout_ms = o->timeout_ms};
    enum pp_err err = pp_redis_open(loop, &redis, &f->redis);
    if (err != PP_OK) {
        filter_close(&f->base);
        return err;
    }
    *out = &f->base;
    return PP_OK;
}
