/* amqp_sink.h: results to an exchange of an AMQP 0-9-1 broker, by librabbitmq.
 *
 * Persistent, mandatory, with publisher confirms: ACCEPTED is what the broker has answered for. The exchange,
 * a durable topic, is declared; queues are their receivers' to make and to bind: as long as there is none,
 * messages come back RETURNED. Properties: message_id (the result's id), content_type
 * application/cloudevents+json, timestamp (when it was sent, in seconds), delivery_mode 2.
 *
 * The connection is made when there is something to send, again where it was lost, and kept alive in between.
 * When to try again after a failure is the caller's to say: every send tries at once. */
#ifndef PP_ADAPTER_AMQP_SINK_H
#define PP_ADAPTER_AMQP_SINK_H

#include "base/log.h"
#include "photopool/port/result_sink.h"
#include "runtime/loop.h"

#define PP_AMQP_ERROR_MAX 256

struct pp_amqp_options {
    /* amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST]; none or an empty VHOST is "/" */
    const char *url;
    const char *exchange;    /* NULL: "photopool" */
    const char *routing_key; /* {client} is replaced; NULL: "result.{client}" */
    const char *ca_file;     /* amqps: who may have signed the broker's certificate; NULL: the system's */
    struct pp_log *log;
    int64_t timeout_ms;  /* without any progress: connecting, or waiting for answers; 0: 10 s */
    int64_t heartbeat_s; /* 0: 30 s */
};

/* Connects to nobody yet. PP_EINVAL: `error` says what is wrong with the options; PP_ENOMEM. */
pp_must_check enum pp_err pp_amqp_sink_open(struct pp_loop *loop, const struct pp_amqp_options *o,
                                            struct pp_result_sink **out, char error[PP_AMQP_ERROR_MAX]);

#endif
