/* route.h: learns which tier a (client, domain) belongs to: a recency-weighted mean of its transfer times.
 *
 * Each transfer that an answer came from, whatever its status, and each that timed out is a sample. A sample
 * loses half its weight in half_life_ms (exponential decay), so that the mean follows the host. A timeout
 * counts as the whole tier that it overran, times the margin: longer than fits there, so a host that always
 * times out moves up.
 *
 * Two things keep the mean honest. Where lately some timed out in a tier and none was quick enough to fit it,
 * what was known before is dropped and the mean is at least that tier's timeout times the margin: timeouts
 * are cut off, and many of them must not hide how slow the host is. And old samples together never weigh less
 * than one new one: a route that rested overnight is not thrown over by its first transfer.
 *
 * The tier is the shortest that covers mean x margin. On the way down the next tier must cover even
 * mean x margin x PP_ROUTE_DOWN, so that a host on the border does not flap.
 *
 * Workers gather samples in batches; the cron merges them and decides. Times are milliseconds; one thread at
 * a time. */
#ifndef PHOTOPOOL_CORE_ROUTE_H
#define PHOTOPOOL_CORE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tier.h"

#define PP_ROUTE_DOWN 1.25

struct pp_route_params {
    uint32_t min_samples;
    double margin; /* at least 1 */
    int64_t half_life_ms;
};

/* One transfer. */
struct pp_route_sample {
    uint8_t tier; /* it ran in */
    bool first;   /* the task's first attempt */
    bool timed_out;
    int64_t ms; /* it took, or until it was given up */
};

/* Samples of one (client, domain). Zeros: none. */
struct pp_route_batch {
    uint32_t count;
    double sum_ms;
    uint8_t over; /* bit t: one timed out in tier t */
    uint8_t done; /* bit t: one took so long that t is the shortest tier it fits, whichever it ran in */
};

/* Zeros: nothing is known, tier 0. To persist: the first five; `lately` may be lost. */
struct pp_route {
    double weight_sum, value_sum; /* decayed to updated_ms; mean = value_sum / weight_sum */
    int64_t updated_ms;
    uint8_t tier;
    uint32_t samples;             /* ever */
    struct pp_route_batch lately; /* since the last decision that had enough of them */
};

/* Adds one transfer to a batch. */
void pp_route_batch_add(struct pp_route_batch *batch, const struct pp_tier *tiers, size_t n, double margin,
                        struct pp_route_sample s);

/* Adds a batch's samples, as of now_ms. */
void pp_route_merge(struct pp_route *r, const struct pp_route_params *p, const struct pp_route_batch *batch,
                    int64_t now_ms);

/* One sample: pp_route_batch_add() and pp_route_merge(). */
void pp_route_add(struct pp_route *r, const struct pp_tier *tiers, size_t n, const struct pp_route_params *p,
                  struct pp_route_sample s, int64_t now_ms);

/* The mean in ms, 0 where there are no samples. */
double pp_route_mean_ms(const struct pp_route *r);

/* Decides the tier for new tasks, sets r->tier and returns it. With fewer than min_samples it stays. A tier
 * beyond n (the list has become shorter) is taken as the last. */
uint8_t pp_route_decide(struct pp_route *r, const struct pp_tier *tiers, size_t n,
                        const struct pp_route_params *p);

/* What the first samples say, for tasks held back while a new host is probed: r->tier without any, else the
 * shortest tier that covers mean x margin. Changes nothing. */
uint8_t pp_route_early(const struct pp_route *r, const struct pp_tier *tiers, size_t n,
                       const struct pp_route_params *p);

#endif
