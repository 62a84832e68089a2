/* test_loop.h: helpers for tests that turn a loop or need a temporary directory or a free port. An
 * error fails the cmocka test that called. */
#ifndef PP_TEST_LOOP_H
#define PP_TEST_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/loop.h"

/* Turns `loop` until cond(arg) is true. After `max_ms`, or after a minute if that is longer, fails
 * the test with the condition's name. The minute is for slow machines: no test depends on speed.
 * Checks the condition after each turn and at least every few milliseconds, so the condition may
 * depend on other threads or processes. */
#define pp_test_until(loop, cond, arg, max_ms) \
    pp_test_until_at(loop, cond, arg, max_ms, #cond, __FILE__, __LINE__)
void pp_test_until_at(struct pp_loop *loop, bool (*cond)(void *arg), void *arg, int64_t max_ms,
                      const char *what, const char *file, int line);

/* Makes an empty directory under $TMPDIR or /tmp. Returns its absolute path, valid until the
 * process exits. At the exit the process removes the directory and its content. */
const char *pp_test_tmpdir(void);

/* Returns a TCP port of 127.0.0.1 that was free a moment ago. If possible, the port is outside the
 * range from which the kernel chooses ports for bind() and connect(), so that nobody else gets
 * it. */
uint16_t pp_test_port(void);

#endif
