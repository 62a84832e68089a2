/* metrics.h: everything that /metrics shows, as one table of families. The main loop owns the numbers; what
 * other threads count arrives with their mail. To add a number: a row here, a line where it changes. */
#ifndef PHOTOPOOL_PIPELINE_METRICS_H
#define PHOTOPOOL_PIPELINE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/tier.h"
#include "photopool/code.h"
#include "photopool/task.h"

/* X(field, name without prefix, type, help) */
#define PP_METRIC_TABLE(X)                                                                               \
    X(fetch_bytes, "fetch_bytes_total", "counter", "Bytes of photo bodies received.")                    \
    X(claims, "claims_total", "counter", "Tasks claimed.")                                               \
    X(claim_conflicts, "claim_conflicts_total", "counter", "Tasks that another worker claimed first.")   \
    X(stale_settles, "stale_settles_total", "counter", "Outcomes dropped because the claim had lapsed.") \
    X(limit_waits, "limit_waits_total", "counter", "Times a client with due photos had no permit.")      \
    X(slots_held, "slots_held", "gauge", "Slots of clients that this worker holds.")                     \
    X(items_finished, "items_finished_total", "counter", "Items that reached a terminal state.")         \
    X(items_planned, "items_planned_total", "counter", "Items planned.")                                 \
    X(events, "events_total", "counter", "Events written to the hub.")                                   \
    X(subscribers, "subscribers", "gauge", "Open event subscriptions.")                                  \
    X(breakers_open, "breakers_open", "gauge", "Domains whose breaker is open.")                         \
    X(lapsed, "leases_lapsed_total", "counter", "Claims whose lease lapsed.")                            \
    X(quarantined, "quarantined_total", "counter", "Photos set aside because they kill workers.")        \
    X(ingest_length, "ingest_queue_length", "gauge", "Photos accepted and not yet planned.")             \
    X(ingest_age_ms, "ingest_queue_age_seconds", "gauge_ms", "Age of the oldest entry not yet planned.") \
    X(loop_lag_ms, "loop_lag_seconds", "gauge_ms", "How late the timers of a loop were, worst of 10 s.")

/* Upper bounds of fetch_seconds' buckets, in ms. */
#define PP_FETCH_BUCKETS                                         \
    {                                                            \
        50, 100, 250, 500, 1000, 2500, 5000, 10000, 20000, 30000 \
    }
#define PP_FETCH_BUCKET_COUNT 10

/* Outcomes are counted by code in these many cells: the enumerated codes, then 400..599. */
#define PP_METRIC_CODES (PP_CODE_COUNT + 200)

/* One sink's backlog, as it was last seen by the process that leads the cron. */
#define PP_METRIC_SINKS 64
struct pp_metric_sink {
    char name[80];
    uint64_t messages;
    int64_t oldest_at; /* wall; 0: none */
};

struct pp_metrics {
#define X(field, name, type, help) uint64_t field;
    PP_METRIC_TABLE(X)
#undef X
    uint64_t batches_accepted, batches_rejected, batches_replayed;
    uint64_t photos[PP_OUTCOME_COUNT][PP_TIERS_MAX + 1]; /* but failed ones */
    uint64_t failed[PP_METRIC_CODES][PP_TIERS_MAX + 1];
    uint64_t fetch_buckets[PP_TIERS_MAX][PP_FETCH_BUCKET_COUNT + 1];
    uint64_t fetch_ms_sum[PP_TIERS_MAX];
    uint64_t in_flight[PP_TIERS_MAX];
    uint64_t open_tasks[PP_TIERS_MAX + 1];
    struct pp_metric_sink sinks[PP_METRIC_SINKS]; /* those beyond are not shown */
    size_t n_sinks;
};

/* As a tier: answered without a transfer. */
#define PP_METRIC_NO_TIER PP_TIERS_MAX

/* One final outcome of a photo that was fetched (or failed to be) in `tier`, or PP_METRIC_NO_TIER. */
void pp_metrics_photo(struct pp_metrics *m, enum pp_outcome_kind outcome, uint16_t code, uint8_t tier);
/* One transfer, whatever came of it. */
void pp_metrics_transfer(struct pp_metrics *m, uint8_t tier, int64_t ms, uint64_t bytes);

/* Appends all families in the Prometheus text format (version 0.0.4). Tiers are labelled by their timeout in
 * seconds. */
void pp_metrics_write_sinks(const struct pp_metrics *m, int64_t wall_ms, struct pp_buf *out);
void pp_metrics_write(const struct pp_metrics *m, const struct pp_tier *tiers, uint32_t n_tiers,
                      struct pp_buf *out);
/* The same for what ports count: photopool_<name>{op="..."}. */
void pp_metrics_write_ops(struct pp_buf *out, const char *name, const char *help,
                          bool (*next)(void *port, size_t i, const char **op, uint64_t *n), void *port);

#endif
