/* kafka_sink.h: sends results to a topic of Kafka, by librdkafka.
 *
 * The producer is idempotent and uses acks=all. A message's key is the client, so that a client's
 * results stay in order; its header "id" is the result's id. ACCEPTED means that all replicas in
 * sync have the message. After a fatal error, which ends a producer's guarantees for good, the next
 * send makes a new producer.
 *
 * librdkafka connects and retries by itself. A message that it could not deliver in time is
 * UNKNOWN; librdkafka has dropped it. */
#ifndef PP_ADAPTER_KAFKA_SINK_H
#define PP_ADAPTER_KAFKA_SINK_H

#include <stdbool.h>

#include "base/log.h"
#include "runtime/sink_lane.h"

struct pp_kafka_options {
    const char *brokers; /* addresses of brokers as HOST[:PORT], separated by commas */
    const char *topic;   /* the name of the topic; NULL: "photopool.results" */
    /* Properties for librdkafka (security.protocol, ...): name, value, name, value, ..., NULL.
     * NULL: no properties. A property that librdkafka refuses, or that would break a promise of
     * this header (acks, ...), is an error. No error quotes a value. */
    const char *const *properties;
    struct pp_log *log;
    /* A send fails if a message is not delivered within this many ms, 1 s to 5 min; 0: 10 s. */
    int64_t timeout_ms;
};

/* Opens the sink on the loop's thread. PP_EINVAL: `error` says what is wrong with the options.
 * PP_ENOMEM: out of memory. Unreachable brokers are no error. The options are copied; the log is
 * borrowed. */
pp_must_check enum pp_err pp_kafka_sink_open(struct pp_loop *loop, const struct pp_kafka_options *o,
                                             struct pp_result_sink **out, char error[PP_SINK_ERROR_MAX]);

/* Asks the brokers for their topics. Blocks, at most about timeout_ms. Sets *topic_exists.
 * PP_EINVAL as above; PP_EIO, PP_ETIMEOUT: `error` says what failed. PP_ENOMEM. */
pp_must_check enum pp_err pp_kafka_probe(const struct pp_kafka_options *o, bool *topic_exists,
                                         char error[PP_SINK_ERROR_MAX]);

#endif
