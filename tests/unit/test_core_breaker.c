/* Tests when a breaker opens, how it probes the host, when it closes, and what operators can
 * force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/breaker.h"

#define SLICE   ((int64_t)PP_HOST_SLICE_MS)
#define START   (1888888 * SLICE)
#define MINUTE  ((int64_t)60000)
#define BELIEVE (120 * MINUTE)

/* A host with its breaker, and the time. */
struct rig {
    struct pp_host_stats stats;
    struct pp_breaker b;
    int64_t now;
};

static bool step(struct rig *r)
{
    return pp_breaker_step(&r->b, &r->stats, BELIEVE, r->now);
}

/* Merges n outcomes of a class; does not step the breaker. */
static void merge(struct rig *r, enum pp_host_class c, int n)
{
    struct pp_host_batch batch = {0};
    for (int i = 0; i < n; i++)
        pp_host_batch_add(&batch, c, 50);
    pp_host_merge(&r->stats, &batch, r->now);
}

/* Merges one outcome. Returns true if the breaker changed. */
static bool one(struct rig *r, enum pp_host_class c)
{
    merge(r, c, 1);
    return step(r);
}

/* Gives the host a history of `slices` slices, each with 100 outcomes, of which so many are of this
 * class and the others OK; then a quiet minute and an empty window. */
static void learn(struct rig *r, int slices, enum pp_host_class c, int bad)
{
    *r = (struct rig){.now = START};
    for (int i = 0; i < slices; i++) {
        merge(r, c, bad);
        merge(r, PP_HOST_OK, 100 - bad);
        r->now += SLICE;
    }
    pp_host_advance(&r->stats, r->now);
    pp_host_restart(&r->stats);
    assert_false(step(r));
}

/* Merges outcomes of a class until the breaker opens. Returns how many that took; 0: more than
 * 2000. */
static int until_open(struct rig *r, enum pp_host_class c)
{
    for (int n = 1; n <= 2000; n++) {
        r->now += 500;
        if (one(r, c)) {
            assert_int_equal(r->b.state, PP_BREAKER_OPEN);
            return n;
        }
    }
    return 0;
}

static void probe_time(struct rig *r)
{
    r->now = r->b.next_probe_ms;
    assert_true(step(r));
    assert_int_equal(r->b.state, PP_BREAKER_HALF_OPEN);
}

static void a_new_host_opens_at_half_of_twenty(void **state)
{
    (void)state;
    struct rig r = {.now = START};
    merge(&r, PP_HOST_HTTP, 10);
    merge(&r, PP_HOST_OK, 9);
    assert_false(step(&r));
    assert_true(one(&r, PP_HOST_OK));
    assert_int_equal(r.b.state, PP_BREAKER_OPEN);
    assert_int_equal(r.b.reason, PP_BREAKER_ERRORS);
    assert_int_equal(r.b.since_ms, START);
    assert_int_equal(r.b.next_probe_ms, START + PP_BREAKER_PROBE_MS);
    assert_int_equal(pp_breaker_allowance(&r.b, &r.stats), 0);
    pp_host_stats_fini(&r.stats);

    r = (struct rig){.now = START};
    merge(&r, PP_HOST_HTTP, 49);
    merge(&r, PP_HOST_OK, 51);
    assert_false(step(&r));
    pp_host_stats_fini(&r.stats);
}

static void a_new_host_that_had_photos_opens_for_absent_ones(void **state)
{
    (void)state;
    struct rig r = {.now = START};
    merge(&r, PP_HOST_ABSENT, 1000); /* it never had a photo: the merchant's fault */
    assert_false(step(&r));
    pp_host_stats_fini(&r.stats);

    r = (struct rig){.now = START};
    merge(&r, PP_HOST_OK, 500);
    merge(&r, PP_HOST_ABSENT, 29);
    assert_false(step(&r));
    merge(&r, PP_HOST_ABSENT, 1);
    assert_true(step(&r));
    assert_int_equal(r.b.reason, PP_BREAKER_ABSENT);
    pp_host_stats_fini(&r.stats);
}

static void five_connection_failures_open(void **state)
{
    (void)state;
    struct rig r = {.now = START};
    assert_int_equal(until_open(&r, PP_HOST_CONNECT), 5);
    assert_int_equal(r.b.reason, PP_BREAKER_UNREACHABLE);
    pp_host_stats_fini(&r.stats);
    learn(&r, 5, PP_HOST_OK, 0);
    assert_int_equal(until_open(&r, PP_HOST_CONNECT), 5);
    pp_host_stats_fini(&r.stats);

    learn(&r, 30, PP_HOST_HTTP, 5);
    for (int i = 0; i < 4; i++)
        assert_false(one(&r, PP_HOST_CONNECT));
    assert_false(one(&r, PP_HOST_OK));
    assert_int_equal(until_open(&r, PP_HOST_CONNECT), 5);
    assert_int_equal(r.b.reason, PP_BREAKER_UNREACHABLE);
    pp_host_stats_fini(&r.stats);
}

/* With a usual share of failures, a total outage opens after a number of failures that chance does
 * not explain. */
static void usual_failures_do_not_open(void **state)
{
    (void)state;
    static const struct {
        int usual, least, most, connect_least, connect_most;
    } cases[] = {{0, 20, 20, 5, 5},    {10, 20, 20, 5, 12},  {30, 20, 22, 14, 22},
                 {50, 24, 40, 24, 40}, {60, 30, 42, 30, 42}, {80, 70, 110, 70, 110}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const enum pp_host_class failures[] = {PP_HOST_HTTP, PP_HOST_TIMEOUT, PP_HOST_LOST,
                                                      PP_HOST_TLS};
        struct rig r;
        learn(&r, 30, failures[i % 4], cases[i].usual);
        assert_in_range(until_open(&r, failures[(i + 1) % 4]), cases[i].least, cases[i].most);
        assert_int_equal(r.b.reason, PP_BREAKER_ERRORS);
        pp_host_stats_fini(&r.stats);
        learn(&r, 30, PP_HOST_CONNECT, cases[i].usual);
        assert_in_range(until_open(&r, PP_HOST_CONNECT), cases[i].connect_least, cases[i].connect_most);
        pp_host_stats_fini(&r.stats);

        learn(&r, 30, PP_HOST_HTTP, cases[i].usual);
        for (int n = 0; n < 2000; n++) { /* ten steady minutes */
            r.now += 300;
            assert_false(one(&r, n % 10 < cases[i].usual / 10 ? PP_HOST_HTTP : PP_HOST_OK));
        }
        pp_host_stats_fini(&r.stats);
    }
}

static void a_third_of_failures_opens_a_healthy_host(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 30, PP_HOST_HTTP, 2);
    merge(&r, PP_HOST_HTTP, 34);
    merge(&r, PP_HOST_OK, 66);
    assert_false(step(&r));
    merge(&r, PP_HOST_HTTP, 2);
    assert_true(step(&r)); /* 36 of 102 */
    assert_int_equal(r.b.reason, PP_BREAKER_ERRORS);
    pp_host_stats_fini(&r.stats);
}

/* Some hosts vary: 20 %, 50 % and 80 % of failures in turn. */
static void a_host_that_varies_stays_closed(void **state)
{
    (void)state;
    struct rig r = {.now = START};
    for (int i = 0; i < 90; i++) {
        merge(&r, PP_HOST_HTTP, 20 + i % 3 * 30);
        merge(&r, PP_HOST_OK, 80 - i % 3 * 30);
        assert_int_equal(r.b.state, PP_BREAKER_CLOSED);
        if (i > 5)
            assert_false(step(&r));
        r.now += SLICE;
    }
    pp_host_stats_fini(&r.stats);
}

static void absent_photos_open_if_they_are_unusual(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 30, PP_HOST_ABSENT, 40);
    assert_int_equal(until_open(&r, PP_HOST_ABSENT), 30);
    assert_int_equal(r.b.reason, PP_BREAKER_ABSENT);
    pp_host_stats_fini(&r.stats);

    learn(&r, 30, PP_HOST_ABSENT, 51);
    assert_int_equal(until_open(&r, PP_HOST_ABSENT), 0);
    pp_host_stats_fini(&r.stats);

    learn(&r, 30, PP_HOST_ABSENT, 10);
    merge(&r, PP_HOST_ABSENT, 94);
    merge(&r, PP_HOST_OK, 6);
    assert_false(step(&r));
    merge(&r, PP_HOST_ABSENT, 20);
    assert_true(step(&r));
    pp_host_stats_fini(&r.stats);
}

static void absent_photos_are_believed_in_the_end(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 30, PP_HOST_ABSENT, 10);
    assert_int_equal(until_open(&r, PP_HOST_ABSENT), 30);
    int64_t opened = r.now;
    while (r.now < opened + BELIEVE) {
        r.now = pp_breaker_next_ms(&r.b, BELIEVE);
        assert_true(step(&r));
        if (r.b.state == PP_BREAKER_HALF_OPEN)
            while (!one(&r, PP_HOST_ABSENT))
                continue;
    }
    assert_int_equal(r.now, opened + BELIEVE);
    assert_int_equal(r.b.state, PP_BREAKER_CLOSED);
    assert_int_equal(until_open(&r, PP_HOST_ABSENT), 0);
    for (int i = 0; i < 500; i++) { /* the photos are there again */
        r.now += 500;
        assert_false(one(&r, PP_HOST_OK));
    }
    assert_in_range(until_open(&r, PP_HOST_ABSENT), 30, 120);
    pp_host_stats_fini(&r.stats);
    assert_int_equal(pp_breaker_next_ms(&(struct pp_breaker){0}, BELIEVE), INT64_MAX);
}

static void probes_become_rarer(void **state)
{
    (void)state;
    static const int minutes[] = {5, 10, 20, 40, 80, 120, 120, 120};
    struct rig r;
    learn(&r, 10, PP_HOST_OK, 0);
    assert_int_equal(until_open(&r, PP_HOST_TIMEOUT), 20);
    for (size_t i = 0; i < sizeof minutes / sizeof *minutes; i++) {
        int64_t at = r.now + minutes[i] * MINUTE;
        assert_int_equal(pp_breaker_next_ms(&r.b, BELIEVE), at);
        r.now = at - 1;
        assert_false(step(&r));
        probe_time(&r);
        assert_int_equal(pp_breaker_allowance(&r.b, &r.stats), 1);
        assert_int_equal(pp_breaker_next_ms(&r.b, BELIEVE), INT64_MAX);
        assert_false(step(&r));
        assert_true(one(&r, PP_HOST_TIMEOUT));
        assert_int_equal(r.b.state, PP_BREAKER_OPEN);
        assert_int_equal(r.b.reason, PP_BREAKER_ERRORS);
    }
    probe_time(&r);
    for (int i = 0; i < 8; i++)
        assert_int_equal(one(&r, PP_HOST_OK), i == 7);
    until_open(&r, PP_HOST_TIMEOUT); /* begins with the shortest interval again */
    assert_int_equal(r.b.next_probe_ms, r.now + 5 * MINUTE);
    pp_host_stats_fini(&r.stats);
}

static void eight_successes_close(void **state)
{
    (void)state;
    static const uint32_t allowed[] = {1, 2, 2, 4, 4, 4, 4, 8};
    struct rig r;
    learn(&r, 10, PP_HOST_OK, 0);
    assert_int_equal(pp_breaker_allowance(&r.b, &r.stats), UINT32_MAX);
    until_open(&r, PP_HOST_CONNECT);
    probe_time(&r);
    for (int i = 0; i < 8; i++) { /* an absent photo is an answer, too */
        assert_int_equal(pp_breaker_allowance(&r.b, &r.stats), allowed[i]);
        assert_int_equal(one(&r, i % 2 ? PP_HOST_ABSENT : PP_HOST_OK), i == 7);
    }
    assert_int_equal(r.b.state, PP_BREAKER_CLOSED);
    assert_int_equal(r.b.reason, PP_BREAKER_NO_REASON);
    assert_int_equal(pp_breaker_allowance(&r.b, &r.stats), UINT32_MAX);
    assert_false(step(&r)); /* the outage is not in the new window */
    assert_int_equal(pp_host_window(&r.stats, r.now).answers, 0);
    pp_host_stats_fini(&r.stats);
}

static void half_open_fails_at_the_threshold(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 10, PP_HOST_OK, 0);
    until_open(&r, PP_HOST_HTTP);
    probe_time(&r);
    for (int i = 0; i < 4; i++)
        assert_false(one(&r, PP_HOST_OK));
    assert_false(one(&r, PP_HOST_HTTP));
    assert_false(one(&r, PP_HOST_HTTP)); /* 2 of 6 */
    assert_true(one(&r, PP_HOST_HTTP));  /* 3 of 7 */
    assert_int_equal(r.b.state, PP_BREAKER_OPEN);
    assert_int_equal(r.b.next_probe_ms, r.now + 10 * MINUTE);
    pp_host_stats_fini(&r.stats);
}

/* How many failed probes open the breaker again, by the usual share of failures. */
static void usual_failures_excuse_a_probe(void **state)
{
    (void)state;
    static const struct {
        int usual, probes;
    } cases[] = {{0, 1}, {4, 1}, {10, 2}, {20, 2}, {30, 3}, {80, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig r;
        learn(&r, 30, PP_HOST_HTTP, cases[i].usual);
        until_open(&r, PP_HOST_HTTP);
        probe_time(&r);
        for (int n = 1; n <= cases[i].probes; n++) {
            assert_int_equal(pp_breaker_allowance(&r.b, &r.stats), 1);
            assert_int_equal(one(&r, PP_HOST_HTTP), n == cases[i].probes);
        }
        pp_host_stats_fini(&r.stats);
    }
}

/* A host with 80 % of usual failures has them while it is half-open, too. */
static void usual_failures_do_not_keep_it_half_open(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 30, PP_HOST_HTTP, 80);
    until_open(&r, PP_HOST_HTTP);
    probe_time(&r);
    assert_false(one(&r, PP_HOST_HTTP));
    for (int i = 0; i < 39 && r.b.state == PP_BREAKER_HALF_OPEN; i++)
        assert_int_equal(one(&r, i % 5 ? PP_HOST_HTTP : PP_HOST_OK), i == 35);
    assert_int_equal(r.b.state, PP_BREAKER_CLOSED);
    pp_host_stats_fini(&r.stats);
}

static void operators_force_it_open(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 10, PP_HOST_OK, 0);
    assert_true(pp_breaker_force(&r.b, &r.stats, PP_BREAKER_FORCE_OPEN, 0, r.now));
    assert_false(pp_breaker_force(&r.b, &r.stats, PP_BREAKER_FORCE_OPEN, 0, r.now + 5));
    assert_int_equal(r.b.reason, PP_BREAKER_OPERATOR);
    assert_int_equal(pp_breaker_next_ms(&r.b, BELIEVE), INT64_MAX);
    r.now += 1000 * MINUTE;
    assert_false(one(&r, PP_HOST_OK));
    assert_int_equal(pp_breaker_allowance(&r.b, &r.stats), 0);
    assert_true(pp_breaker_force(&r.b, &r.stats, PP_BREAKER_FORCE_OPEN, 10 * MINUTE, r.now));
    assert_int_equal(pp_breaker_next_ms(&r.b, BELIEVE), r.now + 10 * MINUTE);
    assert_int_equal(r.b.next_probe_ms, r.now + 10 * MINUTE);
    r.now += 10 * MINUTE - 1;
    assert_false(step(&r));
    r.now++;
    assert_true(step(&r));
    assert_int_equal(r.b.state, PP_BREAKER_HALF_OPEN);
    assert_int_equal(r.b.forced, PP_BREAKER_AUTO);
    assert_true(one(&r, PP_HOST_TIMEOUT)); /* from now on it is the host's own fault */
    assert_int_equal(r.b.reason, PP_BREAKER_ERRORS);
    assert_int_equal(r.b.next_probe_ms, r.now + 5 * MINUTE);
    pp_host_stats_fini(&r.stats);
}

static void operators_force_it_closed(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 10, PP_HOST_OK, 0);
    until_open(&r, PP_HOST_CONNECT);
    assert_true(pp_breaker_force(&r.b, &r.stats, PP_BREAKER_FORCE_CLOSED, 5 * MINUTE, r.now));
    assert_int_equal(r.b.state, PP_BREAKER_CLOSED);
    for (int i = 0; i < 100; i++)
        assert_false(one(&r, PP_HOST_CONNECT));
    assert_int_equal(pp_breaker_allowance(&r.b, &r.stats), UINT32_MAX);
    r.now += 5 * MINUTE;
    assert_true(step(&r));
    assert_int_equal(r.b.state, PP_BREAKER_CLOSED);
    assert_int_equal(until_open(&r, PP_HOST_CONNECT), 5);
    pp_host_stats_fini(&r.stats);
}

static void auto_ends_a_force(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 10, PP_HOST_OK, 0);
    assert_false(pp_breaker_force(&r.b, &r.stats, PP_BREAKER_AUTO, 0, r.now));
    until_open(&r, PP_HOST_CONNECT);
    assert_true(pp_breaker_force(&r.b, &r.stats, PP_BREAKER_AUTO, 0, r.now));
    assert_int_equal(r.b.state, PP_BREAKER_HALF_OPEN); /* it probes at once */
    assert_true(pp_breaker_force(&r.b, &r.stats, PP_BREAKER_FORCE_OPEN, 0, r.now));
    assert_true(pp_breaker_force(&r.b, &r.stats, PP_BREAKER_AUTO, 0, r.now));
    assert_int_equal(r.b.state, PP_BREAKER_HALF_OPEN);
    for (int i = 0; i < 8; i++)
        assert_int_equal(one(&r, PP_HOST_OK), i == 7);
    assert_int_equal(r.b.state, PP_BREAKER_CLOSED);
    pp_host_stats_fini(&r.stats);
}

static void a_clock_that_steps_back_delays_no_probe(void **state)
{
    (void)state;
    struct rig r;
    learn(&r, 10, PP_HOST_OK, 0);
    until_open(&r, PP_HOST_CONNECT);
    r.now -= 10000 * MINUTE;
    assert_false(step(&r));
    assert_int_equal(pp_breaker_next_ms(&r.b, BELIEVE), r.now + 5 * MINUTE);
    probe_time(&r);
    pp_host_stats_fini(&r.stats);
}

static void names_are_those_of_the_api(void **state)
{
    (void)state;
    assert_string_equal(pp_breaker_state_name(PP_BREAKER_HALF_OPEN), "half_open");
    assert_null(pp_breaker_reason_name(PP_BREAKER_NO_REASON));
    assert_string_equal(pp_breaker_reason_name(PP_BREAKER_UNREACHABLE), "unreachable");
    assert_string_equal(pp_breaker_reason_name(PP_BREAKER_OPERATOR), "operator");
    assert_null(pp_breaker_forced_name(PP_BREAKER_AUTO));
    assert_string_equal(pp_breaker_forced_name(PP_BREAKER_FORCE_OPEN), "open");
    assert_string_equal(pp_breaker_forced_name(PP_BREAKER_FORCE_CLOSED), "closed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_host_opens_at_half_of_twenty),
        cmocka_unit_test(a_new_host_that_had_photos_opens_for_absent_ones),
        cmocka_unit_test(five_connection_failures_open),
        cmocka_unit_test(usual_failures_do_not_open),
        cmocka_unit_test(a_third_of_failures_opens_a_healthy_host),
        cmocka_unit_test(a_host_that_varies_stays_closed),
        cmocka_unit_test(absent_photos_open_if_they_are_unusual),
        cmocka_unit_test(absent_photos_are_believed_in_the_end),
        cmocka_unit_test(probes_become_rarer),
        cmocka_unit_test(eight_successes_close),
        cmocka_unit_test(half_open_fails_at_the_threshold),
        cmocka_unit_test(usual_failures_excuse_a_probe),
        cmocka_unit_test(usual_failures_do_not_keep_it_half_open),
        cmocka_unit_test(operators_force_it_open),
        cmocka_unit_test(operators_force_it_closed),
        cmocka_unit_test(auto_ends_a_force),
        cmocka_unit_test(a_clock_that_steps_back_delays_no_probe),
        cmocka_unit_test(names_are_those_of_the_api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
