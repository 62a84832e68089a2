/* result_sink.h: a message broker that receives results, many in one send.
 *
 * One send is in flight at a time. The relay (pipeline/deliver) keeps order, cursor and schedule;
 * the sink gives each message a verdict. tests/contract/suite_result_sink.c checks every
 * adapter. */
#ifndef PHOTOPOOL_PORT_RESULT_SINK_H
#define PHOTOPOOL_PORT_RESULT_SINK_H

#include <stddef.h>

#include "photopool/req.h"

enum pp_sink_verdict {
    PP_SINK_UNKNOWN,  /* the broker did not acknowledge the message, which may have arrived */
    PP_SINK_ACCEPTED, /* the broker has stored the message */
    /* the broker returned the message, because no queue receives messages of this kind */
    PP_SINK_RETURNED,
    PP_SINK_REFUSED /* the broker rejected this message */
};

struct pp_sink_message {
    const char *id; /* id of the result; it is the message id, too */
    const char *client;
    const char *body; /* the RESULT as JSON text */
    size_t body_n;
    /* The sink sets the following fields. */
    enum pp_sink_verdict verdict;
    /* why the broker RETURNED or REFUSED the message, <= 255 bytes, in the arena */
    const char *error;
};

/* Sends messages to the broker. PP_OK: each message has a verdict other than UNKNOWN. PP_EIO,
 * PP_ETIMEOUT: the broker could not be reached, or did not answer in time; the relay sends UNKNOWN
 * messages again later. */
struct pp_sink_send {
    struct pp_req req;
    struct pp_sink_message *messages;
    size_t n;          /* number of messages, 1..1000 */
    const char *error; /* out, on failure: a text for the operator, in the arena; NULL: none */
};

struct pp_result_sink;

struct pp_result_sink_ops {
    pp_must_check enum pp_err (*send)(struct pp_result_sink *s, struct pp_sink_send *r);
    /* Frees the sink. The caller calls this on the loop thread, after the last done(). May block
     * briefly. */
    void (*close)(struct pp_result_sink *s);
};

/* Adapters embed this as their first member. */
struct pp_result_sink {
    const struct pp_result_sink_ops *ops;
};

#endif
