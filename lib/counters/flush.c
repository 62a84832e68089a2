/* flush.c: brings pending increments to the store, and drops sums that nobody uses.
 *
 *   tick -> last (once) -> take -> flush -> ack -> (more: take) -> sweep
 *
 * After a failure the next tick begins again with take, which returns the same flush until its
 * ack. */
#include "core/counter.h"
#include "counters/internal.h"

#define UNUSED_MS (24 * 3600 * INT64_C(1000))
#define ARENA_MAX (64u << 20)

static void take(struct pp_counter_flusher *f);

static void on_swept(void *data, enum pp_err err)
{
    struct pp_counter_flusher *f = data;

    if (err == PP_OK)
        f->part = f->sweep.part;
}

static void sweep(struct pp_counter_flusher *f)
{
    const struct pp_fleet_counters_options *o = &f->c->o;

    f->sweep = (struct pp_cache_sweep){.req = pp_ask_request(&f->ask, on_swept),
                                       .part = f->part,
                                       .before_ms = pp_loop_date(o->loop) - UNUSED_MS};
    pp_ask_submitted(&f->ask, o->cache->ops->sweep(o->cache, &f->sweep));
}

static void on_acked(void *data, enum pp_err err)
{
    struct pp_counter_flusher *f = data;

    if (err != PP_OK)
        return;
    pp_metrics_counter_flush(f->c->o.metrics, pp_loop_now(f->c->o.loop) - f->began_ms);
    if (f->take.more && !f->stopped)
        take(f);
    else
        sweep(f);
}

static void on_flushed(void *data, enum pp_err err)
{
    struct pp_counter_flusher *f = data;
    struct pp_counter_cache *cache = f->c->o.cache;

    if (err != PP_OK)
        return;
    f->ack = (struct pp_cache_ack){.req = pp_ask_continue(&f->ask, on_acked), .flush = f->flush.flush};
    pp_ask_submitted(&f->ask, cache->ops->ack(cache, &f->ack));
}

/* Returns the rows with each day's month, in the arena; NULL: out of memory. */
static const struct pp_cstore_row *make_rows(const struct pp_cache_take *r, struct pp_arena *a)
{
    struct pp_cstore_row *rows = pp_arena_array(a, r->n, sizeof(*rows));

    for (size_t i = 0; rows && i < r->n; i++) {
        struct pp_cstore_day *days = pp_arena_array(a, r->rows[i].n, sizeof(*days));
        if (!days)
            return NULL;
        pp_counter_flush_row(&r->rows[i], days);
        rows[i] = (struct pp_cstore_row){.key = r->rows[i].key, .days = days, .n = r->rows[i].n};
    }
    return rows;
}

static void on_taken(void *data, enum pp_err err)
{
    struct pp_counter_flusher *f = data;
    struct pp_counter_store *store = f->c->o.store;
    const struct pp_cache_take *r = &f->take;

    if (err != PP_OK)
        return;
    if (r->flush == 0) {
        sweep(f);
        return;
    }
    if (r->flush > f->floor)
        f->floor = r->flush;
    f->flush = (struct pp_cstore_flush){.req = pp_ask_continue(&f->ask, on_flushed),
                                        .flush = r->flush,
                                        .removed = r->removed,
                                        .n_removed = r->n_removed,
                                        .n = r->n};
    f->flush.rows = make_rows(r, f->flush.req.arena);
    pp_ask_submitted(&f->ask, f->flush.rows ? store->ops->flush(store, &f->flush) : PP_ENOMEM);
}

static void take(struct pp_counter_flusher *f)
{
    struct pp_counter_cache *cache = f->c->o.cache;

    f->began_ms = pp_loop_now(f->c->o.loop);
    f->take = (struct pp_cache_take){.req = pp_ask_request(&f->ask, on_taken), .floor = f->floor};
    pp_ask_submitted(&f->ask, cache->ops->take(cache, &f->take));
}

static void on_last(void *data, enum pp_err err)
{
    struct pp_counter_flusher *f = data;

    if (err != PP_OK)
        return;
    f->knows_last = true;
    if (f->last.flush > f->floor)
        f->floor = f->last.flush;
    take(f);
}

static void on_tick(void *data)
{
    struct pp_counter_flusher *f = data;
    const struct pp_fleet_counters_options *o = &f->c->o;

    pp_timer_start(f->timer, o->params->counters_flush_ms, 0);
    if (!o->leads(o->data)) {
        f->knows_last = false; /* another process may flush now */
        return;
    }
    if (!pp_ask_ready(&f->ask))
        return;
    if (f->knows_last) {
        take(f);
        return;
    }
    f->last = (struct pp_cstore_last){.req = pp_ask_request(&f->ask, on_last)};
    pp_ask_submitted(&f->ask, o->store->ops->last(o->store, &f->last));
}

bool pp_counter_flusher_open(struct pp_fleet_counters *c)
{
    struct pp_counter_flusher *f = &c->flusher;

    f->c = c;
    f->ask = (struct pp_ask){.loop = c->o.loop,
                             .log = c->o.log,
                             .failed = "counters not flushed",
                             .arena_max = ARENA_MAX,
                             .data = f};
    f->timer = pp_timer_open(c->o.loop, on_tick, f);
    if (f->timer)
        pp_timer_start(f->timer, c->o.params->counters_flush_ms, 0);
    return f->timer;
}

void pp_fleet_counters_stop(struct pp_fleet_counters *c)
{
    if (!c)
        return;
    c->flusher.stopped = true;
    pp_timer_stop(c->flusher.timer);
}

size_t pp_fleet_counters_flushing(const struct pp_fleet_counters *c)
{
    return c ? c->flusher.ask.in_flight : 0;
}
