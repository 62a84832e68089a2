/* route.h: learns which tier a (client, domain) belongs to, from a mean of its transfer times in
 * which recent times weigh more.
 *
 * A sample is a transfer that was answered, with any status, or that timed out. A sample loses half
 * its weight in half_life_ms. A timeout counts as the tier's timeout times the margin. That is
 * longer than fits into the tier, so a host that always times out moves to a higher tier.
 *
 * Two rules correct the mean. First: a transfer that timed out would have taken longer, nobody
 * knows how much. So if transfers timed out in a tier lately and none was quick enough for it,
 * older samples are dropped, and the mean is at least that tier's timeout times the margin. Second:
 * all old samples together never weigh less than one new sample, so the first transfer after a
 * quiet night does not decide alone.
 *
 * The tier is the shortest whose timeout is at least mean x margin. A change to a shorter tier
 * requires a timeout of at least mean x margin x PP_ROUTE_DOWN, so that a host near the border does
 * not flap.
 *
 * Workers gather samples in batches; the cron merges the batches and decides. Times are ms. Only
 * one thread at a time may use a route. */
#ifndef PHOTOPOOL_CORE_ROUTE_H
#define PHOTOPOOL_CORE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tier.h"

#define PP_ROUTE_DOWN 1.25

struct pp_route_params {
    uint32_t min_samples;
    double margin; /* factor, at least 1: a tier's timeout must be at least the mean times this */
    int64_t half_life_ms;
};

/* One transfer, as a sample. */
struct pp_route_sample {
    uint8_t tier; /* the transfer ran in this tier */
    bool first;   /* true: the transfer was the task's first attempt */
    bool timed_out;
    int64_t ms; /* duration of the transfer, or the time after which it was given up */
};

/* Samples of one (client, domain), summed. All zero: none. */
struct pp_route_batch {
    uint32_t count;
    double sum_ms;
    uint8_t over; /* bit t is set if a transfer timed out in tier t */
    /* Bit t is set if tier t is the shortest tier that a transfer's time fits; the transfer may
     * have run in another tier. */
    uint8_t done;
};

/* A learned route. All zero: nothing is known, and the tier is 0. All members before `lately` are
 * saved. */
struct pp_route {
    /* weighted sums, decayed to updated_ms; the mean is value_sum / weight_sum */
    double weight_sum, value_sum;
    int64_t updated_ms;
    uint8_t tier;
    uint32_t samples;             /* number of samples so far */
    struct pp_route_batch lately; /* samples since the last decision that used them */
};

/* Adds one transfer to a batch of samples. */
void pp_route_batch_add(struct pp_route_batch *batch, const struct pp_tier *tiers, size_t n, double margin,
                        struct pp_route_sample s);

/* Adds the samples of a batch to the route at now_ms. */
void pp_route_merge(struct pp_route *r, const struct pp_route_params *p, const struct pp_route_batch *batch,
                    int64_t now_ms);

/* Adds one sample to the route: pp_route_batch_add() and pp_route_merge() in one call. */
void pp_route_add(struct pp_route *r, const struct pp_tier *tiers, size_t n, const struct pp_route_params *p,
                  struct pp_route_sample s, int64_t now_ms);

/* Returns the mean in ms; 0: there are no samples. */
double pp_route_mean_ms(const struct pp_route *r);

/* Decides the tier for new tasks, sets r->tier and returns it. The tier does not change before
 * there are min_samples samples. If the tier no longer exists, the last tier replaces it. */
uint8_t pp_route_decide(struct pp_route *r, const struct pp_tier *tiers, size_t n,
                        const struct pp_route_params *p);

/* Returns the tier that the first samples suggest, while a new host is probed: the shortest tier
 * whose timeout is at least mean x margin. Returns r->tier if there are no samples. */
uint8_t pp_route_early(const struct pp_route *r, const struct pp_tier *tiers, size_t n,
                       const struct pp_route_params *p);

#endif
