/* loop.h: an event loop with its clock.
 *
 * A loop belongs to one thread. It reads the clocks once per turn: within a callback pp_loop_now(),
 * pp_loop_wall() and pp_loop_date() do not change, and callers pass these values to core. Code that
 * runs on a loop must not block; lane.h has threads for calls that block.
 *
 * Closing has two phases: pp_loop_stop() makes pp_loop_run() return; pp_loop_close() frees the
 * loop, after every timer, mailbox and adapter on it has been closed. */
#ifndef PP_RUNTIME_LOOP_H
#define PP_RUNTIME_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/err.h"

struct pp_loop;
struct uv_loop_s;

struct pp_loop *pp_loop_open(void);
/* Runs the loop until pp_loop_stop() is called. Must be called on the thread that owns the loop. */
void pp_loop_run(struct pp_loop *loop);
/* Runs callbacks that are ready. If `wait` is true, first waits for the next event, at most 100 ms.
 * Returns false when no handle or request is left on the loop. */
bool pp_loop_turn(struct pp_loop *loop, bool wait);
/* Makes pp_loop_run() return. Must be called on the loop's thread. */
void pp_loop_stop(struct pp_loop *loop);
/* Runs the loop until all handles are closed, then frees the loop. Asserts if a handle is never
 * closed, which is a bug. */
void pp_loop_close(struct pp_loop *loop);

/* Returns the time in ms of CLOCK_BOOTTIME, which never goes back and is the same for all processes
 * since the boot. The value does not change within a turn. */
int64_t pp_loop_now(const struct pp_loop *loop);
/* Returns the steady wall time in ms since 1970 (base/clock.h): it never steps, and is for due
 * times and waits. Two times of it have the same distance as two times of pp_loop_now(). */
int64_t pp_loop_wall(const struct pp_loop *loop);
/* Returns the time in ms since 1970 by the machine's wall clock, for people and other programs to
 * read. It steps when somebody sets the clock, so nothing may wait for it. */
int64_t pp_loop_date(const struct pp_loop *loop);
/* Reads the clocks again; for callers that have worked for long within a turn. */
void pp_loop_update(struct pp_loop *loop);
/* Returns the uv loop, for adapters whose library needs it. */
struct uv_loop_s *pp_loop_uv(struct pp_loop *loop);

/* --- timers: the caller frees each with pp_timer_close() --- */

struct pp_timer;
typedef void (*pp_timer_cb)(void *data);

/* Makes a timer that is not started. Returns NULL when out of memory. */
struct pp_timer *pp_timer_open(struct pp_loop *loop, pp_timer_cb cb, void *data);
/* Fires the timer once after `ms`, and then every `repeat_ms` if that is not 0. Replaces an earlier
 * start of the timer. */
void pp_timer_start(struct pp_timer *t, int64_t ms, int64_t repeat_ms);
/* Starts the timer, unless it fires sooner anyway. A repeating timer repeats from the new time. */
void pp_timer_sooner(struct pp_timer *t, int64_t ms);
void pp_timer_stop(struct pp_timer *t);
/* Closes a timer: its callback never fires again, and the loop frees its memory. `t` may be
 * NULL. */
void pp_timer_close(struct pp_timer *t);

/* --- signals, delivered on the loop --- */

struct pp_signals;
/* Calls cb(data, signo) on the loop for each of the `n` signals. */
struct pp_signals *pp_signals_open(struct pp_loop *loop, const int *signals, int n,
                                   void (*cb)(void *data, int signo), void *data);
void pp_signals_close(struct pp_signals *s);

/* Returns the lag in ms: how late a timer of 100 ms fired at worst since the last call. */
int64_t pp_loop_lag(struct pp_loop *loop);

/* Upper bounds, in ms, of the buckets in which a loop counts how late its timers of 100 ms fired.
 * The last bucket has no bound. */
#define PP_LAG_BOUNDS                            \
    {                                            \
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1000 \
    }
#define PP_LAG_BOUND_COUNT 10

struct pp_loop_lags {
    uint64_t counts[PP_LAG_BOUND_COUNT + 1];
    uint64_t sum_ms;
};

/* Returns the counts since the loop was opened. They belong to the loop. */
const struct pp_loop_lags *pp_loop_lags(const struct pp_loop *loop);

#endif
