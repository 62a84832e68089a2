/* Tests the states of a failing resource: when it is probed, when it is well again, when the
 * operator hears of it, and how much disk space must stay free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/local_fault.h"

#define START 1000000

static int64_t next_probe(const struct pp_local_fault *f, int64_t now)
{
    while (!pp_local_fault_probe_due(f, now))
        now++;
    return now;
}

static void probes_come_with_growing_pauses(void **state)
{
    (void)state;
    struct pp_local_fault f = {0};
    int64_t now = START, pause = 0, longest = 0;

    assert_false(pp_local_fault_probe_due(&f, now));
    assert_true(pp_local_fault_seen(&f, now, true));
    assert_false(pp_local_fault_seen(&f, now + 500, true)); /* it is known to fail */
    assert_int_equal(next_probe(&f, now), START + PP_LOCAL_PAUSE_MS);
    now += PP_LOCAL_PAUSE_MS;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(pp_local_fault_probed(&f, now, false, true), PP_LOCAL_FAILING);
        int64_t at = next_probe(&f, now);
        assert_true(at - now >= pause);
        pause = at - now;
        longest = pause > longest ? pause : longest;
        now = at;
    }
    assert_int_equal(longest, PP_LOCAL_PAUSE_MAX_MS);
    assert_int_equal(pp_local_fault_probed(&f, now, true, false), PP_LOCAL_WELL);
    assert_false(pp_local_fault_probe_due(&f, now + 100000));
}

static void work_that_waits_is_tried_first(void **state)
{
    (void)state;
    struct pp_local_fault f = {0};

    (void)pp_local_fault_seen(&f, START, true);
    assert_int_equal(pp_local_fault_probed(&f, START + 1000, true, true), PP_LOCAL_TRYING);
    assert_false(pp_local_fault_probe_due(&f, START + 100000));
    assert_false(pp_local_fault_seen(&f, START + 1010, false)); /* the work failed again */
    assert_int_equal(f.state, PP_LOCAL_FAILING);
    assert_int_equal(next_probe(&f, START + 1010), START + 1010 + PP_LOCAL_PAUSE_MS * 3 / 2);
    assert_int_equal(pp_local_fault_probed(&f, START + 2510, true, true), PP_LOCAL_TRYING);
    pp_local_fault_done(&f, START + 2520);
    assert_int_equal(f.state, PP_LOCAL_WELL);
    pp_local_fault_done(&f, START + 2530); /* nothing changes */
    assert_int_equal(f.state, PP_LOCAL_WELL);
}

/* Fails, is found well by the next probe, and fails again at once. Returns the pause. */
static int64_t relapse(struct pp_local_fault *f, int64_t *now, bool worked)
{
    assert_true(pp_local_fault_seen(f, *now, worked));
    int64_t at = next_probe(f, *now), pause = at - *now;
    assert_int_equal(pp_local_fault_probed(f, at, true, false), PP_LOCAL_WELL);
    *now = at + 50;
    return pause;
}

static void a_probe_that_proves_nothing_is_repeated_less_often(void **state)
{
    (void)state;
    struct pp_local_fault f = {0};
    int64_t now = START, pause = relapse(&f, &now, true);

    assert_int_equal(pause, PP_LOCAL_PAUSE_MS);
    for (int64_t due = 2 * PP_LOCAL_PAUSE_MS; due < PP_LOCAL_RELAPSE_MAX_MS; due *= 2)
        assert_int_equal(relapse(&f, &now, false), due);
    assert_int_equal(relapse(&f, &now, false), PP_LOCAL_RELAPSE_MAX_MS);
    assert_int_equal(relapse(&f, &now, false), PP_LOCAL_RELAPSE_MAX_MS);
    /* photos were stored in between: this is another failure */
    assert_int_equal(relapse(&f, &now, true), PP_LOCAL_PAUSE_MS);
    assert_int_equal(relapse(&f, &now, false), 2 * PP_LOCAL_PAUSE_MS);
    now += PP_LOCAL_RELAPSE_MS;
    assert_int_equal(relapse(&f, &now, false), PP_LOCAL_PAUSE_MS);
}

static void a_failure_is_logged_once_and_then_each_minute(void **state)
{
    (void)state;
    struct pp_local_fault f = {0};
    int said = 0;

    assert_false(pp_local_fault_say(&f, START));
    (void)pp_local_fault_seen(&f, START, true);
    for (int64_t now = START; now < START + 180000; now += 100)
        said += pp_local_fault_say(&f, now);
    assert_int_equal(said, 3);
    (void)pp_local_fault_probed(&f, START + 180000, true, false);
    assert_false(pp_local_fault_say(&f, START + 300000));
    (void)pp_local_fault_seen(&f, START + 300000, true);
    assert_true(pp_local_fault_say(&f, START + 300000));
}

static void a_reserve_that_is_set_holds(void **state)
{
    (void)state;
    const uint64_t gib = 1 << 30;

    assert_int_equal(pp_local_min_free(5 * gib, true, 50 * gib), 5 * gib);
    assert_int_equal(pp_local_min_free(40 * gib, true, 50 * gib), 40 * gib);
    assert_int_equal(pp_local_min_free(0, true, 50 * gib), 0);
    assert_int_equal(pp_local_min_free(100 * gib, true, 16 * gib), 14 * gib);
}

static void a_small_disk_needs_less_free_space(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20, gib = mib << 10;

    assert_int_equal(pp_local_min_free(gib, false, 1000 * gib), gib);
    assert_int_equal(pp_local_min_free(gib, false, 20 * gib), gib);
    assert_int_equal(pp_local_min_free(gib, false, 100 * mib), 5 * mib);
    assert_int_equal(pp_local_min_free(0, false, 100 * mib), 0);
    assert_false(pp_local_space_low(0, 0, true)); /* off */
    assert_true(pp_local_space_low(16 * mib - 1, 16 * mib, false));
    assert_false(pp_local_space_low(16 * mib, 16 * mib, false));
    assert_true(pp_local_space_low(17 * mib - 1, 16 * mib, true));
    assert_false(pp_local_space_low(17 * mib, 16 * mib, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probes_come_with_growing_pauses),
        cmocka_unit_test(work_that_waits_is_tried_first),
        cmocka_unit_test(a_probe_that_proves_nothing_is_repeated_less_often),
        cmocka_unit_test(a_failure_is_logged_once_and_then_each_minute),
        cmocka_unit_test(a_reserve_that_is_set_holds),
        cmocka_unit_test(a_small_disk_needs_less_free_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
