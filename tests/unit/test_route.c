/* Tests routes, the tier learned for a client and host: in which tier hosts of known speed end up,
 * how soon, and how steadily. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/route.h"
#include "prng.h"

#define MINUTE 60000

static const struct pp_tier tiers[] = {{1000, 256}, {5000, 256}, {30000, 256}};
static const struct pp_route_params params = {.min_samples = 5, .margin = 1.2, .half_life_ms = 10 * MINUTE};

/* Adds the samples of a photo that needs `ms`: it starts in `tier` and moves up at each timeout, as
 * in the product. */
static void fetch(struct pp_route *r, uint8_t tier, int64_t ms, int64_t now)
{
    for (bool first = true; tier != PP_TIER_NONE; tier = pp_tier_next(tier, 3), first = false) {
        bool over = ms > tiers[tier].timeout_ms;
        struct pp_route_sample s = {tier, first, over, over ? tiers[tier].timeout_ms : ms};
        pp_route_add(r, tiers, 3, &params, s, now);
        if (!over)
            return;
    }
}

/* Adds one sample of a first attempt. */
static void add(struct pp_route *r, uint8_t tier, int64_t ms, bool timed_out, int64_t now)
{
    pp_route_add(r, tiers, 3, &params, (struct pp_route_sample){tier, true, timed_out, ms}, now);
}

static uint8_t decide(struct pp_route *r)
{
    return pp_route_decide(r, tiers, 3, &params);
}

static void converges(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        uint8_t tier;
    } cases[] = {{100, 0}, {200, 0}, {800, 0}, {900, 1}, {3000, 1}, {4000, 1}, {20000, 2}, {90000, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_route r = {0};
        assert_int_equal(decide(&r), 0);
        /* The first import of a host's photos starts in tier 0; the second import starts in the
         * tier of the route. */
        for (int k = 0; k < 30; k++)
            fetch(&r, 0, cases[i].ms, k * 100);
        assert_int_equal(decide(&r), cases[i].tier);
        for (int k = 0; k < 200; k++) {
            fetch(&r, r.tier, cases[i].ms, MINUTE + k * 10000);
            assert_int_equal(decide(&r), cases[i].tier);
        }
    }
}

/* Hosts need random times around 0.2, 3 and 20 s. After the first import at least 95 % of the
 * photos must start in the right tier. */
static void noisy_hosts(void **state)
{
    (void)state;
    static const int64_t speeds[] = {200, 3000, 20000};
    int right = 0, total = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t s = seed;
        struct pp_route r = {0};
        uint8_t due = (uint8_t)(seed % 3);
        for (int k = 0; k < 200; k++) {
            int64_t ms = speeds[due] * pp_test_between(&s, 70, 130) / 100;
            if (pp_test_between(&s, 1, 50) == 1)
                ms = 40000; /* One transfer in fifty is so slow that it reaches the timeout. */
            fetch(&r, r.tier, ms, k * 1000);
            if (k % 10 == 9)
                decide(&r);
            if (k >= 50) {
                right += r.tier == due;
                total++;
            }
        }
    }
    print_message("%d of %d in the right tier\n", right, total);
    assert_true(right >= total * 0.95);
}

static void five_samples_decide(void **state)
{
    (void)state;
    struct pp_route r = {0};
    for (int i = 0; i < 4; i++) {
        add(&r, 1, 3000, false, i);
        assert_int_equal(decide(&r), 0);
    }
    add(&r, 1, 3000, false, 4);
    assert_int_equal(decide(&r), 1);
}

static void always_timing_out_moves_up(void **state)
{
    (void)state;
    struct pp_route r = {0};
    for (uint8_t t = 0; t < 3; t++) {
        /* Even if the timeout is reported a little early, the sample counts as at least the tier's
         * timeout. */
        for (int i = 0; i < 5; i++)
            add(&r, t, i, true, t * 1000 + i);
        assert_int_equal(decide(&r), t < 2 ? t + 1 : 2);
    }
    /* A host becomes slow after a thousand fast samples. Its route must move up just as soon. */
    r = (struct pp_route){0};
    for (int i = 0; i < 1000; i++)
        fetch(&r, 0, 200, i);
    assert_int_equal(decide(&r), 0);
    for (int i = 0; i < 5; i++)
        add(&r, 0, 1000, true, 1000 + i);
    assert_int_equal(decide(&r), 1);
}

static void one_timeout_among_many_moves_nothing(void **state)
{
    (void)state;
    struct pp_route r = {0};
    for (int i = 0; i < 500; i++) {
        fetch(&r, r.tier, i % 20 == 7 ? 4000 : 200, i * 1000);
        assert_int_equal(decide(&r), 0);
    }
}

/* A host becomes faster, from 20 s to 0.2 s, and gives a sample per second. Within six half-lives
 * the route must move down to tier 0, one tier at a time. */
static void gets_faster(void **state)
{
    (void)state;
    struct pp_route r = {0};
    int64_t now = 0;
    for (int i = 0; i < 600; i++, now += 1000)
        fetch(&r, r.tier, 20000, now);
    assert_int_equal(decide(&r), 2);
    int64_t start = now, at_5s = 0;
    while (r.tier > 0 && now - start < 20 * params.half_life_ms) {
        fetch(&r, r.tier, 200, now);
        uint8_t before = r.tier;
        assert_true(decide(&r) <= before);
        if (r.tier == 1 && before == 2)
            at_5s = now;
        now += 1000;
    }
    print_message("to 5 s after %.1f half-lives, to 1 s after %.1f\n",
                  (double)(at_5s - start) / params.half_life_ms, (double)(now - start) / params.half_life_ms);
    assert_true(at_5s > 0 && at_5s - start <= 3 * params.half_life_ms);
    assert_true(now - start <= 6 * params.half_life_ms);
}

/* A host fails for a few minutes and then recovers. The route must soon be back in its old tier,
 * because the failures added only few samples. */
static void outage_is_forgotten(void **state)
{
    (void)state;
    struct pp_route r = {0};
    int64_t now = 0;
    for (int i = 0; i < 2000; i++, now += 100)
        fetch(&r, 0, 200, now);
    for (int i = 0; i < 12; i++, now += 10000) {
        fetch(&r, r.tier, 90000, now);
        decide(&r);
    }
    assert_int_equal(r.tier, 2);
    int64_t back = now;
    while (decide(&r) > 0 && now - back < 5 * params.half_life_ms) {
        fetch(&r, r.tier, 200, now);
        now += 100;
    }
    assert_true(now - back <= params.half_life_ms);
}

/* A host's speed is on the border between two tiers and varies by 10 %. The tier may change only a
 * few times in 10,000 samples. */
static void flapping_is_bounded(void **state)
{
    (void)state;
    static const int64_t borders[] = {1000 * 10 / 12, 5000 * 10 / 12, 1000 * 100 / 150, 5000 * 100 / 150};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t s = seed;
        struct pp_route r = {0};
        int changes = 0;
        for (int i = 0; i < 10000; i++) {
            int64_t ms = borders[seed % 4] * pp_test_between(&s, 90, 110) / 100;
            uint8_t before = r.tier;
            fetch(&r, r.tier, ms, i * 1000);
            changes += i > 100 && decide(&r) != before;
        }
        assert_true(changes <= 4);
    }
}

static void long_rest(void **state)
{
    (void)state;
    struct pp_route r = {0};
    for (int i = 0; i < 100; i++)
        fetch(&r, r.tier, 200, i);
    assert_int_equal(decide(&r), 0);
    int64_t next_year = (int64_t)365 * 24 * 60 * MINUTE;
    add(&r, 0, 900, false, next_year); /* one slow transfer is not enough to decide */
    assert_int_equal(decide(&r), 0);
    assert_true(pp_route_mean_ms(&r) > 500 && pp_route_mean_ms(&r) < 600);
    add(&r, 0, 200, false, 0); /* a time before the last one does no harm */
    assert_int_equal(r.updated_ms, next_year);
}

static void the_first_samples_decide_early(void **state)
{
    (void)state;
    struct pp_route r = {0};
    assert_int_equal(pp_route_early(&r, tiers, 3, &params), 0);
    add(&r, 0, 1000, true, 0);
    assert_int_equal(pp_route_early(&r, tiers, 3, &params), 1);
    pp_route_add(&r, tiers, 3, &params, (struct pp_route_sample){1, false, true, 5000},
                 /* The mean of 1.2 s would need the tier of 5 s, but a timeout in this tier leads
                  * to the next one. */
                 1);
    assert_int_equal(pp_route_early(&r, tiers, 3, &params), 2);
    assert_int_equal(r.tier, 0); /* pp_route_early() does not change the route */
    r = (struct pp_route){0};
    add(&r, 0, 200, false, 0);
    add(&r, 0, 200, false, 1);
    add(&r, 0, 1000, true, 2); /* One timeout after two fast answers does not change the tier. */
    assert_int_equal(pp_route_early(&r, tiers, 3, &params), 0);
    r = (struct pp_route){.tier = 1}; /* This is a saved route that has no samples yet. */
    assert_int_equal(pp_route_early(&r, tiers, 3, &params), 1);
}

/* Adding samples as a batch must have the same effect as adding them one by one. */
static void batch_is_its_samples(void **state)
{
    (void)state;
    struct pp_route one = {0}, all = {0};
    struct pp_route_batch batch = {0};
    uint64_t s = 7;
    for (int round = 0; round < 10; round++) {
        batch = (struct pp_route_batch){0};
        for (int i = 0; i < 20; i++) {
            int64_t ms = pp_test_between(&s, 0, 6000);
            uint8_t tier = (uint8_t)pp_test_between(&s, 0, 2);
            bool over = ms > tiers[tier].timeout_ms;
            struct pp_route_sample one_of = {tier, pp_test_between(&s, 0, 1) == 1, over, ms};
            pp_route_batch_add(&batch, tiers, 3, params.margin, one_of);
            pp_route_add(&one, tiers, 3, &params, one_of, round * MINUTE);
        }
        pp_route_merge(&all, &params, &batch, round * MINUTE);
        assert_true(all.weight_sum - one.weight_sum < 1e-6 && one.weight_sum - all.weight_sum < 1e-6);
        assert_true(pp_route_mean_ms(&all) - pp_route_mean_ms(&one) < 1e-3);
        assert_int_equal(decide(&all), decide(&one));
    }
    pp_route_merge(&all, &params, &(struct pp_route_batch){0},
                   1000 * MINUTE); /* an empty batch changes nothing */
    assert_int_equal(all.updated_ms, 9 * MINUTE);
}

static void list_of_tiers_changes(void **state)
{
    (void)state;
    struct pp_route r = {0};
    for (int i = 0; i < 10; i++)
        fetch(&r, r.tier, 20000, i);
    assert_int_equal(decide(&r), 2);
    assert_int_equal(pp_route_decide(&r, tiers, 2, &params), 1);
    pp_route_add(&r, tiers, 2, &params, (struct pp_route_sample){7, true, true, 100}, 20);
    assert_int_equal(pp_route_decide(&r, tiers, 1, &params), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(converges),
        cmocka_unit_test(noisy_hosts),
        cmocka_unit_test(five_samples_decide),
        cmocka_unit_test(always_timing_out_moves_up),
        cmocka_unit_test(one_timeout_among_many_moves_nothing),
        cmocka_unit_test(gets_faster),
        cmocka_unit_test(outage_is_forgotten),
        cmocka_unit_test(flapping_is_bounded),
        cmocka_unit_test(long_rest),
        cmocka_unit_test(the_first_samples_decide_early),
        cmocka_unit_test(batch_is_its_samples),
        cmocka_unit_test(list_of_tiers_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
