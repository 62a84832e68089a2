/* event_log.c: events by number in one table, the oldest of them forgotten.
 *
 *   append, clean --> writer lane: 1 thread, 1 connection: what waits shares one transaction and one fsync
 *   read          --> reader lane: a read-only connection each, one state of the file for a call
 *
 * Invariants: state.last is the highest number ever given, and stays when all events are gone; a commit is on
 * disk before anybody sees it, so a number that was seen is never given again. state.bytes is the sum of what
 * is in the table; `cleaned` is below the first event.
 *
 * To change the schema, append a step (never edit one that was released). */
#include "event_log.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "file.h"

enum { VERSION = 1 };

static const char *const schema[VERSION] = {
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
        QUERY_COUNT
};
static const char *const sql[QUERY_COUNT] = {
#define X(name, sql) sql,
    QUERIES(X)
#undef X
};

enum { OP_APPEND, OP_READ, OP_CLEAN, OP_COUNT };
static const char *const op_names[OP_COUNT] = {"append", "read", "clean"};

struct state {
    int64_t last, cleaned, bytes;
};

struct event_log {
    struct pp_event_log base;
    struct pp_sq_file file;
    struct pp_sq_conn w;
    struct state now; /* the writer's, as of its transaction */
    bool dirty, appended;
    atomic_uint_fast64_t counts[OP_COUNT];
    /* From the writer to the watcher: one letter, under way or not. */
    struct pp_mailbox *mailbox;
    struct pp_mail mail;
    atomic_bool mailed;
    void (*watch)(void *data);
    void *watch_data;
};

static struct event_log *of_writer(void *state)
{
    return pp_container_of((struct pp_sq_conn *)state, struct event_log, w);
}

/* --- transactions --- */

static struct state read_state(struct pp_sq_db *db)
{
    struct state s = {0};
    sqlite3_stmt *st = pp_sq_bind(db, Q_STATE, "");
    if (pp_sq_row(db, st))
        s = (struct state){pp_sq_col(st, 0), pp_sq_col(st, 1), pp_sq_col(st, 2)};
    pp_sq_done(st);
    return s;
}

static void begin_write(void *state)
{
    struct event_log *l = of_writer(state);
    l->dirty = l->appended = false;
    pp_sq_begin(&l->w.db, true);
}

static enum pp_err commit_write(void *state)
{
    struct event_log *l = of_writer(state);
    if (l->dirty)
        pp_sq_run(&l->w.db, Q_STATE_SET, "iii", l->now.last, l->now.cleaned, l->now.bytes);
    pp_sq_commit(&l->w.db);
    if (l->w.db.err == PP_OK && l->appended && !atomic_exchange(&l->mailed, true))
        pp_mailbox_post(l->mailbox, &l->mail);
    return l->w.db.err;
}

static void rollback_write(void *state)
{
    struct event_log *l = of_writer(state);
    pp_sq_rollback(&l->w.db);
    l->now = read_state(&l->w.db);
    l->w.db.err = PP_OK;
}

/* --- operations --- */

static enum pp_err run_append(void *state, struct pp_req *req)
{
    struct event_log *l = of_writer(state);
    struct pp_log_append *r = (struct pp_log_append *)req;
    struct pp_sq_db *db = &l->w.db;
    for (size_t i = 0; i < r->n && db->err == PP_OK; i++) {
        struct pp_event *e = &r->events[i];
        e->seq = (uint64_t)++l->now.last;
        l->now.bytes += (int64_t)e->data_n;
        pp_sq_run(db, Q_ADD, "iittb", (int64_t)e->seq, e->at_ms, e->key, e->type, e->data ? e->data : "",
                  e->data_n);
    }
    l->dirty = true;
    l->appended |= r->n > 0;
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

static enum pp_err run_read(void *state, struct pp_req *req)
{
    struct pp_sq_db *db = &((struct pp_sq_conn *)state)->db;
    struct pp_log_read *r = (struct pp_log_read *)req;
    size_t bytes = 0;
    struct state now = read_state(db);
    r->n = 0;
    r->last = (uint64_t)now.last;
    r->cleaned = (uint64_t)now.cleaned;
    r->events = pp_sq_array(db, req->arena, r->after < r->last ? r->limit : 0, sizeof *r->events);
    if (!r->events || r->after >= r->last)
        return db->err;
    sqlite3_stmt *st = pp_sq_bind(db, Q_READ, "ii", (int64_t)r->after, (int64_t)r->limit);
    while (r->n < r->limit && pp_sq_row(db, st)) {
        bytes += (size_t)sqlite3_column_bytes(st, 4);
        if (r->n > 0 && bytes > r->max_bytes)
            break;
        read_event(db, st, req->arena, &r->events[r->n++]);
    }
    pp_sq_done(st);
    return db->err;
}

static enum pp_err run_clean(void *state, struct pp_req *req)
{
    struct event_log *l = of_writer(state);
    struct pp_log_clean *r = (struct pp_log_clean *)req;
    struct pp_sq_db *db = &l->w.db;
    struct state to = l->now;
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
    l->now = to;
    l->dirty |= r->n > 0;
    r->bytes = (uint64_t)to.bytes;
    return db->err;
}

/* --- on the loop --- */

static enum pp_err append(struct pp_event_log *base, struct pp_log_append *r)
{
    struct event_log *l = (struct event_log *)base;
    return pp_sq_submit(l->file.writer, &r->req, run_append, &l->counts[OP_APPEND]);
}

static enum pp_err read_log(struct pp_event_log *base, struct pp_log_read *r)
{
    struct event_log *l = (struct event_log *)base;
    return pp_sq_submit(l->file.reader, &r->req, run_read, &l->counts[OP_READ]);
}

static enum pp_err clean(struct pp_event_log *base, struct pp_log_clean *r)
{
    struct event_log *l = (struct event_log *)base;
    return pp_sq_submit(l->file.writer, &r->req, run_clean, &l->counts[OP_CLEAN]);
}

static void on_mail(void *data, struct pp_list *mail)
{
    struct event_log *l = data;
    while (pp_list_pop(mail))
        ;
    atomic_store(&l->mailed, false); /* before the watcher looks */
    if (l->watch)
        l->watch(l->watch_data);
}

static void watch(struct pp_event_log *base, void (*cb)(void *data), void *data)
{
    struct event_log *l = (struct event_log *)base;
    l->watch = cb;
    l->watch_data = data;
}

static bool roundtrips(struct pp_event_log *base, size_t i, const char **name, uint64_t *n)
{
    struct event_log *l = (struct event_log *)base;
    if (i >= OP_COUNT)
        return false;
    *name = op_names[i];
    *n = atomic_load_explicit(&l->counts[i], memory_order_relaxed);
    return true;
}

static void log_free(struct event_log *l)
{
    pp_sq_file_close(&l->file);
    l->watch = NULL;
    pp_mailbox_close(l->mailbox);
    free(l);
}

static void close_log(struct pp_event_log *base)
{
    log_free((struct event_log *)base);
}

static const struct pp_event_log_ops ops = {
    .append = append,
    .read = read_log,
    .clean = clean,
    .watch = watch,
    .roundtrips = roundtrips,
    .close = close_log,
};

/* --- opening --- */

static enum pp_err load(void *state)
{
    struct event_log *l = of_writer(state);
    l->w.group = (struct pp_sq_group){begin_write, commit_write, rollback_write, NULL};
    l->now = read_state(&l->w.db);
    return l->w.db.err;
}

enum pp_err pp_sqlite_event_log_open(struct pp_loop *loop, const char *path,
                                     const struct pp_sqlite_options *o, struct pp_event_log **out)
{
    static const struct pp_sq_kind kind = {.writer = "events",
                                           .reader = "events-read",
                                           .sql = sql,
                                           .n_sql = QUERY_COUNT,
                                           .schema = schema,
                                           .version = VERSION,
                                           .cache_bytes = 4 << 20,
                                           .group = 64,
                                           .full_sync = true,
                                           .load = load};
    struct event_log *l = calloc(1, sizeof *l);
    if (!l)
        return PP_ENOMEM;
    l->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&l->file, &kind, loop, path, o, &l->w.group, &l->w.db);
    l->mailbox = err == PP_OK ? pp_mailbox_open(loop, 0, on_mail, l) : NULL;
    if (!l->mailbox) {
        log_free(l);
        return err != PP_OK ? err : PP_ENOMEM;
    }
    *out = &l->base;
    return PP_OK;
}
