#include "core/near.h"

#include <string.h>

#include "base/check.h"

uint32_t pp_near_count(uint32_t shares)
{
    if (shares <= PP_NEAR / 2)
        return PP_NEAR;
    return shares < PP_SHARES_MAX ? 2 * shares : PP_NEAR_MAX;
}

void pp_near_init(struct pp_near *near, uint32_t position, uint32_t most)
{
    pp_assert(most > 0 && most <= PP_NEAR_MAX, "too many workers are near");
    near->position = position;
    near->most = most;
    near->n = 0;
}

void pp_near_offer(struct pp_near *near, uint32_t position, size_t worker)
{
    const uint32_t distance = position - near->position; /* modulo 2^32: the ring's length */
    uint32_t at = near->n;

    while (at > 0 && near->workers[at - 1].distance > distance)
        at--;
    if (at == near->most)
        return;
    if (near->n < near->most)
        near->n++;
    memmove(&near->workers[at + 1], &near->workers[at], (near->n - 1 - at) * sizeof(near->workers[0]));
    near->workers[at] = (struct pp_near_worker){.distance = distance, .worker = worker};
}
