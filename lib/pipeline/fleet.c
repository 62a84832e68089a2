/* fleet.c: what a process does for and with the other processes of its fleet.
 *
 * The backlog index: the coordinator knows which clients have waiting tasks, and tells workers. The
 * leader keeps the index complete. When the coordinator has lost data or announcements, the leader
 * *rebuilds* the index: it reads the backlog from the store, which is authoritative, announces all
 * of it, and marks the index as rebuilt. The leader also rebuilds every REBUILD_MS (less often if
 * reading takes long), because tasks may be missing unnoticed: a process may die between its write
 * to the store and its announcement, or not know that its write succeeded. So REBUILD_MS bounds how
 * long such a task waits.
 *
 * The data set: a coordinator that has lost its data starts a new data set, which has no record of
 * the past. The store remembers whether it has seen another data set before (pp_store_generation).
 * If it has not, this data set counts as the first one, and its index as complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/common/election.h"
#include "pipeline/pipeline_internal.h"
#include "runtime/ask.h"

#define TICK_MS 1000
/* A new process waits this long before it claims, so that workers that start together first learn
 * of each other. */
#define MEET_MS        1000
#define CHECK_MS       30000
#define REBUILD_MS     60000
#define REBUILD_MIN_MS 1000
#define REBUILD_SHARE  50   /* the leader spends at most 1/50 of its time on reading the backlog */
#define ANNOUNCE       1000 /* one announcement has at most this many rows */
/* While a batch moves, at most one notice about it is sent in this time. */
#define NOTICE_MS 1000
/* At most this many notices about batches are sent in NOTICE_MS. Consumers learn of further batches
 * when their items finish. */
#define NOTICES_MAX 64

struct pp_fleet {
    struct pp_pipeline *p;
    struct pp_timer *timer;
    struct pp_ask index_ask, backlog_ask, generation_ask;
    struct pp_coord_backlog index;
    struct pp_store_backlog backlog;
    struct pp_store_generation generation;
    /* Elects the process that does the jobs that only one process should do; NULL without the role
     * cron. */
    struct pp_election *election;
    bool stopped;
    bool incomplete; /* True: the coordinator's index may lack tasks. */
    int64_t opened_ms;
    int64_t index_ms,
        backlog_ms; /* The index and the store's backlog are read again at these times or later. */
    int64_t rebuilding_ms, rebuilt_ms; /* The last rebuild began, and ended, at these times. */
    char dataset[64];                  /* The store has recorded this name of the coordinator's data set. */
    int64_t noticed_ms;
    /* Ids of the batches for which a notice was sent since noticed_ms. */
    char noticed[NOTICES_MAX][PP_BATCH_ID_MAX];
    size_t n_noticed;
};

static int64_t now_of(const struct pp_fleet *f)
{
    return pp_loop_now(f->p->loop);
}

bool pp_fleet_leads(const struct pp_pipeline *p)
{
    return p->params->sole_worker || (p->fleet && pp_election_leads(p->fleet->election));
}

/* --- telling the coordinator whether its data set is the first --- */

static void on_generation_known(void *data, enum pp_err err)
{
    struct pp_fleet *f = data;

    if (err != PP_OK)
        return;
    snprintf(f->dataset, sizeof(f->dataset), "%s", f->generation.dataset);
    if (f->generation.first)
        f->p->coordinator->ops->first(f->p->coordinator, f->dataset);
    else
        f->incomplete = true;
}

static void check_dataset(struct pp_fleet *f)
{
    struct pp_task_store *store = f->p->store;
    const char *dataset = f->p->coordinator->ops->dataset(f->p->coordinator);

    if (!dataset[0] || strcmp(dataset, f->dataset) == 0 || !store->ops->generation)
        return;
    struct pp_req req = pp_ask_request(&f->generation_ask, on_generation_known);
    f->generation = (struct pp_store_generation){.req = req, .dataset = pp_arena_strdup(req.arena, dataset)};
    pp_ask_submitted(&f->generation_ask,
                     f->generation.dataset ? store->ops->generation(store, &f->generation) : PP_ENOMEM);
}

/* --- reading and rebuilding the backlog index --- */

static void on_index_read(void *data, enum pp_err err)
{
    struct pp_fleet *f = data;
    const struct pp_coord_backlog *r = &f->index;

    if (err != PP_OK)
        return;
    f->incomplete = !r->complete;
    f->index_ms = now_of(f) + CHECK_MS;
}

static void read_index(struct pp_fleet *f, bool rebuilt)
{
    pp_assert(!f->stopped, "a request after the fleet was stopped");
    struct pp_coordinator *coord = f->p->coordinator;

    f->index =
        (struct pp_coord_backlog){.req = pp_ask_request(&f->index_ask, on_index_read), .rebuilt = rebuilt};
    pp_ask_submitted(&f->index_ask, coord->ops->backlog(coord, &f->index));
}

static void on_backlog_read(void *data, enum pp_err err)
{
    struct pp_fleet *f = data;
    struct pp_coordinator *coord = f->p->coordinator;
    const struct pp_store_backlog *r = &f->backlog;

    if (err != PP_OK)
        return;
    for (size_t i = 0; i < r->n; i++)
        r->rows[i].known = true;
    for (size_t i = 0; i < r->n; i += ANNOUNCE)
        coord->ops->announce(coord, r->rows + i, r->n - i < ANNOUNCE ? r->n - i : ANNOUNCE);
    pp_assert(f->rebuilding_ms <= now_of(f), "a rebuild ended before it began");
    f->rebuilt_ms = now_of(f);
    f->backlog_ms = f->rebuilt_ms + REBUILD_MIN_MS;
    f->incomplete = f->p->backlog_doubtful = false;
    if (!f->index_ask.in_flight && !f->stopped)
        read_index(f, true);
}

static bool may_rebuild(const struct pp_fleet *f)
{
    int64_t pause = (f->rebuilt_ms - f->rebuilding_ms) * REBUILD_SHARE;
    int64_t age = now_of(f) - f->rebuilt_ms;

    pause = pause > REBUILD_MS ? pause : REBUILD_MS;
    return pp_ask_ready(&f->backlog_ask) && now_of(f) >= f->backlog_ms &&
           (f->incomplete || f->p->backlog_doubtful || age >= pause);
}

static void rebuild(struct pp_fleet *f)
{
    struct pp_task_store *store = f->p->store;

    pp_assert(pp_election_leads(f->election), "only the leader rebuilds");
    f->rebuilding_ms = now_of(f);
    f->backlog = (struct pp_store_backlog){.req = pp_ask_request(&f->backlog_ask, on_backlog_read)};
    pp_ask_submitted(&f->backlog_ask, store->ops->backlog(store, &f->backlog));
}

/* --- sending and handling notices between processes --- */

/* Returns the kinds of notices that a process with these roles needs. */
static uint32_t kinds_for(const struct pp_pipeline *p)
{
    uint32_t kinds = 0;

    if (p->roles & PP_ROUTE_ROLES)
        kinds |= 1u << PP_NOTICE_ROUTE;
    if (p->roles & PP_ROLE_WORKER)
        kinds |= 1u << PP_NOTICE_CLIENT | 1u << PP_NOTICE_SLOW;
    if (p->roles & PP_ROLE_CRON)
        kinds |= 1u << PP_NOTICE_SAMPLES;
    if (p->roles & (PP_ROLE_CRON | PP_ROLE_API))
        kinds |= 1u << PP_NOTICE_HOST;
    if (p->roles & (PP_ROLE_CRON | PP_ROLE_API | PP_ROLE_WORKER | PP_ROLE_INGEST))
        kinds |= 1u << PP_NOTICE_BREAKER;
    if (p->roles & PP_ROLE_DELIVER)
        kinds |= 1u << PP_NOTICE_BATCH | 1u << PP_NOTICE_WEBHOOK;
    return kinds;
}

static void on_notice(void *data, const struct pp_notice *notice)
{
    struct pp_fleet *f = data;

    switch (notice->kind) {
    case PP_NOTICE_CLIENT:
        if (f->p->claimer)
            pp_claimer_client_stale(f->p->claimer, notice->a);
        break;
    case PP_NOTICE_ROUTE:
    case PP_NOTICE_SAMPLES:
        if (f->p->routes)
            pp_routes_noticed(f->p->routes, notice);
        break;
    case PP_NOTICE_HOST:
    case PP_NOTICE_BREAKER:
    case PP_NOTICE_SLOW: pp_hosts_noticed(f->p->hosts, notice); break;
    case PP_NOTICE_BATCH: pp_deliverer_batch_moved(f->p->deliverer, notice->a); break;
    case PP_NOTICE_WEBHOOK: pp_deliverer_webhooks_changed(f->p->deliverer); break;
    case PP_NOTICE_KINDS: break;
    }
}

void pp_fleet_batch_moved(struct pp_fleet *f, const char *batch_id)
{
    const struct pp_notice notice = {.kind = PP_NOTICE_BATCH, .a = batch_id, .b = ""};

    if (!f)
        return;
    if (now_of(f) - f->noticed_ms >= NOTICE_MS) {
        f->noticed_ms = now_of(f);
        f->n_noticed = 0;
    }
    for (size_t i = 0; i < f->n_noticed; i++)
        if (strcmp(f->noticed[i], batch_id) == 0)
            return;
    pp_assert(f->n_noticed <= NOTICES_MAX, "more batches were noticed than fit");
    if (f->n_noticed == NOTICES_MAX)
        return;
    snprintf(f->noticed[f->n_noticed++], PP_BATCH_ID_MAX, "%s", batch_id);
    f->p->coordinator->ops->notify(f->p->coordinator, &notice, 1);
}

/* --- the work of each tick --- */

static void on_tick(void *data)
{
    struct pp_fleet *f = data;
    bool leads = pp_election_leads(f->election);

    if ((f->p->roles & (PP_ROLE_CRON | PP_ROLE_WORKER)) && pp_ask_ready(&f->generation_ask))
        check_dataset(f);
    if (f->p->claimer && now_of(f) - f->opened_ms >= MEET_MS)
        pp_claimer_begin(f->p->claimer);
    if (leads && pp_ask_ready(&f->index_ask) && now_of(f) >= f->index_ms)
        read_index(f, false);
    if (leads && may_rebuild(f))
        rebuild(f);
}

/* --- opening and closing the fleet --- */

static void init_asks(struct pp_fleet *f)
{
    /* The arenas have no ceiling, because an answer has a row for each client with open tasks. */
    const struct pp_ask ask = {.loop = f->p->loop, .log = f->p->log, .arena_max = SIZE_MAX, .data = f};

    f->index_ask = f->backlog_ask = f->generation_ask = ask;
    f->index_ask.failed = "backlog index unreadable";
    f->backlog_ask.failed = "waiting tasks unreadable";
    f->generation_ask.failed = "data set of the coordinator not compared with the store's";
}

struct pp_fleet *pp_fleet_open(struct pp_pipeline *p)
{
    struct pp_fleet *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    pp_assert(!p->params->sole_worker, "a process that is alone has no fleet");
    f->p = p;
    f->opened_ms = f->rebuilding_ms = f->rebuilt_ms = pp_loop_now(p->loop);
    init_asks(f);
    f->timer = pp_timer_open(p->loop, on_tick, f);
    if (p->roles & PP_ROLE_CRON)
        f->election = pp_election_open(&(struct pp_election_options){.loop = p->loop,
                                                                     .log = p->log,
                                                                     .coordinator = p->coordinator,
                                                                     .name = "cron",
                                                                     .worker = p->params->worker});
    if (!f->timer || (!f->election && (p->roles & PP_ROLE_CRON))) {
        pp_election_close(f->election);
        pp_timer_close(f->timer);
        free(f);
        return NULL;
    }
    pp_timer_start(f->timer, 0, TICK_MS);
    p->coordinator->ops->watch_notices(p->coordinator, kinds_for(p), on_notice, f);
    return f;
}

void pp_fleet_stop(struct pp_fleet *f)
{
    if (!f || f->stopped)
        return;
    f->stopped = true;
    f->p->coordinator->ops->watch_notices(f->p->coordinator, 0, NULL, NULL);
    pp_timer_stop(f->timer);
    pp_election_stop(f->election);
}

size_t pp_fleet_busy(const struct pp_fleet *f)
{
    return !f ? 0
              : pp_election_busy(f->election) + f->index_ask.in_flight + f->backlog_ask.in_flight +
                    f->generation_ask.in_flight;
}

void pp_fleet_close(struct pp_fleet *f)
{
    if (!f)
        return;
    pp_assert(pp_fleet_busy(f) == 0, "closed with requests in flight");
    f->p->coordinator->ops->watch_notices(f->p->coordinator, 0, NULL, NULL);
    pp_timer_close(f->timer);
    pp_election_close(f->election);
    free(f);
}
