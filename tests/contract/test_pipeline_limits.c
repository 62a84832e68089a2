/* test_pipeline_limits.c: the origin sees a client's rate and concurrency kept through redirects,
 * retries, restarts and failing writes (I4, I5), and when settings change at awkward moments. To
 * make waits short, a slot begins with requests that an earlier holder has sent. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/hosts/hosts.h"
#include "runtime/loop.h"
#include "suite_pipeline_kit.h"

/* The batching delay in ms that the test gives to the pipeline, as a fleet has it. See
 * params.gather_max_ms. */
enum { FAR_MS = 1000 };

/* Makes the slot's record say that an earlier holder sent n requests `ago_ms` ago. */
static void sent_before(struct world *w, struct pp_slot_mark *mark, uint32_t n, int64_t ago_ms)
{
    *mark = (struct pp_slot_mark){.at_ms = pp_loop_wall(w->loop) - ago_ms, .n = n};
    w->faulty.marks = mark;
    w->faulty.n_marks = 1;
}

static bool was_called(void *data)
{
    const unsigned *n = data;
    return *n > 0;
}

static bool has_transfers(void *data)
{
    struct world *w = data;
    return pp_claimer_transfers(w->p.claimer) > 0;
}

static bool has_none(void *data)
{
    struct world *w = data;
    return pp_claimer_in_flight(w->p.claimer) == 0;
}

static void set_rpm(struct world *w, const char *id, uint32_t rpm)
{
    const struct pp_client c = {.id = id, .rpm_set = true, .rpm = rpm};
    world_put_client(w, &c);
}

/* --- waiting for permits --- */

/* A transfer has used its permits and waits at a redirect. The next permit wakes it. */
static void a_parked_transfer_is_woken(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;

    w->params.client_rpm = 6;
    world_open(w);
    sent_before(w, &mark, 4, 58000);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&hops=3");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 1);
}

/* Returns a port that accepts no connection, because its backlog is full and the kernel drops
 * SYNs. */
static uint16_t deaf_port(int fds[4])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    socklen_t n = sizeof(a);

    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fds[0], (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(fds[0], 0), 0);
    assert_int_equal(getsockname(fds[0], (struct sockaddr *)&a, &n), 0);
    for (int i = 1; i < 4; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fds[i], (struct sockaddr *)&a, n);
    }
    return ntohs(a.sin_port);
}

/* A request that was never sent returns its permit. Another task uses the permit without waiting
 * for the window. */
static void permits_come_back(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;
    int fds[4];
    uint16_t deaf = deaf_port(fds);

    w->params.client_rpm = 6;
    w->params.retry.max_attempts = 1;
    w->params.n_tiers = 1;
    world_open(w);
    sent_before(w, &mark, 4, 1000);
    world_post_to(w, "127.0.0.2", deaf, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, "");
    world_until(w, was_called, &w->faulty.calls[FAULTY_STORE_claim]);
    world_post(w, "42", "b_2", 2, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_FAILED], 2);
    /* The steps are so small that the next permit would be free only after most of a minute. */
    w->step_ms = 1;
    world_until_seen(w, "42", 2);
    w->step_ms = 20;
    world_finished(w, "b_2");
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

static bool waits(void *data)
{
    struct world *w = data;
    return w->p.metrics.limit_waits > 0;
}

static void a_raised_rate_is_used_at_once(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;

    w->params.client_rpm = 4;
    w->step_ms = 1; /* The steps are so small that no minute passes. */
    world_open(w);
    sent_before(w, &mark, 4, 1000);
    world_post(w, "42", "b_1", 5, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, waits, w);
    set_rpm(w, "42", 1000);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 5);
}

/* Posts tasks, which the worker claims before their permits are free. */
static void claim_ahead(struct world *w, struct pp_slot_mark *mark)
{
    struct pp_claimer_view view;

    w->params.client_rpm = 6;
    w->step_ms = 1;
    world_open(w);
    sent_before(w, mark, 6, 58000); /* These permits become free 2.2 s from now. */
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, has_transfers, w);
    assert_true(pp_claimer_view(w->p.claimer, "42", &view));
    assert_true(view.in_flight > 0);
    assert_int_equal(view.permits, 0);
}

/* A task that was claimed before its permit is free must be sent only once the permit is free. */
static void claimed_ahead(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;

    claim_ahead(w, &mark);
    world_post(w, "42", "b_2", 4, 2, PP_REFRESH_KNOWN, "bytes=2000");
    world_until_seen(w, "42", 6);
    world_run(w, 1000);
    world_close(w);
    assert_int_equal(world_seen(w, "42").requests, 6);
}

/* A task is being claimed before its permit is free, when a redirect parks another transfer of the
 * client. The task waits for its permit all the same. */
static void claimed_ahead_of_a_parked_transfer(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;

    w->params.client_rpm = 6;
    w->step_ms = 1;
    world_open(w);
    sent_before(w, &mark, 5, 59000); /* One permit is free, and five become free 1.2 s from now. */
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&hops=1&delay=400");
    world_until(w, has_transfers, w);
    w->faulty.rules[FAULTY_STORE_claim].delay_ms = 200; /* The answer at the origin comes earlier. */
    world_post(w, "42", "b_2", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_run(w, 400);
    assert_true(w->p.metrics.claims > 1);
    world_close(w);
    assert_int_equal(world_seen(w, "42").requests, 1);
}

/* A drain hands back the tasks that wait for permits. The next process sends their requests, each
 * once. */
static void claimed_ahead_and_drained(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;

    claim_ahead(w, &mark);
    world_close(w);
    w->faulty.n_marks = 0;
    w->step_ms = 20;
    world_open(w);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 4);
    world_close(w);
    assert_int_equal(world_seen(w, "42").requests, 4);
}

/* --- what the origin sees --- */

/* Every redirect, retry and promotion counts as a request. The clock moves in small steps, so that
 * no window passes. */
static void every_request_is_charged(void **state)
{
    struct world *w = *state;

    w->params.client_rpm = 25;
    w->params.client_concurrency = 3;
    w->step_ms = 4;
    world_open(w);
    world_post(w, "42", "b_1", 10, 1, PP_REFRESH_KNOWN, "bytes=2000&hops=2&delay=30");
    world_post(w, "43", "b_2", 20, 1, PP_REFRESH_KNOWN, "bytes=2000&flaky=1:500&delay=30");
    world_post(w, "44", "b_3", 20, 1, PP_REFRESH_KNOWN, "delay=1200");
    world_until_seen(w, "42", 23);
    world_until_seen(w, "43", 23);
    world_until_seen(w, "44", 5);
    world_close(w);
    assert_in_range(world_seen(w, "42").requests, 23, 25);
    assert_in_range(world_seen(w, "43").requests, 23, 25);
    assert_in_range(world_seen(w, "44").requests, 5, 25);
    assert_true(world_seen(w, "42").at_once <= 3);
    assert_true(world_seen(w, "43").at_once <= 3);
    assert_true(world_seen(w, "44").at_once <= 3);
}

/* The origin reads a request on a kept connection and resets the connection. The request that is
 * then written again waits for a permit, too. */
static void a_request_written_again_is_charged(void **state)
{
    struct world *w = *state;

    w->params.client_rpm = 25;
    w->params.client_concurrency = 2;
    w->step_ms = 4;
    world_open(w);
    world_post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "bytes=2000&flaky=1:reset&delay=10");
    world_until_seen(w, "42", 25);
    world_run(w, 3000);
    world_close(w);
    assert_int_equal(world_seen(w, "42").requests, 25);
}

/* A process ends before the coordinator has recorded its last requests. The next holder of the slot
 * counts all requests that the record reserves as sent. */
static void rate_over_a_crash(void **state)
{
    struct world *w = *state;

    w->params.client_rpm = 24;
    /* A request whose end is not recorded may be in flight for at most this time. */
    w->params.tiers[1].timeout_ms = 3000;
    world_open(w);
    world_post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=200-400&hops=1");
    w->step_ms = 4;
    for (int i = 0; i < 12; i++) {
        world_run(w, 200);
        faulty_fail(&w->faulty, FAULTY_COORD_renew, i % 3 ? FAULTY_BEFORE : FAULTY_AFTER, PP_EIO, 0, 1);
    }
    world_until_seen(w, "42", 12);
    faulty_fail(&w->faulty, FAULTY_COORD_renew, FAULTY_BEFORE, PP_EIO, 0, 1000000);
    faulty_fail(&w->faulty, FAULTY_COORD_release, FAULTY_AT_SUBMIT, PP_EFULL, 0, 1000000);
    world_close(w);
    world_open(w);
    w->step_ms = 20;
    world_run(w, 3000);
    world_close(w);
    world_open(w); /* The counts must also hold over a restart in good order. */
    world_run(w, 1500);
    world_close(w);
    assert_in_range(world_seen(w, "42").requests, 12, 24);
}

static void a_lowered_concurrency_holds(void **state)
{
    struct world *w = *state;
    const struct pp_client one = {.id = "42", .concurrency = 1};

    w->params.client_concurrency = 8;
    world_open(w);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_1");
    world_put_client(w, &one);
    world_post(w, "42", "b_2", 15, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=50&second=1");
    assert_int_equal(world_finished(w, "b_2").photos[PP_OUTCOME_STORED], 15);
    world_close(w);
    assert_int_equal(world_seen(w, "42").at_once, 1);
}

/* Two transfers wait at a redirect for permits that become free together. The client's concurrency
 * has been lowered to 1 meanwhile, and the origin must not see two requests at the same time. */
static void a_lowered_concurrency_holds_at_redirects(void **state)
{
    struct world *w = *state;
    const struct pp_client one = {.id = "42", .concurrency = 1};
    struct pp_slot_mark mark;
    char to_there[200];

    w->params.client_rpm = 100;
    w->params.n_tiers = 1;
    w->params.tiers[0].timeout_ms = 60000;
    world_open(w);
    sent_before(w, &mark, 98, 57000);
    snprintf(to_there, sizeof(to_there),
             "location=http://127.0.0.1:%u/c/there/1.jpg%%3Fbytes=2000%%26delay=300", w->origin.port);
    world_post(w, "42", "b_1", 2, 1, PP_REFRESH_KNOWN, to_there);
    world_until_seen(w, "42", 2);
    world_put_client(w, &one);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 2);
    world_close(w);
    assert_int_equal(world_seen(w, "there").at_once, 1);
    assert_int_equal(world_seen(w, "there").requests, 2);
}

/* --- requests in flight in the slot's record, which the next holder reads after a crash --- */

enum { AHEAD_MS = 2000, AT_ONCE = 16, SPARE = 1 + AT_ONCE / 8 };

/* Makes requests stay in flight until the end of the test. */
#define ENDLESS "bytes=2000&delay=600000"

static void open_far(struct world *w)
{
    w->params.client_concurrency = AT_ONCE;
    w->params.tiers[0].timeout_ms = w->params.tiers[1].timeout_ms = 600000;
    world_open(w);
    w->faulty.ahead_ms = AHEAD_MS;
    /* Fetches photos from the host, so that its route is known. */
    world_post(w, "42", "b_0", 20, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_finished(w, "b_0");
}

struct flight_check {
    struct world *w;
    size_t n;
};

/* Returns true if n requests are in flight. Asserts that the slot's record never shows fewer. */
static bool are_in_flight(void *data)
{
    const struct flight_check *u = data;
    size_t n = pp_claimer_transfers(u->w->p.claimer);

    assert_in_range(n, 0, u->w->faulty.in_flight);
    return n == u->n;
}

static void until_in_flight(struct world *w, size_t n)
{
    struct flight_check u = {w, n};
    world_until(w, are_in_flight, &u);
}

static bool says_as_much(void *data)
{
    const struct flight_check *u = data;

    assert_true(are_in_flight(data));
    return u->w->faulty.in_flight <= u->n + SPARE;
}

/* Returns true if n requests are in flight. Asserts that the slot's record never shows more than
 * the claim finds, although the claim asks for more. */
static bool are_few(void *data)
{
    const struct flight_check *u = data;

    assert_in_range(u->w->faulty.in_flight, 0, u->n + SPARE);
    return are_in_flight(data);
}

/* Leaves three requests in flight. */
static void open_with_three(struct world *w)
{
    struct flight_check none = {w, 0}, three = {w, 3};

    open_far(w);
    world_until(w, says_as_much, &none);
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, ENDLESS "&first=1");
    world_until(w, are_few, &three);
}

/* The slot's record shows all requests in flight and few more. After a crash the next holder can
 * therefore use the rest of the client's concurrency. */
static void what_is_in_flight_is_written(void **state)
{
    struct world *w = *state;

    open_with_three(w);
    world_post(w, "42", "b_2", 30, 1, PP_REFRESH_KNOWN, ENDLESS "&second=1");
    until_in_flight(w, AT_ONCE);
    assert_int_equal(w->faulty.in_flight, AT_ONCE);
}

static bool renewals_failed(void *data)
{
    const struct world *w = data;
    are_in_flight(&(struct flight_check){.w = data});
    return w->faulty.struck[FAULTY_COORD_renew] >= 3;
}

/* The worker can't write the slot's record. It must start no request beyond those in the record.
 * The client has no rate limit. */
static void no_more_is_in_flight_than_is_written(void **state)
{
    struct world *w = *state;

    open_with_three(w);
    faulty_fail(&w->faulty, FAULTY_COORD_renew, FAULTY_BEFORE, PP_EIO, 0, 1000);
    world_post(w, "42", "b_2", 30, 1, PP_REFRESH_KNOWN, ENDLESS "&second=1");
    world_until(w, renewals_failed, w);
    faulty_fail(&w->faulty, FAULTY_COORD_renew, FAULTY_NOWHERE, PP_OK, 0, 0);
    until_in_flight(w, AT_ONCE);
}

static bool is_in_first_tier(void *data)
{
    const struct world *w = data;
    return w->p.metrics.in_flight[0] == 1;
}

static bool is_in_second_tier(void *data)
{
    const struct world *w = data;
    return w->p.metrics.in_flight[1] == 1;
}

/* Returns true after three failed renewals. Asserts that no transfer of the second tier is in
 * flight meanwhile. */
static bool renewals_failed_often(void *data)
{
    const struct world *w = data;
    assert_int_equal(w->p.metrics.in_flight[1], 0);
    return w->faulty.struck[FAULTY_COORD_renew] >= 3;
}

/* The slot's record shows how long transfers of the first tier may take. A transfer of the second
 * tier may take longer, so it starts only after a new record. The next such transfer needs no new
 * record. */
static void nothing_takes_longer_than_is_written(void **state)
{
    struct world *w = *state;

    w->params.client_concurrency = 16; /* The record has room for a few more transfers. */
    w->params.lease_ms = 600000;       /* No renewal is due by its time. */
    w->params.tiers[1].timeout_ms = 600000;
    world_open(w);
    w->faulty.ahead_ms = AHEAD_MS;
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, ENDLESS);
    world_until(w, is_in_first_tier, w);
    faulty_fail(&w->faulty, FAULTY_COORD_renew, FAULTY_BEFORE, PP_EIO, 0, 1000);
    world_until(w, renewals_failed_often, w);
    faulty_fail(&w->faulty, FAULTY_COORD_renew, FAULTY_NOWHERE, PP_OK, 0, 0);
    world_until(w, is_in_second_tier, w);
    unsigned renewals = w->faulty.calls[FAULTY_COORD_renew];
    world_post(w, "42", "b_2", 1, 1, PP_REFRESH_KNOWN, ENDLESS "&second=1");
    until_in_flight(w, 2);
    assert_int_equal(w->faulty.calls[FAULTY_COORD_renew], renewals);
}

/* --- settings that change --- */

static void expect_limits(struct world *w, uint32_t rpm, uint32_t concurrency)
{
    struct pp_claimer_view view;
    assert_true(pp_claimer_view(w->p.claimer, "42", &view));
    assert_int_equal(view.rpm, rpm);
    assert_int_equal(view.concurrency, concurrency);
}

/* A client's settings change after the store has read them, and the change is announced before the
 * store answers. The newer settings count. */
static void changed_while_they_are_read(void **state)
{
    struct world *w = *state;
    world_open(w);
    w->faulty.rules[FAULTY_STORE_clients].delay_ms = 200;
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, was_called, &w->faulty.calls[FAULTY_STORE_clients]);
    const struct pp_client c = {.id = "42", .rpm_set = true, .rpm = 77, .concurrency = 7};
    /* The settings change just after the store has read them. */
    pp_claimer_client_changed(w->p.claimer, &c);
    world_finished(w, "b_1");
    expect_limits(w, 77, 7);
}

/* A client's settings change while the worker requests the slot with the older ones. The newer
 * settings count. */
static void changed_while_the_slot_is_asked_for(void **state)
{
    struct world *w = *state;

    world_open(w);
    w->faulty.rules[FAULTY_COORD_acquire].delay_ms = 300;
    world_post(w, "42", "b_1", 10, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=50");
    world_until(w, was_called, &w->faulty.calls[FAULTY_COORD_acquire]);
    const struct pp_client c = {.id = "42", .concurrency = 1};
    world_put_client(w, &c);
    world_finished(w, "b_1");
    world_close(w);
    assert_int_equal(world_seen(w, "42").at_once, 1);
}

/* A transfer keeps the headers that it started with, even if the client's headers change while it
 * is in flight. */
static void headers_change_in_flight(void **state)
{
    struct world *w = *state;
    struct pp_client c = {.id = "42", .headers = "{\"X-One\": \"1\"}"};

    world_open(w);
    world_put_client(w, &c);
    w->faulty.rules[FAULTY_STORE_claim].delay_ms = 300;
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=300&hops=1");
    world_until(w, was_called, &w->faulty.calls[FAULTY_STORE_claim]);
    c.headers = "{\"X-Two\": \"2\"}";
    world_put_client(w, &c); /* The headers change while the claim is in flight. */
    world_until(w, has_transfers, w);
    c.headers = "{\"X-Three\": \"3\"}";
    world_put_client(w, &c); /* The headers change again while the transfers are in flight. */
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 4);
}

static void pause_and_resume(void **state)
{
    struct world *w = *state;
    struct pp_client c = {.id = "42", .paused = true};

    w->params.client_concurrency = 4;
    world_open(w);
    world_post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=500");
    world_until(w, has_transfers, w);
    world_put_client(w, &c);
    world_until(w, has_none, w); /* Waits until the requests in flight have ended. */
    uint64_t claims = w->p.metrics.claims;
    assert_in_range(claims, 1, 59);
    world_post(w, "42", "b_2", 3, 1, PP_REFRESH_ALWAYS, "bytes=2000&second=1");
    world_run(w, 4000);
    assert_int_equal(w->p.metrics.claims, claims);
    c.paused = false;
    c.concurrency = 64;
    world_put_client(w, &c);
    world_finished(w, "b_2");
    world_finished(w, "b_1");
}

static void paused_drains(void **state)
{
    struct world *w = *state;
    struct pp_client c = {.id = "42", .paused = true};

    world_open(w);
    world_put_client(w, &c);
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_run(w, 500);
    world_close(w);
}

/* Sets up a world with the batching delay of a fleet. Claims take long there, so the worker claims
 * tasks ahead of their permits. */
static int setup_far(void **state)
{
    int err = world_setup(state);
    if (err == 0)
        ((struct world *)*state)->params.gather_max_ms = FAR_MS;
    return err;
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(a_parked_transfer_is_woken),
        T(permits_come_back),
        T(a_raised_rate_is_used_at_once),
        T(every_request_is_charged),
        T(a_request_written_again_is_charged),
        T(rate_over_a_crash),
        T(a_lowered_concurrency_holds),
        T(a_lowered_concurrency_holds_at_redirects),
        T(what_is_in_flight_is_written),
        T(no_more_is_in_flight_than_is_written),
        T(nothing_takes_longer_than_is_written),
        T(changed_while_they_are_read),
        T(changed_while_the_slot_is_asked_for),
        T(headers_change_in_flight),
        T(pause_and_resume),
        T(paused_drains),
    };
#undef T
#define T(name) cmocka_unit_test_setup_teardown(name, setup_far, world_teardown)
    const struct CMUnitTest far[] = {
        T(a_parked_transfer_is_woken),
        T(permits_come_back),
        T(a_raised_rate_is_used_at_once),
        T(claimed_ahead),
        T(claimed_ahead_of_a_parked_transfer),
        T(claimed_ahead_and_drained),
        T(every_request_is_charged),
        T(a_request_written_again_is_charged),
        T(rate_over_a_crash),
        T(pause_and_resume),
        T(paused_drains),
    };
#undef T
    int failed = cmocka_run_group_tests_name("pipeline: limits", tests, NULL, NULL);
    return failed + cmocka_run_group_tests_name("pipeline: limits, claims are far", far, NULL, NULL);
}
