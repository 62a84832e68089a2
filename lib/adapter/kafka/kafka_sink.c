/* kafka_sink.c: the port: opening, sends carried to the lane and back, a pulse in which librdkafka may say
 * what it has to say while there is nothing to send. See internal.h for the picture. */
#include "kafka_sink.h"

#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

enum { MESSAGES_MAX = 1000, PULSE_MS = 10000 };

/* A send's place in req.scratch. */
struct call {
    struct pp_job job;
    struct pp_kafka *s;
};
_Static_assert(sizeof(struct call) <= sizeof(((struct pp_req *)0)->scratch), "a call fits into scratch");

static struct pp_sink_send *send_of(struct pp_job *job)
{
    return (struct pp_sink_send *)((char *)job - offsetof(struct pp_sink_send, req) -
                                   offsetof(struct pp_req, scratch));
}

/* --- on the lane --- */

static void run_send(void *state, struct pp_job *job)
{
    struct pp_sink_send *r = send_of(job);
    r->req.err = pp_kafka_send(state, r);
}

static void run_pulse(void *state, struct pp_job *job)
{
    struct pp_kafka *s = state;
    (void)job;
    if (s->producer)
        rd_kafka_poll(s->producer, 0);
}

/* --- on the loop --- */

static void sink_free(struct pp_kafka *s)
{
    if (s->pulse)
        pp_timer_close(s->pulse);
    pp_lane_home_close(s->home);
    pp_lane_close(s->lane);
    pp_kafka_drop(s);
    if (s->conf)
        rd_kafka_conf_destroy(s->conf);
    free(s->topic);
    free(s);
}

static void on_pulse_done(struct pp_job *job)
{
    struct pp_kafka *s = pp_container_of(job, struct pp_kafka, pulse_job);
    s->pulse_busy = false;
    if (s->closing)
        sink_free(s);
}

static void on_pulse(void *data)
{
    struct pp_kafka *s = data;
    if (s->pulse_busy || s->send_busy)
        return;
    s->pulse_job = (struct pp_job){.work = run_pulse, .done = on_pulse_done};
    s->pulse_busy = pp_lane_submit(s->home, &s->pulse_job) == PP_OK;
}

static void on_send_done(struct pp_job *job)
{
    struct pp_sink_send *r = send_of(job);
    ((struct call *)job)->s->send_busy = false;
    r->req.done(&r->req);
}

static enum pp_err submit(struct pp_result_sink *base, struct pp_sink_send *r)
{
    struct pp_kafka *s = (struct pp_kafka *)base;
    struct call *c = (struct call *)r->req.scratch;
    if (r->n < 1 || r->n > MESSAGES_MAX)
        return PP_EINVAL;
    if (s->send_busy)
        return PP_EBUSY;
    r->error = NULL;
    for (size_t i = 0; i < r->n; i++) {
        r->messages[i].verdict = PP_SINK_UNKNOWN;
        r->messages[i].error = NULL;
    }
    *c = (struct call){.job = {.work = run_send, .done = on_send_done}, .s = s};
    enum pp_err err = pp_lane_submit(s->home, &c->job);
    s->send_busy = err == PP_OK;
    return err;
}

static void close_sink(struct pp_result_sink *base)
{
    struct pp_kafka *s = (struct pp_kafka *)base;
    pp_timer_stop(s->pulse);
    s->closing = true;
    if (!s->pulse_busy)
        sink_free(s);
}

static const struct pp_result_sink_ops ops = {.send = submit, .close = close_sink};

/* --- opening --- */

static enum pp_err open_lane(struct pp_kafka *s, struct pp_loop *loop)
{
    const struct pp_lane_options o = {
        .name = "kafka", .threads = 1, .capacity = 4, .max_batch = 1, .data = s};
    s->lane = pp_lane_open(&o);
    s->home = s->lane ? pp_lane_home_open(s->lane, loop) : NULL;
    s->pulse = s->home ? pp_timer_open(loop, on_pulse, s) : NULL;
    if (!s->pulse)
        return PP_ENOMEM;
    pp_timer_start(s->pulse, PULSE_MS, PULSE_MS);
    return PP_OK;
}

enum pp_err pp_kafka_sink_open(struct pp_loop *loop, const struct pp_kafka_options *o,
                               struct pp_result_sink **out, char error[PP_KAFKA_ERROR_MAX])
{
    snprintf(error, PP_KAFKA_ERROR_MAX, "%s", pp_err_text(PP_ENOMEM));
    struct pp_kafka *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    s->log = o->log;
    enum pp_err err = pp_kafka_read_options(s, o, error);
    if (err == PP_OK) /* made now, so that options that don't go together are told now */
        err = pp_kafka_produce_ready(s, error);
    if (err == PP_OK)
        err = open_lane(s, loop);
    if (err != PP_OK) {
        sink_free(s);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
