/* The usual delay: not before there is enough to go by; then the lower quartile of the latest answers,
 * rounded down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/usual_delay.h"
#include "prng.h"

enum { NOW = 60000 };

static void add(struct pp_usual_delay *u, int64_t from_ms, int64_t to_ms, int n, int64_t delay_ms)
{
    for (int i = 0; i < n; i++)
        pp_usual_delay_add(u, n > 1 ? from_ms + (to_ms - from_ms) * i / (n - 1) : from_ms, delay_ms);
}

static void test_a_burst_says_nothing(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    assert_int_equal(pp_usual_delay_ms(&u, NOW), 0);
    add(&u, 7000, 7000 + PP_USUAL_AFTER_MS - 1, 1000, 700);
    assert_int_equal(pp_usual_delay_ms(&u, NOW), 0);
    add(&u, 7000 + PP_USUAL_AFTER_MS, 20000, PP_USUAL_ANSWERS, 200);
    assert_int_equal(pp_usual_delay_ms(&u, NOW), 200);
}

static void test_few_say_nothing(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    pp_usual_delay_add(&u, 0, 300);
    add(&u, PP_USUAL_AFTER_MS, 60000, PP_USUAL_ANSWERS - 1, 300);
    assert_int_equal(pp_usual_delay_ms(&u, NOW), 0);
    pp_usual_delay_add(&u, 60000, 300);
    assert_int_equal(pp_usual_delay_ms(&u, NOW), 300);
}

static void test_what_is_old_is_forgotten(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    pp_usual_delay_add(&u, 0, 900);
    add(&u, PP_USUAL_AFTER_MS, NOW, PP_USUAL_KEPT, 900);
    assert_int_equal(pp_usual_delay_ms(&u, NOW + PP_USUAL_FORGET_MS), 900);
    assert_int_equal(pp_usual_delay_ms(&u, NOW + PP_USUAL_FORGET_MS + 1), 0);
    pp_usual_delay_add(&u, NOW + PP_USUAL_FORGET_MS + 1, 900);
    assert_int_equal(pp_usual_delay_ms(&u, NOW + PP_USUAL_FORGET_MS + 1), 0);
}

/* Half of them; with what is left of the answers before. */
static void test_some_are_quick(void **state)
{
    (void)state;
    struct pp_usual_delay u = {0};
    pp_usual_delay_add(&u, 0, 330);
    add(&u, 2000, 5000, 16, 330);
    add(&u, 5000, 5000, 15, 60);
    assert_int_equal(pp_usual_delay_ms(&u, NOW), 325);
    add(&u, 5000, 5000, 1, 60);
    assert_int_equal(pp_usual_delay_ms(&u, NOW), 50);
    add(&u, 5000, 5000, 4 * PP_USUAL_KEPT, 950);
    assert_int_equal(pp_usual_delay_ms(&u, NOW), 900);
}

static void test_bounds(void **state)
{
    (void)state;
    static const struct {
        int64_t delay_ms, is;
    } cases[] = {{INT64_MIN, 0}, {-1, 0},        {0, 0},         {24, 0},
                 {25, 25},       {399, 375},     {400, 400},     {499, 400},
                 {500, 500},     {1999, 1900},   {2000, 2000},   {2999, 2000},
                 {3000, 3000},   {29999, 29000}, {30000, 30000}, {INT64_MAX, 30000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_usual_delay u = {0};
        pp_usual_delay_add(&u, 0, cases[i].delay_ms);
        add(&u, PP_USUAL_AFTER_MS, 5000, PP_USUAL_ANSWERS, cases[i].delay_ms);
        assert_int_equal(pp_usual_delay_ms(&u, NOW), cases[i].is);
    }
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Whatever the answers, it is near the median of the latest. */
static void test_property(void **state)
{
    (void)state;
    enum { N = 200 };
    uint64_t rnd = 20261122;
    for (int round = 0; round < 500; round++) {
        struct pp_usual_delay u = {0};
        int64_t lo = pp_test_between(&rnd, 0, 1000), hi = pp_test_between(&rnd, lo, 1900), all[N];
        add(&u, 0, 9000, PP_USUAL_KEPT, pp_test_between(&rnd, 0, 5000)); /* as it was before */
        for (int i = 0; i < N; i++) {
            all[i] = pp_test_between(&rnd, lo, hi);
            pp_usual_delay_add(&u, 9000, all[i]);
        }
        qsort(all, N, sizeof(*all), by_size);
        assert_in_range(pp_usual_delay_ms(&u, NOW) + 100, all[N / 5], all[4 * N / 5] + 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_says_nothing),
        cmocka_unit_test(test_few_say_nothing),
        cmocka_unit_test(test_what_is_old_is_forgotten),
        cmocka_unit_test(test_some_are_quick),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_property),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
