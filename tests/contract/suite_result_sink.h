/* suite_result_sink.h: the contract of port/result_sink.h, run on each adapter. */
#ifndef PP_SUITE_RESULT_SINK_H
#define PP_SUITE_RESULT_SINK_H

#include <stdbool.h>

#include "base/arena.h"
#include "photopool/port/result_sink.h"
#include "runtime/loop.h"

enum { SINK_LONG_MS = 60000 };

/* What can happen to a broker. A function that is NULL: that does not happen to this one. */
struct pp_sink_subject {
    const char *name;
    /* A place to send to, and somebody who receives there; only of the test that asks. */
    void *(*place)(void);
    void (*leave)(void *place);
    /* timeout_ms: after which a broker that does not answer is given up. */
    enum pp_err (*open)(void *place, struct pp_loop *loop, int64_t timeout_ms, struct pp_result_sink **out);
    /* All that has arrived since the last call, in the order of arrival, as id, client and body; at least
     * `least` of them: waits for these. Looks at everything else of a message, too. */
    size_t (*receive)(void *place, size_t least, struct pp_arena *a, struct pp_sink_message **out);

    /* From now on some of the messages are refused, at least one of the next three; others are taken. */
    void (*refuse)(void *place);
    void (*refuse_no_more)(void *place);
    /* Nobody receives any more, until somebody does again. */
    void (*unbind)(void *place);
    void (*bind)(void *place);
    /* In many small pieces, or late: slower than usual, and sound. */
    void (*slow)(void *place);
    /* It answers nothing, and takes nothing. */
    void (*silence)(void *place);
    /* It takes what is sent, and its answers are lost. */
    void (*lose_answers)(void *place);
    /* As it was. After lost answers those who wait for one learn that none will come. */
    void (*calm)(void *place);
    /* The broker dies; it comes back, with what it had accepted. */
    void (*kill)(void *place);
    void (*start)(void *place);
};

/* Runs the suite; the number of failed tests. */
int pp_suite_result_sink(const struct pp_sink_subject *subject);

/* For tests of an adapter's own: a sink, messages, sends. Failing here fails the test. */
struct sink_kit {
    struct pp_loop *loop;
    void *place;
    struct pp_result_sink *sink;
    struct pp_arena arena;
    struct pp_sink_send r;
    bool done;
};

struct sink_kit *sink_kit_open(const struct pp_sink_subject *subject, int64_t timeout_ms);
void sink_kit_close(struct sink_kit *k);
/* Closes the sink and opens it again. */
void sink_kit_reopen(struct sink_kit *k, int64_t timeout_ms);
/* `n` messages of several clients, with ids that nobody else has, and bodies of `body_n` bytes of all kinds.
 */
struct pp_sink_message *sink_kit_messages(struct sink_kit *k, size_t n, size_t body_n);
void sink_kit_submit(struct sink_kit *k, struct pp_sink_message *messages, size_t n);
bool sink_kit_is_done(void *k);
void sink_kit_wait(struct sink_kit *k);
/* Both; the answer. */
enum pp_err sink_kit_send(struct sink_kit *k, struct pp_sink_message *messages, size_t n);
/* Again and again, until it is PP_OK. */
void sink_kit_send_at_last(struct sink_kit *k, struct pp_sink_message *messages, size_t n);
/* All have this verdict, and an error where there has to be one. */
void sink_kit_all_are(const struct pp_sink_message *messages, size_t n, enum pp_sink_verdict verdict);
/* Exactly these arrive, in this order. */
void sink_kit_receives(struct sink_kit *k, const struct pp_sink_message *messages, size_t n);
/* `m` is among the `n`, with the same bytes: how often. */
size_t sink_kit_count(const struct pp_sink_message *m, const struct pp_sink_message *got, size_t n);

#endif
