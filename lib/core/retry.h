/* retry.h: what happens to a task after a failed attempt. The failure's row in code.h says which of three:
 *
 *   FINAL    the task ends with this code: another attempt would fail the same, or there are no more
 *   PROMOTE  a timeout: the next tier, at once. It counts as an attempt. After the last tier: FINAL
 *   LATER    the same tier, after a delay
 *
 * The delay after attempt i is random in 0..delays[i-1] (the last one from there on): "full jitter", so that
 * what failed together does not come back together. Where the host asked for patience (429, 503) half of the
 * delay is certain ("equal jitter"). Where it said Retry-After, with whatever code, the delay is that and a
 * full jitter on top: never sooner. Source: Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture
 * Blog, 2015. */
#ifndef PHOTOPOOL_CORE_RETRY_H
#define PHOTOPOOL_CORE_RETRY_H

#include <stddef.h>
#include <stdint.h>

struct pp_retry_params {
    uint32_t max_attempts; /* in all, promotions included */
    const int64_t *delays_ms;
    size_t n_delays; /* 0: no delay */
};

enum pp_retry_what { PP_RETRY_FINAL, PP_RETRY_PROMOTE, PP_RETRY_LATER };

struct pp_retry_decision {
    enum pp_retry_what what;
    uint8_t tier;     /* of the next attempt; the present one where FINAL */
    int64_t delay_ms; /* LATER; else 0 */
};

/* code: why attempt number attempts_done (from 1) failed in `tier` of n_tiers. retry_after_ms: what the host
 * asked for, -1 if nothing; cut to one hour. rnd: a random number. */
struct pp_retry_decision pp_retry_decide(uint16_t code, uint32_t attempts_done, uint8_t tier, uint8_t n_tiers,
                                         int64_t retry_after_ms, const struct pp_retry_params *p,
                                         uint64_t rnd);

#endif
