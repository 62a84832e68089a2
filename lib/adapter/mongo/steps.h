/* steps.h: steps that several operations share. Each section names the file that implements it.
 * README.md says how operations use them. */
#ifndef PP_ADAPTER_MONGO_STEPS_H
#define PP_ADAPTER_MONGO_STEPS_H

#include "run.h"

/* --- seq.c: numbers of finished items --- */

/* A block of numbers first..first+n-1. Writes may use them until deadline_ms by the server's
 * clock: a write has MG_GUARD of commands.h in its filter. The call that took the block closes
 * it after its writes. */
struct pp_mg_seq {
    int64_t first, n, deadline_ms;
    int64_t asked_ms; /* our monotonic clock, before the block was taken */
};
enum pp_err pp_mg_seq_take(struct pp_mg_thread *t, size_t n, struct pp_mg_seq *out);
/* Returns whether a reader may have passed the block's numbers. The caller asks this after inserts,
 * because an insert has no filter that could check the deadline. */
bool pp_mg_seq_late(const struct pp_mg_seq *s);
/* Closes the block. If that fails, readers stop at this block until it lapses. n == 0: does
 * nothing. */
void pp_mg_seq_close(struct pp_mg_thread *t, const struct pp_mg_seq *s);
/* Sets *end: results with lower numbers may be shown, because no write with such a number
 * succeeds any more. Call this before reading items. */
enum pp_err pp_mg_seq_end(struct pp_mg_thread *t, int64_t *end);

/* --- batch_sum.c: the batches that an operation has changed, and counts of batches --- */

/* The changed batches, and how many items finished. Strings and arrays are in `arena`. */
struct pp_mg_moved {
    struct pp_arena *arena;
    struct pp_batch_delta *batches;
    const char **clients; /* client of each batch */
    size_t n, cap;
    uint64_t items_finished;
};
/* Adds items that finished and photos that were settled to the batch, which may be new in
 * `moved`. */
void pp_mg_moved_add(struct pp_mg_thread *t, struct pp_mg_moved *moved, const char *batch, const char *client,
                     uint32_t items, uint32_t photos);

/* Computes the counts of these batches (id, client) from their items, and adds them. Raises
 * finished_at to the latest end of an item. */
enum pp_err pp_mg_batches_count(struct pp_mg_thread *t, struct pp_arena *a, struct pp_batch *batches,
                                size_t n);
/* Records counts and finished_at of batches that have ended, unless they are recorded already.
 * With settled_ms, records only batches that finished at least that long ago. `ours` (may be
 * NULL) says for each batch whether this call has recorded it. */
enum pp_err pp_mg_batches_record(struct pp_mg_thread *t, struct pp_batch *batches, size_t n,
                                 int64_t settled_ms, bool *ours);
pp_must_check enum pp_err pp_mg_batch_read_sum(const bson_t *doc, struct pp_arena *a, struct pp_batch *out);
/* Records the end of the batches in `moved` that are completely planned and have no open item,
 * and sets `finished` of those that this call recorded. Without `all` it checks only batches
 * with a finished item. now_ms is recorded as their end; 0 stands for the end of their last item.
 */
enum pp_err pp_mg_batches_check(struct pp_mg_thread *t, struct pp_mg_moved *moved, bool all, int64_t now_ms);

/* --- finish.c: writes outcomes into items --- */

struct pp_mg_answer {
    const char *client;
    struct pp_key key;
    struct pp_outcome outcome; /* never OPEN */
    int64_t nonce;             /* t.n of the settled task; 0: the photo has no task */
};
/* Writes the outcomes into every open item that waits for one of the photos (items.ok). An item
 * without open photos becomes terminal, and a batch without open items is finished. Adds to
 * `moved`. Sorts `answers` by client. Repeating the call changes nothing. PP_EUNKNOWN: the caller
 * must repeat the call. */
enum pp_err pp_mg_finish(struct pp_mg_thread *t, struct pp_mg_answer *answers, size_t n, int64_t now_ms,
                         struct pp_mg_moved *moved);
/* Like pp_mg_finish(); then deletes the settled tasks, whose outcomes are in all items. */
enum pp_err pp_mg_finish_tasks(struct pp_mg_thread *t, struct pp_mg_answer *answers, size_t n, int64_t now_ms,
                               struct pp_mg_moved *moved);

/* --- close.c: ends items without outcomes, and deletes tasks that no item waits for --- */

/* Makes the open ones among the items superseded or cancelled, makes their open photos cancelled,
 * and calls pp_mg_leave() for these photos. `ids` are _ids of documents, all of one client. Adds to
 * `moved`. */
enum pp_err pp_mg_items_close(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n,
                              enum pp_item_status status, int64_t now_ms, struct pp_mg_moved *moved);
/* Cancels all open items of a batch. */
enum pp_err pp_mg_cancel_open(struct pp_mg_thread *t, const char *batch, const char *client, int64_t now_ms,
                              struct pp_mg_moved *moved);
/* Deletes waiting tasks of these photos if no item waits for them. Marks claimed ones (t.lv), so
 * that the same check is made when they return to waiting. */
enum pp_err pp_mg_leave(struct pp_mg_thread *t, const char *client, const struct pp_key *keys, size_t n);
/* Like pp_mg_leave(), for tasks of several clients. Sorts `tasks`. */
struct pp_mg_task_ref {
    const char *client;
    struct pp_key key;
};
enum pp_err pp_mg_leave_tasks(struct pp_mg_thread *t, struct pp_mg_task_ref *tasks, size_t n);
/* Reduces `keys` to the photos that no open item waits for, sorted, without duplicates. */
enum pp_err pp_mg_unwanted(struct pp_mg_thread *t, const char *client, struct pp_key *keys, size_t *n);

/* --- read_batch.c, read_item.c --- */

/* Reads the batch's client (in t->tmp), and whether the batch has ended: then all of its results
 * are visible. PP_ENOTFOUND: there is no such batch. */
enum pp_err pp_mg_batch_end(struct pp_mg_thread *t, const char *batch_id, const char **client, bool *ended);
/* Returns the highest revision of each item, in t->tmp; 0: the item has none. NULL: the operation
 * has failed. */
uint32_t *pp_mg_newest(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n);

#endif
