/* counter_cache.h: the sums of a fleet's counters that are in use, and the increments that are not
 * in the store yet. lib/counters makes port/counters.h of it and of counter_store.h.
 *
 *   add -> [cached sums]                                   the sum and its pending increment change
 *       -> [pending] -- take --> [processing] -- ack -->   at the same moment
 *                                     |
 *                                     +--> one numbered flush into the store
 *
 * Invariants
 *  - The sum of a counter is what the store has of it, plus what is pending, plus what is
 *    processing and not in the store. A cached sum is that number.
 *  - A flush has a number, which is higher than that of each earlier flush. take() returns the
 *    flush that is processing, again and again, until its ack(). So at most one is processing.
 *  - A removed counter is cached with the sum 0 until a flush has deleted it in the store.
 *
 * Keys that are not cached are missing. A caller reads their stored sums, with the number of the
 * last flush in them, and repeats its request with them. If the cache has meanwhile changed in a
 * way that could make these sums wrong, its generation has changed, and the keys are missing
 * again.
 *
 * Requests are asynchronous as req.h says, and fail as counters.h says. Everything runs on the loop
 * thread. */
#ifndef PHOTOPOOL_PORT_COUNTER_CACHE_H
#define PHOTOPOOL_PORT_COUNTER_CACHE_H

#include "photopool/port/counters.h"

/* What the store has of a counter. */
struct pp_counter_stored {
    int64_t sum;   /* PP_COUNTER_UNKNOWN: it was not read */
    int64_t flush; /* number of the last flush that changed it; 0: none did */
};

/* Increments counters, all of them or none. PP_EMISMATCH as counters.h says. */
struct pp_cache_add {
    struct pp_req req;
    const char *const *keys;
    const int64_t *by;
    size_t n;
    int32_t day;
    int64_t now_ms;
    const struct pp_counter_token *token;   /* NULL: none */
    const struct pp_counter_stored *stored; /* of each row; NULL: nothing was read */
    bool force;                             /* increments also counters whose keys are missing */
    /* In: the generation of the answer after which `stored` was read. Out: the present one. */
    int64_t generation;
    /* The cache sets the following fields. */
    bool applied;  /* false: some keys are missing, and nothing was changed */
    int64_t *sums; /* PP_COUNTER_UNKNOWN for a missing key; in the arena */
    bool replayed;
};

/* Reads sums, and caches those of `stored`. */
struct pp_cache_read {
    struct pp_req req;
    const char *const *keys;
    size_t n;
    int64_t now_ms;
    const struct pp_counter_stored *stored;
    int64_t generation;
    int64_t *sums; /* out: PP_COUNTER_UNKNOWN for a missing key; in the arena */
};

/* Reads what of a counter is not in the store. */
struct pp_cache_days {
    struct pp_req req;
    const char *key;
    /* The cache sets the following fields. */
    int64_t flush;                     /* number of the flush that is processing, else of the last one */
    struct pp_counter_day *pending;    /* in the arena, as `processing` */
    struct pp_counter_day *processing; /* what flush number `flush` brings to the store */
    size_t n_pending, n_processing;
    bool removed;  /* the next flush deletes what the store has */
    bool removing; /* flush number `flush` deletes what the store has, before it adds `processing` */
};

struct pp_cache_remove {
    struct pp_req req;
    const char *key;
    int64_t now_ms;
};

/* What a flush brings to the store. */
struct pp_flush_row {
    const char *key;
    const struct pp_counter_day *days; /* at least one; each day once */
    size_t n;
};

/* Returns the flush that is processing, or begins one. A part of the counters is left for the next
 * flush if there are very many. */
struct pp_cache_take {
    struct pp_req req;
    /* The highest number of a flush that the caller knows of; a new flush has a higher one. */
    int64_t floor;
    /* The cache sets the following fields. */
    int64_t flush;             /* 0: there is nothing to flush */
    struct pp_flush_row *rows; /* in the arena, as `removed` */
    size_t n;
    const char **removed; /* keys that the flush deletes, before it adds its rows */
    size_t n_removed;
    bool more; /* more increments are pending */
};

/* The store has all of this flush. Another number than that of the flush in processing changes
 * nothing. */
struct pp_cache_ack {
    struct pp_req req;
    int64_t flush;
};

/* Drops sums that were neither read nor changed since a date, as far as the store has all of them.
 * A request looks at a small part of the cache. */
struct pp_cache_sweep {
    struct pp_req req;
    uint32_t part; /* in: 0, or what the sweep before has returned; out: the next part */
    int64_t before_ms;
    uint64_t n; /* out: number of sums that were dropped */
};

/* The requests: X(name, type of the request). */
#define PP_CACHE_OPS(X)        \
    X(add, pp_cache_add)       \
    X(read, pp_cache_read)     \
    X(days, pp_cache_days)     \
    X(remove, pp_cache_remove) \
    X(take, pp_cache_take)     \
    X(ack, pp_cache_ack)       \
    X(sweep, pp_cache_sweep)

struct pp_counter_cache;

struct pp_counter_cache_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_counter_cache * c, struct type * r);
    PP_CACHE_OPS(X)
#undef X
    bool (*roundtrips)(struct pp_counter_cache *c, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_counter_cache *c); /* the caller calls this after the last done() */
};

/* Adapters embed this as their first member. */
struct pp_counter_cache {
    const struct pp_counter_cache_ops *ops;
};

#endif
