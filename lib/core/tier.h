/* tier.h: tiers, pools of transfers with one total timeout each (1, 5 and 30 s by default), shortest first.
 *
 * A tier is named by its index in the list. A transfer that takes longer than its tier allows is given up and
 * tried in the next one, so that slow hosts fill only the slow pools. The phases of a transfer have limits of
 * their own, derived from the total (pp_tier_limits): each gives up earlier where waiting on cannot end well.
 */
#ifndef PHOTOPOOL_CORE_TIER_H
#define PHOTOPOOL_CORE_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/port/fetcher.h"

#define PP_TIERS_MAX 8
/* No such tier. */
#define PP_TIER_NONE UINT8_MAX

struct pp_tier {
    int64_t timeout_ms;   /* of a whole transfer: look-up, connect, redirects and body */
    uint32_t concurrency; /* transfers at once in this pool */
};

/* 1 to PP_TIERS_MAX tiers, timeouts positive and rising, concurrency at least 1. */
bool pp_tiers_valid(const struct pp_tier *tiers, size_t n);

/* The tier after this one, or PP_TIER_NONE. */
uint8_t pp_tier_next(uint8_t tier, size_t n);

/* The shortest tier whose timeout is at least ms; the last where none is. */
uint8_t pp_tier_cover(const struct pp_tier *tiers, size_t n, double ms);

struct pp_tier_limits {
    int64_t connect_ms; /* TCP and TLS: the total, at most PP_TIER_CONNECT_MAX_MS. A host that is merely slow
                           accepts the connection at once; the cap leaves room for SYNs sent again after 1, 3
                           and 7 s. */
    int64_t first_byte_ms; /* from the request to the answer's first byte: the total. Slow hosts spend their
                              time here. */
    int64_t slow_ms; /* from the first byte on: too slow where PP_TIER_SLOW_BYTES_PER_S is not reached over so
                        long: a third of the total, at least 5 s. In tiers where that is no less than the
                        total, the total decides alone. */
};

#define PP_TIER_CONNECT_MAX_MS   15000
#define PP_TIER_SLOW_BYTES_PER_S 1024
#define PP_TIER_SLOW_MIN_MS      5000

/* The limits inside a tier of this total timeout. All run from the start of their phase; the total overrules
 * them. */
struct pp_tier_limits pp_tier_limits(int64_t timeout_ms);

/* The code of a transfer that the total deadline struck in `phase`; `resolving`: its name look-up was not
 * done. */
uint16_t pp_tier_timeout_code(bool resolving, enum pp_phase phase);

#endif
