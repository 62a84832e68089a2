/* task_store.h: the truth: items, tasks, photos, batches, client settings, routes.
 *
 * Every operation is asynchronous (req.h) and works on many rows at once: callers batch. Permitted errors
 * everywhere: PP_OK, PP_EFULL and PP_ECLOSED at submit; PP_EIO, PP_ENOSPC, PP_ETIMEOUT, PP_EUNKNOWN,
 * PP_ENOMEM, PP_ECORRUPT at done. PP_EUNKNOWN means that the write may or may not have happened: each
 * operation says how to find out.
 *
 * Rules that the contract suite (tests/contract/suite_task_store.c) checks on every adapter:
 *  - A task is what (client, URL) still has to be fetched for; item revisions wait for it. A URL that two
 * open revisions name is one task with two waiters. When its last waiter goes (superseded, cancelled) a
 * waiting task is deleted, a claimed one runs on.
 *  - Every write on a claimed task is a compare-and-set on (task, worker, epoch): a stale one changes nothing
 * and is reported (I3).
 *  - The write that brings an item's open photos to zero makes it terminal, with a `seq` higher than any
 * before in this store.
 *  - An item is complete when every photo has bytes (also with no photos), failed when none has, else
 * partial.
 *  - All writes of one call are atomic per item and per task; an adapter with transactions makes the whole
 * call atomic. */
#ifndef PHOTOPOOL_PORT_TASK_STORE_H
#define PHOTOPOOL_PORT_TASK_STORE_H

#include "photopool/req.h"
#include "photopool/task.h"

/* Queues of a client's waiting tasks: its tier's number, or this one for suspects (losses >= 2), which run
 * alone. */
#define PP_QUEUE_SUSPECT 8
#define PP_QUEUES        9

/* --- planning --- */

struct pp_store_lookup { /* what is known of these photos */
    struct pp_req req;
    const char *client;
    const struct pp_key *keys;
    size_t n;
    struct pp_photo *photos; /* out: n, in the order of keys; strings in the arena */
};

struct pp_backlog_row {
    const char *client;
    uint8_t queue;
    int64_t due_ms; /* of the earliest waiting task */
    bool known;     /* read back from the store, nothing that has just changed: for those who lack it */
};

struct pp_store_plan { /* writes items and tasks; repeating it (same batch, same items) changes nothing */
    struct pp_req req;
    const char *client;
    const char *batch_id;
    enum pp_refresh refresh;
    int64_t batch_created_at;
    uint64_t batch_items, batch_photos; /* of the whole batch, not only of this call */
    struct pp_plan_item *items;
    size_t n;
    bool last; /* the batch's last chunk: with all items terminal it is finished */
    int64_t now_ms;
    /* out */
    struct pp_backlog_row *backlog; /* queues that have something new */
    size_t n_backlog;
    uint64_t tasks_opened, items_finished;
};
/* In plan: the item's revision is the newest one's + 1 (1 for a new item). An open older revision becomes
 * `superseded` (its open photos `cancelled`), after the new one has joined the tasks that both want. A photo
 * whose outcome is not OPEN is final at once; so is an OPEN one that was stored after it was looked up
 * (pp_plan_photo_late). SKIPPED adds one to the photo's `skips`. A batch cancelled
 * before its last chunk gets its further items as cancelled. */

/* --- claiming --- */

struct pp_claim_want {
    const char *client;
    uint8_t queue;
    uint32_t n;                /* at most */
    uint32_t hash_lo, hash_hi; /* own range first, inclusive */
};

struct pp_store_claim {
    struct pp_req req;
    const char *worker;
    int64_t lease_ms;
    const struct pp_claim_want *wants;
    size_t n_wants;
    int64_t now_ms;
    /* out */
    struct pp_task *tasks;
    size_t n;
    struct pp_backlog_row
        *next; /* per want, in order: when its queue has something due next; INT64_MAX: it is empty */
};
/* In claim: due tasks only, earliest first, attempts + 1, epoch + 1. PP_EUNKNOWN: the tasks come back by
 * themselves. */

struct pp_batch_delta {
    const char *batch_id;
    uint32_t photos; /* settled now */
    uint32_t items;  /* finished now */
    bool finished;   /* that was the last */
};

struct pp_store_settle {
    struct pp_req req;
    const char *worker;
    struct pp_settlement *settlements;
    size_t n;
    int64_t now_ms;
    /* out; `stale` is set in each settlement */
    struct pp_batch_delta *batches;
    size_t n_batches;
    uint64_t items_finished;
};
/* In settle: FINAL deletes the task, writes its photo (object and validators, or with `ladder` the failure:
 * streak + 1, skips 0), and gives every waiter the outcome. STORED where the object equals what the photo had
 * before is written as UNCHANGED by the caller, not here. Idempotent: repeating a settlement that went
 * through reports it stale. */

struct pp_store_renew { /* extends the leases of everything that `worker` has claimed */
    struct pp_req req;
    const char *worker;
    int64_t lease_ms, now_ms;
    uint64_t n; /* out: tasks renewed */
};

struct pp_store_reap { /* claims whose lease lapsed, or (at start) whose worker is not `alive`, return to
                          waiting: losses + 1 */
    struct pp_req req;
    const char *alive; /* NULL: judge by lease; else: every claim of another worker has lapsed */
    int64_t now_ms;
    size_t limit; /* tasks a call, at most */
    /* out */
    struct pp_backlog_row *backlog;
    size_t n_backlog;
    uint64_t lapsed, quarantined, items_finished; /* lapsed + quarantined == limit: call again */
};
/* In reap: losses 2 moves a task to PP_QUEUE_SUSPECT; losses 3 makes it FAILED with code quarantined for all
 * its waiters. */

struct pp_store_backlog { /* every queue that has a waiting task, to rebuild the coordinator's index */
    struct pp_req req;
    struct pp_backlog_row *rows; /* out */
    size_t n;
};

struct pp_store_retier { /* waiting tasks of (client, domain) that were never tried (attempts 0) move to
                            `tier`, due at `due_ms` */
    struct pp_req req;
    const char *client, *domain;
    uint8_t tier;
    int64_t due_ms, now_ms;
    uint64_t n; /* out: tasks changed */
};

/* --- batches, items, photos: what the API reads and changes --- */

struct pp_store_batch { /* PP_ENOTFOUND: no such batch, or not yet planned, or another client's */
    struct pp_req req;
    const char *batch_id;
    const char *client;    /* NULL: any */
    struct pp_batch batch; /* out */
};

struct pp_store_batches { /* newest first */
    struct pp_req req;
    const char *client; /* NULL: any */
    int state;          /* enum pp_batch_state, or -1 */
    const char *after;  /* batch id of the last seen; NULL: from the newest. Ids sort by time. */
    size_t limit;
    struct pp_batch *batches; /* out */
    size_t n;
    bool more;
};

struct pp_store_cancel { /* every open item becomes cancelled; idempotent; PP_ENOTFOUND as for batch */
    struct pp_req req;
    const char *batch_id;
    const char *client; /* NULL: any; else the owner */
    /* Of a batch that is not planned yet, from the ingest queue; created_at 0: the batch must exist. */
    const char *owner;
    enum pp_refresh refresh;
    int64_t created_at;
    uint64_t items, photos;
    int64_t now_ms;
    uint64_t items_cancelled, photos_cancelled; /* out */
};

struct pp_store_results { /* finished items of a batch in order of seq */
    struct pp_req req;
    const char *batch_id;
    int status;    /* enum pp_item_status, or -1 */
    uint16_t code; /* items with a photo of this code; 0: all */
    uint64_t after_seq;
    size_t limit;
    struct pp_item *items; /* out */
    size_t n;
    bool more;
};

/* --- the outbox: finished items in order of seq, whosever they are (delivery_store.h) --- */

struct pp_store_outbox {
    struct pp_req req;
    uint64_t after_seq; /* those above; later calls never find one below what this one returned */
    const uint64_t
        *seqs; /* n_seqs > 0: only these, where they still exist; after_seq and limit don't count */
    size_t n_seqs;
    size_t limit;
    struct pp_item *items; /* out */
    size_t n;
    uint64_t
        end; /* out: the highest seq that a reader may have come to by now; 0: nothing has ever finished */
};

struct pp_outbox_count {
    uint64_t after_seq;
    uint64_t messages; /* out: finished items above; beyond 1,000,000 an estimate will do */
    int64_t oldest_at; /* out: finished_at of the first of them; 0: none */
};

struct pp_store_outbox_counts {
    struct pp_req req;
    struct pp_outbox_count *counts; /* in the request's arena or the caller's; filled in */
    size_t n;
};

struct pp_store_numbers { /* `n` numbers that were never handed out under this name; holes are fine */
    struct pp_req req;
    const char *name; /* at most 63 of [a-z] */
    uint64_t n;
    uint64_t first; /* out: first..first+n-1; above every earlier one; the first ever is 1 */
};

struct pp_store_item { /* the newest revision; PP_ENOTFOUND */
    struct pp_req req;
    const char *client, *id;
    struct pp_item item; /* out */
};

struct pp_store_photo { /* one photo's record and its open task, for explain */
    struct pp_req req;
    const char *client;
    struct pp_key key;
    struct pp_photo photo; /* out */
    bool open, claimed;    /* out: there is a task; somebody has claimed it */
    uint8_t tier, losses;
    uint32_t attempts;
    int64_t due_ms;
};

struct pp_store_object { /* PP_ENOTFOUND: no photo of this client (NULL: of any) has these bytes */
    struct pp_req req;
    uint8_t sha256[PP_SHA256_BYTES];
    const char *client;
    struct pp_object object; /* out */
};

struct pp_store_replay { /* finished items of the batch that have a failed or skipped photo matching, with
                            their full lists */
    struct pp_req req;
    const char *batch_id;
    const uint16_t *codes; /* n_codes 0: any code */
    size_t n_codes;
    const char *const *domains; /* n_domains 0: any domain */
    size_t n_domains;
    uint64_t after_seq;
    size_t limit;          /* items */
    struct pp_item *items; /* out; only items that are still the newest revision */
    size_t n;
    uint64_t photos; /* out: photos matching in these items */
    bool more;
};

struct pp_store_clients { /* settings: of one (id set), of several (ids set, each once), or a list in order of
                             id after `after` */
    struct pp_req req;
    const char *id;
    const char *const *ids;
    size_t n_ids;
    const char *after;
    size_t limit;              /* of a list */
    struct pp_client *clients; /* out; in order of id; unknown clients are left out */
    size_t n;
    bool more;
};

struct pp_store_put_client {
    struct pp_req req;
    struct pp_client client;
};

struct pp_store_routes { /* in order of (client, domain) after (after_client, after_domain) */
    struct pp_req req;
    const char *client, *domain;             /* NULL: any */
    const char *after_client, *after_domain; /* NULL: from the first */
    size_t limit;
    struct pp_route_row *rows; /* out */
    size_t n;
    bool more;
};

struct pp_store_save_routes {
    struct pp_req req;
    const struct pp_route_row *rows;
    size_t n;
};

struct pp_queue_count {
    uint8_t queue;
    uint64_t photos;
    int64_t oldest_ms; /* since when the oldest waits; 0: none */
};

struct pp_store_queue {
    struct pp_req req;
    struct pp_queue_count counts[PP_QUEUES]; /* out, by queue; claimed tasks not included */
    uint64_t claimed;
};

struct pp_store_clean { /* retention: forgets finished batches with their items, at most `limit` items a call
                         */
    struct pp_req req;
    int64_t finished_before_ms;
    size_t limit;
    uint64_t items; /* out: == limit: call again */
};

struct pp_store_generation { /* names the coordinator's data set, for good */
    struct pp_req req;
    const char *dataset; /* at most 63 bytes */
    bool first;          /* out: it is the first one that was ever named here; again: the same answer */
};

struct pp_task_store;

struct pp_task_store_ops {
#define PP_STORE_OP(name, type) pp_must_check enum pp_err (*name)(struct pp_task_store * s, struct type * r)
    PP_STORE_OP(lookup, pp_store_lookup);
    PP_STORE_OP(plan, pp_store_plan);
    PP_STORE_OP(claim, pp_store_claim);
    PP_STORE_OP(settle, pp_store_settle);
    PP_STORE_OP(renew, pp_store_renew);
    PP_STORE_OP(reap, pp_store_reap);
    PP_STORE_OP(backlog, pp_store_backlog);
    PP_STORE_OP(retier, pp_store_retier);
    PP_STORE_OP(batch, pp_store_batch);
    PP_STORE_OP(batches, pp_store_batches);
    PP_STORE_OP(cancel, pp_store_cancel);
    PP_STORE_OP(results, pp_store_results);
    PP_STORE_OP(item, pp_store_item);
    PP_STORE_OP(photo, pp_store_photo);
    PP_STORE_OP(object, pp_store_object);
    PP_STORE_OP(replay, pp_store_replay);
    PP_STORE_OP(clients, pp_store_clients);
    PP_STORE_OP(put_client, pp_store_put_client);
    PP_STORE_OP(routes, pp_store_routes);
    PP_STORE_OP(save_routes, pp_store_save_routes);
    PP_STORE_OP(queue, pp_store_queue);
    PP_STORE_OP(clean, pp_store_clean);
    PP_STORE_OP(outbox, pp_store_outbox);
    PP_STORE_OP(outbox_counts, pp_store_outbox_counts);
    PP_STORE_OP(numbers, pp_store_numbers);
    /* NULL where the coordinator's data can't be lost apart from the store's. */
    PP_STORE_OP(generation, pp_store_generation);
#undef PP_STORE_OP
    /* Round trips so far by kind, for metrics: any thread. `name` points to a constant; false past the last.
     */
    bool (*roundtrips)(struct pp_task_store *s, size_t i, const char **name, uint64_t *n);
    /* Finishes what is under way, then frees; call after every request has come back, on the loop thread. May
     * block briefly. */
    void (*close)(struct pp_task_store *s);
};

/* Adapters embed this as their first member. */
struct pp_task_store {
    const struct pp_task_store_ops *ops;
};

#endif
