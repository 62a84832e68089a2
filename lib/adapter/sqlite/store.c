/* store.c: the port of the task store: its tables, its transactions, opening and closing. */
#include <stdlib.h>

#include "store.h"

const char *const pp_store_schema[PP_STORE_VERSION] = {
    "CREATE TABLE state(mark INTEGER NOT NULL, counts BLOB);"
    "INSERT INTO state VALUES(0, NULL);"

    "CREATE TABLE names(num INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL, UNIQUE(kind, "
    "name));"

    "CREATE TABLE batches(num INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, client INTEGER NOT NULL,"
    " refresh INTEGER, planned INTEGER, cancelled INTEGER, state INTEGER, created INTEGER, finished INTEGER,"
    " items INTEGER, photos INTEGER, first_item INTEGER, last_item INTEGER, counts BLOB);"
    "CREATE INDEX batches_client ON batches(client, id);"
    "CREATE INDEX batches_finished ON batches(finished) WHERE finished>0;"

    "CREATE TABLE items(num INTEGER PRIMARY KEY, client INTEGER NOT NULL, item TEXT NOT NULL,"
    " revision INTEGER NOT NULL, batch INTEGER NOT NULL, idx INTEGER, status INTEGER NOT NULL, photos "
    "INTEGER,"
    " created INTEGER, finished INTEGER, seq INTEGER NOT NULL, meta TEXT);"
    "CREATE INDEX items_name ON items(client, item, revision, batch);"
    "CREATE INDEX items_done ON items(batch, seq) WHERE seq>0;"

    "CREATE TABLE slots(item INTEGER, idx INTEGER, key BLOB NOT NULL, domain INTEGER, url BLOB NOT NULL,"
    " outcome BLOB, PRIMARY KEY(item, idx)) WITHOUT ROWID;"

    "CREATE TABLE photos(num INTEGER PRIMARY KEY, client INTEGER NOT NULL, key BLOB NOT NULL, task INTEGER,"
    " sha INTEGER, rec BLOB);"
    "CREATE UNIQUE INDEX photos_key ON photos(client, key);"
    "CREATE INDEX photos_sha ON photos(sha, client) WHERE sha IS NOT NULL;"

    "CREATE TABLE tasks(num INTEGER PRIMARY KEY, photo INTEGER NOT NULL, client INTEGER NOT NULL, key BLOB "
    "NOT NULL,"
    " queue INTEGER NOT NULL, tier INTEGER NOT NULL, due INTEGER NOT NULL, worker INTEGER, lease INTEGER,"
    " epoch INTEGER NOT NULL, attempts INTEGER NOT NULL, losses INTEGER NOT NULL, always INTEGER,"
    " domain INTEGER, item INTEGER, idx INTEGER, more INTEGER, known BLOB);"
    "CREATE INDEX tasks_waiting ON tasks(client, queue, due) WHERE worker IS NULL;"
    "CREATE INDEX tasks_claimed ON tasks(worker) WHERE worker IS NOT NULL;"

    "CREATE TABLE waiters(task INTEGER, item INTEGER, idx INTEGER, PRIMARY KEY(task, item, idx)) WITHOUT "
    "ROWID;"

    "CREATE TABLE clients(id TEXT PRIMARY KEY, rpm_set INTEGER, rpm_unlimited INTEGER, rpm INTEGER,"
    " concurrency INTEGER, weight INTEGER, paused INTEGER, headers TEXT, updated INTEGER) WITHOUT ROWID;"
    "CREATE TABLE routes(client TEXT, domain TEXT, tier INTEGER, tier_ms INTEGER, weight_sum REAL,"
    " value_sum REAL, samples INTEGER, updated INTEGER, PRIMARY KEY(client, domain)) WITHOUT ROWID;",

    /* version 2: the outbox */
    "CREATE INDEX items_outbox ON items(seq) WHERE seq>0;"
    "ALTER TABLE state ADD COLUMN last INTEGER NOT NULL DEFAULT 0;"
    "UPDATE state SET last=coalesce((SELECT max(seq) FROM items WHERE seq>0), 0);"
    "CREATE TABLE numbers(name TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;",

    /* version 3: the verdicts on rejected items; lists of batches by state */
    "CREATE TABLE rejected(batch INTEGER, part INTEGER, bytes BLOB NOT NULL, PRIMARY KEY(batch, part))"
    " WITHOUT ROWID;"
    "ALTER TABLE batches ADD COLUMN rejected INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX batches_state ON batches(state, id);"
    "CREATE INDEX batches_client_state ON batches(client, state, id);",

    /* version 4: objects that photos had before their bytes changed */
    ("CREATE TABLE former(sha INTEGER PRIMARY KEY, at INTEGER NOT NULL);"
     "CREATE INDEX former_at ON former(at);"),

    /* version 5: photos are known by their canonical URL (rekey.c) */
    ("ALTER TABLE state ADD COLUMN rekey INTEGER;"
     "UPDATE state SET rekey=0;"),

    /* version 6: tasks that are parked for their host; recorded failures by host. Failures that
     * were recorded before have host 0: bit 3 of a record's first byte says that it has a failure
     * (pack.c). */
    ("ALTER TABLE tasks ADD COLUMN own INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE tasks ADD COLUMN until INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE tasks ADD COLUMN code INTEGER NOT NULL DEFAULT 0;"
     "CREATE INDEX tasks_host ON tasks(domain, client);"
     "ALTER TABLE photos ADD COLUMN failed INTEGER;"
     "UPDATE photos SET failed=0 WHERE rec IS NOT NULL AND (substr(rec, 1, 1) BETWEEN x'08' AND x'0f'"
     " OR substr(rec, 1, 1) BETWEEN x'18' AND x'1f');"
     "CREATE INDEX photos_failed ON photos(client, failed) WHERE failed IS NOT NULL;"),

    /* version 7: the last attempts of each photo (pack.h) */
    "ALTER TABLE photos ADD COLUMN tried BLOB;",

    /* version 8: the open items of a batch */
    "CREATE INDEX items_open ON items(batch) WHERE seq=0 AND batch>0;",

    /* version 9: the labels of batches */
    ("ALTER TABLE batches ADD COLUMN label TEXT;"
     "CREATE INDEX batches_label ON batches(label, id) WHERE label IS NOT NULL;"),
};

static const char *const sql[] = {PP_STORE_QUERIES(PP_SQ_TEXT)};

enum { PP_STORE_OPS(PP_SQ_OP_NUMBER) };
static const char *const op_names[] = {PP_STORE_OPS(PP_SQ_OP_NAME)};

struct task_store {
    struct pp_task_store base;
    struct pp_sq_file file;
    struct pp_sw w;
};

#define X(name, type) PP_SQ_OP(pp_task_store, task_store, writer, name, type, pp_sw_##name(state, r))
PP_STORE_WRITES(X)
#undef X
#define X(name, type)                                       \
    PP_SQ_OP(pp_task_store, task_store, reader, name, type, \
             pp_sr_##name(&((struct pp_sq_conn *)state)->db, r))
PP_STORE_READS(X)
#undef X

/* --- the writer's transaction --- */

static void flush(void *state)
{
    pp_sw_batches_flush(state);
    pp_sw_save_state(state);
}

static void rolled_back(void *state)
{
    struct pp_sw *w = state;
    pp_sw_batches_clear(w);
    pp_sq_names_clear(&w->names);
    pp_sw_items_clear(w);
    pp_sw_load_state(w);
}

/* --- the port --- */

static bool roundtrips(struct pp_task_store *base, size_t i, const char **name, uint64_t *n)
{
    return pp_sq_roundtrips(&((struct task_store *)base)->file, i, name, n);
}

static void close_store(struct pp_task_store *base)
{
    struct task_store *s = (struct task_store *)base;
    pp_sq_file_close(&s->file);
    pp_sw_batches_clear(&s->w);
    pp_sq_names_clear(&s->w.names);
    pp_sw_fini(&s->w);
    free(s);
}

static const struct pp_task_store_ops ops = {PP_STORE_OPS(PP_SQ_OP_SUBMIT).roundtrips = roundtrips,
                                             .close = close_store};

static enum pp_err load(void *state)
{
    enum pp_err err = pp_sw_load(state);
    return err == PP_OK ? pp_sw_rekey(state) : err;
}

enum pp_err pp_sqlite_task_store_open(struct pp_loop *loop, const char *path, pp_key_of *key_of,
                                      struct pp_task_store **out)
{
    static const struct pp_sq_kind kind = {
        .writer = "store",
        .reader = "store-read",
        .sql = sql,
        .n_sql = PP_SQ_N(sql),
        .schema = pp_store_schema,
        .version = PP_STORE_VERSION,
        .ops = op_names,
        .n_ops = PP_SQ_N(op_names),
        .cache_bytes = 16 << 20,
        .group = 64,
        .hooks = {.start = pp_sw_start, .flush = flush, .rolled_back = rolled_back},
        .load = load};
    struct task_store *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    s->w.key_of = key_of;
    enum pp_err err = pp_sq_file_open(&s->file, &kind, loop, path, &s->w.group, &s->w.db);
    if (err == PP_OK)
        *out = &s->base;
    else
        close_store(&s->base);
    return err;
}

enum pp_err pp_sqlite_task_store_look(const char *path, struct pp_sqlite_look *out)
{
    out->known = PP_STORE_VERSION;
    return pp_sq_look(path, &out->version);
}
