/* test_loop.h: what tests that run a loop or need a corner of the machine share. Failing here fails the
 * cmocka test that called. */
#ifndef PP_TEST_LOOP_H
#define PP_TEST_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/loop.h"

/* Turns `loop` until cond(arg) is true; fails the test, naming the condition, after `max_ms`, which counts as
 * a minute where it is less: no figure of a test says how fast a machine is. The condition is looked at after
 * each turn and at least every few milliseconds, so that it may depend on other threads or processes. */
#define pp_test_until(loop, cond, arg, max_ms) \
    pp_test_until_at(loop, cond, arg, max_ms, #cond, __FILE__, __LINE__)
void pp_test_until_at(struct pp_loop *loop, bool (*cond)(void *arg), void *arg, int64_t max_ms,
                      const char *what, const char *file, int line);

/* A new empty directory under $TMPDIR or /tmp, absolute. Valid until the process exits, which removes it and
 * its content. */
const char *pp_test_tmpdir(void);

/* A TCP port of 127.0.0.1 that was free a moment ago, and is none that the kernel gives to whoever asks for
 * any: where there are such ports. */
uint16_t pp_test_port(void);

#endif
