/* s2_plan.h: from accepted batches to items and tasks.
 *
 * Takes entries from the ingest queue, and for each, chunk by chunk: what is recorded of its photos (one
 * look-up), what each needs (core/plan.h: known, skip, fetch; a URL that may not be fetched fails here,
 * without a request), where its task goes (routes), one write; at the end the ack. Some entries are planned
 * side by side, so that a large one does not hold up small ones; those of one client one after the other, so
 * that a later list supersedes an earlier one. Repeating a chunk after a crash changes nothing. On the main
 * loop. */
#ifndef PHOTOPOOL_PIPELINE_S2_PLAN_H
#define PHOTOPOOL_PIPELINE_S2_PLAN_H

#include "pipeline/pipeline.h"

struct pp_s2;

struct pp_s2 *pp_s2_open(struct pp_pipeline *p);
void pp_s2_close(struct pp_s2 *s2);
/* There is something in the queue. */
void pp_s2_wake(struct pp_s2 *s2);
/* Finishes the chunks under way and takes nothing more. */
void pp_s2_drain(struct pp_s2 *s2);
/* Requests that have not come back. */
size_t pp_s2_busy(const struct pp_s2 *s2);

#endif
