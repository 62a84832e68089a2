/* share.h: cuts a client's rate and concurrency into S shares, one for each slot that a worker can
 * hold. Invariants: the shares' rates and concurrencies sum exactly to the client's; each is at
 * least 1; the hash ranges are disjoint and cover all 32-bit hashes; equal parts differ by at most
 * one. A share depends only on (rate, concurrency, S, k), so all processes compute the same shares.
 */
#ifndef PHOTOPOOL_CORE_SHARE_H
#define PHOTOPOOL_CORE_SHARE_H

#include <stdint.h>

struct pp_share {
    uint32_t rpm;         /* requests in any 60 s of this share; 0: the client has no limit */
    uint32_t concurrency; /* transfers in flight of this share, at least 1 */
    /* the range of task hashes (port/coordinator.h), both ends included */
    uint32_t hash_lo, hash_hi;
};

/* Returns the number of shares: ceil(rpm / worker_rpm), at least 1, at most the concurrency.
 * Without a rate limit (rpm 0): ceil(concurrency / worker_concurrency). worker_rpm and
 * worker_concurrency are what one worker can serve. A 0 in any of the last three arguments counts
 * as 1. */
uint32_t pp_share_count(uint32_t rpm, uint32_t concurrency, uint32_t worker_rpm, uint32_t worker_concurrency);

/* Returns share k of `count`, where k < count. `count` comes from pp_share_count() for the same rpm
 * and concurrency. */
struct pp_share pp_share_get(uint32_t rpm, uint32_t concurrency, uint32_t count, uint32_t k);

#endif
