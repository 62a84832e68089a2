#include "base/stable_hash.h"

uint64_t pp_stable_hash_add(uint64_t h, const char *text)
{
    do {
        h = (h ^ (uint8_t)*text) * UINT64_C(1099511628211);
    } while (*text++);
    return h;
}

uint64_t pp_stable_hash_end(uint64_t h)
{
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

uint32_t pp_ring_position(const char *id)
{
    return (uint32_t)(pp_stable_hash_end(pp_stable_hash_add(PP_STABLE_HASH, id)) >> 32);
}
