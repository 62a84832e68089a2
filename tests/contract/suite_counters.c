/* suite_counters.c: tests the contract of port/counters.h: each increment counts once, on its
 * day. */
#include "suite_counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "test_loop.h"

/* --- the kit --- */

static const struct pp_counters_subject *in_use;

void cnt_use(const struct pp_counters_subject *subject)
{
    in_use = subject;
}

void cnt_open_port(struct counters_kit *k, int i)
{
    enum pp_err err = k->subject->open(k->loop, k->place, &k->ports[i]);
    assert_string_equal(pp_err_text(err), pp_err_text(PP_OK));
}

void cnt_close_port(struct counters_kit *k, int i)
{
    if (k->ports[i])
        k->ports[i]->ops->close(k->ports[i]);
    k->ports[i] = NULL;
}

int cnt_open(void **state)
{
    struct counters_kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->subject = in_use;
    k->place = in_use->place();
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, (size_t)1 << 30);
    cnt_open_port(k, 0);
    *state = k;
    return 0;
}

int cnt_close(void **state)
{
    struct counters_kit *k = *state;
    for (int i = 0; i < 2; i++)
        cnt_close_port(k, i);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

void cnt_on_done(struct pp_req *req)
{
    struct counters_kit *k = req->data;
    assert_true(k->waits > 0);
    k->waits--;
}

static bool none_waits(void *arg)
{
    return ((struct counters_kit *)arg)->waits == 0;
}

void cnt_wait(struct counters_kit *k)
{
    pp_test_until(k->loop, none_waits, k, CNT_LONG_MS);
}

int64_t cnt_add_on(struct counters_kit *k, int i, const char *key, int64_t by, int32_t day)
{
    struct pp_counters_add r = {.keys = &key, .by = &by, .n = 1, .day = day, .now_ms = CNT_NOW};
    CNT_DUE(k, i, add, &r, PP_OK);
    return r.sums[0];
}

int64_t cnt_add(struct counters_kit *k, int i, const char *key, int64_t by)
{
    return cnt_add_on(k, i, key, by, CNT_DAY);
}

int64_t cnt_read(struct counters_kit *k, int i, const char *key)
{
    struct pp_counters_read r = {.keys = &key, .n = 1, .now_ms = CNT_NOW};
    CNT_DUE(k, i, read, &r, PP_OK);
    return r.sums[0];
}

int64_t cnt_day(struct counters_kit *k, int i, const char *key, int32_t day)
{
    struct pp_counters_days r = {.key = key, .from = day, .to = day};
    CNT_DUE(k, i, days, &r, PP_OK);
    assert_in_range(r.n, 0, 1);
    assert_true(r.n == 0 || r.days[0].day == day);
    return r.n ? r.days[0].n : -1;
}

void cnt_remove(struct counters_kit *k, int i, const char *key)
{
    struct pp_counters_remove r = {.key = key, .now_ms = CNT_NOW};
    CNT_DUE(k, i, remove, &r, PP_OK);
}

struct pp_counter_token cnt_token(const char *id, const char *digest)
{
    struct pp_counter_token t = {{0}, {0}};
    assert_true(strlen(id) <= sizeof t.id && strlen(digest) <= sizeof t.digest);
    memcpy(t.id, id, strlen(id));
    memcpy(t.digest, digest, strlen(digest));
    return t;
}

/* --- tests --- */

static void sums(void **state)
{
    struct counters_kit *k = *state;
    assert_int_equal(cnt_read(k, 0, "a"), 0);
    assert_int_equal(cnt_add(k, 0, "a", 1), 1);
    assert_int_equal(cnt_add(k, 0, "a", 41), 42);
    assert_int_equal(cnt_add(k, 0, "view:42:ad-1", 7), 7);
    assert_int_equal(cnt_read(k, 0, "a"), 42);
    const char *const keys[] = {"view:42:ad-1", "none", "a", "a"};
    struct pp_counters_read r = {.keys = keys, .n = 4, .now_ms = CNT_NOW};
    CNT_DUE(k, 0, read, &r, PP_OK);
    const int64_t due[] = {7, 0, 42, 42};
    assert_memory_equal(r.sums, due, sizeof due);
}

static void several_rows_for_one_key(void **state)
{
    struct counters_kit *k = *state;
    const char *const keys[] = {"a", "b", "a", "a"};
    const int64_t by[] = {1, 10, 2, 4}, due[] = {1, 10, 3, 7};
    struct pp_counters_add r = {.keys = keys, .by = by, .n = 4, .day = CNT_DAY, .now_ms = CNT_NOW};
    CNT_DUE(k, 0, add, &r, PP_OK);
    assert_false(r.replayed);
    assert_memory_equal(r.sums, due, sizeof due);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 7);
}

static void days(void **state)
{
    struct counters_kit *k = *state;
    /* 2026-11-28 to 2027-01-01: three months and two years */
    const int32_t on[] = {CNT_DAY, CNT_DAY + 1, CNT_DAY + 2, CNT_DAY + 3, CNT_DAY + 33, CNT_DAY + 34};
    for (int round = 1; round <= 2; round++)
        for (int i = 0; i < 6; i++)
            cnt_add_on(k, 0, "a", round * (i + 1), on[i]);
    cnt_add_on(k, 0, "a:b", 1000, CNT_DAY); /* a key that begins alike */
    cnt_add_on(k, 0, "a-", 1000, CNT_DAY);
    struct pp_counters_days r = {.key = "a", .from = CNT_DAY - 300, .to = CNT_DAY + 90};
    CNT_DUE(k, 0, days, &r, PP_OK);
    assert_int_equal(r.n, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(r.days[i].day, on[i]);
        assert_int_equal(r.days[i].n, 3 * (i + 1));
    }
    r = (struct pp_counters_days){.key = "a", .from = CNT_DAY + 1, .to = CNT_DAY + 33};
    CNT_DUE(k, 0, days, &r, PP_OK);
    assert_int_equal(r.n, 4);
    assert_int_equal(r.days[0].day, CNT_DAY + 1);
    assert_int_equal(cnt_read(k, 0, "a"), 63);
}

static void tokens(void **state)
{
    struct counters_kit *k = *state;
    const char *const keys[] = {"a", "b"};
    const int64_t by[] = {1, 2};
    struct pp_counter_token one = cnt_token("one", "x"), two = cnt_token("two", "x"),
                            other = cnt_token("one", "y");
    for (int i = 0; i < 3; i++) {
        struct pp_counters_add r = {
            .keys = keys, .by = by, .n = 2, .day = CNT_DAY, .now_ms = CNT_NOW + i, .token = &one};
        CNT_DUE(k, 0, add, &r, PP_OK);
        assert_int_equal(r.replayed, i > 0);
        assert_int_equal(r.sums[0], 1);
        assert_int_equal(r.sums[1], 2);
        cnt_add(k, 0, "b", 100);
    }
    struct pp_counters_add wrong = {
        .keys = keys, .by = by, .n = 2, .day = CNT_DAY, .now_ms = CNT_NOW, .token = &other};
    CNT_DUE(k, 0, add, &wrong, PP_EMISMATCH);
    struct pp_counters_add r = {
        .keys = keys, .by = by, .n = 2, .day = CNT_DAY, .now_ms = CNT_NOW, .token = &two};
    CNT_DUE(k, 0, add, &r, PP_OK);
    assert_false(r.replayed);
    assert_int_equal(r.sums[0], 2);
    assert_int_equal(r.sums[1], 304);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 2);
}

static void removed(void **state)
{
    struct counters_kit *k = *state;
    cnt_remove(k, 0, "a"); /* it does not exist */
    cnt_add(k, 0, "a", 5);
    cnt_add(k, 0, "b", 6);
    cnt_remove(k, 0, "a");
    assert_int_equal(cnt_read(k, 0, "a"), 0);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), -1);
    assert_int_equal(cnt_add(k, 0, "a", 2), 2);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 2);
    assert_int_equal(cnt_read(k, 0, "b"), 6);
}

/* Many requests at once, in an order that nobody knows. */
static void at_once(void **state)
{
    enum { N = 400, KEYS = 7 };
    struct counters_kit *k = *state;
    static struct pp_counters_add r[N];
    static char names[KEYS][16];
    static const char *keys[N];
    static const int64_t one = 1;
    uint64_t seed = 5, due[KEYS] = {0};
    if (k->subject->shared)
        cnt_open_port(k, 1);
    for (int i = 0; i < KEYS; i++)
        snprintf(names[i], sizeof names[i], "k%d", i);
    for (int i = 0; i < N; i++) {
        uint64_t key = pp_test_rnd(&seed) % KEYS;
        keys[i] = names[key];
        due[key]++;
        r[i] =
            (struct pp_counters_add){.keys = &keys[i], .by = &one, .n = 1, .day = CNT_DAY, .now_ms = CNT_NOW};
        CNT_SEND(k, k->subject->shared ? i % 2 : 0, add, &r[i]);
    }
    cnt_wait(k);
    for (int i = 0; i < N; i++)
        assert_int_equal(r[i].req.err, PP_OK);
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(cnt_read(k, 0, names[i]), due[i]);
        assert_int_equal(cnt_day(k, 0, names[i], CNT_DAY), due[i]);
    }
}

static void opened_again(void **state)
{
    struct counters_kit *k = *state;
    const int64_t by = 3;
    const char *key = "a";
    struct pp_counter_token token = cnt_token("t", "x");
    struct pp_counters_add r = {
        .keys = &key, .by = &by, .n = 1, .day = CNT_DAY, .now_ms = CNT_NOW, .token = &token};
    CNT_DUE(k, 0, add, &r, PP_OK);
    cnt_close_port(k, 0);
    cnt_open_port(k, 0);
    assert_int_equal(cnt_read(k, 0, "a"), 3);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 3);
    struct pp_counters_add again = {
        .keys = &key, .by = &by, .n = 1, .day = CNT_DAY + 1, .now_ms = CNT_NOW, .token = &token};
    CNT_DUE(k, 0, add, &again, PP_OK);
    assert_true(again.replayed);
    assert_int_equal(cnt_read(k, 0, "a"), 3);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY + 1), -1);
}

static void a_thousand_long_keys(void **state)
{
    struct counters_kit *k = *state;
    static char names[PP_COUNTER_ROWS_MAX + 1][PP_COUNTER_KEY_MAX + 1];
    static const char *keys[PP_COUNTER_ROWS_MAX + 1];
    static int64_t by[PP_COUNTER_ROWS_MAX + 1];
    for (int i = 0; i <= PP_COUNTER_ROWS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "%0*d", PP_COUNTER_KEY_MAX, i);
        keys[i] = names[i];
        by[i] = i + 1;
    }
    struct pp_counters_add r = {
        .keys = keys, .by = by, .n = PP_COUNTER_ROWS_MAX, .day = CNT_DAY, .now_ms = CNT_NOW};
    CNT_DUE(k, 0, add, &r, PP_OK);
    CNT_DUE(k, 0, add, &r, PP_OK);
    for (int i = 0; i < PP_COUNTER_ROWS_MAX; i++)
        assert_int_equal(r.sums[i], 2 * (i + 1));
    struct pp_counters_read read = {.keys = keys, .n = PP_COUNTER_ROWS_MAX, .now_ms = CNT_NOW};
    CNT_DUE(k, 0, read, &read, PP_OK);
    assert_memory_equal(read.sums, r.sums, PP_COUNTER_ROWS_MAX * sizeof *r.sums);
}

static void counts_round_trips(void **state)
{
    struct counters_kit *k = *state;
    const char *name;
    uint64_t n, before = 0, after = 0;
    size_t i;
    for (i = 0; k->ports[0]->ops->roundtrips(k->ports[0], i, &name, &n); i++)
        before += n;
    assert_true(i > 0);
    cnt_add(k, 0, "a", 1);
    for (i = 0; k->ports[0]->ops->roundtrips(k->ports[0], i, &name, &n); i++)
        after += n;
    assert_true(after > before);
}

int pp_suite_counters(const struct pp_counters_subject *subject)
{
#define T(f) cmocka_unit_test_setup_teardown(f, cnt_open, cnt_close)
    const struct CMUnitTest tests[] = {T(sums),
                                       T(several_rows_for_one_key),
                                       T(days),
                                       T(tokens),
                                       T(removed),
                                       T(at_once),
                                       T(opened_again),
                                       T(a_thousand_long_keys),
                                       T(counts_round_trips)};
    cnt_use(subject);
    return cmocka_run_group_tests_name(subject->name, tests, NULL, NULL);
}
