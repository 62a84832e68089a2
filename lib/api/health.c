/* health.c: the endpoints /healthz and /readyz.
 *
 * /readyz shows the result of the last probe of each port. So a request to /readyz costs nothing,
 * and a port that does not answer is shown just like one that fails. The process probes only ports
 * that its roles need: each second, but less often while a port works that several processes share.
 * The role worker also needs its blob store, descriptors and memory (common/gate.h). The role api
 * needs only the ingest queue, because it accepts batches even if the store does not
 * work. */
#include "api/handler.h"
#include "pipeline/common/gate.h"
#include "runtime/ask.h"

#define PROBE_MS      1000
#define PROBE_WELL_MS 5000 /* a shared port that works is probed at this interval */
#define PROBE_SLOW_MS 3000 /* after this time /readyz says that the port "does not answer" */
#define PROBE_ARENA   (1u << 20)
#define REASON_MAX    256

/* The roles that need each port. */
enum {
    NEED_STORE = PP_ROLE_INGEST | PP_ROLE_WORKER | PP_ROLE_DELIVER | PP_ROLE_CRON,
    NEED_INGEST = PP_ROLE_API | PP_ROLE_INGEST
};

struct probe {
    struct pp_ask ask;
    bool known; /* true after the first probe has ended; `err` is the result of the last probe */
    enum pp_err err;
};

struct pp_health {
    struct pp_api *api;
    struct pp_timer *timer;
    struct probe store, ingest;
    struct pp_store_clients clients;
    struct pp_ingest_stats stats;
};

/* --- probing the ports --- */

static void on_probed(void *data, enum pp_err err)
{
    struct probe *probe = data;

    probe->known = true;
    probe->err = err;
}

static bool is_due(const struct pp_api_options *o, const struct probe *probe, unsigned roles)
{
    bool well = probe->known && probe->err == PP_OK && !o->params->sole_worker;
    return !probe->ask.in_flight && (o->roles & roles) &&
           pp_loop_now(o->loop) - probe->ask.asked_ms >= (well ? PROBE_WELL_MS : 0);
}

static void note_submitted(struct probe *probe, enum pp_err err)
{
    if (!pp_ask_submitted(&probe->ask, err))
        on_probed(probe, err);
}

static void on_probe_time(void *data)
{
    struct pp_health *h = data;
    const struct pp_api_options *o = &h->api->o;

    if (h->api->draining)
        return;
    if (o->store && is_due(o, &h->store, NEED_STORE)) {
        h->clients = (struct pp_store_clients){.req = pp_ask_request(&h->store.ask, on_probed), .limit = 1};
        note_submitted(&h->store, o->store->ops->clients(o->store, &h->clients));
    }
    if (o->ingest && is_due(o, &h->ingest, NEED_INGEST)) {
        h->stats = (struct pp_ingest_stats){.req = pp_ask_request(&h->ingest.ask, on_probed)};
        note_submitted(&h->ingest, o->ingest->ops->stats(o->ingest, &h->stats));
    }
}

struct pp_health *pp_health_open(struct pp_api *api)
{
    struct pp_health *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->api = api;
    h->store.ask = (struct pp_ask){.loop = api->o.loop, .arena_max = PROBE_ARENA, .data = &h->store};
    h->ingest.ask = (struct pp_ask){.loop = api->o.loop, .arena_max = PROBE_ARENA, .data = &h->ingest};
    h->timer = pp_timer_open(api->o.loop, on_probe_time, h);
    if (!h->timer) {
        free(h);
        return NULL;
    }
    pp_timer_start(h->timer, 0, PROBE_MS);
    return h;
}

bool pp_health_busy(const struct pp_health *h)
{
    return h->store.ask.in_flight || h->ingest.ask.in_flight;
}

void pp_health_close(struct pp_health *h)
{
    if (!h)
        return;
    pp_assert(!pp_health_busy(h), "a probe is in flight");
    pp_timer_close(h->timer);
    free(h);
}

/* --- writing the answer of /readyz --- */

/* Returns the text, written into `buf`, that says why the port is not ready; NULL if the port
 * works. */
static const char *port_reason(const struct pp_api_options *o, const struct probe *p, const char *name,
                               char buf[REASON_MAX])
{
    if (p->ask.in_flight && pp_loop_now(o->loop) - p->ask.asked_ms > PROBE_SLOW_MS)
        snprintf(buf, REASON_MAX, "%s does not answer", name);
    else if (!p->known)
        snprintf(buf, REASON_MAX, "%s has not been asked yet", name);
    else if (p->err != PP_OK)
        snprintf(buf, REASON_MAX, "%s: %s", name, pp_err_text(p->err));
    else
        return NULL;
    return buf;
}

/* Returns why the role is not ready, or NULL if it is ready. */
static const char *role_reason(const struct pp_api *api, unsigned role, char buf[REASON_MAX])
{
    const struct pp_api_options *o = &api->o;
    const struct pp_health *h = api->health;
    const char *reason = NULL;

    if (api->draining)
        return "this server is being stopped";
    if ((role & NEED_INGEST) && o->ingest)
        reason = port_reason(o, &h->ingest, "the ingest queue", buf);
    if (!reason && (role & NEED_STORE) && o->store)
        reason = port_reason(o, &h->store, "the store", buf);
    if (!reason && role == PP_ROLE_WORKER && pp_gate_reason(o->gate, buf, REASON_MAX))
        reason = buf;
    return reason;
}

static const struct {
    unsigned role;
    const char *name;
} roles[] = {{PP_ROLE_API, "api"},
             {PP_ROLE_INGEST, "ingest"},
             {PP_ROLE_WORKER, "worker"},
             {PP_ROLE_DELIVER, "deliver"},
             {PP_ROLE_CRON, "cron"}};

#define ROLES (sizeof(roles) / sizeof(*roles))

void pp_api_readyz(struct pp_call *call)
{
    struct pp_buf *b = &call->out;
    struct pp_ingest_queue *ingest = call->o->ingest;
    char buf[REASON_MAX];
    bool ready = true;

    for (size_t i = 0; i < ROLES; i++)
        ready = ready && (!(call->o->roles & roles[i].role) || !role_reason(call->api, roles[i].role, buf));
    pp_json_begin(b, NULL, '{');
    pp_json_bool(b, "ready", ready);
    pp_json_begin(b, "roles", '{');
    for (size_t i = 0; i < ROLES; i++) {
        if (!(call->o->roles & roles[i].role))
            continue;
        const char *reason = role_reason(call->api, roles[i].role, buf);
        PP_JSON_OBJECT(b, roles[i].name, PP_BOOL("ready", !reason), PP_STR("reason", reason));
    }
    pp_json_end(b, '}');
    pp_json_str(b, "durability", ingest ? ingest->ops->durability(ingest) : NULL);
    pp_json_end(b, '}');
    pp_call_json(call, ready ? 200 : 503);
}

void pp_api_healthz(struct pp_call *call)
{
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("status", "ok"), PP_STR("version", PP_VERSION));
    pp_call_json(call, 200);
}
