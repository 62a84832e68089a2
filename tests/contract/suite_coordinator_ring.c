/* suite_coordinator_ring.c: the hash ring of the workers. Each worker knows its neighbours; an
 * announcement reaches the workers near the client and the holders of its slots; a worker that
 * becomes near learns what is due; workers are listed, drain, and hear the notices that they watch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/stable_hash.h"
#include "suite_coordinator_kit.h"

#define T0    CK_T0
#define LEASE CK_LEASE_MS

enum { BEAT_MS = 2000 }; /* All ports send a heartbeat that comes so long after the last one. */

/* Opens n workers of a kind, whose ids begin with these letters. */
static void open_workers(struct coord_kit *k, const char *letters, const char *tiers, int n)
{
    char id[24];

    for (int i = 0; i < n; i++) {
        (void)snprintf(id, sizeof id, "%s-%d", letters, i);
        (void)ck_worker_open(k, id, tiers, CK_ALL_NOTICES);
    }
}

/* --- neighbours --- */

static int by_position(const void *a, const void *b)
{
    const struct ck_worker *x = *(struct ck_worker *const *)a, *y = *(struct ck_worker *const *)b;
    uint32_t at_x = pp_ring_position(x->id), at_y = pp_ring_position(y->id);
    return at_x != at_y ? (at_x > at_y) - (at_x < at_y) : strcmp(x->id, y->id);
}

/* Writes the workers of a kind that are on the ring, in its order. Returns how many there are. */
static size_t circle(const struct coord_kit *k, const char *tiers, struct ck_worker *out[CK_WORKERS])
{
    size_t n = 0;

    for (size_t i = 0; i < k->n_workers; i++)
        if (!k->workers[i]->silent && !k->workers[i]->info.draining &&
            strcmp(k->workers[i]->info.tiers, tiers) == 0)
            out[n++] = k->workers[i];
    qsort(out, n, sizeof(struct ck_worker *), by_position);
    return n;
}

static void expect_neighbour(const struct ck_worker *w, size_t i, const struct ck_worker *expected)
{
    struct pp_worker_info info;

    assert_true(w->c->ops->neighbour(w->c, i, &info));
    assert_string_equal(info.id, expected->id);
    assert_string_equal(info.tiers, expected->info.tiers);
    assert_int_equal(info.capacity, expected->info.capacity);
    assert_int_equal(info.weight, expected->info.weight);
    assert_int_equal(info.started_at, expected->info.started_at);
}

/* Checks the neighbours of a kind with more than 2 * PP_NEAR_MAX other workers, which begin with
 * the i-th. Returns the number of the next neighbour. */
static size_t expect_arc(const struct coord_kit *k, const struct ck_worker *w, size_t i, const char *tiers)
{
    struct ck_worker *ring[CK_WORKERS];
    size_t n = circle(k, tiers, ring), after = 0;

    pp_assert(n > 2 * PP_NEAR_MAX, "a kind has no more workers than neighbours");
    while (after < n && by_position(&ring[after], &w) < 0)
        after++;
    for (size_t before = PP_NEAR_MAX; before > 0; before--)
        expect_neighbour(w, i++, ring[(after + n - before) % n]);
    after += after < n && ring[after] == w;
    for (size_t j = 0; j < PP_NEAR_MAX; j++)
        expect_neighbour(w, i++, ring[(after + j) % n]);
    return i;
}

/* The same for a kind with fewer workers. Each is a neighbour, in the order of the ring. */
static size_t expect_all(const struct coord_kit *k, const struct ck_worker *w, size_t i, const char *tiers)
{
    struct ck_worker *ring[CK_WORKERS];
    size_t n = circle(k, tiers, ring), at = 0, others = 0;
    struct pp_worker_info first;

    for (size_t j = 0; j < n; j++)
        if (ring[j] != w)
            ring[others++] = ring[j];
    if (others == 0)
        return i;
    assert_true(w->c->ops->neighbour(w->c, i, &first));
    while (at < others && strcmp(ring[at]->id, first.id) != 0)
        at++;
    assert_true(at < others);
    for (size_t j = 0; j < others; j++)
        expect_neighbour(w, i++, ring[(at + j) % others]);
    return i;
}

static void expect_end(const struct ck_worker *w, size_t i)
{
    struct pp_worker_info info;
    assert_false(w->c->ops->neighbour(w->c, i, &info));
}

static void a_worker_knows_its_neighbours_of_each_kind(void **state)
{
    struct coord_kit *k = *state;

    open_workers(k, "big", "1,5", 2 * PP_NEAR_MAX + 7);
    open_workers(k, "small", "30", 5);
    for (size_t i = 0; i < k->n_workers; i++) {
        k->workers[i]->info.capacity = 100 + (uint32_t)i;
        k->workers[i]->info.weight = 1 + (uint32_t)i % 5;
    }
    ck_join(k, T0);
    for (size_t i = 0; i < k->n_workers; i++) {
        const struct ck_worker *w = k->workers[i];
        expect_end(w, expect_all(k, w, expect_arc(k, w, 0, "1,5"), "30"));
    }
    assert_int_equal(k->c->ops->ring_size(k->c), 0); /* This process is no worker. */
    expect_end(&(struct ck_worker){.c = k->c}, 0);
}

static bool all_know_three(void *arg)
{
    struct coord_kit *k = arg;
    bool know = true;

    for (size_t i = 0; i < k->n_workers; i++)
        know &= k->workers[i]->silent || k->workers[i]->c->ops->ring_size(k->workers[i]->c) == 3;
    return know;
}

static void who_drains_leaves_the_ring(void **state)
{
    struct coord_kit *k = *state;

    open_workers(k, "w", "all", 4);
    ck_join(k, T0);
    k->workers[0]->info.draining = true;
    ck_beat(k, T0 + 2 * BEAT_MS);
    ck_hear_all(k);
    ck_beat(k, T0 + 3 * BEAT_MS);
    ck_until(k, all_know_three);
    for (size_t i = 1; i < 4; i++)
        expect_end(k->workers[i], expect_all(k, k->workers[i], 0, "all"));
}

static void who_is_silent_leaves_the_ring_and_returns(void **state)
{
    struct coord_kit *k = *state;
    int64_t now = T0 + BEAT_MS;

    open_workers(k, "w", "all", 4);
    ck_join(k, T0);
    k->workers[3]->silent = true;
    ck_beat(k, now + BEAT_MS);
    ck_hear_all(k);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(k->workers[i]->c->ops->ring_size(k->workers[i]->c), 4);
    ck_beat(k, now + 2 * BEAT_MS);
    ck_hear_all(k);
    ck_beat(k, now + PP_WORKER_GONE_MS + BEAT_MS);
    ck_until(k, all_know_three);
    for (size_t i = 0; i < 3; i++)
        expect_end(k->workers[i], expect_all(k, k->workers[i], 0, "all"));
    assert_int_equal(ck_list(k, k->c, 0, now + PP_WORKER_GONE_MS + BEAT_MS).n, 4); /* It is still listed. */
    k->workers[3]->silent = false;
    ck_join(k, now + PP_WORKER_GONE_MS + 2 * BEAT_MS);
    for (size_t i = 0; i < 4; i++)
        expect_end(k->workers[i], expect_all(k, k->workers[i], 0, "all"));
}

static bool first_has_new_neighbours(void *arg)
{
    const struct ck_worker *w = ((struct coord_kit *)arg)->workers[0];
    struct pp_worker_info a, b;

    return w->c->ops->neighbour(w->c, 0, &a) && w->c->ops->neighbour(w->c, 1, &b) &&
           strcmp(a.tiers, "30") == 0 && a.capacity == 55 && strcmp(b.tiers, "all") == 0;
}

static void a_worker_may_change(void **state)
{
    struct coord_kit *k = *state;

    open_workers(k, "w", "all", 3);
    ck_join(k, T0);
    k->workers[2]->info.tiers = "30";
    ck_beat(k, T0 + 2 * BEAT_MS);
    ck_hear_all(k);
    k->workers[2]->info.capacity = 55;
    ck_beat(k, T0 + 3 * BEAT_MS);
    ck_hear_all(k);
    ck_beat(k, T0 + 4 * BEAT_MS);
    ck_until(k, first_has_new_neighbours);
    expect_end(k->workers[0], 2);
}

/* --- announcements --- */

static const char client[] = "42";

/* Writes the workers of a kind in the order in which they are near the client. */
static size_t nearest(const struct coord_kit *k, const char *tiers, struct ck_worker *out[CK_WORKERS])
{
    struct ck_worker *ring[CK_WORKERS];
    size_t n = circle(k, tiers, ring), first = 0;

    while (first < n && pp_ring_position(ring[first]->id) < pp_ring_position(client))
        first++;
    for (size_t i = 0; i < n; i++)
        out[i] = ring[(first + i) % n];
    return n;
}

static const struct pp_backlog_row row = {.client = client, .queue = 2, .due_ms = T0 + 50};

static void announce(struct coord_kit *k, struct pp_coordinator *c)
{
    c->ops->announce(c, &row, 1);
    (void)ck_backlog(k, c, true); /* waits until the index has the announcement */
    ck_hear_all(k);
}

static void expect_heard(const struct ck_worker *w, bool heard)
{
    assert_int_equal(w->rows > 0, heard);
    if (heard) {
        assert_string_equal(w->client, client);
        assert_int_equal(w->row.queue, 2);
        assert_int_equal(w->row.due_ms, T0 + 50);
    }
}

/* Acquires a slot of the client for a worker, through its own process. */
static struct pp_slot_want acquire(struct coord_kit *k, const struct ck_worker *w, uint32_t shares,
                                   int64_t now)
{
    struct pp_slot_want want = {.client = client, .rpm = 600, .concurrency = 40, .shares = shares};
    struct pp_coord_acquire r = {
        .req = ck_request(k), .worker = w->id, .lease_ms = LEASE, .now_ms = now, .wants = &want, .n = 1};

    ck_at(k, now);
    ck_wait(k, w->c->ops->acquire(w->c, &r), &r.req, PP_OK);
    return want;
}

static void all_hear_in_a_small_ring(void **state)
{
    struct coord_kit *k = *state;

    ck_watch(k);
    ck_listen(k);
    open_workers(k, "w", "all", PP_NEAR - 2);
    open_workers(k, "v", "30", 2);
    ck_join(k, T0);
    announce(k, k->workers[0]->c);
    for (size_t i = 0; i < k->n_workers; i++)
        expect_heard(k->workers[i], true);
    assert_int_equal(ck_heard(k, client, 2), T0 + 50); /* a process that is no worker */
}

static void the_near_and_the_holders_hear(void **state)
{
    struct coord_kit *k = *state;
    struct ck_worker *near[CK_WORKERS], *others[CK_WORKERS];

    open_workers(k, "w", "all", PP_NEAR + 12);
    open_workers(k, "v", "30", 3);
    ck_join(k, T0);
    size_t n = nearest(k, "all", near), n_others = nearest(k, "30", others);
    struct ck_worker *holder = near[n - 1];
    assert_true(acquire(k, holder, 1, T0 + BEAT_MS).granted);
    /* The announcers: a process that is no worker, one that is far, and one that is near. */
    struct pp_coordinator *announcers[] = {k->c, near[n - 2]->c, near[0]->c};
    for (int a = 0; a < 3; a++) {
        ck_forget(k);
        announce(k, announcers[a]);
        for (size_t i = 0; i < n; i++)
            expect_heard(near[i], i < PP_NEAR || near[i] == holder);
        for (size_t i = 0; i < n_others; i++)
            expect_heard(others[i], true);
    }
    /* A holder that announces hears itself, too. */
    ck_forget(k);
    announce(k, holder->c);
    expect_heard(holder, true);
    /* A release announces what is due, and ends the hold. */
    struct pp_slot_renewal r = {.client = client, .rpm = 600, .concurrency = 40, .shares = 1};
    struct pp_coord_release release = {
        .req = ck_request(k), .worker = holder->id, .now_ms = T0 + BEAT_MS, .renewals = &r, .n = 1};
    ck_forget(k);
    ck_wait(k, holder->c->ops->release(holder->c, &release), &release.req, PP_OK);
    ck_hear_all(k);
    for (size_t i = 0; i < n; i++)
        expect_heard(near[i], i < PP_NEAR);
}

static void a_cut_into_many_shares_reaches_more_workers(void **state)
{
    enum { SHARES = 6 };
    struct coord_kit *k = *state;
    struct ck_worker *near[CK_WORKERS];

    open_workers(k, "w", "all", 2 * SHARES + 8);
    ck_join(k, T0);
    size_t n = nearest(k, "all", near);
    announce(k, k->c);
    ck_forget(k);
    assert_true(acquire(k, near[0], SHARES, T0 + BEAT_MS).granted);
    ck_hear_all(k);
    /* These workers were not near before. */
    for (size_t i = PP_NEAR; i < n; i++)
        expect_heard(near[i], i < 2 * SHARES);
    ck_forget(k);
    announce(k, k->c);
    for (size_t i = 0; i < n; i++)
        expect_heard(near[i], i < 2 * SHARES);
}

static void who_becomes_near_reads_the_index(void **state)
{
    struct coord_kit *k = *state;
    struct ck_worker *near[CK_WORKERS];

    open_workers(k, "w", "all", PP_NEAR + 4);
    ck_join(k, T0);
    size_t n = nearest(k, "all", near);
    announce(k, k->c);
    for (size_t i = 0; i < n; i++)
        expect_heard(near[i], i < PP_NEAR);
    ck_forget(k);
    near[0]->info.draining = true;
    ck_beat(k, T0 + 2 * BEAT_MS);
    ck_hear_all(k);
    ck_beat(k, T0 + 3 * BEAT_MS); /* Now each knows that one has left. */
    ck_hear_all(k);
    for (size_t i = PP_NEAR; i < n; i++)
        expect_heard(near[i], i == PP_NEAR);
}

static void who_joins_reads_the_index(void **state)
{
    struct coord_kit *k = *state;
    struct ck_worker *near[CK_WORKERS];

    open_workers(k, "w", "all", PP_NEAR + 8);
    ck_workers_listen(k);
    size_t n = nearest(k, "all", near);
    near[0]->silent = near[n - 1]->silent = true;
    for (int64_t now = T0; now <= T0 + BEAT_MS; now += BEAT_MS) {
        ck_beat(k, now);
        ck_hear_all(k);
    }
    announce(k, k->c);
    near[0]->silent = near[n - 1]->silent = false;
    ck_hear_all(k);
    ck_forget(k);
    ck_beat(k, T0 + 2 * BEAT_MS);
    ck_hear_all(k);
    expect_heard(near[0], true);
    expect_heard(near[n - 1], false);
}

/* A worker sends no heartbeat for a while, as if it was frozen, and then goes on. It was not on the
 * ring meanwhile, so it has not heard what was announced. */
static void who_returns_to_the_ring_reads_the_index(void **state)
{
    struct coord_kit *k = *state;
    struct ck_worker *near[CK_WORKERS];
    int64_t now = T0 + BEAT_MS;

    open_workers(k, "w", "all", PP_NEAR + 4);
    ck_join(k, T0);
    (void)nearest(k, "all", near);
    near[0]->silent = true;
    for (int i = 0; i < 4; i++) {
        now += BEAT_MS;
        ck_beat(k, now);
        ck_hear_all(k);
    }
    announce(k, k->c);
    expect_heard(near[0], false);
    near[0]->silent = false;
    ck_beat(k, now + BEAT_MS);
    ck_hear_all(k);
    expect_heard(near[0], true);
}

/* --- the list of workers, drains, notices --- */

static void workers_are_listed(void **state)
{
    struct coord_kit *k = *state;

    open_workers(k, "w", "all", 3);
    ck_workers_listen(k);
    ck_beat(k, T0);
    ck_hear_all(k);
    k->workers[1]->silent = true;
    k->workers[0]->info.in_flight = 9;
    ck_beat(k, T0 + 3000);
    ck_hear_all(k);
    struct pp_coord_workers list = ck_list(k, k->c, 0, T0 + 4000);
    assert_int_equal(list.n, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct pp_worker_info *info = &list.workers[i];
        assert_string_equal(info->id, k->workers[i]->id);
        assert_string_equal(info->host, "host");
        assert_string_equal(info->tiers, "all");
        assert_int_equal(info->pid, 77);
        assert_int_equal(info->capacity, 100);
        assert_int_equal(info->in_flight, i == 0 ? 9 : 7);
        assert_int_equal(info->clients, 3);
        assert_int_equal(info->started_at, T0 - 5000);
        assert_int_equal(info->seen_at, i == 1 ? T0 : T0 + 3000);
        assert_false(info->draining);
    }
    list = ck_list(k, k->workers[0]->c, 1001, T0 + 4000);
    assert_int_equal(list.n, 1);
    assert_string_equal(list.workers[0].id, "w-1");
    assert_int_equal(ck_list(k, k->c, 0, T0 + PP_WORKER_ALIVE_MS).n, 3);
    assert_int_equal(ck_list(k, k->c, 0, T0 + PP_WORKER_ALIVE_MS + 1).n, 2);
}

static bool have_drained(void *arg)
{
    struct coord_kit *k = arg;

    for (size_t i = 0; i < k->n_workers; i++)
        if (k->workers[i]->drains == 0)
            return false;
    return true;
}

static bool second_has_drained(void *arg)
{
    return ((struct coord_kit *)arg)->workers[1]->drains > 0;
}

static void only_the_asked_worker_drains(void **state)
{
    struct coord_kit *k = *state;

    assert_false(ck_drain(k, k->c, NULL)); /* There is no worker. */
    open_workers(k, "w", "all", 3);
    ck_join(k, T0);
    assert_false(ck_drain(k, k->c, "nobody"));
    assert_true(ck_drain(k, k->c, "w-1"));
    ck_until(k, second_has_drained);
    ck_hear_all(k);
    for (int i = 0; i < 3; i++)
        assert_int_equal(k->workers[i]->drains, i == 1);
    assert_string_equal(k->workers[1]->drained, "w-1");
    ck_forget(k);
    assert_true(ck_drain(k, k->workers[0]->c, NULL));
    ck_until(k, have_drained);
    for (int i = 0; i < 3; i++)
        assert_string_equal(k->workers[i]->drained, "*");
    assert_false(ck_drain(k, k->c, "nobody"));
    /* A silent worker hears a request with its next heartbeat. */
    k->workers[1]->silent = true;
    ck_beat(k, T0 + 30000);
    ck_hear_all(k);
    ck_forget(k);
    assert_true(ck_drain(k, k->c, "w-1"));
    ck_until(k, second_has_drained);
}

static bool second_has_the_batch(void *arg)
{
    return ((struct coord_kit *)arg)->workers[1]->notices[PP_NOTICE_BATCH] > 0;
}

static void notices_reach_who_watches_their_kind(void **state)
{
    struct coord_kit *k = *state;
    static const struct pp_notice notices[] = {
        {.kind = PP_NOTICE_CLIENT, .a = "42", .b = ""},
        {.kind = PP_NOTICE_ROUTE, .a = "42", .b = "h.test"},
        {.kind = PP_NOTICE_BATCH, .a = "b_1", .b = ""},
    };

    (void)ck_worker_open(k, "all", "all", CK_ALL_NOTICES);
    (void)ck_worker_open(k, "some", "all",
                         1 << PP_NOTICE_BATCH | 1 << PP_NOTICE_CLIENT | 1 << PP_NOTICE_WEBHOOK);
    (void)ck_worker_open(k, "few", "all", 1 << PP_NOTICE_CLIENT | 1 << PP_NOTICE_WEBHOOK);
    ck_workers_listen(k);
    ck_forget(k);
    k->c->ops->notify(k->c, notices, 3);
    k->c->ops->notify(k->c, &notices[1], 1);
    ck_until(k, second_has_the_batch);
    ck_hear_all(k);
    static const int expected[3][PP_NOTICE_KINDS] = {
        {[PP_NOTICE_CLIENT] = 1, [PP_NOTICE_ROUTE] = 2, [PP_NOTICE_BATCH] = 1, [PP_NOTICE_WEBHOOK] = 1},
        {[PP_NOTICE_CLIENT] = 1, [PP_NOTICE_BATCH] = 1, [PP_NOTICE_WEBHOOK] = 1},
        {[PP_NOTICE_CLIENT] = 1, [PP_NOTICE_WEBHOOK] = 1}};
    for (int i = 0; i < 3; i++)
        assert_memory_equal(k->workers[i]->notices, expected[i], sizeof expected[i]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ck_open, ck_close)

int pp_suite_coordinator_ring(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_worker_knows_its_neighbours_of_each_kind),
        TEST(who_drains_leaves_the_ring),
        TEST(who_is_silent_leaves_the_ring_and_returns),
        TEST(a_worker_may_change),
        TEST(all_hear_in_a_small_ring),
        TEST(the_near_and_the_holders_hear),
        TEST(a_cut_into_many_shares_reaches_more_workers),
        TEST(who_becomes_near_reads_the_index),
        TEST(who_joins_reads_the_index),
        TEST(who_returns_to_the_ring_reads_the_index),
        TEST(workers_are_listed),
        TEST(only_the_asked_worker_drains),
        TEST(notices_reach_who_watches_their_kind),
    };
    return cmocka_run_group_tests_name("coordinator: the ring", tests, NULL, NULL);
}
