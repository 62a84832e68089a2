/* pipeline.h: the whole flow of one process: what its stages share, and how they are opened, drained and
 * closed.
 *
 *   s1 accept -> [ingest queue] -> s2 plan -> [task store] -> s3 claim -> s4 fetch -> s5 keep -> s6 settle
 *   -> s7 deliver -> hub, brokers, webhooks                             fetch loops' threads
 *   beside the flow: api_*.c, cron.c, routes.c
 *
 * All but s4 and s5 runs on one main loop, which blocks nowhere: ports are asynchronous, fetch loops are
 * threads. A process opens only the stages of its roles. cmd/photopool/wire.c makes the adapters and owns
 * them. */
#ifndef PHOTOPOOL_PIPELINE_PIPELINE_H
#define PHOTOPOOL_PIPELINE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/text.h"
#include "photopool/port/blob_store.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/event_log.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/result_sink.h"
#include "photopool/port/task_store.h"
#include "pipeline/fetch_loop.h"
#include "pipeline/metrics.h"
#include "pipeline/params.h"
#include "runtime/loop.h"

#define PP_ROLE_API     1u
#define PP_ROLE_INGEST  2u
#define PP_ROLE_WORKER  4u
#define PP_ROLE_CRON    8u
#define PP_ROLE_DELIVER 16u

struct pp_s2;
struct pp_s3;
struct pp_s6;
struct pp_routes;
struct pp_progress;
struct pp_cron;
struct pp_fleet;
struct pp_publisher;
struct pp_hub;
struct pp_poster;
struct pp_s7;

/* A broker that results go to. */
#define PP_SINKS_MAX 4
struct pp_named_sink {
    const char *name; /* "amqp": of its cursor, lease and metrics */
    struct pp_result_sink *sink;
    uint64_t returned; /* messages that were sent back */
};

struct pp_pipeline {
    /* Given by wire.c, in place before pp_pipeline_open(). */
    unsigned roles;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_params *params;
    struct pp_task_store *store;
    struct pp_ingest_queue *ingest;
    struct pp_coordinator *coordinator;
    struct pp_blob_store *blobs;
    struct pp_event_log *events;              /* roles api, deliver, cron */
    struct pp_delivery_store *deliveries;     /* the same */
    struct pp_named_sink sinks[PP_SINKS_MAX]; /* role deliver */
    size_t n_sinks;
    struct pp_lane *keep_lane; /* worker role, and reading photos for the API */
    struct pp_fetch_factory factory;

    /* Made by pp_pipeline_open(). */
    struct pp_metrics metrics;
    struct pp_rng rng;
    struct pp_routes *routes;
    struct pp_progress *progress;
    struct pp_s2 *s2;
    struct pp_s3 *s3;
    struct pp_s6 *s6;
    struct pp_publisher *publisher; /* where there is an event log */
    struct pp_hub *hub;             /* role api */
    struct pp_poster *poster;       /* roles api, deliver */
    struct pp_s7 *s7;               /* role deliver */
    struct pp_cron *cron;
    struct pp_fleet *fleet;     /* NULL: this process is alone */
    struct pp_startup *startup; /* until the backlog has been read */
    bool draining, cron_stopped;
    bool backlog_doubtful;       /* the backlog may lack something that the store has: cron reads it again */
    void (*drained)(void *data); /* set by pp_pipeline_drain() */
    void *drained_data;
    struct pp_timer *drain_timer, *drain_deadline;
};

/* Opens the stages of the roles and starts them: claims of this data directory's earlier processes return to
 * waiting, the backlog and the routes are read, all asynchronously. On failure nothing is left open. */
pp_must_check enum pp_err pp_pipeline_open(struct pp_pipeline *p);

/* Stops planning and claiming, lets what is in flight finish or, after params->drain_ms, hands it back;
 * settles, releases the slots, then calls drained(data) once, on the loop. Calling it again hands back at
 * once. */
void pp_pipeline_drain(struct pp_pipeline *p, void (*drained)(void *data), void *data);

/* Values of *params have changed: takes over those that are not looked up at each use. */
void pp_pipeline_reloaded(struct pp_pipeline *p);

/* What the API and its callers use to the end: nothing new from here on. Is nothing of it under way any more?
 * After drained(), to be asked until it says yes. */
bool pp_pipeline_still(struct pp_pipeline *p);

/* Frees the stages; after drained(), and once it is still. */
void pp_pipeline_close(struct pp_pipeline *p);

/* --- ids, by which everything is found again --- */

/* The key of (client, URL); of a URL beyond PP_URL_MAX, which is never fetched, the first so many bytes. */
struct pp_key pp_photo_key(const char *client, const char *url, size_t url_n);
/* A new batch id: "b_", 9 digits of time, 12 of chance, base 32; ids sort by time. */
void pp_batch_id_new(char out[PP_BATCH_ID_MAX], int64_t wall_ms);
/* Does this look like one of ours? */
bool pp_batch_id_valid(const char *s);
/* The result id: a function of client, item and revision: "r_" and 26 of base 32. */
#define PP_RESULT_ID_MAX 32
void pp_result_id(char out[PP_RESULT_ID_MAX], const char *client, const char *item, uint32_t revision);
/* "sha256/ab/cd/abcd....jpg" */
void pp_object_name(char out[PP_OBJECT_NAME_MAX], const struct pp_object *object);

#endif
