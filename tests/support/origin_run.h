/* origin_run.h: runs the fake photo host of loadtest/origin as a child of a test. */
#ifndef PP_TEST_ORIGIN_RUN_H
#define PP_TEST_ORIGIN_RUN_H

#include <stdint.h>
#include <sys/types.h>

struct pp_test_origin {
    pid_t pid;
    uint16_t port;
};

/* Starts the origin on a free port of 127.0.0.1 with `options`, which end with NULL or may be
 * NULL. The program is $PP_ORIGIN, or loadtest/origin beside this test's folder. Fails the test
 * if the origin does not start. */
struct pp_test_origin pp_test_origin_start(const char *const *options);
void pp_test_origin_stop(struct pp_test_origin *o);

#endif
