/* share.c: see share.h. Every cut is at floor(total * k / count), so neighbours meet without a gap. */
#include "core/share.h"

#include <assert.h>

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    if (b == 0)
        b = 1;
    return a / b + (a % b != 0);
}

uint32_t pp_share_count(uint32_t rpm, uint32_t concurrency, uint32_t worker_rpm, uint32_t worker_concurrency)
{
    if (concurrency == 0)
        concurrency = 1;
    uint32_t count = rpm > 0 ? ceil_div(rpm, worker_rpm) : ceil_div(concurrency, worker_concurrency);
    return count > concurrency ? concurrency : count;
}

static uint32_t part(uint32_t total, uint32_t count, uint32_t k)
{
    return (uint32_t)((uint64_t)total * (k + 1) / count - (uint64_t)total * k / count);
}

/* The first hash of share k, 2^32 for k == count: the least h with h * count >= k * 2^32, which is what
 * pp_share_of_hash inverts.
 */
static uint64_t first_hash(uint32_t count, uint32_t k)
{
    return (((uint64_t)k << 32) + count - 1) / count;
}

struct pp_share pp_share_get(uint32_t rpm, uint32_t concurrency, uint32_t count, uint32_t k)
{
    if (concurrency == 0)
        concurrency = 1;
    assert(k < count && count <= concurrency && (rpm == 0 || count <= rpm));
    return (struct pp_share){
        .rpm = part(rpm, count, k),
        .concurrency = part(concurrency, count, k),
        .hash_lo = (uint32_t)first_hash(count, k),
        .hash_hi = (uint32_t)(first_hash(count, k + 1) - 1),
    };
}

uint32_t pp_share_of_hash(uint32_t hash, uint32_t count)
{
    return (uint32_t)(((uint64_t)hash * count) >> 32);
}
