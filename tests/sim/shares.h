/* shares.h: the servers that know who fetches a URL (share.servers), and the operator who changes
 * their list: each process reads the new list some seconds later, as after SIGHUP. A process that
 * starts reads the newest list. The embedded process has a table of its own. */
#ifndef PP_SIM_SHARES_H
#define PP_SIM_SHARES_H

#include "adapter/memory/dedupe.h"
#include "runtime/sim/sim.h"
#include "swarm.h"

struct sim_fleet;
struct sim_node;
struct sim_part;

enum { SIM_SHARES = 4 };

struct sim_shares {
    struct pp_memory_dedupe *servers[SIM_SHARES];
    unsigned list;                 /* bit i: server i is in the list */
    int64_t changed_ms, opened_ms; /* the latest change, and the latest start of a worker */
};

/* Opens the servers. Aborts if out of memory. */
void sim_shares_open(struct sim_fleet *f);
/* Opens the process's port. */
pp_must_check enum pp_err sim_shares_port(struct sim_part *part);
/* The process has crashed: detaches its ports. */
void sim_shares_cut(struct sim_part *part);
/* Changes the list, unless the latest change is too young: then a second one may lose what moved
 * with the first (base/shard_map.h). */
void sim_shares_change(struct sim_fleet *f);
/* Returns false while a change is old for some processes and young for others, which then still
 * believe the previous servers; and while it is young, if a worker has started since, which does
 * not know the previous servers. */
bool sim_shares_agree(const struct sim_fleet *f);
/* The servers lose all data. */
void sim_shares_forget(struct sim_fleet *f);

#endif
