/* Tests loops: the clock of a turn, timers that are never early, signals, closing, and the measured
 * lag. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "prng.h"
#include "runtime/loop.h"
#include "runtime/mailbox.h"
#include "test_clock.h"
#include "test_loop.h"

static int64_t clock_ms(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Keeps the processor busy for `ms`, like long work within a turn. */
static void work_for(int64_t ms)
{
    int64_t end = clock_ms(CLOCK_BOOTTIME) + ms;
    while (clock_ms(CLOCK_BOOTTIME) < end)
        ;
}

static bool is_true(void *arg)
{
    return *(bool *)arg;
}

/* --- the clock --- */

struct clock_case {
    struct pp_loop *loop;
    bool done;
};

static void check_clock(void *data)
{
    struct clock_case *c = data;
    int64_t now = pp_loop_now(c->loop), wall = pp_loop_wall(c->loop);
    assert_int_equal(now, clock_ms(CLOCK_BOOTTIME));
    assert_int_equal(wall, clock_ms(CLOCK_REALTIME));
    pp_test_clock_pass(NULL, 20);
    assert_int_equal(pp_loop_now(c->loop), now);
    assert_int_equal(pp_loop_wall(c->loop), wall);
    pp_loop_update(c->loop);
    assert_int_equal(pp_loop_now(c->loop), now + 20);
    assert_int_equal(pp_loop_wall(c->loop), wall + 20);
    c->done = true;
}

static void the_clock_is_read_once_a_turn(void **state)
{
    (void)state;
    struct clock_case c = {.loop = pp_loop_open()};
    assert_non_null(c.loop);
    struct pp_timer *t = pp_timer_open(c.loop, check_clock, &c);
    assert_non_null(t);
    pp_test_clock_hold(c.loop);
    pp_timer_start(t, 0, 0);
    pp_test_until(c.loop, is_true, &c.done, 5000);
    pp_test_clock_release(c.loop);
    /* Time passes between two turns of the loop. In the next turn, pp_loop_now() must include this
     * time. */
    int64_t before = pp_loop_now(c.loop);
    work_for(20);
    pp_loop_turn(c.loop, false);
    assert_true(pp_loop_now(c.loop) >= before + 20);
    pp_timer_close(t);
    pp_loop_close(c.loop);
}

/* --- timers --- */

struct timer_case {
    struct pp_loop *loop;
    struct pp_timer *timer;
    int64_t due;
    int fired, *left;
    bool early;
};

static void on_fire(void *data)
{
    struct timer_case *c = data;
    c->early |= pp_loop_now(c->loop) < c->due;
    c->fired++;
    if (c->left)
        --*c->left;
}

static bool none_left(void *arg)
{
    return *(int *)arg <= 0;
}

static bool fired_once(void *arg)
{
    return ((struct timer_case *)arg)->fired >= 1;
}

static bool fired_three(void *arg)
{
    return ((struct timer_case *)arg)->fired >= 3;
}

/* Starts timers at various moments of a turn. Each must fire exactly once, and never before
 * pp_loop_now() has reached its time. */
static void timers_are_never_early(void **state)
{
    (void)state;
    enum { N = 200 };
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    struct timer_case c[N];
    uint64_t rnd = 7;
    int left = N;
    for (int i = 0; i < N; i++) {
        int64_t ms = pp_test_between(&rnd, 0, 60);
        c[i] = (struct timer_case){.loop = loop, .left = &left};
        c[i].timer = pp_timer_open(loop, on_fire, &c[i]);
        assert_non_null(c[i].timer);
        if (i % 20 == 0)
            work_for(2);
        if (i % 50 == 0)
            pp_loop_update(loop);
        if (i % 30 == 0)
            pp_loop_turn(loop, false);
        c[i].due = pp_loop_now(loop) + ms;
        pp_timer_start(c[i].timer, ms, 0);
    }
    pp_test_until(loop, none_left, &left, 5000);
    for (int i = 0; i < N; i++) {
        assert_int_equal(c[i].fired, 1);
        assert_false(c[i].early);
        pp_timer_close(c[i].timer);
    }
    pp_loop_close(loop);
}

static void start_after_work(void *data, struct pp_list *mail)
{
    struct timer_case *c = data;
    (void)pp_list_pop(mail);
    /* libuv still has the time from before the work; pp_loop_now() reads the clock here for the
     * first time */
    work_for(20);
    c->due = pp_loop_now(c->loop) + 30;
    pp_timer_start(c->timer, 30, 0);
}

static void timers_are_not_early_after_long_work(void **state)
{
    (void)state;
    struct timer_case c = {.loop = pp_loop_open()};
    assert_non_null(c.loop);
    c.timer = pp_timer_open(c.loop, on_fire, &c);
    struct pp_mailbox *box = pp_mailbox_open(c.loop, start_after_work, &c);
    assert_true(c.timer && box);
    struct pp_mail mail;
    pp_mailbox_post(box, &mail);
    work_for(2); /* The clock moves, so that the next turn begins at a later time. */
    pp_test_until(c.loop, fired_once, &c, 5000);
    assert_false(c.early);
    pp_mailbox_close(box);
    pp_timer_close(c.timer);
    pp_loop_close(c.loop);
}

static void timers_start_stop_and_move_up(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    struct timer_case stopped = {.loop = loop}, replaced = {.loop = loop}, sooner = {.loop = loop},
                      mark = {.loop = loop};
    struct timer_case *all[] = {&stopped, &replaced, &sooner, &mark};
    for (size_t i = 0; i < 4; i++) {
        all[i]->timer = pp_timer_open(loop, on_fire, all[i]);
        assert_non_null(all[i]->timer);
    }
    pp_timer_start(stopped.timer, 1, 1);
    pp_timer_stop(stopped.timer);
    pp_timer_stop(stopped.timer);
    pp_timer_start(replaced.timer, 1, 1);
    pp_timer_start(replaced.timer, INT64_MAX, 0); /* so far in the future that it never fires */
    pp_timer_sooner(sooner.timer, 100000);        /* starts a stopped timer */
    pp_timer_sooner(sooner.timer, 5);
    pp_timer_sooner(sooner.timer, 200000); /* changes nothing: the timer is due earlier than this */
    pp_timer_start(mark.timer, 40, 0);
    pp_test_until(loop, fired_once, &mark, 5000);
    assert_int_equal(stopped.fired, 0);
    assert_int_equal(replaced.fired, 0);
    assert_int_equal(sooner.fired, 1);
    for (size_t i = 0; i < 4; i++)
        pp_timer_close(all[i]->timer);
    pp_timer_close(NULL);
    pp_loop_close(loop);
    assert_int_equal(stopped.fired, 0);
}

static void repeating_timers_skip_missed_periods(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    struct timer_case c = {.loop = loop}, far = {.loop = loop};
    c.timer = pp_timer_open(loop, on_fire, &c);
    far.timer = pp_timer_open(loop, on_fire, &far);
    assert_true(c.timer && far.timer);
    c.due = pp_loop_now(loop) + 5;
    pp_timer_start(c.timer, 5, 5);
    pp_test_until(loop, fired_three, &c, 5000);
    pp_timer_start(far.timer, 100000, 5); /* pp_timer_sooner() keeps the repetition */
    pp_timer_sooner(far.timer, 0);
    pp_test_until(loop, fired_three, &far, 5000);
    /* A repeating timer is late by many periods. Its callback must run once, not once per missed
     * period. */
    pp_timer_stop(far.timer);
    int before = c.fired;
    work_for(60);
    pp_loop_turn(loop, false);
    assert_in_range(c.fired - before, 1, 2);
    pp_timer_close(c.timer);
    pp_timer_close(far.timer);
    pp_loop_close(loop);
}

static void close_self(void *data)
{
    struct timer_case *c = data;
    c->fired++;
    pp_timer_close(c->timer);
}

static void close_within_callback(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    struct timer_case c = {.loop = loop};
    c.timer = pp_timer_open(loop, close_self, &c);
    assert_non_null(c.timer);
    pp_timer_start(c.timer, 0, 1);
    pp_test_until(loop, fired_once, &c, 5000);
    while (pp_loop_turn(loop, true))
        ; /* the loop ends because it has no open handle */
    assert_int_equal(c.fired, 1);
    pp_loop_close(loop);
}

/* --- run and stop --- */

static void stop_loop(void *data)
{
    pp_loop_stop(data);
}

static void run_and_stop(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    pp_loop_stop(loop);
    pp_loop_run(loop); /* returns immediately, because pp_loop_stop() was called before */
    struct pp_timer *t = pp_timer_open(loop, stop_loop, loop);
    assert_non_null(t);
    int64_t due = pp_loop_now(loop) + 10;
    pp_timer_start(t, 10, 0);
    pp_loop_run(loop);
    assert_true(pp_loop_now(loop) >= due);
    pp_timer_close(t);
    pp_loop_close(loop);
}

struct signal_case {
    int usr1, usr2;
};

static void on_signal(void *data, int signo)
{
    struct signal_case *c = data;
    c->usr1 += signo == SIGUSR1;
    c->usr2 += signo == SIGUSR2;
}

static bool got_both(void *arg)
{
    struct signal_case *c = arg;
    return c->usr1 == 1 && c->usr2 == 1;
}

static void signals_come_on_the_loop(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    struct signal_case c = {0};
    struct pp_signals *s = pp_signals_open(loop, (const int[]){SIGUSR1, SIGUSR2}, 2, on_signal, &c);
    assert_non_null(s);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    pp_test_until(loop, got_both, &c, 5000);
    pp_signals_close(s);
    pp_signals_close(NULL);
    assert_null(pp_signals_open(loop, (const int[]){SIGUSR1, 9999}, 2, on_signal, &c));
    pp_loop_close(loop);
}

static bool has_no_lag(void *loop)
{
    return pp_loop_lag(loop) == 0;
}

static void lag_is_the_longest_since_the_last_call(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    pp_test_until(loop, has_no_lag, loop, 5000);
    pp_test_clock_hold(loop);
    pp_test_until(loop, has_no_lag, loop, 5000);
    /* The timer that measures the lag was due within 100 ms, so it is late now. */
    pp_test_clock_pass(loop, 300);
    int64_t lag = pp_loop_lag(loop);
    assert_in_range(lag, 200, 300);
    pp_test_clock_pass(loop, 100);
    /* The timer that measures the lag is late, although it has not fired yet. */
    assert_int_equal(pp_loop_lag(loop), lag + 100);
    pp_loop_turn(loop, false);
    assert_int_equal(pp_loop_lag(loop), lag + 100);  /* the lag at the moment when the timer fired */
    assert_true(pp_loop_lags(loop)->counts[8] >= 1); /* more than 200 ms, and at most 500 */
    assert_true(pp_loop_lags(loop)->sum_ms >= (uint64_t)lag + 100);
    /* Each call returns the greatest lag since the call before. */
    assert_int_equal(pp_loop_lag(loop), 0);
    pp_test_clock_release(loop);
    pp_loop_close(loop);
}

/* Checks the promises of tests/support about the clocks. */
static void a_held_clock_moves_only_when_passed(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    struct timer_case c = {.loop = loop};
    c.timer = pp_timer_open(loop, on_fire, &c);
    assert_non_null(c.timer);
    pp_test_clock_hold(loop);
    int64_t now = pp_loop_now(loop), wall = pp_loop_wall(loop), real = pp_test_clock_real_ms();
    pp_timer_start(c.timer, 5, 0);
    while (pp_test_clock_real_ms() < real + 20)
        pp_loop_turn(loop, false);
    assert_int_equal(c.fired, 0);
    pp_test_clock_pass(loop, 1000);
    assert_int_equal(pp_loop_now(loop), now + 1000);
    assert_int_equal(pp_loop_wall(loop), wall + 1000);
    pp_loop_turn(loop, false);
    assert_int_equal(c.fired, 1);
    pp_test_clock_release(loop);
    assert_true(pp_loop_now(loop) >= now + 1000);
    pp_timer_start(c.timer, 3600 * 1000, 0);
    pp_test_clock_pass(loop, 3600 * 1000);
    pp_loop_turn(loop, false);
    assert_int_equal(c.fired, 2);
    pp_timer_close(c.timer);
    pp_loop_close(loop);
}

static void directories_and_ports_are_usable(void **state)
{
    (void)state;
    const char *a = pp_test_tmpdir(), *b = pp_test_tmpdir();
    assert_string_not_equal(a, b);
    assert_int_equal(access(a, W_OK | X_OK), 0);
    assert_int_not_equal(pp_test_port(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_is_read_once_a_turn),
        cmocka_unit_test(timers_are_never_early),
        cmocka_unit_test(timers_are_not_early_after_long_work),
        cmocka_unit_test(timers_start_stop_and_move_up),
        cmocka_unit_test(repeating_timers_skip_missed_periods),
        cmocka_unit_test(close_within_callback),
        cmocka_unit_test(run_and_stop),
        cmocka_unit_test(signals_come_on_the_loop),
        cmocka_unit_test(lag_is_the_longest_since_the_last_call),
        cmocka_unit_test(a_held_clock_moves_only_when_passed),
        cmocka_unit_test(directories_and_ports_are_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
