/* delivery_store.c: the delivery store: cursors and deliveries of sinks, endpoints of webhooks,
 * statistics of days.
 *
 * All waiting requests share one transaction. A power cut may lose the last saves. It loses rows
 * together with their cursor, so their messages are delivered again. A change of an endpoint is
 * synced before it is answered.
 *
 * Invariants: a sink that has a cursor is a row of `sinks`. Deliveries hold the number of that row,
 * and are deleted with it. The name of an endpoint's sink is PP_SINK_WEBHOOK and the endpoint's
 * name. `due` is 0 in all rows but PENDING ones.
 *
 * An operation initializes its outputs first, because it may run twice. To change the schema,
 * append a step to `schema` (never edit one that was released). README.md says what each index
 * serves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "file.h"

static const char *const schema[] = {
    "CREATE TABLE sinks(num INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cursor INTEGER NOT NULL);"
    "CREATE TABLE webhooks(name TEXT PRIMARY KEY, url TEXT NOT NULL, clients TEXT, secret TEXT NOT NULL,"
    " old_secret TEXT, old_until INTEGER NOT NULL, paused INTEGER NOT NULL, disabled INTEGER NOT NULL,"
    " created INTEGER NOT NULL, updated INTEGER NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE deliveries(sink INTEGER NOT NULL, seq INTEGER NOT NULL, id TEXT, client TEXT,"
    " status INTEGER NOT NULL, attempts INTEGER NOT NULL, finished INTEGER NOT NULL,"
    " updated INTEGER NOT NULL, due INTEGER NOT NULL, http INTEGER NOT NULL, error TEXT,"
    " PRIMARY KEY(sink, seq)) WITHOUT ROWID;"
    "CREATE INDEX deliveries_due ON deliveries(sink, due, seq) WHERE status=0;"
    "CREATE INDEX deliveries_status ON deliveries(sink, status, seq);"
    "CREATE INDEX deliveries_finished ON deliveries(sink, status, finished);",
#define X(name, bson, meaning) ", " #name " INTEGER NOT NULL"
    "CREATE TABLE days(of INTEGER NOT NULL, name TEXT NOT NULL, day INTEGER NOT NULL" PP_DAY_COUNTS(
        X) ", PRIMARY KEY(of, name, day)) WITHOUT ROWID;"
#undef X
           "CREATE INDEX days_old ON days(day);"
           "CREATE TABLE day_errors(of INTEGER NOT NULL, name TEXT NOT NULL, day INTEGER NOT NULL,"
           " code INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(of, name, day, code)) WITHOUT ROWID;"};

#define ROW "seq, id, client, status, attempts, finished, updated, due, http, error"
#define HOOK_ROW \
    "name, url, clients, secret, old_secret, old_until, paused, disabled, created, updated, version"

#define QUERIES(X)                                                                                           \
    X(SINK_GET, "SELECT num, cursor FROM sinks WHERE name=?1")                                               \
    X(SINK_ADD, "INSERT INTO sinks(name, cursor) VALUES(?1, ?2)")                                            \
    X(SINK_MOVE, "UPDATE sinks SET cursor=?2 WHERE num=?1 AND cursor<?2")                                    \
    X(SINK_DELETE, "DELETE FROM sinks WHERE num=?1")                                                         \
    X(SINK_COUNT, "SELECT count(*) FROM sinks")                                                              \
    X(SINKS, "SELECT name, cursor, (SELECT count(*) FROM deliveries WHERE sink=num AND status=0),"           \
             " (SELECT count(*) FROM deliveries WHERE sink=num AND status=2),"                               \
             " (SELECT min(finished) FROM deliveries WHERE sink=num AND status=0) FROM sinks ORDER BY name") \
    X(SAVE,                                                                                                  \
      "INSERT INTO deliveries(sink, " ROW ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"                \
      " ?11) ON CONFLICT(sink, seq) DO UPDATE SET id=?3, client=?4, status=?5, attempts=?6, finished=?7,"    \
      " updated=?8, due=?9, http=?10, error=?11")                                                            \
    X(DUE, "SELECT " ROW " FROM deliveries WHERE sink=?1 AND status=0 ORDER BY due, seq")                    \
    X(LIST, "SELECT " ROW " FROM deliveries WHERE sink=?1 AND seq<?2 ORDER BY seq DESC"                      \
            " LIMIT ?3")                                                                                     \
    X(LIST_STATUS,                                                                                           \
      "SELECT " ROW " FROM deliveries INDEXED BY deliveries_status WHERE sink=?1 AND seq<?2 AND status=?4"   \
      " ORDER BY seq DESC LIMIT ?3")                                                                         \
    X(REPLAY, "UPDATE deliveries SET status=0, attempts=0, due=?4 WHERE sink=?1 AND status=?5"               \
              " AND finished BETWEEN ?2 AND ?3")                                                             \
    X(OLD, "SELECT seq FROM deliveries WHERE sink=?1 AND status=?2 AND finished<?3 LIMIT ?4")                \
    X(DELETE, "DELETE FROM deliveries WHERE sink=?1 AND seq=?2")                                             \
    X(DELETE_ALL, "DELETE FROM deliveries WHERE sink=?1")                                                    \
    X(NEXT_SINK, "SELECT min(num) FROM sinks WHERE num>?1")                                                  \
    X(HOOK_GET, "SELECT " HOOK_ROW " FROM webhooks WHERE name=?1")                                           \
    X(HOOK_LIST, "SELECT " HOOK_ROW " FROM webhooks WHERE name>?1 ORDER BY name LIMIT ?2")                   \
    X(HOOK_VERSION, "SELECT version FROM webhooks WHERE name=?1")                                            \
    X(HOOK_PUT,                                                                                              \
      "INSERT OR REPLACE INTO webhooks(" HOOK_ROW ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")  \
    X(HOOK_DELETE, "DELETE FROM webhooks WHERE name=?1")                                                     \
    X(DAY_ADD, "INSERT INTO days VALUES(?, ?, ?" PP_DAY_COUNTS(                                              \
                   DAY_VALUE) ") ON CONFLICT(of, name, day)"                                                 \
                              " DO UPDATE SET day=day" PP_DAY_COUNTS(DAY_SUM))                               \
    X(DAY_ERROR, "INSERT INTO day_errors VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(of, name, day, code)"        \
                 " DO UPDATE SET n=n+excluded.n")                                                            \
    X(DAYS_COUNT, "SELECT count(*) FROM days WHERE of=?1 AND name=?2 AND day BETWEEN ?3 AND ?4")             \
    X(DAYS, "SELECT day" PP_DAY_COUNTS(                                                                      \
                DAY_COLUMN) " FROM days WHERE of=?1 AND name=?2 AND day BETWEEN ?3 AND ?4 ORDER BY day")     \
    X(DAY_ERRORS_COUNT, "SELECT count(*) FROM day_errors WHERE of=?1 AND name=?2 AND day=?3")                \
    X(DAY_ERRORS, "SELECT code, n FROM day_errors WHERE of=?1 AND name=?2 AND day=?3 ORDER BY code")         \
    X(DAYS_OLD, "SELECT of, name, day FROM days INDEXED BY days_old WHERE day<?1 LIMIT ?2")                  \
    X(DAY_DELETE, "DELETE FROM days WHERE of=?1 AND name=?2 AND day=?3")                                     \
    X(DAY_ERRORS_DELETE, "DELETE FROM day_errors WHERE of=?1 AND name=?2 AND day=?3")

/* The counts of a day as parts of statements. */
#define DAY_VALUE(name, bson, meaning)  ", ?"
#define DAY_SUM(name, bson, meaning)    ", " #name "=" #name "+excluded." #name
#define DAY_COLUMN(name, bson, meaning) ", " #name

enum {
#define X(name, sql) Q_##name,
    QUERIES(X)
#undef X
};
static const char *const sql[] = {QUERIES(PP_SQ_TEXT)};

enum { PP_DELIVERY_OPS(PP_SQ_OP_NUMBER) };
static const char *const op_names[] = {PP_DELIVERY_OPS(PP_SQ_OP_NAME)};

/* The state of the thread that runs the store's requests. */
struct pp_dq {
    struct pp_sq_group group;
    struct pp_sq_db db;
    bool endpoints_changed; /* the current transaction has changed an endpoint */
};

struct delivery_store {
    struct pp_delivery_store base;
    struct pp_sq_file file;
    struct pp_dq d;
};

/* Returns a sink's number, or 0 if the sink has no cursor or on failure (db.err is set). Sets
 * *cursor unless `cursor` is NULL. */
static int64_t find_sink(struct pp_dq *d, const char *name, uint64_t *cursor)
{
    sqlite3_stmt *st = pp_sq_bind(&d->db, Q_SINK_GET, "t", name);
    if (!pp_sq_row(&d->db, st))
        return 0;
    int64_t num = pp_sq_col(st, 0);
    if (cursor)
        *cursor = (uint64_t)pp_sq_col(st, 1);
    pp_sq_done(st);
    return num;
}

/* --- cursors and deliveries: writing --- */

static enum pp_err op_save(struct pp_dq *d, struct pp_delivery_save *r)
{
    int64_t sink = find_sink(d, r->sink, NULL);
    if (!sink)
        return pp_sq_refuse(&d->db, PP_ENOTFOUND);
    for (size_t i = 0; i < r->n && d->db.err == PP_OK; i++) {
        const struct pp_delivery *row = &r->rows[i];
        pp_assert(row->status <= PP_DELIVERY_DEAD, "a delivery in no state");
        int64_t due = row->status == PP_DELIVERY_PENDING ? row->due_ms : 0;
        pp_sq_run(&d->db, Q_SAVE, "iittdiiiidt", sink, (int64_t)row->seq, row->id, row->client,
                  (int)row->status, (int64_t)row->attempts, row->finished_at, row->updated_at, due,
                  row->http_status, row->error);
    }
    if (r->cursor)
        pp_sq_run(&d->db, Q_SINK_MOVE, "ii", sink, (int64_t)r->cursor);
    return d->db.err;
}

static enum pp_err op_cursor(struct pp_dq *d, struct pp_delivery_cursor *r)
{
    r->cursor = 0;
    if (find_sink(d, r->sink, &r->cursor))
        return PP_OK;
    if (!r->start_at || strncmp(r->sink, PP_SINK_WEBHOOK, sizeof PP_SINK_WEBHOOK - 1) == 0)
        return pp_sq_refuse(&d->db, PP_ENOTFOUND);
    pp_sq_run(&d->db, Q_SINK_ADD, "ti", r->sink, (int64_t)*r->start_at);
    r->cursor = *r->start_at;
    return d->db.err;
}

static enum pp_err op_replay(struct pp_dq *d, struct pp_delivery_replay *r)
{
    r->n = 0;
    pp_assert(r->status >= -1 && r->status <= PP_DELIVERY_DEAD, "a replay of no state");
    int64_t sink = find_sink(d, r->sink, NULL);
    for (int status = PP_DELIVERY_PENDING; sink && status <= PP_DELIVERY_DEAD; status++)
        /* A replayed row becomes PENDING, the first status, so the loop meets no row twice. */
        if (r->status < 0 || r->status == status)
            r->n +=
                (uint64_t)pp_sq_run(&d->db, Q_REPLAY, "iiiid", sink, r->from_ms, r->to_ms, r->now_ms, status);
    return d->db.err;
}

/* Deletes up to `limit` old rows of the sink with that status. Returns how many. `seqs` is memory
 * for `limit` numbers. */
static uint64_t clean_some(struct pp_dq *d, const struct pp_delivery_clean *r, int64_t sink, int status,
                           uint64_t limit, int64_t *seqs)
{
    uint64_t n = 0, found = 0;
    sqlite3_stmt *st = pp_sq_bind(&d->db, Q_OLD, "idii", sink, status, r->finished_before_ms, (int64_t)limit);
    while (found < limit && pp_sq_row(&d->db, st))
        seqs[found++] = pp_sq_col(st, 0);
    pp_sq_done(st);
    for (uint64_t i = 0; i < found; i++)
        n += (uint64_t)pp_sq_run(&d->db, Q_DELETE, "ii", sink, seqs[i]);
    return n;
}

static enum pp_err op_clean(struct pp_dq *d, struct pp_delivery_clean *r)
{
    int64_t sink = 0, *seqs = pp_sq_array(&d->db, r->req.arena, r->limit, sizeof *seqs);
    r->n = 0;
    while (seqs && r->n < r->limit && (sink = pp_sq_int(&d->db, 0, Q_NEXT_SINK, "i", sink)) > 0)
        for (int status = PP_DELIVERY_DELIVERED; status <= PP_DELIVERY_DEAD; status++)
            if (r->n < r->limit)
                r->n += clean_some(d, r, sink, status, r->limit - r->n, seqs);
    pp_sq_trim(&d->db);
    return d->db.err;
}

/* --- cursors and deliveries: reading --- */

/* Converts a row of ROW to a delivery. */
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

static enum pp_err op_due(struct pp_dq *d, struct pp_delivery_due *r)
{
    r->n = 0;
    r->next_ms = INT64_MAX;
    r->rows = pp_sq_array(&d->db, r->req.arena, r->limit, sizeof *r->rows);
    int64_t sink = find_sink(d, r->sink, NULL);
    if (!r->rows || !sink)
        return d->db.err;
    sqlite3_stmt *st = pp_sq_bind(&d->db, Q_DUE, "i", sink);
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

static enum pp_err op_list(struct pp_dq *d, struct pp_delivery_list *r)
{
    r->n = 0;
    r->more = false;
    pp_assert(r->status >= -1 && r->status <= PP_DELIVERY_DEAD, "a list of no state");
    r->rows = pp_sq_array(&d->db, r->req.arena, r->limit, sizeof *r->rows);
    int64_t sink = find_sink(d, r->sink, NULL), limit = (int64_t)r->limit + 1;
    int64_t before = r->before_seq ? (int64_t)r->before_seq : INT64_MAX;
    if (!r->rows || !sink)
        return d->db.err;
    sqlite3_stmt *st = r->status < 0
                           ? pp_sq_bind(&d->db, Q_LIST, "iii", sink, before, limit)
                           : pp_sq_bind(&d->db, Q_LIST_STATUS, "iiid", sink, before, limit, r->status);
    while (pp_sq_page(&d->db, st, r->n, r->limit, &r->more))
        read_row(d, r->req.arena, st, &r->rows[r->n++]);
    return d->db.err;
}

static enum pp_err op_sinks(struct pp_dq *d, struct pp_delivery_sinks *r)
{
    size_t n = (size_t)pp_sq_int(&d->db, 0, Q_SINK_COUNT, "");
    r->n = 0;
    r->sinks = pp_sq_array(&d->db, r->req.arena, n, sizeof *r->sinks);
    sqlite3_stmt *st = pp_sq_bind(&d->db, Q_SINKS, "");
    while (r->n < n && pp_sq_row(&d->db, st))
        r->sinks[r->n++] = (struct pp_delivery_sink){.sink = pp_sq_text(&d->db, r->req.arena, st, 0),
                                                     .cursor = (uint64_t)pp_sq_col(st, 1),
                                                     .pending = (uint64_t)pp_sq_col(st, 2),
                                                     .dead = (uint64_t)pp_sq_col(st, 3),
                                                     .oldest_at = pp_sq_col(st, 4)};
    pp_sq_done(st);
    return d->db.err;
}

/* --- endpoints of webhooks --- */

static void sink_name(char out[PP_SINK_NAME_MAX], const char *webhook)
{
    int n = snprintf(out, PP_SINK_NAME_MAX, PP_SINK_WEBHOOK "%s", webhook);
    pp_assert(n >= (int)sizeof PP_SINK_WEBHOOK && n < PP_SINK_NAME_MAX,
              "an endpoint's name has a wrong length");
}

/* Converts a row of HOOK_ROW to an endpoint. */
static void read_webhook(struct pp_dq *d, struct pp_arena *a, sqlite3_stmt *st, struct pp_webhook *w)
{
    *w = (struct pp_webhook){.name = pp_sq_text(&d->db, a, st, 0),
                             .url = pp_sq_text(&d->db, a, st, 1),
                             .filter = pp_sq_text(&d->db, a, st, 2),
                             .secret = pp_sq_text(&d->db, a, st, 3),
                             .old_secret = pp_sq_text(&d->db, a, st, 4),
                             .old_until_ms = pp_sq_col(st, 5),
                             .paused = pp_sq_col(st, 6),
                             .disabled = pp_sq_col(st, 7),
                             .created_at = pp_sq_col(st, 8),
                             .updated_at = pp_sq_col(st, 9),
                             .version = (uint64_t)pp_sq_col(st, 10)};
}

static enum pp_err op_webhooks(struct pp_dq *d, struct pp_webhooks *r)
{
    size_t limit = r->name ? 1 : r->limit;
    r->n = 0;
    r->more = false;
    r->webhooks = pp_sq_array(&d->db, r->req.arena, limit, sizeof *r->webhooks);
    sqlite3_stmt *st =
        r->name ? pp_sq_bind(&d->db, Q_HOOK_GET, "t", r->name)
                : pp_sq_bind(&d->db, Q_HOOK_LIST, "ti", r->after ? r->after : "", (int64_t)limit + 1);
    while (pp_sq_page(&d->db, st, r->n, limit, &r->more))
        read_webhook(d, r->req.arena, st, &r->webhooks[r->n++]);
    return d->db.err;
}

/* Returns the version that the caller has passed. The request may run twice, and its first run
 * overwrites r->webhook.version, so the first run keeps a copy in carry[0]. */
static uint64_t version_read(const struct pp_dq *d, const struct pp_webhook_put *r)
{
    uint64_t *kept = &d->group.call->carry[0]; /* the version + 1; 0: nothing is kept yet */
    if (*kept == 0)
        *kept = r->webhook.version + 1;
    return *kept - 1;
}

static enum pp_err op_put_webhook(struct pp_dq *d, struct pp_webhook_put *r)
{
    const struct pp_webhook *w = &r->webhook;
    char sink[PP_SINK_NAME_MAX];
    uint64_t version = version_read(d, r);
    int64_t was = pp_sq_int(&d->db, 0, Q_HOOK_VERSION, "t", w->name);
    if ((uint64_t)was != version)
        return pp_sq_refuse(&d->db, PP_ESTALE);
    pp_sq_run(&d->db, Q_HOOK_PUT, "tttttiddiii", w->name, w->url, w->filter, w->secret, w->old_secret,
              w->old_until_ms, (int)w->paused, (int)w->disabled, w->created_at, w->updated_at, was + 1);
    if (was == 0) {
        sink_name(sink, w->name);
        pp_sq_run(&d->db, Q_SINK_ADD, "ti", sink, (int64_t)r->start_at);
    }
    if (d->db.err != PP_OK)
        return d->db.err;
    d->endpoints_changed = true;
    r->webhook.version = (uint64_t)was + 1;
    return PP_OK;
}

static enum pp_err op_delete_webhook(struct pp_dq *d, struct pp_webhook_delete *r)
{
    char name[PP_SINK_NAME_MAX];
    sink_name(name, r->name);
    if (pp_sq_run(&d->db, Q_HOOK_DELETE, "t", r->name) == 0)
        return pp_sq_refuse(&d->db, PP_ENOTFOUND);
    int64_t sink = find_sink(d, name, NULL);
    pp_sq_run(&d->db, Q_DELETE_ALL, "i", sink);
    pp_sq_run(&d->db, Q_SINK_DELETE, "i", sink);
    d->endpoints_changed = true;
    return d->db.err;
}

/* --- statistics of days --- */

static enum pp_err op_days_begin(struct pp_dq *d, struct pp_days_begin *r)
{
    r->cursor = 0;
    if (!find_sink(d, PP_SINK_STATISTICS, &r->cursor))
        pp_sq_run(&d->db, Q_SINK_ADD, "ti", PP_SINK_STATISTICS, (int64_t)0);
    r->end = r->upto > r->cursor ? r->upto : r->cursor;
    return d->db.err;
}

static void add_day(struct pp_dq *d, const struct pp_day *day)
{
    const int of = (int)day->of;
    const uint64_t *n = day->n;
#define TYPE(name, bson, meaning)  "i"
#define VALUE(name, bson, meaning) , (int64_t)n[PP_DAY_##name]
    pp_sq_run(&d->db, Q_DAY_ADD, "dtd" PP_DAY_COUNTS(TYPE), of, day->name,
              (int)day->day PP_DAY_COUNTS(VALUE));
#undef TYPE
#undef VALUE
    for (size_t i = 0; i < day->n_errors; i++)
        pp_sq_run(&d->db, Q_DAY_ERROR, "dtddi", of, day->name, (int)day->day, (int)day->errors[i].code,
                  (int64_t)day->errors[i].n);
}

/* Adds the days and moves the cursor in one transaction, so the cursor says which ranges were
 * added. */
static enum pp_err op_days_add(struct pp_dq *d, struct pp_days_add *r)
{
    uint64_t cursor = 0;
    int64_t sink = find_sink(d, PP_SINK_STATISTICS, &cursor);
    pp_assert(r->cursor < r->end, "an empty range of items is added");
    if (d->db.err == PP_OK && sink && cursor >= r->end)
        return PP_OK;
    if (!sink || cursor != r->cursor)
        return pp_sq_refuse(&d->db, PP_ESTALE);
    for (size_t i = 0; i < r->n; i++)
        add_day(d, &r->days[i]);
    pp_sq_run(&d->db, Q_SINK_MOVE, "ii", sink, (int64_t)r->end);
    return d->db.err;
}

static void read_errors(struct pp_dq *d, const struct pp_days *r, struct pp_day *day)
{
    size_t n = (size_t)pp_sq_int(&d->db, 0, Q_DAY_ERRORS_COUNT, "dtd", (int)r->of, r->name, (int)day->day);
    day->errors = pp_sq_array(&d->db, r->req.arena, n, sizeof *day->errors);
    sqlite3_stmt *st = pp_sq_bind(&d->db, Q_DAY_ERRORS, "dtd", (int)r->of, r->name, (int)day->day);
    while (day->n_errors < n && pp_sq_row(&d->db, st))
        day->errors[day->n_errors++] =
            (struct pp_code_count){(uint16_t)pp_sq_col(st, 0), (uint64_t)pp_sq_col(st, 1)};
    pp_sq_done(st);
}

static enum pp_err op_days(struct pp_dq *d, struct pp_days *r)
{
    size_t n =
        (size_t)pp_sq_int(&d->db, 0, Q_DAYS_COUNT, "dtdd", (int)r->of, r->name, (int)r->from, (int)r->to);
    r->n = 0;
    r->days = pp_sq_array(&d->db, r->req.arena, n, sizeof *r->days);
    sqlite3_stmt *st = pp_sq_bind(&d->db, Q_DAYS, "dtdd", (int)r->of, r->name, (int)r->from, (int)r->to);
    while (r->days && r->n < n && pp_sq_row(&d->db, st)) {
        struct pp_day *day = &r->days[r->n++];
        *day = (struct pp_day){.of = r->of, .name = r->name, .day = (int32_t)pp_sq_col(st, 0)};
        for (int i = 0; i < PP_DAY_COUNT; i++)
            day->n[i] = (uint64_t)pp_sq_col(st, 1 + i);
    }
    pp_sq_done(st);
    for (size_t i = 0; i < r->n && d->db.err == PP_OK; i++)
        read_errors(d, r, &r->days[i]);
    return d->db.err;
}

static enum pp_err op_days_clean(struct pp_dq *d, struct pp_days_clean *r)
{
    struct pp_day *old = pp_sq_array(&d->db, r->req.arena, r->limit, sizeof *old);
    size_t n = 0;
    r->n = 0;
    sqlite3_stmt *st = pp_sq_bind(&d->db, Q_DAYS_OLD, "di", (int)r->before_day, (int64_t)r->limit);
    for (; old && n < r->limit && pp_sq_row(&d->db, st); n++)
        old[n] = (struct pp_day){.of = (enum pp_day_of)pp_sq_col(st, 0),
                                 .name = pp_sq_text(&d->db, r->req.arena, st, 1),
                                 .day = (int32_t)pp_sq_col(st, 2)};
    pp_sq_done(st);
    for (size_t i = 0; i < n; i++) {
        r->n +=
            (uint64_t)pp_sq_run(&d->db, Q_DAY_DELETE, "dtd", (int)old[i].of, old[i].name, (int)old[i].day);
        pp_sq_run(&d->db, Q_DAY_ERRORS_DELETE, "dtd", (int)old[i].of, old[i].name, (int)old[i].day);
    }
    return d->db.err;
}

/* --- the port --- */

/* Syncs a change of an endpoint to disk: a checkpoint syncs the log and the database file. */
static enum pp_err committed(void *state)
{
    struct pp_dq *d = state;
    if (d->endpoints_changed)
        pp_sq_exec(&d->db, "PRAGMA wal_checkpoint(FULL)");
    d->endpoints_changed = false;
    return d->db.err;
}

static void rolled_back(void *state)
{
    ((struct pp_dq *)state)->endpoints_changed = false;
}

#define X(name, type) PP_SQ_OP(pp_delivery_store, delivery_store, writer, name, type, op_##name(state, r))
PP_DELIVERY_OPS(X)
#undef X

static bool roundtrips(struct pp_delivery_store *base, size_t i, const char **name, uint64_t *n)
{
    return pp_sq_roundtrips(&((struct delivery_store *)base)->file, i, name, n);
}

static void close_store(struct pp_delivery_store *base)
{
    pp_sq_file_close(&((struct delivery_store *)base)->file);
    free(base);
}

static const struct pp_delivery_store_ops ops = {PP_DELIVERY_OPS(PP_SQ_OP_SUBMIT).roundtrips = roundtrips,
                                                 .close = close_store};

enum pp_err pp_sqlite_delivery_store_open(struct pp_loop *loop, const char *path,
                                          struct pp_delivery_store **out)
{
    static const struct pp_sq_kind kind = {.writer = "deliveries",
                                           .sql = sql,
                                           .n_sql = PP_SQ_N(sql),
                                           .schema = schema,
                                           .version = PP_SQ_N(schema),
                                           .ops = op_names,
                                           .n_ops = PP_SQ_N(op_names),
                                           .cache_bytes = 4 << 20,
                                           .group = 64,
                                           .hooks = {.committed = committed, .rolled_back = rolled_back}};
    struct delivery_store *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&s->file, &kind, loop, path, &s->d.group, &s->d.db);
    if (err == PP_OK)
        *out = &s->base;
    else
        close_store(&s->base);
    return err;
}

enum pp_err pp_sqlite_delivery_store_look(const char *path, struct pp_sqlite_look *out)
{
    out->known = PP_SQ_N(schema);
    return pp_sq_look(path, &out->version);
}
