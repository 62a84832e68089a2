/* fleet.h: the work of a process that shares its store with other processes. It stands for
 * election, reads the shared backlog index and (as leader) rebuilds it, tells the coordinator
 * whether its data can be trusted, and sends and receives notices. A process that is alone
 * (params.sole_worker) has no fleet: the pointer is NULL. All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_FLEET_H
#define PHOTOPOOL_PIPELINE_FLEET_H

#include "pipeline/pipeline.h"

struct pp_fleet;

/* Opens the fleet. Returns NULL when out of memory. */
struct pp_fleet *pp_fleet_open(struct pp_pipeline *p);
/* Starts no new requests and stops leading. Does nothing if the fleet is NULL. */
void pp_fleet_stop(struct pp_fleet *fleet);
/* Returns the number of requests in flight; 0 if the fleet is NULL. */
size_t pp_fleet_busy(const struct pp_fleet *fleet);
void pp_fleet_close(struct pp_fleet *fleet);

/* Tells the other processes that photos of a batch were settled here, at most once per second and
 * batch. Does nothing if the fleet is NULL. */
void pp_fleet_batch_moved(struct pp_fleet *fleet, const char *batch_id);

/* Returns true if this process leads. A process that is alone always does. */
bool pp_fleet_leads(const struct pp_pipeline *p);

#endif
