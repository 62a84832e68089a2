/* slot.c: the holder's accounting of one slot: permits, places, lease, and what a renewal records
 * of them. Each function leaves the invariants of check() intact. */
#include "core/slot.h"

#include "base/check.h"
#include "core/share.h"

static void check(const struct pp_slot *s)
{
    pp_assert(s->unplaced <= s->in_flight, "more tasks are being claimed than places are taken");
    pp_assert(s->asked <= s->unplaced, "a claim asks for more tasks than places are taken");
    pp_assert(s->marking <= s->unmarked, "more requests are in marks in flight than are unmarked");
    pp_assert(s->marking == 0 || s->marks_sent, "requests are being marked, but no marks are in flight");
    pp_assert(!s->marks_sent || s->renewals > 0, "marks are in flight without a renewal");
    pp_assert(s->renewals > 0 ||
                  (s->next.reserved == PP_SLOT_UNBOUND && s->next.in_flight == PP_SLOT_UNBOUND),
              "a bound is in flight without a renewal");
    pp_assert(s->longest_recorded_ms >= 0 && s->longest_ms >= 0, "a deadline lies in the past");
}

static void record_nothing(struct pp_slot *s)
{
    s->recorded = (struct pp_slot_bounds){0, 0};
    s->next = (struct pp_slot_bounds){PP_SLOT_UNBOUND, PP_SLOT_UNBOUND};
}

void pp_slot_init(struct pp_slot *s)
{
    *s = (struct pp_slot){0};
    pp_ratelimit_init(&s->rate, 0);
    record_nothing(s);
}

void pp_slot_fini(struct pp_slot *s)
{
    pp_ratelimit_fini(&s->rate);
    pp_arrival_fini(&s->arrival);
}

/* --- the lease --- */

static void extend_lease(struct pp_slot *s, int64_t asked_ms)
{
    int64_t lease = s->terms.lease_ms;

    if (asked_ms + lease / 2 > atomic_load(&s->send_until_ms))
        atomic_store(&s->send_until_ms, asked_ms + lease / 2);
    if (asked_ms + lease > s->lease_until_ms)
        s->lease_until_ms = asked_ms + lease;
    pp_assert(atomic_load(&s->send_until_ms) <= s->lease_until_ms, "requests may go out after the lease");
}

/* Adds to the log the requests that earlier holders sent or reserved. */
static void import_log(struct pp_slot *s, const struct pp_slot_want *w, int64_t now_ms, int64_t skew)
{
    for (size_t i = 0; i < w->n_marks; i++) {
        const struct pp_rate_mark mark = {.at_ms = w->marks[i].at_ms + skew, .n = w->marks[i].n};
        pp_ratelimit_import(&s->rate, now_ms, &mark, 1);
    }
    if (w->spent == 0)
        return;
    int64_t at = w->spent_at_ms + skew;
    const struct pp_rate_mark mark = {.at_ms = at < now_ms ? at : now_ms, .n = w->spent};
    pp_ratelimit_import(&s->rate, now_ms, &mark, 1);
}

void pp_slot_granted(struct pp_slot *s, const struct pp_slot_terms *terms, const struct pp_slot_want *w,
                     int64_t asked_ms, int64_t now_ms, int64_t now_wall_ms)
{
    int64_t skew = now_ms - now_wall_ms;
    struct pp_share share = pp_share_get(w->rpm, w->concurrency, w->shares, w->share);

    pp_assert(!s->held, "a slot is granted to its holder");
    pp_assert(asked_ms <= now_ms, "a slot was asked for in the future");
    s->held = true;
    s->held_ms = now_ms;
    s->terms = *terms;
    s->share = w->share;
    s->shares = w->shares;
    s->rpm = w->rpm;
    s->concurrency = w->concurrency;
    s->share_concurrency = share.concurrency;
    s->hash_lo = share.hash_lo;
    s->hash_hi = share.hash_hi;
    s->taken = w->taken;
    s->taken_until_ms = w->taken > 0 ? w->taken_until_ms + skew : 0;
    s->not_before_ms = w->not_before_ms > 0 ? w->not_before_ms + skew : 0;
    record_nothing(s);
    s->written = s->sent;
    s->unanswered = false;
    s->longest_recorded_ms = 0;
    if (s->in_flight == 0)
        s->longest_ms = 0;
    s->marked_ms = 0;
    extend_lease(s, asked_ms);
    pp_ratelimit_set_rpm(&s->rate, share.rpm);
    import_log(s, w, now_ms, skew);
}

void pp_slot_recut(struct pp_slot *s, uint32_t rpm, uint32_t concurrency)
{
    pp_assert(s->held && s->shares == 1, "a share of several is cut anew");
    /* A grant reports no more as taken than the share has. So if all is taken, more may be in
     * flight than that, and a larger share is taken as a whole, too. */
    if (s->taken == s->share_concurrency)
        s->taken = concurrency;
    s->rpm = rpm;
    s->concurrency = s->share_concurrency = concurrency;
    pp_ratelimit_set_rpm(&s->rate, rpm);
}

void pp_slot_lost(struct pp_slot *s)
{
    pp_assert(s->held, "a slot is lost that is not held");
    s->held = false;
    s->lease_until_ms = 0;
    atomic_store(&s->send_until_ms, 0);
}

bool pp_slot_expired(const struct pp_slot *s, int64_t now_ms)
{
    return s->held && now_ms >= s->lease_until_ms;
}

/* --- starting transfers and counting their requests --- */

bool pp_slot_may_send(const struct pp_slot *s, int64_t now_ms)
{
    pp_assert(s->held || atomic_load(&s->send_until_ms) == 0, "requests may go out without a slot");
    return s->held && now_ms < atomic_load(&s->send_until_ms);
}

uint32_t pp_slot_concurrency(const struct pp_slot *s, int64_t now_ms)
{
    if (now_ms >= s->taken_until_ms)
        return s->share_concurrency;
    return s->share_concurrency > s->taken ? s->share_concurrency - s->taken : 0;
}

uint32_t pp_slot_permits(struct pp_slot *s, int64_t now_ms, int64_t at_ms)
{
    return now_ms < s->not_before_ms ? 0 : pp_ratelimit_permits_at(&s->rate, now_ms, at_ms);
}

int64_t pp_slot_next_permit_ms(struct pp_slot *s, int64_t now_ms)
{
    int64_t next = pp_ratelimit_next_ms(&s->rate, now_ms);
    return next < s->not_before_ms ? s->not_before_ms : next;
}

bool pp_slot_admit(struct pp_slot *s, int64_t now_ms, int64_t at_ms, uint32_t n)
{
    pp_assert(s->held && at_ms >= now_ms, "a transfer is admitted without a slot, or for the past");
    uint32_t most = pp_slot_concurrency(s, now_ms), free = most > s->in_flight ? most - s->in_flight : 0;
    if (n > free || !pp_ratelimit_admit_at(&s->rate, now_ms, at_ms, n))
        return false;
    s->in_flight += n;
    s->unplaced += n;
    s->asked += n;
    return true;
}

bool pp_slot_admit_more(struct pp_slot *s, int64_t now_ms, uint32_t n)
{
    pp_assert(s->held && n <= s->in_flight, "more redirects are admitted than transfers are in flight");
    return pp_ratelimit_admit(&s->rate, now_ms, n);
}

void pp_slot_unused(struct pp_slot *s, uint32_t n)
{
    pp_assert(n <= s->asked, "more places are given back than a claim asked for");
    pp_ratelimit_refund(&s->rate, n);
    s->asked -= n;
    s->unplaced -= n;
    s->in_flight -= n;
    check(s);
}

void pp_slot_claimed(struct pp_slot *s, uint32_t n, int64_t timeout_ms)
{
    pp_assert(n <= s->asked, "a claim returned more tasks than it asked for");
    s->asked -= n;
    if (n > 0 && timeout_ms > s->longest_ms)
        s->longest_ms = timeout_ms;
}

void pp_slot_refund(struct pp_slot *s, uint32_t n)
{
    pp_assert(n <= s->rate.pending - s->unplaced, "permits are refunded that belong to tasks being claimed");
    pp_ratelimit_refund(&s->rate, n);
}

int64_t pp_slot_place(struct pp_slot *s, struct pp_sends *sends, int64_t now_ms)
{
    pp_assert(s->unplaced > s->asked, "a task starts that was not claimed");
    pp_sends_init(sends, 1, pp_baseline_ms(&s->arrival.baseline, now_ms));
    return pp_ratelimit_ready_ms(&s->rate, now_ms, --s->unplaced);
}

/* Handles a request that the HTTP library wrote a second time because its kept connection had died,
 * and that asked for no permit, because the client had no rate when the transfer began. If no
 * permit is free for it, it enters the log at once, at the latest time at which it may count. */
static void admit_rewrite(struct pp_slot *s, struct pp_sends *sends, int64_t now_ms)
{
    const struct pp_rate_mark mark = {.at_ms = now_ms + PP_ARRIVAL_CAP_MS, .n = 1};

    sends->permits++;
    if (pp_ratelimit_admit(&s->rate, now_ms, 1))
        return;
    pp_ratelimit_import(&s->rate, now_ms, &mark, 1);
    sends->over++;
}

void pp_slot_count(struct pp_slot *s, struct pp_sends *sends, int64_t now_ms)
{
    /* This reads `heard` before `written`, so that heard <= written holds. */
    unsigned heard = atomic_load(&sends->heard);
    int64_t at = atomic_load(&sends->at_ms), late = atomic_load(&sends->late_ms);
    unsigned written = atomic_load(&sends->written);

    pp_assert(heard <= written && sends->counted <= heard, "more requests are counted than were written");
    while (sends->permits < written)
        admit_rewrite(s, sends, now_ms);
    for (; sends->counted < heard; sends->counted++) {
        if (sends->over > 0) {
            sends->over--;
            continue;
        }
        pp_ratelimit_sent(&s->rate, now_ms, at);
        s->unmarked++;
        pp_arrival_counted(&s->arrival, sends, at, late);
    }
}

bool pp_slot_ended(struct pp_slot *s, struct pp_sends *sends, int64_t now_ms)
{
    pp_assert(s->in_flight > s->unplaced, "a transfer ends that was not in flight");
    pp_slot_count(s, sends, now_ms);
    pp_assert(sends->over == 0, "a transfer ends with a request that nobody has heard of");
    pp_arrival_learn(&s->arrival, sends, &s->rate, now_ms);
    unsigned unused = sends->permits - sends->counted;
    pp_ratelimit_refund(&s->rate, unused);
    s->in_flight--;
    check(s);
    return unused > 0;
}

/* --- the record: what the coordinator knows about the slot --- */

/* Returns how many transfers are in flight or may start without another claim. */
static uint32_t claimed(const struct pp_slot *s)
{
    return s->in_flight - s->asked;
}

bool pp_slot_covered(const struct pp_slot *s)
{
    uint32_t need = s->unmarked + s->rate.pending, n = claimed(s);

    pp_assert(s->marking <= need, "more requests are in marks in flight than need be recorded");
    if (s->terms.ahead_ms > 0 &&
        (n > s->recorded.in_flight || n > s->next.in_flight || s->longest_ms > s->longest_recorded_ms))
        return false;
    return s->rate.rpm == 0 || (need <= s->recorded.reserved && (s->next.reserved == PP_SLOT_UNBOUND ||
                                                                 need - s->marking <= s->next.reserved));
}

static uint32_t less(uint32_t from, uint32_t n)
{
    return from > n ? from - n : 0;
}

static uint32_t lower(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t pp_slot_sure(const struct pp_slot *s)
{
    uint32_t sure = PP_SLOT_UNBOUND, need = s->unmarked + s->rate.pending;

    if (s->unanswered && s->terms.ahead_ms > 0)
        sure = less(lower(s->recorded.in_flight, s->next.in_flight), s->in_flight);
    if (s->unanswered && s->rate.rpm > 0)
        sure =
            lower(sure, lower(less(s->recorded.reserved, need), less(s->next.reserved, need - s->marking)));
    return sure;
}

/* Returns how many more transfers than there are a renewal records, so that not each start needs a
 * renewal first. */
static uint32_t places_ahead(const struct pp_slot *s)
{
    return 1 + s->share_concurrency / 8;
}

/* Returns the number of transfers in flight that the next renewal records. More than the share may
 * be in flight if the share became smaller. */
static uint32_t places_to_record(const struct pp_slot *s)
{
    uint32_t n = claimed(s) + places_ahead(s);
    uint32_t most = claimed(s) > s->share_concurrency ? claimed(s) : s->share_concurrency;

    return n < most ? n : most;
}

bool pp_slot_renewal_due(const struct pp_slot *s, int64_t now_ms)
{
    int64_t ahead = s->terms.ahead_ms, every = s->terms.lease_ms / 4,
            active = ahead > 0 ? ahead / 2 : PP_SLOT_MARKS_EVERY_MS;

    if (s->rate.rpm > 0 && (s->unmarked > 0 || s->rate.pending > 0) && active < every)
        every = active;
    if (ahead > 0 && s->recorded.in_flight > places_to_record(s) + places_ahead(s) &&
        every > PP_SLOT_CORRECT_MS)
        every = PP_SLOT_CORRECT_MS;
    return s->held && ((s->unanswered && s->renewals == 0) || now_ms - s->marked_ms >= every);
}

size_t pp_slot_marks(const struct pp_slot *s, enum pp_slot_renewal_kind kind, int64_t now_ms)
{
    bool far = s->terms.ahead_ms > 0;
    size_t most = far ? PP_SLOT_MARKS_MAX_FAR : PP_SLOT_MARKS_MAX;
    int64_t every = far || s->rate.len > PP_SLOT_MARKS_EVERY_MS ? PP_SLOT_MARKS_EVERY_MS : s->rate.len;

    if (every < PP_SLOT_MARKS_EVERY_MIN_MS)
        every = PP_SLOT_MARKS_EVERY_MIN_MS;
    if (kind != PP_RENEW_LAST && (s->marks_sent || now_ms - s->marked_ms < every))
        return 0;
    return s->rate.len == 0 ? 1 : s->rate.len < most ? s->rate.len : most;
}

/* Returns how many permits to reserve that are not admitted yet: all that will be free in the next
 * terms.ahead_ms. If this process crashes, the client loses all of them for a minute. */
static uint32_t reserve_ahead(struct pp_slot *s, enum pp_slot_renewal_kind kind, int64_t now_ms)
{
    int64_t ahead = s->terms.ahead_ms;

    if (kind != PP_RENEW_LAST && s->rate.rpm == 0)
        return PP_SLOT_RESERVE_ALL;
    if (kind != PP_RENEW_AHEAD || ahead == 0)
        return 0;
    uint32_t free = pp_ratelimit_permits_at(&s->rate, now_ms, now_ms + ahead);
    uint32_t some = (uint32_t)((int64_t)s->rate.rpm * ahead / PP_RATE_WINDOW_MS) + s->share_concurrency;
    return free < some ? free : some;
}

static size_t export_marks(struct pp_slot *s, struct pp_slot_mark *marks, size_t cap, int64_t now_ms,
                           int64_t now_wall_ms)
{
    struct pp_rate_mark from[PP_SLOT_MARKS_MAX];
    size_t n = pp_ratelimit_export(&s->rate, now_ms, from, cap);

    for (size_t i = 0; i < n; i++)
        marks[i] = (struct pp_slot_mark){.at_ms = from[i].at_ms + now_wall_ms - now_ms, .n = from[i].n};
    return n;
}

void pp_slot_renewal(struct pp_slot *s, enum pp_slot_renewal_kind kind, struct pp_slot_mark *marks,
                     int64_t now_ms, int64_t now_wall_ms, struct pp_slot_renewal *out)
{
    size_t room = pp_slot_marks(s, kind, now_ms);
    uint32_t more = reserve_ahead(s, kind, now_ms);
    bool last = kind == PP_RENEW_LAST;

    pp_assert(s->held, "a slot is renewed that is not held");
    pp_assert(!last || (s->renewals == 0 && s->in_flight == 0), "a slot is let go that is in use");
    pp_assert(!marks || room > 0, "marks are sent that are not due");
    *out = (struct pp_slot_renewal){.share = s->share,
                                    .reserved = s->rate.pending + more + (marks ? 0 : s->unmarked),
                                    .in_flight = last ? 0 : places_to_record(s),
                                    .busy_until_ms = now_wall_ms + s->terms.lease_ms / 2 + s->longest_ms,
                                    .rpm = s->rpm,
                                    .concurrency = s->concurrency,
                                    .shares = s->shares,
                                    .number = ++s->sent};
    pp_assert(out->in_flight >= claimed(s), "a renewal records less than is in flight");
    if (marks) {
        out->n_marks = export_marks(s, marks, room, now_ms, now_wall_ms);
        out->marks = marks;
        s->marked_ms = now_ms;
        s->marking = s->unmarked;
        s->marks_sent = true;
    }
    if (out->reserved < s->next.reserved)
        s->next.reserved = out->reserved;
    if (out->in_flight < s->next.in_flight)
        s->next.in_flight = out->in_flight;
    s->renewals++;
    check(s);
}

bool pp_slot_renewed(struct pp_slot *s, const struct pp_slot_renewal *r, bool answered, int64_t asked_ms,
                     int64_t asked_wall_ms)
{
    bool written = answered && !r->lost, is_latest = written && r->number > s->written;
    int64_t longest = r->busy_until_ms - asked_wall_ms - s->terms.lease_ms / 2;

    pp_assert(s->renewals > 0, "a renewal comes back that nobody sent");
    pp_assert(!r->marks || s->marks_sent, "marks come back that nobody sent");
    /* If the answer was lost, nobody knows if the record was written, so the lower bound counts. */
    if (is_latest || r->reserved < s->recorded.reserved)
        s->recorded.reserved = r->reserved;
    if (is_latest || r->in_flight < s->recorded.in_flight)
        s->recorded.in_flight = r->in_flight;
    if (is_latest)
        s->written = r->number;
    s->unanswered = !answered;
    if (--s->renewals == 0)
        s->next = (struct pp_slot_bounds){PP_SLOT_UNBOUND, PP_SLOT_UNBOUND};
    if (written) {
        if (s->held)
            extend_lease(s, asked_ms);
        /* a later renewal never records a shorter time than an earlier one */
        if (longest > s->longest_recorded_ms)
            s->longest_recorded_ms = longest;
    }
    if (r->marks) {
        if (written)
            s->unmarked -= s->marking;
        else
            s->marked_ms = 0;
        s->marks_sent = false;
        s->marking = 0;
    }
    check(s);
    return !answered || !r->lost;
}

/* Forgets the renewals in flight of this hold; their answers will be ignored. */
static void forget_renewals(struct pp_slot *s)
{
    s->renewals = 0;
    s->marks_sent = false;
    s->marking = 0;
    s->next = (struct pp_slot_bounds){PP_SLOT_UNBOUND, PP_SLOT_UNBOUND};
}

void pp_slot_released(struct pp_slot *s)
{
    pp_assert(s->held && s->renewals == 1, "a slot was let go while it was renewed");
    pp_assert(s->in_flight == 0 && s->rate.pending == 0, "a slot was let go with requests to come");
    pp_slot_lost(s);
    forget_renewals(s);
    record_nothing(s);
    s->unmarked = 0;
    s->arrival.n_late = 0;
    pp_ratelimit_fini(&s->rate);
    check(s);
}

void pp_slot_not_released(struct pp_slot *s)
{
    pp_assert(s->held && s->renewals <= 1, "a release failed of a slot that was renewed");
    forget_renewals(s);
}
