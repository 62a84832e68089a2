/* wire_ports.c: opens the adapters of the ports that hold data: for each port, the URL in the
 * configuration selects the adapter. */
#include "wire_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/amqp/amqp_sink.h"
#include "adapter/fs/fs_blob_store.h"
#include "adapter/journal/journal_queue.h"
#include "adapter/kafka/kafka_sink.h"
#include "adapter/local/local_coordinator.h"
#include "adapter/local/local_dedupe.h"
#include "adapter/local/local_filter.h"
#include "adapter/mongo/mongo_store.h"
#include "adapter/redis/redis_look.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/s3/s3_blob_store.h"
#include "adapter/sqlite/sqlite_store.h"
#include "format/ids.h"
#include "pipeline/accept/accept.h"
#include "pipeline/fetch/keep.h"

/* With a journal, the Redis queue repeats a write only for this time after a lost connection: the
 * journal keeps the batch, so the caller gets 202 soon. */
#define JOURNAL_PATIENCE_MS 500

enum pp_err pp_wire_explain(struct pp_wire_error *error, enum pp_err err, const char *fmt, ...)
{
    va_list ap;
    if (err == PP_OK)
        return PP_OK;
    va_start(ap, fmt);
    vsnprintf(error->text, sizeof(error->text), fmt, ap);
    va_end(ap);
    return err;
}

/* The configuration, and the pipeline whose ports the functions below open. */
struct opening {
    struct pp_pipeline *p;
    const struct pp_config *c;
    struct pp_wire_error *error;
    struct pp_mongo_options mongo;
    char reason[PP_MONGO_ERROR_MAX]; /* why MongoDB could not be opened */
    const char *what;                /* says what the file at `path` is, for messages */
    char path[4096];
};

/* Returns the part after "scheme:", or NULL if the URL has another scheme. */
static const char *after(const char *url, const char *scheme)
{
    size_t n = strlen(scheme);
    return strncmp(url, scheme, n) == 0 ? url + n : NULL;
}

static bool is_local(const struct opening *o)
{
    return after(o->c->coordinator.url, "local:") != NULL;
}

bool pp_wire_stores_fit(const struct pp_config *config)
{
    return pp_wire_is_fleet(config) == !after(config->coordinator.url, "local:");
}

/* Sets `path` and `what` for the file in the data directory that the caller opens next. */
static void data_file(struct opening *o, const char *what, const char *name)
{
    o->what = what;
    snprintf(o->path, sizeof(o->path), "%s/%s", o->c->data_dir, name);
}

/* Says why a file of SQLite was not opened. */
static const char *file_text(enum pp_err err)
{
    return err == PP_EMISMATCH ? "a newer photopool has written it; start that one, or restore a backup"
                               : pp_err_text(err);
}

/* These three functions return err. If err is a failure, they first explain it: for a file of the
 * data directory, for Redis, or for MongoDB. */
static enum pp_err file_opened(struct opening *o, enum pp_err err)
{
    return pp_wire_explain(o->error, err, "%s %s: %s", o->what, o->path, file_text(err));
}

static enum pp_err redis_opened(struct opening *o, enum pp_err err)
{
    char why[PP_REDIS_WHY_MAX];
    bool bad_url = err == PP_EINVAL && pp_redis_url_problem(o->c->coordinator.url, why);
    return pp_wire_explain(o->error, err, "coordinator.url: %s", bad_url ? why : pp_err_text(err));
}

static enum pp_err mongo_opened(struct opening *o, enum pp_err err)
{
    return pp_wire_explain(o->error, err, "store.url: %s", o->reason);
}

/* --- opening the task store --- */

static enum pp_err open_store(struct opening *o)
{
    const char *path = after(o->c->store.url, "sqlite:");
    enum pp_err err;
    if (!path)
        return mongo_opened(o, pp_mongo_task_store_open(o->p->loop, &o->mongo, &o->p->store, o->reason));
    err = pp_sqlite_task_store_open(o->p->loop, path, pp_photo_key_sent, &o->p->store);
    return pp_wire_explain(o->error, err, "store %s: %s", path, file_text(err));
}

/* --- opening the ingest queue --- */

static enum pp_err open_sqlite_queue(struct opening *o, const char *name, struct pp_ingest_queue **out)
{
    data_file(o, "ingest queue", name);
    return file_opened(o, pp_sqlite_ingest_queue_open(o->p->loop, o->path, out));
}

/* Opens a journal on this node's disk, and puts it in front of the shared ingest queue. */
static enum pp_err open_journal(struct opening *o)
{
    struct pp_ingest_queue *own = NULL;
    enum pp_err err = open_sqlite_queue(o, "journal.db", &own);
    if (err != PP_OK)
        return err;
    const struct pp_journal_options journal = {
        .inner = o->p->ingest, .own = own, .log = o->p->log, .batch_of = pp_answer_batch_id};
    err = pp_journal_queue_open(o->p->loop, &journal, &o->p->ingest);
    if (err != PP_OK)
        own->ops->close(own);
    return pp_wire_explain(o->error, err, "the journal in %s could not be opened: %s", o->c->data_dir,
                           pp_err_text(err));
}

static enum pp_err open_ingest(struct opening *o)
{
    if (is_local(o))
        return open_sqlite_queue(o, "ingest.db", &o->p->ingest);
    bool journal = (o->p->roles & PP_ROLE_API) && o->c->ingest.journal;
    const struct pp_redis_ingest_options redis = {.url = o->c->coordinator.url,
                                                  .log = o->p->log,
                                                  .patience_ms = journal ? JOURNAL_PATIENCE_MS : 0,
                                                  .key_ttl_ms = o->p->params->idempotency_ms + 3600000};
    enum pp_err err = redis_opened(o, pp_redis_ingest_queue_open(o->p->loop, &redis, &o->p->ingest));
    return err == PP_OK && journal ? open_journal(o) : err;
}

/* --- opening the coordinator --- */

static enum pp_err open_coordinator(struct opening *o)
{
    struct pp_coordinator **out = &o->p->coordinator;
    /* the timeouts of the tiers, in growing order */
    const struct pp_config_tiers *tiers = &o->c->fetch.tiers;
    if (is_local(o)) {
        data_file(o, "coordinator", "coordinator.db");
        return file_opened(o, pp_local_coordinator_open(o->p->loop, o->path, out));
    }
    const struct pp_redis_coordinator_options redis = {
        .url = o->c->coordinator.url, .log = o->p->log, .longest_ms = tiers->item[tiers->n - 1].timeout_ms};
    return redis_opened(o, pp_redis_coordinator_open(o->p->loop, &redis, out));
}

/* --- the filter of known photos --- */

static enum pp_err open_filter(struct opening *o)
{
    const struct pp_redis_filter_options redis = {.url = o->c->coordinator.url, .log = o->p->log};
    if (o->p->params->filter_bytes == 0)
        return PP_OK;
    if (!is_local(o))
        return redis_opened(o, pp_redis_filter_open(o->p->loop, &redis, &o->p->filter));
    return pp_wire_explain(o->error, pp_local_filter_open(o->p->loop, &o->p->filter), "out of memory");
}

/* --- opening the dedupe port --- */

/* An owner's key must live for as long as its fetch lasts, also if outcomes are not kept. */
#define DEDUPE_WINDOW_MIN_MS 60000
/* A claim waits at most this long for the port, and then fetches unshared. */
#define DEDUPE_TIMEOUT_MS 1000

enum pp_err pp_wire_share_servers(struct pp_pipeline *p, const struct pp_config *c)
{
    const char *one = c->coordinator.url;
    const char *const *urls = c->share.servers.n ? c->share.servers.item : &one;

    if (!p->dedupe || !p->dedupe->ops->servers)
        return PP_OK;
    return p->dedupe->ops->servers(p->dedupe, urls, c->share.servers.n ? c->share.servers.n : 1);
}

/* Returns err. If it is a failure, first says which server is at fault. */
static enum pp_err share_opened(struct opening *o, enum pp_err err)
{
    const struct pp_config_strings *servers = &o->c->share.servers;
    char why[PP_REDIS_WHY_MAX];
    if (err == PP_EINVAL && servers->n == 0)
        return redis_opened(o, err);
    for (size_t i = 0; err == PP_EINVAL && i < servers->n; i++)
        if (pp_redis_url_problem(servers->item[i], why))
            return pp_wire_explain(o->error, err, "share.servers: number %zu is %s", i + 1, why);
    return pp_wire_explain(o->error, err, "share.servers: %s",
                           err == PP_EINVAL ? "a server is there twice" : pp_err_text(err));
}

static enum pp_err open_dedupe(struct opening *o)
{
    int64_t window_ms = o->c->share.window_ms;
    if (window_ms == PP_CONFIG_NONE)
        return PP_OK;
    if (window_ms < DEDUPE_WINDOW_MIN_MS)
        window_ms = DEDUPE_WINDOW_MIN_MS;
    if (is_local(o))
        return pp_wire_explain(o->error, pp_local_dedupe_open(o->p->loop, window_ms, &o->p->dedupe),
                               "out of memory");
    const struct pp_redis_dedupe_options redis = {
        .log = o->p->log, .timeout_ms = DEDUPE_TIMEOUT_MS, .window_ms = window_ms};
    enum pp_err err = pp_redis_dedupe_open(o->p->loop, &redis, &o->p->dedupe);
    if (err == PP_OK)
        err = pp_wire_share_servers(o->p, o->c);
    return share_opened(o, err);
}

/* --- the event log and the delivery store --- */

static enum pp_err open_events(struct opening *o)
{
    const struct pp_redis_event_log_options redis = {.url = o->c->coordinator.url, .log = o->p->log};
    if (!is_local(o))
        return redis_opened(o, pp_redis_event_log_open(o->p->loop, &redis, &o->p->events));
    data_file(o, "event log", "events.db");
    return file_opened(o, pp_sqlite_event_log_open(o->p->loop, o->path, &o->p->events));
}

static enum pp_err open_deliveries(struct opening *o)
{
    struct pp_delivery_store **out = &o->p->deliveries;
    if (pp_wire_is_fleet(o->c))
        return mongo_opened(o, pp_mongo_delivery_store_open(o->p->loop, &o->mongo, out, o->reason));
    data_file(o, "deliveries", "deliveries.db");
    return file_opened(o, pp_sqlite_delivery_store_open(o->p->loop, o->path, out));
}

/* A request that needs the store of counters waits at most about this long. */
#define COUNTERS_TIMEOUT_MS 2500
#define COUNTERS_THREADS    2

static enum pp_err open_counters(struct opening *o)
{
    struct pp_mongo_options mongo = o->mongo;
    const struct pp_redis_counters_options redis = {
        .url = o->c->coordinator.url, .log = o->p->log, .timeout_ms = COUNTERS_TIMEOUT_MS};

    if (!pp_wire_is_fleet(o->c)) {
        data_file(o, "counters", "counters.db");
        return file_opened(o, pp_sqlite_counters_open(o->p->loop, o->path, &o->p->own_counters));
    }
    mongo.threads = COUNTERS_THREADS;
    mongo.timeout_ms = COUNTERS_TIMEOUT_MS;
    enum pp_err err =
        mongo_opened(o, pp_mongo_counter_store_open(o->p->loop, &mongo, &o->p->counter_store, o->reason));
    return err != PP_OK ? err
                        : redis_opened(o, pp_redis_counters_open(o->p->loop, &redis, &o->p->counter_cache));
}

/* --- opening the brokers that results go to --- */

static enum pp_err open_amqp(struct pp_pipeline *p, const struct pp_config *c, struct pp_result_sink **out,
                             char error[PP_SINK_ERROR_MAX])
{
    const struct pp_amqp_options o = {.url = c->amqp.url,
                                      .exchange = c->amqp.exchange,
                                      .routing_key = c->amqp.routing_key,
                                      .ca_file = c->amqp.ca_file[0] ? c->amqp.ca_file : NULL,
                                      .log = p->log};
    return strcmp(c->amqp.url, "none") == 0 ? PP_OK : pp_amqp_sink_open(p->loop, &o, out, error);
}

static enum pp_err open_kafka(struct pp_pipeline *p, const struct pp_config *c, struct pp_result_sink **out,
                              char error[PP_SINK_ERROR_MAX])
{
    if (!c->kafka.brokers[0])
        return PP_OK;
    const char **properties = pp_wire_kafka_properties(c);
    const struct pp_kafka_options o = {
        .brokers = c->kafka.brokers, .topic = c->kafka.topic, .properties = properties, .log = p->log};
    enum pp_err err = properties ? pp_kafka_sink_open(p->loop, &o, out, error) : PP_ENOMEM;
    if (!properties)
        snprintf(error, PP_SINK_ERROR_MAX, "%s", pp_err_text(err));
    free(properties);
    return err;
}

/* The brokers that can receive results. Each function opens its sink; if the configuration has no
 * such broker, it returns PP_OK and does not set *out. */
static const struct {
    const char *name; /* names the sink in cursors, leases, metrics and logs */
    enum pp_err (*open)(struct pp_pipeline *p, const struct pp_config *c, struct pp_result_sink **out,
                        char error[PP_SINK_ERROR_MAX]);
} sinks[] = {{"amqp", open_amqp}, {"kafka", open_kafka}};
_Static_assert(sizeof sinks / sizeof *sinks <= PP_SINKS_MAX, "PP_SINKS_MAX counts the rows");

static enum pp_err open_sinks(struct opening *o)
{
    for (size_t i = 0; i < sizeof sinks / sizeof *sinks; i++) {
        char reason[PP_SINK_ERROR_MAX];
        struct pp_result_sink *sink = NULL;
        enum pp_err err = sinks[i].open(o->p, o->c, &sink, reason);
        if (err != PP_OK)
            return pp_wire_explain(o->error, err, "%s: %.480s", sinks[i].name, reason);
        if (sink)
            o->p->sinks[o->p->n_sinks++] = (struct pp_named_sink){.name = sinks[i].name, .sink = sink};
    }
    return PP_OK;
}

/* --- opening the blob store --- */

static enum pp_err open_s3(struct opening *o)
{
    struct pp_s3_options s3;
    char reason[PP_S3_REASON_MAX];

    enum pp_err err = pp_s3_options_parse(o->c->blobs.url, getenv, &s3, reason);
    if (err != PP_OK)
        return pp_wire_explain(o->error, err, "blobs.url: %.480s", reason);
    s3.log = o->p->log;
    err = pp_s3_blob_store_open(&s3, &o->p->blobs);
    if (err != PP_OK)
        return pp_wire_explain(o->error, err, "blobs.url: the object store can't be used: %s",
                               pp_err_text(err));
    err = pp_s3_blob_store_probe(o->p->blobs, reason);
    /* only a change of the configuration corrects this error; other errors may be transient */
    return err == PP_EINVAL ? pp_wire_explain(o->error, err, "blobs.url: %.480s", reason) : PP_OK;
}

static enum pp_err open_fs(struct opening *o, const char *root)
{
    const struct pp_fs_options options = {
        .root = root, .fsync = o->c->blobs.fsync == PP_FSYNC_FILE, .sole = o->p->params->sole_worker};
    enum pp_err err = pp_fs_blob_store_open(&options, &o->p->blobs);
    if (err == PP_EBUSY)
        return pp_wire_explain(
            o->error, err,
            "photo directory %s is in use by another photopool; stop it, or choose another "
            "with --set blobs.url=file:PATH",
            root);
    if (err == PP_OK)
        return PP_OK;
    return pp_wire_explain(o->error, PP_EIO, "photo directory %s can't be used: %s", root, strerror(errno));
}

static enum pp_err open_blobs(struct opening *o)
{
    const char *root = after(o->c->blobs.url, "file:");
    enum pp_err err = root ? open_fs(o, root) : open_s3(o);
    if (err != PP_OK)
        return err;
    o->p->keep_lane = pp_keep_lane_open((unsigned)o->c->keep.threads, o->p->blobs);
    return pp_wire_explain(o->error, o->p->keep_lane ? PP_OK : PP_ENOMEM,
                           "threads for hashing and writing could not be started");
}

enum pp_err pp_wire_open_ports(struct pp_pipeline *p, const struct pp_config *config,
                               struct pp_wire_error *error)
{
    static const struct {
        enum pp_err (*open)(struct opening *o);
        unsigned roles; /* the roles of processes that need the port; 0: all roles need it */
    } ports[] = {{open_store, 0},
                 {open_ingest, 0},
                 {open_coordinator, 0},
                 {open_filter, PP_ROLE_INGEST | PP_ROLE_CRON},
                 {open_dedupe, PP_ROLE_WORKER},
                 {open_events, PP_ROLES_RELAYING},
                 {open_deliveries, PP_ROLES_RELAYING},
                 {open_counters, PP_ROLE_API | PP_ROLE_CRON},
                 {open_sinks, PP_ROLE_DELIVER},
                 {open_blobs, PP_ROLE_WORKER | PP_ROLE_API}};
    struct opening o = {.p = p, .c = config, .error = error};
    o.mongo = (struct pp_mongo_options){
        .uri = config->store.url, .log = p->log, .later = true, .key_of = pp_photo_key_sent};
    enum pp_err err = PP_OK;
    for (size_t i = 0; err == PP_OK && i < sizeof ports / sizeof *ports; i++)
        if (!ports[i].roles || (p->roles & ports[i].roles))
            err = ports[i].open(&o);
    return err;
}

void pp_wire_close_ports(struct pp_pipeline *p)
{
    if (p->keep_lane)
        pp_lane_close(p->keep_lane);
    if (p->blobs)
        p->blobs->ops->close(p->blobs);
    for (size_t i = 0; i < p->n_sinks; i++)
        p->sinks[i].sink->ops->close(p->sinks[i].sink);
    if (p->own_counters)
        p->own_counters->ops->close(p->own_counters);
    if (p->counter_cache)
        p->counter_cache->ops->close(p->counter_cache);
    if (p->counter_store)
        p->counter_store->ops->close(p->counter_store);
    if (p->deliveries)
        p->deliveries->ops->close(p->deliveries);
    if (p->events)
        p->events->ops->close(p->events);
    if (p->filter)
        p->filter->ops->close(p->filter);
    if (p->dedupe)
        p->dedupe->ops->close(p->dedupe);
    if (p->coordinator)
        p->coordinator->ops->close(p->coordinator);
    if (p->ingest)
        p->ingest->ops->close(p->ingest);
    if (p->store)
        p->store->ops->close(p->store);
}

void pp_wire_end(void)
{
    pp_mongo_cleanup();
}
