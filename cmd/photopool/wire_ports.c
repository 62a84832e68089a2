/* wire_ports.c: see wire_ports.h. */
#include "wire_ports.h"

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
#include "adapter/mongo/mongo_store.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/s3/s3_blob_store.h"
#include "adapter/sqlite/sqlite_store.h"
#include "pipeline/fetch/keep.h"

/* The journal answers a request with 202 soon, even if Redis does not answer. */
#define JOURNAL_PATIENCE_MS 500

enum pp_err pp_wire_refuse(struct pp_wire_error *error, enum pp_err err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error->text, sizeof(error->text), fmt, ap);
    va_end(ap);
    return err;
}

/* Returns the part after "scheme:", or NULL if the URL has another scheme. */
static const char *after(const char *url, const char *scheme)
{
    size_t n = strlen(scheme);
    return strncmp(url, scheme, n) == 0 ? url + n : NULL;
}

bool pp_wire_is_fleet(const struct pp_config *config)
{
    return !after(config->store.url, "sqlite:");
}

/* --- task store --- */

static enum pp_err open_store(struct pp_pipeline *p, const struct pp_config *c, struct pp_wire_error *error)
{
    const char *path = after(c->store.url, "sqlite:");
    char reason[PP_MONGO_ERROR_MAX];
    enum pp_err err;

    if (path) {
        err = pp_sqlite_task_store_open(p->loop, path, &(struct pp_sqlite_options){0}, &p->store);
        return err == PP_OK ? PP_OK : pp_wire_refuse(error, err, "store %s: %s", path, pp_err_text(err));
    }
    const struct pp_mongo_options mongo = {.uri = c->store.url, .log = p->log, .later = true};
    err = pp_mongo_task_store_open(p->loop, &mongo, &p->store, reason);
    return err == PP_OK ? PP_OK : pp_wire_refuse(error, err, "store.url: %s", reason);
}

/* --- ingest queue --- */

static enum pp_err open_sqlite_queue(struct pp_pipeline *p, const struct pp_config *c, const char *name,
                                     struct pp_ingest_queue **out, struct pp_wire_error *error)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", c->data_dir, name);
    enum pp_err err = pp_sqlite_ingest_queue_open(p->loop, path, &(struct pp_sqlite_options){0}, out);
    return err == PP_OK ? PP_OK : pp_wire_refuse(error, err, "ingest queue %s: %s", path, pp_err_text(err));
}

/* Puts a journal of this node in front of the shared queue. */
static enum pp_err open_journal(struct pp_pipeline *p, const struct pp_config *c, struct pp_wire_error *error)
{
    struct pp_ingest_queue *own = NULL;
    enum pp_err err = open_sqlite_queue(p, c, "journal.db", &own, error);
    if (err != PP_OK)
        return err;
    const struct pp_journal_options journal = {.inner = p->ingest, .own = own, .log = p->log};
    err = pp_journal_queue_open(p->loop, &journal, &p->ingest);
    if (err == PP_OK)
        return PP_OK;
    own->ops->close(own);
    return pp_wire_refuse(error, err, "the journal in %s could not be opened: %s", c->data_dir,
                          pp_err_text(err));
}

static enum pp_err open_ingest(struct pp_pipeline *p, const struct pp_config *c, struct pp_wire_error *error)
{
    if (after(c->coordinator.url, "local:"))
        return open_sqlite_queue(p, c, "ingest.db", &p->ingest, error);
    bool journal = (p->roles & PP_ROLE_API) && c->ingest.journal;
    const struct pp_redis_ingest_options redis = {.url = c->coordinator.url,
                                                  .log = p->log,
                                                  .patience_ms = journal ? JOURNAL_PATIENCE_MS : 0,
                                                  .key_ttl_ms = p->params->idempotency_ms + 3600000};
    enum pp_err err = pp_redis_ingest_queue_open(p->loop, &redis, &p->ingest);
    if (err != PP_OK)
        return pp_wire_refuse(error, err, "coordinator.url: redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]");
    return journal ? open_journal(p, c, error) : PP_OK;
}

/* --- events, deliveries --- */

static enum pp_err open_events(struct pp_pipeline *p, const struct pp_config *c, struct pp_wire_error *error)
{
    char path[4096];
    enum pp_err err;

    if (!(p->roles & (PP_ROLE_API | PP_ROLE_DELIVER | PP_ROLE_CRON)))
        return PP_OK;
    if (after(c->coordinator.url, "local:")) {
        snprintf(path, sizeof(path), "%s/events.db", c->data_dir);
        err = pp_sqlite_event_log_open(p->loop, path, &(struct pp_sqlite_options){0}, &p->events);
        return err == PP_OK ? PP_OK : pp_wire_refuse(error, err, "event log %s: %s", path, pp_err_text(err));
    }
    const struct pp_redis_event_log_options redis = {.url = c->coordinator.url, .log = p->log};
    err = pp_redis_event_log_open(p->loop, &redis, &p->events);
    return err == PP_OK
               ? PP_OK
               : pp_wire_refuse(error, err, "coordinator.url: redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]");
}

static enum pp_err open_deliveries(struct pp_pipeline *p, const struct pp_config *c,
                                   struct pp_wire_error *error)
{
    char path[4096], reason[PP_MONGO_ERROR_MAX];
    enum pp_err err;

    if (!(p->roles & (PP_ROLE_API | PP_ROLE_DELIVER | PP_ROLE_CRON)))
        return PP_OK;
    if (after(c->store.url, "sqlite:")) {
        snprintf(path, sizeof(path), "%s/deliveries.db", c->data_dir);
        err = pp_sqlite_delivery_store_open(p->loop, path, &(struct pp_sqlite_options){0}, &p->deliveries);
        return err == PP_OK ? PP_OK : pp_wire_refuse(error, err, "deliveries %s: %s", path, pp_err_text(err));
    }
    const struct pp_mongo_options mongo = {.uri = c->store.url, .log = p->log, .later = true};
    err = pp_mongo_delivery_store_open(p->loop, &mongo, &p->deliveries, reason);
    return err == PP_OK ? PP_OK : pp_wire_refuse(error, err, "store.url: %s", reason);
}

/* --- brokers that results go to --- */

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
    const struct pp_kafka_options o = {.brokers = c->kafka.brokers, .topic = c->kafka.topic, .log = p->log};
    return c->kafka.brokers[0] ? pp_kafka_sink_open(p->loop, &o, out, error) : PP_OK;
}

/* Each function opens its sink; if the configuration has none, it returns PP_OK and does not set
 * *out. */
static const struct {
    const char *name; /* name of the sink in cursors, leases, metrics and logs */
    enum pp_err (*open)(struct pp_pipeline *p, const struct pp_config *c, struct pp_result_sink **out,
                        char error[PP_SINK_ERROR_MAX]);
} sinks[] = {{"amqp", open_amqp}, {"kafka", open_kafka}};
_Static_assert(sizeof sinks / sizeof *sinks <= PP_SINKS_MAX, "PP_SINKS_MAX counts the rows");

static enum pp_err open_sinks(struct pp_pipeline *p, const struct pp_config *c, struct pp_wire_error *error)
{
    for (size_t i = 0; (p->roles & PP_ROLE_DELIVER) && i < sizeof sinks / sizeof *sinks; i++) {
        char reason[PP_SINK_ERROR_MAX];
        struct pp_result_sink *sink = NULL;
        enum pp_err err = sinks[i].open(p, c, &sink, reason);
        if (err != PP_OK)
            return pp_wire_refuse(error, err, "%s: %.480s", sinks[i].name, reason);
        if (sink)
            p->sinks[p->n_sinks++] = (struct pp_named_sink){.name = sinks[i].name, .sink = sink};
    }
    return PP_OK;
}

/* --- coordinator --- */

static int64_t longest_ms(const struct pp_params *params)
{
    int64_t ms = 0;
    for (uint32_t i = 0; i < params->n_tiers; i++)
        if (params->tiers[i].timeout_ms > ms)
            ms = params->tiers[i].timeout_ms;
    return ms;
}

static enum pp_err open_coordinator(struct pp_pipeline *p, const struct pp_config *c,
                                    struct pp_wire_error *error)
{
    char path[4096];
    enum pp_err err;

    if (after(c->coordinator.url, "local:")) {
        snprintf(path, sizeof(path), "%s/coordinator.db", c->data_dir);
        err = pp_local_coordinator_open(p->loop, path, &p->coordinator);
        return err == PP_OK ? PP_OK
                            : pp_wire_refuse(error, err, "coordinator %s: %s", path, pp_err_text(err));
    }
    const struct pp_redis_coordinator_options redis = {
        .url = c->coordinator.url, .log = p->log, .longest_ms = longest_ms(p->params)};
    err = pp_redis_coordinator_open(p->loop, &redis, &p->coordinator);
    return err == PP_OK
               ? PP_OK
               : pp_wire_refuse(error, err, "coordinator.url: redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]");
}

/* --- blobs --- */

static enum pp_err open_s3(struct pp_pipeline *p, const char *url, struct pp_wire_error *error)
{
    struct pp_s3_options s3;
    char reason[PP_S3_REASON_MAX];

    enum pp_err err = pp_s3_options_parse(url, getenv, &s3, reason);
    if (err != PP_OK)
        return pp_wire_refuse(error, err, "blobs.url: %.480s", reason);
    s3.log = p->log;
    err = pp_s3_blob_store_open(&s3, &p->blobs);
    if (err != PP_OK)
        return pp_wire_refuse(error, err, "blobs.url: the object store can't be used: %s", pp_err_text(err));
    err = pp_s3_blob_store_probe(p->blobs, reason);
    /* only a change of the configuration corrects this error; other errors may be transient */
    if (err == PP_EINVAL)
        return pp_wire_refuse(error, err, "blobs.url: %.480s", reason);
    return PP_OK;
}

static enum pp_err open_blobs(struct pp_pipeline *p, const struct pp_config *c, struct pp_wire_error *error)
{
    const char *root = after(c->blobs.url, "file:");
    enum pp_err err = PP_OK;

    if (!(p->roles & (PP_ROLE_WORKER | PP_ROLE_API)))
        return PP_OK;
    if (!root) {
        err = open_s3(p, c->blobs.url, error);
    } else {
        const struct pp_fs_options options = {
            .root = root, .fsync = c->blobs.fsync == PP_FSYNC_FILE, .sole = p->params->sole_worker};
        if (pp_fs_blob_store_open(&options, &p->blobs) != PP_OK)
            return pp_wire_refuse(error, PP_EIO, "photo directory %s can't be used: %s", root,
                                  strerror(errno));
    }
    if (err != PP_OK)
        return err;
    p->keep_lane = pp_keep_lane_open((unsigned)c->keep.threads, p->blobs);
    return p->keep_lane
               ? PP_OK
               : pp_wire_refuse(error, PP_ENOMEM, "threads for hashing and writing could not be started");
}

enum pp_err pp_wire_open_ports(struct pp_pipeline *p, const struct pp_config *config,
                               struct pp_wire_error *error)
{
    enum pp_err err = open_store(p, config, error);
    if (err == PP_OK)
        err = open_ingest(p, config, error);
    if (err == PP_OK)
        err = open_coordinator(p, config, error);
    if (err == PP_OK)
        err = open_events(p, config, error);
    if (err == PP_OK)
        err = open_deliveries(p, config, error);
    if (err == PP_OK)
        err = open_sinks(p, config, error);
    if (err == PP_OK)
        err = open_blobs(p, config, error);
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
    if (p->deliveries)
        p->deliveries->ops->close(p->deliveries);
    if (p->events)
        p->events->ops->close(p->events);
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
