/* rendezvous.c: computes the score of a node for a key from a hash of the two. */
#include "core/rendezvous.h"

#include <math.h>

/* Returns the FNV-1a hash (Fowler, Noll, Vo) of 64 bits of the text with its NUL. */
static uint64_t fnv(uint64_t h, const char *s)
{
    do {
        h = (h ^ (uint8_t)*s) * UINT64_C(1099511628211);
    } while (*s++);
    return h;
}

/* Mixes the bits with the finaliser of splitmix64 (Steele, Lea, Flood, "Fast splittable
 * pseudorandom number generators", OOPSLA 2014), because FNV mixes the high bits of short texts
 * poorly. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

double pp_rendezvous_score(const char *key, const char *node, uint32_t weight)
{
    uint64_t h = mix(fnv(fnv(UINT64_C(14695981039346656037), key), node));
    /* a number between 0 and 1, but never 0 or 1; the divisor is 2^53 */
    double u = ((double)(h >> 11) + 0.5) / 9007199254740992.0;
    return (weight > 0 ? weight : 1) / -log(u);
}
