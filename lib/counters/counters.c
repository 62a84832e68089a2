/* counters.c: the port of a fleet's counters.
 *
 * Each request of the port is an operation, which lies in the request's arena. It asks the cache;
 * then, if keys are missing, the store, and the cache again, with what the store has of them. */
#include "counters/counters.h"

#include <stdlib.h>

#include "base/check.h"
#include "core/counter.h"
#include "core/day.h"
#include "counters/internal.h"

/* An operation asks the store at most this often. It asks again if sums were dropped from the cache
 * between the read of the store and the second request to the cache. */
#define TRIES_MAX 5
/* One read of the store has at most about this many keys. */
#define SUMS_MAX  4000
#define ARENA_MAX (16u << 20)

struct counter_op {
    struct pp_node node; /* in c->waiting or c->asked */
    struct pp_fleet_counters *c;
    struct pp_req *req; /* the request of the port */
    const char *const *keys;
    size_t n;
    const int64_t *sums; /* what the cache has answered */
    struct pp_counter_stored *stored;
    unsigned tries;
    void (*again)(struct counter_op *op);   /* asks the cache, with `stored` */
    void (*give_up)(struct counter_op *op); /* goes on although the store can't be read */
};

static struct pp_fleet_counters *fleet_of(struct pp_counters *base)
{
    return (struct pp_fleet_counters *)base;
}

/* Ends the operation. `op` is part of what the caller may free now. */
static void end(struct counter_op *op, enum pp_err err)
{
    pp_assert(op->c->busy > 0, "an operation ends twice");
    op->c->busy--;
    pp_req_end(op->req, err);
}

/* Prepares the request of a lower port for an operation. */
static struct pp_req lower(struct counter_op *op, void (*done)(struct pp_req *req))
{
    return (struct pp_req){.done = done, .data = op, .arena = op->req->arena};
}

/* --- reading the store, for several operations at once --- */

static void ask_store(struct pp_fleet_counters *c);

static size_t missing(const struct counter_op *op)
{
    size_t n = 0;

    for (size_t i = 0; i < op->n; i++)
        n += op->sums[i] == PP_COUNTER_UNKNOWN;
    return n;
}

static void give_up_all(struct pp_list *ops)
{
    struct pp_node *node;

    while ((node = pp_list_pop(ops)))
        ((struct counter_op *)node)->give_up((struct counter_op *)node);
}

/* Gives an operation its part of the answer, which begins at *from. */
static void go_on(struct counter_op *op, const struct pp_counter_stored **from)
{
    size_t n = missing(op);

    if (!op->stored)
        op->stored = pp_arena_array(op->req->arena, op->n, sizeof(*op->stored));
    for (size_t i = 0, at = 0; op->stored && i < op->n; i++)
        op->stored[i] = op->sums[i] == PP_COUNTER_UNKNOWN ? (*from)[at++]
                                                          : (struct pp_counter_stored){PP_COUNTER_UNKNOWN, 0};
    *from += n;
    if (op->stored)
        op->again(op);
    else
        end(op, PP_ENOMEM);
}

static void on_sums(void *data, enum pp_err err)
{
    struct pp_fleet_counters *c = data;
    const struct pp_counter_stored *from = c->sums.sums;
    struct pp_list ops;
    struct pp_node *node;

    pp_list_init(&ops);
    pp_list_splice(&ops, &c->asked);
    if (err != PP_OK) {
        pp_list_splice(&ops, &c->waiting);
        give_up_all(&ops);
        return;
    }
    while ((node = pp_list_pop(&ops)))
        go_on((struct counter_op *)node, &from);
    ask_store(c);
}

/* Moves waiting operations to c->asked, and collects their missing keys. Returns NULL if out of
 * memory. */
static const char **collect(struct pp_fleet_counters *c, struct pp_arena *a, size_t *n)
{
    const char **keys = pp_arena_array(a, SUMS_MAX + PP_COUNTER_ROWS_MAX, sizeof(*keys));

    for (*n = 0; *n < SUMS_MAX && !pp_list_empty(&c->waiting);) {
        struct counter_op *op = (struct counter_op *)pp_list_pop(&c->waiting);
        pp_list_push(&c->asked, &op->node);
        for (size_t i = 0; keys && i < op->n; i++)
            if (op->sums[i] == PP_COUNTER_UNKNOWN)
                keys[(*n)++] = op->keys[i];
    }
    return keys;
}

static void ask_store(struct pp_fleet_counters *c)
{
    struct pp_counter_store *store = c->o.store;

    if (c->ask.in_flight || pp_list_empty(&c->waiting))
        return;
    c->sums = (struct pp_cstore_sums){.req = pp_ask_request(&c->ask, on_sums)};
    c->sums.keys = collect(c, c->sums.req.arena, &c->sums.n);
    if (!pp_ask_submitted(&c->ask, c->sums.keys ? store->ops->sums(store, &c->sums) : PP_ENOMEM))
        on_sums(c, PP_ENOMEM);
}

/* Some keys of the operation are missing in the cache. */
static void miss(struct counter_op *op)
{
    struct pp_fleet_counters *c = op->c;

    if (op->tries == TRIES_MAX || pp_ask_pause_left(&c->ask) > 0) {
        op->give_up(op);
        return;
    }
    op->tries++;
    pp_list_push(&c->waiting, &op->node);
    ask_store(c);
}

/* Makes an operation of `size` bytes, which begins with a struct counter_op. Returns NULL if out of
 * memory. */
static void *new_op(struct pp_counters *base, size_t size, struct pp_req *req, const char *const *keys,
                    size_t n)
{
    struct counter_op *op = pp_arena_alloc(req->arena, size);

    if (op)
        *op = (struct counter_op){.c = fleet_of(base), .req = req, .keys = keys, .n = n};
    return op;
}

/* Notes what a lower port returned at the first submit of an operation. */
static enum pp_err begun(struct counter_op *op, enum pp_err err)
{
    op->c->busy += err == PP_OK;
    return err;
}

/* --- add --- */

struct add_op {
    struct counter_op op;
    struct pp_cache_add cache;
};

static void on_added(struct pp_req *req)
{
    struct add_op *a = req->data;
    struct pp_counters_add *r = (struct pp_counters_add *)a->op.req;

    a->op.sums = a->cache.sums;
    if (req->err == PP_OK && !a->cache.applied) {
        miss(&a->op);
        return;
    }
    r->sums = a->cache.sums;
    r->replayed = a->cache.replayed;
    end(&a->op, req->err);
}

static enum pp_err submit_add(struct add_op *a)
{
    struct pp_counter_cache *cache = a->op.c->o.cache;

    a->cache.req = lower(&a->op, on_added);
    a->cache.stored = a->op.stored;
    return cache->ops->add(cache, &a->cache);
}

static void add_again(struct counter_op *op)
{
    enum pp_err err = submit_add((struct add_op *)op);

    if (err != PP_OK)
        end(op, err);
}

static void add_without_sums(struct counter_op *op)
{
    ((struct add_op *)op)->cache.force = true;
    add_again(op);
}

static enum pp_err fleet_add(struct pp_counters *base, struct pp_counters_add *r)
{
    struct add_op *a = new_op(base, sizeof(*a), &r->req, r->keys, r->n);

    if (!a)
        return PP_ENOMEM;
    a->op.again = add_again;
    a->op.give_up = add_without_sums;
    a->cache = (struct pp_cache_add){
        .keys = r->keys, .by = r->by, .n = r->n, .day = r->day, .now_ms = r->now_ms, .token = r->token};
    return begun(&a->op, submit_add(a));
}

/* --- read --- */

struct read_op {
    struct counter_op op;
    struct pp_cache_read cache;
};

static void on_read(struct pp_req *req)
{
    struct read_op *o = req->data;

    o->op.sums = o->cache.sums;
    if (req->err == PP_OK && missing(&o->op) > 0) {
        miss(&o->op);
        return;
    }
    ((struct pp_counters_read *)o->op.req)->sums = o->cache.sums;
    end(&o->op, req->err);
}

static enum pp_err submit_read(struct read_op *o)
{
    struct pp_counter_cache *cache = o->op.c->o.cache;

    o->cache.req = lower(&o->op, on_read);
    o->cache.stored = o->op.stored;
    return cache->ops->read(cache, &o->cache);
}

static void read_again(struct counter_op *op)
{
    enum pp_err err = submit_read((struct read_op *)op);

    if (err != PP_OK)
        end(op, err);
}

static void read_fails(struct counter_op *op)
{
    end(op, PP_EIO);
}

static enum pp_err fleet_read(struct pp_counters *base, struct pp_counters_read *r)
{
    struct read_op *o = new_op(base, sizeof(*o), &r->req, r->keys, r->n);

    if (!o)
        return PP_ENOMEM;
    o->op.again = read_again;
    o->op.give_up = read_fails;
    o->cache = (struct pp_cache_read){.keys = r->keys, .n = r->n, .now_ms = r->now_ms};
    return begun(&o->op, submit_read(o));
}

/* --- days --- */

struct days_op {
    struct counter_op op;
    struct pp_cache_days cache;
    struct pp_cstore_months store;
};

static void days_again(struct counter_op *op);

static size_t n_days(const struct pp_counters_days *r)
{
    pp_assert(r->from <= r->to, "no range of days");
    return (size_t)((int64_t)r->to - r->from) + 1;
}

static void put_days(struct days_op *o, const int64_t *sums)
{
    struct pp_counters_days *r = (struct pp_counters_days *)o->op.req;

    r->n = 0;
    r->days = pp_arena_array(r->req.arena, n_days(r), sizeof(*r->days));
    for (int32_t day = r->from; r->days && day <= r->to; day++)
        if (sums[day - r->from] != 0)
            r->days[r->n++] = (struct pp_counter_day){day, sums[day - r->from]};
    end(&o->op, r->days ? PP_OK : PP_ENOMEM);
}

static void on_months(struct pp_req *req)
{
    struct days_op *o = req->data;
    const struct pp_counters_days *r = (struct pp_counters_days *)o->op.req;
    int64_t *sums = pp_arena_array(req->arena, n_days(r), sizeof(*sums));

    if (req->err != PP_OK || !sums)
        end(&o->op, req->err != PP_OK ? req->err : PP_ENOMEM);
    else if (pp_counter_merge(&o->cache, o->store.months, o->store.n, r->from, r->to, sums))
        put_days(o, sums);
    else if (o->op.tries++ == TRIES_MAX)
        end(&o->op, PP_EIO);
    else
        days_again(&o->op);
}

static void on_days(struct pp_req *req)
{
    struct days_op *o = req->data;
    const struct pp_counters_days *r = (struct pp_counters_days *)o->op.req;
    struct pp_counter_store *store = o->op.c->o.store;
    enum pp_err err = req->err;

    if (err == PP_OK) {
        o->store = (struct pp_cstore_months){.req = lower(&o->op, on_months),
                                             .key = r->key,
                                             .from = pp_day_month(r->from),
                                             .to = pp_day_month(r->to)};
        err = store->ops->months(store, &o->store);
    }
    if (err != PP_OK)
        end(&o->op, err);
}

static enum pp_err submit_days(struct days_op *o)
{
    struct pp_counter_cache *cache = o->op.c->o.cache;

    o->cache = (struct pp_cache_days){.req = lower(&o->op, on_days),
                                      .key = ((struct pp_counters_days *)o->op.req)->key};
    return cache->ops->days(cache, &o->cache);
}

static void days_again(struct counter_op *op)
{
    enum pp_err err = submit_days((struct days_op *)op);

    if (err != PP_OK)
        end(op, err);
}

static enum pp_err fleet_days(struct pp_counters *base, struct pp_counters_days *r)
{
    struct days_op *o = new_op(base, sizeof(*o), &r->req, NULL, 0);

    pp_assert(r->from <= r->to && r->to - r->from < PP_COUNTER_DAYS_MAX, "a range of days is not valid");
    return o ? begun(&o->op, submit_days(o)) : PP_ENOMEM;
}

/* --- remove --- */

struct remove_op {
    struct counter_op op;
    struct pp_cache_remove cache;
};

static void on_removed(struct pp_req *req)
{
    struct remove_op *o = req->data;
    end(&o->op, req->err);
}

static enum pp_err fleet_remove(struct pp_counters *base, struct pp_counters_remove *r)
{
    struct remove_op *o = new_op(base, sizeof(*o), &r->req, NULL, 0);
    struct pp_counter_cache *cache = fleet_of(base)->o.cache;

    if (!o)
        return PP_ENOMEM;
    o->cache = (struct pp_cache_remove){.req = lower(&o->op, on_removed), .key = r->key, .now_ms = r->now_ms};
    return begun(&o->op, cache->ops->remove(cache, &o->cache));
}

/* --- life --- */

/* Counts the round trips of the cache, then those of the store. */
static bool fleet_roundtrips(struct pp_counters *base, size_t i, const char **name, uint64_t *n)
{
    struct pp_counter_cache *cache = fleet_of(base)->o.cache;
    struct pp_counter_store *store = fleet_of(base)->o.store;
    size_t cached = 0;

    while (cache->ops->roundtrips(cache, cached, name, n))
        if (cached++ == i)
            return true;
    return store->ops->roundtrips(store, i - cached, name, n);
}

static void fleet_close(struct pp_counters *base)
{
    (void)base;
    pp_assert(false, "the counters of a fleet are closed with pp_fleet_counters_close()");
}

static const struct pp_counters_ops ops = {
#define X(name, type) .name = fleet_##name,
    PP_COUNTERS_OPS(X)
#undef X
        .roundtrips = fleet_roundtrips,
    .close = fleet_close};

struct pp_fleet_counters *pp_fleet_counters_open(const struct pp_fleet_counters_options *options)
{
    struct pp_fleet_counters *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->base.ops = &ops;
    c->o = *options;
    pp_list_init(&c->waiting);
    pp_list_init(&c->asked);
    c->ask = (struct pp_ask){.loop = options->loop,
                             .log = options->log,
                             .failed = "stored counters unreadable",
                             .arena_max = ARENA_MAX,
                             .data = c};
    if (!pp_counter_flusher_open(c)) {
        free(c);
        return NULL;
    }
    return c;
}

struct pp_counters *pp_fleet_counters_port(struct pp_fleet_counters *c)
{
    return &c->base;
}

size_t pp_fleet_counters_busy(const struct pp_fleet_counters *c)
{
    return c ? c->busy : 0;
}

void pp_fleet_counters_close(struct pp_fleet_counters *c)
{
    if (!c)
        return;
    pp_assert(c->busy == 0 && !c->ask.in_flight && !c->flusher.ask.in_flight,
              "counters are closed while requests are in flight");
    pp_timer_close(c->flusher.timer);
    free(c);
}
