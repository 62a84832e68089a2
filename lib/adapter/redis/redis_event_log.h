/* redis_event_log.h: the event log (port/event_log.h) on a Redis stream, for any number of processes.
 * README.md has the keys, and what each request costs. */
#ifndef PP_ADAPTER_REDIS_EVENT_LOG_H
#define PP_ADAPTER_REDIS_EVENT_LOG_H

#include "base/log.h"
#include "photopool/port/event_log.h"
#include "runtime/loop.h"

/* Zeros are the defaults. Strings are copied. */
struct pp_redis_event_log_options {
    const char *url;    /* redis_conn.h; must be given */
    const char *prefix; /* of all keys; "photopool:events". No braces, spaces or line breaks. */
    struct pp_log *log;
    int64_t timeout_ms; /* for an answer of Redis; 5 s */
    size_t capacity;    /* requests under way, at most; 4096 */
};

/* Never blocks: connects while it is used. `loop` is where requests are submitted and come back; it outlives
 * the log. Requests fail as redis_conn.h says; nothing is sent again by itself. PP_EINVAL: the URL or the
 * prefix; PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_event_log_open(struct pp_loop *loop,
                                                  const struct pp_redis_event_log_options *o,
                                                  struct pp_event_log **out);

#endif
