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
#include <string.h>
#include <unistd.h>

#include "db.h"
#include "group.h"

enum { VERSION = 1, READERS = 2, WRITE_GROUP = 64, READ_GROUP = 16 };

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

struct lane_state {
    struct pp_sq_group group;
    struct pp_sq_db db;
};

struct event_log {
    struct pp_event_log base;
    struct pp_lane *writer, *reader;
    struct pp_lane_home *writer_home, *reader_home;
    struct lane_state w, readers[READERS];
    struct state now; /* the writer's, as of its transaction */
    bool dirty, appended;
    atomic_uint readers_taken;
    atomic_uint_fast64_t counts[OP_COUNT];
    int lock;
    /* From the writer to the watcher: one letter, under way or not. */
    struct pp_mailbox *mailbox;
    struct pp_mail mail;
    atomic_bool mailed;
    void (*watch)(void *data);
    void *watch_data;
};

static struct event_log *of_writer(void *state)
{
    return pp_container_of((struct lane_state *)state, struct event_log, w);
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

static void begin_read(void *state)
{
    pp_sq_begin(&((struct lane_state *)state)->db, false);
}

static enum pp_err commit_read(void *state)
{
    struct lane_state *r = state;
    if (r->db.err == PP_OK)
        pp_sq_commit(&r->db);
    return r->db.err;
}

static void rollback_read(void *state)
{
    pp_sq_rollback(&((struct lane_state *)state)->db);
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
    struct pp_sq_db *db = &((struct lane_state *)state)->db;
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
    return pp_sq_submit(l->writer_home, &r->req, run_append, &l->counts[OP_APPEND]);
}

static enum pp_err read_log(struct pp_event_log *base, struct pp_log_read *r)
{
    struct event_log *l = (struct event_log *)base;
    return pp_sq_submit(l->reader_home, &r->req, run_read, &l->counts[OP_READ]);
}

static enum pp_err clean(struct pp_event_log *base, struct pp_log_clean *r)
{
    struct event_log *l = (struct event_log *)base;
    return pp_sq_submit(l->writer_home, &r->req, run_clean, &l->counts[OP_CLEAN]);
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
    pp_lane_home_close(l->writer_home);
    pp_lane_home_close(l->reader_home);
    if (l->writer)
        pp_lane_close(l->writer);
    if (l->reader)
        pp_lane_close(l->reader);
    l->watch = NULL;
    pp_mailbox_close(l->mailbox);
    for (int i = 0; i < READERS; i++)
        if (l->readers[i].db.h)
            pp_sq_close(&l->readers[i].db);
    if (l->w.db.h)
        pp_sq_close(&l->w.db);
    if (l->lock >= 0)
        close(l->lock);
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

static enum pp_err open_files(struct event_log *l, const char *path, size_t cache_bytes)
{
    struct pp_sq_open o = {
        .path = path, .sql = sql, .n_sql = QUERY_COUNT, .cache_bytes = cache_bytes, .full_sync = true};
    enum pp_err err;
    l->lock = pp_sq_lock(path, &err);
    if (err == PP_OK)
        err = pp_sq_open(&l->w.db, &o);
    if (err == PP_OK)
        err = pp_sq_migrate(&l->w.db, schema, VERSION);
    if (err != PP_OK)
        return err;
    l->w.group = (struct pp_sq_group){begin_write, commit_write, rollback_write, NULL};
    l->now = read_state(&l->w.db);
    o.read_only = true;
    o.cache_bytes = cache_bytes / 8;
    for (int i = 0; i < READERS && l->w.db.err == PP_OK; i++) {
        l->readers[i].group = (struct pp_sq_group){begin_read, commit_read, rollback_read, NULL};
        err = pp_sq_open(&l->readers[i].db, &o);
        if (err != PP_OK)
            return err;
    }
    return l->w.db.err;
}

static void *take_reader(void *data)
{
    struct event_log *l = data;
    return &l->readers[atomic_fetch_add(&l->readers_taken, 1)];
}

static bool open_lanes(struct event_log *l, struct pp_loop *loop, size_t capacity)
{
    struct pp_lane_options w = {.name = "events",
                                .threads = 1,
                                .capacity = capacity,
                                .max_batch = WRITE_GROUP,
                                .batch = pp_sq_group_batch,
                                .data = &l->w};
    struct pp_lane_options r = {.name = "events-read",
                                .threads = READERS,
                                .capacity = capacity,
                                .max_batch = READ_GROUP,
                                .batch = pp_sq_group_batch,
                                .open = take_reader,
                                .data = l};
    l->mailbox = pp_mailbox_open(loop, 0, on_mail, l);
    l->writer = l->mailbox ? pp_lane_open(&w) : NULL;
    l->reader = l->writer ? pp_lane_open(&r) : NULL;
    if (!l->reader)
        return false;
    l->writer_home = pp_lane_home_open(l->writer, loop);
    l->reader_home = pp_lane_home_open(l->reader, loop);
    return l->writer_home && l->reader_home;
}

enum pp_err pp_sqlite_event_log_open(struct pp_loop *loop, const char *path,
                                     const struct pp_sqlite_options *o, struct pp_event_log **out)
{
    static const struct pp_sqlite_options none = {0};
    if (!o)
        o = &none;
    struct event_log *l = calloc(1, sizeof *l);
    if (!l)
        return PP_ENOMEM;
    l->base.ops = &ops;
    l->lock = -1;
    enum pp_err err = open_files(l, path, o->cache_bytes ? o->cache_bytes : (size_t)4 << 20);
    if (err == PP_OK && !open_lanes(l, loop, o->capacity ? o->capacity : 4096))
        err = PP_ENOMEM;
    if (err != PP_OK) {
        log_free(l);
        return err;
    }
    *out = &l->base;
    return PP_OK;
}
