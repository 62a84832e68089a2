/* suite_result_sink.h: the contract of port/result_sink.h, run on each adapter. */
#ifndef PP_SUITE_RESULT_SINK_H
#define PP_SUITE_RESULT_SINK_H

#include <stdbool.h>

#include "base/arena.h"
#include "photopool/port/result_sink.h"
#include "runtime/loop.h"

enum { SINK_LONG_MS = 60000 };

/* A broker, and its faults. The function of a fault is NULL if the broker cannot have that
 * fault. */
struct pp_sink_subject {
    const char *name;
    /* Makes a destination for the messages of one test, and a consumer that reads it. */
    void *(*place)(void);
    void (*leave)(void *place);
    /* Opens a sink. It gives up a broker that has not answered for timeout_ms. */
    enum pp_err (*open)(void *place, struct pp_loop *loop, int64_t timeout_ms, struct pp_result_sink **out);
    /* Waits for at least `least` messages. Returns all messages that have arrived since the last
     * call, in order of arrival, with id, client and body. Also checks all other fields of each
     * message. */
    size_t (*receive)(void *place, size_t least, struct pp_arena *a, struct pp_sink_message **out);

    /* Makes the broker refuse some messages, at least one of the next three, and accept the
     * rest. */
    void (*refuse)(void *place);
    void (*refuse_no_more)(void *place);
    /* `unbind` removes the consumer, and `bind` restores it. */
    void (*unbind)(void *place);
    void (*bind)(void *place);
    /* Slows the connection: bytes arrive correctly, but late or in many small pieces. */
    void (*slow)(void *place);
    /* Stops the broker from reading and answering. */
    void (*silence)(void *place);
    /* Loses the broker's answers. It still accepts messages. */
    void (*lose_answers)(void *place);
    /* Ends all faults of the connection. Senders that wait for a lost answer learn that it will
     * not come. */
    void (*calm)(void *place);
    /* `kill` ends the broker's process. `start` restarts the broker, which still has the messages
     * that it had accepted. */
    void (*kill)(void *place);
    void (*start)(void *place);
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_result_sink(const struct pp_sink_subject *subject);

/* A kit that tests of a single adapter also use: a sink, messages and sends. An unexpected error
 * fails the test. */
struct sink_kit {
    struct pp_loop *loop;
    void *place;
    struct pp_result_sink *sink;
    struct pp_arena arena;
    struct pp_sink_send r;
    bool done;
};

/* cmocka's setup and teardown of one test, whose state is a kit of the suite's subject. The
 * impatient setup gives the sink a timeout of 2 s. */
int sink_kit_setup(void **state);
int sink_kit_setup_impatient(void **state);
int sink_kit_teardown(void **state);
/* Closes the sink and opens it again. */
void sink_kit_reopen(struct sink_kit *k, int64_t timeout_ms);
/* Makes `n` messages of several clients, with unique ids. Their bodies have `body_n` bytes of
 * all values. */
struct pp_sink_message *sink_kit_messages(struct sink_kit *k, size_t n, size_t body_n);
void sink_kit_submit(struct sink_kit *k, struct pp_sink_message *messages, size_t n);
bool sink_kit_is_done(void *k);
void sink_kit_wait(struct sink_kit *k);
/* Sends the messages and waits for the answer. Returns its error. */
enum pp_err sink_kit_send(struct sink_kit *k, struct pp_sink_message *messages, size_t n);
/* Repeats the send until PP_OK. */
void sink_kit_send_at_last(struct sink_kit *k, struct pp_sink_message *messages, size_t n);
/* Asserts that all messages have this verdict, and an error text if the verdict requires one. */
void sink_kit_all_are(const struct pp_sink_message *messages, size_t n, enum pp_sink_verdict verdict);
/* Asserts that exactly these messages arrive, in this order. */
void sink_kit_receives(struct sink_kit *k, const struct pp_sink_message *messages, size_t n);
/* Sends 5 messages, of which [2] has `large` bytes. Asserts that only that one is REFUSED, and
 * that each of the others arrives at most `most` times. Returns the messages. */
struct pp_sink_message *sink_kit_one_too_large(struct sink_kit *k, size_t large, size_t most);
/* Returns how many of the `n` messages in `got` equal `m`, including its bytes. */
size_t sink_kit_count(const struct pp_sink_message *m, const struct pp_sink_message *got, size_t n);

#endif
