/* Tests weighted rendezvous hashing: shares follow weights, few keys move, and results are the same
 * on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/stable_hash.h"
#include "core/near.h"
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

/* A node that comes or goes, or whose weight changes, moves only its own share; the others get or
 * give by their weights. */
static void only_its_share_moves(void **state)
{
    (void)state;
    enum { NODES = 4, SUM = 10, GONE = 3 };
    static const uint32_t weights[] = {1, 2, 3, 4}, heavier[] = {1, 2, 6, 4};
    int got[NODES] = {0}, moved = 0;
    for (int k = 0; k < KEYS; k++) {
        int all = owner(k, weights, NODES, -1), without = owner(k, weights, NODES, GONE);
        assert_true(all == without || all == GONE); /* read backwards: GONE joins */
        got[without] += all == GONE;
        int after = owner(k, heavier, NODES, -1);
        assert_true(after == all || after == 2);
        moved += after != all;
    }
    for (int i = 0; i < GONE; i++) {
        int due = KEYS * 4 / SUM * (int)weights[i] / (SUM - 4);
        assert_in_range(got[i], due * 93 / 100, due * 107 / 100);
    }
    int due = KEYS * 6 / 13 - KEYS * 3 / SUM;
    assert_in_range(moved, due * 93 / 100, due * 107 / 100);
}

/* A fleet in which a client belongs to the best of the workers near it. Returns its owner, without
 * the worker `gone` (-1: all exist). */
static int owner_on_ring(const char *client, int n, int gone)
{
    struct pp_near near;
    char id[24];
    int best = -1;
    double top = 0;
    pp_near_init(&near, pp_ring_position(client), pp_near_count(1));
    for (int i = 0; i < n; i++) {
        (void)snprintf(id, sizeof id, "host-%d", i);
        if (i != gone)
            pp_near_offer(&near, pp_ring_position(id), (size_t)i);
    }
    for (uint32_t i = 0; i < near.n; i++) {
        int worker = (int)near.workers[i].worker;
        (void)snprintf(id, sizeof id, "host-%d", worker);
        double score = pp_rendezvous_score(client, id, worker % 2 ? 2 : 1);
        best = score > top ? worker : best;
        top = score > top ? score : top;
    }
    return best;
}

/* Of a fleet on a hash ring, the workers of weight 2 get more clients, but not twice as many: each
 * client has few workers near it. A worker that goes moves its own clients, and few others: those
 * for which the next worker is now near. */
static void a_fleet_on_a_ring(void **state)
{
    (void)state;
    enum { WORKERS = 100, CLIENTS = 20000 };
    int got[2] = {0}, lost = 0, others = 0;
    for (int k = 0; k < CLIENTS; k++) {
        char client[24];
        (void)snprintf(client, sizeof client, "client-%d", k);
        int all = owner_on_ring(client, WORKERS, -1), without = owner_on_ring(client, WORKERS, 7);
        got[all % 2]++;
        lost += all == 7;
        others += all != 7 && all != without;
    }
    assert_in_range(got[1] * 10 / got[0], 13, 20);
    assert_true(lost > 0 && others < CLIENTS * 2 / WORKERS);
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
        cmocka_unit_test(only_its_share_moves),
        cmocka_unit_test(a_fleet_on_a_ring),
        cmocka_unit_test(scores_are_positive_and_the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
