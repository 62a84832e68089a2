/* internal.h: declarations that the files of the AMQP sink share. Each file uses those above it:
 *
 *   amqp_link.c     a connection, its channel, the exchange; failures and their texts
 *   amqp_confirm.c  frames that the broker sends
 *   amqp_publish.c  frames that the sink sends
 *   amqp_sink.c     the port: a send connects, publishes, reads until each message has a verdict
 *
 * librabbitmq connects, reads frames and encodes. Its own publish function makes three system calls
 * for a message, each of which may block forever; pp_amqp_publish() writes many messages at once
 * and has a timeout.
 *
 * Invariants:
 *  1. Only the lane's thread touches `link`; the rest of struct pp_amqp is constant.
 *  2. librabbitmq may write a heartbeat while it reads, so the sink lets it read only between whole
 *     frames of its own.
 *  3. After any failure the connection is dropped: a channel that failed half-way is unusable.
 *  4. Delivery tags count what was published on the channel, from 1. Message i of a batch has tag
 *     first_tag + i; lower tags belong to earlier batches. */
#ifndef PP_ADAPTER_AMQP_INTERNAL_H
#define PP_ADAPTER_AMQP_INTERNAL_H

#include <amqp.h>
#include <stdbool.h>
#include <sys/time.h>

#include "amqp_sink.h"

/* The number of the channel, and the most bytes of a short string (exchange, routing key or id). */
enum { PP_AMQP_CHANNEL = 1, PP_AMQP_SHORT = 255 };

/* A message that the broker is returning: it sends a method, a header, and the body in parts. */
struct pp_amqp_returned {
    bool on, head;
    uint64_t body_left;
    char text[PP_AMQP_SHORT + 1];
};

/* The connection. Only the lane's thread touches it. */
struct pp_amqp_link {
    amqp_connection_state_t c; /* NULL: not connected */
    uint64_t next_tag;
    struct pp_amqp_returned back;
    /* code with which the broker closed the channel; 0: the channel is open */
    int closed_by;
    /* why the broker accepts no messages now; "": it accepts them */
    char blocked[PP_AMQP_SHORT + 1];
    char error[512]; /* text of the latest failure */
    uint8_t *out;    /* frames that are to be written */
    /* bytes used in `out`; size of `out`; largest frame, all in bytes */
    size_t out_n, out_max, frame_max;
};

struct pp_amqp {
    struct pp_sink_lane lane;
    struct pp_log *log;
    char *url; /* the options' URL; the strings of `to` point into it */
    struct amqp_connection_info to;
    char *ca_file;
    char exchange[PP_AMQP_SHORT + 1], routing_key[PP_AMQP_SHORT + 1];
    int64_t timeout_ms;
    int heartbeat_s;

    struct pp_amqp_link link;
};

/* The messages of one send, which are published together. */
struct pp_amqp_batch {
    struct pp_sink_message *messages;
    size_t n;
    struct pp_arena *arena;
    uint64_t first_tag;
    size_t left; /* number of messages without a verdict */
    size_t low;  /* every message before this index has a verdict */
    /* index at which to look for the next returned message: they come in the order of sending */
    size_t back_low;
};

/* --- amqp_link.c --- */

/* Connects, opens the channel, declares the exchange. The link must not be connected; after a
 * failure the caller drops it. */
pp_must_check enum pp_err pp_amqp_connect(struct pp_amqp *s);
/* Closes the socket and sends nothing to the broker. Keeps link.error. */
void pp_amqp_drop(struct pp_amqp *s);
/* Writes the text to link.error; returns `err`. */
enum pp_err pp_amqp_fail(struct pp_amqp *s, enum pp_err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes the text of a librabbitmq status to link.error; `doing` says what was tried. Returns the
 * error. */
enum pp_err pp_amqp_fail_status(struct pp_amqp *s, int status, const char *doing);
struct timeval pp_amqp_timeval(int64_t ms);

/* --- amqp_confirm.c --- */

/* Reads the frames that have arrived, without waiting. `b` is NULL if no messages are in flight. */
pp_must_check enum pp_err pp_amqp_read(struct pp_amqp *s, struct pp_amqp_batch *b);
/* Reads until every message has a verdict. */
pp_must_check enum pp_err pp_amqp_confirm(struct pp_amqp *s, struct pp_amqp_batch *b);

/* --- amqp_publish.c --- */

/* Writes the pattern to `key`, which has room for PP_AMQP_SHORT + 1 bytes, with {client} replaced.
 * Returns false if the result does not fit. */
bool pp_amqp_routing_key(const char *pattern, const char *client, char *key);
/* Writes all messages, and reads frames that arrive meanwhile. */
pp_must_check enum pp_err pp_amqp_publish(struct pp_amqp *s, struct pp_amqp_batch *b);

#endif
