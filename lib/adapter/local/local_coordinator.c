/* local_coordinator.c: the coordinator of an installation of one process. Requests run on a lane of
 * one thread; those that run together share one transaction. All other operations run on the loop
 * and use only memory. */
#include "adapter/local/local_coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/local/slots_db.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/hash.h"
#include "runtime/lane.h"

#define X(name, type) OP_##name,
enum coord_op { PP_COORD_OPS(X) N_COORD_OPS };
#undef X

struct local;

/* A request as a job of the lane. The job lies in the scratch memory of the request. */
struct coord_job {
    struct pp_job job;
    enum coord_op op;
    int64_t open_for_ms; /* ms between opening the file and this request */
    char *secret;        /* the secret in struct local, which only the lane's thread uses */
    struct local *local; /* only for the loop */
};
_Static_assert(sizeof(struct coord_job) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

struct slow_host {
    UT_hash_handle hh;
    int64_t until_ms;
    char host[];
};

struct local {
    struct pp_coordinator base;
    struct pp_loop *loop;
    int64_t opened_ms; /* when the file was opened, in ms of the loop's clock */
    struct pp_lane *lane;
    struct pp_lane_home *home;
    char secret[PP_COORD_SECRET_MAX]; /* "" until a request has set it; never on disk */
    struct slow_host
        *slow; /* hash of slow hosts by name, in order of insertion; at most PP_SLOW_HOSTS_MAX entries */
    pp_backlog_cb backlog;
    void *backlog_data;
    void (*on_drain)(void *data, const char *worker);
    void *drain_data;
    struct pp_worker_info info; /* of the worker; its id is "" before its first heartbeat */
    char id[128], host[128], tiers[128];
    uint64_t calls[N_COORD_OPS];
};

static struct local *local_of(struct pp_coordinator *c)
{
    return (struct local *)c;
}

/* --- answers from memory, on the loop --- */

static bool is_from_memory(enum coord_op op)
{
    return op == OP_workers || op == OP_drain || op == OP_places;
}

static void list_workers(const struct local *l, struct pp_coord_workers *r)
{
    int64_t age = r->now_ms - l->info.seen_at;

    r->n = 0;
    if (!l->id[0] || age > PP_WORKER_ALIVE_MS || age < r->silent_ms)
        return;
    r->workers = pp_arena_alloc(r->req.arena, sizeof *r->workers);
    char *id = pp_arena_strdup(r->req.arena, l->id);
    char *host = pp_arena_strdup(r->req.arena, l->host);
    char *tiers = pp_arena_strdup(r->req.arena, l->tiers);
    if (!r->workers || !id || !host || !tiers) {
        r->req.err = PP_ENOMEM;
        return;
    }
    *r->workers = l->info;
    r->workers->id = id;
    r->workers->host = host;
    r->workers->tiers = tiers;
    r->n = 1;
}

static void drain(struct local *l, struct pp_coord_drain *r)
{
    r->found = r->worker ? r->worker[0] && strcmp(r->worker, l->id) == 0 : l->id[0] || l->on_drain;
    if (r->found && l->on_drain)
        l->on_drain(l->drain_data, r->worker);
}

/* The worker is alone, so it holds as many places as there are. */
static void give_places(struct pp_coord_places *r)
{
    for (size_t i = 0; i < r->n; i++)
        r->rows[i].got = r->rows[i].want < r->limit ? r->rows[i].want : r->limit;
}

/* --- requests, on the lane --- */

static struct coord_job *call_of(struct pp_job *job)
{
    return pp_container_of(job, struct coord_job, job);
}

static struct pp_req *req_of(struct pp_job *job)
{
    return (struct pp_req *)((char *)call_of(job) - offsetof(struct pp_req, scratch));
}

static void read_secret(char *secret, struct pp_coord_secret *r)
{
    pp_assert(r->secret[0], "an empty text is offered as the secret");
    memcpy(secret[0] ? r->secret : secret, secret[0] ? secret : r->secret, PP_COORD_SECRET_MAX);
}

/* Executes a request on the lane's thread. `req` is the first member of the operation's struct. */
static enum pp_err run(struct pp_slots_db *db, struct pp_req *req, const struct coord_job *call)
{
    switch (call->op) {
    case OP_acquire: {
        struct pp_coord_acquire *r = (struct pp_coord_acquire *)req;
        return pp_slots_db_acquire(db, r, r->now_ms - call->open_for_ms);
    }
    case OP_renew: return pp_slots_db_renew(db, (struct pp_coord_renew *)req);
    case OP_release: return pp_slots_db_release(db, (struct pp_coord_release *)req);
    case OP_backlog: /* "incomplete": this process has no index, so the caller reads the store */
        ((struct pp_coord_backlog *)req)->n = 0;
        ((struct pp_coord_backlog *)req)->complete = false;
        return PP_OK;
    case OP_elect: ((struct pp_coord_elect *)req)->leader = true; return PP_OK;
    case OP_secret: read_secret(call->secret, (struct pp_coord_secret *)req); return PP_OK;
    case OP_workers:
    case OP_drain:
    case OP_places: return PP_OK;
    case N_COORD_OPS: break;
    }
    pp_assert(false, "a request of no operation");
    return PP_EINVAL;
}

static void run_batch(void *state, struct pp_job **jobs, size_t n)
{
    struct pp_slots_db *db = state;
    enum pp_err err = pp_slots_db_begin(db);

    for (size_t i = 0; i < n && err == PP_OK; i++)
        req_of(jobs[i])->err = run(db, req_of(jobs[i]), call_of(jobs[i]));
    if (err == PP_OK)
        err = pp_slots_db_commit(db);
    for (size_t i = 0; i < n && err != PP_OK; i++)
        req_of(jobs[i])->err = is_from_memory(call_of(jobs[i])->op) ? PP_OK : err;
}

static void on_done(struct pp_job *job)
{
    struct pp_req *req = req_of(job);
    struct coord_job *call = call_of(job);

    if (req->err == PP_OK && call->op == OP_workers)
        list_workers(call->local, (struct pp_coord_workers *)req);
    if (req->err == PP_OK && call->op == OP_drain)
        drain(call->local, (struct pp_coord_drain *)req);
    if (req->err == PP_OK && call->op == OP_places)
        give_places((struct pp_coord_places *)req);
    req->done(req);
}

static enum pp_err submit(struct pp_coordinator *c, struct pp_req *req, enum coord_op op)
{
    struct local *l = local_of(c);
    struct coord_job *call = (struct coord_job *)req->scratch;
    *call = (struct coord_job){.job = {.done = on_done},
                               .op = op,
                               .open_for_ms = pp_loop_now(l->loop) - l->opened_ms,
                               .secret = l->secret,
                               .local = l};
    pp_assert(call->open_for_ms >= 0, "the loop's clock went backwards");
    l->calls[op]++;
    return pp_lane_submit(l->home, &call->job);
}

#define X(name, type)                                                         \
    static enum pp_err local_##name(struct pp_coordinator *c, struct type *r) \
    {                                                                         \
        return submit(c, &r->req, OP_##name);                                 \
    }
PP_COORD_OPS(X)
#undef X

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
    (void)c; /* no other process exists that could receive notices */
    (void)notices;
    (void)n;
}

static void local_watch_notices(struct pp_coordinator *c, uint32_t kinds,
                                void (*cb)(void *data, const struct pp_notice *notice), void *data)
{
    (void)c;
    (void)kinds;
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

    HASH_FIND(hh, l->slow, host, n, h);
    if (h) {
        h->until_ms = until_ms > h->until_ms ? until_ms : h->until_ms;
        return;
    }
    while (l->slow && (l->slow->until_ms <= now_ms || HASH_COUNT(l->slow) >= PP_SLOW_HOSTS_MAX))
        forget_slow(l, l->slow); /* drops the oldest entry, which most likely has expired */
    pp_assert(HASH_COUNT(l->slow) < PP_SLOW_HOSTS_MAX, "more slow hosts than the table may have");
    h = malloc(sizeof(*h) + n + 1);
    if (!h)
        return;
    memcpy(h->host, host, n + 1);
    h->until_ms = until_ms;
    if (!PP_HASH_ADD(l->slow, h->host, n, h))
        free(h);
}

static int64_t local_host_slow_until(struct pp_coordinator *c, const char *host, int64_t now_ms)
{
    struct local *l = local_of(c);
    struct slow_host *h;

    if (!l->slow)
        return 0;
    HASH_FIND_STR(l->slow, host, h);
    return h && h->until_ms > now_ms ? h->until_ms : 0;
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

/* The worker is alone on the ring. */
static bool local_neighbour(struct pp_coordinator *c, size_t i, struct pp_worker_info *info)
{
    (void)c;
    (void)i;
    (void)info;
    return false;
}

static uint32_t local_ring_size(struct pp_coordinator *c)
{
    const struct local *l = local_of(c);
    return l->id[0] && !l->info.draining;
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
#define X(op, type) #op,
    static const char *const names[N_COORD_OPS] = {PP_COORD_OPS(X)};
#undef X
    if (i >= N_COORD_OPS)
        return false;
    *name = names[i];
    *n = local_of(c)->calls[i];
    return true;
}

/* --- opening and closing --- */

static void local_close(struct pp_coordinator *c)
{
    struct local *l = local_of(c);
    pp_assert(!l->home || pp_lane_in_flight(l->home) == 0, "a coordinator is closed before its requests end");
    pp_lane_close(l->lane);
    pp_lane_home_close(l->home);
    while (l->slow)
        forget_slow(l, l->slow);
    free(l);
}

static const struct pp_coordinator_ops ops = {
#define X(name, type) .name = local_##name,
    PP_COORD_OPS(X)
#undef X
        .reserve_ahead_ms = local_reserve_ahead,
    .announce = local_announce,
    .watch = local_watch,
    .notify = local_notify,
    .watch_notices = local_watch_notices,
    .slow_host = local_slow_host,
    .host_slow_until = local_host_slow_until,
    .heartbeat = local_heartbeat,
    .neighbour = local_neighbour,
    .ring_size = local_ring_size,
    .watch_drain = local_watch_drain,
    .dataset = local_dataset,
    .first = local_first,
    .roundtrips = local_roundtrips,
    .close = local_close};

/* The file that the lane opens, and why it could not. */
struct file_opening {
    const char *path;
    enum pp_err err;
};

static void *open_db(void *data)
{
    struct file_opening *o = data;
    return pp_slots_db_open(o->path, &o->err);
}

static void close_db(void *state)
{
    pp_slots_db_close(state);
}

enum pp_err pp_local_coordinator_open(struct pp_loop *loop, const char *path, struct pp_coordinator **out)
{
    struct local *l = calloc(1, sizeof(*l));
    struct file_opening opening = {.path = path, .err = PP_EIO}; /* the lane needs it until it is open */
    if (!l)
        return PP_ENOMEM;
    l->base.ops = &ops;
    l->loop = loop;
    l->opened_ms = pp_loop_now(loop);
    const struct pp_lane_options options = {.name = "coordinator",
                                            .threads = 1,
                                            .capacity = 4096,
                                            .max_batch = 64,
                                            .batch = run_batch,
                                            .open = open_db,
                                            .close = close_db,
                                            .data = &opening};
    l->lane = pp_lane_open(&options);
    l->home = l->lane ? pp_lane_home_open(l->lane, loop) : NULL;
    if (!l->home) {
        local_close(&l->base);
        return opening.err;
    }
    *out = &l->base;
    return PP_OK;
}
