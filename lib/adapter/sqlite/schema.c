/* schema.c: see schema.h. */
#include "schema.h"

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

    /* the outbox */
    "CREATE INDEX items_outbox ON items(seq) WHERE seq>0;"
    "ALTER TABLE state ADD COLUMN last INTEGER NOT NULL DEFAULT 0;"
    "UPDATE state SET last=coalesce((SELECT max(seq) FROM items WHERE seq>0), 0);"
    "CREATE TABLE numbers(name TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;",
};

const char *const pp_store_sql[PP_STORE_QUERY_COUNT] = {
#define X(name, sql) sql,
    PP_STORE_QUERIES(X)
#undef X
};
