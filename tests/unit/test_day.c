/* Tests days in UTC: their numbers, months and texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

#include "core/day.h"

static void day_boundaries(void **state)
{
    (void)state;
    const int64_t midnight = INT64_C(20785) * 86400000;
    assert_int_equal(pp_day_of(midnight), 20785);
    assert_int_equal(pp_day_of(midnight - 1), 20784);
    assert_int_equal(pp_day_of(midnight + 86399999), 20785);
    assert_int_equal(pp_day_of(0), 0);
    assert_int_equal(pp_day_of(-1), -1);
    assert_int_equal(pp_day_of(-86400000), -1);
    assert_int_equal(pp_day_of(-86400001), -2);
}

/* Each day of 400 years, against the C library. */
static void texts_and_months(void **state)
{
    (void)state;
    for (int32_t day = 0; day < 146097; day++) {
        char text[PP_DAY_TEXT_MAX], due[40];
        time_t t = (time_t)day * 86400;
        struct tm tm;
        int32_t back;
        gmtime_r(&t, &tm);
        strftime(due, sizeof due, "%Y-%m-%d", &tm);
        assert_string_equal(pp_day_text(text, day), due);
        assert_int_equal(pp_day_month(day), (tm.tm_year + 1900) * 100 + tm.tm_mon + 1);
        assert_int_equal(pp_day_of_month(day), tm.tm_mday);
        assert_true(pp_day_parse(text, &back));
        assert_int_equal(back, day);
    }
}

static void texts_that_are_no_days(void **state)
{
    (void)state;
    int32_t day;
    static const char *const bad[] = {
        "",           "2026-11-31", "2026-1-1",   "2026-13-01",  "1969-12-31", "2026-11-28Z", "20261128",
        "2026-02-29", "2026/11/28", "yesterday!", "2026-11-280", "-026-11-28", "2026-1--28",  " 2026-11-28"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pp_day_parse(bad[i], &day));
    assert_true(pp_day_parse("2028-02-29", &day));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(day_boundaries),
        cmocka_unit_test(texts_and_months),
        cmocka_unit_test(texts_that_are_no_days),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
