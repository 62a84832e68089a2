/* Tests why open photos are open, and when the next of them starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/reason.h"
#include "prng.h"

#define NOW INT64_C(1000000)

static struct pp_reason_facts facts(void)
{
    struct pp_reason_facts f = {.now_ms = NOW, .rpm = 60};
    for (size_t q = 0; q < PP_QUEUES; q++)
        f.transfer_ms[q] = 5000;
    return f;
}

static void add(struct pp_waits *w, uint8_t queue, bool claimed, bool parked, uint32_t attempts, int64_t due,
                uint64_t n)
{
    const struct pp_wait_task t = {
        .claimed = claimed, .parked = parked, .queue = queue, .attempts = attempts, .due_ms = due};
    pp_waits_add(w, &t, n, NOW);
}

static struct pp_reasons reasons(const struct pp_reason_facts *f, const struct pp_waits *w, uint64_t open)
{
    struct pp_reasons r;
    uint64_t sum = 0;

    pp_reasons_of(&r, f, w, open);
    for (size_t i = 0; i < PP_REASON_COUNT; i++)
        sum += r.photos[i];
    assert_int_equal(sum, open);
    return r;
}

static void each_class_has_its_reason(void **state)
{
    (void)state;
    struct pp_reason_facts f = facts();
    struct pp_waits w = {.photos = 0};

    add(&w, 0, true, false, 1, NOW, 1);
    add(&w, 0, false, false, 0, NOW, 2);
    add(&w, 0, false, false, 0, NOW - PP_WAIT_NEXT_MS - 1, 4);
    add(&w, 1, false, false, 2, NOW + 9000, 8);
    add(&w, 1, false, true, 0, NOW + 7000, 16);
    struct pp_reasons r = reasons(&f, &w, 31);
    assert_int_equal(r.photos[PP_REASON_IN_FLIGHT], 1);
    assert_int_equal(r.photos[PP_REASON_QUEUED], 2);
    assert_int_equal(r.photos[PP_REASON_LIMIT], 4);
    assert_int_equal(r.photos[PP_REASON_RETRY], 8);
    assert_int_equal(r.photos[PP_REASON_HOST], 16);
    assert_int_equal(r.next_ms, NOW);
    assert_int_equal(r.last_ms, NOW + 14000);

    f.busy = 1;
    assert_int_equal(reasons(&f, &w, 31).photos[PP_REASON_QUEUED], 6);
    f.unserved = 2;
    assert_int_equal(reasons(&f, &w, 31).photos[PP_REASON_UNSERVED], 24);
    f.paused = true;
    r = reasons(&f, &w, 31);
    assert_int_equal(r.photos[PP_REASON_PAUSED], 30);
    assert_int_equal(r.next_ms, 0);
}

static void the_next_start_is_the_earliest(void **state)
{
    (void)state;
    struct pp_reason_facts f = facts();
    struct pp_waits w = {.photos = 0};

    add(&w, 0, false, false, 1, NOW + 9000, 1);
    add(&w, 0, false, false, 1, NOW + 4000, 1);
    assert_int_equal(reasons(&f, &w, 2).next_ms, NOW + 4000);
    add(&w, 0, false, false, 0, NOW - 60000, 1); /* held back by the limit */
    assert_int_equal(reasons(&f, &w, 3).next_ms, 0);
    f.permit_ms = NOW + 1500;
    assert_int_equal(reasons(&f, &w, 3).next_ms, NOW + 1500);
    f.permit_ms = NOW - 1;
    assert_int_equal(reasons(&f, &w, 3).next_ms, NOW);
}

static void nobody_knows_when_a_host_is_up_again(void **state)
{
    (void)state;
    struct pp_reason_facts f = facts();
    struct pp_waits w = {.photos = 0};
    const struct pp_wait_task held = {.parked = true, .due_ms = NOW + 90000, .wait_until_ms = NOW + 90000};

    add(&w, 0, false, true, 0, NOW + 7000, 1); /* a slow host, until a known time */
    assert_int_equal(reasons(&f, &w, 1).next_ms, NOW + 7000);
    pp_waits_add(&w, &held, 1, NOW);
    struct pp_reasons r = reasons(&f, &w, 2);
    assert_int_equal(r.photos[PP_REASON_HOST], 2);
    assert_int_equal(r.next_ms, 0);
    assert_int_equal(pp_reasons_eta(&r, &f, 2, 1), -1);
}

/* Whatever was counted, the numbers add up to the open photos. */
static void reasons_add_up(void **state)
{
    (void)state;
    struct pp_reason_facts f = facts();

    for (uint64_t seed = 1; seed <= 500; seed++) {
        uint64_t p = seed;
        struct pp_waits w = {.more = (uint64_t)pp_test_between(&p, 0, 2 - 1)};
        for (uint64_t i = (uint64_t)pp_test_between(&p, 0, 6 - 1); i > 0; i--)
            add(&w, (uint8_t)(uint64_t)pp_test_between(&p, 0, PP_QUEUES - 1),
                (uint64_t)pp_test_between(&p, 0, 2 - 1), (uint64_t)pp_test_between(&p, 0, 2 - 1), 1,
                NOW - 5000 + (int64_t)(uint64_t)pp_test_between(&p, 0, 10000 - 1),
                1 + (uint64_t)pp_test_between(&p, 0, 1000 - 1));
        f.paused = (uint64_t)pp_test_between(&p, 0, 4 - 1) == 0;
        f.unserved = (uint32_t)(uint64_t)pp_test_between(&p, 0, 16 - 1);
        reasons(&f, &w, (uint64_t)pp_test_between(&p, 0, 3000 - 1));
    }
}

static void photos_that_are_not_planned_are_queued(void **state)
{
    (void)state;
    const struct pp_reason_facts f = facts();
    struct pp_waits w = {.photos = 0};

    assert_int_equal(reasons(&f, &w, 7).photos[PP_REASON_QUEUED], 7);
    add(&w, 0, true, false, 1, NOW, 10);
    w.more = true; /* a part was counted: the rest is like it */
    assert_int_equal(reasons(&f, &w, 1000).photos[PP_REASON_IN_FLIGHT], 1000);
}

static void the_end_is_estimated_from_limit_rate_and_due_times(void **state)
{
    (void)state;
    struct pp_reason_facts f = facts();
    struct pp_waits w = {.photos = 0};

    f.rpm = 3;
    add(&w, 0, false, false, 0, NOW - 60000, 14);
    struct pp_reasons r = reasons(&f, &w, 14);
    assert_int_equal(pp_reasons_eta(&r, &f, 14, 3.08), 280); /* by the limit, not by the burst before */

    w = (struct pp_waits){.photos = 0};
    add(&w, 0, false, false, 2, NOW + 60000, 3);
    r = reasons(&f, &w, 3);
    assert_int_equal(pp_reasons_eta(&r, &f, 3, 5), 65); /* the last try, and its tier */
    assert_int_equal(pp_reasons_eta(&r, &f, 3, 0), 65);

    w = (struct pp_waits){.photos = 0};
    add(&w, 0, false, false, 0, NOW, 100);
    r = reasons(&f, &w, 100);
    assert_int_equal(pp_reasons_eta(&r, &f, 100, 10), 10);
    assert_int_equal(pp_reasons_eta(&r, &f, 100, 0), -1); /* nothing can be said yet */
    assert_int_equal(pp_reasons_eta(&r, &f, 0, 0), 0);
    f.paused = true;
    r = reasons(&f, &w, 100);
    assert_int_equal(pp_reasons_eta(&r, &f, 100, 10), -1);
}

static void workers_name_the_tiers_that_they_serve(void **state)
{
    (void)state;
    assert_true(pp_reason_serves("all", 5000));
    assert_true(pp_reason_serves("1,5,30", 5000));
    assert_true(pp_reason_serves("0.25,5", 250));
    assert_false(pp_reason_serves("15,50", 5000));
    assert_false(pp_reason_serves("", 5000));
    assert_false(pp_reason_serves("x,5", 5000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_has_its_reason),
        cmocka_unit_test(the_next_start_is_the_earliest),
        cmocka_unit_test(nobody_knows_when_a_host_is_up_again),
        cmocka_unit_test(reasons_add_up),
        cmocka_unit_test(photos_that_are_not_planned_are_queued),
        cmocka_unit_test(the_end_is_estimated_from_limit_rate_and_due_times),
        cmocka_unit_test(workers_name_the_tiers_that_they_serve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
