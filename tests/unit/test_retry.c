/* Tests the decision after a failed attempt: a case per rule, and bounds on every delay for every
 * code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/retry.h"
#include "core/retry_after.h"
#include "photopool/code.h"
#include "prng.h"

static const int64_t delays[] = {1000, 10000, 60000};
static const struct pp_retry_params params = {4, delays, 3};

static struct pp_retry_decision decide(uint16_t code, uint32_t done, uint8_t tier, int64_t after,
                                       uint64_t rnd)
{
    return pp_retry_decide(code, done, tier, 3, after, &params, rnd);
}

static void what_follows_each_code(void **state)
{
    (void)state;
    static const struct {
        uint16_t code;
        uint32_t done;
        uint8_t tier;
        enum pp_retry_what what;
        uint8_t next;
    } cases[] = {
        {404, 1, 0, PP_RETRY_FINAL, 0},
        {403, 1, 1, PP_RETRY_FINAL, 1},
        {PP_CODE_NOT_IMAGE, 1, 2, PP_RETRY_FINAL, 2},
        {PP_CODE_TLS_FAILED, 1, 0, PP_RETRY_FINAL, 0},
        {PP_CODE_BODY_TIMEOUT, 1, 0, PP_RETRY_PROMOTE, 1},
        {PP_CODE_FIRST_BYTE_TIMEOUT, 2, 1, PP_RETRY_PROMOTE, 2},
        /* in the last tier the task ends with the code of this timeout */
        {PP_CODE_CONNECT_TIMEOUT, 3, 2, PP_RETRY_FINAL, 2},
        {PP_CODE_TOO_SLOW, 4, 0, PP_RETRY_FINAL, 0}, /* the task has no attempts left */
        {PP_CODE_CONNECTION_LOST, 1, 1, PP_RETRY_LATER, 1},
        {PP_CODE_DNS_TEMPORARY, 3, 0, PP_RETRY_LATER, 0},
        {PP_CODE_DNS_TEMPORARY, 4, 0, PP_RETRY_FINAL, 0},
        {PP_CODE_TRUNCATED, UINT32_MAX, 0, PP_RETRY_FINAL, 0},
        {500, 1, 0, PP_RETRY_LATER, 0},
        {503, 3, 2, PP_RETRY_LATER, 2},
        {429, 4, 2, PP_RETRY_FINAL, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_retry_decision d = decide(cases[i].code, cases[i].done, cases[i].tier, -1, 12345);
        assert_int_equal(d.what, cases[i].what);
        assert_int_equal(d.tier, cases[i].next);
        if (d.what != PP_RETRY_LATER)
            assert_int_equal(d.delay_ms, 0);
    }
}

/* Finds the shortest and the longest delay over random numbers. */
static void bounds(uint16_t code, uint32_t done, int64_t after, int64_t *lo, int64_t *hi)
{
    uint64_t s = done;
    *lo = INT64_MAX;
    *hi = INT64_MIN;
    for (int i = 0; i < 20000; i++) {
        struct pp_retry_decision d = decide(code, done, 0, after, pp_test_rnd(&s));
        assert_int_equal(d.what, PP_RETRY_LATER);
        if (d.delay_ms < *lo)
            *lo = d.delay_ms;
        if (d.delay_ms > *hi)
            *hi = d.delay_ms;
    }
}

static void delays_have_jitter(void **state)
{
    (void)state;
    static const struct {
        uint16_t code;
        uint32_t done;
        int64_t after, lo, hi;
    } cases[] = {
        {PP_CODE_CONNECTION_LOST, 1, -1, 0, 1000}, /* the whole delay is random */
        {PP_CODE_CONNECTION_LOST, 2, -1, 0, 10000},
        {500, 3, -1, 0, 60000},
        {503, 1, -1, 500, 1000}, /* half of the delay is fixed, the other half random */
        {429, 3, -1, 30000, 60000},
        {429, 1, 0, 0, 1000}, /* Retry-After: 0 */
        {429, 1, 7000, 7000, 8000},
        {503, 2, 120000, 120000, 130000},
        {503, 2, INT64_MAX, PP_RETRY_AFTER_MAX_MS, PP_RETRY_AFTER_MAX_MS + 10000},
        {500, 1, 7000, 7000, 8000}, /* Retry-After counts with any code that is retried */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t lo, hi, tenth = (cases[i].hi - cases[i].lo) / 10;
        bounds(cases[i].code, cases[i].done, cases[i].after, &lo, &hi);
        assert_true(lo >= cases[i].lo && lo <= cases[i].lo + tenth);
        assert_true(hi <= cases[i].hi && hi >= cases[i].hi - tenth);
    }
}

static void the_last_delay_repeats(void **state)
{
    (void)state;
    const struct pp_retry_params none = {9, NULL, 0}, one = {9, delays, 1};
    assert_int_equal(pp_retry_decide(500, 1, 0, 3, -1, &none, 77).delay_ms, 0);
    assert_int_equal(pp_retry_decide(429, 1, 0, 3, 5000, &none, 77).delay_ms, 5000);
    for (uint64_t rnd = 0; rnd < 3000; rnd++)
        assert_in_range(pp_retry_decide(500, 8, 0, 3, -1, &one, rnd).delay_ms, 0, 1000);
}

/* Tries random codes, tiers and answers. A task must end within its attempts, use only tiers that
 * exist, and never wait longer than the bound. */
static void every_task_ends(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        uint64_t s = seed;
        uint8_t tier = (uint8_t)pp_test_between(&s, 0, 2);
        uint32_t attempts = 1;
        for (;; attempts++) {
            uint16_t code = (uint16_t)pp_test_between(&s, 0, 610);
            int64_t after = pp_test_between(&s, 0, 1) ? -1 : pp_test_between(&s, 0, 5000000);
            struct pp_retry_decision d = decide(code, attempts, tier, after, pp_test_rnd(&s));
            if (d.what == PP_RETRY_FINAL)
                break;
            assert_true(d.what == PP_RETRY_PROMOTE ? d.tier == tier + 1 : d.tier == tier);
            assert_true(d.tier < 3 && d.delay_ms >= 0 && d.delay_ms <= PP_RETRY_AFTER_MAX_MS + 60000);
            assert_true(pp_code_info(code)->retry != PP_FINAL);
            tier = d.tier;
        }
        assert_true(attempts <= params.max_attempts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_each_code),
        cmocka_unit_test(delays_have_jitter),
        cmocka_unit_test(the_last_delay_repeats),
        cmocka_unit_test(every_task_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
