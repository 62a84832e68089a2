/* delivery_rows.c: the delivery store's sinks: cursors and deliveries. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "delivery_data.h"

/* --- times --- */

void pp_md_set_offset(struct pp_req *req, int64_t offset_ms)
{
    req->scratch[0] = (uint64_t)offset_ms;
}

static int64_t offset_of(const struct pp_req *req)
{
    return (int64_t)req->scratch[0];
}

/* Adds an offset to a time, and stays within the range of int64_t. INT64_MAX, which means never,
 * stays as it is. */
static int64_t moved(int64_t ms, int64_t offset_ms)
{
    int64_t sum;
    if (ms == INT64_MAX)
        return ms;
    if (__builtin_add_overflow(ms, offset_ms, &sum))
        return offset_ms > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

/* --- texts --- */

size_t pp_md_text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

void pp_md_text_move(const char **text, char **to)
{
    size_t n = pp_md_text_size(*text);
    if (n == 0)
        return;
    *text = memcpy(*to, *text, n);
    *to += n;
}

/* --- sinks --- */

static int sink_order(const void *name, const void *sink)
{
    return strcmp(name, ((const struct pp_md_sink *)sink)->name);
}

static struct pp_md_sink *find_sink(const struct pp_memory_delivery *s, const char *name)
{
    return pp_memory_sorted_find(&s->sinks, name, sink_order);
}

uint64_t *pp_md_cursor(struct pp_memory_delivery *s, const char *name)
{
    struct pp_md_sink *sink = find_sink(s, name);
    return sink ? &sink->cursor : NULL;
}

bool pp_md_sink_add(struct pp_memory_delivery *s, const char *name, uint64_t cursor)
{
    size_t n = pp_md_text_size(name);
    struct pp_md_sink *sink = calloc(1, sizeof *sink + n);
    if (!sink || !pp_memory_sorted_reserve(&s->sinks, s->sinks.n + 1)) {
        free(sink);
        return false;
    }
    pp_assert(!find_sink(s, name), "a sink is added twice");
    sink->cursor = cursor;
    memcpy(sink->name, name, n);
    pp_memory_sorted_insert(&s->sinks, pp_memory_sorted_place(&s->sinks, name, sink_order), sink);
    return true;
}

static void sink_free(struct pp_md_sink *sink)
{
    free(sink->due.at); /* its elements belong to `rows` */
    pp_memory_sorted_free(&sink->rows);
    free(sink);
}

void pp_md_sink_delete(struct pp_memory_delivery *s, const char *name)
{
    size_t i = pp_memory_sorted_place(&s->sinks, name, sink_order);
    pp_assert(i < s->sinks.n && sink_order(name, s->sinks.at[i]) == 0, "an endpoint has no sink");
    sink_free(pp_memory_sorted_remove(&s->sinks, i));
}

void pp_md_sinks_free(struct pp_memory_delivery *s)
{
    for (size_t i = 0; i < s->sinks.n; i++)
        sink_free(s->sinks.at[i]);
    free(s->sinks.at);
    s->sinks = (struct pp_memory_sorted){0};
}

/* --- the rows of a sink --- */

static int seq_order(const void *key, const void *row)
{
    uint64_t a = *(const uint64_t *)key, b = ((const struct pp_md_row *)row)->d.seq;
    return (a > b) - (a < b);
}

/* `key` is a struct pp_delivery. */
static int due_order(const void *key, const void *row)
{
    const struct pp_delivery *a = key, *b = &((const struct pp_md_row *)row)->d;
    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms ? -1 : 1;
    return seq_order(&a->seq, row);
}

/* Counts a row by its status. */
static void count_in(struct pp_md_sink *sink, struct pp_md_row *row)
{
    if (row->d.status == PP_DELIVERY_PENDING)
        pp_memory_sorted_insert(&sink->due, pp_memory_sorted_place(&sink->due, &row->d, due_order), row);
    sink->dead += row->d.status == PP_DELIVERY_DEAD;
}

/* Undoes count_in(). */
static void count_out(struct pp_md_sink *sink, const struct pp_md_row *row)
{
    if (row->d.status == PP_DELIVERY_PENDING) {
        const struct pp_md_row *removed =
            pp_memory_sorted_remove(&sink->due, pp_memory_sorted_place(&sink->due, &row->d, due_order));
        pp_assert(removed == row, "a pending row is not in the order of due times");
    }
    pp_assert(row->d.status != PP_DELIVERY_DEAD || sink->dead > 0, "a dead row was not counted");
    sink->dead -= row->d.status == PP_DELIVERY_DEAD;
}

static struct pp_md_row *row_new(const struct pp_delivery *d, int64_t offset_ms)
{
    struct pp_md_row *row =
        malloc(sizeof *row + pp_md_text_size(d->id) + pp_md_text_size(d->client) + pp_md_text_size(d->error));
    if (!row)
        return NULL;
    char *to = row->texts;
    row->d = *d;
    row->d.due_ms = d->status == PP_DELIVERY_PENDING ? moved(d->due_ms, offset_ms) : 0;
    pp_md_text_move(&row->d.id, &to);
    pp_md_text_move(&row->d.client, &to);
    pp_md_text_move(&row->d.error, &to);
    return row;
}

/* Adds a row, or replaces the row with its seq. */
static void put_row(struct pp_md_sink *sink, struct pp_md_row *row)
{
    size_t i = pp_memory_sorted_place(&sink->rows, &row->d.seq, seq_order);
    pp_assert(row->d.status <= PP_DELIVERY_DEAD, "a delivery in no state");
    if (i < sink->rows.n && seq_order(&row->d.seq, sink->rows.at[i]) == 0) {
        count_out(sink, sink->rows.at[i]);
        free(sink->rows.at[i]);
        sink->rows.at[i] = row;
    } else {
        pp_memory_sorted_insert(&sink->rows, i, row);
    }
    count_in(sink, row);
}

/* --- writing --- */

/* Allocates everything before it changes anything. */
enum pp_err pp_md_run_save(struct pp_memory_delivery *s, struct pp_delivery_save *r)
{
    struct pp_md_sink *sink = find_sink(s, r->sink);
    if (!sink)
        return PP_ENOTFOUND;
    struct pp_md_row **rows = calloc(r->n + 1, sizeof(struct pp_md_row *));
    size_t all = sink->rows.n + r->n, n = 0;
    bool ok = rows && pp_memory_sorted_reserve(&sink->rows, all) &&
              pp_memory_sorted_reserve(&sink->due, sink->rows.cap);
    while (ok && n < r->n && (rows[n] = row_new(&r->rows[n], offset_of(&r->req))))
        n++;
    ok = ok && n == r->n;
    for (size_t i = 0; i < n; i++)
        if (ok)
            put_row(sink, rows[i]);
        else
            free(rows[i]);
    free(rows);
    if (ok && r->cursor > sink->cursor)
        sink->cursor = r->cursor;
    return ok ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_md_run_cursor(struct pp_memory_delivery *s, struct pp_delivery_cursor *r)
{
    struct pp_md_sink *sink = find_sink(s, r->sink);
    r->cursor = sink ? sink->cursor : 0;
    if (sink)
        return PP_OK;
    if (!r->start_at || strncmp(r->sink, PP_SINK_WEBHOOK, sizeof PP_SINK_WEBHOOK - 1) == 0)
        return PP_ENOTFOUND;
    r->cursor = *r->start_at;
    return pp_md_sink_add(s, r->sink, r->cursor) ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_md_run_replay(struct pp_memory_delivery *s, struct pp_delivery_replay *r)
{
    struct pp_md_sink *sink = find_sink(s, r->sink);
    r->n = 0;
    pp_assert(r->status >= -1 && r->status <= PP_DELIVERY_DEAD, "a replay of no state");
    for (size_t i = 0; sink && i < sink->rows.n; i++) {
        struct pp_md_row *row = sink->rows.at[i];
        if ((r->status >= 0 && (int)row->d.status != r->status) || row->d.finished_at < r->from_ms ||
            row->d.finished_at > r->to_ms)
            continue;
        count_out(sink, row);
        row->d.status = PP_DELIVERY_PENDING;
        row->d.attempts = 0;
        row->d.due_ms = moved(r->now_ms, offset_of(&r->req));
        count_in(sink, row);
        r->n++;
    }
    return PP_OK;
}

static void clean_sink(struct pp_md_sink *sink, struct pp_delivery_clean *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < sink->rows.n; i++) {
        struct pp_md_row *row = sink->rows.at[i];
        if (r->n == r->limit || row->d.status == PP_DELIVERY_PENDING ||
            row->d.finished_at >= r->finished_before_ms) {
            sink->rows.at[kept++] = row;
            continue;
        }
        count_out(sink, row);
        free(row);
        r->n++;
    }
    sink->rows.n = kept;
}

enum pp_err pp_md_run_clean(struct pp_memory_delivery *s, struct pp_delivery_clean *r)
{
    r->n = 0;
    for (size_t i = 0; i < s->sinks.n && r->n < r->limit; i++)
        clean_sink(s->sinks.at[i], r);
    return PP_OK;
}

/* --- reading --- */

static bool text_out(struct pp_arena *a, const char **text)
{
    return !*text || (*text = pp_arena_strdup(a, *text));
}

/* Copies a row to an answer, with its due time by the caller's clock. */
static bool row_out(const struct pp_req *req, const struct pp_md_row *row, struct pp_delivery *out)
{
    *out = row->d;
    if (out->status == PP_DELIVERY_PENDING)
        out->due_ms = moved(out->due_ms, -offset_of(req));
    return text_out(req->arena, &out->id) && text_out(req->arena, &out->client) &&
           text_out(req->arena, &out->error);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum pp_err pp_md_run_due(struct pp_memory_delivery *s, struct pp_delivery_due *r)
{
    struct pp_md_sink *sink = find_sink(s, r->sink);
    int64_t offset_ms = offset_of(&r->req), now_ms = moved(r->now_ms, offset_ms);
    r->n = 0;
    r->next_ms = INT64_MAX;
    r->rows = pp_arena_array(r->req.arena, sink ? least(r->limit, sink->due.n) : 0, sizeof *r->rows);
    for (size_t i = 0; r->rows && sink && i < sink->due.n; i++) {
        const struct pp_md_row *row = sink->due.at[i];
        if (row->d.due_ms > now_ms || r->n == r->limit) {
            r->next_ms = moved(row->d.due_ms, -offset_ms);
            break;
        }
        if (!row_out(&r->req, row, &r->rows[r->n++]))
            return PP_ENOMEM;
    }
    return r->rows ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_md_run_list(struct pp_memory_delivery *s, struct pp_delivery_list *r)
{
    struct pp_md_sink *sink = find_sink(s, r->sink);
    size_t below = !sink           ? 0
                   : r->before_seq ? pp_memory_sorted_place(&sink->rows, &r->before_seq, seq_order)
                                   : sink->rows.n;
    r->n = 0;
    r->more = false;
    pp_assert(r->status >= -1 && r->status <= PP_DELIVERY_DEAD, "a list of no state");
    r->rows = pp_arena_array(r->req.arena, least(r->limit, below), sizeof *r->rows);
    while (r->rows && below-- > 0 && !r->more) {
        const struct pp_md_row *row = sink->rows.at[below];
        if (r->status >= 0 && (int)row->d.status != r->status)
            continue;
        r->more = r->n == r->limit;
        if (!r->more && !row_out(&r->req, row, &r->rows[r->n++]))
            return PP_ENOMEM;
    }
    return r->rows ? PP_OK : PP_ENOMEM;
}

static struct pp_delivery_sink sink_counts(const struct pp_md_sink *sink)
{
    int64_t oldest_at = INT64_MAX;
    for (size_t i = 0; i < sink->due.n; i++) {
        const struct pp_md_row *row = sink->due.at[i];
        oldest_at = row->d.finished_at < oldest_at ? row->d.finished_at : oldest_at;
    }
    return (struct pp_delivery_sink){.sink = sink->name,
                                     .cursor = sink->cursor,
                                     .pending = sink->due.n,
                                     .dead = sink->dead,
                                     .oldest_at = sink->due.n > 0 ? oldest_at : 0};
}

enum pp_err pp_md_run_sinks(struct pp_memory_delivery *s, struct pp_delivery_sinks *r)
{
    r->n = 0;
    r->sinks = pp_arena_array(r->req.arena, s->sinks.n, sizeof *r->sinks);
    for (size_t i = 0; r->sinks && i < s->sinks.n; i++) {
        r->sinks[r->n] = sink_counts(s->sinks.at[i]);
        if (!text_out(r->req.arena, &r->sinks[r->n++].sink))
            return PP_ENOMEM;
    }
    return r->sinks ? PP_OK : PP_ENOMEM;
}

/* --- a look at all data --- */

void pp_memory_delivery_each_sink(const struct pp_memory_delivery *s,
                                  void (*cb)(void *data, const struct pp_delivery_sink *sink), void *data)
{
    for (size_t i = 0; i < s->sinks.n; i++) {
        const struct pp_delivery_sink sink = sink_counts(s->sinks.at[i]);
        cb(data, &sink);
    }
}

void pp_memory_delivery_each_row(const struct pp_memory_delivery *s, const char *name,
                                 void (*cb)(void *data, const struct pp_delivery *row), void *data)
{
    const struct pp_md_sink *sink = find_sink(s, name);
    for (size_t i = 0; sink && i < sink->rows.n; i++)
        cb(data, &((const struct pp_md_row *)sink->rows.at[i])->d);
}
