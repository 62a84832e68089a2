/* claim.h: a worker's scheduler: it checks a client's limits before it claims the client's tasks.
 *
 * One cycle serves any number of clients. It finds the clients that hold a slot and have something
 * due (core/backlog.h); counts the transfers that may start now (permits, concurrency, room in the
 * tiers) and deals them fairly (core/fair.h); claims that many tasks in one store call; has the
 * coordinator record the permits and places of the tasks that it found, in one call; and gives each
 * task to a fetch loop. A cycle runs after a task became due, a permit became free or a transfer
 * ended. Only one cycle runs at a time.
 *
 * In a fleet a claim is a round trip, so the worker claims tasks a moment before their permits are
 * free, for many clients at once, and keeps the tasks in this process until then (transfers.c).
 *
 * Everything runs on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_CLAIM_CLAIM_H
#define PHOTOPOOL_PIPELINE_CLAIM_CLAIM_H

#include "base/log.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/dedupe.h"
#include "pipeline/common/gate.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "pipeline/fetch/fetch_loop.h"
#include "pipeline/hosts/hosts.h"
#include "runtime/loop.h"

/* The claimer pauses while at least this many transfers are not settled. */
#define PP_UNSETTLED_MAX 8192
#define PP_CLIENTS_MAX   200000

struct pp_claimer;
struct pp_sharing;

/* The options of a claimer. All fields except `log`, `gate` and `dedupe` are required. All that
 * they point to must outlive the claimer. */
struct pp_claimer_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params;
    struct pp_metrics *metrics;
    struct pp_task_store *store;
    struct pp_coordinator *coordinator;
    struct pp_fetch_factory factory; /* This factory opens the adapters of each fetch loop. */
    struct pp_lane *keep_lane;
    struct pp_blob_store *blobs;
    struct pp_gate *gate;     /* While it is closed, the claimer claims nothing. */
    struct pp_hosts *hosts;   /* Says whether a photo's host may be requested. */
    struct pp_dedupe *dedupe; /* NULL: each task fetches its URL itself. */
    /* The claimer calls this when a transfer has finished. The receiver must call
     * pp_claimer_settled() for the transfer, possibly before this callback returns. */
    void (*on_finished)(void *data, struct pp_transfer *t);
    /* The claimer calls this when its backlog had no room for a row. The receiver must read the
     * backlog from the store again. */
    void (*on_backlog_incomplete)(void *data);
    void *data;
};

/* Opens the fetch loops and watches the backlog. The claimer claims nothing before
 * pp_claimer_begin(). */
pp_must_check enum pp_err pp_claimer_open(const struct pp_claimer_options *options, struct pp_claimer **out);
void pp_claimer_begin(struct pp_claimer *claimer);
/* Frees the claimer after a drain, when nothing is in flight. `claimer` may be NULL. */
void pp_claimer_close(struct pp_claimer *claimer);

/* --- telling the claimer about changes --- */

/* Replaces a client's settings; the new settings apply at once. */
void pp_claimer_client_changed(struct pp_claimer *claimer, const struct pp_client *client);
/* Reads a client's settings again, because they may have changed. "" stands for all clients. */
void pp_claimer_client_stale(struct pp_claimer *claimer, const char *client);
/* Applies changed defaults of the parameters to every client that has no limits of its own. */
void pp_claimer_reloaded(struct pp_claimer *claimer);
/* Notes that tasks which this worker had claimed wait again. Notifies other workers only if this
 * worker does not hold the client's slot. */
void pp_claimer_requeue(struct pp_claimer *claimer, const struct pp_backlog_row *rows, size_t n);
/* Frees a finished transfer whose outcome settle has written. */
void pp_claimer_settled(struct pp_claimer *claimer, struct pp_transfer *t);
/* The gate has opened: starts a cycle. */
void pp_claimer_wake(struct pp_claimer *claimer);
/* Makes the fetch loops store the photos that wait for the blob store. */
void pp_claimer_retry(struct pp_claimer *claimer);
/* Renews slots and releases slots that this worker does not need. cron calls it once a second. */
void pp_claimer_tend_slots(struct pp_claimer *claimer);

/* --- draining: these functions are called in this order --- */

/* Makes the claimer claim no more tasks. */
void pp_claimer_drain(struct pp_claimer *claimer);
/* Ends the transfers in flight, and gives their tasks back to the store. */
void pp_claimer_hand_back(struct pp_claimer *claimer);
/* Releases all slots. Nothing may be in flight. The caller repeats the call until it returns true:
 * then no slot is held and no request is in flight. */
pp_must_check bool pp_claimer_release_slots(struct pp_claimer *claimer);

/* --- numbers for metrics and the API --- */

/* Returns the number of tasks claimed per second, averaged over the last seconds. */
double pp_claimer_rate(const struct pp_claimer *claimer);
/* These four functions return the numbers of: transfers that are not finished; transfers that are
 * not settled; transfers that are not settled plus requests to ports in flight; slots held. */
size_t pp_claimer_transfers(const struct pp_claimer *claimer);
size_t pp_claimer_unsettled(const struct pp_claimer *claimer);
size_t pp_claimer_in_flight(const struct pp_claimer *claimer);
size_t pp_claimer_slots(const struct pp_claimer *claimer);
/* Returns how many transfers a worker with these parameters runs at the same time. */
uint32_t pp_claim_capacity(const struct pp_params *params);
/* Returns where the claimer's tasks share outcomes (sharing.h); NULL: they do not share. */
struct pp_sharing *pp_claimer_share(const struct pp_claimer *claimer);
/* Returns the claimer's fetch loops, and their number in `*n`. */
struct pp_fetch_loop *const *pp_claimer_loops(const struct pp_claimer *claimer, size_t *n);

/* Why this worker starts nothing for a client. The reasons are in the order in which they are
 * checked, and the first that applies is reported. X(name, sentence). */
#define PP_CLAIM_REASONS(X)                                                               \
    X(DRAINING, "The worker is draining.")                                                \
    X(LOCAL_FAULT, "The worker waits for its blob store, descriptors or memory.")         \
    X(PAUSED, "The client is paused.")                                                    \
    X(SETTINGS_LOADING, "The client's settings are being read.")                          \
    X(SLOT_REFUSED, "Other workers hold the client's slots.")                             \
    X(SLOT_WANTED, "The worker will ask for a slot of the client.")                       \
    X(SLOT_ASKED, "The worker has asked for a slot of the client.")                       \
    X(SLOT_RELEASING, "The worker is letting the slot go.")                               \
    X(SLOT_LEAVING, "The slot moves to another worker when nothing is in flight.")        \
    X(LEASE_UNSURE, "The slot's lease could not be renewed yet.")                         \
    X(TAKEN, "Requests of a lost worker may still be in flight.")                         \
    X(CONCURRENCY, "As many transfers are in flight as the client's concurrency allows.") \
    X(PERMIT, "The client's rate is used up for now.")                                    \
    X(NOTHING_DUE, "Nothing of the client is due.")                                       \
    X(BLOCKED, "Its queues wait for the end of a transfer or of a request.")              \
    X(NONE, "Nothing keeps the client from being served.")

enum pp_claim_reason {
#define X(name, sentence) PP_CLAIM_##name,
    PP_CLAIM_REASONS(X)
#undef X
};
const char *pp_claim_reason_text(enum pp_claim_reason reason);

/* The state of a client at this worker, as the explain and workers endpoints show it.
 * pp_claimer_view() returns false if this worker does not know the client. */
struct pp_claimer_view {
    uint32_t rpm, concurrency, in_flight, permits, share, shares;
    /* The next permit is free at this time (monotonic). INT64_MAX: only after a transfer has
     * ended. */
    int64_t next_permit_ms;
    bool paused, held;
    enum pp_claim_reason reason;
};
bool pp_claimer_view(struct pp_claimer *claimer, const char *client, struct pp_claimer_view *view);

#endif
