/* Tests Retry-After and HTTP dates: good forms, bad forms, and every day of eight centuries against
 * libc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/retry_after.h"
#include "prng.h"

/* Sun, 06 Nov 1994 08:49:37 GMT */
#define NOV94 784111777000
#define HOUR  3600000

static void seconds_and_dates(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int64_t now_ms, ms;
    } cases[] = {
        {"0", 0, 0},
        {"1", 0, 1000},
        {"120", 0, 120000},
        {" \t120 ", 0, 120000},
        {"000120", 0, 120000},
        {"3600", 0, HOUR},
        {"3601", 0, HOUR},
        {"99999999", 0, HOUR},
        {"99999999999999999999999999999999999999999999999999", 0, HOUR},
        {"-1", 0, 0},
        {"-99999999999999999999999", 0, 0},
        {"", 0, -1},
        {"   ", 0, -1},
        {"-", 0, -1},
        {"--1", 0, -1},
        {"+5", 0, -1},
        {"5s", 0, -1},
        {"1.5", 0, -1},
        {"1e3", 0, -1},
        {"0x10", 0, -1},
        {"5, 10", 0, -1},
        {"5 10", 0, -1},
        {"soon", 0, -1},
        {"Sun, 06 Nov 1994 08:49:37 GMT", NOV94 - 5000, 5000},
        {"Sun, 06 Nov 1994 08:49:37 GMT", NOV94 - 1, 1},
        {"Sun, 06 Nov 1994 08:49:37 GMT", NOV94, 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT", NOV94 + 1, 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0, HOUR},
        {"Sunday, 06-Nov-94 08:49:37 GMT", NOV94 - 5000, 5000},
        {"Sun Nov  6 08:49:37 1994", NOV94 - 5000, 5000},
        {"Fri, 31 Dec 9999 23:59:59 GMT", NOV94, HOUR},
        {"Thu, 01 Jan 1970 00:00:00 GMT", NOV94, 0},
        {"Sun, 31 Nov 1994 08:49:37 GMT", 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ms = pp_retry_after_ms(cases[i].value, strlen(cases[i].value), cases[i].now_ms);
        if (ms != cases[i].ms)
            print_message("case %zu: %s\n", i, cases[i].value);
        assert_int_equal(ms, cases[i].ms);
    }
    assert_int_equal(pp_retry_after_ms(NULL, 0, 0), -1);
    assert_int_equal(pp_retry_after_ms("5\0", 2, 0), -1); /* a NUL is an invalid byte like others */
}

static void bad_dates_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 19940 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Tue, 29 Feb 1900 08:49:37 GMT",
        "Tue, 30 Feb 2000 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov  6 08:49:37 94",
    };
    int64_t ms;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pp_http_date_parse(bad[i], strlen(bad[i]), NOV94, &ms));
}

static void dates_in_three_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t now_ms, ms;
    } cases[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0, NOV94},
        {"Mon, 06 Nov 1994 08:49:37 GMT", 0, NOV94}, /* this date was no Monday */
        {"Sun Nov 16 08:49:37 1994", 0, NOV94 + 864000000},
        {"Sun Nov 06 08:49:37 1994", 0, NOV94},
        {"Sunday, 06-Nov-94 08:49:37 GMT", NOV94, NOV94},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0, 0},
        {"Wed, 31 Dec 1969 23:59:59 GMT", 0, -1000},
        {"Sat, 31 Dec 2016 23:59:60 GMT", 0, 1483228800000},
        {"Tue, 29 Feb 2000 00:00:00 GMT", 0, 951782400000},
        /* A year of two digits is at most 50 years in the future: seen from 2026, 76 is 2076 and 77
         * is 1977. */
        {"Wednesday, 01-Jan-76 00:00:00 GMT", 1795000000000, 3345062400000},
        {"Saturday, 01-Jan-77 00:00:00 GMT", 1795000000000, 220924800000},
        {"Friday, 01-Jan-27 00:00:00 GMT", 1795000000000, 1798761600000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ms = 0;
        assert_true(pp_http_date_parse(cases[i].text, strlen(cases[i].text), cases[i].now_ms, &ms));
        if (ms != cases[i].ms)
            print_message("case %zu: %s\n", i, cases[i].text);
        assert_int_equal(ms, cases[i].ms);
    }
}

static void every_day_of_the_calendar(void **state)
{
    (void)state;
    for (int64_t day = -135140; day < 157000; day++) { /* every day of 1600 to 2399 */
        time_t t = day * 86400 + (day & 0x3fff);
        struct tm tm;
        gmtime_r(&t, &tm);
        char text[64];
        int64_t ms = 0;
        assert_true(strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
        assert_true(pp_http_date_parse(text, strlen(text), 0, &ms) && ms == (int64_t)t * 1000);
        assert_true(strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &tm) > 0);
        assert_true(pp_http_date_parse(text, strlen(text), 0, &ms) && ms == (int64_t)t * 1000);
        /* two-digit years are read as seen from the same day, between 1970 and 2099 */
        if (t < 0 || t > 4102444799)
            continue;
        size_t n = strftime(text, sizeof text, "%A, %d-%b-", &tm);
        snprintf(text + n, sizeof text - n, "%02d %02d:%02d:%02d GMT", tm.tm_year % 100, tm.tm_hour,
                 tm.tm_min, tm.tm_sec);
        assert_true(pp_http_date_parse(text, strlen(text), (int64_t)t * 1000, &ms) &&
                    ms == (int64_t)t * 1000);
    }
}

/* Changes one byte of a good date, or cuts the date off. The result must be a bounded delay, or
 * -1. */
static void damaged_values_stay_in_range(void **state)
{
    (void)state;
    static const char *const good[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                                       "Sun Nov  6 08:49:37 1994", "120"};
    uint64_t s = 1;
    for (int i = 0; i < 20000; i++) {
        char text[40];
        size_t n = (size_t)snprintf(text, sizeof text, "%s", good[i % 4]);
        for (int64_t k = pp_test_between(&s, 0, 3); k > 0; k--)
            text[pp_test_rnd(&s) % n] = (char)pp_test_rnd(&s);
        int64_t ms = pp_retry_after_ms(text, pp_test_rnd(&s) % (n + 1), NOV94 - 1000);
        assert_true(ms >= -1 && ms <= PP_RETRY_AFTER_MAX_MS);
    }
}

static void the_caller_sets_a_ceiling(void **state)
{
    (void)state;
    assert_int_equal(pp_retry_after_upto("7200", 4, 0, 86400000), 7200000);
    assert_int_equal(pp_retry_after_upto("99999999999999999999", 20, 0, 86400000), 86400000);
    assert_int_equal(pp_retry_after_upto("Sun, 06 Nov 1994 10:49:37 GMT", 29, 784111777000, 86400000),
                     7200000);
    assert_int_equal(pp_retry_after_upto("soon", 4, 0, 86400000), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_caller_sets_a_ceiling), cmocka_unit_test(seconds_and_dates),
        cmocka_unit_test(bad_dates_are_refused),     cmocka_unit_test(dates_in_three_forms),
        cmocka_unit_test(every_day_of_the_calendar), cmocka_unit_test(damaged_values_stay_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
