/* tier.h: tiers are pools of transfers with one total timeout each (1, 5 and 30 s by default),
 * shortest first.
 *
 * A tier is named by its index. A transfer that takes longer than its tier allows is given up and
 * tried in the next tier, so slow hosts fill only the slow pools. The phases of a transfer have
 * shorter limits derived from the total (pp_tier_limits), so that a transfer that cannot succeed is
 * given up early. */
#ifndef PHOTOPOOL_CORE_TIER_H
#define PHOTOPOOL_CORE_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/port/fetcher.h"

#define PP_TIERS_MAX 8
/* A tier number that means: no tier. */
#define PP_TIER_NONE UINT8_MAX

struct pp_tier {
    int64_t timeout_ms;   /* time for a whole transfer: look-up, connect, redirects and body */
    uint32_t concurrency; /* the tier has at most this many transfers in flight */
};

/* Returns the tier after `tier`, or PP_TIER_NONE if `tier` is the last of the n tiers. */
uint8_t pp_tier_next(uint8_t tier, size_t n);

/* Returns the shortest tier whose timeout is at least ms, or the last tier if every timeout is
 * shorter. */
uint8_t pp_tier_cover(const struct pp_tier *tiers, size_t n, double ms);

/* Returns the number of transfers that the smallest of the tiers in the mask `served` may have in
 * flight: so many of one client's transfers find room, whatever its tier is. 0: none is served. */
uint32_t pp_tier_least_places(const struct pp_tier *tiers, size_t n, uint32_t served);

struct pp_tier_limits {
    /* Limit for TCP and TLS: the total timeout, at most PP_TIER_CONNECT_MAX_MS. That leaves room
     * for SYNs sent again after 1, 3 and 7 s. Even a slow host accepts connections at once. */
    int64_t connect_ms;
    /* The body is too slow if it stays below PP_TIER_SLOW_BYTES_PER_S for this time: a third of the
     * total timeout, at least 5 s, at most the total timeout. */
    int64_t slow_ms;
};

#define PP_TIER_CONNECT_MAX_MS   15000
#define PP_TIER_SLOW_BYTES_PER_S 1024
#define PP_TIER_SLOW_MIN_MS      5000

/* Returns the limits for a tier with this total timeout; each limit counts from the start of its
 * phase. */
struct pp_tier_limits pp_tier_limits(int64_t timeout_ms);

/* Returns the failure code of a transfer whose total deadline passed in `phase`. `resolving` is
 * true if the name look-up was in flight. */
uint16_t pp_tier_timeout_code(bool resolving, enum pp_phase phase);

#endif
