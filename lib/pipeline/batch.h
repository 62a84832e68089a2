/* batch.h: a batch as JSON, the same wherever it is shown: API and events. */
#ifndef PHOTOPOOL_PIPELINE_BATCH_H
#define PHOTOPOOL_PIPELINE_BATCH_H

#include "base/buf.h"
#include "pipeline/pipeline.h"

/* Appends the object of GET /v1/batches/{id}. On the main loop. */
void pp_batch_write(struct pp_buf *b, const struct pp_pipeline *p, const struct pp_batch *batch);

/* "running"; the inverse, -1 where it is none. */
const char *pp_batch_state_name(enum pp_batch_state state);
int pp_batch_state_parse(const char *name);

#endif
