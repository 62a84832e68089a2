/* counter_store.h: the permanent sums and days of a fleet's counters, which change by numbered
 * flushes only.
 *
 * Each document remembers the number of the last flush that changed it. A flush changes only
 * documents with a lower number. So a flush may be repeated, after a failure or by another process,
 * and an older one that arrives late changes nothing. A removed counter leaves empty documents,
 * which remember the flush before its removal; a removal 1,000 flushes later may delete them.
 *
 * Requests are asynchronous as req.h says, and fail as task_store.h says. All of them may be
 * repeated. Everything runs on the loop thread. */
#ifndef PHOTOPOOL_PORT_COUNTER_STORE_H
#define PHOTOPOOL_PORT_COUNTER_STORE_H

#include "photopool/port/counter_cache.h"

/* Reads what the store has of n keys. */
struct pp_cstore_sums {
    struct pp_req req;
    const char *const *keys;
    size_t n;
    struct pp_counter_stored *sums; /* out: for each key; in the arena */
};

/* A month of a counter. */
struct pp_counter_month {
    int64_t flush;    /* number of the last flush that changed it */
    int32_t month;    /* such as 202611 */
    int64_t days[31]; /* the number of each day of the month */
};

/* Reads the months from..to of a counter. */
struct pp_cstore_months {
    struct pp_req req;
    const char *key;
    int32_t from, to;                /* both included */
    struct pp_counter_month *months; /* out, in order; in the arena */
    size_t n;                        /* out */
};

/* A day of a row, with its place in its month. */
struct pp_cstore_day {
    int32_t month;         /* such as 202611 */
    uint32_t day_of_month; /* 1..31 */
    int64_t n;
};

struct pp_cstore_row {
    const char *key;
    const struct pp_cstore_day *days; /* at least one, in order; each day once */
    size_t n;
};

/* Carries out a flush: deletes the removed counters, then adds the rows. */
struct pp_cstore_flush {
    struct pp_req req;
    int64_t flush;
    const char *const *removed;
    size_t n_removed;
    const struct pp_cstore_row *rows; /* each key once */
    size_t n;
};

/* Reads the highest number of all flushes. */
struct pp_cstore_last {
    struct pp_req req;
    int64_t flush; /* out */
};

/* The requests: X(name, type of the request). */
#define PP_CSTORE_OPS(X)        \
    X(sums, pp_cstore_sums)     \
    X(months, pp_cstore_months) \
    X(flush, pp_cstore_flush)   \
    X(last, pp_cstore_last)

struct pp_counter_store;

struct pp_counter_store_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_counter_store * s, struct type * r);
    PP_CSTORE_OPS(X)
#undef X
    bool (*roundtrips)(struct pp_counter_store *s, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_counter_store *s); /* the caller calls this after the last done() */
};

/* Adapters embed this as their first member. */
struct pp_counter_store {
    const struct pp_counter_store_ops *ops;
};

#endif
