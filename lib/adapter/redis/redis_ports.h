/* redis_ports.h: opens the ports that a fleet has on Redis 6.2 or later: its coordinator, ingest
 * queue, event log, filter of known photos, dedupe port and cache of counters. README.md has the
 * keys, the scripts, and what each request costs.
 *
 * A port opens without waiting for a connection, and reconnects by itself until it is closed.
 * Callers submit requests on `loop`, which calls done() and must outlive the port. Each change is
 * one Lua script, or one command. All keys of a port on a server have one hash tag, so that Redis
 * Cluster works. Requests fail as redis_conn.h says, in bounded time. Opening fails with PP_EINVAL
 * if the URL or the prefix is not valid, and with PP_ENOMEM.
 *
 * An option that is 0 or NULL stands for the default that its comment names. Strings are copied.
 * `url` must be given; redis_conn.h has its form. */
#ifndef PP_ADAPTER_REDIS_PORTS_H
#define PP_ADAPTER_REDIS_PORTS_H

#include "base/log.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/counter_cache.h"
#include "photopool/port/dedupe.h"
#include "photopool/port/event_log.h"
#include "photopool/port/filter.h"
#include "photopool/port/ingest_queue.h"
#include "runtime/loop.h"

struct pp_redis_coordinator_options {
    const char *url;
    /* All keys begin with this text of 1..64 characters [A-Za-z0-9_-]. Default: "photopool". */
    const char *prefix;
    struct pp_log *log;
    int64_t timeout_ms; /* longest wait for an answer of Redis, in ms; default 5,000 */
    /* The longest time that a request to a photo host may take, in ms. After Redis has lost its
     * data, the requests of holders that Redis no longer knows count as in flight for this time. */
    int64_t longest_ms;
    /* For tests: returns the time that replaces both Redis' clock and the process's clocks. The
     * now_ms of requests is used unchanged. */
    int64_t (*test_now)(void *data);
    void *test_data;
};

/* Opens the coordinator. After PP_EUNKNOWN and PP_ETIMEOUT Redis may have executed a request. If
 * the answer to a grant is lost, the worker may ask for the slot again at once. Announcements, slow
 * hosts and notices that can't be sent now wait in memory. Beyond a bound the process marks the
 * backlog index as incomplete, and tells watchers that notices were lost. */
pp_must_check enum pp_err pp_redis_coordinator_open(struct pp_loop *loop,
                                                    const struct pp_redis_coordinator_options *o,
                                                    struct pp_coordinator **out);

struct pp_redis_ingest_options {
    const char *url;
    /* All keys begin with this text, without braces, blanks and line breaks. Default:
     * "photopool:ingest". */
    const char *prefix;
    struct pp_log *log;
    int64_t timeout_ms;  /* longest wait for an answer of Redis, in ms; default 5,000 */
    int64_t patience_ms; /* ms for which the queue repeats a write after a lost connection; default 4,000 */
    int64_t silence_ms; /* after this many ms of a planner's silence others get its entries; default 30,000 */
    int64_t key_ttl_ms; /* ms for which Redis keeps idempotency records; default 25 h */
};

/* Opens the ingest queue. All takes of a queue must have the same `consumer`. Closing the queue
 * gives the entries that were taken and not acked back to other planners. */
pp_must_check enum pp_err pp_redis_ingest_queue_open(struct pp_loop *loop,
                                                     const struct pp_redis_ingest_options *o,
                                                     struct pp_ingest_queue **out);

struct pp_redis_event_log_options {
    const char *url;
    /* All keys begin with this text, without braces, blanks and line breaks. Default:
     * "photopool:events". */
    const char *prefix;
    struct pp_log *log;
    int64_t timeout_ms; /* longest wait for an answer of Redis, in ms; default 5,000 */
};

/* Opens the event log. The log does not repeat requests that failed. */
pp_must_check enum pp_err pp_redis_event_log_open(struct pp_loop *loop,
                                                  const struct pp_redis_event_log_options *o,
                                                  struct pp_event_log **out);

struct pp_redis_filter_options {
    const char *url;
    /* All keys begin with this text, without braces, blanks and line breaks. Default:
     * "photopool:filter". */
    const char *prefix;
    struct pp_log *log;
    int64_t timeout_ms; /* longest wait for an answer of Redis, in ms; default 5,000 */
};

/* Opens the filter of known photos. It does not repeat requests that failed. */
pp_must_check enum pp_err pp_redis_filter_open(struct pp_loop *loop, const struct pp_redis_filter_options *o,
                                               struct pp_filter **out);

struct pp_redis_dedupe_options {
    /* All keys begin with this text, without braces, blanks and line breaks. Default:
     * "photopool:dedupe". */
    const char *prefix;
    struct pp_log *log;
    int64_t timeout_ms; /* longest wait for an answer of Redis, in ms; default 5,000 */
    int64_t window_ms;  /* at least 1; all processes must have the same */
    /* A table has at least this many slots, of 8 bytes; default 131,072. It is best if at most half
     * of them are used. */
    uint64_t slots;
    /* For tests: returns the time that replaces Redis' clock. */
    int64_t (*test_now)(void *data);
    void *test_data;
};

/* Opens the dedupe port. ops->servers() takes the URLs of its servers, and must be called once
 * before the first request. */
pp_must_check enum pp_err pp_redis_dedupe_open(struct pp_loop *loop, const struct pp_redis_dedupe_options *o,
                                               struct pp_dedupe **out);

struct pp_redis_counters_options {
    const char *url;
    /* All keys begin with this text, without braces, blanks and line breaks. Default:
     * "photopool:counters". */
    const char *prefix;
    struct pp_log *log;
    int64_t timeout_ms; /* longest wait for an answer of Redis, in ms; default 5,000 */
};

/* Opens the cache of counters. It does not repeat requests that failed. Redis is the only place of
 * the increments of the last seconds, so it must sync its append-only file at each write for them
 * to survive its crash. */
pp_must_check enum pp_err pp_redis_counters_open(struct pp_loop *loop,
                                                 const struct pp_redis_counters_options *o,
                                                 struct pp_counter_cache **out);

#endif
