/* ask.h: a request to a port that its owner makes again and again. An ask holds the request's
 * memory, knows whether one is in flight, logs a failure, and pauses before the next try.
 *
 *   struct reaper {
 *       struct pp_ask ask;              // .loop, .log, .failed and .data are set once, at open
 *       struct pp_store_reap reap;
 *   };
 *
 *   if (pp_ask_ready(&r->ask)) {
 *       r->reap = (struct pp_store_reap){.req = pp_ask_request(&r->ask, on_reaped), .limit = 1000};
 *       pp_ask_submitted(&r->ask, store->ops->reap(store, &r->reap));
 *   }
 *
 * The rules are those of ports (photopool/req.h): if the submit fails, on_answer never fires;
 * otherwise it fires exactly once, later, on the loop. In both cases a failure is logged and begins
 * a pause, which doubles with each failure in a row. A success resets the pause. An ask repeats
 * nothing by itself: its owner does, from a timer, when pp_ask_ready() says so. An owner that wants
 * several requests in flight needs several asks. All functions must be called on the loop's thread.
 */
#ifndef PP_RUNTIME_ASK_H
#define PP_RUNTIME_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text.h"
#include "photopool/req.h"
#include "runtime/loop.h"

#define PP_ASK_PAUSE_MS     1000 /* the pause after the first failure */
#define PP_ASK_PAUSE_MAX_MS 4000 /* the longest pause, unless the owner sets pause_max_ms */

struct pp_ask {
    /* Set by the owner before the first request; all members but loop may be zero. */
    struct pp_loop *loop;
    struct pp_log *log;
    /* text of the log line for a failure: "lapsed claims unreadable"; NULL: the owner logs */
    const char *failed;
    /* a key and its value in that line: "sink", "amqp"; NULL: the line has none */
    const char *key, *value;
    /* an error that is a normal answer: it is not logged and begins no pause; PP_OK: none */
    enum pp_err expected;
    int64_t pause_max_ms; /* the longest pause in ms; 0: PP_ASK_PAUSE_MAX_MS */
    /* varies pauses by a fifth, so that processes do not retry together; NULL: pauses do not
     * vary */
    struct pp_rng *rng;
    size_t arena_max; /* ceiling of the arena, in bytes; see pp_arena_init() */
    void *data;       /* passed to on_answer */
    /* Set by the ask; the owner may read in_flight and asked_ms. */
    bool in_flight;
    /* loop time of the newest request; a lease that the request renews counts from then */
    int64_t asked_ms;
    int64_t pause_ms, not_before_ms;
    struct pp_arena arena;
    struct pp_arena *answer; /* the arena that holds the answer; valid while on_answer runs */
    void (*on_answer)(void *data, enum pp_err err);
};

/* Returns true if nothing is in flight and no pause is running. */
bool pp_ask_ready(const struct pp_ask *ask);
/* Returns the milliseconds until the pause ends; 0: no pause is running. For owners with a timer of
 * their own. */
int64_t pp_ask_pause_left(const struct pp_ask *ask);

/* Returns the `req` of the next request; pp_ask_submitted() must follow. The request's inputs may
 * be allocated in ask->arena. When on_answer fires, the ask is free again: on_answer may make the
 * next request or free the ask. The old arena, with the answer, lasts until on_answer returns. */
struct pp_req pp_ask_request(struct pp_ask *ask, void (*on_answer)(void *data, enum pp_err err));
/* Returns the `req` of a further step. Called within on_answer: the answer lasts until that step
 * has ended. */
struct pp_req pp_ask_continue(struct pp_ask *ask, void (*on_answer)(void *data, enum pp_err err));
/* Tells the ask what the port's submit returned, or PP_ENOMEM if the inputs could not be made.
 * Returns false if that is an error; on_answer then does not fire. */
bool pp_ask_submitted(struct pp_ask *ask, enum pp_err err);

#endif
