/* coordinator.h: what workers must agree on: slots (rate, concurrency and hash range in one lease), the
 * backlog index with its wake-ups, slow hosts, and who is alive.
 *
 * A slot is share k of S of a client. The holder keeps the sliding log of its share in memory
 * (core/ratelimit.h) and must renew before it starts requests beyond what it has reserved. What is recorded
 * at each renewal is enough for the next holder to keep rule I5: marks are requests that went out, `reserved`
 * bounds those that may have gone out since or will, until the next renewal. After a crash the next holder
 * counts all reserved ones as spent at the moment it takes over.
 *
 * Requests are asynchronous as req.h says; errors as task_store.h. */
#ifndef PHOTOPOOL_PORT_COORDINATOR_H
#define PHOTOPOOL_PORT_COORDINATOR_H

#include "photopool/port/task_store.h"
#include "photopool/req.h"

struct pp_slot_mark { /* n requests went out, the last at `at_ms` (wall) */
    int64_t at_ms;
    uint32_t n;
};

struct pp_slot_want {
    const char *client;
    uint32_t rpm;         /* of the whole client; 0: unlimited */
    uint32_t concurrency; /* of the whole client */
    /* out */
    bool granted;
    uint32_t share, shares; /* k of S */
    uint32_t share_rpm, share_concurrency;
    uint32_t hash_lo, hash_hi;        /* inclusive */
    const struct pp_slot_mark *marks; /* what earlier holders sent, oldest first */
    size_t n_marks;
    uint32_t spent;        /* reserved by one that crashed: counts as sent now */
    int64_t not_before_ms; /* no admission before this wall time; 0: at once */
};

struct pp_coord_acquire {
    struct pp_req req;
    const char *worker;
    int64_t lease_ms, now_ms;
    struct pp_slot_want *wants;
    size_t n;
};

struct pp_slot_renewal {
    const char *client;
    uint32_t share;
    const struct pp_slot_mark *marks; /* NULL: unchanged since the last renewal that had them */
    size_t n_marks;
    uint32_t reserved; /* requests not in the marks that may go or have gone out */
    bool lost;         /* out: the lease had lapsed; start nothing more */
};

struct pp_coord_renew {
    struct pp_req req;
    const char *worker;
    int64_t lease_ms, now_ms;
    struct pp_slot_renewal *renewals;
    size_t n;
};

struct pp_coord_release { /* as a renewal, the last; whoever comes next may have the slot at once */
    struct pp_req req;
    const char *worker;
    int64_t now_ms;
    struct pp_slot_renewal *renewals;
    size_t n;
};

struct pp_worker_info {
    const char *id;
    const char *host;
    int64_t pid;
    const char *tiers; /* "all" or "1,5" (seconds) */
    uint32_t capacity; /* transfers at once */
    uint32_t in_flight;
    uint32_t clients; /* slots held */
    bool draining;
    int64_t started_at, seen_at;
};

struct pp_coordinator;

/* Something about the backlog changed: rows' due times are lowered. On the loop thread. */
typedef void (*pp_backlog_cb)(void *data, const struct pp_backlog_row *rows, size_t n);

struct pp_coordinator_ops {
    pp_must_check enum pp_err (*acquire)(struct pp_coordinator *c, struct pp_coord_acquire *r);
    pp_must_check enum pp_err (*renew)(struct pp_coordinator *c, struct pp_coord_renew *r);
    pp_must_check enum pp_err (*release)(struct pp_coordinator *c, struct pp_coord_release *r);
    /* How far ahead a holder should reserve, in ms of its share's rate; 0: renewals are so cheap that each
     * claim reserves its own. */
    int64_t (*reserve_ahead_ms)(struct pp_coordinator *c);
    /* Tells every worker that these queues have something. Never blocks, copies. */
    void (*announce)(struct pp_coordinator *c, const struct pp_backlog_row *rows, size_t n);
    /* One watcher a process. */
    void (*watch)(struct pp_coordinator *c, pp_backlog_cb cb, void *data);
    /* No request to `host` before `until_ms` (wall), for all workers: only ever prolongs. */
    void (*slow_host)(struct pp_coordinator *c, const char *host, int64_t until_ms, int64_t now_ms);
    /* 0: not slowed; else until when. From memory. */
    int64_t (*host_slow_until)(struct pp_coordinator *c, const char *host, int64_t now_ms);
    /* A sign of life, every second or so. Copies. */
    void (*heartbeat)(struct pp_coordinator *c, const struct pp_worker_info *info);
    /* The i-th worker seen in the last minute; false past the last. Valid until the loop turns. */
    bool (*worker)(struct pp_coordinator *c, size_t i, struct pp_worker_info *info, int64_t now_ms);
    /* Asks a worker (NULL: all) to drain. PP_ENOTFOUND. */
    pp_must_check enum pp_err (*drain)(struct pp_coordinator *c, const char *worker);
    void (*watch_drain)(struct pp_coordinator *c, void (*cb)(void *data, const char *worker), void *data);
    bool (*roundtrips)(struct pp_coordinator *c, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_coordinator *c);
};

struct pp_coordinator {
    const struct pp_coordinator_ops *ops;
};

#endif
