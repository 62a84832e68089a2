/* test_rank.c: all workers of a fleet compute one order, in which the best worker of each kind
 * comes before all others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rank.h"
#include "prng.h"

#define N(a) (sizeof(a) / sizeof(*(a)))

struct worker {
    const char *tiers;
    double score;
    bool settled;
};

static struct pp_rank ranked(const struct worker *fleet, size_t n, size_t self)
{
    struct pp_rank r;

    pp_rank_init(&r, fleet[self].tiers, fleet[self].score);
    for (size_t i = 0; i < n; i++)
        if (i != self)
            pp_rank_add(&r, fleet[i].tiers, fleet[i].score, fleet[i].settled);
    return r;
}

static struct pp_rank_count before(const struct worker *fleet, size_t n, size_t self)
{
    struct pp_rank r = ranked(fleet, n, self);
    return pp_rank_before(&r);
}

static void test_alone(void **state)
{
    (void)state;
    const struct worker one = {"all", 1, true};
    assert_int_equal(before(&one, 1, 0).all, 0);
}

/* In a fleet of one kind the score decides. */
static void test_one_kind(void **state)
{
    (void)state;
    const struct worker fleet[] = {{"all", 3, true}, {"all", 5, false}, {"all", 1, true}, {"all", 4, true}};
    const uint32_t all[] = {2, 0, 3, 1}, settled[] = {1, 0, 2, 0};
    for (size_t i = 0; i < N(fleet); i++) {
        assert_int_equal(before(fleet, N(fleet), i).all, all[i]);
        assert_int_equal(before(fleet, N(fleet), i).settled, settled[i]);
    }
}

/* The only worker of the first tier has the lowest score, but it comes before the second best
 * worker of the other tiers. */
static void test_best_of_each_kind(void **state)
{
    (void)state;
    const struct worker fleet[] = {{"1", 1, true}, {"5,30", 2, true}, {"5,30", 4, true}, {"5,30", 3, true}};
    const uint32_t all[] = {1, 3, 0, 2};
    for (size_t i = 0; i < N(fleet); i++)
        assert_int_equal(before(fleet, N(fleet), i).all, all[i]);
}

/* A new worker comes before an older one, but does not count as settled. */
static void test_new_worker(void **state)
{
    (void)state;
    const struct worker fleet[] = {{"1", 1, true}, {"5", 2, true}, {"1", 3, false}};
    assert_int_equal(before(fleet, N(fleet), 0).all, 2);
    assert_int_equal(before(fleet, N(fleet), 0).settled, 1);
}

static void test_leave_to_other_kinds(void **state)
{
    (void)state;
    const struct worker fleet[] = {{"1", 9, true}, {"1", 10, false}, {"1", 8, true}, {"5", 2, true}};
    struct pp_rank r = ranked(fleet, N(fleet), 0);
    assert_int_equal(pp_rank_before_last(&r).all, 2);
    assert_int_equal(pp_rank_before_last(&r).settled, 1);
}

/* No two workers have the same rank, and the first ranks are those of the best worker of each kind,
 * as far as kinds are known. */
static void test_one_order(void **state)
{
    (void)state;
    static const char *const tiers[] = {"1", "5", "30", "1,5", "all"};
    uint64_t r = 20261124;

    for (int round = 0; round < 2000; round++) {
        struct worker fleet[12];
        bool taken[12] = {false};
        size_t n = (size_t)pp_test_between(&r, 1, N(fleet)),
               n_tiers = (size_t)pp_test_between(&r, 1, N(tiers));
        for (size_t i = 0; i < n; i++)
            fleet[i] = (struct worker){tiers[pp_test_rnd(&r) % n_tiers], (double)(1 + i * 7 % 13), true};
        for (size_t i = 0; i < n; i++) {
            uint32_t rank = before(fleet, n, i).all;
            assert_true(rank < n && !taken[rank]);
            taken[rank] = true;
            assert_int_equal(before(fleet, n, i).settled, rank);
            uint32_t kinds = ranked(fleet, n, i).n_kinds;
            bool best = true;
            for (size_t k = 0; k < n; k++)
                best =
                    best && (strcmp(fleet[k].tiers, fleet[i].tiers) != 0 || fleet[k].score <= fleet[i].score);
            assert_int_equal(best, rank < kinds);
        }
    }
}

static void test_many_kinds(void **state)
{
    (void)state;
    struct worker fleet[PP_RANK_KINDS + 4];
    char names[PP_RANK_KINDS + 4][2] = {{0}};

    for (size_t i = 0; i < N(fleet); i++) {
        names[i][0] = (char)('a' + i);
        fleet[i] = (struct worker){names[i], (double)(i + 1), true};
    }
    for (size_t i = 0; i < N(fleet); i++)
        assert_true(before(fleet, N(fleet), i).all < N(fleet));
    assert_int_equal(ranked(fleet, N(fleet), 0).n_kinds, PP_RANK_KINDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_one_kind),
        cmocka_unit_test(test_best_of_each_kind),
        cmocka_unit_test(test_new_worker),
        cmocka_unit_test(test_leave_to_other_kinds),
        cmocka_unit_test(test_one_order),
        cmocka_unit_test(test_many_kinds),
    };
    return cmocka_run_group_tests_name("rank", tests, NULL, NULL);
}
