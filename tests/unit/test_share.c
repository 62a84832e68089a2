/* Tests how a client's rate is divided into shares: their sums, bounds and ranges of hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/share.h"
#include "prng.h"

static void how_many_shares(void **state)
{
    (void)state;
    static const struct {
        uint32_t rpm, concurrency, worker_rpm, worker_concurrency, count;
    } cases[] = {
        {600, 16, 6000, 64, 1},
        {6000, 16, 6000, 64, 1},
        {6001, 16, 6000, 64, 2},
        {1000000, 16, 6000, 64, 16},
        {1, 16, 1, 1, 1},
        {3, 16, 1, 1, 3},
        {0, 16, 6000, 64, 1},
        {0, 65, 6000, 64, 2},
        {0, 16, 6000, 0, 16},
        {5, 0, 1, 1, 1},
        {7, 100, 0, 0, 7},
        {UINT32_MAX, UINT32_MAX, 1, 1, UINT32_MAX},
        /* a giant: its places in one worker are fewer than its rate needs */
        {82000, 600, 60000, 256, 3},
        {82000, 600, 60000, 768, 2},
        {82000, 400, 60000, 256, 2},
        {82000, 5000, 60000, 256, 6},
        /* a slow client with many places needs no second worker */
        {600, 1000, 60000, 256, 1},
        {15360, 1000, 60000, 256, 1},
        {15420, 1000, 60000, 256, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(pp_share_count(cases[i].rpm, cases[i].concurrency, cases[i].worker_rpm,
                                        cases[i].worker_concurrency),
                         cases[i].count);
}

/* Returns the share whose range holds `hash`. */
static uint32_t share_of(uint32_t hash, uint32_t count)
{
    return (uint32_t)(((uint64_t)hash * count) >> 32);
}

static void check_cut(uint32_t rpm, uint32_t concurrency, uint32_t count)
{
    uint64_t sum_rpm = 0, sum_concurrency = 0, at = 0;
    for (uint32_t k = 0; k < count; k++) {
        struct pp_share s = pp_share_get(rpm, concurrency, count, k);
        assert_true(s.concurrency >= 1 && (rpm == 0 || s.rpm >= 1));
        assert_true(s.rpm <= rpm / count + 1 && s.concurrency <= concurrency / count + 1);
        sum_rpm += s.rpm;
        sum_concurrency += s.concurrency;
        assert_true(s.hash_lo == at && s.hash_hi >= s.hash_lo);
        at = (uint64_t)s.hash_hi + 1;
        assert_int_equal(share_of(s.hash_lo, count), k);
        assert_int_equal(share_of(s.hash_hi, count), k);
    }
    assert_true(sum_rpm == rpm && sum_concurrency == concurrency && at == (uint64_t)1 << 32);
}

static void shares_sum_to_the_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        uint64_t s = seed;
        uint32_t rpm = (uint32_t)pp_test_between(&s, 0, 2000000), k = (uint32_t)pp_test_between(&s, 1, 500);
        uint32_t count = pp_share_count(rpm, k, (uint32_t)pp_test_between(&s, 1, 20000), 8);
        check_cut(rpm, k, count);
    }
    check_cut(UINT32_MAX, UINT32_MAX, 1000);
    check_cut(1, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(how_many_shares),
                                       cmocka_unit_test(shares_sum_to_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
