/* store.c: opens a store, and carries requests to its threads and back. thread.h has a diagram. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "ops.h"
#include "runtime/lane.h"
#include "schema.h"
#include "tasks.h"

enum { OFFSET_READ_MS = 60000, CONNECT_AGAIN_MS = 1000 };

/* How a store uses the scratch space of a request. */
struct store_call {
    struct pp_job job;
    const struct pp_mg_op *op;
};
_Static_assert(sizeof(struct store_call) <= sizeof(((struct pp_req *)0)->scratch),
               "a call fits into scratch");

static struct pp_req *req_of(struct pp_job *job)
{
    return (struct pp_req *)((char *)job - offsetof(struct pp_req, scratch));
}

/* --- on a thread of the lane --- */

/* Reads the server's clock once a minute, on the first thread that finds it due. Only logs a
 * failure, because the operation that follows fails in the same way. */
static void refresh_offset(struct pp_mg_thread *t)
{
    int64_t now = pp_mg_monotonic_ms(), read = atomic_load(&t->m->offset_read);
    if (now - read < OFFSET_READ_MS || !atomic_compare_exchange_strong(&t->m->offset_read, &read, now))
        return;
    if (pp_mg_hello(t) != PP_OK)
        pp_log(t->m->log, PP_LOG_WARN, "mongodb: server clock unreadable", "error", t->error.message, NULL);
    t->err = PP_OK;
}

/* Checks the server, and brings the database to the current version. */
static enum pp_err check_server(struct pp_mg_thread *t)
{
    pp_mg_begin(t, "open", 0);
    enum pp_err err = pp_mg_hello(t);
    if (err == PP_OK)
        err = pp_mg_migrate(t);
    if (err == PP_OK)
        atomic_store(&t->m->is_open, true);
    pp_mg_end(t);
    return err;
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
    const struct store_call *c = (struct store_call *)job;
    req->err = atomic_load(&t->m->is_open) ? PP_OK : open_late(t);
    if (req->err == PP_OK) {
        pp_mg_begin(t, c->op->name, c->op->number);
        refresh_offset(t);
        req->err = c->op->run(t, req);
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

/* --- on the loop --- */

static void on_done(struct pp_job *job)
{
    struct pp_req *req = req_of(job);
    req->done(req);
}

enum pp_err pp_mg_submit(struct pp_mg *m, struct pp_req *req, const struct pp_mg_op *op)
{
    struct store_call *c = (struct store_call *)req->scratch;
    pp_assert(m->home && req->done, "a request has no callback, or the store is closed");
    pp_assert(op->number > 0 && op->number < PP_MG_OPS_MAX, "an operation has no counter");
    *c = (struct store_call){.job = {.work = run, .done = on_done}, .op = op};
    return pp_lane_submit(m->home, &c->job);
}

/* Numbers of the operations, starting at 1. */
#define X(name, type) OP_##name,
enum { OP_OPEN_STORE, PP_MG_STORE_OPS(X) OP_COUNT };
#undef X
_Static_assert((int)OP_COUNT <= (int)PP_MG_OPS_MAX, "each operation has a counter");

static struct pp_mg *mg_of(struct pp_task_store *s)
{
    return pp_container_of(s, struct pp_mg, base);
}

#define X(name, type) PP_MG_OPERATION(name, type, pp_mg_##name, pp_task_store, #name)
PP_MG_STORE_OPS(X)
#undef X

bool pp_mg_roundtrips(struct pp_mg *m, const char *const *names, size_t n_names, size_t i, const char **name,
                      uint64_t *n)
{
    if (i >= n_names)
        return false;
    *name = names[i];
    *n = atomic_load_explicit(&m->roundtrips[i + 1], memory_order_relaxed);
    return true;
}

static bool roundtrips(struct pp_task_store *s, size_t i, const char **name, uint64_t *n)
{
#define X(op, type) #op,
    static const char *const names[] = {PP_MG_STORE_OPS(X)};
#undef X
    return pp_mg_roundtrips(mg_of(s), names, sizeof names / sizeof *names, i, name, n);
}

void pp_mg_close(struct pp_mg *m)
{
    if (m->home)
        pp_lane_home_close(m->home);
    if (m->lane)
        pp_lane_close(m->lane);
    if (m->pool)
        mongoc_client_pool_destroy(m->pool);
    if (m->uri)
        mongoc_uri_destroy(m->uri);
    pp_mg_lost_free(m);
    pp_mg_commands_close(m->commands);
    pthread_mutex_destroy(&m->opening);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static void close_store(struct pp_task_store *s)
{
    pp_mg_close(mg_of(s));
}

static const struct pp_task_store_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_MG_STORE_OPS(X)
#undef X
        .roundtrips = roundtrips,
    .close = close_store,
};

/* --- opening --- */

static void default_ms(mongoc_uri_t *uri, const char *option, int64_t ms)
{
    if (!mongoc_uri_has_option(uri, option))
        mongoc_uri_set_option_as_int32(uri, option, (int32_t)ms);
}

static enum pp_err read_uri(struct pp_mg *m, const struct pp_mongo_options *o, char error[PP_MONGO_ERROR_MAX])
{
    bson_error_t e;
    m->uri = o->uri ? mongoc_uri_new_with_error(o->uri, &e) : NULL;
    const char *db = m->uri ? mongoc_uri_get_database(m->uri) : NULL;
    if (!m->uri || (db && strlen(db) >= sizeof m->database)) {
        bson_snprintf(error, PP_MONGO_ERROR_MAX, "not the URI of a MongoDB: %s",
                      m->uri ? "the database's name" : e.message);
        return PP_EINVAL;
    }
    bson_snprintf(m->database, sizeof m->database, "%s", db && *db ? db : "photopool");
    m->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : 10000;
    default_ms(m->uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, m->timeout_ms);
    default_ms(m->uri, MONGOC_URI_CONNECTTIMEOUTMS, m->timeout_ms);
    default_ms(m->uri, MONGOC_URI_SOCKETTIMEOUTMS, m->timeout_ms);
    mongoc_uri_set_option_as_bool(m->uri, MONGOC_URI_RETRYWRITES, true);
    mongoc_uri_set_option_as_bool(m->uri, MONGOC_URI_RETRYREADS, true);
    mongoc_write_concern_t *wc = mongoc_write_concern_new();
    mongoc_write_concern_set_wmajority(wc, (int32_t)m->timeout_ms);
    mongoc_write_concern_set_journal(wc, true);
    mongoc_uri_set_write_concern(m->uri, wc);
    mongoc_write_concern_destroy(wc);
    return PP_OK;
}

static enum pp_err open_pool(struct pp_mg *m, unsigned threads, char error[PP_MONGO_ERROR_MAX])
{
    bson_error_t e = {0};
    m->pool = mongoc_client_pool_new_with_error(m->uri, &e);
    if (!m->pool) {
        bson_snprintf(error, PP_MONGO_ERROR_MAX, "%s", e.message);
        return PP_EINVAL;
    }
    mongoc_client_pool_set_error_api(m->pool, MONGOC_ERROR_API_VERSION_2);
    if (!mongoc_uri_get_appname(m->uri))
        mongoc_client_pool_set_appname(m->pool, "photopool");
    mongoc_client_pool_max_size(m->pool, threads + 1);
    return PP_OK;
}

/* Creates a client that looks for a server once, or until timeout_ms. NULL: out of memory. */
static mongoc_client_t *first_client(const struct pp_mg *m, bool once)
{
    mongoc_uri_t *uri = mongoc_uri_copy(m->uri);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_SERVERSELECTIONTRYONCE, once);
    mongoc_client_t *client = mongoc_client_new_from_uri(uri);
    mongoc_uri_destroy(uri);
    if (client)
        mongoc_client_set_error_api(client, MONGOC_ERROR_API_VERSION_2);
    return client;
}

static bool is_absent(const bson_error_t *e)
{
    return e->domain == MONGOC_ERROR_SERVER_SELECTION || e->domain == MONGOC_ERROR_STREAM;
}

static enum pp_err prepare(struct pp_mg *m, bool later, char error[PP_MONGO_ERROR_MAX])
{
    mongoc_client_t *client = first_client(m, later);
    struct pp_mg_thread *t = client ? new_thread(m, client) : NULL;
    enum pp_err err = t ? check_server(t) : PP_ENOMEM;
    if (t && err != PP_OK) {
        bson_snprintf(error, PP_MONGO_ERROR_MAX, "%s", t->error.message);
        if (later && is_absent(&t->error)) {
            pp_log(m->log, PP_LOG_WARN, "mongodb: no server yet", NULL);
            err = PP_OK;
        }
    }
    if (t)
        free_thread(t);
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

enum pp_err pp_mg_open(struct pp_loop *loop, const struct pp_mongo_options *o, struct pp_mg **out,
                       char error[PP_MONGO_ERROR_MAX])
{
    unsigned threads = o->threads ? o->threads : 4;
    struct pp_mg *m = calloc(1, sizeof *m);
    bson_snprintf(error, PP_MONGO_ERROR_MAX, "%s", pp_err_text(PP_ENOMEM));
    if (!m)
        return PP_ENOMEM;
    mongoc_init();
    /* the driver must not log, because fail() in run.c logs its errors */
    mongoc_log_set_handler(NULL, NULL);
    m->loop = loop;
    m->log = o->log;
    pp_mg_commands_open(m->commands);
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->opening, NULL);
    enum pp_err err = read_uri(m, o, error);
    if (err == PP_OK)
        err = open_pool(m, threads, error);
    if (err == PP_OK)
        err = prepare(m, o->later, error);
    if (err == PP_OK)
        err = open_lane(m, threads, o->capacity);
    if (err != PP_OK) {
        pp_mg_close(m);
        return err;
    }
    *out = m;
    return PP_OK;
}

enum pp_err pp_mongo_task_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                     struct pp_task_store **out, char error[PP_MONGO_ERROR_MAX])
{
    struct pp_mg *m;
    enum pp_err err = pp_mg_open(loop, o, &m, error);
    if (err != PP_OK)
        return err;
    m->base.ops = &ops;
    *out = &m->base;
    return PP_OK;
}

void pp_mongo_cleanup(void)
{
    mongoc_cleanup();
}
