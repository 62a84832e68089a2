/* suite_store_attempts.c: tests the last attempts of a photo: which settlements record one, and how
 * many the store keeps. */
#include <string.h>

#include "suite_store_tests.h"

/* Returns an attempt that differs from that of any other number. */
static struct pp_attempt attempt(int number)
{
    static const char *const addresses[] = {NULL, "192.0.2.7", "2001:db8::7"};
    return (struct pp_attempt){.at = 1790000000000 + number,
                               .ms = 10u * (uint32_t)number,
                               .code = number % 2 ? 0 : 404,
                               .http_status = (uint16_t)(number % 4 ? 200 + number : 0),
                               .tier = (uint8_t)(number % 3),
                               .address = addresses[number % 3]};
}

/* Settles the task, with the attempt of this number. Returns whether the settlement was stale. */
static bool settle_as(struct store_kit *k, const char *worker, const struct pp_task *t,
                      enum pp_settle_kind kind, enum pp_outcome_kind outcome, int number)
{
    struct pp_settlement s = sk_settlement(t, outcome);
    if (kind != PP_SETTLE_FINAL)
        s = (struct pp_settlement){.task = t, .kind = kind, .due_ms = k->now};
    s.attempt = attempt(number);
    sk_settle(k, worker, &s, 1);
    return s.stale;
}

static void retry(struct store_kit *k, int number)
{
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    assert_false(settle_as(k, KIT_WORKER, t, PP_SETTLE_RETRY, PP_OUTCOME_OPEN, number));
}

static void end(struct store_kit *k, enum pp_outcome_kind outcome, int number)
{
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    assert_false(settle_as(k, KIT_WORKER, t, PP_SETTLE_FINAL, outcome, number));
}

/* Asserts that the photo "p" has the attempts of these numbers, and no others. */
static void check(struct store_kit *k, int first, int last)
{
    struct pp_store_photo *p = sk_photo(k, "c", "p");
    assert_true(p->named);
    assert_int_equal(p->n_ended, last - first + 1);
    for (int i = first; i <= last; i++) {
        const struct pp_attempt *found = &p->ended[i - first], due = attempt(i);
        assert_int_equal(found->at, due.at);
        assert_int_equal(found->ms, due.ms);
        assert_int_equal(found->code, due.code);
        assert_int_equal(found->http_status, due.http_status);
        assert_int_equal(found->tier, due.tier);
        assert_string_equal(found->address ? found->address : "none", due.address ? due.address : "none");
    }
}

static void attempts_of_all_imports_in_order(void **state)
{
    struct store_kit *k = *state;
    assert_false(sk_photo(k, "c", "p")->named);
    sk_plan(k, "c", "b_1", "a: p");
    check(k, 1, 0);
    retry(k, 1);
    check(k, 1, 1);
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    assert_false(settle_as(k, KIT_WORKER, t, PP_SETTLE_RELEASE, PP_OUTCOME_OPEN, 2));
    assert_int_equal(sk_photo(k, "c", "p")->attempts, 1);
    end(k, PP_OUTCOME_FAILED, 3);
    check(k, 1, 3);
    assert_false(sk_photo(k, "c", "p")->open);
    sk_plan(k, "c", "b_2", "b: p");
    check(k, 1, 3);
    end(k, PP_OUTCOME_STORED, 4);
    sk_plan(k, "c", "b_3", "b: p");
    end(k, PP_OUTCOME_UNCHANGED, 5);
    sk_reopen(k);
    check(k, 1, 5);
    sk_plan(k, "c", "b_4", "c: q");
    assert_int_equal(sk_photo(k, "c", "q")->n_ended, 0);
    assert_false(sk_photo(k, "other", "p")->named);
}

static void a_photo_keeps_its_last_attempts(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    for (int i = 1; i <= PP_ATTEMPTS_KEPT + 3; i++)
        retry(k, i);
    check(k, 4, PP_ATTEMPTS_KEPT + 3);
    struct pp_settlement s = sk_settlement(sk_claim_photo(k, "c", "p"), PP_OUTCOME_FAILED);
    s.ladder = true;
    s.attempt = attempt(PP_ATTEMPTS_KEPT + 4);
    sk_settle(k, KIT_WORKER, &s, 1);
    check(k, 5, PP_ATTEMPTS_KEPT + 4);
}

static void stale_settlements_record_nothing(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p; b: p");
    struct pp_task *first = sk_claim_photo(k, "c", "p");
    assert_true(settle_as(k, "host-2-bbbb", first, PP_SETTLE_FINAL, PP_OUTCOME_FAILED, 9));
    assert_false(settle_as(k, KIT_WORKER, first, PP_SETTLE_RETRY, PP_OUTCOME_OPEN, 1));
    assert_true(settle_as(k, KIT_WORKER, first, PP_SETTLE_RETRY, PP_OUTCOME_OPEN, 1));
    check(k, 1, 1);
    struct pp_task *second = sk_claim_photo(k, "c", "p");
    k->now += KIT_LEASE_MS;
    assert_int_equal(sk_reap(k, NULL)->lapsed, 1);
    assert_true(settle_as(k, KIT_WORKER, second, PP_SETTLE_FINAL, PP_OUTCOME_STORED, 9));
    check(k, 1, 1);
    struct pp_task *third = sk_claim_photo(k, "c", "p");
    assert_false(settle_as(k, KIT_WORKER, third, PP_SETTLE_FINAL, PP_OUTCOME_STORED, 2));
    assert_true(settle_as(k, KIT_WORKER, third, PP_SETTLE_FINAL, PP_OUTCOME_STORED, 2));
    check(k, 1, 2);
}

static void settlements_without_an_attempt(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    sk_back(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_SETTLE_RELEASE, 0, k->now);
    check(k, 1, 0);
    retry(k, 1);
    struct pp_settlement s = sk_settlement(sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED);
    s.attempt = (struct pp_attempt){0};
    s.outcome.shared = true;
    sk_settle(k, KIT_WORKER, &s, 1);
    assert_false(s.stale);
    check(k, 1, 1);
}

/* No item waits for the photo any more when the attempt ends: the task is deleted. */
static void attempts_of_cancelled_photos(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    sk_cancel(k, "c", "b_1");
    assert_false(settle_as(k, KIT_WORKER, t, PP_SETTLE_RETRY, PP_OUTCOME_OPEN, 1));
    assert_false(sk_photo(k, "c", "p")->open);
    check(k, 1, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)
static const struct CMUnitTest tests[] = {
    T(attempts_of_all_imports_in_order), T(a_photo_keeps_its_last_attempts),
    T(stale_settlements_record_nothing), T(settlements_without_an_attempt),
    T(attempts_of_cancelled_photos),
};
const struct store_tests store_attempts_tests = {tests, sizeof tests / sizeof *tests};
