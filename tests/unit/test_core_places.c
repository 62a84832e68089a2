/* Tests when a worker asks for a host's places, and how many it uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/places.h"
#include "prng.h"

#define T0 INT64_C(1000000)

static const struct pp_places_lease lease = {.use_ms = 30000, .lease_ms = 60000};

static int64_t due(const struct pp_places *p, uint32_t limit, int64_t now)
{
    return pp_places_due(p, limit, &lease, now);
}

/* Asks, and gets `got`. */
static void ask(struct pp_places *p, uint32_t limit, uint32_t got, int64_t now)
{
    pp_places_ask(p, limit, now);
    assert_true(due(p, limit, now) == INT64_MAX); /* one request at a time */
    pp_places_answer(p, got, &lease);
}

static void wait_n(struct pp_places *p, int n, int64_t now)
{
    while (n-- > 0)
        pp_places_wait(p, now);
}

/* Requests that wait begin, as far as there are places. */
static int begin_all(struct pp_places *p, uint32_t limit, int64_t now)
{
    int n = 0;

    for (; p->waiting > 0 && pp_places_free(p, limit, now); n++) {
        pp_places_wait_end(p, now);
        pp_places_begin(p, now);
    }
    return n;
}

static void nothing_is_asked_without_need(void **state)
{
    (void)state;
    struct pp_places p = {0};

    assert_true(due(&p, 3, T0) == INT64_MAX);
    assert_false(pp_places_free(&p, 3, T0));
    assert_true(pp_places_unused(&p, &lease, T0));
}

static void a_need_is_asked_at_once(void **state)
{
    (void)state;
    struct pp_places p = {0};

    wait_n(&p, 5, T0);
    assert_int_equal(due(&p, 3, T0), T0);
    pp_places_ask(&p, 3, T0);
    assert_int_equal(p.want, 3);
    assert_int_equal(p.keep, 0);
    assert_false(pp_places_free(&p, 3, T0)); /* before the answer nothing is held */
    pp_places_answer(&p, 3, &lease);
    assert_int_equal(begin_all(&p, 3, T0), 3);
    assert_int_equal(due(&p, 3, T0 + 1), T0 + PP_PLACES_RENEW_MS);
}

static void refusals_are_asked_again_with_pauses(void **state)
{
    (void)state;
    struct pp_places p = {0};
    int64_t now = T0, pause = PP_PLACES_RETRY_MS;

    wait_n(&p, 2, now);
    for (int i = 0; i < 6; i++) {
        ask(&p, 3, 0, now);
        assert_int_equal(due(&p, 3, now), now + pause);
        now += pause;
        pause = 2 * pause < PP_PLACES_RETRY_MAX_MS ? 2 * pause : PP_PLACES_RETRY_MAX_MS;
    }
    ask(&p, 3, 2, now);
    assert_int_equal(begin_all(&p, 3, now), 2);
    wait_n(&p, 1, now); /* a new need does not pay for old refusals */
    assert_int_equal(due(&p, 3, now), now);
}

static void what_is_not_needed_is_given_back(void **state)
{
    (void)state;
    struct pp_places p = {0};

    wait_n(&p, 2, T0);
    ask(&p, 3, 2, T0);
    begin_all(&p, 3, T0);
    pp_places_end(&p, T0 + 500);
    assert_int_equal(due(&p, 3, T0 + 500), T0 + 500 + PP_PLACES_IDLE_MS);
    pp_places_begin(&p, T0 + 900); /* it is needed again */
    pp_places_end(&p, T0 + 1000);
    pp_places_end(&p, T0 + 1000);
    assert_int_equal(due(&p, 3, T0 + 1000), T0 + 1000 + PP_PLACES_IDLE_MS);
    pp_places_ask(&p, 3, T0 + 2000);
    assert_int_equal(p.want, 0);
    assert_int_equal(p.keep, 0);
    assert_false(pp_places_free(&p, 3, T0 + 2000)); /* from the request on, not from its answer on */
    pp_places_answer(&p, 0, &lease);
    assert_true(pp_places_unused(&p, &lease, T0 + 2000));
}

static void a_shrunk_hold_ends_by_and_by(void **state)
{
    (void)state;
    struct pp_places p = {0};

    wait_n(&p, 9, T0);
    ask(&p, 3, 3, T0);
    begin_all(&p, 3, T0);
    ask(&p, 3, 1, T0 + 3000); /* the others get two */
    assert_int_equal(p.keep, 3);
    pp_places_end(&p, T0 + 3100);
    assert_false(pp_places_free(&p, 3, T0 + 3100));
    assert_int_equal(due(&p, 3, T0 + 3100), T0 + 3000 + PP_PLACES_RETRY_MS);
    pp_places_ask(&p, 3, T0 + 3250);
    assert_int_equal(p.keep, 2); /* the coordinator learns that one has ended */
    pp_places_answer(&p, 1, &lease);
    pp_places_end(&p, T0 + 3300);
    assert_false(pp_places_free(&p, 3, T0 + 3300));
    pp_places_end(&p, T0 + 3300);
    assert_true(pp_places_free(&p, 3, T0 + 3300));
}

static void a_hold_ends_before_its_lease(void **state)
{
    (void)state;
    struct pp_places p = {0};

    wait_n(&p, 2, T0);
    ask(&p, 3, 2, T0);
    assert_true(pp_places_free(&p, 3, T0 + lease.use_ms - 1));
    assert_false(pp_places_free(&p, 3, T0 + lease.use_ms));
    pp_places_ask(&p, 3, T0 + lease.use_ms);
    assert_int_equal(p.keep, 0);
    pp_places_failed(&p);
    assert_false(pp_places_free(&p, 3, T0 + lease.use_ms));
    ask(&p, 3, 2, T0 + lease.use_ms + 5000);
    assert_true(pp_places_free(&p, 3, T0 + lease.use_ms + 5000));
}

static void a_lower_limit_applies_at_once(void **state)
{
    (void)state;
    struct pp_places p = {0};

    wait_n(&p, 5, T0);
    ask(&p, 5, 5, T0);
    pp_places_wait_end(&p, T0);
    pp_places_begin(&p, T0);
    assert_true(pp_places_free(&p, 5, T0));
    assert_false(pp_places_free(&p, 1, T0));
    assert_int_equal(due(&p, 1, T0 + 300), T0 + 300); /* what is above the limit is given back */
    assert_int_equal(due(&p, 0, T0), T0);             /* without a limit all is given back at once */
    pp_places_ask(&p, 0, T0);
    assert_int_equal(p.want, 0);
    assert_int_equal(p.keep, 1);
}

static void who_was_turned_away_is_still_wanted(void **state)
{
    (void)state;
    struct pp_places p = {0};

    wait_n(&p, 1, T0);
    ask(&p, 1, 0, T0);
    pp_places_turned_away(&p, 2000, T0 + 100);
    pp_places_ask(&p, 1, T0 + 2050);
    assert_int_equal(p.want, 1); /* it keeps its turn */
    pp_places_answer(&p, 0, &lease);
    pp_places_ask(&p, 1, T0 + 100 + 2000 + PP_PLACES_IDLE_MS);
    assert_int_equal(p.want, 0);
}

/* A coordinator with one place for this worker and another user. Whatever happens, it counts at
 * least what the worker uses. */
static void the_coordinator_counts_what_is_used(void **state)
{
    (void)state;
    uint64_t seed = 3;

    for (int round = 0; round < 300; round++) {
        struct pp_places p = {0};
        uint32_t counted = 0; /* by the coordinator */
        int64_t now = T0;
        for (int step = 0; step < 300; step++) {
            uint32_t limit = (uint32_t)pp_test_between(&seed, 0, 40) ? 4 : 2;
            now += pp_test_between(&seed, 0, 400);
            if (pp_test_between(&seed, 0, 1))
                pp_places_wait(&p, now);
            if (p.waiting > 0 && pp_test_between(&seed, 0, 4) == 0)
                pp_places_turned_away(&p, 1000, now);
            (void)begin_all(&p, limit, now);
            if (p.in_flight > 0 && pp_test_between(&seed, 0, 1))
                pp_places_end(&p, now);
            if (p.asking && pp_test_between(&seed, 0, 1)) {
                pp_places_failed(&p); /* it was carried out, or not */
            } else if (p.asking) {
                uint32_t got = (uint32_t)pp_test_between(&seed, 0, p.want);
                counted = got > p.keep ? got : p.keep;
                pp_places_answer(&p, got, &lease);
            } else if (due(&p, limit, now) <= now) {
                pp_places_ask(&p, limit, now);
                if (pp_test_between(&seed, 0, 1)) /* it grants nothing new: the worst case */
                    counted = p.keep;
            }
            assert_true(p.in_flight <= counted || now >= p.ends_ms);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_asked_without_need),
        cmocka_unit_test(a_need_is_asked_at_once),
        cmocka_unit_test(refusals_are_asked_again_with_pauses),
        cmocka_unit_test(what_is_not_needed_is_given_back),
        cmocka_unit_test(a_shrunk_hold_ends_by_and_by),
        cmocka_unit_test(a_hold_ends_before_its_lease),
        cmocka_unit_test(a_lower_limit_applies_at_once),
        cmocka_unit_test(who_was_turned_away_is_still_wanted),
        cmocka_unit_test(the_coordinator_counts_what_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
