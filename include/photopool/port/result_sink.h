/* result_sink.h: where results go in bulk: a message broker.
 *
 * One send is under way at a time. The relay (pipeline/s7_deliver.c) keeps order, cursor and schedule; the
 * sink says what became of each message. Contract: tests/contract/suite_result_sink.c. */
#ifndef PHOTOPOOL_PORT_RESULT_SINK_H
#define PHOTOPOOL_PORT_RESULT_SINK_H

#include <stddef.h>

#include "photopool/req.h"

enum pp_sink_verdict {
    PP_SINK_UNKNOWN,  /* not acknowledged: it may or may not have arrived */
    PP_SINK_ACCEPTED, /* the broker has it for good */
    PP_SINK_RETURNED, /* taken and sent back: nobody receives such messages */
    PP_SINK_REFUSED   /* the broker does not want this one */
};

struct pp_sink_message {
    const char *id; /* of the result: the message id */
    const char *client;
    const char *body; /* the RESULT */
    size_t body_n;
    /* out */
    enum pp_sink_verdict verdict;
    const char *error; /* RETURNED, REFUSED: the broker's words, in the request's arena, at most 255 bytes */
};

/* PP_OK: every message has a verdict other than UNKNOWN. PP_EIO, PP_ETIMEOUT: the broker was not reached, or
 * did not answer in time; messages that are UNKNOWN are sent again later. */
struct pp_sink_send {
    struct pp_req req;
    struct pp_sink_message *messages;
    size_t n;          /* 1..1000 */
    const char *error; /* out, on failure: what to tell the operator; in the arena; NULL: nothing more */
};

struct pp_result_sink;

struct pp_result_sink_ops {
    pp_must_check enum pp_err (*send)(struct pp_result_sink *s, struct pp_sink_send *r);
    /* After the last send has come back, on the loop thread. May block briefly. */
    void (*close)(struct pp_result_sink *s);
};

/* Adapters embed this as their first member. */
struct pp_result_sink {
    const struct pp_result_sink_ops *ops;
};

#endif
