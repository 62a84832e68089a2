/* Tests the ladder: after failures in a row, imports of a photo are answered from its record
 * instead of a request. Which failures count, and how many imports are answered after each? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/plan.h"
#include "photopool/code.h"

#define HOUR 3600000
#define DAY  (24 * (int64_t)HOUR) /* as ladder.max */

static void which_codes_climb(void **state)
{
    (void)state;
    int counted = 0;
    for (int code = 0; code <= UINT16_MAX; code++)
        counted += pp_ladder_counts((uint16_t)code);
    assert_int_equal(counted, 3);
    assert_true(pp_ladder_counts(403) && pp_ladder_counts(404) && pp_ladder_counts(410));
    /* A failure that is retried within an import does not count. */
    for (int code = 0; code < 600; code++)
        if (pp_ladder_counts((uint16_t)code))
            assert_int_equal(pp_code_info((uint16_t)code)->retry, PP_FINAL);
}

/* A photo stays absent and is imported every minute. After the first failure no import is answered
 * from the record, after the second one import, after the third two, and so on. */
static void each_failure_skips_one_import_more(void **state)
{
    (void)state;
    struct pp_photo l = {0};
    int64_t now = 1000 * (int64_t)HOUR, retry_at = 0;
    uint32_t skipped = 0;
    for (int import = 0; import < 500; import++, now += 60000) {
        if (pp_ladder_skip(&l, DAY, now, &retry_at)) {
            assert_int_equal(retry_at, l.failed_at + DAY);
            l.skips++;
            skipped++;
            continue;
        }
        assert_int_equal(skipped, l.fail_streak > 0 ? l.fail_streak - 1 : 0);
        l = (struct pp_photo){.fail_streak = (uint16_t)(l.fail_streak + 1), .failed_at = now};
        skipped = 0;
    }
    assert_int_equal(l.fail_streak, 32);
}

/* The parameter says how long a failure counts; with 0 none does. */
static void the_parameter_is_the_longest_time(void **state)
{
    (void)state;
    const struct pp_photo l = {.fail_streak = 9, .failed_at = HOUR};
    int64_t retry_at = 0;
    assert_true(pp_ladder_skip(&l, 5000, HOUR + 4999, &retry_at));
    assert_int_equal(retry_at, HOUR + 5000);
    assert_false(pp_ladder_skip(&l, 5000, HOUR + 5000, &retry_at));
    assert_false(pp_ladder_skip(&l, 0, HOUR, &retry_at));
    assert_true(pp_ladder_skip(&l, 100 * DAY, 99 * DAY, &retry_at));
}

static void a_day_at_most(void **state)
{
    (void)state;
    static const struct {
        uint16_t streak, skips;
        int64_t now_ms;
        bool skip;
    } cases[] = {
        {100, 0, HOUR, true},
        {100, 0, 25 * (int64_t)HOUR - 1, true},
        {100, 0, 25 * (int64_t)HOUR, false},
        {100, 98, HOUR, true},
        {100, 99, HOUR, false},
        {100, UINT16_MAX, HOUR, false},
        {UINT16_MAX, 0, HOUR, true},
        {1, 0, HOUR, false},
        {2, 0, HOUR, true},
        {2, 1, HOUR, false},
        {0, 0, HOUR, false},
        {100, 0, HOUR - 1, false}, /* the time of the failure is in the future */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t retry_at = -7;
        const struct pp_photo l = {
            .fail_streak = cases[i].streak, .skips = cases[i].skips, .failed_at = HOUR};
        assert_int_equal(pp_ladder_skip(&l, DAY, cases[i].now_ms, &retry_at), cases[i].skip);
        assert_int_equal(retry_at, cases[i].skip ? 25 * (int64_t)HOUR : -7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_codes_climb),
        cmocka_unit_test(each_failure_skips_one_import_more),
        cmocka_unit_test(a_day_at_most),
        cmocka_unit_test(the_parameter_is_the_longest_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
