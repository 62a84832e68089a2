/* cron.c: runs the periodic jobs of a process.
 *
 * To add a job, write a function and add a row to jobs[]. The row says which roles run the job, how
 * often, and whether only the leader runs it. A job that sends a request to a port uses its `ask`
 * and a member of the union `r`. The job runs again when its period has passed and its request has
 * ended. The cron logs a failed request with the text in the row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stable_hash.h"
#include "core/day.h"
#include "format/json_out.h"
#include "pipeline/claim/waiting.h"
#include "pipeline/pipeline_internal.h"
#include "runtime/ask.h"

#define TICK_MS     250 /* the shortest time between two looks at the jobs */
#define RETRY_MS    1000
#define REAP_TASKS  1000
#define CLEAN_ROWS  1000
#define ARENA_MAX   (16u << 20)
#define STEP_LOG_MS 10000
/* A worker whose heartbeat is overdue by about this time may be dead. */
#define SILENT_MS 2000
/* The process remembers this many lost workers of which it has told operators. */
#define TOLD 1024

/* One job, with the request that it may have in flight. */
struct job {
    struct pp_cron *cron;
    struct pp_pipeline *p;
    int64_t next_ms; /* the job runs at this loop time at the earliest; 0: at once */
    struct pp_ask ask;
    /* In a retention job, points to the number of removed rows in the answer `r`; else NULL. */
    const uint64_t *cleaned;
    union {
        struct pp_store_renew renew;
        struct pp_store_reap reap;
        struct pp_store_clean clean;
        struct pp_store_queue queue;
        struct pp_store_backlog backlog;
        struct pp_ingest_clean ingest_clean;
        struct pp_ingest_stats ingest_stats;
        struct pp_outbox_look outbox;
        struct pp_log_clean events_clean;
        struct pp_delivery_clean deliveries_clean;
        struct pp_days_clean days_clean;
        struct pp_coord_workers workers;
        struct pp_queue_look waiting;
    } r;
};

struct pp_cron {
    struct pp_pipeline *p;
    struct pp_timer *timer;
    int64_t renewed_ms;  /* loop time at which the last successful renewal of the task leases was sent */
    int64_t step_log_ms; /* a step of the wall clock is not logged before this loop time */
    /* True: this process is alone, and has returned the claims of earlier processes to the
     * store. */
    bool started_clean;
    /* Claims of a worker that may be dead lapse before this loop time, or have just lapsed. */
    int64_t lapsing_ms;
    uint32_t told[TOLD]; /* hashes of the ids of lost workers that operators know of; a ring */
    size_t n_told;
    bool outbox_known;           /* true: the undelivered messages have been counted at least once */
    int64_t delivered_before_ms; /* if outbox_known: see struct pp_outbox_look */
    struct pp_waiting_from from; /* what the count of waiting photos needs */
    struct job *renewal;
    struct job jobs[]; /* jobs[i] runs row i of the table jobs[] below */
};

/* --- renewing the leases of the tasks that this process has claimed --- */

static void on_renewed(void *data, enum pp_err err)
{
    struct job *job = data;

    if (err != PP_OK)
        return;
    job->cron->renewed_ms = job->ask.asked_ms;
}

static void renew(struct job *job)
{
    struct pp_pipeline *p = job->p;

    if (!p->claimer)
        return;
    /* The process has no claim to renew. A task that it claims later starts with a full lease. */
    if (pp_claimer_in_flight(p->claimer) == 0) {
        job->cron->renewed_ms = pp_loop_now(p->loop);
        return;
    }
    job->r.renew = (struct pp_store_renew){.req = pp_ask_request(&job->ask, on_renewed),
                                           .worker = p->params->worker,
                                           .lease_ms = p->params->lease_ms,
                                           .now_ms = pp_loop_wall(p->loop)};
    pp_ask_submitted(&job->ask, p->store->ops->renew(p->store, &job->r.renew));
}

/* --- returning the claims of dead workers --- */

static void on_reaped(void *data, enum pp_err err)
{
    struct job *job = data;
    struct pp_pipeline *p = job->p;
    const struct pp_store_reap *r = &job->r.reap;

    if (err != PP_OK) {
        p->backlog_doubtful = true;
        return;
    }
    p->metrics.lapsed += r->lapsed;
    p->metrics.quarantined += r->quarantined;
    p->metrics.items_finished += r->items_finished;
    if (r->lapsed + r->quarantined > 0)
        pp_log(p->log, PP_LOG_WARN, "claims lapsed", "photos", PP_LOG_INT(r->lapsed), "quarantined",
               PP_LOG_INT(r->quarantined), NULL);
    if (r->n_backlog > 0)
        p->coordinator->ops->announce(p->coordinator, r->backlog, r->n_backlog);
    if (r->lapsed + r->quarantined >= REAP_TASKS)
        job->next_ms = 0;
    else
        job->cron->started_clean = true;
}

/* Returns true if the process must renew its own leases before it returns lapsed claims, because
 * the store did not answer in time, or the machine slept. Otherwise the reaping
 * job would also return the tasks that this process is fetching. */
static bool renew_first(struct pp_cron *cron)
{
    struct pp_pipeline *p = cron->p;
    int64_t now = pp_loop_now(p->loop);

    if (!p->claimer || pp_claimer_in_flight(p->claimer) == 0)
        return false;
    if (now - cron->renewed_ms < p->params->lease_ms * 2 / 3)
        return false;
    pp_assert(cron->renewal, "no job renews leases");
    if (now - cron->renewal->ask.asked_ms >= RETRY_MS)
        cron->renewal->next_ms = 0;
    return true;
}

/* Returns true if this process has not told operators yet that the worker is lost, and notes that
 * it does so now. */
static bool is_news(struct pp_cron *cron, const char *id)
{
    uint32_t hash = (uint32_t)pp_stable_hash_end(pp_stable_hash_add(PP_STABLE_HASH, id));

    for (size_t i = 0; i < TOLD && i < cron->n_told; i++)
        if (cron->told[i] == hash)
            return false;
    cron->told[cron->n_told++ % TOLD] = hash;
    return true;
}

/* A worker that was heard of is news again when it is lost the next time. */
static void forget_news(struct pp_cron *cron, const char *id)
{
    uint32_t hash = (uint32_t)pp_stable_hash_end(pp_stable_hash_add(PP_STABLE_HASH, id));

    for (size_t i = 0; i < TOLD; i++)
        if (cron->told[i] == hash)
            cron->told[i] = 0;
}

/* The leader tells operators by name which worker is lost. */
static void tell_lost(struct pp_cron *cron, const struct pp_worker_info *w, int64_t now_ms)
{
    struct pp_pipeline *p = cron->p;
    int64_t date = pp_loop_date(p->loop) - (now_ms - w->seen_at);
    struct pp_buf event;

    if (!pp_worker_lost(w, now_ms))
        forget_news(cron, w->id);
    if (w->draining || !pp_worker_lost(w, now_ms) || !pp_fleet_leads(p) || !is_news(cron, w->id))
        return;
    pp_log(p->log, PP_LOG_WARN, "worker lost", "worker", w->id, "host", w->host, "pid", PP_LOG_INT(w->pid),
           "in_flight", PP_LOG_INT(w->in_flight), NULL);
    pp_buf_init(&event, 4096);
    PP_JSON_OBJECT(&event, NULL, PP_STR("id", w->id), PP_STR("host", w->host), PP_INT("pid", w->pid),
                   PP_UINT("in_flight", w->in_flight), PP_TIME("seen_at", date));
    if (!event.failed)
        pp_publish_ops(p->publisher, "photopool.worker.lost", event.p, event.n);
    pp_buf_fini(&event);
}

static void on_silent_read(void *data, enum pp_err err)
{
    struct job *job = data;
    const struct pp_coord_workers *r = &job->r.workers;
    int64_t window = job->p->params->lease_ms + 2 * SILENT_MS;

    for (size_t i = 0; err == PP_OK && i < r->n; i++) {
        int64_t until = job->ask.asked_ms + window - (r->now_ms - r->workers[i].seen_at);
        if (!r->workers[i].draining && until > job->cron->lapsing_ms)
            job->cron->lapsing_ms = until;
        tell_lost(job->cron, &r->workers[i], r->now_ms);
    }
}

/* Reads which workers may be dead. */
static void find_silent(struct job *job)
{
    struct pp_pipeline *p = job->p;

    if (p->params->sole_worker)
        return;
    job->r.workers = (struct pp_coord_workers){.req = pp_ask_request(&job->ask, on_silent_read),
                                               .now_ms = pp_loop_wall(p->loop),
                                               .silent_ms = SILENT_MS};
    pp_ask_submitted(&job->ask, p->coordinator->ops->workers(p->coordinator, &job->r.workers));
}

/* Returns the claims of dead workers. A process that is alone knows at its start that all other
 * workers are dead. While claims may lapse, the job runs at each tick, so that their photos wait
 * again without delay. */
static void reap(struct job *job)
{
    struct pp_pipeline *p = job->p;
    bool others_are_dead = p->params->sole_worker && !job->cron->started_clean;

    if (pp_loop_now(p->loop) < job->cron->lapsing_ms)
        job->next_ms = 0;
    if (renew_first(job->cron))
        return;
    job->r.reap = (struct pp_store_reap){.req = pp_ask_request(&job->ask, on_reaped),
                                         .alive = others_are_dead ? p->params->worker : NULL,
                                         .now_ms = pp_loop_wall(p->loop),
                                         .date_ms = pp_loop_date(p->loop),
                                         .limit = REAP_TASKS};
    pp_ask_submitted(&job->ask, p->store->ops->reap(p->store, &job->r.reap));
}

/* --- in a process that is alone: reading the backlog from the store, if the coordinator may miss
 * tasks --- */

static void on_backlog_read(void *data, enum pp_err err)
{
    struct job *job = data;
    struct pp_pipeline *p = job->p;

    if (err != PP_OK) {
        p->backlog_doubtful = true;
        job->next_ms = pp_loop_now(p->loop) + RETRY_MS;
    } else if (job->r.backlog.n > 0) {
        p->coordinator->ops->announce(p->coordinator, job->r.backlog.rows, job->r.backlog.n);
    }
}

static void read_backlog(struct job *job)
{
    struct pp_pipeline *p = job->p;

    if (!p->backlog_doubtful || !p->params->sole_worker)
        return;
    /* The answer has one row for each client with open tasks, so the arena has no ceiling. */
    job->ask.arena_max = SIZE_MAX;
    job->r.backlog = (struct pp_store_backlog){.req = pp_ask_request(&job->ask, on_backlog_read)};
    p->backlog_doubtful = !pp_ask_submitted(&job->ask, p->store->ops->backlog(p->store, &job->r.backlog));
}

/* --- jobs that use no request in `r` --- */

static void tend_slots(struct job *job)
{
    if (job->p->claimer)
        pp_claimer_tend_slots(job->p->claimer);
}

static void decide_routes(struct job *job)
{
    pp_routes_tick(job->p->routes);
}

static void heartbeat(struct job *job)
{
    struct pp_pipeline *p = job->p;

    if (!p->claimer)
        return;
    const struct pp_worker_info info = {.id = p->params->worker,
                                        .host = p->params->host,
                                        .pid = p->params->pid,
                                        .tiers = p->params->tiers_text,
                                        .capacity = pp_claim_capacity(p->params),
                                        .weight = p->params->weight,
                                        .in_flight = (uint32_t)pp_claimer_transfers(p->claimer),
                                        .clients = (uint32_t)pp_claimer_slots(p->claimer),
                                        .draining = p->draining,
                                        .started_at = p->params->started_wall_ms,
                                        .seen_at = pp_loop_wall(p->loop)};
    p->coordinator->ops->heartbeat(p->coordinator, &info);
}

/* --- the clock --- */

/* Notices steps of the wall clock. Nothing that runs uses it (core/wall.h), so a line in the log is
 * all that a step causes; a clock that steps again and again gets a line every STEP_LOG_MS. */
static void watch_clock(struct job *job)
{
    struct pp_pipeline *p = job->p;
    int64_t boot, date;

    pp_clock_read(&boot, &date);
    int64_t step = pp_wall_sample(&p->wall, boot, date);
    if (step == 0)
        return;
    p->metrics.clock_steps++;
    if (boot < job->cron->step_log_ms)
        return;
    job->cron->step_log_ms = boot + STEP_LOG_MS;
    pp_log(p->log, PP_LOG_WARN, "the wall clock was set", "ms", PP_LOG_INT(step), "steps",
           PP_LOG_INT(p->metrics.clock_steps), NULL);
}

/* Returns the time from which ages count that decide on deletion. */
static int64_t retention_now(const struct pp_pipeline *p)
{
    return pp_wall_retention_ms(&p->wall, pp_loop_now(p->loop));
}

/* --- measuring, for metrics and retention --- */

static void measure_lag(struct job *job)
{
    struct pp_pipeline *p = job->p;
    size_t n = 0;
    struct pp_fetch_loop *const *loops = p->claimer ? pp_claimer_loops(p->claimer, &n) : NULL;

    pp_metrics_loop_lag(&p->metrics, 0, pp_loop_lag(p->loop));
    for (size_t i = 0; i < n; i++)
        pp_metrics_loop_lag(&p->metrics, i + 1, pp_fetch_loop_lag(loops[i]));
}

static void on_tasks_counted(void *data, enum pp_err err)
{
    struct job *job = data;
    for (size_t q = 0; err == PP_OK && q <= PP_TIERS_MAX; q++)
        job->p->metrics.open_tasks[q] = job->r.queue.counts[q].photos;
}

static void count_tasks(struct job *job)
{
    struct pp_task_store *store = job->p->store;
    job->r.queue = (struct pp_store_queue){.req = pp_ask_request(&job->ask, on_tasks_counted)};
    pp_ask_submitted(&job->ask, store->ops->queue(store, &job->r.queue));
}

static void on_waiting_counted(void *data, enum pp_err err)
{
    struct job *job = data;
    if (err == PP_OK)
        memcpy(job->p->metrics.waiting_photos, job->r.waiting.photos, sizeof(job->r.waiting.photos));
}

static void count_waiting(struct job *job)
{
    job->r.waiting = (struct pp_queue_look){.req = pp_ask_request(&job->ask, on_waiting_counted),
                                            .from = &job->cron->from};
    pp_ask_submitted(&job->ask, pp_queue_look(&job->r.waiting));
}

static void on_ingest_counted(void *data, enum pp_err err)
{
    struct job *job = data;
    struct pp_metrics *m = &job->p->metrics;
    int64_t date = pp_loop_date(job->p->loop), oldest = job->r.ingest_stats.oldest_ms;

    if (err != PP_OK)
        return;
    m->ingest_set_aside = job->r.ingest_stats.poisoned;
    m->ingest_length = job->r.ingest_stats.photos;
    m->ingest_age_ms = oldest > 0 && date > oldest ? (uint64_t)(date - oldest) : 0;
}

static void count_ingest(struct job *job)
{
    struct pp_ingest_queue *ingest = job->p->ingest;
    job->r.ingest_stats = (struct pp_ingest_stats){.req = pp_ask_request(&job->ask, on_ingest_counted)};
    pp_ask_submitted(&job->ask, ingest->ops->stats(ingest, &job->r.ingest_stats));
}

static void on_outbox_counted(void *data, enum pp_err err)
{
    struct job *job = data;
    const struct pp_outbox_look *look = &job->r.outbox;
    struct pp_metrics *m = &job->p->metrics;

    if (err != PP_OK)
        return;
    job->cron->outbox_known = true;
    job->cron->delivered_before_ms = look->delivered_before_ms;
    m->n_sinks = look->n < PP_METRIC_SINKS ? look->n : PP_METRIC_SINKS;
    if (m->n_sinks == 0) /* no relay has saved its cursor yet */
        job->next_ms = pp_loop_now(job->p->loop) + RETRY_MS;
    for (size_t i = 0; i < m->n_sinks; i++) {
        const struct pp_outbox_row *row = &look->rows[i];
        snprintf(m->sinks[i].name, sizeof(m->sinks[i].name), "%s", row->sink);
        m->sinks[i].messages = row->messages;
        m->sinks[i].oldest_at = row->oldest_at;
    }
}

static void count_outbox(struct job *job)
{
    struct pp_pipeline *p = job->p;

    if (!p->deliveries)
        return;
    job->r.outbox = (struct pp_outbox_look){
        .req = pp_ask_request(&job->ask, on_outbox_counted), .store = p->store, .deliveries = p->deliveries};
    pp_ask_submitted(&job->ask, pp_outbox_look(&job->r.outbox));
}

/* --- retention: removing old data --- */

/* Runs the job again at once if the request has removed CLEAN_ROWS, because there may be more. */
static void on_cleaned(void *data, enum pp_err err)
{
    struct job *job = data;
    if (err == PP_OK && *job->cleaned >= CLEAN_ROWS)
        job->next_ms = 0;
}

/* Returns the request of a retention job. `cleaned` points to the number of removed rows in the
 * answer. */
static struct pp_req clean_request(struct job *job, const uint64_t *cleaned)
{
    job->cleaned = cleaned;
    return pp_ask_request(&job->ask, on_cleaned);
}

/* Returns the time before which finished items are removed. Results that a sink has not received
 * yet are kept longer, but at most twice as long, because the consumer may never return. */
static int64_t clean_before(const struct job *job)
{
    const struct pp_pipeline *p = job->p;
    int64_t before = retention_now(p) - p->params->results_ms;
    int64_t at_last = before - p->params->results_ms;

    if (p->deliveries && job->cron->delivered_before_ms < before)
        before = job->cron->delivered_before_ms;
    return before > at_last ? before : at_last;
}

static void clean_batches(struct job *job)
{
    struct pp_pipeline *p = job->p;
    struct pp_store_clean *r = &job->r.clean;

    if (p->deliveries && !job->cron->outbox_known)
        return;
    *r = (struct pp_store_clean){
        .req = clean_request(job, &r->items), .finished_before_ms = clean_before(job), .limit = CLEAN_ROWS};
    pp_ask_submitted(&job->ask, p->store->ops->clean(p->store, r));
}

/* Removes old idempotency keys. One request removes all of them, so the job does not repeat it at
 * once. The steady times of this process and of the one that wrote a key may each differ from the
 * server's clock by PP_AHEAD_IGNORED_MS. */
static void clean_keys(struct job *job)
{
    static const uint64_t all = 0;
    struct pp_pipeline *p = job->p;
    struct pp_ingest_clean *r = &job->r.ingest_clean;

    int64_t now = pp_wall_steady_retention_ms(&p->wall, pp_loop_now(p->loop));
    *r = (struct pp_ingest_clean){.req = clean_request(job, &all),
                                  .before_ms = now - p->params->idempotency_ms - 2 * PP_AHEAD_IGNORED_MS};
    pp_ask_submitted(&job->ask, p->ingest->ops->clean(p->ingest, r));
}

static void clean_events(struct job *job)
{
    struct pp_pipeline *p = job->p;
    struct pp_log_clean *r = &job->r.events_clean;

    if (!p->events)
        return;
    *r = (struct pp_log_clean){.req = clean_request(job, &r->n),
                               .before_ms = retention_now(p) - p->params->events_ms,
                               .max_bytes = p->params->events_bytes,
                               .limit = CLEAN_ROWS};
    pp_ask_submitted(&job->ask, p->events->ops->clean(p->events, r));
}

static void clean_deliveries(struct job *job)
{
    struct pp_pipeline *p = job->p;
    struct pp_delivery_clean *r = &job->r.deliveries_clean;

    if (!p->deliveries)
        return;
    *r = (struct pp_delivery_clean){.req = clean_request(job, &r->n),
                                    .finished_before_ms = retention_now(p) - p->params->results_ms,
                                    .limit = CLEAN_ROWS};
    pp_ask_submitted(&job->ask, p->deliveries->ops->clean(p->deliveries, r));
}

static void clean_days(struct job *job)
{
    struct pp_pipeline *p = job->p;
    struct pp_days_clean *r = &job->r.days_clean;

    if (!p->deliveries)
        return;
    *r = (struct pp_days_clean){.req = clean_request(job, &r->n),
                                .before_day = pp_day_of(retention_now(p)) - PP_DAYS_KEPT,
                                .limit = CLEAN_ROWS};
    pp_ask_submitted(&job->ask, p->deliveries->ops->days_clean(p->deliveries, r));
}

/* --- the table of jobs --- */

static int64_t lease_third(const struct pp_params *params)
{
    return params->lease_ms / 3;
}

/* Returns the period of tend_slots: short, because a renewal of slots holds for only half a lease,
 * and several renewals should fit into that time. */
static int64_t lease_eighth(const struct pp_params *params)
{
    return params->lease_ms < 8000 ? params->lease_ms / 8 : 1000;
}

static int64_t router_interval(const struct pp_params *params)
{
    return params->router_interval_ms;
}

enum { SECOND = 1000, MINUTE = 60 * SECOND };
#define ANY_ROLE ~0u
enum who { EVERY_PROCESS, LEADER };

static const struct {
    void (*run)(struct job *job);
    unsigned roles;
    enum who who; /* whether every process with one of the roles runs the job, or only the leader */
    int64_t every_ms;
    /* Computes the period from the parameters; NULL: the period is every_ms. */
    int64_t (*period)(const struct pp_params *params);
    /* The message to log when the request fails; NULL: the job logs by itself, or sends no
     * request. */
    const char *failed;
} jobs[] = {
    {renew, PP_ROLE_WORKER, EVERY_PROCESS, 0, lease_third, "leases not renewed"},
    {reap, PP_ROLE_CRON, EVERY_PROCESS, SECOND, NULL, "lapsed claims unreadable"},
    {find_silent, PP_ROLE_CRON, EVERY_PROCESS, SECOND, NULL, "silent workers unreadable"},
    {read_backlog, PP_ROLE_WORKER, EVERY_PROCESS, 10 * SECOND, NULL, "waiting tasks unreadable"},
    {tend_slots, PP_ROLE_WORKER, EVERY_PROCESS, 0, lease_eighth, NULL},
    {decide_routes, PP_ROLE_CRON | PP_ROLE_WORKER, EVERY_PROCESS, 0, router_interval, NULL},
    {heartbeat, PP_ROLE_WORKER, EVERY_PROCESS, SECOND, NULL, NULL},
    {watch_clock, ANY_ROLE, EVERY_PROCESS, SECOND / 2, NULL, NULL},
    {measure_lag, ANY_ROLE, EVERY_PROCESS, 10 * SECOND, NULL, NULL},
    {count_tasks, PP_ROLE_CRON, LEADER, 10 * SECOND, NULL, "open tasks not counted"},
    {count_waiting, PP_ROLE_CRON, LEADER, 15 * SECOND, NULL, "waiting photos not counted"},
    {count_ingest, PP_ROLE_CRON | PP_ROLE_API, EVERY_PROCESS, 10 * SECOND, NULL, "ingest queue not counted"},
    {count_outbox, PP_ROLE_CRON, LEADER, 10 * SECOND, NULL, "outbox not counted"},
    {clean_batches, PP_ROLE_CRON, LEADER, MINUTE, NULL, "old batches not removed"},
    {clean_keys, PP_ROLE_CRON, LEADER, MINUTE, NULL, "old idempotency keys not removed"},
    /* Every process that appends events also removes old ones: a fleet may have no process with the
     * role cron, and the log stays bounded all the same. Removing twice changes nothing. */
    {clean_events, PP_ROLE_CRON | PP_ROLE_API | PP_ROLE_DELIVER, EVERY_PROCESS, 10 * SECOND, NULL,
     "old events not removed"},
    {clean_deliveries, PP_ROLE_CRON, LEADER, MINUTE, NULL, "old deliveries not removed"},
    {clean_days, PP_ROLE_CRON, LEADER, 10 * MINUTE, NULL, "old statistics not removed"},
};

#define JOBS (sizeof(jobs) / sizeof(*jobs))

/* Returns true if this process runs the job now, because of its roles and of who leads. */
static bool is_ours(const struct pp_pipeline *p, size_t job)
{
    return (jobs[job].roles & p->roles) && (jobs[job].who != LEADER || p->metrics.leads);
}

/* Sets the timer to the next job; a job in flight may have to run again at once. */
static void set_timer(struct pp_cron *cron)
{
    int64_t now = pp_loop_now(cron->p->loop), next = INT64_MAX;

    for (size_t i = 0; i < JOBS; i++) {
        int64_t at = cron->jobs[i].ask.in_flight ? 0 : cron->jobs[i].next_ms;
        if (is_ours(cron->p, i) && at < next)
            next = at;
    }
    pp_timer_start(cron->timer, next > now + TICK_MS ? next - now : TICK_MS, 0);
}

static void on_tick(void *data)
{
    struct pp_cron *cron = data;
    struct pp_pipeline *p = cron->p;
    int64_t now = pp_loop_now(p->loop);

    p->metrics.leads = pp_fleet_leads(p);
    for (size_t i = 0; i < JOBS; i++) {
        struct job *job = &cron->jobs[i];
        if (job->ask.in_flight || now < job->next_ms || !is_ours(p, i))
            continue;
        pp_assert(jobs[i].who != LEADER || (p->roles & PP_ROLE_CRON), "only cron has a leader");
        job->next_ms = now + (jobs[i].period ? jobs[i].period(p->params) : jobs[i].every_ms);
        pp_assert(job->next_ms > now, "a job without a period");
        jobs[i].run(job);
    }
    set_timer(cron);
}

struct pp_cron *pp_cron_open(struct pp_pipeline *p)
{
    struct pp_cron *cron = calloc(1, sizeof(*cron) + JOBS * sizeof(struct job));
    if (!cron)
        return NULL;
    cron->p = p;
    cron->timer = pp_timer_open(p->loop, on_tick, cron);
    if (!cron->timer) {
        free(cron);
        return NULL;
    }
    cron->from = (struct pp_waiting_from){.store = p->store,
                                          .coordinator = p->coordinator,
                                          .progress = p->progress,
                                          .params = p->params,
                                          .loop = p->loop};
    for (size_t i = 0; i < JOBS; i++) {
        struct job *job = &cron->jobs[i];
        if (jobs[i].run == renew)
            cron->renewal = job;
        job->cron = cron;
        job->p = p;
        job->ask = (struct pp_ask){
            .loop = p->loop, .log = p->log, .failed = jobs[i].failed, .arena_max = ARENA_MAX, .data = job};
    }
    pp_timer_start(cron->timer, 0, 0);
    return cron;
}

void pp_cron_stop(struct pp_cron *cron)
{
    pp_timer_stop(cron->timer);
}

size_t pp_cron_busy(const struct pp_cron *cron)
{
    size_t n = 0;
    for (size_t i = 0; i < JOBS; i++)
        n += cron->jobs[i].ask.in_flight;
    return n;
}

void pp_cron_close(struct pp_cron *cron)
{
    if (!cron)
        return;
    pp_assert(pp_cron_busy(cron) == 0, "closed with requests in flight");
    pp_timer_close(cron->timer);
    free(cron);
}
