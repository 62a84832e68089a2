/* read_batch.c: batches and queues, as the API shows them. On the reader lane. */
#include "store.h"

/* The client of `num` as text. */
static const char *client_text(struct pp_sq_db *db, struct pp_arena *a, int64_t num)
{
    const char *name = NULL;
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_NAME_TEXT, "i", num);
    if (pp_sq_row(db, st)) {
        name = pp_sq_text(db, a, st, 1);
        pp_sq_done(st);
    }
    if (!name && db->err == PP_OK)
        db->err = PP_ECORRUPT;
    return name;
}

enum pp_err pp_sr_batch(struct pp_sq_db *db, struct pp_store_batch *r)
{
    int64_t owner = 0;
    sqlite3_stmt *st = pp_sq_bind(db, PP_Q_BATCH_BY_ID, "t", r->batch_id);
    if (!pp_sq_row(db, st))
        return db->err != PP_OK ? db->err : PP_ENOTFOUND;
    pp_sq_batch_read(db, st, r->req.arena, &r->batch, &owner);
    pp_sq_done(st);
    if (r->client && owner != pp_name_find(db, PP_NAME_CLIENT, r->client))
        return db->err != PP_OK ? db->err : PP_ENOTFOUND;
    r->batch.client = client_text(db, r->req.arena, owner);
    return db->err;
}

enum pp_err pp_sr_batches(struct pp_sq_db *db, struct pp_store_batches *r)
{
    struct pp_arena *a = r->req.arena;
    int64_t client = r->client ? pp_name_find(db, PP_NAME_CLIENT, r->client) : 0;
    const char *after = r->after ? r->after : "\x7f"; /* above every id */
    r->n = 0;
    r->more = false;
    r->batches = pp_sq_array(db, a, r->limit, sizeof *r->batches);
    if (!r->batches || (r->client && !client))
        return db->err;
    sqlite3_stmt *st;
    int64_t want = (int64_t)r->limit + 1;
    if (r->client)
        st = pp_sq_bind(db, PP_Q_BATCH_LIST_CLIENT, "tdii", after, r->state, want, client);
    else
        st = pp_sq_bind(db, PP_Q_BATCH_LIST, "tdi", after, r->state, want);
    while (pp_sq_row(db, st)) {
        int64_t owner;
        if (r->n == r->limit) {
            r->more = true;
            break;
        }
        struct pp_batch *b = &r->batches[r->n++];
        pp_sq_batch_read(db, st, a, b, &owner);
        b->client = client_text(db, a, owner);
    }
    pp_sq_done(st);
    return db->err;
}

/* Steps from one (client, queue) to the next along the waiting index: one look-up each, however many tasks.
 */
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
        if (r->n == cap) {
            cap = cap ? cap * 2 : 64;
            struct pp_backlog_row *more = pp_sq_array(db, r->req.arena, cap, sizeof *more);
            if (!more)
                break;
            for (size_t i = 0; i < r->n; i++)
                more[i] = r->rows[i];
            r->rows = more;
        }
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
        struct pp_reader in = {.p = sqlite3_column_blob(st, 1), .n = (size_t)sqlite3_column_bytes(st, 1)};
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
