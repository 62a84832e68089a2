/* orphans.c: see orphans.h. list (keep lane) -> for each: known to the store? -> remove the others (keep
 * lane). */
#include "pipeline/orphans.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "runtime/lane.h"

struct pp_orphans {
    struct pp_pipeline *p;
    struct pp_lane_home *home;
    struct pp_job job;
    struct pp_blob_name *names; /* those that are not known are gathered at the front */
    size_t n, at, unknown;
    bool more;
    enum pp_err err;
    struct pp_store_object lookup;
    struct pp_arena arena;
    void (*done)(void *data);
    void *data;
};

static void look_up(struct pp_orphans *o);

static void end(struct pp_orphans *o)
{
    void (*done)(void *) = o->done;
    void *data = o->data;

    if (o->err != PP_OK)
        pp_log(o->p->log, PP_LOG_WARN, "objects without a record could not be looked for", "error",
               pp_err_text(o->err), NULL);
    if (o->more)
        pp_log(o->p->log, PP_LOG_WARN, "too many recent objects to look for those without a record", NULL);
    if (o->unknown > 0)
        pp_log(o->p->log, PP_LOG_INFO, "objects without a record removed", "objects", PP_LOG_INT(o->unknown),
               NULL);
    pp_lane_home_close(o->home);
    free(o->names);
    free(o);
    done(data);
}

/* --- on the lane --- */

static void list(void *state, struct pp_job *job)
{
    struct pp_orphans *o = pp_container_of(job, struct pp_orphans, job);
    struct pp_blob_store *b = o->p->blobs;
    (void)state;
    o->err = b->ops->recent(b, o->p->params->orphans_since_ms, o->names, PP_ORPHANS_MAX, &o->n, &o->more);
}

static void remove_unknown(void *state, struct pp_job *job)
{
    struct pp_orphans *o = pp_container_of(job, struct pp_orphans, job);
    struct pp_blob_store *b = o->p->blobs;
    (void)state;
    for (size_t i = 0; i < o->unknown && o->err == PP_OK; i++)
        o->err = b->ops->remove(b, o->names[i].sha256, o->names[i].ext);
}

/* --- on the loop --- */

static void removed(struct pp_job *job)
{
    end(pp_container_of(job, struct pp_orphans, job));
}

static void submit(struct pp_orphans *o, void (*work)(void *, struct pp_job *), void (*done)(struct pp_job *))
{
    o->job = (struct pp_job){.work = work, .done = done};
    o->err = pp_lane_submit(o->home, &o->job);
    if (o->err != PP_OK)
        end(o);
}

static void looked_up(struct pp_req *req)
{
    struct pp_orphans *o = req->data;

    pp_arena_fini(&o->arena);
    if (req->err == PP_ENOTFOUND) {
        o->names[o->unknown++] = o->names[o->at];
    } else if (req->err != PP_OK) { /* unknown is not proven: nothing is removed */
        o->err = req->err;
        o->unknown = 0;
        end(o);
        return;
    }
    o->at++;
    look_up(o);
}

static void look_up(struct pp_orphans *o)
{
    struct pp_task_store *store = o->p->store;

    if (o->at == o->n || o->p->draining) {
        submit(o, remove_unknown, removed);
        return;
    }
    pp_arena_init(&o->arena, 1 << 20);
    o->lookup = (struct pp_store_object){.req = {.done = looked_up, .data = o, .arena = &o->arena}};
    memcpy(o->lookup.sha256, o->names[o->at].sha256, PP_SHA256_BYTES);
    o->err = store->ops->object(store, &o->lookup);
    if (o->err != PP_OK) {
        pp_arena_fini(&o->arena);
        o->unknown = 0;
        end(o);
    }
}

static void listed(struct pp_job *job)
{
    struct pp_orphans *o = pp_container_of(job, struct pp_orphans, job);
    if (o->err != PP_OK)
        end(o);
    else
        look_up(o);
}

bool pp_orphans_start(struct pp_pipeline *p, void (*done)(void *data), void *data)
{
    struct pp_orphans *o = calloc(1, sizeof(*o));
    if (!o)
        return false;
    o->p = p;
    o->done = done;
    o->data = data;
    o->names = calloc(PP_ORPHANS_MAX, sizeof(*o->names));
    o->home = o->names ? pp_lane_home_open(p->keep_lane, p->loop) : NULL;
    o->job = (struct pp_job){.work = list, .done = listed};
    if (!o->home || pp_lane_submit(o->home, &o->job) != PP_OK) {
        if (o->home)
            pp_lane_home_close(o->home);
        free(o->names);
        free(o);
        return false;
    }
    return true;
}
