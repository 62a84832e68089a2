/* options.h: the options of the API: the loop, log and parameters of the process, its ports, and
 * the stages that the API shows or uses. Ports and stages outlive the API. A process opens only the
 * ports and stages of its roles; the other pointers are NULL. */
#ifndef PHOTOPOOL_API_OPTIONS_H
#define PHOTOPOOL_API_OPTIONS_H

#include "base/log.h"
#include "photopool/port/blob_store.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/event_log.h"
#include "photopool/port/http_server.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "runtime/loop.h"

struct pp_claimer;
struct pp_deliverer;
struct pp_hub;
struct pp_named_sink;
struct pp_poster;
struct pp_progress;
struct pp_publisher;
struct pp_routes;

struct pp_api_options {
    /* PP_ROLE_*; without PP_ROLE_API only the endpoints with PP_EVERYWHERE are served */
    unsigned roles;
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params; /* some values change when the configuration is reloaded */
    struct pp_metrics *metrics;
    struct pp_http_server **server; /* set after the API was opened, before the first request */
    /* Ports. With the role api all are set, but `events` and `deliveries` only if results are
     * delivered. */
    struct pp_task_store *store;
    struct pp_ingest_queue *ingest;
    struct pp_coordinator *coordinator;
    struct pp_blob_store *blobs;
    struct pp_event_log *events;
    struct pp_delivery_store *deliveries;
    const struct pp_named_sink *sinks; /* array of n_sinks sinks */
    size_t n_sinks;
    /* Stages. The role api has progress and routes, and if there is an event log, publisher, hub
     * and poster. */
    struct pp_progress *progress;
    struct pp_routes *routes;
    struct pp_publisher *publisher;
    struct pp_hub *hub;
    struct pp_poster *poster;
    struct pp_claimer *claimer;     /* role worker */
    struct pp_deliverer *deliverer; /* role deliver */
};

#endif
