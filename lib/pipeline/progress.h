/* progress.h: how fast each batch moves: photos a second over the last ten seconds: from what s6 settles
 * here, or, in a fleet, from what is seen of its counts. */
#ifndef PHOTOPOOL_PIPELINE_PROGRESS_H
#define PHOTOPOOL_PIPELINE_PROGRESS_H

#include <stdint.h>

#define PP_PROGRESS_SECONDS 10
#define PP_PROGRESS_BATCHES 10000 /* at most; the one quiet for longest is forgotten */

struct pp_progress;

struct pp_progress *pp_progress_new(void);
void pp_progress_free(struct pp_progress *p);
void pp_progress_add(struct pp_progress *p, const char *batch_id, uint32_t photos, int64_t now_ms);
/* The same, where others settle: `photos` is the total so far, whenever somebody looks. */
void pp_progress_observe(struct pp_progress *p, const char *batch_id, uint64_t photos, int64_t now_ms);
/* Photos a second; 0 where nothing has moved lately. */
double pp_progress_rate(const struct pp_progress *p, const char *batch_id, int64_t now_ms);

#endif
