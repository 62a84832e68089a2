/* metrics.c: counts, and writes all metrics in the Prometheus text format. */
#include "pipeline/common/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "format/result.h"

static const int64_t fetch_bounds[PP_FETCH_BUCKET_COUNT] = PP_FETCH_BUCKETS;

static const int64_t result_bounds[PP_HISTOGRAM_BOUNDS] = {1000,   5000,    15000,    60000,   300000,
                                                           900000, 3600000, 21600000, 86400000};
static const char *const rejected_codes[PP_REJECTED_CODE_COUNT] = PP_REJECTED_CODES;

static size_t code_cell(uint16_t code)
{
    if (code >= 400 && code <= 599)
        return PP_CODE_COUNT + (code - 400u);
    return code < PP_CODE_COUNT ? code : PP_CODE_INTERNAL;
}

static uint16_t cell_code(size_t cell)
{
    return (uint16_t)(cell < PP_CODE_COUNT ? cell : cell - PP_CODE_COUNT + 400);
}

void pp_metrics_photo(struct pp_metrics *m, enum pp_outcome_kind outcome, uint16_t code, uint8_t tier)
{
    pp_assert(tier <= PP_METRIC_NO_TIER, "a photo ended in a tier that does not exist");
    pp_assert(outcome < PP_OUTCOME_COUNT, "a photo ended with an unknown outcome");
    if (outcome == PP_OUTCOME_FAILED)
        m->failed[code_cell(code)][tier]++;
    else
        m->photos[outcome][tier]++;
}

void pp_metrics_transfer(struct pp_metrics *m, uint8_t tier, int64_t ms, uint64_t bytes)
{
    size_t i = 0;

    pp_assert(tier < PP_TIERS_MAX, "a transfer ran in a tier that does not exist");
    while (i < PP_FETCH_BUCKET_COUNT && ms > fetch_bounds[i])
        i++;
    m->fetch_buckets[tier][i]++;
    m->fetch_ms_sum[tier] += (uint64_t)ms;
    m->fetch_bytes += bytes;
}

void pp_metrics_handed_back(struct pp_metrics *m, enum pp_back why, uint64_t bytes)
{
    pp_assert(why > PP_BACK_NOT && why < PP_BACK_REASONS, "a transfer was handed back without a reason");
    m->handed_back[why]++;
    m->fetch_thrown_away += bytes;
}

void pp_metrics_loop_lag(struct pp_metrics *m, size_t loop, int64_t ms)
{
    pp_assert(ms >= 0, "a timer was early");
    if (loop >= PP_METRIC_LOOPS)
        return;
    m->loop_lag_ms[loop] = (uint64_t)ms;
    if (m->n_loops <= loop)
        m->n_loops = loop + 1;
}

void pp_histogram_add(struct pp_histogram *h, const int64_t bounds[PP_HISTOGRAM_BOUNDS], int64_t ms)
{
    size_t i = 0;

    ms = ms > 0 ? ms : 0; /* the date may have stepped back */
    while (i < PP_HISTOGRAM_BOUNDS && ms > bounds[i])
        i++;
    h->buckets[i]++;
    h->sum_ms += (uint64_t)ms;
}

void pp_histogram_write(const struct pp_histogram *h, const int64_t bounds[PP_HISTOGRAM_BOUNDS],
                        const char *name, const char *labels, struct pp_buf *out)
{
    size_t n = strlen(labels);
    int bare = n > 0 ? (int)n - 1 : 0; /* the labels without their last comma */
    const char *open = n > 0 ? "{" : "", *end = n > 0 ? "}" : "";
    uint64_t sum = 0;

    for (size_t i = 0; i < PP_HISTOGRAM_BOUNDS; i++) {
        sum += h->buckets[i];
        pp_buf_printf(out, "photopool_%s_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, labels,
                      (double)bounds[i] / 1000.0, sum);
    }
    sum += h->buckets[PP_HISTOGRAM_BOUNDS];
    pp_buf_printf(out, "photopool_%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, sum);
    pp_buf_printf(out, "photopool_%s_sum%s%.*s%s %.3f\n", name, open, bare, labels, end,
                  (double)h->sum_ms / 1000.0);
    pp_buf_printf(out, "photopool_%s_count%s%.*s%s %" PRIu64 "\n", name, open, bare, labels, end, sum);
}

void pp_metrics_result(struct pp_metrics *m, int64_t ms)
{
    pp_histogram_add(&m->accept_to_result, result_bounds, ms);
}

size_t pp_metrics_rejected_code(const char *code)
{
    size_t i = 0;

    while (i + 1 < PP_REJECTED_CODE_COUNT && strcmp(rejected_codes[i], code) != 0)
        i++;
    return i;
}

static void family(struct pp_buf *out, const char *name, const char *type, const char *help)
{
    pp_buf_printf(out, "# HELP photopool_%s %s\n# TYPE photopool_%s %s\n", name, help, name, type);
}

static double tier_seconds(const struct pp_tier *tiers, uint32_t i)
{
    return (double)tiers[i].timeout_ms / 1000.0;
}

static void write_row(const struct pp_metrics *m, const char *name, enum pp_metric_type type,
                      const char *help, uint64_t value, struct pp_buf *out)
{
    if ((type == PP_LEADER_GAUGE || type == PP_LEADER_GAUGE_MS) && !m->leads)
        return;
    family(out, name, type == PP_COUNTER ? "counter" : "gauge", help);
    if (type == PP_LEADER_GAUGE_MS)
        pp_buf_printf(out, "photopool_%s %.3f\n", name, (double)value / 1000.0);
    else
        pp_buf_printf(out, "photopool_%s %" PRIu64 "\n", name, value);
}

static void write_loops(const struct pp_metrics *m, struct pp_buf *out)
{
    char loop[32] = "main";

    family(out, "loop_lag_seconds", "gauge", "How late the timers of a loop were, worst of 10 s.");
    for (size_t i = 0; i < m->n_loops; i++) {
        if (i > 0)
            snprintf(loop, sizeof(loop), "fetch-%zu", i);
        pp_buf_printf(out, "photopool_loop_lag_seconds{loop=\"%s\"} %.3f\n", loop,
                      (double)m->loop_lag_ms[i] / 1000.0);
    }
}

static void write_photos_of_tier(const struct pp_metrics *m, size_t t, const char *tier, struct pp_buf *out)
{
    char code[PP_CODE_NAME_MAX];

    for (int o = PP_OUTCOME_STORED; o < PP_OUTCOME_COUNT; o++)
        if (m->photos[o][t] > 0)
            pp_buf_printf(out, "photopool_photos_total{outcome=\"%s\",code=\"\",tier=\"%s\"} %" PRIu64 "\n",
                          pp_outcome_name(o), tier, m->photos[o][t]);
    for (size_t c = 0; c < PP_METRIC_CODES; c++)
        if (m->failed[c][t] > 0)
            pp_buf_printf(out,
                          "photopool_photos_total{outcome=\"failed\",code=\"%s\",tier=\"%s\"} %" PRIu64 "\n",
                          pp_code_name(cell_code(c), code), tier, m->failed[c][t]);
}

static void write_photos(const struct pp_metrics *m, const struct pp_tier *tiers, uint32_t n,
                         struct pp_buf *out)
{
    char tier[32];

    family(out, "photos_total", "counter",
           "Photos that reached a final outcome, by the tier of the last transfer.");
    for (uint32_t t = 0; t < n; t++) {
        snprintf(tier, sizeof(tier), "%g", tier_seconds(tiers, t));
        write_photos_of_tier(m, t, tier, out);
    }
    write_photos_of_tier(m, PP_METRIC_NO_TIER, "none", out);
}

static void write_fetch_seconds(const struct pp_metrics *m, const struct pp_tier *tiers, uint32_t n,
                                struct pp_buf *out)
{
    family(out, "fetch_seconds", "histogram", "Duration of transfers.");
    for (uint32_t t = 0; t < n; t++) {
        uint64_t sum = 0;
        double tier = tier_seconds(tiers, t);
        for (size_t i = 0; i < PP_FETCH_BUCKET_COUNT; i++) {
            sum += m->fetch_buckets[t][i];
            pp_buf_printf(out, "photopool_fetch_seconds_bucket{tier=\"%g\",le=\"%g\"} %" PRIu64 "\n", tier,
                          (double)fetch_bounds[i] / 1000.0, sum);
        }
        sum += m->fetch_buckets[t][PP_FETCH_BUCKET_COUNT];
        pp_buf_printf(out, "photopool_fetch_seconds_bucket{tier=\"%g\",le=\"+Inf\"} %" PRIu64 "\n", tier,
                      sum);
        pp_buf_printf(out, "photopool_fetch_seconds_sum{tier=\"%g\"} %.3f\n", tier,
                      (double)m->fetch_ms_sum[t] / 1000.0);
        pp_buf_printf(out, "photopool_fetch_seconds_count{tier=\"%g\"} %" PRIu64 "\n", tier, sum);
    }
}

void pp_metrics_counter_flush(struct pp_metrics *m, int64_t ms)
{
    size_t i = 0;

    while (i < PP_FETCH_BUCKET_COUNT && ms > fetch_bounds[i])
        i++;
    m->flush_buckets[i]++;
    m->flush_ms_sum += (uint64_t)ms;
}

static void write_flush_seconds(const struct pp_metrics *m, struct pp_buf *out)
{
    uint64_t sum = 0;

    family(out, "counter_flush_seconds", "histogram", "Duration of flushes of counters to the store.");
    for (size_t i = 0; i < PP_FETCH_BUCKET_COUNT; i++) {
        sum += m->flush_buckets[i];
        pp_buf_printf(out, "photopool_counter_flush_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
                      (double)fetch_bounds[i] / 1000.0, sum);
    }
    sum += m->flush_buckets[PP_FETCH_BUCKET_COUNT];
    pp_buf_printf(out, "photopool_counter_flush_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
    pp_buf_printf(out, "photopool_counter_flush_seconds_sum %.3f\n", (double)m->flush_ms_sum / 1000.0);
    pp_buf_printf(out, "photopool_counter_flush_seconds_count %" PRIu64 "\n", sum);
}

void pp_metrics_write_lags(const struct pp_loop_lags *lags, struct pp_buf *out)
{
    static const int bounds[PP_LAG_BOUND_COUNT] = PP_LAG_BOUNDS;
    uint64_t sum = 0;

    family(out, "main_loop_lag_seconds", "histogram", "How late each timer of 100 ms of the main loop was.");
    for (size_t i = 0; i < PP_LAG_BOUND_COUNT; i++) {
        sum += lags->counts[i];
        pp_buf_printf(out, "photopool_main_loop_lag_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
                      bounds[i] / 1000.0, sum);
    }
    sum += lags->counts[PP_LAG_BOUND_COUNT];
    pp_buf_printf(out, "photopool_main_loop_lag_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
    pp_buf_printf(out, "photopool_main_loop_lag_seconds_sum %.3f\n", (double)lags->sum_ms / 1000.0);
    pp_buf_printf(out, "photopool_main_loop_lag_seconds_count %" PRIu64 "\n", sum);
}

static void write_by_tier(struct pp_buf *out, const char *name, const char *help, const uint64_t *values,
                          const struct pp_tier *tiers, uint32_t n)
{
    family(out, name, "gauge", help);
    for (uint32_t t = 0; t < n; t++)
        pp_buf_printf(out, "photopool_%s{tier=\"%g\"} %" PRIu64 "\n", name, tier_seconds(tiers, t),
                      values[t]);
}

static void write_handed_back(const struct pp_metrics *m, struct pp_buf *out)
{
    static const char *const labels[] = {
#define X(name, label) label,
        PP_BACK_TABLE(X)
#undef X
    };

    family(out, "handed_back_total", "counter", "Transfers ended on our side: no attempt, fetched again.");
    for (size_t i = PP_BACK_NOT + 1; i < PP_BACK_REASONS; i++)
        pp_buf_printf(out, "photopool_handed_back_total{reason=\"%s\"} %" PRIu64 "\n", labels[i],
                      m->handed_back[i]);
}

static void write_breakers(const struct pp_metrics *m, struct pp_buf *out)
{
    static const char *const states[] = {"closed", "open", "half_open"};

    if (!m->leads)
        return;
    family(out, "breakers", "gauge", "Photo hosts by the state of their breaker.");
    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++)
        pp_buf_printf(out, "photopool_breakers{state=\"%s\"} %" PRIu64 "\n", states[i], m->breakers[i]);
}

static void write_waiting(const struct pp_metrics *m, struct pp_buf *out)
{
    if (!m->leads)
        return;
    family(out, "waiting_photos", "gauge", "Open photos of the newest running batches, by reason.");
    for (int i = 0; i < PP_REASON_COUNT; i++)
        pp_buf_printf(out, "photopool_waiting_photos{reason=\"%s\"} %" PRIu64 "\n",
                      pp_reason_name((enum pp_reason)i), m->waiting_photos[i]);
}

static void write_filter(const struct pp_metrics *m, struct pp_buf *out)
{
    static const char *const labels[] = {
#define X(name, label) label,
        PP_FILTER_TABLE(X)
#undef X
    };

    family(out, "filter_lookups_total", "counter",
           "Photos asked for in the filter of known photos; absent: the store was not asked.");
    for (size_t i = 0; i < PP_FILTER_ANSWERS; i++)
        pp_buf_printf(out, "photopool_filter_lookups_total{answer=\"%s\"} %" PRIu64 "\n", labels[i],
                      m->filter_lookups[i]);
}

static void write_rejected(const struct pp_metrics *m, struct pp_buf *out)
{
    family(out, "items_rejected_total", "counter", "Items of batches that were rejected for their form.");
    for (size_t i = 0; i < PP_REJECTED_CODE_COUNT; i++)
        pp_buf_printf(out, "photopool_items_rejected_total{code=\"%s\"} %" PRIu64 "\n", rejected_codes[i],
                      m->items_rejected[i]);
}

static void write_webhooks(const struct pp_metrics *m, struct pp_buf *out)
{
    static const char *const outcomes[PP_WEBHOOK_TRIES] = {[PP_WEBHOOK_DELIVERED] = "delivered",
                                                           [PP_WEBHOOK_RETRY] = "retry",
                                                           [PP_WEBHOOK_DEAD] = "dead",
                                                           [PP_WEBHOOK_DISABLED] = "disabled"};

    family(out, "webhook_attempts_total", "counter", "Posts of messages to webhooks, by what followed.");
    for (size_t i = 0; i < PP_WEBHOOK_TRIES; i++)
        pp_buf_printf(out, "photopool_webhook_attempts_total{outcome=\"%s\"} %" PRIu64 "\n", outcomes[i],
                      m->webhook_tries[i]);
}

void pp_metrics_write(const struct pp_metrics *m, const struct pp_tier *tiers, uint32_t n_tiers,
                      struct pp_buf *out)
{
    family(out, "batches_total", "counter", "Batches posted.");
    pp_buf_printf(out,
                  "photopool_batches_total{outcome=\"accepted\"} %" PRIu64 "\n"
                  "photopool_batches_total{outcome=\"rejected\"} %" PRIu64 "\n"
                  "photopool_batches_total{outcome=\"replayed\"} %" PRIu64 "\n",
                  m->batches_accepted, m->batches_rejected, m->batches_replayed);
    write_rejected(m, out);
    write_photos(m, tiers, n_tiers, out);
    write_fetch_seconds(m, tiers, n_tiers, out);
    write_flush_seconds(m, out);
    write_by_tier(out, "in_flight", "Transfers in flight.", m->in_flight, tiers, n_tiers);
    if (m->leads)
        write_by_tier(out, "open_tasks", "Tasks that wait for a worker.", m->open_tasks, tiers, n_tiers);
#define X(field, name, type, help) write_row(m, name, type, help, m->field, out);
    PP_METRIC_TABLE(X)
#undef X
    family(out, "accept_to_result_seconds", "histogram",
           "Time from the acceptance of an item to its result.");
    pp_histogram_write(&m->accept_to_result, result_bounds, "accept_to_result_seconds", "", out);
    write_webhooks(m, out);
    write_breakers(m, out);
    write_waiting(m, out);
    write_handed_back(m, out);
    write_filter(m, out);
    write_loops(m, out);
}

void pp_metrics_write_sinks(const struct pp_metrics *m, int64_t wall_ms, struct pp_buf *out)
{
    if (!m->leads)
        return;
    family(out, "outbox_length", "gauge", "Results that a sink has not got yet.");
    for (size_t i = 0; i < m->n_sinks; i++)
        pp_buf_printf(out, "photopool_outbox_length{sink=\"%s\"} %" PRIu64 "\n", m->sinks[i].name,
                      m->sinks[i].messages);
    family(out, "outbox_age_seconds", "gauge", "Age of the oldest result that a sink has not got yet.");
    for (size_t i = 0; i < m->n_sinks; i++) {
        int64_t age = m->sinks[i].oldest_at > 0 ? wall_ms - m->sinks[i].oldest_at : 0;
        pp_buf_printf(out, "photopool_outbox_age_seconds{sink=\"%s\"} %.3f\n", m->sinks[i].name,
                      age > 0 ? (double)age / 1000.0 : 0.0);
    }
}

void pp_metrics_write_ops(struct pp_buf *out, const char *name, const char *help,
                          bool (*next)(void *port, size_t i, const char **op, uint64_t *n), void *port)
{
    const char *op;
    uint64_t n;
    family(out, name, "counter", help);
    for (size_t i = 0; next(port, i, &op, &n); i++)
        pp_buf_printf(out, "photopool_%s{op=\"%s\"} %" PRIu64 "\n", name, op, n);
}
