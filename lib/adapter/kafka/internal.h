/* internal.h: declarations that the files of the Kafka sink share. Each file uses those above it:
 * kafka_producer.c, kafka_send.c, kafka_sink.c.
 *
 * Invariants:
 *  1. librdkafka calls back while the sink polls the producer, on the lane's thread. Only the log
 *     callback may run on any thread.
 *  2. librdkafka reads bodies in place: a send ends when every message has a report, or its
 *     producer is destroyed. */
#ifndef PP_ADAPTER_KAFKA_INTERNAL_H
#define PP_ADAPTER_KAFKA_INTERNAL_H

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kafka_sink.h"

/* State of the send in flight. */
struct pp_kafka_flight {
    size_t out; /* number of messages without a delivery report */
    /* number of messages that are REFUSED without an error text: another message may be the
     * cause */
    size_t suspects;
    rd_kafka_resp_err_t worst; /* why messages are UNKNOWN; 0: no message is */
};

struct pp_kafka {
    struct pp_sink_lane lane;
    struct pp_log *log;
    rd_kafka_conf_t *conf; /* configuration, from which each producer is made */
    char *topic;
    int64_t timeout_ms;

    /* Used by any thread: how many lines of librdkafka were logged since window_ms, a time of
     * pp_lane_clock_ms(). */
    atomic_int_fast64_t window_ms;
    atomic_uint_fast64_t lines;

    /* Used by the lane's thread only. */
    rd_kafka_t *producer; /* NULL: the next send makes a producer */
    struct pp_kafka_flight flight;
    /* librdkafka's latest complaint since a message was delivered; kept because librdkafka repeats
     * a complaint only every 30 s. */
    bool unreachable; /* librdkafka can not reach a broker */
    char reason[PP_SINK_ERROR_MAX];
};

/* --- kafka_producer.c --- */

pp_must_check enum pp_err pp_kafka_read_options(struct pp_kafka *s, const struct pp_kafka_options *o,
                                                char error[PP_SINK_ERROR_MAX]);
/* Makes the producer if there is none. */
pp_must_check enum pp_err pp_kafka_produce_ready(struct pp_kafka *s, char error[PP_SINK_ERROR_MAX]);
/* Destroys the producer together with the messages that it still holds. */
void pp_kafka_drop(struct pp_kafka *s);

/* --- kafka_send.c --- */

/* Notes what became of a message: the delivery-report callback of the producer. */
void pp_kafka_on_report(rd_kafka_t *producer, const rd_kafka_message_t *report, void *opaque);
/* Sends messages: the `send` of the sink lane's driver. */
enum pp_err pp_kafka_send(struct pp_sink_lane *lane, struct pp_sink_send *r);

#endif
