/* Weighted max-min: cases, and properties on random clients. */
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

static void test_cases(void **state)
{
    (void)state;
    static const struct {
        uint32_t slots, n, total;
        struct pp_fair_client c[4]; /* weight, want, permits, concurrency_left; allot = due */
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

/* Nothing left over, nobody above his limit, and nobody short while another has more per weight (by more than
 * rounding). */
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

static void test_properties(void **state)
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

/* Clients of unequal weight with endless backlog; the sum of their weights. */
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

/* One free transfer a cycle, 50 clients of unequal weight with endless backlog: each gets its share over
 * time, and is never made to wait much longer than its share says. */
static void test_nobody_starves(void **state)
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

/* Quanta of 8 to 50 clients of unequal weight, 24 free transfers a cycle: few are served in a cycle, all get
 * their share over time. */
static void test_quanta(void **state)
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

/* A client with 1,000,000 open photos, one with 10 that comes in a crowd: it is served in the first cycle. */
static void test_small_one_waits_no_cycle(void **state)
{
    (void)state;
    struct pp_fair_client c[2] = {{.weight = 1, .want = 1000000, .permits = MANY, .concurrency_left = MANY}};
    uint32_t scratch[2];
    for (int cycle = 0; cycle < 100; cycle++)
        assert_int_equal(pp_fair_allot(c, 1, 256, 1, scratch), 256);
    c[1] = (struct pp_fair_client){.weight = 1, .want = 10, .permits = 600, .concurrency_left = 16};
    assert_int_equal(pp_fair_allot(c, 2, 256, 1, scratch), 256);
    assert_int_equal(c[1].allot, 10);
    /* Even when one transfer ends at a time. */
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
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_quanta),
        cmocka_unit_test(test_small_one_waits_no_cycle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
