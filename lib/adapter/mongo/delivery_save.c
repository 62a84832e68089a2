/* delivery_save.c: moves cursors, and saves, replays and deletes deliveries. Each step can be
 * repeated.
 *
 * The document of a sink holds its cursor and, for a webhook, its endpoint. So one write creates
 * or deletes both. */
#include <string.h>

#include "ops.h"
#include "steps.h"

/* --- cursors --- */

/* Reads the sink's cursor. PP_ENOTFOUND: the sink has no document. */
static enum pp_err read_cursor(struct pp_mg_thread *t, const char *sink, uint64_t *cursor)
{
    const bson_t *row = pp_mg_first(t, MQ_SINK_CURSOR, "s", sink);
    *cursor = row ? (uint64_t)pp_mg_doc_int(row, "c") : 0;
    return t->err == PP_OK && !row ? PP_ENOTFOUND : t->err;
}

enum pp_err pp_mg_delivery_cursor(struct pp_mg_thread *t, struct pp_delivery_cursor *r)
{
    r->cursor = 0;
    if (!r->start_at || strncmp(r->sink, PP_SINK_WEBHOOK, sizeof PP_SINK_WEBHOOK - 1) == 0)
        return read_cursor(t, r->sink, &r->cursor);
    const bson_t *doc = pp_mg_modify(t, MQ_SINK_START, "si", r->sink, (int64_t)*r->start_at);
    r->cursor = doc ? (uint64_t)pp_mg_doc_int(doc, "c") : 0;
    return t->err;
}

/* --- save --- */

static void add_row(struct pp_mg_bulk *bulk, enum pp_mg_command command, const char *sink,
                    const struct pp_delivery *row)
{
    pp_assert(row->status <= PP_DELIVERY_DEAD, "a delivery has no status");
    pp_mg_bulk_add(bulk, command, "sissdiiiIds", sink, (int64_t)row->seq, row->id, row->client,
                   (int)row->status, (int64_t)row->attempts, row->finished_at, row->updated_at,
                   row->status == PP_DELIVERY_PENDING ? &row->due_ms : NULL, row->http_status, row->error);
}

/* The rows that must be replaced instead of inserted. */
struct olds {
    const struct pp_delivery **rows;
    size_t n;
};

/* Inserts the rows of first attempts above the cursor. These are almost always new, and an
 * insert costs a fraction of a replacement (but an insert that collides costs a multiple). All
 * other rows, and those that collided, go to `olds`. */
static enum pp_err insert_rows(struct pp_mg_thread *t, const struct pp_delivery_save *r, uint64_t cursor,
                               struct olds *olds)
{
    struct pp_mg_bulk bulk;
    const struct pp_delivery **news = pp_arena_array(&t->tmp, r->n, sizeof *news);
    size_t n = 0;
    olds->n = 0;
    olds->rows = pp_arena_array(&t->tmp, r->n, sizeof *olds->rows);
    if (!news || !olds->rows)
        return PP_ENOMEM;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < r->n; i++) {
        if (r->rows[i].attempts > 1 || r->rows[i].seq <= cursor) {
            olds->rows[olds->n++] = &r->rows[i];
            continue;
        }
        add_row(&bulk, MQ_DELIVERY_INSERT, r->sink, &r->rows[i]);
        news[n++] = &r->rows[i];
    }
    enum pp_err err = pp_mg_bulk_run(&bulk);
    pp_assert(olds->n + bulk.done.n_dups <= r->n, "more rows are to be replaced than there are");
    for (size_t i = 0; i < bulk.done.n_dups; i++)
        olds->rows[olds->n++] = news[bulk.dups[i]];
    return err;
}

static enum pp_err write_rows(struct pp_mg_thread *t, const struct pp_delivery_save *r)
{
    struct pp_mg_bulk bulk;
    struct olds olds;
    uint64_t cursor = 0;
    enum pp_err err = r->n > 0 ? read_cursor(t, r->sink, &cursor) : PP_OK;
    if (err == PP_OK)
        err = insert_rows(t, r, cursor, &olds);
    if (err != PP_OK)
        return err;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < olds.n; i++)
        add_row(&bulk, MQ_DELIVERY_PUT, r->sink, olds.rows[i]);
    err = pp_mg_bulk_run(&bulk);
    /* another relay has just created the row: the caller repeats the save */
    return err == PP_OK && bulk.done.n_dups > 0 ? PP_EUNKNOWN : err;
}

/* Moves the cursor forward. PP_ENOTFOUND: the sink has no document. */
static enum pp_err move_cursor(struct pp_mg_thread *t, const struct pp_delivery_save *r)
{
    struct pp_mg_done done = pp_mg_write(t, MQ_SINK_MOVE, "si", r->sink, (int64_t)r->cursor);
    return t->err == PP_OK && done.matched == 0 ? PP_ENOTFOUND : t->err;
}

/* Deletes the rows just written to a sink that no longer exists: nothing would ever read them. */
static enum pp_err take_back(struct pp_mg_thread *t, const struct pp_delivery_save *r)
{
    struct pp_mg_bulk bulk;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < r->n; i++)
        pp_mg_bulk_add(&bulk, MQ_DELIVERY_REMOVE, "si", r->sink, (int64_t)r->rows[i].seq);
    return pp_mg_bulk_run(&bulk);
}

/* Checks after writing the rows that the sink still exists. A deletion removes the sink before
 * its rows, so either the deletion or this call removes the rows. */
enum pp_err pp_mg_delivery_save(struct pp_mg_thread *t, struct pp_delivery_save *r)
{
    uint64_t cursor;
    enum pp_err err = write_rows(t, r);
    if (err != PP_OK)
        return err;
    err = r->cursor ? move_cursor(t, r) : read_cursor(t, r->sink, &cursor);
    if (err == PP_ENOTFOUND && r->n > 0) {
        enum pp_err undone = take_back(t, r);
        return undone != PP_OK ? undone : err;
    }
    return r->n > 0 && (err == PP_EIO || err == PP_ETIMEOUT) ? PP_EUNKNOWN : err;
}

/* --- replay --- */

enum pp_err pp_mg_delivery_replay(struct pp_mg_thread *t, struct pp_delivery_replay *r)
{
    static const int64_t all[] = {PP_DELIVERY_PENDING, PP_DELIVERY_DELIVERED, PP_DELIVERY_DEAD};
    const int64_t one = r->status;
    r->n = pp_mg_write(t, MQ_DELIVERY_REPLAY, "sLiii", r->sink, r->status < 0 ? all : &one,
                       (size_t)(r->status < 0 ? 3 : 1), r->from_ms, r->to_ms, r->now_ms)
               .matched;
    return t->err;
}

/* --- clean --- */

struct cleaning {
    struct pp_mg_thread *t;
    const char *sink;
    struct pp_mg_bulk bulk;
};

/* Adds the row's removal to the bulk. A row that is replayed meanwhile no longer matches, and
 * stays. */
static enum pp_err on_ended(void *data, const bson_t *doc)
{
    struct cleaning *c = data;
    pp_mg_bulk_add(&c->bulk, MQ_DELIVERY_REMOVE_ENDED, "si", c->sink, pp_mg_doc_int(doc, "_id.q"));
    return PP_OK;
}

static enum pp_err clean_sink(struct cleaning *c, struct pp_delivery_clean *r)
{
    pp_mg_bulk_init(&c->bulk, c->t);
    enum pp_err err = pp_mg_each(c->t, MQ_DELIVERIES_ENDED, on_ended, c, "sii", c->sink,
                                 r->finished_before_ms, (int64_t)(r->limit - r->n));
    enum pp_err run = pp_mg_bulk_run(&c->bulk);
    r->n += c->bulk.done.deleted;
    return err != PP_OK ? err : run;
}

/* Steps from sink to sink in the index of deliveries, and so also finds rows whose sink is gone. */
enum pp_err pp_mg_delivery_clean(struct pp_mg_thread *t, struct pp_delivery_clean *r)
{
    struct cleaning c = {.t = t, .sink = ""};
    enum pp_err err = PP_OK;
    r->n = 0;
    while (err == PP_OK && r->n < r->limit) {
        const bson_t *row = pp_mg_first(t, MQ_DELIVERIES_NEXT_SINK, "s", c.sink);
        if (!row)
            break;
        err = pp_mg_doc_copy(row, "s", &t->tmp, &c.sink);
        if (err == PP_OK)
            err = clean_sink(&c, r);
    }
    return err == PP_OK ? t->err : err;
}
