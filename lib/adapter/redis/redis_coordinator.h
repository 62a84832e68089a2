/* redis_coordinator.h: the coordinator of a fleet, on Redis 6.2 or later. See port/coordinator.h,
 * and README.md for keys, scripts and what each operation costs.
 *
 * Each change is one Lua script that uses Redis' clock. All keys have one hash tag, so that Redis
 * Cluster works. Requests fail as redis_conn.h says, in bounded time; after PP_EUNKNOWN and
 * PP_ETIMEOUT Redis may have executed them. If the answer to a grant is lost, the worker may ask
 * for the slot again at once. Announcements, slow hosts and notices that can't be sent now wait.
 * Beyond a bound the backlog index is marked as incomplete, and watchers are told that notices were
 * lost. */
#ifndef PP_ADAPTER_REDIS_COORDINATOR_H
#define PP_ADAPTER_REDIS_COORDINATOR_H

#include "base/log.h"
#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

struct pp_redis_coordinator_options {
    const char *url;    /* as redis_conn.h; copied */
    const char *prefix; /* of all keys; NULL: "photopool"; 1..64 of [A-Za-z0-9_-] */
    struct pp_log *log; /* may be NULL */
    int64_t timeout_ms; /* longest wait for an answer; 0: 5 s */
    /* The longest that a request to a photo host may take. After Redis has lost its data, a
     * client's concurrency counts as taken for this time, by holders that Redis does not know. */
    int64_t longest_ms;
    /* For tests: returns the time that replaces Redis' clock and ours. The now_ms of requests is
     * used unchanged. */
    int64_t (*test_now)(void *data);
    void *test_data;
};

/* Opens the coordinator, which connects and reconnects by itself until it is closed. PP_EINVAL: the
 * URL or the prefix is not valid; PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_coordinator_open(struct pp_loop *loop,
                                                    const struct pp_redis_coordinator_options *o,
                                                    struct pp_coordinator **out);

#endif
