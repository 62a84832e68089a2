/* kafka_producer.c: an idempotent producer: its options, its words in our log. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

enum {
    TIMEOUT_MS = 10000,
    TIMEOUT_MIN_MS = 1000,   /* of librdkafka, for connections */
    TIMEOUT_MAX_MS = 300000, /* of librdkafka, for requests */
    LINES = 10,              /* of librdkafka in the log, at most, in */
    LINES_MS = 60000
};

int64_t pp_kafka_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* --- what librdkafka says --- */

/* May a line be written now? */
static bool may_say(struct pp_kafka *s)
{
    int64_t now = pp_kafka_now_ms(), began = atomic_load(&s->window_ms);
    if (now - began > LINES_MS && atomic_compare_exchange_strong(&s->window_ms, &began, now))
        atomic_store(&s->lines, 0);
    return atomic_fetch_add(&s->lines, 1) < LINES;
}

static void on_log(const rd_kafka_t *producer, int level, const char *what, const char *text)
{
    enum { SYSLOG_WARNING = 4, SYSLOG_DEBUG = 7 };
    struct pp_kafka *s = rd_kafka_opaque(producer);
    if (s && may_say(s))
        pp_log(s->log,
               level <= SYSLOG_WARNING ? PP_LOG_WARN
               : level < SYSLOG_DEBUG  ? PP_LOG_INFO
                                       : PP_LOG_DEBUG,
               "kafka: librdkafka says", "what", what, "text", text, NULL);
}

/* What stands in the way of a send is told by the send. */
static void on_error(rd_kafka_t *producer, int code, const char *reason, void *opaque)
{
    struct pp_kafka *s = opaque;
    (void)producer;
    switch (code) {
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN: return; /* why has been said before */
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__SSL:
    case RD_KAFKA_RESP_ERR__AUTHENTICATION: s->trouble.unreachable = true; break;
    default: s->trouble.unreachable = false; break;
    }
    snprintf(s->trouble.reason, sizeof s->trouble.reason, "%s", reason);
}

/* --- options --- */

static enum pp_err set(struct pp_kafka *s, const char *name, const char *value,
                       char error[PP_KAFKA_ERROR_MAX])
{
    return rd_kafka_conf_set(s->conf, name, value, error, PP_KAFKA_ERROR_MAX) == RD_KAFKA_CONF_OK ? PP_OK
                                                                                                  : PP_EINVAL;
}

static enum pp_err set_ms(struct pp_kafka *s, const char *name, int64_t ms, char error[PP_KAFKA_ERROR_MAX])
{
    char value[24];
    snprintf(value, sizeof value, "%" PRId64, ms);
    return set(s, name, value, error);
}

static enum pp_err set_times(struct pp_kafka *s, char error[PP_KAFKA_ERROR_MAX])
{
    const struct {
        const char *name;
        int64_t ms;
    } times[] = {
        {"message.timeout.ms", s->timeout_ms},
        {"request.timeout.ms", s->timeout_ms},
        {"socket.timeout.ms", s->timeout_ms},
        {"socket.connection.setup.timeout.ms", s->timeout_ms},
        {"topic.metadata.propagation.max.ms",
         s->timeout_ms / 2},                          /* a topic that is missing is told in time */
        {"reconnect.backoff.max.ms", TIMEOUT_MIN_MS}, /* pauses are the caller's */
    };
    enum pp_err err = PP_OK;
    for (size_t i = 0; i < sizeof times / sizeof *times && err == PP_OK; i++)
        err = set_ms(s, times[i].name, times[i].ms, error);
    return err;
}

enum pp_err pp_kafka_read_options(struct pp_kafka *s, const struct pp_kafka_options *o,
                                  char error[PP_KAFKA_ERROR_MAX])
{
    s->conf = rd_kafka_conf_new();
    s->topic = strdup(o->topic ? o->topic : "photopool.results");
    s->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
    if (!s->conf || !s->topic)
        return PP_ENOMEM;
    if (s->timeout_ms < TIMEOUT_MIN_MS || s->timeout_ms > TIMEOUT_MAX_MS || !s->topic[0] || !o->brokers ||
        !o->brokers[0]) {
        snprintf(error, PP_KAFKA_ERROR_MAX, "brokers and a topic are needed, and a timeout of 1 s to 5 min");
        return PP_EINVAL;
    }
    enum pp_err err = set(s, "client.id", "photopool", error);
    for (const char *const *p = o->properties; p && *p && err == PP_OK; p += 2)
        err = set(s, p[0], p[1], error);
    if (err == PP_OK)
        err = set(s, "bootstrap.servers", o->brokers, error);
    if (err == PP_OK)
        err = set(s, "enable.idempotence", "true", error);
    if (err == PP_OK)
        err = set(s, "acks", "all", error);
    if (err == PP_OK)
        err = set_times(s, error);
    rd_kafka_conf_set_opaque(s->conf, s);
    rd_kafka_conf_set_log_cb(s->conf, on_log);
    rd_kafka_conf_set_error_cb(s->conf, on_error);
    rd_kafka_conf_set_dr_msg_cb(s->conf, pp_kafka_on_report);
    return err;
}

/* --- its life --- */

enum pp_err pp_kafka_produce_ready(struct pp_kafka *s, char error[PP_KAFKA_ERROR_MAX])
{
    if (s->producer)
        return PP_OK;
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(s->conf);
    s->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, PP_KAFKA_ERROR_MAX);
    if (s->producer)
        return PP_OK;
    rd_kafka_conf_destroy(conf);
    return PP_EINVAL;
}

void pp_kafka_drop(struct pp_kafka *s)
{
    if (s->producer)
        rd_kafka_destroy(s->producer);
    s->producer = NULL;
}
