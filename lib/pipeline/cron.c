/* cron.c: see cron.h. To add a job: a function and a row in jobs[]. */
#include "pipeline/cron.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "pipeline/fleet.h"
#include "pipeline/outbox.h"
#include "pipeline/routes.h"
#include "pipeline/s3_claim.h"

#define TICK_MS    250
#define REAP_TASKS 1000
#define CLEAN_ROWS 1000
/* What finished a little before the oldest message that is not delivered may have been counted after it. */
#define UNDELIVERED_MARGIN_MS 60000

/* One job, with the request that it may have under way. */
struct job {
    struct pp_cron *cron;
    int64_t next_ms, asked_ms;
    bool busy;
    struct pp_arena arena;
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
    } r;
};

enum {
    JOB_RENEW,
    JOB_REAP,
    JOB_BACKLOG,
    JOB_SLOTS,
    JOB_ROUTES,
    JOB_HEARTBEAT,
    JOB_GAUGES,
    JOB_INGEST,
    JOB_CLEAN,
    JOB_FORGET_KEYS,
    JOB_OUTBOX,
    JOB_EVENTS,
    JOB_DELIVERIES,
    JOB_COUNT
};

struct pp_cron {
    struct pp_pipeline *p;
    struct pp_timer *timer;
    struct job jobs[JOB_COUNT];
    /* The last renewal of leases that went through, when it was asked for. */
    int64_t renewed_ms, renewed_wall_ms;
    bool stopped;
    bool outbox_known; /* what is undelivered has been looked at */
};

static struct pp_req request(struct job *job, void (*done)(struct pp_req *req))
{
    pp_arena_init(&job->arena, 16 << 20);
    return (struct pp_req){.done = done, .data = job, .arena = &job->arena};
}

static void submitted(struct job *job, enum pp_err err)
{
    job->busy = err == PP_OK;
    if (err != PP_OK)
        pp_arena_fini(&job->arena);
}

/* The usual end of a request. `again`: there is more to do at once. */
static void end(struct job *job, const char *what, enum pp_err err, bool again)
{
    job->busy = false;
    if (err != PP_OK)
        pp_log(job->cron->p->log, PP_LOG_WARN, what, "error", pp_err_text(err), NULL);
    if (again)
        job->next_ms = 0;
    pp_arena_fini(&job->arena);
}

/* --- leases of what we have claimed --- */

static void renewed(struct pp_req *req)
{
    struct job *job = req->data;
    struct pp_cron *cron = job->cron;

    if (req->err == PP_OK) {
        cron->renewed_ms = job->asked_ms;
        cron->renewed_wall_ms = job->r.renew.now_ms;
    }
    end(job, "leases could not be renewed", req->err, false);
}

static void renew(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    if (!p->s3)
        return;
    job->asked_ms = pp_loop_now(p->loop);
    if (pp_s3_in_flight(p->s3) == 0) { /* nothing to renew; what is claimed from here on has a whole lease */
        job->cron->renewed_ms = job->asked_ms;
        job->cron->renewed_wall_ms = pp_loop_wall(p->loop);
        return;
    }
    job->r.renew = (struct pp_store_renew){.req = request(job, renewed),
                                           .worker = p->params->worker,
                                           .lease_ms = p->params->lease_ms,
                                           .now_ms = pp_loop_wall(p->loop)};
    submitted(job, p->store->ops->renew(p->store, &job->r.renew));
}

/* --- claims whose worker has gone --- */

static void reaped(struct pp_req *req)
{
    struct job *job = req->data;
    struct pp_pipeline *p = job->cron->p;
    const struct pp_store_reap *r = &job->r.reap;

    if (req->err == PP_OK) {
        p->metrics.lapsed += r->lapsed;
        p->metrics.quarantined += r->quarantined;
        p->metrics.items_finished += r->items_finished;
        if (r->lapsed + r->quarantined > 0)
            pp_log(p->log, PP_LOG_WARN, "claims lapsed", "photos", PP_LOG_INT(r->lapsed), "quarantined",
                   PP_LOG_INT(r->quarantined), NULL);
        if (r->n_backlog > 0)
            p->coordinator->ops->announce(p->coordinator, r->backlog, r->n_backlog);
    } else {
        p->backlog_doubtful = true;
    }
    end(job, "lapsed claims could not be looked for", req->err,
        req->err == PP_OK && r->lapsed + r->quarantined >= REAP_TASKS);
}

/* Our own claims have not been renewed in time: the store did not answer, the machine slept, or its clock was
 * set. They come first, or everything in flight here would be taken for lost. */
static bool renew_first(struct pp_cron *cron)
{
    struct pp_pipeline *p = cron->p;
    int64_t now = pp_loop_now(p->loop), offset = pp_loop_wall(p->loop) - now;
    int64_t moved = offset - (cron->renewed_wall_ms - cron->renewed_ms);

    if (!p->s3 || pp_s3_in_flight(p->s3) == 0)
        return false;
    if (now - cron->renewed_ms < p->params->lease_ms * 2 / 3 && moved < 1000 && moved > -1000)
        return false;
    if (now - cron->jobs[JOB_RENEW].asked_ms >= 1000)
        cron->jobs[JOB_RENEW].next_ms = 0;
    return true;
}

static void reap(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    if (renew_first(job->cron))
        return;
    job->r.reap = (struct pp_store_reap){
        .req = request(job, reaped), .now_ms = pp_loop_wall(p->loop), .limit = REAP_TASKS};
    submitted(job, p->store->ops->reap(p->store, &job->r.reap));
}

/* --- the backlog, where it may lack something --- */

static void backlog_read(struct pp_req *req)
{
    struct job *job = req->data;
    struct pp_pipeline *p = job->cron->p;

    if (req->err != PP_OK)
        p->backlog_doubtful = true;
    else if (job->r.backlog.n > 0)
        p->coordinator->ops->announce(p->coordinator, job->r.backlog.rows, job->r.backlog.n);
    end(job, "waiting tasks could not be read", req->err, false);
}

static void backlog(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    if (!p->backlog_doubtful || !p->params->sole_worker) /* else the fleet's leader sees to it */
        return;
    p->backlog_doubtful = false;
    job->r.backlog = (struct pp_store_backlog){.req = request(job, backlog_read)};
    job->arena.max = SIZE_MAX; /* a row for each client with something to do */
    enum pp_err err = p->store->ops->backlog(p->store, &job->r.backlog);
    p->backlog_doubtful = err != PP_OK;
    submitted(job, err);
}

/* --- without requests of our own --- */

static void slots(struct job *job)
{
    if (job->cron->p->s3)
        pp_s3_tend_slots(job->cron->p->s3);
}

static void routes(struct job *job)
{
    pp_routes_tick(job->cron->p->routes);
}

static void heartbeat(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    uint32_t capacity = 0;

    if (!p->s3)
        return;
    for (uint32_t t = 0; t < p->params->n_tiers; t++)
        if (p->params->tiers_served & (1u << t))
            capacity += p->params->tiers[t].concurrency;
    const struct pp_worker_info info = {.id = p->params->worker,
                                        .host = p->params->host,
                                        .pid = getpid(),
                                        .tiers = p->params->tiers_text,
                                        .capacity = capacity,
                                        .in_flight = (uint32_t)pp_s3_transfers(p->s3),
                                        .clients = (uint32_t)pp_s3_slots(p->s3),
                                        .draining = p->draining,
                                        .started_at = p->params->started_wall_ms,
                                        .seen_at = pp_loop_wall(p->loop)};
    p->coordinator->ops->heartbeat(p->coordinator, &info);
}

/* --- gauges --- */

static void counted(struct pp_req *req)
{
    struct job *job = req->data;
    struct pp_metrics *m = &job->cron->p->metrics;
    for (size_t q = 0; req->err == PP_OK && q <= PP_TIERS_MAX; q++)
        m->open_tasks[q] = job->r.queue.counts[q].photos;
    end(job, "tasks could not be counted", req->err, false);
}

static void gauges(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    p->metrics.loop_lag_ms = (uint64_t)pp_loop_lag(p->loop);
    job->r.queue = (struct pp_store_queue){.req = request(job, counted)};
    submitted(job, p->store->ops->queue(p->store, &job->r.queue));
}

static void ingest_counted(struct pp_req *req)
{
    struct job *job = req->data;
    struct pp_pipeline *p = job->cron->p;
    const struct pp_ingest_stats *r = &job->r.ingest_stats;
    int64_t wall = pp_loop_wall(p->loop);

    if (req->err == PP_OK) {
        p->metrics.ingest_length = r->photos;
        p->metrics.ingest_age_ms =
            r->oldest_ms > 0 && wall > r->oldest_ms ? (uint64_t)(wall - r->oldest_ms) : 0;
    }
    end(job, "the ingest queue could not be counted", req->err, false);
}

static void ingest(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    job->r.ingest_stats = (struct pp_ingest_stats){.req = request(job, ingest_counted)};
    submitted(job, p->ingest->ops->stats(p->ingest, &job->r.ingest_stats));
}

/* --- retention --- */

static void cleaned(struct pp_req *req)
{
    struct job *job = req->data;
    end(job, "old batches could not be removed", req->err,
        req->err == PP_OK && job->r.clean.items >= CLEAN_ROWS);
}

/* What no consumer has got yet is kept for longer; for twice as long, where one never comes. */
static int64_t clean_before(const struct pp_pipeline *p)
{
    int64_t before = pp_loop_wall(p->loop) - p->params->results_ms;
    int64_t at_last = before - p->params->results_ms;

    for (size_t i = 0; i < p->metrics.n_sinks; i++) {
        int64_t oldest = p->metrics.sinks[i].oldest_at;
        if (oldest > 0 && oldest - UNDELIVERED_MARGIN_MS < before)
            before = oldest - UNDELIVERED_MARGIN_MS;
    }
    return before > at_last ? before : at_last;
}

static void clean(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    if (p->deliveries && !job->cron->outbox_known)
        return;
    job->r.clean = (struct pp_store_clean){
        .req = request(job, cleaned), .finished_before_ms = clean_before(p), .limit = CLEAN_ROWS};
    submitted(job, p->store->ops->clean(p->store, &job->r.clean));
}

static void keys_forgotten(struct pp_req *req)
{
    end(req->data, "old idempotency keys could not be removed", req->err, false);
}

static void forget_keys(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    job->r.ingest_clean = (struct pp_ingest_clean){
        .req = request(job, keys_forgotten), .before_ms = pp_loop_wall(p->loop) - p->params->idempotency_ms};
    submitted(job, p->ingest->ops->clean(p->ingest, &job->r.ingest_clean));
}

/* --- delivery --- */

static void outbox_seen(struct pp_outbox_look *look, enum pp_err err)
{
    struct job *job = look->data;
    struct pp_metrics *m = &job->cron->p->metrics;

    if (err == PP_OK) {
        job->cron->outbox_known = true;
        m->n_sinks = look->n < PP_METRIC_SINKS ? look->n : PP_METRIC_SINKS;
        if (m->n_sinks == 0) /* relays are just starting */
            job->next_ms = pp_loop_now(job->cron->p->loop) + 1000;
    }
    for (size_t i = 0; err == PP_OK && i < m->n_sinks; i++) {
        const struct pp_outbox_row *row = &look->rows[i];
        snprintf(m->sinks[i].name, sizeof(m->sinks[i].name), "%s", row->sink);
        m->sinks[i].messages = row->messages;
        m->sinks[i].oldest_at = row->oldest_at;
    }
    end(job, "the outbox could not be counted", err, false);
}

static void outbox(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    if (!p->deliveries)
        return;
    pp_arena_init(&job->arena, 16 << 20);
    job->r.outbox = (struct pp_outbox_look){.p = p, .arena = &job->arena, .done = outbox_seen, .data = job};
    submitted(job, pp_outbox_look(&job->r.outbox));
}

static void events_cleaned(struct pp_req *req)
{
    struct job *job = req->data;
    end(job, "old events could not be removed", req->err,
        req->err == PP_OK && job->r.events_clean.n >= CLEAN_ROWS);
}

static void events(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    if (!p->events)
        return;
    job->r.events_clean = (struct pp_log_clean){.req = request(job, events_cleaned),
                                                .before_ms = pp_loop_wall(p->loop) - p->params->events_ms,
                                                .max_bytes = p->params->events_bytes,
                                                .limit = CLEAN_ROWS};
    submitted(job, p->events->ops->clean(p->events, &job->r.events_clean));
}

static void deliveries_cleaned(struct pp_req *req)
{
    struct job *job = req->data;
    end(job, "old deliveries could not be removed", req->err,
        req->err == PP_OK && job->r.deliveries_clean.n >= CLEAN_ROWS);
}

static void deliveries(struct job *job)
{
    struct pp_pipeline *p = job->cron->p;
    if (!p->deliveries)
        return;
    job->r.deliveries_clean =
        (struct pp_delivery_clean){.req = request(job, deliveries_cleaned),
                                   .finished_before_ms = pp_loop_wall(p->loop) - p->params->results_ms,
                                   .limit = CLEAN_ROWS};
    submitted(job, p->deliveries->ops->clean(p->deliveries, &job->r.deliveries_clean));
}

/* --- the table --- */

static int64_t lease_third(const struct pp_params *params)
{
    return params->lease_ms / 3;
}

/* Slots are renewed several times within the half of a lease for which they hold. */
static int64_t lease_eighth(const struct pp_params *params)
{
    return params->lease_ms < 8000 ? params->lease_ms / 8 : 1000;
}

static int64_t router_interval(const struct pp_params *params)
{
    return params->router_interval_ms;
}

static int64_t second(const struct pp_params *params)
{
    (void)params;
    return 1000;
}

static int64_t ten_seconds(const struct pp_params *params)
{
    (void)params;
    return 10000;
}

static int64_t ten_minutes(const struct pp_params *params)
{
    (void)params;
    return 600000;
}

static const struct {
    void (*run)(struct job *job);
    int64_t (*every_ms)(const struct pp_params *params);
    unsigned roles;
    bool one; /* only by the process that leads */
} table[JOB_COUNT] = {
    [JOB_RENEW] = {renew, lease_third, PP_ROLE_WORKER},
    [JOB_REAP] = {reap, second, PP_ROLE_CRON},
    [JOB_BACKLOG] = {backlog, ten_seconds, PP_ROLE_WORKER},
    [JOB_SLOTS] = {slots, lease_eighth, PP_ROLE_WORKER},
    [JOB_ROUTES] = {routes, router_interval, PP_ROLE_CRON | PP_ROLE_WORKER},
    [JOB_HEARTBEAT] = {heartbeat, second, PP_ROLE_WORKER},
    [JOB_GAUGES] = {gauges, ten_seconds, PP_ROLE_CRON, true},
    [JOB_INGEST] = {ingest, ten_seconds, PP_ROLE_CRON | PP_ROLE_API},
    [JOB_CLEAN] = {clean, ten_minutes, PP_ROLE_CRON, true},
    [JOB_FORGET_KEYS] = {forget_keys, ten_minutes, PP_ROLE_CRON, true},
    [JOB_OUTBOX] = {outbox, ten_seconds, PP_ROLE_CRON, true},
    [JOB_EVENTS] = {events, ten_seconds, PP_ROLE_CRON, true},
    [JOB_DELIVERIES] = {deliveries, ten_minutes, PP_ROLE_CRON, true},
};

static void tick(void *data)
{
    struct pp_cron *cron = data;
    struct pp_pipeline *p = cron->p;
    int64_t now = pp_loop_now(p->loop);

    for (int i = 0; i < JOB_COUNT && !cron->stopped; i++) {
        struct job *job = &cron->jobs[i];
        if (job->busy || now < job->next_ms || !(table[i].roles & p->roles) ||
            (table[i].one && !pp_fleet_leads(p)))
            continue;
        job->next_ms = now + table[i].every_ms(p->params);
        table[i].run(job);
    }
}

struct pp_cron *pp_cron_open(struct pp_pipeline *p)
{
    struct pp_cron *cron = calloc(1, sizeof(*cron));
    if (!cron)
        return NULL;
    cron->p = p;
    cron->timer = pp_timer_open(p->loop, tick, cron);
    if (!cron->timer) {
        free(cron);
        return NULL;
    }
    for (int i = 0; i < JOB_COUNT; i++)
        cron->jobs[i].cron = cron;
    pp_timer_start(cron->timer, 0, TICK_MS);
    return cron;
}

void pp_cron_stop(struct pp_cron *cron)
{
    cron->stopped = true;
    pp_timer_stop(cron->timer);
}

size_t pp_cron_busy(const struct pp_cron *cron)
{
    size_t n = 0;
    for (int i = 0; i < JOB_COUNT; i++)
        n += cron->jobs[i].busy;
    return n;
}

void pp_cron_close(struct pp_cron *cron)
{
    if (!cron)
        return;
    assert(pp_cron_busy(cron) == 0);
    pp_timer_close(cron->timer);
    free(cron);
}
