/* redis_coordinator.h: the coordinator of a fleet, on Redis 6.2 or later. See port/coordinator.h, and
 * README.md for keys, scripts and what each operation costs.
 *
 * Everything that changes something is one Lua script, by Redis' time, on keys of one hash tag: Redis Cluster
 * works. What workers tell each other is published as well. Requests fail as redis_conn.h says, in bounded
 * time; PP_EUNKNOWN and PP_ETIMEOUT: it may have been done. A slot whose grant was lost on the way may be
 * asked for again at once. Announcements, slow hosts and notices that can't be sent wait, bounded, until they
 * can; beyond the bound the backlog index is marked as not complete, and all are told that notices were lost.
 */
#ifndef PP_ADAPTER_REDIS_COORDINATOR_H
#define PP_ADAPTER_REDIS_COORDINATOR_H

#include "base/log.h"
#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

struct pp_redis_coordinator_options {
    const char *url; /* as redis_conn.h; copied */
    const char
        *prefix; /* of all keys: installations share a server; NULL: "photopool"; 1..64 of [A-Za-z0-9_-] */
    struct pp_log *log; /* may be NULL */
    int64_t timeout_ms; /* for an answer; 0: 5 s */
    /* How long a request to a photo host may be under way, at most: as long, after data were lost, a client's
     * concurrency counts as taken by those whom nobody knows any more. */
    int64_t longest_ms;
    /* For tests: time passes as this says. The scripts take it as the time instead of Redis' own (the
     * caller's now_ms stays what it is), and so do signs of life and messages. */
    int64_t (*test_now)(void *data);
    void *test_data;
};

/* Begins to connect and never stops trying. PP_EINVAL: the URL or the prefix is none; PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_coordinator_open(struct pp_loop *loop,
                                                    const struct pp_redis_coordinator_options *o,
                                                    struct pp_coordinator **out);

#endif
