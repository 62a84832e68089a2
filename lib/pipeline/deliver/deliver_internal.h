/* deliver_internal.h: the parts that deliver.c opens and closes: two drivers, which send the
 * messages of relays; the events about batches; the statistics. The deliverer's options and the
 * elections outlive these parts. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_DELIVER_INTERNAL_H
#define PHOTOPOOL_PIPELINE_DELIVER_DELIVER_INTERNAL_H

#include "base/check.h"
#include "pipeline/deliver/deliver.h"
#include "pipeline/deliver/relay.h"
#include "runtime/ask.h"

/* --- to_sink.c: sends results to a result sink --- */
struct pp_to_sink;
struct pp_to_sink *pp_to_sink_open(const struct pp_deliverer_options *o, struct pp_named_sink *sink,
                                   const struct pp_election *election);
struct pp_relay *pp_to_sink_relay(struct pp_to_sink *s);
void pp_to_sink_close(struct pp_to_sink *s);

/* --- batch_events.c: publishes the progress and the end of batches as events --- */
struct pp_batch_events;
struct pp_batch_events *pp_batch_events_open(const struct pp_deliverer_options *o,
                                             const struct pp_election *election);
/* Notes that photos of the batch were settled, even if none of its items has finished. */
void pp_batch_events_moved(struct pp_batch_events *b, const char *batch_id);
void pp_batch_events_stop(struct pp_batch_events *b);
size_t pp_batch_events_busy(const struct pp_batch_events *b);
void pp_batch_events_close(struct pp_batch_events *b);

/* --- statistics.c: adds results up to the statistics of days --- */
struct pp_statistics;
struct pp_statistics *pp_statistics_open(const struct pp_deliverer_options *o,
                                         const struct pp_election *election);
void pp_statistics_stop(struct pp_statistics *s);
size_t pp_statistics_busy(const struct pp_statistics *s);
void pp_statistics_close(struct pp_statistics *s);

/* --- to_webhooks.c: posts results to webhook endpoints --- */
struct pp_to_webhooks;
struct pp_to_webhooks *pp_to_webhooks_open(const struct pp_deliverer_options *o,
                                           const struct pp_election *election);
void pp_to_webhooks_wake(struct pp_to_webhooks *w);
/* Makes the driver read the endpoints from the store again at the next tick. */
void pp_to_webhooks_look(struct pp_to_webhooks *w);
void pp_to_webhooks_stop(struct pp_to_webhooks *w);
void pp_to_webhooks_give_up(struct pp_to_webhooks *w);
size_t pp_to_webhooks_busy(const struct pp_to_webhooks *w);
void pp_to_webhooks_close(struct pp_to_webhooks *w);

#endif
