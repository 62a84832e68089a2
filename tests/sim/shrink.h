/* shrink.h: finds a smaller swarm that still breaks a rule. */
#ifndef PP_SIM_SHRINK_H
#define PP_SIM_SHRINK_H

#include "swarm.h"

struct sim_shrink {
    /* Runs the swarm. Returns true if it breaks the rule, and then sets *at_ms to the time. */
    bool (*breaks)(void *data, const struct sim_swarm *s, int64_t *at_ms);
    void *data;
    FILE *progress; /* gets a line for each step; NULL: none does */
    /* The world's seed is a member of the swarm. Each change to the swarm changes all later draws,
     * so it is tried with several seeds: as many as fit into this much busy time, but 2 to 50. */
    int64_t seeds_ms;
    int64_t budget_ms; /* the busy time of all runs */
    /* The search sets the following members. */
    unsigned tries; /* the number of runs */
    int64_t spent_ms;
};

/* Makes the swarm smaller, which breaks the rule at the time at_ms. Each change is kept if some run
 * still breaks the rule: a shorter busy time, no faults of a kind, fewer processes, clients and
 * photos. Ends when no change helps, or when the budget is spent. */
void sim_shrink(struct sim_shrink *x, struct sim_swarm *s, int64_t at_ms);

#endif
