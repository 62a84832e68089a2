/* store.c: opens a store, and carries requests to its threads and back. run.h has a diagram. */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "runtime/lane.h"
#include "steps.h"

enum { OFFSET_READ_MS = 60000, CONNECT_AGAIN_MS = 1000 };

/* --- operations --- */

/* How a store uses the scratch space of a request. */
struct store_call {
    struct pp_job job;
    unsigned op; /* number of the operation */
};
_Static_assert(sizeof(struct store_call) <= sizeof(((struct pp_req *)0)->scratch),
               "a call fits into scratch");

static void run(void *state, struct pp_job *job);

static struct pp_req *req_of(struct pp_job *job)
{
    return (struct pp_req *)((char *)job - offsetof(struct pp_req, scratch));
}

static void on_done(struct pp_job *job)
{
    struct pp_req *req = req_of(job);
    req->done(req);
}

static enum pp_err submit(struct pp_mg *m, struct pp_req *req, unsigned op)
{
    struct store_call *c = (struct store_call *)req->scratch;
    pp_assert(m->home && req->done, "a request has no callback, or the store is closed");
    *c = (struct store_call){.job = {.work = run, .done = on_done}, .op = op};
    return pp_lane_submit(m->home, &c->job);
}

/* Defines run_NAME for a thread, and submit_NAME for the port's struct of functions. */
#define OPERATION(name, type, port, member)                                                \
    static void run_##name(struct pp_mg_thread *t, struct pp_req *req)                     \
    {                                                                                      \
        pp_mg_##name(t, (struct type *)req);                                               \
    }                                                                                      \
    static enum pp_err submit_##name(struct port *s, struct type *r)                       \
    {                                                                                      \
        return submit(pp_container_of(s, struct pp_mg, member), &r->req, PP_MG_OP_##name); \
    }
#define X(name, type) OPERATION(name, type, pp_task_store, base)
PP_MG_STORE_OPS(X)
#undef X
#define X(name, type) OPERATION(delivery_##name, type, pp_delivery_store, deliveries)
PP_DELIVERY_OPS(X)
#undef X
#define X(name, type) OPERATION(counters_##name, type, pp_counter_store, counters)
PP_CSTORE_OPS(X)
#undef X

static const struct op {
    const char *name, *label; /* in the metrics; in the log */
    void (*run)(struct pp_mg_thread *t, struct pp_req *req);
} ops[PP_MG_OP_COUNT] = {
#define X(op, type) [PP_MG_OP_##op] = {#op, #op, run_##op},
    PP_MG_STORE_OPS(X)
#undef X
#define X(op, type) [PP_MG_OP_delivery_##op] = {#op, "delivery_" #op, run_delivery_##op},
        PP_DELIVERY_OPS(X)
#undef X
#define X(op, type) [PP_MG_OP_counters_##op] = {#op, "counters_" #op, run_counters_##op},
            PP_CSTORE_OPS(X)
#undef X
};

/* --- on a thread of the lane --- */

/* Reads the server's clock once a minute, on the first thread that finds it due. Only logs a
 * failure, because the operation that follows fails in the same way. */
static void refresh_offset(struct pp_mg_thread *t)
{
    int64_t now = pp_mg_monotonic_ms(), read = atomic_load(&t->m->offset_read);
    if (now - read < OFFSET_READ_MS || !atomic_compare_exchange_strong(&t->m->offset_read, &read, now))
        return;
    pp_mg_hello(t);
    if (t->err != PP_OK)
        pp_log(t->m->log, PP_LOG_WARN, "mongodb: server clock unreadable", "error", t->error.message, NULL);
    t->err = PP_OK;
}

/* Checks the server, and brings the database to the current version. */
static enum pp_err check_server(struct pp_mg_thread *t)
{
    pp_mg_begin(t, "open", PP_MG_OP_OPEN);
    pp_mg_hello(t);
    pp_mg_migrate(t);
    if (t->err == PP_OK)
        atomic_store(&t->m->is_open, true);
    pp_mg_end(t);
    return t->err;
}

/* For a store that was opened without a server: tries to open it now. One thread tries at a time. A
 * request fails only after a try that began after the request arrived: the server may have come
 * back since an older one. A server that can't be used is asked at most once per
 * CONNECT_AGAIN_MS. */
static enum pp_err open_late(struct pp_mg_thread *t)
{
    struct pp_mg *m = t->m;
    enum pp_err err = PP_EIO; /* which says that nothing was written */
    int64_t arrived = pp_mg_monotonic_ms();
    pthread_mutex_lock(&m->opening);
    int64_t now = pp_mg_monotonic_ms();
    if (atomic_load(&m->is_open)) {
        err = PP_OK;
    } else if (m->tried_at <= arrived && now >= m->not_before) {
        m->tried_at = now;
        enum pp_err failure = check_server(t);
        if (failure == PP_OK) {
            err = PP_OK;
            pp_log(m->log, PP_LOG_INFO, "mongodb: server found", NULL);
        } else if (failure == PP_EMISMATCH) {
            pp_log(m->log, PP_LOG_ERROR, "mongodb: server unusable", "error", t->error.message, NULL);
            m->not_before = pp_mg_monotonic_ms() + CONNECT_AGAIN_MS;
        }
    }
    pthread_mutex_unlock(&m->opening);
    return err;
}

static void run(void *state, struct pp_job *job)
{
    struct pp_mg_thread *t = state;
    struct pp_req *req = req_of(job);
    unsigned op = ((struct store_call *)job)->op;
    req->err = atomic_load(&t->m->is_open) ? PP_OK : open_late(t);
    if (req->err == PP_OK) {
        pp_mg_begin(t, ops[op].label, op);
        refresh_offset(t);
        ops[op].run(t, req);
        req->err = t->err;
        pp_mg_end(t);
    }
}

/* --- opening and closing threads --- */

static void free_thread(struct pp_mg_thread *t)
{
    pp_assert(!t->session && !t->cursor, "a thread ends in the midst of reads");
    for (int i = 0; i < PP_MG_COLL_COUNT; i++)
        mongoc_collection_destroy(t->coll[i]);
    bson_destroy(&t->reply);
    free(t);
}

static struct pp_mg_thread *new_thread(struct pp_mg *m, mongoc_client_t *client)
{
    struct pp_mg_thread *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->m = m;
    t->client = client;
    for (int i = 0; i < PP_MG_COLL_COUNT; i++)
        t->coll[i] = mongoc_client_get_collection(client, m->database, pp_mg_coll_names[i]);
    pp_arena_init(&t->tmp, 0);
    bson_init(&t->reply);
    return t;
}

static void close_thread(void *state)
{
    struct pp_mg_thread *t = state;
    mongoc_client_pool_t *pool = t->m->pool;
    mongoc_client_t *client = t->client;
    free_thread(t);
    mongoc_client_pool_push(pool, client);
}

static void *open_thread(void *data)
{
    struct pp_mg *m = data;
    mongoc_client_t *client = mongoc_client_pool_pop(m->pool);
    struct pp_mg_thread *t = new_thread(m, client);
    if (!t)
        mongoc_client_pool_push(m->pool, client);
    return t;
}

/* --- the ports --- */

/* Reads the name and the number of round trips of the i-th of the operations first..end-1. */
static bool read_roundtrips(struct pp_mg *m, size_t first, size_t end, size_t i, const char **name,
                            uint64_t *n)
{
    if (i >= end - first)
        return false;
    *name = ops[first + i].name;
    *n = atomic_load_explicit(&m->roundtrips[first + i], memory_order_relaxed);
    return true;
}

static void close_store(struct pp_mg *m)
{
    if (m->home)
        pp_lane_home_close(m->home);
    if (m->lane)
        pp_lane_close(m->lane);
    if (m->pool)
        mongoc_client_pool_destroy(m->pool);
    pp_mg_lost_free(m);
    pp_mg_commands_close(m->commands);
    pthread_mutex_destroy(&m->opening);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* Defines NAME_ops, the functions of a port whose operations have the numbers first..end-1. */
#define PORT(name, port, member, first, end, OPS)                                               \
    static bool name##_roundtrips(struct port *s, size_t i, const char **op, uint64_t *n)       \
    {                                                                                           \
        return read_roundtrips(pp_container_of(s, struct pp_mg, member), first, end, i, op, n); \
    }                                                                                           \
    static void name##_close(struct port *s)                                                    \
    {                                                                                           \
        close_store(pp_container_of(s, struct pp_mg, member));                                  \
    }                                                                                           \
    static const struct port##_ops name##_ops = {OPS(X).roundtrips = name##_roundtrips,         \
                                                 .close = name##_close};
#define X(name, type) .name = submit_##name,
PORT(task, pp_task_store, base, PP_MG_OP_OPEN + 1, PP_MG_OP_BETWEEN, PP_MG_STORE_OPS)
#undef X
#define X(name, type) .name = submit_delivery_##name,
PORT(delivery, pp_delivery_store, deliveries, PP_MG_OP_BETWEEN + 1, PP_MG_OP_AFTER, PP_DELIVERY_OPS)
#undef X
#define X(name, type) .name = submit_counters_##name,
PORT(counter, pp_counter_store, counters, PP_MG_OP_AFTER + 1, PP_MG_OP_COUNT, PP_CSTORE_OPS)
#undef X

/* --- opening --- */

static void default_ms(mongoc_uri_t *uri, const char *option, int64_t ms)
{
    if (!mongoc_uri_has_option(uri, option))
        mongoc_uri_set_option_as_int32(uri, option, (int32_t)ms);
}

/* Returns the URI with all options, and sets m->database. NULL: the URI is bad. */
static mongoc_uri_t *read_uri(struct pp_mg *m, const struct pp_mongo_options *o,
                              char error[PP_MONGO_ERROR_MAX])
{
    bson_error_t e;
    int64_t timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : 10000;
    mongoc_uri_t *uri = o->uri ? mongoc_uri_new_with_error(o->uri, &e) : NULL;
    const char *db = uri ? mongoc_uri_get_database(uri) : NULL;
    if (!uri || (db && strlen(db) >= sizeof m->database)) {
        bson_snprintf(error, PP_MONGO_ERROR_MAX, "not the URI of a MongoDB: %s",
                      uri ? "the database's name" : e.message);
        mongoc_uri_destroy(uri);
        return NULL;
    }
    bson_snprintf(m->database, sizeof m->database, "%s", db && *db ? db : "photopool");
    default_ms(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, timeout_ms);
    default_ms(uri, MONGOC_URI_CONNECTTIMEOUTMS, timeout_ms);
    default_ms(uri, MONGOC_URI_SOCKETTIMEOUTMS, timeout_ms);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, true);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYREADS, true);
    mongoc_write_concern_t *wc = mongoc_write_concern_new();
    mongoc_write_concern_set_wmajority(wc, (int32_t)timeout_ms);
    mongoc_write_concern_set_journal(wc, true);
    mongoc_uri_set_write_concern(uri, wc);
    mongoc_write_concern_destroy(wc);
    return uri;
}

static enum pp_err open_pool(struct pp_mg *m, const mongoc_uri_t *uri, unsigned threads,
                             char error[PP_MONGO_ERROR_MAX])
{
    bson_error_t e = {0};
    m->pool = mongoc_client_pool_new_with_error(uri, &e);
    if (!m->pool) {
        bson_snprintf(error, PP_MONGO_ERROR_MAX, "%s", e.message);
        return PP_EINVAL;
    }
    mongoc_client_pool_set_error_api(m->pool, MONGOC_ERROR_API_VERSION_2);
    if (!mongoc_uri_get_appname(uri))
        mongoc_client_pool_set_appname(m->pool, "photopool");
    mongoc_client_pool_max_size(m->pool, threads + 1);
    return PP_OK;
}

/* Reads what the server says of itself. */
static enum pp_err look_at_server(struct pp_mg_thread *t, struct pp_mongo_look *look)
{
    pp_mg_begin(t, "look", PP_MG_OP_OPEN);
    pp_mg_look(t, look);
    pp_mg_end(t);
    return t->err;
}

/* Looks for a server, and prepares its database, or, if `look` is not NULL, only reads what the
 * server says. With `later` it looks only once, and a missing server is no failure. */
static enum pp_err prepare(struct pp_mg *m, mongoc_uri_t *uri, bool later, struct pp_mongo_look *look,
                           char error[PP_MONGO_ERROR_MAX])
{
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_SERVERSELECTIONTRYONCE, later || look);
    mongoc_client_t *client = mongoc_client_new_from_uri(uri);
    struct pp_mg_thread *t = client ? new_thread(m, client) : NULL;
    enum pp_err err = PP_ENOMEM;
    if (t) {
        mongoc_client_set_error_api(client, MONGOC_ERROR_API_VERSION_2);
        err = look ? look_at_server(t, look) : check_server(t);
        uint32_t domain = t->error.domain;
        if (err != PP_OK)
            bson_snprintf(error, PP_MONGO_ERROR_MAX, "%s", t->error.message);
        if (err != PP_OK && later &&
            (domain == MONGOC_ERROR_SERVER_SELECTION || domain == MONGOC_ERROR_STREAM)) {
            pp_log(m->log, PP_LOG_WARN, "mongodb: no server yet", NULL);
            err = PP_OK;
        }
        free_thread(t);
    }
    if (client)
        mongoc_client_destroy(client);
    return err;
}

static enum pp_err open_lane(struct pp_mg *m, unsigned threads, size_t capacity)
{
    struct pp_lane_options o = {.name = "mongo",
                                .threads = threads,
                                .capacity = capacity ? capacity : 4096,
                                .max_batch = 1,
                                .open = open_thread,
                                .close = close_thread,
                                .data = m};
    m->lane = pp_lane_open(&o);
    m->home = m->lane ? pp_lane_home_open(m->lane, m->loop) : NULL;
    return m->home ? PP_OK : PP_ENOMEM;
}

/* Makes a store that is not connected. Sets *uri, which the caller frees; NULL: the URI is bad.
 * Returns NULL when out of memory. */
static struct pp_mg *new_store(const struct pp_mongo_options *o, mongoc_uri_t **uri,
                               char error[PP_MONGO_ERROR_MAX])
{
    struct pp_mg *m = calloc(1, sizeof *m);
    bson_snprintf(error, PP_MONGO_ERROR_MAX, "%s", pp_err_text(PP_ENOMEM));
    *uri = NULL;
    if (!m)
        return NULL;
    mongoc_init();
    /* the driver must not log, because fail() in run.c logs its errors */
    mongoc_log_set_handler(NULL, NULL);
    m->log = o->log;
    m->key_of = o->key_of;
    pp_mg_commands_open(m->commands);
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->opening, NULL);
    *uri = read_uri(m, o, error);
    return m;
}

/* Opens a store for any port. */
static enum pp_err open_store(struct pp_loop *loop, const struct pp_mongo_options *o, struct pp_mg **out,
                              char error[PP_MONGO_ERROR_MAX])
{
    unsigned threads = o->threads ? o->threads : 4;
    mongoc_uri_t *uri;
    struct pp_mg *m = new_store(o, &uri, error);
    if (!m)
        return PP_ENOMEM;
    m->loop = loop;
    enum pp_err err = uri ? open_pool(m, uri, threads, error) : PP_EINVAL;
    if (err == PP_OK)
        err = prepare(m, uri, o->later, NULL, error);
    if (err == PP_OK)
        err = open_lane(m, threads, o->capacity);
    mongoc_uri_destroy(uri);
    if (err != PP_OK) {
        close_store(m);
        return err;
    }
    m->base.ops = &task_ops;
    m->deliveries.ops = &delivery_ops;
    m->counters.ops = &counter_ops;
    *out = m;
    return PP_OK;
}

enum pp_err pp_mongo_look(const struct pp_mongo_options *o, struct pp_mongo_look *out,
                          char error[PP_MONGO_ERROR_MAX])
{
    const struct pp_mongo_options once = {.uri = o->uri, .timeout_ms = o->timeout_ms, .log = o->log};
    mongoc_uri_t *uri;
    struct pp_mg *m = new_store(&once, &uri, error);
    *out = (struct pp_mongo_look){0};
    if (!m)
        return PP_ENOMEM;
    enum pp_err err = uri ? prepare(m, uri, false, out, error) : PP_EINVAL;
    mongoc_uri_destroy(uri);
    close_store(m);
    return err;
}

enum pp_err pp_mongo_task_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                     struct pp_task_store **out, char error[PP_MONGO_ERROR_MAX])
{
    struct pp_mg *m = NULL;
    enum pp_err err = open_store(loop, o, &m, error);
    if (m)
        *out = &m->base;
    return err;
}

enum pp_err pp_mongo_delivery_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                         struct pp_delivery_store **out, char error[PP_MONGO_ERROR_MAX])
{
    struct pp_mg *m = NULL;
    enum pp_err err = open_store(loop, o, &m, error);
    if (m)
        *out = &m->deliveries;
    return err;
}

enum pp_err pp_mongo_counter_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                        struct pp_counter_store **out, char error[PP_MONGO_ERROR_MAX])
{
    struct pp_mg *m = NULL;
    enum pp_err err = open_store(loop, o, &m, error);
    if (m)
        *out = &m->counters;
    return err;
}

void pp_mongo_cleanup(void)
{
    mongoc_cleanup();
}
