/* bounds.c: compares what is in use with its bound. */
#include "bounds.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "counters/counters.h"
#include "events/hub_internal.h"
#include "fleet.h"
#include "http.h"
#include "judge.h"
#include "pipeline/claim/claim_internal.h"
#include "pipeline/plan/plan_internal.h"

/* X(id, what is bounded) */
#define SIM_BOUNDS(X)                                 \
    X(TIER, "transfers in flight in a tier")          \
    X(TRANSFERS, "transfers in flight")               \
    X(UNSETTLED, "transfers that are not settled")    \
    X(CLAIMS, "claimed tasks in the store")           \
    X(SOCKETS, "exchanges with photo hosts")          \
    X(POSTS, "posts to webhooks in flight")           \
    X(ENTRIES, "entries taken from the ingest queue") \
    X(STORE, "calls to the store in flight")          \
    X(REDIS, "calls to Redis in flight")              \
    X(BROKER, "sends to the broker in flight")        \
    X(RING, "bytes in the ring of events")            \
    X(QUEUE, "weight of the ingest queue")            \
    X(JOURNAL, "weight of the journal")               \
    X(LOG, "bytes of the event log")

enum bound {
#define X(id, what) BOUND_##id,
    SIM_BOUNDS(X)
#undef X
        BOUNDS
};

static const char *const names[BOUNDS] = {
#define X(id, what) [BOUND_##id] = what,
    SIM_BOUNDS(X)
#undef X
};

enum {
    SUSPECTS = 1, /* a suspect runs beside the transfers of its tier */
    /* Each stage has one request in flight, or some; a request to the API or about counters has
     * one. Of the store, each relay reads, and saves, and the leader moves the tasks of some routes
     * that have changed their tier at once. Of Redis, the acceptor has up to two for each post: the
     * append, and one of the journal. A process with all roles that was frozen has all of them at
     * once: 25 were seen. */
    CALLS_OF_STAGES = 28,
    MOVES_OF_ROUTES = 16, /* routes.c */
    CALLS_OF_A_RELAY = 4,
    CALLS_OF_A_POST = 2,
    RELAYS = 2,        /* to the hub and to the broker; there is one more for each webhook */
    BATCH_WEIGHT = 64, /* more than that of any batch (import.c) */
    /* The judge looks at the event log once a second. Each process cleans the log every 10 s. So
     * while nothing fails, the log was cleaned at least once during the last LOG_LOOKS looks. */
    LOG_LOOKS = 12,
};

struct sim_bounds {
    struct sim_fleet *f;
    uint64_t worst[SIM_PROCESSES_MAX + 1][BOUNDS]; /* by node; the last row is of the servers */
    uint64_t claims[SIM_PROCESSES_MAX];
    uint64_t high_water;          /* the highest of all configurations so far */
    uint64_t weight;              /* of the queue that is being looked at */
    uint64_t appended[LOG_LOOKS]; /* to the event log, in bytes, until the latest looks; a ring */
    size_t looks;
};

struct sim_bounds *sim_bounds_open(struct sim_fleet *f)
{
    struct sim_bounds *b = calloc(1, sizeof *b);

    pp_assert(b, "the simulator needs memory");
    b->f = f;
    return b;
}

/* Reports what exceeds its bound, and again at each new maximum. `n` is NULL for a server. */
static void check(struct sim_bounds *b, const struct sim_node *n, enum bound which, uint64_t most,
                  uint64_t seen)
{
    uint64_t *worst = &b->worst[n ? n - b->f->nodes : SIM_PROCESSES_MAX][which];
    const struct sim_about about = {.process = n ? n->name : NULL};
    char text[200];

    if (seen <= *worst)
        return;
    *worst = seen;
    if (seen <= most)
        return;
    snprintf(text, sizeof text, "%s: expected at most %llu %s, saw %llu", n ? n->name : "the servers",
             (unsigned long long)most, names[which], (unsigned long long)seen);
    sim_judge_report(b->f->judge, "I8", n ? &about : NULL, text);
}

/* --- processes --- */

static void check_worker(struct sim_bounds *b, const struct sim_part *part)
{
    const struct sim_node *n = part->node;
    const struct pp_params *p = &part->params;
    uint64_t all = 0, most = SUSPECTS + pp_claim_capacity(p);

    for (uint32_t i = 0; i < PP_TIERS_MAX; i++) {
        uint64_t in_flight = part->p.metrics.in_flight[i];
        uint64_t size = i < p->n_tiers && p->tiers_served & (1u << i) ? p->tiers[i].concurrency : 0;
        check(b, n, BOUND_TIER, size + SUSPECTS, in_flight);
        all += in_flight;
    }
    check(b, n, BOUND_TRANSFERS, most, all);
    check(b, n, BOUND_SOCKETS, most, part->access.exchanges);
    check(b, n, BOUND_UNSETTLED, PP_UNSETTLED_MAX + CLAIM_CYCLE_TASKS, pp_claimer_unsettled(part->p.claimer));
}

void sim_bounds_process(void *data)
{
    const struct sim_part *part = data;
    const struct sim_node *n = part->node;
    struct sim_bounds *b = n->fleet->bounds;
    const struct pp_pipeline *p = &part->p;
    const struct sim_swarm *s = &n->fleet->swarm;

    if (n->part != part) /* it has crashed or ended */
        return;
    uint64_t calls =
        CALLS_OF_STAGES + sim_http_in_flight(part->http) + pp_fleet_counters_busy(p->fleet_counters);
    uint64_t to_store = CALLS_OF_A_RELAY * (RELAYS + s->hooks) + MOVES_OF_ROUTES;
    uint64_t posts = part->acceptor ? pp_acceptor_busy(part->acceptor) : 0;
    if (p->claimer)
        check_worker(b, part);
    if (p->planner)
        check(b, n, BOUND_ENTRIES, 3 * PLAN_JOBS, pp_planner_busy(p->planner) + p->planner->waiting.n);
    if (p->hub)
        check(b, n, BOUND_RING, PP_RING_BYTES, p->hub->ring.bytes);
    check(b, n, BOUND_POSTS, part->params.max_posts, part->hook_access.posts);
    check(b, n, BOUND_STORE, calls + to_store, part->to_store.in_flight);
    check(b, n, BOUND_REDIS, calls + CALLS_OF_A_POST * posts, part->to_redis.in_flight);
    check(b, n, BOUND_BROKER, 1, part->to_broker.in_flight);
}

/* --- servers --- */

static void add_weight(void *data, const struct pp_memory_ingest_row *row)
{
    if (!row->aside)
        ((struct sim_bounds *)data)->weight += pp_ingest_weight(row->entry);
}

static uint64_t weight_of(struct sim_bounds *b, const struct pp_memory_ingest *queue)
{
    b->weight = 0;
    pp_memory_ingest_each(queue, add_weight, b);
    return b->weight;
}

static uint64_t journal_bound(const struct sim_bounds *b)
{
    return 2 * b->high_water + b->f->swarm.photos_per_min + BATCH_WEIGHT;
}

/* Redis refuses a batch when it has the high water, so it has one more batch at most. What a
 * journal has accepted while Redis was away, also up to the high water, it appends later without a
 * bound: all that it has. A journal keeps a batch until it knows that the batch is planned, which
 * it asks every few seconds: so when a full queue becomes empty, journals have for a while all that
 * callers had waited to post. */
static void check_queues(struct sim_bounds *b)
{
    const struct sim_fleet *f = b->f;
    uint64_t journals = 0;

    if (f->swarm.high_water == 0)
        return;
    for (size_t i = 0; i < f->n_nodes; i++) {
        const struct sim_node *n = &f->nodes[i];
        if (n->part && n->part->params.high_water > b->high_water)
            b->high_water = n->part->params.high_water;
        if (!n->disk || !sim_judge_is_calm(f->judge))
            continue;
        journals++;
        check(b, n, BOUND_JOURNAL, journal_bound(b), weight_of(b, n->disk));
    }
    if (sim_judge_is_calm(f->judge))
        check(b, NULL, BOUND_QUEUE, b->high_water + BATCH_WEIGHT + journals * journal_bound(b),
              weight_of(b, f->ingest));
}

/* A cleaning leaves no more bytes than the limit, and the log grows until the next one. */
static void check_log(struct sim_bounds *b)
{
    const struct sim_fleet *f = b->f;
    uint64_t *then = &b->appended[b->looks % LOG_LOOKS], now = pp_memory_event_log_appended(f->events);

    if (f->swarm.events_kib == 0 || !sim_judge_is_calm(f->judge))
        return;
    if (b->looks++ >= LOG_LOOKS)
        check(b, NULL, BOUND_LOG, ((uint64_t)f->swarm.events_kib << 10) + now - *then,
              pp_memory_event_log_bytes(f->events));
    *then = now;
}

void sim_bounds_look(struct sim_bounds *b)
{
    check_queues(b);
    check_log(b);
}

/* --- claims --- */

void sim_bounds_claims_begin(struct sim_bounds *b)
{
    memset(b->claims, 0, sizeof b->claims);
}

/* A worker is called NODE-START. Only its node's newest process counts. */
void sim_bounds_claim(struct sim_bounds *b, const char *worker)
{
    for (size_t i = 0; i < b->f->n_nodes; i++)
        if (b->f->nodes[i].part && strcmp(b->f->nodes[i].part->params.worker, worker) == 0)
            b->claims[i]++;
}

void sim_bounds_claims_end(struct sim_bounds *b)
{
    for (size_t i = 0; i < b->f->n_nodes; i++)
        check(b, &b->f->nodes[i], BOUND_CLAIMS, PP_UNSETTLED_MAX + CLAIM_CYCLE_TASKS, b->claims[i]);
}
