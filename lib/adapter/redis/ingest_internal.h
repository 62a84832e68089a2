/* ingest_internal.h: the declarations that the files of the ingest queue share.
 *
 * The entries "in hand" are those that a take has given to this process and that are not acked yet
 * (q->hand).
 *
 * Writes may be repeated, because Redis appends or acks a batch id only once. So a call with
 * unknown outcome is sent again for up to `patience_ms`. A take is not repeated: if its answer is
 * lost, its entries are in the pending list of this planner but not in hand, and the next take
 * returns them.
 *
 * To add an operation, add a script, a row of PP_RIQ_SCRIPTS, and a function in ingest_ops.c. */
#ifndef PP_ADAPTER_REDIS_INGEST_INTERNAL_H
#define PP_ADAPTER_REDIS_INGEST_INTERNAL_H

#include <hiredis/hiredis.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_look.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/redis/script_constants.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/list.h"
#include "runtime/lane.h"

/* A row for each script: its file, and whether a call may be sent again after an unknown
 * outcome. */
#define PP_RIQ_SCRIPTS(X)            \
    X(APPEND, append, true)          \
    X(PART, part, true)              \
    X(TAKE, take, false)             \
    X(REFRESH, refresh, false)       \
    X(BACK, back, false)             \
    X(ACK, ack, true)                \
    X(POISON, poison, true)          \
    X(LIST_ASIDE, list_aside, false) \
    X(PUT_BACK, put_back, false)     \
    X(CANCEL, cancel, true)          \
    X(LIST, list, false)             \
    X(STATS, stats, false)           \
    X(CHECK, check, false)           \
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
    PP_RIQ_INSIDE_BYTES = 64 << 10, /* a packed payload up to this size is in the message of the stream */
    PP_RIQ_PART_BYTES = 480 << 10,  /* larger payloads are stored in parts of this size, in bytes */
    PP_RIQ_RAW_MAX = 512 << 20, /* most bytes of an unpacked payload; a record that says more is damaged */
    /* The acked ids of a slot are spread over this many hashes. Small hashes keep Redis' compact
     * form. */
    PP_RIQ_BUCKETS = 4096,
    PP_RIQ_SLOT_MS = PP_DAY_MS / 2, /* ms in which a slot takes new ids */
};

struct pp_riq {
    struct pp_ingest_queue base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis *redis;
    struct pp_lane *lane; /* threads that pack and unpack payloads */
    struct pp_lane_home *home;
    char tag[PP_RIQ_PREFIX_MAX + 4];               /* what all keys begin with, "{prefix}:" */
    char keys[PP_INGEST_KEYS + 1][PP_RIQ_KEY_MAX]; /* the keys by index: PP_INGEST_STREAM and so on, from 1 */
    int64_t patience_ms, silence_ms, key_ttl_ms, timeout_ms;
    size_t in_flight; /* number of requests that have not ended */
    bool closing;
    bool *closed; /* not NULL while a timer runs callbacks; closing the queue sets the flag */
    char *url;

    struct pp_list again; /* operations whose calls wait to be sent again */
    struct pp_timer *again_timer;

    /* Used by ingest_take.c: takes, and the entries in hand. */
    struct pp_list takes; /* requests to take; only the first one is in flight */
    struct pp_list hand;  /* the entries in hand (struct riq_hand) */
    char turn[PP_CLIENT_MAX + 1];
    char *consumer; /* the consumer name of all takes; NULL before the first take */
    struct pp_timer *alive;

    /* Used by ingest_watch.c: waiting for entries, and what Redis says about its durability. */
    void (*watch)(void *data);
    void *watch_data;
    struct pp_redis *ear;      /* a connection for BLPOP; NULL: nobody watches */
    bool listening;            /* a BLPOP is in flight */
    bool hungry;               /* the last take returned no entries */
    struct pp_timer *recovery; /* fires when the entries of a silent planner may be taken */
    struct pp_timer *call_watch;
    struct pp_redis_server server; /* what INFO and CONFIG said after the latest connect */
    char durable[320];
    char warned[64]; /* the eviction policy that the latest warning named */
};

/* --- ingest_queue.c --- */

struct pp_riq_op;

/* Gets the answer of a script call with PP_OK, or an error. Ends the operation, or begins its next
 * step. */
typedef void (*pp_riq_cb)(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply);

/* An operation, and its script call in flight. pp_riq_op_new() allocates the operation,
 * pp_riq_end() frees it. */
struct pp_riq_op {
    struct pp_node node; /* links the operation into q->again while its call waits to be sent again */
    struct pp_riq *q;
    struct pp_req *req;  /* the caller's request; NULL: the queue itself began the operation */
    struct pp_arena mem; /* memory that is freed with the operation */
    struct pp_job job;
    void (*on_worked)(struct pp_riq_op *op);
    struct pp_redis_call call;
    bool repeats;        /* the call may be sent again */
    bool maybe;          /* Redis may have executed the call when it was sent before */
    enum pp_err refused; /* the error with which the submit failed; PP_OK: it did not fail */
    int64_t since;       /* when the call was first sent, in ms of the loop's clock */
    pp_riq_cb on_answer;
};

/* Allocates an operation of `size` bytes, for a struct that begins with struct pp_riq_op. Returns
 * NULL and sets *err if memory is out, the queue closes, or there are too many operations. */
struct pp_riq_op *pp_riq_op_new(struct pp_riq *q, size_t size, struct pp_req *req, enum pp_err *err);
/* Begins a call of the script, with the keys that all scripts have. pp_riq_key() adds the keys of
 * this script. */
void pp_riq_begin(struct pp_riq_op *op, enum pp_riq_script script, pp_riq_cb on_answer);
/* Allocates an operation that is one call, and begins the call: the two functions above. `req` is
 * the first member of the caller's request. */
struct pp_riq_op *pp_riq_begin_op(struct pp_ingest_queue *base, struct pp_req *req, enum pp_riq_script script,
                                  pp_riq_cb on_answer, enum pp_err *err);
void pp_riq_key(struct pp_riq_op *op, const char *kind,
                const char *name); /* adds the key "{prefix}:kind:name" */
/* Adds the keys of the hashes that remember the batch id after its ack: the hash of the current
 * slot, or those of all slots. */
void pp_riq_done_key(struct pp_riq_op *op, const char *batch_id, bool all);
/* Ends the keys of the call; the arguments follow. */
void pp_riq_args(struct pp_riq_op *op);
/* Adds an argument: the digest by which Redis remembers a batch id after the ack. */
void pp_riq_digest(struct pp_riq_op *op, const char *batch_id);
/* Sends the call. Calls on_answer exactly once, later, even if the submit fails. */
void pp_riq_send(struct pp_riq_op *op);
/* Runs work() on the lane, then on_worked() on the loop, even if the queue closes meanwhile
 * (q->closing). The operation must have a request. Fails as pp_lane_submit() does. */
pp_must_check enum pp_err pp_riq_work(struct pp_riq_op *op, void (*work)(void *state, struct pp_job *job),
                                      void (*on_worked)(struct pp_riq_op *op));
/* Ends the operation and its request with `err`. */
void pp_riq_end(struct pp_riq_op *op, enum pp_err err);
/* Frees an operation whose submit fails. The request's done() is not called. */
void pp_riq_drop(struct pp_riq_op *op);
/* Converts the answer of a script to an error of the port. */
enum pp_err pp_riq_err(enum pp_err err, const struct redisReply *reply);
/* Ends an operation whose script answers 1, or 0 if there is no such entry: with PP_OK or
 * PP_ENOTFOUND. */
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
/* Notes that a take returned no entries. After `ms` the entries of a silent planner may be taken;
 * -1: no planner is silent. */
void pp_riq_hungry(struct pp_riq *q, int64_t ms);
/* Called when the connection has come up or is lost. After each connect, asks Redis which failures
 * accepted batches survive. */
void pp_riq_on_state(void *data, bool up);
const char *pp_riq_durability(struct pp_ingest_queue *q);

/* --- ingest_pack.c --- */

/* Packs n bytes by zlib. The caller frees the result by free(). Returns NULL when out of memory. */
void *pp_riq_pack(const void *p, size_t n, size_t *packed_n);
/* Unpacks the parts of a payload, in order, into `raw`. Returns PP_ECORRUPT if the result is
 * damaged or does not have raw_n bytes, or PP_ENOMEM. */
pp_must_check enum pp_err pp_riq_unpack(const void *const *parts, const size_t *lens, size_t n, void *raw,
                                        size_t raw_n);

struct pp_riq_meta {
    char sid[PP_RIQ_SID_MAX];
    size_t raw;     /* bytes of the unpacked payload */
    uint32_t parts; /* number of parts; 0: the payload is in the message of the stream */
};
/* Appends to a line of META what only some entries have, their label and max_age, as a word
 * " +MAX_AGE_MS:LABEL" with the label in hex. Older versions do not read this word. */
void pp_riq_put_more(struct pp_buf *line, const struct pp_ingest_entry *e);
/* Parses a line of the hash META into an entry without payload, whose strings are in the arena.
 * Returns PP_ECORRUPT if the line is not valid, or PP_ENOMEM. `meta` may be NULL. */
pp_must_check enum pp_err pp_riq_parse_meta(struct pp_arena *a, const char *batch_id, const char *line,
                                            size_t n, struct pp_ingest_entry *e, struct pp_riq_meta *meta);

#endif
