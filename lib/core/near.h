/* near.h: which workers are near a client on the hash ring (port/coordinator.h): of each kind, the
 * first ones at or after the client's position. Each worker computes this from its neighbours, and
 * the coordinator from all workers; both find the same, because a worker that is near a client has
 * all that are near it among its neighbours. Between kinds of very different numbers this may not
 * be so. Then a worker takes others for near, which changes only who asks for a slot first. */
#ifndef PHOTOPOOL_CORE_NEAR_H
#define PHOTOPOOL_CORE_NEAR_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/shared_constants.h"

/* Returns how many workers of each kind are near a client with this many shares. */
uint32_t pp_near_count(uint32_t shares);

/* The workers of one kind that are near a client. */
struct pp_near {
    uint32_t position, most; /* of the client; how many workers are near it */
    uint32_t n;
    struct pp_near_worker {
        uint32_t distance; /* from the client to the worker, in the direction of the ring */
        size_t worker;
    } workers[PP_NEAR_MAX]; /* the nearest first */
};

/* Begins without workers. `position` is the client's (base/stable_hash.h); `most` is at most
 * PP_NEAR_MAX. */
void pp_near_init(struct pp_near *near, uint32_t position, uint32_t most);
/* Offers a worker of this kind; `worker` is the caller's number for it. Of two
 * workers at the same distance, the one that is offered first is nearer. */
void pp_near_offer(struct pp_near *near, uint32_t position, size_t worker);

#endif
