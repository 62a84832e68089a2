/* s7_internal.h: what the s7_*.c share. */
#ifndef PHOTOPOOL_PIPELINE_S7_INTERNAL_H
#define PHOTOPOOL_PIPELINE_S7_INTERNAL_H

#include "base/arena.h"
#include "pipeline/publisher.h"
#include "pipeline/relay.h"
#include "pipeline/s7_deliver.h"

/* --- waiting after failures: 1 s, doubling up to 10 s, a fifth more or less --- */

struct pp_backoff {
    int64_t ms, until_ms; /* loop time */
};

bool pp_backoff_waits(const struct pp_backoff *b, const struct pp_pipeline *p);
/* Once more it failed. */
void pp_backoff_failed(struct pp_backoff *b, struct pp_pipeline *p);
void pp_backoff_reset(struct pp_backoff *b);

/* --- s7_hub.c: results as events --- */
struct pp_s7_hub;
struct pp_s7_hub *pp_s7_hub_open(struct pp_pipeline *p, const struct pp_lease *lease);
struct pp_relay *pp_s7_hub_relay(struct pp_s7_hub *hub);
void pp_s7_hub_close(struct pp_s7_hub *hub);

/* --- s7_batches.c: progress and ends of batches as events --- */
struct pp_s7_batches;
struct pp_s7_batches *pp_s7_batches_open(struct pp_pipeline *p, const struct pp_lease *lease);
/* Some of its photos are settled, whether an item has finished or not. */
void pp_s7_batches_moved(struct pp_s7_batches *b, const char *batch_id);
void pp_s7_batches_stop(struct pp_s7_batches *b);
size_t pp_s7_batches_busy(const struct pp_s7_batches *b);
void pp_s7_batches_close(struct pp_s7_batches *b);

/* --- s7_broker.c: results to a broker --- */
struct pp_s7_broker;
struct pp_s7_broker *pp_s7_broker_open(struct pp_pipeline *p, struct pp_named_sink *sink,
                                       const struct pp_lease *lease);
struct pp_relay *pp_s7_broker_relay(struct pp_s7_broker *broker);
void pp_s7_broker_close(struct pp_s7_broker *broker);

/* --- s7_webhooks.c: results to endpoints --- */
struct pp_s7_webhooks;
struct pp_s7_webhooks *pp_s7_webhooks_open(struct pp_pipeline *p, const struct pp_lease *lease);
void pp_s7_webhooks_wake(struct pp_s7_webhooks *w);
/* Reads the endpoints anew, soon. */
void pp_s7_webhooks_look(struct pp_s7_webhooks *w);
void pp_s7_webhooks_stop(struct pp_s7_webhooks *w);
void pp_s7_webhooks_give_up(struct pp_s7_webhooks *w);
size_t pp_s7_webhooks_busy(const struct pp_s7_webhooks *w);
void pp_s7_webhooks_close(struct pp_s7_webhooks *w);

#endif
