/* ingest.c: opening the ingest queue and carrying requests to its lane, where all that wait share one
 * transaction and so one fsync. */
#include "ingest.h"

#include <stdatomic.h>
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
    /* From the lane to the watcher: one letter, under way or not. */
    struct pp_mailbox *mailbox;
    struct pp_mail mail;
    atomic_bool mailed;
    void (*watch)(void *data);
    void *watch_data;
};

static void begin(void *state)
{
    struct pp_iq *q = state;
    q->appended = false;
    pp_sq_begin(&q->db, true);
}

static enum pp_err commit(void *state)
{
    struct pp_iq *q = state;
    struct queue *s = pp_container_of(q, struct queue, q);
    pp_sq_commit(&q->db);
    if (q->db.err == PP_OK && q->appended && !atomic_exchange(&s->mailed, true))
        pp_mailbox_post(s->mailbox, &s->mail);
    return q->db.err;
}

static void on_mail(void *data, struct pp_list *mail)
{
    struct queue *s = data;
    while (pp_list_pop(mail))
        ;
    atomic_store(&s->mailed, false); /* before the watcher looks */
    if (s->watch)
        s->watch(s->watch_data);
}

static void watch(struct pp_ingest_queue *q, void (*cb)(void *data), void *data)
{
    struct queue *s = (struct queue *)q;
    s->watch = cb;
    s->watch_data = data;
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
    s->watch = NULL;
    pp_mailbox_close(s->mailbox);
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
        .watch = watch,
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
    s->mailbox = pp_mailbox_open(loop, 0, on_mail, s);
    s->lane = s->mailbox ? pp_lane_open(&o) : NULL;
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
