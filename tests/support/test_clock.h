/* test_clock.h: the monotonic clock in the hand of a test, so that what depends on time depends on nothing
 * else: neither on how fast the machine is, nor on what else it does.
 *
 * It is CLOCK_BOOTTIME of code that is linked statically: pp_loop_now() and whatever compares with it.
 * libuv's timers, which are in a shared library, go on firing in real time; what they look at stands still.
 * The clock never goes back. One per process, for any thread. */
#ifndef PP_TEST_CLOCK_H
#define PP_TEST_CLOCK_H

#include <stdint.h>

struct pp_loop;

/* From here on time passes in pp_test_clock_pass() only. */
void pp_test_clock_hold(struct pp_loop *loop);
/* `ms` of it, at once. The clock must be held. */
void pp_test_clock_pass(struct pp_loop *loop, int64_t ms);
/* It goes on by itself, from where it is. No harm where it isn't held. */
void pp_test_clock_release(struct pp_loop *loop);

#endif
