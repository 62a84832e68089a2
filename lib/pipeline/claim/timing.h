/* timing.h: all intervals of claiming, in milliseconds, and how they relate. core/slot.h has the
 * intervals of a slot's record: renewals, marks, fractions of a lease. */
#ifndef PHOTOPOOL_PIPELINE_CLAIM_TIMING_H
#define PHOTOPOOL_PIPELINE_CLAIM_TIMING_H

#include "core/slot.h"

enum {
    /* --- intervals of the claim cycle --- */
    /* a failure of the store, the coordinator or memory is retried after this delay */
    CLAIM_TRY_AGAIN_MS = 1000,
    /* Tasks are due, but only the end of a transfer can make room for them: the next cycle runs
     * after this delay. */
    CLAIM_RECHECK_MS = 250,
    /* The claim rate is a decaying average with this half-life. */
    CLAIM_RATE_HALF_MS = 1000,
    /* The batching delay is this long for each task per second of claim rate, and at most
     * CLAIM_WAIT_MAX_MS. */
    CLAIM_WAIT_PER_RATE_MS = 1,
    CLAIM_WAIT_MAX_MS = 250,
    /* --- claiming before permits are free (transfers.c): many clients share one claim --- */
    /* A client becomes due this long before its permit is free; that time is rounded down to a
     * multiple of CLAIM_AHEAD_GRID_MS. */
    CLAIM_AHEAD_LEAD_MS = 250,
    CLAIM_AHEAD_GRID_MS = 1000,
    /* --- intervals of clients' settings --- */
    /* In a fleet, the settings of the clients that a worker serves are read again this long after
     * the last read. */
    CLAIM_REREAD_MS = 30000,
    /* In a fleet, settings are stale this long after the last read. */
    CLAIM_SETTINGS_MS = 60000,
    /* --- intervals of slots --- */
    CLAIM_IDLE_MS = 10000, /* a slot without tasks is released after this time */
    /* The worker looks this often at the clients that other workers serve: frees idle ones. */
    CLAIM_TIDY_MS = 5000,
    /* After a resource of this worker has failed for this long, the worker leaves its slots and
     * tasks to other workers. */
    CLAIM_HAND_OVER_MS = 30000,
    /* After a refusal, a worker requests the slot again when the holder's lease ends, at a multiple
     * of this time, so that one request has the slots of many clients. */
    CLAIM_REFUSED_GRID_MS = 250,
    /* After a hint that a refused slot may be free, a worker waits for CLAIM_HINT_MS, plus
     * CLAIM_AFTER_YOU_MS for each worker with a higher rendezvous score. That additional wait is at
     * most CLAIM_AFTER_ALL_MS. */
    CLAIM_HINT_MS = 150,
    CLAIM_AFTER_YOU_MS = 150,
    CLAIM_AFTER_ALL_MS = 3000,
    /* --- placement: which worker should have which slot --- */
    /* A new worker counts as settled after this time. Only then do other workers release slots for
     * it. */
    CLAIM_SETTLED_MS = 3000,
    /* A queue that this worker does not serve counts as starved when its tasks have been overdue
     * for this many leases. */
    CLAIM_OVERDUE_LEASES = 2,
};

/* The batching delay must not be longer than CLAIM_AHEAD_LEAD_MS; otherwise a permit would be free
 * before its task is claimed. */
_Static_assert(CLAIM_WAIT_MAX_MS <= CLAIM_AHEAD_LEAD_MS, "a claim ahead comes after its permit");
_Static_assert(CLAIM_AHEAD_GRID_MS % CLAIM_AHEAD_LEAD_MS == 0, "the lead does not divide the grid");
_Static_assert(CLAIM_RECHECK_MS <= CLAIM_TRY_AGAIN_MS, "a full tier waits longer than a failed port");
_Static_assert(CLAIM_TRY_AGAIN_MS % CLAIM_REFUSED_GRID_MS == 0, "retries after failures leave the grid");
/* Settings are read again before they are stale, even if the first reads fail. */
_Static_assert(CLAIM_SETTINGS_MS - CLAIM_REREAD_MS >= 20 * CLAIM_TRY_AGAIN_MS + CLAIM_TIDY_MS,
               "settings are read too late");
/* A worker requests a slot only after the workers with a higher score have had their turn. */
_Static_assert(CLAIM_HINT_MS >= CLAIM_AFTER_YOU_MS, "a hint is followed before the first worker's turn");
_Static_assert(CLAIM_AFTER_ALL_MS % CLAIM_AFTER_YOU_MS == 0, "the cap cuts a turn");
_Static_assert(CLAIM_AFTER_ALL_MS <= CLAIM_SETTLED_MS, "slots move before the first worker's turn is over");
/* Heartbeats come once a second. A worker must not count as gone between two of them, nor before it
 * is settled. */
_Static_assert(PP_WORKER_GONE_MS > CLAIM_SETTLED_MS, "workers are gone before they are settled");
_Static_assert(CLAIM_IDLE_MS > PP_WORKER_GONE_MS, "idle slots are let go for workers that are gone");
_Static_assert(PP_SLOT_CORRECT_MS <= CLAIM_TRY_AGAIN_MS, "a record is wrong for longer than a failure lasts");

#endif
