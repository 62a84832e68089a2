/* breaker.c: the states of a breaker, and the tests that open it. */
#include "core/breaker.h"

#include <math.h>

#include "base/check.h"

/* --- statistics --- */

/* Returns part x ln(part / expected); 0 for a part of 0. */
static double g_part(double part, double expected)
{
    return part > 0 ? part * log(part / expected) : 0;
}

/* Returns G of the table {bad, n - bad; share x usual_n, (1 - share) x usual_n}. */
static double g_value(double bad, double n, double share, double usual_n)
{
    double usual_bad = share * usual_n, all = (bad + usual_bad) / (n + usual_n);
    return 2 * (g_part(bad, n * all) + g_part(n - bad, n * (1 - all)) + g_part(usual_bad, usual_n * all) +
                g_part(usual_n - usual_bad, usual_n * (1 - all)));
}

/* Returns true if `bad` of n outcomes are more than chance explains. */
static bool significant(double bad, double n, double share, double usual_n, double answers)
{
    if (n <= 0 || usual_n <= 0 || bad / n <= share)
        return false;
    return g_value(bad, n, share, usual_n) >= PP_BREAKER_G + 2 * log(answers > 1 ? answers : 1);
}

/* Returns the share of bad outcomes, of n, from which on there are too many. */
static double limit_of(bool known, double share, double deviation, double n)
{
    if (!known)
        return PP_BREAKER_SHARE_FIRST;
    double limit = share + PP_BREAKER_DEVIATIONS * fmax(deviation, sqrt(share * (1 - share) / n));
    return fmin(fmax(limit, PP_BREAKER_SHARE), 1);
}

/* --- what opens a closed breaker --- */

static bool unreachable(const struct pp_host_stats *s)
{
    const struct pp_host_usual *u = &s->usual;
    double run = s->runs.connect;
    return run >= PP_BREAKER_RUN && (!u->known || significant(run, run, u->connect, u->answers, u->answers));
}

static bool errors(const struct pp_host_stats *s, int64_t now_ms)
{
    const struct pp_host_usual *u = &s->usual;
    struct pp_host_counts w = pp_host_window(s, now_ms);
    double n = w.answers, run = s->runs.failed;
    if (n < PP_HOST_WINDOW_MIN || w.failures / n < limit_of(u->known, u->failed, u->failed_deviation, n))
        return false;
    if (!u->known)
        return true;
    return significant(w.failures, n, u->failed, u->answers, u->answers) ||
           significant(run, run, u->failed, u->answers, u->answers);
}

/* Counts the photos of the window that were decided, and returns the share of absent ones. */
static double absent_share(const struct pp_host_stats *s, int64_t now_ms, double *photos)
{
    struct pp_host_counts w = pp_host_photo_window(s, now_ms);
    *photos = w.answers - w.failures;
    return *photos > 0 ? w.absent / *photos : 0;
}

/* Returns the usual absent share of the host. Without a closed slice it is that of the photos
 * before the latest absent ones in a row; 1 if there are none: a host that has never had a photo is
 * the merchant's fault. */
static double usual_absent(const struct pp_host_stats *s)
{
    struct pp_host_counts open = pp_host_open(s);
    double before = open.answers - open.failures - (double)s->runs.absent;

    if (s->usual.decided > 0)
        return s->usual.absent;
    return before > 0 ? (open.absent - (double)s->runs.absent) / before : 1;
}

/* Returns true if `bad` of n photos are too many absent ones. */
static bool too_absent(const struct pp_host_usual *u, double bad, double n)
{
    return n >= PP_BREAKER_PHOTOS && bad / n >= PP_BREAKER_ABSENT_NOW &&
           (u->decided == 0 || significant(bad, n, u->absent, u->decided, u->decided));
}

/* The window may hold many photos that a busy host had until a moment ago. The photos in a row show
 * that it has none any more. */
static bool absent(struct pp_breaker *b, const struct pp_host_stats *s, int64_t now_ms)
{
    const struct pp_host_usual *u = &s->usual;
    double photos, share = absent_share(s, now_ms, &photos), run = s->runs.absent;
    if (photos >= PP_BREAKER_PHOTOS && share < PP_BREAKER_ABSENT_USUAL)
        b->believed = false;
    return !b->believed && usual_absent(s) < PP_BREAKER_ABSENT_USUAL &&
           (too_absent(u, share * photos, photos) || too_absent(u, run, run));
}

/* --- changes of state --- */

static void enter(struct pp_breaker *b, struct pp_host_stats *s, enum pp_breaker_state state, int64_t now_ms)
{
    if (b->state == PP_BREAKER_CLOSED)
        b->opened_ms = now_ms;
    b->state = state;
    b->since_ms = now_ms;
    b->next_probe_ms = 0;
    pp_host_restart(s);
}

static void close_breaker(struct pp_breaker *b, struct pp_host_stats *s, int64_t now_ms)
{
    enter(b, s, PP_BREAKER_CLOSED, now_ms);
    b->reason = PP_BREAKER_NO_REASON;
    b->opened_ms = b->interval_ms = 0;
}

static void open_breaker(struct pp_breaker *b, struct pp_host_stats *s, enum pp_breaker_reason reason,
                         int64_t interval_ms, int64_t now_ms)
{
    enter(b, s, PP_BREAKER_OPEN, now_ms);
    b->reason = reason;
    b->interval_ms = interval_ms < PP_BREAKER_PROBE_MAX_MS ? interval_ms : PP_BREAKER_PROBE_MAX_MS;
    b->next_probe_ms = now_ms + b->interval_ms;
}

static bool step_closed(struct pp_breaker *b, struct pp_host_stats *s, int64_t believe_ms, int64_t now_ms)
{
    enum pp_breaker_reason reason = PP_BREAKER_NO_REASON;
    if (unreachable(s))
        reason = PP_BREAKER_UNREACHABLE;
    else if (errors(s, now_ms))
        reason = PP_BREAKER_ERRORS;
    else if (believe_ms > 0 && absent(b, s, now_ms))
        reason = PP_BREAKER_ABSENT;
    if (reason == PP_BREAKER_NO_REASON)
        return false;
    open_breaker(b, s, reason, PP_BREAKER_PROBE_MS, now_ms);
    return true;
}

static bool step_open(struct pp_breaker *b, struct pp_host_stats *s, int64_t now_ms)
{
    /* A longer wait than the interval means that the clock has stepped back. */
    if (b->next_probe_ms - now_ms > b->interval_ms)
        b->next_probe_ms = now_ms + b->interval_ms;
    if (now_ms < b->next_probe_ms)
        return false;
    enter(b, s, PP_BREAKER_HALF_OPEN, now_ms);
    return true;
}

/* Returns how many of the outcomes since the breaker became half-open are bad. */
static double bad_of(const struct pp_breaker *b, const struct pp_host_stats *s)
{
    return (double)s->fresh.failures + (b->reason == PP_BREAKER_ABSENT ? s->fresh.absent : 0);
}

/* Returns the usual share of outcomes that would be bad. */
static double usually_bad(const struct pp_breaker *b, const struct pp_host_usual *u)
{
    return b->reason == PP_BREAKER_ABSENT ? u->failed + (1 - u->failed) * u->absent : u->failed;
}

/* Returns true if the outcomes since the breaker became half-open open it again. */
static bool failed_again(const struct pp_breaker *b, const struct pp_host_stats *s)
{
    const struct pp_host_usual *u = &s->usual;
    double bad = bad_of(b, s), n = s->fresh.answers, usual = usually_bad(b, u);
    if (bad == 0)
        return false;
    if (bad == n) /* chance explains that, unless it is rare */
        return !u->known || bad >= PP_BREAKER_PROBES_MAX || pow(usual, bad) <= PP_BREAKER_CHANCE;
    return bad / n >= limit_of(u->known, usual, u->failed_deviation, n);
}

static bool step_half_open(struct pp_breaker *b, struct pp_host_stats *s, int64_t now_ms)
{
    if (failed_again(b, s)) {
        bool forced = b->reason == PP_BREAKER_OPERATOR;
        open_breaker(b, s, forced ? PP_BREAKER_ERRORS : b->reason,
                     forced ? PP_BREAKER_PROBE_MS : b->interval_ms * 2, now_ms);
        return true;
    }
    if (s->fresh.answers - bad_of(b, s) < PP_BREAKER_SUCCESSES)
        return false;
    close_breaker(b, s, now_ms);
    return true;
}

/* Returns when absent photos have to be believed; INT64_MAX: the breaker is not open for them. */
static int64_t believe_at(const struct pp_breaker *b, int64_t believe_ms)
{
    bool waits = b->state != PP_BREAKER_CLOSED && b->reason == PP_BREAKER_ABSENT;
    return waits ? b->opened_ms + believe_ms : INT64_MAX;
}

bool pp_breaker_step(struct pp_breaker *b, struct pp_host_stats *stats, int64_t believe_ms, int64_t now_ms)
{
    pp_host_advance(stats, now_ms);
    if (b->forced != PP_BREAKER_AUTO)
        return b->forced_until_ms > 0 && now_ms >= b->forced_until_ms &&
               pp_breaker_force(b, stats, PP_BREAKER_AUTO, 0, now_ms);
    if (now_ms >= believe_at(b, believe_ms)) {
        close_breaker(b, stats, now_ms);
        b->believed = true;
        return true;
    }
    switch (b->state) {
    case PP_BREAKER_CLOSED: return step_closed(b, stats, believe_ms, now_ms);
    case PP_BREAKER_OPEN: return step_open(b, stats, now_ms);
    default: return step_half_open(b, stats, now_ms);
    }
}

bool pp_breaker_force(struct pp_breaker *b, struct pp_host_stats *stats, enum pp_breaker_action action,
                      int64_t for_ms, int64_t now_ms)
{
    enum pp_breaker_action before = b->forced;
    int64_t until_ms = action != PP_BREAKER_AUTO && for_ms > 0 ? now_ms + for_ms : 0;
    if (action == PP_BREAKER_AUTO && before == PP_BREAKER_AUTO && b->state == PP_BREAKER_OPEN) {
        enter(b, stats, PP_BREAKER_HALF_OPEN, now_ms); /* the operator asks for a probe now */
        return true;
    }
    if (before == action && b->forced_until_ms == until_ms)
        return false;
    b->forced = action;
    b->forced_until_ms = until_ms;
    if (before == action) { /* only the end is another one */
        b->next_probe_ms = action == PP_BREAKER_FORCE_OPEN ? until_ms : 0;
    } else if (action == PP_BREAKER_FORCE_OPEN) {
        open_breaker(b, stats, PP_BREAKER_OPERATOR, PP_BREAKER_PROBE_MS, now_ms);
        b->next_probe_ms = until_ms;
    } else if (action == PP_BREAKER_FORCE_CLOSED) {
        close_breaker(b, stats, now_ms);
    } else if (before == PP_BREAKER_FORCE_OPEN) {
        enter(b, stats, PP_BREAKER_HALF_OPEN, now_ms);
    } else {
        pp_host_restart(stats); /* outcomes while it was forced closed open it no more */
    }
    return true;
}

uint32_t pp_breaker_allowance(const struct pp_breaker *b, const struct pp_host_stats *stats)
{
    if (b->state == PP_BREAKER_CLOSED)
        return UINT32_MAX;
    if (b->state == PP_BREAKER_OPEN)
        return 0;
    double good = stats->fresh.answers - bad_of(b, stats);
    uint32_t allowance = 1;
    while (allowance < PP_BREAKER_SUCCESSES && allowance * 2 <= good + 1)
        allowance *= 2;
    return allowance;
}

int64_t pp_breaker_next_ms(const struct pp_breaker *b, int64_t believe_ms)
{
    if (b->forced != PP_BREAKER_AUTO)
        return b->forced_until_ms > 0 ? b->forced_until_ms : INT64_MAX;
    int64_t probe = b->state == PP_BREAKER_OPEN ? b->next_probe_ms : INT64_MAX;
    int64_t believe = believe_at(b, believe_ms);
    return probe < believe ? probe : believe;
}

const char *pp_breaker_state_name(enum pp_breaker_state state)
{
    static const char *const names[PP_BREAKER_STATES] = {"closed", "open", "half_open"};
    pp_assert(state < PP_BREAKER_STATES, "no such state of a breaker");
    return names[state];
}

const char *pp_breaker_reason_name(enum pp_breaker_reason reason)
{
    static const char *const names[PP_BREAKER_REASONS] = {NULL, "errors", "unreachable", "absent",
                                                          "operator"};
    pp_assert(reason < PP_BREAKER_REASONS, "no such reason of a breaker");
    return names[reason];
}

const char *pp_breaker_forced_name(enum pp_breaker_action forced)
{
    return forced == PP_BREAKER_FORCE_OPEN ? "open" : forced == PP_BREAKER_FORCE_CLOSED ? "closed" : NULL;
}
