/* kafka_sink.h: results to a topic of Kafka, by librdkafka.
 *
 * Idempotent, acks=all; key: the client, so that a client's results are in order; header "id": the result's
 * id. ACCEPTED is what all replicas in sync have. A producer whose guarantees are gone for good (a fatal
 * error) is replaced at the next send.
 *
 * librdkafka connects by itself and keeps what it has; a message that it could not deliver in time is
 * UNKNOWN, and no more tried. */
#ifndef PP_ADAPTER_KAFKA_SINK_H
#define PP_ADAPTER_KAFKA_SINK_H

#include "base/log.h"
#include "photopool/port/result_sink.h"
#include "runtime/loop.h"

#define PP_KAFKA_ERROR_MAX 512

struct pp_kafka_options {
    const char *brokers; /* HOST[:PORT], by commas */
    const char *topic;   /* NULL: "photopool.results" */
    /* More of librdkafka's (security.protocol, ...): a name, its value, and so on; NULL ends; may be NULL.
     * What this header promises can't be changed by them. */
    const char *const *properties;
    struct pp_log *log;
    int64_t timeout_ms; /* for a message to be delivered; 0: 10 s; at least 1 s */
};

/* PP_EINVAL: `error` says what is wrong with the options; PP_ENOMEM. Brokers that can't be reached are no
 * failure. */
pp_must_check enum pp_err pp_kafka_sink_open(struct pp_loop *loop, const struct pp_kafka_options *o,
                                             struct pp_result_sink **out, char error[PP_KAFKA_ERROR_MAX]);

#endif
