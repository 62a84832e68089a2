/* twice.h: what differs between two runs of one swarm, which must do the same steps. */
#ifndef PP_SIM_TWICE_H
#define PP_SIM_TWICE_H

#include "run.h"

/* Runs the case twice, each time in a new program, and compares step by step. Writes the first
 * steps that differ, and the steps before them. */
void sim_twice_compare(const struct sim_options *o, const struct sim_case *c, FILE *out);

#endif
