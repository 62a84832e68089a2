/* ingest.c: opening the ingest queue and carrying requests to its lane, where all that wait share one
 * transaction and so one fsync. */
#include "ingest.h"

#include <stdlib.h>
#include <unistd.h>

#include "sqlite_store.h"

enum { GROUP = 256 };

struct queue {
    struct pp_ingest_queue base;
    struct pp_lane *lane;
    struct pp_lane_home *home;
    struct pp_iq q;
    int lock;
};

static void begin(void *state)
{
    pp_sq_begin(&((struct pp_iq *)state)->db, true);
}

static enum pp_err commit(void *state)
{
    struct pp_iq *q = state;
    pp_sq_commit(&q->db);
    return q->db.err;
}

static void rollback(void *state)
{
    struct pp_iq *q = state;
    pp_sq_rollback(&q->db);
    pp_iq_load(q, false);
    q->db.err = PP_OK;
}

#define X(name, type)                                                              \
    static enum pp_err run_##name(void *state, struct pp_req *req)                 \
    {                                                                              \
        return pp_iq_##name(state, (struct type *)req);                            \
    }                                                                              \
    static enum pp_err submit_##name(struct pp_ingest_queue *q, struct type *r)    \
    {                                                                              \
        return pp_sq_submit(((struct queue *)q)->home, &r->req, run_##name, NULL); \
    }
PP_IQ_OPS(X)
#undef X

static const char *durability(struct pp_ingest_queue *q)
{
    (void)q;
    return "survives a kill and a power cut: synced to this machine's disk";
}

static void queue_free(struct queue *s)
{
    if (s->home)
        pp_lane_home_close(s->home);
    if (s->lane)
        pp_lane_close(s->lane);
    if (s->q.db.h)
        pp_sq_close(&s->q.db);
    if (s->lock >= 0)
        close(s->lock);
    free(s);
}

static void close_queue(struct pp_ingest_queue *q)
{
    queue_free((struct queue *)q);
}

static const struct pp_ingest_queue_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_IQ_OPS(X)
#undef X
        .durability = durability,
    .close = close_queue,
};

static enum pp_err open_file(struct queue *s, const char *path, size_t cache_bytes)
{
    struct pp_sq_open o = {.path = path,
                           .sql = pp_ingest_sql,
                           .n_sql = PP_INGEST_QUERY_COUNT,
                           .cache_bytes = cache_bytes,
                           .full_sync = true};
    enum pp_err err;
    s->lock = pp_sq_lock(path, &err);
    if (err == PP_OK)
        err = pp_sq_open(&s->q.db, &o);
    if (err == PP_OK)
        err = pp_sq_migrate(&s->q.db, pp_ingest_schema, PP_INGEST_VERSION);
    if (err != PP_OK)
        return err;
    s->q.group = (struct pp_sq_group){begin, commit, rollback, NULL};
    pp_iq_load(&s->q, true);
    return s->q.db.err;
}

static bool open_lane(struct queue *s, struct pp_loop *loop, size_t capacity)
{
    struct pp_lane_options o = {.name = "ingest",
                                .threads = 1,
                                .capacity = capacity,
                                .max_batch = GROUP,
                                .batch = pp_sq_group_batch,
                                .data = &s->q};
    s->lane = pp_lane_open(&o);
    s->home = s->lane ? pp_lane_home_open(s->lane, loop) : NULL;
    return s->home;
}

enum pp_err pp_sqlite_ingest_queue_open(struct pp_loop *loop, const char *path,
                                        const struct pp_sqlite_options *o, struct pp_ingest_queue **out)
{
    static const struct pp_sqlite_options none = {0};
    if (!o)
        o = &none;
    struct queue *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    s->lock = -1;
    enum pp_err err = open_file(s, path, o->cache_bytes ? o->cache_bytes : (size_t)4 << 20);
    if (err == PP_OK && !open_lane(s, loop, o->capacity ? o->capacity : 4096))
        err = PP_ENOMEM;
    if (err != PP_OK) {
        queue_free(s);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
