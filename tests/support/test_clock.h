/* test_clock.h: clocks that the test controls, so that results depend neither on the speed of the
 * machine nor on its load.
 *
 * pp_test_clock_pass() moves all clocks of the process forward: pp_loop_now(), pp_loop_wall(), and
 * the clocks of libuv, libcurl and c-ares. A timer that has become due fires in the next turn of
 * its loop. A loop that sleeps in another thread notices the new time when it wakes up, after the
 * real time for which it had begun to sleep.
 *
 * While the clocks are held, only pp_test_clock_pass() moves pp_loop_now(), pp_loop_wall() and
 * pp_timers. (CLOCK_MONOTONIC, which the libraries read, can't stand still: waiting for events
 * would never end.)
 *
 * No clock ever goes back, except CLOCK_REALTIME by pp_test_clock_step(). The clocks belong to the
 * process, and any thread may use them; other processes have the real clocks. */
#ifndef PP_TEST_CLOCK_H
#define PP_TEST_CLOCK_H

#include <stdint.h>

struct pp_loop;

/* pp_test_clock_hold() holds the clocks; pp_test_clock_pass() moves them forward by `ms`. `loop`,
 * which may be NULL, sees the new time immediately, all other loops in their next turn. */
void pp_test_clock_hold(struct pp_loop *loop);
void pp_test_clock_pass(struct pp_loop *loop, int64_t ms);
/* Sets CLOCK_REALTIME forward by `ms`, or back if negative, as an operator or NTP does. The other
 * clocks do not change. A test undoes its steps before it ends. */
void pp_test_clock_step(struct pp_loop *loop, int64_t ms);
/* Lets the clocks run again from the time that they show. Does nothing if they are not held. */
void pp_test_clock_release(struct pp_loop *loop);

/* Returns the real CLOCK_MONOTONIC in ms, which limits how long a test may take. */
int64_t pp_test_clock_real_ms(void);

#endif
