/* Tests the time at which the sliding log counts a request: the usual delay of a client's answers
 * (the baseline), late arrivals, and corrections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/arrival.h"
#include "prng.h"

enum { BUCKET = PP_BASELINE_BUCKET_MS };

/* Adds n answers that come at the same moment. */
static void burst(struct pp_baseline *u, int64_t at_ms, int n, int64_t delay_ms)
{
    for (int i = 0; i < n; i++)
        pp_baseline_add(u, at_ms, delay_ms);
}

/* Adds three answers to each time bucket from number `from` to number `to` - 1. */
static void buckets(struct pp_baseline *u, int64_t from, int64_t to, int64_t delay_ms)
{
    for (int64_t s = from; s < to; s++)
        burst(u, s * BUCKET, 3, delay_ms);
}

static void few_buckets_give_no_baseline(void **state)
{
    (void)state;
    struct pp_baseline u = {0};
    assert_int_equal(pp_baseline_ms(&u, 0), 0);
    buckets(&u, 7, 7 + PP_BASELINE_MIN, 300);
    int64_t now = (7 + PP_BASELINE_MIN) * BUCKET;
    /* This bucket is not over, so its answers do not count yet. */
    pp_baseline_add(&u, now - 1, 300);
    assert_int_equal(pp_baseline_ms(&u, now), 0);
    pp_baseline_add(&u, now, 900);
    assert_int_equal(pp_baseline_ms(&u, now), 300);
}

static void a_burst_is_one_sample(void **state)
{
    (void)state;
    struct pp_baseline u = {0};
    burst(&u, 0, 1000, 300);
    burst(&u, BUCKET - 1, 1000, 300);
    burst(&u, BUCKET, 1, 300);
    assert_int_equal(u.buckets, 1);
    assert_int_equal(pp_baseline_ms(&u, BUCKET), 0);
}

/* A worker sends the 10 requests a minute of a client at the same moment, and in most minutes all
 * their answers are late. The baseline must stay at the delay of the one fast minute. */
static void late_bursts_do_not_raise_the_baseline(void **state)
{
    (void)state;
    struct pp_baseline u = {0};
    for (int64_t minute = 0; minute < 10; minute++)
        burst(&u, minute * 60200, 10, minute == 2 ? 40 : 250 + 10 * minute);
    assert_int_equal(pp_baseline_ms(&u, 10 * INT64_C(60200)), 40);
}

static void a_bucket_contributes_its_median(void **state)
{
    (void)state;
    static const struct {
        int quick, slow;
        int64_t is;
    } cases[] = {{1, 1, 60}, {1, 2, 330}, {2, 2, 60}, {7, 9, 330}, {8, 8, 60}, {16, 100, 60}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_baseline u = {0};
        buckets(&u, 0, PP_BASELINE_MIN, 1000);
        burst(&u, 100 * BUCKET, cases[i].quick, 60);
        burst(&u, 100 * BUCKET, cases[i].slow, 330);
        burst(&u, 101 * BUCKET, 1, 1000);
        assert_int_equal(pp_baseline_ms(&u, 101 * BUCKET), cases[i].is);
    }
}

static void old_buckets_are_forgotten(void **state)
{
    (void)state;
    struct pp_baseline u = {0};
    buckets(&u, 0, 1, 20);
    buckets(&u, 1, PP_BASELINE_KEPT + 1, 900);
    int64_t now = PP_BASELINE_KEPT * BUCKET;
    /* After KEPT buckets the first one no longer counts. */
    assert_int_equal(pp_baseline_ms(&u, now), 20);
    pp_baseline_add(&u, now + BUCKET, 900);
    assert_int_equal(pp_baseline_ms(&u, now + BUCKET), 900);
    now += BUCKET + PP_BASELINE_FORGET_MS;
    assert_int_equal(pp_baseline_ms(&u, now), 900);
    assert_int_equal(pp_baseline_ms(&u, now + 1), 0);
    pp_baseline_add(&u, now + 1, 900);
    assert_int_equal(pp_baseline_ms(&u, now + 1), 0);
}

static void delays_are_clamped(void **state)
{
    (void)state;
    static const struct {
        int64_t delay_ms, is;
    } cases[] = {{INT64_MIN, 0},
                 {-1, 0},
                 {0, 0},
                 {1, 1},
                 {PP_BASELINE_MAX_MS, PP_BASELINE_MAX_MS},
                 {INT64_MAX, PP_BASELINE_MAX_MS}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_baseline u = {0};
        buckets(&u, 0, PP_BASELINE_MIN + 1, cases[i].delay_ms);
        assert_int_equal(pp_baseline_ms(&u, PP_BASELINE_MIN * BUCKET), cases[i].is);
    }
}

/* A transfer reports its answer to the baseline when it ends. Reports arrive in any order, and the
 * clock of another thread may be behind; the baseline must still find the usual delay. */
static void accepts_answers_out_of_order(void **state)
{
    (void)state;
    struct pp_baseline u = {0};
    uint64_t rnd = 20261122;
    for (int64_t s = 0; s < 100; s++)
        for (int i = 0; i < 5; i++)
            pp_baseline_add(&u, s * BUCKET - pp_test_between(&rnd, 0, 20000), 300);
    assert_in_range(u.buckets, PP_BASELINE_MIN, PP_BASELINE_KEPT);
    assert_int_equal(pp_baseline_ms(&u, 100 * BUCKET), 300);
}

/* In one recent bucket no answer is late; in the others all may be. The baseline must lie between
 * the shortest and the longest delay of answers that are not late. */
static void the_baseline_is_the_usual_delay(void **state)
{
    (void)state;
    uint64_t rnd = 20261122;
    for (int round = 0; round < 500; round++) {
        struct pp_baseline u = {0};
        int64_t lo = pp_test_between(&rnd, 0, 1000), hi = pp_test_between(&rnd, lo, 1900);
        int64_t quiet = pp_test_between(&rnd, 100 - PP_BASELINE_KEPT, 98);
        for (int64_t s = 0; s < 100; s++) {
            int64_t late = s == quiet ? 0 : pp_test_between(&rnd, 0, 5000);
            for (int64_t n = pp_test_between(&rnd, 1, 30); n > 0; n--)
                pp_baseline_add(&u, s * BUCKET, late + pp_test_between(&rnd, lo, hi));
        }
        assert_in_range(pp_baseline_ms(&u, 100 * BUCKET), lo, hi);
    }
}

/* A server begins its answer later than usual. It may have read the request late, so the request
 * counts later, but by no more than the cap. */
static void an_arrival_is_late_within_a_cap(void **state)
{
    (void)state;
    static const int64_t usual[] = {0, 300, 29000};
    for (size_t i = 0; i < 3; i++) {
        int64_t ms = usual[i], in_time = 5000 + ms + PP_ARRIVAL_SLACK_MS,
                most = 5000 + PP_ARRIVAL_CAP_MS - PP_ARRIVAL_SLACK_MS;
        assert_int_equal(pp_arrival_ms(5000, 5000, ms), 5000);
        assert_int_equal(pp_arrival_ms(5000, in_time, ms), 5000);
        assert_int_equal(pp_arrival_ms(5000, in_time + 1, ms), 5001);
        assert_int_equal(pp_arrival_ms(5000, 5000 + ms + PP_ARRIVAL_CAP_MS, ms), most);
        assert_int_equal(pp_arrival_ms(5000, 95000, ms), most);
        assert_int_equal(pp_arrival_ms(5000, INT64_MAX, ms), most);
    }
}

/* Tests the record of one transfer's requests, from which the counting thread reads when each was
 * sent and answered. */
static void requests_are_heard_once(void **state)
{
    (void)state;
    struct pp_sends s;
    pp_sends_init(&s, 1, 0);
    assert_false(pp_sends_heard(&s, 0)); /* no request was sent */
    assert_false(pp_sends_overdue(&s, 100000));
    assert_false(pp_sends_wrote(&s, 1000));
    assert_int_equal(s.written, 1);
    assert_false(pp_sends_overdue(&s, 1000 + PP_ARRIVAL_CAP_MS - 1));
    assert_true(pp_sends_overdue(&s, 1000 + PP_ARRIVAL_CAP_MS));
    /* The connection died and the request was sent again: the server may have read the first
     * one. */
    assert_true(pp_sends_wrote(&s, 1500));
    assert_int_equal(s.heard, 1);
    assert_int_equal(s.at_ms, 1500 - PP_ARRIVAL_SLACK_MS);
    assert_int_equal(s.late_ms, 500 - PP_ARRIVAL_SLACK_MS);
    assert_true(pp_sends_heard(&s, 1550));
    pp_sends_answered(&s, 1550);
    assert_false(pp_sends_heard(&s, 1600));
    assert_int_equal(s.at_ms, 1500);
    assert_int_equal(s.answer_ms, 50);
    assert_false(pp_sends_wrote(&s, 2000));
    /* This request took longer than the one before, so its answer changes nothing. */
    pp_sends_answered(&s, 2300);
    assert_int_equal(s.answer_ms, 50);
    assert_int_equal(s.answered_ms, 1550);
}

/* While there was no baseline, the log counted a request 300 ms after it was sent. Once the
 * baseline is 200 ms, the log must move the request 200 ms back. It must not move a request whose
 * delay was capped, because the real delay is unknown. */
static void late_counts_are_corrected(void **state)
{
    (void)state;
    static const int64_t late[] = {300, PP_ARRIVAL_CAP_MS - PP_ARRIVAL_SLACK_MS, 0, 100};
    static const int64_t corrected[] = {200, 0, 0, 100};
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        struct pp_arrival a = {0};
        struct pp_ratelimit log;
        struct pp_sends s;
        int64_t now = PP_BASELINE_MIN * BUCKET;
        pp_ratelimit_init(&log, 1);
        pp_sends_init(&s, 1, 0);
        buckets(&a.baseline, 0, PP_BASELINE_MIN, 200);
        assert_true(pp_ratelimit_admit(&log, now, 1));
        pp_ratelimit_sent(&log, now, now);
        pp_arrival_counted(&a, &s, now, late[i]);
        /* No answer has come, so pp_arrival_learn() changes nothing. */
        pp_arrival_learn(&a, &s, &log, now);
        assert_int_equal(pp_ratelimit_next_ms(&log, now), now + PP_RATE_WINDOW_MS + PP_RATE_MARGIN_MS);
        s.answer_ms = 200;
        s.answered_ms = now;
        pp_arrival_learn(&a, &s, &log, now);
        assert_int_equal(pp_ratelimit_next_ms(&log, now),
                         now - corrected[i] + PP_RATE_WINDOW_MS + PP_RATE_MARGIN_MS);
        assert_null(a.late);
        pp_ratelimit_fini(&log);
        pp_arrival_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_buckets_give_no_baseline),
        cmocka_unit_test(a_burst_is_one_sample),
        cmocka_unit_test(late_bursts_do_not_raise_the_baseline),
        cmocka_unit_test(a_bucket_contributes_its_median),
        cmocka_unit_test(old_buckets_are_forgotten),
        cmocka_unit_test(delays_are_clamped),
        cmocka_unit_test(accepts_answers_out_of_order),
        cmocka_unit_test(the_baseline_is_the_usual_delay),
        cmocka_unit_test(an_arrival_is_late_within_a_cap),
        cmocka_unit_test(requests_are_heard_once),
        cmocka_unit_test(late_counts_are_corrected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
