/* plan.h: turns accepted batches into items and tasks.
 *
 * The planner takes entries from the ingest queue and works through each entry in chunks. For a
 * chunk it looks up the records of the photos that the filter of known photos does not call absent,
 * decides what each photo needs (core/plan.h: known,
 * skip or fetch; a URL that may not be fetched fails here, without a request), chooses the tier of
 * each new task (routes), and writes the whole chunk in one request. After the last chunk it acks
 * the entry.
 *
 * Up to PLAN_JOBS entries are planned at the same time, so that a large one does not delay small
 * ones. Entries of the same client are planned one after the other, so that a later list supersedes
 * an earlier one. A chunk that is written again after a crash changes nothing. All functions run on
 * the main loop. */
#ifndef PHOTOPOOL_PIPELINE_PLAN_PLAN_H
#define PHOTOPOOL_PIPELINE_PLAN_PLAN_H

#include "base/log.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/filter.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "pipeline/common/progress.h"
#include "pipeline/routes/routes.h"
#include "runtime/loop.h"

struct pp_planner;

struct pp_planner_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params;
    struct pp_metrics *metrics;
    struct pp_task_store *store;
    struct pp_filter *filter; /* NULL: the store is asked for each photo */
    struct pp_ingest_queue *ingest;
    struct pp_coordinator *coordinator;
    struct pp_routes *routes;
    struct pp_hosts *hosts; /* says whether a new task must wait for its host */
    struct pp_progress *progress;
    void *data; /* private data of the caller, passed to the callbacks */
    void (*on_items_finished)(void *data);
    /* The planner calls this when a write failed, but the store may have done it. The store may
     * then have tasks that were not announced to the coordinator. */
    void (*on_backlog_doubtful)(void *data);
};

/* Opens the planner. Everything in the options must outlive it. Returns NULL when out of memory. */
struct pp_planner *pp_planner_open(const struct pp_planner_options *options);
/* Frees the planner, which must not be busy. `planner` may be NULL. */
void pp_planner_close(struct pp_planner *planner);
/* Takes entries from the queue, if there is a free job for them. */
void pp_planner_wake(struct pp_planner *planner);
/* Finishes the chunks in flight, and takes no more entries. */
void pp_planner_drain(struct pp_planner *planner);
/* Returns the error with which the latest step of a job has failed; PP_OK: the latest step has
 * succeeded, or nothing is left to plan. */
enum pp_err pp_planner_failure(const struct pp_planner *planner);
/* Returns the number of running jobs, plus the number of requests for entries in flight. */
size_t pp_planner_busy(const struct pp_planner *planner);

#endif
