/* Tests the rate limit of callers: burst, long run, waiting times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gcra.h"
#include "prng.h"

static void a_burst_and_then_the_rate(void **state)
{
    struct pp_gcra g = {0};

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(pp_gcra_take(&g, 10, 20, 1, 5000), 0);
    assert_int_equal(pp_gcra_take(&g, 10, 20, 1, 5000), 100);
    assert_int_equal(pp_gcra_take(&g, 10, 20, 1, 5040), 60);
    assert_int_equal(pp_gcra_take(&g, 10, 20, 1, 5100), 0);
    assert_int_equal(pp_gcra_take(&g, 10, 20, 5, 5100), 500);
    assert_int_equal(pp_gcra_take(&g, 10, 20, 5, 5600), 0);
    /* After a long pause there is one burst, not more. */
    for (int i = 0; i < 20; i++)
        assert_int_equal(pp_gcra_take(&g, 10, 20, 1, 1000000), 0);
    assert_int_equal(pp_gcra_take(&g, 10, 20, 1, 1000000), 100);
}

static void extremes(void **state)
{
    struct pp_gcra g = {0};

    (void)state;
    assert_int_equal(pp_gcra_take(&g, 1, 1, 1, 0), 0);
    assert_int_equal(pp_gcra_take(&g, 1, 1, 1, 0), 1000);
    assert_int_equal(pp_gcra_take(&g, 1, 1, 1, 999), 1);
    assert_int_equal(pp_gcra_take(&g, 1, 1, 1, 1000), 0);
    g = (struct pp_gcra){0};
    assert_int_equal(pp_gcra_take(&g, 1000000, UINT32_MAX, UINT32_MAX, 1), 0);
    assert_true(pp_gcra_take(&g, 1000000, UINT32_MAX, 1, 1) > 0);
}

/* In no window are more units taken than the burst and the rate allow, and a caller that waits as
 * it is told gets its units. */
static void random_callers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t r = seed;
        uint32_t rate = (uint32_t)pp_test_between(&r, 1, 2000),
                 burst = (uint32_t)pp_test_between(&r, 1, 3000);
        struct pp_gcra g = {0};
        int64_t now = 1000, taken = 0;
        for (int i = 0; i < 2000; i++) {
            uint32_t n = (uint32_t)pp_test_between(&r, 1, burst < 5 ? burst : 5);
            int64_t wait = pp_gcra_take(&g, rate, burst, n, now);
            if (wait > 0) {
                struct pp_gcra early = g;
                assert_true(wait == 1 || pp_gcra_take(&early, rate, burst, n, now + wait - 1) > 0);
                now += wait;
                assert_int_equal(pp_gcra_take(&g, rate, burst, n, now), 0);
            }
            taken += n;
            /* Each unit may come up to a microsecond early, because times are whole numbers. */
            assert_true(taken <= burst + (now - 1000) * (int64_t)rate / 1000 + taken / 500 + 2);
            now += pp_test_between(&r, 0, 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_and_then_the_rate),
        cmocka_unit_test(extremes),
        cmocka_unit_test(random_callers),
    };

    return cmocka_run_group_tests_name("gcra", tests, NULL, NULL);
}
