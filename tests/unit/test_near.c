/* test_near.c: the workers near a client are the first after it on the ring, whatever the order in
 * which they are offered; and a worker that knows only its neighbours finds the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/stable_hash.h"
#include "core/near.h"
#include "prng.h"

enum { WORKERS = 1000 };

static void test_count(void **state)
{
    (void)state;
    assert_int_equal(pp_near_count(0), PP_NEAR);
    assert_int_equal(pp_near_count(1), PP_NEAR);
    assert_int_equal(pp_near_count(PP_NEAR / 2), PP_NEAR);
    assert_int_equal(pp_near_count(PP_NEAR / 2 + 1), PP_NEAR + 2);
    assert_int_equal(pp_near_count(PP_SHARES_MAX), PP_NEAR_MAX);
    assert_int_equal(pp_near_count(UINT32_MAX), PP_NEAR_MAX);
}

static void test_nearest_first(void **state)
{
    static const uint32_t positions[] = {100, 50, UINT32_MAX, 60, 49};
    struct pp_near near;

    (void)state;
    pp_near_init(&near, 50, 3);
    assert_int_equal(near.n, 0);
    for (size_t i = 0; i < 5; i++)
        pp_near_offer(&near, positions[i], i);
    assert_int_equal(near.n, 3);
    assert_int_equal(near.workers[0].worker, 1); /* at the client's position */
    assert_int_equal(near.workers[1].worker, 3);
    assert_int_equal(near.workers[2].worker, 0);
    assert_int_equal(near.workers[2].distance, 50);
}

/* The ring has no end. */
static void test_around_the_end(void **state)
{
    struct pp_near near;

    (void)state;
    pp_near_init(&near, UINT32_MAX - 5, 2);
    pp_near_offer(&near, UINT32_MAX - 6, 0);
    pp_near_offer(&near, 3, 1);
    pp_near_offer(&near, UINT32_MAX, 2);
    assert_int_equal(near.workers[0].worker, 2);
    assert_int_equal(near.workers[1].worker, 1);
    assert_int_equal(near.workers[1].distance, 9);
}

static int by_position(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Draws a ring of workers, and returns their positions in its order. */
static void draw_ring(uint64_t *r, uint32_t ring[WORKERS])
{
    for (int i = 0; i < WORKERS; i++)
        ring[i] = (uint32_t)pp_test_rnd(r);
    qsort(ring, WORKERS, sizeof(*ring), by_position);
}

/* Of all workers, exactly those that are near a client find themselves near it, although each knows
 * only its neighbours. */
static void test_neighbours_are_enough(void **state)
{
    static uint32_t ring[WORKERS];
    uint64_t r = 17;

    (void)state;
    for (int round = 0; round < 20; round++) {
        uint32_t client = (uint32_t)pp_test_rnd(&r), most = pp_near_count((uint32_t)round * 2);
        struct pp_near all;
        draw_ring(&r, ring);
        pp_near_init(&all, client, most);
        for (size_t i = 0; i < WORKERS; i++)
            pp_near_offer(&all, ring[i], i);
        for (size_t self = 0; self < WORKERS; self++) {
            struct pp_near mine;
            bool is_near = false, finds = false;
            pp_near_init(&mine, client, most);
            for (size_t i = self + WORKERS - PP_NEAR_MAX; i <= self + WORKERS + PP_NEAR_MAX; i++)
                pp_near_offer(&mine, ring[i % WORKERS], i % WORKERS);
            for (uint32_t i = 0; i < most; i++) {
                is_near |= all.workers[i].worker == self;
                finds |= mine.workers[i].worker == self;
            }
            assert_int_equal(finds, is_near);
            for (uint32_t i = 0; is_near && i < most; i++)
                assert_int_equal(mine.workers[i].worker, all.workers[i].worker);
        }
    }
}

/* Each of many workers is near about as many clients as any other, and the positions do not depend
 * on the process. */
static void test_positions(void **state)
{
    enum { PARTS = 16, NAMES = 16000 };
    int parts[PARTS] = {0};
    char name[16];

    (void)state;
    assert_int_equal(pp_ring_position("worker-1"), pp_ring_position("worker-1"));
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "c%d", i);
        parts[pp_ring_position(name) >> 28]++;
    }
    for (int i = 0; i < PARTS; i++)
        assert_in_range(parts[i], NAMES / PARTS * 8 / 10, NAMES / PARTS * 12 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),          cmocka_unit_test(test_nearest_first),
        cmocka_unit_test(test_around_the_end), cmocka_unit_test(test_neighbours_are_enough),
        cmocka_unit_test(test_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
