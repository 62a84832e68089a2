/* node.c: starts, crashes and drains simulated processes: the wiring of cmd/photopool/wire.c, on
 * adapters in memory. */
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_queue.h"
#include "adapter/local/local_filter.h"
#include "base/check.h"
#include "base/clock.h"
#include "fleet.h"
#include "http.h"
#include "pipeline/fetch/keep.h"
#include "reader.h"

/* Longer than all steps of the clocks together, which are of up to a day: finished_at is a date, so
 * a process whose clock is behind writes results that look old. */
#define RETENTION_MS (30 * INT64_C(86400000))

#define DEDUPE_PATIENCE_MS 1000 /* as in cmd/photopool/wire_ports.c */

static const int64_t delays_ms[] = {1000, 10000, 60000};

/* With two kinds of workers, one serves the first tier, the other the rest. Processes with all
 * roles serve all tiers. */
static void set_tiers(const struct sim_node *n, struct pp_params *p)
{
    static const int64_t timeouts_ms[SIM_TIERS] = {1000, 5000, 30000};
    const struct sim_config *c = &n->config;
    bool first = strcmp(n->name, "worker1") == 0;
    unsigned all = (1u << c->n_tiers) - 1;

    p->n_tiers = c->n_tiers;
    for (unsigned i = 0; i < c->n_tiers; i++)
        p->tiers[i] = (struct pp_tier){.timeout_ms = timeouts_ms[SIM_TIERS - c->n_tiers + i],
                                       .concurrency = c->sizes[i]};
    p->tiers_served = all;
    snprintf(p->tiers_text, sizeof p->tiers_text, "all");
    if (!c->kinds || c->n_tiers == 1 || n->roles != PP_ROLE_WORKER || n->fleet->swarm.workers == 1)
        return;
    p->tiers_served = first ? 1 : all & ~1u;
    snprintf(p->tiers_text, sizeof p->tiers_text, "%s", first ? "first" : "rest");
}

/* Each worker keeps its weight when it starts again. */
static uint32_t weight_of(const struct sim_node *n)
{
    uint32_t most = n->fleet->swarm.weights;
    return most > 0 ? 1 + (uint32_t)(n - n->fleet->nodes) % most : 0;
}

static void set_params(struct sim_part *part)
{
    static const struct pp_port_range web[] = {{.lo = 80, .hi = 80}, {.lo = 443, .hi = 443}};
    const struct sim_swarm *s = &part->node->fleet->swarm;
    const struct sim_config *c = &part->node->config;
    struct pp_params *p = &part->params;

    *p = (struct pp_params){.policy = {.ports = web, .n_ports = 2},
                            .webhook_policy = {.ports = web, .n_ports = 2},
                            .max_bytes = 1 << 20,
                            .max_pixels = 100000000,
                            .max_redirects = 5,
                            .buffer_bytes = 8 << 20,
                            .client_rpm = s->rpm,
                            .client_concurrency = s->concurrency,
                            .retry = {.max_attempts = 4, .delays_ms = delays_ms, .n_delays = 3},
                            .hosts_wait_ms = 60000,
                            .hosts_doubt_ms = 3000,
                            .hosts_concurrency = s->host_places,
                            .hosts_believe_ms = s->believe_ms,
                            .ladder_max_ms = 86400000,
                            .counters_flush_ms = 2000,
                            .router_interval_ms = c->router_interval_ms,
                            .router_half_life_ms = 600000,
                            .router_save_ms = c->router_save_ms,
                            .router_min_samples = 5,
                            .router_margin = 1.2,
                            .threads = c->threads,
                            .lease_ms = c->lease_ms,
                            .drain_ms = c->drain_ms,
                            .gather_ms = c->gather_ms,
                            .gather_max_ms = c->gather_max_ms,
                            .high_water = c->high_water,
                            .queue_bytes = 1 << 30,
                            .max_keys = 100000,
                            .plan_chunk = c->plan_chunk,
                            .filter_bytes = (uint64_t)s->filter_kib << 10,
                            .filter_age_ms = s->filter_age_ms,
                            .share_window_ms = s->share_window_ms,
                            .weight = weight_of(part->node),
                            .max_body = 32 << 20,
                            .max_items = 10000,
                            .max_photos_per_item = 100,
                            .idempotency_ms = RETENTION_MS,
                            .results_ms = RETENTION_MS,
                            .max_posts = c->max_posts,
                            .max_subscribers = 100,
                            .events_ms = RETENTION_MS,
                            .events_bytes = s->events_kib > 0 ? (uint64_t)s->events_kib << 10 : 1 << 30,
                            .started_wall_ms = pp_clock_wall_ms()};
    set_tiers(part->node, p);
    snprintf(p->worker, sizeof p->worker, "%s-%u", part->node->name, part->node->starts);
    snprintf(p->host, sizeof p->host, "%s", part->node->name);
}

/* Opens the ingest queue: with the role api behind a journal on the node's disk. */
static enum pp_err open_queue(struct sim_part *part)
{
    struct sim_node *n = part->node;
    enum pp_err err = pp_memory_ingest_open(part->loop, n->fleet->ingest, &part->to_redis.line, &part->queue);

    part->p.ingest = part->queue;
    if (err != PP_OK || !(n->roles & PP_ROLE_API) || n->fleet->swarm.embedded)
        return err;
    if (!n->disk)
        n->disk = pp_memory_ingest_new(NULL);
    err = n->disk ? pp_memory_ingest_open(part->loop, n->disk, NULL, &part->log) : PP_ENOMEM;
    if (err != PP_OK)
        return err;
    return pp_journal_queue_open(
        part->loop,
        &(struct pp_journal_options){.inner = part->queue, .own = part->log, .batch_of = pp_answer_batch_id},
        &part->p.ingest);
}

static enum pp_err open_coordinator(struct sim_part *part)
{
    struct sim_fleet *f = part->node->fleet;

    if (f->swarm.embedded)
        return sim_embedded_coordinator(part);
    return pp_memory_coordinator_open(part->loop, f->coordinator, &part->to_redis.line, &part->p.coordinator);
}

/* Opens the filter of known photos, for the roles that use it (cmd/photopool/wire_ports.c). */
static enum pp_err open_filter(struct sim_part *part)
{
    struct sim_fleet *f = part->node->fleet;

    if (f->swarm.filter_kib == 0 || !(part->node->roles & (PP_ROLE_INGEST | PP_ROLE_CRON)))
        return PP_OK;
    if (f->swarm.embedded)
        return pp_local_filter_open(part->loop, &part->p.filter);
    return pp_memory_filter_open(part->loop, f->filter, &part->to_redis.line, &part->p.filter);
}

/* Opens the cache and the store of counters, for the roles that use them. */
static enum pp_err open_counters(struct sim_part *part)
{
    struct sim_fleet *f = part->node->fleet;
    struct pp_pipeline *p = &part->p;
    enum pp_err err;

    if (f->swarm.counts_every_ms == 0 || f->swarm.embedded ||
        !(part->node->roles & (PP_ROLE_API | PP_ROLE_CRON)))
        return PP_OK;
    err = pp_memory_counter_cache_open(part->loop, f->counter_cache, &part->to_redis.line, &p->counter_cache);
    return err != PP_OK ? err
                        : pp_memory_counter_store_open(part->loop, f->counter_store, &part->to_store.line,
                                                       &p->counter_store);
}

static void close_counters(struct pp_pipeline *p)
{
    if (!p->counter_cache)
        return;
    p->counter_cache->ops->close(p->counter_cache);
    p->counter_store->ops->close(p->counter_store);
}

static void open_ports(struct sim_part *part)
{
    struct sim_fleet *f = part->node->fleet;
    struct pp_pipeline *p = &part->p;
    struct pp_loop *loop = part->loop;
    enum pp_err err = pp_memory_task_store_open(loop, f->store, &part->to_store.line, &p->store);

    err = err == PP_OK ? open_coordinator(part) : err;
    err = err == PP_OK ? sim_shares_port(part) : err;
    err = err == PP_OK ? open_queue(part) : err;
    err = err == PP_OK ? open_filter(part) : err;
    err = err == PP_OK ? open_counters(part) : err;
    err = err == PP_OK ? pp_memory_event_log_open(loop, f->events, &part->to_redis.line, &p->events) : err;
    err = err == PP_OK ? pp_memory_delivery_open(loop, f->deliveries, &part->to_store.line, &p->deliveries)
                       : err;
    err = err == PP_OK ? pp_memory_blobs_open(f->blobs, &p->blobs) : err;
    if (err == PP_OK && (part->node->roles & PP_ROLE_DELIVER)) {
        p->sinks[0].name = "broker";
        p->n_sinks = 1;
        err = pp_memory_sink_open(loop, f->broker, &part->to_broker.line, &p->sinks[0].sink);
    }
    pp_assert(err == PP_OK, "the simulator needs memory");
}

static void open_part(struct sim_part *part)
{
    struct sim_node *n = part->node;
    struct pp_pipeline *p = &part->p;
    int64_t boot, date;

    part->loop = pp_loop_open();
    sim_line_open(&part->to_store, part->loop, &n->fleet->store_weather, n->config.patience_ms);
    sim_line_open(&part->to_redis, part->loop, &n->fleet->redis_weather, n->config.patience_ms);
    sim_line_open(&part->to_broker, part->loop, &n->fleet->broker_weather, n->config.patience_ms);
    sim_line_open(&part->to_dedupe, part->loop, &n->fleet->redis_weather, DEDUPE_PATIENCE_MS);
    part->to_dedupe.owner = part;
    part->to_store.owner = part->to_redis.owner = part->to_broker.owner = part;
    set_params(part);
    pp_clock_read(&boot, &date);
    pp_wall_init(&p->wall, pp_clock_anchor_ms(), boot, date);
    if (n->fleet->swarm.embedded)
        sim_embedded_start(part);
    open_ports(part);
    part->access = (struct sim_access){.net = n->fleet->net, .process = n->name};
    p->roles = n->roles;
    p->loop = part->loop;
    p->params = &part->params;
    part->hook_access =
        (struct sim_hook_access){.hooks = n->fleet->hooks, .inner = sim_fetch_factory(&part->access)};
    p->factory = sim_hooks_factory(&part->hook_access);
    if (n->roles & PP_ROLE_WORKER)
        p->keep_lane = pp_keep_lane_open(2, p->blobs);
    pp_assert(pp_pipeline_open(p) == PP_OK, "the simulator needs memory");
    if (n->roles & PP_ROLE_API)
        part->acceptor = pp_acceptor_open(&(struct pp_acceptor_options){.loop = part->loop,
                                                                        .params = &part->params,
                                                                        .metrics = &p->metrics,
                                                                        .ingest = p->ingest,
                                                                        .publisher = p->publisher});
    if ((n->roles & PP_ROLE_API) && (n->fleet->swarm.cancel_every_ms || n->fleet->swarm.replay_every_ms))
        part->http = sim_http_open(part);
}

void sim_node_start(struct sim_node *n)
{
    pp_assert(n->state == SIM_NODE_DOWN, "a node that runs is started");
    n->process =
        n->process ? pp_sim_process_again(n->process) : pp_sim_process_open(n->fleet->world, n->name);
    n->part = calloc(1, sizeof *n->part);
    pp_assert(n->process && n->part, "the simulator needs memory");
    n->part->node = n;
    n->starts++;
    n->state = SIM_NODE_UP;
    sim_trace_state(n->fleet->trace, n->name, "up");
    struct pp_sim_place before = pp_sim_enter(n->process);
    open_part(n->part);
    pp_sim_leave(before);
}

void sim_node_redis(struct sim_node *n, bool up)
{
    struct pp_pipeline *p = &n->part->p;
    struct pp_sim_place before = pp_sim_enter(n->process);

    pp_memory_coordinator_connect(p->coordinator, up);
    if (up) {
        pp_memory_ingest_reconnected(n->part->queue);
        pp_memory_event_log_reconnected(p->events);
    }
    pp_sim_leave(before);
}

void sim_node_crash(struct sim_node *n)
{
    struct pp_pipeline *p = &n->part->p;

    pp_assert(n->state != SIM_NODE_DOWN, "a node that is down crashes");
    struct pp_sim_place before = pp_sim_enter(n->process);
    sim_internet_crash(n->fleet->net, n->name);
    sim_readers_crash(n->fleet->readers, n);
    if (n->fleet->swarm.embedded)
        sim_embedded_end(n->part, true);
    else
        pp_memory_coordinator_cut(p->coordinator);
    pp_memory_ingest_cut(n->part->queue);
    if (n->part->log)
        pp_memory_ingest_cut(n->part->log);
    pp_memory_event_log_cut(p->events);
    sim_shares_cut(n->part);
    pp_memory_blobs_cut(p->blobs);
    pp_sim_leave(before);
    pp_sim_process_crash(n->process);
    n->part = NULL; /* its memory stays: requests on their way point into it */
    n->state = SIM_NODE_DOWN;
    sim_trace_state(n->fleet->trace, n->name, "down");
}

/* --- draining --- */

static void on_closing(void *data)
{
    struct sim_part *part = data;
    struct sim_node *n = part->node;
    struct pp_pipeline *p = &part->p;

    if (!part->drained || (part->acceptor && pp_acceptor_busy(part->acceptor) > 0) || !pp_pipeline_still(p) ||
        !sim_http_still(part->http))
        return;
    pp_timer_close(part->closing);
    sim_http_close(part->http);
    pp_acceptor_close(part->acceptor);
    pp_pipeline_close(p);
    pp_lane_close(p->keep_lane);
    if (p->n_sinks > 0)
        p->sinks[0].sink->ops->close(p->sinks[0].sink);
    p->blobs->ops->close(p->blobs);
    p->deliveries->ops->close(p->deliveries);
    p->events->ops->close(p->events);
    if (p->dedupe)
        p->dedupe->ops->close(p->dedupe);
    if (p->filter)
        p->filter->ops->close(p->filter);
    close_counters(p);
    p->coordinator->ops->close(p->coordinator);
    p->ingest->ops->close(p->ingest);
    p->store->ops->close(p->store);
    if (n->fleet->swarm.embedded)
        sim_embedded_end(part, false);
    /* The loop stays open: calls that nobody waits for are still on its lines. */
    n->part = NULL;
    n->state = SIM_NODE_DOWN;
    sim_trace_state(n->fleet->trace, n->name, "down");
}

static void on_drained(void *data)
{
    ((struct sim_part *)data)->drained = true;
}

void sim_node_drain(struct sim_node *n)
{
    enum { CHECK_MS = 20 };
    struct sim_part *part = n->part;

    pp_assert(n->state == SIM_NODE_UP, "a node that does not run is drained");
    n->state = SIM_NODE_DRAINING;
    sim_trace_state(n->fleet->trace, n->name, "draining");
    struct pp_sim_place before = pp_sim_enter(n->process);
    part->closing = pp_timer_open(part->loop, on_closing, part);
    pp_timer_start(part->closing, CHECK_MS, CHECK_MS);
    sim_readers_drain(n->fleet->readers, n);
    sim_http_drain(part->http);
    pp_pipeline_drain(&part->p, on_drained, part);
    pp_sim_leave(before);
}

struct sim_node *sim_node_with(struct sim_fleet *f, unsigned role, size_t from)
{
    for (size_t i = 0; i < f->n_nodes; i++) {
        struct sim_node *n = &f->nodes[(from + i) % f->n_nodes];
        if (n->state == SIM_NODE_UP && (n->roles & role))
            return n;
    }
    return NULL;
}
