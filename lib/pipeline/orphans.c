/* orphans.c: after a crash, removes the objects whose record was never written.
 *
 *   list objects (keep lane) --> look up their records (store) --> remove orphans (keep lane) */
#include <stdlib.h>
#include <string.h>

#include "pipeline/pipeline_internal.h"
#include "runtime/ask.h"

/* the search looks up at most this many objects; it removes none of the remaining objects */
#define OBJECTS_MAX 100000

struct pp_orphans {
    struct pp_pipeline *p;
    struct pp_lane_home *home;
    struct pp_job job;
    /* An array of n recent objects. The orphans found so far are moved to its front. */
    struct pp_blob_name *names;
    size_t n, at, unknown;
    bool more, stopped;
    enum pp_err err;
    struct pp_ask ask;
    struct pp_store_object lookup;
};

static void look_up(struct pp_orphans *o);

static void finish(struct pp_orphans *o)
{
    struct pp_pipeline *p = o->p;

    if (o->err != PP_OK)
        pp_log(p->log, PP_LOG_WARN, "objects without a record not removed", "error", pp_err_text(o->err),
               NULL);
    if (o->more)
        pp_log(p->log, PP_LOG_WARN, "too many recent objects to look for those without a record", NULL);
    if (o->unknown > 0)
        pp_log(p->log, PP_LOG_INFO, "objects without a record removed", "objects", PP_LOG_INT(o->unknown),
               NULL);
    pp_lane_home_close(o->home);
    free(o->names);
    free(o);
    p->orphans = NULL;
    if (!p->draining)
        pp_claimer_begin(p->claimer);
}

/* --- listing and removing objects, on the keep lane --- */

static void list(void *state, struct pp_job *job)
{
    struct pp_orphans *o = pp_container_of(job, struct pp_orphans, job);
    struct pp_blob_store *b = o->p->blobs;
    (void)state;
    o->err = b->ops->recent(b, o->p->params->orphans_since_ms, o->names, OBJECTS_MAX, &o->n, &o->more);
}

static void remove_unknown(void *state, struct pp_job *job)
{
    struct pp_orphans *o = pp_container_of(job, struct pp_orphans, job);
    struct pp_blob_store *b = o->p->blobs;
    (void)state;
    for (size_t i = 0; i < o->unknown && o->err == PP_OK; i++)
        o->err = b->ops->remove(b, o->names[i].sha256, o->names[i].ext);
}

/* --- looking up records, on the main loop --- */

static void on_removed(struct pp_job *job)
{
    finish(pp_container_of(job, struct pp_orphans, job));
}

static void submit(struct pp_orphans *o, void (*work)(void *, struct pp_job *), void (*done)(struct pp_job *))
{
    o->job = (struct pp_job){.work = work, .done = done};
    o->err = pp_lane_submit(o->home, &o->job);
    if (o->err != PP_OK)
        finish(o);
}

/* Ends the search without removing anything: after an error nothing proves that an object is an
 * orphan. */
static void fail(struct pp_orphans *o, enum pp_err err)
{
    o->err = err;
    o->unknown = 0;
    finish(o);
}

static void on_looked_up(void *data, enum pp_err err)
{
    struct pp_orphans *o = data;

    pp_assert(o->unknown <= o->at && o->at < o->n, "orphans are gathered in front of what is looked up");
    if (err != PP_OK && err != PP_ENOTFOUND) {
        fail(o, err);
        return;
    }
    if (err == PP_ENOTFOUND)
        o->names[o->unknown++] = o->names[o->at];
    o->at++;
    look_up(o);
}

static void look_up(struct pp_orphans *o)
{
    struct pp_task_store *store = o->p->store;

    if (o->at == o->n || o->stopped) {
        submit(o, remove_unknown, on_removed);
        return;
    }
    o->lookup = (struct pp_store_object){.req = pp_ask_request(&o->ask, on_looked_up), .former = true};
    memcpy(o->lookup.sha256, o->names[o->at].sha256, PP_SHA256_BYTES);
    enum pp_err err = store->ops->object(store, &o->lookup);
    if (!pp_ask_submitted(&o->ask, err))
        fail(o, err);
}

static void on_listed(struct pp_job *job)
{
    struct pp_orphans *o = pp_container_of(job, struct pp_orphans, job);

    pp_assert(o->n <= OBJECTS_MAX && o->at == 0, "more objects were listed than there is room for");
    if (o->err != PP_OK)
        finish(o);
    else
        look_up(o);
}

struct pp_orphans *pp_orphans_start(struct pp_pipeline *p)
{
    struct pp_orphans *o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    o->p = p;
    o->ask = (struct pp_ask){.loop = p->loop, .data = o};
    o->names = calloc(OBJECTS_MAX, sizeof(*o->names));
    o->home = o->names ? pp_lane_home_open(p->keep_lane, p->loop) : NULL;
    o->job = (struct pp_job){.work = list, .done = on_listed};
    if (o->home && pp_lane_submit(o->home, &o->job) == PP_OK)
        return o;
    if (o->home)
        pp_lane_home_close(o->home);
    free(o->names);
    free(o);
    return NULL;
}

void pp_orphans_stop(struct pp_orphans *o)
{
    o->stopped = true;
}
