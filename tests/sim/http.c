/* http.c: carries requests to the API's handler, and answers back. */
#include "http.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/check.h"
#include "base/ledger.h"
#include "fleet.h"

struct sim_http {
    struct pp_http_server base;
    struct pp_http_server *server; /* &base, for the API */
    struct pp_ledger ledger;
    struct pp_api *api;
    size_t in_flight;
};

static void reply(struct pp_http_server *base, struct pp_http_request *req,
                  const struct pp_http_response *res)
{
    struct sim_http *h = (struct sim_http *)base;
    struct sim_http_call *call = req->impl;

    pp_assert(h->in_flight > 0, "a request is answered twice");
    h->in_flight--;
    pp_assert(!res->source, "the simulator reads no answers in pieces");
    call->status = res->status;
    call->answer = res->body;
    call->answer_n = res->body_n;
    call->done(call);
    if (res->release)
        res->release(res->release_data);
}

static const struct pp_http_server_ops ops = {.reply = reply};

struct sim_http *sim_http_open(struct sim_part *part)
{
    struct sim_http *h = calloc(1, sizeof *h);
    struct pp_pipeline *p = &part->p;

    pp_assert(h, "the simulator needs memory");
    h->base.ops = &ops;
    h->server = &h->base;
    pp_ledger_init(&h->ledger);
    h->api = pp_api_open(&(struct pp_api_options){.roles = p->roles,
                                                  .loop = p->loop,
                                                  .params = p->params,
                                                  .ledger = &h->ledger,
                                                  .metrics = &p->metrics,
                                                  .server = &h->server,
                                                  .store = p->store,
                                                  .ingest = p->ingest,
                                                  .coordinator = p->coordinator,
                                                  .blobs = p->blobs,
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
                                                  .deliverer = p->deliverer});
    pp_assert(h->api, "the simulator needs memory");
    return h;
}

void sim_http_send(struct sim_http *h, struct sim_http_call *call)
{
    const struct pp_http_handler *handler = pp_api_handler(h->api);
    struct pp_http_request *req = &call->req;
    bool has_body = call->body[0] != '\0';

    *req = (struct pp_http_request){.method = call->method,
                                    .path = call->path,
                                    .query = "",
                                    .content_type = has_body ? "application/json" : NULL,
                                    .idempotency_key = call->key,
                                    .peer = "127.0.0.1",
                                    .has_body = has_body,
                                    .body = "",
                                    .impl = call};
    h->in_flight++;
    if (!handler->head(handler->data, req)) /* It is answered, and may be gone. */
        return;
    req->body = call->body;
    req->body_n = strlen(call->body);
    handler->handle(handler->data, req);
}

size_t sim_http_in_flight(const struct sim_http *h)
{
    return h ? h->in_flight : 0;
}

void sim_http_drain(struct sim_http *h)
{
    if (h)
        pp_api_drain(h->api);
}

bool sim_http_still(const struct sim_http *h)
{
    return !h || pp_api_idle(h->api);
}

void sim_http_close(struct sim_http *h)
{
    if (!h)
        return;
    pp_api_close(h->api);
    free(h);
}
