/* Lets memory run out in the core modules that allocate. They must not break or leak memory, and
 * must report each failure.
 *
 * This program compiles the modules with allocators that fail either at one chosen call only, or at
 * that call and at all later ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nth_alloc.h"

#include "core/backlog.c"
#include "core/ratelimit.c"

/* The sliding log has no memory for more than two marks (a number of requests and their time). It
 * may then permit requests too late but never too early, and it must be exact again once these
 * marks have expired. */
static void a_log_survives_any_failed_allocation(void **state)
{
    (void)state;
    for (int fail_at = 0; fail_at < 4; fail_at++) {
        struct pp_ratelimit rl;
        pp_ratelimit_init(&rl, 1000);
        alloc_left = fail_at;
        alloc_fails_on = true;
        assert_true(pp_ratelimit_admit(&rl, 0, 1000));
        for (int i = 0; i < 1000; i++)
            pp_ratelimit_sent(&rl, i * 10, i * 10);
        assert_int_equal(rl.logged, 1000);
        for (int64_t now = 9990; now <= 9990 + 60200; now += 10) {
            uint32_t most = now < 60200 ? 0 : (uint32_t)((now - 60200) / 10 + 1);
            assert_true(pp_ratelimit_permits(&rl, now) <= most);
        }
        assert_int_equal(pp_ratelimit_permits(&rl, 9990 + 60200), 1000);
        pp_ratelimit_fini(&rl);
    }
}

#define CLIENTS 500

static void a_backlog_survives_any_failed_allocation(void **state)
{
    (void)state;
    int failed = 0;
    for (int fail_at = 0; fail_at < 1100; fail_at += fail_at < 60 ? 1 : 3)
        for (int on = 0; on < 2; on++) {
            alloc_left = fail_at;
            alloc_fails_on = on;
            struct pp_backlog *b = pp_backlog_new(CLIENTS);
            size_t put = 0;
            char name[24];
            for (int i = 0; b && i < CLIENTS; i++) {
                snprintf(name, sizeof name, "client-%d", i);
                enum pp_err err = pp_backlog_put(b, name, 0, i);
                assert_true(err == PP_OK || err == PP_ENOMEM);
                failed += err != PP_OK;
                assert_int_equal(pp_backlog_get(b, name, 0), err ? PP_BACKLOG_NEVER : i);
                put += err == PP_OK;
            }
            struct pp_backlog_due due[CLIENTS];
            if (b)
                assert_int_equal(pp_backlog_due(b, 1000, PP_BACKLOG_ALL, due, CLIENTS), put);
            pp_backlog_free(b);
        }
    alloc_left = -1;
    assert_true(failed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_log_survives_any_failed_allocation),
                                       cmocka_unit_test(a_backlog_survives_any_failed_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
