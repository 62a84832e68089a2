/* counters.h: counters that callers of the API increment and read: a sum for each key, and a number
 * for each day.
 *
 * A key is 1 to 128 bytes of [A-Za-z0-9_.:-]. A counter exists from its first increment on. Each
 * increment is applied exactly once, also if a process, a cache or a store dies in between; only an
 * increment whose answer was lost may have been counted or not, and a token decides: a request that
 * is repeated with its token is not applied again, and gets the first answer.
 *
 * While the store of a fleet can't be read, increments of any key go on, and so do reads of sums
 * that are cached. An increment of a key that is not cached is counted, but its sum is
 * PP_COUNTER_UNKNOWN. Sums are exact below 2^53.
 *
 * Requests are asynchronous as req.h says. Errors at submit: PP_EFULL, PP_ENOMEM, PP_EINVAL (too
 * many rows); at done: PP_EIO (nothing was changed), PP_ETIMEOUT and PP_EUNKNOWN (the request may
 * have been carried out), PP_EFULL (too much waits to be stored), PP_ENOMEM. Everything runs on the
 * loop thread. */
#ifndef PHOTOPOOL_PORT_COUNTERS_H
#define PHOTOPOOL_PORT_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/req.h"

#define PP_COUNTER_KEY_MAX     128
#define PP_COUNTER_ROWS_MAX    1000
#define PP_COUNTER_BY_MAX      1000000 /* one row increments by at most this much */
#define PP_COUNTER_TOKEN_BYTES 16
#define PP_COUNTER_TOKEN_MS    90000000 /* tokens are kept for 25 h */
#define PP_COUNTER_UNKNOWN     (-1)     /* stands for a sum that can't be read now */

/* Names one request, so that it is applied once. Both parts are hashes. */
struct pp_counter_token {
    uint8_t id[PP_COUNTER_TOKEN_BYTES];     /* of the caller and its Idempotency-Key */
    uint8_t digest[PP_COUNTER_TOKEN_BYTES]; /* of what the request asks for */
};

/* Increments counters, all of them or none. PP_EMISMATCH: the token was used with another digest;
 * nothing was changed. A key may be in several rows. */
struct pp_counters_add {
    struct pp_req req;
    const char *const *keys; /* n keys, 1 <= n <= PP_COUNTER_ROWS_MAX */
    const int64_t *by;       /* by how much: 1..PP_COUNTER_BY_MAX */
    size_t n;
    int32_t day;                          /* the day of all increments, in days since 1970 (UTC) */
    int64_t now_ms;                       /* the date */
    const struct pp_counter_token *token; /* NULL: none */
    /* The port sets the following fields. */
    int64_t *sums; /* the sum after each row; in the arena */
    bool replayed; /* the token was used before: these are the sums of that time */
};

/* Reads the sums of n keys; 0 for a counter that does not exist. */
struct pp_counters_read {
    struct pp_req req;
    const char *const *keys;
    size_t n;
    int64_t now_ms; /* the date */
    int64_t *sums;  /* out; in the arena */
};

struct pp_counter_day {
    int32_t day; /* days since 1970 (UTC) */
    int64_t n;
};

/* Reads the days from..to of a counter, at most PP_COUNTER_DAYS_MAX. */
#define PP_COUNTER_DAYS_MAX 400
struct pp_counters_days {
    struct pp_req req;
    const char *key;
    int32_t from, to;            /* both included */
    struct pp_counter_day *days; /* out: the days with increments, in order; in the arena */
    size_t n;                    /* out */
};

/* Deletes a counter with its days. A counter that does not exist is deleted, too. */
struct pp_counters_remove {
    struct pp_req req;
    const char *key;
    int64_t now_ms; /* the date */
};

/* The requests: X(name, type of the request). */
#define PP_COUNTERS_OPS(X)    \
    X(add, pp_counters_add)   \
    X(read, pp_counters_read) \
    X(days, pp_counters_days) \
    X(remove, pp_counters_remove)

struct pp_counters;

struct pp_counters_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_counters * c, struct type * r);
    PP_COUNTERS_OPS(X)
#undef X
    /* Returns the name (a constant) and the number of the i-th kind of round trip, for metrics;
     * false past the last kind. */
    bool (*roundtrips)(struct pp_counters *c, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_counters *c); /* the caller calls this after the last done() */
};

/* Adapters embed this as their first member. */
struct pp_counters {
    const struct pp_counters_ops *ops;
};

#endif
