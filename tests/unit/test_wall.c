/* Tests what a process makes of steps of its wall clock: the steady time runs on, steps are
 * noticed, and ages that decide on deletion never count from a date that is new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/wall.h"
#include "prng.h"

#define SECOND INT64_C(1000)
#define HOUR   (3600 * SECOND)
#define DAY    (24 * HOUR)
#define MONTH  (30 * DAY)
#define BEGAN  INT64_C(1800000000000)

/* A machine with its clocks, and the process on it. */
struct machine {
    struct pp_wall w;
    int64_t boot, date;
};

static struct machine machine_new(void)
{
    struct machine m = {.boot = HOUR, .date = BEGAN};
    pp_wall_init(&m.w, m.date - m.boot, m.boot, m.date);
    return m;
}

/* Lets `ms` pass; the process looks at its clocks every five seconds. */
static void pass(struct machine *m, int64_t ms)
{
    for (int64_t left = ms, some; left > 0; left -= some) {
        some = left < 5 * SECOND ? left : 5 * SECOND;
        m->boot += some;
        m->date += some;
        assert_int_equal(pp_wall_sample(&m->w, m->boot, m->date), 0);
    }
}

static int64_t step(struct machine *m, int64_t ms)
{
    m->date += ms;
    return pp_wall_sample(&m->w, m->boot, m->date);
}

static int64_t steady(const struct machine *m)
{
    return pp_wall_steady_ms(&m->w, m->boot);
}

static int64_t retention(const struct machine *m)
{
    return pp_wall_retention_ms(&m->w, m->boot);
}

static int64_t steady_retention(const struct machine *m)
{
    return pp_wall_steady_retention_ms(&m->w, m->boot);
}

/* Saves the struct and reads it again, as a restart does. */
static int64_t restart(struct machine *m, bool same_boot)
{
    char text[PP_WALL_TEXT_MAX], boot[PP_WALL_BOOT_MAX];
    struct pp_wall saved;
    size_t n = pp_wall_write(&m->w, "0123-abc", text);
    assert_int_equal(n, strlen(text));
    assert_true(pp_wall_read(&saved, boot, text));
    assert_string_equal(boot, "0123-abc");
    assert_memory_equal(&saved, &m->w, sizeof saved);
    return pp_wall_resume(&m->w, &saved, same_boot, m->boot, m->date);
}

static void a_step_moves_the_date_alone(void **state)
{
    (void)state;
    struct machine m = machine_new();
    pass(&m, HOUR);
    assert_int_equal(steady(&m), BEGAN + HOUR);
    assert_int_equal(retention(&m), m.date);
    assert_int_equal(step(&m, -HOUR), -HOUR);
    assert_int_equal(steady(&m), BEGAN + HOUR);
    assert_int_equal(step(&m, 3 * DAY), 3 * DAY);
    assert_int_equal(steady(&m), BEGAN + HOUR);
    assert_int_equal(step(&m, PP_WALL_STEP_MS - 1), 0);
    assert_int_equal(step(&m, PP_WALL_STEP_MS), PP_WALL_STEP_MS);
}

static void a_month_ahead_for_ten_minutes_deletes_nothing(void **state)
{
    (void)state;
    struct machine m = machine_new();
    pass(&m, DAY);
    int64_t right = m.date;
    step(&m, MONTH);
    assert_int_equal(retention(&m), right);
    pass(&m, 600 * SECOND);
    assert_int_equal(retention(&m), right + 600 * SECOND); /* deletes what was due anyway */
    step(&m, -MONTH);
    assert_int_equal(retention(&m), m.date);
}

static void a_date_that_stays_is_believed_after_two_days(void **state)
{
    (void)state;
    struct machine m = machine_new();
    pass(&m, 5 * HOUR);
    step(&m, MONTH);
    pass(&m, DAY);
    assert_true(retention(&m) == m.date - MONTH);
    pass(&m, DAY);
    assert_int_equal(retention(&m), m.date);
    step(&m, -MONTH); /* a step back at once */
    assert_int_equal(retention(&m), m.date);
    pass(&m, 5 * DAY);
    assert_int_equal(retention(&m), m.date);
}

/* A record that is written while the date is twelve hours back is a record of its steady time: when
 * a day has passed it is a day old, although the date has moved by a day and a half. */
static void steady_ages_know_no_steps(void **state)
{
    (void)state;
    struct machine m = machine_new();
    step(&m, -12 * HOUR);
    int64_t written = steady(&m);
    step(&m, 12 * HOUR);
    pass(&m, 3 * DAY);
    assert_int_equal(steady_retention(&m) - written, 3 * DAY);
    step(&m, MONTH);
    pass(&m, 3 * DAY);
    assert_int_equal(retention(&m) - written, 6 * DAY + MONTH);
    assert_int_equal(steady_retention(&m) - written, 6 * DAY);
    step(&m, -2 * MONTH);
    assert_true(steady_retention(&m) == retention(&m));
}

/* The machine sleeps for a month, and awakes with a date that is a year ahead. */
static void sleep_is_no_measured_time(void **state)
{
    (void)state;
    struct machine m = machine_new();
    m.boot += MONTH;
    m.date += MONTH + 12 * MONTH;
    assert_int_equal(pp_wall_sample(&m.w, m.boot, m.date), 12 * MONTH);
    assert_int_equal(steady(&m), BEGAN + MONTH);
    assert_int_equal(retention(&m), BEGAN + MONTH);
}

static void a_restart_in_the_same_boot_continues(void **state)
{
    (void)state;
    struct machine m = machine_new();
    pass(&m, HOUR);
    step(&m, MONTH);
    m.boot += 60 * SECOND; /* no process runs */
    m.date += 60 * SECOND - 2 * HOUR;
    assert_int_equal(restart(&m, true), -2 * HOUR);
    assert_int_equal(steady(&m), BEGAN + HOUR + 60 * SECOND);
    assert_int_equal(retention(&m), BEGAN + HOUR + 60 * SECOND);
    assert_int_equal(restart(&m, true), 0);
}

static void a_reboot_takes_the_date_but_does_not_delete_by_it(void **state)
{
    (void)state;
    struct machine m = machine_new();
    pass(&m, HOUR);
    int64_t last = steady(&m);
    m.boot = 10 * SECOND;
    m.date += MONTH; /* off for a month, or a wrong clock: nobody knows */
    assert_int_equal(restart(&m, false), MONTH);
    assert_int_equal(steady(&m), last + MONTH);
    assert_int_equal(retention(&m), last);
    pass(&m, 2 * DAY);
    assert_int_equal(retention(&m), m.date);
    /* The battery of the clock is empty: due times are not later by 50 years. */
    last = steady(&m);
    m.boot = 10 * SECOND;
    m.date = 0;
    assert_true(restart(&m, false) < -MONTH);
    assert_int_equal(steady(&m), last);
    assert_int_equal(retention(&m), 0);
    assert_true(step(&m, BEGAN + 2 * MONTH) > MONTH);
    assert_int_equal(steady(&m), last);
    /* A boot of the same name with an earlier time is another one. */
    m.boot = 0;
    assert_int_equal(restart(&m, true), 0);
    assert_int_equal(steady(&m), last);
}

/* A machine that is on for a few hours a day still deletes, at most some days late. */
static void daily_reboots_do_not_stop_deletion(void **state)
{
    (void)state;
    struct machine m = machine_new();
    for (int day = 0; day < 60; day++) {
        m.boot = 0;
        m.date += 16 * HOUR;
        restart(&m, false);
        pass(&m, 8 * HOUR);
        assert_true(m.date - retention(&m) <= 6 * DAY);
    }
    assert_true(m.date - retention(&m) > 0);
}

/* Random steps, restarts and reboots. Something due at a steady time is reached when exactly that
 * much time has passed; deletion never counts from a date that the last day did not have. */
static void random_steps(void **state)
{
    (void)state;
    enum { ROUNDS = 200, STEPS = 60, PAST = 64 };
    uint64_t rnd = 13;
    for (int round = 0; round < ROUNDS; round++) {
        struct machine m = machine_new();
        int64_t measured = 0, at[PAST] = {0}, offset[PAST] = {0}, born = m.date - m.boot;
        size_t n = 1;
        for (int i = 0; i < STEPS; i++) {
            int64_t ms = pp_test_between(&rnd, 0, 1) ? pp_test_between(&rnd, -40 * DAY, 40 * DAY)
                                                     : pp_test_between(&rnd, -100 * SECOND, 100 * SECOND);
            int64_t due = steady(&m) + 7 * SECOND, ran = pp_test_between(&rnd, 0, 6 * HOUR);
            int64_t noticed = step(&m, ms);
            assert_int_equal(noticed, ms >= PP_WALL_STEP_MS || ms <= -PP_WALL_STEP_MS ? ms : 0);
            at[n] = measured;
            offset[n++] = m.date - m.boot - born;
            pass(&m, 7 * SECOND);
            assert_int_equal(steady(&m), due);
            if (pp_test_between(&rnd, 0, 9) == 0)
                assert_int_equal(restart(&m, true), 0);
            pass(&m, ran);
            measured += 7 * SECOND + ran;
            assert_true(retention(&m) <= m.date);
            /* Each date that was shown within the last day bounds it. */
            for (size_t k = 0; k < n; k++)
                if (k + 1 == n || at[k + 1] > measured - DAY)
                    assert_true(retention(&m) <= m.boot + born + offset[k]);
        }
        pass(&m, 2 * DAY);
        assert_int_equal(retention(&m), m.date);
    }
}

static void only_its_own_text_is_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "\n",
                                        "boot",
                                        "b 1 2 3 4 5 6",
                                        "b 1 2 3 4 5 6 ,",
                                        "b 1 2 x 4 5 6 .",
                                        "b 0 2 3 4 5 6 .",
                                        "b 1 -2 3 4 5 6 .",
                                        "b 1 2 3 4 5 0 .",
                                        "b 1 2 3 4 5 86400001 .",
                                        "b 9223372036854775807 2 3 4 5 6 ."};
    struct pp_wall w;
    char boot[PP_WALL_BOOT_MAX];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(pp_wall_read(&w, boot, wrong[i]));
    assert_true(pp_wall_read(&w, boot, "b 1 2 3 4 5 6 .\n"));
    assert_int_equal(w.least_ms[1], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_moves_the_date_alone),
        cmocka_unit_test(a_month_ahead_for_ten_minutes_deletes_nothing),
        cmocka_unit_test(a_date_that_stays_is_believed_after_two_days),
        cmocka_unit_test(steady_ages_know_no_steps),
        cmocka_unit_test(sleep_is_no_measured_time),
        cmocka_unit_test(a_restart_in_the_same_boot_continues),
        cmocka_unit_test(a_reboot_takes_the_date_but_does_not_delete_by_it),
        cmocka_unit_test(daily_reboots_do_not_stop_deletion),
        cmocka_unit_test(random_steps),
        cmocka_unit_test(only_its_own_text_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
