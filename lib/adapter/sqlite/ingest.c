/* ingest.c: opening the ingest queue and carrying requests to its lane, where all that wait share one
 * transaction and so one fsync. */
#include "ingest.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "file.h"

struct queue {
    struct pp_ingest_queue base;
    struct pp_sq_file file;
    struct pp_iq q;
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

#define X(name, type)                                                                     \
    static enum pp_err run_##name(void *state, struct pp_req *req)                        \
    {                                                                                     \
        return pp_iq_##name(state, (struct type *)req);                                   \
    }                                                                                     \
    static enum pp_err submit_##name(struct pp_ingest_queue *q, struct type *r)           \
    {                                                                                     \
        return pp_sq_submit(((struct queue *)q)->file.writer, &r->req, run_##name, NULL); \
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
    pp_sq_file_close(&s->file);
    s->watch = NULL;
    pp_mailbox_close(s->mailbox);
    free(s);
}

/* No request is under way: the lane is idle, and its connection ours. */
static void close_queue(struct pp_ingest_queue *q)
{
    pp_iq_give_back(&((struct queue *)q)->q);
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

static enum pp_err load(void *state)
{
    struct pp_iq *q = state;
    q->group = (struct pp_sq_group){begin, commit, rollback, NULL};
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
    struct queue *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&s->file, &kind, loop, path, o, &s->q.group, &s->q.db);
    s->mailbox = err == PP_OK ? pp_mailbox_open(loop, 0, on_mail, s) : NULL;
    if (!s->mailbox) {
        queue_free(s);
        return err != PP_OK ? err : PP_ENOMEM;
    }
    *out = &s->base;
    return PP_OK;
}
