/* suite_event_log.c: tests the contract of port/event_log.h. A reader gets every event unchanged,
 * in the order of numbers that only grow. The log reports each lost event as a gap. */
#include "suite_event_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_loop.h"

#define ALL (SIZE_MAX >> 20) /* a limit in bytes that no page reaches */

/* --- the kit --- */

static const struct pp_log_subject *in_use;

void lk_use(const struct pp_log_subject *subject)
{
    in_use = subject;
}

void lk_open_log(struct log_kit *k, int i)
{
    enum pp_err err = k->subject->open(k->loop, k->place, &k->logs[i]);
    assert_string_equal(pp_err_text(err), pp_err_text(PP_OK));
}

void lk_close_log(struct log_kit *k, int i)
{
    if (k->logs[i])
        k->logs[i]->ops->close(k->logs[i]);
    k->logs[i] = NULL;
}

int lk_open(void **state)
{
    struct log_kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->subject = in_use;
    k->place = in_use->place();
    k->loop = pp_loop_open();
    k->next_number = 1;
    k->block = 1000000;
    k->now = 1700000000000;
    pp_arena_init(&k->arena, (size_t)1 << 30);
    lk_open_log(k, 0);
    *state = k;
    return 0;
}

int lk_close(void **state)
{
    struct log_kit *k = *state;
    for (int i = 0; i < LK_LOGS; i++)
        lk_close_log(k, i);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

void lk_on_done(struct pp_req *req)
{
    struct log_kit *k = req->data;
    assert_false(k->done);
    k->done = true;
}

static bool is_done(void *arg)
{
    return ((struct log_kit *)arg)->done;
}

void lk_wait(struct log_kit *k)
{
    assert_false(k->done); /* The log must not call done() before the request's function returns. */
    pp_test_until(k->loop, is_done, k, LK_LONG_MS);
}

struct pp_event *lk_events(struct log_kit *k, size_t n)
{
    struct pp_event *events = pp_arena_array(&k->arena, n, sizeof *events);
    for (size_t i = 0; i < n; i++) {
        char *data = pp_arena_printf(&k->arena, "{\"n\": %llu}", (unsigned long long)++k->made);
        events[i] = (struct pp_event){.at_ms = k->now,
                                      .key = pp_arena_printf(&k->arena, "results:c-%zu", i % 7),
                                      .type = "photopool.item.finished",
                                      .data = data,
                                      .data_n = strlen(data)};
    }
    return events;
}

enum pp_err lk_begin(struct log_kit *k, int i, uint64_t stale)
{
    struct pp_log_begin r = {.first = k->next_number, .stale = stale};
    r.end = k->next_number += k->block;
    k->blocks++;
    LK_RUN(k, i, begin, &r);
    return r.req.err;
}

uint64_t lk_append_these(struct log_kit *k, int i, struct pp_event *events, size_t n)
{
    struct pp_log_append r = {.events = events, .n = n};
    LK_RUN(k, i, append, &r);
    for (int tries = 0; r.req.err == PP_ESTALE && tries < 3; tries++) {
        assert_non_null(k->logs[i]->ops->begin);
        assert_int_equal(lk_begin(k, i, r.stale), PP_OK);
        LK_RUN(k, i, append, &r);
    }
    assert_string_equal(pp_err_text(r.req.err), pp_err_text(PP_OK));
    for (size_t j = 1; j < n; j++)
        assert_int_equal(events[j].seq, events[0].seq + j);
    return n ? events[0].seq : 0;
}

uint64_t lk_append(struct log_kit *k, int i, size_t n)
{
    return lk_append_these(k, i, lk_events(k, n), n);
}

struct pp_log_read lk_read(struct log_kit *k, int i, uint64_t after, size_t limit, size_t max_bytes)
{
    struct pp_log_read r = {.after = after, .limit = limit, .max_bytes = max_bytes};
    size_t bytes = 0;
    LK_DUE(k, i, read, &r, PP_OK);
    assert_true(r.n <= limit);
    assert_true(r.cleaned <= r.last);
    for (size_t j = 0; j < r.n; j++) {
        assert_true(r.events[j].seq > after);
        assert_true(r.events[j].seq <= r.last);
        after = r.events[j].seq;
        bytes += r.events[j].data_n;
        assert_true(j == 0 || bytes <= max_bytes);
        assert_int_equal(strlen(r.events[j].data), r.events[j].data_n);
    }
    return r;
}

struct pp_event *lk_all(struct log_kit *k, int i, uint64_t after, size_t limit, size_t *n)
{
    size_t cap = 64;
    struct pp_event *all = pp_arena_array(&k->arena, cap, sizeof *all);
    struct pp_log_read r;
    *n = 0;
    do {
        r = lk_read(k, i, after, limit, ALL);
        for (size_t j = 0; j < r.n; j++) {
            if (*n == cap) {
                struct pp_event *more = pp_arena_array(&k->arena, cap *= 2, sizeof *more);
                memcpy(more, all, *n * sizeof *more);
                all = more;
            }
            all[(*n)++] = r.events[j];
            after = r.events[j].seq;
        }
    } while (r.n > 0);
    return all;
}

struct pp_log_clean lk_clean(struct log_kit *k, int64_t before_ms, uint64_t max_bytes, size_t limit)
{
    struct pp_log_clean r = {.before_ms = before_ms, .max_bytes = max_bytes, .limit = limit};
    LK_DUE(k, 0, clean, &r, PP_OK);
    assert_true(r.n <= limit);
    return r;
}

/* --- events in order --- */

static void nothing_yet(void **state)
{
    struct log_kit *k = *state;
    struct pp_log_read r = lk_read(k, 0, 0, 10, ALL);
    assert_true(r.n == 0 && r.last == 0 && r.cleaned == 0);
    r = lk_read(k, 0, 77, 10, ALL);
    assert_true(r.n == 0 && r.last == 0 && r.cleaned == 0);
    struct pp_log_clean c = lk_clean(k, INT64_MAX, 0, 10);
    assert_true(c.n == 0 && c.bytes == 0);
}

static void same_event(const struct pp_event *a, const struct pp_event *b)
{
    assert_int_equal(a->seq, b->seq);
    assert_int_equal(a->at_ms, b->at_ms);
    assert_string_equal(a->key, b->key);
    assert_string_equal(a->type, b->type);
    assert_int_equal(a->data_n, b->data_n);
    assert_memory_equal(a->data, b->data, a->data_n);
}

static void out_as_they_went_in(void **state)
{
    struct log_kit *k = *state;
    static const char *const data[] = {"{}",
                                       "{\"a\": \"b c  d\"}",
                                       " { } ",
                                       "{\"\\u0000\": \"\xc3\xa9\xf0\x9f\x98\x80\n\r\t\"}",
                                       "{\"from\":1,\"to\":2}",
                                       "{\"e\": \"$1 %s ' \\\" * . - :\"}"};
    enum { N = sizeof data / sizeof *data };
    struct pp_event events[N + 1];
    size_t n, large = 200000;
    for (size_t i = 0; i <= N; i++)
        events[i] = (struct pp_event){.at_ms = 1000000000000 * (int64_t)i,
                                      .key = i % 2 ? "ops" : "batch:b_A-z09:x",
                                      .type = i % 2 ? "photopool.batch.progress" : "t",
                                      .data = i < N ? data[i] : NULL,
                                      .data_n = i < N ? strlen(data[i]) : large};
    char *text = pp_arena_alloc(&k->arena, large + 1);
    memset(text, 'x', large);
    events[N].data = text;
    assert_true(lk_append_these(k, 0, events, N + 1) >= 1);
    for (int open = 0; open < 2; open++) {
        struct pp_event *all = lk_all(k, 0, 0, 100, &n);
        assert_int_equal(n, N + 1);
        for (size_t i = 0; i < n; i++)
            same_event(&all[i], &events[i]);
        lk_close_log(k, 0);
        lk_open_log(k, 0);
    }
}

static void numbers_grow(void **state)
{
    struct log_kit *k = *state;
    static const size_t sizes[] = {1, 3, 1000, 1, 999, 2};
    uint64_t last = 0, after = 0;
    size_t n;
    for (size_t i = 0; i < 6; i++) {
        struct pp_event *events = lk_events(k, sizes[i]);
        assert_true(lk_append_these(k, 0, events, sizes[i]) > last);
        last = events[sizes[i] - 1].seq;
        assert_int_equal(lk_read(k, 0, last, 10, ALL).last, last);
        if (i == 2)
            after = events[500].seq;
    }
    /* An append of no events only reads the end of the log. */
    assert_int_equal(lk_append(k, 0, 0), 0);
    assert_int_equal(lk_read(k, 0, last, 10, ALL).last, last);
    struct pp_event *all = lk_all(k, 0, 0, 1000, &n);
    assert_int_equal(n, 2006);
    for (size_t i = 0; i < n; i++) {
        char due[32];
        snprintf(due, sizeof due, "{\"n\": %zu}", i + 1);
        assert_string_equal(all[i].data, due);
    }
    assert_int_equal(lk_all(k, 0, after, 7, &n)[0].seq, after + 1);
    assert_int_equal(n, 2006 - 505);
    struct pp_log_read r = lk_read(k, 0, PP_EVENT_SEQ_MAX - 1, 10, ALL);
    assert_true(r.n == 0 && r.last == last);
}

static void pages_are_bounded(void **state)
{
    struct log_kit *k = *state;
    struct pp_event *events = lk_events(k, 300);
    char *text = pp_arena_alloc(&k->arena, 1001);
    memset(text, 'y', 1000);
    for (size_t i = 0; i < 300; i++) {
        events[i].data = text;
        events[i].data_n = i == 150 ? 1000 : 10 + i % 3;
    }
    lk_append_these(k, 0, events, 300);
    static const size_t limits[] = {1, 63, 64, 65, 1000}, bytes[] = {0, 9, 10, 22, 500, 1 << 20};
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 6; j++) {
            size_t seen = 0;
            while (seen < 300) {
                struct pp_log_read r = lk_read(k, 0, seen ? events[seen - 1].seq : 0, limits[i], bytes[j]);
                size_t due = 1, sum = events[seen].data_n;
                while (seen + due < 300 && due < limits[i] && sum + events[seen + due].data_n <= bytes[j])
                    sum += events[seen + due++].data_n;
                assert_int_equal(r.n, due);
                same_event(&r.events[0], &events[seen]);
                same_event(&r.events[due - 1], &events[seen + due - 1]);
                seen += due;
            }
            if (limits[i] == 1)
                break;
        }
    }
}

/* --- several appends at once --- */

struct flights {
    int left;
};

static void landed(struct pp_req *req)
{
    ((struct flights *)req->data)->left--;
}

enum { FLIGHTS = 60 };

struct many {
    struct log_kit *k;
    struct flights f;
    struct pp_log_append r[FLIGHTS];
    uint64_t seen; /* seq of the last event that the reader has seen */
    size_t read;
};

static void check_many(struct many *m, int logs)
{
    size_t n, total = 0;
    struct pp_event *all = lk_all(m->k, 0, 0, 100, &n);
    for (int i = 0; i < FLIGHTS; i++) {
        const struct pp_log_append *r = &m->r[i];
        assert_string_equal(pp_err_text(r->req.err), pp_err_text(PP_OK));
        for (size_t j = 1; j < r->n; j++)
            assert_int_equal(r->events[j].seq, r->events[0].seq + j);
        /* Of two blocks from the same log, the later one has the higher numbers. */
        assert_true(i < logs || r->events[0].seq > m->r[i - logs].events[0].seq);
        size_t at = 0;
        while (at < n && all[at].seq != r->events[0].seq)
            at++;
        for (size_t j = 0; j < r->n; j++)
            same_event(&all[at + j], &r->events[j]);
        total += r->n;
    }
    assert_int_equal(n, total);
    assert_int_equal(m->read, total);
}

static bool all_landed(void *arg)
{
    return ((struct many *)arg)->f.left == 0;
}

/* Every log appends events while another log reads them page by page. All appends must arrive
 * whole and in order. */
static void many_at_once(void **state)
{
    struct log_kit *k = *state;
    int logs = k->subject->shared ? LK_LOGS : 1;
    struct many *m = pp_arena_alloc(&k->arena, sizeof *m);
    *m = (struct many){.k = k, .f = {FLIGHTS}};
    for (int i = 1; i < logs; i++)
        lk_open_log(k, i);
    lk_append(k, 0, 1);
    m->seen = lk_read(k, 0, 0, 1, ALL).events[0].seq;
    m->read = 1;
    for (int i = 0; i < FLIGHTS; i++) {
        size_t n = 1 + (size_t)(i * 37) % 90;
        m->r[i] = (struct pp_log_append){
            .req = {.done = landed, .data = &m->f, .arena = &k->arena}, .events = lk_events(k, n), .n = n};
    }
    for (int i = 0; i < FLIGHTS; i++) {
        struct pp_event_log *l = k->logs[i % logs];
        assert_int_equal(l->ops->append(l, &m->r[i]), PP_OK);
        if (i % 9)
            continue;
        struct pp_log_read r = lk_read(k, (i + 1) % logs, m->seen, 13, ALL);
        m->read += r.n;
        m->seen = r.n ? r.events[r.n - 1].seq : m->seen;
    }
    pp_test_until(k->loop, all_landed, m, LK_LONG_MS);
    for (struct pp_log_read r = {.n = 1}; r.n > 0; m->read += r.n) {
        r = lk_read(k, 0, m->seen, 100, ALL);
        m->seen = r.n ? r.events[r.n - 1].seq : m->seen;
    }
    m->read--; /* The first event, which the test appended before the others, does not count. */
    struct pp_log_clean c = lk_clean(k, INT64_MIN, UINT64_MAX, 10);
    assert_int_equal(c.n, 0);
    lk_clean(k, INT64_MAX, UINT64_MAX, 1);
    check_many(m, logs);
}

/* --- the oldest events are removed --- */

static void forgotten_by_age(void **state)
{
    struct log_kit *k = *state;
    uint64_t first = 0, last = 0;
    for (int i = 0; i < 10; i++) {
        uint64_t seq = lk_append(k, 0, 20);
        first = first ? first : seq;
        last = seq + 19;
        k->now += 1000;
    }
    int64_t began = k->now - 10000;
    struct pp_log_clean c = lk_clean(k, began, UINT64_MAX, 1000);
    uint64_t bytes = c.bytes;
    assert_int_equal(c.n, 0);
    assert_int_equal(lk_read(k, 0, 0, 1, ALL).cleaned, 0);
    c = lk_clean(k, began + 3000, UINT64_MAX, 25);
    assert_int_equal(c.n, 25);
    c = lk_clean(k, began + 3000, UINT64_MAX, 35);
    assert_int_equal(c.n, 35);
    assert_true(c.bytes < bytes);
    c = lk_clean(k, began + 3000, UINT64_MAX, 35);
    assert_int_equal(c.n, 0);
    for (int open = 0; open < 2; open++) {
        struct pp_log_read r = lk_read(k, 0, 0, 1000, ALL);
        assert_int_equal(r.n, 140);
        assert_int_equal(r.events[0].at_ms, began + 3000);
        assert_true(r.cleaned >= first && r.cleaned < r.events[0].seq);
        assert_int_equal(r.last, last);
        r = lk_read(k, 0, r.events[100].seq, 1000, ALL);
        assert_int_equal(r.n, 39);
        lk_close_log(k, 0);
        lk_open_log(k, 0);
    }
}

static void forgotten_by_size(void **state)
{
    struct log_kit *k = *state;
    struct pp_event *events = lk_events(k, 900);
    char *text = pp_arena_alloc(&k->arena, 101);
    memset(text, 'z', 100);
    for (size_t i = 0; i < 900; i++) {
        events[i].data = text;
        events[i].data_n = 100;
    }
    lk_append_these(k, 0, events, 900);
    struct pp_log_clean c = lk_clean(k, INT64_MIN, 90000, 1000);
    assert_true(c.n == 0 && c.bytes == 90000);
    c = lk_clean(k, INT64_MIN, 80050, 1000);
    assert_true(c.n == 100 && c.bytes == 80000);
    assert_int_equal(lk_read(k, 0, 0, 1, ALL).cleaned, events[99].seq);
    assert_int_equal(lk_read(k, 0, 0, 1, ALL).events[0].seq, events[100].seq);
    /* One call of clean() removes more events than the store deletes in one step. */
    c = lk_clean(k, INT64_MIN, 99, 700);
    assert_true(c.n == 700 && c.bytes == 10000);
    c = lk_clean(k, INT64_MIN, 99, 700);
    assert_true(c.n == 100 && c.bytes == 0);
}

/* A cleaning removes all events. The next event must still get the next number. */
static void all_forgotten(void **state)
{
    struct log_kit *k = *state;
    lk_append(k, 0, 50);
    uint64_t last = lk_read(k, 0, 0, 1, ALL).last;
    assert_int_equal(lk_clean(k, INT64_MAX, 0, 50).n, 50);
    for (int open = 0; open < 2; open++) {
        struct pp_log_read r = lk_read(k, 0, 0, 10, ALL);
        assert_true(r.n == 0 && r.last == last && r.cleaned == last);
        lk_close_log(k, 0);
        lk_open_log(k, 0);
    }
    assert_int_equal(lk_append(k, 0, 2), last + 1);
    struct pp_log_read r = lk_read(k, 0, last - 20, 10, ALL);
    assert_true(r.n == 2 && r.last == last + 2 && r.cleaned == last);
}

/* --- the calls of watchers --- */

struct watcher {
    int woken;
};

static void on_wake(void *data)
{
    ((struct watcher *)data)->woken++;
}

static bool is_woken(void *arg)
{
    return ((struct watcher *)arg)->woken > 0;
}

/* The log may call a watcher although there is nothing new. After the last call every appended
 * event must be readable. */
static void wakes_who_watches(void **state)
{
    struct log_kit *k = *state;
    struct watcher w[2] = {{0}, {0}};
    uint64_t seen = 0;
    if (k->subject->shared)
        lk_open_log(k, 1);
    for (int i = 0; i < (k->subject->shared ? 2 : 1); i++)
        k->logs[i]->ops->watch(k->logs[i], on_wake, &w[i]);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < (k->subject->shared ? 2 : 1); i++)
            w[i].woken = 0;
        seen = lk_append(k, 0, 1);
        for (int i = 0; i < (k->subject->shared ? 2 : 1); i++)
            for (struct pp_log_read r = {.n = 0}; r.n == 0;) {
                pp_test_until(k->loop, is_woken, &w[i], LK_LONG_MS);
                w[i].woken = 0;
                r = lk_read(k, i, seen - 1, 10, ALL);
                w[i].woken += r.n == 0 ? 0 : 1;
            }
    }
    k->logs[0]->ops->watch(k->logs[0], NULL, NULL);
    w[0].woken = 0;
    lk_append(k, 0, 1);
    lk_read(k, 0, 0, 1, ALL);
    assert_int_equal(w[0].woken, 0);
}

static uint64_t calls_of(struct log_kit *k, const char *what)
{
    const char *name;
    uint64_t n;
    for (size_t i = 0; k->logs[0]->ops->roundtrips(k->logs[0], i, &name, &n); i++)
        if (strstr(name, what))
            return n;
    return 0;
}

static void one_round_trip(void **state)
{
    struct log_kit *k = *state;
    lk_append(k, 0, 1);
    uint64_t before = calls_of(k, "append");
    lk_append(k, 0, 1000);
    assert_int_equal(calls_of(k, "append"), before + 1);
    lk_read(k, 0, 0, 1000, ALL);
    assert_int_equal(calls_of(k, "read"), 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, lk_open, lk_close)

int pp_suite_event_log(const struct pp_log_subject *subject)
{
    static const struct CMUnitTest tests[] = {
        T(nothing_yet),       T(out_as_they_went_in), T(numbers_grow),      T(pages_are_bounded),
        T(many_at_once),      T(forgotten_by_age),    T(forgotten_by_size), T(all_forgotten),
        T(wakes_who_watches), T(one_round_trip),
    };
    lk_use(subject);
    return _cmocka_run_group_tests(subject->name, tests, sizeof tests / sizeof *tests, NULL, NULL);
}
