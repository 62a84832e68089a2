/* settle.h: decides the outcome of each ended transfer, and writes the outcomes to the store in
 * bulk.
 *
 * The settler gathers ended transfers for a few ms. Then it decides for each one whether the
 * task is final, is retried in the next tier or later (core/retry.h), or is handed back, and
 * writes all decisions in one call to the store. After the call it announces the tasks that wait
 * to be claimed again, counts outcomes, and releases the transfers. One call is in flight at a
 * time. If a call fails, the settler writes its outcomes again, in smaller calls, so that one
 * bad outcome does not delay the others. The failed call may have written a settlement after
 * all; the store then reports the second write as stale, which does no harm. All functions run
 * on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_SETTLE_SETTLE_H
#define PHOTOPOOL_PIPELINE_SETTLE_SETTLE_H

#include "base/log.h"
#include "base/text.h"
#include "pipeline/claim/claim.h"
#include "pipeline/common/gate.h"
#include "pipeline/common/progress.h"
#include "pipeline/fetch/transfer.h"
#include "pipeline/routes/routes.h"

struct pp_settler;

struct pp_settler_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params;
    struct pp_metrics *metrics;
    struct pp_rng *rng;
    struct pp_task_store *store;
    struct pp_coordinator *coordinator;
    struct pp_routes *routes;
    struct pp_progress *progress;
    struct pp_hosts *hosts;     /* Learns from answers, and excuses failures of hosts that are down. */
    struct pp_gate *gate;       /* Hears of transfers that were handed back; may be NULL. */
    struct pp_claimer *claimer; /* The claimer owns the transfers, and claims tasks to be retried. */
    void *data;                 /* Passed to the callbacks. */
    void (*on_items_finished)(void *data);
    void (*on_batch_moved)(void *data, const char *batch_id);
};

/* Opens the settler. Everything in the options must outlive it. Returns NULL when out of memory. */
struct pp_settler *pp_settler_open(const struct pp_settler_options *options);
void pp_settler_close(struct pp_settler *settler);
/* Takes over an ended transfer. The settler calls pp_claimer_settled() for it exactly once, when
 * its outcome is written or dropped. */
void pp_settler_finished(struct pp_settler *settler, struct pp_transfer *t);
/* Tells the settler that the process drains: from now on tasks that are handed back are due at
 * once, for another worker. */
void pp_settler_drain(struct pp_settler *settler);
/* Tells the settler that the process must end: the next failed call drops all waiting outcomes.
 * Claims whose outcome was dropped end with their leases. */
void pp_settler_give_up(struct pp_settler *settler);

#endif
