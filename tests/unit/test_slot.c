/* Tests the holder's accounting of a slot: cases, and a property over many holders in a row, with
 * random numbers. tests/contract/test_redis_coordinator_model.c runs the property on a real
 * coordinator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/slot.h"
#include "prng.h"

enum { LEASE = 10000, AHEAD = 3000, DEADLINE = 4000, KEPT = PP_RATE_WINDOW_MS + PP_RATE_MARGIN_MS };

static const struct pp_slot_terms far_terms = {.lease_ms = LEASE, .ahead_ms = AHEAD};
static const struct pp_slot_terms near_terms = {.lease_ms = LEASE};
static struct pp_slot_mark marks[PP_SLOT_MARKS_MAX];

static struct pp_slot_want want_of(uint32_t rpm, uint32_t concurrency)
{
    return (struct pp_slot_want){
        .client = "c", .rpm = rpm, .concurrency = concurrency, .shares = 1, .granted = true};
}

/* Grants a slot at time 0 of the monotonic clock; the wall clock is 1000 ms ahead. */
static void grant(struct pp_slot *s, const struct pp_slot_terms *terms, uint32_t rpm, uint32_t concurrency)
{
    const struct pp_slot_want w = want_of(rpm, concurrency);
    pp_slot_init(s);
    pp_slot_granted(s, terms, &w, 0, 0, 1000);
}

/* Sends a renewal at `now` and ends it immediately. If `answered`, the record was written;
 * otherwise the outcome is unknown. */
static struct pp_slot_renewal renew(struct pp_slot *s, int64_t now, bool answered)
{
    struct pp_slot_renewal r;
    size_t room = pp_slot_marks(s, PP_RENEW_AHEAD, now);
    pp_slot_renewal(s, PP_RENEW_AHEAD, room > 0 ? marks : NULL, now, now + 1000, &r);
    assert_true(pp_slot_renewed(s, &r, answered, now, now + 1000));
    return r;
}

/* Takes n places for a claim, which returns n tasks. */
static void claim(struct pp_slot *s, int64_t now, uint32_t n)
{
    assert_true(pp_slot_admit(s, now, now, n));
    pp_slot_claimed(s, n, DEADLINE);
}

/* Starts one transfer at `now`, and counts its request immediately. */
static void send_one(struct pp_slot *s, struct pp_sends *sends, int64_t now)
{
    claim(s, now, 1);
    assert_int_equal(pp_slot_place(s, sends, now), now);
    pp_sends_wrote(sends, now);
    pp_sends_heard(sends, now);
    pp_slot_count(s, sends, now);
}

static void a_lease_lets_requests_out_for_its_first_half(void **state)
{
    static const struct {
        int64_t now;
        bool may_send, expired;
    } rows[] = {{0, true, false},
                {LEASE / 2 - 1, true, false},
                {LEASE / 2, false, false},
                {LEASE - 1, false, false},
                {LEASE, false, true}};
    struct pp_slot s;
    (void)state;

    grant(&s, &near_terms, 0, 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(pp_slot_may_send(&s, rows[i].now), rows[i].may_send);
        assert_int_equal(pp_slot_expired(&s, rows[i].now), rows[i].expired);
    }
    renew(&s, 3000, false); /* the outcome is unknown, so the lease is not extended */
    assert_false(pp_slot_may_send(&s, LEASE / 2));
    renew(&s, 3000, true);
    assert_true(pp_slot_may_send(&s, 3000 + LEASE / 2 - 1));
    assert_false(pp_slot_expired(&s, 3000 + LEASE - 1));
    pp_slot_lost(&s);
    assert_false(pp_slot_may_send(&s, 0));
    assert_false(pp_slot_expired(&s, 100 * LEASE));
    pp_slot_fini(&s);
}

static void a_grant_takes_over_what_others_left(void **state)
{
    static const struct pp_slot_mark left[] = {{-50000, 2}, {-10000, 1}};
    struct pp_slot_want w = want_of(20, 6);
    struct pp_slot s;
    (void)state;

    w.marks = left;
    w.n_marks = 2;
    w.spent = 3;
    w.spent_at_ms = 900; /* a time of the wall clock */
    w.taken = 2;
    w.taken_until_ms = 6000;
    w.not_before_ms = 2000;
    pp_slot_init(&s);
    pp_slot_granted(&s, &near_terms, &w, 0, 500, 1500);
    /* The grant forbids requests before 2000 on the wall clock, which is 1000 on this clock. */
    assert_int_equal(pp_slot_permits(&s, 999, 999), 0);
    assert_int_equal(pp_slot_permits(&s, 1000, 1000), 20 - 3 - 3);
    assert_int_equal(pp_slot_next_permit_ms(&s, 500), 1000);
    assert_int_equal(pp_slot_concurrency(&s, 4999), 4);
    assert_int_equal(pp_slot_concurrency(&s, 5000), 6);
    assert_false(pp_slot_admit(&s, 1000, 1000, 5)); /* Only 4 more requests may be in flight. */
    assert_true(pp_slot_admit(&s, 1000, 1000, 4));
    pp_slot_unused(&s, 4);
    assert_int_equal(s.in_flight, 0);
    /* The wall clock is 1000 ms ahead of this one, so the oldest mark expires at this time. */
    assert_int_equal(pp_slot_permits(&s, -51000 + KEPT, -51000 + KEPT), 20 - 4);
    pp_slot_fini(&s);
}

static void shares_divide_a_client(void **state)
{
    struct pp_slot_want w = want_of(10, 5);
    uint32_t rpm = 0, places = 0;
    (void)state;

    w.shares = 3;
    for (w.share = 0; w.share < w.shares; w.share++) {
        struct pp_slot s;
        pp_slot_init(&s);
        pp_slot_granted(&s, &near_terms, &w, 0, 0, 0);
        rpm += pp_slot_permits(&s, 0, 0);
        places += pp_slot_concurrency(&s, 0);
        pp_slot_fini(&s);
    }
    assert_int_equal(rpm, 10);
    assert_int_equal(places, 5);
}

static void the_whole_is_recut_at_once(void **state)
{
    struct pp_slot s;
    struct pp_sends sends;
    (void)state;

    grant(&s, &near_terms, 1, 1);
    send_one(&s, &sends, 0);
    assert_false(pp_slot_admit(&s, 0, 0, 1));
    pp_slot_recut(&s, 5, 3);
    assert_int_equal(pp_slot_permits(&s, 0, 0), 4);
    assert_true(pp_slot_admit(&s, 0, 0, 2));
    assert_false(pp_slot_admit(&s, 0, 0, 1)); /* The slot permits only three requests in flight. */
    struct pp_slot_renewal r = renew(&s, 0, true);
    assert_int_equal(r.rpm, 5);
    assert_int_equal(r.concurrency, 3);
    pp_slot_fini(&s);
}

/* A crashed holder had more requests in flight than the share of the next holder has places. When
 * that share becomes larger, none of its places is free before these requests have ended. */
static void a_share_that_is_taken_stays_taken_when_recut(void **state)
{
    struct pp_slot_want w = want_of(20, 2);
    struct pp_slot s;
    (void)state;

    w.taken = 2;
    w.taken_until_ms = 6000;
    pp_slot_init(&s);
    pp_slot_granted(&s, &near_terms, &w, 0, 0, 0);
    pp_slot_recut(&s, 20, 7);
    assert_int_equal(pp_slot_concurrency(&s, 5999), 0);
    pp_slot_recut(&s, 20, 1);
    assert_int_equal(pp_slot_concurrency(&s, 5999), 0);
    pp_slot_recut(&s, 20, 5);
    assert_int_equal(pp_slot_concurrency(&s, 5999), 0);
    assert_int_equal(pp_slot_concurrency(&s, 6000), 5);
    pp_slot_fini(&s);
}

static void the_record_covers_what_is_claimed(void **state)
{
    struct pp_slot s;
    struct pp_sends sends[3];
    (void)state;

    grant(&s, &far_terms, 60, 8);
    claim(&s, 0, 1);
    assert_false(pp_slot_covered(&s));
    struct pp_slot_renewal r = renew(&s, 0, true);
    assert_true(pp_slot_covered(&s));
    assert_int_equal(r.reserved, 1 + 60 * AHEAD / 60000 + 8);
    assert_int_equal(r.in_flight, 3);
    assert_int_equal(r.busy_until_ms, 1000 + LEASE / 2 + DEADLINE);
    pp_slot_place(&s, &sends[0], 0);
    pp_sends_wrote(&sends[0], 0);
    pp_sends_heard(&sends[0], 10);
    pp_slot_count(&s, &sends[0], 10);
    claim(&s, 10, 2);
    assert_true(pp_slot_covered(&s));
    claim(&s, 10, 1);
    assert_false(pp_slot_covered(&s)); /* there are four transfers, and the record has three */
    r = renew(&s, 10, false);
    assert_null(r.marks); /* It is too soon to record marks again, so this renewal has none. */
    assert_int_equal(r.reserved, 1 + 3 + 11);
    assert_false(pp_slot_covered(&s)); /* the outcome of the renewal is unknown */
    renew(&s, 10, true);
    assert_true(pp_slot_covered(&s));
    assert_true(pp_slot_admit(&s, 10, 10, 1));
    pp_slot_claimed(&s, 1, 2 * DEADLINE);
    assert_false(pp_slot_covered(&s)); /* the record has a shorter deadline */
    pp_slot_fini(&s);
}

/* The next holder leaves the recorded places free for the longest deadline. So the record has what
 * the holder has, at any moment of a claim, and not what the claim asks for. */
static void the_record_lacks_what_a_claim_asks_for(void **state)
{
    enum { PLACES = 512, FOUND = 200, AHEAD_PLACES = 1 + PLACES / 8 };
    struct pp_slot s;
    struct pp_sends sends;
    (void)state;

    grant(&s, &far_terms, 0, PLACES);
    assert_true(pp_slot_admit(&s, 0, 0, PLACES));
    assert_true(pp_slot_covered(&s)); /* nothing starts before the claim has ended */
    struct pp_slot_renewal r = renew(&s, 0, true);
    assert_int_equal(r.in_flight, AHEAD_PLACES);
    assert_int_equal(r.busy_until_ms, 1000 + LEASE / 2);
    pp_slot_unused(&s, PLACES - FOUND);
    pp_slot_claimed(&s, FOUND, DEADLINE);
    assert_false(pp_slot_covered(&s));
    assert_int_equal(renew(&s, 100, true).in_flight, FOUND + AHEAD_PLACES);
    assert_true(pp_slot_covered(&s));
    for (int i = 0; i < FOUND; i++)
        pp_slot_place(&s, &sends, 100);
    /* The next claim asks for all other places, and finds nothing. */
    assert_true(pp_slot_admit(&s, 200, 200, PLACES - FOUND));
    assert_true(pp_slot_covered(&s));
    assert_int_equal(renew(&s, 200, true).in_flight, FOUND + AHEAD_PLACES);
    pp_slot_unused(&s, PLACES - FOUND);
    pp_slot_fini(&s);
}

/* While renewals are not answered, a claim asks only for what the record covers. */
static void without_answers_the_record_is_the_limit(void **state)
{
    struct pp_slot s;
    struct pp_sends sends;
    (void)state;

    grant(&s, &far_terms, 60, 16);
    assert_int_equal(pp_slot_sure(&s), PP_SLOT_UNBOUND);
    renew(&s, 0, true);
    assert_int_equal(s.recorded.in_flight, 3);
    renew(&s, 100, false);
    assert_int_equal(pp_slot_sure(&s), 3);
    assert_true(pp_slot_renewal_due(&s, 100));
    send_one(&s, &sends, 100);
    assert_int_equal(pp_slot_sure(&s), 2);
    assert_true(pp_slot_admit(&s, 100, 100, 2));
    assert_int_equal(pp_slot_sure(&s), 0);
    pp_slot_claimed(&s, 2, DEADLINE);
    s.longest_recorded_ms = DEADLINE;
    assert_true(pp_slot_covered(&s));
    renew(&s, 200, true);
    assert_int_equal(pp_slot_sure(&s), PP_SLOT_UNBOUND);
    s.recorded.reserved = s.unmarked + s.rate.pending + 1;
    s.unanswered = true;
    assert_int_equal(pp_slot_sure(&s), 1);
    pp_slot_fini(&s);
}

/* A renewal is in flight, and the holder can't know whether the coordinator has written it. In
 * either case the record must cover all admitted requests. Only one renewal at a time may carry
 * marks (sent requests and their times). */
static void renewals_in_flight_bind_both_ways(void **state)
{
    struct pp_slot s;
    struct pp_slot_renewal first, second;
    struct pp_sends sends[4];
    (void)state;

    grant(&s, &far_terms, 600, 30);
    s.longest_ms = DEADLINE;
    renew(&s, 0, true);
    for (int i = 0; i < 4; i++)
        send_one(&s, &sends[i], 1100);
    pp_slot_renewal(&s, PP_RENEW_HOLD, marks, 1200, 2200, &first);
    /* One mark stands for all four requests, because they were sent at the same moment. */
    assert_int_equal(first.n_marks, 1);
    assert_int_equal(first.reserved, 0);
    /* The first renewal has not ended, so another one may carry no marks. */
    assert_int_equal(pp_slot_marks(&s, PP_RENEW_HOLD, 9000), 0);
    /* If the renewal was written, its marks cover the requests. Otherwise the earlier reservation
     * does. */
    assert_true(pp_slot_covered(&s));
    claim(&s, 1200, 1);
    /* If the renewal was written, the record reserves nothing, so it does not cover new
     * requests. */
    assert_false(pp_slot_covered(&s));
    pp_slot_renewal(&s, PP_RENEW_AHEAD, NULL, 1200, 2200, &second);
    assert_true(second.reserved > 5);
    assert_true(pp_slot_renewed(&s, &second, true, 1200, 2200));
    /* The first renewal may still be written, and it reserves nothing. */
    assert_false(pp_slot_covered(&s));
    assert_true(pp_slot_renewed(&s, &first, false, 1200, 2200));
    /* The holder can't know whether the record has marks of these four requests. */
    assert_int_equal(s.unmarked, 4);
    assert_int_equal(s.marked_ms, 0);
    assert_false(pp_slot_covered(&s));
    renew(&s, 1300, true);
    assert_int_equal(s.unmarked, 0);
    assert_true(pp_slot_covered(&s));
    pp_slot_fini(&s);
}

/* The coordinator keeps the later of two renewals, also if the earlier one arrives or is answered
 * last. */
static void an_answer_that_comes_late_raises_no_bound(void **state)
{
    struct pp_slot_renewal first, second;
    struct pp_sends sends[4];
    struct pp_slot s;
    (void)state;

    grant(&s, &far_terms, 600, 30);
    s.longest_ms = DEADLINE;
    renew(&s, 0, true);
    for (int i = 0; i < 4; i++)
        send_one(&s, &sends[i], 100);
    pp_slot_renewal(&s, PP_RENEW_AHEAD, NULL, 200, 1200, &first);
    for (int i = 0; i < 4; i++)
        pp_slot_ended(&s, &sends[i], 300);
    pp_slot_renewal(&s, PP_RENEW_AHEAD, NULL, 300, 1300, &second);
    assert_true(first.in_flight > second.in_flight + 2);
    assert_true(pp_slot_renewed(&s, &second, true, 300, 1300));
    assert_true(pp_slot_renewed(&s, &first, true, 200, 1200));
    assert_int_equal(s.recorded.in_flight, second.in_flight);
    claim(&s, 400, second.in_flight + 1);
    assert_false(pp_slot_covered(&s));
    renew(&s, 400, true);
    assert_true(pp_slot_covered(&s));
    pp_slot_fini(&s);
}

/* The answer to a renewal of an earlier hold says nothing of what this hold has recorded. */
static void an_answer_of_an_earlier_hold_raises_no_bound(void **state)
{
    const struct pp_slot_want w = want_of(600, 30);
    struct pp_slot_renewal r;
    struct pp_slot s;
    (void)state;

    grant(&s, &far_terms, 600, 30);
    pp_slot_renewal(&s, PP_RENEW_AHEAD, NULL, 0, 1000, &r);
    pp_slot_lost(&s);
    pp_slot_granted(&s, &far_terms, &w, LEASE, LEASE, LEASE + 1000);
    assert_true(pp_slot_renewed(&s, &r, true, 0, 1000));
    assert_int_equal(s.recorded.in_flight, 0);
    assert_int_equal(s.recorded.reserved, 0);
    pp_slot_fini(&s);
}

/* Nobody counts the permits of a client without a limit. So after a crash the next holder waits for
 * a minute, if the client has got a limit by then; after a release it does not wait. */
static void without_a_limit_everything_is_reserved(void **state)
{
    static const enum pp_slot_renewal_kind kinds[] = {PP_RENEW_AHEAD, PP_RENEW_HOLD, PP_RENEW_LAST};
    (void)state;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct pp_slot_want w = want_of(PP_SLOT_RESERVE_ALL, 4);
        struct pp_slot_renewal r;
        struct pp_slot s;
        bool last = kinds[i] == PP_RENEW_LAST;

        grant(&s, &far_terms, 0, 4);
        pp_slot_renewal(&s, kinds[i], NULL, 0, 1000, &r);
        pp_slot_fini(&s);
        w.spent = r.reserved;
        w.spent_at_ms = 1000;
        pp_slot_init(&s);
        pp_slot_granted(&s, &far_terms, &w, 0, 0, 1000);
        assert_int_equal(pp_slot_permits(&s, 0, KEPT - 1) > 0, last);
        assert_true(pp_slot_permits(&s, 0, KEPT) > 0);
        pp_slot_fini(&s);
    }
}

static void renewals_are_due(void **state)
{
    static const struct {
        const struct pp_slot_terms *terms;
        bool sent;
        uint32_t recorded_in_flight;
        int64_t due_ms;
    } rows[] = {{&near_terms, false, 0, LEASE / 4},
                {&near_terms, true, 0, PP_SLOT_MARKS_EVERY_MS},
                {&far_terms, false, 0, LEASE / 4},
                {&far_terms, true, 0, AHEAD / 2},
                {&far_terms, false, 20, PP_SLOT_CORRECT_MS}};
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pp_slot s;
        struct pp_sends sends;
        grant(&s, rows[i].terms, 60, 40);
        renew(&s, 5000, true);
        if (rows[i].sent)
            send_one(&s, &sends, 5000);
        if (rows[i].recorded_in_flight > 0)
            s.recorded.in_flight = rows[i].recorded_in_flight;
        assert_false(pp_slot_renewal_due(&s, 5000 + rows[i].due_ms - 1));
        assert_true(pp_slot_renewal_due(&s, 5000 + rows[i].due_ms));
        pp_slot_fini(&s);
    }
}

static void a_transfer_gives_back_what_it_did_not_send(void **state)
{
    struct pp_slot s;
    struct pp_sends sends;
    (void)state;

    grant(&s, &near_terms, 2, 4);
    claim(&s, 0, 1);
    pp_slot_place(&s, &sends, 0);
    /* a permit for a redirect, which is refunded below */
    assert_true(pp_slot_admit_more(&s, 0, 1));
    pp_slot_refund(&s, 1);
    assert_true(pp_slot_ended(&s, &sends, 0)); /* no request was sent */
    assert_int_equal(pp_slot_permits(&s, 0, 0), 2);
    send_one(&s, &sends, 0);
    assert_false(pp_slot_ended(&s, &sends, 0));
    assert_int_equal(pp_slot_permits(&s, 0, 0), 1);
    assert_int_equal(s.in_flight, 0);
    assert_int_equal(s.unmarked, 1);
    pp_slot_fini(&s);
}

/* The HTTP library has sent the request a second time. Both requests must count, even if there is
 * no permit for the second. */
static void a_request_that_is_written_again_counts(void **state)
{
    (void)state;
    for (uint32_t rpm = 1; rpm <= 2; rpm++) {
        struct pp_slot s;
        struct pp_sends sends;
        grant(&s, &near_terms, rpm, 4);
        claim(&s, 0, 1);
        pp_slot_place(&s, &sends, 0);
        pp_sends_wrote(&sends, 0);
        pp_sends_wrote(&sends, 50);
        pp_slot_count(&s, &sends, 50);
        assert_int_equal(sends.permits, 2);
        assert_int_equal(pp_slot_permits(&s, 50, 50), 0);
        pp_sends_heard(&sends, 60);
        assert_false(pp_slot_ended(&s, &sends, 60));
        assert_int_equal(pp_slot_permits(&s, 50 + KEPT, 50 + KEPT) > 0, rpm == 2);
        assert_int_equal(pp_slot_permits(&s, 50 + PP_ARRIVAL_CAP_MS + KEPT, 50 + PP_ARRIVAL_CAP_MS + KEPT),
                         rpm);
        pp_slot_fini(&s);
    }
}

static void a_release_hands_the_log_on(void **state)
{
    struct pp_slot s;
    struct pp_slot_renewal r;
    struct pp_sends sends;
    (void)state;

    grant(&s, &far_terms, 60, 4);
    renew(&s, 0, true);
    send_one(&s, &sends, 100);
    pp_slot_ended(&s, &sends, 200);
    assert_true(pp_slot_marks(&s, PP_RENEW_LAST, 200) > 0);
    pp_slot_renewal(&s, PP_RENEW_LAST, marks, 200, 1200, &r);
    assert_int_equal(r.n_marks, 1);
    assert_int_equal(r.marks[0].at_ms, 1100);
    assert_int_equal(r.reserved, 0);
    assert_int_equal(r.in_flight, 0);
    pp_slot_not_released(&s);
    assert_true(s.held);
    pp_slot_renewal(&s, PP_RENEW_LAST, marks, 200, 1200, &r);
    assert_int_equal(r.n_marks, 1);
    pp_slot_released(&s);
    assert_false(s.held);
    assert_int_equal(s.rate.logged, 0);
    pp_slot_fini(&s);
}

/* --- a simulation: many holders in a row, each of which may crash at any moment --- */

enum { FLIGHTS = 64, SENT = 4096 };

/* The record of the slot at the coordinator. */
struct record {
    /* marks of sent requests; one renewal brings at most PP_SLOT_MARKS_MAX_FAR of them */
    struct pp_slot_mark marks[PP_SLOT_MARKS_MAX];
    size_t n_marks;
    uint32_t reserved, in_flight;
    int64_t busy_until;
    /* number of sent requests that these marks account for */
    uint64_t marked;
};

struct flight {
    bool used;
    int64_t end;
    struct pp_sends sends;
};

struct sim {
    uint64_t seed;
    int64_t now, skew; /* skew: the holder's monotonic clock minus the coordinator's clock, in ms */
    uint32_t rpm, concurrency;
    struct pp_slot slot;
    struct record record;
    struct flight flights[FLIGHTS];
    int64_t sent[SENT];
    uint64_t n_sent, counted;
    uint32_t at_once;
    uint32_t asked, claimed; /* tasks for which a claim asks; tasks that are claimed and have not started */
    /* These fields describe the renewal in flight. */
    bool renewing, applied;
    struct pp_slot_renewal renewal;
    struct pp_slot_mark renewal_marks[PP_SLOT_MARKS_MAX];
    int64_t renewed_at;
};

static bool chance(struct sim *m, int percent)
{
    return pp_test_between(&m->seed, 1, 100) <= percent;
}

/* Checks that the record accounts for every request sent, because after a crash the next holder
 * knows only the record. */
static void check_record(const struct sim *m)
{
    uint64_t unmarked = m->n_sent - m->record.marked;
    if (m->rpm > 0 && unmarked > m->record.reserved)
        fail_msg("%llu unmarked requests sent, %u reserved", (unsigned long long)unmarked,
                 m->record.reserved);
    if (m->at_once > m->record.in_flight)
        fail_msg("%u in flight, %u recorded", m->at_once, m->record.in_flight);
}

static void send_request(struct sim *m, struct flight *f)
{
    m->sent[m->n_sent++ % SENT] = m->now;
    m->at_once++;
    if (m->rpm > 0 && m->n_sent > m->rpm) {
        int64_t then = m->sent[(m->n_sent - 1 - m->rpm) % SENT];
        if (m->now - then < PP_RATE_WINDOW_MS)
            fail_msg("%u requests within %lld ms", m->rpm + 1, (long long)(m->now - then));
    }
    if (m->at_once > m->concurrency)
        fail_msg("%u at once, of %u", m->at_once, m->concurrency);
    pp_sends_wrote(&f->sends, m->now + m->skew);
    check_record(m);
}

/* Asks for tasks, or ends a claim, which finds all or some of them. */
static void claim_some(struct sim *m)
{
    struct pp_slot *s = &m->slot;
    int64_t now = m->now + m->skew;

    if (m->asked > 0 && chance(m, 60)) {
        m->claimed = (uint32_t)pp_test_between(&m->seed, 0, m->asked);
        pp_slot_unused(s, m->asked - m->claimed);
        pp_slot_claimed(s, m->claimed, DEADLINE);
        m->asked = 0;
    } else if (m->asked == 0 && m->claimed == 0 && pp_slot_may_send(s, now)) {
        while (chance(m, 90) && pp_slot_permits(s, now, now) > 0 && pp_slot_admit(s, now, now, 1))
            m->asked++;
    }
}

static void start_some(struct sim *m)
{
    struct pp_slot *s = &m->slot;
    int64_t now = m->now + m->skew;

    if (!pp_slot_covered(s) || !pp_slot_may_send(s, now))
        return;
    for (struct flight *f = m->flights; f < m->flights + FLIGHTS && m->claimed > 0; f++) {
        if (f->used)
            continue;
        *f = (struct flight){.used = true, .end = m->now + pp_test_between(&m->seed, 0, DEADLINE)};
        assert_true(pp_slot_place(s, &f->sends, now) <= now);
        m->claimed--;
        send_request(m, f);
    }
}

static void end_some(struct sim *m)
{
    for (struct flight *f = m->flights; f < m->flights + FLIGHTS; f++) {
        if (!f->used)
            continue;
        if (chance(m, 40) && pp_sends_heard(&f->sends, m->now + m->skew))
            pp_slot_count(&m->slot, &f->sends, m->now + m->skew);
        if (m->now < f->end)
            continue;
        pp_sends_heard(&f->sends, m->now + m->skew);
        pp_slot_ended(&m->slot, &f->sends, m->now + m->skew);
        f->used = false;
        m->at_once--;
    }
}

/* Returns the number of requests in the holder's log: sent and no longer pending, without those of
 * an earlier holder. */
static uint64_t sent_and_counted(const struct sim *m)
{
    uint64_t unheard = 0;
    for (const struct flight *f = m->flights; f < m->flights + FLIGHTS; f++)
        unheard += f->used && f->sends.counted < atomic_load(&f->sends.written);
    return m->n_sent - unheard;
}

static void apply(struct sim *m)
{
    const struct pp_slot_renewal *r = &m->renewal;
    if (r->marks) {
        memcpy(m->record.marks, r->marks, r->n_marks * sizeof *r->marks);
        m->record.n_marks = r->n_marks;
        m->record.marked = m->counted;
    }
    m->record.reserved = r->reserved;
    m->record.in_flight = r->in_flight;
    m->record.busy_until = r->busy_until_ms;
    m->applied = true;
}

static void renew_some(struct sim *m)
{
    int64_t now = m->now + m->skew;

    if (m->renewing && chance(m, 30)) {
        bool answered = m->applied && chance(m, 80);
        assert_true(pp_slot_renewed(&m->slot, &m->renewal, answered, m->renewed_at + m->skew, m->renewed_at));
        m->renewing = false;
    }
    if (m->renewing || !chance(m, 20))
        return;
    size_t room = pp_slot_marks(&m->slot, PP_RENEW_AHEAD, now);
    m->counted = sent_and_counted(m);
    pp_slot_renewal(&m->slot, PP_RENEW_AHEAD, room > 0 ? m->renewal_marks : NULL, now, m->now, &m->renewal);
    assert_true(m->renewal.in_flight <= m->at_once + m->claimed + 1 + m->concurrency / 8);
    m->renewing = true;
    m->applied = false;
    m->renewed_at = m->now;
    if (chance(m, 75))
        apply(m);
    check_record(m);
}

/* Lets the lease expire and grants the slot to the next holder. */
static void next_holder(struct sim *m)
{
    struct pp_slot_want w = want_of(m->rpm, m->concurrency);

    pp_slot_fini(&m->slot);
    m->now += LEASE;
    for (struct flight *f = m->flights; f < m->flights + FLIGHTS; f++) {
        if (f->used && f->end <= m->now)
            m->at_once--;
        else if (f->used) /* This can't happen, because deadlines are shorter than the lease. */
            fail_msg("in flight after the lease");
        f->used = false;
    }
    m->skew = pp_test_between(&m->seed, -1000000, 1000000);
    w.marks = m->record.marks;
    w.n_marks = m->record.n_marks;
    w.spent = m->record.reserved;
    w.spent_at_ms = m->now;
    w.taken = m->record.in_flight;
    w.taken_until_ms = m->record.busy_until;
    pp_slot_init(&m->slot);
    pp_slot_granted(&m->slot, &far_terms, &w, m->now + m->skew, m->now + m->skew, m->now);
    m->renewing = false;
    m->asked = m->claimed = 0;
    if (w.spent > 0) /* The coordinator keeps the spent permits as a mark. */
        m->record.marks[m->record.n_marks++] = (struct pp_slot_mark){w.spent_at_ms, w.spent};
    /* From here on the test counts only requests of the new holder. */
    m->record.marked = m->n_sent;
    m->record.reserved = m->record.in_flight = 0;
}

static void no_holder_goes_beyond_its_share(void **state)
{
    (void)state;
    uint64_t sent = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct sim *m = calloc(1, sizeof *m);
        assert_non_null(m);
        m->seed = seed * 7919;
        m->rpm = (uint32_t)pp_test_between(&m->seed, 1, 300);
        m->concurrency = (uint32_t)pp_test_between(&m->seed, 1, 20);
        m->now = 1000000;
        pp_slot_init(&m->slot);
        const struct pp_slot_want w = want_of(m->rpm, m->concurrency);
        pp_slot_granted(&m->slot, &far_terms, &w, m->now, m->now, m->now);
        for (int round = 0; round < 1500; round++) {
            m->now += pp_test_between(&m->seed, 0, 400);
            if (pp_slot_expired(&m->slot, m->now + m->skew) || chance(m, 1)) {
                next_holder(m);
                continue;
            }
            end_some(m);
            claim_some(m);
            start_some(m);
            renew_some(m);
        }
        sent += m->n_sent;
        pp_slot_fini(&m->slot);
        free(m);
    }
    assert_true(sent > 20000); /* the simulation sent enough requests to be a real test */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_lets_requests_out_for_its_first_half),
        cmocka_unit_test(a_grant_takes_over_what_others_left),
        cmocka_unit_test(shares_divide_a_client),
        cmocka_unit_test(the_whole_is_recut_at_once),
        cmocka_unit_test(a_share_that_is_taken_stays_taken_when_recut),
        cmocka_unit_test(the_record_covers_what_is_claimed),
        cmocka_unit_test(the_record_lacks_what_a_claim_asks_for),
        cmocka_unit_test(without_answers_the_record_is_the_limit),
        cmocka_unit_test(renewals_in_flight_bind_both_ways),
        cmocka_unit_test(an_answer_that_comes_late_raises_no_bound),
        cmocka_unit_test(an_answer_of_an_earlier_hold_raises_no_bound),
        cmocka_unit_test(without_a_limit_everything_is_reserved),
        cmocka_unit_test(renewals_are_due),
        cmocka_unit_test(a_transfer_gives_back_what_it_did_not_send),
        cmocka_unit_test(a_request_that_is_written_again_counts),
        cmocka_unit_test(a_release_hands_the_log_on),
        cmocka_unit_test(no_holder_goes_beyond_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
