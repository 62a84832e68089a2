/* suite_store_waiting.c: tests the counts of open photos by the states of their tasks. */
#include "photopool/task_rules.h"
#include "suite_store_tests.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND };

static struct pp_waits waits_of(struct store_kit *k, const char *client, const char *batch, size_t limit)
{
    struct pp_wait_row row = {.batch_id = batch, .client = client};
    struct pp_store_waiting r = {.rows = &row, .n = 1, .limit = limit, .now_ms = k->now};
    KIT_OK(k, waiting, &r);
    return row.waits;
}

static uint64_t count(const struct pp_waits *w, uint8_t queue, enum pp_wait_class class)
{
    return w->at[queue][class].photos;
}

static void open_photos_are_counted_by_their_tasks(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q/h r; b: p s=failed; c: s=failed");
    struct pp_waits w = waits_of(k, "c", "b_1", 100);
    assert_int_equal(w.photos, 4); /* p is open in two items */
    assert_int_equal(count(&w, 0, PP_WAIT_DUE), 4);
    assert_false(w.more);

    struct pp_task *p = sk_claim_photo(k, "c", "p");
    w = waits_of(k, "c", "b_1", 100);
    assert_int_equal(count(&w, 0, PP_WAIT_CLAIMED), 2);
    assert_int_equal(count(&w, 0, PP_WAIT_DUE), 2);

    sk_back(k, KIT_WORKER, p, PP_SETTLE_RETRY, 1, k->now + MINUTE);
    w = waits_of(k, "c", "b_1", 100);
    assert_int_equal(count(&w, 1, PP_WAIT_RETRY), 2);
    assert_int_equal(w.at[1][PP_WAIT_RETRY].first_ms, k->now + MINUTE);
    assert_int_equal(w.at[1][PP_WAIT_RETRY].last_ms, k->now + MINUTE);

    struct pp_park_row park = {"c", "h", k->now + 2 * MINUTE, k->now + 9 * MINUTE, false};
    struct pp_store_park r = {.rows = &park, .n = 1, .now_ms = k->now};
    KIT_OK(k, park, &r);
    k->now += PP_WAIT_NEXT_MS + SECOND;
    w = waits_of(k, "c", "b_1", 100);
    assert_int_equal(count(&w, 0, PP_WAIT_PARKED), 1);
    assert_int_equal(count(&w, 0, PP_WAIT_OVERDUE), 1);
    assert_int_equal(count(&w, 1, PP_WAIT_RETRY), 2);
    assert_int_equal(w.photos, 4);
    park.due_ms = k->now + 60 * MINUTE; /* its host is open: it waits for a probe */
    KIT_OK(k, park, &r);
    w = waits_of(k, "c", "b_1", 100);
    assert_int_equal(count(&w, 0, PP_WAIT_HELD), 1);
    assert_int_equal(count(&w, 0, PP_WAIT_PARKED), 0);
    assert_int_equal(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "r"), PP_OUTCOME_STORED), false);
    assert_int_equal(waits_of(k, "c", "b_1", 100).photos, 3);
}

static void each_batch_has_its_own_counts(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q");
    sk_plan(k, "other", "b_2", "a: p");
    sk_plan(k, "c", "b_3", "b: p");
    struct pp_wait_row rows[] = {{"b_1", "c", {.photos = 9}}, {"b_2", "other", {.photos = 9}},
                                 {"b_3", "c", {.photos = 9}}, {"b_2", "c", {.photos = 9}},
                                 {"b_9", "c", {.photos = 9}}, {"b_1", "nobody", {.photos = 9}}};
    struct pp_store_waiting r = {.rows = rows, .n = 6, .limit = 100, .now_ms = k->now};
    static const uint64_t expected[] = {2, 1, 1, 0, 0, 0};
    KIT_OK(k, waiting, &r);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(rows[i].waits.photos, expected[i]);
}

static void counting_is_bounded(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q; b: r s; c: t");
    struct pp_waits w = waits_of(k, "c", "b_1", 3);
    assert_int_equal(w.photos, 4); /* whole items */
    assert_true(w.more);
    w = waits_of(k, "c", "b_1", 5);
    assert_int_equal(w.photos, 5);
    assert_false(w.more);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(open_photos_are_counted_by_their_tasks, sk_open, sk_close),
    cmocka_unit_test_setup_teardown(each_batch_has_its_own_counts, sk_open, sk_close),
    cmocka_unit_test_setup_teardown(counting_is_bounded, sk_open, sk_close),
};

const struct store_tests store_waiting_tests = {tests, sizeof tests / sizeof *tests};
