/* ingest_queue.h: keeps accepted batches (answered with 202) until they are planned.
 *
 * An entry is one batch; the entry is durable when append() is done. One planner at a time takes
 * it. An entry that a planner took but did not ack goes back into the queue when that planner is
 * gone or silent (embedded queue: at open). Entries of one client go to one planner at a time,
 * oldest first, so that a later list supersedes an earlier one.
 *
 * An append writes the entry and the record of its Idempotency-Key in one step. If the answer of a
 * POST was lost, the same POST with its key gets the first answer and makes no second entry. An
 * append may be repeated with the same batch id: PP_EEXISTS means that the entry is in the queue,
 * or was there and is planned by now. If the answer to a take is lost, its entries go back into the
 * queue by themselves.
 *
 * Requests are asynchronous as req.h says, and fail as task_store.h says. */
#ifndef PHOTOPOOL_PORT_INGEST_QUEUE_H
#define PHOTOPOOL_PORT_INGEST_QUEUE_H

#include "photopool/req.h"
#include "photopool/shared_constants.h"
#include "photopool/task.h"

struct pp_ingest_entry {
    const char *batch_id;
    const char *client;
    const char *label; /* the caller's name for the batch; NULL: none */
    enum pp_refresh refresh;
    int64_t max_age_ms; /* known photos that were fetched longer ago are asked for; 0: none is too old */
    bool replay;        /* true: photos with a recorded failure are fetched again */
    int64_t created_at;
    uint32_t n_items, n_rejected; /* numbers of items that were accepted, and rejected */
    uint64_t n_photos;
    const void *payload; /* the items, as core/entry.h encodes them */
    size_t payload_n;
    bool cancelled; /* true: the client cancelled the batch (DELETE) before it was planned */
    /* true: an operator has given the entry up (put_back), so the planner fails its photos. An
     * append ignores it. */
    bool given_up;
    /* Set by take: how often planners have taken the entry, this time included. A take after which
     * the planner gave the entry back is not counted. */
    uint32_t deliveries;
};

/* The queues count the new keys of a client in each hour of the steady wall time. */
#define PP_KEYS_HOUR_MS 3600000

struct pp_ingest_append {
    struct pp_req req;
    struct pp_ingest_entry entry;
    const char *key; /* the Idempotency-Key; NULL: none. Two clients may use the same key. */
    bool only_key;   /* true: the queue appends nothing; PP_OK then says that the key is unused */
    uint8_t body_hash[32];
    const char *answer; /* body of the 202, which the queue keeps with the key */
    size_t answer_n;
    /* Bounds; 0: none. If entries with this weight in all (pp_ingest_weight()), or with this many
     * bytes of payload, wait or are taken, the answer is PP_EFULL. If the client has used this many
     * keys in the hour of `now_ms`, a new key is answered with PP_EBUSY. */
    uint64_t high_water, max_bytes;
    uint32_t max_keys;
    int64_t now_ms; /* the steady wall time, from which the age of the key's record counts */
    /* The loop's time at which the caller's request had come; 0: at this moment. Only a journal
     * uses it: a caller that has waited long may have sent its key to another node. */
    int64_t begun_ms;
    /* The queue sets this field. PP_EEXISTS with an answer: an earlier request had the same key and
     * body, and got this answer. PP_EEXISTS without an answer: the batch id exists, or existed
     * once. PP_EMISMATCH: an earlier request had the same key and another body. */
    const char *old_answer;
    size_t old_answer_n;
};

/* Returns how much an entry counts towards the high water: the number of its photos or of its
 * items, or a share of its bytes, whichever is most. So entries without photos are bounded, too. */
static inline uint64_t pp_ingest_weight(const struct pp_ingest_entry *e)
{
    uint64_t most = e->payload_n / PP_INGEST_WEIGHT_BYTES;
    most = e->n_items > most ? e->n_items : most;
    return e->n_photos > most ? e->n_photos : most;
}

struct pp_ingest_take { /* takes the oldest waiting entries; n == 0: no entry waits */
    struct pp_req req;
    /* If n_skip > 0, the take skips these clients, and takes the oldest entry of each other client,
     * in turn, so that no client with many entries delays another client. A queue without an index
     * of clients then takes nothing. */
    const char *const *skip;
    size_t n_skip;
    const char *consumer;
    size_t limit; /* takes at most this many entries */
    /* the payloads together have at most this many bytes, except if one alone has more */
    size_t max_bytes;
    struct pp_ingest_entry *entries; /* out: the entries taken */
    size_t n;
};

struct pp_ingest_ack { /* deletes planned entries; unknown ids have no effect */
    struct pp_req req;
    const char *const *batch_ids;
    size_t n;
};

/* A queue keeps this many bytes of the reason for which an entry is set aside, and cuts the rest.
 */
#define PP_INGEST_REASON_MAX 79

/* Sets aside an entry that can't be planned: no take returns it, until put_back. If the entry is
 * set aside already, the first reason stays. */
struct pp_ingest_poison {
    struct pp_req req;
    const char *batch_id;
    const char *reason;
    int64_t date_ms; /* the date now */
};

struct pp_ingest_aside { /* an entry that is set aside */
    /* without its payload; `deliveries` says how often planners had taken it */
    struct pp_ingest_entry entry;
    int64_t since_ms;   /* the date_ms of the poison */
    const char *reason; /* "": not known, because an older version has set it aside */
};

/* Reads entries that are set aside, those with the last batch id in the order of text first. */
struct pp_ingest_list_aside {
    struct pp_req req;
    const char *after; /* continues after this batch id; NULL: starts with the newest entry */
    size_t limit;
    struct pp_ingest_aside *entries; /* out: the entries that were read */
    size_t n;
    bool more;
};

/* Puts an entry that is set aside back into the queue, as if no planner had ever taken it. Its
 * place among the waiting entries of its client is the old one or the last one. PP_ENOTFOUND: the
 * entry is not set aside, so of two calls at once only one succeeds. If the outcome is unknown, the
 * caller lists the entries again. */
struct pp_ingest_put_back {
    struct pp_req req;
    const char *batch_id;
    bool give_up; /* sets the entry's given_up */
};

/* reads an entry without its payload; PP_ENOTFOUND: it was acked, or is unknown */
struct pp_ingest_get {
    struct pp_req req;
    const char *batch_id;
    const char *client;           /* finds only an entry of this client; NULL: of any client */
    struct pp_ingest_entry entry; /* out: the entry that was read */
};

struct pp_ingest_list { /* reads entries that are not acked, newest first, without payload */
    struct pp_req req;
    const char *client; /* lists only entries of this client; NULL: of all clients */
    const char *after;  /* continues after this batch id; NULL: starts with the newest entry */
    size_t limit;
    struct pp_ingest_entry *entries; /* out: the entries that were read, newest first */
    size_t n;
    bool more;
};

/* marks an entry, so that its planner cancels the items; PP_ENOTFOUND: acked or unknown */
struct pp_ingest_cancel {
    struct pp_req req;
    const char *batch_id;
};

struct pp_ingest_stats {
    struct pp_req req;
    /* true: the queue also writes something small, as durably as an entry, so that the request
     * fails if an append would fail */
    bool write;
    /* out: numbers of entries (without poisoned ones), of their photos, and of poisoned entries */
    uint64_t entries, photos, poisoned;
    int64_t oldest_ms; /* out: created_at of the oldest entry; 0: there is none */
};

/* Deletes old idempotency records. A queue that processes share keeps the times of records by its
 * server's clock: it translates now_ms of an append and before_ms, unless the two clocks differ by
 * at most PP_AHEAD_IGNORED_MS. So the processes' clocks need not agree. */
struct pp_ingest_clean {
    struct pp_req req;
    int64_t before_ms; /* deletes the records of appends before this steady wall time */
};

enum pp_ingest_state {
    PP_INGEST_UNKNOWN, /* the entry was never appended, or the queue has forgotten it */
    PP_INGEST_WAITING, /* the entry is in the queue and not acked */
    /* The entry was acked or poisoned. Most queues remember this for a day, but may forget it at
     * any time. */
    PP_INGEST_PLANNED
};

struct pp_ingest_check { /* tells the states of entries */
    struct pp_req req;
    const char *const *batch_ids;
    size_t n;
    uint8_t *states; /* out: enum pp_ingest_state, n of them */
};

/* reads an entry with its payload; PP_ENOTFOUND: it was acked, or is unknown */
struct pp_ingest_read {
    struct pp_req req;
    const char *batch_id;
    struct pp_ingest_append append; /* out: entry, key with hash and answer, now_ms of the append */
};

/* The asynchronous requests of every queue: X(name, type of the request). */
#define PP_INGEST_OPS(X)                \
    X(append, pp_ingest_append)         \
    X(take, pp_ingest_take)             \
    X(ack, pp_ingest_ack)               \
    X(poison, pp_ingest_poison)         \
    X(list_aside, pp_ingest_list_aside) \
    X(put_back, pp_ingest_put_back)     \
    X(get, pp_ingest_get)               \
    X(list, pp_ingest_list)             \
    X(cancel, pp_ingest_cancel)         \
    X(stats, pp_ingest_stats)           \
    X(clean, pp_ingest_clean)           \
    X(check, pp_ingest_check)

struct pp_ingest_queue;

struct pp_ingest_queue_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_ingest_queue * q, struct type * r);
    PP_INGEST_OPS(X)
    /* Reads a whole entry, which a journal (adapter/journal) needs. NULL if the queue can't be a
     * journal. */
    X(read, pp_ingest_read)
#undef X
    /* Makes the queue call cb on the loop thread, later, when entries may wait: because a process
     * has appended one or given one back, or after a new connection. Every entry that comes after
     * an empty take causes a call. If processes share the queue, one of them gets the call. If a
     * message is lost, the call comes within a minute. A queue has at most one watcher; cb NULL
     * removes it. */
    void (*watch)(struct pp_ingest_queue *q, void (*cb)(void *data), void *data);
    /* Returns a sentence for /readyz that says which failures an accepted batch survives. Valid
     * until control returns to the loop. */
    const char *(*durability)(struct pp_ingest_queue *q);
    /* Returns the name and the number of the i-th kind of round trip, for metrics; false past the
     * last kind. NULL: the queue makes none. */
    bool (*roundtrips)(struct pp_ingest_queue *q, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_ingest_queue *q); /* the caller calls this after the last done() */
};

struct pp_ingest_queue {
    const struct pp_ingest_queue_ops *ops;
};

#endif
