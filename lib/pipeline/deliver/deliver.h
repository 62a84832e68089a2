/* deliver.h: delivers the results of finished items to consumers, with one relay per sink.
 *
 *   [outbox] -- relay "hub" -----> publisher --> [event log] --> hub.h, in every api process
 *            -- relay "amqp" ----> a broker
 *            -- relay per webhook: to_webhooks.c
 *            -- progress of batches: batch_events.c --> publisher
 *            -- statistics of days: statistics.c --> [delivery store]
 *
 * Each relay has its own cursor, schedule and leader, so a sink that is down does not delay the
 * other sinks. Any number of processes may have the role `deliver`. All functions run on the main
 * loop.
 *
 * To add a sink, write an adapter of port/result_sink.h, and add a row to sinks[] in
 * cmd/photopool/wire_ports.c and the parameters of the sink. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_DELIVER_H
#define PHOTOPOOL_PIPELINE_DELIVER_DELIVER_H

#include "base/text.h"
#include "events/publisher.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/result_sink.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/params.h"
#include "pipeline/common/progress.h"

/* The brokers that receive results; there are at most this many. */
#define PP_SINKS_MAX 4
struct pp_named_sink {
    const char *name; /* name of the broker, such as "amqp", for its cursor, election and metrics */
    struct pp_result_sink *sink;
    uint64_t returned; /* number of messages that the broker sent back */
};

struct pp_deliverer;
struct pp_poster;

/* Everything that the options point to must outlive the deliverer. */
struct pp_deliverer_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params;
    struct pp_metrics *metrics;
    struct pp_rng *rng;
    struct pp_task_store *store;
    struct pp_delivery_store *deliveries;
    struct pp_coordinator *coordinator;
    struct pp_publisher *publisher;
    struct pp_poster *poster;
    struct pp_progress *progress;
    struct pp_named_sink *sinks;
    size_t n_sinks;
};

/* Opens the deliverer. Returns NULL when out of memory. The deliverer is NULL in a process without
 * the role `deliver`; all functions below then do nothing. */
struct pp_deliverer *pp_deliverer_open(const struct pp_deliverer_options *options);
/* Reads the outbox soon, because items have finished. */
void pp_deliverer_wake(struct pp_deliverer *d);
/* Publishes an event about the batch soon, because some of its photos were settled in this process
 * or another. */
void pp_deliverer_batch_moved(struct pp_deliverer *d, const char *batch_id);
/* Reads the webhook endpoints and the due deliveries again, because somebody has changed them. */
void pp_deliverer_webhooks_changed(struct pp_deliverer *d);
/* Stops starting anything new. Messages that were already sent may still end, until
 * pp_deliverer_give_up(). */
void pp_deliverer_stop(struct pp_deliverer *d);
void pp_deliverer_give_up(struct pp_deliverer *d);
/* Returns the number of messages and requests that have not ended since pp_deliverer_stop(). While
 * it is above 0, no other process may lead. */
size_t pp_deliverer_busy(struct pp_deliverer *d);
void pp_deliverer_close(struct pp_deliverer *d);

/* --- sink_lag.c: measures how many messages each sink has not received yet, from its cursor, its
 * deliveries and the outbox, for operators, metrics and retention --- */

struct pp_outbox_row {
    const char *sink;
    /* Number of messages that are not delivered yet, including those to be retried, without dead
     * letters. */
    uint64_t messages;
    /* The item of the oldest of these messages finished at this time; 0: no message waits. */
    int64_t oldest_at;
};

/* A request to measure all sinks. It sends several requests to the task store and the delivery
 * store. */
struct pp_outbox_look {
    struct pp_req req;
    struct pp_task_store *store;
    struct pp_delivery_store *deliveries;
    /* The results, valid when the request has ended: */
    struct pp_outbox_row *rows;
    size_t n;
    /* Every sink, and every reader that has no row, has all results of items that finished before
     * this time. INT64_MAX: all results; INT64_MIN: none, because there is no sink yet. Retention
     * and DELETE /v1/items/... delete no others. */
    int64_t delivered_before_ms;
    /* Used only while the request is in flight: */
    struct pp_delivery_sinks sinks;
    struct pp_store_outbox_counts counts;
};

/* Starts the request. Returns PP_ENOTFOUND if this process has no delivery store. */
pp_must_check enum pp_err pp_outbox_look(struct pp_outbox_look *look);

#endif
