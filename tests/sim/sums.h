/* sums.h: compares the statistics of days with the results: I11. A part of the judge.
 *
 * The results are the finished items of the task store, which the run never deletes. The sums are
 * computed here once more, by simpler means. */
#ifndef PP_SIM_SUMS_H
#define PP_SIM_SUMS_H

#include "fleet.h"

/* Returns true if the statistics do not have all results yet. */
bool sim_sums_behind(const struct sim_fleet *f);
/* Checks that the days are the sums of the results, exactly. f->judge gets the violations. Aborts
 * if out of memory. */
void sim_sums_end(struct sim_fleet *f);

#endif
