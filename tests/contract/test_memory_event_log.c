/* Tests that the event log in memory keeps its contract. More tests: the server loses its latest
 * data or all of them, notices are late or lost, and processes crash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "adapter/memory/event_log.h"
#include "suite_event_log.h"
#include "test_loop.h"

#define ALL (SIZE_MAX >> 20)

/* --- the server of the present test --- */

/* A line and a carrier that keep what they get until the test lets it go on. */
struct hands {
    struct pp_memory_line line;
    struct pp_list calls, notices;
    size_t sure; /* number of notices of a new connection */
};

static struct pp_memory_event_log *server;
static int64_t now, date;

static int64_t now_of(void *data)
{
    return *(const int64_t *)data;
}

static int64_t date_of(void *data)
{
    (void)data;
    return date;
}

static const char *place(void)
{
    pp_memory_event_log_free(server);
    now = 1000;
    server = pp_memory_event_log_new(&(struct pp_memory_event_log_options){.now_ms = now_of, .data = &now});
    assert_non_null(server);
    return "memory";
}

static enum pp_err open_log(struct pp_loop *loop, const char *where, struct pp_event_log **out)
{
    (void)where;
    return pp_memory_event_log_open(loop, server, NULL, out);
}

static void keep_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    pp_list_push(&((struct hands *)line)->calls, &call->node);
}

static void keep_notice(void *data, struct pp_memory_notice *notice)
{
    struct hands *h = data;
    h->sure += notice->sure;
    pp_list_push(&h->notices, &notice->node);
}

static struct pp_memory_call *next_call(struct hands *h)
{
    struct pp_node *node = pp_list_pop(&h->calls);
    assert_non_null(node);
    return pp_container_of(node, struct pp_memory_call, node);
}

static struct pp_memory_notice *next_notice(struct hands *h)
{
    struct pp_node *node = pp_list_pop(&h->notices);
    assert_non_null(node);
    return pp_container_of(node, struct pp_memory_notice, node);
}

static void open_hands(struct hands *h)
{
    *h = (struct hands){.line.send = keep_call};
    pp_list_init(&h->calls);
    pp_list_init(&h->notices);
}

static void needs_numbers(struct log_kit *k, int i, uint64_t *stale)
{
    struct pp_log_append r = {.events = lk_events(k, 1), .n = 1};
    LK_DUE(k, i, append, &r, PP_ESTALE);
    assert_int_not_equal(r.stale, 0);
    *stale = r.stale;
}

static void begin_with(struct log_kit *k, int i, uint64_t first, uint64_t end, uint64_t stale)
{
    struct pp_log_begin r = {.first = first, .end = end, .stale = stale};
    LK_DUE(k, i, begin, &r, PP_OK);
}

static bool is_gap(const struct pp_event *e, uint64_t from, uint64_t to)
{
    char due[80];
    snprintf(due, sizeof due, "{\"from\":%llu,\"to\":%llu}", (unsigned long long)from,
             (unsigned long long)to);
    return !e->key && !e->type && e->seq == to && strcmp(e->data, due) == 0;
}

/* --- numbers --- */

static void numbers_are_the_stores(void **state)
{
    struct log_kit *k = *state;
    uint64_t stale;
    needs_numbers(k, 0, &stale);
    begin_with(k, 0, 1, 2000, stale + 1); /* reserved for another life */
    needs_numbers(k, 0, &stale);
    begin_with(k, 0, 5001, 7001, stale);
    assert_int_equal(lk_append(k, 0, 3), 5001);
    struct pp_log_read r = lk_read(k, 0, 0, 10, ALL);
    assert_true(r.n == 3 && r.cleaned == 5000 && r.last == 5003);
    struct pp_log_begin bad[] = {
        {.first = 0, .end = 5}, {.first = 5, .end = 5}, {.first = 1, .end = PP_EVENT_SEQ_MAX + 1}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(k->logs[0]->ops->begin(k->logs[0], &bad[i]), PP_EINVAL);
    struct pp_log_append large = {.n = 1001};
    assert_int_equal(k->logs[0]->ops->append(k->logs[0], &large), PP_EINVAL);
}

static void others_are_quicker(void **state)
{
    struct log_kit *k = *state;
    uint64_t stale[2];
    lk_open_log(k, 1);
    needs_numbers(k, 0, &stale[0]);
    needs_numbers(k, 1, &stale[1]);
    begin_with(k, 1, 2001, 4001, stale[1]);
    begin_with(k, 0, 1, 2001, stale[0]); /* reserved first, but higher numbers are in use */
    assert_int_equal(lk_append(k, 0, 2), 2001);
    begin_with(k, 0, 8001, 10001, stale[0]); /* the log needs no numbers now */
    assert_int_equal(lk_append(k, 1, 1000), 2003);
    k->next_number = 4001;
    assert_int_equal(lk_append(k, 0, 1000), 4001); /* 998 numbers were left: a new block */
    begin_with(k, 1, 2001, 4001, 0);
    assert_int_equal(lk_append(k, 1, 1), 5001);
}

/* Two processes learn that the log needs numbers. The log uses the block of one of them, and loses
 * it. The block of the other, slow one is now lower than numbers that were in use. */
static void late_for_another_life(void **state)
{
    struct log_kit *k = *state;
    uint64_t slow, stale, last = 0;
    lk_open_log(k, 1);
    for (int round = 0; round < 4; round++) {
        needs_numbers(k, 0, &slow);
        uint64_t reserved = k->next_number;
        k->next_number += 2000;
        uint64_t first = lk_append(k, 1, 5);
        assert_true(first > last && first > reserved);
        last = first + 4;
        pp_memory_event_log_forget(server, round % 2 ? INT64_MIN : now);
        begin_with(k, 0, reserved, reserved + 2000, slow);
        needs_numbers(k, 0, &stale);
        assert_int_not_equal(stale, slow);
        first = lk_append(k, 0, 5);
        assert_true(first > last);
        last = first + 4;
        pp_memory_event_log_forget(server, now);
    }
}

/* --- lost data --- */

static void back_with_everything(void **state)
{
    struct log_kit *k = *state;
    size_t n;
    lk_append(k, 0, 10);
    pp_memory_event_log_forget(server, now);
    struct pp_log_read r = lk_read(k, 0, 0, 100, ALL);
    assert_true(r.n == 10 && r.last == 10 && r.cleaned == 0);
    uint64_t first = lk_append(k, 0, 5);
    assert_int_equal(first, 1000001);
    struct pp_event *all = lk_all(k, 0, 0, 4, &n);
    assert_int_equal(n, 16);
    assert_true(is_gap(&all[10], 11, first - 1));
    assert_int_equal(lk_read(k, 0, 0, 1, ALL).cleaned, 0);
    struct pp_log_clean c = lk_clean(k, INT64_MAX, UINT64_MAX, 100);
    assert_true(c.n == 16 && c.bytes == 0);
    r = lk_read(k, 0, 0, 10, ALL);
    assert_true(r.n == 0 && r.cleaned == first + 4 && r.last == first + 4);
}

static void the_latest_are_lost(void **state)
{
    struct log_kit *k = *state;
    size_t n;
    lk_append(k, 0, 10);
    now += 100;
    uint64_t lost = lk_append(k, 0, 5);
    pp_memory_event_log_forget(server, now - 1);
    struct pp_log_read r = lk_read(k, 0, 0, 100, ALL);
    assert_true(r.n == 10 && r.last == 10);
    uint64_t first = lk_append(k, 0, 2);
    assert_true(first > lost + 4);
    struct pp_event *all = lk_all(k, 0, lost + 2, 10, &n);
    assert_int_equal(n, 3);
    assert_true(is_gap(&all[0], 11, first - 1));
    assert_int_equal(all[1].seq, first);
}

static void everything_is_lost(void **state)
{
    struct log_kit *k = *state;
    uint64_t last = lk_append(k, 0, 10) + 9;
    pp_memory_event_log_forget(server, INT64_MIN);
    struct pp_log_read r = lk_read(k, 0, 3, 100, ALL);
    assert_true(r.n == 0 && r.last == 0 && r.cleaned == 0);
    uint64_t first = lk_append(k, 0, 2);
    assert_true(first > last);
    r = lk_read(k, 0, 3, 100, ALL);
    assert_true(r.n == 2 && r.events[0].seq == first && r.cleaned == first - 1 && r.last == first + 1);
    assert_int_equal(lk_clean(k, INT64_MIN, UINT64_MAX, 1).bytes, r.events[0].data_n + r.events[1].data_n);
}

/* What a log must give back after a loss. */
struct picture {
    int64_t at_ms;
    struct pp_event *events;
    size_t n;
    uint64_t last, cleaned, bytes;
};

static struct picture look(struct log_kit *k)
{
    struct picture p = {.at_ms = now};
    struct pp_log_read r = lk_read(k, 0, 0, 1, ALL);
    p.events = lk_all(k, 0, 0, 1000, &p.n);
    p.last = r.last;
    p.cleaned = r.cleaned;
    p.bytes = lk_clean(k, INT64_MIN, UINT64_MAX, 1).bytes;
    return p;
}

static void same_picture(const struct picture *a, const struct picture *b)
{
    assert_true(a->n == b->n && a->last == b->last && a->cleaned == b->cleaned && a->bytes == b->bytes);
    for (size_t i = 0; i < a->n; i++) {
        assert_int_equal(a->events[i].seq, b->events[i].seq);
        assert_string_equal(a->events[i].data, b->events[i].data);
    }
}

/* Appends, cleanings, new blocks and losses in a random order. After a loss the log has what it had
 * at that time, and no number is ever given twice. */
static void goes_back_to_any_moment(void **state)
{
    enum { MOMENTS = 250 };
    struct log_kit *k = *state;
    struct picture *was = pp_arena_array(&k->arena, MOMENTS, sizeof *was);
    uint64_t rng = 11;
    uint64_t last = 0;
    size_t n = 0;
    k->block = 1100;
    for (int i = 0; i < MOMENTS; i++) {
        uint64_t x = pp_test_rnd(&rng);
        unsigned what = (unsigned)(x % 16), some = (unsigned)(x >> 8) % 5;
        now += 1 + (int64_t)(x >> 20) % 700;
        if (what < 10) {
            uint64_t seq = lk_append(k, 0, 1 + 5 * some);
            assert_true(seq > last);
            last = seq + 5 * some;
        } else if (what < 14) {
            lk_clean(k, INT64_MAX, UINT64_MAX, 7 * some);
        } else if (n > 0) {
            size_t back = n > some ? n - 1 - some : 0;
            while (was[back].at_ms < now - PP_MEMORY_EVENT_LOG_BACK_MS && back + 1 < n)
                back++;
            if (was[back].at_ms < now - PP_MEMORY_EVENT_LOG_BACK_MS)
                continue;
            pp_memory_event_log_forget(server, was[back].at_ms);
            struct picture is = look(k);
            same_picture(&is, &was[back]);
            n = back + 1;
        }
        was[n++] = look(k);
    }
    pp_memory_event_log_forget(server, INT64_MIN);
    assert_int_equal(lk_read(k, 0, 0, 1, ALL).last, 0);
    assert_true(lk_append(k, 0, 1) > last);
}

static void memory_runs_out(void **state)
{
    struct log_kit *k = *state;
    struct pp_event_log *log;
    struct pp_memory_event_log *small =
        pp_memory_event_log_new(&(struct pp_memory_event_log_options){.max_bytes = 90});
    assert_int_equal(pp_memory_event_log_open(k->loop, small, NULL, &log), PP_OK);
    lk_close_log(k, 0);
    k->logs[0] = log;
    while (lk_read(k, 0, 0, 100, ALL).n < 10)
        lk_append(k, 0, 1);
    struct pp_log_append r = {.events = lk_events(k, 2), .n = 2};
    LK_DUE(k, 0, append, &r, PP_EFULL);
    uint64_t last = lk_read(k, 0, 0, 1, ALL).last;
    assert_int_equal(lk_clean(k, INT64_MAX, UINT64_MAX, 6).n, 6);
    LK_DUE(k, 0, append, &r, PP_OK);
    assert_int_equal(r.events[0].seq, last + 1);
    lk_close_log(k, 0);
    pp_memory_event_log_free(small);
}

/* A process whose date is ahead of the server's by an hour cleans events that are older than a
 * minute. */
static void a_date_that_is_ahead(void **state)
{
    struct log_kit *k = *state;
    struct pp_event_log *log;
    struct pp_memory_event_log *dated =
        pp_memory_event_log_new(&(struct pp_memory_event_log_options){.date_ms = date_of});
    assert_int_equal(pp_memory_event_log_open(k->loop, dated, NULL, &log), PP_OK);
    lk_close_log(k, 0);
    k->logs[0] = log;
    date = pp_loop_date(k->loop) - 3600000;
    k->now = date;
    lk_append(k, 0, 5);
    assert_int_equal(lk_clean(k, pp_loop_date(k->loop) - 60000, UINT64_MAX, 10).n, 0);
    date = pp_loop_date(k->loop);
    assert_int_equal(lk_clean(k, pp_loop_date(k->loop) - 60000, UINT64_MAX, 10).n, 5);
    lk_close_log(k, 0);
    pp_memory_event_log_free(dated);
}

/* --- lines, notices, crashes --- */

static void on_wake(void *data)
{
    ++*(int *)data;
}

static void turn(struct log_kit *k)
{
    for (int i = 0; i < 3; i++)
        pp_loop_turn(k->loop, false);
}

static void some_done(struct pp_req *req)
{
    ++*(int *)req->data;
}

/* A caller gives up and frees its events. The append arrives later all the same. */
static void an_append_arrives_late(void **state)
{
    struct log_kit *k = *state;
    struct hands h;
    struct pp_event_log *log;
    bool gone;
    int done = 0;
    char *key = strdup("results:c"), *type = strdup("t"), *data = strdup("{\"late\":1}");
    struct pp_event *event = malloc(sizeof *event);
    lk_append(k, 0, 1);
    open_hands(&h);
    assert_int_equal(pp_memory_event_log_open(k->loop, server, &h.line, &log), PP_OK);
    *event = (struct pp_event){.key = key, .type = type, .data = data, .data_n = strlen(data)};
    struct pp_log_append *r = malloc(sizeof *r);
    *r = (struct pp_log_append){
        .req = {.done = some_done, .data = &done, .arena = &k->arena}, .events = event, .n = 1};
    assert_int_equal(log->ops->append(log, r), PP_OK);
    struct pp_memory_call *call = next_call(&h);
    pp_memory_end(call, PP_EUNKNOWN, &gone);
    assert_true(done == 1 && !gone && r->req.err == PP_EUNKNOWN);
    free(key), free(type), free(data), free(event), free(r);
    log->ops->close(log);
    pp_memory_run(call);
    struct pp_log_read read = lk_read(k, 0, 1, 10, ALL);
    assert_int_equal(read.n, 1);
    assert_string_equal(read.events[0].data, "{\"late\":1}");
}

static void notices_are_carried(void **state)
{
    struct log_kit *k = *state;
    struct hands h;
    struct pp_event_log *a, *b;
    int woken[2] = {0, 0};
    open_hands(&h);
    struct pp_memory_event_log *s =
        pp_memory_event_log_new(&(struct pp_memory_event_log_options){.carry = keep_notice, .data = &h});
    assert_int_equal(pp_memory_event_log_open(k->loop, s, NULL, &a), PP_OK);
    assert_int_equal(pp_memory_event_log_open(k->loop, s, NULL, &b), PP_OK);
    a->ops->watch(a, on_wake, &woken[0]);
    b->ops->watch(b, on_wake, &woken[1]);
    turn(k);
    assert_true(woken[0] == 1 && woken[1] == 1); /* both have begun to watch */
    lk_close_log(k, 0);
    k->logs[0] = a;
    lk_append(k, 0, 1);
    /* The new block and the event are told to both; only one of the notices arrives. */
    assert_int_equal(h.notices.n, 4);
    pp_memory_notice_drop(next_notice(&h));
    struct pp_memory_notice *n = next_notice(&h);
    pp_memory_notice_arrive(n);
    assert_int_equal(woken[1], 1); /* not inside of this call */
    turn(k);
    assert_true(woken[0] == 1 && woken[1] == 2);
    pp_memory_notice_drop(next_notice(&h));
    pp_memory_event_log_cut(b);
    pp_memory_notice_arrive(next_notice(&h)); /* reaches nobody */
    pp_memory_event_log_forget(s, INT64_MIN);
    assert_true(h.notices.n == 1 && h.sure == 1);
    pp_memory_notice_arrive(next_notice(&h));
    turn(k);
    assert_int_equal(woken[0], 2);
    pp_memory_event_log_reconnected(a);
    turn(k);
    assert_true(woken[0] == 3 && woken[1] == 2);
    lk_close_log(k, 0);
    pp_memory_event_log_free(s);
}

/* A process crashes with requests in flight, on a line of its own and on a given line. None of them
 * ends; the given line carries one out. */
static void a_process_crashes(void **state)
{
    struct log_kit *k = *state;
    struct hands h;
    struct pp_event_log *a, *b;
    bool gone;
    int done = 0;
    struct pp_log_append r[3];
    lk_append(k, 0, 1);
    open_hands(&h);
    assert_int_equal(pp_memory_event_log_open(k->loop, server, NULL, &a), PP_OK);
    assert_int_equal(pp_memory_event_log_open(k->loop, server, &h.line, &b), PP_OK);
    for (int i = 0; i < 3; i++) {
        struct pp_event_log *log = i ? b : a;
        r[i] = (struct pp_log_append){
            .req = {.done = some_done, .data = &done, .arena = &k->arena}, .events = lk_events(k, 1), .n = 1};
        assert_int_equal(log->ops->append(log, &r[i]), PP_OK);
    }
    pp_memory_event_log_cut(a);
    pp_memory_event_log_cut(b);
    struct pp_memory_call *first = next_call(&h), *second = next_call(&h);
    pp_memory_run(first);
    pp_memory_end(first, PP_OK, &gone);
    assert_true(gone);
    pp_memory_end(second, PP_ECLOSED, &gone);
    assert_false(gone);
    pp_memory_drop(second);
    turn(k);
    assert_int_equal(done, 0);
    assert_int_equal(lk_read(k, 0, 0, 10, ALL).n, 2);
}

#define T(f) cmocka_unit_test_setup_teardown(f, lk_open, lk_close)

int main(void)
{
    static const struct pp_log_subject subject = {"memory", place, open_log, true};
    const struct CMUnitTest own[] = {
        T(numbers_are_the_stores),  T(others_are_quicker),  T(late_for_another_life),
        T(back_with_everything),    T(the_latest_are_lost), T(everything_is_lost),
        T(goes_back_to_any_moment), T(memory_runs_out),     T(a_date_that_is_ahead),
        T(an_append_arrives_late),  T(notices_are_carried), T(a_process_crashes),
    };
    int failed = pp_suite_event_log(&subject);
    failed += cmocka_run_group_tests_name("the memory's own", own, NULL, NULL);
    pp_memory_event_log_free(server);
    return failed;
}
