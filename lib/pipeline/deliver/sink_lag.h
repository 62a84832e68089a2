/* sink_lag.h: measures the backlog of each sink from its cursor, its deliveries and the outbox, for
 * operators, metrics and retention. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_SINK_LAG_H
#define PHOTOPOOL_PIPELINE_DELIVER_SINK_LAG_H

#include "photopool/port/delivery_store.h"
#include "photopool/port/task_store.h"

struct pp_outbox_row {
    const char *sink;
    /* messages not delivered yet, with those to be retried, without dead letters */
    uint64_t messages;
    /* when the item of the oldest of these messages finished; 0: there is none */
    int64_t oldest_at;
};

/* A request (photopool/req.h) that itself sends several requests, to both stores. */
struct pp_outbox_look {
    struct pp_req req;
    struct pp_task_store *store;
    struct pp_delivery_store *deliveries;
    /* Results, valid when the request has ended: */
    struct pp_outbox_row *rows;
    size_t n;
    /* Used while the request is in flight: */
    struct pp_delivery_sinks sinks;
    struct pp_store_outbox_counts counts;
};

/* Starts the request. Returns PP_ENOTFOUND if this process has no delivery store. */
pp_must_check enum pp_err pp_outbox_look(struct pp_outbox_look *look);

#endif
