/* pipeline.c: opening, draining and closing the stages of one process. See pipeline.h.
 *
 * Start of a process that is alone: objects that a crash has left without a record go (orphans), claims of
 * dead workers return (reap), then the backlog is read and announced; accepting and planning go on meanwhile.
 * One of many has none of this: see fleet.c. Drain: s2 and s3 take nothing new -> transfers end, or are
 * handed back at the deadline -> s6 has written all -> cron, routes and s7 are still -> slots are released ->
 * drained(). */
#include "pipeline/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "pipeline/cron.h"
#include "pipeline/fleet.h"
#include "pipeline/hub.h"
#include "pipeline/orphans.h"
#include "pipeline/progress.h"
#include "pipeline/publisher.h"
#include "pipeline/routes.h"
#include "pipeline/s2_plan.h"
#include "pipeline/s3_claim.h"
#include "pipeline/s6_settle.h"
#include "pipeline/s7_deliver.h"
#include "pipeline/webhook_post.h"

#define DRAIN_CHECK_MS 10
#define STILL_MS       10000 /* a drain that is past its deadline says so, and hands back again */
#define TRY_AGAIN_MS   1000
#define REAP_TASKS     5000

/* --- start --- */

struct pp_startup {
    struct pp_pipeline *p;
    struct pp_arena arena;
    struct pp_timer *retry;
    bool busy;
    union {
        struct pp_store_reap reap;
        struct pp_store_backlog backlog;
    } r;
};

static void reap_dead(void *data);

static void startup_done(struct pp_startup *s)
{
    s->p->startup = NULL;
    pp_arena_fini(&s->arena);
    pp_timer_close(s->retry);
    free(s);
}

static void startup_failed(struct pp_startup *s, enum pp_err err)
{
    pp_log(s->p->log, PP_LOG_WARN, "waiting tasks could not be read, trying again", "error", pp_err_text(err),
           NULL);
    pp_timer_start(s->retry, TRY_AGAIN_MS, 0);
}

static void backlog_read(struct pp_req *req)
{
    struct pp_startup *s = req->data;
    struct pp_coordinator *coord = s->p->coordinator;

    s->busy = false;
    if (s->p->draining) {
        startup_done(s);
    } else if (req->err != PP_OK) {
        startup_failed(s, req->err);
    } else {
        if (s->r.backlog.n > 0)
            coord->ops->announce(coord, s->r.backlog.rows, s->r.backlog.n);
        startup_done(s);
    }
}

static void reaped(struct pp_req *req)
{
    struct pp_startup *s = req->data;
    struct pp_pipeline *p = s->p;
    const struct pp_store_reap *r = &s->r.reap;

    s->busy = false;
    if (p->draining) {
        startup_done(s);
        return;
    }
    if (req->err != PP_OK) {
        startup_failed(s, req->err);
        return;
    }
    p->metrics.lapsed += r->lapsed;
    p->metrics.quarantined += r->quarantined;
    p->metrics.items_finished += r->items_finished;
    if (r->lapsed + r->quarantined > 0)
        pp_log(p->log, PP_LOG_WARN, "claims of an earlier process returned", "photos", PP_LOG_INT(r->lapsed),
               "quarantined", PP_LOG_INT(r->quarantined), NULL);
    if (r->lapsed + r->quarantined >= REAP_TASKS) {
        reap_dead(s);
        return;
    }
    pp_arena_fini(&s->arena);
    s->r.backlog = (struct pp_store_backlog){.req = {.done = backlog_read, .data = s, .arena = &s->arena}};
    enum pp_err err = p->store->ops->backlog(p->store, &s->r.backlog);
    s->busy = err == PP_OK;
    if (err != PP_OK)
        startup_failed(s, err);
}

static void reap_dead(void *data)
{
    struct pp_startup *s = data;
    struct pp_pipeline *p = s->p;

    pp_arena_fini(&s->arena);
    s->r.reap = (struct pp_store_reap){.req = {.done = reaped, .data = s, .arena = &s->arena},
                                       .alive = p->params->sole_worker ? p->params->worker : NULL,
                                       .now_ms = pp_loop_wall(p->loop),
                                       .limit = REAP_TASKS};
    enum pp_err err = p->store->ops->reap(p->store, &s->r.reap);
    s->busy = err == PP_OK;
    if (err != PP_OK)
        startup_failed(s, err);
}

/* Only now may anything be fetched: an object that is written while orphans are looked for would pass for
 * one.
 */
static void begin(struct pp_startup *s)
{
    pp_s3_begin(s->p->s3);
    reap_dead(s);
}

static void orphans_removed(void *data)
{
    struct pp_startup *s = data;
    s->busy = false;
    if (s->p->draining)
        startup_done(s);
    else
        begin(s);
}

static enum pp_err start_up(struct pp_pipeline *p)
{
    struct pp_startup *s = calloc(1, sizeof(*s));
    if (!s)
        return PP_ENOMEM;
    s->p = p;
    pp_arena_init(&s->arena, SIZE_MAX);
    s->retry = pp_timer_open(p->loop, reap_dead, s);
    if (!s->retry) {
        free(s);
        return PP_ENOMEM;
    }
    p->startup = s;
    s->busy = p->params->orphans_since_ms > 0 && pp_orphans_start(p, orphans_removed, s);
    if (!s->busy)
        begin(s);
    return PP_OK;
}

static void check_drained(void *data);
static void deadline(void *data);

/* Where there is an event log, there is a delivery store, too. */
static enum pp_err open_delivery(struct pp_pipeline *p)
{
    if (!p->events)
        return PP_OK;
    p->publisher = pp_publisher_open(p);
    if (!p->publisher)
        return PP_ENOMEM;
    if (p->roles & PP_ROLE_API) {
        p->hub = pp_hub_open(p);
        if (!p->hub)
            return PP_ENOMEM;
    }
    if (p->roles & (PP_ROLE_API | PP_ROLE_DELIVER)) {
        p->poster = pp_poster_open(p);
        if (!p->poster)
            return PP_ENOMEM;
    }
    if (p->roles & PP_ROLE_DELIVER)
        p->s7 = pp_s7_open(p);
    return p->s7 || !(p->roles & PP_ROLE_DELIVER) ? PP_OK : PP_ENOMEM;
}

static enum pp_err open_stages(struct pp_pipeline *p)
{
    uint64_t seed;

    pp_random_bytes(&seed, sizeof(seed));
    pp_rng_seed(&p->rng, seed);
    p->drain_timer = pp_timer_open(p->loop, check_drained, p);
    p->drain_deadline = pp_timer_open(p->loop, deadline, p);
    p->progress = pp_progress_new();
    p->cron = pp_cron_open(p);
    if (!p->drain_timer || !p->drain_deadline || !p->progress || !p->cron)
        return PP_ENOMEM;
    if (p->roles & PP_ROLE_WORKER) {
        p->s6 = pp_s6_open(p);
        enum pp_err opened = p->s6 ? pp_s3_open(p, &p->s3) : PP_ENOMEM;
        if (opened != PP_OK)
            return opened;
    }
    if (p->roles & PP_ROLE_INGEST) {
        p->s2 = pp_s2_open(p);
        if (!p->s2)
            return PP_ENOMEM;
    }
    enum pp_err err = open_delivery(p);
    if (err != PP_OK)
        return err;
    /* Last what sends requests: until then closing has nothing to wait for. */
    p->routes = pp_routes_open(p);
    if (!p->routes)
        return PP_ENOMEM;
    if (p->params->sole_worker)
        return p->roles & PP_ROLE_WORKER ? start_up(p) : PP_OK;
    p->fleet = pp_fleet_open(p);
    return p->fleet ? PP_OK : PP_ENOMEM;
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
    pp_s7_close(p->s7);
    pp_poster_close(p->poster);
    pp_hub_close(p->hub);
    pp_publisher_close(p->publisher);
    pp_s2_close(p->s2);
    pp_s3_close(p->s3);
    pp_s6_close(p->s6);
    pp_cron_close(p->cron);
    pp_fleet_close(p->fleet);
    pp_routes_close(p->routes);
    pp_progress_free(p->progress);
    pp_timer_close(p->drain_timer);
    pp_timer_close(p->drain_deadline);
    p->s7 = NULL;
    p->poster = NULL;
    p->hub = NULL;
    p->publisher = NULL;
    p->s2 = NULL;
    p->s3 = NULL;
    p->s6 = NULL;
    p->cron = NULL;
    p->fleet = NULL;
    p->routes = NULL;
    p->progress = NULL;
    p->drain_timer = p->drain_deadline = NULL;
}

void pp_pipeline_reloaded(struct pp_pipeline *p)
{
    if (p->s3)
        pp_s3_reloaded(p->s3);
}

/* --- drain --- */

static void drained(struct pp_pipeline *p)
{
    void (*done)(void *) = p->drained;
    pp_timer_stop(p->drain_timer);
    pp_timer_stop(p->drain_deadline);
    p->drained = NULL;
    done(p->drained_data);
}

/* Each time round until every stage is still: what has to come first is asked first. */
static void check_drained(void *data)
{
    struct pp_pipeline *p = data;

    if (p->startup && !p->startup->busy)
        startup_done(p->startup);
    if (p->startup || (p->s2 && pp_s2_busy(p->s2) > 0) || (p->s3 && pp_s3_in_flight(p->s3) > 0))
        return;
    if (!p->cron_stopped) {
        p->cron_stopped = true;
        pp_s7_stop(p->s7);
        pp_cron_stop(p->cron);
        pp_routes_tick(p->routes);
        pp_fleet_stop(p->fleet);
    }
    if (pp_cron_busy(p->cron) > 0 || pp_routes_busy(p->routes) > 0 || pp_fleet_busy(p->fleet) > 0)
        return;
    if (pp_s7_busy(p->s7) > 0 || (p->s3 && !pp_s3_release_slots(p->s3)))
        return;
    drained(p);
}

bool pp_pipeline_still(struct pp_pipeline *p)
{
    if (p->hub)
        pp_hub_stop(p->hub);
    if (p->poster)
        pp_poster_give_up(p->poster);
    return (!p->hub || pp_hub_busy(p->hub) == 0) && pp_publisher_busy(p->publisher) == 0;
}

/* What a drain still waits for: who operates it should not have to guess. */
static void log_waits(struct pp_pipeline *p)
{
    pp_log(p->log, PP_LOG_INFO, "still draining: what is under way is handed back", "chunks",
           PP_LOG_INT(p->s2 ? pp_s2_busy(p->s2) : 0), "photos",
           PP_LOG_INT(p->s3 ? pp_s3_unsettled(p->s3) : 0), "requests",
           PP_LOG_INT(p->s3 ? pp_s3_in_flight(p->s3) - pp_s3_unsettled(p->s3) : 0), "slots",
           PP_LOG_INT(p->s3 ? pp_s3_slots(p->s3) : 0), "jobs",
           PP_LOG_INT(pp_cron_busy(p->cron) + pp_routes_busy(p->routes) + pp_fleet_busy(p->fleet)),
           "deliveries", PP_LOG_INT(p->cron_stopped ? pp_s7_busy(p->s7) : 0), NULL);
}

static void deadline(void *data)
{
    struct pp_pipeline *p = data;

    log_waits(p);
    if (p->s3)
        pp_s3_hand_back(p->s3);
    if (p->s6)
        pp_s6_give_up(p->s6);
    pp_s7_give_up(p->s7);
}

void pp_pipeline_drain(struct pp_pipeline *p, void (*done)(void *data), void *data)
{
    if (p->draining) {
        if (p->drained)
            deadline(p);
        return;
    }
    p->draining = true;
    p->drained = done;
    p->drained_data = data;
    if (p->s2)
        pp_s2_drain(p->s2);
    if (p->s3)
        pp_s3_drain(p->s3);
    pp_timer_start(p->drain_timer, 0, DRAIN_CHECK_MS);
    pp_timer_start(p->drain_deadline, p->params->drain_ms, STILL_MS);
}
