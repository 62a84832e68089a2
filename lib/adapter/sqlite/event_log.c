/* event_log.c: the event log: one table of events in order of their numbers, whose oldest events
 * are deleted.
 *
 *   append, clean --> writer lane: 1 thread, 1 connection: one transaction and fsync for all
 *   read          --> reader lane: a read-only connection each; a call reads one snapshot
 *
 * Invariants: state.last is the highest number ever given; it stays when all events are deleted. A
 * commit is on disk before a reader sees it, so a number that was read is never given to another
 * event. state.bytes is the sum of the data in the table. state.cleaned is below the first event.
 *
 * To change the schema, append a step to `schema` (never edit one that was released). */
#include <stdlib.h>

#include "base/check.h"
#include "file.h"

static const char *const schema[] = {
    "CREATE TABLE events(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, key TEXT NOT NULL, type TEXT NOT NULL,"
    " data BLOB NOT NULL);"
    "CREATE TABLE state(last INTEGER NOT NULL, cleaned INTEGER NOT NULL, bytes INTEGER NOT NULL);"
    "INSERT INTO state VALUES(0, 0, 0);",
};

#define QUERIES(X)                                                                            \
    X(STATE, "SELECT last, cleaned, bytes FROM state")                                        \
    X(STATE_SET, "UPDATE state SET last=?1, cleaned=?2, bytes=?3")                            \
    X(ADD, "INSERT INTO events(seq, at, key, type, data) VALUES(?1, ?2, ?3, ?4, ?5)")         \
    X(READ, "SELECT seq, at, key, type, data FROM events WHERE seq>?1 ORDER BY seq LIMIT ?2") \
    X(OLDEST, "SELECT seq, at, length(data) FROM events WHERE seq>?1 ORDER BY seq LIMIT ?2")  \
    X(DELETE, "DELETE FROM events WHERE seq<=?1")

enum {
#define X(name, sql) Q_##name,
    QUERIES(X)
#undef X
};
static const char *const sql[] = {QUERIES(PP_SQ_TEXT)};

enum { PP_LOG_OPS(PP_SQ_OP_NUMBER) };
static const char *const op_names[] = {PP_LOG_OPS(PP_SQ_OP_NAME)};

struct log_state {
    int64_t last, cleaned, bytes;
};

struct sq_event_log {
    struct pp_event_log base;
    struct pp_sq_file file;
    struct pp_sq_conn w;
    struct log_state now; /* the state row, with the changes of the current transaction */
    bool dirty;           /* `now` has changes that are not in the row */
};

static struct sq_event_log *of_writer(void *state)
{
    return pp_container_of((struct pp_sq_conn *)state, struct sq_event_log, w);
}

/* --- transactions --- */

static struct log_state read_state(struct pp_sq_db *db)
{
    struct log_state s = {0};
    sqlite3_stmt *st = pp_sq_bind(db, Q_STATE, "");
    if (pp_sq_row(db, st))
        s = (struct log_state){pp_sq_col(st, 0), pp_sq_col(st, 1), pp_sq_col(st, 2)};
    pp_sq_done(st);
    return s;
}

static void flush(void *state)
{
    struct sq_event_log *l = of_writer(state);
    pp_assert(l->dirty || !l->w.group.appended, "events are appended and the last number is not written");
    if (l->dirty)
        pp_sq_run(&l->w.db, Q_STATE_SET, "iii", l->now.last, l->now.cleaned, l->now.bytes);
    l->dirty = false;
}

static void rolled_back(void *state)
{
    struct sq_event_log *l = of_writer(state);
    l->dirty = false;
    l->now = read_state(&l->w.db);
}

/* --- operations --- */

static enum pp_err op_append(struct sq_event_log *l, struct pp_log_append *r)
{
    struct pp_sq_db *db = &l->w.db;
    for (size_t i = 0; i < r->n && db->err == PP_OK; i++) {
        struct pp_event *e = &r->events[i];
        e->seq = (uint64_t)++l->now.last;
        l->now.bytes += (int64_t)e->data_n;
        pp_sq_run(db, Q_ADD, "iittb", (int64_t)e->seq, e->at_ms, e->key, e->type, e->data ? e->data : "",
                  e->data_n);
    }
    l->dirty = true;
    l->w.group.appended |= r->n > 0;
    return db->err;
}

static void read_event(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_event *e)
{
    *e = (struct pp_event){.seq = (uint64_t)pp_sq_col(st, 0),
                           .at_ms = pp_sq_col(st, 1),
                           .key = pp_sq_text(db, a, st, 2),
                           .type = pp_sq_text(db, a, st, 3),
                           .data = pp_sq_text(db, a, st, 4),
                           .data_n = (size_t)sqlite3_column_bytes(st, 4)};
}

static enum pp_err op_read(struct pp_sq_db *db, struct pp_log_read *r)
{
    size_t bytes = 0;
    struct log_state now = read_state(db);
    r->n = 0;
    r->last = (uint64_t)now.last;
    r->cleaned = (uint64_t)now.cleaned;
    r->events = pp_sq_array(db, r->req.arena, r->after < r->last ? r->limit : 0, sizeof *r->events);
    if (!r->events || r->after >= r->last)
        return db->err;
    sqlite3_stmt *st = pp_sq_bind(db, Q_READ, "ii", (int64_t)r->after, (int64_t)r->limit);
    while (r->n < r->limit && pp_sq_row(db, st)) {
        bytes += (size_t)sqlite3_column_bytes(st, 4);
        if (r->n > 0 && bytes > r->max_bytes)
            break;
        read_event(db, st, r->req.arena, &r->events[r->n++]);
    }
    pp_sq_done(st);
    return db->err;
}

static enum pp_err op_clean(struct sq_event_log *l, struct pp_log_clean *r)
{
    struct pp_sq_db *db = &l->w.db;
    struct log_state to = l->now;
    r->n = 0;
    sqlite3_stmt *st = pp_sq_bind(db, Q_OLDEST, "ii", to.cleaned, (int64_t)r->limit);
    while (r->n < r->limit && pp_sq_row(db, st)) {
        if (pp_sq_col(st, 1) >= r->before_ms && (uint64_t)to.bytes <= r->max_bytes)
            break;
        to.cleaned = pp_sq_col(st, 0);
        to.bytes -= pp_sq_col(st, 2);
        r->n++;
    }
    pp_sq_done(st);
    if (r->n > 0)
        pp_sq_run(db, Q_DELETE, "i", to.cleaned);
    pp_assert(to.cleaned >= l->now.cleaned, "the log is cleaned backwards");
    l->now = to;
    l->dirty |= r->n > 0;
    r->bytes = (uint64_t)to.bytes;
    pp_sq_trim(db);
    return db->err;
}

/* --- on the loop --- */

PP_SQ_OP(pp_event_log, sq_event_log, writer, append, pp_log_append, op_append(of_writer(state), r))
PP_SQ_OP(pp_event_log, sq_event_log, reader, read, pp_log_read, op_read(&((struct pp_sq_conn *)state)->db, r))
PP_SQ_OP(pp_event_log, sq_event_log, writer, clean, pp_log_clean, op_clean(of_writer(state), r))

static void watch(struct pp_event_log *base, void (*cb)(void *data), void *data)
{
    struct pp_sq_group *g = &((struct sq_event_log *)base)->w.group;
    g->watch = cb;
    g->watch_data = data;
}

static bool roundtrips(struct pp_event_log *base, size_t i, const char **name, uint64_t *n)
{
    return pp_sq_roundtrips(&((struct sq_event_log *)base)->file, i, name, n);
}

static void close_log(struct pp_event_log *base)
{
    pp_sq_file_close(&((struct sq_event_log *)base)->file);
    free(base);
}

static const struct pp_event_log_ops ops = {PP_LOG_OPS(PP_SQ_OP_SUBMIT).watch = watch,
                                            .roundtrips = roundtrips, .close = close_log};

/* --- opening --- */

static enum pp_err load(void *state)
{
    struct sq_event_log *l = of_writer(state);
    l->now = read_state(&l->w.db);
    return l->w.db.err;
}

enum pp_err pp_sqlite_event_log_open(struct pp_loop *loop, const char *path, struct pp_event_log **out)
{
    static const struct pp_sq_kind kind = {.writer = "events",
                                           .reader = "events-read",
                                           .sql = sql,
                                           .n_sql = PP_SQ_N(sql),
                                           .schema = schema,
                                           .version = PP_SQ_N(schema),
                                           .ops = op_names,
                                           .n_ops = PP_SQ_N(op_names),
                                           .cache_bytes = 4 << 20,
                                           .group = 64,
                                           .full_sync = true,
                                           .watched = true,
                                           .hooks = {.flush = flush, .rolled_back = rolled_back},
                                           .load = load};
    struct sq_event_log *l = calloc(1, sizeof *l);
    if (!l)
        return PP_ENOMEM;
    l->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&l->file, &kind, loop, path, &l->w.group, &l->w.db);
    if (err == PP_OK)
        *out = &l->base;
    else
        close_log(&l->base);
    return err;
}
