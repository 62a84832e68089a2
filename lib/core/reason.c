/* reason.c: see reason.h. */
#include "core/reason.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define X(id, name) name,
    PP_REASONS(X)
#undef X
};

const char *pp_reason_name(enum pp_reason reason)
{
    pp_assert((unsigned)reason < PP_REASON_COUNT, "a photo is open for an unknown reason");
    return names[reason];
}

bool pp_reason_serves(const char *tiers, int64_t timeout_ms)
{
    if (strcmp(tiers, "all") == 0)
        return true;
    for (char *end; *tiers; tiers = *end == ',' ? end + 1 : end) {
        double seconds = strtod(tiers, &end);
        if (end == tiers)
            return false;
        if (llround(seconds * 1000) == timeout_ms)
            return true;
    }
    return false;
}

enum pp_reason pp_reason_of(const struct pp_reason_facts *f, uint8_t queue, enum pp_wait_class class)
{
    uint32_t bit = UINT32_C(1) << queue;

    if (class == PP_WAIT_CLAIMED)
        return PP_REASON_IN_FLIGHT;
    if (f->paused)
        return PP_REASON_PAUSED;
    if (f->unserved & bit)
        return PP_REASON_UNSERVED;
    switch (class) {
    case PP_WAIT_HELD:
    case PP_WAIT_PARKED: return PP_REASON_HOST;
    case PP_WAIT_RETRY: return PP_REASON_RETRY;
    case PP_WAIT_OVERDUE:
        /* Suspects run one at a time, so they wait for each other. */
        return f->busy & bit || queue == PP_QUEUE_SUSPECT ? PP_REASON_QUEUED : PP_REASON_LIMIT;
    default: return PP_REASON_QUEUED;
    }
}

int64_t pp_reason_start(const struct pp_reason_facts *f, enum pp_reason reason, enum pp_wait_class class,
                        int64_t due_ms)
{
    int64_t due = due_ms > f->now_ms ? due_ms : f->now_ms;

    switch (reason) {
    case PP_REASON_IN_FLIGHT:
    case PP_REASON_PAUSED:
    case PP_REASON_UNSERVED: return 0;
    case PP_REASON_HOST: return class == PP_WAIT_HELD ? 0 : due;
    case PP_REASON_LIMIT: return f->permit_ms == 0 || f->permit_ms > due ? f->permit_ms : due;
    default: return due;
    }
}

/* Counts a group of photos. `unknown` becomes true if nobody knows when they start, although they
 * may start before all others. */
static void add_group(struct pp_reasons *out, const struct pp_reason_facts *f, uint8_t queue,
                      enum pp_wait_class class, const struct pp_wait_group *g, bool *unknown)
{
    enum pp_reason reason = pp_reason_of(f, queue, class);
    int64_t start = pp_reason_start(f, reason, class, g->first_ms);

    out->photos[reason] += g->photos;
    out->held = out->held || (reason == PP_REASON_HOST && start == 0);
    *unknown = *unknown || (start == 0 && (reason == PP_REASON_LIMIT || reason == PP_REASON_HOST));
    if (start > 0 && (out->next_ms == 0 || start < out->next_ms))
        out->next_ms = start;
    if (start > 0 && g->last_ms > f->now_ms && g->last_ms + f->transfer_ms[queue] > out->last_ms)
        out->last_ms = g->last_ms + f->transfer_ms[queue];
    if (reason == PP_REASON_IN_FLIGHT && f->now_ms + f->transfer_ms[queue] > out->last_ms)
        out->last_ms = f->now_ms + f->transfer_ms[queue];
}

/* Scales the numbers so that they add up to `open`. */
static void scale(uint64_t *photos, uint64_t counted, uint64_t open)
{
    uint64_t sum = 0;
    size_t largest = 0;

    for (size_t i = 0; i < PP_REASON_COUNT; i++) {
        photos[i] = (uint64_t)((double)photos[i] / (double)counted * (double)open);
        sum += photos[i];
        largest = photos[i] > photos[largest] ? i : largest;
    }
    if (sum <= open) /* what rounding has left over */
        photos[largest] += open - sum;
    else
        photos[largest] -= sum - open < photos[largest] ? sum - open : photos[largest];
}

void pp_reasons_of(struct pp_reasons *out, const struct pp_reason_facts *f, const struct pp_waits *waits,
                   uint64_t open)
{
    bool unknown = false;

    *out = (struct pp_reasons){.next_ms = 0};
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        for (int c = 0; c < PP_WAIT_CLASSES; c++)
            if (waits->at[q][c].photos > 0)
                add_group(out, f, q, (enum pp_wait_class)c, &waits->at[q][c], &unknown);
    if (unknown && out->next_ms > f->now_ms)
        out->next_ms = 0;
    if (waits->photos > open || waits->more)
        scale(out->photos, waits->photos, open);
    else
        out->photos[f->paused ? PP_REASON_PAUSED : PP_REASON_QUEUED] += open - waits->photos;
}

double pp_reasons_eta(const struct pp_reasons *r, const struct pp_reason_facts *f, uint64_t open, double rate)
{
    double due = r->last_ms > f->now_ms ? (double)(r->last_ms - f->now_ms) / 1000.0 : 0;
    double pace = -1;

    if (open == 0)
        return 0;
    if (r->held || r->photos[PP_REASON_PAUSED] > 0 || r->photos[PP_REASON_UNSERVED] > 0)
        return -1;
    if (r->photos[PP_REASON_LIMIT] > 0 && f->rpm > 0)
        pace = (double)open * 60.0 / f->rpm;
    else if (rate > 0)
        pace = (double)open / rate;
    else if (r->photos[PP_REASON_QUEUED] == 0 && r->photos[PP_REASON_LIMIT] == 0)
        pace = 0;
    if (pace < 0)
        return -1;
    /* While photos are settled, those in flight end at that rate, and not at their timeout. */
    if (rate > 0 && r->photos[PP_REASON_RETRY] == 0 && r->photos[PP_REASON_HOST] == 0)
        due = 0;
    return ceil(pace > due ? pace : due);
}
