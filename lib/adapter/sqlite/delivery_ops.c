/* delivery_ops.c: operations on cursors and deliveries. An operation initializes its outputs
 * first, because it may run twice. */
#include <string.h>

#include "base/check.h"
#include "delivery.h"

int64_t pp_dq_sink(struct pp_dq *d, const char *name, uint64_t *cursor)
{
    sqlite3_stmt *st = pp_sq_bind(&d->db, PP_DQ_SINK_GET, "t", name);
    if (!pp_sq_row(&d->db, st))
        return 0;
    int64_t num = pp_sq_col(st, 0);
    if (cursor)
        *cursor = (uint64_t)pp_sq_col(st, 1);
    pp_sq_done(st);
    return num;
}

/* --- writing --- */

enum pp_err pp_dq_save(struct pp_dq *d, struct pp_delivery_save *r)
{
    int64_t sink = pp_dq_sink(d, r->sink, NULL);
    if (!sink)
        return pp_sq_refuse(&d->db, PP_ENOTFOUND);
    for (size_t i = 0; i < r->n && d->db.err == PP_OK; i++) {
        const struct pp_delivery *row = &r->rows[i];
        pp_assert(row->status <= PP_DELIVERY_DEAD, "a delivery in no state");
        int64_t due = row->status == PP_DELIVERY_PENDING ? row->due_ms : 0;
        pp_sq_run(&d->db, PP_DQ_SAVE, "iittdiiiidt", sink, (int64_t)row->seq, row->id, row->client,
                  (int)row->status, (int64_t)row->attempts, row->finished_at, row->updated_at, due,
                  row->http_status, row->error);
    }
    if (r->cursor)
        pp_sq_run(&d->db, PP_DQ_SINK_MOVE, "ii", sink, (int64_t)r->cursor);
    return d->db.err;
}

enum pp_err pp_dq_cursor(struct pp_dq *d, struct pp_delivery_cursor *r)
{
    r->cursor = 0;
    if (pp_dq_sink(d, r->sink, &r->cursor))
        return PP_OK;
    if (!r->start_at || strncmp(r->sink, PP_SINK_WEBHOOK, sizeof PP_SINK_WEBHOOK - 1) == 0)
        return pp_sq_refuse(&d->db, PP_ENOTFOUND);
    pp_sq_run(&d->db, PP_DQ_SINK_ADD, "ti", r->sink, (int64_t)*r->start_at);
    r->cursor = *r->start_at;
    return d->db.err;
}

enum pp_err pp_dq_replay(struct pp_dq *d, struct pp_delivery_replay *r)
{
    r->n = 0;
    pp_assert(r->status >= -1 && r->status <= PP_DELIVERY_DEAD, "a replay of no state");
    int64_t sink = pp_dq_sink(d, r->sink, NULL);
    for (int status = PP_DELIVERY_PENDING; sink && status <= PP_DELIVERY_DEAD; status++)
        /* each row that is replayed becomes pending, so in this order the loop meets no row twice
         */
        if (r->status < 0 || r->status == status)
            r->n += (uint64_t)pp_sq_run(&d->db, PP_DQ_REPLAY, "iiiid", sink, r->from_ms, r->to_ms, r->now_ms,
                                        status);
    return d->db.err;
}

/* Deletes up to `limit` rows of the sink with that status, and returns how many. `seqs` is
 * scratch space for `limit` numbers. */
static uint64_t clean_some(struct pp_dq *d, const struct pp_delivery_clean *r, int64_t sink, int status,
                           uint64_t limit, int64_t *seqs)
{
    uint64_t n = 0, found = 0;
    sqlite3_stmt *st =
        pp_sq_bind(&d->db, PP_DQ_OLD, "idii", sink, status, r->finished_before_ms, (int64_t)limit);
    while (found < limit && pp_sq_row(&d->db, st))
        seqs[found++] = pp_sq_col(st, 0);
    pp_sq_done(st);
    for (uint64_t i = 0; i < found; i++)
        n += (uint64_t)pp_sq_run(&d->db, PP_DQ_DELETE, "ii", sink, seqs[i]);
    return n;
}

enum pp_err pp_dq_clean(struct pp_dq *d, struct pp_delivery_clean *r)
{
    int64_t sink = 0, *seqs = pp_sq_array(&d->db, r->req.arena, r->limit, sizeof *seqs);
    r->n = 0;
    while (seqs && r->n < r->limit && (sink = pp_sq_int(&d->db, 0, PP_DQ_NEXT_SINK, "i", sink)) > 0)
        for (int status = PP_DELIVERY_DELIVERED; status <= PP_DELIVERY_DEAD; status++)
            if (r->n < r->limit)
                r->n += clean_some(d, r, sink, status, r->limit - r->n, seqs);
    return d->db.err;
}

/* --- reading --- */

/* Reads a row of PP_DELIVERY_COLUMNS. */
static void read_row(struct pp_dq *d, struct pp_arena *a, sqlite3_stmt *st, struct pp_delivery *row)
{
    *row = (struct pp_delivery){.seq = (uint64_t)pp_sq_col(st, 0),
                                .id = pp_sq_text(&d->db, a, st, 1),
                                .client = pp_sq_text(&d->db, a, st, 2),
                                .status = (enum pp_delivery_status)pp_sq_col(st, 3),
                                .attempts = (uint32_t)pp_sq_col(st, 4),
                                .finished_at = pp_sq_col(st, 5),
                                .updated_at = pp_sq_col(st, 6),
                                .due_ms = pp_sq_col(st, 7),
                                .http_status = (int)pp_sq_col(st, 8),
                                .error = pp_sq_text(&d->db, a, st, 9)};
}

enum pp_err pp_dq_due(struct pp_dq *d, struct pp_delivery_due *r)
{
    r->n = 0;
    r->next_ms = INT64_MAX;
    r->rows = pp_sq_array(&d->db, r->req.arena, r->limit, sizeof *r->rows);
    int64_t sink = pp_dq_sink(d, r->sink, NULL);
    if (!r->rows || !sink)
        return d->db.err;
    sqlite3_stmt *st = pp_sq_bind(&d->db, PP_DQ_DUE, "i", sink);
    while (pp_sq_row(&d->db, st)) {
        int64_t due = pp_sq_col(st, 7);
        if (due > r->now_ms || r->n == r->limit) {
            r->next_ms = due;
            break;
        }
        read_row(d, r->req.arena, st, &r->rows[r->n++]);
    }
    pp_sq_done(st);
    return d->db.err;
}

enum pp_err pp_dq_list(struct pp_dq *d, struct pp_delivery_list *r)
{
    r->n = 0;
    r->more = false;
    pp_assert(r->status >= -1 && r->status <= PP_DELIVERY_DEAD, "a list of no state");
    r->rows = pp_sq_array(&d->db, r->req.arena, r->limit, sizeof *r->rows);
    int64_t sink = pp_dq_sink(d, r->sink, NULL), limit = (int64_t)r->limit + 1;
    int64_t before = r->before_seq ? (int64_t)r->before_seq : INT64_MAX;
    if (!r->rows || !sink)
        return d->db.err;
    sqlite3_stmt *st = r->status < 0
                           ? pp_sq_bind(&d->db, PP_DQ_LIST, "iii", sink, before, limit)
                           : pp_sq_bind(&d->db, PP_DQ_LIST_STATUS, "iiid", sink, before, limit, r->status);
    while (pp_sq_page(&d->db, st, r->n, r->limit, &r->more))
        read_row(d, r->req.arena, st, &r->rows[r->n++]);
    return d->db.err;
}

enum pp_err pp_dq_sinks(struct pp_dq *d, struct pp_delivery_sinks *r)
{
    size_t n = (size_t)pp_sq_int(&d->db, 0, PP_DQ_SINK_COUNT, "");
    r->n = 0;
    r->sinks = pp_sq_array(&d->db, r->req.arena, n, sizeof *r->sinks);
    if (!r->sinks)
        return d->db.err;
    sqlite3_stmt *st = pp_sq_bind(&d->db, PP_DQ_SINKS, "");
    while (r->n < n && pp_sq_row(&d->db, st))
        r->sinks[r->n++] = (struct pp_delivery_sink){.sink = pp_sq_text(&d->db, r->req.arena, st, 0),
                                                     .cursor = (uint64_t)pp_sq_col(st, 1),
                                                     .pending = (uint64_t)pp_sq_col(st, 2),
                                                     .dead = (uint64_t)pp_sq_col(st, 3),
                                                     .oldest_at = pp_sq_col(st, 4)};
    pp_sq_done(st);
    return d->db.err;
}
