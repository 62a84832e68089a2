/* Tests the backlog index with single cases, and with random calls whose results it compares with a
 * plain table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/backlog.h"
#include "prng.h"

#define NEVER PP_BACKLOG_NEVER
#define ALL   PP_BACKLOG_ALL

static void put_set_and_remove(void **state)
{
    (void)state;
    struct pp_backlog *b = pp_backlog_new(10);
    assert_int_equal(pp_backlog_next_ms(b, 5), NEVER);
    assert_int_equal(pp_backlog_put(b, "a", 0, 100), PP_OK);
    /* A second put for the same queue keeps the earlier of the two times. */
    assert_int_equal(pp_backlog_put(b, "a", 0, 200), PP_OK);
    assert_int_equal(pp_backlog_get(b, "a", 0), 100);
    assert_int_equal(pp_backlog_put(b, "a", 0, 50), PP_OK);
    assert_int_equal(pp_backlog_next_ms(b, 5), 50);
    assert_int_equal(pp_backlog_set(b, "a", 0, 300), PP_OK);
    assert_int_equal(pp_backlog_put(b, "a", PP_QUEUE_SUSPECT, 400), PP_OK);
    assert_int_equal(pp_backlog_next_ms(b, 5), 300);
    pp_backlog_remove(b, "a", 0);
    assert_int_equal(pp_backlog_next_ms(b, 5), 400);
    assert_int_equal(pp_backlog_next_ms(b, 500), 500);
    struct pp_backlog_due due[2];
    assert_int_equal(pp_backlog_due(b, 399, ALL, due, 2), 0);
    assert_int_equal(pp_backlog_due(b, 400, ALL, due, 2), 1);
    assert_string_equal(due[0].client, "a");
    assert_int_equal(due[0].queues, 1u << PP_QUEUE_SUSPECT);
    /* The client has work that is due, but in the other queue. */
    assert_int_equal(pp_backlog_due(b, 400, 1, due, 2), 0);
    assert_int_equal(pp_backlog_next_ms(b, 400), 400);
    /* the client is due only at 900 now */
    assert_int_equal(pp_backlog_set(b, "a", PP_QUEUE_SUSPECT, 900), PP_OK);
    assert_int_equal(pp_backlog_due(b, 400, ALL, due, 2), 0);
    assert_int_equal(pp_backlog_next_ms(b, 400), 900);
    assert_int_equal(pp_backlog_put(b, "b", 1, 0), PP_OK);
    pp_backlog_drop(b, "a");
    pp_backlog_drop(b, "nobody");
    pp_backlog_remove(b, "nobody", 0);
    assert_int_equal(pp_backlog_set(b, "nobody", 0, NEVER), PP_OK);
    assert_int_equal(pp_backlog_next_ms(b, 0), 0);
    pp_backlog_remove(b, "b", 1); /* "b" has no other queue, so the index forgets the client */
    assert_int_equal(pp_backlog_next_ms(b, 0), NEVER);
    pp_backlog_free(b);
    pp_backlog_free(NULL);
}

static void clients_are_bounded(void **state)
{
    (void)state;
    struct pp_backlog *b = pp_backlog_new(2);
    assert_int_equal(pp_backlog_put(b, "a", 0, 1), PP_OK);
    assert_int_equal(pp_backlog_put(b, "b", 0, 2), PP_OK);
    assert_int_equal(pp_backlog_put(b, "c", 0, 0), PP_EFULL);
    assert_int_equal(pp_backlog_get(b, "c", 0), NEVER);
    assert_int_equal(pp_backlog_next_ms(b, 0), 1);
    /* the index is full, but it still accepts changes to a client that it contains */
    assert_int_equal(pp_backlog_put(b, "a", 1, 0), PP_OK);
    pp_backlog_drop(b, "b");
    assert_int_equal(pp_backlog_put(b, "c", 0, 0), PP_OK);
    pp_backlog_free(b);
}

/* Seven clients are due, and each cycle serves two. After every cycle, no client may have been
 * served more than one time more than another. */
static void clients_are_served_in_turn(void **state)
{
    (void)state;
    struct pp_backlog *b = pp_backlog_new(100);
    char name[16];
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "c%d", i);
        assert_int_equal(pp_backlog_put(b, name, (uint8_t)(i % PP_QUEUES), i), PP_OK);
    }
    int served[8] = {0};
    struct pp_backlog_due due[2];
    for (int cycle = 0; cycle < 35; cycle++) {
        assert_int_equal(pp_backlog_due(b, 1000, ALL, due, 2), 2);
        served[due[0].client[1] - '0']++;
        served[due[1].client[1] - '0']++;
        for (int i = 0; i < 7; i++)
            for (int k = 0; k < 7; k++)
                assert_true(served[i] - served[k] <= 1);
    }
    /* The index gets a new client. It must serve this client within four cycles, one round of all
     * eight. */
    assert_int_equal(pp_backlog_put(b, "c7", 0, 1000), PP_OK);
    int cycles = 0;
    for (bool seen = false; !seen; cycles++)
        for (size_t i = pp_backlog_due(b, 1000, ALL, due, 2); i-- > 0;)
            seen |= strcmp(due[i].client, "c7") == 0;
    assert_true(cycles <= 4);
    pp_backlog_free(b);
}

#define CLIENTS 40

static void check_due(struct pp_backlog *b, int64_t model[CLIENTS][PP_QUEUES], int64_t now, uint32_t mask,
                      size_t cap)
{
    struct pp_backlog_due due[CLIENTS + 1];
    size_t expected = 0, n = pp_backlog_due(b, now, mask, due, cap);
    int64_t next = NEVER;
    for (int i = 0; i < CLIENTS; i++) {
        bool is_due = false;
        for (int q = 0; q < PP_QUEUES; q++) {
            if (model[i][q] < next)
                next = model[i][q];
            is_due |= model[i][q] <= now && (mask >> q & 1);
        }
        expected += is_due;
    }
    assert_int_equal(n, expected < cap ? expected : cap);
    uint64_t seen = 0;
    for (size_t k = 0; k < n; k++) {
        int i = (due[k].client[0] - 'a') * 8 + due[k].client[1] - '0';
        assert_false(seen >> i & 1);
        seen |= (uint64_t)1 << i;
        uint32_t queues = 0;
        for (int q = 0; q < PP_QUEUES; q++)
            if (model[i][q] <= now)
                queues |= 1u << q;
        assert_int_equal(due[k].queues, queues & mask);
    }
    assert_int_equal(pp_backlog_next_ms(b, now), next == NEVER ? NEVER : next > now ? next : now);
}

static void check_client(const struct pp_backlog *b, const char *name, const int64_t due_ms[PP_QUEUES],
                         int64_t until)
{
    uint32_t queues = 0;
    for (uint8_t q = 0; q < PP_QUEUES; q++) {
        assert_int_equal(pp_backlog_get(b, name, q), due_ms[q]);
        queues |= due_ms[q] <= until ? 1u << q : 0;
    }
    assert_int_equal(pp_backlog_queues(b, name, until), queues);
}

static void it_agrees_with_a_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t s = seed;
        static int64_t model[CLIENTS][PP_QUEUES];
        for (int i = 0; i < CLIENTS * PP_QUEUES; i++)
            model[i / PP_QUEUES][i % PP_QUEUES] = NEVER;
        struct pp_backlog *b = pp_backlog_new(CLIENTS);
        int64_t now = 0;
        for (int step = 0; step < 2000; step++) {
            int i = (int)pp_test_between(&s, 0, CLIENTS - 1);
            uint8_t q = (uint8_t)pp_test_between(&s, 0, PP_QUEUES - 1);
            char name[] = {(char)('a' + i / 8), (char)('0' + i % 8), 0};
            int64_t due = now + pp_test_between(&s, -20, pp_test_between(&s, 0, 1) ? 100 : 5000);
            switch (pp_test_between(&s, 0, 6)) {
            case 0:
            case 1:
                assert_int_equal(pp_backlog_put(b, name, q, due), PP_OK);
                if (due < model[i][q])
                    model[i][q] = due;
                break;
            case 2:
                assert_int_equal(pp_backlog_set(b, name, q, due), PP_OK);
                model[i][q] = due;
                break;
            case 3:
                pp_backlog_remove(b, name, q);
                model[i][q] = NEVER;
                break;
            case 4:
                pp_backlog_drop(b, name);
                for (q = 0; q < PP_QUEUES; q++)
                    model[i][q] = NEVER;
                break;
            default:
                now += pp_test_between(&s, 0, 10);
                check_due(b, model, now, (uint32_t)pp_test_rnd(&s) & ALL,
                          (size_t)pp_test_between(&s, 0, CLIENTS));
                check_client(b, name, model[i], pp_test_between(&s, 0, 1) ? due : NEVER - 1);
            }
        }
        pp_backlog_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_set_and_remove),
        cmocka_unit_test(clients_are_bounded),
        cmocka_unit_test(clients_are_served_in_turn),
        cmocka_unit_test(it_agrees_with_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
