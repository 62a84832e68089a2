/* delivery_store.h: how far each sink has come (its cursor), deliveries to retry, and webhooks'
 * endpoints.
 *
 * The outbox is the task store's list of finished items in order of `seq` (task_store.h): the write
 * that finishes an item also makes it due for delivery. A sink ("hub", "amqp", "webhook:shop") has
 * a cursor, a `seq`. Each item up to the cursor was accepted by the sink, or has a row here: a
 * delivery with its own schedule. So a failing delivery delays no other. A row has no payload,
 * because the relay makes the payload from the item.
 *
 * Delivery is at least once: after a relay dies, some messages go out again with the same id.
 * Cursors only grow, so a replaced relay that still runs does no harm.
 *
 * Requests are asynchronous as req.h says, and fail as task_store.h says.
 * tests/contract/suite_delivery_store.c checks every adapter. */
#ifndef PHOTOPOOL_PORT_DELIVERY_STORE_H
#define PHOTOPOOL_PORT_DELIVERY_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "photopool/day.h"
#include "photopool/req.h"

#define PP_SINK_NAME_MAX 80 /* size of a sink's name in bytes, with its NUL */
/* the name of an endpoint's sink is this prefix and the endpoint's name */
#define PP_SINK_WEBHOOK "webhook:"

enum pp_delivery_status {
    PP_DELIVERY_PENDING,
    PP_DELIVERY_DELIVERED, /* the sink has accepted the message; the row is kept as a log */
    PP_DELIVERY_DEAD       /* a dead letter: the last try has failed; the row can be replayed */
};

struct pp_delivery { /* a delivery; its key is (sink, seq) */
    uint64_t seq;    /* the item's place in the outbox */
    const char *id;  /* id of the item's result */
    const char *client;
    enum pp_delivery_status status;
    uint32_t attempts;
    int64_t finished_at; /* the item finished at this time; replays select rows by it */
    int64_t updated_at;  /* time of the last try */
    int64_t due_ms;      /* a PENDING row is tried again at this time; 0 for other rows */
    int http_status;     /* status of the last answer; 0: there was no answer */
    const char *error;   /* why the last attempt failed, at most 255 bytes; NULL: no failure */
};

/* Writes rows, replacing rows with the same key, and then moves the cursor: in one transaction, or
 * in this order. Repeating the call changes nothing. PP_ENOTFOUND: the sink has no cursor, or its
 * endpoint was deleted; nothing is written. */
struct pp_delivery_save {
    struct pp_req req;
    const char *sink;
    uint64_t cursor; /* the new cursor; the store ignores it unless it is higher than the stored one */
    const struct pp_delivery *rows;
    size_t n;
};

/* Reads the cursor of a sink. PP_ENOTFOUND: the sink has none. If `start_at` is not NULL, the store
 * then creates the cursor, except for an endpoint's sink: put_webhook creates that cursor, and a
 * relay must not create it again after the endpoint was deleted. */
struct pp_delivery_cursor {
    struct pp_req req;
    const char *sink;
    const uint64_t *start_at;
    uint64_t cursor; /* out: the seq that the sink has reached */
};

struct pp_delivery_due { /* reads PENDING rows with due_ms <= now_ms, earliest first */
    struct pp_req req;
    const char *sink;
    int64_t now_ms;
    size_t limit;
    struct pp_delivery *rows; /* out: the rows that are due */
    size_t n;
    int64_t next_ms; /* out: time when the first row after `rows` is due; INT64_MAX: no such row */
};

struct pp_delivery_list { /* reads rows, the highest seq first */
    struct pp_req req;
    const char *sink;
    int status;          /* reads only rows with this enum pp_delivery_status; -1: with any status */
    uint64_t before_seq; /* reads only rows below this seq; 0: reads from the newest row on */
    size_t limit;
    struct pp_delivery *rows; /* out: the rows, in descending order of seq */
    size_t n;
    bool more;
};

/* Replays rows of items that finished in from_ms..to_ms, both included: the rows become PENDING and
 * due now, with 0 attempts. */
struct pp_delivery_replay {
    struct pp_req req;
    const char *sink;
    int status; /* replays only rows with this status, -1: any; PENDING rows become due now */
    int64_t from_ms, to_ms, now_ms;
    uint64_t n; /* out: number of rows replayed */
};

struct pp_delivery_sink {
    const char *sink;
    uint64_t cursor;
    uint64_t pending, dead;
    int64_t oldest_at; /* finished_at of the oldest PENDING row; 0: no row is PENDING */
};

struct pp_delivery_sinks { /* reads all sinks that have a cursor */
    struct pp_req req;
    struct pp_delivery_sink *sinks; /* out: the sinks, in order of their names */
    size_t n;
};

/* Deletes DELIVERED and DEAD rows of items that finished before finished_before_ms. The
 * caller repeats the call while n == limit. */
struct pp_delivery_clean {
    struct pp_req req;
    int64_t finished_before_ms;
    size_t limit;
    uint64_t n; /* out: number of rows deleted */
};

/* --- requests about webhooks' endpoints --- */

struct pp_webhook {
    const char *name; /* name of the endpoint: 1 to 64 characters of [A-Za-z0-9_-] */
    const char *url;  /* as the caller of the API gave it */
    /* which results the endpoint gets (pipeline/deliver/webhook_filter.h); NULL: all. Stores do not
     * read it. */
    const char *filter;
    const char *secret;     /* signs the messages; has the form "whsec_..." */
    const char *old_secret; /* also signs messages until old_until_ms (wall); NULL: there is none */
    int64_t old_until_ms;
    bool paused;
    bool disabled; /* true: the receiver answered 410, so it gets no more messages */
    int64_t created_at, updated_at;
    /* The store raises this number with each change. pp_webhook_put carries the version that the
     * caller has read; 0: a new endpoint. */
    uint64_t version;
};

struct pp_webhooks { /* reads one endpoint (n == 0: it does not exist) or a page of them */
    struct pp_req req;
    const char *name;  /* reads only the endpoint of this name; NULL: reads a page */
    const char *after; /* the page starts after this name; NULL: at the first endpoint */
    size_t limit;
    struct pp_webhook *webhooks; /* out: the endpoints */
    size_t n;
    bool more;
};

/* Writes an endpoint if its version is still the one that the caller read (compare-and-set), and
 * sets webhook.version. PP_ESTALE: another change came first. A new endpoint gets `start_at` as its
 * cursor. */
struct pp_webhook_put {
    struct pp_req req;
    struct pp_webhook webhook;
    uint64_t start_at;
};

/* deletes an endpoint, its cursor and its deliveries; PP_ENOTFOUND: there is none */
struct pp_webhook_delete {
    struct pp_req req;
    const char *name;
};

/* --- statistics of days ---
 *
 * A consumer of the outbox adds finished items up, and adds the sums to the stored days. Each item
 * is counted exactly once, also after crashes and by several consumers at once:
 *
 *   days_begin fixes a range of the outbox. Until the range has been added, every call returns the
 *     same range. Items never change, so every consumer computes the same sums for it.
 *   days_add adds the sums of this range. Each stored day remembers the end of the last range that
 *     was added to it, and takes each range once. Then the cursor of the sink PP_SINK_STATISTICS
 *     moves to the end of the range.
 *
 * So a call that is repeated, arrives late, or was carried out in part does no harm. A store that
 * adds in one transaction need not keep the range. */
#define PP_SINK_STATISTICS "statistics"

/* Fixes the next range: the items with a seq above `cursor` and up to `end`. If an earlier range
 * was not added yet, returns that range; else `end` becomes the higher one of `upto` and `cursor`.
 * Creates the cursor, at 0. `upto` 0: only reads. */
struct pp_days_begin {
    struct pp_req req;
    uint64_t upto;        /* must be readable in the outbox: no item up to it appears later */
    uint64_t cursor, end; /* out: the range; there is none if both are equal */
};

/* Adds the sums of a whole range that days_begin has returned. Adds nothing if the range was added
 * already. PP_ESTALE: the range is no longer the next one; nothing was added. After any other
 * failure the caller begins again with days_begin. */
struct pp_days_add {
    struct pp_req req;
    uint64_t cursor, end;      /* the range, not empty */
    const struct pp_day *days; /* at most one element for each day of a name */
    size_t n;
};

struct pp_days { /* reads the days of one name, in order; days without items have no row */
    struct pp_req req;
    enum pp_day_of of;
    const char *name;
    int32_t from, to;    /* the first and the last day to read */
    struct pp_day *days; /* out: the days, at most to - from + 1 */
    size_t n;
};

/* Deletes days before this one. The caller repeats the call while n == limit. */
struct pp_days_clean {
    struct pp_req req;
    int32_t before_day;
    size_t limit;
    uint64_t n; /* out: number of days deleted */
};

/* The operations, X(name, type of the request). */
#define PP_DELIVERY_OPS(X)               \
    X(save, pp_delivery_save)            \
    X(cursor, pp_delivery_cursor)        \
    X(due, pp_delivery_due)              \
    X(list, pp_delivery_list)            \
    X(replay, pp_delivery_replay)        \
    X(sinks, pp_delivery_sinks)          \
    X(clean, pp_delivery_clean)          \
    X(webhooks, pp_webhooks)             \
    X(put_webhook, pp_webhook_put)       \
    X(delete_webhook, pp_webhook_delete) \
    X(days_begin, pp_days_begin)         \
    X(days_add, pp_days_add)             \
    X(days, pp_days)                     \
    X(days_clean, pp_days_clean)

struct pp_delivery_store;

struct pp_delivery_store_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_delivery_store * s, struct type * r);
    PP_DELIVERY_OPS(X)
#undef X
    /* Returns the name and the number of the i-th kind of round trip, for metrics; false past the
     * last kind. */
    bool (*roundtrips)(struct pp_delivery_store *s, size_t i, const char **name, uint64_t *n);
    /* Frees the store. The caller calls this on the loop thread, after the last done(). May block
     * briefly. */
    void (*close)(struct pp_delivery_store *s);
};

/* Adapters embed this as their first member. */
struct pp_delivery_store {
    const struct pp_delivery_store_ops *ops;
};

#endif
