/* health.c: the endpoints /healthz and /readyz.
 *
 * /readyz shows the result of the last probe of each port. So a request to /readyz costs nothing,
 * and a port that does not answer is shown just like one that fails. The process probes only ports
 * that its roles need: each second, but less often while a port works that several processes share.
 * The role worker also needs its blob store, descriptors and memory (common/gate.h). The role api
 * needs only the ingest queue, because it accepts batches even if the store does not work; but not
 * if the store's data is damaged, because then nothing can be read or planned.
 *
 * A read can succeed although the disk is full. Therefore the probes write, but only each
 * PROBE_WELL_MS while the port works and no POST has failed. */
#include "api/handler.h"
#include "pipeline/accept/accept.h"
#include "pipeline/common/gate.h"
#include "pipeline/plan/plan.h"
#include "runtime/ask.h"

#define PROBE_MS      1000
#define PROBE_WELL_MS 5000 /* a port that works is probed by a write at this interval */
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
    int64_t written_ms; /* when a probe last tried to write */
    bool writes;        /* the probe in flight, or the last one, tries to write */
};

struct pp_health {
    struct pp_api *api;
    struct pp_timer *timer;
    struct probe store, ingest;
    struct pp_store_clients clients;
    struct pp_store_numbers numbers;
    struct pp_ingest_stats stats;
};

/* --- probing the ports --- */

static void on_probed(void *data, enum pp_err err)
{
    struct probe *probe = data;

    /* A read that succeeds says nothing about a write that has failed. */
    if (err == PP_OK && !probe->writes && probe->known && probe->err != PP_OK)
        return;
    probe->known = true;
    probe->err = err;
}

static bool is_due(const struct pp_api_options *o, const struct probe *probe, unsigned roles)
{
    bool well = probe->known && probe->err == PP_OK && !o->params->sole_worker;
    return !probe->ask.in_flight && (o->roles & roles) &&
           pp_loop_now(o->loop) - probe->ask.asked_ms >= (well ? PROBE_WELL_MS : 0);
}

/* Returns true if the probe that begins now is to write. */
static bool writes_now(const struct pp_api_options *o, struct probe *probe, bool doubtful)
{
    int64_t now = pp_loop_now(o->loop);

    probe->writes =
        !probe->known || probe->err != PP_OK || doubtful || now - probe->written_ms >= PROBE_WELL_MS;
    if (probe->writes)
        probe->written_ms = now;
    return probe->writes;
}

static void note_submitted(struct probe *probe, enum pp_err err)
{
    if (!pp_ask_submitted(&probe->ask, err))
        on_probed(probe, err);
}

static void probe_store(struct pp_health *h)
{
    struct pp_task_store *store = h->api->o.store;
    struct pp_req req = pp_ask_request(&h->store.ask, on_probed);
    enum pp_err err;

    if (writes_now(&h->api->o, &h->store, false)) {
        h->numbers = (struct pp_store_numbers){.req = req, .name = "probe", .n = 1};
        err = store->ops->numbers(store, &h->numbers);
    } else {
        h->clients = (struct pp_store_clients){.req = req, .limit = 1};
        err = store->ops->clients(store, &h->clients);
    }
    note_submitted(&h->store, err);
}

static void probe_ingest(struct pp_health *h)
{
    struct pp_ingest_queue *ingest = h->api->o.ingest;
    bool refused = h->api->acceptor && pp_acceptor_failed(h->api->acceptor);

    h->stats = (struct pp_ingest_stats){.req = pp_ask_request(&h->ingest.ask, on_probed),
                                        .write = writes_now(&h->api->o, &h->ingest, refused)};
    note_submitted(&h->ingest, ingest->ops->stats(ingest, &h->stats));
}

static void on_probe_time(void *data)
{
    struct pp_health *h = data;
    const struct pp_api_options *o = &h->api->o;

    if (h->api->draining)
        return;
    if (o->store && is_due(o, &h->store, NEED_STORE))
        probe_store(h);
    if (o->ingest && is_due(o, &h->ingest, NEED_INGEST))
        probe_ingest(h);
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

/* Returns why batches can't be planned, or why what is planned can't be read; NULL if they can. */
static const char *planning_reason(const struct pp_api *api, unsigned role, char buf[REASON_MAX])
{
    enum pp_err store = api->health->store.err,
                err = api->o.planner ? pp_planner_failure(api->o.planner) : PP_OK;

    if (role == PP_ROLE_INGEST && err != PP_OK)
        snprintf(buf, REASON_MAX, "nothing can be planned: %s", pp_err_text(err));
    else if (role == PP_ROLE_API && (err == PP_ECORRUPT || store == PP_ECORRUPT))
        snprintf(buf, REASON_MAX, "the store: %s", pp_err_text(PP_ECORRUPT));
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
    if (!reason)
        reason = planning_reason(api, role, buf);
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

/* Returns what a 202 is worth; NULL if the process has no ingest queue. */
static const char *durability(const struct pp_api *api, char buf[REASON_MAX])
{
    struct pp_ingest_queue *ingest = api->o.ingest;
    enum pp_err err = api->health->ingest.err;

    if (!ingest || err == PP_OK)
        return ingest ? ingest->ops->durability(ingest) : NULL;
    snprintf(buf, REASON_MAX, "no batch is accepted: %s", pp_err_text(err));
    return buf;
}

void pp_api_readyz(struct pp_call *call)
{
    struct pp_buf *b = &call->out;
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
    pp_json_str(b, "durability", durability(call->api, buf));
    pp_json_end(b, '}');
    pp_call_json(call, ready ? 200 : 503);
}

void pp_api_healthz(struct pp_call *call)
{
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("status", "ok"), PP_STR("version", PP_VERSION));
    pp_call_json(call, 200);
}
