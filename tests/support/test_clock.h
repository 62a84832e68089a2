/* test_clock.h: clocks that the test controls, so that results depend neither on the speed of the
 * machine nor on its load.
 *
 * pp_test_clock_pass() moves all clocks of the process forward: pp_loop_now(), pp_loop_wall(), and
 * the clocks of libuv, libcurl and c-ares. A timer that has become due fires in the next turn of
 * its loop. A loop that sleeps in another thread notices when it wakes up, after the real time that
 * it had begun to sleep for.
 *
 * While the clocks are held, pp_loop_now(), pp_loop_wall() and pp_timers move by
 * pp_test_clock_pass() only. (CLOCK_MONOTONIC, which the libraries read, can't stand still: waiting
 * for events would never end.)
 *
 * No clock ever goes back. They belong to the process, for any thread; other processes have the
 * real ones. */
#ifndef PP_TEST_CLOCK_H
#define PP_TEST_CLOCK_H

#include <stdint.h>

struct pp_loop;

/* These hold the clocks, and move them by `ms`. `loop` sees the new time immediately, all other
 * loops in their next turn. `loop` may be NULL. */
void pp_test_clock_hold(struct pp_loop *loop);
void pp_test_clock_pass(struct pp_loop *loop, int64_t ms);
/* Lets the clocks run again from the time that they show. Does nothing if they are not held. */
void pp_test_clock_release(struct pp_loop *loop);

/* Returns the real CLOCK_MONOTONIC, which limits the duration of a test. */
int64_t pp_test_clock_real_ms(void);

#endif
