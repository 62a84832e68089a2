/* progress.h: the rate at which each batch is settled: photos per second over the last ten seconds.
 * A process that is alone counts the photos that it settles; in a fleet, the rate comes from the
 * differences between counts of the batch. All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_PROGRESS_H
#define PHOTOPOOL_PIPELINE_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/task.h"

#define PP_PROGRESS_SECONDS 10
/* At most this many batches are counted. Beyond that, the batch that changed longest ago is
 * forgotten. */
#define PP_PROGRESS_BATCHES 10000

struct pp_progress;

struct pp_progress *pp_progress_new(void);
void pp_progress_free(struct pp_progress *p);
/* Counts photos of the batch that this process settled. Does nothing if memory for a new batch runs
 * out. */
void pp_progress_add(struct pp_progress *p, const char *batch_id, uint32_t photos, int64_t now_ms);
/* Returns the rate of a batch for the API, in photos per second, or 0 if `p` is NULL. If `observe`
 * is true, as in a fleet, first records the batch's counts as a sample. */
double pp_progress_of_batch(struct pp_progress *p, const struct pp_batch *batch, bool observe,
                            int64_t now_ms);
/* Returns the batch's photos per second, or 0 if none was settled in the last ten seconds. */
double pp_progress_rate(const struct pp_progress *p, const char *batch_id, int64_t now_ms);

#endif
