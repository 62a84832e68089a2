/* tier.c: see tier.h. */
#include "core/tier.h"

#include <assert.h>

#include "photopool/code.h"

bool pp_tiers_valid(const struct pp_tier *tiers, size_t n)
{
    if (n < 1 || n > PP_TIERS_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (tiers[i].concurrency == 0)
            return false;
        if (tiers[i].timeout_ms <= (i > 0 ? tiers[i - 1].timeout_ms : 0))
            return false;
    }
    return true;
}

uint8_t pp_tier_next(uint8_t tier, size_t n)
{
    return (size_t)tier + 1 < n ? (uint8_t)(tier + 1) : PP_TIER_NONE;
}

uint8_t pp_tier_cover(const struct pp_tier *tiers, size_t n, double ms)
{
    assert(n >= 1 && n <= PP_TIERS_MAX);
    uint8_t tier = 0;
    while ((size_t)tier + 1 < n && (double)tiers[tier].timeout_ms < ms)
        tier++;
    return tier;
}

struct pp_tier_limits pp_tier_limits(int64_t timeout_ms)
{
    int64_t slow = timeout_ms / 3;
    if (slow < PP_TIER_SLOW_MIN_MS)
        slow = PP_TIER_SLOW_MIN_MS;
    return (struct pp_tier_limits){
        .connect_ms = timeout_ms < PP_TIER_CONNECT_MAX_MS ? timeout_ms : PP_TIER_CONNECT_MAX_MS,
        .first_byte_ms = timeout_ms,
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
