/* test_pipeline_limits.c: a client's rate and concurrency as its origin sees them, through redirects, tries
 * again, restarts and failing writes (I4, I5), and settings that change at awkward moments. Windows are made
 * short by marks: slots come with the requests that an earlier holder is said to have sent. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/loop.h"
#include "suite_pipeline_kit.h"

/* params.gather_max_ms of a fleet. */
enum { FAR_MS = 1000 };

/* As if n requests had gone out `ago_ms` before. */
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
    return pp_s3_transfers(w->p.s3) > 0;
}

static bool has_none(void *data)
{
    struct world *w = data;
    return pp_s3_in_flight(w->p.s3) == 0;
}

static void set_rpm(struct world *w, const char *id, uint32_t rpm)
{
    const struct pp_client c = {.id = id, .rpm_set = true, .rpm = rpm};
    world_put_client(w, &c);
}

/* --- waiting for permits --- */

/* The only photo there is has used its permits, and waits at a redirect for the next: it is woken for it. */
static void test_a_parked_transfer_is_woken(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;

    w->params.client_rpm = 6;
    world_open(w);
    sent_before(w, &mark, 4, 58000);
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, "bytes=2000&hops=3");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 1);
}

/* A port that takes connections and answers to none: SYNs beyond the backlog are dropped. */
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

/* Permits of requests that never went out are used at once, not when the next one would have been free. */
static void test_permits_come_back(void **state)
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
    world_until(w, was_called, &w->faulty.calls[FAULTY_CLAIM]);
    world_post(w, "42", "b_2", 2, 1, PP_REFRESH_KNOWN, "bytes=2000");
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_FAILED], 2);
    w->step_ms = 1; /* the next one would be free after most of a minute */
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

static void test_a_raised_rate_is_used_at_once(void **state)
{
    struct world *w = *state;
    struct pp_slot_mark mark;

    w->params.client_rpm = 4;
    w->step_ms = 1; /* no minute passes */
    world_open(w);
    sent_before(w, &mark, 4, 1000);
    world_post(w, "42", "b_1", 5, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, waits, w);
    set_rpm(w, "42", 1000);
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 5);
}

/* Claimed while its permit is not free yet. */
static void claim_ahead(struct world *w, struct pp_slot_mark *mark)
{
    struct pp_s3_view view;

    w->params.client_rpm = 6;
    w->step_ms = 1;
    world_open(w);
    sent_before(w, mark, 6, 58000); /* free 2.2 s from now */
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, has_transfers, w);
    assert_true(pp_s3_view(w->p.s3, "42", &view));
    assert_true(view.in_flight > 0);
    assert_int_equal(view.permits, 0);
}

/* Sent when it is, and no more than there are. */
static void test_claimed_ahead(void **state)
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

/* A drain hands back what waits: its requests are made once, by whoever comes next. */
static void test_claimed_ahead_and_drained(void **state)
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

/* Redirects, tries again and promotions are all requests. The steps are so small that a window never passes.
 */
static void test_every_request_is_charged(void **state)
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

/* The end of a process that does not get to write anything: releases are refused, and of the renewals before
 * it those with marks failed. What it had reserved counts. */
static void test_rate_over_a_crash(void **state)
{
    struct world *w = *state;

    w->params.client_rpm = 24;
    w->params.tiers[1].timeout_ms = 3000; /* as long as what is lost may be under way */
    world_open(w);
    world_post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=200-400&hops=1");
    w->step_ms = 4;
    for (int i = 0; i < 12; i++) {
        world_run(w, 200);
        faulty_fail(&w->faulty, FAULTY_RENEW, i % 3 ? FAULTY_BEFORE : FAULTY_AFTER, PP_EIO, 0, 1);
    }
    world_until_seen(w, "42", 12);
    faulty_fail(&w->faulty, FAULTY_RENEW, FAULTY_BEFORE, PP_EIO, 0, 1000000);
    faulty_fail(&w->faulty, FAULTY_RELEASE, FAULTY_AT_SUBMIT, PP_EFULL, 0, 1000000);
    world_close(w);
    world_open(w);
    w->step_ms = 20;
    world_run(w, 3000);
    world_close(w);
    world_open(w); /* and over a restart in order */
    world_run(w, 1500);
    world_close(w);
    assert_in_range(world_seen(w, "42").requests, 12, 24);
}

static void test_a_lowered_concurrency_holds(void **state)
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

/* Two wait at a redirect, for permits that come free together. */
static void test_a_lowered_concurrency_holds_at_redirects(void **state)
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

/* --- what is written of what is under way, for whoever takes over after a crash --- */

enum { AHEAD_MS = 2000, AT_ONCE = 16, SPARE = 1 + AT_ONCE / 8 };

/* Under way until the end of the test. */
#define ENDLESS "bytes=2000&delay=600000"

static void open_far(struct world *w)
{
    w->params.client_concurrency = AT_ONCE;
    w->params.tiers[0].timeout_ms = w->params.tiers[1].timeout_ms = 600000;
    world_open(w);
    w->faulty.ahead_ms = AHEAD_MS;
    world_post(w, "42", "b_0", 20, 1, PP_REFRESH_KNOWN, "bytes=2000"); /* the host is known */
    world_finished(w, "b_0");
}

struct under_way {
    struct world *w;
    size_t n;
};

/* Whether so many are, and never more than is written. */
static bool are_under_way(void *data)
{
    const struct under_way *u = data;
    size_t n = pp_s3_transfers(u->w->p.s3);

    assert_in_range(n, 0, u->w->faulty.in_flight);
    return n == u->n;
}

static void until_under_way(struct world *w, size_t n)
{
    struct under_way u = {w, n};
    world_until(w, are_under_way, &u);
}

static bool says_as_much(void *data)
{
    const struct under_way *u = data;

    assert_true(are_under_way(data));
    return u->w->faulty.in_flight <= u->n + SPARE;
}

/* Three are under way, and few more are written: the claim asked for more than there were. */
static void open_with_three(struct world *w)
{
    struct under_way three = {w, 3};

    open_far(w);
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, ENDLESS "&first=1");
    until_under_way(w, 3);
    world_until(w, says_as_much, &three);
}

/* All of it, and few more: the rest of the client's concurrency is free after a crash. */
static void test_what_is_under_way_is_written(void **state)
{
    struct world *w = *state;

    open_with_three(w);
    world_post(w, "42", "b_2", 30, 1, PP_REFRESH_KNOWN, ENDLESS "&second=1");
    until_under_way(w, AT_ONCE);
    assert_int_equal(w->faulty.in_flight, AT_ONCE);
}

static bool renewals_failed(void *data)
{
    const struct world *w = data;
    are_under_way(&(struct under_way){.w = data});
    return w->faulty.struck[FAULTY_RENEW] >= 3;
}

/* While nothing can be written, nothing starts beyond what is. (The client has no rate.) */
static void test_no_more_is_under_way_than_is_written(void **state)
{
    struct world *w = *state;

    open_with_three(w);
    faulty_fail(&w->faulty, FAULTY_RENEW, FAULTY_BEFORE, PP_EIO, 0, 1000);
    world_post(w, "42", "b_2", 30, 1, PP_REFRESH_KNOWN, ENDLESS "&second=1");
    world_until(w, renewals_failed, w);
    faulty_fail(&w->faulty, FAULTY_RENEW, FAULTY_NOWHERE, PP_OK, 0, 0);
    until_under_way(w, AT_ONCE);
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

/* And nothing longer is under way meanwhile. */
static bool renewals_failed_often(void *data)
{
    const struct world *w = data;
    assert_int_equal(w->p.metrics.in_flight[1], 0);
    return w->faulty.struck[FAULTY_RENEW] >= 3;
}

/* What is written says until when transfers of the first tier may take: one of the second, which takes
 * longer, starts after it has been written anew, and another one without that. */
static void test_nothing_takes_longer_than_is_written(void **state)
{
    struct world *w = *state;

    w->params.client_concurrency = 2;
    w->params.lease_ms = 600000; /* no renewal but those that are needed */
    w->params.tiers[1].timeout_ms = 600000;
    world_open(w);
    w->faulty.ahead_ms = AHEAD_MS;
    world_post(w, "42", "b_1", 1, 1, PP_REFRESH_KNOWN, ENDLESS);
    world_until(w, is_in_first_tier, w);
    faulty_fail(&w->faulty, FAULTY_RENEW, FAULTY_BEFORE, PP_EIO, 0, 1000);
    world_until(w, renewals_failed_often, w);
    faulty_fail(&w->faulty, FAULTY_RENEW, FAULTY_NOWHERE, PP_OK, 0, 0);
    world_until(w, is_in_second_tier, w);
    unsigned renewals = w->faulty.calls[FAULTY_RENEW];
    world_post(w, "42", "b_2", 1, 1, PP_REFRESH_KNOWN, ENDLESS "&second=1");
    until_under_way(w, 2);
    assert_int_equal(w->faulty.calls[FAULTY_RENEW], renewals);
}

/* --- settings that change --- */

static void expect_limits(struct world *w, uint32_t rpm, uint32_t concurrency)
{
    struct pp_s3_view view;
    assert_true(pp_s3_view(w->p.s3, "42", &view));
    assert_int_equal(view.rpm, rpm);
    assert_int_equal(view.concurrency, concurrency);
}

/* Written after they were read, told before the reading was: the newer ones are in force. */
static void test_changed_while_they_are_read(void **state)
{
    struct world *w = *state;
    world_open(w);
    w->faulty.rules[FAULTY_CLIENTS].delay_ms = 200;
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_until(w, was_called, &w->faulty.calls[FAULTY_CLIENTS]);
    const struct pp_client c = {.id = "42", .rpm_set = true, .rpm = 77, .concurrency = 7};
    pp_s3_client_changed(w->p.s3, &c); /* as if it had been written just after */
    world_finished(w, "b_1");
    expect_limits(w, 77, 7);
}

/* Told while the slot is asked for with the older ones. */
static void test_changed_while_the_slot_is_asked_for(void **state)
{
    struct world *w = *state;

    world_open(w);
    w->faulty.rules[FAULTY_ACQUIRE].delay_ms = 300;
    world_post(w, "42", "b_1", 10, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=50");
    world_until(w, was_called, &w->faulty.calls[FAULTY_ACQUIRE]);
    const struct pp_client c = {.id = "42", .concurrency = 1};
    world_put_client(w, &c);
    world_finished(w, "b_1");
    world_close(w);
    assert_int_equal(world_seen(w, "42").at_once, 1);
}

/* Transfers keep the headers that they were started with, whatever becomes of the client's. */
static void test_headers_change_under_way(void **state)
{
    struct world *w = *state;
    struct pp_client c = {.id = "42", .headers = "{\"X-One\": \"1\"}"};

    world_open(w);
    world_put_client(w, &c);
    w->faulty.rules[FAULTY_CLAIM].delay_ms = 300;
    world_post(w, "42", "b_1", 4, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=300&hops=1");
    world_until(w, was_called, &w->faulty.calls[FAULTY_CLAIM]);
    c.headers = "{\"X-Two\": \"2\"}";
    world_put_client(w, &c); /* the claim is under way */
    world_until(w, has_transfers, w);
    c.headers = "{\"X-Three\": \"3\"}";
    world_put_client(w, &c); /* the transfers are */
    assert_int_equal(world_finished(w, "b_1").photos[PP_OUTCOME_STORED], 4);
}

static void test_pause_and_resume(void **state)
{
    struct world *w = *state;
    struct pp_client c = {.id = "42", .paused = true};

    w->params.client_concurrency = 4;
    world_open(w);
    world_post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "bytes=2000&delay=500");
    world_until(w, has_transfers, w);
    world_put_client(w, &c);
    world_until(w, has_none, w); /* what was in flight ends */
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

static void test_paused_drains(void **state)
{
    struct world *w = *state;
    struct pp_client c = {.id = "42", .paused = true};

    world_open(w);
    world_put_client(w, &c);
    world_post(w, "42", "b_1", 3, 1, PP_REFRESH_KNOWN, "bytes=2000");
    world_run(w, 500);
    world_close(w);
}

/* The same where a claim is far, and tasks are claimed ahead. */
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
        T(test_a_parked_transfer_is_woken),
        T(test_permits_come_back),
        T(test_a_raised_rate_is_used_at_once),
        T(test_every_request_is_charged),
        T(test_rate_over_a_crash),
        T(test_a_lowered_concurrency_holds),
        T(test_a_lowered_concurrency_holds_at_redirects),
        T(test_what_is_under_way_is_written),
        T(test_no_more_is_under_way_than_is_written),
        T(test_nothing_takes_longer_than_is_written),
        T(test_changed_while_they_are_read),
        T(test_changed_while_the_slot_is_asked_for),
        T(test_headers_change_under_way),
        T(test_pause_and_resume),
        T(test_paused_drains),
    };
#undef T
#define T(name) cmocka_unit_test_setup_teardown(name, setup_far, world_teardown)
    const struct CMUnitTest far[] = {
        T(test_a_parked_transfer_is_woken),
        T(test_permits_come_back),
        T(test_a_raised_rate_is_used_at_once),
        T(test_claimed_ahead),
        T(test_claimed_ahead_and_drained),
        T(test_every_request_is_charged),
        T(test_rate_over_a_crash),
        T(test_pause_and_resume),
        T(test_paused_drains),
    };
#undef T
    int failed = cmocka_run_group_tests_name("pipeline: limits", tests, NULL, NULL);
    return failed + cmocka_run_group_tests_name("pipeline: limits, claims are far", far, NULL, NULL);
}
