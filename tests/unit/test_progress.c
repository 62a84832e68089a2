/* Tests the speed of batches: photos per second over the last ten seconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/common/progress.h"
#include "prng.h"

#define T0 INT64_C(123456000)

static void near(double value, double wanted, double by)
{
    if (value < wanted - by || value > wanted + by)
        fail_msg("%f instead of %f", value, wanted);
}

static void unknown_batches_do_not_move(void **state)
{
    struct pp_progress *p = pp_progress_new();

    (void)state;
    near(pp_progress_rate(p, "b", T0), 0, 0);
    pp_progress_add(p, "b", 5, T0);
    near(pp_progress_rate(p, "b", T0), 0, 0); /* no time has passed, so there is no rate yet */
    near(pp_progress_rate(p, "c", T0 + 1000), 0, 0);
    near(pp_progress_rate(p, "b", T0 - 5000), 0, 0);
    pp_progress_free(p);
    pp_progress_free(NULL);
}

static void a_young_batch_is_measured_from_its_start(void **state)
{
    struct pp_progress *p = pp_progress_new();

    (void)state;
    pp_progress_add(p, "b", 100, T0 + 300);
    near(pp_progress_rate(p, "b", T0 + 1300), 100, 0.001);
    near(pp_progress_rate(p, "b", T0 + 2300), 50, 0.001);
    pp_progress_add(p, "b", 100, T0 + 4300);
    near(pp_progress_rate(p, "b", T0 + 4300), 50, 0.001);
    pp_progress_free(p);
}

static void a_steady_batch_has_its_rate(void **state)
{
    struct pp_progress *p = pp_progress_new();

    (void)state;
    for (int64_t t = 0; t < 60000; t += 10) {
        /* Each step adds three photos, which is a rate of 300 per second. */
        pp_progress_add(p, "b", 3, T0 + 300 + t);
        if (t >= 1000)
            near(pp_progress_rate(p, "b", T0 + 300 + t), 300,
                 4); /* the rate is right at every moment, even in the first ten seconds */
    }
    pp_progress_free(p);
}

static void forgets_photos_older_than_ten_seconds(void **state)
{
    struct pp_progress *p = pp_progress_new();

    (void)state;
    pp_progress_add(p, "b", 1000, T0);
    near(pp_progress_rate(p, "b", T0 + 9999), 100, 1);
    near(pp_progress_rate(p, "b", T0 + 10000), 0, 0);
    near(pp_progress_rate(p, "b", T0 + 3600000), 0, 0);
    pp_progress_add(p, "b", 90, T0 + 3600000);
    /* the seconds without photos lower the rate */
    near(pp_progress_rate(p, "b", T0 + 3600000), 10, 0.001);
    pp_progress_free(p);
}

static void a_clock_that_goes_back_does_no_harm(void **state)
{
    struct pp_progress *p = pp_progress_new();
    uint64_t seed = 5;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        pp_progress_add(p, "b", 1, T0 + pp_test_between(&seed, 0, 40000));
        double rate = pp_progress_rate(p, "b", T0 + pp_test_between(&seed, 0, 40000));
        assert_true(rate >= 0 && rate < 1e9);
    }
    pp_progress_free(p);
}

static void the_quietest_makes_room(void **state)
{
    struct pp_progress *p = pp_progress_new();
    char id[20];

    (void)state;
    for (int i = 0; i < PP_PROGRESS_BATCHES; i++) {
        (void)snprintf(id, sizeof(id), "b-%d", i);
        pp_progress_add(p, id, 10, T0);
    }
    pp_progress_add(p, "b-0", 10, T0 + 10); /* now b-1 has been idle for longest */
    pp_progress_add(p, "new", 10, T0 + 20);
    assert_true(pp_progress_rate(p, "b-0", T0 + 1000) > 0);
    assert_true(pp_progress_rate(p, "new", T0 + 1000) > 0);
    assert_true(pp_progress_rate(p, "b-2", T0 + 1000) > 0);
    near(pp_progress_rate(p, "b-1", T0 + 1000), 0, 0);
    pp_progress_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_batches_do_not_move),
        cmocka_unit_test(a_young_batch_is_measured_from_its_start),
        cmocka_unit_test(a_steady_batch_has_its_rate),
        cmocka_unit_test(forgets_photos_older_than_ten_seconds),
        cmocka_unit_test(a_clock_that_goes_back_does_no_harm),
        cmocka_unit_test(the_quietest_makes_room),
    };

    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
