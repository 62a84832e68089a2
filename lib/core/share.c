/* share.c: cuts a client's rate, concurrency and hash range into shares. Share k of a total starts
 * at floor(total * k / count), where share k - 1 ends, so there are no gaps. */
#include "core/share.h"

#include "base/check.h"
#include "photopool/shared_constants.h"

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
    uint32_t in_flight = concurrency, a_second = ceil_div(rpm, 60);
    if (rpm > 0 && in_flight > a_second)
        in_flight = a_second;
    uint32_t count = ceil_div(in_flight, worker_concurrency);
    uint32_t by_rate = rpm > 0 ? ceil_div(rpm, worker_rpm) : 0;
    if (count < by_rate)
        count = by_rate;
    return count > concurrency ? concurrency : count;
}

static uint32_t part(uint32_t total, uint32_t count, uint32_t k)
{
    return (uint32_t)PP_SHARE_PART((uint64_t)total, count, k);
}

/* Returns the first hash of share k: the least h with h * count >= k * 2^32. For k == count that is
 * 2^32. */
static uint64_t first_hash(uint32_t count, uint32_t k)
{
    return (((uint64_t)k << 32) + count - 1) / count;
}

struct pp_share pp_share_get(uint32_t rpm, uint32_t concurrency, uint32_t count, uint32_t k)
{
    if (concurrency == 0)
        concurrency = 1;
    pp_assert(k < count && count <= concurrency && (rpm == 0 || count <= rpm), "no such share");
    return (struct pp_share){
        .rpm = part(rpm, count, k),
        .concurrency = part(concurrency, count, k),
        .hash_lo = (uint32_t)first_hash(count, k),
        .hash_hi = (uint32_t)(first_hash(count, k + 1) - 1),
    };
}
