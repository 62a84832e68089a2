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

struct reader {
    struct pp_sq_group group;
    struct pp_sq_db db;
};

struct store {
    struct pp_task_store base;
    struct pp_loop *loop;
    struct pp_lane *writer, *reader;
    struct pp_lane_home *writer_home, *reader_home;
    struct pp_sw w;
    struct reader readers[READERS];
    atomic_uint readers_taken;
    atomic_uint_fast64_t counts[OP_COUNT];
    int lock;
};

#define WRITE(name, type)                                          \
    static enum pp_err run_##name(void *state, struct pp_req *req) \
    {                                                              \
        pp_sw_start(state);                                        \
        return pp_sw_##name(state, (struct type *)req);            \
    }
#define READ(name, type)                                                        \
    static enum pp_err run_##name(void *state, struct pp_req *req)              \
    {                                                                           \
        return pp_sr_##name(&((struct reader *)state)->db, (struct type *)req); \
    }
PP_SQ_OPS(WRITE, READ)
#undef WRITE
#undef READ

/* One state of the store for all requests of a group. */
static void begin_read(void *state)
{
    pp_sq_begin(&((struct reader *)state)->db, false);
}

static enum pp_err commit_read(void *state)
{
    struct reader *r = state;
    if (r->db.err == PP_OK)
        pp_sq_commit(&r->db);
    return r->db.err;
}

static void rollback_read(void *state)
{
    pp_sq_rollback(&((struct reader *)state)->db);
}

static void *take_reader(void *data)
{
    struct store *s = data;
    return &s->readers[atomic_fetch_add(&s->readers_taken, 1)];
}

/* --- on the loop --- */

#define WRITE(name, type)                                                                \
    static enum pp_err submit_##name(struct pp_task_store *s, struct type *r)            \
    {                                                                                    \
        struct store *x = (struct store *)s;                                             \
        return pp_sq_submit(x->writer_home, &r->req, run_##name, &x->counts[OP_##name]); \
    }
#define READ(name, type)                                                                 \
    static enum pp_err submit_##name(struct pp_task_store *s, struct type *r)            \
    {                                                                                    \
        struct store *x = (struct store *)s;                                             \
        return pp_sq_submit(x->reader_home, &r->req, run_##name, &x->counts[OP_##name]); \
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
        if (s->readers[i].db.h)
            pp_sq_close(&s->readers[i].db);
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
        s->readers[i].group = (struct pp_sq_group){begin_read, commit_read, rollback_read, NULL};
        err = pp_sq_open(&s->readers[i].db, &o);
    }
    return err;
}

static bool open_lanes(struct store *s, size_t capacity)
{
    struct pp_lane_options w = {.name = "store",
                                .threads = 1,
                                .capacity = capacity,
                                .max_batch = WRITE_GROUP,
                                .batch = pp_sq_group_batch,
                                .data = &s->w};
    struct pp_lane_options r = {.name = "store-read",
                                .threads = READERS,
                                .capacity = capacity,
                                .max_batch = READ_GROUP,
                                .batch = pp_sq_group_batch,
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
