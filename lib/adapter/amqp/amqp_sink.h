/* amqp_sink.h: sends results to an exchange of an AMQP 0-9-1 broker, by librabbitmq.
 *
 * Messages are persistent, mandatory and confirmed: ACCEPTED means that the broker has confirmed.
 * The sink declares the exchange, which is durable and of type topic. Consumers make and bind the
 * queues; a message that no queue receives is RETURNED. Properties: message_id (the result's id),
 * content_type application/cloudevents+json, timestamp (when it was sent, in seconds),
 * delivery_mode 2.
 *
 * The sink connects when there is something to send, connects again after a loss, and keeps the
 * connection alive in between. It has no back-off: every send tries at once. */
#ifndef PP_ADAPTER_AMQP_SINK_H
#define PP_ADAPTER_AMQP_SINK_H

#include "base/log.h"
#include "runtime/sink_lane.h"

struct pp_amqp_options {
    /* amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST]; VHOST is "/" by default */
    const char *url;
    const char *exchange; /* the name of the exchange; NULL: "photopool" */
    /* The pattern of routing keys, in which {client} stands for the client's id. NULL:
     * "result.{client}". */
    const char *routing_key;
    /* For amqps: a PEM file of certificate authorities. NULL: the file of the system. */
    const char *ca_file;
    struct pp_log *log;
    /* A send fails after this many ms without progress in connecting, writing or waiting for
     * confirms. 0 stands for 10 s. */
    int64_t timeout_ms;
    int64_t heartbeat_s; /* heartbeat interval in seconds; 0: 30 s */
};

/* Opens the sink on the loop's thread; it does not connect yet. PP_EINVAL: `error` says what is
 * wrong with the options. PP_ENOMEM: out of memory. The options are copied; the log is borrowed. */
pp_must_check enum pp_err pp_amqp_sink_open(struct pp_loop *loop, const struct pp_amqp_options *o,
                                            struct pp_result_sink **out, char error[PP_SINK_ERROR_MAX]);

/* Connects to the broker as a sink does, which also declares the exchange, and closes the
 * connection. Blocks, at most about three times timeout_ms. PP_EINVAL as above; PP_EIO,
 * PP_ETIMEOUT: `error` says what failed. PP_ENOMEM. */
pp_must_check enum pp_err pp_amqp_probe(const struct pp_amqp_options *o, char error[PP_SINK_ERROR_MAX]);

#endif
