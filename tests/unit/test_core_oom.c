/* Memory runs out in the core modules that allocate: nothing breaks, nothing leaks, what cannot be done is
 * reported.
 *
 * The modules are compiled into this program with allocators that fail from a chosen call on, or at it alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int calls_left = -1; /* until failure; negative: never */
static int only_once;

static int fails(void)
{
    if (calls_left < 0)
        return 0;
    if (calls_left > 0) {
        calls_left--;
        return 0;
    }
    if (only_once)
        calls_left = -1;
    return 1;
}

#define malloc(n)     (fails() ? NULL : (malloc)(n))
#define calloc(n, s)  (fails() ? NULL : (calloc)(n, s))
#define realloc(p, n) (fails() ? NULL : (realloc)(p, n))

#include "core/backlog.c"
#include "core/ratelimit.c"

/* Without memory the log is two marks: late, never early, and right again once they have run out. */
static void test_ratelimit(void **state)
{
    (void)state;
    for (int fail_at = 0; fail_at < 4; fail_at++) {
        struct pp_ratelimit rl;
        pp_ratelimit_init(&rl, 1000);
        calls_left = fail_at;
        only_once = 0;
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

static void test_backlog(void **state)
{
    (void)state;
    int failed = 0;
    for (int fail_at = 0; fail_at < 1100; fail_at += fail_at < 60 ? 1 : 3)
        for (only_once = 0; only_once < 2; only_once++) {
            calls_left = fail_at;
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
            if (b) {
                assert_int_equal(pp_backlog_count(b), put);
                assert_int_equal(pp_backlog_due(b, 1000, PP_BACKLOG_ALL, due, CLIENTS), put);
            }
            pp_backlog_free(b);
        }
    calls_left = -1;
    assert_true(failed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ratelimit), cmocka_unit_test(test_backlog)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
