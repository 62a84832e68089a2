/* Tests the ledger: limits of an account and of its parents, and use that exceeds a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/ledger.h"

static void takes_up_to_the_limit(void **state)
{
    (void)state;
    struct pp_account a;
    pp_account_init(&a, NULL, 10);
    assert_true(pp_account_take(&a, 4));
    assert_true(pp_account_take(&a, 6));
    assert_false(pp_account_take(&a, 1));
    assert_int_equal(a.used, 10);
    assert_int_equal(a.refused, 1);
    pp_account_give(&a, 3);
    assert_int_equal(pp_account_left(&a), 3);
    assert_false(pp_account_take(&a, INT64_MAX));
    assert_true(pp_account_take(&a, 3));
    pp_account_give(&a, 10);
    assert_int_equal(a.used, 0);
}

static void a_use_counts_in_the_parents(void **state)
{
    (void)state;
    struct pp_account all, one, other;
    pp_account_init(&all, NULL, 10);
    pp_account_init(&one, &all, 7);
    pp_account_init(&other, &all, PP_NO_LIMIT);
    assert_true(pp_account_take(&one, 7));
    assert_false(pp_account_take(&one, 1)); /* its own limit */
    assert_int_equal(all.refused, 0);
    assert_int_equal(all.used, 7);
    assert_int_equal(pp_account_left(&other), 3);
    assert_false(pp_account_take(&other, 4)); /* the parent's limit: neither account changes */
    assert_int_equal(other.used, 0);
    assert_int_equal(all.used, 7);
    assert_int_equal(all.refused, 1);
    pp_account_force(&other, 5);
    assert_int_equal(all.used, 12);
    assert_int_equal(pp_account_left(&one), 0);
    pp_account_give(&other, 5);
    pp_account_give(&one, 7);
    assert_int_equal(all.used, 0);
}

static void a_ledger_begins_without_limits(void **state)
{
    (void)state;
    struct pp_ledger l;
    pp_ledger_init(&l);
    for (enum pp_resource r = 0; r < PP_RES_COUNT; r++) {
        assert_true(pp_account_take(&l.rows[r], 1u << 30));
        assert_true(pp_resource_label(r)[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_up_to_the_limit),
        cmocka_unit_test(a_use_counts_in_the_parents),
        cmocka_unit_test(a_ledger_begins_without_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
