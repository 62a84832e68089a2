/* suite_coordinator.c: what one holder of a slot has sent is known to the next, after a release as after a
 * crash (rule I5); shares add up; slow hosts, announcements, signs of life and drains reach who they should.
 */
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
#include "suite_coordinator.h"
#include "test_loop.h"

#define WINDOW_MS 60000
#define LEASE_MS  30000
#define T0        INT64_C(1700000000000)

struct kit {
    const char *place;
    struct pp_loop *loop;
    struct pp_coordinator *c;
    struct pp_arena arena;
    bool done;
    struct pp_backlog_row rows[8]; /* announced last */
    char client[80];               /* of the first of them */
    size_t n_rows, announced;
    int drains;
    char drained[100]; /* "*": all */
};

static const struct pp_coord_subject *subject;

static void open_coordinator(struct kit *k)
{
    assert_string_equal(pp_err_text(subject->open(k->loop, k->place, &k->c)), pp_err_text(PP_OK));
}

static int open_kit(void **state)
{
    struct kit *k = calloc(1, sizeof *k);

    k->place = subject->place();
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, 0);
    open_coordinator(k);
    *state = k;
    return 0;
}

static int close_kit(void **state)
{
    struct kit *k = *state;

    k->c->ops->close(k->c);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

/* The process dies with its slots, and another starts. */
static void crash(struct kit *k)
{
    k->c->ops->close(k->c);
    open_coordinator(k);
}

static void on_done(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static bool is_done(void *done)
{
    return *(bool *)done;
}

static struct pp_req request(struct kit *k)
{
    k->done = false;
    return (struct pp_req){.done = on_done, .data = &k->done, .arena = &k->arena};
}

static void wait_ok(struct kit *k, enum pp_err submitted, struct pp_req *req)
{
    assert_int_equal(submitted, PP_OK);
    assert_false(k->done); /* later, never from within */
    pp_test_until(k->loop, is_done, &k->done, 10000);
    assert_string_equal(pp_err_text(req->err), pp_err_text(PP_OK));
}

static void acquire_all(struct kit *k, const char *worker, struct pp_slot_want *wants, size_t n, int64_t now)
{
    struct pp_coord_acquire r = {
        .req = request(k), .worker = worker, .lease_ms = LEASE_MS, .now_ms = now, .wants = wants, .n = n};
    wait_ok(k, k->c->ops->acquire(k->c, &r), &r.req);
}

static struct pp_slot_want acquire(struct kit *k, const char *client, uint32_t rpm, int64_t now)
{
    struct pp_slot_want w = {.client = client, .rpm = rpm, .concurrency = 8};

    acquire_all(k, "w1", &w, 1, now);
    assert_true(w.granted);
    return w;
}

static void renew(struct kit *k, struct pp_slot_renewal *renewals, size_t n, int64_t now)
{
    struct pp_coord_renew r = {
        .req = request(k), .worker = "w1", .lease_ms = LEASE_MS, .now_ms = now, .renewals = renewals, .n = n};
    wait_ok(k, k->c->ops->renew(k->c, &r), &r.req);
}

static void release(struct kit *k, struct pp_slot_renewal renewal, int64_t now)
{
    struct pp_coord_release r = {
        .req = request(k), .worker = "w1", .now_ms = now, .renewals = &renewal, .n = 1};
    wait_ok(k, k->c->ops->release(k->c, &r), &r.req);
}

/* --- grants --- */

static void a_new_client_has_no_past(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 100, T0);

    assert_int_equal(w.n_marks, 0);
    assert_int_equal(w.spent, 0);
    assert_true(w.not_before_ms <= T0);
    assert_true(w.shares >= 1 && w.share < w.shares);
}

static void no_rate_is_no_rate(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 0, T0);

    assert_true(w.granted);
    assert_int_equal(w.spent, 0);
}

static void many_are_granted_at_once(void **state)
{
    enum { N = 500 };
    struct kit *k = *state;
    struct pp_slot_want w[N];
    char ids[N][24];

    for (int i = 0; i < N; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "client-%d", i);
        w[i] = (struct pp_slot_want){.client = ids[i], .rpm = (uint32_t)i, .concurrency = (uint32_t)i + 1};
    }
    acquire_all(k, "w1", w, N, T0);
    for (int i = 0; i < N; i++) {
        assert_true(w[i].granted);
        assert_true(w[i].share < w[i].shares);
    }
}

/* --- what the next holder learns --- */

static const struct pp_slot_mark marks[] = {{T0 - 70000, 5}, {T0 - 59000, 7}, {T0 - 1000, 2}, {T0, 1}};

static uint32_t told(const struct pp_slot_want *w, int64_t now)
{
    uint32_t sum = w->spent;

    for (size_t i = 0; i < w->n_marks; i++) {
        assert_true(i == 0 || w->marks[i].at_ms >= w->marks[i - 1].at_ms);
        assert_true(w->marks[i].at_ms <= now);
        sum += w->marks[i].at_ms > now - WINDOW_MS ? w->marks[i].n : 0;
    }
    return sum;
}

static void a_release_hands_on_its_marks(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 100, T0);

    release(k, (struct pp_slot_renewal){.client = "42", .share = w.share, .marks = marks, .n_marks = 4}, T0);
    w = acquire(k, "42", 100, T0 + 500);
    assert_int_equal(w.spent, 0);
    assert_int_equal(told(&w, T0 + 500), 10);
    w = acquire(k, "43", 100, T0 + 500); /* and to nobody else */
    assert_int_equal(told(&w, T0 + 500), 0);
}

static void a_release_hands_on_what_was_under_way(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 100, T0);
    struct pp_slot_renewal r = {
        .client = "42", .share = w.share, .marks = marks, .n_marks = 4, .reserved = 6};

    release(k, r, T0);
    w = acquire(k, "42", 100, T0 + 500);
    assert_int_equal(told(&w, T0 + 500), 16);
}

static void marks_grow_old(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 100, T0);
    struct pp_slot_renewal r = {.client = "42", .share = w.share, .marks = marks, .n_marks = 4};

    release(k, r, T0);
    crash(k);
    w = acquire(k, "42", 100, T0 + 58900); /* of the marks two are left */
    assert_int_equal(told(&w, T0 + 58900), 3);
    w = acquire(k, "42", 100, T0 + 130000);
    assert_int_equal(told(&w, T0 + 130000), 0);
}

static void a_crash_counts_what_was_reserved(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 100, T0);
    struct pp_slot_renewal r = {
        .client = "42", .share = w.share, .marks = marks, .n_marks = 4, .reserved = 30};

    renew(k, &r, 1, T0);
    assert_false(r.lost);
    crash(k);
    w = acquire(k, "42", 100, T0 + 500);
    assert_int_equal(w.spent, 30);
    assert_int_equal(told(&w, T0 + 500), 40);
    crash(k); /* at once: the same 30, as a mark of their own by now */
    w = acquire(k, "42", 100, T0 + 600);
    assert_int_equal(told(&w, T0 + 600), 40);
    crash(k);
    w = acquire(k, "42", 100, T0 + 60400);
    assert_int_equal(told(&w, T0 + 60400), 30);
    w = acquire(k, "42", 100, T0 + 122000);
    assert_int_equal(told(&w, T0 + 122000), 0);
}

/* Permits that were reserved may have been used long after the holder's last word: a slow connection, a disk
 * that takes no writes. */
static void a_reservation_outlives_silence(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 100, T0);
    struct pp_slot_renewal r = {.client = "42", .share = w.share, .reserved = 5};

    renew(k, &r, 1, T0);
    crash(k);
    w = acquire(k, "42", 100, T0 + 90000);
    assert_int_equal(w.spent, 5);
}

static void a_slot_that_is_not_held_is_lost(void **state)
{
    struct kit *k = *state;
    struct pp_slot_renewal r = {.client = "nobody", .reserved = 1};

    renew(k, &r, 1, T0);
    assert_true(r.lost);
    struct pp_slot_want w = acquire(k, "42", 100, T0);
    r = (struct pp_slot_renewal){.client = "42", .share = w.share, .reserved = 1};
    renew(k, &r, 1, T0);
    assert_false(r.lost);
    release(k, r, T0);
    renew(k, &r, 1, T0);
    assert_true(r.lost);
}

static void a_renewal_may_leave_the_marks(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 100, T0);
    struct pp_slot_renewal r = {
        .client = "42", .share = w.share, .marks = marks, .n_marks = 4, .reserved = 30};

    renew(k, &r, 1, T0);
    r = (struct pp_slot_renewal){.client = "42", .share = w.share, .reserved = 3};
    renew(k, &r, 1, T0 + 100);
    crash(k);
    w = acquire(k, "42", 100, T0 + 500);
    assert_int_equal(told(&w, T0 + 500), 13);
}

static void marks_may_be_cleared(void **state)
{
    struct kit *k = *state;
    struct pp_slot_want w = acquire(k, "42", 100, T0);
    struct pp_slot_renewal r = {
        .client = "42", .share = w.share, .marks = marks, .n_marks = 4, .reserved = 0};

    renew(k, &r, 1, T0);
    r = (struct pp_slot_renewal){.client = "42", .share = w.share, .marks = marks, .n_marks = 0};
    renew(k, &r, 1, T0 + 100);
    crash(k);
    w = acquire(k, "42", 100, T0 + 500);
    assert_int_equal(told(&w, T0 + 500), 0);
}

static void many_are_renewed_at_once(void **state)
{
    enum { N = 300 };
    struct kit *k = *state;
    struct pp_slot_want w[N];
    struct pp_slot_renewal r[N];
    char ids[N][24];

    for (int i = 0; i < N; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "client-%d", i);
        w[i] = (struct pp_slot_want){.client = ids[i], .rpm = 1000, .concurrency = 2};
    }
    acquire_all(k, "w1", w, N, T0);
    for (int i = 0; i < N; i++)
        r[i] = (struct pp_slot_renewal){
            .client = ids[i], .share = w[i].share, .reserved = (uint32_t)i, .lost = true};
    renew(k, r, N, T0);
    crash(k);
    acquire_all(k, "w1", w, N, T0 + 1);
    for (int i = 0; i < N; i++) {
        assert_false(r[i].lost);
        assert_int_equal(told(&w[i], T0 + 1), i);
    }
}

/* I5: however holders come and go, the next is told of at least what went out in the last window; and of no
 * more than that and what was reserved in vain. Virtual time; the holder's log is the model's. */
struct model {
    int64_t sent[20000], vain[20000]; /* times of requests; of reservations that a crash has spent */
    size_t n, n_vain;
    uint32_t reserved, unused; /* recorded; of these not yet sent */
    size_t unmarked;           /* sent since the marks recorded last */
};

static uint32_t within(const int64_t *at, size_t n, int64_t now)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += at[i] > now - WINDOW_MS;
    return sum;
}

/* What was handed on and what this holder sent, as marks of one each. */
static struct pp_slot_renewal renewal_of(struct kit *k, const struct model *m, uint32_t share, int64_t now)
{
    size_t n = within(m->sent, m->n, now) + within(m->vain, m->n_vain, now), a = 0, b = 0, at = 0;
    struct pp_slot_mark *out = pp_arena_array(&k->arena, n + 1, sizeof(*out));

    while (a < m->n || b < m->n_vain) {
        bool sent = b == m->n_vain || (a < m->n && m->sent[a] <= m->vain[b]);
        int64_t when = sent ? m->sent[a++] : m->vain[b++];
        if (when > now - WINDOW_MS)
            out[at++] = (struct pp_slot_mark){when, 1};
    }
    assert_int_equal(at, n);
    return (struct pp_slot_renewal){.client = "42", .share = share, .marks = out, .n_marks = n};
}

static void no_hand_over_forgets(void **state)
{
    struct kit *k = *state;
    struct model *m = calloc(1, sizeof(*m));
    uint64_t seed = 20240607;
    int64_t now = T0;
    struct pp_slot_want w = acquire(k, "42", 1000, now);

    for (int step = 0; step < 400; step++) {
        now += pp_test_between(&seed, 0, 4000);
        int what = (int)pp_test_between(&seed, 0, 9);
        if (what < 6) { /* reserve, then send some of it */
            bool with_marks = pp_test_between(&seed, 0, 1);
            uint32_t more = (uint32_t)pp_test_between(&seed, 0, 20);
            struct pp_slot_renewal r = renewal_of(k, m, w.share, now);
            m->unmarked = with_marks ? 0 : m->unmarked;
            r.marks = with_marks ? r.marks : NULL;
            r.reserved = (uint32_t)m->unmarked + more;
            renew(k, &r, 1, now);
            uint32_t sends = (uint32_t)pp_test_between(&seed, 0, more);
            for (uint32_t i = 0; i < sends; i++)
                m->sent[m->n++] = now;
            m->unmarked += sends;
            m->unused = more - sends;
            continue;
        }
        if (what < 8) {
            release(k, renewal_of(k, m, w.share, now), now);
        } else {
            crash(k);
            for (uint32_t i = 0; i < m->unused; i++)
                m->vain[m->n_vain++] = now;
        }
        m->unused = 0;
        bool crashed = what >= 8;
        now += pp_test_between(&seed, 0, 3000);
        w = acquire(k, "42", 1000, now);
        uint32_t known = told(&w, now), sent = within(m->sent, m->n, now);
        assert_true(known >= sent);
        if (!crashed)
            assert_true(known <= sent + within(m->vain, m->n_vain, now));
        if (crashed) { /* counted as of now, all that was not in the marks: later than they were sent */
            for (size_t i = 0; i < m->n_vain; i++)
                m->vain[i] = m->vain[i] > now - WINDOW_MS ? m->vain[i] : 0;
            while (within(m->sent, m->n, now) + within(m->vain, m->n_vain, now) < known)
                m->vain[m->n_vain++] = now;
        }
        m->unmarked = 0;
        pp_arena_fini(&k->arena);
        pp_arena_init(&k->arena, 0);
    }
    free(m);
}

/* --- slow hosts --- */

static void slow_hosts_are_only_prolonged(void **state)
{
    struct kit *k = *state;
    const struct pp_coordinator_ops *ops = k->c->ops;

    assert_int_equal(ops->host_slow_until(k->c, "a.test", T0), 0);
    ops->slow_host(k->c, "a.test", T0 + 1000, T0);
    ops->slow_host(k->c, "b.test", T0 + 100, T0);
    assert_int_equal(ops->host_slow_until(k->c, "a.test", T0), T0 + 1000);
    ops->slow_host(k->c, "a.test", T0 + 500, T0 + 1);
    assert_int_equal(ops->host_slow_until(k->c, "a.test", T0 + 1), T0 + 1000);
    ops->slow_host(k->c, "a.test", T0 + 5000, T0 + 2);
    assert_int_equal(ops->host_slow_until(k->c, "a.test", T0 + 4999), T0 + 5000);
    assert_int_equal(ops->host_slow_until(k->c, "b.test", T0 + 99), T0 + 100);
    assert_int_equal(ops->host_slow_until(k->c, "b.test", T0 + 100), 0);
    assert_int_equal(ops->host_slow_until(k->c, "a.test", T0 + 5000), 0);
    ops->slow_host(k->c, "a.test", T0 + 9000, T0 + 6000);
    assert_int_equal(ops->host_slow_until(k->c, "a.test", T0 + 6000), T0 + 9000);
}

static void slow_hosts_are_bounded(void **state)
{
    struct kit *k = *state;
    char host[40];

    for (int i = 0; i < 120000; i++) {
        (void)snprintf(host, sizeof(host), "h%d.test", i);
        k->c->ops->slow_host(k->c, host, T0 + 1000000, T0);
    }
    assert_int_equal(k->c->ops->host_slow_until(k->c, host, T0), T0 + 1000000); /* the newest stay */
}

/* --- announcements --- */

static void on_backlog(void *data, const struct pp_backlog_row *rows, size_t n)
{
    struct kit *k = data;

    assert_true(n <= 8);
    memcpy(k->rows, rows, n * sizeof(*rows));
    (void)snprintf(k->client, sizeof(k->client), "%s", rows[0].client);
    k->n_rows = n;
    k->announced++;
}

static bool was_announced(void *k)
{
    return ((struct kit *)k)->announced > 0;
}

static void announcements_reach_the_watcher(void **state)
{
    struct kit *k = *state;
    char client[] = "42";
    struct pp_backlog_row rows[2] = {{.client = client, .queue = 1, .due_ms = T0},
                                     {.client = "43", .queue = PP_QUEUE_SUSPECT, .due_ms = T0 + 5}};

    k->c->ops->announce(k->c, rows, 2); /* nobody is listening */
    k->c->ops->watch(k->c, on_backlog, k);
    k->c->ops->announce(k->c, rows, 2);
    memset(client, 'x', 2); /* copied */
    pp_test_until(k->loop, was_announced, k, 5000);
    assert_int_equal(k->n_rows, 2);
    assert_string_equal(k->client, "42");
    assert_int_equal(k->rows[1].queue, PP_QUEUE_SUSPECT);
    assert_int_equal(k->rows[1].due_ms, T0 + 5);
}

/* --- workers --- */

static void signs_of_life_are_seen_for_a_minute(void **state)
{
    struct kit *k = *state;
    char id[] = "host-1-a";
    struct pp_worker_info info, mine = {.id = id,
                                        .host = "host",
                                        .pid = 1,
                                        .tiers = "1,5",
                                        .capacity = 100,
                                        .in_flight = 3,
                                        .started_at = T0 - 5000,
                                        .seen_at = T0};

    assert_false(k->c->ops->worker(k->c, 0, &info, T0));
    k->c->ops->heartbeat(k->c, &mine);
    memset(id, 'x', 4);
    assert_true(k->c->ops->worker(k->c, 0, &info, T0 + 1000));
    assert_string_equal(info.id, "host-1-a");
    assert_string_equal(info.host, "host");
    assert_string_equal(info.tiers, "1,5");
    assert_int_equal(info.in_flight, 3);
    assert_int_equal(info.seen_at, T0);
    assert_false(k->c->ops->worker(k->c, 1, &info, T0 + 1000));
    mine.id = "host-1-a";
    mine.in_flight = 4;
    mine.seen_at = T0 + 50000;
    k->c->ops->heartbeat(k->c, &mine);
    assert_true(k->c->ops->worker(k->c, 0, &info, T0 + 100000));
    assert_int_equal(info.in_flight, 4);
    assert_false(k->c->ops->worker(k->c, 1, &info, T0 + 100000));
    assert_false(k->c->ops->worker(k->c, 0, &info, T0 + 110001));
}

static void on_drain(void *data, const char *worker)
{
    struct kit *k = data;

    k->drains++;
    (void)snprintf(k->drained, sizeof(k->drained), "%s", worker ? worker : "*");
}

static bool was_drained(void *k)
{
    return ((struct kit *)k)->drains > 0;
}

static void drains_reach_their_worker(void **state)
{
    struct kit *k = *state;
    struct pp_worker_info mine = {.id = "w1", .host = "host", .tiers = "all", .seen_at = T0};

    k->c->ops->heartbeat(k->c, &mine);
    k->c->ops->watch_drain(k->c, on_drain, k);
    assert_int_equal(k->c->ops->drain(k->c, "w2"), PP_ENOTFOUND);
    assert_int_equal(k->drains, 0);
    assert_int_equal(k->c->ops->drain(k->c, "w1"), PP_OK);
    pp_test_until(k->loop, was_drained, k, 5000);
    assert_string_equal(k->drained, "w1");
    k->drains = 0;
    assert_int_equal(k->c->ops->drain(k->c, NULL), PP_OK);
    pp_test_until(k->loop, was_drained, k, 5000);
    assert_string_equal(k->drained, "*");
}

static uint64_t trips(struct kit *k)
{
    const char *name;
    uint64_t n, sum = 0;
    size_t i = 0;

    for (; k->c->ops->roundtrips(k->c, i, &name, &n); i++) {
        assert_true(name[0] != '\0');
        sum += n;
    }
    assert_true(i > 0);
    return sum;
}

static void round_trips_are_counted(void **state)
{
    struct kit *k = *state;
    uint64_t before = trips(k);

    (void)acquire(k, "42", 10, T0);
    assert_int_equal(trips(k), before + 1);
    assert_true(k->c->ops->reserve_ahead_ms(k->c) >= 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int pp_suite_coordinator(const struct pp_coord_subject *s)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_client_has_no_past),
        TEST(no_rate_is_no_rate),
        TEST(many_are_granted_at_once),
        TEST(a_release_hands_on_its_marks),
        TEST(a_release_hands_on_what_was_under_way),
        TEST(marks_grow_old),
        TEST(a_crash_counts_what_was_reserved),
        TEST(a_reservation_outlives_silence),
        TEST(a_slot_that_is_not_held_is_lost),
        TEST(a_renewal_may_leave_the_marks),
        TEST(marks_may_be_cleared),
        TEST(many_are_renewed_at_once),
        TEST(no_hand_over_forgets),
        TEST(slow_hosts_are_only_prolonged),
        TEST(slow_hosts_are_bounded),
        TEST(announcements_reach_the_watcher),
        TEST(signs_of_life_are_seen_for_a_minute),
        TEST(drains_reach_their_worker),
        TEST(round_trips_are_counted),
    };

    subject = s;
    return cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
}
