/* test_pipeline_clock.c: the wall clock is set while the pipeline runs: retries and photos of slow
 * hosts start when they are due, and nothing is deleted that was not due for it. */
#include "runtime/loop.h"
#include "suite_pipeline_kit.h"
#include "test_clock.h"

#define HOUR  3600000
#define DAY   (24 * INT64_C(3600000))
#define MONTH (32 * DAY)

/* A host asks for patience of two seconds. The clock is set just then. */
static void step_while_a_host_is_slow(struct world *w, int64_t ms, const char *client, const char *id)
{
    char other[16], other_id[16];
    snprintf(other, sizeof other, "%s-2", client);
    snprintf(other_id, sizeof other_id, "%s-2", id);
    uint64_t steps = w->p.metrics.clock_steps;
    world_post(w, client, id, 1, 1, PP_REFRESH_KNOWN, "bytes=2000&flaky=1:503&retry_after=2");
    world_until_seen(w, client, 1);
    int64_t asked = pp_loop_now(w->loop);
    pp_test_clock_step(w->loop, ms);
    world_post(w, other, other_id, 2, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, id).photos[PP_OUTCOME_STORED], 1);
    assert_int_equal(world_finished(w, other_id).photos[PP_OUTCOME_STORED], 2);
    /* The wait, a delay, and what the origin needs in real time, of which the clock makes four
     * times as much. */
    int64_t took = pp_loop_now(w->loop) - asked;
    assert_in_range(took, 1000, 2000 + w->delays[0] + w->delays[1] + 4000);
    world_run(w, 1000);
    assert_int_equal(w->p.metrics.clock_steps, steps + 1);
}

static void nothing_waits_for_the_clock(void **state)
{
    struct world *w = *state;
    step_while_a_host_is_slow(w, -HOUR, "a", "b_1");
    step_while_a_host_is_slow(w, HOUR, "b", "b_2");
    step_while_a_host_is_slow(w, MONTH, "c", "b_3");
    step_while_a_host_is_slow(w, -MONTH, "d", "b_4");
}

/* created_at and finished_at are what the clock shows. */
static void dates_are_of_the_clock(void **state)
{
    struct world *w = *state;
    pp_test_clock_step(w->loop, MONTH);
    int64_t before = pp_loop_date(w->loop);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    struct pp_batch b = world_finished(w, "b_1");
    assert_in_range(b.created_at, before, pp_loop_date(w->loop));
    assert_in_range(b.finished_at, b.created_at, pp_loop_date(w->loop));
    pp_test_clock_step(w->loop, -MONTH);
}

static bool exists(struct world *w, const char *id)
{
    return world_batch(w, id).id != NULL;
}

static bool is_gone(void *data)
{
    return !exists(data, "b_1");
}

/* A clock that is a month ahead deletes nothing at once, but what is due goes meanwhile. */
static void a_month_ahead_deletes_nothing(void **state)
{
    struct world *w = *state;
    w->step_ms = 1000;
    if (w->mongo_url)
        skip(); /* the server's clock does not run with the clock of the test */
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_1");
    pp_test_clock_step(w->loop, MONTH);
    world_run(w, 11 * 60000); /* the job that deletes batches runs every ten minutes */
    assert_true(exists(w, "b_1"));
    pp_test_clock_step(w->loop, -MONTH);
    world_run(w, 11 * 60000);
    assert_true(exists(w, "b_1"));
    pp_test_clock_step(w->loop, MONTH);
    w->step_ms = 60000;
    world_until(w, is_gone, w); /* a day after it finished */
    pp_test_clock_step(w->loop, -MONTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_waits_for_the_clock, world_setup_open, world_teardown_open),
        cmocka_unit_test_setup_teardown(dates_are_of_the_clock, world_setup_open, world_teardown_open),
        cmocka_unit_test_setup_teardown(a_month_ahead_deletes_nothing, world_setup_open, world_teardown_open),
    };
    return cmocka_run_group_tests_name("pipeline_clock", tests, NULL, NULL);
}
