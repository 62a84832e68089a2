/* store.c: opening the store, carrying requests to its lanes and back. See store.h for the picture. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/lane.h"
#include "sqlite_store.h"
#include "store.h"

enum { READERS = 2, WRITE_GROUP = 64, READ_GROUP = 16 };

#define NAME(name, type) OP_##name,
enum { PP_SQ_OPS(NAME, NAME) OP_COUNT };
#undef NAME
#define NAME(name, type) #name,
static const char *const op_names[OP_COUNT] = {PP_SQ_OPS(NAME, NAME)};
#undef NAME

struct store {
    struct pp_task_store base;
    struct pp_loop *loop;
    struct pp_lane *writer, *reader;
    struct pp_lane_home *writer_home, *reader_home;
    struct pp_sw w;
    struct pp_sq_db readers[READERS];
    atomic_uint readers_taken;
    atomic_uint_fast64_t counts[OP_COUNT];
    int lock;
};

/* A request's place in req.scratch. */
struct call {
    struct pp_job job;
    struct store *store;
    uint32_t op;
    bool again;                 /* a slice of it is done: goes to the lane once more */
    uint64_t carry[2], next[2]; /* what its slices hand on: to the one that runs, and from it */
};
_Static_assert(sizeof(struct call) <= sizeof(((struct pp_req *)0)->scratch), "a call fits into the scratch");

static struct pp_req *req_of(struct call *c)
{
    return (struct pp_req *)((char *)c - offsetof(struct pp_req, scratch));
}

static struct call *call_of(struct pp_job *job)
{
    return pp_container_of(job, struct call, job);
}

/* --- on the lanes --- */

#define WRITE(name, type)                                          \
    static enum pp_err run_##name(void *state, struct pp_req *req) \
    {                                                              \
        return pp_sw_##name(state, (struct type *)req);            \
    }
#define READ(name, type)                                           \
    static enum pp_err run_##name(void *state, struct pp_req *req) \
    {                                                              \
        return pp_sr_##name(state, (struct type *)req);            \
    }
PP_SQ_OPS(WRITE, READ)
#undef WRITE
#undef READ

/* Each operation's function; `state` is the lane's: a struct pp_sw or a reader's struct pp_sq_db. */
#define RUN(name, type) run_##name,
static enum pp_err (*const runs[OP_COUNT])(void *state, struct pp_req *req) = {PP_SQ_OPS(RUN, RUN)};
#undef RUN

static bool wrote_nothing(enum pp_err err)
{
    return err == PP_ENOTFOUND || err == PP_EINVAL;
}

/* Runs the jobs in one transaction. PP_OK: all of them have their answers and are committed. */
static enum pp_err write_group(struct pp_sw *w, struct pp_job **jobs, size_t n)
{
    pp_sw_begin(w);
    enum pp_err err = w->db.err;
    for (size_t i = 0; i < n && err == PP_OK; i++) {
        struct call *c = call_of(jobs[i]);
        struct pp_req *req = req_of(c);
        pp_sw_start(w, c->carry, c->next);
        req->err = runs[c->op](w, req);
        c->again = w->again;
        err = wrote_nothing(req->err) ? PP_OK : req->err;
    }
    if (err == PP_OK) {
        pp_sw_commit(w);
        err = w->db.err;
    }
    if (err != PP_OK)
        pp_sw_rollback(w);
    return err;
}

static void count(struct pp_job **jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct call *c = call_of(jobs[i]);
        atomic_fetch_add_explicit(&c->store->counts[c->op], 1, memory_order_relaxed);
    }
}

static void write_batch(void *state, struct pp_job **jobs, size_t n)
{
    struct pp_sw *w = state;
    count(jobs, n);
    if (write_group(w, jobs, n) == PP_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        struct call *c = call_of(jobs[i]);
        enum pp_err err = write_group(w, &jobs[i], 1);
        if (err == PP_OK)
            continue;
        req_of(c)->err = err == PP_EBUSY ? PP_EIO : err;
        c->again = false;
    }
}

static void read_batch(void *state, struct pp_job **jobs, size_t n)
{
    struct pp_sq_db *db = state;
    count(jobs, n);
    for (size_t i = 0; i < n; i++) {
        struct call *c = call_of(jobs[i]);
        struct pp_req *req = req_of(c);
        c->again = false;
        pp_sq_begin(db, false); /* one state of the store for the whole request */
        enum pp_err err = db->err == PP_OK ? runs[c->op](db, req) : db->err;
        req->err = err == PP_EBUSY ? PP_EIO : err;
        pp_sq_rollback(db);
    }
}

static void *take_reader(void *data)
{
    struct store *s = data;
    return &s->readers[atomic_fetch_add(&s->readers_taken, 1)];
}

/* --- on the loop --- */

static void on_done(struct pp_job *job)
{
    struct call *c = call_of(job);
    struct pp_req *req = req_of(c);
    if (c->again) {
        memcpy(c->carry, c->next, sizeof c->carry);
        enum pp_err err = pp_lane_submit(c->store->writer_home, job);
        if (err == PP_OK)
            return;
        req->err = err;
    }
    req->done(req);
}

static enum pp_err submit(struct pp_task_store *base, struct pp_req *req, struct pp_lane_home *home,
                          uint32_t op)
{
    struct call *c = (struct call *)req->scratch;
    *c = (struct call){.job = {.done = on_done}, .store = (struct store *)base, .op = op};
    return pp_lane_submit(home, &c->job);
}

#define WRITE(name, type)                                                       \
    static enum pp_err submit_##name(struct pp_task_store *s, struct type *r)   \
    {                                                                           \
        return submit(s, &r->req, ((struct store *)s)->writer_home, OP_##name); \
    }
#define READ(name, type)                                                        \
    static enum pp_err submit_##name(struct pp_task_store *s, struct type *r)   \
    {                                                                           \
        return submit(s, &r->req, ((struct store *)s)->reader_home, OP_##name); \
    }
PP_SQ_OPS(WRITE, READ)
#undef WRITE
#undef READ

static bool roundtrips(struct pp_task_store *base, size_t i, const char **name, uint64_t *n)
{
    struct store *s = (struct store *)base;
    if (i >= OP_COUNT)
        return false;
    *name = op_names[i];
    *n = atomic_load_explicit(&s->counts[i], memory_order_relaxed);
    return true;
}

static void store_free(struct store *s)
{
    if (s->writer_home)
        pp_lane_home_close(s->writer_home);
    if (s->reader_home)
        pp_lane_home_close(s->reader_home);
    if (s->writer)
        pp_lane_close(s->writer);
    if (s->reader)
        pp_lane_close(s->reader);
    for (int i = 0; i < READERS; i++)
        if (s->readers[i].h)
            pp_sq_close(&s->readers[i]);
    if (s->w.db.h)
        pp_sw_close(&s->w);
    if (s->lock >= 0)
        close(s->lock);
    free(s);
}

static void close_store(struct pp_task_store *base)
{
    store_free((struct store *)base);
}

static const struct pp_task_store_ops ops = {
#define OP(name, type) .name = submit_##name,
    PP_SQ_OPS(OP, OP)
#undef OP
        .roundtrips = roundtrips,
    .close = close_store,
};

static enum pp_err open_files(struct store *s, const char *path, size_t cache_bytes)
{
    enum pp_err err;
    s->lock = pp_sq_lock(path, &err);
    if (err == PP_OK)
        err = pp_sw_open(&s->w, path, cache_bytes);
    for (int i = 0; i < READERS && err == PP_OK; i++) {
        struct pp_sq_open o = {.path = path,
                               .sql = pp_store_sql,
                               .n_sql = PP_STORE_QUERY_COUNT,
                               .cache_bytes = cache_bytes / 8,
                               .read_only = true};
        err = pp_sq_open(&s->readers[i], &o);
    }
    return err;
}

static bool open_lanes(struct store *s, size_t capacity)
{
    struct pp_lane_options w = {.name = "store",
                                .threads = 1,
                                .capacity = capacity,
                                .max_batch = WRITE_GROUP,
                                .batch = write_batch,
                                .data = &s->w};
    struct pp_lane_options r = {.name = "store-read",
                                .threads = READERS,
                                .capacity = capacity,
                                .max_batch = READ_GROUP,
                                .batch = read_batch,
                                .open = take_reader,
                                .data = s};
    s->writer = pp_lane_open(&w);
    s->reader = pp_lane_open(&r);
    if (!s->writer || !s->reader)
        return false;
    s->writer_home = pp_lane_home_open(s->writer, s->loop);
    s->reader_home = pp_lane_home_open(s->reader, s->loop);
    return s->writer_home && s->reader_home;
}

enum pp_err pp_sqlite_task_store_open(struct pp_loop *loop, const char *path,
                                      const struct pp_sqlite_options *o, struct pp_task_store **out)
{
    static const struct pp_sqlite_options none = {0};
    if (!o)
        o = &none;
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    s->loop = loop;
    s->lock = -1;
    enum pp_err err = open_files(s, path, o->cache_bytes ? o->cache_bytes : (size_t)16 << 20);
    if (err == PP_OK && !open_lanes(s, o->capacity ? o->capacity : 4096))
        err = PP_ENOMEM;
    if (err != PP_OK) {
        store_free(s);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
