/* suite_ingest_aside.c: entries that can't be planned are set aside, listed with the reason, and
 * put back into the queue. */
#include "../unit/prng.h"
#include "suite_ingest_kit.h"

static enum pp_err put_back(struct kit *k, const char *batch, bool give_up)
{
    struct pp_ingest_put_back r = {.batch_id = batch, .give_up = give_up};
    RUN(k, put_back, &r);
    return r.req.err;
}

static void poison(struct kit *k, const char *batch, const char *reason, int64_t date_ms)
{
    struct pp_ingest_poison r = {.batch_id = batch, .reason = reason, .date_ms = date_ms};
    OK(k, poison, &r);
}

/* Entries that are set aside are listed by their ids, newest first, with the first reason. */
static void set_aside_is_listed(void **state)
{
    struct kit *k = *state;
    static const char *const ids[] = {"b_1", "b_2", "b_3", "b_4", "b_5"};
    char reason[200];
    memset(reason, 'r', sizeof(reason));
    reason[sizeof(reason) - 1] = '\0';
    for (size_t i = 0; i < 5; i++)
        append(k, i == 2 ? "d" : "c", ids[i], "x");
    assert_int_equal(take(k, 1, 100).n, 1);
    poison(k, "b_1", reason, 1700000000007);
    poison(k, "b_4", "it can't be read: 2", 1700000000009);
    poison(k, "b_3", "", 1700000000003);
    poison(k, "b_4", "another reason", 1700000000010);
    poison(k, "b_5", "gone", 1700000000004);
    ack(k, "b_5");
    reopen(k);
    for (size_t limit = 1; limit < 5; limit++) {
        struct pp_ingest_list_aside r = {.limit = limit};
        char got[16] = "";
        do {
            OK(k, list_aside, &r);
            for (size_t n = 0; n < r.n; n++) {
                strcat(got, r.entries[n].entry.batch_id + 2);
                r.after = r.entries[n].entry.batch_id;
            }
        } while (r.more);
        assert_string_equal(got, "431");
    }
    struct pp_ingest_list_aside r = {.limit = 9};
    OK(k, list_aside, &r);
    assert_int_equal(r.entries[0].since_ms, 1700000000009);
    assert_string_equal(r.entries[0].reason, "it can't be read: 2");
    assert_string_equal(r.entries[1].reason, "");
    assert_string_equal(r.entries[1].entry.client, "d");
    assert_int_equal(r.entries[1].entry.n_photos, 10);
    assert_null(r.entries[1].entry.payload);
    assert_int_equal(r.entries[1].entry.deliveries, 0);
    assert_int_equal(r.entries[2].entry.deliveries, 1);
    assert_int_equal(strlen(r.entries[2].reason), PP_INGEST_REASON_MAX);
    assert_memory_equal(r.entries[2].reason, reason, PP_INGEST_REASON_MAX);
}

/* An entry that is put back is whole, and planners take it as if it were new. Only one of two calls
 * puts it back. */
static void put_back_is_taken_again(void **state)
{
    struct kit *k = *state;
    char large[200001];
    uint64_t rng = 7;
    for (size_t i = 0; i < sizeof(large) - 1; i++)
        large[i] = (char)('a' + pp_test_rnd(&rng) % 26);
    large[sizeof(large) - 1] = '\0';
    struct pp_ingest_append labelled = entry("c", "b_1", "payload");
    labelled.entry.label = "a label";
    OK(k, append, &labelled);
    append(k, "d", "b_2", large);
    assert_int_equal(put_back(k, "b_1", false), PP_ENOTFOUND);
    assert_int_equal(put_back(k, "b_9", false), PP_ENOTFOUND);
    for (int round = 0; round < 3; round++) {
        bool give_up = round == 1;
        struct pp_ingest_take t = take(k, 9, 1000000);
        assert_int_equal(t.n, 2);
        for (size_t i = 0; i < 2; i++) {
            bool first = strcmp(t.entries[i].batch_id, "b_1") == 0;
            assert_int_equal(t.entries[i].deliveries, 1);
            assert_int_equal(t.entries[i].given_up, round == 2);
            assert_false(t.entries[i].cancelled);
            assert_int_equal(t.entries[i].n_rejected, 3);
            assert_string_equal(t.entries[i].label ? t.entries[i].label : "", first ? "a label" : "");
            assert_int_equal(t.entries[i].payload_n, first ? 7 : sizeof(large) - 1);
            assert_memory_equal(t.entries[i].payload, first ? "payload" : large, t.entries[i].payload_n);
        }
        poison(k, "b_1", "a reason", 1700000000000);
        poison(k, "b_2", "a reason", 1700000000000);
        assert_int_equal(stats(k).entries, 0);
        if (round == 2)
            break;
        assert_int_equal(put_back(k, "b_1", give_up), PP_OK);
        assert_int_equal(put_back(k, "b_1", !give_up), PP_ENOTFOUND);
        assert_int_equal(put_back(k, "b_2", give_up), PP_OK);
        struct pp_ingest_stats s = stats(k);
        assert_true(s.entries == 2 && s.photos == 20 && s.poisoned == 0);
        reopen(k);
    }
    const char *ids[] = {"b_1", "b_2"};
    struct pp_ingest_check c = {.batch_ids = ids, .n = 2};
    assert_int_equal(put_back(k, "b_2", false), PP_OK);
    OK(k, check, &c);
    assert_int_equal(c.states[0], PP_INGEST_PLANNED);
    assert_int_equal(c.states[1], PP_INGEST_WAITING);
    ack(k, "b_1");
    ack(k, "b_2");
    struct pp_ingest_list_aside r = {.limit = 9};
    OK(k, list_aside, &r);
    assert_true(r.n == 0 && stats(k).entries == 0 && stats(k).poisoned == 0);
}

/* A cancelled entry stays cancelled, and can be cancelled when it is given up. */
static void put_back_and_cancelled(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_1", "x");
    struct pp_ingest_cancel r = {.batch_id = "b_1"};
    OK(k, cancel, &r);
    poison(k, "b_1", "a reason", 1700000000000);
    assert_int_equal(put_back(k, "b_1", true), PP_OK);
    struct pp_ingest_get g = {.batch_id = "b_1"};
    OK(k, get, &g);
    assert_true(g.entry.cancelled && g.entry.given_up);
    poison(k, "b_1", "a reason", 1700000000000);
    assert_int_equal(put_back(k, "b_1", false), PP_OK);
    OK(k, get, &g);
    assert_true(g.entry.cancelled && !g.entry.given_up);
    append(k, "c", "b_2", "x");
    poison(k, "b_2", "a reason", 1700000000000);
    assert_int_equal(put_back(k, "b_2", true), PP_OK);
    r.batch_id = g.batch_id = "b_2";
    OK(k, cancel, &r);
    OK(k, get, &g);
    assert_true(g.entry.cancelled && g.entry.given_up);
}

/* An entry that is put back wakes a planner that waits. */
static void put_back_wakes(void **state)
{
    struct kit *k = *state;
    int calls = 0;
    append(k, "c", "b_1", "x");
    poison(k, "b_1", "a reason", 1700000000000);
    k->queue->ops->watch(k->queue, on_watch, &calls);
    while (take(k, 9, 1000).n > 0)
        ;
    for (int i = 0; i < 3; i++)
        take(k, 9, 1000);
    calls = 0;
    assert_int_equal(put_back(k, "b_1", false), PP_OK);
    pp_test_until(k->loop, called, &calls, 20000);
    assert_int_equal(take(k, 9, 1000).n, 1);
}

int pp_suite_ingest_aside(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
    const struct CMUnitTest tests[] = {
        T(set_aside_is_listed),
        T(put_back_is_taken_again),
        T(put_back_and_cancelled),
        T(put_back_wakes),
    };
#undef T
    return cmocka_run_group_tests_name("set_aside", tests, NULL, NULL);
}
