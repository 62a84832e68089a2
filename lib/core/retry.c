/* retry.c: decides how a task continues after a failed attempt. */
#include "core/retry.h"

#include "core/retry_after.h"
#include "core/tier.h"
#include "photopool/code.h"

/* Returns a random number in 0..most. */
static int64_t jitter(int64_t most, uint64_t rnd)
{
    return most > 0 ? (int64_t)(rnd % ((uint64_t)most + 1)) : 0;
}

static int64_t step(const struct pp_retry_params *p, uint32_t attempts_done)
{
    if (p->n_delays == 0)
        return 0;
    size_t i = attempts_done > 0 ? attempts_done - 1 : 0;
    int64_t delay = p->delays_ms[i < p->n_delays ? i : p->n_delays - 1];
    return delay > 0 ? delay : 0;
}

struct pp_retry_decision pp_retry_decide(uint16_t code, uint32_t attempts_done, uint8_t tier, uint8_t n_tiers,
                                         int64_t retry_after_ms, const struct pp_retry_params *p,
                                         uint64_t rnd)
{
    struct pp_retry_decision d = {.what = PP_RETRY_FINAL, .tier = tier};
    enum pp_retry_class retry = pp_code_info(code)->retry;
    if (retry == PP_FINAL || attempts_done >= p->max_attempts)
        return d;
    if (retry == PP_PROMOTE) {
        uint8_t next = pp_tier_next(tier, n_tiers);
        if (next == PP_TIER_NONE)
            return d;
        d.what = PP_RETRY_PROMOTE;
        d.tier = next;
        return d;
    }
    int64_t most = step(p, attempts_done), certain = 0;
    if (retry_after_ms >= 0)
        certain = retry_after_ms < PP_RETRY_AFTER_MAX_MS ? retry_after_ms : PP_RETRY_AFTER_MAX_MS;
    else if (retry == PP_WAIT) {
        certain = most / 2;
        most -= certain;
    }
    d.what = PP_RETRY_LATER;
    d.delay_ms = certain + jitter(most, rnd);
    return d;
}

int64_t pp_retry_longest_ms(const struct pp_retry_params *p)
{
    int64_t longest = 0;
    for (size_t i = 0; i < p->n_delays; i++)
        longest = p->delays_ms[i] > longest ? p->delays_ms[i] : longest;
    return PP_RETRY_AFTER_MAX_MS + longest;
}
