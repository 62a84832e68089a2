/* loop.h: one event loop with its clock. The only layer that knows libuv.
 *
 * A loop belongs to one thread. It reads the clocks once per turn: pp_loop_now() and pp_loop_wall() answer
 * the same within a callback, and core functions are given these values. Nothing that runs on a loop may
 * block: see lane.h.
 *
 * Closing has two phases: pp_loop_stop() makes pp_loop_run() return; pp_loop_close() frees, after every
 * timer, mailbox and adapter on the loop has been closed. */
#ifndef PP_RUNTIME_LOOP_H
#define PP_RUNTIME_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/err.h"

struct pp_loop;
struct uv_loop_s;

struct pp_loop *pp_loop_open(void);
/* Runs until pp_loop_stop(). On the thread that owns the loop. */
void pp_loop_run(struct pp_loop *loop);
/* Runs what is ready, waits at most for the next event (or some 100 ms) when `wait`; false when nothing is
 * left alive. For tests. */
bool pp_loop_turn(struct pp_loop *loop, bool wait);
/* From the loop's thread. */
void pp_loop_stop(struct pp_loop *loop);
/* Runs the loop until all handles are closed, then frees it. Asserts that it ends. */
void pp_loop_close(struct pp_loop *loop);

/* Milliseconds of CLOCK_BOOTTIME: never goes back, the same for all processes of this boot. Cached for the
 * turn. */
int64_t pp_loop_now(const struct pp_loop *loop);
/* Milliseconds since 1970. Cached for the turn. */
int64_t pp_loop_wall(const struct pp_loop *loop);
/* Reads the clocks again, after long work within a turn. */
void pp_loop_update(struct pp_loop *loop);
/* For adapters whose library wants the uv loop itself. */
struct uv_loop_s *pp_loop_uv(struct pp_loop *loop);

/* --- timers: the caller owns the memory --- */

struct pp_timer;
typedef void (*pp_timer_cb)(void *data);

/* A stopped timer; NULL when out of memory. */
struct pp_timer *pp_timer_open(struct pp_loop *loop, pp_timer_cb cb, void *data);
/* Fires once after `ms`, then each `repeat_ms` if that is not 0. Starting again replaces. */
void pp_timer_start(struct pp_timer *t, int64_t ms, int64_t repeat_ms);
/* Starts only if that is sooner than what is set; a repeating timer goes on repeating from there. */
void pp_timer_sooner(struct pp_timer *t, int64_t ms);
void pp_timer_stop(struct pp_timer *t);
/* The callback never fires again; memory is freed by the loop. NULL is fine. */
void pp_timer_close(struct pp_timer *t);

/* --- signals --- */

struct pp_signals;
/* cb(data, signo) on the loop for each of the `n` signals. */
struct pp_signals *pp_signals_open(struct pp_loop *loop, const int *signals, int n,
                                   void (*cb)(void *data, int signo), void *data);
void pp_signals_close(struct pp_signals *s);

/* Lag: how late a 100 ms timer fires, in milliseconds, worst since the last call. */
int64_t pp_loop_lag(struct pp_loop *loop);

#endif
