/* Tests weighted rendezvous hashing: shares follow weights, few keys move, and results are the same
 * on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/rendezvous.h"

enum { KEYS = 40000 };

/* Returns which of n nodes `key` belongs to, without the node `gone` (-1: all n nodes exist). */
static int owner(int key, const uint32_t *weights, int n, int gone)
{
    char k[24], node[24];
    int best = -1;
    double top = 0;

    (void)snprintf(k, sizeof k, "client-%d", key);
    for (int i = 0; i < n; i++) {
        (void)snprintf(node, sizeof node, "worker-%d", i);
        double score = i == gone ? 0 : pp_rendezvous_score(k, node, weights[i]);
        if (score > top) {
            top = score;
            best = i;
        }
    }
    return best;
}

static void keys_are_shared_by_weight(void **state)
{
    (void)state;
    static const uint32_t weights[] = {1, 1, 2, 4};
    int count[4] = {0};
    for (int k = 0; k < KEYS; k++)
        count[owner(k, weights, 4, -1)]++;
    for (int i = 0; i < 4; i++)
        assert_in_range(count[i], KEYS / 8 * weights[i] * 95 / 100, KEYS / 8 * weights[i] * 105 / 100);
}

static void only_the_lost_ones_move(void **state)
{
    (void)state;
    static const uint32_t weights[] = {3, 3, 3, 3, 3};
    int got[5] = {0};
    for (int k = 0; k < KEYS; k++) {
        int before = owner(k, weights, 5, -1), after = owner(k, weights, 5, 2);
        if (before != 2)
            assert_int_equal(after, before);
        else
            got[after]++;
    }
    assert_int_equal(got[2], 0);
    for (int i = 0; i < 5; i++)
        if (i != 2)
            assert_in_range(got[i], KEYS / 20 * 90 / 100, KEYS / 20 * 110 / 100);
}

static void scores_are_positive_and_the_same_again(void **state)
{
    (void)state;
    for (int k = 0; k < 1000; k++) {
        char key[24];
        (void)snprintf(key, sizeof key, "%d", k);
        double score = pp_rendezvous_score(key, "w", 0);
        assert_true(score > 0);
        assert_true(score == pp_rendezvous_score(key, "w", 1)); /* weight 0 counts as 1 */
        assert_true(pp_rendezvous_score(key, "w", 2) > score);
    }
    /* The same bytes, divided differently between key and node, give another score. */
    assert_true(pp_rendezvous_score("ab", "c", 1) != pp_rendezvous_score("a", "bc", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_shared_by_weight),
        cmocka_unit_test(only_the_lost_ones_move),
        cmocka_unit_test(scores_are_positive_and_the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
