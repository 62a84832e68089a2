/* known.c: finds out what is known of a chunk's photos. Asks the filter of known photos first, if
 * there is one; only photos that it does not call absent are looked up in the store.
 *
 *   plan_known_find -> ask -> (absent: decided)  -> look up -> decide -> steps->write()
 *                          \ all are absent: ------------------------/
 *   plan_known_check, after the write -> ask again, if the write took long -> steps->written()
 *
 * Invariant: before a photo is written to the store its key is in the filter, or the filter was
 * discarded. So a filter that can't be asked is discarded in the end: planning goes on without it.
 * If that fails, too, the job waits. port/filter.h says why a late write asks again. */
#include "core/filter.h"
#include "pipeline/plan/plan_internal.h"

/* If a job's requests to the filter have failed this often in a row, the job discards the
 * filter. */
#define ASKS_MAX 3

static void look_up(struct plan_job *job);

static void on_looked_up(struct pp_req *req)
{
    struct plan_job *job = req->data;

    pp_assert(job->step == PLAN_LOOKUP, "an answer for a job in another step");
    if (req->err != PP_OK) {
        job->planner->steps->failed(job, "photos not looked up", req->err);
        return;
    }
    plan_chunk_decide(job);
    job->planner->steps->write(job);
}

/* Looks up the photos in job->fetchable. */
static void look_up(struct plan_job *job)
{
    const struct pp_planner_options *o = &job->planner->o;
    struct pp_key *keys = pp_arena_array(&job->arena, job->n_fetchable, sizeof(*keys));

    job->step = PLAN_LOOKUP;
    for (size_t i = 0; keys && i < job->n_fetchable; i++)
        keys[i] = job->fetchable[i]->key;
    job->lookup = (struct pp_store_lookup){.req = {.done = on_looked_up, .data = job, .arena = &job->arena},
                                           .client = job->entry->client,
                                           .keys = keys,
                                           .n = job->n_fetchable};
    enum pp_err err = keys ? o->store->ops->lookup(o->store, &job->lookup) : PP_ENOMEM;
    if (err != PP_OK)
        job->planner->steps->failed(job, "photos not looked up", err);
}

/* --- the filter --- */

static void on_discarded(struct pp_req *req)
{
    struct plan_job *job = req->data;

    pp_assert(job->step == PLAN_DISCARD, "an answer for a job in another step");
    if (req->err != PP_OK)
        job->planner->steps->failed(job, "filter of known photos not discarded", req->err);
    else if (job->written)
        job->planner->steps->written(job);
    else
        look_up(job);
}

static void discard(struct plan_job *job)
{
    struct pp_filter *filter = job->planner->o.filter;

    job->step = PLAN_DISCARD;
    job->asked_ms = pp_loop_now(job->planner->o.loop);
    job->discard =
        (struct pp_filter_discard){.req = {.done = on_discarded, .data = job, .arena = &job->arena}};
    enum pp_err err = filter->ops->discard(filter, &job->discard);
    if (err != PP_OK)
        job->planner->steps->failed(job, "filter of known photos not discarded", err);
}

static void ask_failed(struct plan_job *job, enum pp_err err)
{
    if (++job->asks_failed < ASKS_MAX) {
        job->planner->steps->failed(job, "filter of known photos not asked", err);
        return;
    }
    pp_log(job->planner->o.log, PP_LOG_WARN, "filter of known photos discarded", "error", pp_err_text(err),
           NULL);
    discard(job);
}

static void count_answers(struct plan_job *job)
{
    uint64_t *count = job->planner->o.metrics->filter_lookups;

    for (size_t i = 0; i < job->ask.n; i++)
        count[!job->ask.complete   ? PP_FILTER_UNKNOWN
              : job->ask.absent[i] ? PP_FILTER_ABSENT
                                   : PP_FILTER_PRESENT]++;
}

static void on_asked(struct pp_req *req)
{
    struct plan_job *job = req->data;

    pp_assert(job->step == PLAN_ASK, "an answer for a job in another step");
    if (req->err != PP_OK) {
        ask_failed(job, req->err);
        return;
    }
    job->asks_failed = 0;
    if (job->written) {
        job->planner->steps->written(job);
        return;
    }
    count_answers(job);
    if (job->ask.complete)
        plan_chunk_absent(job, job->ask.absent);
    if (job->n_fetchable > 0)
        look_up(job);
    else
        job->planner->steps->write(job);
}

static void ask(struct plan_job *job)
{
    struct pp_filter *filter = job->planner->o.filter;

    job->step = PLAN_ASK;
    job->asked_ms = pp_loop_now(job->planner->o.loop);
    job->ask.req = (struct pp_req){.done = on_asked, .data = job, .arena = &job->arena};
    enum pp_err err = filter->ops->ask(filter, &job->ask);
    if (err != PP_OK)
        ask_failed(job, err);
}

void plan_known_find(struct plan_job *job)
{
    job->written = false;
    if (!job->planner->o.filter) {
        look_up(job);
        return;
    }
    struct pp_key *keys = pp_arena_array(&job->arena, job->n_fetchable, sizeof(*keys));
    if (!keys) {
        job->planner->steps->failed(job, "filter of known photos not asked", PP_ENOMEM);
        return;
    }
    for (size_t i = 0; i < job->n_fetchable; i++)
        keys[i] = job->fetchable[i]->key;
    job->ask = (struct pp_filter_ask){.keys = keys, .n = job->n_fetchable};
    ask(job);
}

void plan_known_check(struct plan_job *job)
{
    const struct pp_planner_options *o = &job->planner->o;

    job->written = true;
    if (o->filter && job->ask.n > 0 && pp_filter_late(job->asked_ms, pp_loop_now(o->loop)))
        ask(job);
    else
        job->planner->steps->written(job);
}
