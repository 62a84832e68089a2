/* Tests weighted max-min fairness: cases, and properties of random clients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/fair.h"
#include "prng.h"

#define MANY PP_FAIR_MANY

static void shares_by_weight_and_limits(void **state)
{
    (void)state;
    static const struct {
        uint32_t slots, n, total;
        /* Each client: weight, want, permits, concurrency_left, allot (0 before the call), and the
         * allot that is expected. */
        struct pp_fair_client c[4];
    } cases[] = {
        {100, 0, 0, {{0}}},
        {100, 1, 16, {{1, MANY, 600, 16, 0, 16}}},
        {100, 2, 100, {{1, 1000000, MANY, MANY, 0, 90}, {1, 10, MANY, MANY, 0, 10}}},
        {100, 2, 100, {{3, MANY, MANY, MANY, 0, 75}, {1, MANY, MANY, MANY, 0, 25}}},
        {100, 3, 60, {{1, 20, MANY, MANY, 0, 20}, {1, MANY, 20, MANY, 0, 20}, {1, MANY, MANY, 20, 0, 20}}},
        {90, 3, 90, {{1, MANY, MANY, 10, 0, 10}, {1, MANY, MANY, MANY, 0, 40}, {1, MANY, MANY, MANY, 0, 40}}},
        {0, 2, 0, {{1, 5, 5, 5, 0, 0}, {1, 5, 5, 5, 0, 0}}},
        {1, 2, 1, {{1, MANY, MANY, MANY, 0, 1}, {1, MANY, MANY, MANY, 0, 0}}},
        {4, 2, 4, {{0, MANY, MANY, MANY, 0, 2}, {1, MANY, MANY, MANY, 0, 2}}},
        {MANY, 2, MANY, {{UINT32_MAX, MANY, MANY, MANY, 0, MANY - 1}, {1, 1, 1, 1, 0, 1}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_fair_client c[4];
        uint32_t scratch[4];
        memcpy(c, cases[i].c, sizeof c);
        assert_int_equal(pp_fair_allot(c, cases[i].n, cases[i].slots, 1, scratch), cases[i].total);
        for (uint32_t k = 0; k < cases[i].n; k++)
            assert_int_equal(c[k].allot, cases[i].c[k].allot);
    }
}

static uint32_t least(const struct pp_fair_client *c)
{
    uint32_t a = c->want < c->permits ? c->want : c->permits;
    return a < c->concurrency_left ? a : c->concurrency_left;
}

/* Checks three rules. All free transfers are allotted if clients can use them. No client gets more
 * than its limit. A client that could use more has at least as many per weight as any other, apart
 * from rounding. */
static void check_fair(const struct pp_fair_client *c, size_t n, uint32_t slots, uint32_t q, uint32_t total)
{
    uint64_t sum = 0, can = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(c[i].allot <= least(&c[i]));
        sum += c[i].allot;
        can += least(&c[i]);
    }
    assert_true(sum == total && total == (can < slots ? can : slots));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n && c[i].allot < least(&c[i]); k++)
            if (c[k].allot > q)
                assert_true((uint64_t)(c[k].allot - q) * c[i].weight <=
                            (uint64_t)(c[i].allot + q) * c[k].weight);
}

static void the_allotment_is_max_min_fair(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t s = seed;
        size_t n = (size_t)pp_test_between(&s, 1, 60);
        struct pp_fair_client c[60] = {{0}}, again[60];
        uint32_t scratch[60], q = seed % 2 ? 1 : (uint32_t)pp_test_between(&s, 2, 20);
        for (size_t i = 0; i < n; i++)
            c[i].weight = (uint32_t)pp_test_between(&s, 1, 10);
        for (int cycle = 0; cycle < 20; cycle++) {
            for (size_t i = 0; i < n; i++) {
                c[i].want = pp_test_between(&s, 0, 3) ? (uint32_t)pp_test_between(&s, 0, 50) : MANY;
                c[i].permits = (uint32_t)pp_test_between(&s, 0, 80);
                c[i].concurrency_left = (uint32_t)pp_test_between(&s, 0, 40);
            }
            uint32_t slots = (uint32_t)pp_test_between(&s, 0, 600);
            memcpy(again, c, sizeof c);
            uint32_t total = pp_fair_allot(c, n, slots, q, scratch);
            check_fair(c, n, slots, q, total);
            assert_int_equal(pp_fair_allot(again, n, slots, q, scratch), total);
            assert_memory_equal(again, c, sizeof c);
        }
    }
}

/* Fills in clients of unequal weight with endless backlog, and returns the sum of their weights. */
static uint32_t fill_endless(struct pp_fair_client *c, uint32_t n)
{
    uint32_t weights = 0;
    for (uint32_t i = 0; i < n; i++) {
        c[i] = (struct pp_fair_client){
            .weight = 1 + i % 5, .want = MANY, .permits = MANY, .concurrency_left = MANY};
        weights += c[i].weight;
    }
    return weights;
}

/* One transfer becomes free in each cycle, and 50 clients of unequal weight have endless backlog.
 * Over time each client must get its share, and no client may wait much longer than its share
 * implies. */
static void no_client_starves(void **state)
{
    (void)state;
    enum { N = 50, CYCLES = 20000 };
    struct pp_fair_client c[N] = {{0}};
    uint32_t scratch[N], got[N] = {0}, last[N] = {0}, weights = fill_endless(c, N);
    for (uint32_t t = 1; t <= CYCLES; t++) {
        assert_int_equal(pp_fair_allot(c, N, 1, 1, scratch), 1);
        for (uint32_t i = 0; i < N; i++) {
            if (c[i].allot == 0)
                continue;
            assert_true(t - last[i] <= 2 * weights / c[i].weight + N);
            last[i] = t;
            got[i]++;
        }
    }
    for (uint32_t i = 0; i < N; i++) {
        int64_t due = (int64_t)CYCLES * c[i].weight / weights;
        assert_true(llabs(got[i] - due) <= 3);
    }
}

/* In each cycle 24 transfers become free, and pp_fair_allot() gives them out 8 at a time. So a
 * cycle serves three of 50 clients, but over time every client must get the share that its weight
 * implies. */
static void rounding_is_by_quanta(void **state)
{
    (void)state;
    enum { N = 50, CYCLES = 5000, Q = 8, SLOTS = 24 };
    struct pp_fair_client c[N] = {{0}};
    uint32_t scratch[N], got[N] = {0}, last[N] = {0}, weights = fill_endless(c, N);
    for (uint32_t t = 1; t <= CYCLES; t++) {
        assert_int_equal(pp_fair_allot(c, N, SLOTS, Q, scratch), SLOTS);
        uint32_t served = 0;
        for (uint32_t i = 0; i < N; i++) {
            if (c[i].allot == 0)
                continue;
            assert_int_equal(c[i].allot, Q);
            assert_true(t - last[i] <= 2 * weights * Q / (SLOTS * c[i].weight) + N);
            last[i] = t;
            got[i] += c[i].allot;
            served++;
        }
        assert_int_equal(served, SLOTS / Q);
    }
    for (uint32_t i = 0; i < N; i++) {
        int64_t due = (int64_t)CYCLES * SLOTS * c[i].weight / weights;
        assert_true(llabs(got[i] - due) <= 3 * Q);
    }
}

/* A client with 10 open photos arrives beside a client with 1,000,000. The first cycle must give
 * the small client all that it wants. */
static void a_small_client_waits_for_no_cycle(void **state)
{
    (void)state;
    struct pp_fair_client c[2] = {{.weight = 1, .want = 1000000, .permits = MANY, .concurrency_left = MANY}};
    uint32_t scratch[2];
    for (int cycle = 0; cycle < 100; cycle++)
        assert_int_equal(pp_fair_allot(c, 1, 256, 1, scratch), 256);
    c[1] = (struct pp_fair_client){.weight = 1, .want = 10, .permits = 600, .concurrency_left = 16};
    assert_int_equal(pp_fair_allot(c, 2, 256, 1, scratch), 256);
    assert_int_equal(c[1].allot, 10);
    /* Now one transfer becomes free per cycle. The two clients must take turns, so the small one
     * has its 10 transfers after 21 cycles. */
    uint32_t done = 0;
    for (int cycle = 0; cycle < 21; cycle++) {
        c[1].want = 10 - done;
        pp_fair_allot(c, 2, 1, 1, scratch);
        done += c[1].allot;
    }
    assert_int_equal(done, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_by_weight_and_limits),
        cmocka_unit_test(the_allotment_is_max_min_fair),
        cmocka_unit_test(no_client_starves),
        cmocka_unit_test(rounding_is_by_quanta),
        cmocka_unit_test(a_small_client_waits_for_no_cycle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
