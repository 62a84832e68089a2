/* ingest_internal.h: the declarations that the files of the ingest queue share.
 *
 * "In hand" are the entries that a take has given to this process and that are not acked yet
 * (q->hand).
 *
 * Writes may be repeated, because Redis appends or acks a batch id only once. So a call with
 * unknown outcome is sent again for up to `patience_ms`. A take is not repeated: if its answer is
 * lost, its entries are in the pending list of this planner but not in hand, and the next take
 * returns them.
 *
 * To add an operation: a script, a row of PP_RIQ_SCRIPTS, a function in ingest_ops.c. */
#ifndef PP_ADAPTER_REDIS_INGEST_INTERNAL_H
#define PP_ADAPTER_REDIS_INGEST_INTERNAL_H

#include <hiredis/hiredis.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/list.h"
#include "runtime/lane.h"

/* X(file, whether a call may be sent again after an unknown outcome) */
#define PP_RIQ_SCRIPTS(X)      \
    X(APPEND, append, true)    \
    X(PART, part, true)        \
    X(TAKE, take, false)       \
    X(REFRESH, refresh, false) \
    X(BACK, back, false)       \
    X(ACK, ack, true)          \
    X(POISON, poison, true)    \
    X(CANCEL, cancel, true)    \
    X(LIST, list, false)       \
    X(STATS, stats, false)     \
    X(CHECK, check, false)     \
    X(CLEAN, clean, false)

enum pp_riq_script {
#define X(id, file, repeats) PP_RIQ_##id,
    PP_RIQ_SCRIPTS(X)
#undef X
};

enum {
    PP_RIQ_PREFIX_MAX = 100,
    PP_RIQ_KEY_MAX = PP_RIQ_PREFIX_MAX + 64,
    PP_RIQ_SID_MAX = 44,
    PP_RIQ_INSIDE_BYTES = 64 << 10, /* packed payloads up to this size are in the message of the stream */
    PP_RIQ_PART_BYTES = 480 << 10,  /* size of the parts of larger payloads */
    PP_RIQ_RAW_MAX = 512 << 20,     /* bytes of an unpacked payload; a record that says more is damaged */
    PP_RIQ_BUCKETS =
        4096, /* hashes for the acked ids of one slot; each stays small enough for Redis' compact form */
    PP_RIQ_SLOT_MS =
        PP_DAY_MS /
        2, /* how long a slot of acked ids is used for new ids; PP_INGEST_DONE_SLOTS slots are kept */
};

struct pp_riq {
    struct pp_ingest_queue base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis *redis;
    struct pp_lane *lane; /* threads that pack and unpack */
    struct pp_lane_home *home;
    char tag[PP_RIQ_PREFIX_MAX + 4];               /* "{prefix}:" */
    char keys[PP_INGEST_KEYS + 1][PP_RIQ_KEY_MAX]; /* index: PP_INGEST_STREAM and so on, from 1 */
    int64_t patience_ms, silence_ms, key_ttl_ms, timeout_ms;
    size_t in_flight; /* This number of requests is not done. */
    bool closing;
    bool *closed; /* Not NULL while a timer runs callbacks; a close makes the flag true. */
    char *url;

    struct pp_list again; /* The calls of these operations wait to be sent again. */
    struct pp_timer *again_timer;

    /* ingest_take.c */
    struct pp_list takes; /* The requests to take; only the first is in flight. */
    struct pp_list hand;  /* These entries were taken and are not acked: struct riq_hand. */
    char turn[PP_CLIENT_MAX + 1];
    char *consumer; /* All takes have this consumer name; NULL before the first take. */
    struct pp_timer *alive;

    /* ingest_watch.c */
    void (*watch)(void *data);
    void *watch_data;
    struct pp_redis *ear;      /* a connection for BLPOP; NULL: nobody watches */
    bool listening;            /* A BLPOP is in flight. */
    bool hungry;               /* The last take returned no entries. */
    struct pp_timer *recovery; /* It fires when the entries of a silent planner may be taken. */
    struct pp_timer *call_watch;
    struct {
        char aof[8], last_write[16], policy[64], maxmemory[24];
    } server; /* Redis' INFO said this after the latest connect. */
    char durable[320];
    char warned[64]; /* The latest warning named this eviction policy. */
};

/* --- ingest_queue.c --- */

struct pp_riq_op;

/* Gets the answer with PP_OK, or an error. Ends the operation, or begins its next step. */
typedef void (*pp_riq_cb)(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply);

/* An operation, and the script call that it has in flight. pp_riq_op_new() allocates it,
 * pp_riq_end() frees it. */
struct pp_riq_op {
    struct pp_node node; /* It is in q->again while the call waits to be sent again. */
    struct pp_riq *q;
    struct pp_req *req;  /* the caller's request; NULL: the queue itself began the operation */
    struct pp_arena mem; /* It is freed with the operation. */
    struct pp_job job;
    void (*on_worked)(struct pp_riq_op *op);
    struct pp_redis_call call;
    bool repeats;        /* The call may be sent again. */
    bool maybe;          /* Redis may have executed an earlier sending of the call. */
    enum pp_err refused; /* The submit failed with this error; PP_OK: it did not fail. */
    int64_t since;       /* The call was sent first at this monotonic time. */
    pp_riq_cb on_answer;
};

/* Allocates an operation of `size` bytes: a struct that begins with struct pp_riq_op. Returns NULL
 * and sets *err if memory is out, the queue closes, or there are too many operations. */
struct pp_riq_op *pp_riq_op_new(struct pp_riq *q, size_t size, struct pp_req *req, enum pp_err *err);
/* Begins a call with the keys that all scripts have; pp_riq_key() adds the script's own. */
void pp_riq_begin(struct pp_riq_op *op, enum pp_riq_script script, pp_riq_cb on_answer);
void pp_riq_key(struct pp_riq_op *op, const char *kind, const char *name); /* {prefix}:kind:name */
/* Adds the keys of the hashes that remember the batch id after its ack: in the current slot, or in
 * all slots. */
void pp_riq_done_key(struct pp_riq_op *op, const char *batch_id, bool all);
/* Ends the keys; arguments follow. */
void pp_riq_args(struct pp_riq_op *op);
/* Adds an argument: the digest by which Redis remembers a batch id. */
void pp_riq_digest(struct pp_riq_op *op, const char *batch_id);
/* Sends the call. Calls on_answer exactly once, later, also if the submit fails. */
void pp_riq_send(struct pp_riq_op *op);
/* Runs work() on the lane, then on_worked() on the loop, even if the queue closes meanwhile
 * (q->closing). The operation must have a request. Fails as pp_lane_submit(). */
pp_must_check enum pp_err pp_riq_work(struct pp_riq_op *op, void (*work)(void *state, struct pp_job *job),
                                      void (*on_worked)(struct pp_riq_op *op));
/* Ends the operation and its request with `err`. */
void pp_riq_end(struct pp_riq_op *op, enum pp_err err);
/* Frees an operation whose submit fails: the request's done is not called. */
void pp_riq_drop(struct pp_riq_op *op);
/* Returns the port's error for the answer of a script. */
enum pp_err pp_riq_err(enum pp_err err, const struct redisReply *reply);
/* A pp_riq_cb: ends an operation whose script answers 0 if there is no such entry, else 1. */
void pp_riq_on_found_or_not(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply);

/* --- the operations --- */

#define X(name, type) pp_must_check enum pp_err pp_riq_##name(struct pp_ingest_queue *q, struct type *r);
PP_INGEST_OPS(X)
#undef X

/* --- ingest_take.c --- */

void pp_riq_let_go(struct pp_riq *q,
                   const char *batch_id); /* removes an acked or poisoned entry from q->hand */
pp_must_check bool pp_riq_take_open(struct pp_riq *q);
void pp_riq_take_close(struct pp_riq *q); /* gives the entries in hand back to other planners */

/* --- ingest_watch.c --- */

pp_must_check bool pp_riq_watch_open(struct pp_riq *q);
void pp_riq_watch_close(struct pp_riq *q);
void pp_riq_watch(struct pp_ingest_queue *q, void (*cb)(void *data), void *data);
/* Notes that a take returned no entries. In `ms` the entries of a silent planner may be taken; -1:
 * no planner is silent. */
void pp_riq_hungry(struct pp_riq *q, int64_t ms);
/* The connection's on_state: asks Redis after each connect which failures accepted batches survive.
 */
void pp_riq_on_state(void *data, bool up);
const char *pp_riq_durability(struct pp_ingest_queue *q);

/* --- ingest_pack.c --- */

/* Packs n bytes by zlib. The caller frees the result with free(). NULL: out of memory. */
void *pp_riq_pack(const void *p, size_t n, size_t *packed_n);
/* Unpacks the parts, in order, into `raw`. PP_ECORRUPT: the result has not exactly raw_n bytes, or
 * is damaged; PP_ENOMEM. */
pp_must_check enum pp_err pp_riq_unpack(const void *const *parts, const size_t *lens, size_t n, void *raw,
                                        size_t raw_n);

struct pp_riq_meta {
    char sid[PP_RIQ_SID_MAX];
    size_t raw;     /* bytes of the payload, unpacked */
    uint32_t parts; /* number of parts; 0: the payload is in the message */
};
/* Parses a line of META into an entry without payload, with its strings in the arena. PP_ECORRUPT:
 * not a valid line; PP_ENOMEM. `meta` may be NULL. */
pp_must_check enum pp_err pp_riq_parse_meta(struct pp_arena *a, const char *batch_id, const char *line,
                                            size_t n, struct pp_ingest_entry *e, struct pp_riq_meta *meta);

#endif
