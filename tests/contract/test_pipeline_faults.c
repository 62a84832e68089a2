/* test_pipeline_faults.c: the task store, the ingest queue and the coordinator answer with errors, late, or
 * have done what they say they have not: once that stops, everything ends; and a drain ends even if it does
 * not. */
#include "pipeline/s3_claim.h"
#include "runtime/loop.h"
#include "suite_pipeline_kit.h"

/* Work that uses every request: two clients, one with a rate; redirects, a failure that is tried again, a
 * slow host that is promoted, a probe that holds tasks back. */
static void post_work(struct world *w)
{
    const struct pp_client limited = {.id = "limited", .rpm_set = true, .rpm = 5000};
    world_put_client(w, &limited);
    world_post(w, "limited", "b_1", 20, 2, PP_REFRESH_KNOWN, "bytes=2000&hops=1");
    world_post(w, "other", "b_2", 4, 1, PP_REFRESH_KNOWN, "bytes=2000&flaky=1:500&x=2");
    world_post(w, "free", "b_3", 12, 2, PP_REFRESH_KNOWN, "bytes=2000&delay=1200");
}

static void expect_all(struct world *w)
{
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 40);
    assert_int_equal(world_finished(w, "b_2").photos[PP_OUTCOME_STORED], 4);
    assert_int_equal(world_finished(w, "b_3").photos[PP_OUTCOME_STORED], 24);
}

/* What was claimed or taken without our being told comes back by its lease, or when we are gone: slowly. */
static bool leaves_something(enum faulty_op op, enum faulty_where where)
{
    return where == FAULTY_AFTER && (op == FAULTY_CLAIM || op == FAULTY_TAKE);
}

static void every_request_fails_once_in_a_while(void **state, enum faulty_where where, enum pp_err err)
{
    struct world *w = *state;
    unsigned seed = 17 * (unsigned)where;

    w->params.lease_ms = 10000;
    world_open(w);
    for (int op = 0; op < FAULTY_OPS; op++) {
        seed = seed * 1103515245 + 12345;
        if (!leaves_something((enum faulty_op)op, where))
            faulty_fail(&w->faulty, (enum faulty_op)op, where, err, seed >> 16 & 1, 2);
    }
    post_work(w);
    expect_all(w);
    /* Else nothing was tested. */
    for (int op = FAULTY_LOOKUP; op <= FAULTY_SETTLE; op++)
        assert_true(leaves_something((enum faulty_op)op, where) || w->faulty.struck[op] > 0);
    assert_true(w->faulty.struck[FAULTY_RENEW] > 0 && w->faulty.struck[FAULTY_ACQUIRE] > 0);
    assert_true(w->faulty.struck[FAULTY_ACK] > 0);
    memset(w->faulty.rules, 0, sizeof(w->faulty.rules));
    world_close(w);
}

static void test_refused_at_submit(void **state)
{
    every_request_fails_once_in_a_while(state, FAULTY_AT_SUBMIT, PP_EFULL);
}

static void test_failed(void **state)
{
    every_request_fails_once_in_a_while(state, FAULTY_BEFORE, PP_EIO);
}

static void test_done_but_not_told(void **state)
{
    every_request_fails_once_in_a_while(state, FAULTY_AFTER, PP_EUNKNOWN);
}

static void test_lost_claim_comes_back(void **state)
{
    struct world *w = *state;

    w->params.lease_ms = 2000;
    world_open(w);
    faulty_fail(&w->faulty, FAULTY_CLAIM, FAULTY_AFTER, PP_EUNKNOWN, 0, 1);
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 4);
    assert_true(w->p.metrics.lapsed > 0);
}

static void test_slow_ports(void **state)
{
    struct world *w = *state;

    world_open(w);
    for (int op = 0; op < FAULTY_OPS; op++)
        w->faulty.rules[op].delay_ms = 30 + 7 * op;
    post_work(w);
    expect_all(w);
}

/* Settings that can't be read keep nobody else from his. */
static void test_damaged_settings(void **state)
{
    struct world *w = *state;

    world_open(w);
    faulty_fail(&w->faulty, FAULTY_CLIENTS, FAULTY_BEFORE, PP_ECORRUPT, 0, 3);
    post_work(w);
    expect_all(w);
    assert_int_equal(w->faulty.struck[FAULTY_CLIENTS], 3);
}

/* One outcome that the store never takes does not hold up the others. */
static void test_one_bad_outcome(void **state)
{
    struct world *w = *state;

    world_open(w);
    faulty_fail(&w->faulty, FAULTY_SETTLE, FAULTY_BEFORE, PP_ECORRUPT, 0, 4);
    world_post(w, "42", "b_1", 30, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 30);
}

/* Outcomes that say "later" were written and not told: written again they are stale, and their tasks are
 * found all the same. */
static void test_an_outcome_is_written_twice(void **state)
{
    struct world *w = *state;

    world_open(w);
    faulty_fail(&w->faulty, FAULTY_SETTLE, FAULTY_AFTER, PP_EUNKNOWN, 0, 1);
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "bytes=2000&flaky=1:500");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 2);
    assert_true(w->p.metrics.stale_settles > 0);
}

/* Items were planned and not told: planned again nothing is new, so that nobody says that there is something.
 */
static void test_a_plan_is_written_twice(void **state)
{
    struct world *w = *state;

    world_open(w);
    faulty_fail(&w->faulty, FAULTY_PLAN, FAULTY_AFTER, PP_EUNKNOWN, 0, 1);
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 2);
}

/* --- draining --- */

static bool has_transfers(void *data)
{
    struct world *w = data;
    return pp_s3_transfers(w->p.s3) > 0;
}

static bool has_struck(void *data)
{
    const unsigned *n = data;
    return *n > 0;
}

/* The store takes no outcomes any more: the process ends all the same, and the next one fetches them again.
 */
static void test_drain_without_a_store(void **state)
{
    struct world *w = *state;

    w->params.drain_ms = 500;
    world_open(w);
    faulty_fail(&w->faulty, FAULTY_SETTLE, FAULTY_BEFORE, PP_ENOSPC, 0, 1000000);
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, has_struck, &w->faulty.struck[FAULTY_SETTLE]);
    world_close(w);
    world_open(w);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 4);
}

/* Every request fails for ever from the moment of the drain on. */
static void drain_with(struct world *w, enum faulty_where where)
{
    w->params.drain_ms = 500;
    world_open(w);
    post_work(w);
    world_until(w, has_transfers, w);
    for (int op = 0; op < FAULTY_OPS; op++)
        faulty_fail(&w->faulty, (enum faulty_op)op, where, PP_EIO, 0, 1000000);
    world_close(w);
}

static void test_drain_with_all_refused(void **state)
{
    drain_with(*state, FAULTY_AT_SUBMIT);
}

static void test_drain_with_all_failing(void **state)
{
    drain_with(*state, FAULTY_BEFORE);
}

/* A batch that waits to be planned again, while a transfer takes its time to end. */
static void test_drain_with_a_paused_batch(void **state)
{
    struct world *w = *state;

    w->params.drain_ms = 5000;
    world_open(w);
    w->params.tiers[0].timeout_ms = 50000; /* nobody takes the transfer for lost */
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=800");
    world_until(w, has_transfers, w);
    faulty_fail(&w->faulty, FAULTY_LOOKUP, FAULTY_BEFORE, PP_EIO, 0, 1000000);
    world_post(w, "43", "b_2", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, has_struck, &w->faulty.struck[FAULTY_LOOKUP]);
    faulty_fail(&w->faulty, FAULTY_SETTLE, FAULTY_BEFORE, PP_EIO, 0, 2);
    world_close(w);
}

static void test_drain_at_once(void **state)
{
    struct world *w = *state;
    world_open(w);
    world_close(w);
    world_open(w);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_close(w);
    world_open(w);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 1);
}

static bool releases(void *data)
{
    return ((struct world *)data)->faulty.calls[FAULTY_RELEASE] > 0;
}

/* The last slots are on their way back when messages are heard of again that had been missed: what is asked
 * then keeps no drain from its end. */
static void test_drain_while_settings_are_read(void **state)
{
    struct world *w = *state;

    world_open(w);
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_1");
    w->faulty.rules[FAULTY_RELEASE].delay_ms = 100;
    w->faulty.rules[FAULTY_CLIENTS].delay_ms = 500;
    world_drain(w);
    world_until(w, releases, w);
    pp_s3_client_stale(w->p.s3, "");
    world_close(w);
}

/* Transfers parked at a redirect, without a permit for a minute: handed back, and uncounted. */
static void test_drain_with_parked_transfers(void **state)
{
    struct world *w = *state;

    w->params.client_rpm = 3;
    w->params.drain_ms = 30000;
    world_open(w);
    w->step_ms = 1; /* neither worker.drain passes, nor a minute for the next permit */
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "bytes=2000&hops=3");
    world_until_seen(w, "42", 3);
    assert_true(pp_s3_in_flight(w->p.s3) > 0);
    world_close(w);
    assert_int_equal(world_seen(w, "42").requests, 3);
}

/* --- slots, tiers --- */

static void test_slots_are_lost(void **state)
{
    struct world *w = *state;

    w->params.client_rpm = 5000;
    world_open(w);
    world_post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=100&hops=1");
    world_until(w, has_transfers, w);
    for (int i = 0; i < 8 && world_batch(w, "b_1").state != PP_BATCH_FINISHED; i++) {
        w->faulty.lose_slots = true;
        world_run(w, 400);
    }
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 60);
    assert_true(w->faulty.calls[FAULTY_ACQUIRE] > 1);
}

static bool has_none(void *data)
{
    return pp_s3_in_flight(((struct world *)data)->p.s3) == 0;
}

/* It goes to another worker, which is to fetch what waits here for a permit. */
static void test_a_slot_is_lost_for_long(void **state)
{
    struct world *w = *state;
    const struct pp_client unlimited = {.id = "42", .rpm_set = true};

    w->params.client_rpm = 3;
    w->params.lease_ms = 4000;
    world_open(w);
    w->step_ms = 5; /* no minute passes: there are no more permits */
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&hops=3");
    world_until_seen(w, "42", 3);
    w->faulty.refuse_slots = true;
    w->faulty.lose_slots = true;
    world_until(w, has_none, w);
    assert_int_equal(world_open_photos(w, 0), 1);
    w->faulty.refuse_slots = false;
    world_put_client(w, &unlimited);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 1);
}

static bool is_renewed(void *data)
{
    return ((struct world *)data)->faulty.calls[FAULTY_RENEW] > 0;
}

static bool is_forgotten(void *data)
{
    struct pp_s3_view view;
    return !pp_s3_view(((struct world *)data)->p.s3, "42", &view);
}

/* A renewal takes longer than the slot is held, and than a client without work is remembered: it stays until
 * the renewal has come back. */
static void test_a_renewal_takes_long(void **state)
{
    struct world *w = *state;
    struct pp_s3_view view;

    w->params.lease_ms = 4000;
    w->params.sole_worker = false;
    w->step_ms = 100;
    world_open(w);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_1");
    w->faulty.rules[FAULTY_RENEW].delay_ms = 25000;
    w->faulty.calls[FAULTY_RENEW] = 0;
    world_until(w, is_renewed, w);
    world_run(w, 20000);
    assert_true(pp_s3_view(w->p.s3, "42", &view));
    assert_false(view.held);
    world_until(w, is_forgotten, w);
}

/* A claim that takes longer than a slot is kept without work. */
static void test_a_claim_takes_long(void **state)
{
    struct world *w = *state;

    w->params.tiers[0].timeout_ms = 50000;
    w->step_ms = 100;
    world_open(w);
    w->faulty.rules[FAULTY_CLAIM].delay_ms = 12500;
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 3);
}

/* Tasks that wait in a tier that the list no longer has. */
static void test_the_list_of_tiers_gets_shorter(void **state)
{
    struct world *w = *state;

    w->params.tiers_served = 1;
    world_open(w);
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=1300");
    while (world_open_photos(w, 1) < 3)
        world_run(w, w->step_ms);
    world_close(w);
    w->params.n_tiers = 1;
    w->params.tiers[0].timeout_ms = 50000;
    world_open(w);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 3);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(test_refused_at_submit),
        T(test_failed),
        T(test_done_but_not_told),
        T(test_lost_claim_comes_back),
        T(test_slow_ports),
        T(test_damaged_settings),
        T(test_one_bad_outcome),
        T(test_an_outcome_is_written_twice),
        T(test_a_plan_is_written_twice),
        T(test_drain_without_a_store),
        T(test_drain_with_all_refused),
        T(test_drain_with_all_failing),
        T(test_drain_with_a_paused_batch),
        T(test_drain_at_once),
        T(test_drain_while_settings_are_read),
        T(test_drain_with_parked_transfers),
        T(test_slots_are_lost),
        T(test_a_slot_is_lost_for_long),
        T(test_a_renewal_takes_long),
        T(test_a_claim_takes_long),
        T(test_the_list_of_tiers_gets_shorter),
    };
#undef T
    return cmocka_run_group_tests_name("pipeline with faults", tests, NULL, NULL);
}
