/* ingest_queue.h: what was answered 202 and is not planned yet. Durable before append() is done; asynchronous
 * as req.h says.
 *
 * An entry is one batch. It is taken by one planner at a time; one that was taken and not acked returns when
 * its taker is gone or silent (at open, for an embedded queue). Entries of one client go to one planner at a
 * time, oldest first, so that a later list supersedes an earlier one. Appending and the record of the
 * Idempotency-Key are one write: a POST whose answer was lost, sent again with its key, finds its answer and
 * makes no second entry. An append may be repeated with the same batch id: PP_EEXISTS says that it is there
 * (or was, and is planned). A take whose answer was lost comes back by itself.
 * Errors: PP_EFULL and PP_ECLOSED at submit; PP_EIO, PP_ENOSPC, PP_ETIMEOUT, PP_EUNKNOWN at done. */
#ifndef PHOTOPOOL_PORT_INGEST_QUEUE_H
#define PHOTOPOOL_PORT_INGEST_QUEUE_H

#include "photopool/req.h"
#include "photopool/task.h"

struct pp_ingest_entry {
    const char *batch_id;
    const char *client;
    enum pp_refresh refresh;
    bool replay; /* recorded failures are fetched again */
    int64_t created_at;
    uint32_t n_items;
    uint64_t n_photos;
    const void *payload; /* items as core/entry.h encodes them */
    size_t payload_n;
    bool cancelled;      /* DELETE came before it was planned */
    uint32_t deliveries; /* taken so often without being given back by a close, this time included; of take
                            only */
};

struct pp_ingest_append {
    struct pp_req req;
    struct pp_ingest_entry entry;
    /* Idempotency; key NULL: none. The key belongs to the client. */
    const char *key;
    bool only_key; /* appends nothing: PP_OK: the key has not been used */
    uint8_t body_hash[32];
    const char *answer; /* the 202's body, kept with the key */
    size_t answer_n;
    uint64_t high_water; /* photos: with so many waiting or more, done with PP_EFULL; 0: no bound */
    int64_t now_ms;
    /* out: PP_EEXISTS (same key and body: the first answer is in old_answer), PP_EMISMATCH (same key, other
     * body). PP_EEXISTS without an answer: this batch id is there, or was. */
    const char *old_answer;
    size_t old_answer_n;
};

struct pp_ingest_take { /* the oldest entries that nobody has taken; n == 0: none */
    struct pp_req req;
    /* With n_skip > 0: entries of other clients than these only, the oldest of each, round and round over the
     * clients; so that one with a long line does not hold up the others. A queue that can't tell them apart
     * gives none. */
    const char *const *skip;
    size_t n_skip;
    const char *consumer;
    size_t limit;                    /* entries, at most */
    size_t max_bytes;                /* of payloads together; at least one entry is given */
    struct pp_ingest_entry *entries; /* out */
    size_t n;
};

struct pp_ingest_ack { /* planned: forget them. Unknown ids are fine. */
    struct pp_req req;
    const char *const *batch_ids;
    size_t n;
};

struct pp_ingest_poison { /* can't be planned: set aside with the reason, never taken again */
    struct pp_req req;
    const char *batch_id;
    const char *reason;
};

struct pp_ingest_get { /* an entry that is not acked yet, without payload; PP_ENOTFOUND */
    struct pp_req req;
    const char *batch_id;
    const char *client;           /* NULL: any */
    struct pp_ingest_entry entry; /* out */
};

struct pp_ingest_list { /* entries not acked yet, newest first, without payload */
    struct pp_req req;
    const char *client; /* NULL: any */
    const char *after;  /* batch id; NULL: from the newest */
    size_t limit;
    struct pp_ingest_entry *entries; /* out */
    size_t n;
    bool more;
};

struct pp_ingest_cancel { /* marks an entry: its items will be planned as cancelled; PP_ENOTFOUND: acked or
                             never there */
    struct pp_req req;
    const char *batch_id;
};

struct pp_ingest_stats {
    struct pp_req req;
    uint64_t entries, photos, poisoned; /* out: poisoned not among the entries */
    int64_t oldest_ms;                  /* created_at of the oldest; 0: none */
};

struct pp_ingest_clean { /* forgets idempotency records older than this */
    struct pp_req req;
    int64_t before_ms;
};

enum pp_ingest_state {
    PP_INGEST_UNKNOWN, /* never heard of, or too long ago */
    PP_INGEST_WAITING, /* appended, and not acked yet */
    PP_INGEST_PLANNED  /* acked, or set aside: nothing is left to do. May be forgotten after a day, or at once
                        */
};

struct pp_ingest_check { /* what became of entries */
    struct pp_req req;
    const char *const *batch_ids;
    size_t n;
    uint8_t *states; /* out: enum pp_ingest_state, n of them */
};

struct pp_ingest_read { /* an entry as it was appended, not acked yet; PP_ENOTFOUND */
    struct pp_req req;
    const char *batch_id;
    struct pp_ingest_append append; /* out: entry, key and its record; now_ms of then */
};

struct pp_ingest_queue;

struct pp_ingest_queue_ops {
#define PP_INGEST_OP(name, type) \
    pp_must_check enum pp_err (*name)(struct pp_ingest_queue * q, struct type * r)
    PP_INGEST_OP(append, pp_ingest_append);
    PP_INGEST_OP(take, pp_ingest_take);
    PP_INGEST_OP(ack, pp_ingest_ack);
    PP_INGEST_OP(poison, pp_ingest_poison);
    PP_INGEST_OP(get, pp_ingest_get);
    PP_INGEST_OP(list, pp_ingest_list);
    PP_INGEST_OP(cancel, pp_ingest_cancel);
    PP_INGEST_OP(stats, pp_ingest_stats);
    PP_INGEST_OP(clean, pp_ingest_clean);
    PP_INGEST_OP(check, pp_ingest_check);
    /* Of a queue that can be a journal (adapter/journal); NULL: it can't. */
    PP_INGEST_OP(read, pp_ingest_read);
#undef PP_INGEST_OP
    /* cb on the loop thread, later, when there may be something to take: appended by anyone, given back, or
     * unknown (the connection is new). Surely called after what came since the last take that gave nothing; a
     * queue shared by processes calls that of one of them, and after a loss within a minute. One watcher a
     * queue; cb NULL: no more. */
    void (*watch)(struct pp_ingest_queue *q, void (*cb)(void *data), void *data);
    /* What a 202 is worth, for /readyz: a sentence, valid until the loop turns. */
    const char *(*durability)(struct pp_ingest_queue *q);
    /* As coordinator.h; NULL: nothing to count. */
    bool (*roundtrips)(struct pp_ingest_queue *q, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_ingest_queue *q);
};

struct pp_ingest_queue {
    const struct pp_ingest_queue_ops *ops;
};

#endif
