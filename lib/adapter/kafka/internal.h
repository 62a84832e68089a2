/* internal.h: inside of the Kafka sink.
 *
 *   loop --send--> lane: one thread, which polls the producer --> loop
 *
 * Invariants:
 *  1. Reports and errors come in where the producer is polled: on the lane's thread. Log lines come from any
 *     thread.
 *  2. librdkafka reads bodies where they are: a send ends when every message has been reported, or its
 *     producer is gone. */
#ifndef PP_ADAPTER_KAFKA_INTERNAL_H
#define PP_ADAPTER_KAFKA_INTERNAL_H

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kafka_sink.h"
#include "runtime/lane.h"

/* The send that is under way. */
struct pp_kafka_flight {
    size_t out;                /* messages not yet reported */
    size_t suspects;           /* REFUSED by the broker, without error: perhaps because of another one */
    rd_kafka_resp_err_t worst; /* why messages are UNKNOWN; 0: none is */
};

/* What librdkafka has said since a message was last delivered: it says a thing once in half a minute. */
struct pp_kafka_trouble {
    bool unreachable; /* no way to a broker */
    char reason[PP_KAFKA_ERROR_MAX];
};

struct pp_kafka {
    struct pp_result_sink base;
    struct pp_lane *lane;
    struct pp_lane_home *home;

    /* constant */
    struct pp_log *log;
    rd_kafka_conf_t *conf; /* that producers are made of */
    char *topic;
    int64_t timeout_ms;

    /* any thread: lines of librdkafka */
    atomic_int_fast64_t window_ms; /* when the count began, monotonic */
    atomic_uint_fast64_t lines;

    /* the lane's */
    rd_kafka_t *producer; /* NULL: to be made */
    struct pp_kafka_flight flight;
    struct pp_kafka_trouble trouble;
};

int64_t pp_kafka_now_ms(void); /* monotonic */

/* --- kafka_producer.c --- */

pp_must_check enum pp_err pp_kafka_read_options(struct pp_kafka *s, const struct pp_kafka_options *o,
                                                char error[PP_KAFKA_ERROR_MAX]);
/* Makes the producer where there is none. */
pp_must_check enum pp_err pp_kafka_produce_ready(struct pp_kafka *s, char error[PP_KAFKA_ERROR_MAX]);
/* With all that it still has. */
void pp_kafka_drop(struct pp_kafka *s);

/* --- kafka_send.c --- */

/* What became of a message; the producer's callback. */
void pp_kafka_on_report(rd_kafka_t *producer, const rd_kafka_message_t *report, void *opaque);
/* All of the send: verdicts, and r->error on failure. */
enum pp_err pp_kafka_send(struct pp_kafka *s, struct pp_sink_send *r);

#endif
