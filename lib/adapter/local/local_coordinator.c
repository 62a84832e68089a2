/* local_coordinator.c: see local_coordinator.h. Requests run on a lane of one thread, a batch of them in one
 * transaction. */
#include "adapter/local/local_coordinator.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "adapter/local/slots_db.h"
#include "base/arena.h"
#include "runtime/lane.h"

#define SLOW_HOSTS_MAX 100000
#define ALIVE_MS       60000

enum op { OP_ACQUIRE, OP_RENEW, OP_RELEASE, OP_BACKLOG, OP_ELECT, OP_COUNT };

/* In a request's scratch. */
struct call {
    struct pp_job job;
    enum op op;
    int64_t open_for_ms; /* so long has the file been open */
};
_Static_assert(sizeof(struct call) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

struct slow_host {
    UT_hash_handle hh;
    int64_t until_ms;
    char host[];
};

struct local {
    struct pp_coordinator base;
    struct pp_loop *loop;
    int64_t opened_ms; /* monotonic */
    struct pp_lane *lane;
    struct pp_lane_home *home;
    char *path;
    struct slow_host *slow; /* uthash, in order of insertion */
    pp_backlog_cb backlog;
    void *backlog_data;
    void (*on_drain)(void *data, const char *worker);
    void *drain_data;
    struct pp_worker_info info;
    char id[128], host[128], tiers[128];
    uint64_t calls[OP_COUNT];
};

static struct local *local_of(struct pp_coordinator *c)
{
    return (struct local *)c;
}

/* --- requests, on the lane --- */

static struct pp_req *req_of(struct pp_job *job)
{
    struct call *call = pp_container_of(job, struct call, job);
    return pp_container_of((uint64_t(*)[12])call, struct pp_req, scratch);
}

static enum pp_err run(struct pp_slots_db *db, struct pp_job *job)
{
    struct call *call = pp_container_of(job, struct call, job);
    struct pp_req *req = req_of(job);

    switch (call->op) {
    case OP_ACQUIRE: {
        struct pp_coord_acquire *acquire = pp_container_of(req, struct pp_coord_acquire, req);
        return pp_slots_db_acquire(db, acquire, acquire->now_ms - call->open_for_ms);
    }
    case OP_RENEW: return pp_slots_db_renew(db, pp_container_of(req, struct pp_coord_renew, req));
    case OP_RELEASE: return pp_slots_db_release(db, pp_container_of(req, struct pp_coord_release, req));
    case OP_BACKLOG: /* it is in memory only: who starts has none */
        pp_container_of(req, struct pp_coord_backlog, req)->complete = false;
        return PP_OK;
    case OP_ELECT: pp_container_of(req, struct pp_coord_elect, req)->leader = true; return PP_OK;
    case OP_COUNT: break;
    }
    return PP_EINVAL;
}

static void run_batch(void *state, struct pp_job **jobs, size_t n)
{
    struct pp_slots_db *db = state;
    enum pp_err err = pp_slots_db_begin(db);

    for (size_t i = 0; i < n; i++)
        req_of(jobs[i])->err = err == PP_OK ? run(db, jobs[i]) : err;
    if (err == PP_OK)
        err = pp_slots_db_commit(db);
    for (size_t i = 0; i < n; i++)
        if (err != PP_OK)
            req_of(jobs[i])->err = err;
}

static void done(struct pp_job *job)
{
    struct pp_req *req = req_of(job);
    req->done(req);
}

static enum pp_err submit(struct local *l, struct pp_req *req, enum op op)
{
    struct call *call = (struct call *)req->scratch;
    *call =
        (struct call){.job = {.done = done}, .op = op, .open_for_ms = pp_loop_now(l->loop) - l->opened_ms};
    l->calls[op]++;
    return pp_lane_submit(l->home, &call->job);
}

static enum pp_err local_acquire(struct pp_coordinator *c, struct pp_coord_acquire *r)
{
    return submit(local_of(c), &r->req, OP_ACQUIRE);
}

static enum pp_err local_renew(struct pp_coordinator *c, struct pp_coord_renew *r)
{
    return submit(local_of(c), &r->req, OP_RENEW);
}

static enum pp_err local_release(struct pp_coordinator *c, struct pp_coord_release *r)
{
    return submit(local_of(c), &r->req, OP_RELEASE);
}

static enum pp_err local_backlog(struct pp_coordinator *c, struct pp_coord_backlog *r)
{
    r->n = 0;
    return submit(local_of(c), &r->req, OP_BACKLOG);
}

static enum pp_err local_elect(struct pp_coordinator *c, struct pp_coord_elect *r)
{
    return submit(local_of(c), &r->req, OP_ELECT);
}

static int64_t local_reserve_ahead(struct pp_coordinator *c)
{
    (void)c;
    return 0;
}

/* --- backlog, in process --- */

static void local_announce(struct pp_coordinator *c, const struct pp_backlog_row *rows, size_t n)
{
    struct local *l = local_of(c);
    if (l->backlog)
        l->backlog(l->backlog_data, rows, n);
}

static void local_watch(struct pp_coordinator *c, pp_backlog_cb cb, void *data)
{
    local_of(c)->backlog = cb;
    local_of(c)->backlog_data = data;
}

static void local_notify(struct pp_coordinator *c, const struct pp_notice *notices, size_t n)
{
    (void)c; /* there are no others */
    (void)notices;
    (void)n;
}

static void local_watch_notices(struct pp_coordinator *c,
                                void (*cb)(void *data, const struct pp_notice *notice), void *data)
{
    (void)c;
    (void)cb;
    (void)data;
}

/* --- slow hosts --- */

static void forget_slow(struct local *l, struct slow_host *h)
{
    HASH_DEL(l->slow, h);
    free(h);
}

static void local_slow_host(struct pp_coordinator *c, const char *host, int64_t until_ms, int64_t now_ms)
{
    struct local *l = local_of(c);
    struct slow_host *h;
    size_t n = strlen(host);

    while (l->slow && l->slow->until_ms <= now_ms) /* the oldest: most have run out by then */
        forget_slow(l, l->slow);
    HASH_FIND(hh, l->slow, host, n, h);
    if (h) {
        if (until_ms > h->until_ms)
            h->until_ms = until_ms;
        return;
    }
    if (HASH_COUNT(l->slow) >= SLOW_HOSTS_MAX)
        forget_slow(l, l->slow);
    h = malloc(sizeof(*h) + n + 1);
    if (!h)
        return;
    memcpy(h->host, host, n + 1);
    h->until_ms = until_ms;
    HASH_ADD_KEYPTR(hh, l->slow, h->host, n, h);
}

static int64_t local_host_slow_until(struct pp_coordinator *c, const char *host, int64_t now_ms)
{
    struct local *l = local_of(c);
    struct slow_host *h;

    if (!l->slow)
        return 0;
    HASH_FIND_STR(l->slow, host, h);
    if (h && h->until_ms <= now_ms) {
        forget_slow(l, h);
        h = NULL;
    }
    return h ? h->until_ms : 0;
}

/* --- workers --- */

static void local_heartbeat(struct pp_coordinator *c, const struct pp_worker_info *info)
{
    struct local *l = local_of(c);

    l->info = *info;
    snprintf(l->id, sizeof(l->id), "%s", info->id);
    snprintf(l->host, sizeof(l->host), "%s", info->host);
    snprintf(l->tiers, sizeof(l->tiers), "%s", info->tiers);
    l->info.id = l->id;
    l->info.host = l->host;
    l->info.tiers = l->tiers;
}

static bool local_worker(struct pp_coordinator *c, size_t i, struct pp_worker_info *info, int64_t now_ms)
{
    struct local *l = local_of(c);
    if (i > 0 || !l->id[0] || now_ms - l->info.seen_at > ALIVE_MS)
        return false;
    *info = l->info;
    return true;
}

static enum pp_err local_drain(struct pp_coordinator *c, const char *worker)
{
    struct local *l = local_of(c);
    if (!l->on_drain || (worker && strcmp(worker, l->id) != 0))
        return PP_ENOTFOUND;
    l->on_drain(l->drain_data, worker);
    return PP_OK;
}

static void local_watch_drain(struct pp_coordinator *c, void (*cb)(void *data, const char *worker),
                              void *data)
{
    local_of(c)->on_drain = cb;
    local_of(c)->drain_data = data;
}

static const char *local_dataset(struct pp_coordinator *c)
{
    (void)c;
    return "local";
}

static void local_first(struct pp_coordinator *c, const char *dataset)
{
    (void)c;
    (void)dataset;
}

static bool local_roundtrips(struct pp_coordinator *c, size_t i, const char **name, uint64_t *n)
{
    static const char *const names[OP_COUNT] = {"acquire", "renew", "release", "backlog", "elect"};
    if (i >= OP_COUNT)
        return false;
    *name = names[i];
    *n = local_of(c)->calls[i];
    return true;
}

/* --- opening and closing --- */

static void local_close(struct pp_coordinator *c)
{
    struct local *l = local_of(c);
    if (l->lane)
        pp_lane_close(l->lane);
    if (l->home)
        pp_lane_home_close(l->home);
    while (l->slow)
        forget_slow(l, l->slow);
    free(l->path);
    free(l);
}

static const struct pp_coordinator_ops ops = {.acquire = local_acquire,
                                              .renew = local_renew,
                                              .release = local_release,
                                              .reserve_ahead_ms = local_reserve_ahead,
                                              .backlog = local_backlog,
                                              .elect = local_elect,
                                              .announce = local_announce,
                                              .watch = local_watch,
                                              .notify = local_notify,
                                              .watch_notices = local_watch_notices,
                                              .slow_host = local_slow_host,
                                              .host_slow_until = local_host_slow_until,
                                              .heartbeat = local_heartbeat,
                                              .worker = local_worker,
                                              .drain = local_drain,
                                              .watch_drain = local_watch_drain,
                                              .dataset = local_dataset,
                                              .first = local_first,
                                              .roundtrips = local_roundtrips,
                                              .close = local_close};

static void *open_db(void *data)
{
    return pp_slots_db_open(data);
}

static void close_db(void *state)
{
    pp_slots_db_close(state);
}

enum pp_err pp_local_coordinator_open(struct pp_loop *loop, const char *path, struct pp_coordinator **out)
{
    struct local *l = calloc(1, sizeof(*l));
    if (!l)
        return PP_ENOMEM;
    l->base.ops = &ops;
    l->loop = loop;
    l->opened_ms = pp_loop_now(loop);
    l->path = strdup(path);
    const struct pp_lane_options options = {.name = "coordinator",
                                            .threads = 1,
                                            .capacity = 4096,
                                            .max_batch = 64,
                                            .batch = run_batch,
                                            .open = open_db,
                                            .close = close_db,
                                            .data = l->path};
    l->lane = l->path ? pp_lane_open(&options) : NULL;
    l->home = l->lane ? pp_lane_home_open(l->lane, loop) : NULL;
    if (!l->home) {
        local_close(&l->base);
        return PP_EIO;
    }
    *out = &l->base;
    return PP_OK;
}
