/* test_pipeline_faults.c: the task store, the ingest queue and the coordinator answer with errors
 * or late, or report that work failed which they have done. Once the faults stop, all work ends. A
 * drain ends even if the faults do not stop. */
#include "photopool/task_rules.h"
#include "pipeline/claim/claim.h"
#include "runtime/loop.h"
#include "suite_pipeline_kit.h"

/* Posts work that needs every kind of request: two clients, one of them with a rate limit;
 * redirects; a failure that is retried; a slow host whose task moves to the next tier; a probe that
 * holds tasks back. */
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

/* Returns true if this request marks work as taken and its answer is lost. The work comes back only
 * when its lease ends or its holder closes, which takes too long for the test. */
static bool leaves_something(enum faulty_op op, enum faulty_where where)
{
    return where == FAULTY_AFTER && (op == FAULTY_STORE_claim || op == FAULTY_INGEST_take);
}

static void every_request_fails_once_in_a_while(void **state, enum faulty_where where, enum pp_err err)
{
    struct world *w = *state;
    unsigned seed = 17 * (unsigned)where;

    w->params.lease_ms = 10000;
    w->params.client_rpm = 60000; /* With a rate each cycle renews the slot. */
    w->params.filter_bytes = 65536;
    world_open(w);
    for (int op = 0; op < FAULTY_OPS; op++) {
        seed = seed * 1103515245 + 12345;
        /* One request may ask for all slots, so the first one fails. */
        unsigned skip = op == FAULTY_COORD_acquire ? 0 : seed >> 16 & 1;
        if (!leaves_something((enum faulty_op)op, where))
            faulty_fail(&w->faulty, (enum faulty_op)op, where, err, skip, 2);
    }
    post_work(w);
    expect_all(w);
    /* The faults must have struck these requests; otherwise the test has tested nothing. */
    static const enum faulty_op all[] = {FAULTY_STORE_lookup, FAULTY_STORE_plan, FAULTY_STORE_claim,
                                         FAULTY_STORE_settle};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        assert_true(leaves_something(all[i], where) || w->faulty.struck[all[i]] > 0);
    assert_true(w->faulty.struck[FAULTY_COORD_renew] > 0 && w->faulty.struck[FAULTY_COORD_acquire] > 0);
    assert_true(w->faulty.struck[FAULTY_INGEST_ack] > 0 && w->faulty.struck[FAULTY_FILTER_ask] > 0);
    memset(w->faulty.rules, 0, sizeof(w->faulty.rules));
    world_close(w);
}

static void refused_at_submit(void **state)
{
    every_request_fails_once_in_a_while(state, FAULTY_AT_SUBMIT, PP_EFULL);
}

static void failed(void **state)
{
    every_request_fails_once_in_a_while(state, FAULTY_BEFORE, PP_EIO);
}

static void done_but_not_told(void **state)
{
    every_request_fails_once_in_a_while(state, FAULTY_AFTER, PP_EUNKNOWN);
}

static void lost_claim_comes_back(void **state)
{
    struct world *w = *state;

    w->params.lease_ms = 2000;
    world_open(w);
    faulty_fail(&w->faulty, FAULTY_STORE_claim, FAULTY_AFTER, PP_EUNKNOWN, 0, 1);
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 4);
    assert_true(w->p.metrics.lapsed > 0);
}

static void slow_ports(void **state)
{
    struct world *w = *state;

    world_open(w);
    for (int op = 0; op < FAULTY_OPS; op++)
        w->faulty.rules[op].delay_ms = 30 + 7 * (op % 17);
    post_work(w);
    expect_all(w);
}

/* The settings of one client can't be read. The other clients do not wait for them. */
static void damaged_settings(void **state)
{
    struct world *w = *state;

    world_open(w);
    faulty_fail(&w->faulty, FAULTY_STORE_clients, FAULTY_BEFORE, PP_ECORRUPT, 0, 3);
    post_work(w);
    expect_all(w);
    assert_int_equal(w->faulty.struck[FAULTY_STORE_clients], 3);
}

/* The store never accepts one of the outcomes. The other outcomes are settled without delay. */
static void one_bad_outcome(void **state)
{
    struct world *w = *state;

    world_open(w);
    faulty_fail(&w->faulty, FAULTY_STORE_settle, FAULTY_BEFORE, PP_ECORRUPT, 0, 4);
    world_post(w, "42", "b_1", 30, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 30);
}

/* The store writes retries, but its answer is lost. The settler writes them again, the store calls
 * them stale, and the tasks can still be claimed. */
static void an_outcome_is_written_twice(void **state)
{
    struct world *w = *state;

    world_open(w);
    faulty_fail(&w->faulty, FAULTY_STORE_settle, FAULTY_AFTER, PP_EUNKNOWN, 0, 1);
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "bytes=2000&flaky=1:500");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 2);
    assert_true(w->p.metrics.stale_settles > 0);
}

/* The store plans items, but its answer is lost. The planner plans them again, and then they are
 * not new, so no stage announces them. They must still be fetched. */
static void a_plan_is_written_twice(void **state)
{
    struct world *w = *state;

    world_open(w);
    faulty_fail(&w->faulty, FAULTY_STORE_plan, FAULTY_AFTER, PP_EUNKNOWN, 0, 1);
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 2);
}

/* --- draining --- */

static bool has_transfers(void *data)
{
    struct world *w = data;
    return pp_claimer_transfers(w->p.claimer) > 0;
}

static bool has_struck(void *data)
{
    const unsigned *n = data;
    return *n > 0;
}

/* During the drain the store accepts no outcomes. The process still ends, and the next one fetches
 * the photos again. */
static void drain_without_a_store(void **state)
{
    struct world *w = *state;

    w->params.drain_ms = 500;
    world_open(w);
    faulty_fail(&w->faulty, FAULTY_STORE_settle, FAULTY_BEFORE, PP_ENOSPC, 0, 1000000);
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, has_struck, &w->faulty.struck[FAULTY_STORE_settle]);
    world_close(w);
    world_open(w);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 4);
}

/* Drains the process while every request fails from then on. */
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

static void drain_with_all_refused(void **state)
{
    drain_with(*state, FAULTY_AT_SUBMIT);
}

static void drain_with_all_failing(void **state)
{
    drain_with(*state, FAULTY_BEFORE);
}

/* The process drains while one batch waits to be planned again and a transfer is in flight. */
static void drain_with_a_paused_batch(void **state)
{
    struct world *w = *state;

    w->params.drain_ms = 5000;
    world_open(w);
    /* The timeout is so long that no deadline ends the transfer. */
    w->params.tiers[0].timeout_ms = 50000;
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=800");
    world_until(w, has_transfers, w);
    faulty_fail(&w->faulty, FAULTY_STORE_lookup, FAULTY_BEFORE, PP_EIO, 0, 1000000);
    world_post(w, "43", "b_2", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, has_struck, &w->faulty.struck[FAULTY_STORE_lookup]);
    faulty_fail(&w->faulty, FAULTY_STORE_settle, FAULTY_BEFORE, PP_EIO, 0, 2);
    world_close(w);
}

static void drain_at_once(void **state)
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
    return ((struct world *)data)->faulty.calls[FAULTY_COORD_release] > 0;
}

/* During a drain the process has missed messages while it releases its last slots. The requests
 * that it then sends must not keep the drain from ending. */
static void drain_while_settings_are_read(void **state)
{
    struct world *w = *state;

    world_open(w);
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_1");
    w->faulty.rules[FAULTY_COORD_release].delay_ms = 100;
    w->faulty.rules[FAULTY_STORE_clients].delay_ms = 500;
    world_drain(w);
    world_until(w, releases, w);
    pp_claimer_client_stale(w->p.claimer, "");
    world_close(w);
}

/* Transfers wait at a redirect and get no permit for a minute. A drain hands their tasks back, and
 * does not count the requests that were not sent. */
static void drain_with_parked_transfers(void **state)
{
    struct world *w = *state;

    w->params.client_rpm = 3;
    w->params.drain_ms = 30000;
    world_open(w);
    w->step_ms = 1; /* The steps are so small that neither worker.drain nor a minute passes. */
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "bytes=2000&hops=3");
    world_until_seen(w, "42", 3);
    assert_true(pp_claimer_in_flight(w->p.claimer) > 0);
    world_close(w);
    assert_int_equal(world_seen(w, "42").requests, 3);
}

/* --- lost slots, late answers, removed tiers --- */

static void slots_are_lost(void **state)
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
    assert_true(w->faulty.calls[FAULTY_COORD_acquire] > 1);
}

static bool has_none(void *data)
{
    return pp_claimer_in_flight(((struct world *)data)->p.claimer) == 0;
}

/* The worker loses its slot while tasks wait for a permit. Another worker gets the slot and fetches
 * the tasks. */
static void a_slot_is_lost_for_long(void **state)
{
    struct world *w = *state;
    const struct pp_client unlimited = {.id = "42", .rpm_set = true};

    w->params.client_rpm = 3;
    w->params.lease_ms = 4000;
    world_open(w);
    w->step_ms = 5; /* The steps are so small that no minute passes, so no permit becomes free. */
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
    return ((struct world *)data)->faulty.calls[FAULTY_COORD_renew] > 0;
}

static bool is_forgotten(void *data)
{
    struct pp_claimer_view view;
    return !pp_claimer_view(((struct world *)data)->p.claimer, "42", &view);
}

/* A renewal takes longer than the slot is leased and than an idle client is remembered. The claimer
 * remembers the client until the renewal is answered. */
static void a_renewal_takes_long(void **state)
{
    struct world *w = *state;
    struct pp_claimer_view view;

    w->params.lease_ms = 4000;
    w->params.sole_worker = false;
    w->step_ms = 100;
    world_open(w);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_1");
    w->faulty.rules[FAULTY_COORD_renew].delay_ms = 25000;
    w->faulty.calls[FAULTY_COORD_renew] = 0;
    world_until(w, is_renewed, w);
    world_run(w, 20000);
    assert_true(pp_claimer_view(w->p.claimer, "42", &view));
    assert_false(view.held);
    world_until(w, is_forgotten, w);
}

/* A claim takes longer than the worker keeps a slot that has no work. The photos are still
 * stored. */
static void a_claim_takes_long(void **state)
{
    struct world *w = *state;

    w->params.tiers[0].timeout_ms = 50000;
    w->step_ms = 100;
    world_open(w);
    w->faulty.rules[FAULTY_STORE_claim].delay_ms = 12500;
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 3);
}

/* Tasks wait in a tier that the operator has removed from the list. The photos are still stored. */
static void the_list_of_tiers_gets_shorter(void **state)
{
    struct world *w = *state;

    w->params.tiers_served = 1;
    world_open(w);
    world_hosts(w, "127.0.0.1 delay=100000\n"); /* of real time: longer than the first tier allows */
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000");
    while (world_open_photos(w, 1) < 3)
        world_run(w, w->step_ms);
    world_hosts(w, "");
    world_close(w);
    w->params.n_tiers = 1;
    w->params.tiers[0].timeout_ms = 50000;
    world_open(w);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 3);
}

static void mark(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static bool is_marked(void *data)
{
    return *(bool *)data;
}

/* A worker claims a task of the first tier and crashes. Returns the number of tasks claimed. */
static size_t claim_and_crash(struct world *w, const char *client)
{
    bool done = false;
    struct pp_arena arena;
    struct pp_claim_want want = {.client = client, .queue = 0, .n = 1, .hash_hi = UINT32_MAX};
    struct pp_store_claim r = {.req = {.done = mark, .data = &done, .arena = &arena},
                               .worker = "another-worker",
                               .lease_ms = 1,
                               .wants = &want,
                               .n_wants = 1,
                               .now_ms = pp_loop_wall(w->loop),
                               .latest_ms = pp_loop_wall(w->loop)};

    pp_arena_init(&arena, 0);
    assert_int_equal(w->store->ops->claim(w->store, &r), PP_OK);
    world_until(w, is_marked, &done);
    assert_int_equal(r.req.err, PP_OK);
    size_t n = r.n;
    pp_arena_fini(&arena);
    return n;
}

/* A worker takes a suspect of a tier that it does not serve. The suspect's redirect gets a permit,
 * although the worker has no place in that tier. */
static void a_suspect_of_another_tier_is_redirected(void **state)
{
    struct world *w = *state;

    w->params.tiers_served = 1u << 1;
    world_open(w);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&hops=2");
    for (unsigned losses = 0; losses < PP_LOSSES_SUSPECT; losses += (unsigned)claim_and_crash(w, "42"))
        world_run(w, w->step_ms);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 1);
    assert_int_equal(w->p.metrics.lapsed, PP_LOSSES_SUSPECT);
}

/* --- the blob store fails --- */

/* Puts a file in place of the folder of all photos, or removes it again. */
static void break_photos(struct world *w, bool broken)
{
    char path[600], away[600];

    (void)snprintf(path, sizeof(path), "%s/photos/sha256", w->dir);
    (void)snprintf(away, sizeof(away), "%s/photos/away", w->dir);
    if (broken) {
        assert_int_equal(rename(path, away), 0);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        (void)fclose(f);
    } else {
        assert_int_equal(remove(path), 0);
        assert_int_equal(rename(away, path), 0);
    }
}

static bool gate_closed(void *data)
{
    return pp_gate_closed(((struct world *)data)->p.gate);
}

/* Claims stop until the store works again, and each photo is fetched once. */
static void a_failing_blob_store_costs_no_requests(void **state)
{
    struct world *w = *state;

    world_open(w);
    break_photos(w, true);
    world_post(w, "42", "b_1", 40, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, gate_closed, w);
    world_run(w, 5000);
    assert_true(gate_closed(w));
    break_photos(w, false);
    struct pp_batch b = world_finished(w, "b_1");
    assert_int_equal(b.photos[PP_OUTCOME_STORED], 40);
    assert_false(gate_closed(w));
    assert_int_equal(w->p.metrics.fetch_thrown_away, 0);
    assert_int_equal(world_seen(w, "42").requests, 40);
}

static bool holds_nothing(void *data)
{
    const struct world *w = data;
    return pp_claimer_slots(w->p.claimer) == 0 && pp_claimer_in_flight(w->p.claimer) == 0;
}

/* Another worker's store may work, so after a while the worker keeps neither slots nor tasks. */
static void a_worker_whose_blob_store_fails_hands_over(void **state)
{
    struct world *w = *state;

    w->params.sole_worker = false;
    w->step_ms = 100;
    world_open(w);
    break_photos(w, true);
    world_post(w, "42", "b_1", 5, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, gate_closed, w);
    assert_false(holds_nothing(w));
    world_until(w, holds_nothing, w);
    assert_true(gate_closed(w));
    assert_int_equal(pp_claimer_unsettled(w->p.claimer), 0);
    break_photos(w, false);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 5);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(refused_at_submit),
        T(failed),
        T(done_but_not_told),
        T(lost_claim_comes_back),
        T(slow_ports),
        T(damaged_settings),
        T(one_bad_outcome),
        T(an_outcome_is_written_twice),
        T(a_plan_is_written_twice),
        T(drain_without_a_store),
        T(drain_with_all_refused),
        T(drain_with_all_failing),
        T(drain_with_a_paused_batch),
        T(drain_at_once),
        T(drain_while_settings_are_read),
        T(drain_with_parked_transfers),
        T(slots_are_lost),
        T(a_slot_is_lost_for_long),
        T(a_renewal_takes_long),
        T(a_claim_takes_long),
        T(the_list_of_tiers_gets_shorter),
        T(a_suspect_of_another_tier_is_redirected),
        T(a_failing_blob_store_costs_no_requests),
        T(a_worker_whose_blob_store_fails_hands_over),
    };
#undef T
    return cmocka_run_group_tests_name("pipeline with faults", tests, NULL, NULL);
}
