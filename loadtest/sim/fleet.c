/* fleet.c: opens the servers and the processes: the wiring of cmd/photopool/wire.c, on servers in
 * memory. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "pipeline/fetch/keep.h"
#include "pipeline/fetch/run_internal.h"
#include "scale.h"

enum { MONGO_CORES = 4, WORKERS_AN_API = 4096, WAY_US = 300, LATENCY_LO_MS = 80, LATENCY_HI_MS = 300 };

static const int64_t delays_ms[] = {1000, 10000, 60000};

uint64_t scale_memory_now(void)
{
    unsigned long pages = 0;
    FILE *in = fopen("/proc/self/statm", "r");

    if (in && fscanf(in, "%*u %lu", &pages) != 1)
        pages = 0;
    if (in)
        fclose(in);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* --- clocks --- */

static int64_t date_of(void *data)
{
    return pp_sim_date_ms(((const struct scale_server *)data)->world);
}

static int64_t now_of(void *data)
{
    return pp_sim_now_ms(((const struct scale_server *)data)->world);
}

static int64_t internet_now(void *data)
{
    return pp_sim_now_ms(((const struct scale_fleet *)data)->world);
}

/* --- the internet --- */

static void adjust(void *data, const char *host, struct sim_behaviour *b)
{
    (void)data;
    (void)host;
    b->latency_lo_ms = LATENCY_LO_MS;
    b->latency_hi_ms = LATENCY_HI_MS;
    b->addresses = 1;
}

static int64_t time_left(void *data, const struct pp_exchange *x)
{
    (void)data;
    const struct fetch_run *r = pp_container_of(x, const struct fetch_run, x);
    return r->deadline_ms - run_now(r);
}

static void on_violated(void *data, enum sim_rule rule, const char *text)
{
    (void)data;
    fprintf(stderr, "scale: rule %d is broken: %s\n", (int)rule, text);
}

static void on_request(void *data, struct sim_request *q, bool ended)
{
    scale_load_request(((struct scale_fleet *)data)->load, q, ended);
}

static void on_look_up(void *data, const char *host)
{
    scale_load_looked_up(((struct scale_fleet *)data)->load, host);
}

static void open_internet(struct scale_fleet *f)
{
    enum { GRACE_MS = 42000 };
    f->net = sim_internet_open(&(struct sim_internet_options){.seed = f->o.seed,
                                                              .now = internet_now,
                                                              .adjust = adjust,
                                                              .looked_up = on_look_up,
                                                              .time_left = time_left,
                                                              .data = f,
                                                              .record = {.rpm = f->o.rpm,
                                                                         .concurrency = f->o.concurrency,
                                                                         .grace_ms = GRACE_MS,
                                                                         .seen = on_request,
                                                                         .seen_data = f,
                                                                         .violated = on_violated}});
    pp_assert(f->net, "the simulator needs memory");
}

/* --- servers --- */

static void on_appended(void *data, const struct pp_event *e)
{
    const struct scale_fleet *f = pp_container_of(data, struct scale_fleet, servers[SCALE_REDIS]);
    scale_load_event(f->load, e);
}

static void open_servers(struct scale_fleet *f)
{
    struct scale_server *mongo = &f->servers[SCALE_MONGO], *redis = &f->servers[SCALE_REDIS];

    for (int i = 0; i < SCALE_SERVERS; i++)
        f->servers[i] = (struct scale_server){.world = f->world,
                                              .way_us = WAY_US,
                                              .shards = f->o.shards[i],
                                              .cores = i == SCALE_MONGO ? MONGO_CORES : 1,
                                              .speed = f->o.speed};
    f->store = pp_memory_store_new(
        &(struct pp_memory_store_options){.now_ms = date_of, .data = mongo, .forgets = true});
    f->deliveries = pp_memory_delivery_new(&(struct pp_memory_delivery_options){date_of, mongo});
    f->coordinator = pp_memory_coordinator_server_new(&(struct pp_memory_coordinator_options){
        .now_ms = date_of, .data = redis, .seed = f->o.seed, .longest_ms = 30000, .post = scale_post(redis)});
    f->ingest =
        pp_memory_ingest_new(&(struct pp_memory_ingest_options){now_of, date_of, scale_carry, redis, 0, 0});
    f->events = pp_memory_event_log_new(&(struct pp_memory_event_log_options){
        .now_ms = now_of, .date_ms = date_of, .carry = scale_carry, .appended = on_appended, .data = redis});
    f->blobs = scale_blobs_open();
    pp_assert(f->store && f->deliveries && f->coordinator && f->ingest && f->events && f->blobs,
              "the simulator needs memory");
}

/* --- processes --- */

static void set_params(struct scale_node *n)
{
    static const struct pp_port_range web[] = {{.lo = 80, .hi = 80}, {.lo = 443, .hi = 443}};
    const struct scale_options *o = &n->fleet->o;

    n->params = (struct pp_params){.n_tiers = 3,
                                   .tiers = {{.timeout_ms = 1000, .concurrency = 256},
                                             {.timeout_ms = 5000, .concurrency = 256},
                                             {.timeout_ms = 30000, .concurrency = 256}},
                                   .tiers_served = 7,
                                   .tiers_text = "all",
                                   .policy = {.ports = web, .n_ports = 2},
                                   .webhook_policy = {.ports = web, .n_ports = 2},
                                   .max_bytes = 1 << 20,
                                   .max_pixels = 100000000,
                                   .max_redirects = 5,
                                   .buffer_bytes = 8 << 20,
                                   .client_rpm = o->rpm,
                                   .client_concurrency = o->concurrency,
                                   .retry = {.max_attempts = 4, .delays_ms = delays_ms, .n_delays = 3},
                                   .hosts_wait_ms = 900000,
                                   .hosts_doubt_ms = 3000,
                                   .hosts_believe_ms = 7200000,
                                   .ladder_max_ms = 86400000,
                                   .counters_flush_ms = 2000,
                                   .router_interval_ms = 60000,
                                   .router_half_life_ms = 600000,
                                   .router_min_samples = 5,
                                   .router_margin = 1.2,
                                   .threads = 1,
                                   .lease_ms = 30000,
                                   .drain_ms = 5000,
                                   .gather_ms = 5,
                                   .gather_max_ms = 250,
                                   .high_water = 100000000,
                                   .queue_bytes = (uint64_t)1 << 40,
                                   .max_keys = 100000,
                                   .plan_chunk = 500,
                                   .max_body = 32 << 20,
                                   .max_items = 10000,
                                   .max_photos_per_item = 100,
                                   .idempotency_ms = 60000,
                                   .results_ms = 60000,
                                   .max_posts = 16,
                                   .max_subscribers = 100,
                                   .events_ms = 10000,
                                   .events_bytes = 64 << 20,
                                   .started_wall_ms = pp_clock_wall_ms()};
    snprintf(n->params.worker, sizeof n->params.worker, "%s", n->name);
    snprintf(n->params.host, sizeof n->params.host, "%s", n->name);
}

static void open_ports(struct scale_node *n)
{
    struct scale_fleet *f = n->fleet;
    struct pp_pipeline *p = &n->p;
    struct scale_line *l = n->lines;
    enum pp_err err = pp_memory_task_store_open(n->loop, f->store, &l[SCALE_STORE].line, &p->store);

    err = err == PP_OK ? pp_memory_coordinator_open(n->loop, f->coordinator, &l[SCALE_COORDINATOR].line,
                                                    &p->coordinator)
                       : err;
    err = err == PP_OK ? pp_memory_ingest_open(n->loop, f->ingest, &l[SCALE_INGEST].line, &p->ingest) : err;
    n->queue = p->ingest;
    if (err == PP_OK && (n->roles & (PP_ROLE_API | PP_ROLE_DELIVER | PP_ROLE_CRON)))
        err = pp_memory_event_log_open(n->loop, f->events, &l[SCALE_EVENTS].line, &p->events);
    if (err == PP_OK && p->events)
        err = pp_memory_delivery_open(n->loop, f->deliveries, &l[SCALE_DELIVERY].line, &p->deliveries);
    pp_assert(err == PP_OK, "the simulator needs memory");
    p->blobs = f->blobs;
}

static void open_node(struct scale_node *n, unsigned number)
{
    static const enum scale_server_kind server_of[SCALE_PORTS] = {[SCALE_STORE] = SCALE_MONGO,
                                                                  [SCALE_DELIVERY] = SCALE_MONGO,
                                                                  [SCALE_COORDINATOR] = SCALE_REDIS,
                                                                  [SCALE_INGEST] = SCALE_REDIS,
                                                                  [SCALE_EVENTS] = SCALE_REDIS};
    struct scale_fleet *f = n->fleet;
    struct pp_pipeline *p = &n->p;
    int64_t boot, date;

    n->loop = pp_loop_open();
    for (int i = 0; i < SCALE_PORTS; i++)
        scale_line_open(&n->lines[i], n->loop, &f->servers[server_of[i]], (enum scale_port)i, number);
    set_params(n);
    open_ports(n);
    n->access = (struct sim_access){.net = f->net, .process = n->name};
    p->roles = n->roles;
    p->loop = n->loop;
    p->params = &n->params;
    p->factory = sim_fetch_factory(&n->access);
    if (n->roles & PP_ROLE_WORKER)
        p->keep_lane = pp_keep_lane_open(2, p->blobs);
    pp_clock_read(&boot, &date);
    pp_wall_init(&p->wall, pp_clock_anchor_ms(), boot, date);
    pp_assert(pp_pipeline_open(p) == PP_OK, "the simulator needs memory");
    if (n->roles & PP_ROLE_API)
        n->acceptor = pp_acceptor_open(&(struct pp_acceptor_options){.loop = n->loop,
                                                                     .params = &n->params,
                                                                     .metrics = &p->metrics,
                                                                     .ingest = p->ingest,
                                                                     .publisher = p->publisher});
}

static void add_nodes(struct scale_fleet *f, unsigned count, unsigned roles, const char *name)
{
    for (unsigned i = 0; i < count; i++) {
        struct scale_node *n = &f->nodes[f->n_nodes++];
        *n = (struct scale_node){.fleet = f, .roles = roles};
        snprintf(n->name, sizeof n->name, "%s%u", name, i + 1);
        n->process = pp_sim_process_open(f->world, n->name);
        pp_assert(n->process, "the simulator needs memory");
        struct pp_sim_place before = pp_sim_enter(n->process);
        open_node(n, (unsigned)f->n_nodes);
        pp_sim_leave(before);
    }
}

void scale_node_crash(struct scale_node *n)
{
    pp_assert(!n->gone && n->roles == PP_ROLE_WORKER, "only workers crash, and only once");
    n->gone = true;
    struct pp_sim_place before = pp_sim_enter(n->process);
    sim_internet_crash(n->fleet->net, n->name);
    pp_memory_coordinator_cut(n->p.coordinator);
    pp_memory_ingest_cut(n->queue);
    pp_sim_leave(before);
    pp_sim_process_crash(n->process);
}

struct scale_fleet *scale_fleet_open(const struct scale_options *o)
{
    struct scale_fleet *f = calloc(1, sizeof *f);
    unsigned others = 1 + o->workers / WORKERS_AN_API;

    pp_assert(f, "the simulator needs memory");
    f->o = *o;
    f->world = pp_sim_world_open(&(struct pp_sim_options){.seed = o->seed});
    f->nodes = calloc(o->workers + 3 * (size_t)others, sizeof *f->nodes);
    pp_assert(f->world && f->nodes, "the simulator needs memory");
    pp_hash_draw_key();
    open_internet(f);
    open_servers(f);
    f->slots = scale_slots_open(f);
    add_nodes(f, others, PP_ROLE_API, "api");
    f->n_apis = f->n_nodes;
    add_nodes(f, others, PP_ROLE_INGEST, "ingest");
    add_nodes(f, others, PP_ROLE_DELIVER | PP_ROLE_CRON, "deliver");
    f->first_worker = f->n_nodes;
    uint64_t before = scale_memory_now();
    add_nodes(f, o->workers, PP_ROLE_WORKER, "worker");
    pp_assert(o->workers > 0, "a fleet has a worker at least");
    f->worker_bytes = (scale_memory_now() - before) / o->workers;
    return f;
}
