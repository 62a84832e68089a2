/* test_pipeline_settings.c: another process changes a client's settings in the store. The worker
 * starts nothing under settings that it knows to be stale, and reads settings again even if no
 * notice says that they have changed. test_pipeline_limits.c has changes through the worker's own
 * process. */
#include "pipeline/claim/timing.h"
#include "runtime/loop.h"
#include "suite_pipeline_kit.h"

/* The client's limit in the worker before another process changes it. */
enum { OLD_CONCURRENCY = 8 };

static const struct pp_client one_at_once = {.id = "42", .concurrency = 1};

static struct pp_claimer_view view_of(struct world *w)
{
    struct pp_claimer_view view;

    assert_true(pp_claimer_view(w->p.claimer, "42", &view));
    return view;
}

/* Opens the pipeline, whose worker then holds the client's slot and knows its settings. */
static void open_with_slot(struct world *w)
{
    w->params.client_concurrency = OLD_CONCURRENCY;
    world_open(w);
    world_post(w, "42", "b_0", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_0");
    assert_true(view_of(w).held);
}

static void fail_reads(struct world *w, unsigned times)
{
    w->faulty.struck[FAULTY_STORE_clients] = 0;
    faulty_fail(&w->faulty, FAULTY_STORE_clients, FAULTY_BEFORE, PP_EIO, 0, times);
}

static bool has_transfers(void *data)
{
    struct world *w = data;
    return pp_claimer_transfers(w->p.claimer) > 0;
}

static bool reads_failed(void *data)
{
    const struct world *w = data;
    return w->faulty.struck[FAULTY_STORE_clients] >= 3;
}

/* --- stale settings --- */

/* A lower limit is announced, but it can't be read. Nothing starts before it is read, and explain
 * says why. */
static void a_limit_that_cannot_be_read(void **state)
{
    struct world *w = *state;

    open_with_slot(w);
    uint64_t claims = w->p.metrics.claims;
    world_store_client(w, &one_at_once);
    fail_reads(w, 1000);
    pp_claimer_client_stale(w->p.claimer, "42");
    world_post(w, "42", "b_1", 15, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=50&second=1");
    world_until(w, reads_failed, w);
    assert_int_equal(w->p.metrics.claims, claims);
    assert_int_equal(view_of(w).reason, PP_CLAIM_SETTINGS_LOADING);
    fail_reads(w, 0);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 15);
    world_close(w);
    assert_int_equal(world_seen(w, "42").at_once, 1);
}

/* Other clients do not wait for settings that can't be read. */
static void other_clients_are_served(void **state)
{
    struct world *w = *state;

    open_with_slot(w);
    world_post(w, "43", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_1");
    fail_reads(w, 1000);
    pp_claimer_client_stale(w->p.claimer, "42");
    world_post(w, "42", "b_2", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&second=1");
    world_post(w, "43", "b_3", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&second=1");
    world_finished(w, "b_3");
    assert_int_equal(world_batch(w, "b_2").photos[PP_OUTCOME_OPEN], 1);
    fail_reads(w, 0);
    world_finished(w, "b_2");
}

static bool was_called(void *data)
{
    const unsigned *n = data;
    return *n > 0;
}

/* A change is announced while the settings are being read for the first time. That read may be
 * older than the change, so they are read once more before anything starts. */
static void announced_while_they_are_read(void **state)
{
    struct world *w = *state;

    world_open(w);
    w->faulty.rules[FAULTY_STORE_clients].delay_ms = 200;
    faulty_fail(&w->faulty, FAULTY_STORE_clients, FAULTY_BEFORE, PP_EIO, 1, 1000);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, was_called, &w->faulty.calls[FAULTY_STORE_clients]);
    pp_claimer_client_stale(w->p.claimer, "42");
    world_until(w, reads_failed, w);
    assert_int_equal(w->p.metrics.claims, 0);
    assert_int_equal(view_of(w).reason, PP_CLAIM_SETTINGS_LOADING);
    fail_reads(w, 0);
    world_finished(w, "b_1");
}

/* A lower limit is announced while two transfers wait at a redirect, and it can't be read. Their
 * permits become free meanwhile, and yet they wait for the limit. */
static void parked_transfers_wait_for_the_limit(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;
    char to_there[200];

    w->params.client_rpm = 100;
    w->params.n_tiers = 1;
    w->params.tiers[0].timeout_ms = 60000;
    world_open(w);
    mark = (struct pp_slot_mark){.at_ms = pp_loop_wall(w->loop) - 57000, .n = 98};
    w->faulty.marks = &mark;
    w->faulty.n_marks = 1;
    snprintf(to_there, sizeof(to_there),
             "location=http://127.0.0.1:%u/c/there/1.jpg%%3Fbytes=2000%%26delay=300", w->origin.port);
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, to_there);
    world_until_seen(w, "42", 2);
    world_store_client(w, &one_at_once);
    fail_reads(w, 1000);
    pp_claimer_client_stale(w->p.claimer, "42");
    world_run(w, 6000); /* The permits are free after 3 s. */
    assert_int_equal(world_batch(w, "b_1").photos[PP_OUTCOME_OPEN], 2);
    fail_reads(w, 0);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 2);
    world_close(w);
    assert_int_equal(world_seen(w, "there").at_once, 1);
    assert_int_equal(world_seen(w, "there").requests, 2);
}

/* --- changes that nobody announces --- */

/* Opens the pipeline of a fleet's worker, whose clients have photos in flight until the end of the
 * test. Then another process stores a lower limit, and dies before it announces it. */
static void open_untold(struct world *w)
{
    w->params.sole_worker = false;
    w->params.tiers[0].timeout_ms = w->params.tiers[1].timeout_ms = 600000;
    w->params.lease_ms = 600000;
    w->step_ms = 100;
    open_with_slot(w);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=600000");
    world_until(w, has_transfers, w);
    world_store_client(w, &one_at_once);
}

/* The worker reads the settings again after a while. It reads them for all clients in one request,
 * and not more often than it must. */
static void a_change_is_read_without_a_notice(void **state)
{
    struct world *w = *state;

    open_untold(w);
    w->p.roles &= ~(unsigned)PP_ROLE_CRON; /* its jobs read settings, too */
    world_post(w, "43", "b_2", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=600000");
    world_run(w, 10000);
    unsigned reads = w->faulty.calls[FAULTY_STORE_clients];
    assert_int_equal(view_of(w).concurrency, OLD_CONCURRENCY);
    world_run(w, CLAIM_REREAD_MS);
    assert_int_equal(view_of(w).concurrency, 1);
    assert_in_range(w->faulty.calls[FAULTY_STORE_clients], reads + 1, reads + 2);
}

/* The worker can't read the settings again. It serves the client until they are too old. */
static void old_settings_are_not_used(void **state)
{
    struct world *w = *state;

    open_untold(w);
    fail_reads(w, 1000000);
    world_run(w, CLAIM_REREAD_MS + 5000);
    world_post(w, "42", "b_2", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&second=1");
    world_finished(w, "b_2");
    world_run(w, CLAIM_SETTINGS_MS - CLAIM_REREAD_MS);
    uint64_t claims = w->p.metrics.claims;
    world_post(w, "42", "b_3", 3, 1, PP_REFRESH_KNOWN, "bytes=2000&third=1");
    world_run(w, 5000);
    assert_int_equal(view_of(w).reason, PP_CLAIM_SETTINGS_LOADING);
    assert_int_equal(w->p.metrics.claims, claims);
    fail_reads(w, 0);
    world_run(w, 5000);
    assert_int_equal(view_of(w).concurrency, 1);
    assert_int_equal(view_of(w).reason, PP_CLAIM_CONCURRENCY); /* The first photo is in flight. */
    assert_int_equal(w->p.metrics.claims, claims);
}

/* A client is paused. Another process resumes it, and dies before it announces that. */
static void resumed_without_a_notice(void **state)
{
    struct world *w = *state;
    struct pp_client c = {.id = "42", .paused = true};

    w->params.sole_worker = false;
    w->step_ms = 100;
    open_with_slot(w);
    world_put_client(w, &c);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&second=1");
    world_run(w, 5000);
    c.paused = false;
    world_store_client(w, &c);
    assert_int_equal(world_batch(w, "b_1").photos[PP_OUTCOME_OPEN], 1);
    world_run(w, CLAIM_REREAD_MS);
    world_finished(w, "b_1");
}

/* A worker that is alone gets every change from its own process, and does not read settings
 * again. */
static void alone(void **state)
{
    struct world *w = *state;

    w->params.tiers[0].timeout_ms = w->params.tiers[1].timeout_ms = 600000;
    w->step_ms = 100;
    open_with_slot(w);
    w->p.roles &= ~(unsigned)PP_ROLE_CRON; /* its jobs read settings, too */
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=600000");
    world_until(w, has_transfers, w);
    unsigned reads = w->faulty.calls[FAULTY_STORE_clients];
    world_run(w, CLAIM_SETTINGS_MS + 5000);
    world_post(w, "42", "b_2", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&second=1");
    world_finished(w, "b_2");
    assert_int_equal(w->faulty.calls[FAULTY_STORE_clients], reads);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(a_limit_that_cannot_be_read),       T(other_clients_are_served),
        T(announced_while_they_are_read),     T(parked_transfers_wait_for_the_limit),
        T(a_change_is_read_without_a_notice), T(old_settings_are_not_used),
        T(resumed_without_a_notice),          T(alone),
    };
#undef T
    return cmocka_run_group_tests_name("pipeline: settings", tests, NULL, NULL);
}
