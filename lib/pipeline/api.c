/* api.c: the table of endpoints, and a call's way to its handler and to its answer. See api.h and
 * api_internal.h. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/api_internal.h"

#define PAGE "limit after "

/* Method, pattern, scope, without the api role too, not for keys of one client, query parameters, handler. */
static const struct pp_route_def routes[] = {
    {PP_POST, "/v1/batches", PP_SCOPE_SUBMIT, false, false, "client refresh ", pp_api_post_batch},
    {PP_GET, "/v1/batches", PP_SCOPE_READ, false, false, PAGE "client state ", pp_api_list_batches},
    {PP_GET, "/v1/batches/{}", PP_SCOPE_READ, false, false, "", pp_api_get_batch},
    {PP_DELETE, "/v1/batches/{}", PP_SCOPE_SUBMIT, false, false, "", pp_api_delete_batch},
    {PP_GET, "/v1/batches/{}/results", PP_SCOPE_READ, false, false, PAGE "status code ", pp_api_results},
    {PP_POST, "/v1/batches/{}/replay", PP_SCOPE_SUBMIT, false, false, "", pp_api_replay},
    {PP_GET, "/v1/items/{}/{}", PP_SCOPE_READ, false, false, "", pp_api_item},
    {PP_GET, "/v1/photos/{}", PP_SCOPE_READ, false, false, "", pp_api_photo},
    {PP_GET, "/v1/clients", PP_SCOPE_READ, false, false, PAGE, pp_api_list_clients},
    {PP_GET, "/v1/clients/{}", PP_SCOPE_READ, false, false, "", pp_api_get_client},
    {PP_PUT, "/v1/clients/{}", PP_SCOPE_ADMIN, false, false, "", pp_api_put_client},
    {PP_GET, "/v1/routes", PP_SCOPE_READ, false, false, PAGE "client domain ", pp_api_routes},
    {PP_GET, "/v1/workers", PP_SCOPE_READ, false, true, PAGE, pp_api_workers},
    {PP_POST, "/v1/workers/drain", PP_SCOPE_ADMIN, false, true, "", pp_api_drain_worker},
    {PP_GET, "/v1/events", PP_SCOPE_EVENTS, false, false, "key* after limit wait ticket ", pp_api_events},
    {PP_POST, "/v1/tickets", PP_SCOPE_READ, false, false, "", pp_api_ticket},
    {PP_GET, "/v1/webhooks", PP_SCOPE_ADMIN, false, true, PAGE, pp_api_list_webhooks},
    {PP_GET, "/v1/webhooks/{}", PP_SCOPE_ADMIN, false, true, "", pp_api_get_webhook},
    {PP_PUT, "/v1/webhooks/{}", PP_SCOPE_ADMIN, false, true, "", pp_api_put_webhook},
    {PP_DELETE, "/v1/webhooks/{}", PP_SCOPE_ADMIN, false, true, "", pp_api_delete_webhook},
    {PP_POST, "/v1/webhooks/{}/test", PP_SCOPE_ADMIN, false, true, "", pp_api_test_webhook},
    {PP_GET, "/v1/webhooks/{}/deliveries", PP_SCOPE_ADMIN, false, true, PAGE "status ", pp_api_deliveries},
    {PP_POST, "/v1/webhooks/{}/replay", PP_SCOPE_ADMIN, false, true, "", pp_api_replay_webhook},
    {PP_GET, "/v1/explain", PP_SCOPE_READ, false, false, "client url ", pp_api_explain},
    {PP_GET, "/v1/queue", PP_SCOPE_READ, false, true, "", pp_api_queue},
    {PP_GET, "/v1/errors", PP_SCOPE_KEY, false, false, PAGE, pp_api_errors},
    {PP_GET, "/healthz", PP_SCOPE_PUBLIC, true, false, "", pp_api_healthz},
    {PP_GET, "/readyz", PP_SCOPE_PUBLIC, true, false, "", pp_api_readyz},
    {PP_GET, "/metrics", PP_SCOPE_METRICS, true, true, "", pp_api_metrics},
    {PP_GET, "/openapi.json", PP_SCOPE_PUBLIC, true, false, "", pp_api_openapi},
    {PP_GET, "/asyncapi.json", PP_SCOPE_PUBLIC, true, false, "", pp_api_asyncapi},
    {PP_GET, "/", PP_SCOPE_PUBLIC, false, false, "", pp_api_dashboard},
};

#define ROUTES (sizeof(routes) / sizeof(*routes))

/* --- answers --- */

static void end(struct pp_call *call)
{
    call->api->calls--;
    if (call->cleanup)
        call->cleanup(call);
    pp_buf_fini(&call->out);
    pp_arena_fini(&call->arena);
    free(call);
}

void pp_call_reply(struct pp_call *call, struct pp_http_response *res)
{
    struct pp_http_server *server = *call->api->server;

    res->headers = call->headers;
    res->n_headers = call->n_headers;
    res->close = res->close || call->api->draining; /* the next request goes to somebody else */
    server->ops->reply(server, call->req, res);
    end(call);
}

void pp_call_gone(struct pp_call *call)
{
    end(call);
}

void pp_call_body(struct pp_call *call, int status, const char *content_type)
{
    struct pp_http_response res = {.status = status,
                                   .content_type = content_type,
                                   .body = call->out.p,
                                   .body_n = call->out.n,
                                   .release = call->out.p ? free : NULL,
                                   .release_data = call->out.p};
    if (call->out.failed) {
        pp_call_error(call, PP_ENOMEM, "writing an answer");
        return;
    }
    pp_buf_init(&call->out, 0); /* the server has it now */
    pp_call_reply(call, &res);
}

void pp_call_json(struct pp_call *call, int status)
{
    pp_call_body(call, status, "application/json");
}

void pp_call_header(struct pp_call *call, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    const char *copy = pp_arena_strdup(&call->arena, line);
    assert(call->n_headers < PP_CALL_HEADERS);
    if (copy)
        call->headers[call->n_headers++] = copy;
}

void *pp_call_state(struct pp_call *call, size_t size)
{
    call->state = pp_arena_alloc(&call->arena, size);
    if (!call->state)
        pp_call_error(call, PP_ENOMEM, "a request");
    return call->state;
}

void pp_call_req(struct pp_call *call, struct pp_req *req, void (*done)(struct pp_req *req))
{
    *req = (struct pp_req){.done = done, .data = call, .arena = &call->arena};
}

bool pp_call_submitted(struct pp_call *call, enum pp_err err, const char *what)
{
    if (err != PP_OK)
        pp_call_error(call, err, what);
    return err == PP_OK;
}

/* --- routing --- */

/* Does the path fit the pattern? Fills args, not yet decoded. */
static bool fits(const char *pattern, const char *path, const char *args[], size_t lengths[], size_t *n)
{
    *n = 0;
    while (*pattern) {
        if (*pattern == '{') {
            size_t len = strcspn(path, "/");
            if (len == 0 || *n == PP_CALL_ARGS)
                return false;
            args[*n] = path;
            lengths[(*n)++] = len;
            path += len;
            pattern += 2;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

static const char *const method_names[] = {
    [PP_GET] = "GET, HEAD", [PP_POST] = "POST", [PP_PUT] = "PUT", [PP_DELETE] = "DELETE"};

/* Chooses the row; false: answered. */
static bool route(struct pp_call *call, size_t lengths[], size_t *n)
{
    enum pp_method method = call->req->method == PP_HEAD ? PP_GET : call->req->method;
    char allow[64] = "";

    for (size_t i = 0; i < ROUTES; i++) {
        const struct pp_route_def *r = &routes[i];
        if (!r->everywhere && !(call->p->roles & PP_ROLE_API))
            continue;
        if (!fits(r->pattern, call->req->path, call->args, lengths, n))
            continue;
        if (r->method == method) {
            call->route = r;
            return true;
        }
        size_t used = strlen(allow);
        snprintf(allow + used, sizeof(allow) - used, "%s%s", used ? ", " : "", method_names[r->method]);
    }
    if (!allow[0]) {
        pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is nothing at this path");
        return false;
    }
    pp_call_header(call, "Allow: %s", allow);
    pp_call_problem(call, PP_API_METHOD_NOT_ALLOWED, NULL, "this path takes %s", allow);
    return false;
}

static bool decode_args(struct pp_call *call, const size_t lengths[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        call->args[i] = pp_percent_decode(&call->arena, call->args[i], lengths[i], false);
        if (!call->args[i]) {
            pp_call_problem(call, PP_API_NOT_FOUND, NULL, "the path is not percent-encoded UTF-8");
            return false;
        }
    }
    return true;
}

static void handle(void *data, struct pp_http_request *req)
{
    struct pp_api *api = data;
    size_t lengths[PP_CALL_ARGS], n;
    struct pp_call *call = calloc(1, sizeof(*call));

    if (!call) {
        struct pp_http_response res = {.status = 503};
        (*api->server)->ops->reply(*api->server, req, &res);
        return;
    }
    api->calls++;
    call->api = api;
    call->p = api->p;
    call->req = req;
    pp_arena_init(&call->arena, 0);
    pp_buf_init(&call->out, PP_CALL_OUT_MAX);
    if (route(call, lengths, &n) && pp_call_authorize(call) && decode_args(call, lengths, n) &&
        pp_call_read_query(call))
        call->route->handle(call);
}

/* --- life --- */

static bool open_parts(struct pp_api *api)
{
    const struct pp_lane_options photos = {.name = "photos", .threads = 2, .capacity = 1024, .max_batch = 8};

    if (!(api->p->roles & PP_ROLE_API))
        return pp_api_probe_open(api);
    api->s1 = pp_s1_open(api->p);
    api->photo_lane = pp_lane_open(&photos);
    if (api->photo_lane)
        api->photo_home = pp_lane_home_open(api->photo_lane, api->p->loop);
    return api->s1 && api->photo_home && pp_api_probe_open(api);
}

static void close_parts(struct pp_api *api)
{
    pp_api_probe_close(api);
    if (api->photo_lane)
        pp_lane_close(api->photo_lane);
    pp_lane_home_close(api->photo_home);
    pp_s1_close(api->s1);
    free(api);
}

struct pp_api *pp_api_open(struct pp_pipeline *p, struct pp_http_server **server)
{
    struct pp_api *api = calloc(1, sizeof(*api));

    if (!api)
        return NULL;
    api->p = p;
    pp_list_init(&api->polls);
    api->server = server ? server : &api->own_server;
    api->handler = (struct pp_http_handler){.handle = handle, .problem = pp_api_problem, .data = api};
    if (!open_parts(api)) {
        close_parts(api);
        return NULL;
    }
    return api;
}

const struct pp_http_handler *pp_api_handler(struct pp_api *api)
{
    return &api->handler;
}

void pp_api_set_server(struct pp_api *api, struct pp_http_server *server)
{
    api->own_server = server;
    api->server = &api->own_server;
}

bool pp_api_idle(const struct pp_api *api)
{
    return api->calls == 0 && api->streams == 0 && api->photo_bytes == 0 && !api->probe_store.busy &&
           !api->probe_ingest.busy && (!api->s1 || pp_s1_busy(api->s1) == 0);
}

void pp_api_drain(struct pp_api *api)
{
    api->draining = true;
    if (api->probe_timer)
        pp_timer_stop(api->probe_timer);
}

void pp_api_end(struct pp_api *api)
{
    api->draining = true;
    pp_api_end_polls(api);
}

void pp_api_close(struct pp_api *api)
{
    if (!api)
        return;
    assert(pp_api_idle(api));
    close_parts(api);
}
