/* pipeline_internal.h: the parts of a process that work on the whole pipeline, beside its stages.
 * Each part borrows the pipeline. All functions run on the main loop; those that open a part return
 * NULL when out of memory. */
#ifndef PHOTOPOOL_PIPELINE_PIPELINE_INTERNAL_H
#define PHOTOPOOL_PIPELINE_PIPELINE_INTERNAL_H

#include "base/check.h"
#include "pipeline/claim/claim.h"
#include "pipeline/pipeline.h"
#include "pipeline/routes/routes.h"

/* --- cron.c: runs the periodic jobs. Each job is a row of the table jobs[] in that file. --- */

struct pp_cron *pp_cron_open(struct pp_pipeline *p);
/* Makes the cron start no more jobs. */
void pp_cron_stop(struct pp_cron *cron);
/* Returns the number of requests in flight. */
size_t pp_cron_busy(const struct pp_cron *cron);
void pp_cron_close(struct pp_cron *cron);

/* --- fleet.c: the work of a process that shares its store with other processes. It stands for
 * election, reads the shared backlog index and (as leader) rebuilds it, tells the coordinator
 * whether its data can be trusted, and sends and receives notices. A process that is alone
 * (params.sole_worker) has no fleet: the pointer is NULL, the functions do nothing, and nothing is
 * busy. --- */

struct pp_fleet *pp_fleet_open(struct pp_pipeline *p);
/* Starts no new requests, and stops leading. */
void pp_fleet_stop(struct pp_fleet *fleet);
/* Returns the number of requests in flight. */
size_t pp_fleet_busy(const struct pp_fleet *fleet);
void pp_fleet_close(struct pp_fleet *fleet);
/* Tells the other processes that photos of a batch were settled here, at most once per second and
 * batch. */
void pp_fleet_batch_moved(struct pp_fleet *fleet, const char *batch_id);
/* Returns true if this process leads. A process that is alone always leads. */
bool pp_fleet_leads(const struct pp_pipeline *p);

/* --- orphans.c: after a crash, removes orphans: objects whose record was never written.
 *
 * A photo's bytes are stored before its record, so a process that dies in between leaves an object
 * behind. Usually the photo is fetched again with the same bytes, and the object gets its record.
 * That fails if the host sends different bytes each time. So the next process, before it claims
 * anything, asks the store for each object written since params.orphans_since_ms, and removes the
 * objects that no record names. --- */

/* Starts the search for orphans. When the search has succeeded or failed, it frees itself, sets
 * p->orphans to NULL, and lets the claimer begin unless the process drains. */
struct pp_orphans *pp_orphans_start(struct pp_pipeline *p);
/* Ends the search early: removes only the orphans found so far. */
void pp_orphans_stop(struct pp_orphans *orphans);

#endif
