/* counts.h: callers that increment and read counters, through the port of a process with the role
 * api, and the judge of rule I11 for counters:
 *
 *  - a sum that a caller gets has each increment that was answered before the caller asked, and
 *    only increments that were sent
 *  - at the end, each day and each sum in the store equals the increments that were answered, and
 *    so does each sum in the cache
 *
 * A caller repeats an increment with its token, at any process, until it is answered. New counters
 * come all the time, also while the store is away. Days are of two months. The cache never loses
 * its data: what is pending is nowhere else. The embedded process has no cache of counters, and
 * nobody increments there. */
#ifndef PP_SIM_COUNTS_H
#define PP_SIM_COUNTS_H

#include "fleet.h"

/* Begins to send increments and reads, if the swarm has counts_every_ms. Aborts if out of
 * memory. */
struct sim_counts *sim_counts_open(struct sim_fleet *f);
/* Begins no further increments. Repeats each unanswered one until it is answered. */
void sim_counts_stop(struct sim_counts *s);
/* Returns true if increments are not answered, or not in the store. */
bool sim_counts_behind(const struct sim_counts *s);
/* Checks what must hold when all has ended. */
void sim_counts_end(struct sim_counts *s);

#endif
