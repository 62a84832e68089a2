/* The usual delay: not before there are moments enough to go by; then the least of the latest moments'
 * medians. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/usual_delay.h"
#include "prng.h"

enum { MOMENT = PP_USUAL_MOMENT_MS };

/* n answers at once. */
static void burst(struct pp_usual_delay *u, int64_t at_ms, int n, int64_t delay_ms)
{
    for (int i = 0; i < n; i++)
        pp_usual_delay_add(u, at_ms, delay_ms);
}

/* Some answers of each moment from the one numbered `from` on, before `to`. */
static void moments(struct pp_usual_delay *u, int64_t from, int64_t to, int64_t delay_ms)
{
    for (int64_t s = from; s < to; s++)
        burst(u, s * MOMENT, 3, delay_ms);
}

static void test_few_moments_say_nothing(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    assert_int_equal(pp_usual_delay_ms(&u, 0), 0);
    moments(&u, 7, 7 + PP_USUAL_MOMENTS, 300);
    int64_t now = (7 + PP_USUAL_MOMENTS) * MOMENT;
    pp_usual_delay_add(&u, now - 1, 300); /* the last one has not passed */
    assert_int_equal(pp_usual_delay_ms(&u, now), 0);
    pp_usual_delay_add(&u, now, 900);
    assert_int_equal(pp_usual_delay_ms(&u, now), 300);
}

static void test_many_at_one_moment_are_one(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    burst(&u, 0, 1000, 300);
    burst(&u, MOMENT - 1, 1000, 300);
    burst(&u, MOMENT, 1, 300);
    assert_int_equal(u.moments, 1);
    assert_int_equal(pp_usual_delay_ms(&u, MOMENT), 0);
}

/* As a client of 10 RPM has them: all of a minute at once, and often late as a whole. */
static void test_bursts_that_are_late(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    for (int64_t minute = 0; minute < 10; minute++)
        burst(&u, minute * 60200, 10, minute == 2 ? 40 : 250 + 10 * minute);
    assert_int_equal(pp_usual_delay_ms(&u, 10 * INT64_C(60200)), 40);
}

static void test_a_moment_has_its_median(void **state)
{
    (void)state;
    static const struct {
        int quick, slow;
        int64_t is;
    } cases[] = {{1, 1, 60}, {1, 2, 330}, {2, 2, 60}, {7, 9, 330}, {8, 8, 60}, {16, 100, 60}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_usual_delay u = {0};
        moments(&u, 0, PP_USUAL_MOMENTS, 1000);
        burst(&u, 100 * MOMENT, cases[i].quick, 60);
        burst(&u, 100 * MOMENT, cases[i].slow, 330);
        burst(&u, 101 * MOMENT, 1, 1000);
        assert_int_equal(pp_usual_delay_ms(&u, 101 * MOMENT), cases[i].is);
    }
}

static void test_what_is_old_is_forgotten(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    moments(&u, 0, 1, 20);
    moments(&u, 1, PP_USUAL_KEPT + 1, 900);
    int64_t now = PP_USUAL_KEPT * MOMENT;
    assert_int_equal(pp_usual_delay_ms(&u, now), 20); /* KEPT have passed, the first among them */
    pp_usual_delay_add(&u, now + MOMENT, 900);
    assert_int_equal(pp_usual_delay_ms(&u, now + MOMENT), 900);
    now += MOMENT + PP_USUAL_FORGET_MS;
    assert_int_equal(pp_usual_delay_ms(&u, now), 900);
    assert_int_equal(pp_usual_delay_ms(&u, now + 1), 0);
    pp_usual_delay_add(&u, now + 1, 900);
    assert_int_equal(pp_usual_delay_ms(&u, now + 1), 0);
}

static void test_bounds(void **state)
{
    (void)state;
    static const struct {
        int64_t delay_ms, is;
    } cases[] = {{INT64_MIN, 0},
                 {-1, 0},
                 {0, 0},
                 {1, 1},
                 {PP_USUAL_MAX_MS, PP_USUAL_MAX_MS},
                 {INT64_MAX, PP_USUAL_MAX_MS}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_usual_delay u = {0};
        moments(&u, 0, PP_USUAL_MOMENTS + 1, cases[i].delay_ms);
        assert_int_equal(pp_usual_delay_ms(&u, PP_USUAL_MOMENTS * MOMENT), cases[i].is);
    }
}

/* Answers are told of when their transfers end, in any order; the clock of another thread may be behind. */
static void test_out_of_order(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    uint64_t rnd = 20261122;
    for (int64_t s = 0; s < 100; s++)
        for (int i = 0; i < 5; i++)
            pp_usual_delay_add(&u, s * MOMENT - pp_test_between(&rnd, 0, 20000), 300);
    assert_in_range(u.moments, PP_USUAL_MOMENTS, PP_USUAL_KEPT);
    assert_int_equal(pp_usual_delay_ms(&u, 100 * MOMENT), 300);
}

/* However late the others are: one moment of the latest in which nothing was is enough, and the estimate is
 * never more than what was usual then; nor less than any answer took. */
static void test_property(void **state)
{
    (void)state;
    uint64_t rnd = 20261122;
    for (int round = 0; round < 500; round++) {
        struct pp_usual_delay u = {0};
        int64_t lo = pp_test_between(&rnd, 0, 1000), hi = pp_test_between(&rnd, lo, 1900);
        int64_t quiet = pp_test_between(&rnd, 100 - PP_USUAL_KEPT, 98);
        for (int64_t s = 0; s < 100; s++) {
            int64_t late = s == quiet ? 0 : pp_test_between(&rnd, 0, 5000);
            for (int64_t n = pp_test_between(&rnd, 1, 30); n > 0; n--)
                pp_usual_delay_add(&u, s * MOMENT, late + pp_test_between(&rnd, lo, hi));
        }
        assert_in_range(pp_usual_delay_ms(&u, 100 * MOMENT), lo, hi);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_moments_say_nothing),
        cmocka_unit_test(test_many_at_one_moment_are_one),
        cmocka_unit_test(test_bursts_that_are_late),
        cmocka_unit_test(test_a_moment_has_its_median),
        cmocka_unit_test(test_what_is_old_is_forgotten),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_out_of_order),
        cmocka_unit_test(test_property),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
