/* wire.c: opens the adapters, the pipeline and the API of one process, in the order of struct
 * pp_wire, and closes them in the reverse order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/cares/resolver.h"
#include "adapter/curl/fetcher.h"
#include "adapter/http/http_server.h"
#include "adapter/http/tls_context.h"
#include "api/api.h"
#include "base/clock.h"
#include "base/ledger.h"
#include "base/process.h"
#include "clock_file.h"
#include "data_dir.h"
#include "wire_parts.h"

#define SUBSCRIPTION_BYTES (128u << 20) /* memory for the keys of open subscriptions */
#define REPLAY_BYTES       (64u << 20)  /* memory for the replays that are being prepared, at least */
/* All bodies of requests together may have at least this much memory; more if http.max_body is
 * large. */
#define BODIES_MIN  ((uint64_t)256 << 20)
#define ANSWERS_MAX ((uint64_t)256 << 20) /* memory for all answers that callers have not read yet */
#define QUEUED_MAX  ((uint64_t)64 << 20)  /* memory for all events queued for slow readers of streams */

struct pp_wire {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_config *config;  /* the newest; reloadable parameters are in force from it */
    const struct pp_config *started; /* the one of the start; all other parameters are in force from it */
    struct pp_wire_params params;
    struct pp_ledger ledger;
    struct pp_budget budget;
    struct pp_data_dir data;
    struct pp_clock_file clock;
    char **pins; /* the lines of fetch.resolve, which fix addresses for hosts */
    struct pp_pipeline p;
    struct pp_api *api;
    struct pp_http_server *http;
    struct pp_timer *trim_timer;
    /* polls at the end of a drain until the API has answered all requests */
    struct pp_timer *api_timer;
    void (*drained)(void *data);
    void *drained_data;
    bool draining, pipeline_open, ended;
};

#define TRIM_MS 20000 /* between two returns of free memory to the system */

/* Photos' bytes are stored before their record, at most this long. */
#define ORPHAN_MARGIN_MS 600000

static void init_clock(struct pp_wall *wall)
{
    int64_t boot, date;
    pp_clock_read(&boot, &date);
    pp_wall_init(wall, pp_clock_anchor_ms(), boot, date);
}

static enum pp_err open_data(struct pp_wire *w, struct pp_wire_error *error)
{
    enum pp_err err = pp_data_dir_open(&w->data, w->loop, w->log, w->config->data_dir, error);
    if (w->data.crashed_ms > 0)
        w->params.params.orphans_since_ms = w->data.crashed_ms - ORPHAN_MARGIN_MS;
    if (err == PP_OK)
        err = pp_clock_file_open(&w->clock, w->loop, w->log, w->config->data_dir, &w->p.wall, error);
    return err;
}

/* --- opening the adapters --- */

/* A suspect runs alone, beside the transfers of its tier. */
enum { SUSPECTS = 1 };

/* Creates the fetcher of a fetch loop, on the thread of that loop. */
static enum pp_err open_fetch_adapters(void *data, struct pp_loop *loop, struct pp_fetcher **fetcher,
                                       struct pp_resolver **resolver)
{
    struct pp_wire *w = data;
    const struct pp_config *c = w->config;
    const struct pp_budget *b = &w->budget;
    bool webhooks = loop == w->loop; /* the main loop's fetcher sends the messages of webhooks */
    const struct pp_curl_options curl = {
        .ca_file = c->fetch.ca_file[0] ? c->fetch.ca_file : NULL,
        .user_agent = c->fetch.user_agent,
        .max_exchanges = webhooks ? b->posts + b->tests : b->transfers + SUSPECTS,
        .max_kept = webhooks ? b->posts + b->tests : pp_budget_kept_by_loop(b, w->params.params.threads),
        .ledger = &w->ledger};
    const struct pp_cares_options cares = {.pins = (const char *const *)w->pins,
                                           .timeout_ms = c->fetch.dns_timeout_ms,
                                           .ttl_max_ms = c->fetch.dns_ttl_max_ms,
                                           .max_entries = (size_t)c->fetch.dns_cache};
    enum pp_err err = pp_curl_fetcher_open(loop, &curl, fetcher);
    return err == PP_OK ? pp_cares_resolver_open(loop, &cares, resolver) : err;
}

char **pp_wire_make_pins(const struct pp_config *c)
{
    const struct pp_config_resolves *r = &c->fetch.resolve;
    char **pins = calloc(r->n + 1, sizeof(*pins));
    for (size_t i = 0; pins && i < r->n; i++) {
        const struct pp_config_resolve *pin = &r->item[i];
        bool v6 = strchr(pin->address, ':') != NULL;
        if (asprintf(&pins[i], v6 ? "%s:%u:[%s]" : "%s:%u:%s", pin->host, pin->port, pin->address) < 0) {
            pins[i] = NULL;
            pp_wire_free_pins(pins);
            return NULL;
        }
    }
    return pins;
}

void pp_wire_free_pins(char **pins)
{
    for (char **pin = pins; pin && *pin; pin++)
        free(*pin);
    free(pins);
}

static char *config_row(void *data, size_t i)
{
    const struct pp_wire *w = data;
    return pp_config_row(w->started, w->config, i);
}

static struct pp_api *open_api(struct pp_wire *w)
{
    struct pp_pipeline *p = &w->p;

    return pp_api_open(&(struct pp_api_options){.roles = p->roles,
                                                .loop = p->loop,
                                                .log = p->log,
                                                .params = p->params,
                                                .ledger = p->ledger,
                                                .metrics = &p->metrics,
                                                .server = &w->http,
                                                .store = p->store,
                                                .ingest = p->ingest,
                                                .coordinator = p->coordinator,
                                                .filter = p->filter,
                                                .dedupe = p->dedupe,
                                                .blobs = p->blobs,
                                                .counters = p->counters,
                                                .events = p->events,
                                                .deliveries = p->deliveries,
                                                .sinks = p->sinks,
                                                .n_sinks = p->n_sinks,
                                                .progress = p->progress,
                                                .hosts = p->hosts,
                                                .routes = p->routes,
                                                .publisher = p->publisher,
                                                .hub = p->hub,
                                                .poster = p->poster,
                                                .gate = p->gate,
                                                .claimer = p->claimer,
                                                .planner = p->planner,
                                                .deliverer = p->deliverer,
                                                .config_row = config_row,
                                                .config_data = w});
}

static enum pp_err open_http(struct pp_wire *w, struct pp_wire_error *error)
{
    const struct pp_config *c = w->config;
    const struct pp_http_options options = {.defer = true,
                                            .max_connections = w->budget.callers,
                                            .max_per_address = (uint32_t)c->http.max_connections_per_address,
                                            .header_timeout_ms = c->http.header_timeout_ms,
                                            .body_timeout_ms = c->http.body_timeout_ms,
                                            .max_body = (size_t)c->http.max_body_bytes,
                                            .max_streams = w->budget.streams,
                                            .max_all = w->budget.places,
                                            .ledger = &w->ledger,
                                            .log = w->log};
    w->api = open_api(w);
    if (!w->api)
        return pp_wire_explain(error, PP_ENOMEM, "out of memory");
    return pp_wire_listen(w->loop, c, &options, pp_api_handler(w->api), &w->http, error);
}

enum pp_err pp_wire_check_ca_file(const char *name, const char *path, struct pp_wire_error *error)
{
    char line[256];
    bool found = false;
    FILE *f = path[0] ? fopen(path, "re") : NULL;

    if (!path[0])
        return PP_OK;
    if (!f)
        return pp_wire_explain(error, PP_EIO, "%s %s can't be read: %s", name, path, strerror(errno));
    while (!found && fgets(line, sizeof(line), f))
        found = strstr(line, "-----BEGIN ") && strstr(line, "CERTIFICATE-----");
    fclose(f);
    return pp_wire_explain(error, found ? PP_OK : PP_EINVAL, "%s %s has no certificate in PEM form", name,
                           path);
}

bool pp_wire_needs_data(const struct pp_config *c, unsigned roles)
{
    return !pp_wire_is_fleet(c) || ((roles & PP_ROLE_API) && c->ingest.journal);
}

static void trim(void *data)
{
    (void)data;
    pp_process_trim_memory();
}

/* Opens the ledger, and limits the rows that have a fixed limit. */
static void set_limits(struct pp_wire *w)
{
    uint64_t replay = pp_api_replay_memory(&w->params.params);
    const struct pp_budget *b = &w->budget;

    pp_ledger_init(&w->ledger);
    w->ledger.rows[PP_RES_FILES].limit = b->files;
    w->ledger.rows[PP_RES_TRANSFERS].limit =
        b->transfers * PP_BUDGET_PER_TRANSFER + b->kept + b->posts + b->tests;
    w->ledger.rows[PP_RES_CALLERS].limit = b->callers;
    w->ledger.rows[PP_RES_STREAMS].limit = b->streams;
    w->ledger.rows[PP_RES_SUBSCRIPTIONS].limit = SUBSCRIPTION_BYTES;
    w->ledger.rows[PP_RES_REPLAYS].limit = replay > REPLAY_BYTES ? replay : REPLAY_BYTES;
    uint64_t bodies = 4 * (uint64_t)w->config->http.max_body_bytes;
    w->ledger.rows[PP_RES_BODIES].limit = bodies > BODIES_MIN ? bodies : BODIES_MIN;
    w->ledger.rows[PP_RES_ANSWERS].limit = ANSWERS_MAX;
    w->ledger.rows[PP_RES_QUEUED].limit = QUEUED_MAX;
    w->p.ledger = &w->ledger;
}

static enum pp_err open_all(struct pp_wire *w, unsigned roles, struct pp_wire_error *error)
{
    pp_process_return_memory();
    enum pp_err err = pp_wire_params_init(&w->params, w->config);
    w->pins = pp_wire_make_pins(w->config);
    if (err == PP_OK && !w->pins)
        err = PP_ENOMEM;
    if (err != PP_OK)
        return pp_wire_explain(error, err, "the configuration can't be used: %s", pp_err_text(err));
    w->params.params.sole_worker = !pp_wire_is_fleet(w->config);
    w->p.roles = roles;
    w->p.loop = w->loop;
    w->p.log = w->log;
    w->p.params = &w->params.params;
    err = pp_wire_divide(&w->budget, &w->params.params, w->config, roles, w->log, error);
    if (err != PP_OK)
        return err;
    set_limits(w);
    init_clock(&w->p.wall);
    err = pp_wire_check_ca_file("fetch.ca_file", w->config->fetch.ca_file, error);
    if (err == PP_OK && pp_wire_needs_data(w->config, roles))
        err = open_data(w, error);
    w->params.params.pid = getpid();
    w->params.params.started_wall_ms = pp_clock_wall_ms(); /* open_data() may have set this clock */
    if (err == PP_OK)
        err = pp_wire_open_ports(&w->p, w->config, error);
    if (err == PP_OK && (roles & PP_ROLE_WORKER))
        err = pp_wire_own_blobs(&w->p, w->config, error);
    if (err != PP_OK)
        return err;
    w->p.factory = (struct pp_fetch_factory){.open = open_fetch_adapters, .data = w};
    err = pp_pipeline_open(&w->p);
    if (err != PP_OK)
        return pp_wire_explain(error, err, "the pipeline could not be started: %s", pp_err_text(err));
    w->pipeline_open = true;
    w->trim_timer = pp_timer_open(w->loop, trim, w);
    if (!w->trim_timer)
        return pp_wire_explain(error, PP_ENOMEM, "out of memory");
    pp_timer_start(w->trim_timer, TRIM_MS, TRIM_MS);
    err = open_http(w, error);
    if (err == PP_OK)
        pp_account_force(&w->ledger.rows[PP_RES_FILES], pp_process_open_fds());
    return err;
}

/* Closes what is open, and frees w. */
static void close_all(struct pp_wire *w)
{
    if (w->pipeline_open)
        pp_pipeline_close(&w->p);
    if (w->http)
        w->http->ops->close(w->http);
    pp_api_close(w->api);
    pp_wire_close_ports(&w->p);
    pp_clock_file_close(&w->clock);
    pp_data_dir_close(&w->data, w->ended);
    pp_timer_close(w->api_timer);
    pp_timer_close(w->trim_timer);
    pp_wire_free_pins(w->pins);
    pp_wire_params_fini(&w->params);
    free(w);
}

static void mark(void *data)
{
    *(bool *)data = true;
}

enum pp_err pp_wire_open(struct pp_loop *loop, struct pp_log *log, const struct pp_config *config,
                         unsigned roles, struct pp_wire **out, struct pp_wire_error *error)
{
    struct pp_wire *w = calloc(1, sizeof(*w));
    if (!w)
        return pp_wire_explain(error, PP_ENOMEM, "out of memory");
    w->loop = loop;
    w->log = log;
    w->config = w->started = config;
    w->data.lock = w->clock.fd = -1;
    error->text[0] = '\0';
    enum pp_err err = open_all(w, roles, error);
    if (err == PP_OK) {
        *out = w;
        return PP_OK;
    }
    /* the pipeline is running already, so it must be drained before it is closed */
    if (w->pipeline_open) {
        bool done = false;
        pp_pipeline_drain(&w->p, mark, &done);
        while ((!done || !pp_pipeline_still(&w->p) || (w->api && !pp_api_idle(w->api))) &&
               pp_loop_turn(loop, true))
            ;
    }
    close_all(w);
    return err;
}

uint16_t pp_wire_port(struct pp_wire *w)
{
    return w->http->ops->port(w->http);
}

/* Applies the parameters, and gives new connections the certificate, unless `tls` is NULL. */
static enum pp_err reload(struct pp_wire *w, const struct pp_config *config, struct pp_tls_context *tls)
{
    enum pp_err err = tls ? pp_http_server_prepare_tls(w->http) : PP_OK;
    if (err == PP_OK)
        err = pp_wire_params_reload(&w->params, config);
    if (err != PP_OK)
        return err;
    if (tls)
        pp_http_server_set_tls(w->http, tls);
    if ((err = pp_wire_share_servers(&w->p, config)) != PP_OK)
        pp_log(w->log, PP_LOG_WARN, "share.servers not used", "error", pp_err_text(err), NULL);
    pp_pipeline_reloaded(&w->p);
    pp_api_reloaded(w->api);
    pp_log_set_level(w->log, config->log.level);
    w->config = config;
    return PP_OK;
}

enum pp_err pp_wire_reload(struct pp_wire *w, const struct pp_config *config, struct pp_wire_error *error)
{
    struct pp_tls_context *tls;
    enum pp_err err = pp_wire_open_tls(config, w->log, &tls, error);
    if (err != PP_OK)
        return err;
    err = reload(w, config, tls);
    if (err != PP_OK)
        pp_tls_context_close(tls);
    return pp_wire_explain(error, err, "out of memory");
}

void pp_wire_publish(struct pp_wire *w, const char *type, const char *data, size_t n)
{
    pp_publish_ops(w->p.publisher, type, data, n);
}

/* --- draining: the API closes last, so that callers get answers until the end --- */

static void check_api(void *data)
{
    struct pp_wire *w = data;
    if (!pp_api_idle(w->api) || !pp_pipeline_still(&w->p))
        return;
    pp_timer_stop(w->api_timer);
    w->drained(w->drained_data);
}

/* The pipeline has drained, so the API drains now: it refuses new connections and closes each open
 * connection after its answer, until it is idle. */
static void pipeline_drained(void *data)
{
    struct pp_wire *w = data;
    pp_api_end(w->api);
    w->http->ops->drain(w->http);
    w->api_timer = pp_timer_open(w->loop, check_api, w);
    if (w->api_timer)
        pp_timer_start(w->api_timer, 0, 10);
    else
        w->drained(w->drained_data);
}

void pp_wire_drain(struct pp_wire *w, void (*done)(void *data), void *data)
{
    if (w->draining) {
        if (w->p.draining)
            pp_pipeline_drain(&w->p, NULL, NULL);
        return;
    }
    w->draining = true;
    w->drained = done;
    w->drained_data = data;
    pp_api_drain(w->api);
    pp_pipeline_drain(&w->p, pipeline_drained, w);
}

void pp_wire_on_drain(struct pp_wire *w, void (*cb)(void *data, const char *worker), void *data)
{
    w->p.coordinator->ops->watch_drain(w->p.coordinator, cb, data);
}

void pp_wire_close(struct pp_wire *w)
{
    if (!w)
        return;
    w->ended = true;
    close_all(w);
}
