/* s7_deliver.h: finished items on their way to consumers: one relay for each sink.
 *
 *   [outbox] -- relay "hub" ------> publisher --> [event log] --> hub.h, in every api process
 *            -- relay "amqp" -----> result sinks of port/result_sink.h (s7_broker.c)
 *            -- relay of a webhook: s7_webhooks.c
 *            -- batches that move: s7_batches.c --> publisher
 *
 * Each has its own cursor, schedule and lease, so that a sink that is down holds up no other, and any number
 * of processes may have the role. To add a sink: an adapter of port/result_sink.h, named in wire_ports.c. On
 * the main loop. */
#ifndef PHOTOPOOL_PIPELINE_S7_DELIVER_H
#define PHOTOPOOL_PIPELINE_S7_DELIVER_H

#include "pipeline/pipeline.h"

struct pp_s7;

struct pp_s7 *pp_s7_open(struct pp_pipeline *p);
/* Items have finished in this process: the outbox is looked at soon. NULL is fine. */
void pp_s7_wake(struct pp_s7 *s7);
/* Photos of a batch have been settled in this process: whoever leads tells of it within a second or so. */
void pp_s7_batch_moved(struct pp_pipeline *p, const char *batch_id);
/* The same, heard from another process. NULL is fine. */
void pp_s7_batch_heard(struct pp_s7 *s7, const char *batch_id);
/* Endpoints of webhooks, or deliveries, have been changed by somebody. NULL is fine. */
void pp_s7_webhooks_changed(struct pp_s7 *s7);
/* Nothing new is begun; what is out ends, or is given up at pp_s7_give_up(). */
void pp_s7_stop(struct pp_s7 *s7);
void pp_s7_give_up(struct pp_s7 *s7);
/* What has not ended, after pp_s7_stop(); at 0 others may lead. NULL: none. */
size_t pp_s7_busy(struct pp_s7 *s7);
void pp_s7_close(struct pp_s7 *s7);

#endif
