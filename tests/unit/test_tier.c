/* Tests tiers: their order, which tier covers a time, limits, and the codes of timeouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/tier.h"
#include "photopool/code.h"

static const struct pp_tier three[] = {{1000, 256}, {5000, 256}, {30000, 256}};

static void next_and_covering_tier(void **state)
{
    (void)state;
    assert_int_equal(pp_tier_next(0, 3), 1);
    assert_int_equal(pp_tier_next(1, 3), 2);
    assert_int_equal(pp_tier_next(2, 3), PP_TIER_NONE);
    assert_int_equal(pp_tier_next(PP_TIER_NONE, 3), PP_TIER_NONE);
    static const struct {
        double ms;
        uint8_t tier;
    } cases[] = {{0, 0}, {1000, 0}, {1000.1, 1}, {5000, 1}, {5001, 2}, {30000, 2}, {1e12, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(pp_tier_cover(three, 3, cases[i].ms), cases[i].tier);
}

static void phases_have_limits(void **state)
{
    (void)state;
    static const struct {
        int64_t total, connect, slow;
    } cases[] = {{1000, 1000, 1000}, {5000, 5000, 5000}, {12000, 12000, 5000}, {30000, 15000, 10000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_tier_limits l = pp_tier_limits(cases[i].total);
        assert_int_equal(l.connect_ms, cases[i].connect);
        assert_int_equal(l.slow_ms, cases[i].slow);
    }
}

static void timeouts_have_codes(void **state)
{
    (void)state;
    assert_int_equal(pp_tier_timeout_code(true, PP_PHASE_CONNECT), PP_CODE_DNS_TEMPORARY);
    assert_int_equal(pp_tier_timeout_code(false, PP_PHASE_CONNECT), PP_CODE_CONNECT_TIMEOUT);
    assert_int_equal(pp_tier_timeout_code(false, PP_PHASE_FIRST_BYTE), PP_CODE_FIRST_BYTE_TIMEOUT);
    assert_int_equal(pp_tier_timeout_code(false, PP_PHASE_BODY), PP_CODE_BODY_TIMEOUT);
}

static void the_smallest_tier_that_is_served(void **state)
{
    (void)state;
    const struct pp_tier tiers[] = {{1000, 256}, {5000, 64}, {30000, 512}};
    assert_int_equal(pp_tier_least_places(tiers, 3, 7), 64);
    assert_int_equal(pp_tier_least_places(tiers, 3, 5), 256);
    assert_int_equal(pp_tier_least_places(tiers, 3, 4), 512);
    assert_int_equal(pp_tier_least_places(tiers, 3, 0), 0);
    assert_int_equal(pp_tier_least_places(tiers, 1, 7), 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_tier_that_is_served),
        cmocka_unit_test(next_and_covering_tier),
        cmocka_unit_test(phases_have_limits),
        cmocka_unit_test(timeouts_have_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
