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

/* The number of the only channel, and the most bytes of an AMQP short string. */
enum { PP_AMQP_CHANNEL = 1, PP_AMQP_SHORT = 255 };

/* A message that the broker is returning. The broker sends a method frame, a header frame and the
 * body in parts; `on` is true until the last part has come, `head` from the header on. */
struct pp_amqp_returned {
    bool on, head;
    uint64_t body_left;
    char text[PP_AMQP_SHORT + 1];
};

/* The connection to the broker. Only the lane's thread uses this struct. */
struct pp_amqp_link {
    amqp_connection_state_t c; /* the connection of librabbitmq; NULL while the sink is not connected */
    uint64_t next_tag;
    struct pp_amqp_returned back;
    /* The code with which the broker closed the channel; 0 while the channel is open. */
    int closed_by;
    /* Why the broker accepts no messages now; "" while the broker accepts messages. */
    char blocked[PP_AMQP_SHORT + 1];
    char error[512]; /* the error text of the latest failure */
    uint8_t *out;    /* encoded frames that have not been written to the socket */
    /* The bytes used in `out`, the size of `out`, and the size of the largest frame, in bytes. */
    size_t out_n, out_max, frame_max;
};

struct pp_amqp {
    struct pp_sink_lane lane;
    struct pp_log *log;
    char *url; /* a copy of the options' URL; the strings of `to` point into the copy */
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
    size_t left; /* number of messages that have no verdict yet */
    size_t low;  /* all messages with an index below this one have a verdict */
    /* The index at which the search for the next returned message begins: the broker returns
     * messages in the order in which they were sent. */
    size_t back_low;
};

/* --- amqp_link.c --- */

/* Connects, opens the channel, declares the exchange. The link must not be connected; after a
 * failure the caller drops it. */
pp_must_check enum pp_err pp_amqp_connect(struct pp_amqp *s);
/* Closes the socket without telling the broker. Keeps the text in link.error. */
void pp_amqp_drop(struct pp_amqp *s);
/* Writes the text to link.error; returns `err`. */
enum pp_err pp_amqp_fail(struct pp_amqp *s, enum pp_err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes the text for a status code of librabbitmq to link.error, after `doing`, which says what
 * the sink was trying. Returns the error that stands for the code. */
enum pp_err pp_amqp_fail_status(struct pp_amqp *s, int status, const char *doing);
struct timeval pp_amqp_timeval(int64_t ms);

/* --- amqp_confirm.c --- */

/* Handles the frames that have arrived, and waits for none. `b` is NULL if no messages are in
 * flight. */
pp_must_check enum pp_err pp_amqp_read(struct pp_amqp *s, struct pp_amqp_batch *b);
/* Handles frames until every message of the batch has a verdict. */
pp_must_check enum pp_err pp_amqp_confirm(struct pp_amqp *s, struct pp_amqp_batch *b);

/* --- amqp_publish.c --- */

/* Copies the pattern to `key`, and puts the client's id where the pattern has "{client}". `key` has
 * room for PP_AMQP_SHORT + 1 bytes. Returns false if the result does not fit. */
bool pp_amqp_routing_key(const char *pattern, const char *client, char *key);
/* Writes all messages of the batch. Handles frames of the broker that arrive meanwhile. */
pp_must_check enum pp_err pp_amqp_publish(struct pp_amqp *s, struct pp_amqp_batch *b);

#endif
