/* kafka_sink.c: the port: opening, sends carried to the lane and back; there librdkafka may say what it has
 * to say while there is nothing to send. See internal.h for the picture. */
#include "kafka_sink.h"

#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

enum { MESSAGES_MAX = 1000, IDLE_MS = 10000 };

/* --- on the lane --- */

static enum pp_err run_send(void *state, struct pp_req *req)
{
    return pp_kafka_send(state, (struct pp_sink_send *)req);
}

static void poll_idle(void *state)
{
    struct pp_kafka *s = state;
    if (s->producer)
        rd_kafka_poll(s->producer, 0);
}

/* --- on the loop --- */

static enum pp_err submit(struct pp_result_sink *base, struct pp_sink_send *r)
{
    struct pp_kafka *s = (struct pp_kafka *)base;
    if (r->n < 1 || r->n > MESSAGES_MAX)
        return PP_EINVAL;
    if (pp_lane_under_way(s->home) > 0)
        return PP_EBUSY;
    r->error = NULL;
    for (size_t i = 0; i < r->n; i++) {
        r->messages[i].verdict = PP_SINK_UNKNOWN;
        r->messages[i].error = NULL;
    }
    return pp_lane_request(s->home, &r->req, run_send);
}

static void sink_free(struct pp_kafka *s)
{
    pp_lane_home_close(s->home);
    pp_lane_close(s->lane);
    pp_kafka_drop(s);
    if (s->conf)
        rd_kafka_conf_destroy(s->conf);
    free(s->topic);
    free(s);
}

static void close_sink(struct pp_result_sink *base)
{
    sink_free((struct pp_kafka *)base);
}

static const struct pp_result_sink_ops ops = {.send = submit, .close = close_sink};

/* --- opening --- */

static enum pp_err open_lane(struct pp_kafka *s, struct pp_loop *loop)
{
    const struct pp_lane_options o = {.name = "kafka",
                                      .threads = 1,
                                      .capacity = 1,
                                      .max_batch = 1,
                                      .data = s,
                                      .idle = poll_idle,
                                      .idle_ms = IDLE_MS};
    s->lane = pp_lane_open(&o);
    s->home = s->lane ? pp_lane_home_open(s->lane, loop) : NULL;
    return s->home ? PP_OK : PP_ENOMEM;
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
