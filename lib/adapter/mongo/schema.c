/* schema.c: what the database has to look like, and how it comes to be: indexes, schema versions, and which
 * servers will do.
 *
 * meta/schema holds the version. Opening runs the steps that are missing, in order, under a lock that lapses.
 * Older processes may be at work on the same data, and the lock may lapse while a step runs, so a step can be
 * repeated, tolerates others that run it, and leaves documents that the version before can read. To change
 * the schema: append a step, never change one. */
#include <string.h>
#include <time.h>

#include "run.h"

enum { WIRE_5_0 = 13, SKEW_IGNORED_MS = 250, LOCK_MS = 10000, LOCK_AGAIN_MS = 50 };

/* --- the server --- */

static int64_t wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The answer was made at some time between `before` and `after`: what we had stays unless that is impossible,
 * or an answer that took seconds would make us wrong by as much. Nor is a difference that is but noise one.
 */
static void set_offset(struct pp_mg *m, int64_t server, int64_t before, int64_t after)
{
    int64_t least = server - after, most = server - before, was = atomic_load(&m->offset_ms);
    if (was < least - SKEW_IGNORED_MS || was > most + SKEW_IGNORED_MS)
        atomic_store(&m->offset_ms, least + (most - least) / 2);
    atomic_store(&m->offset_read, pp_mg_monotonic_ms());
}

enum pp_err pp_mg_hello(struct pp_mg_thread *t)
{
    bson_t reply, cmd = BSON_INITIALIZER;
    bson_iter_t it;
    BSON_APPEND_INT32(&cmd, "hello", 1);
    int64_t before = wall_ms();
    enum pp_err err = pp_mg_command(t, &cmd, false, &reply);
    int64_t after = wall_ms();
    bson_destroy(&cmd);
    bool router = pp_mg_doc_text(&reply, "msg") && !strcmp(pp_mg_doc_text(&reply, "msg"), "isdbgrid");
    if (err == PP_OK && !router && !pp_mg_doc_text(&reply, "setName")) {
        bson_set_error(&t->error, 0, 0, "the server is no member of a replica set");
        err = PP_EMISMATCH;
    } else if (err == PP_OK && pp_mg_doc_int(&reply, "maxWireVersion") < WIRE_5_0) {
        bson_set_error(&t->error, 0, 0, "the server is older than MongoDB 5.0");
        err = PP_EMISMATCH;
    } else if (err == PP_OK && bson_iter_init_find(&it, &reply, "localTime") &&
               BSON_ITER_HOLDS_DATE_TIME(&it)) {
        set_offset(t->m, bson_iter_date_time(&it), before, after);
    }
    bson_destroy(&reply);
    return err;
}

/* --- indexes --- */

struct index {
    enum pp_mg_coll coll;
    int version; /* of the schema, that has it first */
    const char *spec;
};

/* README.md says what each serves. The collections without one are here so that they exist. */
static const struct index indexes[] = {
    {PP_MG_PHOTOS, 1,
     "{'key': {'c': 1, 't.s': 1, 't.q': 1, 't.g': 1, 't.h': 1, 't.due': 1}, 'name': 'claim',"
     " 'partialFilterExpression': {'t.s': 1}}"},
    {PP_MG_PHOTOS, 1,
     "{'key': {'t.s': 1, 't.w': 1, 't.lu': 1}, 'name': 'claimed',"
     " 'partialFilterExpression': {'t.s': {'$gte': 2}}}"},
    {PP_MG_PHOTOS, 1,
     "{'key': {'o.h': 1, 'c': 1}, 'name': 'object', 'partialFilterExpression': {'o.h': {'$exists': true}}}"},
    {PP_MG_ITEMS, 1, "{'key': {'c': 1, 'i': 1, 'r': -1}, 'name': 'newest'}"},
    {PP_MG_ITEMS, 1,
     "{'key': {'c': 1, 'ok': 1}, 'name': 'waiting', 'partialFilterExpression': {'ok': {'$exists': true}}}"},
    {PP_MG_ITEMS, 1, "{'key': {'c': 1, 'b': 1, 'q': 1}, 'name': 'batch'}"},
    {PP_MG_ITEMS, 2, "{'key': {'q': 1}, 'name': 'outbox', 'partialFilterExpression': {'q': {'$gt': 0}}}"},
    {PP_MG_BATCHES, 1, "{'key': {'c': 1, '_id': -1}, 'name': 'client'}"},
    {PP_MG_BATCHES, 1, "{'key': {'f': 1, 'cr': 1}, 'name': 'finished'}"},
    {PP_MG_ROUTES, 1, "{'key': {'c': 1, 'd': 1}, 'name': 'place'}"},
    {PP_MG_SINKS, 3, "{'key': {'_id': 1}, 'name': '_id_'}"},
    {PP_MG_DELIVERIES, 3,
     "{'key': {'s': 1, 'd': 1, 'q': 1}, 'name': 'due', 'partialFilterExpression': {'d': {'$exists': true}}}"},
    {PP_MG_DELIVERIES, 3, "{'key': {'s': 1, 'st': 1, 'q': -1}, 'name': 'status'}"},
    {PP_MG_DELIVERIES, 3, "{'key': {'s': 1, 'st': 1, 'f': 1}, 'name': 'finished'}"},
    {PP_MG_CLIENTS, 1, NULL},
    {PP_MG_META, 1, NULL},
};

static const char *const coll_names[] = {
#define X(id, name) name,
    PP_MG_COLLECTIONS(X)
#undef X
};

/* JSON with single quotes. */
static void append_spec(bson_t *array, uint32_t number, const char *spec)
{
    char json[512], buf[16];
    const char *at;
    size_t n = strlen(spec);
    for (size_t i = 0; i <= n && i < sizeof json; i++)
        json[i] = spec[i] == '\'' ? '"' : spec[i];
    json[sizeof json - 1] = '\0';
    bson_t doc;
    bson_error_t e;
    if (!bson_init_from_json(&doc, json, -1, &e))
        return;
    size_t at_n = bson_uint32_to_string(number, &at, buf, sizeof buf);
    bson_append_document(array, at, (int)at_n, &doc);
    bson_destroy(&doc);
}

static enum pp_err create_indexes(struct pp_mg_thread *t, int version)
{
    enum pp_err err = PP_OK;
    for (int c = 0; c < PP_MG_COLL_COUNT && err == PP_OK; c++) {
        bson_t reply, array, cmd = BSON_INITIALIZER;
        uint32_t n = 0;
        BSON_APPEND_UTF8(&cmd, "createIndexes", coll_names[c]);
        BSON_APPEND_ARRAY_BEGIN(&cmd, "indexes", &array);
        for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++)
            if ((int)indexes[i].coll == c && indexes[i].version == version && indexes[i].spec)
                append_spec(&array, n++, indexes[i].spec);
        bson_append_array_end(&cmd, &array);
        if (n > 0) {
            err = pp_mg_command(t, &cmd, true, &reply);
            bson_destroy(&reply);
        }
        bson_destroy(&cmd);
    }
    return err;
}

/* --- versions --- */

static enum pp_err create_first(struct pp_mg_thread *t)
{
    return create_indexes(t, 1);
}

static enum pp_err create_outbox(struct pp_mg_thread *t)
{
    return create_indexes(t, 2);
}

static enum pp_err create_deliveries(struct pp_mg_thread *t)
{
    return create_indexes(t, 3);
}

static enum pp_err (*const steps[])(struct pp_mg_thread *t) = {create_first, create_outbox,
                                                               create_deliveries};
enum { SCHEMA = sizeof steps / sizeof *steps };

static enum pp_err read_version(struct pp_mg_thread *t, int64_t *version)
{
    bson_t filter = BSON_INITIALIZER;
    const bson_t *doc;
    *version = 0;
    BSON_APPEND_UTF8(&filter, F_ID, "schema");
    struct pp_mg_rows rows = pp_mg_find(t, PP_MG_META, &filter, NULL);
    while ((doc = pp_mg_next(&rows)))
        *version = pp_mg_doc_int(doc, "v");
    bson_destroy(&filter);
    return pp_mg_rows_end(&rows);
}

/* Two that write the first version at once collide; the other one's is as good. */
static enum pp_err write_version(struct pp_mg_thread *t, int64_t version)
{
    struct pp_mg_bulk bulk;
    bson_t max, filter = BSON_INITIALIZER, update = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&filter, F_ID, "schema");
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$max", &max);
    BSON_APPEND_INT64(&max, "v", version);
    bson_append_document_end(&update, &max);
    pp_mg_bulk_init(&bulk, t, PP_MG_META);
    pp_mg_bulk_update(&bulk, &filter, &update, true);
    bson_destroy(&filter);
    bson_destroy(&update);
    return pp_mg_bulk_run(&bulk);
}

/* --- one process at a time --- */

/* A lease in meta/migrating, by the server's clock. Steps may be run by several at once, but that is slow,
 * and the first to come on an empty database would all create the same collections. PP_EBUSY: somebody
 * else's. */
static enum pp_err lock(struct pp_mg_thread *t, const bson_oid_t *by)
{
    struct pp_mg_bulk bulk;
    int64_t now = pp_mg_server_ms(t, wall_ms());
    bson_t *filter = BCON_NEW(F_ID, "migrating", "until", "{", "$lt", BCON_INT64(now), "}");
    bson_t *update = BCON_NEW("$set", "{", "by", BCON_OID(by), "until", BCON_INT64(now + LOCK_MS), "}");
    pp_mg_bulk_init(&bulk, t, PP_MG_META);
    pp_mg_bulk_update(&bulk, filter, update, true);
    bson_destroy(filter);
    bson_destroy(update);
    enum pp_err err = pp_mg_bulk_run(&bulk);
    return err == PP_OK && bulk.n_dups > 0 ? PP_EBUSY : err;
}

/* What stays for a failure lapses. */
static void unlock(struct pp_mg_thread *t, const bson_oid_t *by)
{
    struct pp_mg_bulk bulk;
    bson_t *filter = BCON_NEW(F_ID, "migrating", "by", BCON_OID(by));
    pp_mg_bulk_init(&bulk, t, PP_MG_META);
    pp_mg_bulk_remove(&bulk, filter);
    bson_destroy(filter);
    if (pp_mg_bulk_run(&bulk) != PP_OK)
        pp_log(t->m->log, PP_LOG_WARN, "mongodb: the schema's lock stays until it lapses", NULL);
}

/* The steps that are missing, the version read again under the lock. */
static enum pp_err run_steps(struct pp_mg_thread *t)
{
    int64_t version;
    enum pp_err err = read_version(t, &version);
    while (err == PP_OK && version < SCHEMA) {
        err = steps[version](t);
        if (err == PP_OK)
            err = write_version(t, ++version);
    }
    return err;
}

/* The server holds back its answer until its topology changes, or LOCK_AGAIN_MS. */
static enum pp_err wait_a_moment(struct pp_mg_thread *t)
{
    bson_t first, second, cmd = BSON_INITIALIZER, wait = BSON_INITIALIZER;
    bson_iter_t it;
    BSON_APPEND_INT32(&cmd, "hello", 1);
    BSON_APPEND_INT32(&wait, "hello", 1);
    enum pp_err err = pp_mg_command(t, &cmd, false, &first);
    if (err == PP_OK && bson_iter_init_find(&it, &first, "topologyVersion")) {
        bson_append_iter(&wait, "topologyVersion", -1, &it);
        BSON_APPEND_INT32(&wait, "maxAwaitTimeMS", LOCK_AGAIN_MS);
        err = pp_mg_command(t, &wait, false, &second);
        bson_destroy(&second);
    }
    bson_destroy(&first);
    bson_destroy(&cmd);
    bson_destroy(&wait);
    return err;
}

enum pp_err pp_mg_migrate(struct pp_mg_thread *t)
{
    int64_t version;
    bson_oid_t by;
    bson_oid_init(&by, NULL);
    enum pp_err err = read_version(t, &version);
    while (err == PP_OK && version < SCHEMA) {
        err = lock(t, &by);
        if (err == PP_OK) {
            err = run_steps(t);
            unlock(t, &by);
        } else if (err == PP_EBUSY) {
            err = wait_a_moment(t);
        }
        if (err == PP_OK)
            err = read_version(t, &version);
    }
    if (err == PP_OK && version > SCHEMA) {
        bson_set_error(&t->error, 0, 0, "its schema is version %d, and this program knows %d", (int)version,
                       (int)SCHEMA);
        return PP_EMISMATCH;
    }
    return err;
}
