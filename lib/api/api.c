/* api.c: when the head of a request is complete, finds its row of endpoints.h and checks all that
 * the head decides: key, path, query, media type. Calls the handler when the body has arrived. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/callers.h"
#include "api/endpoints.h"
#include "api/handler.h"
#include "base/check.h"
#include "counters/photo_views.h"
#include "pipeline/accept/accept.h"

static const struct pp_endpoint endpoints[] = {
#define X(method, pattern, scope, flags, params, handler) \
    {PP_##method, pattern, PP_SCOPE_##scope, flags, params, pp_api_##handler},
    PP_ENDPOINT_TABLE(X)
#undef X
};

#define ENDPOINTS (sizeof(endpoints) / sizeof(*endpoints))

/* --- finding the endpoint of a request --- */

/* A segment of the request's path, before decoding. */
struct segment {
    const char *p;
    size_t n;
};

/* Returns true if the path matches the pattern. Stores the path's segments that stand for "{}" in
 * `args`, and their number in `n`. */
static bool fits(const char *pattern, const char *path, struct segment args[PP_CALL_ARGS], size_t *n)
{
    *n = 0;
    while (*pattern) {
        if (*pattern == '{') {
            size_t len = strcspn(path, "/");
            pp_assert(*n < PP_CALL_ARGS, "a pattern has more segments than a call has arguments");
            if (len == 0)
                return false;
            args[(*n)++] = (struct segment){path, len};
            path += len;
            pattern += 2;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

static const char *const method_names[] = {[PP_GET] = "GET, HEAD",
                                           [PP_POST] = "POST",
                                           [PP_PUT] = "PUT",
                                           [PP_DELETE] = "DELETE",
                                           [PP_PATCH] = "PATCH"};

/* Sets call->endpoint. Returns false if no endpoint matches; the call has then been answered. */
static bool find_endpoint(struct pp_call *call, struct segment args[], size_t *n)
{
    enum pp_method method = call->req->method == PP_HEAD ? PP_GET : call->req->method;
    char allow[64] = "";

    for (size_t i = 0; i < ENDPOINTS; i++) {
        const struct pp_endpoint *e = &endpoints[i];
        if (!(e->flags & PP_EVERYWHERE) && !(call->o->roles & PP_ROLE_API))
            continue;
        if (!fits(e->pattern, call->req->path, args, n))
            continue;
        if (e->method == method) {
            call->endpoint = e;
            return true;
        }
        size_t used = strlen(allow);
        snprintf(allow + used, sizeof(allow) - used, "%s%s", used ? ", " : "", method_names[e->method]);
    }
    if (!pp_call_admit(call, NULL))
        return false;
    if (!allow[0])
        return pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is nothing at this path");
    pp_call_header(call, "Allow: %s", allow);
    return pp_call_problem(call, PP_API_METHOD_NOT_ALLOWED, NULL, "this path takes %s", allow);
}

static bool decode_args(struct pp_call *call, const struct segment args[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        call->args[i] = pp_percent_decode(&call->arena, args[i].p, args[i].n, false);
        if (!call->args[i])
            return pp_call_problem(call, PP_API_NOT_FOUND, NULL, "the path is not percent-encoded UTF-8");
    }
    return true;
}

/* When all places of the server are taken, it keeps a few for supervisors. */
static bool may_have_place(struct pp_call *call)
{
    return !call->req->spare || (call->endpoint->flags & PP_VITAL) ||
           pp_call_problem(call, PP_API_OVERLOADED, NULL, "all connections of this server are taken");
}

static bool read_head(struct pp_call *call)
{
    struct segment args[PP_CALL_ARGS];
    size_t n = 0;

    return pp_call_same_site(call) && find_endpoint(call, args, &n) && may_have_place(call) &&
           pp_call_authorize(call) && decode_args(call, args, n) && pp_call_read_query(call) &&
           pp_call_media_type(call) && (!(call->endpoint->flags & PP_KEYED) || pp_call_key(call)) &&
           pp_call_body_begins(call);
}

static bool on_head(void *data, struct pp_http_request *req)
{
    struct pp_api *api = data;
    struct pp_http_server *server = *api->o.server;
    struct pp_call *call = calloc(1, sizeof(*call));

    pp_assert(server, "a request arrives before its server is known");
    if (!call) {
        struct pp_http_response res = {.status = 503};
        server->ops->reply(server, req, &res);
        return false;
    }
    api->calls++;
    call->api = api;
    call->o = &api->o;
    call->req = req;
    pp_arena_init(&call->arena, 0);
    pp_arena_init(&call->chunk, 0);
    pp_buf_init(&call->out, pp_page_max(api->o.params));
    req->handler = call;
    call->begun_ms = pp_loop_now(api->o.loop);
    pp_call_trace(call);
    if (call->request_id)
        pp_call_header(call, "X-Request-Id: %s", call->request_id);
    if (call->traceparent)
        pp_call_header(call, "traceparent: %s", call->traceparent);
    if (!read_head(call))
        return false;
    api->reading++;
    return true;
}

static void on_request(void *data, struct pp_http_request *req)
{
    struct pp_api *api = data;
    struct pp_call *call = req->handler;

    api->reading--;
    pp_assert(call->req == req && call->endpoint, "a request is not the one whose head was read");
    pp_call_body_ends(call);
    pp_call_handle(call);
}

static void on_dropped(void *data, struct pp_http_request *req)
{
    struct pp_api *api = data;

    pp_assert(api->reading > 0 && api->reading <= api->calls, "a request is dropped that no call waits for");
    api->reading--;
    pp_call_body_ends(req->handler);
    pp_call_gone(req->handler);
}

static bool on_give_way(void *data, const char *peer)
{
    return pp_polls_give_way(data, peer);
}

/* Writes the problem document for a request that the server itself refuses. Returns its length, or
 * 0 if it does not fit into `cap`. */
static size_t on_refused(void *data, enum pp_api_code code, const char *detail, char *buf, size_t cap)
{
    struct pp_api *api = data;
    bool internal = code == PP_API_INTERNAL;
    char incident[PP_INCIDENT_MAX];
    struct pp_buf out;

    if (internal)
        pp_incident_log(api->o.log, "serving HTTP", detail ? detail : "", incident);
    pp_buf_init(&out, cap > 0 ? cap - 1 : 0);
    pp_problem_write(&out, code, detail, NULL, NULL, internal ? incident : NULL);
    size_t n = out.failed ? 0 : out.n;
    pp_assert(n < cap || n == 0, "a problem is longer than the server's buffer");
    if (n > 0)
        memcpy(buf, out.p, n);
    pp_buf_fini(&out);
    return n;
}

/* --- opening, draining and closing the API --- */

static void close_parts(struct pp_api *api)
{
    pp_health_close(api->health);
    pp_photos_close(api->photos);
    pp_photo_views_close(api->views);
    pp_acceptor_close(api->acceptor);
    pp_subscribers_close(api);
    free(api->queue);
    pp_callers_close(api->callers);
    pp_times_close(api);
    free(api);
}

static bool open_parts(struct pp_api *api)
{
    const struct pp_api_options *o = &api->o;

    bool listed = pp_subscribers_open(api) && pp_times_open(api);
    api->callers = pp_callers_open(api);
    api->health = pp_health_open(api);
    if (!(o->roles & PP_ROLE_API) || !listed || !api->health || !api->callers)
        return listed && api->health && api->callers;
    api->photos = pp_photos_open(api);
    api->views = o->counters ? pp_photo_views_open(o->loop, o->log, o->counters) : NULL;
    api->acceptor = pp_acceptor_open(&(struct pp_acceptor_options){.loop = o->loop,
                                                                   .params = o->params,
                                                                   .metrics = o->metrics,
                                                                   .ingest = o->ingest,
                                                                   .publisher = o->publisher});
    return api->photos && api->acceptor && (api->views || !o->counters);
}

struct pp_api *pp_api_open(const struct pp_api_options *options)
{
    struct pp_api *api = calloc(1, sizeof(*api));

    pp_assert(options->loop && options->params && options->metrics && options->server && options->ledger,
              "an option that the API always needs is missing");
    pp_assert(!(options->roles & PP_ROLE_API) ||
                  (options->store && options->ingest && options->coordinator && options->blobs),
              "a port of the api role is missing");
    if (!api)
        return NULL;
    api->o = *options;
    api->waiting_from = (struct pp_waiting_from){.store = options->store,
                                                 .coordinator = options->coordinator,
                                                 .claimer = options->claimer,
                                                 .progress = options->progress,
                                                 .params = options->params,
                                                 .loop = options->loop};
    api->endpoints = endpoints;
    api->n_endpoints = ENDPOINTS;
    pp_list_init(&api->polls);
    pp_list_init(&api->replays);
    api->handler = (struct pp_http_handler){.head = on_head,
                                            .handle = on_request,
                                            .dropped = on_dropped,
                                            .give_way = on_give_way,
                                            .problem = on_refused,
                                            .data = api};
    if (open_parts(api))
        return api;
    close_parts(api);
    return NULL;
}

const struct pp_http_handler *pp_api_handler(struct pp_api *api)
{
    return &api->handler;
}

bool pp_api_idle(const struct pp_api *api)
{
    pp_assert(pp_list_empty(&api->polls) || api->calls > 0, "a long-poll waits without a call");
    return api->calls == api->reading && api->streams == 0 && !pp_photos_busy(api->photos) &&
           !pp_photo_views_busy(api->views) && !pp_health_busy(api->health) &&
           (!api->acceptor || pp_acceptor_busy(api->acceptor) == 0);
}

void pp_api_drain(struct pp_api *api)
{
    api->draining = true;
    pp_photo_views_drain(api->views);
}

void pp_api_end(struct pp_api *api)
{
    api->draining = true;
    pp_polls_end(api);
}

void pp_api_close(struct pp_api *api)
{
    if (!api)
        return;
    pp_assert(pp_api_idle(api) && api->calls == 0, "the API closes while something is in flight");
    close_parts(api);
}
