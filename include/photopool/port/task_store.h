/* task_store.h: the permanent store of items, tasks, photos, batches, client settings and routes.
 *
 * Every operation is asynchronous (req.h) and works on many rows at once: callers batch. Errors of
 * every operation: PP_EFULL and PP_ECLOSED at submit; PP_EIO, PP_ENOSPC, PP_ETIMEOUT, PP_EUNKNOWN,
 * PP_ENOMEM and PP_ECORRUPT at done. After PP_EUNKNOWN the write may or may not have happened; the
 * caller repeats it. The comment of an operation names its further errors.
 *
 * Rules that the contract suite (tests/contract/suite_task_store.c) checks on every adapter:
 *  - A task is a (client, URL) to fetch; photos of item revisions wait for it. Open revisions with
 *    the same URL are waiters of one task. If all waiters of a task are superseded or cancelled,
 *    the store deletes a waiting task, and lets a claimed one run on.
 *  - Every write to a claimed task is a compare-and-set on (task, worker, epoch). A write with an
 *    older epoch changes nothing and is reported as stale.
 *  - The write that settles an item's last open photo makes the item terminal. Its `seq` is higher
 *    than any before in this store.
 *  - An item is complete when every photo has bytes (or it has no photos), failed when none has,
 *    else partial.
 *  - A waiting task that is parked (task_rules.h) is claimed by nobody before it is due again. A
 *    task has at most one host, its `domain`: the host of its URL (pp_url.host in core/url.h).
 *  - Leases and due times (now_ms, due_ms, park_ms, wait_until_ms, until) are steady wall times
 * (base/clock.h). A store of several processes keeps them by its own clock. Other times are dates.
 *  - All writes of one call are atomic per item and per task; an adapter with transactions makes
 *    the whole call atomic. */
#ifndef PHOTOPOOL_PORT_TASK_STORE_H
#define PHOTOPOOL_PORT_TASK_STORE_H

#include "photopool/req.h"
#include "photopool/task_rules.h"

/* --- requests of the planner --- */

struct pp_store_lookup { /* reads the records of photos */
    struct pp_req req;
    const char *client;
    const struct pp_key *keys;
    size_t n;
    /* out: n records, in the order of the keys; the arena owns the strings */
    struct pp_photo *photos;
};

/* A place in the order in which a store reads the keys of its photos; its members mean something
 * only to the store. A zeroed one is before all photos. */
struct pp_photo_place {
    uint64_t row;
    struct pp_key key;
};

/* Reads a page of the keys of all photos that have a record or a task, to build the filter of known
 * photos. A series of pages has each photo that was planned before its first page, and may have
 * others. */
struct pp_store_keys {
    struct pp_req req;
    struct pp_photo_place after; /* the place where the page before has ended */
    size_t limit;
    /* The store sets the following fields. */
    struct pp_key *keys; /* in the arena */
    size_t n;
    bool more;
    struct pp_photo_place end; /* where this page ends */
};

struct pp_backlog_row {
    const char *client;
    uint8_t queue;
    int64_t due_ms; /* when the first waiting task of the queue is due */
    /* true: a worker read this row back from the store, so the other workers may know it already */
    bool known;
};

/* A part of the verdicts on a batch's rejected items, which the store keeps as bytes. Their form is
 * the business of the stages (pipeline/accept/rejected.h). */
struct pp_rejected_part {
    uint32_t number; /* parts of one batch are numbered from 0 */
    const void *bytes;
    size_t n;
};

/* Writes items and tasks, and parts of the verdicts on rejected items. A repeated call with the
 * same batch and items changes nothing.
 *
 * A new revision gets the item's newest revision number + 1 (1 for a new item). It joins the tasks
 * that it shares with an open older revision; then the older revision becomes `superseded`, and its
 * open photos `cancelled`. A photo with an outcome other than OPEN is final at once. So is an OPEN
 * photo whose bytes were stored after its look-up (pp_plan_photo_late()). SKIPPED adds 1 to the
 * photo's `skips`. If the batch was cancelled before, the call cancels its items, too. A batch that
 * has finished has all its items, so a call for it plans none, not even one that was deleted. */
struct pp_store_plan {
    struct pp_req req;
    const char *client;
    const char *batch_id;
    const char *label; /* NULL: none */
    enum pp_refresh refresh;
    int64_t batch_created_at;
    /* numbers of the whole batch, not only of this call */
    uint64_t batch_items, batch_photos, batch_rejected;
    const struct pp_rejected_part *rejected; /* n_rejected parts */
    size_t n_rejected;
    struct pp_plan_item *items;
    size_t n;
    /* true: the call has the batch's last items, so the batch finishes when its last item does */
    bool last;
    int64_t date_ms; /* the time of creation, and of what finishes at once */
    /* The store sets the following fields. */
    /* the queues that got new tasks, each with its earliest due time */
    struct pp_backlog_row *backlog;
    size_t n_backlog;
    uint64_t tasks_opened, items_finished;
};

/* --- requests of the claimer and the settler --- */

struct pp_claim_want {
    const char *client;
    uint8_t queue;
    uint32_t n; /* claims at most this many tasks */
    /* hash range, both ends included; tasks in it are claimed before others */
    uint32_t hash_lo, hash_hi;
};

/* Claims due tasks, earliest first. Each claim raises the task's attempts and epoch by 1. If the
 * answer is lost (PP_EUNKNOWN), the tasks become claimable again when their leases end. */
struct pp_store_claim {
    struct pp_req req;
    const char *worker;
    int64_t lease_ms;
    const struct pp_claim_want *wants;
    size_t n_wants;
    int64_t now_ms;
    /* No delay, and no park, is so long that a task can be due later than this. If one is, its due
     * time comes from a clock that was wrong, and it is due now. 0: the caller sets no bound. */
    int64_t latest_ms;
    /* The store sets the following fields. */
    struct pp_task *tasks;
    size_t n;
    /* number of tasks that this call tried to claim, but another worker got first */
    uint64_t conflicts;
    /* For each queue asked for, in the same order: when its next task is due; INT64_MAX: the queue
     * is empty. */
    struct pp_backlog_row *next;
};

struct pp_batch_delta {
    const char *batch_id;
    uint32_t photos; /* photos that this call settled */
    uint32_t items;  /* items that this call finished */
    bool finished;   /* true: this call finished the batch */
};

/* Ends claims. FINAL deletes the task, writes the photo's record (object and validators, or with
 * `ladder` the failure: streak + 1, skips 0), and gives every waiter the outcome. A settlement of
 * any kind adds its attempt to the last attempts of the photo, unless it is stale. The caller, not
 * the store, turns STORED into UNCHANGED when the object equals the previous one. Repeating is
 * safe: the second time, the store reports the settlement as stale. PP_EINVAL:
 * pp_settlements_valid() is false. */
struct pp_store_settle {
    struct pp_req req;
    const char *worker;
    struct pp_settlement *settlements;
    size_t n;
    int64_t now_ms, date_ms; /* date_ms: the time of what finishes or fails by the outcomes */
    /* The store sets the following fields, and `stale` in each settlement. */
    struct pp_batch_delta *batches;
    size_t n_batches;
    uint64_t items_finished;
};

struct pp_store_renew { /* extends the leases of all tasks that `worker` has claimed */
    struct pp_req req;
    const char *worker;
    int64_t lease_ms, now_ms;
    uint64_t n; /* out: number of tasks whose lease was renewed */
};

/* Takes tasks back whose claims have lapsed, and adds 1 to the losses of each. Such a task does not
 * wait for its host any more (wait_until_ms is 0). For each task,
 * pp_task_loss_event() decides: either the task waits again in pp_queue_of(), or all its waiters
 * get FAILED with code quarantined. */
struct pp_store_reap {
    struct pp_req req;
    /* NULL: the call takes back claims whose lease has ended. Otherwise it takes back the claims of
     * all workers except the worker with this id. */
    const char *alive;
    int64_t now_ms, date_ms; /* date_ms: the time of what finishes */
    size_t limit;            /* takes back at most this many tasks in one call */
    /* The store sets the following fields. */
    struct pp_backlog_row *backlog;
    size_t n_backlog;
    /* numbers of tasks that wait again, and that are quarantined; if the sum is `limit`, call
     * again */
    uint64_t lapsed, quarantined;
    uint64_t items_finished;
};

struct pp_store_backlog { /* reads every queue with a waiting task, to rebuild the coordinator's index */
    struct pp_req req;
    /* out: a row for each queue, with the time when its first task is due */
    struct pp_backlog_row *rows;
    size_t n;
};

/* Moves waiting tasks of (client, domain) that were never tried to `tier`, due at `due_ms`. A task
 * that is parked stays parked, and is due at `due_ms` or later once it is unparked. PP_EINVAL:
 * `tier` has no queue. */
struct pp_store_retier {
    struct pp_req req;
    const char *client, *domain;
    uint8_t tier;
    int64_t due_ms, now_ms;
    uint64_t n; /* out: number of tasks moved */
};

/* --- hosts that are open or slow: parked tasks (task_rules.h) --- */

struct pp_park_row { /* the tasks of a client on a host, as they shall be parked */
    const char *client, *domain;
    int64_t due_ms; /* the tasks are not due before this time */
    /* A task that has no wait_until_ms gets this one, and is due then at the latest. */
    int64_t wait_until_ms;
    /* true: the host is slow, not open: the row gives no task a wait_until_ms */
    bool pause;
};

/* Parks the waiting tasks of each row that would be due before row.due_ms: also tasks that are
 * parked already. A task never becomes due earlier by this. May be repeated, also with later
 * times. */
struct pp_store_park {
    struct pp_req req;
    const struct pp_park_row *rows;
    size_t n;
    int64_t now_ms;
    /* The store sets the following fields. */
    uint64_t tasks; /* number of tasks whose due time or wait_until_ms changed */
    /* the queues of these tasks, each with the earliest due time of one of them */
    struct pp_backlog_row *backlog;
    size_t n_backlog;
};

/* Unparks the waiting tasks of a host: parked ones are due now, or at their own time if that is
 * later. None of the clients' waiting tasks on the host has a wait_until_ms afterwards. May be
 * repeated. Without a domain, it does so with the waiting tasks of all clients on all hosts; this
 * may read all tasks, so it is for the start of a process that is alone. */
struct pp_store_unpark {
    struct pp_req req;
    const char *domain;         /* NULL: all hosts; then n and probes are 0 */
    const char *const *clients; /* n clients, each once */
    size_t n;
    /* Not 0: lets at most this many parked tasks out, as probes of the host: they are due now and
     * keep their wait_until_ms. All other tasks stay as they are, also those that would be due
     * later without their host. If it is repeated, it lets others out. 0: unparks all. */
    uint32_t probes;
    int64_t now_ms;
    /* The store sets the following fields. */
    /* number of tasks that were parked, or had a wait_until_ms; with `probes`, of those let out */
    uint64_t tasks;
    /* the queues of these tasks, each with the earliest due time of one of them */
    struct pp_backlog_row *backlog;
    size_t n_backlog;
};

/* Reads which clients have waiting tasks on a host, parked or not, in an order of the store. */
struct pp_store_host_clients {
    struct pp_req req;
    const char *domain;
    const char *after; /* continues after this client, which a page ended with; NULL: at the start */
    size_t limit;
    uint64_t count_max;   /* counts the host's waiting tasks, up to this many; 0: does not count them */
    uint64_t tasks;       /* out: number of waiting tasks of all clients, at most count_max */
    const char **clients; /* out: the clients of the page */
    size_t n;
    bool more;
};

/* --- the ladder --- */

/* Forgets the recorded failures of photos, as if their last fetch had not failed; objects and
 * validators stay. May be repeated. A failure that was recorded by a version that did not record
 * its host is found only if `domain` is NULL. */
struct pp_store_forget_failures {
    struct pp_req req;
    const char *client; /* only failures of this client, or of this host; NULL: of any */
    const char *domain;
    uint64_t photos; /* out: number of photos that had a failure */
};

/* --- batches, items, photos: what the API reads and changes --- */

/* reads a batch; PP_ENOTFOUND: unknown, not planned yet, or another client's */
struct pp_store_batch {
    struct pp_req req;
    const char *batch_id;
    const char *client;    /* finds only a batch of this client; NULL: of any client */
    struct pp_batch batch; /* out: the batch that was read */
};

struct pp_store_batches { /* reads a page of batches, newest first */
    struct pp_req req;
    const char *client; /* reads only batches of this client; NULL: of all clients */
    const char *label;  /* reads only batches with this label; NULL: with any label, or none */
    int state;          /* reads only batches in this enum pp_batch_state; -1: in any state */
    /* continues after this batch id (ids sort by time); NULL: starts with the newest */
    const char *after;
    size_t limit;
    struct pp_batch *batches; /* out: the batches of the page, newest first */
    size_t n;
    bool more;
};

struct pp_wait_row { /* a batch, and why its open photos are open */
    const char *batch_id, *client;
    struct pp_waits waits; /* out; a batch that is unknown, or not the client's, has no open photo */
};

/* Counts the open photos of batches by the states of their tasks. Photos that are not planned yet
 * are not counted. */
struct pp_store_waiting {
    struct pp_req req;
    struct pp_wait_row *rows; /* the caller's array */
    size_t n;
    size_t limit; /* reads at most about this many photos of each batch, and whole items */
    int64_t now_ms;
};

/* Cancels every open item of a batch. May be repeated. PP_ENOTFOUND: the batch is unknown, not
 * planned yet, or another client's. */
struct pp_store_cancel {
    struct pp_req req;
    const char *batch_id;
    const char *client; /* cancels only a batch of this client; NULL: of any client */
    /* These fields describe a batch that still waits in the ingest queue, so that the store can
     * record it as cancelled. created_at 0: the batch must be in the store. */
    const char *owner, *label;
    enum pp_refresh refresh;
    int64_t created_at;
    uint64_t items, photos, rejected;
    int64_t date_ms; /* the time of the cancellation */
    /* out: how many items and photos the call cancelled */
    uint64_t items_cancelled, photos_cancelled;
};

struct pp_store_results { /* reads finished items of a batch in order of seq */
    struct pp_req req;
    const char *batch_id;
    int status; /* reads only items with this enum pp_item_status; -1: with any status */
    /* reads only items with a photo that failed with this code or class (pp_code_span()); 0: all
     * items */
    uint16_t code;
    uint64_t after_seq;
    size_t limit;
    /* A page that has an item may end once its items take this many bytes of the arena, before it
     * has `limit` items; 0: it may not. */
    size_t bytes;
    struct pp_item *items; /* out: the items that were read, in order of seq */
    size_t n;
    bool more;
};

/* Reads parts of the verdicts on a batch's rejected items, in order of number. A batch that is
 * unknown has none. */
struct pp_store_rejected {
    struct pp_req req;
    const char *batch_id;
    const char *client;             /* the batch's client */
    uint32_t from;                  /* reads from this part on */
    size_t limit;                   /* reads at most this many parts */
    struct pp_rejected_part *parts; /* out: the parts that were read */
    size_t n;
};

/* --- the outbox: finished items of all clients in order of seq (delivery_store.h) --- */

struct pp_store_outbox {
    struct pp_req req;
    /* reads items above this seq; no item below the last one read can appear later */
    uint64_t after_seq;
    /* If n_seqs > 0, reads only the items with these seqs, if they still exist, and ignores
     * after_seq and limit. */
    const uint64_t *seqs;
    size_t n_seqs;
    size_t limit;
    struct pp_item *items; /* out: the items that were read */
    size_t n;
    /* out: the highest seq that readers can have seen; 0: no item has ever finished */
    uint64_t end;
};

struct pp_outbox_count {
    uint64_t after_seq;
    uint64_t messages; /* out: finished items above `after_seq`; an estimate if above 1,000,000 */
    int64_t oldest_at; /* out: finished_at of the first of these items; 0: there is none */
};

struct pp_store_outbox_counts {
    struct pp_req req;
    /* in: after_seq of each element; out: its other fields; the caller owns the array */
    struct pp_outbox_count *counts;
    size_t n;
};

/* reserves `n` numbers; each name has its own numbers, given once; some may be left out */
struct pp_store_numbers {
    struct pp_req req;
    const char *name; /* name of the sequence, at most 63 characters of [a-z] */
    uint64_t n;
    /* out: the numbers are first..first+n-1, above all earlier ones; a sequence starts at 1 */
    uint64_t first;
};

#define PP_INSTALLATION_MAX 64 /* size of the id of an installation in bytes, with its NUL */
/* reads the id of this installation, which the first call chooses; it survives a power cut */
struct pp_store_installation {
    struct pp_req req;
    const char *mine;             /* the id if the store has none yet; 1 to PP_INSTALLATION_MAX - 1 bytes */
    char id[PP_INSTALLATION_MAX]; /* out: the id */
};

struct pp_store_item { /* reads the newest revision of an item; PP_ENOTFOUND */
    struct pp_req req;
    const char *client, *id;
    struct pp_item item; /* out: the item that was read */
};

/* Reads the newest revisions of a client's items, in order of the bytes of their ids, without
 * deleted items. A call reads at most about `scan` revisions, whatever it finds: if the filter
 * matches little, a page may have less than `limit` items, or none, although there are more. */
struct pp_store_items {
    struct pp_req req;
    const char *client;
    const char *prefix; /* reads only items whose ids begin with this; NULL: all items */
    int status;         /* reads only items with this enum pp_item_status; -1: with any status */
    uint16_t code;      /* reads only items with a photo of this code or class; 0: all items */
    const char *after;  /* continues after this id; NULL: starts with the first */
    size_t limit;
    size_t scan;
    /* A page that has an item may end once its items take this many bytes of the arena; 0: it may
     * not. */
    size_t bytes;
    /* The store sets the following fields. */
    struct pp_item *items; /* n items, in order of id */
    size_t n;
    bool more;
    const char *end; /* if `more`: the next page continues after this id */
};
/* No id has a character of this text, so no id lies between ID and ID PP_AFTER_ID. */
#define PP_AFTER_ID "\x01"

struct pp_store_photo { /* reads what is known of a photo: its record, its open task, its attempts */
    struct pp_req req;
    const char *client;
    struct pp_key key;
    bool named;            /* out: the photo has had a task; if false, all other fields are zero */
    struct pp_photo photo; /* out: the photo's record */
    /* out: the last attempts, over all imports, earliest first; at most PP_ATTEMPTS_KEPT */
    struct pp_attempt *ended;
    uint32_t n_ended;
    /* out: a task exists; a worker has claimed it; it is parked */
    bool open, claimed, parked;
    uint8_t tier, losses;
    uint16_t last_code; /* the code of the last failed attempt; 0: none */
    uint32_t attempts;
    int64_t due_ms;
    int64_t wait_until_ms; /* until when the task waits for its host; 0: it does not wait */
};

/* finds a stored object by its SHA-256; PP_ENOTFOUND: no photo of this client has it */
struct pp_store_object {
    struct pp_req req;
    uint8_t sha256[PP_SHA256_BYTES];
    const char *client; /* searches only photos of this client; NULL: of any client */
    /* `client` is NULL: finds also an object that a photo had before its bytes changed, because
     * results may name it; object.type is then 0. Only stores of a single process know such
     * objects. */
    bool former;
    struct pp_object object; /* out: the object that was found */
};

/* Reads the batch's finished items that have a failed or skipped photo with one of the codes and
 * domains, and gives all photos of such an item. Leaves out items that have a newer revision. */
struct pp_store_replay {
    struct pp_req req;
    const char *batch_id;
    /* selects only photos with one of these codes or classes; n_codes 0: with any code */
    const uint16_t *codes;
    size_t n_codes;
    /* selects only photos of these domains; n_domains 0: of any domain */
    const char *const *domains;
    size_t n_domains;
    uint64_t after_seq;
    size_t limit;          /* reads at most this many items */
    struct pp_item *items; /* out: the items that were found */
    size_t n;
    uint64_t photos; /* out: number of photos in these items that were selected */
    bool more;
};

/* Which clients a page has. */
enum pp_clients_paused { PP_CLIENTS_ANY, PP_CLIENTS_PAUSED, PP_CLIENTS_NOT_PAUSED };

/* Reads the settings of one client (`id` is set), of several (`ids` is set, each id once), or of a
 * page of clients. */
struct pp_store_clients {
    struct pp_req req;
    const char *id;
    const char *const *ids;
    size_t n_ids;
    const char *after;
    const char *prefix; /* a page has only clients whose ids begin with this; NULL: any */
    enum pp_clients_paused paused;
    bool batches; /* a page also has the clients that have batches and no settings; not `stored` */
    size_t limit; /* a page has at most this many clients */
    /* out, in order of id; else clients that are not stored are left out */
    struct pp_client *clients;
    size_t n;
    bool more;
};

/* Replaces the settings of a client. With `compare` it does so only if nobody has changed
 * the settings since the caller read them (compare-and-set); else it fails with PP_ESTALE. */
struct pp_store_put_client {
    struct pp_req req;
    struct pp_client client;
    bool compare;
    int64_t read_at; /* updated_at of the settings that the caller has read; 0: none were stored */
};

struct pp_store_routes { /* reads routes in order of (client, domain) */
    struct pp_req req;
    /* reads only routes of this client, or of this domain; NULL: of any */
    const char *client, *domain;
    /* continues after this route; NULL: starts with the first */
    const char *after_client, *after_domain;
    size_t limit;
    struct pp_route_row *rows; /* out: the routes of the page */
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
    int64_t oldest_ms; /* out: since this wall time the oldest waiting task waits; 0: none waits */
};

struct pp_store_queue {
    struct pp_req req;
    /* out: number of waiting tasks by queue; claimed tasks are not counted */
    struct pp_queue_count counts[PP_QUEUES];
    uint64_t claimed;
};

struct pp_store_clean { /* deletes old finished batches with their items */
    struct pp_req req;
    int64_t finished_before_ms;
    size_t limit;   /* deletes at most this many items in one call */
    uint64_t items; /* out: number of items deleted; if it equals `limit`, the caller calls again */
};

/* Deletes all revisions of an item: its results, and its photos in them. The photos' records and
 * tasks stay, and so do the counts of the batches. If the item is imported again, it gets the next
 * revision number. A call that fails or is interrupted may have deleted some of the older
 * revisions; a repeated call deletes the others. PP_ENOTFOUND: the item has no revision. PP_EBUSY:
 * a revision is open, or its batch has not finished. PP_ESTALE: a revision is not within the two
 * bounds. */
struct pp_store_forget_item {
    struct pp_req req;
    const char *client, *id;
    /* every revision must have finished before this time, with at most this seq */
    int64_t finished_before_ms;
    uint64_t upto_seq;
    uint64_t revisions; /* out: number of revisions deleted */
};

struct pp_store_generation { /* records the name of the coordinator's current data set */
    struct pp_req req;
    const char *dataset; /* name of the data set, at most 63 bytes */
    /* out: the store has never recorded another name before this; a repeated call returns the
     * same */
    bool first;
};

/* The asynchronous requests: X(name, type of the request). The first list only reads. To add a
 * request: add its struct above, a line here, and a function in each adapter. */
#define PP_STORE_READS(X)                    \
    X(lookup, pp_store_lookup)               \
    X(photo_keys, pp_store_keys)             \
    X(backlog, pp_store_backlog)             \
    X(batch, pp_store_batch)                 \
    X(batches, pp_store_batches)             \
    X(waiting, pp_store_waiting)             \
    X(results, pp_store_results)             \
    X(rejected, pp_store_rejected)           \
    X(item, pp_store_item)                   \
    X(items, pp_store_items)                 \
    X(photo, pp_store_photo)                 \
    X(object, pp_store_object)               \
    X(replay, pp_store_replay)               \
    X(clients, pp_store_clients)             \
    X(routes, pp_store_routes)               \
    X(queue, pp_store_queue)                 \
    X(outbox, pp_store_outbox)               \
    X(outbox_counts, pp_store_outbox_counts) \
    X(host_clients, pp_store_host_clients)
#define PP_STORE_WRITES(X)                       \
    X(plan, pp_store_plan)                       \
    X(claim, pp_store_claim)                     \
    X(settle, pp_store_settle)                   \
    X(renew, pp_store_renew)                     \
    X(reap, pp_store_reap)                       \
    X(retier, pp_store_retier)                   \
    X(park, pp_store_park)                       \
    X(unpark, pp_store_unpark)                   \
    X(forget_failures, pp_store_forget_failures) \
    X(cancel, pp_store_cancel)                   \
    X(put_client, pp_store_put_client)           \
    X(save_routes, pp_store_save_routes)         \
    X(clean, pp_store_clean)                     \
    X(forget_item, pp_store_forget_item)         \
    X(numbers, pp_store_numbers)                 \
    X(installation, pp_store_installation)
#define PP_STORE_OPS(X) PP_STORE_READS(X) PP_STORE_WRITES(X)

struct pp_task_store;

struct pp_task_store_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_task_store * s, struct type * r);
    PP_STORE_OPS(X)
    /* Records the coordinator's data set. NULL if the coordinator can lose its data only together
     * with the store. */
    X(generation, pp_store_generation)
#undef X
    /* Returns the name (a constant) of the i-th kind of round trip and how many there were, for
     * metrics; false past the last kind. Any thread may call it. */
    bool (*roundtrips)(struct pp_task_store *s, size_t i, const char **name, uint64_t *n);
    /* Frees the store. The caller calls this on the loop thread, after the last done(). May block
     * briefly. */
    void (*close)(struct pp_task_store *s);
};

/* Adapters embed this as their first member. */
struct pp_task_store {
    const struct pp_task_store_ops *ops;
};

#endif
