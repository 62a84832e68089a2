/* The transition table: every pair of state and event, every pair of states, written out here a second time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/task.h"

/* A row a state, a column an event: w c S U F X Q, or - where the event is not legal. */
static const char letters[] = "wcSUFXQ";
static const char *const due[PP_TASK_STATE_COUNT] = {
    /*                 claim release retry promote succeed keep fail lapse cancel quarantine */
    [PP_TASK_WAITING] = "c-------X-",     [PP_TASK_CLAIMED] = "-wwwSUFwXQ",
    [PP_TASK_STORED] = "----------",      [PP_TASK_UNCHANGED] = "----------",
    [PP_TASK_FAILED] = "----------",      [PP_TASK_CANCELLED] = "----------",
    [PP_TASK_QUARANTINED] = "----------",
};

static void test_every_event(void **state)
{
    (void)state;
    for (int from = 0; from < PP_TASK_STATE_COUNT; from++)
        for (int event = 0; event < PP_TASK_EVENT_COUNT; event++) {
            enum pp_task_state next = PP_TASK_STATE_COUNT;
            bool legal = pp_task_next((enum pp_task_state)from, (enum pp_task_event)event, &next);
            char expected = due[from][event];
            assert_int_equal(legal, expected != '-');
            assert_int_equal(next, legal ? strchr(letters, expected) - letters : PP_TASK_STATE_COUNT);
        }
    enum pp_task_state next;
    assert_false(pp_task_next(PP_TASK_STATE_COUNT, PP_EVENT_CLAIM, &next));
    assert_false(pp_task_next(PP_TASK_WAITING, PP_TASK_EVENT_COUNT, &next));
}

static void test_every_pair(void **state)
{
    (void)state;
    for (int from = 0; from < PP_TASK_STATE_COUNT; from++)
        for (int to = 0; to < PP_TASK_STATE_COUNT; to++)
            assert_int_equal(pp_task_legal((enum pp_task_state)from, (enum pp_task_state)to),
                             strchr(due[from], letters[to]) != NULL);
    assert_false(pp_task_legal(PP_TASK_WAITING, PP_TASK_STATE_COUNT));
    assert_false(pp_task_legal(PP_TASK_STATE_COUNT, PP_TASK_WAITING));
    assert_false(pp_task_legal(PP_TASK_WAITING, (enum pp_task_state)64));
}

static void test_terminal(void **state)
{
    (void)state;
    for (int s = 0; s < PP_TASK_STATE_COUNT; s++)
        assert_int_equal(pp_task_terminal((enum pp_task_state)s),
                         s != PP_TASK_WAITING && s != PP_TASK_CLAIMED);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(pp_task_state_name(PP_TASK_WAITING), "waiting");
    assert_string_equal(pp_task_state_name(PP_TASK_QUARANTINED), "quarantined");
    assert_string_equal(pp_task_state_name(PP_TASK_STATE_COUNT), "?");
    assert_string_equal(pp_task_event_name(PP_EVENT_CLAIM), "claim");
    assert_string_equal(pp_task_event_name(PP_EVENT_QUARANTINE), "quarantine");
    assert_string_equal(pp_task_event_name(PP_TASK_EVENT_COUNT), "?");
}

static void test_losses(void **state)
{
    (void)state;
    assert_int_equal(pp_task_after_loss(0), PP_LOSS_WAIT);
    assert_int_equal(pp_task_after_loss(1), PP_LOSS_WAIT);
    assert_int_equal(pp_task_after_loss(2), PP_LOSS_SUSPECT);
    assert_int_equal(pp_task_after_loss(3), PP_LOSS_QUARANTINE);
    assert_int_equal(pp_task_after_loss(UINT32_MAX), PP_LOSS_QUARANTINE);
    for (uint32_t losses = 0; losses < 5; losses++) {
        enum pp_task_state next;
        assert_true(pp_task_next(PP_TASK_CLAIMED, pp_task_loss_event(pp_task_after_loss(losses)), &next));
        assert_int_equal(next, losses < 3 ? PP_TASK_WAITING : PP_TASK_QUARANTINED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_event), cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_terminal),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
