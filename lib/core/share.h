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

/* Returns the number of shares, at least 1, at most the concurrency: as many as are needed if one
 * worker can serve worker_rpm requests a minute, and have worker_concurrency of a client's requests
 * in flight. Of a client with a rate, at most the requests of one second count as in flight. rpm 0:
 * there is no rate. A 0 in any of the last three arguments counts as 1. */
uint32_t pp_share_count(uint32_t rpm, uint32_t concurrency, uint32_t worker_rpm, uint32_t worker_concurrency);

/* Returns share k of `count`, where k < count. `count` comes from pp_share_count() for the same rpm
 * and concurrency. */
struct pp_share pp_share_get(uint32_t rpm, uint32_t concurrency, uint32_t count, uint32_t k);

#endif
