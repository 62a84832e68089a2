#include "core/places.h"

#include "base/check.h"

static uint32_t min_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t need(const struct pp_places *p)
{
    return p->in_flight + p->waiting;
}

/* Returns how many places the worker may use now. */
static uint32_t usable(const struct pp_places *p, int64_t now_ms)
{
    return now_ms < p->ends_ms ? p->held : 0;
}

static uint32_t wish(const struct pp_places *p, uint32_t limit, int64_t now_ms)
{
    return min_of(now_ms - p->peak_ms < PP_PLACES_IDLE_MS ? max_of(p->peak, need(p)) : need(p), limit);
}

/* Brings the peak up to date after a change of the need. */
static void note(struct pp_places *p, int64_t now_ms)
{
    if (need(p) < p->peak && now_ms - p->peak_ms < PP_PLACES_IDLE_MS)
        return;
    p->peak = need(p);
    p->peak_ms = p->peak_ms > now_ms ? p->peak_ms : now_ms;
}

/* --- requests of the worker --- */

bool pp_places_free(const struct pp_places *p, uint32_t limit, int64_t now_ms)
{
    return p->in_flight < min_of(usable(p, now_ms), limit);
}

void pp_places_wait(struct pp_places *p, int64_t now_ms)
{
    p->waiting++;
    note(p, now_ms);
}

void pp_places_wait_end(struct pp_places *p, int64_t now_ms)
{
    pp_assert(p->waiting > 0, "fewer requests wait for places than end to wait");
    note(p, now_ms); /* the need until now counts */
    p->waiting--;
}

void pp_places_turned_away(struct pp_places *p, int64_t in_ms, int64_t now_ms)
{
    pp_places_wait_end(p, now_ms);
    p->peak = max_of(p->peak, need(p) + 1);
    p->peak_ms = now_ms + in_ms;
}

void pp_places_begin(struct pp_places *p, int64_t now_ms)
{
    p->in_flight++;
    note(p, now_ms);
}

void pp_places_end(struct pp_places *p, int64_t now_ms)
{
    pp_assert(p->in_flight > 0, "more requests end than are in flight");
    note(p, now_ms);
    p->in_flight--;
}

/* --- requests to the coordinator --- */

static int64_t soonest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns how many places the coordinator still has to count, if the worker wants `want`. */
static uint32_t to_keep(const struct pp_places *p, uint32_t want, int64_t now_ms)
{
    return max_of(min_of(usable(p, now_ms), want), p->in_flight);
}

int64_t pp_places_due(const struct pp_places *p, uint32_t limit, const struct pp_places_lease *lease,
                      int64_t now_ms)
{
    uint32_t want = wish(p, limit, now_ms), held = usable(p, now_ms);
    int64_t due = INT64_MAX, renew = lease->lease_ms / 3;

    if (p->asking)
        return INT64_MAX;
    if (limit == 0 && p->counted > p->in_flight)
        return now_ms;
    if (want > held) /* more is wanted */
        due = p->pause_ms > 0 ? p->asked_ms + p->pause_ms : now_ms;
    if (p->counted > max_of(want, to_keep(p, want, now_ms))) /* there is something to give back */
        due = soonest(due, p->asked_ms + (p->pause_ms > 0 ? p->pause_ms : PP_PLACES_RETRY_MS));
    if (p->counted > 0)
        due = soonest(due, p->asked_ms + soonest(renew, PP_PLACES_RENEW_MS));
    if (need(p) < min_of(p->peak, limit) && p->counted > need(p))
        due = soonest(due, p->peak_ms + PP_PLACES_IDLE_MS);
    return due > now_ms ? due : now_ms;
}

void pp_places_ask(struct pp_places *p, uint32_t limit, int64_t now_ms)
{
    pp_assert(!p->asking, "two requests for places of a host are in flight");
    p->want = wish(p, limit, now_ms);
    p->keep = to_keep(p, p->want, now_ms);
    p->held = min_of(usable(p, now_ms), p->want);
    p->asked_ms = now_ms;
    p->asking = true;
    /* carried out or not, the coordinator counts no more than this */
    p->counted = max_of(p->counted, max_of(p->want, p->keep));
}

/* After a request that got all, the next one need not wait. */
static void pause(struct pp_places *p, bool got_all)
{
    if (got_all)
        p->pause_ms = 0;
    else if (p->pause_ms == 0)
        p->pause_ms = PP_PLACES_RETRY_MS;
    else
        p->pause_ms = soonest(2 * p->pause_ms, PP_PLACES_RETRY_MAX_MS);
}

void pp_places_answer(struct pp_places *p, uint32_t got, const struct pp_places_lease *lease)
{
    pp_assert(p->asking && got <= p->want, "an answer to no request, or with more than was wanted");
    p->asking = false;
    p->held = got;
    p->counted = max_of(got, p->keep);
    p->ends_ms = p->asked_ms + lease->use_ms;
    pause(p, got >= p->want);
}

void pp_places_failed(struct pp_places *p)
{
    pp_assert(p->asking, "a request for places fails that is not in flight");
    p->asking = false;
    pause(p, false);
}

bool pp_places_unused(const struct pp_places *p, const struct pp_places_lease *lease, int64_t now_ms)
{
    bool counted = p->counted > 0 && now_ms - p->asked_ms < lease->lease_ms;
    return need(p) == 0 && !counted && !p->asking && now_ms - p->peak_ms >= PP_PLACES_IDLE_MS;
}
