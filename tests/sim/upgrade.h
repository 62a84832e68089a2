/* upgrade.h: the configurations of a fleet's processes, and rolling upgrades from one to the next:
 * one process after another drains as after SIGTERM, and the next process of its node has the new
 * configuration. So for a while two configurations work side by side.
 *
 * What a fleet must share stays the same: the policy, retries, the clients' limits and retention.
 * To vary one more parameter: a member of struct sim_config, its draw in upgrade.c, its use in
 * node.c. */
#ifndef PP_SIM_UPGRADE_H
#define PP_SIM_UPGRADE_H

#include "runtime/sim/sim.h"
#include "swarm.h"

struct sim_fleet;
struct sim_node;

enum { SIM_TIERS = 3 };

/* The parameters in which the processes of a fleet may differ, as in struct pp_params. */
struct sim_config {
    unsigned number;  /* upgrades raise it by one */
    unsigned n_tiers; /* 1: only the longest timeout; each further tier has a shorter one */
    unsigned kinds;   /* as in struct sim_swarm */
    uint32_t sizes[SIM_TIERS];
    uint32_t threads, plan_chunk, max_posts, high_water;
    int64_t lease_ms, drain_ms;
    int64_t gather_ms, gather_max_ms;
    int64_t router_interval_ms, router_save_ms;
    int64_t patience_ms; /* a caller of a server gives up after this time */
};

struct sim_upgrade {
    struct sim_config config;  /* the newest one */
    struct pp_sim_event check; /* pending while an upgrade is going on */
    struct sim_node *current;  /* the node that is being upgraded; NULL: none */
    int64_t kill_ms;           /* if it is still draining at this time, it is killed */
};

/* Returns the configuration that a fleet begins with. */
struct sim_config sim_config_first(const struct sim_swarm *swarm);
/* Returns the longest lease that a process of such a fleet can have, in ms. */
int64_t sim_config_longest_lease_ms(const struct sim_swarm *swarm);

void sim_upgrade_open(struct sim_fleet *f);
/* Begins an upgrade, unless one is going on. */
void sim_upgrade_begin(struct sim_fleet *f);
bool sim_upgrade_goes_on(const struct sim_fleet *f);
/* Returns an upper bound of the time that an upgrade takes if nothing fails, in ms. */
int64_t sim_upgrade_bound_ms(const struct sim_fleet *f);

#endif
