/* redis_ingest_queue.h: the ingest queue on a Redis stream, for any number of processes. README.md
 * has the keys, and what each request costs. */
#ifndef PP_ADAPTER_REDIS_INGEST_QUEUE_H
#define PP_ADAPTER_REDIS_INGEST_QUEUE_H

#include "base/log.h"
#include "photopool/port/ingest_queue.h"
#include "runtime/loop.h"

/* A zero stands for the default, which the comment of the field gives. Strings are copied. */
struct pp_redis_ingest_options {
    const char *url;    /* redis_conn.h; must be given */
    const char *prefix; /* of all keys; "photopool:ingest". No braces, spaces or line breaks. */
    struct pp_log *log;
    int64_t timeout_ms;  /* longest wait for an answer of Redis; default 5 s */
    int64_t patience_ms; /* how long the queue repeats writes after a lost connection; default 4 s */
    int64_t silence_ms;  /* after this time without heartbeat, others get the entries of a planner; 30 s */
    int64_t key_ttl_ms;  /* life of idempotency records; default 25 h */
    size_t capacity;     /* most requests in flight; default 4096 */
};

/* Opens the queue without waiting for a connection. Callers submit requests on `loop`, which calls
 * done() and must outlive the queue. All takes of a queue must have the same `consumer`. Closing
 * gives the entries that were taken and not acked back to other planners. PP_EINVAL: the URL or the
 * prefix is not valid; PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_ingest_queue_open(struct pp_loop *loop,
                                                     const struct pp_redis_ingest_options *o,
                                                     struct pp_ingest_queue **out);

#endif
