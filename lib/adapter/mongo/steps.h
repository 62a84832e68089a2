/* steps.h: the operations of both ports, and the steps that several of them share. Each section
 * names the file that implements it. README.md says how operations use the steps.
 *
 * An operation runs on a thread of the lane, with t->tmp empty, and initializes its outputs first.
 * Its result is t->err. To add one: its struct and its row in the port, and a function here. */
#ifndef PP_ADAPTER_MONGO_STEPS_H
#define PP_ADAPTER_MONGO_STEPS_H

#include "photopool/task_rules.h"
#include "run.h"

#define X(name, type) void pp_mg_##name(struct pp_mg_thread *t, struct type *r);
PP_MG_STORE_OPS(X)
#undef X
#define X(name, type) void pp_mg_delivery_##name(struct pp_mg_thread *t, struct type *r);
PP_DELIVERY_OPS(X)
#undef X
#define X(name, type) void pp_mg_counters_##name(struct pp_mg_thread *t, struct type *r);
PP_CSTORE_OPS(X)
#undef X

/* --- seq.c: numbers of finished items --- */

/* A block of numbers first..first+n-1. Writes may use them until deadline_ms by the server's
 * clock: a write has MG_GUARD of commands.h in its filter. The call that took the block closes
 * it after its writes. */
struct pp_mg_seq {
    int64_t first, n, deadline_ms;
    int64_t asked_ms; /* our monotonic clock, before the block was taken */
};
enum pp_err pp_mg_seq_take(struct pp_mg_thread *t, size_t n, struct pp_mg_seq *out);
/* Returns which numbers of the block items carry, in t->tmp. The items' clients and _ids are lists
 * (template.h). NULL: the operation has failed. */
bool *pp_mg_seq_used(struct pp_mg_thread *t, const struct pp_mg_seq *s, const void *clients, size_t n_clients,
                     size_t clients_stride, const void *ids, size_t n_ids, size_t ids_stride);
/* Returns whether a reader may have passed the block's numbers. The caller asks this after inserts,
 * because an insert has no filter that could check the deadline. */
bool pp_mg_seq_late(const struct pp_mg_seq *s);
/* Closes the block. If that fails, readers stop at this block until it lapses. n == 0: does
 * nothing. */
void pp_mg_seq_close(struct pp_mg_thread *t, const struct pp_mg_seq *s);
/* Sets *end: results with lower numbers may be shown, because no write with such a number
 * succeeds any more. Call this before reading items. */
void pp_mg_seq_end(struct pp_mg_thread *t, int64_t *end);

/* --- batch_sum.c: the batches that an operation has changed, and counts of batches --- */

/* Adds items that finished and photos that were settled to a batch, which may be new, in
 * t->moved. */
void pp_mg_moved_add(struct pp_mg_thread *t, const char *batch, const char *client, uint32_t items,
                     uint32_t photos);

/* Computes the counts of these batches (id, client) from their items, and adds them. Raises
 * finished_at to the latest end of an item. */
void pp_mg_batches_count(struct pp_mg_thread *t, struct pp_arena *a, struct pp_batch *batches, size_t n);
/* Records counts and finished_at of batches that have ended, unless they are recorded already.
 * With settled_ms, records only batches that finished at least that long ago. `ours` (may be
 * NULL) says for each batch whether this call has recorded it. */
void pp_mg_batches_record(struct pp_mg_thread *t, struct pp_batch *batches, size_t n, int64_t settled_ms,
                          bool *ours);
/* Reads the counts that are recorded in a batch's document. */
void pp_mg_batch_read_sum(struct pp_mg_thread *t, const bson_t *doc, struct pp_arena *a,
                          struct pp_batch *out);
/* Records the end of the batches in t->moved that are completely planned and have no open item,
 * and sets `finished` of those that this call recorded. Without `all` it checks only batches
 * with a finished item. now_ms is recorded as their end; 0 stands for the end of their last item.
 */
void pp_mg_batches_check(struct pp_mg_thread *t, bool all, int64_t now_ms);

/* --- finish.c: writes outcomes into items --- */

struct pp_mg_answer {
    const char *client;
    struct pp_key key;
    struct pp_outcome outcome;
    int64_t nonce; /* t.n of the settled task; 0: the photo has no task */
};
/* Writes the outcomes, none of them OPEN, into every open item that waits for one of the photos
 * (items.ok). An item without open photos becomes terminal, and a batch without open items is
 * finished. Adds to t->moved. Sorts `answers`. Repeating the call changes nothing.
 * PP_EUNKNOWN: the caller must repeat the call. */
void pp_mg_finish(struct pp_mg_thread *t, struct pp_mg_answer *answers, size_t n, int64_t now_ms);
/* Like pp_mg_finish(); then deletes the settled tasks, whose outcomes are in all items. An outcome
 * OPEN stands for a task that has returned to waiting although an item has left: first calls
 * pp_mg_leave() for these. */
void pp_mg_finish_tasks(struct pp_mg_thread *t, struct pp_mg_answer *answers, size_t n, int64_t now_ms);
/* If nobody has finished a settled task after this time, the reaper finishes it. The time is longer
 * than a slow server needs for finishing. */
enum { PP_MG_FINISH_MS = 10000 };

/* --- close.c: ends items without outcomes, and deletes tasks that no item waits for --- */

/* Makes the open ones among the items superseded or cancelled, makes their open photos cancelled,
 * and calls pp_mg_leave() for these photos. `ids` are _ids of documents, all of one client. Adds to
 * t->moved. */
void pp_mg_items_close(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n,
                       enum pp_item_status status, int64_t now_ms);
/* Cancels all open items of a batch. */
void pp_mg_cancel_open(struct pp_mg_thread *t, const char *batch, const char *client, int64_t now_ms);
/* Deletes waiting tasks of these photos if no item waits for them. Marks claimed ones (t.lv), so
 * that the same check is made when they return to waiting. */
void pp_mg_leave(struct pp_mg_thread *t, const char *client, const struct pp_key *keys, size_t n);
/* Reduces `keys` to the photos that no open item waits for, sorted, without duplicates. */
void pp_mg_unwanted(struct pp_mg_thread *t, const char *client, struct pp_key *keys, size_t *n);

/* --- read_batch.c, read_item.c --- */

/* Reads the batch's client (in t->tmp). Returns whether the batch has ended: then all of its
 * results are visible. PP_ENOTFOUND: there is no such batch. */
bool pp_mg_batch_end(struct pp_mg_thread *t, const char *batch_id, const char **client);
/* Writes the _id of a part of the verdicts on rejected items. In the order of these texts, a
 * batch's parts are in the order of their numbers. */
enum { PP_MG_PART_MAX = PP_BATCH_ID_MAX + 12 };
void pp_mg_part_id(char out[PP_MG_PART_MAX], const char *batch_id, uint32_t number);
/* Returns the highest revision of each item of a list (template.h), in t->tmp; 0: the item has
 * none. NULL: the operation has failed. */
uint32_t *pp_mg_newest(struct pp_mg_thread *t, const char *client, const void *ids, size_t n, size_t stride);

/* --- candidates.c --- */

/* A waiting task as the claim's query returned it. */
struct pp_mg_candidate {
    /* the task with the epoch and attempts that the claim will give it; without client and handle
     */
    struct pp_task task;
    double due; /* due time in ms by our clock; its fraction keeps the order of planning */
    uint32_t hash;
    uint8_t queue;
    bool conditional; /* the fetch may be conditional, by the photo's validators */
};

/* The state of one want during a claim. */
struct pp_mg_wanted {
    const struct pp_claim_want *want;
    uint32_t left;  /* tasks still wanted, at most PP_MG_COMMAND_DOCS */
    uint32_t reach; /* most tasks of other ranges that a round takes; 0: its fair share */
    /* candidates to claim in this round, in t->tmp: own range first */
    struct pp_mg_candidate *found;
    size_t n_found, n_own;
    bool had_own;    /* the own range had due tasks in some round of this call */
    bool more;       /* other ranges have more due tasks, not taken because of `reach` */
    int64_t next_ms; /* first due time of the tasks that are not in `found`; INT64_MAX: none */
};

/* Finds the tasks that each want of the claim `r` may take: due tasks of its own range, earliest
 * first, then tasks of other ranges if its own has too few. The caller passes at most PP_MG_WANTS
 * wants, no two of the same queue. Strings are in the arena of `r`. */
enum { PP_MG_WANTS = 200 };
void pp_mg_candidates(struct pp_mg_thread *t, const struct pp_store_claim *r,
                      struct pp_mg_wanted *const *wanted, size_t n);

/* --- lost.c --- */

/* Remembers a claim whose outcome is unknown: of the tasks with its nonce, only `known` were
 * handed out. pp_mg_lost_release() returns the others to waiting, as if never claimed, until
 * until_ms and once after. */
void pp_mg_lost_add(struct pp_mg_thread *t, const char *worker, int64_t nonce, int64_t until_ms,
                    const struct pp_key *known, size_t n);
/* Hands back tasks of remembered claims; costs little when there are none. */
void pp_mg_lost_release(struct pp_mg_thread *t, int64_t now_ms);
void pp_mg_lost_free(struct pp_mg *m);

/* --- rekey.c --- */

/* Gives all photos the keys of their canonical URLs. Calls keep() before each page of items, which
 * returns false to end it; it goes on from there the next time. Returns true when all have their
 * keys. */
bool pp_mg_rekey(struct pp_mg_thread *t, bool (*keep)(struct pp_mg_thread *t, void *data), void *data);

/* --- park.c --- */

/* Returns the times of a task by the server's clock. The arguments are by ours. */
struct pp_task_times pp_mg_times_of(const struct pp_mg_thread *t, int64_t own_ms, int64_t park_ms,
                                    int64_t wait_until_ms);

/* --- planning: plan.c has the steps --- */

/* An item of the chunk, and its progress. */
struct pp_mg_plan_row {
    struct pp_plan_item *item;
    const char *id;  /* _id of the item's document */
    uint32_t newest; /* the highest revision that the item has so far; 0: it has none */
    bool newest_open;
    bool repeated;       /* an earlier call has planned this item for the same batch */
    bool inserted;       /* this call has inserted the item */
    struct pp_key *open; /* keys of its open photos, each once */
    size_t n_open;
    enum pp_item_status status;
    /* if the item was terminal at insert, its number, which is not guarded by a deadline; else 0 */
    int64_t seq;
    bool late; /* a reader may have passed `seq` before the item was visible */
};

/* Tries to insert a chunk. Each conflict with calls that plan the same items costs all but one
 * of them a try. */
enum { PP_MG_PLAN_TRIES = 40 };

struct pp_mg_planning {
    struct pp_mg_thread *t;
    struct pp_store_plan *r;
    struct pp_mg_plan_row *rows;
    struct pp_mg_plan_row **by_name; /* the rows, sorted by item id */
    const char **names;              /* scratch: the item ids for a query */
    int64_t lowest;                  /* lowest index in the batch of the chunk's items */
    bool begun;                      /* true: an earlier call may have planned some items of the chunk */
    bool planned;                    /* the last chunk of the batch had already been planned */
    bool cancelled;
    int64_t numbered; /* value of the batch's `pd`: items below this index have safe numbers */
    /* numbers of the inserted items; the blocks stay open until `pd` is recorded */
    struct pp_mg_seq blocks[PP_MG_PLAN_TRIES];
    size_t n_blocks;
    int64_t due[PP_QUEUES]; /* earliest due time of the tasks created, by queue; INT64_MAX: none */
};

/* --- plan_items.c --- */

/* Inserts the missing revisions, and fills in the rows of existing ones. */
void pp_mg_plan_items(struct pp_mg_planning *p);
/* Reads the items' newest revisions; called before the batch is marked as begun. */
void pp_mg_plan_newest(struct pp_mg_planning *p);

/* Finds the rows of the item that a document names in the field `path`. Returns the index in
 * by_name of the first one, and sets *end to the index after the last one. */
size_t pp_mg_plan_rows(struct pp_mg_planning *p, const bson_t *doc, const char *path, size_t *end);

/* --- ensure.c --- */

/* Makes sure that every open photo of the rows has a task. */
void pp_mg_plan_ensure(struct pp_mg_planning *p);

#endif
