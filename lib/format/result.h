/* result.h: writes batches, and the RESULT of an item revision, with the same bytes in every sink:
 * event streams, brokers, webhooks, API.
 *
 * A result depends only on the stored item and on the language of its messages (results.language),
 * not on the clock. Its id depends only on client, item and revision, so that consumers can drop a
 * result that they get twice. Pure; any
 * thread may call these functions. */
#ifndef PHOTOPOOL_FORMAT_RESULT_H
#define PHOTOPOOL_FORMAT_RESULT_H

#include "base/buf.h"
#include "core/reason.h"
#include "photopool/code.h"
#include "photopool/task.h"

/* Appends the result of a finished item as a CloudEvent. `key` is as for pp_json_begin(). */
void pp_result_write(struct pp_buf *b, const char *key, const struct pp_item *item,
                     enum pp_language language);

/* What is known of an open item's client, and the date that belongs to facts.now_ms. A tier that is
 * not configured any more has a transfer_ms of 0. */
struct pp_open_from {
    struct pp_reason_facts facts;
    int64_t date_ms;
    enum pp_language language; /* of the messages of photos that have failed */
};

/* Appends an item that is still open: the `data` of a result, with "status": "open", and for each
 * open photo its tier, why it is open, its attempts so far, and when it starts. */
void pp_result_write_open(struct pp_buf *b, const char *key, const struct pp_item *item,
                          const struct pp_open_from *from);

/* Appends the members of a stored object, from "sha256" to "object", which is the object's name in
 * the blob store. */
void pp_result_write_object(struct pp_buf *b, const struct pp_object *o);

/* Returns the name of a status, such as "complete"; "open" for PP_ITEM_OPEN. */
const char *pp_item_status_name(enum pp_item_status status);
/* Returns the status with this name, or -1 for other names. "open" gives -1, because a result never
 * has this status. */
int pp_item_status_parse(const char *name);
const char *pp_outcome_name(enum pp_outcome_kind kind);

/* --- batches, in the same form in the API and in events --- */

/* How a batch goes on. */
struct pp_batch_pace {
    double rate;                       /* photos settled per second; 0: none was settled lately */
    double eta_seconds;                /* the estimated time to the end; below 0: nothing can be said */
    int64_t next_at;                   /* date of the next start; 0: none, or nobody knows */
    uint64_t waiting[PP_REASON_COUNT]; /* why the open photos are open */
};

/* Appends the object of GET /v1/batches/{id}. */
void pp_batch_write(struct pp_buf *b, const struct pp_batch *batch, const struct pp_batch_pace *pace);

/* Returns the number of photos without an outcome, including photos that are not planned yet. */
uint64_t pp_batch_photos_open(const struct pp_batch *batch);

/* Returns the enum pp_batch_state with this name, such as "running", or -1 if there is none. */
int pp_batch_state_parse(const char *name);

#endif
