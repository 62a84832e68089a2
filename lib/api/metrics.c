/* metrics.c: GET /metrics: shows the metrics of common/metrics.h, and the counters of ports, sinks
 * and the HTTP server. */
#include "api/handler.h"
#include "base/ledger.h"
#include "base/process.h"
#include "events/hub.h"
#include "pipeline/common/gate.h"
#include "pipeline/deliver/deliver.h"

#define ROUNDTRIPS(name, type)                                           \
    static bool name(void *port, size_t i, const char **op, uint64_t *n) \
    {                                                                    \
        struct type *p = port;                                           \
        return p->ops->roundtrips && p->ops->roundtrips(p, i, op, n);    \
    }
ROUNDTRIPS(store_roundtrips, pp_task_store)
ROUNDTRIPS(coordinator_roundtrips, pp_coordinator)
ROUNDTRIPS(dedupe_roundtrips, pp_dedupe)
ROUNDTRIPS(ingest_roundtrips, pp_ingest_queue)
ROUNDTRIPS(filter_roundtrips, pp_filter)
ROUNDTRIPS(counters_roundtrips, pp_counters)
ROUNDTRIPS(events_roundtrips, pp_event_log)
ROUNDTRIPS(delivery_roundtrips, pp_delivery_store)

static void put_roundtrips(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    const struct {
        const char *name, *help;
        bool (*next)(void *port, size_t i, const char **op, uint64_t *n);
        void *port;
    } rows[] = {
        {"store_roundtrips_total", "Round trips to the store.", store_roundtrips, o->store},
        {"coordinator_roundtrips_total", "Round trips to the coordinator.", coordinator_roundtrips,
         o->coordinator},
        {"dedupe_roundtrips_total", "Round trips to the dedupe port: who fetches a URL.", dedupe_roundtrips,
         o->dedupe},
        {"ingest_roundtrips_total", "Round trips to the ingest queue.", ingest_roundtrips, o->ingest},
        {"filter_roundtrips_total", "Round trips to the filter of known photos.", filter_roundtrips,
         o->filter},
        {"counters_roundtrips_total", "Round trips for counters.", counters_roundtrips, o->counters},
        {"events_roundtrips_total", "Round trips to the event log.", events_roundtrips, o->events},
        {"delivery_roundtrips_total", "Round trips to the delivery store.", delivery_roundtrips,
         o->deliveries},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (rows[i].port)
            pp_metrics_write_ops(&call->out, rows[i].name, rows[i].help, rows[i].next, rows[i].port);
}

static void put_sinks(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;

    pp_metrics_write_sinks(o->metrics, pp_loop_date(o->loop), &call->out);
    pp_buf_puts(&call->out,
                "# HELP photopool_sink_returned_total Results that a broker sent back: nobody receives "
                "them.\n# TYPE photopool_sink_returned_total counter\n");
    for (size_t i = 0; i < o->n_sinks; i++)
        pp_buf_printf(&call->out, "photopool_sink_returned_total{sink=\"%s\"} %llu\n", o->sinks[i].name,
                      (unsigned long long)o->sinks[i].returned);
}

static void put_server(struct pp_call *call)
{
    struct pp_http_server *server = *call->o->server;
    struct pp_http_stats stats;

    server->ops->stats(server, &stats);
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"http_connections", "gauge", "Open connections.", stats.connections},
        {"http_connections_total", "counter", "Connections accepted.", stats.accepted_total},
        {"http_refused_total", "counter", "Connections refused at a limit.", stats.refused_total},
        {"http_evicted_total", "counter", "Idle connections closed to make room.", stats.evicted_total},
        {"http_requests_total", "counter", "Requests read.", stats.requests_total},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        pp_buf_printf(&call->out, "# HELP photopool_%s %s\n# TYPE photopool_%s %s\nphotopool_%s %llu\n",
                      rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name,
                      (unsigned long long)rows[i].value);
}

static void put_family(struct pp_call *call, const char *name, const char *type, const char *help)
{
    pp_buf_printf(&call->out, "# HELP photopool_%s %s\n# TYPE photopool_%s %s\n", name, help, name, type);
}

/* Shows the ledger. A resource without a limit has no sample in resource_limit. */
static void put_ledger(struct pp_call *call)
{
    const struct pp_account *rows = call->o->ledger->rows;
    struct pp_buf *out = &call->out;

    put_family(call, "resource_limit", "gauge", "Ceiling of a resource in this process.");
    for (enum pp_resource r = 0; r < PP_RES_COUNT; r++)
        if (rows[r].limit != PP_NO_LIMIT)
            pp_buf_printf(out, "photopool_resource_limit{resource=\"%s\"} %llu\n", pp_resource_label(r),
                          (unsigned long long)rows[r].limit);
    put_family(call, "resource_used", "gauge", "Use of a resource in this process.");
    for (enum pp_resource r = 0; r < PP_RES_COUNT; r++)
        pp_buf_printf(out, "photopool_resource_used{resource=\"%s\"} %llu\n", pp_resource_label(r),
                      (unsigned long long)rows[r].used);
    put_family(call, "resource_refused_total", "counter", "Uses refused at the ceiling of a resource.");
    for (enum pp_resource r = 0; r < PP_RES_COUNT; r++)
        pp_buf_printf(out, "photopool_resource_refused_total{resource=\"%s\"} %llu\n", pp_resource_label(r),
                      (unsigned long long)rows[r].refused);
}

/* Shows the version. The value is always 1, so that a query can join it with others. */
static void put_build(struct pp_call *call)
{
    put_family(call, "build_info", "gauge", "The version of this program.");
    pp_buf_printf(&call->out, "photopool_build_info{version=\"%s\"} 1\n", PP_VERSION);
}

/* Shows the process under the names that all programs use for them. */
static void put_process(struct pp_call *call)
{
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"open_fds", "gauge", "Open file descriptors.", (double)pp_process_open_fds()},
        {"max_fds", "gauge", "Limit of open file descriptors.", (double)pp_process_max_fds()},
        {"resident_memory_bytes", "gauge", "Resident memory.", (double)pp_process_resident_bytes()},
        {"cpu_seconds_total", "counter", "CPU time of all threads.", pp_process_cpu_seconds()},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        pp_buf_printf(&call->out, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.15g\n",
                      rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name, rows[i].value);
}

void pp_api_metrics(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;

    o->metrics->subscribers = o->hub ? pp_hub_subscribers(o->hub) : 0;
    pp_metrics_write(o->metrics, o->params->tiers, o->params->n_tiers, &call->out);
    pp_metrics_write_lags(pp_loop_lags(o->loop), &call->out);
    put_roundtrips(call);
    put_sinks(call);
    put_server(call);
    pp_times_write(call->api, &call->out);
    put_build(call);
    put_ledger(call);
    put_process(call);
    if (o->gate)
        pp_gate_write_metrics(o->gate, &call->out);
    pp_call_body(call, 200, "text/plain; version=0.0.4; charset=utf-8");
}
