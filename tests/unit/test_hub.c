/* Tests the hub: every subscriber gets the events of its topics, each exactly once; gaps; slow
 * subscribers; and the numbers that the publisher gives to events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/piece.h"
#include "events/hub_internal.h"
#include "events/publisher.h"
#include "fake_delivery.h"
#include "test_loop.h"

struct follower {
    struct pp_sub sub;
    struct kit *kit;
    /* numbers of the events received, in order; 0 means that the follower was told of a gap */
    uint64_t seqs[FAKE_EVENTS];
    size_t n, calls, most;
    uint64_t gap_from, gap_to, at;
    bool busy, failed, caught_up;
    size_t leave_after; /* the follower leaves after this many events; 0: never */
    size_t place;       /* how many followers had caught up before or with this one */
    size_t full;        /* the follower refuses this many deliveries because it is full */
};

struct kit {
    struct pp_loop *loop;
    struct pp_metrics metrics;
    struct fake_log events;
    struct fake_outbox store;
    struct pp_publisher *publisher;
    struct pp_hub *hub;
    bool busy;          /* followers that start from now on refuse deliveries */
    size_t caught_up;   /* number of followers that have caught up */
    const char *caller; /* followers that start from now on belong to this caller */
};

/* --- a follower: a subscriber that notes the events that it gets --- */

static struct follower *of(struct pp_sub *sub)
{
    return (struct follower *)((char *)sub - offsetof(struct follower, sub));
}

static void take(struct follower *f, const char *text, size_t n)
{
    static char copy[1 << 20];

    assert_true(n < sizeof(copy));
    memcpy(copy, text, n);
    copy[n] = '\0';
    const char *at = f->sub.format == PP_SUB_SSE ? copy : strstr(copy, "{\"seq\":");
    while (at && *at) {
        unsigned long long seq = 0;
        assert_int_equal(sscanf(at, f->sub.format == PP_SUB_SSE ? "id: %llu\n" : "{\"seq\":%llu,", &seq), 1);
        f->seqs[f->n++] = seq;
        at = f->sub.format == PP_SUB_SSE ? strstr(at, "\n\n") : NULL;
        at = at ? at + 2 : NULL;
    }
}

static enum pp_sub_verdict deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n)
{
    struct follower *f = of(sub);

    if (f->full > 0 && f->full--)
        return PP_SUB_FULL;
    f->calls++;
    f->most = n > f->most ? n : f->most;
    for (size_t i = 0; i < n; i++)
        take(f, pieces[i]->bytes, pieces[i]->n);
    f->at = sub->at;
    if (f->leave_after == 0 || f->n < f->leave_after)
        return PP_SUB_TAKEN;
    pp_hub_unsubscribe(f->kit->hub, sub);
    return PP_SUB_GONE;
}

static enum pp_sub_verdict gap(struct pp_sub *sub, uint64_t from, uint64_t to)
{
    struct follower *f = of(sub);
    f->gap_from = from;
    f->gap_to = to;
    f->seqs[f->n++] = 0;
    return PP_SUB_TAKEN;
}

static bool ready(struct pp_sub *sub)
{
    return !of(sub)->busy;
}

static void caught_up(struct pp_sub *sub)
{
    of(sub)->caught_up = true;
    of(sub)->place = ++of(sub)->kit->caught_up;
}

static void failed(struct pp_sub *sub, enum pp_err err)
{
    (void)err;
    of(sub)->failed = true;
    pp_hub_unsubscribe(of(sub)->kit->hub, sub);
}

static const struct pp_sub_events events = {
    .deliver = deliver, .gap = gap, .ready = ready, .caught_up = caught_up, .failed = failed};

static struct follower *follow(struct kit *k, enum pp_sub_format format, uint64_t after, const char *key,
                               const char *other)
{
    struct follower *f = calloc(1, sizeof(*f));
    const char *keys[] = {key, other};
    f->kit = k;
    f->busy = k->busy;
    f->sub.caller = k->caller;
    f->sub.events = &events;
    f->sub.format = format;
    assert_int_equal(pp_hub_subscribe(k->hub, &f->sub, keys, other ? 2 : 1, after), PP_OK);
    return f;
}

static void leave(struct follower *f)
{
    pp_hub_unsubscribe(f->kit->hub, &f->sub);
    free(f);
}

/* --- the kit: a hub with its log and its publisher --- */

static void open_hub(struct kit *k)
{
    k->hub = pp_hub_open(
        &(struct pp_hub_options){.loop = k->loop, .events = &k->events.base, .publisher = k->publisher});
    assert_non_null(k->hub);
}

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));
    *state = k;
    k->loop = pp_loop_open();
    fake_log_open(&k->events, k->loop);
    fake_outbox_open(&k->store, k->loop);
    k->publisher = pp_publisher_open(&(struct pp_publisher_options){
        .loop = k->loop, .events = &k->events.base, .store = &k->store.base, .metrics = &k->metrics});
    open_hub(k);
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;
    pp_hub_stop(k->hub);
    while (pp_hub_busy(k->hub) > 0)
        (void)pp_loop_turn(k->loop, true);
    pp_hub_close(k->hub);
    assert_int_equal(pp_publisher_busy(k->publisher), 0);
    pp_publisher_close(k->publisher);
    fake_log_close(&k->events);
    fake_outbox_close(&k->store);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

static bool up_to_date(void *arg)
{
    struct kit *k = arg;
    return k->events.reads > 0 && k->hub->tail == k->events.next - 1 && pp_hub_busy(k->hub) == 0;
}

static void settle(struct kit *k)
{
    pp_test_until(k->loop, up_to_date, k, 5000);
}

static bool has_caught_up(void *arg)
{
    return ((struct follower *)arg)->caught_up;
}

static void put(struct kit *k, const char *key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fake_log_put(&k->events, key, "t", "{}");
}

/* Adds events to the log without a notice to the hub. A hub that starts later reads only the newest
 * of them. */
static void put_quietly(struct kit *k, const char *key, size_t n)
{
    void (*woken)(void *data) = k->events.woken;
    k->events.woken = NULL;
    put(k, key, n);
    k->events.woken = woken;
}

static void check(const struct follower *f, size_t n, ...)
{
    va_list ap;
    va_start(ap, n);
    assert_int_equal(f->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(f->seqs[i], va_arg(ap, int));
    va_end(ap);
}

/* --- tests --- */

static void keys_are_checked(void **state)
{
    (void)state;
    static const char *const good[] = {"results", "results:42", "a:b:c:d:e:f:g:h", "batch:b_1-Z"};
    static const char *const bad[] = {"",         ":",  "a:", ":a", "a::b", "a b", "a.b", "a:b:c:d:e:f:g:h:i",
                                      "\xc3\xa4", "a\n"};
    char text[PP_EVENT_KEY_MAX + 1];

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_true(pp_event_key_valid(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(pp_event_key_valid(bad[i]));
    memset(text, 'a', PP_EVENT_KEY_MAX);
    text[PP_EVENT_KEY_MAX] = '\0';
    assert_false(pp_event_key_valid(text));
    text[PP_EVENT_KEY_MAX - 1] = '\0';
    assert_true(pp_event_key_valid(text));
}

static void prefixes_by_whole_parts(void **state)
{
    struct kit *k = *state;
    settle(k);
    struct follower *all = follow(k, PP_SUB_JSON, PP_SUB_FROM_NOW, "results", NULL);
    struct follower *one = follow(k, PP_SUB_SSE, PP_SUB_FROM_NOW, "results:4", NULL);
    struct follower *both = follow(k, PP_SUB_JSON, PP_SUB_FROM_NOW, "results:4", "results");
    struct follower *two = follow(k, PP_SUB_SSE, PP_SUB_FROM_NOW, "ops", "results:42");

    put(k, "results:42", 1);
    put(k, "results:4", 1);
    put(k, "ops", 1);
    put(k, "results:4", 1);
    settle(k);
    check(all, 3, 1, 2, 4);
    check(one, 2, 2, 4);
    check(both, 3, 1, 2, 4);
    check(two, 2, 1, 3);
    leave(all);
    leave(one);
    leave(both);
    leave(two);
    assert_int_equal(pp_hub_subscribers(k->hub), 0);
}

static void from_now_on_is_from_now_on(void **state)
{
    struct kit *k = *state;
    put_quietly(k, "ops", 3);
    /* the hub does not know the end of the log yet */
    struct follower *early = follow(k, PP_SUB_JSON, PP_SUB_FROM_NOW, "ops", NULL);
    pp_test_until(k->loop, has_caught_up, early, 5000);
    put(k, "ops", 2);
    settle(k);
    check(early, 2, 4, 5);
    leave(early);
}

/* The hub may call caught_up() only after it has read the log. */
static void caught_up_is_caught_up(void **state)
{
    struct kit *k = *state;
    put_quietly(k, "ops", 30);
    struct follower *f = follow(k, PP_SUB_JSON, 0, "ops", NULL);
    pp_test_until(k->loop, has_caught_up, f, 5000);
    assert_int_equal(f->n, 30);
    assert_int_equal(f->sub.at, 30);
    leave(f);
}

/* A subscriber first gets pages of the log, then the events of the ring, then live events. Whatever
 * number it starts from, it must get each event once and in order. */
static void resumes_from_everywhere(void **state)
{
    struct kit *k = *state;
    static const uint64_t places[] = {0, 1, 499, 500, 501, 999, 1000, 4399, 4400};

    put_quietly(k, "ops", 4400); /* more events than the hub reads when it starts */
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        struct follower *f = follow(k, i % 2 ? PP_SUB_SSE : PP_SUB_JSON, places[i], "ops", NULL);
        pp_test_until(k->loop, has_caught_up, f, 5000);
        uint64_t before = k->events.next - 1;
        put(k, "ops", 3);
        settle(k);
        assert_int_equal(f->n, before - places[i] + 3);
        for (size_t n = 0; n < f->n; n++)
            assert_int_equal(f->seqs[n], places[i] + 1 + n);
        leave(f);
    }
}

static void a_pause_loses_nothing(void **state)
{
    struct kit *k = *state;
    put(k, "ops", 1200);
    settle(k);
    k->busy = true;
    struct follower *f = follow(k, PP_SUB_JSON, 0, "ops", NULL);
    put(k, "ops", 100);
    settle(k);
    assert_int_equal(f->n, 0);
    f->busy = false;
    pp_hub_resume(k->hub, &f->sub);
    pp_test_until(k->loop, has_caught_up, f, 5000);
    assert_int_equal(f->n, 1300);
    for (size_t i = 0; i < f->n; i++)
        assert_int_equal(f->seqs[i], i + 1);
    leave(f);
}

/* Many subscriptions of one caller read the whole log and find nothing. The few of other callers
 * don't wait for them. */
static void one_caller_does_not_take_all_pages(void **state)
{
    enum { MANY = 60 };
    struct kit *k = *state;
    struct follower *many[MANY], *few[2];

    put_quietly(k, "ops", 4900); /* more events than the hub reads when it starts */
    settle(k);
    k->caller = "many";
    for (size_t i = 0; i < MANY; i++)
        many[i] = follow(k, PP_SUB_JSON, 0, "results:nobody", NULL);
    for (size_t i = 0; i < 2; i++) {
        k->caller = i == 0 ? "one" : "two";
        few[i] = follow(k, PP_SUB_JSON, 0, "ops", NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        pp_test_until(k->loop, has_caught_up, few[i], 5000);
        assert_in_range(few[i]->place, 1, 15);
        assert_int_equal(few[i]->n, 4900);
        leave(few[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        pp_test_until(k->loop, has_caught_up, many[i], 5000);
        leave(many[i]);
    }
}

/* A subscriber refuses events because it is full, or because a round of events is too large for it.
 * The hub must send it these events from the ring later, and then live events again. */
static void one_that_is_full_falls_behind(void **state)
{
    struct kit *k = *state;
    char large[2100];
    settle(k);
    struct follower *f = follow(k, PP_SUB_SSE, PP_SUB_FROM_NOW, "ops", NULL);
    f->full = 2;
    put(k, "ops", 3);
    settle(k);
    pp_hub_resume(k->hub, &f->sub);
    pp_hub_resume(k->hub, &f->sub);
    check(f, 3, 1, 2, 3);
    memset(large, ' ', sizeof(large));
    memcpy(large, "{", 1);
    memcpy(large + sizeof(large) - 2, "}", 2);
    for (size_t i = 0; i < 200; i++)
        fake_log_put(&k->events, "ops", "t", large);
    settle(k);
    assert_int_equal(f->n, 203);
    for (size_t i = 0; i < f->n; i++)
        assert_int_equal(f->seqs[i], i + 1);
    assert_true(f->most * 2000 <= PP_SUB_BYTES);
    assert_int_equal(f->sub.state, PP_SUB_LIVE);
    leave(f);
}

/* The hub delivers to a full subscriber only after pp_hub_resume(), although the subscriber is
 * ready for smaller pieces. Otherwise the hub would try in each turn of the loop. */
static void one_that_is_full_is_left_alone(void **state)
{
    struct kit *k = *state;
    settle(k);
    struct follower *f = follow(k, PP_SUB_JSON, PP_SUB_FROM_NOW, "ops", NULL);
    f->full = 2;
    put(k, "ops", 1);
    settle(k);
    for (int i = 0; i < 3; i++) {
        put(k, "ops", 1);
        settle(k);
    }
    assert_int_equal(f->full, 1);
    pp_hub_resume(k->hub, &f->sub);
    assert_int_equal(f->full, 0);
    put(k, "ops", 1);
    settle(k);
    assert_int_equal(f->n, 0);
    pp_hub_resume(k->hub, &f->sub);
    check(f, 5, 1, 2, 3, 4, 5);
    leave(f);
}

static void what_was_cleaned_away_is_said(void **state)
{
    struct kit *k = *state;
    put(k, "ops", 10);
    k->events.cleaned = 6;
    settle(k);
    struct follower *f = follow(k, PP_SUB_JSON, 2, "ops", NULL), *g = follow(k, PP_SUB_JSON, 6, "ops", NULL);
    settle(k);
    check(f, 5, 0, 7, 8, 9, 10);
    assert_int_equal(f->gap_from, 3);
    assert_int_equal(f->gap_to, 6);
    check(g, 4, 7, 8, 9, 10);
    leave(f);
    leave(g);
}

/* The log loses all its data and continues with a new block of numbers. Subscribers must get a gap,
 * and then the new events. */
static void subscribers_learn_of_lost_events(void **state)
{
    struct kit *k = *state;
    put(k, "ops", 3);
    settle(k);
    struct follower *f = follow(k, PP_SUB_SSE, PP_SUB_FROM_NOW, "ops", NULL);
    k->events.cleaned = 1000;
    k->events.next = 1001;
    put(k, "ops", 2);
    settle(k);
    check(f, 3, 0, 1001, 1002);
    assert_int_equal(f->gap_from, 4);
    assert_int_equal(f->gap_to, 1000);
    leave(f);
}

/* The log loses only its last events. Subscribers must get a gap for the missing numbers. */
static void a_gap_within_the_log(void **state)
{
    struct kit *k = *state;
    put(k, "ops", 2);
    settle(k);
    struct follower *live = follow(k, PP_SUB_JSON, PP_SUB_FROM_NOW, "ops", NULL);
    k->events.next = 50;
    uint64_t at = fake_log_put(&k->events, "", NULL, "{\"from\":3,\"to\":50}");
    assert_int_equal(at, 50);
    put(k, "ops", 2);
    settle(k);
    struct follower *late = follow(k, PP_SUB_JSON, 1, "ops", NULL);
    settle(k);
    check(live, 3, 0, 51, 52);
    check(late, 4, 2, 0, 51, 52);
    assert_int_equal(late->gap_from, 3);
    assert_int_equal(late->gap_to, 50);
    leave(live);
    leave(late);
}

static void one_who_takes_few_knows_where_he_is(void **state)
{
    struct kit *k = *state;
    settle(k);
    struct follower *f = follow(k, PP_SUB_JSON, 0, "ops", NULL);
    f->sub.max = 3;
    f->leave_after = 3;
    put(k, "results:1", 2);
    put(k, "ops", 5);
    settle(k);
    check(f, 3, 3, 4, 5);
    assert_int_equal(f->at, 5);
    assert_int_equal(f->most, 3);
    assert_int_equal(pp_hub_subscribers(k->hub), 0);
    free(f);
}

static void leaving_in_the_middle_of_a_round(void **state)
{
    struct kit *k = *state;
    struct follower *f[20];

    settle(k);
    for (size_t i = 0; i < 20; i++) {
        f[i] = follow(k, i % 2 ? PP_SUB_JSON : PP_SUB_SSE, PP_SUB_FROM_NOW, i % 3 ? "ops" : "results",
                      i % 5 ? NULL : "batch");
        f[i]->leave_after = i % 4 ? 1 : 0;
    }
    put(k, "ops", 2);
    put(k, "results:1", 2);
    put(k, "batch:b_1", 2);
    settle(k);
    for (size_t i = 0; i < 20; i++) {
        assert_true(f[i]->n >= 1);
        if (i % 4 == 0)
            assert_int_equal(f[i]->n, 2 + (i % 5 ? 0 : 2));
        leave(f[i]);
    }
    assert_int_equal(pp_hub_subscribers(k->hub), 0);
}

/* A subscriber names a topic twice, and must get each event once. Another leaves in the middle of a
 * round, and the hub must remove it only once. */
static void the_same_key_twice(void **state)
{
    struct kit *k = *state;
    struct follower *f[6];

    settle(k);
    for (size_t i = 0; i < 6; i++) {
        f[i] = follow(k, i % 2 ? PP_SUB_JSON : PP_SUB_SSE, PP_SUB_FROM_NOW, "results:1", "results:1");
        f[i]->leave_after = i < 4 ? 1 : 0;
    }
    put(k, "results:1", 2);
    settle(k);
    for (size_t i = 0; i < 6; i++) {
        assert_in_range(f[i]->n, i < 4 ? 1 : 2, 2);
        leave(f[i]);
    }
    assert_int_equal(pp_hub_subscribers(k->hub), 0);
}

static void a_log_that_fails(void **state)
{
    struct kit *k = *state;
    /* too many events for the ring, so the subscriber needs a page of the log */
    put_quietly(k, "ops", 4400);
    settle(k);
    k->events.read_err = PP_EIO;
    struct follower *f = follow(k, PP_SUB_JSON, 0, "ops", NULL);
    pp_test_until(k->loop, up_to_date, k, 5000);
    assert_true(f->failed);
    free(f);
    k->events.read_err = PP_EIO; /* the hub cannot read the end of the log, and tries again */
    put(k, "ops", 1);
    settle(k);
}

struct checking {
    struct pp_hub_check check;
    bool done;
    enum pp_err err;
};

static void checked(struct pp_hub_check *check, enum pp_err err)
{
    struct checking *c = (struct checking *)check;
    c->done = true;
    c->err = err;
}

static bool is_checked(void *arg)
{
    return ((struct checking *)arg)->done;
}

/* The log loses its last events, and nobody publishes more. A subscriber that needs them gets a gap
 * up to where the others are, and nobody reads the log again and again. */
static void the_last_events_are_lost(void **state)
{
    struct kit *k = *state;
    struct follower *f;

    put(k, "ops", 5);
    settle(k);
    pp_ring_clear(&k->hub->ring, k->hub->tail);
    fake_log_lose(&k->events, 3);
    f = follow(k, PP_SUB_JSON, 1, "ops", NULL);
    pp_test_until(k->loop, has_caught_up, f, 5000);
    assert_int_equal(f->n, 3);
    assert_true(f->seqs[0] == 2 && f->seqs[1] == 3 && f->seqs[2] == 0);
    assert_true(f->gap_from == 4 && f->gap_to == 5);
    leave(f);
}

/* The same while a hub reads the newest events, before it serves anybody. */
static void the_last_events_are_lost_at_the_start(void **state)
{
    struct kit *k = *state;
    struct follower *f;

    put(k, "ops", 5);
    settle(k);
    k->hub->warm_to = k->hub->last = 9;
    size_t reads = k->events.reads;
    f = follow(k, PP_SUB_JSON, 4, "ops", NULL);
    k->events.woken(k->events.woken_data);
    pp_test_until(k->loop, has_caught_up, f, 5000);
    assert_true(k->events.reads <= reads + 2);
    leave(f);
}

/* A subscriber may start from a number that another process has published and this process has not
 * read yet. The hub must refuse only a number that no event has. */
static void numbers_of_the_future(void **state)
{
    struct kit *k = *state;
    put(k, "ops", 3);
    settle(k);
    put_quietly(k, "ops", 2); /* this process has not read them yet */
    static const struct {
        uint64_t after;
        enum pp_err due;
    } cases[] = {{0, PP_OK}, {3, PP_OK}, {5, PP_OK}, {6, PP_EINVAL}, {PP_EVENT_SEQ_MAX, PP_EINVAL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct checking c = {.check = {.after = cases[i].after, .done = checked}};
        pp_hub_check(k->hub, &c.check);
        pp_test_until(k->loop, is_checked, &c, 5000);
        assert_int_equal(c.err, cases[i].due);
        if (c.err == PP_EINVAL)
            assert_int_equal(c.check.newest, 5);
    }
}

/* The log has lost its last numbers. The hub begins a new block of numbers before it checks a
 * subscriber's number, and accepts a number below that block. */
static void a_log_that_went_back(void **state)
{
    struct kit *k = *state;
    put(k, "ops", 3);
    settle(k);
    k->events.end = 1; /* the numbers above 1 are lost */
    k->store.numbers = 1000;
    struct checking c = {.check = {.after = 900, .done = checked}};
    pp_hub_check(k->hub, &c.check);
    pp_test_until(k->loop, is_checked, &c, 5000);
    assert_int_equal(c.err, PP_OK);
    c = (struct checking){.check = {.after = 5000, .done = checked}};
    pp_hub_check(k->hub, &c.check);
    pp_test_until(k->loop, is_checked, &c, 5000);
    assert_int_equal(c.err, PP_EINVAL);
}

/* --- the publisher --- */

struct publishing {
    struct pp_publication publication;
    struct pp_event event;
    bool done;
    enum pp_err err;
};

static void published(struct pp_req *req)
{
    struct publishing *p = req->data;
    p->done = true;
    p->err = req->err;
}

static bool is_published(void *arg)
{
    return ((struct publishing *)arg)->done;
}

static void publish(struct kit *k, struct publishing *p)
{
    *p = (struct publishing){.event = {.key = "ops", .type = "t", .data = "{}", .data_n = 2}};
    p->publication =
        (struct pp_publication){.req = {.done = published, .data = p}, .events = &p->event, .n = 1};
    pp_publish(k->publisher, &p->publication);
}

static void blocks_of_numbers_are_fetched(void **state)
{
    struct kit *k = *state;
    struct publishing p[3];

    k->events.end = 1; /* the log has no events */
    k->store.numbers = 5000000;
    for (size_t i = 0; i < 3; i++)
        publish(k, &p[i]);
    for (size_t i = 0; i < 3; i++) {
        pp_test_until(k->loop, is_published, &p[i], 5000);
        assert_int_equal(p[i].err, PP_OK);
        assert_int_equal(p[i].event.seq, 5000001 + i);
    }
    assert_int_equal(k->events.begins, 1);
    k->events.append_err = PP_EIO;
    publish(k, &p[0]);
    publish(k, &p[1]);
    pp_test_until(k->loop, is_published, &p[1], 5000);
    assert_int_equal(p[0].err, PP_EIO);
    assert_int_equal(p[1].err, PP_OK);
    assert_int_equal(p[1].event.seq, 5000004);
    k->store.err = PP_EIO; /* the publisher gets no block of numbers, so it publishes nothing */
    k->events.end = 1;
    publish(k, &p[0]);
    pp_test_until(k->loop, is_published, &p[0], 5000);
    assert_int_equal(p[0].err, PP_EIO);
    assert_int_equal(pp_publisher_busy(k->publisher), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_checked),
        T(prefixes_by_whole_parts),
        T(from_now_on_is_from_now_on),
        T(caught_up_is_caught_up),
        T(resumes_from_everywhere),
        T(a_pause_loses_nothing),
        T(one_caller_does_not_take_all_pages),
        T(one_that_is_full_falls_behind),
        T(one_that_is_full_is_left_alone),
        T(what_was_cleaned_away_is_said),
        T(subscribers_learn_of_lost_events),
        T(a_gap_within_the_log),
        T(one_who_takes_few_knows_where_he_is),
        T(leaving_in_the_middle_of_a_round),
        T(the_same_key_twice),
        T(a_log_that_fails),
        T(the_last_events_are_lost),
        T(the_last_events_are_lost_at_the_start),
        T(numbers_of_the_future),
        T(a_log_that_went_back),
        T(blocks_of_numbers_are_fetched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
