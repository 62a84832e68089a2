/* retry.h: decides how a task continues after a failed attempt, by the failure's row in code.h:
 *
 *   FINAL    the task ends with this code: another attempt would fail alike, or none is left
 *   PROMOTE  a timeout: the next tier, at once. It counts as an attempt. After the last tier: FINAL
 *   LATER    the same tier, after a delay
 *
 * The delay after attempt i is random in 0..delays[i-1]; attempts beyond the list use its last
 * entry. This "full jitter" spreads tasks that failed at the same moment. If the host answered 429
 * or 503, half of the delay is fixed and half random ("equal jitter"). If the host sent
 * Retry-After, the delay is that time plus a full jitter. Source: Marc Brooker, "Exponential
 * Backoff And Jitter", AWS Architecture Blog, 2015. */
#ifndef PHOTOPOOL_CORE_RETRY_H
#define PHOTOPOOL_CORE_RETRY_H

#include <stddef.h>
#include <stdint.h>

struct pp_retry_params {
    uint32_t max_attempts; /* a task has at most this many attempts, promotions included */
    const int64_t *delays_ms;
    size_t n_delays; /* number of delays; 0: tasks are retried without delay */
};

enum pp_retry_what { PP_RETRY_FINAL, PP_RETRY_PROMOTE, PP_RETRY_LATER };

struct pp_retry_decision {
    enum pp_retry_what what;
    uint8_t tier;     /* tier of the next attempt; the tier of the failed attempt if FINAL */
    int64_t delay_ms; /* delay in ms before the next attempt if LATER; otherwise 0 */
};

/* Decides what follows after attempt number attempts_done (from 1) failed with `code` in `tier` of
 * n_tiers. retry_after_ms is the wait that the host asked for, at most one hour; -1 if none. rnd is
 * a random number. */
struct pp_retry_decision pp_retry_decide(uint16_t code, uint32_t attempts_done, uint8_t tier, uint8_t n_tiers,
                                         int64_t retry_after_ms, const struct pp_retry_params *p,
                                         uint64_t rnd);

/* Returns the longest delay that pp_retry_decide() can return. */
int64_t pp_retry_longest_ms(const struct pp_retry_params *p);

#endif
