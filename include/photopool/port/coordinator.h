/* coordinator.h: what workers must agree on: slots (rate, concurrency and hash range in one lease), the
 * backlog index with its wake-ups, slow hosts, who is alive, who leads, and notices from process to process.
 *
 * A slot is share k of S of a client; core/share.h cuts rate, concurrency and hash range into shares. A
 * worker holds at most one slot of a client. The holder keeps the sliding log of its share in memory
 * (core/ratelimit.h) and starts only what it has reserved. What is recorded at each renewal is enough for the
 * next holder to keep rules I4 and I5: marks are requests that went out, `reserved` bounds those that may
 * have gone out since or will, until the next renewal; `in_flight` and `busy_until_ms` those that may be
 * under way. After a crash the next holder counts all reserved ones as spent, at the moment by which they
 * have gone out for sure, and those in flight as taken until busy_until_ms.
 *
 * A lease lasts lease_ms from when the coordinator answers, by its clock; a holder counts from before it
 * asked, and sends nothing after that. All times given and taken here are the caller's wall clock: an adapter
 * with a clock of its own translates.
 *
 * The cut: all slots of a client that are held have the same (rpm, concurrency, shares). A want with another
 * cut is refused while one is held under the old one; with the first slot of a new cut what earlier holders
 * left is divided among the new shares (each mark's n, without remainder).
 *
 * Lost data: `dataset` names what the coordinator has. Where it is new, nobody knows what was sent in the
 * last minute: a slot is granted only one lease after the data set began, with its whole rate counted as
 * spent at its beginning; a renewal of a slot that the data set does not know re-creates it meanwhile. After
 * pp_coordinator_ops.first() (nothing was ever sent before this data set) neither applies.
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
    uint32_t shares;      /* S, the same wherever settings and workers are seen alike; out: the one in force.
                           0 is taken as 1 */
    /* out */
    bool granted;
    uint32_t share;      /* k of S */
    int64_t retry_at_ms; /* not granted: worth asking again then (when the lease of another ends) */
    bool empty;          /* not granted: its holder says that the client has nothing due, now or later */
    const struct pp_slot_mark *marks; /* what earlier holders sent, oldest first */
    size_t n_marks;
    uint32_t spent;         /* reserved by one that crashed: count as sent, */
    int64_t spent_at_ms;    /* then (wall): not after now_ms */
    uint32_t taken;         /* requests of one that crashed may be under way: */
    int64_t taken_until_ms; /* so many less of the share's concurrency until then */
    int64_t not_before_ms;  /* no admission before this wall time; 0: at once */
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
    uint32_t reserved;     /* requests not in the marks that may go or have gone out */
    uint32_t in_flight;    /* requests that may be under way at once until the next renewal, at most */
    int64_t busy_until_ms; /* wall: when the last of these has ended, at the latest */
    /* When each queue has something due, INT64_MAX: nothing; PP_QUEUES of them, or NULL: unchanged. For the
     * backlog index, and for those who are refused. */
    const int64_t *due_ms;
    /* For a data set that has lost the slot: its cut. */
    uint32_t rpm, concurrency, shares;
    bool lost; /* out: the lease had lapsed; start nothing more */
};

struct pp_coord_renew {
    struct pp_req req;
    const char *worker;
    int64_t lease_ms, now_ms;
    struct pp_slot_renewal *renewals;
    size_t n;
};

/* As a renewal, the last; whoever comes next may have the slot at once. With something due all workers are
 * told. */
struct pp_coord_release {
    struct pp_req req;
    const char *worker;
    int64_t now_ms;
    struct pp_slot_renewal *renewals;
    size_t n;
};

/* The backlog index: what was announced and what holders have said since. Not `complete`: some of it may be
 * missing (lost, never built): read the store's and announce it, with `rebuilt`. */
struct pp_coord_backlog {
    struct pp_req req;
    bool rebuilt; /* in: no question: the whole backlog of the store has been announced before this */
    bool complete;
    struct pp_backlog_row *rows; /* out */
    size_t n;
};

/* To lead: `name` belongs to whoever asked first, for lease_ms; again: prolongs. lease_ms 0: lets go. */
struct pp_coord_elect {
    struct pp_req req;
    const char *name, *worker;
    int64_t lease_ms;
    bool leader; /* out */
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

/* From one process to all others, at most once, in no order: what is lost must not matter for long. Strings
 * and data are the sender's; on the other side valid during the callback. */
enum pp_notice_kind {
    PP_NOTICE_CLIENT,  /* a: client whose settings have changed; "": any may have, notices were lost */
    PP_NOTICE_ROUTE,   /* a, b: client, domain; v: tier_ms, weight_sum, value_sum, samples, updated_at */
    PP_NOTICE_SAMPLES, /* a, b: client, domain; v: count, sum_ms, over, done (core/route.h) */
    PP_NOTICE_WEBHOOK, /* a: endpoint that was changed, or whose deliveries were */
    PP_NOTICE_BATCH,   /* a: batch of which photos have been settled */
    PP_NOTICE_KINDS
};

struct pp_notice {
    enum pp_notice_kind kind;
    const char *a, *b;
    double v[5];
};

struct pp_coordinator;

/* Something about the backlog changed: rows' due times are lowered. On the loop thread. */
typedef void (*pp_backlog_cb)(void *data, const struct pp_backlog_row *rows, size_t n);

struct pp_coordinator_ops {
    pp_must_check enum pp_err (*acquire)(struct pp_coordinator *c, struct pp_coord_acquire *r);
    pp_must_check enum pp_err (*renew)(struct pp_coordinator *c, struct pp_coord_renew *r);
    pp_must_check enum pp_err (*release)(struct pp_coordinator *c, struct pp_coord_release *r);
    pp_must_check enum pp_err (*backlog)(struct pp_coordinator *c, struct pp_coord_backlog *r);
    pp_must_check enum pp_err (*elect)(struct pp_coordinator *c, struct pp_coord_elect *r);
    /* How far ahead a holder should reserve, in ms of its share's rate; 0: renewals are so cheap that each
     * claim reserves its own. */
    int64_t (*reserve_ahead_ms)(struct pp_coordinator *c);
    /* Tells every worker, this process's too, that these queues have something. Never blocks, copies. */
    void (*announce)(struct pp_coordinator *c, const struct pp_backlog_row *rows, size_t n);
    /* One watcher a process. */
    void (*watch)(struct pp_coordinator *c, pp_backlog_cb cb, void *data);
    /* Sends notices to all other processes. Never blocks, copies. */
    void (*notify)(struct pp_coordinator *c, const struct pp_notice *notices, size_t n);
    /* One a process; on the loop thread; not for what this process sent. */
    void (*watch_notices)(struct pp_coordinator *c, void (*cb)(void *data, const struct pp_notice *notice),
                          void *data);
    /* No request to `host` before `until_ms` (wall), for all workers: only ever prolongs. */
    void (*slow_host)(struct pp_coordinator *c, const char *host, int64_t until_ms, int64_t now_ms);
    /* 0: not slowed; else until when. From memory. */
    int64_t (*host_slow_until)(struct pp_coordinator *c, const char *host, int64_t now_ms);
    /* A sign of life, every second or so. Copies. */
    void (*heartbeat)(struct pp_coordinator *c, const struct pp_worker_info *info);
    /* The i-th worker seen in the last minute; false past the last. From memory; valid until the loop turns.
     */
    bool (*worker)(struct pp_coordinator *c, size_t i, struct pp_worker_info *info, int64_t now_ms);
    /* Asks a worker (NULL: all) to drain. PP_ENOTFOUND. */
    pp_must_check enum pp_err (*drain)(struct pp_coordinator *c, const char *worker);
    void (*watch_drain)(struct pp_coordinator *c, void (*cb)(void *data, const char *worker), void *data);
    /* The name of the data set, "" while it is not known (not connected). Valid until the loop turns. */
    const char *(*dataset)(struct pp_coordinator *c);
    /* This data set is the installation's first: nothing was sent before it. */
    void (*first)(struct pp_coordinator *c, const char *dataset);
    bool (*roundtrips)(struct pp_coordinator *c, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_coordinator *c);
};

struct pp_coordinator {
    const struct pp_coordinator_ops *ops;
};

#endif
