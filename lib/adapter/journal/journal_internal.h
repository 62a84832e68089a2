/* journal_internal.h: the declarations that the files of the journal share.
 *
 * Two words. `inner` is the queue that the journal wraps: the nodes share it, and planners take
 * entries from it. `own` is the journal's own durable log on this node's disk. Each entry of own is
 * also in memory, without its payload, from the moment when own has been read at the start
 * (loaded).
 *
 * An append writes an entry to own only after inner has answered or failed, or if the journal
 * decided not to wait for inner. The state of an entry says what the journal knows about inner:
 *
 *   SURE      inner had the entry at the last answer
 *   DOUBTFUL  inner may have it: an answer was lost, or inner may have lost data since
 *   MISSING   inner does not have it: it was never sent, or inner said that it does not know it
 *
 *   SURE or DOUBTFUL  --inner says "unknown"-->  MISSING  --round appends it-->  SURE
 *   any state         --inner says "waiting"-->  SURE
 *   any state         --inner says "planned"-->  released: deleted from own and from memory
 *   SURE              --inner goes away, or has lost any entry-->  DOUBTFUL
 *
 * Invariants. The list `open` has the entries that are DOUBTFUL or MISSING, in the order in which
 * this node accepted them. While a client has one of these (waiting > 0), only the round appends
 * entries of this client to inner, in that order. The lists `sure` have the SURE entries, one list
 * for each level, ordered by the time of the next question. The level of an entry grows with each
 * question, up to JQ_LEVELS - 1, and doubles the time until the next one. */
#ifndef PP_ADAPTER_JOURNAL_INTERNAL_H
#define PP_ADAPTER_JOURNAL_INTERNAL_H

#include <uthash.h>

#include "adapter/journal/journal_queue.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/list.h"

enum { JQ_LEVELS = 6, JQ_SLICE = 256, JQ_EARLY_MAX = 4096 };

enum jq_state { JQ_SURE, JQ_DOUBTFUL, JQ_MISSING };

struct jq_client {
    UT_hash_handle hh;
    size_t entries, waiting; /* number of entries; number of entries that are not SURE */
    char id[PP_CLIENT_MAX + 1];
};

struct jq_entry {
    UT_hash_handle hh;
    struct pp_node node;
    struct pp_list *list; /* the list that has the entry; NULL: none has */
    struct jq_client *client;
    enum jq_state state;
    uint64_t num; /* position in the order of acceptance */
    unsigned level;
    int64_t due_ms;           /* monotonic: when the round asks inner about it */
    bool untold;              /* true: the round must still tell inner that the entry is cancelled */
    struct pp_ingest_entry e; /* without payload; its strings are in batch_id[] */
    char batch_id[];
};

struct jq {
    struct pp_ingest_queue base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_ingest_queue *inner, *own;
    int64_t check_ms;
    uint64_t high_water;
    struct jq_entry *entries;
    struct jq_client *clients;
    struct pp_list open, sure[JQ_LEVELS];
    uint64_t next_num;
    bool loaded, closing;
    bool away;  /* true: at the last request, inner did not answer or took no entry */
    bool doubt; /* true: inner has gone away, so the round must ask it about every SURE entry */
    bool away_logged;
    bool own_failed;      /* true: the last write to own failed */
    struct pp_list early; /* appends that came before own was read */
    size_t in_flight;     /* number of operations that have requests in flight to own or inner */
    struct pp_timer *timer;
    bool in_round;
    char durable[640];
};

/* --- operations (journal_entry.c) --- */

/* The requests that operations send, JQ_append and so on. */
enum jq_what {
#define X(name, type) JQ_##name,
    PP_INGEST_OPS(X) X(read, pp_ingest_read)
#undef X
};

/* An operation sends requests to inner and own, one after the other. `r` is the caller's request,
 * or NULL for an operation that the journal itself began; then answers go into `arena`. jq_end()
 * frees the operation. */
struct jq_op {
    struct pp_node node; /* It links the operation into q->early. */
    struct jq *q;
    struct pp_req *r;
    struct pp_arena arena;
    union {
        struct pp_req req; /* It is the first member of each of the others. */
#define X(name, type) struct type name;
        PP_INGEST_OPS(X) X(read, pp_ingest_read)
#undef X
    } sub; /* the request to inner or own that was sent last */
};

/* Allocates an operation of `size` bytes: a struct that begins with struct jq_op. Returns NULL and
 * sets *err if memory is out or the queue closes. */
struct jq_op *jq_op_new(struct jq *q, size_t size, struct pp_req *r, enum pp_err *err);
/* Ends the caller's request with `err`, and frees the operation. */
void jq_end(struct jq_op *op, enum pp_err err);
/* Frees an operation whose submit failed: the caller's done() is not called. */
void jq_drop(struct jq_op *op);
/* Sends op->sub, whose arguments the caller has set, to inner or own. The answer goes into the
 * caller's arena or the operation's. Fails as the queue does; then done() is not called. */
pp_must_check enum pp_err jq_send(struct jq_op *op, struct pp_ingest_queue *to, enum jq_what what,
                                  void (*done)(struct pp_req *req));
/* Continues an operation after jq_send(): if that failed, calls done() with its error. */
void jq_go_on(struct jq_op *op, enum pp_err sent);
/* Returns true if `err` says that inner gave no answer. */
bool jq_failed(enum pp_err err);
/* True if `answer` (n bytes, the stored answer for the key of `r`) is that of another batch. False
 * if it is NULL. */
bool jq_is_other(const struct pp_ingest_append *r, const char *answer, size_t n);

/* --- entries (journal_entry.c) --- */

/* Allocates an entry, which jq_entry_add() adds or free() frees. NULL: out of memory. */
struct jq_entry *jq_entry_new(const struct pp_ingest_entry *e);
/* Adds the entry as the latest accepted one. False: out of memory. */
pp_must_check bool jq_entry_add(struct jq *q, struct jq_entry *e, enum jq_state state);
struct jq_entry *jq_find(struct jq *q, const char *batch_id);
/* Changes the state of an entry and moves it to the list of that state; no other function does. */
void jq_entry_set(struct jq *q, struct jq_entry *e, enum jq_state state);
/* Makes the entry SURE. If it was SURE before, raises its level. */
void jq_entry_later(struct jq *q, struct jq_entry *e);
/* Makes every SURE entry DOUBTFUL; each keeps its level. */
void jq_entries_doubt(struct jq *q);
void jq_entry_remove(struct jq *q, struct jq_entry *e);
/* Returns true if the client has entries that are not SURE: then inner must not get a newer one
 * first. */
bool jq_client_waits(struct jq *q, const char *client);
/* Copies an entry, without payload, into the arena. PP_ENOMEM. */
pp_must_check enum pp_err jq_entry_copy(struct pp_arena *a, const struct jq_entry *e,
                                        struct pp_ingest_entry *out);

/* --- journal_round.c --- */

/* Sets the timer of the round for its next step, if there is one. */
void jq_round_kick(struct jq *q);
/* Does the next step of the round; the timer calls it. */
void jq_round_step(struct jq *q);
/* Notes that inner did not answer, or took no entry. */
void jq_away(struct jq *q);
/* Deletes planned entries from the journal. Copies the ids. */
void jq_release(struct jq *q, const char *const *batch_ids, size_t n);

/* --- journal_append.c, journal_read.c --- */

/* Begins the appends that waited for the load, or ends them if the queue closes. */
void jq_append_early(struct jq *q);

#define X(name, type) pp_must_check enum pp_err jq_##name(struct pp_ingest_queue *q, struct type *r);
PP_INGEST_OPS(X)
#undef X

#endif
