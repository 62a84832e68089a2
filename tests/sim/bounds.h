/* bounds.h: checks rule I8 on a simulated fleet: what is in use never exceeds its bound.
 *
 * Of each process, whenever one of its calls arrives at a server: transfers in flight, by tier and
 * in all; transfers that are not settled; exchanges with photo hosts; posts to webhooks; entries
 * taken from the ingest queue; calls to each server in flight; the ring of events. Of the servers,
 * once a second: the ingest queue and the journals; the event log, when nothing fails any more. Of
 * each worker, when the store's tasks are compared (legal.h): its claims.
 *
 * The numbers come from the servers and hosts where they see them, else from the process's own
 * objects. To add a bound: a row in SIM_BOUNDS and a line in sim_bounds_process() or
 * sim_bounds_look(). */
#ifndef PP_SIM_BOUNDS_H
#define PP_SIM_BOUNDS_H

#include <stdint.h>

struct sim_bounds;
struct sim_fleet;
struct sim_part;

/* Aborts if out of memory. f->judge gets the violations. */
struct sim_bounds *sim_bounds_open(struct sim_fleet *f);
/* A call of the process `part`, a struct sim_part, has arrived at a server. */
void sim_bounds_process(void *part);
/* Checks the servers. Called once a second. */
void sim_bounds_look(struct sim_bounds *b);

/* Count the claims of the workers: sim_bounds_claim() is called for each claimed task. */
void sim_bounds_claims_begin(struct sim_bounds *b);
void sim_bounds_claim(struct sim_bounds *b, const char *worker);
void sim_bounds_claims_end(struct sim_bounds *b);

#endif
