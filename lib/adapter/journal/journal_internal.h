/* journal_internal.h: the declarations that the files of the journal share.
 *
 * `inner` is the shared queue, which the journal wraps: all nodes use it, and planners take entries
 * from it. `own` is the local log: a durable queue on this node's disk. Each entry of the local log
 * is also in memory, without its payload, once the log has been read at the start (`loaded`).
 *
 * An append writes an entry to the local log only after the shared queue has answered or failed, or
 * if the journal decided not to wait for the shared queue. The state of an entry says what the
 * journal knows about the shared queue:
 *
 *   SURE      the shared queue had the entry at its last answer
 *   DOUBTFUL  the shared queue may have the entry: an answer was lost, or data may be lost since
 *   MISSING   the shared queue does not have the entry: it never got it, or said "unknown"
 *
 *   SURE or DOUBTFUL  --answer "unknown"-->  MISSING  --round appends it-->  SURE
 *   any state         --answer "waiting"-->  SURE
 *   any state         --answer "planned"-->  released: deleted from the local log and from memory
 *   SURE              --shared queue goes away, or has lost any entry-->  DOUBTFUL
 *
 * Invariants. The list `open` has the entries that are DOUBTFUL or MISSING, in the order in which
 * this node accepted them. While a client has one of these (waiting > 0), only the round
 * (journal_round.c) appends entries of this client to the shared queue, in that order. The lists
 * `sure` have the SURE entries, one list for each level, ordered by the time at which the round
 * next asks about them. The level of an entry grows with each question, up to JQ_LEVELS - 1, and
 * doubles the time until the next one. */
#ifndef PP_ADAPTER_JOURNAL_INTERNAL_H
#define PP_ADAPTER_JOURNAL_INTERNAL_H

#include "adapter/journal/journal_queue.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"

enum { JQ_LEVELS = 6, JQ_SLICE = 256, JQ_EARLY_MAX = 4096 };

enum jq_state { JQ_SURE, JQ_DOUBTFUL, JQ_MISSING };

struct jq_client {
    UT_hash_handle hh;
    size_t entries,
        waiting; /* number of all entries of the client; number of its entries that are not SURE */
    char id[PP_CLIENT_MAX + 1];
};

struct jq_entry {
    UT_hash_handle hh;
    struct pp_node node;
    struct pp_list *list; /* the list of `struct jq` that has the entry, or NULL */
    struct jq_client *client;
    enum jq_state state;
    uint64_t num; /* number of the entry in the order of acceptance */
    unsigned level;
    int64_t due_ms; /* when the round asks the shared queue about the entry, in ms of the loop's clock */
    bool untold;    /* the round must still tell the shared queue that the entry was cancelled */
    struct pp_ingest_entry e; /* the entry without its payload; its strings are in batch_id[] */
    char batch_id[];
};

struct jq {
    struct pp_ingest_queue base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_ingest_queue *inner, *own;
    int64_t check_ms;
    uint64_t high_water;
    bool (*batch_of)(const char *answer, size_t n, char batch_id[PP_BATCH_ID_MAX]);
    struct jq_entry *entries;
    struct jq_client *clients;
    struct pp_list open, sure[JQ_LEVELS];
    uint64_t next_num;
    bool loaded, closing;
    bool away;  /* the shared queue did not answer, or accepted no entry, at the last request */
    bool doubt; /* the shared queue was away, so the round must ask about every SURE entry */
    bool away_logged;
    bool own_failed;           /* the last write to the local log failed */
    struct pp_list early;      /* appends that came before the local log was read */
    struct pp_list early_acks; /* acks that the shared queue answered before that */
    size_t in_flight;          /* number of operations that have not ended */
    struct pp_timer *timer;
    bool in_round;
    char durable[640];
};

/* --- operations (journal_entry.c) --- */

/* The kinds of requests to a queue: JQ_append, JQ_take and so on. */
enum jq_what {
#define X(name, type) JQ_##name,
    PP_INGEST_OPS(X) X(read, pp_ingest_read)
#undef X
};

/* An operation sends requests to the shared queue and the local log, one after the other. `r` is
 * the caller's request, or NULL for an operation that the journal itself began; then answers go
 * into `arena`. jq_end() frees the operation. */
struct jq_op {
    struct pp_node node; /* links the operation into q->early or q->early_acks */
    struct jq *q;
    struct pp_req *r;
    struct pp_arena arena;
    union {
        struct pp_req req; /* the first member of each of the structs below */
#define X(name, type) struct type name;
        PP_INGEST_OPS(X) X(read, pp_ingest_read)
#undef X
    } sub; /* the latest request to the shared queue or the local log */
};

/* Allocates an operation of `size` bytes, for a struct that begins with struct jq_op. Returns NULL
 * and sets *err if memory is out or the queue closes. */
struct jq_op *jq_op_new(struct jq *q, size_t size, struct pp_req *r, enum pp_err *err);
/* Ends the caller's request with `err`, and frees the operation. */
void jq_end(struct jq_op *op, enum pp_err err);
/* Frees an operation that sent no request: the caller's done() is not called. */
void jq_drop(struct jq_op *op);
/* Sends op->sub, whose arguments the caller has set, to the queue `to`. The answer goes into the
 * arena of the caller's request, or else of the operation. If the queue refuses the request,
 * returns its error, and done() is not called. */
pp_must_check enum pp_err jq_send(struct jq_op *op, struct pp_ingest_queue *to, enum jq_what what,
                                  void (*done)(struct pp_req *req));
/* Handles the result of jq_send(): if the request was not sent, calls done() with the error. */
void jq_go_on(struct jq_op *op, enum pp_err sent);
/* Returns true if `err` means that the shared queue gave no answer, or could store nothing. */
bool jq_failed(enum pp_err err);
/* Returns true if `answer`, the n bytes stored for the key of `r`, is the answer for another batch.
 * Returns false if `answer` is NULL. */
bool jq_is_other(const struct pp_ingest_append *r, const char *answer, size_t n);

/* --- entries (journal_entry.c) --- */

/* Allocates a copy of an entry. The caller passes it to jq_entry_add() or to free(). Returns NULL
 * when out of memory. */
struct jq_entry *jq_entry_new(const struct pp_ingest_entry *e);
/* Adds the entry as the latest accepted one. Returns false when out of memory. */
pp_must_check bool jq_entry_add(struct jq *q, struct jq_entry *e, enum jq_state state);
struct jq_entry *jq_find(struct jq *q, const char *batch_id);
/* Changes the state of an entry and moves the entry to the list of that state. Other functions do
 * not change a single entry's state. */
void jq_entry_set(struct jq *q, struct jq_entry *e, enum jq_state state);
/* Makes the entry SURE. If it was SURE before, raises its level, so that the next question comes
 * later. */
void jq_entry_later(struct jq *q, struct jq_entry *e);
/* Makes every SURE entry DOUBTFUL. Each entry keeps its level. */
void jq_entries_doubt(struct jq *q);
void jq_entry_remove(struct jq *q, struct jq_entry *e);
/* Returns true if the client has entries that are not SURE. The shared queue must then get these
 * before a newer entry. */
bool jq_client_waits(struct jq *q, const char *client);
/* Copies an entry, without its payload, into the arena. Returns PP_OK or PP_ENOMEM. */
pp_must_check enum pp_err jq_entry_copy(struct pp_arena *a, const struct jq_entry *e,
                                        struct pp_ingest_entry *out);

/* --- journal_round.c --- */

/* Sets the timer for the next step of the round, if there is one. */
void jq_round_kick(struct jq *q);
/* Begins the next step of the round. The timer calls this function. */
void jq_round_step(struct jq *q);
/* Notes that the shared queue did not answer, or accepted no entry. */
void jq_away(struct jq *q);
/* Deletes planned entries from memory and from the local log. Copies the ids. */
void jq_release(struct jq *q, const char *const *batch_ids, size_t n);

/* --- journal_append.c, journal_read.c --- */

/* Begins the appends that came before the local log was read, or ends them if the queue closes. */
void jq_append_early(struct jq *q);
/* Releases the entries whose acks came before the local log was read. */
void jq_ack_early(struct jq *q);

#define X(name, type) pp_must_check enum pp_err jq_##name(struct pp_ingest_queue *q, struct type *r);
PP_INGEST_OPS(X)
#undef X

#endif
