/* prng.h: random numbers for property tests. The same seed gives the same numbers on every machine.
 * The algorithm is splitmix64 (Steele, Lea, Flood 2014); it must not be used for secrets. */
#ifndef PHOTOPOOL_TEST_PRNG_H
#define PHOTOPOOL_TEST_PRNG_H

#include <stdint.h>

static inline uint64_t pp_test_rnd(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns a number in [lo, hi]. */
static inline int64_t pp_test_between(uint64_t *state, int64_t lo, int64_t hi)
{
    uint64_t span = (uint64_t)(hi - lo) + 1; /* 0 if the range is all 64-bit numbers */
    uint64_t r = pp_test_rnd(state);
    return lo + (int64_t)(span ? r % span : r);
}

#endif
