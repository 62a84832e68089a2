/* ask.h: a request to a port that its owner makes again and again. A struct pp_ask has the
 * request's memory, knows whether the request is in flight, logs a failure, and pauses before the
 * next try.
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
 * The rules of ports apply (photopool/req.h): if the submit fails, on_answer never fires; otherwise
 * it fires exactly once, later, on the loop. In both cases a failure is logged and begins a pause,
 * which doubles with each failure in a row. A success resets the pause. An ask repeats nothing by
 * itself: its owner does, from a timer, when pp_ask_ready() says so. An owner that needs several
 * requests in flight needs several asks. All functions must be called on the loop's thread. */
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
    /* The owner sets the following members before the first request; all but `loop` may be zero. */
    struct pp_loop *loop;
    struct pp_log *log;
    /* The log line for a failure, such as "lapsed claims unreadable"; NULL: the owner logs
     * failures. */
    const char *failed;
    /* A key and its value for the log line, such as "sink" and "amqp"; NULL: the line has none. */
    const char *key, *value;
    /* An error that the owner expects, so it is not logged and begins no pause. PP_OK: all errors
     * are failures. */
    enum pp_err expected;
    int64_t pause_max_ms; /* the longest pause in ms; 0: PP_ASK_PAUSE_MAX_MS */
    /* Varies each pause by a fifth, so that processes do not retry at the same time; NULL: pauses
     * do not vary. */
    struct pp_rng *rng;
    size_t arena_max; /* ceiling of the arena in bytes, for pp_arena_init() */
    void *data;       /* the owner's data, passed to on_answer */
    /* The ask sets the following members; the owner may read in_flight and asked_ms. */
    bool in_flight;
    /* The loop time of the newest request. A lease that the request renews counts from this
     * time. */
    int64_t asked_ms;
    int64_t pause_ms, not_before_ms;
    struct pp_arena arena;
    struct pp_arena *answer; /* the arena that holds the answer; valid while on_answer runs */
    void (*on_answer)(void *data, enum pp_err err);
};

/* Returns true if no request is in flight and no pause is running. */
bool pp_ask_ready(const struct pp_ask *ask);
/* Returns the milliseconds until the pause ends; 0: no pause is running. For owners that have a
 * timer. */
int64_t pp_ask_pause_left(const struct pp_ask *ask);

/* Returns the `req` of the next request; the owner must then call pp_ask_submitted(). The request's
 * inputs may be allocated in ask->arena. When on_answer fires, the ask is free again: on_answer may
 * make the next request or free the ask. The old arena, with the answer, lasts until on_answer
 * returns. */
struct pp_req pp_ask_request(struct pp_ask *ask, void (*on_answer)(void *data, enum pp_err err));
/* Like pp_ask_request(), for a further request made within on_answer. The present answer stays
 * valid until that further request has ended. */
struct pp_req pp_ask_continue(struct pp_ask *ask, void (*on_answer)(void *data, enum pp_err err));
/* Tells the ask what the port's submit returned, or PP_ENOMEM if the inputs could not be made.
 * Returns false if `err` is an error; on_answer then does not fire. */
bool pp_ask_submitted(struct pp_ask *ask, enum pp_err err);

#endif
