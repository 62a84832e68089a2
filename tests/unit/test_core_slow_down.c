/* Tests how long a host gets no requests after it has asked for patience. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/slow_down.h"
#include "photopool/shared_constants.h"
#include "prng.h"

#define START  1700000000000
#define MINUTE 60000

static void pauses_double_up_to_a_maximum(void **state)
{
    (void)state;
    struct pp_slow_down s = {0};
    int64_t now = START;

    assert_int_equal(pp_slow_down_until(&s, now), 0);
    for (int64_t pause = 1000; pause < 1000000; pause *= 2) {
        int64_t expected = pause < PP_SLOW_DOWN_MAX_MS ? pause : PP_SLOW_DOWN_MAX_MS;
        assert_int_equal(pp_slow_down_hit(&s, -1, now), now + expected);
        assert_int_equal(pp_slow_down_until(&s, now + expected - 1), now + expected);
        now += expected;
        assert_int_equal(pp_slow_down_until(&s, now), 0);
    }
}

static void answers_of_one_burst_count_once(void **state)
{
    (void)state;
    struct pp_slow_down s = {0};

    for (int i = 0; i < 1000; i++)
        assert_int_equal(pp_slow_down_hit(&s, -1, START + i), START + 1000);
    assert_int_equal(pp_slow_down_hit(&s, -1, START + 1000), START + 3000);
    assert_int_equal(pp_slow_down_hit(&s, -1, START + 2999), START + 3000);
    assert_int_equal(s.last_ms, START + 2999);
}

/* Returns the pause after four pauses (the last one is 8 s) and then `quiet` ms. */
static int64_t pause_after(int64_t quiet)
{
    struct pp_slow_down s = {0};
    int64_t now = START;
    for (int i = 0; i < 4; i++)
        now = pp_slow_down_hit(&s, -1, now);
    now += quiet;
    return pp_slow_down_hit(&s, -1, now) - now;
}

static void each_quiet_minute_halves_the_pause(void **state)
{
    (void)state;
    assert_int_equal(pause_after(0), 16000);
    assert_int_equal(pause_after(MINUTE - 1), 16000);
    assert_int_equal(pause_after(MINUTE), 8000);
    assert_int_equal(pause_after(2 * MINUTE), 4000);
    assert_int_equal(pause_after(3 * MINUTE), 2000);
    assert_int_equal(pause_after(4 * MINUTE), 1000);
    assert_int_equal(pause_after(1000 * MINUTE), 1000);
    assert_int_equal(pause_after(INT64_MAX / 4), 1000);
}

static void the_host_chooses_the_pause(void **state)
{
    (void)state;
    struct pp_slow_down s = {0};

    assert_int_equal(pp_slow_down_hit(&s, 30000, START), START + 30000);
    assert_int_equal(s.step_ms, 0);
    /* A later answer makes a pause longer, never shorter. */
    assert_int_equal(pp_slow_down_hit(&s, 1000, START + 100), START + 30000);
    assert_int_equal(pp_slow_down_hit(&s, -1, START + 200), START + 30000);
    assert_int_equal(pp_slow_down_hit(&s, 30000, START + 300), START + 30300);
    /* Without Retry-After the pauses begin with the shortest. */
    assert_int_equal(pp_slow_down_hit(&s, -1, START + 30300), START + 31300);
    /* Retry-After: 0, or a past date. */
    assert_int_equal(pp_slow_down_hit(&s, 0, START + 40000), START + 41000);
    assert_int_equal(pp_slow_down_hit(&s, INT64_MAX, START + 50000), START + 50000 + PP_RETRY_AFTER_MAX_MS);
}

static void a_clock_that_steps_back_makes_no_endless_pause(void **state)
{
    (void)state;
    struct pp_slow_down s = {0};

    pp_slow_down_hit(&s, -1, START);
    assert_int_equal(pp_slow_down_until(&s, START - PP_RETRY_AFTER_MAX_MS), 0);
    assert_int_equal(pp_slow_down_hit(&s, -1, START / 2), START / 2 + 1000);
}

static void pauses_keep_their_bounds(void **state)
{
    (void)state;
    uint64_t rnd = 7;
    for (int i = 0; i < 20000; i++) {
        struct pp_slow_down s = {0};
        int64_t now = START;
        for (int k = 0; k < 20; k++) {
            now += pp_test_between(&rnd, -5000, 400000);
            int64_t asked = pp_test_between(&rnd, 0, 1) ? -1 : pp_test_between(&rnd, 0, 5000000);
            int64_t until = pp_slow_down_hit(&s, asked, now);
            assert_true(until > now && until <= now + PP_RETRY_AFTER_MAX_MS);
            assert_true(asked <= 0 || until - now >= asked || until - now == PP_RETRY_AFTER_MAX_MS);
            assert_int_equal(pp_slow_down_until(&s, now), until);
            assert_true(s.step_ms <= PP_SLOW_DOWN_MAX_MS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_double_up_to_a_maximum),
        cmocka_unit_test(answers_of_one_burst_count_once),
        cmocka_unit_test(each_quiet_minute_halves_the_pause),
        cmocka_unit_test(the_host_chooses_the_pause),
        cmocka_unit_test(a_clock_that_steps_back_makes_no_endless_pause),
        cmocka_unit_test(pauses_keep_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
