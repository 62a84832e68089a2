/* Tests the filter of known photos: it has every key that was added, it has few others, and a new
 * one is built when that is due. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/bloom.h"
#include "core/filter.h"
#include "prng.h"

#define MIB ((uint64_t)1 << 20)

static struct pp_key key_of(uint64_t *rng)
{
    struct pp_key key;
    for (size_t i = 0; i < sizeof key.b; i += 8) {
        uint64_t half = pp_test_rnd(rng);
        memcpy(key.b + i, &half, sizeof half);
    }
    return key;
}

/* Fills a filter up to `share` of its capacity. Returns the share of other keys that it seems to
 * have. */
static double false_share(uint64_t bytes, double share)
{
    enum { PROBES = 2000000 };
    struct pp_bloom b;
    uint64_t n = (uint64_t)((double)pp_filter_capacity(bytes) * share), added = 1, again = 1, others = 2;
    unsigned wrong = 0;
    assert_true(pp_bloom_init(&b, bytes));
    for (uint64_t i = 0; i < n; i++) {
        struct pp_key key = key_of(&added);
        pp_bloom_add(&b, &key);
    }
    for (uint64_t i = 0; i < n; i++) {
        struct pp_key key = key_of(&again);
        assert_true(pp_bloom_has(&b, &key));
    }
    for (int i = 0; i < PROBES; i++) {
        struct pp_key key = key_of(&others);
        wrong += pp_bloom_has(&b, &key);
    }
    assert_true((double)b.keys > (double)n * 0.99 && b.keys <= n);
    pp_bloom_fini(&b);
    return (double)wrong / PROBES;
}

/* At 20 bits a key, at most 0.01 %. The seeds are fixed, so the numbers never change. */
static void one_in_ten_thousand_when_full(void **state)
{
    (void)state;
    double measured = false_share(MIB, 1), expected = pp_filter_false_share(MIB, pp_filter_capacity(MIB));
    assert_true(measured <= 0.0001);
    assert_true(expected > 0.00007 && expected < 0.0001);
    assert_true(fabs(measured - expected) < 0.2 * expected);
}

static void fewer_before_more_after(void **state)
{
    (void)state;
    assert_true(false_share(MIB, 0.5) < 0.000001);
    double measured = false_share(MIB, 2), expected = pp_filter_false_share(MIB, 2 * pp_filter_capacity(MIB));
    assert_true(measured > 0.005 && measured < 0.02);
    assert_true(fabs(measured - expected) < 0.1 * expected);
    assert_true(pp_filter_false_share(MIB, 0) == 0);
    assert_true(pp_filter_false_share(MIB, 100 * pp_filter_capacity(MIB)) > 0.999);
    assert_true(pp_filter_false_share(MIB, 1) < 1e-12);
    assert_true(pp_filter_false_share(1, 1) < 1e-12);
}

static void sizes(void **state)
{
    (void)state;
    struct pp_bloom b;
    const struct {
        uint64_t bytes, blocks;
    } rows[] = {{0, 1}, {1, 1}, {511, 1}, {512, 1}, {1023, 1}, {1024, 2}, {16 * MIB, 32768}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(pp_bloom_init(&b, rows[i].bytes));
        assert_int_equal(b.blocks, rows[i].blocks);
        struct pp_key last, first = {{0}};
        memset(&last, 0xff, sizeof last);
        assert_true(pp_bloom_add(&b, &last) && pp_bloom_add(&b, &first)); /* within the memory */
        assert_true(!pp_bloom_add(&b, &last) && pp_bloom_has(&b, &first));
        assert_int_equal(b.keys, 2);
        pp_bloom_fini(&b);
    }
    assert_int_equal(pp_filter_capacity(25000000), 10000000);
    assert_int_equal(pp_filter_capacity(16 * MIB), 6710886);
}

/* The bits that a key sets are fixed: the scripts on Redis set the same. */
static void the_bits_of_a_key(void **state)
{
    (void)state;
    struct pp_bloom b;
    /* the second of two blocks; then the numbers 1, 2, 3, 4, 5, 6, 7 and 4095 */
    const struct pp_key key = {
        {0x80, 0, 0, 0, 0x00, 0x10, 0x02, 0x00, 0x30, 0x04, 0x00, 0x50, 0x06, 0x00, 0x7f, 0xff}};
    const uint32_t due[] = {1, 2, 3, 4, 5, 6, 7, 4095, 1 + 5, 2 + 6, 3 + 7, (4 + 4095) % 4096};
    assert_true(pp_bloom_init(&b, 1024));
    pp_bloom_add(&b, &key);
    for (size_t i = 0; i < sizeof due / sizeof *due; i++) {
        uint8_t *byte = &b.bits[512 + due[i] / 8];
        uint8_t bit = (uint8_t)(0x80 >> due[i] % 8);
        assert_true((*byte & bit) || due[i] == 6 || due[i] == 3);
        *byte &= (uint8_t)~bit;
    }
    for (size_t i = 0; i < 1024; i++)
        assert_int_equal(b.bits[i], 0);
    pp_bloom_fini(&b);
}

static void when_a_new_one_is_due(void **state)
{
    (void)state;
    const int64_t day = 86400000;
    const uint64_t full = pp_filter_capacity(MIB);
    const struct {
        struct pp_filter_state s;
        uint64_t bytes;
        enum pp_filter_reason due;
    } rows[] = {
        {{false, 0, 0, 0}, MIB, PP_FILTER_INCOMPLETE},
        {{true, 0, MIB, 0}, MIB, PP_FILTER_GOOD},
        {{true, 0, MIB, 0}, MIB + 511, PP_FILTER_GOOD},
        {{true, 0, 512, 0}, 1, PP_FILTER_GOOD},
        {{true, 0, MIB, 0}, MIB + 512, PP_FILTER_RESIZED},
        {{true, 0, MIB, 0}, MIB / 2, PP_FILTER_RESIZED},
        {{true, 0, MIB, day - 1}, MIB, PP_FILTER_GOOD},
        {{true, 0, MIB, day}, MIB, PP_FILTER_OLD},
        {{true, full, MIB, day / 2}, MIB, PP_FILTER_GOOD},
        {{true, full + 1, MIB, day / 4 - 1}, MIB, PP_FILTER_GOOD},
        {{true, full + 1, MIB, day / 4}, MIB, PP_FILTER_FULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum pp_filter_reason reason = pp_filter_due(&rows[i].s, rows[i].bytes, day);
        assert_string_equal(pp_filter_reason_text(reason), pp_filter_reason_text(rows[i].due));
    }
}

static void when_an_answer_is_late(void **state)
{
    (void)state;
    assert_false(pp_filter_late(1000, 1000));
    assert_false(pp_filter_late(1000, 1000 + PP_FILTER_SETTLE_MS / 2));
    assert_true(pp_filter_late(1000, 1000 + PP_FILTER_SETTLE_MS * 3 / 4));
    assert_true(pp_filter_late(1000, 1000 + PP_FILTER_SETTLE_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_in_ten_thousand_when_full),
        cmocka_unit_test(fewer_before_more_after),
        cmocka_unit_test(sizes),
        cmocka_unit_test(the_bits_of_a_key),
        cmocka_unit_test(when_a_new_one_is_due),
        cmocka_unit_test(when_an_answer_is_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
