/* Tests the rules of counters: keys, who may use them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/counter.h"

static void keys(void **state)
{
    (void)state;
    char longest[130];
    memset(longest, 'a', sizeof longest);
    longest[128] = '\0';
    static const char *const good[] = {"a", "view:42:ad-1", "A.z_0-9:", "photo:00ff"};
    static const char *const bad[] = {"", " ", "a b", "a/b", "\xc3\xa4", "a\n", "{a}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(pp_counter_key_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pp_counter_key_valid(bad[i]));
    assert_true(pp_counter_key_valid(longest));
    longest[128] = 'a';
    longest[129] = '\0';
    assert_false(pp_counter_key_valid(longest));
}

static void who_may_use_a_counter(void **state)
{
    (void)state;
    assert_true(pp_counter_may_use(NULL, "anything"));
    assert_true(pp_counter_may_use("42", "view:42:ad-1"));
    assert_true(pp_counter_may_use("42", "view:42:"));
    static const char *const others[] = {"view:42",    "view:421:a", "view:4:a", "view::42:", "photo:42:a",
                                         "View:42:ad", "42:ad",      "view:",    ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(pp_counter_may_use("42", others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(who_may_use_a_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
