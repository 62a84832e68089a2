/* test_pipeline_hosts.c: photos of hosts that are down. Their breaker opens, their tasks wait in
 * the store without being claimed, and no outage is recorded as a photo's fault (I12). The origin's
 * requests show what was asked. */
#include "pipeline/hosts/hosts.h"
#include "suite_pipeline_kit.h"
#include "test_clock.h"

#define HOST   "127.0.0.1"
#define OTHER  "localhost"
#define MINUTE 60000

enum {
    FINISH_MAX_MS = 120000, /* a batch has finished after this time, in ms of real time */
    PHOTOS = 400,           /* of each batch */
    FAST_MS = 2000,         /* a step of the clock while nothing is in flight */
    REAL_MS = 5             /* a step while something may be: the clock goes as real time does */
};

static struct pp_breaker breaker_of(struct world *w, const char *host)
{
    struct pp_host_shown shown;
    return pp_hosts_view(w->p.hosts, host, &shown) ? shown.breaker : (struct pp_breaker){0};
}

static struct pp_breaker breaker(struct world *w)
{
    return breaker_of(w, HOST);
}

static bool is_open(void *data)
{
    return breaker(data).state == PP_BREAKER_OPEN;
}

static bool is_closed(void *data)
{
    return breaker(data).state == PP_BREAKER_CLOSED;
}

static bool is_idle(void *data)
{
    struct world *w = data;
    return pp_claimer_in_flight(w->p.claimer) == 0 && pp_hosts_busy(w->p.hosts) == 0;
}

/* Opens a world whose doubtful outcomes are kept for a while, with a host that has answered. */
static void open_world(struct world *w)
{
    w->params.hosts_doubt_ms = 3000;
    w->params.client_concurrency = 8;
    w->breakers = true;
    world_open(w);
    world_post(w, "42", "b_0", 40, 1, PP_REFRESH_KNOWN, "bytes=700");
    assert_int_equal(world_finished(w, "b_0").photos[PP_OUTCOME_STORED], 40);
}

/* Waits until the breaker is open and all that was claimed has come back. It opens by answers,
 * which take real time, before the first failure is believed. */
static void until_open(struct world *w)
{
    w->step_ms = REAL_MS;
    world_until(w, is_open, w);
    w->step_ms = 20;
    world_until(w, is_idle, w);
}

/* Lets the clock run fast while nothing is in flight. If it did so all the time, probes would time
 * out on a slow machine. */
static void choose_step(struct world *w)
{
    w->step_ms = is_idle(w) ? FAST_MS : REAL_MS;
}

static bool is_closed_at_last(void *data)
{
    choose_step(data);
    return is_closed(data);
}

/* Runs the clock fast until the breaker is closed. */
static void until_closed(struct world *w)
{
    world_until(w, is_closed_at_last, w);
    w->step_ms = 20;
}

/* Runs the clock fast until the batch has finished. */
static struct pp_batch finished_fast(struct world *w, const char *id)
{
    int64_t until = pp_test_clock_real_ms() + FINISH_MAX_MS;
    while (world_batch(w, id).state != PP_BATCH_FINISHED) {
        assert_true(pp_test_clock_real_ms() < until);
        choose_step(w);
        world_run(w, w->step_ms);
    }
    return world_batch(w, id);
}

static uint64_t failed(struct world *w, const char *batch)
{
    return world_batch(w, batch).photos[PP_OUTCOME_FAILED];
}

/* A host answers `behaviour` to everything for a while. Nothing is believed, and all photos are
 * stored afterwards. */
static void outage_of(struct world *w, const char *behaviour)
{
    char line[200];

    open_world(w);
    snprintf(line, sizeof(line), "%s %s\n", HOST, behaviour);
    world_hosts(w, line);
    world_post(w, "42", "b_1", PHOTOS, 1, PP_REFRESH_KNOWN, "bytes=700&x=1");
    world_post(w, "43", "b_2", PHOTOS, 1, PP_REFRESH_KNOWN, "bytes=700&x=1");
    until_open(w);
    assert_int_equal(breaker(w).reason, PP_BREAKER_ABSENT);
    world_run(w, 10000);
    assert_int_equal(failed(w, "b_1") + failed(w, "b_2"), 0);
    world_hosts(w, "");
    until_closed(w);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], PHOTOS);
    assert_int_equal(world_finished(w, "b_2").photos[PP_OUTCOME_STORED], PHOTOS);
}

static void an_outage_of_404_is_not_believed(void **state)
{
    outage_of(*state, "status=404");
}

static void an_outage_of_403_is_not_believed(void **state)
{
    outage_of(*state, "status=403");
}

static void an_outage_of_pages_is_not_believed(void **state)
{
    outage_of(*state, "body=html");
}

/* A host that is down for longer than hosts.wait: its photos fail with host_down, and hardly any
 * request is made. */
static void photos_of_a_dead_host_fail_with_host_down(void **state)
{
    struct world *w = *state;

    open_world(w);
    world_hosts(w, HOST " reset=1\n");
    world_post(w, "42", "b_1", PHOTOS, 1, PP_REFRESH_KNOWN, "bytes=700&x=1");
    until_open(w);
    uint64_t claims = w->p.metrics.claims;
    world_run(w, MINUTE);
    assert_int_equal(w->p.metrics.claims, claims); /* nothing is claimed for an open host */
    uint64_t before = failed(w, "b_1");            /* later, probes fail, too */
    struct pp_batch b = finished_fast(w, "b_1");
    assert_int_equal(b.photos[PP_OUTCOME_FAILED], PHOTOS);
    assert_true(w->p.metrics.failed[PP_CODE_HOST_DOWN][0] >= PHOTOS - before - 10);
    /* 40 good answers and as many failures open it, and some are in flight then, more of them on a
     * slow machine. Without a breaker, each photo is requested retry_attempts times. */
    assert_true(world_seen(w, "42").requests < 40 + PHOTOS);
}

/* Photos that are planned while the host is down are parked at once, and come back with it. */
static void new_photos_of_an_open_host_wait(void **state)
{
    struct world *w = *state;

    open_world(w);
    world_hosts(w, HOST " status=500\n");
    world_post(w, "42", "b_1", PHOTOS, 1, PP_REFRESH_KNOWN, "bytes=700&x=1");
    until_open(w);
    uint64_t claims = w->p.metrics.claims;
    world_post(w, "43", "b_2", PHOTOS, 1, PP_REFRESH_KNOWN, "bytes=700&x=1");
    world_run(w, MINUTE);
    assert_int_equal(w->p.metrics.claims, claims);
    world_hosts(w, "");
    until_closed(w);
    assert_int_equal(world_finished(w, "b_2").photos[PP_OUTCOME_STORED], PHOTOS);
}

/* An operator opens a breaker, and closes it. */
static void an_operator_decides(void **state)
{
    struct world *w = *state;

    open_world(w);
    assert_true(pp_hosts_order(w->p.hosts, HOST, PP_BREAKER_FORCE_OPEN, 0));
    world_post(w, "42", "b_1", 20, 1, PP_REFRESH_KNOWN, "bytes=700&x=1");
    uint64_t claims = w->p.metrics.claims;
    world_run(w, MINUTE);
    assert_int_equal(w->p.metrics.claims, claims);
    assert_int_equal(breaker(w).reason, PP_BREAKER_OPERATOR);
    assert_true(pp_hosts_order(w->p.hosts, HOST, PP_BREAKER_FORCE_CLOSED, 0));
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 20);
}

/* A process that ends while a host is down: the next one knows nothing of it, and fetches. */
static void a_restart_brings_parked_photos_back(void **state)
{
    struct world *w = *state;

    open_world(w);
    assert_true(pp_hosts_order(w->p.hosts, HOST, PP_BREAKER_FORCE_OPEN, 0));
    world_post(w, "42", "b_1", 20, 1, PP_REFRESH_KNOWN, "bytes=700&x=1");
    world_run(w, MINUTE);
    world_close(w);
    world_open(w);
    w->step_ms = 1; /* so small that no photo's wait ends */
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 20);
}

/* A host that asks for patience without Retry-After gets longer and longer pauses. */
static void a_host_that_limits_gets_pauses(void **state)
{
    struct world *w = *state;

    open_world(w);
    w->params.retry.max_attempts = 20;
    world_hosts(w, HOST " status=429\n");
    world_post(w, "42", "b_1", 8, 1, PP_REFRESH_KNOWN, "bytes=700&x=1");
    w->step_ms = 100;
    world_run(w, 2 * MINUTE);
    world_hosts(w, "");
    assert_int_equal(finished_fast(w, "b_1").photos[PP_OUTCOME_STORED], 8);
    /* Pauses of 1, 2, 4, ... 64 s: at most seven rounds of eight in two minutes. */
    assert_true(world_seen(w, "42").requests <= 40 + 8 + 7 * 8);
}

/* Posts photos of HOST, which redirects them to a photo of OTHER. */
static void post_redirected(struct world *w, const char *batch, unsigned n)
{
    char query[200];

    (void)snprintf(query, sizeof(query), "location=http://" OTHER ":%u/c/there/1.jpg", w->origin.port);
    world_post(w, "42", batch, n, 1, PP_REFRESH_KNOWN, query);
}

/* An open host that only redirects lead to is probed by them: it closes, and all photos come. */
static void redirects_probe_their_target(void **state)
{
    struct world *w = *state;

    open_world(w);
    assert_true(pp_hosts_order(w->p.hosts, OTHER, PP_BREAKER_FORCE_OPEN, 5 * MINUTE));
    post_redirected(w, "b_1", 12);
    w->step_ms = 100;
    world_run(w, MINUTE);
    assert_int_equal(world_batch(w, "b_1").photos[PP_OUTCOME_STORED], 0);
    assert_int_equal(finished_fast(w, "b_1").photos[PP_OUTCOME_STORED], 12);
    assert_int_equal(breaker_of(w, OTHER).state, PP_BREAKER_CLOSED);
    assert_int_equal(world_seen(w, "there").requests, 12);
}

static uint64_t answers(struct world *w, const char *host)
{
    struct pp_host_shown shown;
    return pp_hosts_view(w->p.hosts, host, &shown) ? shown.stats.requests : 0;
}

static bool knows_an_answer(void *data)
{
    return answers(data, HOST) > 0;
}

static bool knows_all_answers(void *data)
{
    return answers(data, HOST) >= 2 && answers(data, OTHER) >= 1;
}

/* HOST redirects to OTHER, which redirects back to a photo: each answer counts for its host. */
static void redirects_in_a_row_count(void **state)
{
    struct world *w = *state;
    char query[300];

    w->breakers = true;
    world_open(w);
    (void)snprintf(query, sizeof(query),
                   "location=http://" OTHER ":%u/c/x/1.jpg?location=http://" HOST ":%u/c/there/1.jpg",
                   w->origin.port, w->origin.port);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, query);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 1);
    world_until(w, knows_all_answers, w);
    assert_int_equal(answers(w, HOST), 2);
    assert_int_equal(answers(w, OTHER), 1);
}

/* A redirect counts when it is answered, not when its target has answered: the host's outage may
 * begin between both. */
static void a_redirect_counts_at_once(void **state)
{
    struct world *w = *state;

    w->breakers = true;
    world_open(w);
    w->step_ms = REAL_MS;
    world_hosts(w, OTHER " delay=100000\n");
    post_redirected(w, "b_1", 1);
    world_until(w, knows_an_answer, w);
    assert_int_equal(pp_claimer_in_flight(w->p.claimer), 1);
    world_hosts(w, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_outage_of_404_is_not_believed),
        TEST(an_outage_of_403_is_not_believed),
        TEST(an_outage_of_pages_is_not_believed),
        TEST(photos_of_a_dead_host_fail_with_host_down),
        TEST(new_photos_of_an_open_host_wait),
        TEST(an_operator_decides),
        TEST(a_restart_brings_parked_photos_back),
        TEST(a_host_that_limits_gets_pauses),
        TEST(redirects_in_a_row_count),
        TEST(redirects_probe_their_target),
        TEST(a_redirect_counts_at_once),
    };
    return cmocka_run_group_tests_name("pipeline_hosts", tests, NULL, NULL);
}
