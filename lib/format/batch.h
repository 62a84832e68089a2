/* batch.h: writes a batch as JSON, the same in the API and in events. Pure; any thread. */
#ifndef PHOTOPOOL_FORMAT_BATCH_H
#define PHOTOPOOL_FORMAT_BATCH_H

#include "base/buf.h"
#include "photopool/task.h"

/* Appends the object of GET /v1/batches/{id}. `rate`: photos per second; 0: none was settled
 * lately. */
void pp_batch_write(struct pp_buf *b, const struct pp_batch *batch, double rate);

/* Returns the number of photos without an outcome, including photos that are not planned yet. */
uint64_t pp_batch_photos_open(const struct pp_batch *batch);

/* Returns the state with a name such as "running", or -1 if there is none. */
int pp_batch_state_parse(const char *name);

#endif
