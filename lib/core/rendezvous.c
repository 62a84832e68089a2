/* rendezvous.c: computes the score of a node for a key from a hash of the two. */
#include "core/rendezvous.h"

#include <math.h>

#include "base/stable_hash.h"

double pp_rendezvous_score(const char *key, const char *node, uint32_t weight)
{
    uint64_t h = pp_stable_hash_end(pp_stable_hash_add(pp_stable_hash_add(PP_STABLE_HASH, key), node));
    /* a number between 0 and 1, but never 0 or 1; the divisor is 2^53 */
    double u = ((double)(h >> 11) + 0.5) / 9007199254740992.0;
    return (weight > 0 ? weight : 1) / -log(u);
}
