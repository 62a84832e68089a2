/* due.h: what is due of batches that are cancelled or replayed, and of items that newer lists
 * supersede (API.md sections 1 and 2). A part of the judge:
 *
 *   cancel   only items of batches that somebody cancels end as `cancelled`. When the cancel is
 *            answered, the batch is cancelled or finished, and has no open item; items that are
 *            planned
 *            later end as `cancelled`
 *   replay   the new batch has one result for each of its items. They are items of the old batch,
 *            with
 *            as many photos; their failed and skipped photos are as many as the answer said. None
 *            of
 *            them had a newer list before the replay was sent
 *   newer    an item ends as `superseded` only if a revision with a higher number exists
 *   result   the status is the one that the photos' outcomes make; a photo is `cancelled` only in
 *            an
 *            item that is cancelled or superseded */
#ifndef PP_SIM_DUE_H
#define PP_SIM_DUE_H

#include <jansson.h>

#include "fleet.h"

struct sim_due;

/* Aborts if out of memory. f->judge gets the violations. */
struct sim_due *sim_due_open(struct sim_fleet *f);
/* A caller is about to cancel a batch. */
void sim_due_cancel_sent(struct sim_due *d, const char *batch);
/* The cancel is answered, and says that the batch is in `state`. */
void sim_due_cancelled(struct sim_due *d, const char *batch, const char *state);
/* A replay of the batch `from`, first sent at sent_ms, is answered. The answer names the new batch
 * and the number of its photos, which had failed. */
void sim_due_replayed(struct sim_due *d, const char *client, const char *from, const char *batch,
                      int64_t sent_ms, uint64_t photos);
/* A replay of the batch `from` was sent to a process that crashed before it answered. The caller is
 * about to send it again. */
void sim_due_unanswered(struct sim_due *d, const char *from);
/* A process that was frozen for long has answered a replay, for which nobody waits any more. Redis
 * has the batch, so its key was not there: maybe it waits in the journal of the process that the
 * caller has asked meanwhile. */
void sim_due_excuse(struct sim_due *d, const char *batch);
/* Returns true for such a batch, and for a replay that a process may have appended before it
 * crashed, besides the one whose answer the caller got in the end: adapter/journal/journal_queue.h
 * says when one key makes two batches. Each request without an answer excuses one batch, which must
 * consist of items of `from` with failed photos. */
bool sim_due_excused(struct sim_due *d, const char *batch);
/* Returns true if the batch is a replay whose answer a caller has got. */
bool sim_due_knows(const struct sim_due *d, const char *batch);
/* The first result of an item of a batch has come; `data` is its member `data`. */
void sim_due_result(struct sim_due *d, const json_t *data);
/* Returns the number of replays whose results have not all come. */
size_t sim_due_missing(struct sim_due *d);
/* Checks what must hold when all has ended. */
void sim_due_end(struct sim_due *d);

#endif
