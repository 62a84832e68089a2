/* metrics.h: all numbers that /metrics shows. They belong to the main loop; other threads send
 * their counts by mail. To add a number, add a row to the table and a line of code where the number
 * changes. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_METRICS_H
#define PHOTOPOOL_PIPELINE_COMMON_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/reason.h"
#include "core/tier.h"
#include "photopool/code.h"
#include "photopool/task.h"
#include "pipeline/common/filter_answer.h"
#include "pipeline/common/hand_back.h"
#include "runtime/loop.h"

enum pp_metric_type {
    PP_COUNTER,
    PP_GAUGE,
    PP_LEADER_GAUGE,   /* only the leader shows this gauge, so that a fleet shows it once */
    PP_LEADER_GAUGE_MS /* like PP_LEADER_GAUGE, for a value in ms that is shown in seconds */
};

/* The columns: X(field, name without prefix, type, help). */
#define PP_METRIC_TABLE(X)                                                                                \
    X(fetch_bytes, "fetch_bytes_total", PP_COUNTER, "Bytes of photo bodies received.")                    \
    X(fetch_thrown_away, "fetch_thrown_away_bytes_total", PP_COUNTER,                                     \
      "Bytes of photo bodies received and not kept, because of a failure on our side.")                   \
    X(claims, "claims_total", PP_COUNTER, "Tasks claimed.")                                               \
    X(claim_conflicts, "claim_conflicts_total", PP_COUNTER, "Tasks that another worker claimed first.")   \
    X(stale_settles, "stale_settles_total", PP_COUNTER, "Outcomes dropped because the claim had lapsed.") \
    X(limit_waits, "limit_waits_total", PP_COUNTER, "Times a client with due photos had no permit.")      \
    X(slots_held, "slots_held", PP_GAUGE, "Slots of clients that this worker holds.")                     \
    X(shared_photos, "shared_photos_total", PP_COUNTER,                                                   \
      "Photos that got the outcome of another task's fetch.")                                             \
    X(items_finished, "items_finished_total", PP_COUNTER, "Items that reached a terminal state.")         \
    X(items_planned, "items_planned_total", PP_COUNTER, "Items planned.")                                 \
    X(events, "events_total", PP_COUNTER, "Events written to the hub.")                                   \
    X(subscribers, "subscribers", PP_GAUGE, "Open event subscriptions.")                                  \
    X(auth_failures, "auth_failures_total", PP_COUNTER, "Requests without a valid key or ticket.")        \
    X(rate_limited, "rate_limited_total", PP_COUNTER, "Requests refused at a limit of their caller.")     \
    X(lapsed, "leases_lapsed_total", PP_COUNTER, "Claims whose lease lapsed.")                            \
    X(quarantined, "quarantined_total", PP_COUNTER, "Photos set aside because they kill workers.")        \
    X(clock_steps, "clock_steps_total", PP_COUNTER, "Steps of this machine's wall clock.")                \
    X(hosts_slowed, "hosts_slowed", PP_GAUGE, "Hosts that asked for patience, as this process knows.")    \
    X(ingest_set_aside, "ingest_set_aside", PP_LEADER_GAUGE, "Entries that could not be planned.")        \
    X(ingest_length, "ingest_queue_length", PP_LEADER_GAUGE, "Photos accepted and not yet planned.")      \
    X(ingest_age_ms, "ingest_queue_age_seconds", PP_LEADER_GAUGE_MS,                                      \
      "Age of the oldest entry not yet planned.")

/* Upper bounds of the buckets of the histogram fetch_seconds, in ms. */
#define PP_FETCH_BUCKETS                                         \
    {                                                            \
        50, 100, 250, 500, 1000, 2500, 5000, 10000, 20000, 30000 \
    }
#define PP_FETCH_BUCKET_COUNT 10

/* A histogram of durations. Each user has its own upper bounds in ms, ascending; durations above
 * the last one are in the last bucket. */
#define PP_HISTOGRAM_BOUNDS 9
struct pp_histogram {
    uint64_t buckets[PP_HISTOGRAM_BOUNDS + 1], sum_ms;
};

/* The codes with which an item of a batch is rejected (pipeline/accept/parse.c). */
#define PP_REJECTED_CODES                                                                            \
    {                                                                                                \
        "missing_field", "bad_type", "unknown_field", "bad_id", "duplicate_item", "too_many_photos", \
            "meta_too_large", "bad_json"                                                             \
    }
#define PP_REJECTED_CODE_COUNT 8

/* How a try to post to a webhook ended. */
enum pp_webhook_try {
    PP_WEBHOOK_DELIVERED,
    PP_WEBHOOK_RETRY,
    PP_WEBHOOK_DEAD,
    PP_WEBHOOK_DISABLED,
    PP_WEBHOOK_TRIES
};

/* Number of counters of failures: one for each code of the enum, then one for each HTTP status
 * 400..599. */
#define PP_METRIC_CODES (PP_CODE_COUNT + 200)

/* A process has at most this many loops: loop 0 is "main", loop i > 0 is "fetch-i". */
#define PP_METRIC_LOOPS 65

/* /metrics shows the backlogs of at most this many sinks. */
#define PP_METRIC_SINKS 64
struct pp_metric_sink {
    char name[80];
    uint64_t messages;
    /* the sink's oldest undelivered item finished at this wall time; 0: there is none */
    int64_t oldest_at;
};

struct pp_metrics {
#define X(field, name, type, help) uint64_t field;
    PP_METRIC_TABLE(X)
#undef X
    /* number of hosts by enum pp_breaker_state (core/breaker.h); only the leader shows it */
    uint64_t breakers[3];
    bool leads; /* true: this process leads the cron, and shows the leader's gauges */
    uint64_t items_rejected[PP_REJECTED_CODE_COUNT];
    uint64_t webhook_tries[PP_WEBHOOK_TRIES];
    struct pp_histogram accept_to_result; /* of the items whose end the leader of delivery has seen */
    uint64_t batches_accepted, batches_rejected, batches_replayed;
    /* Number of photos with each outcome, by tier. FAILED photos are counted in `failed`
     * instead. */
    uint64_t photos[PP_OUTCOME_COUNT][PP_TIERS_MAX + 1];
    uint64_t failed[PP_METRIC_CODES][PP_TIERS_MAX + 1];
    uint64_t fetch_buckets[PP_TIERS_MAX][PP_FETCH_BUCKET_COUNT + 1];
    uint64_t fetch_ms_sum[PP_TIERS_MAX];
    uint64_t in_flight[PP_TIERS_MAX];
    /* How long flushes of counters took; the bounds are those of fetch_seconds. */
    uint64_t flush_buckets[PP_FETCH_BUCKET_COUNT + 1];
    uint64_t flush_ms_sum;
    uint64_t handed_back[PP_BACK_REASONS];
    uint64_t filter_lookups[PP_FILTER_ANSWERS];
    /* number of open tasks by tier; only the leader shows it */
    uint64_t open_tasks[PP_TIERS_MAX + 1];
    /* number of open photos by the reason why they are open; only the leader shows it */
    uint64_t waiting_photos[PP_REASON_COUNT];
    uint64_t loop_lag_ms[PP_METRIC_LOOPS];
    size_t n_loops; /* number of loops whose timer lag is known */
    /* the backlogs of the sinks, as the leader last read them */
    struct pp_metric_sink sinks[PP_METRIC_SINKS];
    size_t n_sinks;
};

/* Stands for the tier of a photo that was answered without a transfer. */
#define PP_METRIC_NO_TIER PP_TIERS_MAX

/* Counts a photo's final outcome. `tier` is the tier of the photo's last transfer, or
 * PP_METRIC_NO_TIER. */
void pp_metrics_photo(struct pp_metrics *m, enum pp_outcome_kind outcome, uint16_t code, uint8_t tier);
/* Counts a transfer that has ended, with or without success. */
void pp_metrics_transfer(struct pp_metrics *m, uint8_t tier, int64_t ms, uint64_t bytes);

/* Counts a flush of counters that has ended, and took `ms`. */
void pp_metrics_counter_flush(struct pp_metrics *m, int64_t ms);

/* Counts a transfer that was handed back after it had received this many bytes. */
void pp_metrics_handed_back(struct pp_metrics *m, enum pp_back why, uint64_t bytes);

/* Adds a duration to a histogram with these bounds. */
void pp_histogram_add(struct pp_histogram *h, const int64_t bounds[PP_HISTOGRAM_BOUNDS], int64_t ms);
/* Appends the samples of a histogram: photopool_NAME_bucket, _sum and _count. `labels` are written
 * into each sample, as in `route="/",`; "" for none. */
void pp_histogram_write(const struct pp_histogram *h, const int64_t bounds[PP_HISTOGRAM_BOUNDS],
                        const char *name, const char *labels, struct pp_buf *out);
/* Counts the time from the acceptance of an item to its result. */
void pp_metrics_result(struct pp_metrics *m, int64_t ms);
/* Returns the number of a code of rejected items; an unknown code counts as the last one. */
size_t pp_metrics_rejected_code(const char *code);

/* Records the largest delay of a loop's timers in the last 10 s. Ignores loops with an index of
 * PP_METRIC_LOOPS or more. */
void pp_metrics_loop_lag(struct pp_metrics *m, size_t loop, int64_t ms);

/* Appends all metric families in the Prometheus text format (version 0.0.4). Tiers are labelled
 * with their timeout in seconds. */
void pp_metrics_write(const struct pp_metrics *m, const struct pp_tier *tiers, uint32_t n_tiers,
                      struct pp_buf *out);
/* Appends how late the timers of the main loop were, as a histogram. */
void pp_metrics_write_lags(const struct pp_loop_lags *lags, struct pp_buf *out);
void pp_metrics_write_sinks(const struct pp_metrics *m, int64_t wall_ms, struct pp_buf *out);
/* Appends how many requests of each kind a port has made: photopool_<name>{op="..."}. */
void pp_metrics_write_ops(struct pp_buf *out, const char *name, const char *help,
                          bool (*next)(void *port, size_t i, const char **op, uint64_t *n), void *port);

#endif
