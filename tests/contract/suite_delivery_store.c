/* suite_delivery_store.c: tests cursors and deliveries of port/delivery_store.h, and runs all
 * parts of the suite. Add a test to the part that has its subject. */
#include "suite_delivery_store.h"

#include <stdio.h>
#include <string.h>

#include "suite_delivery_kit.h"

/* --- cursors --- */

static void cursors_only_grow(void **state)
{
    struct delivery_kit *k = *state;
    uint64_t at = 70;
    struct pp_delivery_cursor r = {.sink = "hub"};
    DK_EXPECT(k, cursor, &r, PP_ENOTFOUND);
    DK_EXPECT(k, cursor, &r, PP_ENOTFOUND); /* The first request has not created a cursor. */
    r.start_at = &at;
    DK_OK(k, cursor, &r);
    assert_int_equal(r.cursor, 70);
    at = 99;
    DK_OK(k, cursor, &r);
    assert_int_equal(r.cursor, 70); /* start_at has no effect on a cursor that exists. */
    static const struct {
        uint64_t saved, then;
    } steps[] = {{71, 71}, {70, 71}, {1, 71}, {0, 71}, {71, 71}, {1000, 1000}, {1ull << 53, 1ull << 53}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        dk_save(k, "hub", steps[i].saved, NULL, 0);
        assert_int_equal(dk_cursor(k, "hub"), steps[i].then);
    }
    at = 0;
    struct pp_delivery_cursor zero = {.sink = "amqp", .start_at = &at};
    DK_OK(k, cursor, &zero);
    assert_int_equal(dk_cursor(k, "amqp"), 0);
    assert_int_equal(dk_cursor(k, "hub"), 1ull << 53);
}

static void no_cursor_no_rows(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_delivery one = dk_row(5, PP_DELIVERY_PENDING, DK_NOW);
    for (uint64_t cursor = 0; cursor <= 7; cursor += 7) {
        struct pp_delivery_save r = {.sink = "hub", .cursor = cursor, .rows = &one, .n = 1};
        DK_EXPECT(k, save, &r, PP_ENOTFOUND);
    }
    struct pp_delivery_cursor r = {.sink = "hub"};
    DK_EXPECT(k, cursor, &r, PP_ENOTFOUND);
    struct pp_delivery_sinks sinks = {.n = 99};
    DK_OK(k, sinks, &sinks);
    assert_int_equal(sinks.n, 0);
    dk_make_sink(k, "hub", 1);
    assert_int_equal(dk_list(k, "hub", -1, 0, 10).n, 0);
    assert_int_equal(dk_due(k, "hub", INT64_MAX, 10).n, 0);
}

/* --- rows: what became of single messages at a sink --- */

static void rows_are_replaced(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_delivery rows[3] = {dk_row(1, PP_DELIVERY_PENDING, DK_NOW + 5), dk_row(2, PP_DELIVERY_DEAD, 0),
                                  dk_row(3, PP_DELIVERY_DELIVERED, 0)};
    dk_make_sink(k, "a", 0);
    dk_make_sink(k, "b", 0);
    dk_save(k, "a", 3, rows, 3);
    dk_save(k, "b", 3, rows, 1);
    rows[0].status = PP_DELIVERY_DELIVERED;
    rows[0].attempts = 4;
    rows[0].http_status = 204;
    rows[0].updated_at = DK_NOW + 77;
    rows[0].error = "late";
    rows[0].due_ms = 0;
    rows[1] = dk_row(2, PP_DELIVERY_PENDING, DK_NOW + 9);
    rows[1].id = "r_other";
    for (int again = 0; again < 2; again++) {
        dk_save(k, "a", 3, rows, 2);
        struct pp_delivery_list l = dk_list(k, "a", -1, 0, 10);
        assert_int_equal(l.n, 3);
        for (size_t i = 0; i < 3; i++)
            dk_same_row(&l.rows[i], &rows[2 - i]);
    }
    struct pp_delivery_due d = dk_due(k, "a", DK_NOW + 9, 10);
    dk_seqs_are(d.rows, d.n, "2");
    /* The other sink has a row with the same seq, which must not have changed. */
    d = dk_due(k, "b", DK_NOW + 9, 10);
    dk_seqs_are(d.rows, d.n, "1");
    assert_int_equal(d.rows[0].attempts, 0);
}

static void strange_strings_survive(void **state)
{
    struct delivery_kit *k = *state;
    const char *const texts[] = {"",
                                 "$set",
                                 "a.b.c",
                                 "{\"$gt\": \"\"}",
                                 "'; DROP TABLE sinks; --",
                                 "caf\xc3\xa9 \xf0\x9f\x93\xb7",
                                 "line\r\nline\t\x01\x7f",
                                 "not \xff\xfe UTF-8 \xc3",
                                 "%s%n%",
                                 dk_long_text(k, 255, 'e')};
    enum { N = sizeof texts / sizeof *texts };
    const char *const sinks[] = {"hub", "webhook:a-B_9", "webhook:$x.y",
                                 dk_long_text(k, PP_SINK_NAME_MAX - 1, 's')};
    struct pp_delivery rows[N + 1];
    for (size_t i = 0; i < N; i++) {
        rows[i] = dk_row(100 + i, PP_DELIVERY_PENDING, INT64_MAX - (int64_t)i);
        rows[i].id = rows[i].client = rows[i].error = texts[i];
        rows[i].attempts = UINT32_MAX;
        rows[i].http_status = 599;
    }
    rows[N] = dk_row((1ull << 53) - 1, PP_DELIVERY_DEAD, 0); /* A dead row without an error text. */
    for (size_t s = 0; s < sizeof sinks / sizeof *sinks; s++) {
        dk_make_sink(k, sinks[s], s);
        dk_save(k, sinks[s], 0, rows, N + 1);
    }
    dk_reopen(k);
    for (size_t s = 0; s < sizeof sinks / sizeof *sinks; s++) {
        struct pp_delivery_list l = dk_list(k, sinks[s], -1, 0, 100);
        assert_int_equal(l.n, N + 1);
        for (size_t i = 0; i <= N; i++)
            dk_same_row(&l.rows[i], &rows[N - i]);
        assert_int_equal(dk_sink(k, sinks[s]).pending, N);
        assert_int_equal(dk_cursor(k, sinks[s]), s);
    }
}

static void due_in_order(void **state)
{
    struct delivery_kit *k = *state;
    const struct pp_delivery rows[] = {
        dk_row(1, PP_DELIVERY_PENDING, DK_NOW + 30), dk_row(2, PP_DELIVERY_PENDING, DK_NOW + 10),
        dk_row(3, PP_DELIVERY_PENDING, DK_NOW + 20), dk_row(4, PP_DELIVERY_PENDING, DK_NOW + 10),
        dk_row(5, PP_DELIVERY_DELIVERED, 0),         dk_row(6, PP_DELIVERY_DEAD, 0),
        dk_row(7, PP_DELIVERY_PENDING, DK_NOW + 40),
    };
    const struct pp_delivery other = dk_row(8, PP_DELIVERY_PENDING, DK_NOW);
    static const struct {
        int64_t now;
        size_t limit;
        const char *seqs;
        int64_t next;
    } cases[] = {
        {DK_NOW + 9, 10, "", DK_NOW + 10},       {DK_NOW + 10, 10, "2 4", DK_NOW + 20},
        {DK_NOW + 10, 2, "2 4", DK_NOW + 20},    {DK_NOW + 10, 1, "2", DK_NOW + 10},
        {DK_NOW + 29, 10, "2 4 3", DK_NOW + 30}, {DK_NOW + 30, 10, "2 4 3 1", DK_NOW + 40},
        {DK_NOW + 99, 3, "2 4 3", DK_NOW + 30},  {DK_NOW + 40, 5, "2 4 3 1 7", INT64_MAX},
        {INT64_MAX, 5, "2 4 3 1 7", INT64_MAX},  {DK_NOW + 40, 4, "2 4 3 1", DK_NOW + 40},
        {DK_NOW + 40, 0, "", DK_NOW + 10},       {0, 1000, "", DK_NOW + 10},
    };
    dk_make_sink(k, "a", 0);
    dk_make_sink(k, "b", 0);
    dk_make_sink(k, "c", 0);
    dk_save(k, "a", 0, rows, sizeof rows / sizeof *rows);
    dk_save(k, "b", 0, &other, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_delivery_due d = dk_due(k, "a", cases[i].now, cases[i].limit);
        dk_seqs_are(d.rows, d.n, cases[i].seqs);
        assert_int_equal(d.next_ms, cases[i].next);
    }
    struct pp_delivery_due none = dk_due(k, "c", INT64_MAX, 10);
    assert_int_equal(none.n, 0);
    assert_int_equal(none.next_ms, INT64_MAX);
    none = dk_due(k, "unknown", INT64_MAX, 10);
    assert_int_equal(none.n, 0);
    assert_int_equal(none.next_ms, INT64_MAX);
}

static void lists_page_by_page(void **state)
{
    struct delivery_kit *k = *state;
    enum { N = 50 };
    struct pp_delivery rows[N];
    dk_make_sink(k, "a", 0);
    dk_make_sink(k, "b", 0);
    for (size_t i = 0; i < N; i++)
        rows[i] = dk_row(2 * i + 2, (enum pp_delivery_status)(i % 3), i % 3 ? 0 : DK_NOW);
    dk_save(k, "a", 0, rows, N);
    dk_save(k, "b", 0, rows, 1);
    for (int status = -1; status < 3; status++) {
        for (size_t limit = 1; limit < N + 5; limit += limit < 6 ? 1 : 11) {
            struct pp_delivery_list l = {.more = true};
            size_t seen = 0;
            uint64_t before = 0;
            for (size_t i = N; l.more;) {
                l = dk_list(k, "a", status, before, limit);
                for (size_t j = 0; j < l.n; j++, seen++) {
                    do
                        i--;
                    while (status >= 0 && (int)rows[i].status != status);
                    dk_same_row(&l.rows[j], &rows[i]);
                }
                assert_true(l.n == limit || !l.more);
                before = l.n ? l.rows[l.n - 1].seq : before;
            }
            assert_int_equal(seen, status < 0 ? N : status == 2 ? 16 : 17);
        }
    }
    /* The list begins below seq 13, although no row has that seq. */
    struct pp_delivery_list l = dk_list(k, "a", -1, 13, 2);
    dk_seqs_are(l.rows, l.n, "12 10");
    assert_true(l.more);
    assert_false(dk_list(k, "a", -1, 2, 5).more);
    assert_true(dk_list(k, "a", -1, 0, 0).more);
    assert_int_equal(dk_list(k, "unknown", -1, 0, 5).n, 0);
}

static void replay_by_range_and_status(void **state)
{
    struct delivery_kit *k = *state;
    enum { N = 12 };
    struct pp_delivery rows[N];
    static const struct {
        int status;
        int64_t from, to;
    } cases[] = {{-1, 0, INT64_MAX},
                 {-1, DK_NOW + 3, DK_NOW + 7},
                 {PP_DELIVERY_DEAD, 0, INT64_MAX},
                 {PP_DELIVERY_DEAD, DK_NOW + 3, DK_NOW + 3},
                 {PP_DELIVERY_DELIVERED, DK_NOW + 2, DK_NOW + 6},
                 {PP_DELIVERY_PENDING, DK_NOW + 1, DK_NOW + 9},
                 {-1, DK_NOW + 8, DK_NOW + 7},
                 {-1, DK_NOW + 100, DK_NOW + 200}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *sink = pp_arena_printf(&k->arena, "s%zu", c);
        uint64_t n = 0;
        dk_make_sink(k, sink, 3);
        for (size_t i = 0; i < N; i++) {
            rows[i] = dk_row(i + 1, (enum pp_delivery_status)(i % 3), i % 3 ? 0 : DK_NOW + 5000 + (int64_t)i);
            rows[i].attempts = 7;
            rows[i].http_status = 500;
            rows[i].error = "no";
        }
        dk_save(k, sink, 12, rows, N);
        for (size_t i = 0; i < N; i++) {
            bool chosen = (cases[c].status < 0 || (int)rows[i].status == cases[c].status) &&
                          rows[i].finished_at >= cases[c].from && rows[i].finished_at <= cases[c].to;
            if (!chosen)
                continue;
            rows[i].status = PP_DELIVERY_PENDING;
            rows[i].attempts = 0;
            rows[i].due_ms = DK_NOW + 1000;
            n++;
        }
        struct pp_delivery_replay r = {.sink = sink,
                                       .status = cases[c].status,
                                       .from_ms = cases[c].from,
                                       .to_ms = cases[c].to,
                                       .now_ms = DK_NOW + 1000,
                                       .n = 99};
        DK_OK(k, replay, &r);
        assert_int_equal(r.n, n);
        struct pp_delivery_list l = dk_list(k, sink, -1, 0, 100);
        assert_int_equal(l.n, N);
        for (size_t i = 0; i < N; i++)
            dk_same_row(&l.rows[N - 1 - i], &rows[i]);
        assert_int_equal(dk_due(k, sink, DK_NOW + 1000, 100).n, n);
        assert_int_equal(dk_cursor(k, sink), 12);
    }
    struct pp_delivery_replay r = {.sink = "unknown", .status = -1, .to_ms = INT64_MAX, .n = 99};
    DK_OK(k, replay, &r);
    assert_int_equal(r.n, 0);
}

static void sinks_are_counted(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_delivery_sinks r = {.n = 99};
    DK_OK(k, sinks, &r);
    assert_int_equal(r.n, 0);
    dk_make_sink(k, "webhook:b", 5);
    dk_make_sink(k, "hub", 6);
    dk_make_sink(k, "webhook:a", 7);
    struct pp_delivery rows[] = {dk_row(4, PP_DELIVERY_DELIVERED, 0), dk_row(9, PP_DELIVERY_PENDING, DK_NOW),
                                 dk_row(7, PP_DELIVERY_PENDING, DK_NOW + 9), dk_row(8, PP_DELIVERY_DEAD, 0),
                                 dk_row(3, PP_DELIVERY_DEAD, 0)};
    /* This item finished before an item with a lower seq, and its row is due later. */
    rows[2].finished_at = DK_NOW + 2;
    dk_save(k, "webhook:b", 9, rows, 5);
    dk_save(k, "webhook:a", 0, rows + 3, 1);
    DK_OK(k, sinks, &r);
    static const struct pp_delivery_sink expected[] = {
        {"hub", 6, 0, 0, 0}, {"webhook:a", 7, 0, 1, 0}, {"webhook:b", 9, 2, 2, DK_NOW + 2}};
    assert_int_equal(r.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(r.sinks[i].sink, expected[i].sink);
        assert_int_equal(r.sinks[i].cursor, expected[i].cursor);
        assert_int_equal(r.sinks[i].pending, expected[i].pending);
        assert_int_equal(r.sinks[i].dead, expected[i].dead);
        assert_int_equal(r.sinks[i].oldest_at, expected[i].oldest_at);
    }
}

static void old_ones_are_forgotten(void **state)
{
    struct delivery_kit *k = *state;
    enum { N = 30, SINKS = 3 };
    static const char *const sinks[SINKS] = {"hub", "webhook:a", "webhook:b"};
    struct pp_delivery rows[N];
    uint64_t total = 0;
    unsigned calls = 0;
    for (size_t s = 0; s < SINKS; s++) {
        dk_make_sink(k, sinks[s], 0);
        for (size_t i = 0; i < N; i++)
            rows[i] = dk_row(i, (enum pp_delivery_status)(i % 3), i % 3 ? 0 : DK_NOW);
        dk_save(k, sinks[s], N, rows, N);
    }
    struct pp_delivery_clean r = {.finished_before_ms = DK_NOW + 20, .limit = 7, .n = 7};
    for (; r.n == r.limit; calls++) {
        DK_OK(k, clean, &r);
        assert_true(r.n <= r.limit);
        total += r.n;
    }
    /* Each sink has 20 old rows, and clean() keeps the seven that are pending. */
    assert_int_equal(total, SINKS * 13);
    assert_int_equal(calls, 39 / 7 + 1);
    for (size_t s = 0; s < SINKS; s++) {
        struct pp_delivery_list l = dk_list(k, sinks[s], -1, 0, 100);
        dk_seqs_are(l.rows, l.n, "29 28 27 26 25 24 23 22 21 20 18 15 12 9 6 3 0");
        assert_int_equal(dk_cursor(k, sinks[s]), N);
    }
    r.limit = 1000;
    DK_OK(k, clean, &r);
    assert_int_equal(r.n, 0);
}

static void a_large_save(void **state)
{
    struct delivery_kit *k = *state;
    enum { N = 2500 };
    struct pp_delivery *rows = pp_arena_array(&k->arena, N, sizeof *rows);
    dk_make_sink(k, "hub", 0);
    for (size_t i = 0; i < N; i++) {
        rows[i] = dk_row(i + 1, PP_DELIVERY_PENDING, DK_NOW + (int64_t)(N - i));
        rows[i].error = dk_long_text(k, 255, 'x');
    }
    dk_save(k, "hub", N, rows, N);
    struct pp_delivery_list l = dk_list(k, "hub", -1, 0, N);
    assert_int_equal(l.n, N);
    assert_false(l.more);
    for (size_t i = 0; i < N; i++)
        dk_same_row(&l.rows[N - 1 - i], &rows[i]);
    struct pp_delivery_due d = dk_due(k, "hub", DK_NOW + N, N + 1);
    assert_int_equal(d.n, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(d.rows[i].seq, N - i);
}

/* --- the count of round trips --- */

static void requests_are_counted(void **state)
{
    struct delivery_kit *k = *state;
    const char *name;
    uint64_t n, total = 0;
    dk_make_sink(k, "hub", 1);
    dk_save(k, "hub", 2, NULL, 0);
    for (size_t i = 0; k->store->ops->roundtrips(k->store, i, &name, &n); i++) {
        assert_true(strlen(name) > 0 && i < 100);
        total += n;
    }
    assert_true(total >= 2);
}

int pp_suite_delivery_store(const struct pp_delivery_subject *subject)
{
    static const struct CMUnitTest tests[] = {
        DK_TEST(cursors_only_grow),
        DK_TEST(no_cursor_no_rows),
        DK_TEST(rows_are_replaced),
        DK_TEST(strange_strings_survive),
        DK_TEST(due_in_order),
        DK_TEST(lists_page_by_page),
        DK_TEST(replay_by_range_and_status),
        DK_TEST(sinks_are_counted),
        DK_TEST(old_ones_are_forgotten),
        DK_TEST(a_large_save),
        DK_TEST(requests_are_counted),
    };
    static const struct delivery_tests of_rows = {tests, sizeof tests / sizeof *tests};
    const struct delivery_tests *const parts[] = {&of_rows, &delivery_random_tests, &delivery_webhook_tests,
                                                  &delivery_day_tests};
    int failed = 0;
    dk_use(subject);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        failed += _cmocka_run_group_tests(subject->name, parts[i]->tests, parts[i]->n, NULL, NULL);
    return failed;
}
