/* api.h: the HTTP API that API.md describes, as the handler that an HTTP server calls.
 *
 * Handlers run on the main loop and never block; a lane (bounded threads) reads photos. To add an
 * endpoint, add a row to endpoints.h, its function to the file of its resource, and its path to
 * openapi.json. */
#ifndef PHOTOPOOL_API_API_H
#define PHOTOPOOL_API_API_H

#include "base/log.h"
#include "photopool/port/blob_store.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/counters.h"
#include "photopool/port/dedupe.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/event_log.h"
#include "photopool/port/filter.h"
#include "photopool/port/http_server.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "runtime/loop.h"

/* At most this many tests of webhooks run at the same time in a process. Each has a connection to
 * an endpoint, for which the budget of descriptors has room (core/budget.h). */
#define PP_API_TESTS 4

struct pp_api;
struct pp_gate;
struct pp_claimer;
struct pp_deliverer;
struct pp_hosts;
struct pp_hub;
struct pp_ledger;
struct pp_named_sink;
struct pp_planner;
struct pp_poster;
struct pp_progress;
struct pp_publisher;
struct pp_routes;

/* The options of the API: the process's loop, log and parameters, its ports, and the stages that
 * the API shows or uses. All of them outlive the API. A process opens only the ports and stages of
 * its roles; the other pointers are NULL. */
struct pp_api_options {
    /* The PP_ROLE_* of the process. Without PP_ROLE_API it serves only rows with PP_EVERYWHERE. */
    unsigned roles;
    struct pp_loop *loop;
    struct pp_log *log;
    /* the pipeline's parameters; a reload of the configuration changes some of them */
    const struct pp_params *params;
    struct pp_metrics *metrics;
    struct pp_ledger *ledger; /* what is scarce in this process */
    /* the caller sets *server after it has opened the API, before the first request */
    struct pp_http_server **server;
    /* The ports. A process with the role api has all of them, but `events` and `deliveries` only if
     * results are delivered. */
    struct pp_task_store *store;
    struct pp_ingest_queue *ingest;
    struct pp_coordinator *coordinator;
    struct pp_filter *filter; /* NULL: this process has none */
    struct pp_dedupe *dedupe; /* may be NULL */
    struct pp_blob_store *blobs;
    struct pp_counters *counters;
    struct pp_event_log *events;
    struct pp_delivery_store *deliveries;
    const struct pp_named_sink *sinks; /* the brokers that receive results, an array of n_sinks */
    size_t n_sinks;
    /* The stages. A process with the role api has progress, routes and hosts and, if there is an
     * event log, publisher, hub and poster. */
    struct pp_progress *progress;
    struct pp_routes *routes;
    struct pp_hosts *hosts;
    struct pp_publisher *publisher;
    struct pp_hub *hub;
    struct pp_poster *poster;
    struct pp_gate *gate;           /* set with the role worker; else NULL */
    struct pp_claimer *claimer;     /* set with the role worker */
    struct pp_planner *planner;     /* set with the role ingest */
    struct pp_deliverer *deliverer; /* set with the role deliver */
    /* NULL: no configuration is shown. Returns the i-th parameter of the configuration in force as
     * a JSON object, without secrets; NULL past the last one, or when out of memory. The API frees
     * the text. */
    char *(*config_row)(void *data, size_t i);
    void *config_data;
};

/* Opens the API and copies the options. Returns NULL if out of memory or if a thread can't
 * start. */
struct pp_api *pp_api_open(const struct pp_api_options *options);
/* Returns how many bytes one replay takes from the ledger's row REPLAYS at most. */
uint64_t pp_api_replay_memory(const struct pp_params *params);
/* Returns the handler for the HTTP server; it lives as long as the API. */
const struct pp_http_handler *pp_api_handler(struct pp_api *api);
/* Returns true if no call, stream, long-poll or readiness probe is in flight and, while the process
 * drains, all views of photos are counted. A call whose body has not arrived is not in flight: its
 * connection may be closed. */
bool pp_api_idle(const struct pp_api *api);
/* Tells the API that the process drains: from now on /readyz answers 503, and connections close
 * after their answer. Requests are still answered. */
void pp_api_drain(struct pp_api *api);
/* Tells the API that a reload may have changed params->keys. The streams and long-polls whose key
 * is gone or differs get no more events, and end over the next turns of the loop. */
void pp_api_reloaded(struct pp_api *api);
/* Answers all waiting long-polls. Streams end with their connections. */
void pp_api_end(struct pp_api *api);
/* Frees the API. The caller may call it only when pp_api_idle() returns true, and before it closes
 * the ports. Blocks until the threads of the lane have ended. Does nothing if the API is NULL. */
void pp_api_close(struct pp_api *api);

#endif
