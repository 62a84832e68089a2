/* ingest_internal.h: what the files of the ingest queue share.
 *
 *   ingest_queue.c   open, close, the operations; calls of scripts, sent again where that is safe
 *   ingest_append.c  payloads packed and sent, in parts where they are large
 *   ingest_take.c    entries taken, their payloads fetched and unpacked; signs of life for what is in hand
 *   ingest_ops.c     ack, poison, cancel, get, list, stats, clean, check
 *   ingest_watch.c   waiting without asking; what a 202 is worth
 *   ingest_pack.c    zlib, lines of META, digests
 *   ingest_*.lua     what happens in Redis, each script atomic, ingest_common.lua in front of each
 *
 * Every write may be repeated: a batch id is appended once, acked once. So a call whose outcome is unknown is
 * sent again until `patience_ms` are over (RETRY). A take can't be repeated, and need not: what it took is
 * ours by the pending list and not in `hand`, so that the next take gets it.
 *
 * To add an operation: a script, a row of PP_RIQ_SCRIPTS, a function in ingest_ops.c. */
#ifndef PP_ADAPTER_REDIS_INGEST_INTERNAL_H
#define PP_ADAPTER_REDIS_INGEST_INTERNAL_H

#include <hiredis/hiredis.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_ingest_queue.h"
#include "base/arena.h"
#include "base/list.h"
#include "runtime/lane.h"

#define PP_RIQ_SCRIPTS(X) \
    X(APPEND, append)     \
    X(PART, part)         \
    X(TAKE, take)         \
    X(REFRESH, refresh)   \
    X(BACK, back)         \
    X(ACK, ack)           \
    X(POISON, poison)     \
    X(CANCEL, cancel)     \
    X(LIST, list)         \
    X(STATS, stats)       \
    X(CHECK, check)       \
    X(CLEAN, clean)

enum {
#define X(id, file) PP_RIQ_##id,
    PP_RIQ_SCRIPTS(X)
#undef X
        PP_RIQ_SCRIPT_COUNT
};

enum {
    PP_RIQ_PREFIX_MAX = 100,
    PP_RIQ_KEY_MAX = PP_RIQ_PREFIX_MAX + 64,
    PP_RIQ_SID_MAX = 44,
    PP_RIQ_INSIDE_BYTES = 64 << 10, /* packed payloads up to this are in the stream's message */
    PP_RIQ_PART_BYTES = 480 << 10,  /* bytes of a part of the others */
    PP_RIQ_RAW_MAX = 512 << 20,     /* bytes of a payload; what says more is damaged */
    PP_RIQ_SLOTS = 3,               /* of PP_RIQ_SLOT_MS, where acked ids are remembered */
    PP_RIQ_BUCKETS = 4096,          /* hashes of a slot, small enough for Redis' compact form */
    PP_RIQ_SLOT_MS = 12 * 3600000,  /* a day at least, a day and a half at most */
    PP_RIQ_DONE_MS = 24 * 3600000,
    PP_RIQ_ASIDE = 256, /* entries set aside that are kept, so long: */
};
#define PP_RIQ_ASIDE_MS (INT64_C(7) * 24 * 3600000)

/* The keys that every script gets, in the order of ingest_common.lua. */
enum { PP_RIQ_FIXED = 10, PP_RIQ_META = 1, PP_RIQ_WAKE = 9 };

struct pp_riq_take;

struct pp_riq {
    struct pp_ingest_queue base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_redis *redis;
    struct pp_lane *lane; /* packs and unpacks */
    struct pp_lane_home *home;
    char *texts[PP_RIQ_SCRIPT_COUNT];
    struct pp_redis_script scripts[PP_RIQ_SCRIPT_COUNT];
    char tag[PP_RIQ_PREFIX_MAX + 4]; /* "{prefix}:" */
    char fixed[PP_RIQ_FIXED][PP_RIQ_KEY_MAX];
    int64_t patience_ms, silence_ms, key_ttl_ms, timeout_ms;
    size_t under_way, capacity; /* requests */
    size_t in_lane;             /* of these */
    bool closing;
    bool *closed; /* of who is calling back from `again`; NULL: nobody */
    char *url;

    struct pp_list again; /* calls that wait to be sent again */
    struct pp_timer *again_timer;

    /* ingest_take.c */
    struct pp_list takes; /* one at a time: the first is under way */
    struct pp_list hand;  /* entries taken, not acked: struct pp_riq_hand */
    char turn[PP_CLIENT_MAX + 1];
    char *consumer; /* of the last take */
    struct pp_timer *alive;

    /* ingest_watch.c */
    void (*watch)(void *data);
    void *watch_data;
    struct pp_redis *ear; /* for BLPOP, a connection of its own; NULL: nobody watches */
    bool listening,
        hungry; /* hungry: the last take gave nothing; then BLPOP is, or soon will be, under way */
    struct pp_timer *recovery; /* when somebody's silence will be long enough */
    struct pp_timer *call_watch;
    char durable[320];
    char warned[64]; /* the eviction policy of the last warning */
};

/* --- calls (ingest_queue.c) --- */

/* A script's call and all that an operation needs while it is under way. Allocated by pp_riq_op_new(), freed
 * by pp_riq_end(). */
struct pp_riq_op {
    struct pp_node node;
    struct pp_riq *q;
    struct pp_req *req;  /* NULL: nobody's */
    struct pp_arena mem; /* keys, arguments */
    struct pp_job job;
    void (*worked)(struct pp_riq_op *op);
    int script;
    const char **argv;
    size_t *lens;
    int argc, n_keys, room;
    bool failed;         /* no memory for arguments */
    bool retry;          /* may be sent again */
    bool maybe;          /* one that was sent before may have been executed */
    enum pp_err refused; /* of a call that could not be submitted */
    unsigned sends;
    int64_t since; /* monotonic: begun */
    /* The answer, never an error; err PP_OK, else what it came to and no reply. Ends the operation, or goes
     * on. */
    void (*answered)(struct pp_riq_op *op, enum pp_err err, const struct redisReply *reply);
};

/* An operation in a struct of `size` bytes that begins with struct pp_riq_op; NULL: out of memory, or
 * closing, or too many (*err). */
struct pp_riq_op *pp_riq_op_new(struct pp_riq *q, size_t size, struct pp_req *req, enum pp_err *err);
/* Begins the arguments: the fixed keys. */
void pp_riq_begin(struct pp_riq_op *op, int script);
void pp_riq_key(struct pp_riq_op *op, const char *kind, const char *name); /* {prefix}:kind[:name] */
void pp_riq_arg(struct pp_riq_op *op, const void *p, size_t n);            /* not copied */
void pp_riq_text(struct pp_riq_op *op, const char *s);                     /* not copied */
void pp_riq_number(struct pp_riq_op *op, int64_t v);
/* Keys and arguments that stand for a batch id where it is remembered as acked: its bucket in the slot of
 * `now`, or in all. */
void pp_riq_done_key(struct pp_riq_op *op, const char *batch_id, bool all);
void pp_riq_digest(struct pp_riq_op *op, const char *batch_id);
/* Sends; answered() fires once, later. */
void pp_riq_send(struct pp_riq_op *op);
/* Runs work() on the lane, then done() on the loop, where q->closing may be set. As pp_lane_submit(). Of
 * operations with a request. */
pp_must_check enum pp_err pp_riq_work(struct pp_riq_op *op, void (*work)(void *state, struct pp_job *job),
                                      void (*done)(struct pp_riq_op *op));
/* The end: req is done with `err`, the operation freed. */
void pp_riq_end(struct pp_riq_op *op, enum pp_err err);
/* The same before anything was sent: done does not fire. */
void pp_riq_drop(struct pp_riq_op *op);
/* The meaning of what a script came to. */
enum pp_err pp_riq_err(enum pp_err err, const struct redisReply *reply);

/* --- the operations --- */

#define PP_RIQ_OPS(X)           \
    X(append, pp_ingest_append) \
    X(take, pp_ingest_take)     \
    X(ack, pp_ingest_ack)       \
    X(poison, pp_ingest_poison) \
    X(get, pp_ingest_get)       \
    X(list, pp_ingest_list)     \
    X(cancel, pp_ingest_cancel) \
    X(stats, pp_ingest_stats)   \
    X(clean, pp_ingest_clean)   \
    X(check, pp_ingest_check)

#define X(name, type) pp_must_check enum pp_err pp_riq_##name(struct pp_ingest_queue *q, struct type *r);
PP_RIQ_OPS(X)
#undef X

/* --- ingest_take.c --- */

struct pp_riq_hand {
    struct pp_node node;
    char sid[PP_RIQ_SID_MAX];
    char batch[]; /* NUL-terminated */
};

void pp_riq_let_go(struct pp_riq *q, const char *batch_id); /* it is acked or set aside */
pp_must_check bool pp_riq_take_open(struct pp_riq *q);
void pp_riq_take_close(struct pp_riq *q); /* gives back */

/* --- ingest_watch.c --- */

pp_must_check bool pp_riq_watch_open(struct pp_riq *q);
void pp_riq_watch_close(struct pp_riq *q);
void pp_riq_watch(struct pp_ingest_queue *q, void (*cb)(void *data), void *data);
/* A take gave nothing; somebody's silence may be long enough in `ms` (-1: nobody is silent). */
void pp_riq_hungry(struct pp_riq *q, int64_t ms);
/* The connection is there again: asks what a 202 is worth. */
void pp_riq_ask_durability(struct pp_riq *q);
const char *pp_riq_durability(struct pp_ingest_queue *q);

/* --- ingest_pack.c --- */

/* zlib of n bytes; NULL: out of memory. free(). */
void *pp_riq_pack(const void *p, size_t n, size_t *packed_n);
/* The inverse into `raw` of exactly raw_n bytes, from parts in order. PP_ECORRUPT, PP_ENOMEM. */
pp_must_check enum pp_err pp_riq_unpack(const void *const *parts, const size_t *lens, size_t n, void *raw,
                                        size_t raw_n);

struct pp_riq_meta {
    char sid[PP_RIQ_SID_MAX];
    size_t raw;     /* bytes of the payload, unpacked */
    uint32_t parts; /* 0: in the message */
    bool aside;
};
/* A line of META into an entry without payload; strings in the arena. PP_ECORRUPT, PP_ENOMEM. `meta` may be
 * NULL.
 */
pp_must_check enum pp_err pp_riq_parse_meta(struct pp_arena *a, const char *batch_id, const char *line,
                                            size_t n, struct pp_ingest_entry *e, struct pp_riq_meta *meta);

#endif
