/* pipeline.h: the whole flow of one process: its ports and stages, and how they are opened, drained
 * and closed. Only the wiring includes this file; a stage sees only its own options.
 *
 *   accept -> [ingest queue] -> plan -> [task store] -> claim -> fetch -> keep -> settle
 *   -> deliver -> hub, brokers, webhooks                             fetch loops' threads
 *   beside the flow: lib/api, cron.c, routes.c
 *
 * All stages except fetch and keep run on one main loop, which never blocks: ports are
 * asynchronous, and each fetch loop has a thread. A process opens only the stages of its roles.
 * cmd/photopool/wire.c makes the adapters and owns them. */
#ifndef PHOTOPOOL_PIPELINE_PIPELINE_H
#define PHOTOPOOL_PIPELINE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/text.h"
#include "core/wall.h"
#include "photopool/port/blob_store.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/counter_cache.h"
#include "photopool/port/counter_store.h"
#include "photopool/port/counters.h"
#include "photopool/port/dedupe.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/event_log.h"
#include "photopool/port/filter.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/gate.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "pipeline/deliver/deliver.h"
#include "pipeline/fetch/fetch_loop.h"
#include "runtime/loop.h"

struct pp_ledger;
struct pp_planner;
struct pp_known_builder;
struct pp_claimer;
struct pp_settler;
struct pp_routes;
struct pp_hosts;
struct pp_progress;
struct pp_cron;
struct pp_fleet;
struct pp_publisher;
struct pp_hub;
struct pp_poster;
struct pp_deliverer;
struct pp_orphans;
struct pp_fleet_counters;

struct pp_pipeline {
    /* The wiring (wire.c) sets these members before it calls pp_pipeline_open(): */
    unsigned roles;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_params *params;
    struct pp_ledger *ledger;
    struct pp_task_store *store;
    struct pp_ingest_queue *ingest;
    struct pp_coordinator *coordinator;
    /* the filter of known photos, with the roles ingest and cron if params has a size; else NULL */
    struct pp_filter *filter;
    struct pp_dedupe *dedupe; /* with the role worker; NULL: each task fetches its URL itself */
    struct pp_blob_store *blobs;
    /* With the roles api and cron: the counters of a process that is alone, or the cache and the
     * store of a fleet's counters; else NULL. */
    struct pp_counters *own_counters;
    struct pp_counter_cache *counter_cache;
    struct pp_counter_store *counter_store;
    struct pp_event_log *events; /* set with the roles api, deliver and cron; else NULL */
    /* keeps cursors, deliveries and endpoints; set if `events` is set */
    struct pp_delivery_store *deliveries;
    /* The brokers that receive results, with the role deliver; n_sinks of them are set. */
    struct pp_named_sink sinks[PP_SINKS_MAX];
    size_t n_sinks;
    /* The lane for hashing and storing, with the role worker; and with the role api, which reads
     * photos on it. */
    struct pp_lane *keep_lane;
    struct pp_fetch_factory factory;
    /* Compares the machine's clocks. The wiring resumes it from an earlier process, or initialises
     * it; the cron takes the samples. */
    struct pp_wall wall;

    /* pp_pipeline_open() sets these members: */
    struct pp_metrics metrics;
    struct pp_rng rng;
    struct pp_routes *routes;
    struct pp_hosts *hosts;
    struct pp_progress *progress;
    struct pp_planner *planner;
    struct pp_known_builder *known; /* set with the role cron if there is a filter; else NULL */
    struct pp_gate *gate;           /* set with the role worker; else NULL */
    struct pp_claimer *claimer;
    struct pp_settler *settler;
    struct pp_publisher *publisher; /* set if there is an event log; else NULL */
    struct pp_hub *hub;             /* set with the role api; else NULL */
    struct pp_poster *poster;       /* set with the roles api and deliver; else NULL */
    struct pp_deliverer *deliverer; /* set with the role deliver; else NULL */
    struct pp_cron *cron;
    struct pp_fleet *fleet;                   /* NULL if this process is alone */
    struct pp_fleet_counters *fleet_counters; /* set if there is a cache of counters; else NULL */
    struct pp_counters *counters;             /* own_counters, or those of the fleet; NULL: there are none */
    struct pp_orphans *orphans;               /* set while the search for orphans runs; else NULL */
    bool draining, cron_stopped;
    /* True if the coordinator may lack tasks. Cron or the fleet's leader then reads the backlog
     * from the store. */
    bool backlog_doubtful;
    void (*on_drained)(void *data); /* set by pp_pipeline_drain(); NULL after it was called */
    void *drained_data;
    struct pp_timer *drain_timer, *drain_deadline;
};

/* Opens and starts the stages of the process's roles. The stages read their data (claims of earlier
 * processes, backlog, routes) asynchronously. On failure, closes everything again. */
pp_must_check enum pp_err pp_pipeline_open(struct pp_pipeline *p);

/* Stops planning and claiming, and waits for the work in flight. After params->drain_ms, hands that
 * work back. When all outcomes are written and the slots released, calls on_drained(data) once, on
 * the loop. A second call hands the work back at once. */
void pp_pipeline_drain(struct pp_pipeline *p, void (*on_drained)(void *data), void *data);

/* Applies changed values of *params: stages that have copies of these values read them again. */
void pp_pipeline_reloaded(struct pp_pipeline *p);

/* Stops the hub and the webhook poster. Returns true if they have nothing in flight. After
 * on_drained(), the caller calls this again and again until it returns true. */
bool pp_pipeline_still(struct pp_pipeline *p);

/* Frees the stages. The caller may call it after on_drained(), and when pp_pipeline_still() has
 * returned true. */
void pp_pipeline_close(struct pp_pipeline *p);

#endif
