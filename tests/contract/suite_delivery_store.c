/* suite_delivery_store.c: the contract of port/delivery_store.h: tables, and random work against a model. To
 * add a rule, add a test. */
#include "suite_delivery_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/text.h"
#include "test_loop.h"

enum { NOW = 1700000000, PATIENCE_MS = 60000 };

/* --- the kit --- */

static const struct pp_delivery_subject *subject_in_use;

struct kit {
    const char *place;
    struct pp_loop *loop;
    struct pp_delivery_store *store;
    struct pp_arena arena; /* all answers, until the test ends */
    unsigned left;         /* requests under way */
};

static void open_store(struct kit *k)
{
    enum pp_err err = subject_in_use->open(k->loop, k->place, &k->store);
    assert_string_equal(pp_err_text(err), pp_err_text(PP_OK));
}

static int set_up(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->place = subject_in_use->place();
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, 0);
    open_store(k);
    *state = k;
    return 0;
}

static int tear_down(void **state)
{
    struct kit *k = *state;
    k->store->ops->close(k->store);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

static void reopen(struct kit *k)
{
    k->store->ops->close(k->store);
    open_store(k);
}

static void on_done(struct pp_req *req)
{
    ((struct kit *)req->data)->left--;
}

static bool all_done(void *arg)
{
    return ((struct kit *)arg)->left == 0;
}

static struct pp_req request(struct kit *k, struct pp_arena *arena)
{
    k->left++;
    return (struct pp_req){.done = on_done, .data = k, .arena = arena};
}

static void wait_for_all(struct kit *k)
{
    pp_test_until(k->loop, all_done, k, PATIENCE_MS);
}

#define RUN(k, op, r)                                                      \
    do {                                                                   \
        (r)->req = request((k), &(k)->arena);                              \
        assert_int_equal((k)->store->ops->op((k)->store, (r)), PP_OK);     \
        assert_int_equal((k)->left, 1); /* later, never within the call */ \
        wait_for_all(k);                                                   \
    } while (0)
#define EXPECT(k, op, r, expected)                                             \
    do {                                                                       \
        RUN(k, op, r);                                                         \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(expected)); \
    } while (0)
#define OK(k, op, r) EXPECT(k, op, r, PP_OK)

static void make_sink(struct kit *k, const char *sink, uint64_t at)
{
    struct pp_delivery_cursor r = {.sink = sink, .start_at = &at};
    OK(k, cursor, &r);
}

static uint64_t cursor_of(struct kit *k, const char *sink)
{
    struct pp_delivery_cursor r = {.sink = sink};
    OK(k, cursor, &r);
    return r.cursor;
}

static void save(struct kit *k, const char *sink, uint64_t cursor, const struct pp_delivery *rows, size_t n)
{
    struct pp_delivery_save r = {.sink = sink, .cursor = cursor, .rows = rows, .n = n};
    OK(k, save, &r);
}

static struct pp_delivery row(uint64_t seq, enum pp_delivery_status status, int64_t due_ms)
{
    return (struct pp_delivery){.seq = seq,
                                .id = "r_1",
                                .client = "42",
                                .status = status,
                                .finished_at = NOW + (int64_t)seq,
                                .updated_at = NOW,
                                .due_ms = due_ms};
}

static struct pp_delivery_list list(struct kit *k, const char *sink, int status, uint64_t before,
                                    size_t limit)
{
    struct pp_delivery_list r = {.sink = sink, .status = status, .before_seq = before, .limit = limit};
    OK(k, list, &r);
    assert_true(r.n <= limit);
    return r;
}

static struct pp_delivery_due due(struct kit *k, const char *sink, int64_t now_ms, size_t limit)
{
    struct pp_delivery_due r = {.sink = sink, .now_ms = now_ms, .limit = limit};
    OK(k, due, &r);
    assert_true(r.n <= limit);
    return r;
}

static void same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a)
        assert_string_equal(a, b);
}

static void same_row(const struct pp_delivery *a, const struct pp_delivery *b)
{
    assert_int_equal(a->seq, b->seq);
    same_text(a->id, b->id);
    same_text(a->client, b->client);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->attempts, b->attempts);
    assert_int_equal(a->finished_at, b->finished_at);
    assert_int_equal(a->updated_at, b->updated_at);
    assert_int_equal(a->due_ms, b->due_ms);
    assert_int_equal(a->http_status, b->http_status);
    same_text(a->error, b->error);
}

/* The seqs of the rows are these. */
static void seqs_are(const struct pp_delivery *rows, size_t n, const char *expected)
{
    char text[512] = "", *p = text;
    for (size_t i = 0; i < n && p < text + sizeof text - 24; i++)
        p += snprintf(p, 24, "%s%llu", i ? " " : "", (unsigned long long)rows[i].seq);
    assert_string_equal(text, expected);
}

static struct pp_delivery_sink sink_of(struct kit *k, const char *sink)
{
    struct pp_delivery_sinks r = {.n = 99};
    OK(k, sinks, &r);
    for (size_t i = 0; i < r.n; i++)
        if (!strcmp(r.sinks[i].sink, sink))
            return r.sinks[i];
    fail_msg("%s is not there", sink);
    return (struct pp_delivery_sink){0};
}

/* --- cursors --- */

static void cursors_only_grow(void **state)
{
    struct kit *k = *state;
    uint64_t at = 70;
    struct pp_delivery_cursor r = {.sink = "hub"};
    EXPECT(k, cursor, &r, PP_ENOTFOUND);
    EXPECT(k, cursor, &r, PP_ENOTFOUND); /* asking makes none */
    r.start_at = &at;
    OK(k, cursor, &r);
    assert_int_equal(r.cursor, 70);
    at = 99;
    OK(k, cursor, &r);
    assert_int_equal(r.cursor, 70); /* it has one */
    static const struct {
        uint64_t saved, then;
    } steps[] = {{71, 71}, {70, 71}, {1, 71}, {0, 71}, {71, 71}, {1000, 1000}, {1ull << 53, 1ull << 53}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        save(k, "hub", steps[i].saved, NULL, 0);
        assert_int_equal(cursor_of(k, "hub"), steps[i].then);
    }
    at = 0;
    struct pp_delivery_cursor zero = {.sink = "amqp", .start_at = &at};
    OK(k, cursor, &zero);
    assert_int_equal(cursor_of(k, "amqp"), 0);
    assert_int_equal(cursor_of(k, "hub"), 1ull << 53);
}

static void no_cursor_no_rows(void **state)
{
    struct kit *k = *state;
    struct pp_delivery one = row(5, PP_DELIVERY_PENDING, NOW);
    for (uint64_t cursor = 0; cursor <= 7; cursor += 7) {
        struct pp_delivery_save r = {.sink = "hub", .cursor = cursor, .rows = &one, .n = 1};
        EXPECT(k, save, &r, PP_ENOTFOUND);
    }
    struct pp_delivery_cursor r = {.sink = "hub"};
    EXPECT(k, cursor, &r, PP_ENOTFOUND);
    struct pp_delivery_sinks sinks = {.n = 99};
    OK(k, sinks, &sinks);
    assert_int_equal(sinks.n, 0);
    make_sink(k, "hub", 1);
    assert_int_equal(list(k, "hub", -1, 0, 10).n, 0);
    assert_int_equal(due(k, "hub", INT64_MAX, 10).n, 0);
}

/* --- rows --- */

static void rows_are_replaced(void **state)
{
    struct kit *k = *state;
    struct pp_delivery rows[3] = {row(1, PP_DELIVERY_PENDING, NOW + 5), row(2, PP_DELIVERY_DEAD, 0),
                                  row(3, PP_DELIVERY_DELIVERED, 0)};
    make_sink(k, "a", 0);
    make_sink(k, "b", 0);
    save(k, "a", 3, rows, 3);
    save(k, "b", 3, rows, 1);
    rows[0].status = PP_DELIVERY_DELIVERED;
    rows[0].attempts = 4;
    rows[0].http_status = 204;
    rows[0].updated_at = NOW + 77;
    rows[0].error = "late";
    rows[0].due_ms = 0;
    rows[1] = row(2, PP_DELIVERY_PENDING, NOW + 9);
    rows[1].id = "r_other";
    for (int again = 0; again < 2; again++) {
        save(k, "a", 3, rows, 2);
        struct pp_delivery_list l = list(k, "a", -1, 0, 10);
        assert_int_equal(l.n, 3);
        for (size_t i = 0; i < 3; i++)
            same_row(&l.rows[i], &rows[2 - i]);
    }
    struct pp_delivery_due d = due(k, "a", NOW + 9, 10);
    seqs_are(d.rows, d.n, "2");
    d = due(k, "b", NOW + 9, 10); /* another's with the same seq */
    seqs_are(d.rows, d.n, "1");
    assert_int_equal(d.rows[0].attempts, 0);
}

static char *long_text(struct kit *k, size_t n, char c)
{
    char *s = pp_arena_alloc(&k->arena, n + 1);
    assert_non_null(s);
    memset(s, c, n);
    return s;
}

static void strange_strings_survive(void **state)
{
    struct kit *k = *state;
    const char *const texts[] = {"",
                                 "$set",
                                 "a.b.c",
                                 "{\"$gt\": \"\"}",
                                 "'; DROP TABLE sinks; --",
                                 "caf\xc3\xa9 \xf0\x9f\x93\xb7",
                                 "line\r\nline\t\x01\x7f",
                                 "not \xff\xfe UTF-8 \xc3",
                                 "%s%n%",
                                 long_text(k, 255, 'e')};
    enum { N = sizeof texts / sizeof *texts };
    const char *const sinks[] = {"hub", "webhook:a-B_9", "webhook:$x.y",
                                 long_text(k, PP_SINK_NAME_MAX - 1, 's')};
    struct pp_delivery rows[N + 1];
    for (size_t i = 0; i < N; i++) {
        rows[i] = row(100 + i, PP_DELIVERY_PENDING, INT64_MAX - (int64_t)i);
        rows[i].id = rows[i].client = rows[i].error = texts[i];
        rows[i].attempts = UINT32_MAX;
        rows[i].http_status = 599;
    }
    rows[N] = row((1ull << 53) - 1, PP_DELIVERY_DEAD, 0); /* error NULL */
    for (size_t s = 0; s < sizeof sinks / sizeof *sinks; s++) {
        make_sink(k, sinks[s], s);
        save(k, sinks[s], 0, rows, N + 1);
    }
    reopen(k);
    for (size_t s = 0; s < sizeof sinks / sizeof *sinks; s++) {
        struct pp_delivery_list l = list(k, sinks[s], -1, 0, 100);
        assert_int_equal(l.n, N + 1);
        for (size_t i = 0; i <= N; i++)
            same_row(&l.rows[i], &rows[N - i]);
        assert_int_equal(sink_of(k, sinks[s]).pending, N);
        assert_int_equal(cursor_of(k, sinks[s]), s);
    }
}

static void due_in_order(void **state)
{
    struct kit *k = *state;
    const struct pp_delivery rows[] = {
        row(1, PP_DELIVERY_PENDING, NOW + 30), row(2, PP_DELIVERY_PENDING, NOW + 10),
        row(3, PP_DELIVERY_PENDING, NOW + 20), row(4, PP_DELIVERY_PENDING, NOW + 10),
        row(5, PP_DELIVERY_DELIVERED, 0),      row(6, PP_DELIVERY_DEAD, 0),
        row(7, PP_DELIVERY_PENDING, NOW + 40),
    };
    const struct pp_delivery other = row(8, PP_DELIVERY_PENDING, NOW);
    static const struct {
        int64_t now;
        size_t limit;
        const char *seqs;
        int64_t next;
    } cases[] = {
        {NOW + 9, 10, "", NOW + 10},
        {NOW + 10, 10, "2 4", NOW + 20},
        {NOW + 10, 2, "2 4", NOW + 20},
        {NOW + 10, 1, "2", NOW + 10},
        {NOW + 29, 10, "2 4 3", NOW + 30},
        {NOW + 30, 10, "2 4 3 1", NOW + 40},
        {NOW + 99, 3, "2 4 3", NOW + 30},
        {NOW + 40, 5, "2 4 3 1 7", INT64_MAX},
        {INT64_MAX, 5, "2 4 3 1 7", INT64_MAX},
        {NOW + 40, 4, "2 4 3 1", NOW + 40},
        {NOW + 40, 0, "", NOW + 10},
        {0, 1000, "", NOW + 10},
    };
    make_sink(k, "a", 0);
    make_sink(k, "b", 0);
    make_sink(k, "c", 0);
    save(k, "a", 0, rows, sizeof rows / sizeof *rows);
    save(k, "b", 0, &other, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_delivery_due d = due(k, "a", cases[i].now, cases[i].limit);
        seqs_are(d.rows, d.n, cases[i].seqs);
        assert_int_equal(d.next_ms, cases[i].next);
    }
    struct pp_delivery_due none = due(k, "c", INT64_MAX, 10);
    assert_int_equal(none.n, 0);
    assert_int_equal(none.next_ms, INT64_MAX);
    none = due(k, "unknown", INT64_MAX, 10);
    assert_int_equal(none.n, 0);
    assert_int_equal(none.next_ms, INT64_MAX);
}

static void lists_page_by_page(void **state)
{
    struct kit *k = *state;
    enum { N = 50 };
    struct pp_delivery rows[N];
    make_sink(k, "a", 0);
    make_sink(k, "b", 0);
    for (size_t i = 0; i < N; i++)
        rows[i] = row(2 * i + 2, (enum pp_delivery_status)(i % 3), i % 3 ? 0 : NOW);
    save(k, "a", 0, rows, N);
    save(k, "b", 0, rows, 1);
    for (int status = -1; status < 3; status++) {
        for (size_t limit = 1; limit < N + 5; limit += limit < 6 ? 1 : 11) {
            struct pp_delivery_list l = {.more = true};
            size_t seen = 0;
            uint64_t before = 0;
            for (size_t i = N; l.more;) {
                l = list(k, "a", status, before, limit);
                for (size_t j = 0; j < l.n; j++, seen++) {
                    do
                        i--;
                    while (status >= 0 && (int)rows[i].status != status);
                    same_row(&l.rows[j], &rows[i]);
                }
                assert_true(l.n == limit || !l.more);
                before = l.n ? l.rows[l.n - 1].seq : before;
            }
            assert_int_equal(seen, status < 0 ? N : status == 2 ? 16 : 17);
        }
    }
    struct pp_delivery_list l = list(k, "a", -1, 13, 2); /* a seq that is none */
    seqs_are(l.rows, l.n, "12 10");
    assert_true(l.more);
    assert_false(list(k, "a", -1, 2, 5).more);
    assert_true(list(k, "a", -1, 0, 0).more);
    assert_int_equal(list(k, "unknown", -1, 0, 5).n, 0);
}

static void replay_by_range_and_status(void **state)
{
    struct kit *k = *state;
    enum { N = 12 };
    struct pp_delivery rows[N];
    static const struct {
        int status;
        int64_t from, to;
    } cases[] = {{-1, 0, INT64_MAX},
                 {-1, NOW + 3, NOW + 7},
                 {PP_DELIVERY_DEAD, 0, INT64_MAX},
                 {PP_DELIVERY_DEAD, NOW + 3, NOW + 3},
                 {PP_DELIVERY_DELIVERED, NOW + 2, NOW + 6},
                 {PP_DELIVERY_PENDING, NOW + 1, NOW + 9},
                 {-1, NOW + 8, NOW + 7},
                 {-1, NOW + 100, NOW + 200}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *sink = pp_arena_printf(&k->arena, "s%zu", c);
        uint64_t n = 0;
        make_sink(k, sink, 3);
        for (size_t i = 0; i < N; i++) {
            rows[i] = row(i + 1, (enum pp_delivery_status)(i % 3), i % 3 ? 0 : NOW + 5000 + (int64_t)i);
            rows[i].attempts = 7;
            rows[i].http_status = 500;
            rows[i].error = "no";
        }
        save(k, sink, 12, rows, N);
        for (size_t i = 0; i < N; i++) {
            bool chosen = (cases[c].status < 0 || (int)rows[i].status == cases[c].status) &&
                          rows[i].finished_at >= cases[c].from && rows[i].finished_at <= cases[c].to;
            if (!chosen)
                continue;
            rows[i].status = PP_DELIVERY_PENDING;
            rows[i].attempts = 0;
            rows[i].due_ms = NOW + 1000;
            n++;
        }
        struct pp_delivery_replay r = {.sink = sink,
                                       .status = cases[c].status,
                                       .from_ms = cases[c].from,
                                       .to_ms = cases[c].to,
                                       .now_ms = NOW + 1000,
                                       .n = 99};
        OK(k, replay, &r);
        assert_int_equal(r.n, n);
        struct pp_delivery_list l = list(k, sink, -1, 0, 100);
        assert_int_equal(l.n, N);
        for (size_t i = 0; i < N; i++)
            same_row(&l.rows[N - 1 - i], &rows[i]);
        assert_int_equal(due(k, sink, NOW + 1000, 100).n, n);
        assert_int_equal(cursor_of(k, sink), 12);
    }
    struct pp_delivery_replay r = {.sink = "unknown", .status = -1, .to_ms = INT64_MAX, .n = 99};
    OK(k, replay, &r);
    assert_int_equal(r.n, 0);
}

static void sinks_are_counted(void **state)
{
    struct kit *k = *state;
    struct pp_delivery_sinks r = {.n = 99};
    OK(k, sinks, &r);
    assert_int_equal(r.n, 0);
    make_sink(k, "webhook:b", 5);
    make_sink(k, "hub", 6);
    make_sink(k, "webhook:a", 7);
    struct pp_delivery rows[] = {row(4, PP_DELIVERY_DELIVERED, 0), row(9, PP_DELIVERY_PENDING, NOW),
                                 row(7, PP_DELIVERY_PENDING, NOW + 9), row(8, PP_DELIVERY_DEAD, 0),
                                 row(3, PP_DELIVERY_DEAD, 0)};
    rows[2].finished_at = NOW + 2; /* before that of a lower number, and due later */
    save(k, "webhook:b", 9, rows, 5);
    save(k, "webhook:a", 0, rows + 3, 1);
    OK(k, sinks, &r);
    static const struct pp_delivery_sink expected[] = {
        {"hub", 6, 0, 0, 0}, {"webhook:a", 7, 0, 1, 0}, {"webhook:b", 9, 2, 2, NOW + 2}};
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
    struct kit *k = *state;
    enum { N = 30, SINKS = 3 };
    static const char *const sinks[SINKS] = {"hub", "webhook:a", "webhook:b"};
    struct pp_delivery rows[N];
    uint64_t total = 0;
    unsigned calls = 0;
    for (size_t s = 0; s < SINKS; s++) {
        make_sink(k, sinks[s], 0);
        for (size_t i = 0; i < N; i++)
            rows[i] = row(i, (enum pp_delivery_status)(i % 3), i % 3 ? 0 : NOW);
        save(k, sinks[s], N, rows, N);
    }
    struct pp_delivery_clean r = {.finished_before_ms = NOW + 20, .limit = 7, .n = 7};
    for (; r.n == r.limit; calls++) {
        OK(k, clean, &r);
        assert_true(r.n <= r.limit);
        total += r.n;
    }
    assert_int_equal(total, SINKS * 13); /* of 20, seven pending */
    assert_int_equal(calls, 39 / 7 + 1);
    for (size_t s = 0; s < SINKS; s++) {
        struct pp_delivery_list l = list(k, sinks[s], -1, 0, 100);
        seqs_are(l.rows, l.n, "29 28 27 26 25 24 23 22 21 20 18 15 12 9 6 3 0");
        assert_int_equal(cursor_of(k, sinks[s]), N);
    }
    r.limit = 1000;
    OK(k, clean, &r);
    assert_int_equal(r.n, 0);
}

static void a_large_save(void **state)
{
    struct kit *k = *state;
    enum { N = 2500 };
    struct pp_delivery *rows = pp_arena_array(&k->arena, N, sizeof *rows);
    make_sink(k, "hub", 0);
    for (size_t i = 0; i < N; i++) {
        rows[i] = row(i + 1, PP_DELIVERY_PENDING, NOW + (int64_t)(N - i));
        rows[i].error = long_text(k, 255, 'x');
    }
    save(k, "hub", N, rows, N);
    struct pp_delivery_list l = list(k, "hub", -1, 0, N);
    assert_int_equal(l.n, N);
    assert_false(l.more);
    for (size_t i = 0; i < N; i++)
        same_row(&l.rows[N - 1 - i], &rows[i]);
    struct pp_delivery_due d = due(k, "hub", NOW + N, N + 1);
    assert_int_equal(d.n, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(d.rows[i].seq, N - i);
}

/* --- against a model --- */

enum { MODEL_SEQS = 40, MODEL_SINKS = 3 };

struct model {
    struct kit *k;
    struct pp_rng rng;
    char *names[MODEL_SINKS];
    uint64_t cursors[MODEL_SINKS];
    struct pp_delivery rows[MODEL_SINKS][MODEL_SEQS]; /* by seq; id NULL: not there */
};

static size_t below(struct model *m, size_t bound)
{
    return (size_t)pp_rng_below(&m->rng, bound);
}

static void model_save(struct model *m, size_t s)
{
    struct pp_delivery rows[10];
    size_t n = below(m, 10), at = below(m, MODEL_SEQS - 10);
    for (size_t i = 0; i < n; i++, at++) {
        enum pp_delivery_status status = (enum pp_delivery_status)below(m, 3);
        rows[i] = row(at, status, status == PP_DELIVERY_PENDING ? NOW + (int64_t)below(m, 20) : 0);
        rows[i].finished_at = NOW + (int64_t)(at ^ 5);
        rows[i].attempts = (uint32_t)below(m, 10);
        rows[i].error = below(m, 2) ? "failed" : NULL;
        m->rows[s][at] = rows[i];
    }
    uint64_t cursor = below(m, 4) ? below(m, 1000) : 0;
    save(m->k, m->names[s], cursor, rows, n);
    m->cursors[s] = cursor > m->cursors[s] ? cursor : m->cursors[s];
}

static void model_replay(struct model *m, size_t s)
{
    uint64_t n = 0;
    struct pp_delivery_replay r = {.sink = m->names[s],
                                   .status = (int)below(m, 4) - 1,
                                   .from_ms = NOW + (int64_t)below(m, MODEL_SEQS),
                                   .now_ms = NOW + (int64_t)below(m, 20)};
    r.to_ms = r.from_ms + (int64_t)below(m, 10);
    for (size_t i = 0; i < MODEL_SEQS; i++) {
        struct pp_delivery *d = &m->rows[s][i];
        if (!d->id || (r.status >= 0 && (int)d->status != r.status) || d->finished_at < r.from_ms ||
            d->finished_at > r.to_ms)
            continue;
        d->status = PP_DELIVERY_PENDING;
        d->attempts = 0;
        d->due_ms = r.now_ms;
        n++;
    }
    OK(m->k, replay, &r);
    assert_int_equal(r.n, n);
}

static void model_clean(struct model *m)
{
    uint64_t n = 0;
    struct pp_delivery_clean r = {.finished_before_ms = NOW + (int64_t)below(m, MODEL_SEQS / 2),
                                  .limit = 1000};
    for (size_t s = 0; s < MODEL_SINKS; s++)
        for (size_t i = 0; i < MODEL_SEQS; i++) {
            struct pp_delivery *d = &m->rows[s][i];
            if (!d->id || d->status == PP_DELIVERY_PENDING || d->finished_at >= r.finished_before_ms)
                continue;
            *d = (struct pp_delivery){0};
            n++;
        }
    OK(m->k, clean, &r);
    assert_int_equal(r.n, n);
}

static void model_check_due(struct model *m, size_t s)
{
    int64_t now = NOW + (int64_t)below(m, 22) - 1, next = INT64_MAX, last_due = 0;
    size_t limit = below(m, MODEL_SEQS), all = 0;
    uint64_t last_seq = 0;
    struct pp_delivery_due d = due(m->k, m->names[s], now, limit);
    for (size_t i = 0; i < d.n; i++) {
        assert_true(d.rows[i].due_ms > last_due ||
                    (d.rows[i].due_ms == last_due && d.rows[i].seq > last_seq));
        last_due = d.rows[i].due_ms;
        last_seq = d.rows[i].seq;
        assert_true(last_due <= now && last_seq < MODEL_SEQS);
        same_row(&d.rows[i], &m->rows[s][last_seq]);
    }
    for (size_t i = 0; i < MODEL_SEQS; i++) {
        const struct pp_delivery *x = &m->rows[s][i];
        if (!x->id || x->status != PP_DELIVERY_PENDING)
            continue;
        all += x->due_ms <= now;
        bool taken = d.n > 0 && (x->due_ms < last_due || (x->due_ms == last_due && x->seq <= last_seq));
        if (!taken && x->due_ms < next)
            next = x->due_ms;
    }
    assert_int_equal(d.n, all < limit ? all : limit);
    assert_int_equal(d.next_ms, next);
}

static void model_check_rows(struct model *m, size_t s)
{
    struct pp_delivery_sink sink = sink_of(m->k, m->names[s]);
    struct pp_delivery_list l = list(m->k, m->names[s], -1, 0, MODEL_SEQS);
    uint64_t counts[3] = {0}, n = 0;
    int64_t oldest = 0;
    for (size_t i = MODEL_SEQS; i-- > 0;) {
        const struct pp_delivery *x = &m->rows[s][i];
        if (!x->id)
            continue;
        assert_true(n < l.n);
        same_row(&l.rows[n++], x);
        counts[x->status]++;
        if (x->status == PP_DELIVERY_PENDING && (oldest == 0 || x->finished_at < oldest))
            oldest = x->finished_at;
    }
    assert_int_equal(l.n, n);
    assert_int_equal(sink.cursor, m->cursors[s]);
    assert_int_equal(sink.pending, counts[PP_DELIVERY_PENDING]);
    assert_int_equal(sink.dead, counts[PP_DELIVERY_DEAD]);
    assert_int_equal(sink.oldest_at, oldest);
}

static void random_work(void **state)
{
    struct kit *k = *state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct model m = {.k = k};
        pp_rng_seed(&m.rng, seed);
        for (size_t s = 0; s < MODEL_SINKS; s++) {
            m.names[s] = pp_arena_printf(&k->arena, "s%zu", s);
            m.cursors[s] = seed > 1 ? cursor_of(k, m.names[s]) : 0;
            make_sink(k, m.names[s], 0);
            struct pp_delivery_list l = list(k, m.names[s], -1, 0, MODEL_SEQS);
            for (size_t i = 0; i < l.n; i++)
                m.rows[s][l.rows[i].seq] = l.rows[i];
        }
        for (int step = 0; step < 60; step++) {
            size_t s = below(&m, MODEL_SINKS), what = below(&m, 10);
            if (what < 6)
                model_save(&m, s);
            else if (what < 9)
                model_replay(&m, s);
            else
                model_clean(&m);
            model_check_due(&m, s);
            if (step % 4 == 0)
                model_check_rows(&m, s);
        }
        reopen(k);
        for (size_t s = 0; s < MODEL_SINKS; s++)
            model_check_rows(&m, s);
    }
}

/* --- endpoints --- */

static struct pp_webhook endpoint(const char *name)
{
    return (struct pp_webhook){.name = name,
                               .url = "https://shop.example/hook?a=1&b=%24",
                               .clients = "[\"42\",\"7\"]",
                               .secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                               .old_secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                               .old_until_ms = NOW + 86400000,
                               .paused = true,
                               .disabled = true,
                               .created_at = NOW,
                               .updated_at = NOW + 1};
}

static void put(struct kit *k, struct pp_webhook *w, uint64_t start_at)
{
    struct pp_webhook_put r = {.webhook = *w, .start_at = start_at};
    OK(k, put_webhook, &r);
    assert_true(r.webhook.version > w->version);
    w->version = r.webhook.version;
}

static void same_webhook(const struct pp_webhook *a, const struct pp_webhook *b)
{
    same_text(a->name, b->name);
    same_text(a->url, b->url);
    same_text(a->clients, b->clients);
    same_text(a->secret, b->secret);
    same_text(a->old_secret, b->old_secret);
    assert_int_equal(a->old_until_ms, b->old_until_ms);
    assert_int_equal(a->paused, b->paused);
    assert_int_equal(a->disabled, b->disabled);
    assert_int_equal(a->created_at, b->created_at);
    assert_int_equal(a->updated_at, b->updated_at);
    assert_int_equal(a->version, b->version);
}

static void is_there(struct kit *k, const struct pp_webhook *w)
{
    struct pp_webhooks r = {.name = w->name, .n = 99, .more = true};
    OK(k, webhooks, &r);
    assert_int_equal(r.n, 1);
    assert_false(r.more);
    same_webhook(&r.webhooks[0], w);
}

static void is_not_there(struct kit *k, const char *name)
{
    struct pp_webhooks r = {.name = name, .n = 99, .more = true};
    OK(k, webhooks, &r);
    assert_int_equal(r.n, 0);
    assert_false(r.more);
}

static void endpoints_by_version(void **state)
{
    struct kit *k = *state;
    struct pp_webhook w = endpoint("shop");
    struct pp_webhook_put stale = {.webhook = endpoint("shop")};
    is_not_there(k, "shop");
    stale.webhook.version = 1;
    EXPECT(k, put_webhook, &stale, PP_ESTALE); /* there was none */
    is_not_there(k, "shop");
    put(k, &w, 5);
    is_there(k, &w);
    stale.webhook.version = 0;
    stale.webhook.url = "https://other.example/";
    EXPECT(k, put_webhook, &stale, PP_ESTALE); /* there is one */
    is_there(k, &w);
    w.clients = w.old_secret = NULL;
    w.old_until_ms = 0;
    w.paused = w.disabled = false;
    w.url = "https://shop.example/\xc3\xa9?$x={\"$y\":1}";
    uint64_t first = w.version;
    put(k, &w, 99);
    is_there(k, &w);
    stale.webhook.version = first;
    EXPECT(k, put_webhook, &stale, PP_ESTALE);
    stale.webhook.version = w.version + 1;
    EXPECT(k, put_webhook, &stale, PP_ESTALE);
    reopen(k);
    is_there(k, &w);
    put(k, &w, 0);
    is_there(k, &w);
    is_not_there(k, "sho");
    is_not_there(k, "shop2");
}

/* Of several who have read the same, one wins. */
static void one_is_quicker(void **state)
{
    enum { N = 12, ROUNDS = 5 };
    struct kit *k = *state;
    struct pp_arena arenas[N];
    uint64_t version = 0;
    for (int i = 0; i < N; i++)
        pp_arena_init(&arenas[i], 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct pp_webhook_put puts[N];
        size_t won = 0, winner = 0;
        for (size_t i = 0; i < N; i++) {
            puts[i] = (struct pp_webhook_put){.req = request(k, &arenas[i]), .webhook = endpoint("shop")};
            puts[i].webhook.url = pp_arena_printf(&k->arena, "https://%d.%zu/", round, i);
            puts[i].webhook.version = version;
            puts[i].start_at = 100 + i;
            assert_int_equal(k->store->ops->put_webhook(k->store, &puts[i]), PP_OK);
        }
        wait_for_all(k);
        for (size_t i = 0; i < N; i++) {
            assert_true(puts[i].req.err == PP_OK || puts[i].req.err == PP_ESTALE);
            if (puts[i].req.err != PP_OK)
                continue;
            won++;
            winner = i;
        }
        assert_int_equal(won, 1);
        version = puts[winner].webhook.version;
        is_there(k, &puts[winner].webhook);
        if (round == 0)
            assert_int_equal(cursor_of(k, "webhook:shop"), 100 + winner);
    }
    for (int i = 0; i < N; i++)
        pp_arena_fini(&arenas[i]);
}

static void an_endpoint_starts_where_it_is_told(void **state)
{
    struct kit *k = *state;
    struct pp_webhook w = endpoint("shop"), zero = endpoint("zero");
    put(k, &w, 123);
    put(k, &zero, 0);
    assert_int_equal(cursor_of(k, "webhook:shop"), 123);
    assert_int_equal(cursor_of(k, "webhook:zero"), 0);
    save(k, "webhook:shop", 130, NULL, 0);
    put(k, &w, 500);
    assert_int_equal(cursor_of(k, "webhook:shop"), 130);
    uint64_t at = 700;
    struct pp_delivery_cursor r = {.sink = "webhook:shop", .start_at = &at};
    OK(k, cursor, &r);
    assert_int_equal(r.cursor, 130);
    struct pp_delivery_sinks sinks = {.n = 0};
    OK(k, sinks, &sinks);
    assert_int_equal(sinks.n, 2);
}

static void endpoints_go_with_what_they_had(void **state)
{
    struct kit *k = *state;
    struct pp_webhook a = endpoint("a"), ab = endpoint("ab");
    const struct pp_delivery rows[] = {row(11, PP_DELIVERY_PENDING, NOW), row(12, PP_DELIVERY_DEAD, 0),
                                       row(13, PP_DELIVERY_DELIVERED, 0)};
    struct pp_webhook_delete gone = {.name = "a"};
    EXPECT(k, delete_webhook, &gone, PP_ENOTFOUND);
    put(k, &a, 10);
    put(k, &ab, 10);
    make_sink(k, "a", 10); /* no endpoint's */
    save(k, "webhook:a", 13, rows, 3);
    save(k, "webhook:ab", 13, rows, 3);
    save(k, "a", 13, rows, 3);
    OK(k, delete_webhook, &gone);
    EXPECT(k, delete_webhook, &gone, PP_ENOTFOUND);
    is_not_there(k, "a");
    is_there(k, &ab);
    struct pp_delivery_cursor none = {.sink = "webhook:a"};
    EXPECT(k, cursor, &none, PP_ENOTFOUND);
    struct pp_delivery_save late = {.sink = "webhook:a", .cursor = 14, .rows = rows, .n = 3};
    EXPECT(k, save, &late, PP_ENOTFOUND); /* of a relay that does not know it yet */
    assert_int_equal(list(k, "webhook:a", -1, 0, 10).n, 0);
    assert_int_equal(list(k, "webhook:ab", -1, 0, 10).n, 3);
    assert_int_equal(list(k, "a", -1, 0, 10).n, 3);
    a.version = 0;
    put(k, &a, 77); /* a new one of the same name */
    assert_int_equal(cursor_of(k, "webhook:a"), 77);
    assert_int_equal(list(k, "webhook:a", -1, 0, 10).n, 0);
    assert_int_equal(due(k, "webhook:a", INT64_MAX, 10).n, 0);
    reopen(k);
    is_there(k, &a);
    assert_int_equal(cursor_of(k, "webhook:a"), 77);
}

static void endpoints_in_order_of_name(void **state)
{
    struct kit *k = *state;
    const char *const names[] = {
        "-", "0", "9z", "A", "B-1", "_", "a", "a-", "aa", "b", long_text(k, 64, 'z')};
    enum { N = sizeof names / sizeof *names };
    struct pp_webhook w[N];
    for (size_t i = 0; i < N; i++) {
        size_t at = (i * 7) % N;
        w[at] = endpoint(names[at]);
        put(k, &w[at], i);
    }
    make_sink(k, "hub", 1);
    make_sink(k, "zzz", 1);
    for (size_t limit = 1; limit <= N + 1; limit++) {
        struct pp_webhooks r = {.limit = limit, .more = true};
        for (size_t seen = 0; r.more; seen += r.n) {
            OK(k, webhooks, &r);
            assert_true(r.n <= limit && (r.n > 0 || !r.more));
            for (size_t i = 0; i < r.n; i++)
                same_webhook(&r.webhooks[i], &w[seen + i]);
            assert_int_equal(r.more, seen + r.n < N);
            r.after = r.n ? r.webhooks[r.n - 1].name : r.after;
        }
    }
    struct pp_webhooks after = {.after = "a,", .limit = 1}; /* one that is none */
    OK(k, webhooks, &after);
    assert_string_equal(after.webhooks[0].name, "a-");
    struct pp_webhooks last = {.after = names[N - 1], .limit = 5};
    OK(k, webhooks, &last);
    assert_int_equal(last.n, 0);
}

/* --- the rest --- */

static void requests_are_counted(void **state)
{
    struct kit *k = *state;
    const char *name;
    uint64_t n, total = 0;
    make_sink(k, "hub", 1);
    save(k, "hub", 2, NULL, 0);
    for (size_t i = 0; k->store->ops->roundtrips(k->store, i, &name, &n); i++) {
        assert_true(strlen(name) > 0 && i < 100);
        total += n;
    }
    assert_true(total >= 2);
}

int pp_suite_delivery_store(const struct pp_delivery_subject *subject)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(cursors_only_grow),
        T(no_cursor_no_rows),
        T(rows_are_replaced),
        T(strange_strings_survive),
        T(due_in_order),
        T(lists_page_by_page),
        T(replay_by_range_and_status),
        T(sinks_are_counted),
        T(old_ones_are_forgotten),
        T(a_large_save),
        T(random_work),
        T(endpoints_by_version),
        T(one_is_quicker),
        T(an_endpoint_starts_where_it_is_told),
        T(endpoints_go_with_what_they_had),
        T(endpoints_in_order_of_name),
        T(requests_are_counted),
    };
    subject_in_use = subject;
    return cmocka_run_group_tests_name(subject->name, tests, NULL, NULL);
}
