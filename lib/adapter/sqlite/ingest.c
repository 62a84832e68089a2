/* ingest.c: the port of the ingest queue. All waiting requests share one transaction, and so one
 * fsync. */
#include "ingest.h"

#include <stdlib.h>

#include "file.h"

#define X(name, type) OP_##name,
enum { PP_INGEST_OPS(X) X(read, pp_ingest_read) };
#undef X

struct ingest_queue {
    struct pp_ingest_queue base;
    struct pp_sq_file file;
    struct pp_iq q;
    struct pp_sq_watch watch;
};

static enum pp_err committed(void *state)
{
    struct pp_iq *q = state;
    if (q->appended)
        pp_sq_watch_wake(&pp_container_of(q, struct ingest_queue, q)->watch);
    q->appended = false;
    return PP_OK;
}

static void rolled_back(void *state)
{
    struct pp_iq *q = state;
    q->appended = false;
    pp_iq_load(q, false);
}

#define X(name, type)                                              \
    static enum pp_err run_##name(void *state, struct pp_req *req) \
    {                                                              \
        return pp_iq_##name(state, (struct type *)req);            \
    }                                                              \
    PP_SQ_SUBMIT(pp_ingest_queue, ingest_queue, writer, name, type)
PP_INGEST_OPS(X)
X(read, pp_ingest_read)
#undef X

static void watch(struct pp_ingest_queue *base, void (*cb)(void *data), void *data)
{
    struct ingest_queue *s = (struct ingest_queue *)base;
    s->watch.cb = cb;
    s->watch.data = data;
}

static const char *durability(struct pp_ingest_queue *base)
{
    (void)base;
    return "survives a kill and a power cut: synced to this machine's disk";
}

static void queue_free(struct ingest_queue *s)
{
    pp_sq_file_close(&s->file);
    pp_sq_watch_close(&s->watch);
    free(s);
}

/* No request is in flight, so the lane is idle, and this thread may use the lane's connection. */
static void close_queue(struct pp_ingest_queue *base)
{
    struct ingest_queue *s = (struct ingest_queue *)base;
    pp_iq_give_back(&s->q);
    queue_free(s);
}

static const struct pp_ingest_queue_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_INGEST_OPS(X) X(read, pp_ingest_read)
#undef X
        .watch = watch,
    .durability = durability,
    .close = close_queue,
};

static enum pp_err load(void *state)
{
    struct pp_iq *q = state;
    q->group.committed = committed;
    q->group.rolled_back = rolled_back;
    pp_iq_load(q, true);
    return q->db.err;
}

enum pp_err pp_sqlite_ingest_queue_open(struct pp_loop *loop, const char *path,
                                        const struct pp_sqlite_options *o, struct pp_ingest_queue **out)
{
    static const struct pp_sq_kind kind = {.writer = "ingest",
                                           .sql = pp_ingest_sql,
                                           .n_sql = PP_INGEST_QUERY_COUNT,
                                           .schema = pp_ingest_schema,
                                           .version = PP_INGEST_VERSION,
                                           .cache_bytes = 4 << 20,
                                           .group = 256,
                                           .full_sync = true,
                                           .load = load};
    struct ingest_queue *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    enum pp_err err = pp_sq_watch_open(&s->watch, loop);
    s->file.lock = -1;
    if (err == PP_OK)
        err = pp_sq_file_open(&s->file, &kind, loop, path, o, &s->q.group, &s->q.db);
    if (err != PP_OK) {
        queue_free(s);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
