/* redis_event_log.h: the event log (port/event_log.h) on a Redis stream, for any number of
 * processes. README.md has the keys, and what each request costs. */
#ifndef PP_ADAPTER_REDIS_EVENT_LOG_H
#define PP_ADAPTER_REDIS_EVENT_LOG_H

#include "base/log.h"
#include "photopool/port/event_log.h"
#include "runtime/loop.h"

/* A zero stands for the default, which the comment of the field gives. Strings are copied. */
struct pp_redis_event_log_options {
    const char *url;    /* redis_conn.h; must be given */
    const char *prefix; /* of all keys; "photopool:events". No braces, spaces or line breaks. */
    struct pp_log *log;
    int64_t timeout_ms; /* longest wait for an answer of Redis; default 5 s */
    size_t capacity;    /* most requests in flight; default 4096 */
};

/* Opens the log without waiting for a connection. Callers submit requests on `loop`, which calls
 * done() and must outlive the log. Requests fail as redis_conn.h says; the log does not repeat
 * them. PP_EINVAL: the URL or the prefix is not valid; PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_event_log_open(struct pp_loop *loop,
                                                  const struct pp_redis_event_log_options *o,
                                                  struct pp_event_log **out);

#endif
