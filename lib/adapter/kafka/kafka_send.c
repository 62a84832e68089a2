/* kafka_send.c: messages out, reports in: what became of each. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "internal.h"

enum {
    POLL_MS = 100,
    LATE_MS = 5000 /* librdkafka looks once a second what has timed out */
};

/* What is wrong with the message, and not with the broker or the way to it. */
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

/* A timeout says least. */
static void blame(struct pp_kafka_flight *f, rd_kafka_resp_err_t err)
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
    f->out--;
    if (!report->err) {
        m->verdict = PP_SINK_ACCEPTED;
        s->trouble = (struct pp_kafka_trouble){0};
    } else if (is_refusal(report->err)) {
        m->verdict = PP_SINK_REFUSED;
        f->suspects++;
    } else {
        blame(f, report->err);
    }
}

static void refuse(struct pp_arena *arena, struct pp_sink_message *m, const char *why)
{
    m->verdict = PP_SINK_REFUSED;
    m->error = pp_arena_printf(arena, "%.255s", why);
}

/* Hands a message over. What librdkafka itself finds too large is refused at once. */
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
    } while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL && pp_kafka_now_ms() < deadline);
    if (!err)
        s->flight.out++;
    else if (is_refusal(err))
        refuse(arena, m, rd_kafka_err2str(err));
    else
        blame(&s->flight, err);
}

/* Until each message is reported. Where that takes longer than it can, the producer goes, and its messages
 * with it. */
static void await(struct pp_kafka *s, int64_t deadline)
{
    while (s->flight.out > 0 && pp_kafka_now_ms() < deadline)
        rd_kafka_poll(s->producer, POLL_MS);
    if (s->flight.out == 0)
        return;
    blame(&s->flight, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT);
    pp_kafka_drop(s);
}

/* A broker refuses the whole of a request over one message in it. */
static void send_suspects(struct pp_kafka *s, struct pp_sink_send *r)
{
    struct pp_kafka_flight *f = &s->flight;
    for (size_t i = 0; i < r->n; i++) {
        struct pp_sink_message *m = &r->messages[i];
        if (m->verdict != PP_SINK_REFUSED || m->error)
            continue;
        m->verdict = PP_SINK_UNKNOWN;
        if (f->worst || !s->producer) /* it is no use now */
            continue;
        int64_t deadline = pp_kafka_now_ms() + s->timeout_ms + LATE_MS;
        produce(s, r->req.arena, m, deadline);
        await(s, deadline);
        if (m->verdict == PP_SINK_REFUSED && !m->error)
            refuse(r->req.arena, m, "refused by the broker: too large, or against a rule of the topic");
    }
}

static enum pp_err fail(struct pp_kafka *s, struct pp_sink_send *r)
{
    const char *reason = s->trouble.reason;
    bool timeout = is_timeout(s->flight.worst) && !s->trouble.unreachable;
    r->error = pp_arena_printf(r->req.arena, "%s: %s%s%s", s->topic, rd_kafka_err2str(s->flight.worst),
                               reason[0] ? ": " : "", reason);
    return timeout ? PP_ETIMEOUT : PP_EIO;
}

static bool is_dead(struct pp_kafka *s, char reason[PP_KAFKA_ERROR_MAX])
{
    return s->producer && rd_kafka_fatal_error(s->producer, reason, PP_KAFKA_ERROR_MAX) != 0;
}

enum pp_err pp_kafka_send(struct pp_kafka *s, struct pp_sink_send *r)
{
    struct pp_kafka_flight *f = &s->flight;
    if (s->producer)
        rd_kafka_poll(s->producer, 0); /* what it had to say before this */
    if (is_dead(s, s->trouble.reason))
        pp_kafka_drop(s);
    *f = (struct pp_kafka_flight){0};
    if (pp_kafka_produce_ready(s, s->trouble.reason) != PP_OK) {
        f->worst = RD_KAFKA_RESP_ERR__FAIL;
        return fail(s, r);
    }
    int64_t deadline = pp_kafka_now_ms() + s->timeout_ms + LATE_MS;
    for (size_t i = 0; i < r->n; i++)
        produce(s, r->req.arena, &r->messages[i], deadline);
    await(s, deadline);
    if (f->suspects > 0)
        send_suspects(s, r);
    if (is_dead(s, s->trouble.reason)) {
        pp_log(s->log, PP_LOG_WARN, "kafka: a new producer is needed", "error", s->trouble.reason, NULL);
        pp_kafka_drop(s);
    }
    return f->worst ? fail(s, r) : PP_OK;
}
