/* Tests the sliding log against a model that keeps every request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ratelimit.h"
#include "prng.h"

#define KEPT (PP_RATE_WINDOW_MS + PP_RATE_MARGIN_MS)

static void permits_are_pending_logged_and_free_again(void **state)
{
    (void)state;
    struct pp_ratelimit rl;
    pp_ratelimit_init(&rl, 3);
    assert_int_equal(pp_ratelimit_permits(&rl, 1000), 3);
    assert_int_equal(pp_ratelimit_next_ms(&rl, 1000), 1000);
    assert_false(pp_ratelimit_admit(&rl, 1000, 4));
    assert_int_equal(rl.pending, 0);
    assert_true(pp_ratelimit_admit(&rl, 1000, 3));
    assert_int_equal(pp_ratelimit_permits(&rl, 1000), 0);
    assert_int_equal(pp_ratelimit_next_ms(&rl, 1000), INT64_MAX);
    /* A pending request counts until it ends, here for ten minutes. */
    assert_int_equal(pp_ratelimit_permits(&rl, 601000), 0);
    pp_ratelimit_sent(&rl, 601000, 601000);
    pp_ratelimit_sent(&rl, 601500, 601500);
    assert_int_equal(pp_ratelimit_next_ms(&rl, 601500), 601000 + KEPT);
    pp_ratelimit_refund(&rl, 1);
    assert_int_equal(pp_ratelimit_permits(&rl, 601500), 1);
    assert_int_equal(pp_ratelimit_permits_at(&rl, 601500, 601000 + KEPT - 1), 1);
    assert_int_equal(pp_ratelimit_permits_at(&rl, 601500, 601000 + KEPT), 2);
    assert_int_equal(pp_ratelimit_permits_at(&rl, 601500, 601500 + KEPT), 3);
    assert_int_equal(pp_ratelimit_permits(&rl, 601000 + KEPT - 1), 1);
    assert_int_equal(pp_ratelimit_permits(&rl, 601000 + KEPT), 2);
    assert_int_equal(pp_ratelimit_permits(&rl, 601500 + KEPT), 3);
    pp_ratelimit_fini(&rl);
}

static void time_does_not_go_back(void **state)
{
    (void)state;
    struct pp_ratelimit rl;
    pp_ratelimit_init(&rl, 1);
    assert_true(pp_ratelimit_admit(&rl, 50000, 1));
    pp_ratelimit_sent(&rl, 10, 50000);
    assert_int_equal(pp_ratelimit_permits(&rl, 50000 + KEPT - 1), 0);
    assert_int_equal(pp_ratelimit_permits(&rl, 50000 + KEPT), 1);
    pp_ratelimit_fini(&rl);
}

static void a_new_limit_knows_the_last_minute(void **state)
{
    (void)state;
    struct pp_ratelimit rl;
    pp_ratelimit_init(&rl, 0);
    assert_int_equal(pp_ratelimit_permits(&rl, 0), UINT32_MAX);
    assert_true(pp_ratelimit_admit(&rl, 0, 10));
    for (int i = 0; i < 10; i++)
        pp_ratelimit_sent(&rl, i * 100, i * 100);
    assert_int_equal(pp_ratelimit_next_ms(&rl, 900), 900);
    pp_ratelimit_set_rpm(&rl, 4); /* requests sent before there was a limit also count */
    assert_int_equal(pp_ratelimit_permits(&rl, 1000), 0);
    assert_int_equal(pp_ratelimit_next_ms(&rl, 1000), 600 + KEPT);
    assert_int_equal(pp_ratelimit_permits(&rl, 600 + KEPT), 1);
    pp_ratelimit_set_rpm(&rl, 20);
    assert_int_equal(pp_ratelimit_permits(&rl, 600 + KEPT), 17);
    pp_ratelimit_fini(&rl);
}

/* The log learns that a request was sent earlier than it had recorded. The permit of this request
 * must become free earlier, and the times of the others must not change. */
static void an_earlier_arrival_frees_its_permit_earlier(void **state)
{
    (void)state;
    struct pp_ratelimit rl;
    pp_ratelimit_init(&rl, 4);
    assert_true(pp_ratelimit_admit(&rl, 0, 4));
    pp_ratelimit_sent(&rl, 500, 500);
    pp_ratelimit_sent(&rl, 500, 500);
    pp_ratelimit_sent(&rl, 700, 700);
    pp_ratelimit_sent(&rl, 900, 900);
    /* This correction moves the request to a time before the two requests at 500. */
    pp_ratelimit_earlier(&rl, 700, 300);
    pp_ratelimit_earlier(&rl, 500, 0);
    pp_ratelimit_earlier(&rl, 600, 100); /* changes nothing: no request has this time */
    pp_ratelimit_earlier(&rl, 500, 150);
    static const int64_t due[] = {350, 400, 500, 900};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pp_ratelimit_permits(&rl, due[i] + KEPT - 1), i);
        assert_int_equal(pp_ratelimit_permits(&rl, due[i] + KEPT), i + 1);
    }
    pp_ratelimit_earlier(&rl, 900, 100); /* changes nothing: that request has expired */
    assert_int_equal(pp_ratelimit_permits(&rl, 900 + KEPT), 4);
    pp_ratelimit_fini(&rl);
}

static void marks_go_from_holder_to_holder(void **state)
{
    (void)state;
    struct pp_ratelimit a, b;
    pp_ratelimit_init(&a, 10);
    pp_ratelimit_init(&b, 10);
    assert_true(pp_ratelimit_admit(&a, 0, 6));
    for (int i = 0; i < 6; i++)
        pp_ratelimit_sent(&a, i * 1000, i * 1000);
    struct pp_rate_mark marks[6];
    assert_int_equal(pp_ratelimit_export(&a, 5000, marks, 6), 6);
    assert_int_equal(marks[2].at_ms, 2000);
    /* The array is too small for one mark (a number of requests and their time) per request. So the
     * log joins two requests into one mark at the later time. */
    assert_int_equal(pp_ratelimit_export(&a, 5000, marks, 4), 3);
    assert_int_equal(marks[0].at_ms, 1000);
    assert_int_equal(marks[0].n, 2);
    pp_ratelimit_import(&b, 5000, marks, 3);
    assert_int_equal(pp_ratelimit_permits(&b, 5000), 4);
    assert_int_equal(pp_ratelimit_next_ms(&b, 5000), 5000);
    /* The next holder counts the permits of a crashed holder as spent now. Marks that are expired,
     * unsorted, in the far future or empty do no harm. */
    struct pp_rate_mark odd[] = {{5000, 2},      {-90000, 7}, {4000, 1},
                                 {INT64_MAX, 1}, {5000, 0},   {INT64_MIN, 3}};
    pp_ratelimit_import(&b, 5000, odd, 6);
    assert_int_equal(pp_ratelimit_permits(&b, 5000), 0);
    assert_int_equal(pp_ratelimit_permits(&b, 1000 + KEPT), 2);
    assert_int_equal(pp_ratelimit_permits(&b, 4999 + KEPT), 5);
    assert_int_equal(pp_ratelimit_permits(&b, 5000 + KEPT), 9);
    assert_int_equal(pp_ratelimit_permits(&b, 5000 + PP_RATE_AHEAD_MS + KEPT), 10);
    pp_ratelimit_fini(&a);
    pp_ratelimit_fini(&b);
}

static void permits_ahead_wait_for_their_moment(void **state)
{
    (void)state;
    struct pp_ratelimit rl;
    pp_ratelimit_init(&rl, 3);
    assert_true(pp_ratelimit_admit(&rl, 0, 3));
    pp_ratelimit_sent(&rl, 0, 0);
    pp_ratelimit_sent(&rl, 400, 400);
    assert_int_equal(pp_ratelimit_ready_ms(&rl, 400, 0), 400);
    int64_t now = KEPT - 100;
    assert_false(pp_ratelimit_admit(&rl, now, 1));
    assert_false(pp_ratelimit_admit_at(&rl, now, KEPT - 1, 1));
    assert_false(pp_ratelimit_admit_at(&rl, now, KEPT, 2));
    assert_true(pp_ratelimit_admit_at(&rl, now, KEPT + 400, 2));
    assert_int_equal(pp_ratelimit_permits(&rl, now), 0);
    /* The last argument leaves out the permits that were admitted after a request: two for the
     * oldest pending request, none for the newest. */
    assert_int_equal(pp_ratelimit_ready_ms(&rl, now, 2), now);
    assert_int_equal(pp_ratelimit_ready_ms(&rl, now, 1), KEPT);
    assert_int_equal(pp_ratelimit_ready_ms(&rl, now, 0), KEPT + 400);
    pp_ratelimit_set_rpm(&rl, 2);
    assert_int_equal(pp_ratelimit_ready_ms(&rl, now, 0), INT64_MAX);
    pp_ratelimit_set_rpm(&rl, 0);
    assert_int_equal(pp_ratelimit_ready_ms(&rl, now, 0), now);
    pp_ratelimit_set_rpm(&rl, 3);
    assert_int_equal(pp_ratelimit_permits(&rl, KEPT + 400), 0);
    pp_ratelimit_fini(&rl);
}

static void huge_marks_are_bounded(void **state)
{
    (void)state;
    struct pp_ratelimit rl;
    pp_ratelimit_init(&rl, 1000000);
    for (int i = 0; i < 5000; i++) {
        struct pp_rate_mark m = {i * 100, UINT32_MAX};
        pp_ratelimit_import(&rl, 0, &m, 1);
    }
    assert_true(rl.len <= PP_RATE_MARKS_MAX);
    assert_int_equal(pp_ratelimit_permits(&rl, 499000 + KEPT), 0);
    assert_int_equal(pp_ratelimit_permits(&rl, 499900 + KEPT), 1000000);
    assert_int_equal(rl.logged, 0);
    pp_ratelimit_fini(&rl);
}

/* The model keeps every request, with the time at which it was sent and the limit under which the
 * log admitted it. */
struct request {
    int64_t sent_ms;
    uint64_t admitted_no; /* position in the order of admission */
    uint32_t rpm;
};

struct model {
    struct request *all;
    size_t n, max;
    uint64_t admissions;
};

static void model_check_admission(const struct model *m, int64_t now, uint64_t pending, uint32_t rpm)
{
    uint64_t in_window = pending;
    for (size_t i = m->n; i > 0 && m->all[i - 1].sent_ms > now - KEPT; i--)
        in_window++;
    assert_true(in_window <= rpm);
}

/* Checks every window of 60 s plus the margin: it may have at most as many requests as the limit
 * under which the log admitted the last of them. */
static void model_check_windows(const struct model *m)
{
    size_t from = 0;
    for (size_t i = 0; i < m->n; i++) {
        while (m->all[from].sent_ms <= m->all[i].sent_ms - KEPT)
            from++;
        const struct request *last = &m->all[from];
        for (size_t k = from; k <= i; k++)
            if (m->all[k].admitted_no > last->admitted_no)
                last = &m->all[k];
        assert_true(i - from + 1 <= last->rpm);
    }
}

/* Gives the log to a new holder of the slot, sometimes with fewer marks. In the product, the old
 * holder still has the pending requests; this test refunds and forgets them. */
static void hand_over(struct pp_ratelimit *rl, int64_t now, uint64_t *seed)
{
    struct pp_rate_mark marks[64];
    size_t n = pp_ratelimit_export(rl, now, marks, (size_t)pp_test_between(seed, 1, 64));
    uint32_t rpm = rl->rpm;
    pp_ratelimit_fini(rl);
    pp_ratelimit_init(rl, rpm);
    pp_ratelimit_import(rl, now, marks, n);
}

static void run_model(uint64_t seed, uint32_t rpm)
{
    struct model m = {.max = 4096};
    m.all = calloc(m.max, sizeof *m.all);
    struct request queue[512]; /* requests that are admitted and not yet sent, oldest first */
    size_t queued = 0;
    struct pp_ratelimit rl;
    pp_ratelimit_init(&rl, rpm);
    int64_t now = pp_test_between(&seed, 0, 1000000);
    int64_t pace = pp_test_between(&seed, 1, 2) == 1 ? 200 : 120000 / rpm;
    while (m.n < m.max) {
        now += pp_test_between(&seed, 0, pace);
        switch (pp_test_between(&seed, 0, 40)) {
        case 0:
            rl.rpm = rpm = (uint32_t)pp_test_between(&seed, 1, 400);
            pp_ratelimit_set_rpm(&rl, rpm);
            break;
        case 1:
            pp_ratelimit_refund(&rl, (uint32_t)queued);
            queued = 0;
            hand_over(&rl, now, &seed);
            break;
        case 2: /* For a long time there is no request. */ now += pp_test_between(&seed, 0, 70000); break;
        default: {
            uint32_t want = (uint32_t)pp_test_between(&seed, 1, 40);
            if (queued + want <= 512 && pp_ratelimit_admit(&rl, now, want)) {
                m.admissions++;
                for (uint32_t i = 0; i < want; i++)
                    queue[queued++] = (struct request){0, m.admissions, rpm};
                model_check_admission(&m, now, queued, rpm);
            } else if (queued + want <= 512) {
                int64_t next = pp_ratelimit_next_ms(&rl, now);
                assert_true(next >= now);
                if (next < INT64_MAX)
                    assert_true(pp_ratelimit_permits_at(&rl, now, next) > 0);
            }
            int64_t go = pp_test_between(&seed, 0, (int64_t)queued);
            for (int64_t i = 0; i < go && m.n < m.max; i++) {
                size_t pick = (size_t)pp_test_between(&seed, 0, (int64_t)queued - 1);
                struct request r = queue[pick];
                queue[pick] = queue[--queued];
                r.sent_ms = now;
                pp_ratelimit_sent(&rl, now, now);
                m.all[m.n++] = r;
            }
        }
        }
        assert_int_equal(rl.pending, queued);
        assert_true(rl.len <= rl.cap && rl.cap <= PP_RATE_MARKS_MAX);
    }
    model_check_windows(&m);
    pp_ratelimit_fini(&rl);
    free(m.all);
}

/* Works like a claimer whose claims take long. It admits requests in advance, and sends each when
 * its task is ready or some time later. Meanwhile it admits other requests and sends them
 * immediately. */
static void run_ahead(uint64_t seed, uint32_t rpm)
{
    enum { QUEUE = 1024 };
    struct model m = {.max = 4096};
    struct pp_ratelimit rl;
    int64_t now = 1, ready[QUEUE];
    size_t queued = 0;
    uint64_t early = 0;
    m.all = calloc(m.max, sizeof *m.all);
    pp_ratelimit_init(&rl, rpm);
    while (m.n < m.max) {
        now += pp_test_between(&seed, 0, 60000 / rpm);
        uint32_t want = (uint32_t)pp_test_between(&seed, 1, 20), left = want;
        if (queued + want <= QUEUE && pp_ratelimit_admit_at(&rl, now, now + 750, want))
            while (left > 0) {
                ready[queued] = pp_ratelimit_ready_ms(&rl, now, --left);
                assert_true(ready[queued] <= now + 750);
                early += ready[queued++] > now;
            }
        if (pp_test_between(&seed, 0, 20) == 0 && pp_ratelimit_admit(&rl, now, 1)) {
            pp_ratelimit_sent(&rl, now, now);
            m.all[m.n++] = (struct request){now, ++m.admissions, rpm};
        }
        for (size_t i = 0; i < queued && m.n < m.max; i++) {
            if (ready[i] > now || pp_test_between(&seed, 0, 4) == 0)
                continue;
            ready[i--] = ready[--queued];
            if (pp_test_between(&seed, 0, 30) == 0) {
                pp_ratelimit_refund(&rl, 1);
                continue;
            }
            pp_ratelimit_sent(&rl, now, now);
            m.all[m.n++] = (struct request){now, ++m.admissions, rpm};
        }
    }
    assert_true(early > 0);
    model_check_windows(&m);
    pp_ratelimit_fini(&rl);
    free(m.all);
}

static void never_over_the_limit_ahead(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t s = seed;
        run_ahead(seed, (uint32_t)pp_test_between(&s, 20, 400));
    }
}

static void never_over_the_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t s = seed;
        run_model(seed, (uint32_t)pp_test_between(&s, 1, 400));
    }
}

/* Checks that every window of `window_ms` has at most `most` requests; counts[t] is the number of
 * requests at time t in ms. */
static void check_counts(const uint32_t *counts, size_t n, size_t window_ms, uint64_t most)
{
    uint64_t sum = 0;
    for (size_t t = 0; t < n; t++) {
        sum += counts[t];
        if (t >= window_ms)
            sum -= counts[t - window_ms];
        assert_true(sum <= most);
    }
}

/* Simulates a sender that uses every permit as soon as it can, at up to `pace` times the limit,
 * until it has sent the requests of MINUTES minutes. Checks each window of 60 s at the origin,
 * where requests arrive 0 to PP_RATE_MARGIN_MS late. Returns the steady rate as a share of the
 * limit. */
static double greedy(uint32_t rpm, double pace)
{
    enum { MINUTES = 5 };
    const size_t end = (MINUTES + 1) * (size_t)PP_RATE_WINDOW_MS;
    uint32_t *arrived = calloc(end, sizeof *arrived), *sent = calloc(end, sizeof *sent);
    struct pp_ratelimit rl;
    pp_ratelimit_init(&rl, rpm);
    uint64_t seed = rpm, total = 0;
    int64_t now = 0, full_at = 0;
    double allowance = 0;
    for (; total < (uint64_t)MINUTES * rpm; now++) {
        allowance += pace * rpm / PP_RATE_WINDOW_MS;
        uint32_t n = pp_ratelimit_permits(&rl, now);
        if (n > allowance)
            n = (uint32_t)allowance;
        allowance -= n;
        if (allowance > 1)
            allowance = 1;
        assert_true(pp_ratelimit_admit(&rl, now, n));
        for (uint32_t i = 0; i < n; i++) {
            pp_ratelimit_sent(&rl, now, now);
            sent[now]++;
            arrived[now + pp_test_between(&seed, 0, PP_RATE_MARGIN_MS)]++;
        }
        total += n;
        if (n > 0 && total <= rpm)
            full_at = now; /* the last moment at which a permit of the first minute is used */
    }
    check_counts(arrived, end, PP_RATE_WINDOW_MS, rpm);
    check_counts(sent, end, KEPT, rpm);
    assert_true(rl.len <= rpm);
    pp_ratelimit_fini(&rl);
    free(arrived);
    free(sent);
    return (double)(total - rpm) / rpm * PP_RATE_WINDOW_MS / (double)(now - 1 - full_at);
}

static void the_whole_rate_can_be_used(void **state)
{
    (void)state;
    const uint32_t rates[] = {60, 600, 10000, 1000000};
    const double paces[] = {1.05, 2, 60000};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 3; k++) {
            double share = greedy(rates[i], paces[k]);
            print_message("rpm %u, at %g of it: %.2f %%\n", rates[i], paces[k], 100 * share);
            assert_true(share >= 0.99);
            assert_true(share <= 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permits_are_pending_logged_and_free_again),
        cmocka_unit_test(time_does_not_go_back),
        cmocka_unit_test(a_new_limit_knows_the_last_minute),
        cmocka_unit_test(an_earlier_arrival_frees_its_permit_earlier),
        cmocka_unit_test(marks_go_from_holder_to_holder),
        cmocka_unit_test(huge_marks_are_bounded),
        cmocka_unit_test(never_over_the_limit),
        cmocka_unit_test(never_over_the_limit_ahead),
        cmocka_unit_test(permits_ahead_wait_for_their_moment),
        cmocka_unit_test(the_whole_rate_can_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
