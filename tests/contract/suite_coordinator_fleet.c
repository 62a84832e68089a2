/* suite_coordinator_fleet.c: many workers, each in its own process, use one coordinator. A share of
 * a client's limits belongs to one worker until its lease ends, and the next holder learns what was
 * sent. A coordinator whose data was lost grants nothing until all leases that it does not know of
 * must have ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "core/ratelimit.h"
#include "core/share.h"
#include "suite_coordinator_kit.h"

#define T0    CK_T0
#define LEASE CK_LEASE_MS

static const int64_t nothing_due[PP_QUEUES] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
                                               INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};

static struct pp_slot_want want(uint32_t rpm, uint32_t concurrency, uint32_t shares)
{
    return (struct pp_slot_want){.client = "42", .rpm = rpm, .concurrency = concurrency, .shares = shares};
}

static struct pp_slot_renewal renewal(const struct pp_slot_want *w)
{
    return (struct pp_slot_renewal){.client = w->client,
                                    .share = w->share,
                                    .rpm = w->rpm,
                                    .concurrency = w->concurrency,
                                    .shares = w->shares};
}

/* --- one holder per share --- */

static void a_slot_is_its_holders_until_the_lease_ends(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0), other;

    assert_true(w.granted);
    other = ck_acquire(k, "w2", want(100, 8, 1), T0 + 1000);
    assert_false(other.granted);
    /* The slot's holder has never reported that no work is due, so the slot does not count as
     * empty. */
    assert_false(other.empty);
    assert_int_equal(other.retry_at_ms, T0 + LEASE);
    assert_false(ck_renew(k, "w1", renewal(&w), T0 + 20000));
    other = ck_acquire(k, "w2", want(100, 8, 1), T0 + LEASE);
    assert_false(other.granted);
    assert_int_equal(other.retry_at_ms, T0 + 20000 + LEASE);
    other = ck_acquire(k, "w2", want(100, 8, 1), T0 + 20000 + LEASE);
    assert_true(other.granted);
    assert_true(ck_renew(k, "w1", renewal(&w), T0 + 20001 + LEASE));
    assert_false(ck_renew(k, "w2", renewal(&other), T0 + 20001 + LEASE));
}

static void a_lease_that_has_ended_is_lost(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0);

    assert_false(ck_renew(k, "w1", renewal(&w), T0 + LEASE - 1));
    /* The worker renews after its lease has ended: the slot is lost, although no other worker asked
     * for it. */
    assert_true(ck_renew(k, "w1", renewal(&w), T0 + 2 * LEASE - 1));
}

static void a_release_frees_at_once(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0);

    /* w2 tries to release a slot that w1 holds: nothing changes. */
    ck_release(k, "w2", renewal(&w), T0);
    assert_false(ck_acquire(k, "w3", want(100, 8, 1), T0).granted);
    ck_release(k, "w1", renewal(&w), T0);
    assert_true(ck_acquire(k, "w3", want(100, 8, 1), T0).granted);
    assert_true(ck_renew(k, "w1", renewal(&w), T0));
}

static void a_worker_has_one_share_of_a_client(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want a = ck_acquire(k, "w1", want(100, 8, 3), T0);
    struct pp_slot_want b = ck_acquire(k, "w2", want(100, 8, 3), T0);
    /* w1 repeats its request, as if the first answer had been lost. */
    struct pp_slot_want again = ck_acquire(k, "w1", want(100, 8, 3), T0 + 10);
    struct pp_slot_want c = ck_acquire(k, "w3", want(100, 8, 3), T0);
    struct pp_slot_want d = ck_acquire(k, "w4", want(100, 8, 3), T0 + 10);

    assert_true(a.granted && b.granted && c.granted && !d.granted);
    assert_true(a.share != b.share && b.share != c.share && a.share != c.share);
    assert_true(again.granted && again.share == a.share);
    assert_int_equal(d.retry_at_ms, T0 + LEASE);
    assert_int_equal(d.shares, 3);
}

/* Acquires a share at `now` for a worker whose clock is ahead by `off`. */
static struct pp_slot_want acquire_off(struct coord_kit *k, const char *worker, int64_t now, int64_t off)
{
    struct pp_slot_want w = want(100, 8, 1);
    struct pp_coord_acquire a = {
        .req = ck_request(k), .worker = worker, .lease_ms = LEASE, .now_ms = now + off, .wants = &w, .n = 1};

    ck_at(k, now);
    ck_wait(k, k->c->ops->acquire(k->c, &a), &a.req, PP_OK);
    return w;
}

/* Workers have wrong clocks. Leases follow the clock of the coordinator, and each mark keeps the
 * true time of its requests. */
static void clocks_may_differ(void **state)
{
    struct coord_kit *k = *state;
    const int64_t early = -3600000, late = 7200000;
    const struct pp_slot_mark marks[] = {{T0 - 32000 + early, 4}, {T0 - 1000 + early, 5}};
    struct pp_slot_want w = acquire_off(k, "w1", T0, early);
    struct pp_slot_renewal r = renewal(&w);

    assert_true(w.granted);
    r.marks = marks;
    r.n_marks = 2;
    r.in_flight = 3;
    r.busy_until_ms = T0 + 50000 + early;
    struct pp_coord_renew n = {.req = ck_request(k),
                               .worker = "w1",
                               .lease_ms = LEASE,
                               .now_ms = T0 + early,
                               .renewals = &r,
                               .n = 1};
    ck_wait(k, k->c->ops->renew(k->c, &n), &n.req, PP_OK);
    assert_false(r.lost);
    w = acquire_off(k, "w2", T0 + 10000, late);
    assert_false(w.granted);
    assert_int_equal(w.retry_at_ms, T0 + LEASE + late);
    w = acquire_off(k, "w2", T0 + LEASE, late);
    assert_true(w.granted);
    assert_int_equal(w.n_marks, 1); /* Of the two marks, the one that is 32 s older has expired. */
    assert_int_equal(w.marks[0].at_ms, T0 - 1000 + late);
    assert_int_equal(w.taken, 3);
    assert_int_equal(w.taken_until_ms, T0 + 50000 + late);
}

/* --- what a crashed holder leaves to the next holder --- */

static void what_may_be_in_flight_stays_taken(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0);
    struct pp_slot_renewal r = renewal(&w);

    r.in_flight = 3;
    r.busy_until_ms = T0 + 2 * LEASE + 5000;
    assert_false(ck_renew(k, "w1", r, T0));
    w = ck_acquire(k, "w2", want(100, 8, 1), T0 + LEASE);
    assert_true(w.granted);
    assert_int_equal(w.taken, 3);
    assert_int_equal(w.taken_until_ms, T0 + 2 * LEASE + 5000);
    r = renewal(&w); /* This renewal of w2 has no marks of the requests that w1 sent. */
    r.in_flight = 2;
    r.busy_until_ms = T0 + 2 * LEASE + 2000;
    assert_false(ck_renew(k, "w2", r, T0 + LEASE));
    w = ck_acquire(k, "w3", want(100, 8, 1), T0 + 2 * LEASE);
    assert_int_equal(w.taken, 5);
    assert_int_equal(w.taken_until_ms, T0 + 2 * LEASE + 5000);
    w = ck_acquire(k, "w4", want(100, 8, 1), T0 + 3 * LEASE);
    assert_true(w.granted);
    assert_int_equal(w.taken, 0);
}

static void no_more_is_taken_than_there_is(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0);
    struct pp_slot_renewal r = renewal(&w);

    for (int i = 0; i < 4; i++) { /* Each holder reports 8 requests in flight, then crashes. */
        char worker[] = "w2";
        worker[1] = (char)('2' + i);
        r.in_flight = 8;
        r.busy_until_ms = T0 + 1000000;
        assert_false(ck_renew(k, i == 0 ? "w1" : worker, r, T0 + i * LEASE));
        worker[1]++;
        w = ck_acquire(k, worker, want(100, 8, 1), T0 + (i + 1) * LEASE);
        assert_true(w.granted);
        assert_int_equal(w.taken, 8);
    }
}

/* The limit is lowered and raised again while 8 requests of a crashed holder are in flight. */
static void a_lower_limit_forgets_nothing(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0);
    struct pp_slot_renewal r = renewal(&w);

    r.in_flight = 8;
    r.busy_until_ms = T0 + 1000000;
    assert_false(ck_renew(k, "w1", r, T0));
    w = ck_acquire(k, "w2", want(100, 4, 1), T0 + LEASE);
    assert_true(w.granted);
    assert_int_equal(w.taken, 4);
    ck_release(k, "w2", renewal(&w), T0 + LEASE);
    for (uint32_t i = 0; i < 2; i++) {
        w = ck_acquire(k, i ? "w4" : "w3", want(100, 8, 2), T0 + LEASE);
        assert_true(w.granted);
        assert_int_equal(w.taken, 4);
    }
}

static void a_crash_before_the_first_renewal_forgets_nothing(void **state)
{
    struct coord_kit *k = *state;
    static const struct pp_slot_mark marks[] = {{T0 - 1000, 5}};
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0);
    struct pp_slot_renewal r = renewal(&w);

    r.marks = marks;
    r.n_marks = 1;
    r.reserved = 7;
    r.in_flight = 2;
    r.busy_until_ms = T0 + 80000;
    assert_false(ck_renew(k, "w1", r, T0));
    w = ck_acquire(k, "w2", want(100, 8, 1), T0 + LEASE);
    assert_int_equal(w.spent, 7);
    assert_int_equal(ck_told(&w, T0 + LEASE), 12);
    /* The lease of w2 has not ended. */
    w = ck_acquire(k, "w3", want(100, 8, 1), T0 + 2 * LEASE - 2000);
    assert_false(w.granted);
    w = ck_acquire(k, "w3", want(100, 8, 1), T0 + 2 * LEASE);
    assert_int_equal(w.spent, 0);
    /* The 7 reserved permits count as sent when w2 took the share over. */
    assert_int_equal(ck_told(&w, T0 + 2 * LEASE), 7);
    assert_int_equal(w.taken, 2);
}

/* --- the cut: into how many shares the limits of a client are divided --- */

static void another_cut_waits_for_all_of_the_old(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want a = ck_acquire(k, "w1", want(100, 8, 2), T0);
    struct pp_slot_want b = ck_acquire(k, "w2", want(100, 8, 2), T0 + 5000), other;

    assert_true(a.granted && b.granted);
    static const struct pp_slot_want cuts[] = {
        {.client = "42", .rpm = 101, .concurrency = 8, .shares = 2},
        {.client = "42", .rpm = 100, .concurrency = 9, .shares = 2},
        {.client = "42", .rpm = 100, .concurrency = 8, .shares = 3},
        {.client = "42", .rpm = 0, .concurrency = 8, .shares = 2},
    };
    for (int i = 0; i < 4; i++) {
        other = ck_acquire(k, "w3", cuts[i], T0 + 6000);
        assert_false(other.granted);
        assert_int_equal(other.shares, 2);
        assert_int_equal(other.retry_at_ms, T0 + 5000 + LEASE);
    }
    ck_release(k, "w1", renewal(&a), T0 + 7000);
    assert_false(ck_acquire(k, "w3", cuts[2], T0 + 7000).granted);
    ck_release(k, "w2", renewal(&b), T0 + 8000);
    other = ck_acquire(k, "w3", cuts[2], T0 + 8000);
    assert_true(other.granted);
    assert_int_equal(other.shares, 3);
    /* w1 asks for one of 2 shares, but the client's limits are now divided into 3. */
    assert_false(ck_acquire(k, "w1", want(100, 8, 2), T0 + 8000).granted);
    assert_true(ck_acquire(k, "w1", cuts[2], T0 + 8000).granted);
}

/* Returns how many requests all slots of a client may send at time `at`, according to the marks
 * (sent requests and their times) that their holders have at time `now`. */
static uint64_t may_send(const struct pp_slot_want *w, uint32_t n, int64_t now, int64_t at)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct pp_share share = pp_share_get(w[i].rpm, w[i].concurrency, n, w[i].share);
        struct pp_ratelimit rl;
        pp_ratelimit_init(&rl, share.rpm);
        for (size_t m = 0; m < w[i].n_marks; m++)
            pp_ratelimit_import(&rl, now, &(struct pp_rate_mark){w[i].marks[m].at_ms, w[i].marks[m].n}, 1);
        if (w[i].spent > 0)
            pp_ratelimit_import(&rl, now, &(struct pp_rate_mark){now, w[i].spent}, 1);
        sum += pp_ratelimit_permits_at(&rl, now, at);
        pp_ratelimit_fini(&rl);
    }
    return sum;
}

enum { CUT_MARKS = 40, CUT_SHARES = 7 };

/* Acquires every share of a client, each for another worker. */
static void acquire_cut(struct coord_kit *k, struct pp_slot_want *w, struct pp_slot_want cut, char who)
{
    for (uint32_t s = 0; s < cut.shares; s++) {
        const char worker[] = {who, (char)('0' + s), '\0'};
        w[s] = ck_acquire(k, worker, cut, T0);
        assert_true(w[s].granted);
        assert_int_equal(w[s].share, s);
    }
}

/* Releases the share of one holder with random marks, at most as many requests as its rate. Adds
 * the same requests to the log `whole`, and returns how many there are. */
static uint32_t release_with_marks(struct coord_kit *k, const struct pp_slot_want *w, const char *worker,
                                   uint64_t *seed, struct pp_ratelimit *whole)
{
    struct pp_slot_mark marks[CUT_MARKS];
    struct pp_slot_renewal r = renewal(w);
    uint32_t left = pp_share_get(w->rpm, w->concurrency, w->shares, w->share).rpm, sum = 0;
    int64_t at = T0 - 59000;

    for (r.n_marks = 0; r.n_marks < CUT_MARKS && left > 0; r.n_marks++) {
        uint32_t n = (uint32_t)pp_test_between(seed, 1, 4);
        at += pp_test_between(seed, 1, 1400);
        n = n < left ? n : left;
        marks[r.n_marks] = (struct pp_slot_mark){at, n};
        pp_ratelimit_import(whole, T0, &(struct pp_rate_mark){at, n}, 1);
        left -= n;
        sum += n;
    }
    r.marks = marks;
    ck_release(k, worker, r, T0);
    return sum;
}

/* A client's limits are divided into shares, whose holders release random logs of requests. Then
 * the limits are divided in another way, and other workers acquire the new shares. All new shares
 * together must permit exactly as many requests as one log of all requests would, because the
 * coordinator divides the requests evenly. */
static void a_new_cut_divides_what_was_sent(void **state)
{
    struct coord_kit *k = *state;
    uint64_t seed = 20261121;

    for (int i = 0; i < 60; i++) {
        struct pp_slot_want old[CUT_SHARES], new[CUT_SHARES], cut = {.concurrency = CUT_SHARES + 3};
        struct pp_ratelimit whole;
        uint32_t sent = 0, told = 0;
        char id[24];

        (void)snprintf(id, sizeof id, "c%d", i);
        cut.client = id;
        cut.rpm = (uint32_t)pp_test_between(&seed, CUT_SHARES, 200);
        cut.shares = (uint32_t)pp_test_between(&seed, 1, CUT_SHARES);
        pp_ratelimit_init(&whole, cut.rpm);
        acquire_cut(k, old, cut, 'w');
        for (uint32_t s = 0; s < cut.shares; s++) {
            const char worker[] = {'w', (char)('0' + s), '\0'};
            sent += release_with_marks(k, &old[s], worker, &seed, &whole);
        }
        cut.shares = (uint32_t)pp_test_between(&seed, 1, CUT_SHARES);
        /* Every other round lowers the limit below the number of requests already sent. */
        if (i % 2) {
            cut.rpm = (uint32_t)pp_test_between(&seed, CUT_SHARES, cut.rpm);
            pp_ratelimit_set_rpm(&whole, cut.rpm);
        }
        acquire_cut(k, new, cut, 'v');
        for (uint32_t s = 0; s < cut.shares; s++)
            told += ck_told(&new[s], T0);
        assert_int_equal(told, sent);
        for (int64_t at = T0; at < T0 + 62000; at += 250)
            assert_int_equal(may_send(new, cut.shares, T0, at), pp_ratelimit_permits_at(&whole, T0, at));
        pp_ratelimit_fini(&whole);
    }
}

/* A holder crashes, the client's limit is lowered, and its limits are divided into other
 * shares. The new shares must count the requests in flight and the reserved permits of the
 * crashed holder. */
static void a_new_cut_takes_over_from_the_lost(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w[3];
    uint32_t taken = 0;

    for (int i = 0; i < 2; i++) {
        const char *worker = i ? "w1" : "w0";
        w[i] = ck_acquire(k, worker, want(100, 10, 2), T0);
        struct pp_slot_renewal r = renewal(&w[i]);
        r.reserved = 10;
        r.in_flight = 2;
        r.busy_until_ms = T0 + 50000 + i;
        assert_false(ck_renew(k, worker, r, T0));
    }
    for (int i = 0; i < 3; i++) {
        char worker[] = "v0";
        worker[1] = (char)('0' + i);
        w[i] = ck_acquire(k, worker, want(30, 10, 3), T0 + LEASE);
        assert_true(w[i].granted);
        taken += w[i].taken;
        assert_int_equal(w[i].taken_until_ms, T0 + 50001);
    }
    assert_int_equal(taken, 4);
    assert_int_equal(may_send(w, 3, T0 + LEASE, T0 + LEASE), 10);
    assert_int_equal(may_send(w, 3, T0 + LEASE, T0 + LEASE + 61000), 30);
}

/* --- reports that no work is due, and the backlog index --- */

static bool is_empty(struct coord_kit *k)
{
    return ck_acquire(k, "w2", want(100, 8, 1), T0 + 1000).empty;
}

static void a_holder_says_what_is_due(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0);
    struct pp_slot_renewal r = renewal(&w);
    int64_t due[PP_QUEUES];
    const struct pp_backlog_row row = {.client = "42", .queue = 1, .due_ms = T0};

    ck_watch(k);
    assert_false(is_empty(k));
    k->c->ops->announce(k->c, &row, 1);
    (void)ck_heard(k, "42", 1);      /* The watcher hears of the announced work immediately. */
    (void)ck_backlog(k, k->c, true); /* Waits until the index contains the announcement. */
    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    assert_int_equal(ck_due(&b, "42", 1), T0);
    r.due_ms = nothing_due;
    /* The index may learn late that the holder knows of the announcement, so the test repeats
     * the renewal. */
    for (int i = 0; i < 10000 && !is_empty(k); i++)
        assert_false(ck_renew(k, "w1", r, T0 + 1000));
    assert_true(is_empty(k));
    b = ck_backlog(k, k->c, false);
    assert_int_equal(ck_due(&b, "42", 1), INT64_MAX);
    memcpy(due, nothing_due, sizeof due);
    due[1] = T0 + 5000;
    due[PP_QUEUE_SUSPECT] = T0 + 9000;
    r.due_ms = due;
    assert_false(ck_renew(k, "w1", r, T0 + 1000));
    assert_false(is_empty(k));
    b = ck_backlog(k, k->c, false);
    assert_int_equal(ck_due(&b, "42", 1), T0 + 5000);
    assert_int_equal(ck_due(&b, "42", PP_QUEUE_SUSPECT), T0 + 9000);
    assert_int_equal(b.n, 2);
    r.due_ms = NULL; /* A renewal without due times leaves the index unchanged. */
    assert_false(ck_renew(k, "w1", r, T0 + 1000));
    b = ck_backlog(k, k->c, false);
    assert_int_equal(b.n, 2);
}

/* One holder announces work. Another holder, which cannot know of that work, reports that
 * nothing is due: the announcement must stay in the index. */
static void a_holder_takes_back_only_what_it_knows(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 2), T0), x;
    struct pp_slot_renewal r = renewal(&w);
    int64_t due[PP_QUEUES];

    x = ck_acquire(k, "w2", want(100, 8, 2), T0);
    assert_true(x.granted);
    ck_watch(k);
    memcpy(due, nothing_due, sizeof due);
    due[3] = T0 + 100;
    r.due_ms = due;
    assert_false(ck_renew(k, "w1", r, T0));
    /* The renewal announced this work. Other workers can learn of the work in no other way. */
    assert_int_equal(ck_heard(k, "42", 3), T0 + 100);
    struct pp_slot_renewal s = renewal(&x);
    s.due_ms = nothing_due;
    /* w2 reports that no work is due, but it does not know all the work of w1. */
    assert_false(ck_renew(k, "w2", s, T0));
    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    assert_int_equal(ck_due(&b, "42", 3), T0 + 100);
}

static void the_index_is_complete_when_it_was_rebuilt(void **state)
{
    enum { N = 3000 };
    struct coord_kit *k = *state;
    static struct pp_backlog_row rows[N];
    static char ids[N][16];

    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    assert_false(b.complete);
    for (int i = 0; i < N; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "c%d", i / 2);
        rows[i] = (struct pp_backlog_row){.client = ids[i], .queue = (uint8_t)(i % 2), .due_ms = T0 + i};
    }
    k->c->ops->announce(k->c, rows, N);
    b = ck_backlog(k, k->c, true);
    b = ck_backlog(k, k->c, false);
    assert_true(b.complete);
    assert_int_equal(b.n, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(ck_due(&b, ids[i], (uint8_t)(i % 2)), T0 + i);
    ck_open_other(k); /* Another process starts after the index was built. */
    b = ck_backlog(k, k->d, false);
    assert_true(b.complete);
    assert_int_equal(b.n, N);
    rows[0].due_ms = T0 - 5;
    rows[1].due_ms = T0 + 100;
    k->d->ops->announce(k->d, rows, 2);
    b = ck_backlog(k, k->d, true); /* This call waits until the index is up to date. */
    b = ck_backlog(k, k->d, false);
    assert_int_equal(ck_due(&b, "c0", 0), T0 - 5);
    assert_int_equal(ck_due(&b, "c0", 1), T0 + 1);
    assert_int_equal(b.n, N);
}

/* --- notices and announcements --- */

static void announcements_reach_everybody(void **state)
{
    struct coord_kit *k = *state;
    struct pp_backlog_row row = {.client = "7", .queue = 2, .due_ms = T0 + 50};

    ck_watch(k);
    ck_open_other(k);
    k->d->ops->announce(k->d, &row, 1);
    assert_int_equal(ck_heard(k, "7", 2), T0 + 50);
    row.client = "8";
    k->d->ops->announce(k->d, &row, 1);
    assert_int_equal(ck_heard(k, "8", 2), T0 + 50);
    assert_false(k->heard_known);
    row = (struct pp_backlog_row){.client = "9", .queue = PP_QUEUE_SUSPECT, .due_ms = T0 + 50, .known = true};
    k->d->ops->announce(k->d, &row, 1);
    assert_int_equal(ck_heard(k, "9", PP_QUEUE_SUSPECT), T0 + 50);
    assert_true(k->heard_known);
    /* The index contains this announcement like any other. */
    struct pp_coord_backlog b = ck_backlog(k, k->c, false);
    assert_int_equal(ck_due(&b, "9", PP_QUEUE_SUSPECT), T0 + 50);
}

static void who_watches_late_hears_what_was_announced(void **state)
{
    struct coord_kit *k = *state;
    const struct pp_backlog_row row = {.client = "7", .queue = 2, .due_ms = T0 + 50};

    ck_open_other(k);
    k->d->ops->announce(k->d, &row, 1);
    (void)ck_backlog(k, k->d, true); /* Waits until the index contains the announcement. */
    ck_watch(k);
    assert_int_equal(ck_heard(k, "7", 2), T0 + 50);
}

static void a_release_with_something_due_is_announced(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(100, 8, 1), T0);
    struct pp_slot_renewal r = renewal(&w);
    int64_t due[PP_QUEUES];

    ck_watch(k);
    memcpy(due, nothing_due, sizeof due);
    due[4] = T0 + 77;
    r.due_ms = due;
    ck_release(k, "w1", r, T0);
    assert_int_equal(ck_heard(k, "42", 4), T0 + 77);
    w = ck_acquire(k, "w2", want(100, 8, 1), T0);
    r = renewal(&w);
    /* A release without due times leaves the known due time in place. */
    ck_release(k, "w2", r, T0);
    assert_int_equal(ck_heard(k, "42", 4), T0 + 77);
}

static bool has_notice(void *arg)
{
    return ((struct coord_kit *)arg)->notices > 0;
}

static void notices_reach_the_others(void **state)
{
    struct coord_kit *k = *state;
    static const struct pp_notice notices[] = {
        {.kind = PP_NOTICE_CLIENT, .a = "42"},
        {.kind = PP_NOTICE_ROUTE, .a = "42", .b = "h.test", .v = {1000, 2.5, -3, 7, 1e12}},
    };

    ck_listen(k);
    ck_open_other(k);
    k->d->ops->notify(k->d, notices, 1);
    ck_until(k, has_notice);
    assert_int_equal(k->notice.kind, PP_NOTICE_CLIENT);
    assert_string_equal(k->notice_a, "42");
    k->notices = 0;
    k->c->ops->notify(k->c, notices, 2); /* The process that sends a notice does not get it. */
    k->d->ops->notify(k->d, &notices[1], 1);
    ck_until(k, has_notice);
    assert_int_equal(k->notices, 1);
    assert_int_equal(k->notice.kind, PP_NOTICE_ROUTE);
    assert_string_equal(k->notice_b, "h.test");
    assert_memory_equal(k->notice.v, notices[1].v, sizeof k->notice.v);
}

static bool is_slow(void *arg)
{
    struct coord_kit *k = arg;
    return k->c->ops->host_slow_until(k->c, "slow.test", T0) > 0;
}

static bool is_slow_there(void *arg)
{
    struct coord_kit *k = arg;
    return k->d->ops->host_slow_until(k->d, "slow.test", T0) > 0;
}

static void slow_hosts_are_slow_for_all(void **state)
{
    struct coord_kit *k = *state;

    ck_open_other(k);
    k->d->ops->slow_host(k->d, "slow.test", T0 + 60000, T0);
    ck_until(k, is_slow);
    assert_int_equal(k->c->ops->host_slow_until(k->c, "slow.test", T0), T0 + 60000);
    k->d->ops->close(k->d);
    ck_open_other(k); /* A process that starts later also learns of the slow host. */
    ck_until(k, is_slow_there);
    assert_int_equal(k->d->ops->host_slow_until(k->d, "slow.test", T0), T0 + 60000);
}

/* --- the secret --- */

static void processes_share_a_secret(void **state)
{
    struct coord_kit *k = *state;
    char one[PP_COORD_SECRET_MAX], two[PP_COORD_SECRET_MAX];

    ck_open_other(k);
    ck_secret(k, k->c, "first", one);
    ck_secret(k, k->d, "second", two);
    assert_string_equal(one, "first");
    assert_string_equal(two, "first");
}

/* --- the leader --- */

static void one_leads(void **state)
{
    struct coord_kit *k = *state;

    ck_open_other(k);
    assert_true(ck_elect(k, k->c, "w1", 10000, T0));
    assert_false(ck_elect(k, k->d, "w2", 10000, T0 + 9999));
    assert_true(ck_elect(k, k->c, "w1", 10000, T0 + 9999));
    assert_false(ck_elect(k, k->d, "w2", 10000, T0 + 19998));
    assert_true(ck_elect(k, k->d, "w2", 10000, T0 + 19999));
    assert_false(ck_elect(k, k->c, "w1", 10000, T0 + 20000));
    /* Only the leader can end its own leadership. */
    assert_false(ck_elect(k, k->c, "w1", 0, T0 + 20000));
    assert_false(ck_elect(k, k->c, "w1", 10000, T0 + 20000));
    assert_false(ck_elect(k, k->d, "w2", 0, T0 + 20000));
    assert_true(ck_elect(k, k->c, "w1", 10000, T0 + 20000));
}

/* --- a new data set --- */

static void the_data_set_has_a_name(void **state)
{
    struct coord_kit *k = *state;
    char name[100];

    (void)snprintf(name, sizeof name, "%s", k->c->ops->dataset(k->c));
    assert_true(name[0]);
    ck_open_other(k);
    assert_string_equal(k->d->ops->dataset(k->d), name);
    ck_crash(k);
    assert_string_equal(k->c->ops->dataset(k->c), name);
    k->place = k->subject->place();
    ck_crash(k);
    assert_string_not_equal(k->c->ops->dataset(k->c), name);
}

static void nobody_is_granted_what_somebody_may_hold(void **state)
{
    /* The setup has replaced the first data set by a new one, so the coordinator knows nothing of
     * earlier leases. */
    struct coord_kit *k = *state;
    struct pp_slot_want w = ck_acquire(k, "w1", want(120, 8, 2), T0);

    assert_false(w.granted);
    assert_false(w.empty);
    assert_int_equal(w.retry_at_ms, T0 + LEASE);
    w = ck_acquire(k, "w1", want(120, 8, 2), T0 + LEASE);
    assert_true(w.granted);
    /* Redis lost its data, so the coordinator does not know what the workers sent before. It counts
     * as if each of the client's shares had sent a minute's requests when the new data set began.
     * Until all earlier leases must have ended, it also counts permits that their holders may have
     * reserved. */
    int64_t now = T0 + LEASE;
    struct pp_slot_want both[2] = {w, ck_acquire(k, "w2", want(120, 8, 2), T0 + LEASE)};
    assert_true(both[1].granted);
    assert_int_equal(may_send(both, 2, now, now), 0);
    assert_int_equal(may_send(both, 2, now, T0 + 60100), 0);
    uint64_t later = may_send(both, 2, now, T0 + 61000);
    assert_true(later > 0 && later < 120);
    assert_int_equal(may_send(both, 2, now, T0 + LEASE + 61000), 120);
    w = ck_acquire(k, "w3", (struct pp_slot_want){.client = "new", .rpm = 60, .concurrency = 1},
                   T0 + 2 * LEASE + 62000);
    assert_true(w.granted); /* By now the requests that the coordinator assumed have expired. */
    assert_int_equal(w.n_marks, 0);
}

/* A fleet starts for the first time. The coordinator refuses workers until it accepts the data
 * set, then sends them a notice. */
static void the_first_data_set_wakes_waiting_workers(void **state)
{
    struct coord_kit *k = *state;
    const struct pp_backlog_row row = {.client = "42", .queue = 1, .due_ms = T0};

    ck_watch(k);
    ck_listen(k);
    ck_open_other(k);
    k->d->ops->announce(k->d, &row, 1);
    (void)ck_heard(k, "42", 1);
    assert_false(ck_acquire(k, "w1", want(100, 8, 1), T0).granted);
    k->n_rows = 0;
    k->d->ops->first(k->d, k->d->ops->dataset(k->d));
    assert_int_equal(ck_heard(k, "42", 1), T0);
    assert_true(ck_acquire(k, "w1", want(100, 8, 1), T0).granted);
}

static void a_renewal_brings_back_what_was_lost(void **state)
{
    struct coord_kit *k = *state;
    static const struct pp_slot_mark marks[] = {{T0 - 2000, 9}};
    struct pp_slot_renewal r = {.client = "42",
                                .share = 1,
                                .marks = marks,
                                .n_marks = 1,
                                .reserved = 4,
                                .rpm = 120,
                                .concurrency = 8,
                                .shares = 2};

    assert_false(ck_renew(k, "w1", r, T0 + 1000));
    assert_true(ck_renew(k, "w2", r, T0 + 1000)); /* w2 renews a share that belongs to w1. */
    r.share = 0;
    assert_false(ck_renew(k, "w2", r, T0 + 1000));
    r.shares = 3;
    r.share = 2;
    /* w3 renews a share of a division of limits that is no longer in use. */
    assert_true(ck_renew(k, "w3", r, T0 + 1000));
    assert_false(ck_acquire(k, "w3", want(120, 8, 2), T0 + 1000).granted);
    struct pp_slot_want w = ck_acquire(k, "w3", want(120, 8, 2), T0 + 1000 + LEASE);
    assert_true(w.granted);
    assert_int_equal(w.spent, 4);
    assert_int_equal(ck_told(&w, T0 + 1000 + LEASE), 13);
    r = (struct pp_slot_renewal){.client = "43", .reserved = 4, .rpm = 120, .concurrency = 8, .shares = 1};
    assert_true(ck_renew(k, "w1", r, T0 + 1000 + LEASE)); /* w1 renews after its lease has ended. */
}

static void a_renewal_without_marks_counts_as_all(void **state)
{
    struct coord_kit *k = *state;
    struct pp_slot_renewal r = {.client = "42", .reserved = 4, .rpm = 120, .concurrency = 8, .shares = 1};

    assert_false(ck_renew(k, "w1", r, T0 + 1000));
    ck_release(k, "w1", r, T0 + 2000);
    struct pp_slot_want w = ck_acquire(k, "w3", want(120, 8, 1), T0 + LEASE);
    assert_true(w.granted);
    assert_true(ck_told(&w, T0 + LEASE) >= 124);
    /* Requests of a holder before w1 may be in flight, of which only w1 knew. */
    assert_int_equal(w.taken, 8);
    assert_true(w.taken_until_ms > T0 + LEASE);
}

static void who_led_goes_on(void **state)
{
    struct coord_kit *k = *state;

    assert_false(ck_elect(k, k->c, "w1", 10000, T0)); /* Another process may still be the leader. */
    assert_true(ck_elect(k, k->c, "w1", 10000, T0 + 10000));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ck_open, ck_close)
#define LOST(f) cmocka_unit_test_setup_teardown(f, ck_open_lost, ck_close)

int pp_suite_coordinator_fleet(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_slot_is_its_holders_until_the_lease_ends),
        TEST(a_lease_that_has_ended_is_lost),
        TEST(a_release_frees_at_once),
        TEST(a_worker_has_one_share_of_a_client),
        TEST(clocks_may_differ),
        TEST(what_may_be_in_flight_stays_taken),
        TEST(no_more_is_taken_than_there_is),
        TEST(a_lower_limit_forgets_nothing),
        TEST(a_crash_before_the_first_renewal_forgets_nothing),
        TEST(another_cut_waits_for_all_of_the_old),
        TEST(a_new_cut_divides_what_was_sent),
        TEST(a_new_cut_takes_over_from_the_lost),
        TEST(a_holder_says_what_is_due),
        TEST(a_holder_takes_back_only_what_it_knows),
        TEST(the_index_is_complete_when_it_was_rebuilt),
        TEST(announcements_reach_everybody),
        TEST(who_watches_late_hears_what_was_announced),
        TEST(a_release_with_something_due_is_announced),
        TEST(notices_reach_the_others),
        TEST(slow_hosts_are_slow_for_all),
        TEST(processes_share_a_secret),
        TEST(one_leads),
        TEST(the_data_set_has_a_name),
        LOST(nobody_is_granted_what_somebody_may_hold),
        LOST(the_first_data_set_wakes_waiting_workers),
        LOST(a_renewal_brings_back_what_was_lost),
        LOST(a_renewal_without_marks_counts_as_all),
        LOST(who_led_goes_on),
    };
    return cmocka_run_group_tests_name("coordinator: many workers", tests, NULL, NULL);
}
