/* suite_coordinator.c: the next holder of a slot learns what the previous holder sent, after a
 * release and after a crash (rule I5). The shares of a client add up to its limits. Slow hosts,
 * announcements, heartbeats and drains reach the workers that need them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "suite_coordinator_kit.h"

#define T0 CK_T0

/* --- grants of slots --- */

static void a_new_client_has_no_past(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);

    assert_int_equal(w.n_marks, 0);
    assert_int_equal(w.spent, 0);
    assert_true(w.not_before_ms <= T0);
    assert_true(w.shares >= 1 && w.share < w.shares);
}

static void no_rate_is_no_rate(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 0, T0);

    assert_true(w.granted);
    assert_int_equal(w.spent, 0);
}

static void many_are_granted_at_once(void **state)
{
    enum { N = 500 };
    struct coord_kit *k = *state;
    struct pp_slot_want w[N];
    char ids[N][24];

    for (int i = 0; i < N; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "client-%d", i);
        w[i] = (struct pp_slot_want){.client = ids[i], .rpm = (uint32_t)i, .concurrency = (uint32_t)i + 1};
    }
    ck_acquire_all(k, "w1", w, N, T0);
    for (int i = 0; i < N; i++) {
        assert_true(w[i].granted);
        assert_true(w[i].share < w[i].shares);
    }
}

/* --- what the next holder of a slot learns --- */

static const struct pp_slot_mark marks[] = {{T0 - 70000, 5}, {T0 - 59000, 7}, {T0 - 1000, 2}, {T0, 1}};

static void a_release_hands_on_its_marks(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);

    ck_release(k, "w1",
               (struct pp_slot_renewal){.client = "42", .share = w.share, .marks = marks, .n_marks = 4}, T0);
    w = ck_granted(k, "42", 100, T0 + 500);
    assert_int_equal(w.spent, 0);
    assert_int_equal(ck_told(&w, T0 + 500), 10);
    w = ck_granted(k, "43", 100, T0 + 500); /* Another client's slot starts without history. */
    assert_int_equal(ck_told(&w, T0 + 500), 0);
}

static void a_release_hands_on_what_was_in_flight(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);
    struct pp_slot_renewal r = {
        .client = "42", .share = w.share, .marks = marks, .n_marks = 4, .reserved = 6};

    ck_release(k, "w1", r, T0);
    w = ck_granted(k, "42", 100, T0 + 500);
    assert_int_equal(ck_told(&w, T0 + 500), 16);
}

static void marks_grow_old(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);
    struct pp_slot_renewal r = {.client = "42", .share = w.share, .marks = marks, .n_marks = 4};

    ck_release(k, "w1", r, T0);
    ck_crash(k);
    /* Of the four marks (a number of requests and their time) only the last two still count. They
     * stand for three requests. */
    w = ck_granted(k, "42", 100, T0 + 58900);
    assert_int_equal(ck_told(&w, T0 + 58900), 3);
    w = ck_granted(k, "42", 100, T0 + 130000);
    assert_int_equal(ck_told(&w, T0 + 130000), 0);
}

static void a_crash_counts_what_was_reserved(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);
    struct pp_slot_renewal r = {
        .client = "42", .share = w.share, .marks = marks, .n_marks = 4, .reserved = 30};

    ck_renew_all(k, "w1", &r, 1, T0);
    assert_false(r.lost);
    ck_crash(k);
    w = ck_granted(k, "42", 100, T0 + 500);
    assert_int_equal(w.spent, 30);
    assert_int_equal(ck_told(&w, T0 + 500), 40);
    /* The second holder crashes before it renews. The third holder gets the 30 spent permits as a
     * mark, which is a number of requests and their time. */
    ck_crash(k);
    w = ck_granted(k, "42", 100, T0 + 600);
    assert_int_equal(ck_told(&w, T0 + 600), 40);
    ck_crash(k);
    w = ck_granted(k, "42", 100, T0 + 60400);
    assert_int_equal(ck_told(&w, T0 + 60400), 30);
    w = ck_granted(k, "42", 100, T0 + 122000);
    assert_int_equal(ck_told(&w, T0 + 122000), 0);
}

/* A worker reserves permits, and is then silent for longer than its lease, for example while a disk
 * refuses writes. The next holder must count these permits as spent, however late it comes. */
static void a_reservation_outlives_silence(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);
    struct pp_slot_renewal r = {.client = "42", .share = w.share, .reserved = 5};

    ck_renew_all(k, "w1", &r, 1, T0);
    ck_crash(k);
    w = ck_granted(k, "42", 100, T0 + 90000);
    assert_int_equal(w.spent, 5);
}

static void a_slot_that_is_not_held_is_lost(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_renewal r = {.client = "nobody", .reserved = 1};

    ck_renew_all(k, "w1", &r, 1, T0);
    assert_true(r.lost);
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);
    r = (struct pp_slot_renewal){.client = "42", .share = w.share, .reserved = 1};
    ck_renew_all(k, "w1", &r, 1, T0);
    assert_false(r.lost);
    ck_release(k, "w1", r, T0);
    ck_renew_all(k, "w1", &r, 1, T0);
    assert_true(r.lost);
}

static void a_renewal_may_leave_the_marks(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);
    struct pp_slot_renewal r = {
        .client = "42", .share = w.share, .marks = marks, .n_marks = 4, .reserved = 30};

    ck_renew_all(k, "w1", &r, 1, T0);
    r = (struct pp_slot_renewal){.client = "42", .share = w.share, .reserved = 3};
    ck_renew_all(k, "w1", &r, 1, T0 + 100);
    ck_crash(k);
    w = ck_granted(k, "42", 100, T0 + 500);
    assert_int_equal(ck_told(&w, T0 + 500), 13);
}

static void marks_may_be_cleared(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_granted(k, "42", 100, T0);
    struct pp_slot_renewal r = {
        .client = "42", .share = w.share, .marks = marks, .n_marks = 4, .reserved = 0};

    ck_renew_all(k, "w1", &r, 1, T0);
    r = (struct pp_slot_renewal){.client = "42", .share = w.share, .marks = marks, .n_marks = 0};
    ck_renew_all(k, "w1", &r, 1, T0 + 100);
    ck_crash(k);
    w = ck_granted(k, "42", 100, T0 + 500);
    assert_int_equal(ck_told(&w, T0 + 500), 0);
}

static void many_are_renewed_at_once(void **state)
{
    enum { N = 300 };
    struct coord_kit *k = *state;
    struct pp_slot_want w[N];
    struct pp_slot_renewal r[N];
    char ids[N][24];

    for (int i = 0; i < N; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "client-%d", i);
        w[i] = (struct pp_slot_want){.client = ids[i], .rpm = 1000, .concurrency = 2};
    }
    ck_acquire_all(k, "w1", w, N, T0);
    for (int i = 0; i < N; i++)
        r[i] = (struct pp_slot_renewal){
            .client = ids[i], .share = w[i].share, .reserved = (uint32_t)i, .lost = true};
    ck_renew_all(k, "w1", r, N, T0);
    ck_crash(k);
    ck_acquire_all(k, "w1", w, N, T0 + 1);
    for (int i = 0; i < N; i++) {
        assert_false(r[i].lost);
        assert_int_equal(ck_told(&w[i], T0 + 1), i);
    }
}

/* The state of the model for rule I5: holders take, release and lose a slot in random order. The
 * next holder must learn of all requests sent in the last window, and of no others except
 * reserved permits that were never used. The test uses virtual time and keeps the log of the
 * holder itself. */
struct model {
    /* sent: times of requests; vain: times at which a crash spent permits that no request had
     * used */
    int64_t sent[20000], vain[20000];
    size_t n, n_vain;
    /* reserved: permits in the last record; unused: those of the reserved permits that no request
     * has used yet */
    uint32_t reserved, unused;
    size_t unmarked; /* requests sent since the last record that contained marks */
};

static uint32_t within(const int64_t *at, size_t n, int64_t now)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += at[i] > now - CK_WINDOW_MS;
    return sum;
}

/* Returns a renewal with one mark (a number of requests and their time) for each request that the
 * holder took over or sent. */
static struct pp_slot_renewal renewal_of(struct coord_kit *k, const struct model *m, uint32_t share,
                                         int64_t now)
{
    size_t n = within(m->sent, m->n, now) + within(m->vain, m->n_vain, now), a = 0, b = 0, at = 0;
    struct pp_slot_mark *out = pp_arena_array(&k->arena, n + 1, sizeof(*out));

    while (a < m->n || b < m->n_vain) {
        bool sent = b == m->n_vain || (a < m->n && m->sent[a] <= m->vain[b]);
        int64_t when = sent ? m->sent[a++] : m->vain[b++];
        if (when > now - CK_WINDOW_MS)
            out[at++] = (struct pp_slot_mark){when, 1};
    }
    assert_int_equal(at, n);
    return (struct pp_slot_renewal){.client = "42", .share = share, .marks = out, .n_marks = n};
}

static void no_hand_over_forgets(void **state)
{
    struct coord_kit *k = *state;
    struct model *m = calloc(1, sizeof(*m));
    uint64_t seed = 20240607;
    int64_t now = T0;
    struct pp_slot_want w = ck_granted(k, "42", 1000, now);

    for (int step = 0; step < 400; step++) {
        now += pp_test_between(&seed, 0, 4000);
        int what = (int)pp_test_between(&seed, 0, 9);
        if (what < 6) { /* The holder reserves permits, then uses some of them. */
            bool with_marks = pp_test_between(&seed, 0, 1);
            uint32_t more = (uint32_t)pp_test_between(&seed, 0, 20);
            struct pp_slot_renewal r = renewal_of(k, m, w.share, now);
            m->unmarked = with_marks ? 0 : m->unmarked;
            r.marks = with_marks ? r.marks : NULL;
            r.reserved = (uint32_t)m->unmarked + more;
            ck_renew_all(k, "w1", &r, 1, now);
            uint32_t sends = (uint32_t)pp_test_between(&seed, 0, more);
            for (uint32_t i = 0; i < sends; i++)
                m->sent[m->n++] = now;
            m->unmarked += sends;
            m->unused = more - sends;
            continue;
        }
        if (what < 8) {
            ck_release(k, "w1", renewal_of(k, m, w.share, now), now);
        } else {
            ck_crash(k);
            for (uint32_t i = 0; i < m->unused; i++)
                m->vain[m->n_vain++] = now;
        }
        m->unused = 0;
        bool crashed = what >= 8;
        now += pp_test_between(&seed, 0, 3000);
        w = ck_granted(k, "42", 1000, now);
        uint32_t known = ck_told(&w, now), sent = within(m->sent, m->n, now);
        assert_true(known >= sent);
        if (!crashed)
            assert_true(known <= sent + within(m->vain, m->n_vain, now));
        /* The next holder counts requests that the record has no mark of as sent now, which is
         * later than the truth. */
        if (crashed) {
            for (size_t i = 0; i < m->n_vain; i++)
                m->vain[i] = m->vain[i] > now - CK_WINDOW_MS ? m->vain[i] : 0;
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
    struct coord_kit *k = *state;
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
    struct coord_kit *k = *state;
    char host[40];

    for (int i = 0; i < 120000; i++) {
        (void)snprintf(host, sizeof(host), "h%d.test", i);
        k->c->ops->slow_host(k->c, host, T0 + 1000000, T0);
    }
    /* The coordinator keeps a bounded number of slow hosts, and always the newest one. */
    assert_int_equal(k->c->ops->host_slow_until(k->c, host, T0), T0 + 1000000);
}

/* --- announcements --- */

static void announcements_reach_the_watcher(void **state)
{
    struct coord_kit *k = *state;
    char client[] = "42";
    struct pp_backlog_row rows[2] = {{.client = client, .queue = 1, .due_ms = T0},
                                     {.client = "43", .queue = PP_QUEUE_SUSPECT, .due_ms = T0 + 5}};

    /* No process watches yet, so no watcher hears this announcement. */
    k->c->ops->announce(k->c, rows, 2);
    ck_watch(k);
    k->c->ops->announce(k->c, rows, 2);
    /* The coordinator must have copied the name before announce() returned. */
    memset(client, 'x', 2);
    assert_int_equal(ck_heard(k, "42", 1), T0);
    k->c->ops->announce(k->c, &rows[1], 1);
    assert_int_equal(ck_heard(k, "43", PP_QUEUE_SUSPECT), T0 + 5);
}

/* --- what workers hear of each other --- */

static bool is_on_the_ring(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->ring_size(k->c) == 1;
}

static bool is_off_the_ring(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->ring_size(k->c) == 0;
}

static void signs_of_life_are_seen_for_a_minute(void **state)
{
    struct coord_kit *k = *state;
    char id[] = "host-1-a";
    struct pp_worker_info info, mine = {.id = id,
                                        .host = "host",
                                        .pid = 1,
                                        .tiers = "1,5",
                                        .capacity = 100,
                                        .weight = 7,
                                        .in_flight = 3,
                                        .started_at = T0 - 5000,
                                        .seen_at = T0};

    assert_int_equal(ck_list(k, k->c, 0, T0).n, 0);
    assert_int_equal(k->c->ops->ring_size(k->c), 0);
    k->c->ops->heartbeat(k->c, &mine);
    memset(id, 'x', 4);
    ck_until(k, is_on_the_ring);
    assert_false(k->c->ops->neighbour(k->c, 0, &info)); /* A worker is no neighbour of its own. */
    struct pp_coord_workers list = ck_list(k, k->c, 0, T0 + 1000);
    assert_int_equal(list.n, 1);
    assert_string_equal(list.workers[0].id, "host-1-a");
    assert_string_equal(list.workers[0].host, "host");
    assert_string_equal(list.workers[0].tiers, "1,5");
    assert_int_equal(list.workers[0].pid, 1);
    assert_int_equal(list.workers[0].capacity, 100);
    assert_int_equal(list.workers[0].weight, 7);
    assert_int_equal(list.workers[0].in_flight, 3);
    assert_int_equal(list.workers[0].started_at, T0 - 5000);
    assert_int_equal(list.workers[0].seen_at, T0);
    assert_int_equal(ck_list(k, k->c, 1000, T0 + 1000).n, 1);
    assert_int_equal(ck_list(k, k->c, 1001, T0 + 1000).n, 0);
    mine.id = "host-1-a";
    mine.in_flight = 4;
    mine.seen_at = T0 + 50000;
    ck_at(k, T0 + 50000);
    k->c->ops->heartbeat(k->c, &mine);
    assert_int_equal(ck_list(k, k->c, 0, T0 + 50000).workers[0].seen_at, T0 + 50000);
    list = ck_list(k, k->c, 0, T0 + 100000);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.workers[0].in_flight, 4);
    assert_int_equal(ck_list(k, k->c, 0, T0 + 110001).n, 0);
}

static bool was_drained(void *k)
{
    return ((struct coord_kit *)k)->drains > 0;
}

static void drains_reach_their_worker(void **state)
{
    struct coord_kit *k = *state;
    struct pp_worker_info mine = {.id = "w1", .host = "host", .tiers = "all", .seen_at = T0};

    k->c->ops->heartbeat(k->c, &mine);
    ck_watch(k);
    ck_until(k, is_on_the_ring);
    assert_false(ck_drain(k, k->c, "w2"));
    assert_int_equal(k->drains, 0);
    assert_true(ck_drain(k, k->c, "w1"));
    ck_until(k, was_drained);
    assert_string_equal(k->drained, "w1");
    k->drains = 0;
    assert_true(ck_drain(k, k->c, NULL));
    ck_until(k, was_drained);
    assert_string_equal(k->drained, "*");
    mine.draining = true;
    k->c->ops->heartbeat(k->c, &mine);
    ck_until(k, is_off_the_ring);
    assert_true(ck_list(k, k->c, 0, T0).workers[0].draining);
}

static uint64_t trips(struct coord_kit *k, const char *op)
{
    const char *name;
    uint64_t n, found = 0;

    for (size_t i = 0; k->c->ops->roundtrips(k->c, i, &name, &n); i++) {
        assert_true(name[0] != '\0');
        found = strcmp(name, op) == 0 ? n : found;
    }
    return found;
}

static void round_trips_are_counted(void **state)
{
    struct coord_kit *k = *state;

    (void)ck_granted(k, "42", 10, T0);
    assert_int_equal(trips(k, "acquire"), 1);
    assert_false(ck_renew(k, "w1", (struct pp_slot_renewal){.client = "42"}, T0));
    assert_false(ck_renew(k, "w1", (struct pp_slot_renewal){.client = "42"}, T0));
    assert_int_equal(trips(k, "acquire"), 1);
    assert_int_equal(trips(k, "renew"), 2);
    assert_true(k->c->ops->reserve_ahead_ms(k->c) >= 0);
}

static void the_first_secret_stays(void **state)
{
    struct coord_kit *k = *state;
    char out[PP_COORD_SECRET_MAX], sixty_four[PP_COORD_SECRET_MAX];

    memset(sixty_four, 'a', sizeof(sixty_four) - 1);
    sixty_four[sizeof(sixty_four) - 1] = '\0';
    ck_secret(k, k->c, sixty_four, out);
    assert_string_equal(out, sixty_four);
    ck_secret(k, k->c, "another", out);
    assert_string_equal(out, sixty_four);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ck_open, ck_close)

int pp_suite_coordinator(const struct pp_coord_subject *s)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_client_has_no_past),
        TEST(no_rate_is_no_rate),
        TEST(many_are_granted_at_once),
        TEST(a_release_hands_on_its_marks),
        TEST(a_release_hands_on_what_was_in_flight),
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
        TEST(the_first_secret_stays),
    };

    ck_use(s);
    int failed = cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
    failed += pp_suite_coordinator_places(s->many);
    return failed + (s->many ? pp_suite_coordinator_fleet() + pp_suite_coordinator_ring() : 0);
}
