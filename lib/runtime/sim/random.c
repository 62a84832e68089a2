/* random.c: replaces base/random.c. Each process draws from a generator of its own, seeded by the
 * world's seed and the process's number. Code without a process draws from the world's. */
#include <string.h>

#include "runtime/sim/sim_internal.h"

void pp_random_bytes(void *p, size_t n)
{
    struct pp_sim_place here = pp_sim_here();
    struct pp_rng before_main;
    struct pp_rng *rng = here.process ? &here.process->rng : here.world ? &here.world->rng : &before_main;
    unsigned char *at = p;

    /* base/hash.c draws a first key before main(); a world may have it draw another. */
    if (rng == &before_main)
        pp_rng_seed(rng, 0);
    for (size_t part; n > 0; at += part, n -= part) {
        uint64_t v = pp_rng_next(rng);
        part = n < sizeof v ? n : sizeof v;
        memcpy(at, &v, part);
    }
}
