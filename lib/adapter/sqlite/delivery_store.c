/* delivery_store.c: opening the delivery store and carrying requests to its lane, where all that wait share
 * one transaction.
 *
 * A power cut may lose the last saves, rows and cursor together: what they say is then delivered again. An
 * endpoint that was put or deleted is synced before it is answered. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "delivery.h"
#include "sqlite_store.h"

enum { GROUP = 64 };

#define X(name, type) OP_##name,
enum { PP_DQ_OPS(X) OP_COUNT };
#undef X
#define X(name, type) #name,
static const char *const op_names[OP_COUNT] = {PP_DQ_OPS(X)};
#undef X

const char *const pp_delivery_schema[PP_DELIVERY_VERSION] = {
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
    "CREATE INDEX deliveries_finished ON deliveries(sink, status, finished);"};

const char *const pp_delivery_sql[PP_DELIVERY_QUERY_COUNT] = {
#define X(name, sql) sql,
    PP_DELIVERY_QUERIES(X)
#undef X
};

struct store {
    struct pp_delivery_store base;
    struct pp_lane *lane;
    struct pp_lane_home *home;
    struct pp_dq d;
    atomic_uint_fast64_t counts[OP_COUNT];
    int lock;
};

static void begin(void *state)
{
    struct pp_dq *d = state;
    d->endpoints_changed = false;
    pp_sq_begin(&d->db, true);
}

/* Moving the log into the file syncs both. */
static enum pp_err commit(void *state)
{
    struct pp_dq *d = state;
    pp_sq_commit(&d->db);
    if (d->endpoints_changed)
        pp_sq_exec(&d->db, "PRAGMA wal_checkpoint(FULL)");
    return d->db.err;
}

static void rollback(void *state)
{
    pp_sq_rollback(&((struct pp_dq *)state)->db);
}

#define X(name, type)                                                                \
    static enum pp_err run_##name(void *state, struct pp_req *req)                   \
    {                                                                                \
        return pp_dq_##name(state, (struct type *)req);                              \
    }                                                                                \
    static enum pp_err submit_##name(struct pp_delivery_store *base, struct type *r) \
    {                                                                                \
        struct store *s = (struct store *)base;                                      \
        return pp_sq_submit(s->home, &r->req, run_##name, &s->counts[OP_##name]);    \
    }
PP_DQ_OPS(X)
#undef X

static bool roundtrips(struct pp_delivery_store *base, size_t i, const char **name, uint64_t *n)
{
    struct store *s = (struct store *)base;
    if (i >= OP_COUNT)
        return false;
    *name = op_names[i];
    *n = atomic_load_explicit(&s->counts[i], memory_order_relaxed);
    return true;
}

static void store_free(struct store *s)
{
    if (s->home)
        pp_lane_home_close(s->home);
    if (s->lane)
        pp_lane_close(s->lane);
    if (s->d.db.h)
        pp_sq_close(&s->d.db);
    if (s->lock >= 0)
        close(s->lock);
    free(s);
}

static void close_store(struct pp_delivery_store *base)
{
    store_free((struct store *)base);
}

static const struct pp_delivery_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_DQ_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_store,
};

static enum pp_err open_file(struct store *s, const char *path, size_t cache_bytes)
{
    struct pp_sq_open o = {
        .path = path, .sql = pp_delivery_sql, .n_sql = PP_DELIVERY_QUERY_COUNT, .cache_bytes = cache_bytes};
    enum pp_err err;
    s->lock = pp_sq_lock(path, &err);
    if (err == PP_OK)
        err = pp_sq_open(&s->d.db, &o);
    if (err == PP_OK)
        err = pp_sq_migrate(&s->d.db, pp_delivery_schema, PP_DELIVERY_VERSION);
    s->d.group = (struct pp_sq_group){begin, commit, rollback, NULL};
    return err;
}

static bool open_lane(struct store *s, struct pp_loop *loop, size_t capacity)
{
    struct pp_lane_options o = {.name = "deliveries",
                                .threads = 1,
                                .capacity = capacity,
                                .max_batch = GROUP,
                                .batch = pp_sq_group_batch,
                                .data = &s->d};
    s->lane = pp_lane_open(&o);
    s->home = s->lane ? pp_lane_home_open(s->lane, loop) : NULL;
    return s->home;
}

enum pp_err pp_sqlite_delivery_store_open(struct pp_loop *loop, const char *path,
                                          const struct pp_sqlite_options *o, struct pp_delivery_store **out)
{
    static const struct pp_sqlite_options none = {0};
    if (!o)
        o = &none;
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    s->lock = -1;
    enum pp_err err = open_file(s, path, o->cache_bytes ? o->cache_bytes : (size_t)4 << 20);
    if (err == PP_OK && !open_lane(s, loop, o->capacity ? o->capacity : 4096))
        err = PP_ENOMEM;
    if (err != PP_OK) {
        store_free(s);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
