/* kafka_sink.c: opens and closes the sink, and polls librdkafka between sends so that its callbacks
 * run. */
#include "kafka_sink.h"

#include <stdlib.h>

#include "base/check.h"
#include "internal.h"

enum { IDLE_MS = 10000 };

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
    pp_kafka_drop(s);
    if (s->conf)
        rd_kafka_conf_destroy(s->conf);
    free(s->topic);
    free(s);
}

static const struct pp_sink_driver driver = {
    .name = "kafka", .send = pp_kafka_send, .idle = poll_idle, .destroy = destroy};

enum pp_err pp_kafka_sink_open(struct pp_loop *loop, const struct pp_kafka_options *o,
                               struct pp_result_sink **out, char error[PP_SINK_ERROR_MAX])
{
    struct pp_kafka *s = calloc(1, sizeof *s);
    if (!s)
        return pp_sink_bad_option(error, pp_err_text(PP_ENOMEM)), PP_ENOMEM;
    s->log = o->log;
    enum pp_err err = pp_kafka_read_options(s, o, error);
    if (err == PP_OK) {
        rd_kafka_conf_set_dr_msg_cb(s->conf, pp_kafka_on_report);
        /* the producer is made now, so that opening the sink fails if options conflict */
        err = pp_kafka_produce_ready(s, error);
    }
    return pp_sink_lane_open(&s->lane, &driver, loop, IDLE_MS, err, out, error);
}
