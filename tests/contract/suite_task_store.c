/* suite_task_store.c: runs the parts of the task store's suite. A test of a new rule goes into the
 * part that has its subject. */
#include "suite_task_store.h"

#include "suite_store_tests.h"

int pp_suite_task_store(const struct pp_store_subject *subject)
{
    static const struct store_tests *const parts[] = {
        &store_plan_tests,    &store_claim_tests,    &store_park_tests,  &store_read_tests,
        &store_waiting_tests, &store_attempts_tests, &store_items_tests, &store_forget_tests,
        &store_outbox_tests,  &store_random_tests};
    int failed = 0;
    sk_use(subject);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        failed += _cmocka_run_group_tests(subject->name, parts[i]->tests, parts[i]->n, NULL, NULL);
    return failed;
}
