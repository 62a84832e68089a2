/* read_batch.c: reads batches and queues for the API, on the reader lane. */
#include <string.h>

#include "store.h"

enum pp_err pp_sr_batch(struct pp_sq_db *db, struct pp_store_batch *r)
{
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_BATCH_BY_ID, "t", r->batch_id);
    if (!pp_sq_row(db, st))
        return pp_sq_refuse(db, PP_ENOTFOUND);
    pp_sq_batch_read(db, st, r->req.arena, &r->batch);
    pp_sq_done(st);
    if (db->err == PP_OK && r->client && strcmp(r->client, r->batch.client) != 0)
        return PP_ENOTFOUND;
    return db->err;
}

enum pp_err pp_sr_batches(struct pp_sq_db *db, struct pp_store_batches *r)
{
    int64_t client = r->client ? pp_sq_name_find(db, PP_NAME_CLIENT, r->client) : 0;
    const char *after = r->after ? r->after : "\x7f"; /* a text that sorts after every id */
    r->n = 0;
    r->more = false;
    r->batches = pp_sq_array(db, r->req.arena, r->limit, sizeof *r->batches);
    if (!r->batches || (r->client && !client))
        return db->err;
    sqlite3_stmt *st;
    int64_t want = (int64_t)r->limit + 1;
    if (r->client)
        st = pp_sq_bind(db, PP_Q_BATCH_LIST_CLIENT, "tdii", after, r->state, want, client);
    else
        st = pp_sq_bind(db, PP_Q_BATCH_LIST, "tdi", after, r->state, want);
    while (pp_sq_page(db, st, r->n, r->limit, &r->more))
        pp_sq_batch_read(db, st, r->req.arena, &r->batches[r->n++]);
    return db->err;
}

/* Steps along the index of waiting tasks from one (client, queue) to the next. Each step costs one
 * look-up, however many tasks the queue has. */
static bool next_queue(struct pp_sq_db *db, int64_t *client, int64_t *queue, int64_t *due, struct pp_arena *a,
                       const char **name)
{
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_TASK_QUEUE_AFTER, "ii", *client, *queue);
    if (!pp_sq_row(db, st))
        return false;
    *client = pp_sq_col(st, 0);
    *queue = pp_sq_col(st, 1);
    *due = pp_sq_col(st, 2);
    if (a)
        *name = pp_sq_text(db, a, st, 3);
    pp_sq_done(st);
    return db->err == PP_OK;
}

enum pp_err pp_sr_backlog(struct pp_sq_db *db, struct pp_store_backlog *r)
{
    int64_t client = 0, queue = -1, due;
    const char *name = NULL;
    size_t cap = 0;
    r->n = 0;
    r->rows = NULL;
    while (next_queue(db, &client, &queue, &due, r->req.arena, &name)) {
        struct pp_backlog_row *more = pp_sq_grow(db, r->req.arena, r->rows, r->n, &cap, sizeof *more);
        if (!more)
            break;
        r->rows = more;
        r->rows[r->n++] = (struct pp_backlog_row){name, (uint8_t)queue, due};
    }
    return db->err;
}

enum pp_err pp_sr_queue(struct pp_sq_db *db, struct pp_store_queue *r)
{
    r->claimed = 0;
    for (size_t i = 0; i < PP_QUEUES; i++)
        r->counts[i] = (struct pp_queue_count){.queue = (uint8_t)i};
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_STATE_GET, "");
    if (pp_sq_row(db, st)) {
        struct pp_reader in = pp_sq_bytes(st, 1);
        if (in.n) {
            r->claimed = pp_read_u64(&in);
            for (size_t i = 0; i < PP_QUEUES; i++)
                r->counts[i].photos = pp_read_u64(&in);
        }
        pp_sq_done(st);
    }
    int64_t client = 0, queue = -1, due;
    while (next_queue(db, &client, &queue, &due, NULL, NULL)) {
        if (queue < 0 || queue >= PP_QUEUES)
            continue;
        struct pp_queue_count *c = &r->counts[queue];
        if (c->oldest_ms == 0 || due < c->oldest_ms)
            c->oldest_ms = due;
    }
    return db->err;
}
