/* delivery_store.c: opening the delivery store and carrying requests to its lane, where all that wait share
 * one transaction.
 *
 * A power cut may lose the last saves, rows and cursor together: what they say is then delivered again. An
 * endpoint that was put or deleted is synced before it is answered. */
#include <stdatomic.h>
#include <stdlib.h>

#include "delivery.h"
#include "file.h"

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
    struct pp_sq_file file;
    struct pp_dq d;
    atomic_uint_fast64_t counts[OP_COUNT];
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

#define X(name, type)                                                                    \
    static enum pp_err run_##name(void *state, struct pp_req *req)                       \
    {                                                                                    \
        return pp_dq_##name(state, (struct type *)req);                                  \
    }                                                                                    \
    static enum pp_err submit_##name(struct pp_delivery_store *base, struct type *r)     \
    {                                                                                    \
        struct store *s = (struct store *)base;                                          \
        return pp_sq_submit(s->file.writer, &r->req, run_##name, &s->counts[OP_##name]); \
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
    pp_sq_file_close(&s->file);
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

static enum pp_err load(void *state)
{
    ((struct pp_dq *)state)->group = (struct pp_sq_group){begin, commit, rollback, NULL};
    return PP_OK;
}

enum pp_err pp_sqlite_delivery_store_open(struct pp_loop *loop, const char *path,
                                          const struct pp_sqlite_options *o, struct pp_delivery_store **out)
{
    static const struct pp_sq_kind kind = {.writer = "deliveries",
                                           .sql = pp_delivery_sql,
                                           .n_sql = PP_DELIVERY_QUERY_COUNT,
                                           .schema = pp_delivery_schema,
                                           .version = PP_DELIVERY_VERSION,
                                           .cache_bytes = 4 << 20,
                                           .group = 64,
                                           .load = load};
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&s->file, &kind, loop, path, o, &s->d.group, &s->d.db);
    if (err != PP_OK) {
        store_free(s);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
