/* schema.c: checks that the server is suitable, and brings the database's indexes to the current
 * version.
 *
 * meta/schema holds the version. Opening a store creates the indexes of all missing versions in
 * order, under a lock that lapses. Processes of the older version may use the data meanwhile,
 * and the lock may lapse while a version is created. So creating a version must be repeatable,
 * even by several processes at once, and the previous version must be able to read every
 * document. To change the schema: add rows of PP_MG_INDEXES with the next version, and increase
 * SCHEMA. */
#include "steps.h"

#include <string.h>

#include "base/clock.h"

enum { WIRE_5_0 = 13, SKEW_IGNORED_MS = 250, STEP_MS = 1000, LOCK_MS = 10000, LOCK_AGAIN_MS = 50 };

/* --- the server --- */

/* Sets the offset of the server's clock. Our time is steady, so a change of seconds means that the
 * server's clock was set, or that another server is primary. The server read its clock at some time
 * between `before` and `after`. The old offset stays while it is consistent with that, because
 * after an answer that took seconds a new offset would be wrong by as much. */
static void set_offset(struct pp_mg *m, int64_t server, int64_t before, int64_t after)
{
    int64_t least = server - after, most = server - before, was = atomic_load(&m->offset_ms);
    if (was < least - SKEW_IGNORED_MS || was > most + SKEW_IGNORED_MS)
        atomic_store(&m->offset_ms, least + (most - least) / 2);
    if (atomic_load(&m->is_open) && (was < least - STEP_MS || was > most + STEP_MS))
        pp_log(m->log, PP_LOG_WARN, "mongodb: the server's clock was set", "seconds",
               PP_LOG_INT((least + (most - least) / 2 - was) / 1000), NULL);
    atomic_store(&m->offset_read, pp_mg_monotonic_ms());
}

void pp_mg_hello(struct pp_mg_thread *t)
{
    bson_iter_t it;
    int64_t before = pp_clock_wall_ms();
    const bson_t *reply = pp_mg_command(t, MQ_HELLO, "DI", NULL, NULL);
    int64_t after = pp_clock_wall_ms();
    const char *msg = pp_mg_doc_text(reply, "msg"), *unusable = NULL;
    bool router = msg && !strcmp(msg, "isdbgrid");
    if (t->err != PP_OK)
        return;
    if (!router && !pp_mg_doc_text(reply, "setName"))
        unusable = "the server is no member of a replica set";
    else if (pp_mg_doc_int(reply, "maxWireVersion") < WIRE_5_0)
        unusable = "the server is older than MongoDB 5.0";
    else if (bson_iter_init_find(&it, reply, "localTime") && BSON_ITER_HOLDS_DATE_TIME(&it))
        set_offset(t->m, bson_iter_date_time(&it), before, after);
    if (unusable)
        bson_set_error(&t->error, 0, 0, "%s", unusable);
    pp_mg_require(t, !unusable, PP_EMISMATCH);
}

/* --- versions --- */

/* The highest version, and the one that gives photos their keys (rekey.c). */
enum { SCHEMA = 9, SCHEMA_KEYS = 6 };

static const struct index {
    enum pp_mg_coll coll;
    int version;
    const char *name, *keys, *condition;
} indexes[] = {
#define X(coll, version, name, keys, condition) {PP_MG_##coll, version, name, keys, condition},
    PP_MG_INDEXES(X)
#undef X
};

static void append_index(bson_t *specs, uint32_t number, const struct index *index)
{
    char buf[16];
    const char *at;
    char *text = bson_strdup_printf("{'key': %s, 'name': '%s'%s%s}", index->keys, index->name,
                                    index->condition ? ", 'partialFilterExpression': " : "",
                                    index->condition ? index->condition : "");
    bson_t *spec = pp_mg_json(text);
    int n = (int)bson_uint32_to_string(number, &at, buf, sizeof buf);
    bson_append_document(specs, at, n, spec);
    bson_destroy(spec);
    bson_free(text);
}

/* Creates the indexes that this version adds. */
static void create_indexes(struct pp_mg_thread *t, int version)
{
    pp_assert(version > 0 && version <= SCHEMA, "a version has no indexes");
    for (int c = 0; c < PP_MG_COLL_COUNT; c++) {
        bson_t specs = BSON_INITIALIZER;
        uint32_t n = 0;
        for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++)
            if ((int)indexes[i].coll == c && indexes[i].version == version)
                append_index(&specs, n++, &indexes[i]);
        if (n > 0)
            pp_mg_command(t, MQ_CREATE_INDEXES, "sA", pp_mg_coll_names[c], &specs);
        bson_destroy(&specs);
    }
}

static int64_t read_version(struct pp_mg_thread *t)
{
    const bson_t *row = pp_mg_first(t, MQ_SCHEMA, "");
    return row ? pp_mg_doc_int(row, "v") : 0;
}

void pp_mg_look(struct pp_mg_thread *t, struct pp_mongo_look *out)
{
    pp_mg_hello(t);
    const char *set = pp_mg_doc_text(&t->reply, "setName");
    bson_snprintf(out->set, sizeof out->set, "%s", set ? set : "");
    const char *version = pp_mg_doc_text(pp_mg_command(t, MQ_BUILD_INFO, ""), "version");
    bson_snprintf(out->version, sizeof out->version, "%s", version ? version : "?");
    out->ahead_ms = atomic_load(&t->m->offset_ms);
    out->schema = (int)read_version(t);
    out->known = SCHEMA;
}

/* --- one process at a time --- */

/* Takes the lease in meta/migrating, by the server's clock. Several processes could create the
 * indexes at once, but that is slow, and all would create the same collections. False: another
 * process has the lease, or the operation has failed. */
static bool lock_schema(struct pp_mg_thread *t, const bson_oid_t *by)
{
    int64_t now = pp_mg_server_ms(t, pp_clock_wall_ms());
    struct pp_mg_done done = pp_mg_write(t, MQ_SCHEMA_LOCK, "ioi", now, by, now + LOCK_MS);
    return t->err == PP_OK && done.n_dups == 0;
}

/* Releases the lease. If that fails, the lease lapses. */
static void unlock_schema(struct pp_mg_thread *t, const bson_oid_t *by)
{
    enum pp_err err = t->err;
    t->err = PP_OK; /* releases it also after a failure */
    pp_mg_write(t, MQ_SCHEMA_UNLOCK, "o", by);
    if (t->err != PP_OK)
        pp_log(t->m->log, PP_LOG_WARN, "mongodb: the schema's lock stays until it lapses", NULL);
    t->err = err;
}

/* Extends the lease. False: it has lapsed and another process may have it, or the operation has
 * failed. */
static bool keep_lock(struct pp_mg_thread *t, void *by)
{
    int64_t now = pp_mg_server_ms(t, pp_clock_wall_ms());
    struct pp_mg_done done = pp_mg_write(t, MQ_SCHEMA_KEEP, "oi", (const bson_oid_t *)by, now + LOCK_MS);
    return t->err == PP_OK && done.matched == 1;
}

/* Reads the version again, now under the lock, and creates the versions that are missing. */
static void run_steps(struct pp_mg_thread *t, bson_oid_t *by)
{
    for (int64_t version = read_version(t); t->err == PP_OK && version < SCHEMA;) {
        create_indexes(t, (int)++version);
        if (version == SCHEMA_KEYS && !pp_mg_rekey(t, keep_lock, by))
            return;
        /* several processes may write the first version at the same time, and all write the same
         * document */
        pp_mg_write(t, MQ_SCHEMA_SET, "i", version);
    }
}

/* Waits: the server delays its answer until its topology changes, at most LOCK_AGAIN_MS. */
static void wait_a_moment(struct pp_mg_thread *t)
{
    static const int64_t wait_ms = LOCK_AGAIN_MS;
    bson_t known;
    bson_iter_t it;
    const uint8_t *p;
    uint32_t n;
    const bson_t *reply = pp_mg_command(t, MQ_HELLO, "DI", NULL, NULL);
    if (bson_iter_init_find(&it, reply, "topologyVersion") && BSON_ITER_HOLDS_DOCUMENT(&it)) {
        bson_iter_document(&it, &n, &p);
        if (bson_init_static(&known, p, n))
            pp_mg_command(t, MQ_HELLO, "DI", &known, &wait_ms);
    }
}

void pp_mg_migrate(struct pp_mg_thread *t)
{
    bson_oid_t by;
    bson_oid_init(&by, NULL);
    int64_t version = read_version(t);
    while (t->err == PP_OK && version < SCHEMA) {
        if (lock_schema(t, &by)) {
            run_steps(t, &by);
            unlock_schema(t, &by);
        } else {
            wait_a_moment(t);
        }
        version = read_version(t);
    }
    if (t->err != PP_OK || version <= SCHEMA)
        return;
    bson_set_error(&t->error, 0, 0, "its schema is version %d, and this program knows %d", (int)version,
                   (int)SCHEMA);
    pp_mg_fail(t, PP_EMISMATCH);
}
