/* suite_store_tests.h: declares the parts of the task store's suite, which suite_task_store.c runs
 * one by one. */
#ifndef PP_SUITE_STORE_TESTS_H
#define PP_SUITE_STORE_TESTS_H

#include "suite_store_kit.h"

struct store_tests {
    const struct CMUnitTest *tests;
    size_t n;
};

extern const struct store_tests store_plan_tests, store_claim_tests, store_read_tests, store_outbox_tests,
    store_random_tests, store_park_tests, store_waiting_tests, store_attempts_tests, store_items_tests,
    store_forget_tests;

#endif
