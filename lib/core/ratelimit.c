/* ratelimit.c: the sliding log of one client's requests, as a ring of marks. Invariants: marks are
 * ordered by at_ms; `logged` is the sum of their n; len <= cap <= PP_RATE_MARKS_MAX; no function
 * fails when memory runs out. */
#include "core/ratelimit.h"

#include <stdlib.h>

#include "base/check.h"

static struct pp_rate_mark *mark_at(struct pp_ratelimit *rl, uint32_t i)
{
    struct pp_rate_mark *base = rl->ring ? rl->ring : rl->few;
    pp_assert(i < rl->cap, "a mark beyond the log");
    return &base[(rl->first + i) % rl->cap];
}

/* Moves the log's time to now_ms, never back, and removes expired marks. */
static int64_t advance(struct pp_ratelimit *rl, int64_t now_ms)
{
    if (now_ms > rl->now_ms)
        rl->now_ms = now_ms;
    while (rl->len > 0 && mark_at(rl, 0)->at_ms + PP_RATE_KEPT_MS <= rl->now_ms) {
        rl->logged -= mark_at(rl, 0)->n;
        rl->first = (rl->first + 1) % rl->cap;
        rl->len--;
    }
    return rl->now_ms;
}

static bool joinable(const struct pp_rate_mark *a, const struct pp_rate_mark *b, int64_t width_ms)
{
    return a->at_ms / width_ms == b->at_ms / width_ms;
}

/* Adds n to a mark; the sum saturates at UINT32_MAX, which is above any limit. */
static void add_to(struct pp_ratelimit *rl, struct pp_rate_mark *m, uint32_t n)
{
    uint32_t fits = UINT32_MAX - m->n;
    if (n > fits)
        rl->logged -= n - fits;
    m->n += n > fits ? fits : n;
}

/* Joins neighbouring marks of the same bucket; the joined mark has the later time. */
static void compact(struct pp_ratelimit *rl, int64_t width_ms)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rl->len; i++) {
        struct pp_rate_mark m = *mark_at(rl, i);
        if (kept > 0 && joinable(mark_at(rl, kept - 1), &m, width_ms)) {
            struct pp_rate_mark *last = mark_at(rl, kept - 1);
            last->at_ms = m.at_ms;
            add_to(rl, last, m.n);
        } else {
            *mark_at(rl, kept++) = m;
        }
    }
    rl->len = kept;
}

static bool grow(struct pp_ratelimit *rl)
{
    if (rl->cap == PP_RATE_MARKS_MAX)
        return false;
    uint32_t cap = rl->cap * 4 < PP_RATE_MARKS_MAX ? rl->cap * 4 : PP_RATE_MARKS_MAX;
    struct pp_rate_mark *ring = malloc(cap * sizeof *ring);
    if (!ring)
        return false;
    for (uint32_t i = 0; i < rl->len; i++)
        ring[i] = *mark_at(rl, i);
    free(rl->ring);
    rl->ring = ring;
    rl->cap = cap;
    rl->first = 0;
    return true;
}

/* Makes room for one mark: allocates memory, or joins the marks of the same bucket. A minute of
 * joined marks always fits. If that is not enough (no memory, or marks far ahead), joins ever wider
 * buckets. */
static void make_room(struct pp_ratelimit *rl)
{
    if (rl->len < rl->cap || grow(rl))
        return;
    for (int64_t width = PP_RATE_BUCKET_MS; rl->len == rl->cap; width *= 2)
        compact(rl, width);
}

/* Returns how many marks have a time of at_ms or before. */
static uint32_t count_until(struct pp_ratelimit *rl, int64_t at_ms)
{
    uint32_t n = rl->len;
    while (n > 0 && mark_at(rl, n - 1)->at_ms > at_ms)
        n--;
    return n;
}

static void insert(struct pp_ratelimit *rl, int64_t at_ms, uint32_t n)
{
    struct pp_rate_mark m = {at_ms, n};
    rl->logged += n;
    uint32_t i = count_until(rl, at_ms);
    if (i > 0 && joinable(mark_at(rl, i - 1), &m, 1)) {
        add_to(rl, mark_at(rl, i - 1), n);
        return;
    }
    if (rl->len == rl->cap) {
        make_room(rl);
        i = count_until(rl, at_ms);
    }
    for (uint32_t k = rl->len; k > i; k--)
        *mark_at(rl, k) = *mark_at(rl, k - 1);
    *mark_at(rl, i) = m;
    rl->len++;
}

/* Returns the number of free permits while `logged` requests of the log still count. */
static uint32_t free_with(const struct pp_ratelimit *rl, uint64_t logged)
{
    if (rl->rpm == 0)
        return UINT32_MAX - rl->pending;
    uint64_t used = logged + rl->pending;
    return used >= rl->rpm ? 0 : (uint32_t)(rl->rpm - used);
}

void pp_ratelimit_init(struct pp_ratelimit *rl, uint32_t rpm)
{
    *rl = (struct pp_ratelimit){.rpm = rpm, .now_ms = INT64_MIN, .cap = PP_RATE_INLINE};
}

void pp_ratelimit_fini(struct pp_ratelimit *rl)
{
    free(rl->ring);
    pp_ratelimit_init(rl, rl->rpm);
}

void pp_ratelimit_set_rpm(struct pp_ratelimit *rl, uint32_t rpm)
{
    rl->rpm = rpm;
}

uint32_t pp_ratelimit_permits(struct pp_ratelimit *rl, int64_t now_ms)
{
    return pp_ratelimit_permits_at(rl, now_ms, now_ms);
}

uint32_t pp_ratelimit_permits_at(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms)
{
    advance(rl, now_ms);
    uint64_t logged = rl->logged;
    for (uint32_t i = 0; i < rl->len && mark_at(rl, i)->at_ms + PP_RATE_KEPT_MS <= at_ms; i++)
        logged -= mark_at(rl, i)->n;
    return free_with(rl, logged);
}

bool pp_ratelimit_admit(struct pp_ratelimit *rl, int64_t now_ms, uint32_t n)
{
    return pp_ratelimit_admit_at(rl, now_ms, now_ms, n);
}

bool pp_ratelimit_admit_at(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms, uint32_t n)
{
    if (pp_ratelimit_permits_at(rl, now_ms, at_ms) < n)
        return false;
    rl->pending += n;
    return true;
}

int64_t pp_ratelimit_ready_ms(struct pp_ratelimit *rl, int64_t now_ms, uint32_t without)
{
    pp_assert(without <= rl->pending, "more permits are left out than are pending");
    int64_t now = advance(rl, now_ms);
    uint64_t used = rl->logged + rl->pending - without;
    if (rl->rpm == 0 || used <= rl->rpm)
        return now;
    for (uint32_t i = 0; i < rl->len; i++) {
        used -= mark_at(rl, i)->n;
        if (used <= rl->rpm)
            return mark_at(rl, i)->at_ms + PP_RATE_KEPT_MS;
    }
    return INT64_MAX;
}

void pp_ratelimit_sent(struct pp_ratelimit *rl, int64_t now_ms, int64_t at_ms)
{
    pp_assert(rl->pending > 0, "a request counts that was not admitted");
    advance(rl, now_ms);
    rl->pending--;
    insert(rl, at_ms, 1);
}

void pp_ratelimit_earlier(struct pp_ratelimit *rl, int64_t at_ms, int64_t ms)
{
    uint32_t i = count_until(rl, at_ms);
    if (i == 0 || mark_at(rl, i - 1)->at_ms != at_ms || mark_at(rl, i - 1)->n == UINT32_MAX || ms <= 0)
        return;
    rl->logged--;
    if (--mark_at(rl, i - 1)->n == 0) {
        for (; i < rl->len; i++)
            *mark_at(rl, i - 1) = *mark_at(rl, i);
        rl->len--;
    }
    insert(rl, at_ms - ms, 1);
}

void pp_ratelimit_refund(struct pp_ratelimit *rl, uint32_t n)
{
    pp_assert(rl->pending >= n, "more permits are refunded than are pending");
    rl->pending -= n;
}

int64_t pp_ratelimit_next_ms(struct pp_ratelimit *rl, int64_t now_ms)
{
    int64_t now = advance(rl, now_ms);
    uint64_t logged = rl->logged;
    if (free_with(rl, logged) > 0)
        return now;
    for (uint32_t i = 0; i < rl->len; i++) {
        logged -= mark_at(rl, i)->n;
        if (free_with(rl, logged) > 0)
            return mark_at(rl, i)->at_ms + PP_RATE_KEPT_MS;
    }
    return INT64_MAX;
}

size_t pp_ratelimit_export(struct pp_ratelimit *rl, int64_t now_ms, struct pp_rate_mark *out, size_t cap)
{
    pp_assert(cap > 0, "a log is exported to nowhere");
    advance(rl, now_ms);
    /* Each mark that is written joins `per` marks of the log, and has the latest time of these. */
    size_t per = (rl->len + cap - 1) / cap, n = 0;
    for (uint32_t i = 0; i < rl->len; n++) {
        uint64_t sum = 0;
        int64_t at_ms = 0;
        for (size_t k = 0; k < per && i < rl->len; k++, i++) {
            at_ms = mark_at(rl, i)->at_ms;
            sum += mark_at(rl, i)->n;
        }
        out[n] = (struct pp_rate_mark){at_ms, sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum};
    }
    return n;
}

void pp_ratelimit_import(struct pp_ratelimit *rl, int64_t now_ms, const struct pp_rate_mark *marks, size_t n)
{
    int64_t now = advance(rl, now_ms);
    for (size_t i = 0; i < n; i++) {
        int64_t at_ms = marks[i].at_ms, latest = now + PP_RATE_AHEAD_MS;
        if (marks[i].n > 0 && at_ms > now - PP_RATE_KEPT_MS)
            insert(rl, at_ms < latest ? at_ms : latest, marks[i].n);
    }
}
