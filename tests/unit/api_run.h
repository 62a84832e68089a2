/* api_run.h: runs the API over fake ports, one request at a time. */
#ifndef PP_TEST_API_RUN_H
#define PP_TEST_API_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/ledger.h"
#include "fake_ports.h"
#include "pipeline/hosts/hosts.h"
#include "test_clock.h"
#include "test_loop.h"

struct api_run {
    struct pp_loop *loop;
    struct pp_params params;
    struct pp_metrics metrics;
    struct pp_api_options options;
    struct pp_ledger ledger;
    struct fake_ingest ingest;
    struct fake_store store;
    struct fake_coordinator coordinator;
    struct fake_blobs blobs;
    struct fake_server server;
    struct pp_http_server *server_ptr;
    struct pp_hosts *hosts;
    struct pp_api *api;
    /* The next request is sent with these header values, which are reset after it. */
    const char *authorization, *content_type, *key, *range, *if_range, *if_match, *if_none_match, *request_id,
        *traceparent;
    /* All requests are sent with these values, until the test changes them. */
    const char *host, *origin, *sec_fetch_site, *peer;
    bool websocket;
    const char *accept_encoding, *accept_language; /* of the next request only */
    struct pp_http_request request;
    json_t *json; /* the body of the last answer; NULL if it is not JSON */
};

static inline bool api_leads(void *data)
{
    (void)data;
    return true;
}

static inline char *api_config_row(void *data, size_t i)
{
    (void)data;
    return i < 3 ? strdup(i == 0   ? "{\"name\":\"a.a\"}"
                          : i == 1 ? "{\"name\":\"a.b\"}"
                                   : "{\"name\":\"a.c\"}")
                 : NULL;
}

static inline int api_open(void **state)
{
    static const struct pp_port_range ports[] = {{80, 80}, {443, 443}};
    struct api_run *t = calloc(1, sizeof(*t));

    t->loop = pp_loop_open();
    pp_test_clock_hold(t->loop); /* The clock stands still, so that ages in answers are exact. */
    t->params = (struct pp_params){
        .sole_worker = true,
        .tiers = {{1000, 4}, {5000, 4}, {30000, 4}},
        .n_tiers = 3,
        .policy = {.ports = ports, .n_ports = 2},
        .webhook_policy = {.ports = ports, .n_ports = 2},
        .client_rpm = 600,
        .ladder_max_ms = 86400000,
        .client_concurrency = 16,
        .high_water = 1000,
        .max_body = 32 << 20,
        .max_items = 10000,
        .max_photos_per_item = 100,
        .hosts_wait_ms = 900000,
        .hosts_believe_ms = 7200000,
    };
    fake_ingest_open(&t->ingest, t->loop);
    fake_store_open(&t->store, t->loop);
    fake_coordinator_open(&t->coordinator, t->loop);
    fake_blobs_open(&t->blobs);
    fake_server_open(&t->server);
    t->server_ptr = &t->server.base;
    pp_ledger_init(&t->ledger);
    t->hosts = pp_hosts_open(&(struct pp_hosts_options){.loop = t->loop,
                                                        .params = &t->params,
                                                        .metrics = &t->metrics,
                                                        .roles = PP_ROLE_API,
                                                        .store = &t->store.base,
                                                        .coordinator = &t->coordinator.base,
                                                        .leads = api_leads});
    assert_non_null(t->hosts);
    t->options = (struct pp_api_options){.roles = PP_ROLE_API,
                                         .loop = t->loop,
                                         .params = &t->params,
                                         .metrics = &t->metrics,
                                         .ledger = &t->ledger,
                                         .server = &t->server_ptr,
                                         .store = &t->store.base,
                                         .ingest = &t->ingest.base,
                                         .coordinator = &t->coordinator.base,
                                         .blobs = &t->blobs.base,
                                         .hosts = t->hosts,
                                         .config_row = api_config_row};
    t->api = pp_api_open(&t->options);
    assert_non_null(t->api);
    *state = t;
    return 0;
}

static inline bool api_is_idle(void *arg)
{
    return pp_api_idle(((struct api_run *)arg)->api);
}

static inline bool api_hosts_idle(void *arg)
{
    return pp_hosts_busy(((struct api_run *)arg)->hosts) == 0;
}

static inline void api_stop(struct api_run *t)
{
    pp_api_drain(t->api);
    pp_test_until(t->loop, api_is_idle, t, 5000);
    pp_api_close(t->api);
}

/* Replaces the API by that of a process with these roles. */
static inline void api_restart(struct api_run *t, unsigned roles)
{
    api_stop(t);
    t->options.roles = roles;
    t->api = pp_api_open(&t->options);
    assert_non_null(t->api);
}

static inline int api_close(void **state)
{
    struct api_run *t = *state;

    api_stop(t);
    pp_hosts_stop(t->hosts);
    pp_test_until(t->loop, api_hosts_idle, t, 5000);
    pp_hosts_close(t->hosts);
    json_decref(t->json);
    fake_ingest_close(&t->ingest);
    fake_store_close(&t->store);
    fake_coordinator_close(&t->coordinator);
    fake_server_close(&t->server);
    pp_test_clock_release(t->loop);
    pp_loop_close(t->loop);
    free(t);
    return 0;
}

/* Begins a request. Several requests may be in flight if the test gives each its own `r`. */
static inline void api_begin(struct api_run *t, struct pp_http_request *r, enum pp_method method,
                             const char *path, const char *body, size_t n)
{
    static char copies[4][4096];
    static unsigned turn;
    char *copy = copies[turn++ % 4], *query;

    snprintf(copy, sizeof(copies[0]), "%s", path);
    query = strchr(copy, '?');
    if (query)
        *query++ = '\0';
    *r = (struct pp_http_request){.method = method,
                                  .path = copy,
                                  .query = query ? query : "",
                                  .authorization = t->authorization,
                                  .content_type = t->content_type ? t->content_type
                                                  : n             ? "application/json"
                                                                  : NULL,
                                  .idempotency_key = t->key,
                                  .range = t->range,
                                  .if_range = t->if_range,
                                  .if_match = t->if_match,
                                  .request_id = t->request_id,
                                  .traceparent = t->traceparent,
                                  .if_none_match = t->if_none_match,
                                  .host = t->host,
                                  .origin = t->origin,
                                  .sec_fetch_site = t->sec_fetch_site,
                                  .peer = t->peer ? t->peer : "127.0.0.1",
                                  .websocket = t->websocket,
                                  .accept_encoding = t->accept_encoding,
                                  .accept_language = t->accept_language,
                                  .has_body = n > 0,
                                  .body = body ? body : "",
                                  .body_n = n};
    t->content_type = t->key = t->range = t->if_range = t->if_match = t->if_none_match = NULL;
    t->request_id = t->traceparent = NULL;
    const struct pp_http_handler *h = pp_api_handler(t->api);
    t->accept_encoding = t->accept_language = NULL;
    if (h->head(h->data, r))
        h->handle(h->data, r);
}

static inline bool api_replied(void *arg)
{
    return ((struct api_run *)arg)->server.replies > 0;
}

/* Sends one request and waits for its answer; returns the status. */
static inline int api_ask_n(struct api_run *t, enum pp_method method, const char *path, const char *body,
                            size_t n)
{
    t->server.replies = 0;
    api_begin(t, &t->request, method, path, body, n);
    pp_test_until(t->loop, api_replied, t, 20000);
    json_decref(t->json);
    t->json = json_loadb(t->server.body, t->server.body_n, JSON_REJECT_DUPLICATES, NULL);
    return t->server.status;
}

static inline int api_ask(struct api_run *t, enum pp_method method, const char *path, const char *body)
{
    return api_ask_n(t, method, path, body, body ? strlen(body) : 0);
}

static inline int api_get(struct api_run *t, const char *path)
{
    return api_ask(t, PP_GET, path, NULL);
}

/* Returns a member of the last answer, or "" if it is not a string. */
static inline const char *api_str(const struct api_run *t, const char *name)
{
    const char *s = json_string_value(json_object_get(t->json, name));
    return s ? s : "";
}

/* Checks that the last answer is a complete problem document. Returns the document's code. */
static inline const char *api_code(const struct api_run *t)
{
    char type[100];
    assert_string_equal(t->server.type, "application/problem+json");
    snprintf(type, sizeof(type), "urn:photopool:problem:%s", api_str(t, "code"));
    assert_string_equal(api_str(t, "type"), type);
    assert_true(api_str(t, "title")[0] && api_str(t, "detail")[0] && api_str(t, "remedy")[0]);
    assert_int_equal(json_integer_value(json_object_get(t->json, "status")), t->server.status);
    return api_str(t, "code");
}

static inline bool api_has_header(const struct api_run *t, const char *line)
{
    return strstr(t->server.headers, line) != NULL;
}

/* Returns the value at a path like "a.b.0.c" in the last answer. */
static inline const json_t *api_at(const struct api_run *t, const char *path)
{
    const json_t *v = t->json;
    char part[64];

    while (v && *path) {
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof(part), "%.*s", (int)n, path);
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(part)) : json_object_get(v, part);
        path += n + (path[n] == '.');
    }
    return v;
}

static inline long long api_int(const struct api_run *t, const char *path)
{
    const json_t *v = api_at(t, path);
    assert_true(json_is_number(v));
    return (long long)json_number_value(v);
}

#endif
