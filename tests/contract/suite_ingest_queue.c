/* suite_ingest_queue.c: a planner gets each appended entry whole, in order and once. An
 * idempotency key finds the answer of its first request. After a restart the queue returns taken
 * entries again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/prng.h"
#include "base/arena.h"
#include "suite_ingest_queue.h"
#include "test_loop.h"

struct kit {
    const char *place;
    struct pp_loop *loop;
    struct pp_ingest_queue *queue;
    struct pp_arena arena;
    bool done;
};

static const struct pp_ingest_subject *subject;

static void open_queue(struct kit *k)
{
    assert_string_equal(pp_err_text(subject->open(k->loop, k->place, &k->queue)), pp_err_text(PP_OK));
}

static int open_kit(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->place = subject->place();
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, 0);
    open_queue(k);
    *state = k;
    return 0;
}

static int close_kit(void **state)
{
    struct kit *k = *state;
    k->queue->ops->close(k->queue);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

static void reopen(struct kit *k)
{
    k->queue->ops->close(k->queue);
    open_queue(k);
}

static void on_done(struct pp_req *req)
{
    struct kit *k = req->data;
    assert_false(k->done);
    k->done = true;
}

static bool is_done(void *arg)
{
    return ((struct kit *)arg)->done;
}

static void wait_done(struct kit *k, enum pp_err submitted)
{
    assert_int_equal(submitted, PP_OK);
    assert_false(k->done);
    pp_test_until(k->loop, is_done, k, 20000);
}

#define RUN(k, op, r)                                                                   \
    do {                                                                                \
        (r)->req = (struct pp_req){.done = on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                              \
        wait_done((k), (k)->queue->ops->op((k)->queue, (r)));                           \
    } while (0)
#define OK(k, op, r)                                                        \
    do {                                                                    \
        RUN(k, op, r);                                                      \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(PP_OK)); \
    } while (0)

static struct pp_ingest_append entry(const char *client, const char *batch, const char *payload)
{
    return (struct pp_ingest_append){.entry = {.batch_id = batch,
                                               .client = client,
                                               .refresh = PP_REFRESH_CHANGED,
                                               .created_at = 1000 + atoi(batch + 2),
                                               .n_items = 2,
                                               .n_rejected = 3,
                                               .n_photos = 10,
                                               .payload = payload,
                                               .payload_n = strlen(payload)},
                                     .now_ms = 5000};
}

static void append(struct kit *k, const char *client, const char *batch, const char *payload)
{
    struct pp_ingest_append r = entry(client, batch, payload);
    OK(k, append, &r);
}

static struct pp_ingest_take take(struct kit *k, size_t limit, size_t max_bytes)
{
    struct pp_ingest_take r = {.consumer = "p1", .limit = limit, .max_bytes = max_bytes};
    OK(k, take, &r);
    assert_true(r.n <= limit);
    return r;
}

static void ack(struct kit *k, const char *batch)
{
    const char *ids[] = {"b_none", batch};
    struct pp_ingest_ack r = {.batch_ids = ids, .n = 2};
    OK(k, ack, &r);
}

static struct pp_ingest_stats stats(struct kit *k)
{
    struct pp_ingest_stats r = {.entries = 99, .write = true};
    OK(k, stats, &r);
    return r;
}

/* --- the tests --- */

static void comes_out_as_it_went_in(void **state)
{
    struct kit *k = *state;
    static const char bytes[] = "a\0b\xff";
    struct pp_ingest_append r = entry("c", "b_1", "");
    r.entry.payload = bytes;
    r.entry.payload_n = sizeof bytes;
    r.entry.replay = true;
    r.entry.n_photos = UINT64_C(5000000000);
    OK(k, append, &r);
    struct pp_ingest_take t = take(k, 5, 1000);
    assert_int_equal(t.n, 1);
    const struct pp_ingest_entry *e = &t.entries[0];
    assert_string_equal(e->batch_id, "b_1");
    assert_string_equal(e->client, "c");
    assert_int_equal(e->refresh, PP_REFRESH_CHANGED);
    assert_true(e->replay && !e->cancelled);
    assert_int_equal(e->created_at, 1001);
    assert_int_equal(e->n_items, 2);
    assert_int_equal(e->n_rejected, 3);
    assert_int_equal(e->n_photos, UINT64_C(5000000000));
    assert_int_equal(e->payload_n, sizeof bytes);
    assert_memory_equal(e->payload, bytes, sizeof bytes);
    assert_int_equal(e->deliveries, 1);
    assert_int_equal(take(k, 5, 1000).n, 0);
    append(k, "c", "b_2", "");
    t = take(k, 5, 1000);
    assert_int_equal(t.entries[0].payload_n, 0);
    assert_true(k->queue->ops->durability(k->queue)[0]);
}

static void without_photos(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1", "xx");
    r.entry.n_photos = 0; /* The items of a batch may have no photos. */
    OK(k, append, &r);
    assert_int_equal(take(k, 5, 1000).n, 1);
    ack(k, "b_1");
    assert_int_equal(stats(k).entries, 0);
    assert_int_equal(stats(k).photos, 0);
}

static void oldest_first_and_bounded(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_3", "12345");
    append(k, "c", "b_1", "12345");
    append(k, "d", "b_2", "12345");
    append(k, "c", "b_4", "12345");
    append(k, "c", "b_5", "1");
    static const struct {
        size_t limit, bytes, n;
        const char *first;
    } cases[] = {{1, 100, 1, "b_3"}, {9, 14, 2, "b_1"}, {9, 5, 1, "b_4"}, {0, 10, 0, NULL}, {9, 0, 1, "b_5"}};
    for (size_t i = 0; i < 5; i++) {
        struct pp_ingest_take t = take(k, cases[i].limit, cases[i].bytes);
        assert_int_equal(t.n, cases[i].n);
        if (t.n)
            assert_string_equal(t.entries[0].batch_id, cases[i].first);
    }
}

/* A take may name clients to skip. It must return entries of the other clients in turn, each
 * client's oldest entry first. */
static void others_come_in_turn(void **state)
{
    struct kit *k = *state;
    static const char *const lines[][2] = {{"big", "b_1"}, {"big", "b_2"}, {"a", "b_3"}, {"z", "b_4"},
                                           {"a", "b_5"},   {"big", "b_6"}, {"z", "b_7"}};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        append(k, lines[i][0], lines[i][1], "12345");
    static const char *const skip[] = {"big", "none"};
    static const struct {
        size_t limit, bytes, n;
        const char *due[3];
    } cases[] = {{1, 100, 1, {"b_3"}},
                 {1, 100, 1, {"b_4"}},
                 {9, 5, 1, {"b_5"}},
                 {9, 100, 1, {"b_7"}},
                 {9, 100, 0, {NULL}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pp_ingest_take r = {.consumer = "p1",
                                   .limit = cases[i].limit,
                                   .max_bytes = cases[i].bytes,
                                   .skip = skip,
                                   .n_skip = 2};
        OK(k, take, &r);
        assert_int_equal(r.n, cases[i].n);
        for (size_t j = 0; j < r.n; j++)
            assert_string_equal(r.entries[j].batch_id, cases[i].due[j]);
    }
    /* The take has skipped these entries, so they are still in the queue. */
    assert_int_equal(take(k, 9, 100).n, 3);
}

static void acked_is_gone(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_1", "x");
    append(k, "c", "b_2", "x");
    take(k, 1, 100);
    struct pp_ingest_stats s = stats(k);
    assert_int_equal(s.entries, 2); /* Taken entries count until a planner has acked them. */
    assert_int_equal(s.photos, 20);
    assert_int_equal(s.oldest_ms, 1001);
    ack(k, "b_1");
    ack(k, "b_1");
    s = stats(k);
    assert_int_equal(s.entries, 1);
    assert_int_equal(s.photos, 10);
    assert_int_equal(s.oldest_ms, 1002);
    struct pp_ingest_get g = {.batch_id = "b_1"};
    RUN(k, get, &g);
    assert_int_equal(g.req.err, PP_ENOTFOUND);
    ack(k, "b_2");
    s = stats(k);
    assert_int_equal(s.entries, 0);
    assert_int_equal(s.photos, 0);
    assert_int_equal(s.oldest_ms, 0);
    reopen(k);
    assert_int_equal(take(k, 9, 100).n, 0);
}

static void a_restart_gives_back_what_was_taken(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_1", "one");
    append(k, "c", "b_2", "two");
    for (int i = 0; i < 3; i++) {
        struct pp_ingest_take t = take(k, 1, 100);
        assert_int_equal(t.n, 1);
        assert_string_equal(t.entries[0].batch_id, "b_1");
        reopen(k);
        assert_int_equal(stats(k).photos, 20);
    }
    assert_int_equal(take(k, 9, 100).n, 2);
}

/* A planner takes an entry and closes in good order without planning it. The queue must not
 * count this as a delivery, however often it happens. */
static void given_back_is_no_delivery(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_1", "one");
    append(k, "c", "b_2", "two");
    for (int i = 0; i < 25; i++) {
        struct pp_ingest_take t = take(k, 9, 100);
        assert_int_equal(t.n, 2);
        assert_int_equal(t.entries[0].deliveries, 1);
        assert_int_equal(t.entries[1].deliveries, 1);
        reopen(k);
    }
}

static void keys_find_their_answer(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1", "x");
    r.key = "key-1";
    r.body_hash[0] = 7;
    r.answer = "{\"batch_id\":\"b_1\"}";
    r.answer_n = strlen(r.answer);
    OK(k, append, &r);
    for (int open = 0; open < 2; open++) {
        struct pp_ingest_append again = r;
        again.entry.batch_id = "b_2";
        again.answer = "other";
        again.answer_n = 5;
        /* The limit on waiting photos does not apply to a repeated request, because nothing is
         * appended. */
        again.high_water = 1;
        RUN(k, append, &again);
        assert_int_equal(again.req.err, PP_EEXISTS);
        assert_int_equal(again.old_answer_n, r.answer_n);
        assert_memory_equal(again.old_answer, r.answer, r.answer_n);
        again.body_hash[31] = 1;
        RUN(k, append, &again);
        assert_int_equal(again.req.err, PP_EMISMATCH);
        assert_null(again.old_answer);
        assert_int_equal(stats(k).entries, 1);
        reopen(k);
    }
    ack(k, "b_1"); /* The queue forgets the entry but keeps the key. */
    struct pp_ingest_append again = r;
    again.entry.batch_id = "b_3";
    RUN(k, append, &again);
    assert_int_equal(again.req.err, PP_EEXISTS);
    /* Two clients may use the same key for different requests. */
    struct pp_ingest_append other = r;
    other.entry.client = "d";
    other.entry.batch_id = "b_4";
    OK(k, append, &other);
    struct pp_ingest_clean clean = {.before_ms = 5000};
    OK(k, clean, &clean);
    RUN(k, append, &again);
    assert_int_equal(again.req.err, PP_EEXISTS);
    clean.before_ms = 5001;
    OK(k, clean, &clean);
    OK(k, append, &again);
}

static void a_key_can_be_asked_for(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1", "x"), ask = entry("c", "b_2", "");
    r.key = ask.key = "key-1";
    r.answer = "first";
    ask.answer = "other";
    r.answer_n = ask.answer_n = 5;
    ask.only_key = true;
    ask.high_water = 1;
    for (int i = 0; i < 2; i++)
        OK(k, append, &ask);
    assert_int_equal(stats(k).entries, 0);
    OK(k, append, &r);
    for (int planned = 0; planned < 2; planned++) {
        RUN(k, append, &ask);
        assert_int_equal(ask.req.err, PP_EEXISTS);
        assert_int_equal(ask.old_answer_n, 5);
        assert_memory_equal(ask.old_answer, "first", 5);
        ack(k, "b_1");
    }
    ask.body_hash[0] = 1;
    RUN(k, append, &ask);
    assert_int_equal(ask.req.err, PP_EMISMATCH);
    ask.key = "key-2";
    OK(k, append, &ask);
    assert_int_equal(stats(k).entries, 0);
}

static void refused_append_keeps_no_key(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_1", "x");
    struct pp_ingest_append r = entry("c", "b_2", "x");
    r.key = "key-1";
    r.answer = "a";
    r.answer_n = 1;
    r.high_water = 10;
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EFULL);
    r.high_water = 11;
    OK(k, append, &r);
}

static void high_water_by_photos(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1", "x");
    r.high_water = 15;
    OK(k, append, &r);
    r.entry.batch_id = "b_2";
    OK(k, append, &r); /* Only 10 photos wait, which is below the limit. */
    r.entry.batch_id = "b_3";
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EFULL);
    reopen(k);
    take(k, 9, 1000);
    RUN(k, append, &r);
    /* A planner has taken the entries, but they count towards the limit until it acks them. */
    assert_int_equal(r.req.err, PP_EFULL);
    ack(k, "b_1");
    OK(k, append, &r);
    /* The queue refuses an entry whose id is that of a waiting entry. */
    struct pp_ingest_append twice = entry("c", "b_3", "x");
    RUN(k, append, &twice);
    assert_int_equal(twice.req.err, PP_EEXISTS);
    assert_int_equal(stats(k).photos, 20);
}

/* Items without photos, and bytes, count towards the high water, too. */
static void high_water_by_items_and_bytes(void **state)
{
    struct kit *k = *state;
    static const char big[5120];
    struct pp_ingest_append r = entry("c", "b_1", "x");
    r.entry.n_photos = 0;
    r.entry.n_items = 30;
    r.high_water = 31;
    OK(k, append, &r);
    r.entry.batch_id = "b_2";
    r.entry.n_items = 1;
    r.entry.payload = big;
    r.entry.payload_n = sizeof big; /* weighs 20 */
    OK(k, append, &r);
    reopen(k);
    r.entry.batch_id = "b_3";
    r.high_water = 50;
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EFULL);
    take(k, 9, 1000000);
    ack(k, "b_2");
    r.high_water = 31;
    OK(k, append, &r);
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EEXISTS);
    r.entry.batch_id = "b_4";
    r.high_water = 50;
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EFULL);
    ack(k, "b_1");
    ack(k, "b_3");
    r.high_water = 1;
    OK(k, append, &r);
}

static void bounded_by_bytes(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1", "12345");
    r.max_bytes = 6;
    OK(k, append, &r);
    r.entry.batch_id = "b_2";
    OK(k, append, &r); /* Only 5 bytes wait. */
    r.entry.batch_id = "b_3";
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EFULL);
    reopen(k);
    take(k, 9, 1000);
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EFULL);
    ack(k, "b_1");
    OK(k, append, &r);
    /* An entry that is set aside does not count. */
    struct pp_ingest_poison p = {.batch_id = "b_2", .reason = "damaged"};
    OK(k, poison, &p);
    r.entry.batch_id = "b_4";
    OK(k, append, &r);
}

/* A client may use a number of keys in an hour. Keys that it has used already still find their
 * answer, and other clients and requests without a key are not affected. */
static void keys_are_bounded(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1", "x");
    r.key = "one";
    r.answer = "1";
    r.answer_n = 1;
    r.max_keys = 2;
    OK(k, append, &r);
    struct pp_ingest_append second = r;
    second.entry.batch_id = "b_2";
    second.key = "two";
    OK(k, append, &second);
    reopen(k);
    struct pp_ingest_append third = r;
    third.entry.batch_id = "b_3";
    third.key = "three";
    RUN(k, append, &third);
    assert_int_equal(third.req.err, PP_EBUSY);
    assert_int_equal(stats(k).entries, 2);
    r.entry.batch_id = "b_4";
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EEXISTS);
    assert_int_equal(r.old_answer_n, 1);
    append(k, "c", "b_5", "x");
    third.entry.client = "d";
    OK(k, append, &third);
    third.entry.client = "c";
    third.entry.batch_id = "b_6";
    third.now_ms += 3600000;
    OK(k, append, &third);
}

static void poison_is_set_aside(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_1", "x");
    append(k, "c", "b_2", "x");
    take(k, 1, 100);
    struct pp_ingest_poison r = {.batch_id = "b_1", .reason = "it can't be read"};
    OK(k, poison, &r);
    OK(k, poison, &r);
    reopen(k);
    struct pp_ingest_stats s = stats(k);
    assert_int_equal(s.entries, 1);
    assert_int_equal(s.photos, 10);
    assert_int_equal(s.poisoned, 1);
    assert_int_equal(s.oldest_ms, 1002);
    struct pp_ingest_take t = take(k, 9, 100);
    assert_int_equal(t.n, 1);
    assert_string_equal(t.entries[0].batch_id, "b_2");
    r.batch_id = "b_9";
    RUN(k, poison, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
    ack(k, "b_1");
    assert_int_equal(stats(k).poisoned, 0);
    assert_int_equal(stats(k).entries, 1);
}

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
    append(k, "c", "b_1", "payload");
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

static void cancelled_before_planning(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_1", "x");
    struct pp_ingest_cancel r = {.batch_id = "b_1"};
    OK(k, cancel, &r);
    OK(k, cancel, &r);
    reopen(k);
    struct pp_ingest_get g = {.batch_id = "b_1"};
    OK(k, get, &g);
    assert_true(g.entry.cancelled);
    assert_true(take(k, 1, 100).entries[0].cancelled);
    ack(k, "b_1");
    RUN(k, cancel, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
}

static void read_and_listed(void **state)
{
    struct kit *k = *state;
    append(k, "c", "b_1", "x");
    append(k, "d", "b_2", "x");
    append(k, "c", "b_3", "x");
    append(k, "c", "b_4", "x");
    ack(k, "b_3");
    take(k, 1, 100);
    static const struct {
        const char *client, *ids;
    } cases[] = {{NULL, "421"}, {"c", "41"}, {"d", "2"}, {"e", ""}};
    for (size_t i = 0; i < 4; i++) {
        for (size_t limit = 1; limit < 5; limit++) {
            struct pp_ingest_list r = {.client = cases[i].client, .limit = limit};
            char ids[16] = "";
            do {
                OK(k, list, &r);
                for (size_t n = 0; n < r.n; n++) {
                    strcat(ids, r.entries[n].batch_id + 2);
                    assert_null(r.entries[n].payload);
                    r.after = r.entries[n].batch_id;
                }
            } while (r.more);
            assert_string_equal(ids, cases[i].ids);
        }
    }
    struct pp_ingest_get g = {.batch_id = "b_2", .client = "c"};
    RUN(k, get, &g);
    assert_int_equal(g.req.err, PP_ENOTFOUND);
    g.client = "d";
    OK(k, get, &g);
    assert_int_equal(g.entry.n_items, 2);
    assert_string_equal(g.entry.client, "d");
}

/* An entry may have a label and a max_age, both or one of them. */
static void labels_and_ages(void **state)
{
    struct kit *k = *state;
    static const struct {
        const char *batch, *label;
        int64_t max_age_ms;
    } cases[] = {{"b_1", "+ \xc3\xbc \"'$;:", 5},
                 {"b_2", NULL, INT64_MAX},
                 {"b_3", "+1:2", 0},
                 {"b_4", NULL, 0},
                 {"b_5",
                  "128 bytes 128 bytes 128 bytes 128 bytes 128 bytes 128 bytes 128 byte"
                  "s 128 bytes 128 bytes 128 bytes 128 bytes 128 bytes 12345678",
                  1}};
    enum { N = sizeof cases / sizeof *cases };
    for (size_t i = 0; i < N; i++) {
        struct pp_ingest_append r = entry("c", cases[i].batch, "x");
        r.entry.label = cases[i].label;
        r.entry.max_age_ms = cases[i].max_age_ms;
        OK(k, append, &r);
    }
    struct pp_ingest_poison poison = {.batch_id = "b_3", .reason = "because"};
    OK(k, poison, &poison);
    reopen(k);
    struct pp_ingest_list list = {.limit = N};
    OK(k, list, &list);
    assert_int_equal(list.n, N);
    struct pp_ingest_take t = take(k, N, 1000);
    assert_int_equal(t.n, N - 1);
    for (size_t i = 0; i < N; i++) {
        struct pp_ingest_get get = {.batch_id = cases[i].batch};
        OK(k, get, &get);
        const struct pp_ingest_entry *all[3] = {&get.entry, &list.entries[N - 1 - i], &get.entry};
        for (size_t n = 0; n < t.n; n++)
            if (strcmp(t.entries[n].batch_id, cases[i].batch) == 0)
                all[2] = &t.entries[n];
        for (size_t n = 0; n < 3; n++) {
            assert_string_equal(all[n]->label ? all[n]->label : "none",
                                cases[i].label ? cases[i].label : "none");
            assert_true(all[n]->max_age_ms == cases[i].max_age_ms);
            assert_int_equal(all[n]->n_rejected, 3);
        }
    }
}

static void a_large_entry(void **state)
{
    struct kit *k = *state;
    size_t n = 32u << 20;
    char *payload = malloc(n + 1);
    assert_non_null(payload);
    uint64_t rng = 7;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pp_test_rnd(&rng);
        memcpy(payload + i, &v, 8);
    }
    struct pp_ingest_append r = entry("c", "b_1", "");
    r.entry.payload = payload;
    r.entry.payload_n = n;
    OK(k, append, &r);
    append(k, "c", "b_2", "small");
    struct pp_ingest_take t = take(k, 9, 1000);
    assert_int_equal(t.n, 1); /* A take returns at least one entry, however large it is. */
    assert_int_equal(t.entries[0].payload_n, n);
    assert_memory_equal(t.entries[0].payload, payload, n);
    free(payload);
}

/* --- many appends at once --- */

enum { MANY = 300 };

struct flight {
    int left, ok, exists;
};

static void landed(struct pp_req *req)
{
    struct flight *f = req->data;
    f->left--;
    f->ok += req->err == PP_OK;
    f->exists += req->err == PP_EEXISTS;
}

static bool all_landed(void *arg)
{
    return ((struct flight *)arg)->left == 0;
}

/* The test sends many appends at the same time. Every tenth has the key of the append before it,
 * so the queue returns the earlier answer. One has too little memory for that answer, and only
 * that one fails. */
static void many_at_once(void **state)
{
    struct kit *k = *state;
    static struct pp_ingest_append r[MANY];
    char ids[MANY][16], keys[MANY][16];
    struct flight f = {.left = MANY};
    static struct pp_arena arenas[MANY];
    for (int i = 0; i < MANY; i++) {
        pp_arena_init(&arenas[i], i == 9 ? 8 : 0);
        snprintf(ids[i], sizeof ids[i], "b_%d", i);
        snprintf(keys[i], sizeof keys[i], "k%d", i % 10 == 9 ? i - 1 : i);
        r[i] = entry("c", ids[i], "payload");
        r[i].key = keys[i];
        r[i].answer = "a longer answer";
        r[i].answer_n = 15;
        r[i].req = (struct pp_req){.done = landed, .data = &f, .arena = &arenas[i]};
        assert_int_equal(k->queue->ops->append(k->queue, &r[i]), PP_OK);
    }
    pp_test_until(k->loop, all_landed, &f, 20000);
    for (int i = 0; i < MANY; i++)
        pp_arena_fini(&arenas[i]);
    assert_int_equal(r[9].req.err, PP_ENOMEM);
    assert_int_equal(f.ok, MANY - MANY / 10);
    assert_int_equal(f.exists, MANY / 10 - 1);
    for (int open = 0; open < 2; open++) {
        struct pp_ingest_stats s = stats(k);
        assert_int_equal(s.entries, f.ok);
        assert_int_equal(s.photos, 10 * f.ok);
        reopen(k);
    }
    struct pp_ingest_take t = take(k, MANY, 1 << 20);
    assert_int_equal(t.n, f.ok);
    for (size_t i = 0; i < t.n; i++)
        assert_int_equal(atoi(t.entries[i].batch_id + 2), i + i / 9);
}

/* --- the calls of the watcher, and the states of batches --- */

static void on_watch(void *data)
{
    (*(int *)data)++;
}

static bool called(void *arg)
{
    return *(int *)arg > 0;
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

/* After a take that returned nothing, the next append calls the watcher. The same holds after
 * the queue is opened again. */
static void an_append_wakes(void **state)
{
    struct kit *k = *state;
    for (int round = 0; round < 3; round++) {
        int calls = 0;
        char id[16];
        k->queue->ops->watch(k->queue, on_watch, &calls);
        while (take(k, 9, 1000).n > 0)
            ;
        for (int i = 0; i < 3; i++) {
            while (take(k, 9, 1000).n > 0)
                ;
            calls = 0;
            snprintf(id, sizeof id, "b_%d", 10 * round + i + 1);
            append(k, "c", id, "x");
            pp_test_until(k->loop, called, &calls, 20000);
            assert_string_equal(take(k, 1, 100).entries[0].batch_id, id);
            ack(k, id);
        }
        k->queue->ops->watch(k->queue, NULL, NULL);
        calls = 0;
        snprintf(id, sizeof id, "b_%d", 10 * round + 9);
        append(k, "c", id, "x");
        assert_int_equal(take(k, 9, 100).n, 1);
        ack(k, id);
        assert_int_equal(calls, 0);
        if (round == 1)
            reopen(k);
    }
}

static void asked_what_became_of_it(void **state)
{
    struct kit *k = *state;
    const char *ids[300];
    char unknown[300][16];
    for (int i = 0; i < 300; i++) {
        snprintf(unknown[i], sizeof unknown[i], "b_%d", 1000 + i);
        ids[i] = unknown[i];
    }
    append(k, "c", "b_1", "x");
    append(k, "c", "b_2", "x");
    append(k, "d", "b_3", "x");
    append(k, "d", "b_4", "x");
    take(k, 2, 100);
    ack(k, "b_3");
    struct pp_ingest_poison bad = {.batch_id = "b_4", .reason = "it can't be read"};
    OK(k, poison, &bad);
    ids[0] = "b_1", ids[7] = "b_2", ids[150] = "b_3", ids[299] = "b_4";
    struct pp_ingest_check r = {.batch_ids = ids, .n = 300};
    OK(k, check, &r);
    for (int i = 0; i < 300; i++) {
        if (i == 0 || i == 7)
            assert_int_equal(r.states[i], PP_INGEST_WAITING);
        else if (i == 299)
            assert_int_equal(r.states[i], PP_INGEST_PLANNED);
        /* b_3 is acked: an adapter may still know such a batch as planned, or may have forgotten
         * it. */
        else if (i == 150)
            assert_int_not_equal(r.states[i], PP_INGEST_WAITING);
        else
            assert_int_equal(r.states[i], PP_INGEST_UNKNOWN);
    }
    r.n = 0;
    OK(k, check, &r);
}

/* The answer to an append is lost, and the caller sends it again. The queue must have one entry,
 * and must not call itself full. */
static void appended_twice(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1", "x");
    OK(k, append, &r);
    r.high_water = 1;
    for (int i = 0; i < 2; i++) {
        RUN(k, append, &r);
        assert_int_equal(r.req.err, PP_EEXISTS);
        assert_null(r.old_answer);
        assert_int_equal(stats(k).entries, 1);
        reopen(k);
    }
    assert_int_equal(take(k, 9, 100).n, 1);
    RUN(k, append, &r);
    assert_int_equal(r.req.err, PP_EEXISTS);
}

/* A queue that can be a journal must return an entry exactly as it was appended. */
static void read_as_appended(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = entry("c", "b_1", "payload"), plain = entry("c", "b_2", "x");
    r.key = "key-1";
    r.body_hash[3] = 7;
    r.answer = "the answer";
    r.answer_n = 10;
    r.entry.replay = true;
    r.entry.cancelled = true;
    r.entry.label = "monday";
    r.entry.max_age_ms = 8;
    OK(k, append, &r);
    OK(k, append, &plain);
    take(k, 1, 100);
    reopen(k);
    struct pp_ingest_read got = {.batch_id = "b_1"};
    OK(k, read, &got);
    assert_string_equal(got.append.entry.client, "c");
    assert_int_equal(got.append.entry.created_at, 1001);
    assert_true(got.append.entry.replay && got.append.entry.cancelled);
    assert_string_equal(got.append.entry.label, "monday");
    assert_int_equal(got.append.entry.max_age_ms, 8);
    assert_int_equal(got.append.entry.payload_n, 7);
    assert_memory_equal(got.append.entry.payload, "payload", 7);
    assert_string_equal(got.append.key, "key-1");
    assert_int_equal(got.append.body_hash[3], 7);
    assert_int_equal(got.append.answer_n, 10);
    assert_memory_equal(got.append.answer, "the answer", 10);
    assert_int_equal(got.append.now_ms, 5000);
    got.batch_id = "b_2";
    OK(k, read, &got);
    assert_null(got.append.key);
    got.batch_id = "b_3";
    RUN(k, read, &got);
    assert_int_equal(got.req.err, PP_ENOTFOUND);
}

int pp_suite_ingest_queue(const struct pp_ingest_subject *s)
{
#define T(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
    const struct CMUnitTest tests[] = {
        T(comes_out_as_it_went_in),
        T(without_photos),
        T(oldest_first_and_bounded),
        T(others_come_in_turn),
        T(acked_is_gone),
        T(a_restart_gives_back_what_was_taken),
        T(keys_find_their_answer),
        T(a_key_can_be_asked_for),
        T(refused_append_keeps_no_key),
        T(high_water_by_photos),
        T(high_water_by_items_and_bytes),
        T(bounded_by_bytes),
        T(keys_are_bounded),
        T(poison_is_set_aside),
        T(set_aside_is_listed),
        T(put_back_is_taken_again),
        T(put_back_and_cancelled),
        T(put_back_wakes),
        T(cancelled_before_planning),
        T(read_and_listed),
        T(labels_and_ages),
        T(a_large_entry),
        T(many_at_once),
        T(an_append_wakes),
        T(asked_what_became_of_it),
        T(appended_twice),
        T(given_back_is_no_delivery),
    };
    const struct CMUnitTest of_journals[] = {T(read_as_appended)};
#undef T
    subject = s;
    int failed = cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
    return s->can_be_journal ? failed + cmocka_run_group_tests_name(s->name, of_journals, NULL, NULL)
                             : failed;
}
