/* kafka_sink.c: the Kafka driver of a sink: reads the options, makes the producer, sends messages
 * and handles delivery reports.
 *
 * Invariants:
 *  1. librdkafka calls back while the sink polls the producer, on the lane's thread. Only the log
 *     callback may run on any thread.
 *  2. librdkafka reads the bodies of messages in place. So a send ends only when every message has
 *     a report, or when its producer is destroyed. */
#include "kafka_sink.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"

enum {
    KAFKA_TIMEOUT_MS = 10000,
    TIMEOUT_MIN_MS = 1000,   /* librdkafka allows no shorter timeout for connections */
    TIMEOUT_MAX_MS = 300000, /* librdkafka allows no longer timeout for requests */
    LINES = 10,              /* the sink logs at most this many lines of librdkafka in LINES_MS */
    LINES_MS = 60000,
    POLL_MS = 100,
    /* A delivery report may come this many ms after the timeout, because librdkafka looks for
     * messages that timed out only once a second. */
    LATE_MS = 5000,
    IDLE_MS = 10000 /* while no sends come, the sink polls the producer at this interval, in ms */
};

/* The state of the send that is in flight. */
struct pp_kafka_flight {
    size_t out; /* number of messages without a delivery report */
    /* Number of messages that are REFUSED but have no error text yet: Kafka refuses a whole request
     * because of one message, so each of them may be innocent. */
    size_t suspects;
    rd_kafka_resp_err_t worst; /* the error because of which some messages are UNKNOWN; 0 if none are */
};

struct pp_kafka {
    struct pp_sink_lane lane;
    struct pp_log *log;
    rd_kafka_conf_t *conf; /* the configuration from which the sink makes each producer */
    char *topic;
    int64_t timeout_ms;

    /* Any thread uses these two: `lines` counts the lines of librdkafka that were logged since
     * window_ms, a time of pp_lane_clock_ms(). */
    atomic_int_fast64_t window_ms;
    atomic_uint_fast64_t lines;

    /* Only the lane's thread uses the members below. */
    rd_kafka_t *producer; /* the producer of librdkafka; NULL: the next send makes one */
    struct pp_kafka_flight flight;
    /* `reason` is librdkafka's latest error text since the last delivered message; "": none. The
     * sink keeps the text because librdkafka repeats an error only every 30 s. */
    bool unreachable; /* the latest error says that no broker can be reached */
    char reason[PP_SINK_ERROR_MAX];
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

/* Keeps librdkafka's error text, for the error of the send that will fail because of it. */
static void on_error(rd_kafka_t *producer, int code, const char *reason, void *opaque)
{
    struct pp_kafka *s = opaque;
    (void)producer;
    /* this error comes after the error that says why the brokers are down */
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        return;
    s->unreachable = code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__RESOLVE ||
                     code == RD_KAFKA_RESP_ERR__SSL || code == RD_KAFKA_RESP_ERR__AUTHENTICATION;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

/* --- reports --- */

/* Returns whether an error is the message's fault, not that of the broker or the network. */
static bool is_refusal(rd_kafka_resp_err_t err)
{
    switch (err) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION: return true;
    default: return false;
    }
}

static bool is_timeout(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT || err == RD_KAFKA_RESP_ERR__TIMED_OUT ||
           err == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT;
}

/* Keeps the error that says most about the failed messages. A timeout says less than any other
 * error. */
static void note_failure(struct pp_kafka_flight *f, rd_kafka_resp_err_t err)
{
    if (!f->worst || is_timeout(f->worst))
        f->worst = err;
}

/* Handles a delivery report: sets the message's verdict. */
static void on_report(rd_kafka_t *producer, const rd_kafka_message_t *report, void *opaque)
{
    struct pp_kafka *s = opaque;
    struct pp_kafka_flight *f = &s->flight;
    struct pp_sink_message *m = report->_private;
    (void)producer;
    pp_assert(f->out > 0, "a report of a message that is not in flight");
    pp_assert(m->verdict == PP_SINK_UNKNOWN, "a message has two reports");
    f->out--;
    if (!report->err) {
        m->verdict = PP_SINK_ACCEPTED;
        s->unreachable = false;
        s->reason[0] = '\0';
    } else if (is_refusal(report->err)) {
        m->verdict = PP_SINK_REFUSED;
        f->suspects++;
    } else {
        note_failure(f, report->err);
    }
}

/* --- options --- */

/* Sets a property of the producer. librdkafka's error names the property. */
static enum pp_err set_property(struct pp_kafka *s, const char *name, const char *value,
                                char error[PP_SINK_ERROR_MAX])
{
    return rd_kafka_conf_set(s->conf, name, value, error, PP_SINK_ERROR_MAX) == RD_KAFKA_CONF_OK ? PP_OK
                                                                                                 : PP_EINVAL;
}

/* Returns true if the sink sets the property itself, or needs its default: another value would
 * break a promise of the header, or the time within which a send ends. Includes librdkafka's other
 * names for the same properties. */
static bool is_own(const char *name)
{
    static const char *const own[] = {"bootstrap.servers",
                                      "metadata.broker.list",
                                      "enable.idempotence",
                                      "acks",
                                      "request.required.acks",
                                      "message.timeout.ms",
                                      "delivery.timeout.ms",
                                      "request.timeout.ms",
                                      "socket.timeout.ms",
                                      "socket.connection.setup.timeout.ms",
                                      "topic.metadata.propagation.max.ms",
                                      "reconnect.backoff.max.ms",
                                      "delivery.report.only.error",
                                      "transactional.id"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    return false;
}

/* Sets the properties that the operator gives: a list of names and values, which NULL ends. */
static enum pp_err set_given(struct pp_kafka *s, const char *const *p, char error[PP_SINK_ERROR_MAX])
{
    for (; p && *p; p += 2) {
        pp_assert(p[1], "a property without a value");
        if (is_own(p[0])) {
            snprintf(error, PP_SINK_ERROR_MAX,
                     "photopool sets the property %s itself, so that no result is lost; remove it from "
                     "kafka.properties",
                     p[0]);
            return PP_EINVAL;
        }
        char why[PP_SINK_ERROR_MAX];
        if (set_property(s, p[0], p[1], why) == PP_OK)
            continue;
        /* librdkafka quotes the value, which may be a secret, in some of its errors */
        bool quoted = *p[1] && strstr(why, p[1]);
        snprintf(error, PP_SINK_ERROR_MAX, "kafka.properties: librdkafka refuses %.100s%s%.300s", p[0],
                 quoted ? "" : ": ", quoted ? ", which has a wrong value" : why);
        return PP_EINVAL;
    }
    return PP_OK;
}

static enum pp_err set_own(struct pp_kafka *s, const char *brokers, char error[PP_SINK_ERROR_MAX])
{
    char full[24], half[24], least[24];
    snprintf(full, sizeof full, "%" PRId64, s->timeout_ms);
    snprintf(half, sizeof half, "%" PRId64, s->timeout_ms / 2);
    snprintf(least, sizeof least, "%d", TIMEOUT_MIN_MS);
    const char *const own[] = {
        "bootstrap.servers", brokers, "enable.idempotence", "true", "acks", "all", "message.timeout.ms", full,
        "request.timeout.ms", full, "socket.timeout.ms", full, "socket.connection.setup.timeout.ms", full,
        "topic.metadata.propagation.max.ms",
        /* half the timeout, so that librdkafka finds out within the timeout that a topic is
         * missing */
        half, "reconnect.backoff.max.ms",
        least, /* librdkafka reconnects quickly, because the relay that uses the sink already backs off */
        NULL};
    enum pp_err err = PP_OK;
    for (size_t i = 0; own[i] && err == PP_OK; i += 2) {
        pp_assert(is_own(own[i]), "a property of the sink can be given");
        err = set_property(s, own[i], own[i + 1], error);
    }
    return err;
}

static enum pp_err read_options(struct pp_kafka *s, const struct pp_kafka_options *o,
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
    rd_kafka_conf_set_dr_msg_cb(s->conf, on_report);
    enum pp_err err = set_property(s, "client.id", "photopool", error);
    if (err == PP_OK)
        err = set_given(s, o->properties, error);
    return err == PP_OK ? set_own(s, o->brokers, error) : err;
}

/* --- the producer --- */

/* Makes the producer if there is none. */
static enum pp_err make_producer(struct pp_kafka *s, char error[PP_SINK_ERROR_MAX])
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

/* Destroys the producer together with the messages that it still holds. */
static void drop_producer(struct pp_kafka *s)
{
    if (s->producer)
        rd_kafka_destroy(s->producer);
    s->producer = NULL;
    s->flight.out = 0;
}
/* --- sending --- */

/* Gives a message to librdkafka. If librdkafka's queue is full, tries again until the deadline. A
 * message that is too large becomes REFUSED at once. */
static void produce(struct pp_kafka *s, struct pp_arena *arena, struct pp_sink_message *m, int64_t deadline)
{
    rd_kafka_resp_err_t err;
    do {
        err = rd_kafka_producev(s->producer, RD_KAFKA_V_TOPIC(s->topic), RD_KAFKA_V_MSGFLAGS(0),
                                RD_KAFKA_V_KEY(m->client, strlen(m->client)),
                                RD_KAFKA_V_VALUE((void *)(uintptr_t)m->body, m->body_n),
                                RD_KAFKA_V_HEADER("id", m->id, strlen(m->id)), RD_KAFKA_V_OPAQUE(m),
                                RD_KAFKA_V_END);
        if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            rd_kafka_poll(s->producer, POLL_MS);
    } while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL && pp_lane_clock_ms() < deadline);
    if (!err)
        s->flight.out++;
    else if (is_refusal(err))
        pp_sink_refuse(arena, m, rd_kafka_err2str(err));
    else
        note_failure(&s->flight, err);
}

/* Polls until each message has a delivery report. At the deadline, destroys the producer together
 * with the messages that it still holds. */
static void await_reports(struct pp_kafka *s, int64_t deadline)
{
    while (s->flight.out > 0 && pp_lane_clock_ms() < deadline)
        rd_kafka_poll(s->producer, POLL_MS);
    if (s->flight.out == 0)
        return;
    note_failure(&s->flight, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT);
    drop_producer(s);
}

/* Sends each suspect again, on its own: a broker refuses a whole request because of one bad
 * message, so only a message that is refused alone is really bad. */
static void send_suspects(struct pp_kafka *s, struct pp_sink_send *r)
{
    struct pp_kafka_flight *f = &s->flight;
    for (size_t i = 0; i < r->n; i++) {
        struct pp_sink_message *m = &r->messages[i];
        if (m->verdict != PP_SINK_REFUSED || m->error)
            continue;
        m->verdict = PP_SINK_UNKNOWN;
        /* The broker or the producer fails, so the remaining suspects stay UNKNOWN. */
        if (f->worst || !s->producer)
            continue;
        int64_t deadline = pp_lane_clock_ms() + s->timeout_ms + LATE_MS;
        produce(s, r->req.arena, m, deadline);
        await_reports(s, deadline);
        if (m->verdict == PP_SINK_REFUSED && !m->error)
            pp_sink_refuse(r->req.arena, m,
                           "refused by the broker: too large, or against a rule of the topic");
    }
}

static enum pp_err fail_send(struct pp_kafka *s, struct pp_sink_send *r)
{
    pp_assert(s->flight.worst, "a send fails without a reason");
    const char *reason = s->reason;
    bool timeout = is_timeout(s->flight.worst) && !s->unreachable;
    r->error = pp_arena_printf(r->req.arena, "%s: %s%s%s", s->topic, rd_kafka_err2str(s->flight.worst),
                               reason[0] ? ": " : "", reason);
    return timeout ? PP_ETIMEOUT : PP_EIO;
}

/* Returns whether the producer has had a fatal error, after which it must be replaced. Writes the
 * error to s->reason. */
static bool is_dead(struct pp_kafka *s)
{
    return s->producer && rd_kafka_fatal_error(s->producer, s->reason, sizeof s->reason) != 0;
}

static enum pp_err send_results(struct pp_sink_lane *lane, struct pp_sink_send *r)
{
    struct pp_kafka *s = (struct pp_kafka *)lane;
    struct pp_kafka_flight *f = &s->flight;
    if (s->producer)
        rd_kafka_poll(s->producer, 0); /* runs the callbacks for events that librdkafka has queued */
    if (is_dead(s))
        drop_producer(s);
    pp_assert(f->out == 0, "a second send in flight");
    *f = (struct pp_kafka_flight){0};
    if (make_producer(s, s->reason) != PP_OK) {
        f->worst = RD_KAFKA_RESP_ERR__FAIL;
        return fail_send(s, r);
    }
    int64_t deadline = pp_lane_clock_ms() + s->timeout_ms + LATE_MS;
    for (size_t i = 0; i < r->n; i++)
        produce(s, r->req.arena, &r->messages[i], deadline);
    await_reports(s, deadline);
    pp_assert(f->suspects <= r->n, "more suspects than messages");
    if (f->suspects > 0)
        send_suspects(s, r);
    if (is_dead(s)) {
        pp_log(s->log, PP_LOG_WARN, "kafka: producer failed for good, replacing it", "error", s->reason,
               NULL);
        drop_producer(s);
    }
    return f->worst ? fail_send(s, r) : PP_OK;
}

/* --- opening and closing --- */

static void poll_idle(struct pp_sink_lane *lane)
{
    struct pp_kafka *s = (struct pp_kafka *)lane;
    pp_assert(s->flight.out == 0, "a send ended while messages are in flight");
    if (s->producer)
        rd_kafka_poll(s->producer, 0);
}

static void destroy(struct pp_sink_lane *lane)
{
    struct pp_kafka *s = (struct pp_kafka *)lane;
    drop_producer(s);
    if (s->conf)
        rd_kafka_conf_destroy(s->conf);
    free(s->topic);
    free(s);
}

static const struct pp_sink_driver driver = {
    .name = "kafka", .send = send_results, .idle = poll_idle, .destroy = destroy};

enum pp_err pp_kafka_sink_open(struct pp_loop *loop, const struct pp_kafka_options *o,
                               struct pp_result_sink **out, char error[PP_SINK_ERROR_MAX])
{
    struct pp_kafka *s = calloc(1, sizeof *s);
    if (!s)
        return pp_sink_bad_option(error, pp_err_text(PP_ENOMEM)), PP_ENOMEM;
    s->log = o->log;
    enum pp_err err = read_options(s, o, error);
    if (err == PP_OK) /* makes the producer now, so that opening the sink fails if its properties conflict */
        err = make_producer(s, error);
    return pp_sink_lane_open(&s->lane, &driver, loop, IDLE_MS, err, out, error);
}

/* --- probing --- */

/* Asks for all topics: to ask for one that is missing could create it. */
static enum pp_err find_topic(struct pp_kafka *s, bool *exists, char error[PP_SINK_ERROR_MAX])
{
    const struct rd_kafka_metadata *m;
    rd_kafka_resp_err_t err = rd_kafka_metadata(s->producer, 1, NULL, &m, (int)s->timeout_ms);
    rd_kafka_poll(s->producer, 0);
    if (err) {
        snprintf(error, PP_SINK_ERROR_MAX, "%.200s%s%.280s", rd_kafka_err2str(err), s->reason[0] ? ": " : "",
                 s->reason);
        return is_timeout(err) && !s->unreachable ? PP_ETIMEOUT : PP_EIO;
    }
    for (int i = 0; i < m->topic_cnt && !*exists; i++)
        *exists = strcmp(m->topics[i].topic, s->topic) == 0;
    rd_kafka_metadata_destroy(m);
    return PP_OK;
}

enum pp_err pp_kafka_probe(const struct pp_kafka_options *o, bool *topic_exists,
                           char error[PP_SINK_ERROR_MAX])
{
    struct pp_kafka *s = calloc(1, sizeof *s);
    *topic_exists = false;
    if (!s)
        return pp_sink_bad_option(error, pp_err_text(PP_ENOMEM)), PP_ENOMEM;
    s->log = o->log;
    enum pp_err err = read_options(s, o, error);
    if (err == PP_OK)
        err = make_producer(s, error);
    if (err == PP_OK)
        err = find_topic(s, topic_exists, error);
    destroy(&s->lane);
    return err;
}
