/* redis_ingest_queue.h: the ingest queue on a Redis stream, for any number of processes. README.md has the
 * keys, and what each request costs. */
#ifndef PP_ADAPTER_REDIS_INGEST_QUEUE_H
#define PP_ADAPTER_REDIS_INGEST_QUEUE_H

#include "base/log.h"
#include "photopool/port/ingest_queue.h"
#include "runtime/loop.h"

/* Zeros are the defaults. Strings are copied. */
struct pp_redis_ingest_options {
    const char *url;    /* redis_conn.h; must be given */
    const char *prefix; /* of all keys; "photopool:ingest". No braces, spaces or line breaks. */
    struct pp_log *log;
    int64_t timeout_ms;  /* for an answer of Redis; 5 s */
    int64_t patience_ms; /* what is written is sent again so long where the connection was lost; 4 s */
    int64_t silence_ms;  /* after so long without a sign of life a planner's entries go to others; 30 s */
    int64_t key_ttl_ms;  /* idempotency records live so long at most; 25 h */
    size_t capacity;     /* requests under way, at most; 4096 */
};

/* Never blocks: connects while it is used. `loop` is where requests are submitted and come back; it outlives
 * the queue. `consumer` of take is one name for a queue's life. At close, what was taken is given back to
 * others. PP_EINVAL: the URL or the prefix; PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_ingest_queue_open(struct pp_loop *loop,
                                                     const struct pp_redis_ingest_options *o,
                                                     struct pp_ingest_queue **out);

#endif
