/* api_health.c: alive, ready, metrics, the documents built in.
 *
 * Readiness is what the last look at the ports said: asking costs nothing, and a port that does not answer
 * shows as well as one that fails. A look is taken every second; a server that others use as well is looked
 * at by the roles that need it, and every few seconds while all is well. The api role needs the ingest queue
 * alone: accepting goes on while the store is away. */
#include <stdio.h>
#include <string.h>

#include "pipeline/api_internal.h"
#include "pipeline/hub.h"

#define PROBE_MS      1000
#define PROBE_WELL_MS 5000
#define PROBE_SLOW_MS 3000

/* Built from openapi.json, asyncapi.json and dashboard.html by CMakeLists.txt. */
extern const unsigned char pp_openapi_json[], pp_asyncapi_json[], pp_dashboard_html[];
extern const size_t pp_openapi_json_n, pp_asyncapi_json_n, pp_dashboard_html_n;

/* The roles that need a port. */
enum {
    NEED_STORE = PP_ROLE_INGEST | PP_ROLE_WORKER | PP_ROLE_DELIVER | PP_ROLE_CRON,
    NEED_INGEST = PP_ROLE_API | PP_ROLE_INGEST
};

/* --- probes --- */

static void probed(struct pp_req *req, struct pp_probe *probe)
{
    probe->busy = false;
    probe->known = true;
    probe->err = req->err;
    pp_arena_fini(req->arena);
}

static void store_probed(struct pp_req *req)
{
    probed(req, &((struct pp_api *)req->data)->probe_store);
}

static void ingest_probed(struct pp_req *req)
{
    probed(req, &((struct pp_api *)req->data)->probe_ingest);
}

static void probe_begin(struct pp_api *api, struct pp_probe *probe, struct pp_req *req,
                        struct pp_arena *arena, void (*done)(struct pp_req *))
{
    *req = (struct pp_req){.done = done, .data = api, .arena = arena};
    pp_arena_init(arena, 1u << 20);
    probe->busy = true;
    probe->since_ms = pp_loop_now(api->p->loop);
}

static void probe_failed(struct pp_probe *probe, enum pp_err err)
{
    if (err == PP_OK)
        return;
    probe->busy = false;
    probe->known = true;
    probe->err = err;
}

/* Is it time for a look at a port that the roles of `mask` need? */
static bool probe_due(const struct pp_api *api, const struct pp_probe *probe, unsigned mask)
{
    const struct pp_pipeline *p = api->p;
    bool well = probe->known && probe->err == PP_OK && !p->params->sole_worker;
    return !probe->busy && (p->roles & mask) &&
           pp_loop_now(p->loop) - probe->since_ms >= (well ? PROBE_WELL_MS : 0);
}

static void probe(void *data)
{
    struct pp_api *api = data;
    struct pp_task_store *store = api->p->store;
    struct pp_ingest_queue *ingest = api->p->ingest;

    if (store && probe_due(api, &api->probe_store, NEED_STORE)) {
        api->probe_clients = (struct pp_store_clients){.limit = 1};
        probe_begin(api, &api->probe_store, &api->probe_clients.req, &api->probe_arena[0], store_probed);
        probe_failed(&api->probe_store, store->ops->clients(store, &api->probe_clients));
    }
    if (ingest && probe_due(api, &api->probe_ingest, NEED_INGEST)) {
        probe_begin(api, &api->probe_ingest, &api->probe_stats.req, &api->probe_arena[1], ingest_probed);
        probe_failed(&api->probe_ingest, ingest->ops->stats(ingest, &api->probe_stats));
    }
}

bool pp_api_probe_open(struct pp_api *api)
{
    api->probe_timer = pp_timer_open(api->p->loop, probe, api);
    if (!api->probe_timer)
        return false;
    pp_timer_start(api->probe_timer, 0, PROBE_MS);
    return true;
}

void pp_api_probe_close(struct pp_api *api)
{
    pp_timer_close(api->probe_timer);
    api->probe_timer = NULL;
}

/* NULL: fine; else the reason why not. */
static const char *probe_reason(const struct pp_api *api, const struct pp_probe *p, const char *name,
                                char buf[96])
{
    if (p->busy && pp_loop_now(api->p->loop) - p->since_ms > PROBE_SLOW_MS)
        snprintf(buf, 96, "%s does not answer", name);
    else if (!p->known)
        snprintf(buf, 96, "%s has not been asked yet", name);
    else if (p->err != PP_OK)
        snprintf(buf, 96, "%s: %s", name, pp_err_text(p->err));
    else
        return NULL;
    return buf;
}

/* --- /readyz --- */

static const struct {
    unsigned role;
    const char *name;
} roles[] = {
    {PP_ROLE_API, "api"},         {PP_ROLE_INGEST, "ingest"}, {PP_ROLE_WORKER, "worker"},
    {PP_ROLE_DELIVER, "deliver"}, {PP_ROLE_CRON, "cron"},
};

#define ROLES (sizeof(roles) / sizeof(*roles))

/* Why the role is not ready; NULL: it is. */
static const char *role_reason(const struct pp_api *api, size_t i, char buf[96])
{
    const char *reason = NULL;

    if (api->p->draining || api->draining)
        return "this server is being stopped";
    if ((roles[i].role & NEED_INGEST) && api->p->ingest)
        reason = probe_reason(api, &api->probe_ingest, "the ingest queue", buf);
    if (!reason && (roles[i].role & NEED_STORE) && api->p->store)
        reason = probe_reason(api, &api->probe_store, "the store", buf);
    return reason;
}

void pp_api_readyz(struct pp_call *call)
{
    struct pp_buf *b = &call->out;
    struct pp_ingest_queue *ingest = call->p->ingest;
    char buf[ROLES][96];
    const char *reasons[ROLES] = {NULL};
    bool ready = true;

    for (size_t i = 0; i < ROLES; i++) {
        if (call->p->roles & roles[i].role)
            reasons[i] = role_reason(call->api, i, buf[i]);
        ready = ready && !reasons[i];
    }
    pp_json_begin(b, NULL, '{');
    pp_json_bool(b, "ready", ready);
    pp_json_begin(b, "roles", '{');
    for (size_t i = 0; i < ROLES; i++) {
        if (!(call->p->roles & roles[i].role))
            continue;
        pp_json_begin(b, roles[i].name, '{');
        pp_json_bool(b, "ready", !reasons[i]);
        pp_json_str(b, "reason", reasons[i]);
        pp_json_end(b, '}');
    }
    pp_json_end(b, '}');
    pp_json_str(b, "durability", ingest ? ingest->ops->durability(ingest) : NULL);
    pp_json_end(b, '}');
    pp_call_json(call, ready ? 200 : 503);
}

void pp_api_healthz(struct pp_call *call)
{
    pp_json_begin(&call->out, NULL, '{');
    pp_json_str(&call->out, "status", "ok");
    pp_json_str(&call->out, "version", PP_VERSION);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

/* --- /metrics --- */

static bool store_roundtrips(void *port, size_t i, const char **op, uint64_t *n)
{
    struct pp_task_store *s = port;
    return s->ops->roundtrips && s->ops->roundtrips(s, i, op, n);
}

static bool coordinator_roundtrips(void *port, size_t i, const char **op, uint64_t *n)
{
    struct pp_coordinator *c = port;
    return c->ops->roundtrips && c->ops->roundtrips(c, i, op, n);
}

static bool ingest_roundtrips(void *port, size_t i, const char **op, uint64_t *n)
{
    struct pp_ingest_queue *q = port;
    return q->ops->roundtrips && q->ops->roundtrips(q, i, op, n);
}

static bool events_roundtrips(void *port, size_t i, const char **op, uint64_t *n)
{
    struct pp_event_log *l = port;
    return l->ops->roundtrips && l->ops->roundtrips(l, i, op, n);
}

static bool delivery_roundtrips(void *port, size_t i, const char **op, uint64_t *n)
{
    struct pp_delivery_store *d = port;
    return d->ops->roundtrips && d->ops->roundtrips(d, i, op, n);
}

static void write_delivery(struct pp_call *call)
{
    struct pp_pipeline *p = call->p;

    if (p->events)
        pp_metrics_write_ops(&call->out, "events_roundtrips_total", "Round trips to the event log.",
                             events_roundtrips, p->events);
    if (p->deliveries)
        pp_metrics_write_ops(&call->out, "delivery_roundtrips_total", "Round trips to the delivery store.",
                             delivery_roundtrips, p->deliveries);
    pp_metrics_write_sinks(&p->metrics, pp_loop_wall(p->loop), &call->out);
    pp_buf_puts(&call->out,
                "# HELP photopool_sink_returned_total Results that a broker sent back: nobody receives "
                "them.\n# TYPE photopool_sink_returned_total counter\n");
    for (size_t i = 0; i < p->n_sinks; i++)
        pp_buf_printf(&call->out, "photopool_sink_returned_total{sink=\"%s\"} %llu\n", p->sinks[i].name,
                      (unsigned long long)p->sinks[i].returned);
}

static void write_server(struct pp_call *call)
{
    struct pp_http_server *server = *call->api->server;
    struct pp_http_stats stats;
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } rows[] = {
        {"http_connections", "gauge", "Open connections.", offsetof(struct pp_http_stats, connections)},
        {"http_connections_total", "counter", "Connections accepted.",
         offsetof(struct pp_http_stats, accepted_total)},
        {"http_refused_total", "counter", "Connections refused at a limit.",
         offsetof(struct pp_http_stats, refused_total)},
        {"http_evicted_total", "counter", "Idle connections closed to make room.",
         offsetof(struct pp_http_stats, evicted_total)},
        {"http_requests_total", "counter", "Requests read.", offsetof(struct pp_http_stats, requests_total)},
    };

    server->ops->stats(server, &stats);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t v;
        memcpy(&v, (const char *)&stats + rows[i].offset, sizeof(v));
        pp_buf_printf(&call->out, "# HELP photopool_%s %s\n# TYPE photopool_%s %s\nphotopool_%s %llu\n",
                      rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name,
                      (unsigned long long)v);
    }
}

void pp_api_metrics(struct pp_call *call)
{
    struct pp_pipeline *p = call->p;

    p->metrics.subscribers = p->hub ? pp_hub_subscribers(p->hub) : 0;
    pp_metrics_write(&p->metrics, p->params->tiers, p->params->n_tiers, &call->out);
    if (p->store)
        pp_metrics_write_ops(&call->out, "store_roundtrips_total", "Round trips to the store.",
                             store_roundtrips, p->store);
    if (p->coordinator)
        pp_metrics_write_ops(&call->out, "coordinator_roundtrips_total", "Round trips to the coordinator.",
                             coordinator_roundtrips, p->coordinator);
    if (p->ingest)
        pp_metrics_write_ops(&call->out, "ingest_roundtrips_total", "Round trips to the ingest queue.",
                             ingest_roundtrips, p->ingest);
    write_delivery(call);
    write_server(call);
    pp_call_body(call, 200, "text/plain; version=0.0.4; charset=utf-8");
}

/* --- documents --- */

void pp_api_openapi(struct pp_call *call)
{
    pp_buf_put(&call->out, pp_openapi_json, pp_openapi_json_n);
    pp_call_json(call, 200);
}

void pp_api_asyncapi(struct pp_call *call)
{
    pp_buf_put(&call->out, pp_asyncapi_json, pp_asyncapi_json_n);
    pp_call_json(call, 200);
}

void pp_api_dashboard(struct pp_call *call)
{
    pp_call_header(call, "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
                         "style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
                         "form-action 'none'; frame-ancestors 'none'");
    pp_call_header(call, "Referrer-Policy: no-referrer");
    pp_buf_put(&call->out, pp_dashboard_html, pp_dashboard_html_n);
    pp_call_body(call, 200, "text/html; charset=utf-8");
}
