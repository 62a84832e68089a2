/* group.c: see group.h. */
#include "group.h"

#include <string.h>

#include "base/check.h"

static struct pp_sq_call *call_of(struct pp_job *job)
{
    return pp_container_of(job, struct pp_sq_call, job);
}

static struct pp_req *req_of(struct pp_job *job)
{
    return (struct pp_req *)((char *)call_of(job) - offsetof(struct pp_req, scratch));
}

/* Returns whether the error is a refusal: the request was understood, and wrote nothing. */
static bool is_refusal(enum pp_err err)
{
    switch (err) {
    case PP_ENOTFOUND:
    case PP_EINVAL:
    case PP_EEXISTS:
    case PP_EMISMATCH:
    case PP_ESTALE:
    case PP_EFULL: return true;
    default: return false;
    }
}

static enum pp_err run_jobs(struct pp_sq_group *g, struct pp_job **jobs, size_t n)
{
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        struct pp_req *req = req_of(jobs[i]);
        g->call = call_of(jobs[i]);
        g->call->again = false;
        if (g->hooks && g->hooks->start)
            g->hooks->start(g);
        req->err = g->call->run(g, req);
        pp_assert(req->err != PP_OK || g->db->err == PP_OK, "a request hides a failure of its connection");
        err = is_refusal(req->err) ? PP_OK : req->err;
    }
    g->call = NULL;
    return err;
}

static enum pp_err run_group(struct pp_sq_group *g, struct pp_job **jobs, size_t n)
{
    static const struct pp_sq_hooks none;
    const struct pp_sq_hooks *hooks = g->hooks ? g->hooks : &none;
    pp_assert(g->db->err == PP_OK, "a transaction begins with a failure of the one before");
    g->appended = false;
    pp_sq_begin(g->db, g->hooks != NULL);
    enum pp_err err = run_jobs(g, jobs, n);
    if (err == PP_OK) {
        if (hooks->flush)
            hooks->flush(g);
        pp_sq_commit(g->db);
        err = g->db->err;
    }
    if (err == PP_OK && hooks->committed)
        err = hooks->committed(g);
    if (err != PP_OK) {
        pp_sq_rollback(g->db);
        if (hooks->rolled_back)
            hooks->rolled_back(g);
        g->db->err = PP_OK;
    } else if (g->appended && !atomic_exchange(&g->in_flight, true)) {
        pp_mailbox_post(g->mailbox, &g->letter);
    }
    return err;
}

void pp_sq_group_batch(void *state, struct pp_job **jobs, size_t n)
{
    struct pp_sq_group *g = state;
    for (size_t i = 0; i < n; i++)
        atomic_fetch_add_explicit(call_of(jobs[i])->count, 1, memory_order_relaxed);
    if (run_group(g, jobs, n) == PP_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        enum pp_err err = run_group(g, &jobs[i], 1);
        if (err == PP_OK)
            continue;
        req_of(jobs[i])->err = err == PP_EBUSY ? PP_EIO : err;
        call_of(jobs[i])->again = false;
    }
}

static void on_done(struct pp_job *job)
{
    struct pp_sq_call *c = call_of(job);
    struct pp_req *req = req_of(job);
    if (c->again) {
        pp_assert(req->err == PP_OK, "a request that failed has another slice");
        memcpy(c->carry, c->next, sizeof c->carry);
        enum pp_err err = pp_lane_submit(job->home, job);
        if (err == PP_OK)
            return;
        req->err = err;
    }
    req->done(req);
}

enum pp_err pp_sq_submit(struct pp_lane_home *home, struct pp_req *req,
                         enum pp_err (*run)(void *state, struct pp_req *req), atomic_uint_fast64_t *count)
{
    struct pp_sq_call *c = (struct pp_sq_call *)req->scratch;
    *c = (struct pp_sq_call){.job = {.done = on_done}, .run = run, .count = count};
    return pp_lane_submit(home, &c->job);
}
