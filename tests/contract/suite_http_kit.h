/* suite_http_kit.h: callers of the server of http_echo.h, for tests of its limits. */
#ifndef PP_TEST_SUITE_HTTP_KIT_H
#define PP_TEST_SUITE_HTTP_KIT_H

#include <linux/sockios.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "http_client.h"
#include "http_echo.h"
#include "test_clock.h"
#include "test_loop.h"

enum { SHORT_MS = 50, LONG_MS = 3600 * 1000 };

static const char get[] = "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n";
static const char hold[] = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n";

static inline struct pp_http_options patient(void)
{
    return (struct pp_http_options){.header_timeout_ms = LONG_MS,
                                    .body_timeout_ms = LONG_MS,
                                    .idle_timeout_ms = LONG_MS,
                                    .write_timeout_ms = LONG_MS};
}

static inline void expect_status(struct pp_hc *c, int status)
{
    struct pp_hc_answer a;
    assert_true(pp_hc_read(c, &a, false));
    assert_int_equal(a.status, status);
}

static inline bool has_arrived(void *c)
{
    int left = -1;
    assert_int_equal(ioctl(((struct pp_hc *)c)->fd, SIOCOUTQ, &left), 0);
    return left == 0;
}

/* Waits until all sent bytes are in the kernel's buffer of the server. Does not turn the loop if
 * they are already there. */
static inline void arrive(struct pp_hc *c)
{
    if (!has_arrived(c))
        pp_test_until(c->loop, has_arrived, c, 10000);
}

/* Waits until the server has read the sent bytes. */
static inline void be_read(struct pp_hc *c)
{
    arrive(c);
    for (int i = 0; i < 3; i++)
        pp_loop_turn(c->loop, false);
}

/* Opens a connection, lets the server accept it, and sends `first` unless it is NULL. */
static inline void join(struct pp_hc *c, struct pp_echo *e, const char *source, const char *first)
{
    uint64_t before = pp_echo_stats(e).accepted_total;
    pp_hc_open(c, e->loop, source, e->port);
    while (pp_echo_stats(e).accepted_total == before)
        pp_loop_turn(e->loop, true);
    if (first)
        pp_hc_puts(c, first);
    be_read(c);
}

#endif
