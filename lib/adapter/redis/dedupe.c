/* dedupe.c: the upper part of the dedupe port on Redis: the requests replace and tell, and opening
 * servers. runtime/dedupe_shards.h divides requests by servers; here one server has all
 * keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/dedupe_internal.h"
#include "base/arena.h"
#include "base/check.h"
#include "runtime/dedupe_shards.h"

PP_REDIS_LUA_DECLARE(dedupe_tell);

enum { DD_SLOTS_MIN = 131072 };

/* --- replace --- */

/* A request that waits for the tables. */
struct replacing {
    struct dd *d;
    struct pp_dedupe_replace *r;
    struct dd_asked asked;
    bool submitting;
    enum pp_err err; /* of the submit */
};

static void on_replaced(void *data, enum pp_err err)
{
    pp_req_end(data, err);
}

static void on_replace_view(void *data, enum pp_err err)
{
    struct replacing *x = data;
    struct pp_dedupe_replace *r = x->r;

    if (err == PP_OK && r->n > 0)
        err = dd_change(x->d, r->rows, r->n, r->req.arena, on_replaced, &r->req);
    x->err = err;
    if (!x->submitting && (err != PP_OK || r->n == 0))
        pp_req_end(&r->req, err);
}

static enum pp_err replace(struct pp_dedupe *base, struct pp_dedupe_replace *r)
{
    struct dd *d = (struct dd *)base;

    if (!pp_dedupe_replace_valid(r))
        return PP_EINVAL;
    struct replacing *x = pp_arena_alloc(r->req.arena, sizeof *x);
    if (!x)
        return PP_ENOMEM;
    *x = (struct replacing){.d = d, .r = r, .submitting = true};
    enum pp_err err = dd_view(d, r->n == 0, &x->asked, on_replace_view, x);
    x->submitting = false;
    return err != PP_OK ? err : x->err;
}

/* --- tell --- */

static void on_told(void *data, enum pp_err err, const struct redisReply *reply)
{
    (void)reply;
    dd_part_ended(data, err);
}

static enum pp_err send_outcomes(struct dd *d, const struct pp_dedupe_outcome *rows, size_t n,
                                 struct dd_parts *p)
{
    dd_script(d, &pp_lua_dedupe_tell, NULL, 0);
    pp_redis_put_num(&d->call, 2 * d->window_ms);
    for (size_t i = 0; i < n; i++) {
        pp_redis_put(&d->call, rows[i].key, PP_DEDUPE_KEY_BYTES);
        pp_redis_put(&d->call, rows[i].outcome, rows[i].outcome_n);
    }
    return dd_send(d, DD_tell, on_told, p);
}

static enum pp_err tell(struct pp_dedupe *base, struct pp_dedupe_tell *r)
{
    struct dd *d = (struct dd *)base;
    enum pp_err err = PP_OK;
    size_t i = 0;

    if (!pp_dedupe_tell_valid(r))
        return PP_EINVAL;
    struct dd_parts *p = pp_arena_alloc(r->req.arena, sizeof *p);
    if (!p)
        return PP_ENOMEM;
    *p = (struct dd_parts){.then = on_replaced, .data = &r->req};
    do { /* also once for no rows, because a request ends later */
        size_t n = r->n - i < DD_ROWS ? r->n - i : DD_ROWS;
        err = send_outcomes(d, r->rows + i, n, p);
        p->pending += err == PP_OK;
        i += n;
    } while (err == PP_OK && i < r->n);
    return dd_parts_sent(p, err);
}

/* --- one server --- */

static bool roundtrips(struct pp_dedupe *base, size_t i, const char **name, uint64_t *n)
{
    static const char *const names[DD_CALLS] = {"ask", "begin", "replace", "tell"};

    if (i >= DD_CALLS)
        return false;
    *name = names[i];
    *n = ((struct dd *)base)->calls[i];
    return true;
}

static void close_server(struct pp_dedupe *base)
{
    struct dd *d = (struct dd *)base;

    pp_redis_close(d->redis);
    pp_redis_call_fini(&d->call);
    free(d);
}

static const struct pp_dedupe_ops server_ops = {
    .ask = dd_ask,
    .replace = replace,
    .tell = tell,
    .roundtrips = roundtrips,
    .close = close_server,
};

/* --- the port: several servers --- */

struct fleet {
    struct pp_dedupe base;
    struct pp_dedupe *shards;
    struct pp_loop *loop;
    struct pp_redis_dedupe_options options;
    char prefix[DD_PREFIX_MAX + 1];
};

static enum pp_err open_server(void *data, const char *url, struct pp_dedupe **out)
{
    const struct fleet *f = data;
    const struct pp_redis_dedupe_options *o = &f->options;
    struct dd *d = calloc(1, sizeof *d);

    if (!d)
        return PP_ENOMEM;
    d->base.ops = &server_ops;
    d->loop = f->loop;
    d->window_ms = o->window_ms;
    d->slots_min = o->slots == 0 ? DD_SLOTS_MIN : o->slots < DD_SLOTS_MAX ? o->slots : DD_SLOTS_MAX;
    d->test_now = o->test_now;
    d->test_data = o->test_data;
    d->view.until_ms = INT64_MIN;
    snprintf(d->prefix, sizeof d->prefix, "{%s}:", f->prefix);
    const struct pp_redis_options redis = {.url = url, .log = o->log, .timeout_ms = o->timeout_ms};
    enum pp_err err = pp_redis_open(f->loop, &redis, &d->redis);
    if (err != PP_OK) {
        close_server(&d->base);
        return err;
    }
    *out = &d->base;
    return PP_OK;
}

static struct pp_dedupe *shards_of(struct pp_dedupe *base)
{
    return ((struct fleet *)base)->shards;
}

#define X(name, type)                                                       \
    static enum pp_err fleet_##name(struct pp_dedupe *base, struct type *r) \
    {                                                                       \
        return shards_of(base)->ops->name(shards_of(base), r);              \
    }
PP_DEDUPE_OPS(X)
#undef X

static enum pp_err fleet_servers(struct pp_dedupe *base, const char *const *names, size_t n)
{
    return shards_of(base)->ops->servers(shards_of(base), names, n);
}

static bool fleet_roundtrips(struct pp_dedupe *base, size_t i, const char **name, uint64_t *n)
{
    return shards_of(base)->ops->roundtrips(shards_of(base), i, name, n);
}

static void close_fleet(struct pp_dedupe *base)
{
    shards_of(base)->ops->close(shards_of(base));
    free(base);
}

static const struct pp_dedupe_ops fleet_ops = {
#define X(name, type) .name = fleet_##name,
    PP_DEDUPE_OPS(X)
#undef X
        .servers = fleet_servers,
    .roundtrips = fleet_roundtrips,
    .close = close_fleet,
};

enum pp_err pp_redis_dedupe_open(struct pp_loop *loop, const struct pp_redis_dedupe_options *o,
                                 struct pp_dedupe **out)
{
    const char *prefix = o->prefix ? o->prefix : "photopool:dedupe";

    if (!pp_redis_prefix_valid(prefix, DD_PREFIX_MAX) || o->window_ms < 1)
        return PP_EINVAL;
    struct fleet *f = calloc(1, sizeof *f);
    if (!f)
        return PP_ENOMEM;
    f->base.ops = &fleet_ops;
    f->loop = loop;
    f->options = *o;
    snprintf(f->prefix, sizeof f->prefix, "%s", prefix);
    enum pp_err err = pp_dedupe_shards_open(loop, 2 * o->window_ms, open_server, f, &f->shards);
    if (err != PP_OK) {
        free(f);
        return err;
    }
    *out = &f->base;
    return PP_OK;
}
