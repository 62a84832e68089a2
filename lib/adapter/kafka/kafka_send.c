/* kafka_send.c: gives messages to librdkafka and reads its reports of what became of each. */
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "internal.h"

enum {
    POLL_MS = 100,
    /* ms that reports may be late: librdkafka looks for messages that timed out once a second */
    LATE_MS = 5000
};

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

/* Keeps the error that says most: any other says more than a timeout. */
static void note_failure(struct pp_kafka_flight *f, rd_kafka_resp_err_t err)
{
    if (!f->worst || is_timeout(f->worst))
        f->worst = err;
}

void pp_kafka_on_report(rd_kafka_t *producer, const rd_kafka_message_t *report, void *opaque)
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

/* Gives a message to librdkafka, which immediately refuses a message that is too large. */
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

/* Polls until each message has a report. At the deadline it destroys the producer together with the
 * messages that it still holds. */
static void await_reports(struct pp_kafka *s, int64_t deadline)
{
    while (s->flight.out > 0 && pp_lane_clock_ms() < deadline)
        rd_kafka_poll(s->producer, POLL_MS);
    if (s->flight.out == 0)
        return;
    note_failure(&s->flight, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT);
    pp_kafka_drop(s);
}

/* Sends each refused message again on its own: a broker refuses a whole request because of one
 * message in it. */
static void send_suspects(struct pp_kafka *s, struct pp_sink_send *r)
{
    struct pp_kafka_flight *f = &s->flight;
    for (size_t i = 0; i < r->n; i++) {
        struct pp_sink_message *m = &r->messages[i];
        if (m->verdict != PP_SINK_REFUSED || m->error)
            continue;
        m->verdict = PP_SINK_UNKNOWN;
        /* the broker or the producer fails, so the messages that were not sent again stay UNKNOWN
         */
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

/* Returns whether the producer has lost its guarantees and must be replaced; fills s->reason. */
static bool is_dead(struct pp_kafka *s)
{
    return s->producer && rd_kafka_fatal_error(s->producer, s->reason, sizeof s->reason) != 0;
}

enum pp_err pp_kafka_send(struct pp_sink_lane *lane, struct pp_sink_send *r)
{
    struct pp_kafka *s = (struct pp_kafka *)lane;
    struct pp_kafka_flight *f = &s->flight;
    if (s->producer)
        rd_kafka_poll(s->producer, 0); /* runs librdkafka's callbacks that are due */
    if (is_dead(s))
        pp_kafka_drop(s);
    pp_assert(f->out == 0, "a second send in flight");
    *f = (struct pp_kafka_flight){0};
    if (pp_kafka_produce_ready(s, s->reason) != PP_OK) {
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
        pp_kafka_drop(s);
    }
    return f->worst ? fail_send(s, r) : PP_OK;
}
