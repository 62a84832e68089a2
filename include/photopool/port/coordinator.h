/* coordinator.h: the state that workers share: slots (rate, concurrency and hash range in one
 * lease), the backlog index and its wake-ups, slow hosts, live workers, the leader, and notices
 * between processes.
 *
 * The hash ring decides which workers serve a client, so that what one worker hears and knows does
 * not grow with the fleet. Workers and clients have a position on the ring (base/stable_hash.h).
 * The workers near a client are, of each kind (the tiers that they serve), the first PP_NEAR after
 * the client's position; if the client is cut into more than PP_NEAR / 2 shares, twice as many as
 * there are shares. A worker is on the ring from its first heartbeat on, until it drains or sends
 * no heartbeat for PP_WORKER_GONE_MS. Source: Karger et al., "Consistent Hashing and Random Trees",
 * STOC 1997.
 *
 * A slot is share k of S of a client; core/share.h cuts rate, concurrency and hash range into
 * shares. A worker holds at most one slot of a client. The holder keeps the sliding log of its
 * share in memory (core/ratelimit.h) and sends only requests that it has reserved. Each renewal
 * records enough for the next holder to keep the client's rate and concurrency: marks are requests
 * that were sent; `reserved` bounds the requests sent since then, until the next renewal;
 * `in_flight` and `busy_until_ms` bound the requests in flight. After a crash the next holder
 * counts all reserved requests as spent, at the latest moment at which they can have been sent, and
 * those in flight as taken until busy_until_ms.
 *
 * A lease lasts lease_ms from the coordinator's answer, by the coordinator's clock. A holder
 * measures the lease from before its request, and sends nothing after the lease. All times here are
 * the caller's steady wall time; an adapter with its own clock translates.
 *
 * The cut: all held slots of a client have the same (rpm, concurrency, shares). The coordinator
 * refuses a request for a slot with another cut while a slot is held under the old one. The first
 * slot of a new cut divides the marks of earlier holders among the new shares (each mark's n,
 * without remainder).
 *
 * Lost data: `dataset` names the coordinator's data. A new data set does not know the requests of
 * the last minute. So it grants a slot only one lease after it began, and counts the whole rate as
 * spent at its beginning; until then a renewal creates a slot that it does not know. Neither
 * applies after pp_coordinator_ops.first(), which says that no request was sent before this data
 * set.
 *
 * Requests are asynchronous as req.h says, and fail as task_store.h says. Everything runs on the
 * loop thread. */
#ifndef PHOTOPOOL_PORT_COORDINATOR_H
#define PHOTOPOOL_PORT_COORDINATOR_H

#include "photopool/port/task_store.h"
#include "photopool/req.h"

struct pp_slot_mark { /* records that n requests were sent, the last one at `at_ms` (wall) */
    int64_t at_ms;
    uint32_t n;
};

struct pp_slot_want {
    const char *client;
    uint32_t rpm;         /* rate of the whole client; 0: unlimited */
    uint32_t concurrency; /* concurrency of the whole client */
    /* in: the number S of shares as the worker computed it, 0 means 1; out: the S in force */
    uint32_t shares;
    /* The coordinator sets the following fields. */
    bool granted;
    uint32_t share; /* the number k of the granted share, below S */
    /* if not granted: the holder's lease ends at this time, so the worker asks again then */
    int64_t retry_at_ms;
    bool empty; /* if not granted: true if the holder has reported that no task waits */
    /* the requests that earlier holders of the share sent, oldest first */
    const struct pp_slot_mark *marks;
    size_t n_marks;
    /* Permits that a crashed holder had reserved count as sent at spent_at_ms (<= now_ms). */
    uint32_t spent;
    int64_t spent_at_ms;
    /* Requests of a crashed holder may still be in flight. Until taken_until_ms they reduce the
     * concurrency by `taken`. */
    uint32_t taken;
    int64_t taken_until_ms;
    /* the holder sends no request before this wall time; 0: it may send at once */
    int64_t not_before_ms;
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
    /* the requests sent; NULL: unchanged since the last renewal that had them */
    const struct pp_slot_mark *marks;
    size_t n_marks;
    uint32_t reserved;     /* permits reserved: at most this many requests follow the last mark */
    uint32_t in_flight;    /* upper bound of the requests in flight until the next renewal */
    int64_t busy_until_ms; /* by this wall time all requests in flight will have ended */
    /* For each of PP_QUEUES queues, when its first task is due; INT64_MAX: the queue is empty.
     * NULL: unchanged. The coordinator uses it for the backlog index and for pp_slot_want.empty. */
    const int64_t *due_ms;
    /* The client's limits and the number of its shares. A data set that has lost the slot creates
     * it again from these values. */
    uint32_t rpm, concurrency, shares;
    uint64_t number; /* for the holder, which numbers its renewals; the coordinator ignores it */
    bool lost;       /* out: true if the lease had ended; the holder must send no more requests */
};

struct pp_coord_renew {
    struct pp_req req;
    const char *worker;
    int64_t lease_ms, now_ms;
    struct pp_slot_renewal *renewals;
    size_t n;
};

/* Renews slots for the last time and gives them up: the next worker that asks for such a slot gets
 * it at once. If tasks wait, the coordinator announces them. */
struct pp_coord_release {
    struct pp_req req;
    const char *worker;
    int64_t now_ms;
    struct pp_slot_renewal *renewals;
    size_t n;
};

/* Reads the backlog index, which announcements and the renewals of holders keep up to date. If the
 * index is not `complete` (the coordinator lost its data, or nobody has built the index yet), rows
 * may be missing. Then the caller reads the store's backlog, announces it, and asks again with
 * `rebuilt`. */
struct pp_coord_backlog {
    struct pp_req req;
    bool rebuilt;  /* in: true if the caller has announced the whole backlog and needs no rows */
    bool complete; /* out: true if the index has every queue with a waiting task */
    struct pp_backlog_row *rows; /* out: the queues with waiting tasks */
    size_t n;
};

/* Leader election: the first worker that asks holds `name` for lease_ms, and renews by asking
 * again. A request with lease_ms 0 releases the lease. */
struct pp_coord_elect {
    struct pp_req req;
    const char *name, *worker;
    int64_t lease_ms;
    bool leader; /* out: true if the caller holds the lease now */
};

/* Reads the secret of the installation, a text that all its processes share. It lives as long as
 * the coordinator's data set, or process. */
#define PP_COORD_SECRET_MAX 65
struct pp_coord_secret {
    struct pp_req req;
    /* in: a random text, which becomes the secret if there is none yet; out: the secret */
    char secret[PP_COORD_SECRET_MAX];
};

/* A worker whose last heartbeat is older than this counts as lost: operators see it so, and it
 * serves no tier any more. */
#define PP_WORKER_LOST_MS 15000

/* Lists the workers that were alive in the last minute. */
struct pp_coord_workers {
    struct pp_req req;
    int64_t now_ms;
    int64_t silent_ms;              /* only workers whose last heartbeat is at least this old; 0: all */
    struct pp_worker_info *workers; /* out, in the order of their ids */
    size_t n;
};

/* Asks a worker to drain, or all workers if `worker` is NULL. */
struct pp_coord_drain {
    struct pp_req req;
    const char *worker;
    bool found; /* out: false if there is no such worker */
};

/* Places: how many requests all workers together may have in flight to a host. A worker uses only
 * the places that it holds. The coordinator counts a place for a worker from the moment at which it
 * may grant it until the worker has told that it no longer uses it, or until the lease has passed.
 * So places never have two users, whichever call or answer is lost, and a call may be repeated.
 * Workers that want places of a host share them: each gets an equal part as soon as the others have
 * given back what exceeds theirs. If there are fewer places than workers, the workers take turns of
 * PP_PLACES_TERM_MS, in the order in which they began to wait. A worker that does not ask again
 * within PP_PLACES_ASKS_MS does not wait any more. */
struct pp_place_row {
    const char *host; /* at most 255 bytes */
    uint32_t want;    /* the worker wants to hold this many places of the host, in all */
    /* The worker has this many in use, or may begin to use them before it knows the answer. After a
     * loss of data, the coordinator believes it for one lease, and grants nothing more. want 0 and
     * keep 0 give back all. */
    uint32_t keep;
    /* out: the worker may use this many places, until one lease after its request. If it is lower
     * than `keep`, the worker stops to use the others, and tells so by its next request. */
    uint32_t got;
};

#define PP_PLACES_MAX 128 /* a request has at most this many rows */

struct pp_coord_places {
    struct pp_req req;
    const char *worker;
    int64_t lease_ms, now_ms;
    uint32_t limit; /* places of each host */
    struct pp_place_row *rows;
    size_t n;
};

struct pp_worker_info {
    const char *id;
    const char *host;
    int64_t pid;
    const char *tiers; /* "all", or the timeouts in seconds of the tiers that it serves: "1,5" */
    uint32_t capacity; /* the worker can have this many transfers in flight */
    /* its share of clients beside other workers of the same capacity (worker.weight); 0: as 1 */
    uint32_t weight;
    uint32_t in_flight;
    uint32_t clients; /* the worker holds this many slots */
    bool draining;
    int64_t started_at, seen_at;
};

/* Returns true if the worker counts as lost. */
static inline bool pp_worker_lost(const struct pp_worker_info *w, int64_t now_ms)
{
    return now_ms - w->seen_at >= PP_WORKER_LOST_MS;
}

/* A message from one process to all others. It arrives at most once, and in any order; receivers
 * must tolerate a lost one. The sender owns the strings; a receiver may use them during the
 * callback. */
enum pp_notice_kind {
    /* a: a client whose settings changed; "": notices were lost, so any client may have changed.
     * The sender may die before it sends the notice, so workers don't rely on it alone. */
    PP_NOTICE_CLIENT,
    /* a route was learned. a, b: client, domain; v: tier_ms, weight_sum, value_sum, samples,
     * updated_at */
    PP_NOTICE_ROUTE,
    /* transfer times. a, b: client, domain; v: count, sum_ms, over, done (core/route.h) */
    PP_NOTICE_SAMPLES,
    /* a: name of a webhook endpoint; the endpoint or its deliveries have changed */
    PP_NOTICE_WEBHOOK,
    PP_NOTICE_BATCH, /* a: id of a batch; some of its photos were settled */
    PP_NOTICE_HOST,  /* a: a host; v: answers of the host, a batch (core/host_stats.h) */
    /* a: a host; v: the leader's decision about the host's breaker; or, as b says, an operator's
     * order, or a task's wish to be a probe (pipeline/hosts) */
    PP_NOTICE_BREAKER,
    /* a: a host; v: how far its slow-down (core/slow_down.h) has grown, and how long it lasts, in
     * ms */
    PP_NOTICE_SLOW,
    PP_NOTICE_KINDS
};

#define PP_NOTICE_VALUES 14

struct pp_notice {
    enum pp_notice_kind kind;
    const char *a, *b;
    double v[PP_NOTICE_VALUES];
};

/* The asynchronous requests: X(name, type of the request). */
#define PP_COORD_OPS(X)          \
    X(acquire, pp_coord_acquire) \
    X(renew, pp_coord_renew)     \
    X(release, pp_coord_release) \
    X(backlog, pp_coord_backlog) \
    X(elect, pp_coord_elect)     \
    X(secret, pp_coord_secret)   \
    X(workers, pp_coord_workers) \
    X(drain, pp_coord_drain)     \
    X(places, pp_coord_places)

struct pp_coordinator;

/* Receives the queues that have due tasks; each is due no later than its row says. */
typedef void (*pp_backlog_cb)(void *data, const struct pp_backlog_row *rows, size_t n);

struct pp_coordinator_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_coordinator * c, struct type * r);
    PP_COORD_OPS(X)
#undef X
    /* Returns how many ms of its share's rate a holder reserves in advance. 0: renewals are cheap,
     * so each claim reserves its own requests. */
    int64_t (*reserve_ahead_ms)(struct pp_coordinator *c);
    /* Tells the workers near these clients, and the holders of their slots, when these queues have
     * due tasks. If at most PP_NEAR workers are on the ring, all processes hear it. Copies the
     * rows. */
    void (*announce)(struct pp_coordinator *c, const struct pp_backlog_row *rows, size_t n);
    /* Calls the watcher for each announcement. A process has at most one watcher. */
    void (*watch)(struct pp_coordinator *c, pp_backlog_cb cb, void *data);
    /* Sends notices to the other processes that watch notices of this kind. Copies the notices. */
    void (*notify)(struct pp_coordinator *c, const struct pp_notice *notices, size_t n);
    /* Calls the watcher for each notice of another process whose kind is in `kinds` (bit k: kind k;
     * not 0). A process watches once, after it has opened its port. */
    void (*watch_notices)(struct pp_coordinator *c, uint32_t kinds,
                          void (*cb)(void *data, const struct pp_notice *notice), void *data);
    /* Makes all workers send no request to `host` before `until_ms` (wall). A call never shortens
     * the wait that an earlier call set. */
    void (*slow_host)(struct pp_coordinator *c, const char *host, int64_t until_ms, int64_t now_ms);
    /* Returns the wall time until which no request may go to `host`, from memory; 0: the host is
     * not slow. */
    int64_t (*host_slow_until)(struct pp_coordinator *c, const char *host, int64_t now_ms);
    /* Reports that this worker is alive; the worker calls this about every second. Copies the
     * arguments. */
    void (*heartbeat)(struct pp_coordinator *c, const struct pp_worker_info *info);
    /* Returns the i-th neighbour on the ring of this process's worker, from memory: of each kind
     * the PP_NEAR_MAX workers before it and after it, or all if there are fewer; false past the
     * last. Workers of one kind are consecutive, in the order of their positions. Only id, tiers,
     * capacity, weight and started_at of `info` are set. It is valid until control returns to the
     * loop. */
    bool (*neighbour)(struct pp_coordinator *c, size_t i, struct pp_worker_info *info);
    /* Returns how many workers are on the ring, as of the last heartbeat. */
    uint32_t (*ring_size)(struct pp_coordinator *c);
    /* Calls the watcher when this process's worker must drain; `worker` is its id, or NULL if all
     * workers were asked to. */
    void (*watch_drain)(struct pp_coordinator *c, void (*cb)(void *data, const char *worker), void *data);
    /* Returns the name of the coordinator's data set, or "" while it is unknown (not connected).
     * Valid until control returns to the loop. */
    const char *(*dataset)(struct pp_coordinator *c);
    /* Tells the coordinator that `dataset` is the installation's first: no request was sent before
     * it. */
    void (*first)(struct pp_coordinator *c, const char *dataset);
    /* Returns the name and the number of the i-th kind of round trip, for metrics; false past the
     * last kind. */
    bool (*roundtrips)(struct pp_coordinator *c, size_t i, const char **name, uint64_t *n);
    void (*close)(struct pp_coordinator *c); /* the caller calls this after the last done() */
};

struct pp_coordinator {
    const struct pp_coordinator_ops *ops;
};

#endif
