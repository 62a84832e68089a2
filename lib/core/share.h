/* share.h: cuts a client's rate and concurrency into S shares, one for each slot that a worker can hold
 * (DESIGN.md, "Slots"). Invariants: the shares' rates sum to the rate and their concurrencies to the
 * concurrency, exactly; each is at least 1; the hash ranges are disjoint and cover all 32-bit hashes; equal
 * parts differ by at most one. Who holds what depends on nothing but (rate, concurrency, S, k), so every
 * process computes the same. */
#ifndef PHOTOPOOL_CORE_SHARE_H
#define PHOTOPOOL_CORE_SHARE_H

#include <stdint.h>

struct pp_share {
    uint32_t rpm;              /* 0: the client has no limit */
    uint32_t concurrency;      /* at least 1 */
    uint32_t hash_lo, hash_hi; /* both inclusive, as in port/coordinator.h */
};

/* How many shares: ceil(rpm / worker_rpm), at least 1, at most the concurrency. Without a rate (rpm 0) by
 * concurrency: ceil(concurrency / worker_concurrency). worker_*: what one worker can do, at least 1 (0 is
 * taken as 1); concurrency 0 is taken as 1. */
uint32_t pp_share_count(uint32_t rpm, uint32_t concurrency, uint32_t worker_rpm, uint32_t worker_concurrency);

/* Share k of `count` (k < count, count from pp_share_count of the same rpm and concurrency). */
struct pp_share pp_share_get(uint32_t rpm, uint32_t concurrency, uint32_t count, uint32_t k);

/* The share whose range holds `hash`. */
uint32_t pp_share_of_hash(uint32_t hash, uint32_t count);

#endif
