/* hooks.h: the webhook endpoints of a simulated fleet. The production stage posts to them through
 * the process's fetcher. They accept late, answer 500, 429, 302 or 410, cut the connection before
 * or after they have accepted, and are down for a while; one may be dead for ever.
 *
 * Checked: I2, one id has one payload at all endpoints and at the broker, and an endpoint gets only
 * results of its clients; I10, each result reaches each endpoint that recovers, within the time of
 * API.md's schedule of retries, also beside an endpoint that is dead. */
#ifndef PP_SIM_HOOKS_H
#define PP_SIM_HOOKS_H

#include "pipeline/fetch/fetch_loop.h"

enum { SIM_HOOKS_MAX = 8 };

struct sim_fleet;
struct sim_hooks;

/* What one process needs to reach the endpoints and the rest of the internet. */
struct sim_hook_access {
    struct sim_hooks *hooks;
    struct pp_fetch_factory inner; /* for everything that is not a post */
    unsigned posts;                /* number of posts in flight */
};

/* Writes the endpoints into the delivery store, before anything finishes. */
struct sim_hooks *sim_hooks_open(struct sim_fleet *f);
/* Returns a factory of fetchers that carry posts to the endpoints. `access` outlives them. */
struct pp_fetch_factory sim_hooks_factory(struct sim_hook_access *access);
/* Compares what has reached the broker. Returns how many deliveries are missing. */
size_t sim_hooks_missing(struct sim_hooks *h);
/* Returns how long deliveries may take after the last fault, in ms. */
int64_t sim_hooks_bound_ms(const struct sim_hooks *h);
/* Checks what must hold when all has ended. */
void sim_hooks_end(struct sim_hooks *h);

#endif
