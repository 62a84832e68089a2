/* test_clock.h: time in the hand of a test, so that what depends on time depends on nothing else: neither on
 * how fast the machine is, nor on what else it does.
 *
 * pp_test_clock_pass() moves all clocks of the process forward: pp_loop_now(), pp_loop_wall(), and what
 * libuv, libcurl and c-ares read. A timer that has become due fires in the next turn of its loop; a loop that
 * sleeps in another thread finds out when it wakes up, after the sleep that it began in real time.
 *
 * While the clocks are held, pp_loop_now() and pp_loop_wall() move by pp_test_clock_pass() only, and
 * pp_timers with them. (What the libraries read, CLOCK_MONOTONIC, can't stand still: waiting for events would
 * never end.)
 *
 * No clock ever goes back. They are the process's, for any thread; other processes have the real ones. */
#ifndef PP_TEST_CLOCK_H
#define PP_TEST_CLOCK_H

#include <stdint.h>

struct pp_loop;

/* `loop` sees it at once, others in their next turn; NULL: all of them do. */
void pp_test_clock_hold(struct pp_loop *loop);
void pp_test_clock_pass(struct pp_loop *loop, int64_t ms);
/* The clocks go on by themselves, from where they are. No harm where they aren't held. */
void pp_test_clock_release(struct pp_loop *loop);

/* CLOCK_MONOTONIC as it is in reality, for how long a test may take. */
int64_t pp_test_clock_real_ms(void);

#endif
