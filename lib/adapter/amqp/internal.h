/* internal.h: inside of the AMQP sink.
 *
 *   loop --send--> lane: one thread, which has the connection --> loop
 *
 * A send: ready() (amqp_link.c) connects where that is needed; publish() (amqp_publish.c) writes all
 * messages; confirm() (amqp_confirm.c) reads until each has its verdict. librabbitmq is for connecting, for
 * frames that come in, and for encoding. What goes out it would write with three system calls a message, each
 * of which may block for good; publish() writes many messages at once, and gives up in time.
 *
 * Invariants:
 *  1. The loop's side touches `link` never, the lane's side nothing that is not constant but `link`.
 *  2. librabbitmq writes by itself (heartbeats) when it is asked to read: it is asked only between whole
 *     frames.
 *  3. After any failure the connection is dropped: a channel that has failed half-way is no use.
 *  4. Delivery tags count what was published on the channel, from 1. Message i of a batch has tag
 *     first_tag + i; answers to earlier batches are none of ours. */
#ifndef PP_ADAPTER_AMQP_INTERNAL_H
#define PP_ADAPTER_AMQP_INTERNAL_H

#include <amqp.h>
#include <stdbool.h>
#include <stdint.h>

#include "amqp_sink.h"
#include "runtime/lane.h"

enum {
    PP_AMQP_CHANNEL = 1,
    PP_AMQP_SHORT = 255, /* bytes of a short string: exchange, routing key, message id */
    PP_AMQP_TEXT = 512
};

/* A message that is coming back: method, header, then the body in parts. */
struct pp_amqp_returned {
    bool on, head;
    uint64_t body_left;
    char text[PP_AMQP_SHORT + 1];
};

/* Belongs to the lane's thread. */
struct pp_amqp_link {
    amqp_connection_state_t c; /* NULL: not connected */
    uint64_t next_tag;
    struct pp_amqp_returned back;
    int closed_by;                    /* the code with which the broker closed the channel; 0: it did not */
    char blocked[PP_AMQP_SHORT + 1];  /* why the broker takes nothing now; "": it does */
    char error[PP_AMQP_TEXT];         /* what the latest failure was */
    uint8_t *out;                     /* frames to be written */
    size_t out_n, out_max, frame_max; /* bytes */
};

struct pp_amqp {
    struct pp_result_sink base;
    struct pp_lane *lane;
    struct pp_lane_home *home;

    /* constant */
    struct pp_log *log;
    char *url; /* cut into `to` */
    struct amqp_connection_info to;
    char *ca_file;
    char exchange[PP_AMQP_SHORT + 1], routing_key[PP_AMQP_SHORT + 1];
    int64_t timeout_ms;
    int heartbeat_s;

    struct pp_amqp_link link;
};

/* Messages that are published together. */
struct pp_amqp_batch {
    struct pp_sink_message *messages;
    size_t n;
    struct pp_arena *arena;
    uint64_t first_tag;
    size_t left;     /* without a verdict */
    size_t low;      /* all before have one */
    size_t back_low; /* messages come back in the order in which they went out */
};

/* --- amqp_link.c --- */

/* Connects where there is no connection, or none that works; reads what has come meanwhile. */
pp_must_check enum pp_err pp_amqp_ready(struct pp_amqp *s);
/* Without a word to the broker. Keeps link.error. */
void pp_amqp_drop(struct pp_amqp *s);
/* Takes leave; blocks a second at most. */
void pp_amqp_leave(struct pp_amqp *s);
/* Keeps the text as link.error; answers `err`. */
enum pp_err pp_amqp_fail(struct pp_amqp *s, enum pp_err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a status of librabbitmq; `doing` is what was tried. */
enum pp_err pp_amqp_fail_status(struct pp_amqp *s, int status, const char *doing);

/* --- amqp_publish.c --- */

/* `key` has room for PP_AMQP_SHORT + 1 bytes; false: it would be longer. */
bool pp_amqp_routing_key(const char *pattern, const char *client, char *key);
/* Writes all messages; on the way reads what is there. */
pp_must_check enum pp_err pp_amqp_publish(struct pp_amqp *s, struct pp_amqp_batch *b);

/* --- amqp_confirm.c --- */

/* Reads frames that are there, without waiting; b NULL: nothing is under way. */
pp_must_check enum pp_err pp_amqp_read(struct pp_amqp *s, struct pp_amqp_batch *b);
/* Until every message has a verdict. */
pp_must_check enum pp_err pp_amqp_confirm(struct pp_amqp *s, struct pp_amqp_batch *b);

#endif
