/* fleet.c: opens the servers and the processes of a simulated fleet. */
#include "fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "bounds.h"
#include "common.h"
#include "counts.h"
#include "due.h"
#include "import.h"
#include "judge.h"
#include "legal.h"
#include "order.h"
#include "patience.h"
#include "pipeline/fetch/run_internal.h"
#include "reader.h"
#include "stream.h"

static int64_t server_now(void *data)
{
    return pp_sim_date_ms(data);
}

static int64_t internet_now(void *data)
{
    return pp_sim_now_ms(data);
}

/* Redis' clocks, by its weather. */
static int64_t redis_now(void *data)
{
    return pp_sim_now_ms(((struct sim_weather *)data)->world);
}

static int64_t redis_date(void *data)
{
    return pp_sim_date_ms(((struct sim_weather *)data)->world);
}

static void on_appended(void *data, const struct pp_event *e)
{
    sim_stream_appended(pp_container_of(data, struct sim_fleet, redis_weather)->stream, e);
}

static int64_t time_left(void *data, const struct pp_exchange *x)
{
    (void)data;
    const struct fetch_run *r = pp_container_of(x, const struct fetch_run, x);
    return r->deadline_ms - run_now(r);
}

static int64_t age(void *data, const struct pp_exchange *x)
{
    (void)data;
    const struct fetch_run *r = pp_container_of(x, const struct fetch_run, x);
    return run_now(r) - (r->hops > 0 ? r->parked_ms : r->started_ms);
}

static const char *client_of(void *data, const struct pp_exchange *x)
{
    (void)data;
    return pp_container_of(x, const struct fetch_run, x)->t->task->client;
}

static const char *const rule_names[] = {
    [SIM_RULE_I4] = "I4", [SIM_RULE_I5] = "I5", [SIM_RULE_I6] = "I6", [SIM_RULE_HOST] = "host"};

static void on_violated(void *data, enum sim_rule rule, const char *text)
{
    struct sim_fleet *f = data;
    char client[16] = "";
    const struct sim_about about = {.client = client};
    const char *named = strstr(text, "client "); /* as record.c writes it */

    if (named)
        sim_note_name(client, sizeof client, named + 7);
    client[strcspn(client, ",")] = '\0';
    sim_judge_report(f->judge, rule_names[rule], client[0] ? &about : NULL, text);
}

static void on_request(void *data, struct sim_request *q, bool ended)
{
    struct sim_fleet *f = data;

    sim_trace_request(f->trace, q, ended);
    sim_patience_request(f->patience, q, ended);
    sim_common_request(f->common, q, ended);
    if (!ended)
        sim_faults_request(f, q->process);
}

/* Returns the weather of a store that is part of the embedded process. */
static struct sim_weather inside(struct sim_fleet *f, const char *name)
{
    enum { WAY_US = 50, JITTER_US = 200 };
    return (struct sim_weather){.world = f->world,
                                .name = name,
                                .trace = f->trace,
                                .arrived = sim_bounds_process,
                                .way_us = WAY_US,
                                .jitter_us = JITTER_US,
                                .inside = true};
}

static struct sim_weather weather(struct sim_fleet *f, const char *name)
{
    const struct sim_swarm *s = &f->swarm;
    return (struct sim_weather){.world = f->world,
                                .name = name,
                                .trace = f->trace,
                                .arrived = sim_bounds_process,
                                .way_us = s->way_us,
                                .jitter_us = s->jitter_us,
                                .lose_requests = s->lose_requests,
                                .lose_answers = s->lose_answers,
                                .late = s->late,
                                .late_ms = s->late_ms > 0 ? s->late_ms : 1};
}

static void open_servers(struct sim_fleet *f)
{
    struct pp_sim_world *w = f->world;

    f->store =
        pp_memory_store_new(&(struct pp_memory_store_options){server_now, w, sim_legal_observer(f->legal)});
    f->deliveries = pp_memory_delivery_new(&(struct pp_memory_delivery_options){server_now, w});
    f->coordinator = pp_memory_coordinator_server_new(
        &(struct pp_memory_coordinator_options){.now_ms = server_now,
                                                .data = w,
                                                .seed = f->swarm.seed,
                                                .longest_ms = 30000,
                                                .post = sim_post(&f->redis_weather)});
    f->ingest = pp_memory_ingest_new(
        &(struct pp_memory_ingest_options){redis_now, redis_date, sim_carry, &f->redis_weather});
    f->filter = pp_memory_filter_new(&(struct pp_memory_filter_options){redis_now, &f->redis_weather});
    f->events = pp_memory_event_log_new(&(struct pp_memory_event_log_options){.now_ms = redis_now,
                                                                              .date_ms = redis_date,
                                                                              .carry = sim_carry,
                                                                              .appended = on_appended,
                                                                              .data = &f->redis_weather});
    f->blobs = pp_memory_blobs_new(&(struct pp_memory_blobs_options){.now_ms = server_now, .data = w});
    f->broker = pp_memory_broker_new();
    f->counter_cache = pp_memory_counter_cache_new();
    f->counter_store = pp_memory_counter_store_new();
    pp_assert(f->store && f->deliveries && f->coordinator && f->ingest && f->filter && f->events &&
                  f->blobs && f->broker && f->counter_cache && f->counter_store,
              "the simulator needs memory");
}

static void add_nodes(struct sim_fleet *f, unsigned n, unsigned roles, const char *name)
{
    for (unsigned i = 0; i < n; i++) {
        struct sim_node *node = &f->nodes[f->n_nodes++];
        pp_assert(f->n_nodes <= SIM_PROCESSES_MAX, "too many nodes");
        node->fleet = f;
        node->roles = roles;
        node->config = f->upgrade.config;
        snprintf(node->name, sizeof node->name, "%s%u", name, i + 1);
        sim_node_start(node);
        if (f->swarm.drift_ppm > 0)
            pp_sim_process_set_drift(
                node->process, (int64_t)pp_rng_below(pp_sim_rng(f->world), 2 * (uint64_t)f->swarm.drift_ppm) -
                                   f->swarm.drift_ppm);
    }
}

/* Draws the hash tables' key from the world's random numbers, and puts those back as they were, so
 * that the draw changes nothing else. The key decides on which fetch loop a host is. */
static void draw_hash_key(struct pp_sim_world *world)
{
    struct pp_rng before = *pp_sim_rng(world);

    pp_hash_draw_key();
    *pp_sim_rng(world) = before;
}

struct sim_fleet *sim_fleet_open(const struct sim_swarm *swarm, const struct sim_fleet_options *options)
{
    enum {
        ALL = PP_ROLE_API | PP_ROLE_INGEST | PP_ROLE_WORKER | PP_ROLE_CRON | PP_ROLE_DELIVER,
        GRACE_MS = 12000
    };
    struct sim_fleet *f = calloc(1, sizeof *f);

    pp_assert(f, "the simulator needs memory");
    f->swarm = *swarm;
    f->world = pp_sim_world_open(
        &(struct pp_sim_options){.seed = swarm->seed, .trace = options->step, .data = options->data});
    pp_assert(f->world, "the simulator needs memory");
    draw_hash_key(f->world);
    f->trace = sim_trace_open(f->world, options->notes);
    f->judge = sim_judge_open(f);
    f->stream = sim_stream_open(f);
    f->due = sim_due_open(f);
    f->legal = sim_legal_open(f);
    f->patience = sim_patience_open(f);
    f->common = sim_common_open(f);
    f->bounds = sim_bounds_open(f);
    f->orders = sim_orders_open(f);
    f->net = sim_internet_open(
        &(struct sim_internet_options){.seed = swarm->seed,
                                       .trouble = swarm->trouble,
                                       .now = internet_now,
                                       .outages = swarm->outages,
                                       .time_left = time_left,
                                       .age = age,
                                       .client_of = client_of,
                                       .data = f->world,
                                       .closes = swarm->embedded,
                                       .record = {.rpm = swarm->rpm,
                                                  .concurrency = swarm->concurrency,
                                                  .host_concurrency = swarm->host_places,
                                                  .grace_ms = sim_config_longest_lease_ms(swarm) + GRACE_MS,
                                                  .seen = on_request,
                                                  .seen_data = f,
                                                  .violated = on_violated,
                                                  .data = f}});
    pp_assert(f->net, "the simulator needs memory");
    f->store_weather = swarm->embedded ? inside(f, "store") : weather(f, "store");
    f->redis_weather = swarm->embedded ? inside(f, "redis") : weather(f, "redis");
    f->broker_weather = weather(f, "broker");
    f->redis_weather.stale = swarm->stale;
    f->redis_weather.on_stale = sim_faults_stale;
    f->redis_weather.stale_data = f;
    open_servers(f);
    sim_shares_open(f);
    f->hooks = sim_hooks_open(f);
    sim_upgrade_open(f);
    add_nodes(f, swarm->all_roles, ALL, "all");
    add_nodes(f, swarm->apis, PP_ROLE_API, "api");
    add_nodes(f, swarm->ingests, PP_ROLE_INGEST, "ingest");
    add_nodes(f, swarm->workers + swarm->crowd, PP_ROLE_WORKER, "worker");
    add_nodes(f, swarm->others, PP_ROLE_DELIVER | PP_ROLE_CRON, "deliver");
    f->imports = sim_imports_open(f);
    f->readers = sim_readers_open(f);
    f->counts = sim_counts_open(f);
    sim_settings_open(f);
    sim_faults_begin(f);
    return f;
}

uint64_t sim_fleet_faults(const struct sim_fleet *f)
{
    return f->faults + f->store_weather.faults + f->redis_weather.faults + f->broker_weather.faults;
}
