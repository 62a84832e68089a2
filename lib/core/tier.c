/* tier.c: finds tiers by timeout, and computes the limits of a transfer's phases. */
#include "core/tier.h"

#include "base/check.h"
#include "photopool/code.h"

uint8_t pp_tier_next(uint8_t tier, size_t n)
{
    return (size_t)tier + 1 < n ? (uint8_t)(tier + 1) : PP_TIER_NONE;
}

uint8_t pp_tier_cover(const struct pp_tier *tiers, size_t n, double ms)
{
    pp_assert(n >= 1 && n <= PP_TIERS_MAX, "no such list of tiers");
    uint8_t tier = 0;
    while ((size_t)tier + 1 < n && (double)tiers[tier].timeout_ms < ms)
        tier++;
    return tier;
}

uint32_t pp_tier_least_places(const struct pp_tier *tiers, size_t n, uint32_t served)
{
    uint32_t least = UINT32_MAX;

    for (size_t t = 0; t < n; t++)
        if ((served & 1u << t) && tiers[t].concurrency < least)
            least = tiers[t].concurrency;
    return least < UINT32_MAX ? least : 0;
}

struct pp_tier_limits pp_tier_limits(int64_t timeout_ms)
{
    int64_t slow = timeout_ms / 3;
    if (slow < PP_TIER_SLOW_MIN_MS)
        slow = PP_TIER_SLOW_MIN_MS;
    return (struct pp_tier_limits){
        .connect_ms = timeout_ms < PP_TIER_CONNECT_MAX_MS ? timeout_ms : PP_TIER_CONNECT_MAX_MS,
        .slow_ms = slow < timeout_ms ? slow : timeout_ms,
    };
}

uint16_t pp_tier_timeout_code(bool resolving, enum pp_phase phase)
{
    if (resolving)
        return PP_CODE_DNS_TEMPORARY;
    switch (phase) {
    case PP_PHASE_CONNECT: return PP_CODE_CONNECT_TIMEOUT;
    case PP_PHASE_FIRST_BYTE: return PP_CODE_FIRST_BYTE_TIMEOUT;
    case PP_PHASE_BODY: return PP_CODE_BODY_TIMEOUT;
    }
    return PP_CODE_INTERNAL;
}
