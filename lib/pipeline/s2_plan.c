/* s2_plan.c: dealing entries to jobs, and the steps of a job. See s2_plan.h.
 *
 *   take -> [waiting] -> job: open -> (look up -> plan) for each chunk -> ack
 *                              a failure: paused, then from the beginning; damaged: set aside
 *
 * To add a step: a value of enum s2_step, a function that enters it and one for its answer. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/progress.h"
#include "pipeline/s2_internal.h"
#include "pipeline/s7_deliver.h"

#define TAKE_BYTES   (64u << 20)
#define POLL_MS      30000 /* the queue wakes us; this is for what nobody has thought of */
#define TRY_AGAIN_MS 1000
/* Entries that were taken so often without an end are planned one at a time. A process that dies counts a
 * delivery for all that it had taken; so only the entry that is planned alone goes on counting, and those
 * that merely stood behind it are not blamed. */
#define DELIVERIES_ALONE 2
/* An entry that was begun so often without an end is set aside. */
#define DELIVERIES_MAX 20
#define FAILURES_MAX   20

static void next_chunk(struct s2_job *job);
static void take(struct pp_s2 *s2, bool others);

static void take_unref(struct s2_take *t)
{
    if (--t->refs > 0)
        return;
    pp_arena_fini(&t->arena);
    free(t);
}

/* --- the steps of a job --- */

static void job_end(struct s2_job *job)
{
    struct pp_s2 *s2 = job->s2;
    take_unref(job->take);
    job->take = NULL;
    job->step = S2_IDLE;
    pp_s2_wake(s2);
}

/* The store or the queue has failed: again in a moment, from the beginning. What lies in the entry or in the
 * records of its photos does not pass: counted, so that such entries don't hold all jobs for ever. */
static void job_pause(struct s2_job *job, const char *what, enum pp_err err)
{
    job->failures += err == PP_ECORRUPT || err == PP_EINVAL;
    pp_log(job->s2->p->log, PP_LOG_WARN, what, "batch", job->entry->batch_id, "error", pp_err_text(err),
           NULL);
    pp_arena_fini(&job->arena);
    job->step = S2_PAUSED;
    pp_timer_start(job->pause, TRY_AGAIN_MS, 0);
}

static void start_entry(struct s2_job *job);

static void resume_job(void *data)
{
    struct s2_job *job = data;
    if (job->s2->draining)
        job_end(job);
    else
        start_entry(job); /* from the beginning: what is planned already changes nothing */
}

static void ended(struct pp_req *req)
{
    struct s2_job *job = req->data;
    pp_arena_fini(&job->arena);
    if (req->err != PP_OK && req->err != PP_ENOTFOUND && !job->s2->draining)
        job_pause(job, "queue entry could not be removed", req->err);
    else
        job_end(job);
}

static void ack(struct s2_job *job)
{
    struct pp_ingest_queue *q = job->s2->p->ingest;
    job->step = S2_ACK;
    pp_arena_init(&job->arena, 1 << 20);
    job->end.ack = (struct pp_ingest_ack){.req = {.done = ended, .data = job, .arena = &job->arena},
                                          .batch_ids = &job->entry->batch_id,
                                          .n = 1};
    enum pp_err err = q->ops->ack(q, &job->end.ack);
    if (err != PP_OK)
        job_pause(job, "queue entry could not be removed", err);
}

static void poison(struct s2_job *job, const char *reason)
{
    struct pp_ingest_queue *q = job->s2->p->ingest;
    pp_log(job->s2->p->log, PP_LOG_ERROR, "queue entry set aside", "batch", job->entry->batch_id, "reason",
           reason, NULL);
    job->step = S2_POISON;
    pp_arena_fini(&job->arena);
    pp_arena_init(&job->arena, 1 << 20);
    job->end.poison = (struct pp_ingest_poison){.req = {.done = ended, .data = job, .arena = &job->arena},
                                                .batch_id = job->entry->batch_id,
                                                .reason = reason};
    enum pp_err err = q->ops->poison(q, &job->end.poison);
    if (err != PP_OK)
        job_pause(job, "queue entry could not be set aside", err);
}

static void count_answered(struct s2_job *job)
{
    struct pp_pipeline *p = job->s2->p;
    uint32_t photos = 0;

    for (size_t i = 0; i < job->plan.n; i++) {
        const struct pp_plan_item *item = &job->plan.items[i];
        for (uint32_t k = 0; k < item->n_photos && !item->repeated; k++) {
            const struct pp_outcome *o = &item->photos[k].outcome;
            if (o->kind == PP_OUTCOME_OPEN)
                continue;
            photos++;
            pp_metrics_photo(&p->metrics, o->kind, o->code, PP_METRIC_NO_TIER);
        }
    }
    if (photos > 0)
        pp_progress_add(p->progress, job->entry->batch_id, photos, pp_loop_now(p->loop));
    p->metrics.items_planned += job->plan.n;
    p->metrics.items_finished += job->plan.items_finished;
    if (job->plan.items_finished > 0)
        pp_s7_wake(p->s7);
}

static void planned(struct pp_req *req)
{
    struct s2_job *job = req->data;
    struct pp_pipeline *p = job->s2->p;

    if (req->err != PP_OK) {
        p->backlog_doubtful = true; /* it may have been written all the same */
        job_pause(job, "items could not be planned", req->err);
        return;
    }
    if (job->plan.n_backlog > 0)
        p->coordinator->ops->announce(p->coordinator, job->plan.backlog, job->plan.n_backlog);
    count_answered(job);
    bool last = job->plan.last;
    pp_arena_fini(&job->arena);
    if (last)
        ack(job);
    else
        next_chunk(job);
}

static void write_chunk(struct s2_job *job, size_t n_items)
{
    struct pp_pipeline *p = job->s2->p;
    const struct pp_ingest_entry *e = job->entry;

    if (!job->has_ahead)
        job->has_ahead = pp_entry_next(&job->reader, &job->ahead);
    if (job->reader.bad) {
        poison(job, "the entry is damaged");
        return;
    }
    job->step = S2_PLAN;
    job->plan = (struct pp_store_plan){.req = {.done = planned, .data = job, .arena = &job->arena},
                                       .client = e->client,
                                       .batch_id = e->batch_id,
                                       .refresh = e->refresh,
                                       .batch_created_at = e->created_at,
                                       .batch_items = e->n_items,
                                       .batch_photos = e->n_photos,
                                       .items = job->items,
                                       .n = n_items,
                                       .last = !job->has_ahead,
                                       .now_ms = pp_loop_wall(p->loop)};
    enum pp_err err = p->store->ops->plan(p->store, &job->plan);
    if (err != PP_OK)
        job_pause(job, "items could not be planned", err);
}

static void looked_up(struct pp_req *req)
{
    struct s2_job *job = req->data;

    if (req->err != PP_OK) {
        job_pause(job, "photos could not be looked up", req->err);
        return;
    }
    s2_chunk_decide(job);
    write_chunk(job, job->plan.n);
}

static void next_chunk(struct s2_job *job)
{
    struct pp_pipeline *p = job->s2->p;
    struct s2_chunk_size size;

    if (job->s2->draining) { /* not acked: planned again at the next start */
        job_end(job);
        return;
    }
    pp_arena_init(&job->arena, 256u << 20);
    enum pp_err err = s2_chunk_read(job, &size);
    if (err == PP_ECORRUPT) {
        poison(job, "the entry is damaged");
        return;
    }
    if (err != PP_OK) {
        job_pause(job, "items could not be read", err);
        return;
    }
    job->plan.n = size.items;
    if (size.fetchable == 0) {
        write_chunk(job, size.items);
        return;
    }
    struct pp_key *keys = pp_arena_array(&job->arena, size.fetchable, sizeof(*keys));
    for (size_t i = 0; keys && i < size.fetchable; i++)
        keys[i] = job->fetchable[i]->key;
    job->step = S2_LOOKUP;
    job->lookup = (struct pp_store_lookup){.req = {.done = looked_up, .data = job, .arena = &job->arena},
                                           .client = job->entry->client,
                                           .keys = keys,
                                           .n = size.fetchable};
    err = keys ? p->store->ops->lookup(p->store, &job->lookup) : PP_ENOMEM;
    if (err != PP_OK)
        job_pause(job, "photos could not be looked up", err);
}

static void start_entry(struct s2_job *job)
{
    job->has_ahead = false;
    if (job->entry->deliveries > DELIVERIES_MAX || job->failures > FAILURES_MAX)
        poison(job, "planning it has failed too often");
    else if (!pp_entry_open(&job->reader, job->entry->payload, job->entry->payload_n))
        poison(job, "the entry is damaged");
    else
        next_chunk(job);
}

/* --- dealing entries to jobs --- */

static bool client_busy(const struct pp_s2 *s2, const char *client)
{
    for (int i = 0; i < S2_JOBS; i++)
        if (s2->jobs[i].step != S2_IDLE && strcmp(s2->jobs[i].entry->client, client) == 0)
            return true;
    return false;
}

/* The first waiting entry whose client has no job: entries of one client stay in order. */
static struct s2_waiting *next_entry(struct pp_s2 *s2)
{
    pp_list_each (node, &s2->waiting) {
        struct s2_waiting *w = pp_container_of(node, struct s2_waiting, node);
        if (!client_busy(s2, w->entry->client))
            return w;
    }
    return NULL;
}

static size_t jobs_running(const struct pp_s2 *s2)
{
    size_t n = 0;
    for (int i = 0; i < S2_JOBS; i++)
        n += s2->jobs[i].step != S2_IDLE;
    return n;
}

static void assign(struct pp_s2 *s2)
{
    for (int i = 0; i < S2_JOBS && !s2->draining; i++) {
        struct s2_job *job = &s2->jobs[i];
        if (s2->alone && jobs_running(s2) > 0)
            return;
        struct s2_waiting *w = job->step == S2_IDLE ? next_entry(s2) : NULL;
        if (!w)
            continue;
        pp_list_remove(&s2->waiting, &w->node);
        job->take = w->take;
        job->entry = w->entry;
        job->step = S2_LOOKUP;
        job->failures = 0;
        start_entry(job);
    }
    if (s2->draining)
        return;
    if (s2->waiting.n < S2_JOBS)
        take(s2, false);
    else if (jobs_running(s2) <
             S2_JOBS) /* what waits is of clients that have a job: is there anybody else? */
        take(s2, true);
}

static void take_failed(struct pp_s2 *s2, enum pp_err err)
{
    pp_log(s2->p->log, PP_LOG_WARN, "ingest queue can't be read", "error", pp_err_text(err), NULL);
    if (!s2->draining)
        pp_timer_sooner(s2->timer, TRY_AGAIN_MS);
}

static void taken(struct pp_req *req)
{
    struct pp_s2 *s2 = req->data;
    struct s2_take *t = s2->taking;
    bool some = req->err == PP_OK && t->r.n > 0;

    s2->taking = NULL;
    if (req->err != PP_OK)
        take_failed(s2, req->err);
    if (some)
        s2->alone = false;
    for (size_t i = 0; some && i < t->r.n; i++) {
        s2->alone |= t->r.entries[i].deliveries > DELIVERIES_ALONE;
        struct s2_waiting *w = pp_arena_alloc(&t->arena, sizeof(*w));
        if (!w)
            break; /* comes again after a restart; the arena has no ceiling that this could meet */
        w->take = t;
        w->entry = &t->r.entries[i];
        t->refs++;
        pp_list_push(&s2->waiting, &w->node);
    }
    take_unref(t);
    bool again = s2->again || some;
    s2->again = false;
    if (again)
        assign(s2);
}

/* Clients that have a job or wait for one, copied: they may be gone before the take is done. False: out of
 * memory. */
static bool list_clients(const struct pp_s2 *s2, struct s2_take *t)
{
    size_t n = 0;
    bool ok = true;
    const char **skip = pp_arena_array(&t->arena, S2_JOBS + s2->waiting.n, sizeof(*skip));

    if (!skip)
        return false;
    for (int i = 0; i < S2_JOBS; i++)
        if (s2->jobs[i].step != S2_IDLE)
            ok = (skip[n++] = pp_arena_strdup(&t->arena, s2->jobs[i].entry->client)) && ok;
    pp_list_each (node, &s2->waiting) {
        const struct s2_waiting *w = pp_container_of(node, struct s2_waiting, node);
        ok = (skip[n++] = pp_arena_strdup(&t->arena, w->entry->client)) && ok;
    }
    t->r.skip = skip;
    t->r.n_skip = n;
    t->r.limit = S2_JOBS - jobs_running(s2);
    return ok;
}

/* others: entries of clients that have none here yet. */
static void take(struct pp_s2 *s2, bool others)
{
    struct pp_ingest_queue *q = s2->p->ingest;

    if (s2->taking) {
        s2->again = true;
        return;
    }
    struct s2_take *t = calloc(1, sizeof(*t));
    if (!t) {
        take_failed(s2, PP_ENOMEM);
        return;
    }
    pp_arena_init(&t->arena, SIZE_MAX);
    t->refs = 1;
    t->r = (struct pp_ingest_take){.req = {.done = taken, .data = s2, .arena = &t->arena},
                                   .consumer = s2->p->params->worker,
                                   .limit = s2->alone ? 1 : S2_JOBS,
                                   .max_bytes = TAKE_BYTES};
    s2->taking = t;
    enum pp_err err = others && !list_clients(s2, t) ? PP_ENOMEM : q->ops->take(q, &t->r);
    if (err != PP_OK) {
        s2->taking = NULL;
        take_unref(t);
        take_failed(s2, err);
    }
}

void pp_s2_wake(struct pp_s2 *s2)
{
    if (!s2->draining)
        assign(s2);
}

static void look(void *data)
{
    pp_s2_wake(data);
}

struct pp_s2 *pp_s2_open(struct pp_pipeline *p)
{
    struct pp_s2 *s2 = calloc(1, sizeof(*s2));
    if (!s2)
        return NULL;
    s2->p = p;
    s2->alone = true;
    pp_list_init(&s2->waiting);
    s2->timer = pp_timer_open(p->loop, look, s2);
    bool ok = s2->timer != NULL;
    for (int i = 0; i < S2_JOBS; i++) {
        s2->jobs[i].s2 = s2;
        s2->jobs[i].pause = pp_timer_open(p->loop, resume_job, &s2->jobs[i]);
        ok = ok && s2->jobs[i].pause;
    }
    if (!ok) {
        pp_s2_close(s2);
        return NULL;
    }
    pp_timer_start(s2->timer, 0, POLL_MS);
    p->ingest->ops->watch(p->ingest, look, s2);
    return s2;
}

void pp_s2_close(struct pp_s2 *s2)
{
    struct pp_node *node;

    if (!s2)
        return;
    assert(pp_s2_busy(s2) == 0);
    s2->p->ingest->ops->watch(s2->p->ingest, NULL, NULL);
    while ((node = pp_list_pop(&s2->waiting)))
        take_unref(pp_container_of(node, struct s2_waiting, node)->take);
    for (int i = 0; i < S2_JOBS; i++)
        pp_timer_close(s2->jobs[i].pause);
    pp_timer_close(s2->timer);
    free(s2);
}

void pp_s2_drain(struct pp_s2 *s2)
{
    s2->draining = true;
    s2->p->ingest->ops->watch(s2->p->ingest, NULL, NULL); /* others are told */
    pp_timer_stop(s2->timer);
    for (int i = 0; i < S2_JOBS; i++) {
        if (s2->jobs[i].step != S2_PAUSED)
            continue;
        pp_timer_stop(s2->jobs[i].pause);
        job_end(&s2->jobs[i]);
    }
}

size_t pp_s2_busy(const struct pp_s2 *s2)
{
    return (s2->taking != NULL) + jobs_running(s2);
}
