/* fleet.h: what a process does because others work on the same store: it stands for election, feeds on the
 * shared backlog index and rebuilds it, tells the coordinator whether its data can be trusted, and passes on
 * notices. A process that is alone (params.sole_worker) has none of this. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_FLEET_H
#define PHOTOPOOL_PIPELINE_FLEET_H

#include "pipeline/pipeline.h"

struct pp_fleet;

struct pp_fleet *pp_fleet_open(struct pp_pipeline *p);
/* No new requests; lets go of what it leads. */
void pp_fleet_stop(struct pp_fleet *fleet);
/* Requests that have not come back. NULL is fine: none. */
size_t pp_fleet_busy(const struct pp_fleet *fleet);
void pp_fleet_close(struct pp_fleet *fleet);

/* Photos of a batch have been settled here: the others are told, once a second at most for each batch. */
void pp_fleet_batch_moved(struct pp_fleet *fleet, const char *batch_id);

/* Is this process the one that does what only one should? Always where it is alone. */
bool pp_fleet_leads(const struct pp_pipeline *p);

#endif
