/* plan.c: assigns entries of the ingest queue to jobs, and takes each job through its steps.
 *
 *   take -> [waiting] -> job: open -> (known.c: ask, look up -> plan) for each chunk -> ack
 *                              a failure: paused, then from the beginning; damaged: set aside
 *
 * An operator puts an entry that is set aside back into the queue, as it was or given up. Of an
 * entry that is given up, the items that can be read are planned, and their photos fail
 * (chunk.c).
 *
 * To add a step, add a value of enum plan_step, a function that enters the step, and one that
 * receives its answer. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/plan/plan_internal.h"

#define TAKE_BYTES (64u << 20)
/* The planner looks into the queue at least this often, in case a wake-up of the queue was lost. */
#define POLL_MS      30000
#define TRY_AGAIN_MS 1000
/* An entry that was delivered more often than this and never acked is planned alone. While several
 * entries are planned and the process dies, the queue counts a delivery for each of them, although
 * only one may have caused the crash. An entry that is planned alone is the only one counted. */
#define DELIVERIES_ALONE 2
/* An entry that was delivered more often than this and never acked is set aside. */
#define DELIVERIES_MAX 20
#define FAILURES_MAX   20

static void next_chunk(struct plan_job *job);
static void take_entries(struct pp_planner *planner, bool others);

static void take_unref(struct plan_take *t)
{
    pp_assert(t->refs > 0, "an answer of the queue is released twice");
    if (--t->refs > 0)
        return;
    pp_arena_fini(&t->arena);
    free(t);
}

/* --- the steps of a job --- */

static void end_job(struct plan_job *job)
{
    struct pp_planner *planner = job->planner;

    pp_assert(job->step != PLAN_IDLE && job->take, "a job ends that was not running");
    take_unref(job->take);
    job->take = NULL;
    job->step = PLAN_IDLE;
    planner->failure = PP_OK;
    pp_planner_wake(planner);
}

/* The store or the queue has failed: pauses the job, and then starts its entry again. Errors that
 * lie in the entry or in the records of its photos would come back each time: they are counted, and
 * after FAILURES_MAX of them the entry is set aside. */
static void pause_job(struct plan_job *job, const char *what, enum pp_err err)
{
    job->planner->failure = err;
    job->failures += err == PP_ECORRUPT || err == PP_EINVAL;
    pp_log(job->planner->o.log, PP_LOG_WARN, what, "batch", job->entry->batch_id, "error", pp_err_text(err),
           NULL);
    pp_arena_fini(&job->arena);
    job->step = PLAN_PAUSED;
    pp_timer_start(job->pause, TRY_AGAIN_MS, 0);
}

static void start_entry(struct plan_job *job);

static void resume_job(void *data)
{
    struct plan_job *job = data;
    if (job->planner->draining)
        end_job(job);
    else
        start_entry(job); /* Photos that are planned already are not planned again. */
}

static void on_entry_gone(struct pp_req *req)
{
    struct plan_job *job = req->data;

    pp_assert(job->step == PLAN_ACK || job->step == PLAN_POISON, "an answer for a job in another step");
    pp_arena_fini(&job->arena);
    if (req->err != PP_OK && req->err != PP_ENOTFOUND && !job->planner->draining)
        pause_job(job, "queue entry not removed", req->err);
    else
        end_job(job);
}

/* Returns the request that removes the entry from the queue: ack, or poison for an entry that is
 * set aside. */
static struct pp_req last_request(struct plan_job *job, enum plan_step step)
{
    job->step = step;
    pp_arena_fini(&job->arena);
    pp_arena_init(&job->arena, 1 << 20);
    return (struct pp_req){.done = on_entry_gone, .data = job, .arena = &job->arena};
}

static void ack(struct plan_job *job)
{
    struct pp_ingest_queue *q = job->planner->o.ingest;
    job->last.ack = (struct pp_ingest_ack){
        .req = last_request(job, PLAN_ACK), .batch_ids = &job->entry->batch_id, .n = 1};
    enum pp_err err = q->ops->ack(q, &job->last.ack);
    if (err != PP_OK)
        pause_job(job, "queue entry not removed", err);
}

static void poison(struct plan_job *job, const char *reason)
{
    struct pp_ingest_queue *q = job->planner->o.ingest;
    pp_log(job->planner->o.log, PP_LOG_ERROR, "queue entry set aside", "batch", job->entry->batch_id,
           "reason", reason, NULL);
    job->last.poison = (struct pp_ingest_poison){.req = last_request(job, PLAN_POISON),
                                                 .batch_id = job->entry->batch_id,
                                                 .reason = reason,
                                                 .date_ms = pp_loop_date(job->planner->o.loop)};
    enum pp_err err = q->ops->poison(q, &job->last.poison);
    if (err != PP_OK)
        pause_job(job, "queue entry not set aside", err);
}

static void count_answered(struct plan_job *job)
{
    const struct pp_planner_options *o = &job->planner->o;
    uint32_t photos = 0;

    for (size_t i = 0; i < job->plan.n; i++) {
        const struct pp_plan_item *item = &job->plan.items[i];
        for (uint32_t k = 0; k < item->n_photos && !item->repeated; k++) {
            const struct pp_outcome *out = &item->photos[k].outcome;
            if (out->kind == PP_OUTCOME_OPEN)
                continue;
            photos++;
            pp_metrics_photo(o->metrics, out->kind, out->code, PP_METRIC_NO_TIER);
        }
    }
    if (photos > 0)
        pp_progress_add(o->progress, job->entry->batch_id, photos, pp_loop_now(o->loop));
    o->metrics->items_planned += job->plan.n;
    o->metrics->items_finished += job->plan.items_finished;
    if (job->plan.items_finished > 0)
        o->on_items_finished(o->data);
}

static void on_planned(struct pp_req *req)
{
    struct plan_job *job = req->data;
    const struct pp_planner_options *o = &job->planner->o;

    pp_assert(job->step == PLAN_WRITE, "an answer for a job in another step");
    if (req->err != PP_OK) {
        o->on_backlog_doubtful(o->data);
        pause_job(job, "items not planned", req->err);
        return;
    }
    job->planner->failure = PP_OK;
    if (job->plan.n_backlog > 0)
        o->coordinator->ops->announce(o->coordinator, job->plan.backlog, job->plan.n_backlog);
    count_answered(job);
    plan_known_check(job);
}

static void chunk_written(struct plan_job *job)
{
    if (job->plan.last) {
        ack(job);
        return;
    }
    pp_arena_fini(&job->arena);
    next_chunk(job);
}

static void write_chunk(struct plan_job *job)
{
    const struct pp_planner_options *o = &job->planner->o;
    const struct pp_ingest_entry *e = job->entry;

    job->step = PLAN_WRITE;
    job->plan = (struct pp_store_plan){.req = {.done = on_planned, .data = job, .arena = &job->arena},
                                       .client = e->client,
                                       .batch_id = e->batch_id,
                                       .label = e->label,
                                       .refresh = e->refresh,
                                       .batch_created_at = e->created_at,
                                       .batch_items = job->batch_items,
                                       .batch_photos = job->batch_photos,
                                       .batch_rejected = e->n_rejected,
                                       .rejected = job->rejected,
                                       .n_rejected = job->n_rejected,
                                       .items = job->items,
                                       .n = job->n_items,
                                       .last = !job->has_ahead,
                                       .date_ms = pp_loop_date(o->loop)};
    enum pp_err err = o->store->ops->plan(o->store, &job->plan);
    if (err != PP_OK)
        pause_job(job, "items not planned", err);
}

static void next_chunk(struct plan_job *job)
{
    struct plan_chunk_size size;

    if (job->planner->draining) { /* The entry is not acked, so the next process plans it again. */
        end_job(job);
        return;
    }
    pp_arena_init(&job->arena, 256u << 20);
    enum pp_err err = plan_chunk_read(job, &size);
    if (err == PP_ECORRUPT) {
        poison(job, "the entry is damaged");
        return;
    }
    if (err != PP_OK) {
        pause_job(job, "items not read", err);
        return;
    }
    job->n_items = size.items;
    job->n_fetchable = size.fetchable;
    job->ask.n = 0;
    if (size.fetchable == 0)
        write_chunk(job);
    else
        plan_known_find(job);
}

/* Starts an entry that is given up: the part of it that can be read. */
static void start_given_up(struct plan_job *job)
{
    const struct pp_ingest_entry *e = job->entry;
    const struct pp_entry_readable part = pp_entry_measure(e->payload, e->payload_n);

    job->batch_items = part.items;
    job->batch_photos = part.photos;
    if (part.items < e->n_items)
        pp_log(job->planner->o.log, PP_LOG_ERROR, "items lost: their entry is damaged and given up", "batch",
               e->batch_id, "items", PP_LOG_INT((int64_t)(e->n_items - part.items)), NULL);
    job->reader = (struct pp_entry_reader){.version = PP_ENTRY_VERSION};
    bool open = part.bytes == 0 || pp_entry_open(&job->reader, e->payload, part.bytes);
    pp_assert(open, "a part of an entry can't be opened that was just read");
    next_chunk(job);
}

static void start_entry(struct plan_job *job)
{
    job->has_ahead = false;
    job->batch_items = job->entry->n_items;
    job->batch_photos = job->entry->n_photos;
    if (job->entry->deliveries > DELIVERIES_MAX || job->failures > FAILURES_MAX)
        poison(job, "planning it has failed too often");
    else if (job->entry->given_up)
        start_given_up(job);
    else if (!pp_entry_open(&job->reader, job->entry->payload, job->entry->payload_n))
        poison(job, "the entry is damaged");
    else
        next_chunk(job);
}

/* --- assigning entries to jobs --- */

static bool client_busy(const struct pp_planner *planner, const char *client)
{
    for (int i = 0; i < PLAN_JOBS; i++)
        if (planner->jobs[i].step != PLAN_IDLE && strcmp(planner->jobs[i].entry->client, client) == 0)
            return true;
    return false;
}

/* Returns the first waiting entry whose client has no job; NULL: none. So the entries of one client
 * are planned in order. */
static struct plan_waiting *next_entry(struct pp_planner *planner)
{
    pp_list_each (node, &planner->waiting) {
        struct plan_waiting *w = pp_container_of(node, struct plan_waiting, node);
        if (!client_busy(planner, w->entry->client))
            return w;
    }
    return NULL;
}

static size_t jobs_running(const struct pp_planner *planner)
{
    size_t n = 0;
    for (int i = 0; i < PLAN_JOBS; i++)
        n += planner->jobs[i].step != PLAN_IDLE;
    return n;
}

static void assign_jobs(struct pp_planner *planner)
{
    for (int i = 0; i < PLAN_JOBS && !planner->draining; i++) {
        struct plan_job *job = &planner->jobs[i];
        if (planner->alone && jobs_running(planner) > 0)
            return;
        struct plan_waiting *w = job->step == PLAN_IDLE ? next_entry(planner) : NULL;
        if (!w)
            continue;
        pp_list_remove(&planner->waiting, &w->node);
        pp_assert(!job->take, "a job starts that still has an entry");
        job->take = w->take;
        job->entry = w->entry;
        job->step = PLAN_LOOKUP;
        job->failures = job->asks_failed = 0;
        start_entry(job);
    }
    if (planner->draining)
        return;
    if (planner->waiting.n < PLAN_JOBS)
        take_entries(planner, false);
    else if (jobs_running(planner) < PLAN_JOBS) /* the clients of all waiting entries have jobs */
        take_entries(planner, true);
}

static void on_take_failed(struct pp_planner *planner, enum pp_err err)
{
    planner->failure = err;
    pp_log(planner->o.log, PP_LOG_WARN, "ingest queue unreadable", "error", pp_err_text(err), NULL);
    if (!planner->draining)
        pp_timer_sooner(planner->timer, TRY_AGAIN_MS);
}

static void on_taken(struct pp_req *req)
{
    struct pp_planner *planner = req->data;
    struct plan_take *t = planner->taking;
    bool some = req->err == PP_OK && t->r.n > 0;

    planner->taking = NULL;
    if (req->err != PP_OK)
        on_take_failed(planner, req->err);
    else if (jobs_running(planner) == 0)
        planner->failure = PP_OK;
    if (some)
        planner->alone = false;
    for (size_t i = 0; some && i < t->r.n; i++) {
        planner->alone |= t->r.entries[i].deliveries > DELIVERIES_ALONE;
        struct plan_waiting *w = pp_arena_alloc(&t->arena, sizeof(*w));
        if (!w)
            break; /* out of memory; the queue delivers this entry again after a restart */
        w->take = t;
        w->entry = &t->r.entries[i];
        t->refs++;
        pp_list_push(&planner->waiting, &w->node);
    }
    take_unref(t);
    bool again = planner->again || some;
    planner->again = false;
    if (again)
        assign_jobs(planner);
}

/* Fills t->r.skip with the names of the clients that have a job or a waiting entry. The names are
 * copies, because the jobs may end before the answer arrives. Returns false when out of memory. */
static bool list_clients(const struct pp_planner *planner, struct plan_take *t)
{
    size_t n = 0;
    bool ok = true;
    const char **skip = pp_arena_array(&t->arena, PLAN_JOBS + planner->waiting.n, sizeof(*skip));

    if (!skip)
        return false;
    for (int i = 0; i < PLAN_JOBS; i++)
        if (planner->jobs[i].step != PLAN_IDLE)
            ok = (skip[n++] = pp_arena_strdup(&t->arena, planner->jobs[i].entry->client)) && ok;
    pp_list_each (node, &planner->waiting) {
        const struct plan_waiting *w = pp_container_of(node, struct plan_waiting, node);
        ok = (skip[n++] = pp_arena_strdup(&t->arena, w->entry->client)) && ok;
    }
    pp_assert(n <= PLAN_JOBS + planner->waiting.n, "more clients than jobs and entries");
    t->r.skip = skip;
    t->r.n_skip = n;
    t->r.limit = PLAN_JOBS - jobs_running(planner);
    return ok;
}

/* Takes entries from the queue. If `others` is true, takes only entries of clients that have
 * neither a job nor a waiting entry. */
static void take_entries(struct pp_planner *planner, bool others)
{
    struct pp_ingest_queue *q = planner->o.ingest;

    if (planner->taking) {
        planner->again = true;
        return;
    }
    struct plan_take *t = calloc(1, sizeof(*t));
    if (!t) {
        on_take_failed(planner, PP_ENOMEM);
        return;
    }
    pp_arena_init(&t->arena, SIZE_MAX);
    t->refs = 1;
    t->r = (struct pp_ingest_take){.req = {.done = on_taken, .data = planner, .arena = &t->arena},
                                   .consumer = planner->o.params->worker,
                                   .limit = planner->alone ? 1 : PLAN_JOBS,
                                   .max_bytes = TAKE_BYTES};
    planner->taking = t;
    enum pp_err err = others && !list_clients(planner, t) ? PP_ENOMEM : q->ops->take(q, &t->r);
    if (err != PP_OK) {
        planner->taking = NULL;
        take_unref(t);
        on_take_failed(planner, err);
    }
}

void pp_planner_wake(struct pp_planner *planner)
{
    if (!planner->draining)
        assign_jobs(planner);
}

static void on_poll(void *data)
{
    pp_planner_wake(data);
}

static const struct plan_steps steps = {.write = write_chunk, .written = chunk_written, .failed = pause_job};

struct pp_planner *pp_planner_open(const struct pp_planner_options *options)
{
    pp_assert(options->store && options->ingest && options->coordinator && options->routes &&
                  options->on_items_finished && options->on_backlog_doubtful,
              "a planner lacks an option");
    struct pp_planner *planner = calloc(1, sizeof(*planner));
    if (!planner)
        return NULL;
    planner->o = *options;
    planner->steps = &steps;
    planner->alone = true;
    pp_list_init(&planner->waiting);
    planner->timer = pp_timer_open(options->loop, on_poll, planner);
    bool ok = planner->timer != NULL;
    for (int i = 0; i < PLAN_JOBS; i++) {
        planner->jobs[i].planner = planner;
        planner->jobs[i].pause = pp_timer_open(options->loop, resume_job, &planner->jobs[i]);
        ok = ok && planner->jobs[i].pause;
    }
    if (!ok) {
        pp_planner_close(planner);
        return NULL;
    }
    pp_timer_start(planner->timer, 0, POLL_MS);
    options->ingest->ops->watch(options->ingest, on_poll, planner);
    return planner;
}

void pp_planner_close(struct pp_planner *planner)
{
    struct pp_node *node;

    if (!planner)
        return;
    pp_assert(pp_planner_busy(planner) == 0, "a planner is closed while jobs run");
    planner->o.ingest->ops->watch(planner->o.ingest, NULL, NULL);
    while ((node = pp_list_pop(&planner->waiting)))
        take_unref(pp_container_of(node, struct plan_waiting, node)->take);
    for (int i = 0; i < PLAN_JOBS; i++)
        pp_timer_close(planner->jobs[i].pause);
    pp_timer_close(planner->timer);
    free(planner);
}

void pp_planner_drain(struct pp_planner *planner)
{
    planner->draining = true;
    /* From now on, other processes take the entries. */
    planner->o.ingest->ops->watch(planner->o.ingest, NULL, NULL);
    pp_timer_stop(planner->timer);
    for (int i = 0; i < PLAN_JOBS; i++) {
        if (planner->jobs[i].step != PLAN_PAUSED)
            continue;
        pp_timer_stop(planner->jobs[i].pause);
        end_job(&planner->jobs[i]);
    }
}

enum pp_err pp_planner_failure(const struct pp_planner *planner)
{
    return planner->failure;
}

size_t pp_planner_busy(const struct pp_planner *planner)
{
    return (planner->taking != NULL) + jobs_running(planner);
}
