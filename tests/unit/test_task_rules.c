/* Tests the rules of a task: every pair of state and event, in a second table; losses and queues;
 * outcomes and settlements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "photopool/task_rules.h"

/* The next state for each state (row) and event (column), as a letter: w waiting, c claimed, S
 * stored, U unchanged, F failed, X cancelled, Q quarantined. "-" means that the event is not
 * legal. */
static const char letters[] = "wcSUFXQ";
static const char *const table[PP_TASK_STATE_COUNT] = {
    /*                 claim release retry promote succeed keep fail lapse cancel quarantine */
    [PP_TASK_WAITING] = "c-------X-",     [PP_TASK_CLAIMED] = "-wwwSUFwXQ",
    [PP_TASK_STORED] = "----------",      [PP_TASK_UNCHANGED] = "----------",
    [PP_TASK_FAILED] = "----------",      [PP_TASK_CANCELLED] = "----------",
    [PP_TASK_QUARANTINED] = "----------",
};

static void every_event_in_every_state(void **state)
{
    (void)state;
    for (int from = 0; from < PP_TASK_STATE_COUNT; from++)
        for (int event = 0; event < PP_TASK_EVENT_COUNT; event++) {
            char expected = table[from][event];
            enum pp_task_state next = pp_task_next((enum pp_task_state)from, (enum pp_task_event)event);
            assert_int_equal(next,
                             expected == '-' ? PP_TASK_STATE_COUNT : strchr(letters, expected) - letters);
            if (expected != '-')
                assert_int_equal(pp_task_after((enum pp_task_state)from, (enum pp_task_event)event), next);
        }
    assert_int_equal(pp_task_next(PP_TASK_STATE_COUNT, PP_EVENT_CLAIM), PP_TASK_STATE_COUNT);
    assert_int_equal(pp_task_next(PP_TASK_WAITING, PP_TASK_EVENT_COUNT), PP_TASK_STATE_COUNT);
}

static void losses_lead_to_suspect_and_quarantine(void **state)
{
    static const struct {
        uint32_t losses;
        bool suspect;
        uint8_t queue;
        enum pp_task_event event;
        enum pp_task_state next;
    } cases[] = {
        {0, false, 5, PP_EVENT_LAPSE, PP_TASK_WAITING},
        {1, false, 5, PP_EVENT_LAPSE, PP_TASK_WAITING},
        {2, true, PP_QUEUE_SUSPECT, PP_EVENT_LAPSE, PP_TASK_WAITING},
        {3, true, PP_QUEUE_SUSPECT, PP_EVENT_QUARANTINE, PP_TASK_QUARANTINED},
        {UINT32_MAX, true, PP_QUEUE_SUSPECT, PP_EVENT_QUARANTINE, PP_TASK_QUARANTINED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pp_task_suspect(cases[i].losses), cases[i].suspect);
        assert_int_equal(pp_queue_of(5, cases[i].losses), cases[i].queue);
        assert_int_equal(pp_task_loss_event(cases[i].losses), cases[i].event);
        assert_int_equal(pp_task_after(PP_TASK_CLAIMED, cases[i].event), cases[i].next);
    }
}

static void codes_that_timed_out(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 1000; code++)
        assert_int_equal(pp_code_timed_out((uint16_t)code),
                         code == PP_CODE_CONNECT_TIMEOUT || code == PP_CODE_FIRST_BYTE_TIMEOUT ||
                             code == PP_CODE_BODY_TIMEOUT || code == PP_CODE_TOO_SLOW);
}

static void outcomes_have_bytes_or_a_code(void **state)
{
    static const struct {
        bool bytes, code;
    } due[PP_OUTCOME_COUNT] = {
        [PP_OUTCOME_STORED] = {.bytes = true},
        [PP_OUTCOME_UNCHANGED] = {.bytes = true},
        [PP_OUTCOME_SKIPPED] = {.code = true},
        [PP_OUTCOME_FAILED] = {.code = true},
    };
    (void)state;
    for (int kind = 0; kind < PP_OUTCOME_COUNT; kind++) {
        assert_int_equal(pp_outcome_has_bytes((enum pp_outcome_kind)kind), due[kind].bytes);
        assert_int_equal(pp_outcome_has_code((enum pp_outcome_kind)kind), due[kind].code);
    }
}

static void an_item_gets_its_status_from_its_photos(void **state)
{
    (void)state;
    assert_int_equal(pp_item_status(0, 0), PP_ITEM_COMPLETE);
    assert_int_equal(pp_item_status(1, 0), PP_ITEM_FAILED);
    assert_int_equal(pp_item_status(1, 1), PP_ITEM_COMPLETE);
    assert_int_equal(pp_item_status(20, 1), PP_ITEM_PARTIAL);
    assert_int_equal(pp_item_status(20, 19), PP_ITEM_PARTIAL);
    assert_int_equal(pp_item_status(20, 20), PP_ITEM_COMPLETE);
}

/* Each settlement of a task in tier 1 must lead to its event. */
static void settlements_have_their_events(void **state)
{
    static const struct {
        struct pp_settlement s;
        enum pp_task_event event;
    } cases[] = {
        {{.outcome.kind = PP_OUTCOME_STORED}, PP_EVENT_SUCCEED},
        {{.outcome.kind = PP_OUTCOME_UNCHANGED}, PP_EVENT_KEEP},
        {{.outcome.kind = PP_OUTCOME_FAILED}, PP_EVENT_FAIL},
        {{.outcome.kind = PP_OUTCOME_OPEN}, PP_TASK_EVENT_COUNT},
        {{.outcome.kind = PP_OUTCOME_SKIPPED}, PP_TASK_EVENT_COUNT},
        {{.outcome.kind = PP_OUTCOME_CANCELLED}, PP_TASK_EVENT_COUNT},
        {{.kind = PP_SETTLE_RETRY, .tier = 1}, PP_EVENT_RETRY},
        {{.kind = PP_SETTLE_RETRY, .tier = 2}, PP_EVENT_PROMOTE},
        {{.kind = PP_SETTLE_RETRY, .tier = PP_QUEUE_SUSPECT - 1}, PP_EVENT_PROMOTE},
        {{.kind = PP_SETTLE_RETRY, .tier = PP_QUEUE_SUSPECT}, PP_TASK_EVENT_COUNT},
        {{.kind = PP_SETTLE_RELEASE, .tier = 1}, PP_EVENT_RELEASE},
        {{.kind = PP_SETTLE_RELEASE, .tier = PP_QUEUE_SUSPECT}, PP_TASK_EVENT_COUNT},
    };
    const struct pp_task task = {.tier = 1};
    struct pp_settlement pair[2];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pair[0] = (struct pp_settlement){.task = &task, .kind = PP_SETTLE_RELEASE};
        pair[1] = cases[i].s;
        pair[1].task = &task;
        assert_int_equal(pp_settlement_event(&pair[1]), cases[i].event);
        assert_int_equal(pp_settlements_valid(pair, 2), cases[i].event != PP_TASK_EVENT_COUNT);
    }
    assert_true(pp_settlements_valid(NULL, 0));
}

/* --- waiting for a host --- */

static void is_at(const struct pp_task_times *t, int64_t due_ms, int64_t own_ms, int64_t wait_until_ms)
{
    assert_int_equal(t->due_ms, due_ms);
    assert_int_equal(t->own_ms, own_ms);
    assert_int_equal(t->wait_until_ms, wait_until_ms);
}

static void parking_and_unparking(void **state)
{
    (void)state;
    struct pp_task_times t = pp_task_times_of(100, 0, 0);
    is_at(&t, 100, 0, 0);
    assert_false(pp_task_park(&t, 100, 900));
    assert_true(pp_task_park(&t, 200, 900));
    is_at(&t, 200, 100, 900);
    assert_false(pp_task_park(&t, 200, 900));
    assert_true(pp_task_park(&t, 1000, 2000)); /* the first wait counts */
    is_at(&t, 900, 100, 900);
    assert_false(pp_task_park(&t, 2000, 2000));
    assert_false(pp_task_probe(&t, 50)); /* its own time has not come */
    assert_false(pp_task_probe(&t, 900));
    assert_true(pp_task_probe(&t, 300));
    is_at(&t, 300, 0, 900);
    assert_true(pp_task_park(&t, 500, 0));
    is_at(&t, 500, 300, 900);
    assert_true(pp_task_unpark(&t, 200));
    is_at(&t, 300, 0, 0);
    assert_false(pp_task_unpark(&t, 200));
}

/* Nothing makes a task due before its own time, or a parked one due earlier. */
static void own_times_stay(void **state)
{
    (void)state;
    struct pp_task_times t = pp_task_times_of(1000, 500, 400);
    is_at(&t, 1000, 0, 400);
    assert_false(pp_task_park(&t, 2000, 3000)); /* its wait for the host has ended */
    is_at(&t, 1000, 0, 400);
    assert_true(pp_task_unpark(&t, 0));
    is_at(&t, 1000, 0, 0);
    assert_true(pp_task_park(&t, 2000, 3000));
    pp_task_retime(&t, 1500);
    is_at(&t, 2000, 1500, 3000);
    pp_task_retime(&t, 2500);
    is_at(&t, 2500, 0, 3000);
    assert_true(pp_task_unpark(&t, 5000));
    is_at(&t, 2500, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parking_and_unparking),
        cmocka_unit_test(own_times_stay),
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(losses_lead_to_suspect_and_quarantine),
        cmocka_unit_test(codes_that_timed_out),
        cmocka_unit_test(outcomes_have_bytes_or_a_code),
        cmocka_unit_test(an_item_gets_its_status_from_its_photos),
        cmocka_unit_test(settlements_have_their_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
