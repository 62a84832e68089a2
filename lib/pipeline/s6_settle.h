/* s6_settle.h: what becomes of a transfer that has ended, written in bulk.
 *
 * decide (core/retry.h: final, next tier, later; handed back) -> gather for a few ms -> one store call ->
 * announce what waits again, count, free. One call at a time; while the store fails, outcomes wait here and
 * are written again, in smaller calls, so that one that can't be written does not hold up the others. A
 * settlement that did go through is then reported stale and does no harm. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_S6_SETTLE_H
#define PHOTOPOOL_PIPELINE_S6_SETTLE_H

#include "pipeline/pipeline.h"
#include "pipeline/transfer.h"

struct pp_s6;

struct pp_s6 *pp_s6_open(struct pp_pipeline *p);
void pp_s6_close(struct pp_s6 *s6);
/* Takes a finished transfer; pp_s3_settled() follows once it is written. */
void pp_s6_finished(struct pp_s6 *s6, struct pp_transfer *t);
/* The process must end: outcomes that can't be written at the next try are dropped; their claims lapse. */
void pp_s6_give_up(struct pp_s6 *s6);

#endif
