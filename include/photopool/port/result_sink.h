/* result_sink.h: a message broker that takes results in bulk.
 *
 * One send is in flight at a time. The relay (pipeline/deliver) keeps order, cursor and schedule;
 * the sink gives each message a verdict. Contract: tests/contract/suite_result_sink.c. */
#ifndef PHOTOPOOL_PORT_RESULT_SINK_H
#define PHOTOPOOL_PORT_RESULT_SINK_H

#include <stddef.h>

#include "photopool/req.h"

enum pp_sink_verdict {
    PP_SINK_UNKNOWN,  /* the broker did not acknowledge the message, which may have arrived */
    PP_SINK_ACCEPTED, /* the broker has stored it */
    PP_SINK_RETURNED, /* the broker sent it back: no queue receives such messages */
    PP_SINK_REFUSED   /* the broker rejected this message */
};

struct pp_sink_message {
    const char *id; /* id of the result, which is the message id, too */
    const char *client;
    const char *body; /* the RESULT as JSON text */
    size_t body_n;
    /* out */
    enum pp_sink_verdict verdict;
    const char *error; /* why it was RETURNED or REFUSED, <= 255 bytes, in the arena */
};

/* PP_OK: no message is UNKNOWN. PP_EIO, PP_ETIMEOUT: the broker was not reached, or did not answer
 * in time; the relay sends UNKNOWN messages again later. */
struct pp_sink_send {
    struct pp_req req;
    struct pp_sink_message *messages;
    size_t n;          /* 1..1000 */
    const char *error; /* out, on failure: a text for the operator, in the arena; NULL: none */
};

struct pp_result_sink;

struct pp_result_sink_ops {
    pp_must_check enum pp_err (*send)(struct pp_result_sink *s, struct pp_sink_send *r);
    /* On the loop thread, after the last done(). May block briefly. */
    void (*close)(struct pp_result_sink *s);
};

/* Adapters embed this as their first member. */
struct pp_result_sink {
    const struct pp_result_sink_ops *ops;
};

#endif
