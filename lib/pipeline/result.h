/* result.h: the RESULT object of an item revision, the same bytes wherever it goes: stream, bus, webhook,
 * API.
 *
 * A function of the stored item alone: no clock, no configuration. Its id is a function of client, item and
 * revision, so that consumers can drop what they have seen (I2). Pure; any thread. */
#ifndef PHOTOPOOL_PIPELINE_RESULT_H
#define PHOTOPOOL_PIPELINE_RESULT_H

#include "base/buf.h"
#include "photopool/task.h"

/* Appends the CloudEvent of a finished item; `key` as for pp_json_begin(). */
void pp_result_write(struct pp_buf *b, const char *key, const struct pp_item *item);

/* Appends an item that is still open: the event's `data`, with "status": "open" and what each open photo
 * waits for. `tier_ms` are the tiers' timeouts. */
void pp_result_write_open(struct pp_buf *b, const char *key, const struct pp_item *item,
                          const int64_t *tier_ms, uint32_t n_tiers);

/* "complete"; "open" for PP_ITEM_OPEN. */
const char *pp_item_status_name(enum pp_item_status status);
/* The inverse, -1 where it is none. "open" is none: it never ends a result. */
int pp_item_status_parse(const char *name);
const char *pp_outcome_name(enum pp_outcome_kind kind);

#endif
