/* fleet.c: see fleet.h.
 *
 * The backlog index. A worker reads it once, when it starts; from then on announcements keep it up to date.
 * The leader sees to it that the index is complete: after the coordinator has lost its data, or
 * announcements, it reads the store's backlog, which is the truth, announces it to all, and says so. It also
 * does so every REBUILD_MS (less often where that takes long), because something may have gone missing
 * unnoticed: what a process has written into the store and not yet announced when it dies, or does not know
 * that it has written. So long a task may wait for no other reason (I10).
 *
 * The data set. What the coordinator does not know may have happened all the same: a new data set is only
 * believed to be the first if the store has never seen one (pp_store_generation). */
#include "pipeline/fleet.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "pipeline/lease.h"
#include "pipeline/routes.h"
#include "pipeline/s3_claim.h"
#include "pipeline/s7_deliver.h"

#define TICK_MS       250
#define MEET_MS       1000 /* workers that start together hear of each other before they take any client */
#define CHECK_MS      30000
#define REBUILD_MS    60000
#define REBUILD_SHARE 50 /* reading the backlog takes at most one part in so many of the time */
#define TRY_AGAIN_MS  1000
#define ANNOUNCE      1000
#define TOLD_MS       1000 /* of batches that move: once in so long, */
#define TOLD_MAX      64   /* and of so many; of the others when their items finish */

/* One request at a time of each kind. */
struct ask {
    struct pp_fleet *fleet;
    bool busy;
    int64_t next_ms;
    struct pp_arena arena;
    union {
        struct pp_coord_backlog index;
        struct pp_store_backlog backlog;
        struct pp_store_generation generation;
    } r;
};

struct pp_fleet {
    struct pp_pipeline *p;
    struct pp_timer *timer;
    struct ask index, backlog, generation;
    struct pp_lease *lease; /* to be the one that does what only one should; NULL without the cron role */
    bool stopped, fed;      /* fed: a worker has read the index */
    bool incomplete;        /* the index lacks something */
    int64_t opened_ms, rebuilding_ms, rebuilt_ms;
    char dataset[64]; /* the one that the store knows of */
    int64_t told_ms;
    char told[TOLD_MAX][PP_BATCH_ID_MAX]; /* batches, since then */
    size_t n_told;
};

static int64_t now_of(const struct pp_fleet *f)
{
    return pp_loop_now(f->p->loop);
}

static struct pp_req begin(struct ask *a, void (*done)(struct pp_req *))
{
    pp_arena_init(&a->arena, SIZE_MAX); /* a row for each client with something to do */
    return (struct pp_req){.done = done, .data = a, .arena = &a->arena};
}

static void submitted(struct ask *a, enum pp_err err)
{
    a->busy = err == PP_OK;
    if (err == PP_OK)
        return;
    pp_arena_fini(&a->arena);
    a->next_ms = now_of(a->fleet) + TRY_AGAIN_MS;
}

static void end(struct ask *a, int64_t next_ms)
{
    a->busy = false;
    a->next_ms = now_of(a->fleet) + next_ms;
    pp_arena_fini(&a->arena);
}

bool pp_fleet_leads(const struct pp_pipeline *p)
{
    return p->params->sole_worker || (p->fleet && pp_lease_leads(p->fleet->lease));
}

/* --- the data set --- */

static void named(struct pp_req *req)
{
    struct ask *a = req->data;
    struct pp_fleet *f = a->fleet;

    if (req->err == PP_OK) {
        snprintf(f->dataset, sizeof(f->dataset), "%s", a->r.generation.dataset);
        if (a->r.generation.first)
            f->p->coordinator->ops->first(f->p->coordinator, f->dataset);
        else
            f->incomplete = true;
    }
    end(a, req->err == PP_OK ? 0 : TRY_AGAIN_MS);
}

static void name_dataset(struct pp_fleet *f)
{
    struct pp_task_store *store = f->p->store;
    const char *dataset = f->p->coordinator->ops->dataset(f->p->coordinator);

    if (!dataset[0] || strcmp(dataset, f->dataset) == 0 || !store->ops->generation)
        return;
    f->generation.r.generation = (struct pp_store_generation){.req = begin(&f->generation, named)};
    f->generation.r.generation.dataset = pp_arena_strdup(&f->generation.arena, dataset);
    submitted(&f->generation, f->generation.r.generation.dataset
                                  ? store->ops->generation(store, &f->generation.r.generation)
                                  : PP_ENOMEM);
}

/* --- the backlog index --- */

static void index_read(struct pp_req *req)
{
    struct ask *a = req->data;
    struct pp_fleet *f = a->fleet;
    const struct pp_coord_backlog *r = &a->r.index;

    if (req->err != PP_OK) {
        end(a, TRY_AGAIN_MS);
        return;
    }
    if (!f->fed && f->p->s3 && !r->rebuilt)
        pp_s3_backlog(f->p->s3, r->rows, r->n);
    f->fed = true;
    f->incomplete = !r->complete;
    end(a, CHECK_MS);
}

static void ask_index(struct pp_fleet *f, bool rebuilt)
{
    f->index.r.index = (struct pp_coord_backlog){.req = begin(&f->index, index_read), .rebuilt = rebuilt};
    submitted(&f->index, f->p->coordinator->ops->backlog(f->p->coordinator, &f->index.r.index));
}

static void backlog_read(struct pp_req *req)
{
    struct ask *a = req->data;
    struct pp_fleet *f = a->fleet;
    struct pp_coordinator *coord = f->p->coordinator;
    const struct pp_store_backlog *r = &a->r.backlog;

    if (req->err != PP_OK) {
        pp_log(f->p->log, PP_LOG_WARN, "waiting tasks could not be read", "error", pp_err_text(req->err),
               NULL);
        end(a, TRY_AGAIN_MS);
        return;
    }
    for (size_t i = 0; i < r->n; i++)
        r->rows[i].known = true;
    for (size_t i = 0; i < r->n; i += ANNOUNCE)
        coord->ops->announce(coord, r->rows + i, r->n - i < ANNOUNCE ? r->n - i : ANNOUNCE);
    f->rebuilt_ms = now_of(f);
    f->incomplete = f->p->backlog_doubtful = false;
    end(a, TRY_AGAIN_MS);
    if (!f->index.busy && !f->stopped)
        ask_index(f, true);
}

static int64_t rebuild_after_ms(const struct pp_fleet *f)
{
    int64_t ms = (f->rebuilt_ms - f->rebuilding_ms) * REBUILD_SHARE;
    return ms > REBUILD_MS ? ms : REBUILD_MS;
}

static void rebuild(struct pp_fleet *f)
{
    f->rebuilding_ms = now_of(f);
    f->backlog.r.backlog = (struct pp_store_backlog){.req = begin(&f->backlog, backlog_read)};
    submitted(&f->backlog, f->p->store->ops->backlog(f->p->store, &f->backlog.r.backlog));
}

/* --- notices --- */

static void on_notice(void *data, const struct pp_notice *notice)
{
    struct pp_fleet *f = data;

    switch (notice->kind) {
    case PP_NOTICE_CLIENT:
        if (f->p->s3)
            pp_s3_client_stale(f->p->s3, notice->a);
        break;
    case PP_NOTICE_ROUTE:
    case PP_NOTICE_SAMPLES:
        if (f->p->routes)
            pp_routes_noticed(f->p->routes, notice);
        break;
    case PP_NOTICE_BATCH: pp_s7_batch_heard(f->p->s7, notice->a); break;
    case PP_NOTICE_WEBHOOK: pp_s7_webhooks_changed(f->p->s7); break;
    case PP_NOTICE_KINDS: break;
    }
}

void pp_fleet_batch_moved(struct pp_fleet *f, const char *batch_id)
{
    const struct pp_notice notice = {.kind = PP_NOTICE_BATCH, .a = batch_id, .b = ""};

    if (now_of(f) - f->told_ms >= TOLD_MS) {
        f->told_ms = now_of(f);
        f->n_told = 0;
    }
    for (size_t i = 0; i < f->n_told; i++)
        if (strcmp(f->told[i], batch_id) == 0)
            return;
    if (f->n_told == TOLD_MAX)
        return;
    snprintf(f->told[f->n_told++], PP_BATCH_ID_MAX, "%s", batch_id);
    f->p->coordinator->ops->notify(f->p->coordinator, &notice, 1);
}

/* --- by the clock --- */

static bool due(const struct pp_fleet *f, const struct ask *a)
{
    return !a->busy && now_of(f) >= a->next_ms;
}

static void tick(void *data)
{
    struct pp_fleet *f = data;
    if ((f->p->roles & (PP_ROLE_CRON | PP_ROLE_WORKER)) && due(f, &f->generation))
        name_dataset(f);
    if (f->p->s3 && now_of(f) - f->opened_ms >= MEET_MS)
        pp_s3_begin(f->p->s3);
    bool leads = pp_lease_leads(f->lease);
    if ((f->p->s3 && !f->fed) || leads) {
        if (due(f, &f->index))
            ask_index(f, false);
    }
    bool doubt = f->incomplete || f->p->backlog_doubtful || now_of(f) - f->rebuilt_ms >= rebuild_after_ms(f);
    if (leads && doubt && due(f, &f->backlog))
        rebuild(f);
}

struct pp_fleet *pp_fleet_open(struct pp_pipeline *p)
{
    struct pp_fleet *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->p = p;
    f->opened_ms = f->rebuilding_ms = f->rebuilt_ms = pp_loop_now(p->loop);
    f->index.fleet = f->backlog.fleet = f->generation.fleet = f;
    f->timer = pp_timer_open(p->loop, tick, f);
    if (p->roles & PP_ROLE_CRON)
        f->lease = pp_lease_open(p, "cron");
    if (!f->timer || (!f->lease && (p->roles & PP_ROLE_CRON))) {
        pp_timer_close(f->timer);
        free(f);
        return NULL;
    }
    pp_timer_start(f->timer, 0, TICK_MS);
    p->coordinator->ops->watch_notices(p->coordinator, on_notice, f);
    return f;
}

void pp_fleet_stop(struct pp_fleet *f)
{
    if (!f || f->stopped)
        return;
    f->stopped = true;
    f->p->coordinator->ops->watch_notices(f->p->coordinator, NULL, NULL);
    pp_timer_stop(f->timer);
    pp_lease_stop(f->lease);
}

size_t pp_fleet_busy(const struct pp_fleet *f)
{
    return f ? pp_lease_busy(f->lease) + f->index.busy + f->backlog.busy + f->generation.busy : 0;
}

void pp_fleet_close(struct pp_fleet *f)
{
    if (!f)
        return;
    assert(pp_fleet_busy(f) == 0);
    f->p->coordinator->ops->watch_notices(f->p->coordinator, NULL, NULL);
    pp_timer_close(f->timer);
    pp_lease_close(f->lease);
    free(f);
}
