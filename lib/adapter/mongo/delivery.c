/* delivery.c: cursors, and deliveries: saved, read, replayed, deleted. Each step can be repeated.
 *
 * The document of a sink holds its cursor and, for a webhook, its endpoint. So one write creates
 * or deletes both. */
#include <stdlib.h>
#include <string.h>

#include "steps.h"

/* --- sinks and their cursors --- */

static const struct pp_mg_field sink_fields[] = {PP_MG_FIELD_TEXT("_id", struct pp_delivery_sink, sink),
                                                 PP_MG_FIELD("c", struct pp_delivery_sink, cursor),
                                                 {NULL}};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pp_delivery_sink *)a)->sink, ((const struct pp_delivery_sink *)b)->sink);
}

void pp_mg_delivery_sinks(struct pp_mg_thread *t, struct pp_delivery_sinks *r)
{
    pp_mg_rows(t, MQ_SINKS, sink_fields, PP_MG_ROWS(r, sinks, SIZE_MAX), "");
    if (r->n == 0)
        return;
    /* A row {_id: {s, st}, n, f} counts the n deliveries of sink s with status st; f is the
     * earliest finish time of their items. */
    pp_mg_query(t, MQ_DELIVERIES_COUNT, "S", PP_MG_COLUMN(r->sinks, r->n, sink));
    for (const bson_t *row; (row = pp_mg_next(t));) {
        struct pp_delivery_sink key = {.sink = pp_mg_doc_text(row, "_id.s")};
        struct pp_delivery_sink *s = key.sink ? bsearch(&key, r->sinks, r->n, sizeof key, by_name) : NULL;
        uint64_t n = (uint64_t)pp_mg_doc_int(row, "n");
        if (s && pp_mg_doc_int(row, "_id.st") == PP_DELIVERY_DEAD) {
            s->dead = n;
        } else if (s) {
            s->pending = n;
            s->oldest_at = pp_mg_doc_int(row, "f");
        }
    }
}

/* Returns the sink's cursor. PP_ENOTFOUND: the sink has no document. */
static uint64_t read_cursor(struct pp_mg_thread *t, const char *sink)
{
    const bson_t *row = pp_mg_first(t, MQ_SINK_CURSOR, "s", sink);
    pp_mg_require(t, row, PP_ENOTFOUND);
    return row ? (uint64_t)pp_mg_doc_int(row, "c") : 0;
}

void pp_mg_delivery_cursor(struct pp_mg_thread *t, struct pp_delivery_cursor *r)
{
    if (!r->start_at || strncmp(r->sink, PP_SINK_WEBHOOK, sizeof PP_SINK_WEBHOOK - 1) == 0) {
        r->cursor = read_cursor(t, r->sink);
        return;
    }
    const bson_t *doc = pp_mg_modify(t, MQ_SINK_START, "si", r->sink, (int64_t)*r->start_at);
    r->cursor = doc ? (uint64_t)pp_mg_doc_int(doc, "c") : 0;
}

/* --- save --- */

static void add_row(struct pp_mg_bulk *bulk, enum pp_mg_command command, const char *sink,
                    const struct pp_delivery *row)
{
    int64_t due = pp_mg_server_ms(bulk->t, row->due_ms);
    pp_assert(row->status <= PP_DELIVERY_DEAD, "a delivery has no status");
    pp_mg_bulk_add(bulk, command, "sissdiiiIds", sink, (int64_t)row->seq, row->id, row->client,
                   (int)row->status, (int64_t)row->attempts, row->finished_at, row->updated_at,
                   row->status == PP_DELIVERY_PENDING ? &due : NULL, row->http_status, row->error);
}

/* Inserts the rows of first attempts above the cursor, and replaces the others. The former are
 * almost always new, and an insert costs a fraction of a replacement (but an insert that collides
 * costs a multiple): those that collide are replaced, too. */
static void write_rows(struct pp_mg_thread *t, const struct pp_delivery_save *r)
{
    struct pp_mg_bulk inserts, puts;
    const struct pp_delivery **news = pp_mg_array(t, r->n, sizeof *news);
    size_t n = 0;
    uint64_t cursor = r->n > 0 ? read_cursor(t, r->sink) : 0;
    if (t->err != PP_OK)
        return;
    pp_mg_bulk_init(&inserts, t);
    pp_mg_bulk_init(&puts, t);
    for (size_t i = 0; i < r->n; i++) {
        if (r->rows[i].attempts > 1 || r->rows[i].seq <= cursor) {
            add_row(&puts, MQ_DELIVERY_PUT, r->sink, &r->rows[i]);
            continue;
        }
        add_row(&inserts, MQ_DELIVERY_INSERT, r->sink, &r->rows[i]);
        news[n++] = &r->rows[i];
    }
    pp_mg_bulk_run(&inserts);
    pp_assert(inserts.done.n_dups <= n, "more rows are to be replaced than there are");
    for (size_t i = 0; i < inserts.done.n_dups; i++)
        add_row(&puts, MQ_DELIVERY_PUT, r->sink, news[inserts.dups[i]]);
    pp_mg_bulk_run(&puts);
    /* another relay has just created the row: the caller repeats the save */
    pp_mg_require(t, puts.done.n_dups == 0, PP_EUNKNOWN);
}

/* Moves the cursor forward, or only checks that the sink exists. PP_ENOTFOUND: the sink has no
 * document. */
static void move_cursor(struct pp_mg_thread *t, const struct pp_delivery_save *r)
{
    if (!r->cursor)
        read_cursor(t, r->sink);
    else
        pp_mg_require(t, pp_mg_write(t, MQ_SINK_MOVE, "si", r->sink, (int64_t)r->cursor).matched > 0,
                      PP_ENOTFOUND);
}

/* Checks after writing the rows that the sink still exists. A deletion removes the sink before
 * its rows, so either the deletion or this call removes the rows: nothing would ever read them. */
void pp_mg_delivery_save(struct pp_mg_thread *t, struct pp_delivery_save *r)
{
    struct pp_mg_bulk bulk;
    write_rows(t, r);
    if (t->err != PP_OK)
        return;
    move_cursor(t, r);
    if (r->n > 0 && (t->err == PP_EIO || t->err == PP_ETIMEOUT))
        t->err = PP_EUNKNOWN;
    if (t->err != PP_ENOTFOUND)
        return;
    t->err = PP_OK;
    pp_mg_bulk_init(&bulk, t);
    for (size_t i = 0; i < r->n; i++)
        pp_mg_bulk_add(&bulk, MQ_DELIVERY_REMOVE, "si", r->sink, (int64_t)r->rows[i].seq);
    pp_mg_bulk_run(&bulk);
    pp_mg_fail(t, PP_ENOTFOUND);
}

/* --- reading --- */

#define FIELD(name, member) PP_MG_FIELD(name, struct pp_delivery, member)
static const struct pp_mg_field fields[] = {
    FIELD("q", seq),
    FIELD("i", id),
    FIELD("c", client),
    PP_MG_FIELD_ENUM("st", struct pp_delivery, status, PP_DELIVERY_DEAD + 1),
    FIELD("a", attempts),
    FIELD("f", finished_at),
    FIELD("u", updated_at),
    FIELD("d", due_ms),
    FIELD("h", http_status),
    FIELD("e", error),
    {NULL},
};

/* Converts the due times of rows to our clock. */
static void rows_to_ours(struct pp_mg_thread *t, struct pp_delivery *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rows[i].due_ms = rows[i].due_ms > 0 ? pp_mg_our_ms(t, rows[i].due_ms) : 0;
}

/* Reads the pending deliveries that are due by now_ms, earliest first, and the due time of the
 * next. */
void pp_mg_delivery_due(struct pp_mg_thread *t, struct pp_delivery_due *r)
{
    struct pp_delivery next = {.due_ms = INT64_MAX};
    int64_t now = pp_mg_server_ms(t, r->now_ms);
    pp_mg_rows(t, MQ_DELIVERIES_DUE, fields, PP_MG_ROWS(r, rows, r->limit + 1), "sIIi", r->sink, &now, NULL,
               (int64_t)r->limit + 1);
    rows_to_ours(t, r->rows, r->n);
    if (r->n > r->limit)
        next = r->rows[--r->n];
    else if (pp_mg_one(t, MQ_DELIVERIES_DUE, fields, &t->tmp, &next, "sIIi", r->sink, NULL, &now, (int64_t)1))
        rows_to_ours(t, &next, 1);
    r->next_ms = next.due_ms;
}

void pp_mg_delivery_list(struct pp_mg_thread *t, struct pp_delivery_list *r)
{
    int64_t before = r->before_seq ? (int64_t)r->before_seq : INT64_MAX, limit = (int64_t)r->limit + 1;
    struct pp_mg_page page = PP_MG_PAGE(r, rows, r->limit);
    if (r->status < 0)
        pp_mg_rows(t, MQ_DELIVERIES_ALL, fields, page, "sii", r->sink, before, limit);
    else
        pp_mg_rows(t, MQ_DELIVERIES_OF_STATUS, fields, page, "sdii", r->sink, r->status, before, limit);
    rows_to_ours(t, r->rows, r->n);
}

/* --- replay and clean --- */

void pp_mg_delivery_replay(struct pp_mg_thread *t, struct pp_delivery_replay *r)
{
    static const int64_t all[] = {PP_DELIVERY_PENDING, PP_DELIVERY_DELIVERED, PP_DELIVERY_DEAD};
    const int64_t one = r->status;
    r->n = pp_mg_write(t, MQ_DELIVERY_REPLAY, "sLiii", r->sink,
                       PP_MG_LIST(r->status < 0 ? all : &one, r->status < 0 ? 3 : 1), r->from_ms, r->to_ms,
                       pp_mg_server_ms(t, r->now_ms))
               .matched;
}

/* Steps from sink to sink in the index of deliveries, and so also finds rows whose sink is gone. A
 * row that is replayed meanwhile no longer matches, and stays. */
void pp_mg_delivery_clean(struct pp_mg_thread *t, struct pp_delivery_clean *r)
{
    const char *sink = "";
    struct pp_mg_bulk bulk;
    for (r->n = 0; r->n < r->limit; r->n += bulk.done.deleted) {
        const bson_t *row = pp_mg_first(t, MQ_DELIVERIES_NEXT_SINK, "s", sink);
        if (!row)
            break;
        sink = pp_mg_copy(t, row, "s");
        pp_mg_bulk_init(&bulk, t);
        pp_mg_query(t, MQ_DELIVERIES_ENDED, "sii", sink, pp_mg_before_ms(t, r->finished_before_ms),
                    (int64_t)(r->limit - r->n));
        while ((row = pp_mg_next(t)))
            pp_mg_bulk_add(&bulk, MQ_DELIVERY_REMOVE_ENDED, "si", sink, pp_mg_doc_int(row, "_id.q"));
        pp_mg_bulk_run(&bulk);
    }
}
