/* pipeline.c: opens, drains and closes the stages of one process.
 *
 * open_stages() has the order of opening. A process that is alone first removes the orphans of a
 * crash, then claims tasks; its cron returns the claims of earlier processes and announces the
 * backlog. A process of a fleet does this as fleet.c says.
 *
 * Order of draining:
 *   1. planner and claimer take nothing new
 *   2. transfers end, or are handed back at the deadline; settler has written all outcomes
 *   3. cron, routes, hosts, fleet and deliverer have nothing in flight
 *   4. claimer has released its slots; on_drained() is called
 *   5. the API ends, then hub and poster: pp_pipeline_still()
 *
 * To add a stage, fill in its options here, and give it its place in open_stages(),
 * on_drain_check() and pp_pipeline_close(). */
#include "counters/counters.h"
#include "events/hub.h"
#include "pipeline/deliver/webhook_post.h"
#include "pipeline/hosts/host_json.h"
#include "pipeline/hosts/hosts.h"
#include "pipeline/pipeline_internal.h"
#include "pipeline/plan/known_build.h"
#include "pipeline/plan/plan.h"
#include "pipeline/settle/settle.h"

#define DRAIN_CHECK_MS 10
#define HOST_EVENT_MAX 4096 /* bytes of the data of an event about a host */
/* When a drain is past its deadline, the pipeline logs the remaining work and hands it back again
 * at this interval. */
#define DRAIN_AGAIN_MS 10000

/* --- callbacks from one stage to another --- */

static void on_items_finished(void *data)
{
    struct pp_pipeline *p = data;
    pp_deliverer_wake(p->deliverer);
}

static void on_batch_moved(void *data, const char *batch_id)
{
    struct pp_pipeline *p = data;
    pp_deliverer_batch_moved(p->deliverer, batch_id);
    pp_fleet_batch_moved(p->fleet, batch_id);
}

static void on_backlog_doubtful(void *data)
{
    struct pp_pipeline *p = data;
    p->backlog_doubtful = true;
}

static bool leads(void *data)
{
    return pp_fleet_leads(data);
}

/* Tells operators that a breaker has changed: in the log, and by an event. */
static void on_host_changed(void *data, const struct pp_host_shown *shown)
{
    static const char *const types[PP_BREAKER_STATES] = {[PP_BREAKER_CLOSED] = "photopool.host.closed",
                                                         [PP_BREAKER_OPEN] = "photopool.host.opened",
                                                         [PP_BREAKER_HALF_OPEN] = "photopool.host.half_open"};
    const struct pp_pipeline *p = data;
    struct pp_buf event;

    pp_log(p->log, PP_LOG_INFO, "breaker", "host", shown->host, "state",
           pp_breaker_state_name(shown->breaker.state), "reason",
           shown->breaker.reason ? pp_breaker_reason_name(shown->breaker.reason) : "", NULL);
    pp_buf_init(&event, HOST_EVENT_MAX);
    pp_host_write(&event, NULL, shown, NULL, p->loop);
    if (!event.failed)
        pp_publish_ops(p->publisher, types[shown->breaker.state], event.p, event.n);
    pp_buf_fini(&event);
}

static void on_gate_open(void *data)
{
    struct pp_pipeline *p = data;
    pp_claimer_wake(p->claimer);
}

static void on_gate_retry(void *data)
{
    struct pp_pipeline *p = data;
    pp_claimer_retry(p->claimer);
}

static void on_finished(void *data, struct pp_transfer *t)
{
    struct pp_pipeline *p = data;
    pp_settler_finished(p->settler, t);
}

/* --- opening the stages --- */

static bool has_role(const struct pp_pipeline *p, unsigned roles)
{
    return (p->roles & roles) != 0;
}

static bool is_open(const struct pp_pipeline *p, unsigned roles, const void *stage)
{
    return stage || !has_role(p, roles);
}

/* Opens the stages of a worker. The claimer is opened first: it needs the settler only when it has
 * begun to claim. */
static enum pp_err open_worker(struct pp_pipeline *p)
{
    p->gate = pp_gate_open(&(struct pp_gate_options){
        .loop = p->loop,
        .log = p->log,
        .blobs = p->blobs,
        .space = {.dir = {[PP_SPACE_BLOBS] = p->params->blobs_dir, [PP_SPACE_DATA] = p->params->data_dir},
                  .min_free = p->params->min_free,
                  .is_set = p->params->min_free_is_set},
        .data = p,
        .on_open = on_gate_open,
        .on_retry = on_gate_retry});
    if (!p->gate)
        return PP_ENOMEM;
    enum pp_err err =
        pp_claimer_open(&(struct pp_claimer_options){.loop = p->loop,
                                                     .log = p->log,
                                                     .params = p->params,
                                                     .metrics = &p->metrics,
                                                     .store = p->store,
                                                     .coordinator = p->coordinator,
                                                     .factory = p->factory,
                                                     .keep_lane = p->keep_lane,
                                                     .blobs = p->blobs,
                                                     .gate = p->gate,
                                                     .hosts = p->hosts,
                                                     .dedupe = p->dedupe,
                                                     .data = p,
                                                     .on_finished = on_finished,
                                                     .on_backlog_incomplete = on_backlog_doubtful},
                        &p->claimer);
    if (err != PP_OK)
        return err;
    p->settler = pp_settler_open(&(struct pp_settler_options){.loop = p->loop,
                                                              .log = p->log,
                                                              .params = p->params,
                                                              .metrics = &p->metrics,
                                                              .rng = &p->rng,
                                                              .store = p->store,
                                                              .coordinator = p->coordinator,
                                                              .routes = p->routes,
                                                              .progress = p->progress,
                                                              .hosts = p->hosts,
                                                              .gate = p->gate,
                                                              .claimer = p->claimer,
                                                              .data = p,
                                                              .on_items_finished = on_items_finished,
                                                              .on_batch_moved = on_batch_moved});
    return p->settler ? PP_OK : PP_ENOMEM;
}

static struct pp_planner *open_planner(struct pp_pipeline *p)
{
    return pp_planner_open(&(struct pp_planner_options){.loop = p->loop,
                                                        .log = p->log,
                                                        .params = p->params,
                                                        .metrics = &p->metrics,
                                                        .store = p->store,
                                                        .filter = p->filter,
                                                        .ingest = p->ingest,
                                                        .coordinator = p->coordinator,
                                                        .routes = p->routes,
                                                        .hosts = p->hosts,
                                                        .progress = p->progress,
                                                        .data = p,
                                                        .on_items_finished = on_items_finished,
                                                        .on_backlog_doubtful = on_backlog_doubtful});
}

/* Opens the planner, and the builder of the filter of known photos. Returns false if out of
 * memory. */
static bool open_planning(struct pp_pipeline *p)
{
    if (has_role(p, PP_ROLE_INGEST))
        p->planner = open_planner(p);
    if (!p->filter || !has_role(p, PP_ROLE_CRON))
        return is_open(p, PP_ROLE_INGEST, p->planner);
    p->known = pp_known_builder_open(&(struct pp_known_builder_options){.loop = p->loop,
                                                                        .log = p->log,
                                                                        .params = p->params,
                                                                        .store = p->store,
                                                                        .filter = p->filter,
                                                                        .leads = leads,
                                                                        .data = p});
    return p->known && is_open(p, PP_ROLE_INGEST, p->planner);
}

static struct pp_deliverer *open_deliverer(struct pp_pipeline *p)
{
    return pp_deliverer_open(&(struct pp_deliverer_options){.loop = p->loop,
                                                            .log = p->log,
                                                            .params = p->params,
                                                            .metrics = &p->metrics,
                                                            .rng = &p->rng,
                                                            .store = p->store,
                                                            .deliveries = p->deliveries,
                                                            .coordinator = p->coordinator,
                                                            .publisher = p->publisher,
                                                            .poster = p->poster,
                                                            .progress = p->progress,
                                                            .sinks = p->sinks,
                                                            .n_sinks = p->n_sinks});
}

/* Starts a worker that is alone. The worker claims nothing while the search for orphans runs: an
 * object that was just stored, and has no record yet, would look like an orphan. */
static void start_alone(struct pp_pipeline *p)
{
    p->backlog_doubtful = true;
    if (p->params->orphans_since_ms > 0)
        p->orphans = pp_orphans_start(p);
    if (!p->orphans)
        pp_claimer_begin(p->claimer);
}

static void on_drain_check(void *data);
static void on_drain_deadline(void *data);

/* Opens the parts that deliver results. Returns false if out of memory. A process that has an event
 * log also has a delivery store. */
static bool open_delivery(struct pp_pipeline *p)
{
    if (!p->events)
        return true;
    pp_assert(p->deliveries, "an event log without a delivery store");
    p->publisher = pp_publisher_open(&(struct pp_publisher_options){
        .loop = p->loop, .log = p->log, .events = p->events, .store = p->store, .metrics = &p->metrics});
    if (!p->publisher)
        return false;
    if (has_role(p, PP_ROLE_API))
        p->hub = pp_hub_open(&(struct pp_hub_options){
            .loop = p->loop, .log = p->log, .events = p->events, .publisher = p->publisher});
    if (has_role(p, PP_ROLE_API | PP_ROLE_DELIVER))
        p->poster = pp_poster_open(
            &(struct pp_poster_options){.loop = p->loop, .params = p->params, .factory = p->factory});
    if (p->poster && has_role(p, PP_ROLE_DELIVER))
        p->deliverer = open_deliverer(p);
    return is_open(p, PP_ROLE_API, p->hub) && is_open(p, PP_ROLE_API, p->poster) &&
           is_open(p, PP_ROLE_DELIVER, p->deliverer);
}

/* Opens the counters. Returns false if out of memory. */
static bool open_counters(struct pp_pipeline *p)
{
    p->counters = p->own_counters;
    if (!p->counter_cache)
        return true;
    pp_assert(p->counter_store, "a cache of counters without their store");
    p->fleet_counters = pp_fleet_counters_open(&(struct pp_fleet_counters_options){.loop = p->loop,
                                                                                   .log = p->log,
                                                                                   .params = p->params,
                                                                                   .metrics = &p->metrics,
                                                                                   .cache = p->counter_cache,
                                                                                   .store = p->counter_store,
                                                                                   .leads = leads,
                                                                                   .data = p});
    if (!p->fleet_counters)
        return false;
    p->counters = pp_fleet_counters_port(p->fleet_counters);
    return true;
}

static enum pp_err open_stages(struct pp_pipeline *p)
{
    uint64_t seed;
    enum pp_err err;

    pp_assert(p->roles && p->loop && p->params && p->store && p->ingest && p->coordinator,
              "a process without roles or without its ports");
    pp_assert(p->keep_lane || !has_role(p, PP_ROLE_WORKER), "a worker keeps photos on a lane");
    pp_random_bytes(&seed, sizeof(seed));
    pp_rng_seed(&p->rng, seed);
    p->drain_timer = pp_timer_open(p->loop, on_drain_check, p);
    p->drain_deadline = pp_timer_open(p->loop, on_drain_deadline, p);
    p->progress = pp_progress_new();
    p->cron = pp_cron_open(p);
    p->routes = pp_routes_open(&(struct pp_routes_options){.loop = p->loop,
                                                           .log = p->log,
                                                           .params = p->params,
                                                           .store = p->store,
                                                           .coordinator = p->coordinator,
                                                           .leads = leads,
                                                           .data = p});
    p->hosts = pp_hosts_open(&(struct pp_hosts_options){.loop = p->loop,
                                                        .log = p->log,
                                                        .params = p->params,
                                                        .metrics = &p->metrics,
                                                        .roles = p->roles,
                                                        .store = p->store,
                                                        .coordinator = p->coordinator,
                                                        .leads = leads,
                                                        .on_changed = on_host_changed,
                                                        .data = p});
    if (!p->drain_timer || !p->drain_deadline || !p->progress || !p->cron || !p->routes || !p->hosts)
        return PP_ENOMEM;
    if (has_role(p, PP_ROLE_WORKER) && (err = open_worker(p)) != PP_OK)
        return err;
    if (!open_planning(p) || !open_delivery(p) || !open_counters(p))
        return PP_ENOMEM;
    if (!p->params->sole_worker) {
        p->fleet = pp_fleet_open(p);
        if (!p->fleet)
            return PP_ENOMEM;
    }
    /* The parts that send requests are started last. So if an earlier step fails, no request is in
     * flight, and everything can be closed at once. */
    if (p->roles & PP_ROUTE_ROLES)
        pp_routes_load(p->routes);
    if (p->params->sole_worker && p->claimer)
        start_alone(p);
    return PP_OK;
}

enum pp_err pp_pipeline_open(struct pp_pipeline *p)
{
    enum pp_err err = open_stages(p);
    if (err != PP_OK)
        pp_pipeline_close(p);
    return err;
}

void pp_pipeline_close(struct pp_pipeline *p)
{
    pp_assert(!p->orphans && !p->on_drained, "closed before it was drained");
    pp_fleet_counters_close(p->fleet_counters);
    pp_deliverer_close(p->deliverer);
    pp_poster_close(p->poster);
    pp_hub_close(p->hub);
    pp_publisher_close(p->publisher);
    pp_known_builder_close(p->known);
    pp_planner_close(p->planner);
    pp_claimer_close(p->claimer);
    pp_settler_close(p->settler);
    pp_gate_close(p->gate);
    pp_cron_close(p->cron);
    pp_fleet_close(p->fleet);
    pp_routes_close(p->routes);
    pp_hosts_close(p->hosts);
    pp_progress_free(p->progress);
    pp_timer_close(p->drain_timer);
    pp_timer_close(p->drain_deadline);
}

void pp_pipeline_reloaded(struct pp_pipeline *p)
{
    if (p->claimer)
        pp_claimer_reloaded(p->claimer);
}

/* --- draining the stages --- */

static bool takes_and_fetches(const struct pp_pipeline *p)
{
    return p->orphans || (p->planner && pp_planner_busy(p->planner) > 0) ||
           (p->claimer && pp_claimer_in_flight(p->claimer) > 0);
}

static size_t jobs_in_flight(const struct pp_pipeline *p)
{
    return (p->gate && pp_gate_busy(p->gate)) + pp_cron_busy(p->cron) + pp_routes_busy(p->routes) +
           pp_hosts_busy(p->hosts) + pp_fleet_busy(p->fleet) + pp_known_builder_busy(p->known) +
           pp_fleet_counters_flushing(p->fleet_counters);
}

/* Checks whether the drain is complete: asks the stages in the order in which they end. Calls
 * on_drained() when all have ended. */
static void on_drain_check(void *data)
{
    struct pp_pipeline *p = data;

    if (takes_and_fetches(p))
        return;
    if (!p->cron_stopped) {
        p->cron_stopped = true;
        if (p->gate)
            pp_gate_stop(p->gate);
        pp_deliverer_stop(p->deliverer);
        pp_cron_stop(p->cron);
        pp_routes_tick(p->routes);
        pp_hosts_stop(p->hosts);
        pp_known_builder_stop(p->known);
        pp_fleet_counters_stop(p->fleet_counters);
        pp_fleet_stop(p->fleet);
    }
    if (jobs_in_flight(p) > 0 || pp_deliverer_busy(p->deliverer) > 0 ||
        (p->claimer && !pp_claimer_release_slots(p->claimer)))
        return;
    void (*on_drained)(void *) = p->on_drained;
    pp_timer_stop(p->drain_timer);
    pp_timer_stop(p->drain_deadline);
    p->on_drained = NULL;
    on_drained(p->drained_data);
}

bool pp_pipeline_still(struct pp_pipeline *p)
{
    if (p->hub)
        pp_hub_stop(p->hub);
    if (p->poster)
        pp_poster_give_up(p->poster);
    return (!p->hub || pp_hub_busy(p->hub) == 0) && pp_publisher_busy(p->publisher) == 0 &&
           pp_fleet_counters_busy(p->fleet_counters) == 0;
}

static void log_waits(struct pp_pipeline *p)
{
    size_t photos = p->claimer ? pp_claimer_unsettled(p->claimer) : 0;

    pp_log(p->log, PP_LOG_INFO, "still draining: work in flight is handed back", "chunks",
           PP_LOG_INT(p->planner ? pp_planner_busy(p->planner) : 0), "photos", PP_LOG_INT(photos), "requests",
           PP_LOG_INT(p->claimer ? pp_claimer_in_flight(p->claimer) - photos : 0), "slots",
           PP_LOG_INT(p->claimer ? pp_claimer_slots(p->claimer) : 0), "jobs", PP_LOG_INT(jobs_in_flight(p)),
           "deliveries", PP_LOG_INT(p->cron_stopped ? pp_deliverer_busy(p->deliverer) : 0), NULL);
}

static void on_drain_deadline(void *data)
{
    struct pp_pipeline *p = data;

    log_waits(p);
    if (p->claimer)
        pp_claimer_hand_back(p->claimer);
    if (p->settler)
        pp_settler_give_up(p->settler);
    pp_deliverer_give_up(p->deliverer);
}

void pp_pipeline_drain(struct pp_pipeline *p, void (*on_drained)(void *data), void *data)
{
    if (p->draining) {
        if (p->on_drained)
            on_drain_deadline(p);
        return;
    }
    pp_assert(on_drained, "a drain without on_drained()");
    p->draining = true;
    p->on_drained = on_drained;
    p->drained_data = data;
    if (p->orphans)
        pp_orphans_stop(p->orphans);
    if (p->planner)
        pp_planner_drain(p->planner);
    if (p->claimer)
        pp_claimer_drain(p->claimer);
    if (pp_gate_closed(p->gate)) /* photos in flight can't be kept, so waiting for them is pointless */
        pp_claimer_hand_back(p->claimer);
    if (p->settler)
        pp_settler_drain(p->settler);
    pp_routes_drain(p->routes);
    pp_timer_start(p->drain_timer, 0, DRAIN_CHECK_MS);
    pp_timer_start(p->drain_deadline, p->params->drain_ms, DRAIN_AGAIN_MS);
}
