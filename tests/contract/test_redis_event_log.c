/* Tests that the event log on Redis keeps its contract. It must never use a number twice, whatever
 * happens to Redis, and must report a gap for lost events. */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "adapter/redis/redis_ports.h"
#include "redis_server.h"
#include "suite_event_log.h"
#include "test_loop.h"

#define ALL ((size_t)1 << 40)

static struct redis_server own; /* the Redis server that only one test uses */

static const char *place(void)
{
    static char places[64][32];
    static int n;
    assert_true(n < 64);
    snprintf(places[n], sizeof places[n], "test:events-%d", n);
    return places[n++];
}

static enum pp_err open_at(const struct redis_server *s, struct pp_loop *loop, const char *prefix,
                           struct pp_event_log **out)
{
    const struct pp_redis_event_log_options o = {.url = s->url, .prefix = prefix, .timeout_ms = 4000};
    return pp_redis_event_log_open(loop, &o, out);
}

static enum pp_err open_shared(struct pp_loop *loop, const char *prefix, struct pp_event_log **out)
{
    return open_at(redis_server_shared(), loop, prefix, out);
}

static enum pp_err open_own(struct pp_loop *loop, const char *prefix, struct pp_event_log **out)
{
    return open_at(&own, loop, prefix, out);
}

static int open_kit(void **state)
{
    static const struct pp_log_subject subject = {"redis", place, open_own, true};
    own = (struct redis_server){0};
    redis_server_start(&own);
    lk_use(&subject);
    return lk_open(state);
}

static int close_kit(void **state)
{
    lk_close(state);
    redis_server_kill(&own);
    return 0;
}

/* --- helpers --- */

static struct pp_log_append ask(struct log_kit *k, int i)
{
    struct pp_log_append r = {.n = 0};
    LK_RUN(k, i, append, &r);
    return r;
}

static void needs_numbers(struct log_kit *k, int i, uint64_t *stale)
{
    struct pp_event *event = lk_events(k, 1);
    struct pp_log_append r = {.events = event, .n = 1};
    LK_DUE(k, i, append, &r, PP_ESTALE);
    assert_int_not_equal(r.stale, 0);
    *stale = r.stale;
}

static void begin_with(struct log_kit *k, int i, uint64_t first, uint64_t end, uint64_t stale)
{
    struct pp_log_begin r = {.first = first, .end = end, .stale = stale};
    LK_DUE(k, i, begin, &r, PP_OK);
}

/* Waits until log i is connected to Redis again. */
static void until_up(struct log_kit *k, int i)
{
    int64_t until = pp_loop_now(k->loop) + 60000;
    enum pp_err err = PP_EIO;
    while (err != PP_OK && err != PP_ESTALE) {
        assert_true(pp_loop_now(k->loop) < until);
        err = ask(k, i).req.err;
    }
}

static void restart(struct log_kit *k)
{
    redis_server_kill(&own);
    redis_server_restart(&own);
    for (int i = 0; i < LK_LOGS; i++)
        if (k->logs[i])
            until_up(k, i);
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
    char command[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof command, format, ap);
    va_end(ap);
    assert_int_equal(system(command), 0);
}

/* Copies the server's files. The server syncs each write, so the copy is complete. */
static void keep_files(void)
{
    shell("rm -rf '%s.kept' && cp -r '%s' '%s.kept'", own.dir, own.dir, own.dir);
}

/* Kills the server and restarts it with the files of an earlier moment. */
static void back_in_time(struct log_kit *k)
{
    redis_server_kill(&own);
    shell("rm -rf '%s'/* && cp -r '%s.kept'/. '%s'", own.dir, own.dir, own.dir);
    redis_server_restart(&own);
    for (int i = 0; i < LK_LOGS; i++)
        if (k->logs[i])
            until_up(k, i);
}

static void key_do(struct log_kit *k, const char *verb, const char *name)
{
    char words[200];
    snprintf(words, sizeof words, "%s {%s}:%s", verb, k->place, name);
    redis_server_do(&own, words);
}

static bool is_gap(const struct pp_event *e, uint64_t from, uint64_t to)
{
    char due[80];
    snprintf(due, sizeof due, "{\"from\":%llu,\"to\":%llu}", (unsigned long long)from,
             (unsigned long long)to);
    return !e->key && !e->type && e->seq == to && strcmp(e->data, due) == 0;
}

/* --- the numbers of events --- */

static void numbers_are_the_stores(void **state)
{
    struct log_kit *k = *state;
    uint64_t stale;
    needs_numbers(k, 0, &stale);
    /* The log must ignore this block of numbers, because `stale` is another one. */
    begin_with(k, 0, 1, 2000, stale ^ 1);
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

/* The log uses up its blocks of numbers. It loses no event. */
static void blocks_end(void **state)
{
    struct log_kit *k = *state;
    size_t n;
    uint64_t last = 0;
    k->block = 1000;
    for (int i = 0; i < 10; i++) {
        uint64_t first = lk_append(k, 0, 600);
        assert_true(first > last);
        last = first + 599;
    }
    assert_int_equal(k->blocks, 10);
    for (int i = 0; i < 400; i++)
        lk_append(k, 0, 1);
    assert_int_equal(k->blocks, 10);
    struct pp_event *all = lk_all(k, 0, 0, 1000, &n);
    assert_int_equal(n, 6400);
    for (size_t i = 0; i < n; i++)
        assert_non_null(all[i].type);
    assert_int_equal(lk_read(k, 0, 0, 1, ALL).cleaned, 0);
}

static void others_are_quicker(void **state)
{
    struct log_kit *k = *state;
    uint64_t stale[2];
    lk_open_log(k, 1);
    needs_numbers(k, 0, &stale[0]);
    needs_numbers(k, 1, &stale[1]);
    begin_with(k, 1, 2001, 4001, stale[1]);
    /* This block was reserved first, but it comes too late: the log has higher numbers already. */
    begin_with(k, 0, 1, 2001, stale[0]);
    assert_int_equal(lk_append(k, 0, 2), 2001);
    /* The log needs no numbers now, so it ignores this block. */
    begin_with(k, 0, 8001, 10001, stale[0]);
    assert_int_equal(lk_append(k, 1, 1000), 2003);
    k->next_number = 4001;
    /* The log had only 998 numbers left, so it asked for a new block. */
    assert_int_equal(lk_append(k, 0, 1000), 4001);
    begin_with(k, 1, 2001, 4001, 0);
    assert_int_equal(lk_append(k, 1, 1), 5001);
}

/* Two processes learn that the log needs numbers. While one of them is slow, the log uses the block
 * of the other, and then loses it with all data. The block of the slow process is now lower than
 * numbers in use, and the log must not use it. */
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
        if (round % 2) {
            redis_server_do(&own, "FLUSHALL");
        } else {
            keep_files();
            restart(k);
        }
        begin_with(k, 0, reserved, reserved + 2000, slow);
        needs_numbers(k, 0, &stale);
        assert_int_not_equal(stale, slow);
        first = lk_append(k, 0, 5);
        assert_true(first > last);
        last = first + 4;
        restart(k);
    }
}

/* --- Redis loses events --- */

static void back_with_everything(void **state)
{
    struct log_kit *k = *state;
    size_t n;
    lk_append(k, 0, 10);
    restart(k);
    struct pp_log_read r = lk_read(k, 0, 0, 100, ALL);
    assert_true(r.n == 10 && r.last == 10 && r.cleaned == 0);
    uint64_t first = lk_append(k, 0, 5);
    assert_int_equal(first, 1000001);
    struct pp_event *all = lk_all(k, 0, 0, 4, &n);
    assert_int_equal(n, 16);
    assert_int_equal(all[9].seq, 10);
    assert_true(is_gap(&all[10], 11, first - 1));
    assert_int_equal(all[11].seq, first);
    assert_true(is_gap(&lk_all(k, 0, 500, 4, &n)[0], 11, first - 1));
    assert_int_equal(lk_all(k, 0, first - 1, 4, &n)[0].seq, first);
    assert_int_equal(lk_read(k, 0, 0, 1, ALL).cleaned, 0);
    k->now += 10000;
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
    keep_files();
    uint64_t lost = lk_append(k, 0, 5);
    back_in_time(k);
    struct pp_log_read r = lk_read(k, 0, 0, 100, ALL);
    assert_true(r.n == 10 && r.last == 10);
    uint64_t first = lk_append(k, 0, 2);
    assert_true(first > lost + 4);
    /* The reader had already seen some of the events that are now lost. */
    struct pp_event *all = lk_all(k, 0, lost + 2, 10, &n);
    assert_int_equal(n, 3);
    assert_true(is_gap(&all[0], 11, first - 1));
    assert_int_equal(all[1].seq, first);
}

static void everything_is_lost(void **state)
{
    struct log_kit *k = *state;
    uint64_t last = lk_append(k, 0, 10) + 9;
    redis_server_do(&own, "FLUSHALL");
    struct pp_log_read r = lk_read(k, 0, 3, 100, ALL);
    assert_true(r.n == 0 && r.last == 0 && r.cleaned == 0);
    uint64_t first = lk_append(k, 0, 2);
    assert_true(first > last);
    r = lk_read(k, 0, 3, 100, ALL);
    assert_true(r.n == 2 && r.events[0].seq == first && r.cleaned == first - 1 && r.last == first + 1);
}

/* The test deletes one of the log's two keys, as an eviction policy could do. The log must continue
 * without using a number twice. */
static void half_is_lost(void **state)
{
    struct log_kit *k = *state;
    lk_append(k, 0, 10);
    key_do(k, "DEL", "stream");
    struct pp_log_read r = lk_read(k, 0, 3, 100, ALL);
    assert_true(r.n == 0 && r.last == 10 && r.cleaned == 10);
    assert_int_equal(lk_append(k, 0, 2), 11);
    r = lk_read(k, 0, 3, 100, ALL);
    assert_true(r.n == 2 && r.last == 12 && r.cleaned == 10);
    assert_int_equal(lk_clean(k, INT64_MIN, UINT64_MAX, 10).bytes, r.events[0].data_n + r.events[1].data_n);
    key_do(k, "DEL", "meta");
    uint64_t first = lk_append(k, 0, 3);
    assert_int_equal(first, 1000001);
    r = lk_read(k, 0, 0, 100, ALL);
    assert_true(r.n == 3 && r.last == first + 2 && r.cleaned == first - 1);
    key_do(k, "DEL", "stream");
    restart(k);
    first = lk_append(k, 0, 1);
    r = lk_read(k, 0, 0, 100, ALL);
    assert_true(r.n == 1 && r.last == first && r.cleaned == first - 1);
}

/* --- lost answers --- */

struct flights {
    int left;
};

static void landed(struct pp_req *req)
{
    ((struct flights *)req->data)->left--;
}

static bool all_landed(void *arg)
{
    return ((struct flights *)arg)->left == 0;
}

/* A caller that gets an unknown outcome may append its events again. They get other numbers. */
static void unknown_outcomes(void **state)
{
    struct log_kit *k = *state;
    struct pp_event *events = lk_events(k, 5);
    size_t n, found = 0;
    uint64_t last = lk_append(k, 0, 1);
    redis_server_freeze(&own);
    struct pp_log_append r = {.events = events, .n = 5};
    LK_DUE(k, 0, append, &r, PP_EUNKNOWN);
    redis_server_thaw(&own);
    until_up(k, 0);
    assert_true(lk_append_these(k, 0, events, 5) > last);
    struct pp_event *all = lk_all(k, 0, last, 10, &n);
    for (size_t i = 0; i < n; i++) {
        found += strcmp(all[i].data, events[0].data) == 0;
        assert_true(i == 0 || all[i].seq > all[i - 1].seq);
    }
    assert_in_range(found, 1, 2);
}

static bool is_there(struct pp_event *all, size_t n, const struct pp_event *e)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].data && strcmp(all[i].data, e->data) == 0)
            return true;
    return false;
}

static void killed_in_the_middle(void **state)
{
    struct log_kit *k = *state;
    enum { N = 40 };
    lk_append(k, 0, 1);
    for (int round = 0; round < 4; round++) {
        struct flights f = {N};
        struct pp_log_append r[N];
        for (int i = 0; i < N; i++) {
            r[i] = (struct pp_log_append){
                .req = {.done = landed, .data = &f, .arena = &k->arena}, .events = lk_events(k, 3), .n = 3};
            assert_int_equal(k->logs[0]->ops->append(k->logs[0], &r[i]), PP_OK);
        }
        for (int i = 0; i < 2 * round && f.left > 0; i++)
            pp_loop_turn(k->loop, true);
        redis_server_kill(&own);
        pp_test_until(k->loop, all_landed, &f, LK_LONG_MS);
        redis_server_restart(&own);
        until_up(k, 0);
        size_t n;
        struct pp_event *all = lk_all(k, 0, 0, 1000, &n);
        for (int i = 0; i < N; i++) {
            if (r[i].req.err == PP_OK)
                assert_true(is_there(all, n, &r[i].events[0]) && is_there(all, n, &r[i].events[2]));
            else if (r[i].req.err == PP_EUNKNOWN)
                assert_int_equal(is_there(all, n, &r[i].events[0]), is_there(all, n, &r[i].events[2]));
            else
                assert_false(is_there(all, n, &r[i].events[0]));
        }
        lk_append(k, 0, 1);
    }
}

static void memory_runs_out(void **state)
{
    struct log_kit *k = *state;
    lk_append(k, 0, 700);
    redis_server_do(&own, "CONFIG SET maxmemory 1");
    struct pp_log_append r = {.events = lk_events(k, 2), .n = 2};
    LK_DUE(k, 0, append, &r, PP_EFULL);
    assert_int_equal(lk_read(k, 0, 0, 1000, ALL).n, 700);
    assert_int_equal(lk_clean(k, INT64_MAX, UINT64_MAX, 600).n, 600);
    assert_int_equal(lk_read(k, 0, 0, 1000, ALL).n, 100);
    assert_int_equal(lk_read(k, 0, 0, 1000, ALL).cleaned, 600);
    redis_server_do(&own, "CONFIG SET maxmemory 0");
    LK_DUE(k, 0, append, &r, PP_OK);
    assert_int_equal(r.events[0].seq, 701);
}

static void woken(void *data)
{
    ++*(int *)data;
}

static bool is_woken(void *arg)
{
    return *(int *)arg > 0;
}

static void wakes_after_a_restart(void **state)
{
    struct log_kit *k = *state;
    int n = 0;
    lk_append(k, 0, 1);
    lk_open_log(k, 1);
    k->logs[1]->ops->watch(k->logs[1], woken, &n);
    pp_test_until(k->loop, is_woken, &n, LK_LONG_MS);
    redis_server_kill(&own);
    redis_server_restart(&own);
    n = 0;
    pp_test_until(k->loop, is_woken, &n, LK_LONG_MS);
    until_up(k, 0);
    uint64_t seq = lk_append(k, 0, 1);
    for (struct pp_log_read r = {.n = 0}; r.n == 0;) {
        n = 0;
        until_up(k, 1);
        r = lk_read(k, 1, seq - 1, 10, ALL);
        if (r.n == 0)
            pp_test_until(k->loop, is_woken, &n, LK_LONG_MS);
    }
}

/* --- a cluster --- */

static void in_a_cluster(void **state)
{
    (void)state;
    static const struct pp_log_subject subject = {"redis", place, open_own, true};
    char bus[8];
    snprintf(bus, sizeof bus, "%u", pp_test_port());
    own = (struct redis_server){.options = {"--cluster-enabled", "yes", "--cluster-port", bus}};
    redis_server_start(&own);
    redis_server_do(&own, "CLUSTER ADDSLOTSRANGE 0 16383");
    lk_use(&subject);
    void *s;
    assert_int_equal(lk_open(&s), 0);
    struct log_kit *k = s;
    until_up(k, 0);
    lk_append(k, 0, 100);
    assert_int_equal(lk_read(k, 0, 0, 1000, ALL).n, 100);
    assert_int_equal(lk_clean(k, INT64_MAX, 0, 50).n, 50);
    struct redisReply *r = redis_server_ask(&own, "KEYS *");
    char tag[64];
    snprintf(tag, sizeof tag, "{%s}:", k->place);
    assert_int_equal(r->elements, 2);
    for (size_t i = 0; i < r->elements; i++)
        assert_memory_equal(r->element[i]->str, tag, strlen(tag));
    freeReplyObject(r);
    lk_close(&s);
    redis_server_kill(&own);
}

/* --- random operations --- */

struct history {
    struct log_kit *k;
    struct pp_event *events; /* all events that the log has accepted, in order */
    size_t n;
};

static void append_some(struct history *h, int i, size_t n)
{
    struct pp_event *events = lk_events(h->k, n);
    lk_append_these(h->k, i, events, n);
    assert_true(h->n == 0 || events[0].seq > h->events[h->n - 1].seq);
    for (size_t j = 0; j < n; j++)
        h->events[h->n++] = events[j];
}

/* Asserts that each appended event can be read or is reported as missing. */
static void check_history(struct history *h)
{
    size_t n, at = 0;
    append_some(h, 0, 1);
    uint64_t cleaned = lk_read(h->k, 0, 0, 1, ALL).cleaned, from = 0, to = 0;
    struct pp_event *all = lk_all(h->k, 0, 0, 100, &n);
    for (size_t i = 0; i < h->n; i++) {
        const struct pp_event *e = &h->events[i];
        for (; at < n && (all[at].seq < e->seq || (!all[at].type && all[at].seq == e->seq)); at++)
            if (!all[at].type) {
                sscanf(all[at].data, "{\"from\":%" SCNu64 ",\"to\":%" SCNu64 "}", &from, &to);
                assert_int_equal(to, all[at].seq);
            }
        bool there = at < n && all[at].seq == e->seq;
        if (there)
            assert_string_equal(all[at].data, e->data);
        for (size_t j = at; !there && j < n && to < e->seq; j++)
            if (!all[j].type)
                sscanf(all[j].data, "{\"from\":%" SCNu64 ",\"to\":%" SCNu64 "}", &from, &to);
        assert_true(there || e->seq <= cleaned || (e->seq >= from && e->seq <= to));
    }
}

static void any_history(void **state)
{
    struct log_kit *k = *state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        uint64_t p = seed;
        struct history h = {k, pp_arena_array(&k->arena, 20000, sizeof *h.events), 0};
        redis_server_do(&own, "FLUSHALL");
        k->block = 1500;
        lk_close_log(k, 1);
        lk_open_log(k, 1);
        append_some(&h, 0, 1);
        keep_files();
        for (int step = 0; step < 25; step++) {
            switch (pp_test_between(&p, 0, 11)) {
            case 0: restart(k); break;
            case 1: back_in_time(k); break;
            case 2: redis_server_do(&own, "FLUSHALL"); break;
            case 3: keep_files(); break;
            case 4: key_do(k, "DEL", pp_test_between(&p, 0, 1) ? "stream" : "meta"); break;
            case 5: lk_clean(k, INT64_MAX, UINT64_MAX, (size_t)pp_test_between(&p, 1, 200)); break;
            default:
                append_some(&h, (int)pp_test_between(&p, 0, 1), (size_t)pp_test_between(&p, 1, 300));
                break;
            }
        }
        check_history(&h);
    }
}

static void wrong_options(void **state)
{
    (void)state;
    static const struct pp_redis_event_log_options bad[] = {{.url = "http://h"},
                                                            {.url = "redis://h", .prefix = ""},
                                                            {.url = "redis://h", .prefix = "a{b"},
                                                            {.url = "redis://h", .prefix = "a b"},
                                                            {.url = "redis://h", .prefix = "a\n"}};
    struct pp_loop *loop = pp_loop_open();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pp_event_log *l;
        assert_int_equal(pp_redis_event_log_open(loop, &bad[i], &l), PP_EINVAL);
    }
    pp_loop_close(loop);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int main(void)
{
    static const struct pp_log_subject subject = {"redis", place, open_shared, true};
    const struct CMUnitTest tests[] = {
        T(numbers_are_the_stores),      T(blocks_end),           T(others_are_quicker),
        T(late_for_another_life),       T(back_with_everything), T(the_latest_are_lost),
        T(everything_is_lost),          T(half_is_lost),         T(unknown_outcomes),
        T(killed_in_the_middle),        T(memory_runs_out),      T(wakes_after_a_restart),
        cmocka_unit_test(in_a_cluster), T(any_history),          cmocka_unit_test(wrong_options),
    };
    signal(SIGPIPE, SIG_IGN);
    int failed = pp_suite_event_log(&subject);
    return failed + cmocka_run_group_tests_name("redis's own", tests, NULL, NULL);
}
