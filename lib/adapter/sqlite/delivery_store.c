/* delivery_store.c: the port of the delivery store. All waiting requests share one transaction.
 *
 * A power cut may lose the last saves. Rows and cursor are lost together, so their messages are
 * delivered again. A change of an endpoint is synced before it is answered. */
#include <stdlib.h>

#include "delivery.h"
#include "file.h"

#define X(name, type) OP_##name,
enum { PP_DELIVERY_OPS(X) N_OPS };
#undef X
#define X(name, type) #name,
static const char *const op_names[N_OPS] = {PP_DELIVERY_OPS(X)};
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

struct delivery_store {
    struct pp_delivery_store base;
    struct pp_sq_file file;
    struct pp_dq d;
};

/* Syncs a change of an endpoint: a checkpoint syncs the log and the database file. */
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

#define X(name, type)                                              \
    static enum pp_err run_##name(void *state, struct pp_req *req) \
    {                                                              \
        return pp_dq_##name(state, (struct type *)req);            \
    }                                                              \
    PP_SQ_SUBMIT(pp_delivery_store, delivery_store, writer, name, type)
PP_DELIVERY_OPS(X)
#undef X

static bool roundtrips(struct pp_delivery_store *base, size_t i, const char **name, uint64_t *n)
{
    return pp_sq_roundtrips(&((struct delivery_store *)base)->file, op_names, N_OPS, i, name, n);
}

static void close_store(struct pp_delivery_store *base)
{
    pp_sq_file_close(&((struct delivery_store *)base)->file);
    free(base);
}

static const struct pp_delivery_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_DELIVERY_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_store,
};

static enum pp_err load(void *state)
{
    struct pp_dq *d = state;
    d->group.committed = committed;
    d->group.rolled_back = rolled_back;
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
    struct delivery_store *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    enum pp_err err = pp_sq_file_open(&s->file, &kind, loop, path, o, &s->d.group, &s->d.db);
    if (err != PP_OK) {
        close_store(&s->base);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
