/* kafka_producer.c: makes an idempotent producer, sets its options, and logs librdkafka's
 * messages. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"

enum {
    KAFKA_TIMEOUT_MS = 10000,
    TIMEOUT_MIN_MS = 1000,   /* librdkafka's minimum, for connections */
    TIMEOUT_MAX_MS = 300000, /* librdkafka's maximum, for requests */
    LINES = 10,              /* most lines of librdkafka that we log in LINES_MS */
    LINES_MS = 60000
};

/* --- messages of librdkafka --- */

static bool may_log(struct pp_kafka *s)
{
    int64_t now = pp_lane_clock_ms(), began = atomic_load(&s->window_ms);
    if (now - began > LINES_MS && atomic_compare_exchange_strong(&s->window_ms, &began, now))
        atomic_store(&s->lines, 0);
    return atomic_fetch_add(&s->lines, 1) < LINES;
}

static void on_log(const rd_kafka_t *producer, int level, const char *what, const char *text)
{
    enum { SYSLOG_WARNING = 4, SYSLOG_DEBUG = 7 };
    struct pp_kafka *s = rd_kafka_opaque(producer);
    enum pp_log_level ours = level <= SYSLOG_WARNING ? PP_LOG_WARN
                             : level < SYSLOG_DEBUG  ? PP_LOG_INFO
                                                     : PP_LOG_DEBUG;
    if (s && may_log(s))
        pp_log(s->log, ours, "kafka: message of librdkafka", "what", what, "text", text, NULL);
}

/* Keeps librdkafka's reason, for the send that will fail because of it. */
static void on_error(rd_kafka_t *producer, int code, const char *reason, void *opaque)
{
    struct pp_kafka *s = opaque;
    (void)producer;
    /* librdkafka has already reported the reason */
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        return;
    s->unreachable = code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__RESOLVE ||
                     code == RD_KAFKA_RESP_ERR__SSL || code == RD_KAFKA_RESP_ERR__AUTHENTICATION;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

/* --- options --- */

/* Sets the properties that the options give, then our own, which replace properties of the same
 * name. A NULL name ends the list. */
static enum pp_err set_properties(struct pp_kafka *s, const char *const *p, char error[PP_SINK_ERROR_MAX])
{
    for (; p && *p; p += 2)
        if (rd_kafka_conf_set(s->conf, p[0], p[1], error, PP_SINK_ERROR_MAX) != RD_KAFKA_CONF_OK)
            return PP_EINVAL;
    return PP_OK;
}

static enum pp_err set_own(struct pp_kafka *s, const char *brokers, char error[PP_SINK_ERROR_MAX])
{
    char full[24], half[24], least[24];
    snprintf(full, sizeof full, "%" PRId64, s->timeout_ms);
    snprintf(half, sizeof half, "%" PRId64, s->timeout_ms / 2);
    snprintf(least, sizeof least, "%d", TIMEOUT_MIN_MS);
    const char *const own[] = {
        "client.id", "photopool", "bootstrap.servers", brokers, "enable.idempotence", "true", "acks", "all",
        "message.timeout.ms", full, "request.timeout.ms", full, "socket.timeout.ms", full,
        "socket.connection.setup.timeout.ms", full, "topic.metadata.propagation.max.ms",
        /* makes librdkafka find out within the timeout that a topic is missing */
        half, "reconnect.backoff.max.ms", least, /* the user of the sink does the back-off */
        NULL};
    return set_properties(s, own, error);
}

enum pp_err pp_kafka_read_options(struct pp_kafka *s, const struct pp_kafka_options *o,
                                  char error[PP_SINK_ERROR_MAX])
{
    pp_assert(!s->conf && !s->producer, "options are read twice");
    s->conf = rd_kafka_conf_new();
    s->topic = strdup(o->topic ? o->topic : "photopool.results");
    s->timeout_ms = o->timeout_ms ? o->timeout_ms : KAFKA_TIMEOUT_MS;
    if (!s->conf || !s->topic)
        return PP_ENOMEM;
    if (s->timeout_ms < TIMEOUT_MIN_MS || s->timeout_ms > TIMEOUT_MAX_MS || !s->topic[0] || !o->brokers ||
        !o->brokers[0])
        return pp_sink_bad_option(error, "brokers and a topic are needed, and a timeout of 1 s to 5 min");
    rd_kafka_conf_set_opaque(s->conf, s);
    rd_kafka_conf_set_log_cb(s->conf, on_log);
    rd_kafka_conf_set_error_cb(s->conf, on_error);
    enum pp_err err = set_properties(s, o->properties, error);
    return err == PP_OK ? set_own(s, o->brokers, error) : err;
}

/* --- its life --- */

enum pp_err pp_kafka_produce_ready(struct pp_kafka *s, char error[PP_SINK_ERROR_MAX])
{
    if (s->producer)
        return PP_OK;
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(s->conf);
    s->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, PP_SINK_ERROR_MAX);
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
    s->flight.out = 0;
}
