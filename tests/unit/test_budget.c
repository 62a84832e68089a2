/* Tests how descriptors are divided: the minimum, what is clipped first, fairness between uses,
 * tiers' shares, and random cases against the invariants of budget.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/budget.h"
#include "prng.h"

/* `photopool up` with its defaults. */
static const struct pp_budget_want all = {.descriptors = 1u << 20,
                                          .files = 80,
                                          .transfers = 768,
                                          .threads = 1,
                                          .posts = 512,
                                          .tests = 4,
                                          .callers = 12000,
                                          .streams = 50000};

static struct pp_budget divide(uint32_t descriptors, struct pp_budget_want want)
{
    struct pp_budget b;
    want.descriptors = descriptors;
    assert_int_equal(pp_budget_divide(&want, &b), PP_OK);
    return b;
}

static uint64_t sum_of(const struct pp_budget *b)
{
    return (uint64_t)b->files + (uint64_t)b->transfers * PP_BUDGET_PER_TRANSFER + b->kept + b->posts +
           b->tests + b->places + b->reserve;
}

static void enough_for_all(void **state)
{
    (void)state;
    struct pp_budget b = divide(1u << 20, all);
    assert_int_equal(b.files, 80);
    assert_int_equal(b.transfers, 768);
    assert_int_equal(b.kept, 768);
    assert_int_equal(b.posts, 512);
    assert_int_equal(b.callers, 12000);
    assert_int_equal(b.streams, 50000);
    assert_int_equal(b.places, 62000);
    assert_int_equal(b.reserve, 1024);
}

static void too_few(void **state)
{
    (void)state;
    uint32_t least = pp_budget_needed(&all);
    struct pp_budget_want want = all;
    struct pp_budget b;

    assert_int_equal(least, 80 + 4 + 16 + 8 * 2 + 4 + 16 + 4);
    want.descriptors = least - 1;
    assert_int_equal(pp_budget_divide(&want, &b), PP_EFULL);
    b = divide(least, all);
    assert_int_equal(b.transfers, 8);
    assert_int_equal(b.kept, 0);
    assert_int_equal(b.posts, 4);
    assert_int_equal(b.tests, 4);
    assert_int_equal(b.places, 20);
    assert_int_equal(b.callers, 15);
    assert_int_equal(b.streams, 15);
    assert_int_equal(sum_of(&b), least);
}

/* A process that fetches nothing needs nothing for it; one that wants little gets no more. */
static void no_such_use(void **state)
{
    (void)state;
    const struct pp_budget_want api = {.files = 30, .threads = 1, .callers = 10, .streams = 2};
    struct pp_budget b = divide(30 + 16 + 10 + 2, api);
    assert_int_equal(b.transfers + b.kept + b.posts, 0);
    assert_int_equal(b.callers, 10);
    assert_int_equal(b.streams, 2);
    b = divide(5000, api);
    assert_int_equal(b.places, 12);
}

/* The uses that want little are not clipped; the others share the remainder by their weights. */
static void small_uses_first(void **state)
{
    (void)state;
    struct pp_budget b = divide(20000, all);
    assert_int_equal(b.transfers, 768);
    assert_int_equal(b.kept, 768);
    assert_int_equal(b.posts, 512);
    assert_int_equal(b.callers, 12000);
    assert_true(b.streams >= 10000);
    assert_true(b.places >= 16000);
    b = divide(1024, all);
    assert_in_range(b.transfers, 120, 200);
    assert_in_range(b.kept, 50, 100);
    assert_in_range(b.posts, 50, 100);
    assert_in_range(b.places, 350, 450);
    assert_in_range(b.callers, b.places * 3 / 4, b.places * 3 / 4 + 1);
}

static void tiers_keep_shares(void **state)
{
    (void)state;
    struct pp_tier t[3] = {{1000, 256}, {5000, 256}, {30000, 512}};
    pp_budget_clip_tiers(t, 3, 7, 1024);
    assert_int_equal(t[0].concurrency, 256);
    pp_budget_clip_tiers(t, 3, 7, 103);
    assert_int_equal(t[0].concurrency, 1 + 255 * 100 / 1021);
    assert_int_equal(t[1].concurrency, t[0].concurrency);
    assert_int_equal(t[2].concurrency, 1 + 511 * 100 / 1021);
    struct pp_tier uneven[3] = {{1000, 1}, {5000, 10000}, {30000, 2}};
    pp_budget_clip_tiers(uneven, 3, 7, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(uneven[i].concurrency, 1);
    struct pp_tier partly[3] = {{1000, 256}, {5000, 256}, {30000, 256}};
    pp_budget_clip_tiers(partly, 3, 4, 10);
    assert_int_equal(partly[0].concurrency, 256);
    assert_int_equal(partly[2].concurrency, 10);
}

static uint32_t pick(uint64_t *seed, uint32_t max)
{
    /* small numbers are as likely as large ones */
    return (uint32_t)pp_test_between(seed, 0, (int64_t)(max >> pp_test_between(seed, 0, 20)));
}

static void random_wants(void **state)
{
    (void)state;
    uint64_t seed = 16;
    for (int i = 0; i < 200000; i++) {
        struct pp_budget_want w = {.files = pick(&seed, 500),
                                   .transfers = pick(&seed, 80000),
                                   .threads = 1 + pick(&seed, 63),
                                   .posts = pick(&seed, 512),
                                   .tests = pick(&seed, 8),
                                   .callers = pick(&seed, 1000000),
                                   .streams = pick(&seed, 1000000)};
        w.descriptors = pp_budget_needed(&w) + pick(&seed, 1u << 20);
        struct pp_budget b = divide(w.descriptors, w);
        assert_true(sum_of(&b) <= w.descriptors);
        assert_true(b.transfers <= w.transfers && b.posts <= w.posts);
        assert_true(b.callers <= w.callers && b.streams <= w.streams);
        assert_true((b.transfers > 0) == (w.transfers > 0) && (b.posts > 0) == (w.posts > 0));
        assert_true((b.callers > 0) == (w.callers > 0) && (b.streams > 0) == (w.streams > 0));
        assert_true(b.callers <= b.places && b.streams <= b.places);
        /* neither kind of places can take all */
        assert_true(b.callers == w.callers ||
                    b.places - b.callers >= (b.streams < b.places / 4 ? b.streams : b.places / 4));
        /* little is left over only if something was clipped */
        bool clipped = b.transfers < w.transfers || b.posts < w.posts ||
                       b.places < (uint64_t)w.callers + w.streams ||
                       b.kept < (uint64_t)w.transfers * w.threads;
        assert_true(!clipped || w.descriptors - sum_of(&b) < 8);

        uint32_t each = pp_budget_kept_by_loop(&b, w.threads);
        uint64_t spread = (uint64_t)each * w.threads, one = b.transfers + (uint64_t)each * (w.threads - 1);
        assert_true(each == 1 || (spread <= b.transfers + b.kept && one <= b.transfers + b.kept));

        struct pp_tier t[PP_TIERS_MAX];
        size_t n = (size_t)pp_test_between(&seed, 1, PP_TIERS_MAX);
        uint32_t served = (uint32_t)pp_test_between(&seed, 1, (1 << n) - 1), count = 0;
        uint64_t sum = 0;
        for (size_t k = 0; k < n; k++) {
            t[k] = (struct pp_tier){1000, 1 + pick(&seed, 9999)};
            count += served >> k & 1;
        }
        uint32_t room = count + pick(&seed, 20000);
        pp_budget_clip_tiers(t, n, served, room);
        for (size_t k = 0; k < n; k++) {
            sum += served >> k & 1 ? t[k].concurrency : 0;
            assert_true(t[k].concurrency > 0);
        }
        assert_true(sum <= room);
    }
}

/* More descriptors never mean less of anything, but for what rounding takes. */
static void more_is_not_less(void **state)
{
    (void)state;
    struct pp_budget before = divide(pp_budget_needed(&all), all);
    for (uint32_t n = pp_budget_needed(&all) + 1; n < 90000; n++) {
        struct pp_budget b = divide(n, all);
        assert_true(b.transfers + 1 >= before.transfers && b.kept + 2 >= before.kept);
        assert_true(b.posts + 2 >= before.posts && b.places + 2 >= before.places);
        before = b;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enough_for_all),    cmocka_unit_test(too_few),
        cmocka_unit_test(no_such_use),       cmocka_unit_test(small_uses_first),
        cmocka_unit_test(tiers_keep_shares), cmocka_unit_test(random_wants),
        cmocka_unit_test(more_is_not_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
