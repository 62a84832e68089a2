/* Tests the whole API except /v1/batches, over fake ports: routing, keys, clients, photos and the
 * endpoints of operators. */
#include <openssl/sha.h>

#include "api/api.h"
#include "api_run.h"
#include "base/text.h"
#include "core/sniff.h"
#include "photopool/code.h"
#include "photopool/scope.h"

static char path[4000];

/* --- routing --- */

static void paths_and_methods(void **state)
{
    static const struct {
        enum pp_method method;
        const char *path;
        int status;
        const char *allow;
    } cases[] = {{PP_GET, "/nope", 404, ""},
                 {PP_GET, "/v1", 404, ""},
                 {PP_GET, "/v1/batches/", 404, ""},
                 {PP_GET, "/v1/batches//results", 404, ""},
                 {PP_GET, "/v1/breakers/", 404, ""},
                 {PP_GET, "/v1/clients/42/days", 404, ""},
                 {PP_OPTIONS, "/v1/batches", 405, "Allow: POST, GET, HEAD\n"},
                 {PP_PUT, "/v1/batches", 405, "Allow: POST, GET, HEAD\n"},
                 {PP_POST, "/v1/clients/42", 405, "Allow: GET, HEAD, PUT, PATCH\n"},
                 {PP_POST, "/healthz", 405, "Allow: GET, HEAD\n"},
                 {PP_GET, "/v1/workers/drain", 405, "Allow: POST\n"},
                 {PP_PUT, "/v1/events", 405, "Allow: GET, HEAD\n"},
                 {PP_GET, "/v1/tickets", 405, "Allow: POST\n"},
                 {PP_POST, "/v1/webhooks/shop", 405, "Allow: GET, HEAD, PUT, DELETE\n"},
                 {PP_METHOD_OTHER, "/v1/queue", 405, "Allow: GET, HEAD\n"}};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int status = api_ask(t, cases[i].method, cases[i].path, NULL);
        if (status != cases[i].status)
            fail_msg("%s: %d", cases[i].path, status);
        assert_string_equal(api_code(t), status == 404 ? "not_found" : "method_not_allowed");
        assert_string_equal(t->server.headers, cases[i].allow);
    }
    assert_int_equal(api_ask(t, PP_HEAD, "/healthz", NULL), 200);
}

static void without_the_api_role(void **state)
{
    struct api_run *t = *state;
    api_restart(t, PP_ROLE_WORKER);
    assert_int_equal(api_get(t, "/v1/batches"), 404);
    assert_int_equal(api_get(t, "/healthz"), 200);
    assert_int_equal(api_get(t, "/metrics"), 200);
    assert_int_equal(api_get(t, "/openapi.json"), 200);
}

static void unknown_parameters(void **state)
{
    static const char *const cases[] = {"/healthz?x=1", "/v1/queue?limit=1", "/v1/errors?Limit=1",
                                        "/v1/batches?limit%20=1", "/v1/routes?limit=%00"};
    struct api_run *t = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(api_get(t, cases[i]), 400);
        assert_string_equal(api_code(t), "bad_parameter");
    }
}

/* --- API keys --- */

static struct pp_api_key key(const char *name, const char *text, unsigned scopes, const char *client)
{
    struct pp_api_key k = {.scopes = scopes};
    snprintf(k.name, sizeof(k.name), "%s", name);
    snprintf(k.client, sizeof(k.client), "%s", client);
    SHA256((const unsigned char *)text, strlen(text), k.sha256);
    return k;
}

#define ONE "{\"client\":\"42\",\"items\":[{\"id\":\"a\",\"photos\":[]}]}"
#define ID  "b_0000000010000000000aa"

static void use_keys(struct api_run *t, struct pp_api_key keys[6])
{
    keys[0] = key("s", "submitter", PP_SCOPE_SUBMIT, "");
    keys[1] = key("r", "reader", PP_SCOPE_READ, "");
    keys[2] = key("a", "administrator", PP_SCOPE_ADMIN, "");
    keys[3] = key("42", "bound", PP_SCOPE_SUBMIT | PP_SCOPE_READ, "42");
    keys[4] = key("42a", "boundadmin", PP_SCOPE_ADMIN, "42");
    keys[5] = key("43", "other", PP_SCOPE_SUBMIT | PP_SCOPE_READ, "43");
    t->params.keys = keys;
    t->params.n_keys = 6;
}

static void scopes(void **state)
{
    static const char *const names[] = {
        NULL,           "Bearer submitter",  "Bearer reader", "Bearer administrator",
        "Bearer bound", "Bearer boundadmin", "Bearer other"};
    static const struct {
        enum pp_method method;
        const char *path, *body;
        int status[7]; /* status of the answer for each key, in the order of `names` */
    } cases[] = {
        {PP_POST, "/v1/batches", ONE, {401, 202, 403, 403, 202, 403, 404}},
        {PP_GET, "/v1/batches", NULL, {401, 403, 200, 403, 200, 403, 200}},
        {PP_GET, "/v1/batches?client=42", NULL, {401, 403, 200, 403, 200, 403, 404}},
        {PP_GET, "/v1/batches/" ID, NULL, {401, 403, 200, 403, 200, 403, 404}},
        {PP_GET, "/v1/batches/" ID "/results", NULL, {401, 403, 200, 403, 200, 403, 404}},
        {PP_DELETE, "/v1/batches/" ID, NULL, {401, 200, 403, 403, 200, 403, 404}},
        {PP_GET, "/v1/batches/" ID "/rejected", NULL, {401, 403, 200, 403, 200, 403, 404}},
        {PP_POST, "/v1/batches/" ID "/replay", NULL, {401, 200, 403, 403, 200, 403, 404}},
        {PP_GET, "/v1/clients", NULL, {401, 403, 200, 403, 200, 403, 200}},
        {PP_GET, "/v1/clients/42", NULL, {401, 403, 200, 403, 200, 403, 404}},
        {PP_PUT, "/v1/clients/42", "{}", {401, 403, 403, 200, 403, 200, 403}},
        {PP_PUT, "/v1/clients/43", "{}", {401, 403, 403, 200, 403, 404, 403}},
        {PP_PATCH, "/v1/clients/42", "{}", {401, 403, 403, 200, 403, 200, 403}},
        {PP_PATCH, "/v1/clients/43", "{}", {401, 403, 403, 200, 403, 404, 403}},
        {PP_DELETE, "/v1/ladder", NULL, {401, 403, 403, 200, 403, 200, 403}},
        {PP_DELETE, "/v1/ladder?client=43", NULL, {401, 403, 403, 200, 403, 404, 403}},
        {PP_GET, "/v1/routes", NULL, {401, 403, 200, 403, 200, 403, 200}},
        {PP_GET, "/v1/explain?client=42&url=u", NULL, {401, 403, 200, 403, 200, 403, 404}},
        {PP_GET, "/v1/photos?client=42&url=http%3A%2F%2Fu", NULL, {401, 403, 200, 403, 200, 403, 404}},
        {PP_GET, "/v1/workers", NULL, {401, 403, 200, 403, 403, 403, 403}},
        {PP_POST, "/v1/workers/drain", "{\"worker\":null}", {401, 403, 403, 202, 403, 403, 403}},
        {PP_GET, "/v1/hosts", NULL, {401, 403, 200, 403, 403, 403, 403}},
        {PP_GET, "/v1/hosts/x.example", NULL, {401, 403, 404, 403, 403, 403, 403}},
        {PP_GET, "/v1/breakers", NULL, {401, 403, 200, 403, 403, 403, 403}},
        {PP_POST, "/v1/breakers/x.example", "{\"action\":\"auto\"}", {401, 403, 403, 200, 403, 403, 403}},
        {PP_GET, "/v1/queue", NULL, {401, 403, 200, 403, 403, 403, 403}},
        {PP_GET, "/v1/config", NULL, {401, 403, 403, 200, 403, 403, 403}},
        {PP_GET, "/v1/errors", NULL, {401, 200, 200, 200, 200, 200, 200}},
        {PP_GET, "/metrics", NULL, {401, 403, 200, 403, 403, 403, 403}},
        {PP_GET, "/healthz", NULL, {200, 200, 200, 200, 200, 200, 200}},
        {PP_GET, "/openapi.json", NULL, {200, 200, 200, 200, 200, 200, 200}},
        {PP_GET, "/asyncapi.json", NULL, {200, 200, 200, 200, 200, 200, 200}},
        {PP_GET, "/nope", NULL, {404, 404, 404, 404, 404, 404, 404}},
    };
    struct api_run *t = *state;
    struct pp_api_key keys[6];

    use_keys(t, keys);
    t->store.batches[t->store.n_batches++] = (struct pp_batch){.id = ID, .client = "42"};
    t->store.photo.named = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        for (size_t k = 0; k < 7; k++) {
            t->authorization = names[k];
            int status = api_ask(t, cases[i].method, cases[i].path, cases[i].body);
            if (status != cases[i].status[k])
                fail_msg("%s with %s: %d %s", cases[i].path, names[k] ? names[k] : "none", status,
                         t->server.body);
            if (status == 401)
                assert_true(api_has_header(t, "WWW-Authenticate: Bearer"));
        }
    }
    t->authorization = NULL;
    t->params.metrics_public = true;
    assert_int_equal(api_get(t, "/metrics"), 200);
}

static void unknown_and_malformed_keys(void **state)
{
    static const char *const bad[] = {
        "",         "Bearer", "Bearer ", "bearer nope", "Basic eDp5", "Bearer submitterx", "Bearer submitte",
        "submitter"};
    struct api_run *t = *state;
    struct pp_api_key keys[6];

    use_keys(t, keys);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        t->authorization = bad[i];
        assert_int_equal(api_get(t, "/v1/errors"), 401);
        assert_string_equal(api_code(t), "unauthorized");
    }
    /* HTTP does not distinguish upper and lower case in the name of the scheme */
    t->authorization = "bEARER  submitter";
    assert_int_equal(api_get(t, "/v1/errors"), 200);
    t->authorization = NULL;
}

/* The API judges a request with a body by its head, before the server reads the body. */
static void heads_are_judged(void **state)
{
    static const struct {
        const char *path, *authorization, *type, *key;
        int status;
    } cases[] = {
        {"/v1/batches", NULL, "application/json", NULL, 401},
        {"/v1/batches", "Bearer reader", "application/json", NULL, 403},
        {"/v1/batches?x=1", "Bearer submitter", "application/json", NULL, 400},
        {"/v1/batches", "Bearer submitter", "text/plain", NULL, 415},
        {"/v1/batches", "Bearer submitter", NULL, NULL, 415},
        {"/v1/batches", "Bearer submitter", "application/json", "a b", 400},
        {"/v1/batches/x/replay", "Bearer submitter", "text/plain", NULL, 415},
        {"/v1/nothing", "Bearer submitter", "application/json", NULL, 404},
    };
    struct api_run *t = *state;
    const struct pp_http_handler *h = pp_api_handler(t->api);
    struct pp_api_key keys[6];

    use_keys(t, keys);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char target[64];
        snprintf(target, sizeof(target), "%s", cases[i].path);
        char *query = strchr(target, '?');
        if (query)
            *query++ = '\0';
        struct pp_http_request r = {.method = PP_POST,
                                    .path = target,
                                    .query = query ? query : "",
                                    .authorization = cases[i].authorization,
                                    .content_type = cases[i].type,
                                    .idempotency_key = cases[i].key,
                                    .has_body = true};
        t->server.replies = 0;
        assert_false(h->head(h->data, &r));
        assert_int_equal(t->server.replies, 1);
        assert_int_equal(t->server.status, cases[i].status);
    }
    /* A good head waits for its body, which may never arrive. */
    struct pp_http_request r = {.method = PP_POST,
                                .path = "/v1/batches",
                                .query = "",
                                .authorization = "Bearer submitter",
                                .content_type = "application/json; charset=utf-8",
                                .has_body = true};
    t->server.replies = 0;
    assert_true(h->head(h->data, &r));
    assert_true(pp_api_idle(t->api));
    h->dropped(h->data, &r);
    assert_int_equal(t->server.replies, 0);
}

/* On a connection that the server keeps for supervisors, only their requests are answered. */
static void places_for_supervisors(void **state)
{
    static const struct {
        const char *path;
        int status;
    } cases[] = {{"/healthz", 200}, {"/metrics", 200}, {"/v1/errors", 503}, {"/openapi.json", 503}};
    struct api_run *t = *state;
    const struct pp_http_handler *h = pp_api_handler(t->api);

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_http_request r = {.method = PP_GET,
                                    .path = cases[i].path,
                                    .query = "",
                                    .peer = "192.0.2.1",
                                    .body = "",
                                    .spare = true};
        t->server.replies = 0;
        if (h->head(h->data, &r))
            h->handle(h->data, &r);
        pp_test_until(t->loop, api_replied, t, 5000);
        if (t->server.status != cases[i].status)
            fail_msg("%s: %d", cases[i].path, t->server.status);
    }
}

/* With the key of one client, the API lists the data of that client only. */
static void bound_keys_see_their_own(void **state)
{
    struct api_run *t = *state;
    struct pp_api_key keys[6];

    use_keys(t, keys);
    t->store.batches[t->store.n_batches++] = (struct pp_batch){.id = ID, .client = "42"};
    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "42"};
    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "43"};
    t->store.routes[t->store.n_routes++] = (struct pp_route_row){.client = "42", .domain = "x.example"};
    t->authorization = "Bearer other";
    assert_int_equal(api_get(t, "/v1/batches"), 200);
    assert_int_equal(json_array_size(api_at(t, "batches")), 0);
    assert_int_equal(api_get(t, "/v1/clients"), 200);
    assert_int_equal(json_array_size(api_at(t, "clients")), 1);
    assert_string_equal(json_string_value(api_at(t, "clients.0.client")), "43");
    assert_int_equal(api_get(t, "/v1/routes"), 200);
    assert_int_equal(json_array_size(api_at(t, "routes")), 0);
    t->authorization = "Bearer bound";
    assert_int_equal(api_get(t, "/v1/batches"), 200);
    assert_int_equal(json_array_size(api_at(t, "batches")), 1);
    t->authorization = NULL;
}

/* --- web pages --- */

/* Without keys, a page whose name turns to 127.0.0.1 (DNS rebinding) reads and writes nothing. */
static void foreign_hosts_are_refused(void **state)
{
    static const char *const names[] = {"photos.example"};
    struct api_run *t = *state;
    struct pp_api_key keys[6];

    t->host = "evil.example:8080";
    t->origin = "http://evil.example:8080";
    assert_int_equal(api_get(t, "/v1/batches"), 403);
    assert_string_equal(api_code(t), "forbidden");
    assert_non_null(strstr(api_str(t, "detail"), "evil.example:8080"));
    assert_non_null(strstr(api_str(t, "remedy"), "http.hosts"));
    assert_int_equal(api_ask(t, PP_PUT, "/v1/clients/42", "{}"), 403);
    assert_int_equal(api_get(t, "/nope"), 403);
    t->host = "localhost:8080";
    t->origin = "http://localhost:8080";
    assert_int_equal(api_ask(t, PP_PUT, "/v1/clients/42", "{}"), 200);
    t->host = "Photos.example";
    t->origin = NULL;
    assert_int_equal(api_get(t, "/v1/batches"), 403);
    t->params.hosts = names;
    t->params.n_hosts = 1;
    assert_int_equal(api_get(t, "/v1/batches"), 200);
    /* With keys, a page needs a key. */
    use_keys(t, keys);
    t->authorization = "Bearer reader";
    t->host = "evil.example:8080";
    assert_int_equal(api_get(t, "/v1/batches"), 200);
    t->authorization = NULL;
    assert_int_equal(api_get(t, "/v1/batches"), 401);
}

/* Without keys, a page of another site changes nothing, also by a POST without a body. */
static void cross_site_requests_are_refused(void **state)
{
    struct api_run *t = *state;

    t->host = "127.0.0.1:8080";
    for (int i = 0; i < 4; i++) {
        t->origin = i == 0 ? "http://evil.example" : i == 1 ? "null" : NULL;
        t->sec_fetch_site = i == 2 ? "cross-site" : i == 3 ? "same-site" : NULL;
        assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID "/replay", NULL), 403);
        assert_string_equal(api_code(t), "forbidden");
        assert_int_equal(api_ask(t, PP_DELETE, "/v1/batches/" ID, NULL), 403);
        assert_int_equal(api_get(t, "/v1/batches"), 200); /* The browser shows the answer to no page. */
        t->websocket = true;
        assert_int_equal(api_get(t, "/v1/events?key=results"), 403);
        t->websocket = false;
    }
    t->sec_fetch_site = "same-origin";
    t->origin = "http://127.0.0.1:8080";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID "/replay", NULL), 404);
}

/* Valid ids of a caller are repeated in the answer, and are in the log. */
static void requests_are_traced(void **state)
{
#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    struct api_run *t = *state;
    FILE *f = tmpfile();
    char text[4000];

    t->options.log = pp_log_open(fileno(f), PP_LOG_INFO, false, 0);
    t->params.access_log = true;
    api_restart(t, PP_ROLE_API);
    t->request_id = "abc-1";
    t->traceparent = TRACE;
    assert_int_equal(api_ask(t, PP_PATCH, "/v1/clients/42", "{\"rpm\":9}"), 200);
    assert_true(api_has_header(t, "X-Request-Id: abc-1\n"));
    assert_true(api_has_header(t, "traceparent: " TRACE "\n"));
    t->request_id = "a b";
    t->traceparent = "00-1-2-01";
    assert_int_equal(api_get(t, "/v1/errors?limit=1"), 200);
    assert_string_equal(t->server.headers, "Vary: Accept-Language\n");
    t->params.access_log = false;
    assert_int_equal(api_get(t, "/v1/workers"), 200);
    rewind(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    assert_non_null(
        strstr(text, " info client changed client=42 changed=rpm key=- request=abc-1 trace=" TRACE "\n"));
    assert_non_null(strstr(text, " info request method=PATCH path=/v1/clients/42 status=200 bytes="));
    assert_non_null(strstr(text, " peer=127.0.0.1 request=abc-1 trace=" TRACE "\n"));
    assert_non_null(strstr(text, "path=/v1/errors status=200"));
    assert_null(strstr(text, "a b"));
    assert_null(strstr(text, "workers"));
    api_stop(t);
    pp_log_close(t->options.log);
    fclose(f);
    t->options.log = NULL;
    t->api = pp_api_open(&t->options);
}

/* /metrics counts answers by endpoint and class of status. */
static void answers_are_timed(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(api_get(t, "/v1/workers"), 200);
    assert_int_equal(api_get(t, "/v1/workers"), 200);
    assert_int_equal(api_get(t, "/v1/workers?x=1"), 400);
    assert_int_equal(api_get(t, "/metrics"), 200);
    assert_non_null(
        strstr(t->server.body,
               "\nphotopool_http_request_seconds_count{route=\"GET /v1/workers\",status=\"2xx\"} 2\n"));
    assert_non_null(strstr(t->server.body, "\nphotopool_http_request_seconds_bucket{route=\"GET "
                                           "/v1/workers\",status=\"4xx\",le=\"0.001\"} 1\n"));
    assert_non_null(strstr(t->server.body, "\nphotopool_build_info{version=\""));
}

static void configuration_is_listed(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(api_get(t, "/v1/config?limit=2"), 200);
    assert_string_equal(json_string_value(api_at(t, "parameters.1.name")), "a.b");
    char next[300];
    snprintf(next, sizeof(next), "/v1/config?after=%s", api_str(t, "next"));
    assert_int_equal(api_get(t, next), 200);
    assert_string_equal(t->server.body, "{\"parameters\":[{\"name\":\"a.c\"}],\"next\":null}");
    api_restart(t, PP_ROLE_WORKER); /* every process shows its own */
    assert_int_equal(api_get(t, "/v1/config"), 200);
}

static void lists_in_pages(void **state)
{
    static char ids[7][16];
    struct api_run *t = *state;

    for (int i = 0; i < 7; i++) {
        snprintf(ids[i], sizeof(ids[i]), "c%d", i);
        t->store.clients[t->store.n_clients++] = (struct pp_client){.id = ids[i]};
        t->store.routes[t->store.n_routes++] = (struct pp_route_row){.client = i < 4 ? "1" : "2",
                                                                     .domain = ids[i],
                                                                     .tier_ms = 5000,
                                                                     .weight_sum = 2,
                                                                     .value_sum = 900,
                                                                     .samples = 12,
                                                                     .updated_at = 1000};
        t->coordinator.workers[t->coordinator.n++] = (struct pp_worker_info){.id = ids[i],
                                                                             .host = "h",
                                                                             .pid = 7,
                                                                             .tiers = "all",
                                                                             .capacity = 768,
                                                                             .weight = 2,
                                                                             .seen_at = 1,
                                                                             .started_at = 1};
    }
    static const struct {
        const char *name, *member;
    } lists[] = {{"clients", "client"}, {"routes", "domain"}, {"workers", "id"}};
    for (size_t l = 0; l < 3; l++) {
        size_t seen = 0;
        snprintf(path, sizeof(path), "/v1/%s?limit=3", lists[l].name);
        for (int pages = 0; pages < 3; pages++) {
            char at[64];
            assert_int_equal(api_get(t, path), 200);
            const json_t *list = json_object_get(t->json, lists[l].name);
            for (size_t i = 0; i < json_array_size(list); i++) {
                snprintf(at, sizeof(at), "%s.%zu.%s", lists[l].name, i, lists[l].member);
                assert_string_equal(json_string_value(api_at(t, at)), ids[seen++]);
            }
            assert_int_equal(json_is_null(api_at(t, "next")), pages == 2);
            snprintf(path, sizeof(path), "/v1/%s?limit=3&after=%s", lists[l].name, api_str(t, "next"));
        }
        assert_int_equal(seen, 7);
    }
    assert_int_equal(api_get(t, "/v1/routes?client=2&domain=c5"), 200);
    assert_int_equal(json_array_size(api_at(t, "routes")), 1);
    assert_int_equal(api_int(t, "routes.0.tier"), 5);
    assert_int_equal(api_int(t, "routes.0.mean_ms"), 450);
}

/* --- photos --- */

static const char bytes[] = "0123456789abcdef";
static char photo_path[100], etag[100];

static void give_photo(struct api_run *t)
{
    char hex[65];

    t->store.object = (struct pp_object){.bytes = 16, .type = PP_IMAGE_PNG};
    t->store.object_client = "42";
    SHA256((const unsigned char *)bytes, 16, t->store.object.sha256);
    t->blobs.bytes = bytes;
    t->blobs.n = 16;
    pp_hex(hex, t->store.object.sha256, 32);
    snprintf(photo_path, sizeof(photo_path), "/v1/photos/%s", hex);
    snprintf(etag, sizeof(etag), "\"%s\"", hex);
}

static void photo_bytes(void **state)
{
    struct api_run *t = *state;

    give_photo(t);
    for (t->blobs.chunk = 0; t->blobs.chunk < 8; t->blobs.chunk += 7) {
        assert_int_equal(api_get(t, photo_path), 200);
        assert_string_equal(t->server.type, "image/png");
        assert_int_equal(t->server.body_n, 16);
        assert_memory_equal(t->server.body, bytes, 16);
        assert_true(api_has_header(t, "Cache-Control: public, max-age=31536000, immutable\n"));
        assert_true(api_has_header(t, "Accept-Ranges: bytes\n"));
        assert_true(api_has_header(t, etag));
    }
    assert_int_equal(api_get(t, "/v1/photos/00"), 404);
    assert_int_equal(api_get(t, "/v1/photos/xyz"), 404);
    photo_path[11] = photo_path[11] == '0' ? '1' : '0';
    assert_int_equal(api_get(t, photo_path), 404);
}

/* A large photo is read in pieces. After the answer has begun, a failure ends the connection; a
 * caller for which there is no memory is refused before a piece is read. */
static void photo_in_pieces(void **state)
{
    enum { SIZE = 700000 };
    struct api_run *t = *state;
    struct pp_account *answers = &t->ledger.rows[PP_RES_ANSWERS];
    char *large = malloc(SIZE);

    give_photo(t);
    for (size_t i = 0; i < SIZE; i++)
        large[i] = (char)(i % 251);
    t->store.object.bytes = t->blobs.n = SIZE;
    t->blobs.bytes = large;
    for (t->blobs.chunk = 0; t->blobs.chunk <= 100000; t->blobs.chunk += 100000) {
        assert_int_equal(api_get(t, photo_path), 200);
        assert_int_equal(t->server.body_n, SIZE);
        assert_memory_equal(t->server.body, large, SIZE);
    }
    t->range = "bytes=5-600004";
    assert_int_equal(api_get(t, photo_path), 206);
    assert_int_equal(t->server.body_at, 600000);
    assert_memory_equal(t->server.body, large + 5, 600000);
    t->blobs.n = 300000; /* the stored object is cut */
    assert_int_equal(api_get(t, photo_path), 200);
    assert_int_equal(t->server.body_at, PP_HTTP_PIECE_MAX);
    assert_int_equal(answers->used, 0);
    answers->limit = PP_HTTP_PIECE_MAX - 1;
    assert_int_equal(api_get(t, photo_path), 503);
    assert_string_equal(api_code(t), "overloaded");
    answers->limit = PP_NO_LIMIT;
    free(large);
}

/* With keys, a cache that several callers share must not keep a photo. */
static void photos_are_private_with_keys(void **state)
{
    struct api_run *t = *state;
    struct pp_api_key keys[6];

    use_keys(t, keys);
    give_photo(t);
    t->authorization = "Bearer reader";
    assert_int_equal(api_get(t, photo_path), 200);
    assert_true(api_has_header(t, "Cache-Control: private, max-age=31536000, immutable\n"));
    t->authorization = NULL;
}

static void photo_not_modified(void **state)
{
    struct api_run *t = *state;
    char list[200];

    give_photo(t);
    snprintf(list, sizeof(list), "\"abc\", W/%s", etag);
    const char *const same[] = {etag, "*", list}, *const other[] = {"\"abc\"", "W/\"0\"", ""};
    for (size_t i = 0; i < 3; i++) {
        t->if_none_match = same[i];
        assert_int_equal(api_get(t, photo_path), 304);
        assert_int_equal(t->server.body_n, 0);
        assert_true(api_has_header(t, etag));
        t->if_none_match = other[i];
        assert_int_equal(api_get(t, photo_path), 200);
    }
}

static void photo_ranges(void **state)
{
    static const struct {
        const char *range;
        int status;
        const char *body, *content_range;
    } cases[] = {
        {"bytes=0-3", 206, "0123", "Content-Range: bytes 0-3/16\n"},
        {"bytes=4-", 206, "456789abcdef", "Content-Range: bytes 4-15/16\n"},
        {"bytes=-2", 206, "ef", "Content-Range: bytes 14-15/16\n"},
        {"bytes=-100", 206, bytes, "Content-Range: bytes 0-15/16\n"},
        {"bytes=15-99", 206, "f", "Content-Range: bytes 15-15/16\n"},
        {"bytes=0-0", 206, "0", "Content-Range: bytes 0-0/16\n"},
        {"bytes=16-", 416, NULL, "Content-Range: bytes */16\n"},
        {"bytes=99-100", 416, NULL, "Content-Range: bytes */16\n"},
        {"bytes=-0", 416, NULL, "Content-Range: bytes */16\n"},
        {"bytes=3-2", 200, bytes, ""},
        {"bytes=0-1,3-4", 200, bytes, ""},
        {"bytes=", 200, bytes, ""},
        {"bytes=-", 200, bytes, ""},
        {"bytes=a-b", 200, bytes, ""},
        {"items=0-1", 200, bytes, ""},
        {"bytes=99999999999999999999-", 200, bytes, ""},
    };
    struct api_run *t = *state;

    give_photo(t);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->range = cases[i].range;
        int status = api_get(t, photo_path);
        if (status != cases[i].status)
            fail_msg("%s: %d", cases[i].range, status);
        if (status == 416)
            assert_string_equal(api_code(t), "range_not_satisfiable");
        else
            assert_string_equal(t->server.body, cases[i].body);
        if (cases[i].content_range[0])
            assert_true(api_has_header(t, cases[i].content_range));
        else
            assert_false(api_has_header(t, "Content-Range"));
    }
}

static void photo_range_of_other_bytes(void **state)
{
    struct api_run *t = *state;
    char strong[100], weak[110];

    give_photo(t);
    snprintf(strong, sizeof(strong), "\"%s\"", photo_path + strlen("/v1/photos/"));
    snprintf(weak, sizeof(weak), "W/%s", strong);
    const char *const tags[] = {strong, weak, "\"abc\"", "Sat, 21 Nov 2026 10:00:00 GMT", ""};
    for (size_t i = 0; i < sizeof(tags) / sizeof(*tags); i++) {
        t->range = "bytes=0-3";
        t->if_range = tags[i];
        assert_int_equal(api_get(t, photo_path), i == 0 ? 206 : 200);
        assert_string_equal(t->server.body, i == 0 ? "0123" : bytes);
    }
}

static void photo_head_and_failures(void **state)
{
    struct api_run *t = *state;

    give_photo(t);
    /* HEAD does not read the blob store, so the store's error has no effect. */
    t->blobs.err = PP_EIO;
    assert_int_equal(api_ask(t, PP_HEAD, photo_path, NULL), 200);
    assert_int_equal(t->server.body_n, 16);
    assert_int_equal(api_get(t, photo_path), 503);
    assert_string_equal(api_code(t), "unavailable");
    /* The record says that the blob exists, so its absence is an error of the server, not of the
     * caller. */
    t->blobs.err = PP_ENOTFOUND;
    assert_int_equal(api_get(t, photo_path), 500);
    assert_true(pp_api_idle(t->api) || t->ingest.back.n + t->store.back.n > 0);
}

static void photos_of_others(void **state)
{
    struct api_run *t = *state;
    struct pp_api_key keys[6];

    give_photo(t);
    use_keys(t, keys);
    t->authorization = "Bearer other";
    assert_int_equal(api_get(t, photo_path), 404);
    t->authorization = "Bearer bound";
    assert_int_equal(api_get(t, photo_path), 200);
    t->authorization = NULL;
}

/* --- operators --- */

static void queue(void **state)
{
    struct api_run *t = *state;
    int64_t now = pp_loop_wall(t->loop), date = pp_loop_date(t->loop);

    t->ingest.stats = (struct pp_ingest_stats){.entries = 2, .photos = 30, .oldest_ms = date - 4000};
    t->store.queue.counts[1] = (struct pp_queue_count){.photos = 7, .oldest_ms = now - 60000};
    t->store.queue.counts[PP_QUEUE_SUSPECT] = (struct pp_queue_count){.photos = 1};
    t->store.queue.claimed = 5;
    assert_int_equal(api_get(t, "/v1/queue"), 200);
    assert_int_equal(api_int(t, "ingest.photos"), 30);
    assert_int_equal(api_int(t, "ingest.oldest_seconds"), 4);
    assert_int_equal(json_array_size(api_at(t, "open")), 4);
    assert_int_equal(api_int(t, "open.1.tier"), 5);
    assert_int_equal(api_int(t, "open.1.photos"), 7);
    assert_int_equal(api_int(t, "open.1.oldest_seconds"), 60);
    assert_true(json_is_true(api_at(t, "open.3.suspect")));
    assert_int_equal(api_int(t, "claimed"), 5);
    assert_int_equal(json_array_size(api_at(t, "outbox")), 0);
    /* For a second all callers get this answer, and nothing is counted. */
    t->ingest.stats.photos = 31;
    pp_test_clock_pass(t->loop, 999);
    assert_int_equal(api_get(t, "/v1/queue"), 200);
    assert_int_equal(api_int(t, "ingest.photos"), 30);
    pp_test_clock_pass(t->loop, 1);
    assert_int_equal(api_get(t, "/v1/queue"), 200);
    assert_int_equal(api_int(t, "ingest.photos"), 31);
    pp_test_clock_pass(t->loop, 1000);
    t->store.err = PP_ETIMEOUT;
    assert_int_equal(api_get(t, "/v1/queue"), 503);
}

static void drain(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(api_ask(t, PP_POST, "/v1/workers/drain", "{\"worker\":\"w-1\"}"), 202);
    assert_string_equal(t->coordinator.drained, "w-1");
    assert_int_equal(api_ask(t, PP_POST, "/v1/workers/drain", "{\"worker\":null}"), 202);
    assert_string_equal(t->coordinator.drained, "*");
    assert_int_equal(api_ask(t, PP_POST, "/v1/workers/drain", "{\"worker\":\"nobody\"}"), 404);
    assert_int_equal(api_ask(t, PP_POST, "/v1/workers/drain", "{}"), 400);
    assert_int_equal(api_ask(t, PP_POST, "/v1/workers/drain", "{\"worker\":1}"), 400);
    assert_int_equal(api_ask(t, PP_POST, "/v1/workers/drain", "{\"who\":null}"), 400);
}

static void table_of_codes(void **state)
{
    struct api_run *t = *state;
    size_t i, found = 0;
    json_t *row;

    assert_int_equal(api_get(t, "/v1/errors"), 200);
    assert_true(api_has_header(t, "Vary: Accept-Language\n"));
    json_array_foreach(json_object_get(t->json, "errors"), i, row)
    {
        const char *code = json_string_value(json_object_get(row, "code"));
        assert_true(strlen(json_string_value(json_object_get(row, "message"))) > 10);
        found += strcmp(code, "http_404") == 0 || strcmp(code, "body_timeout") == 0 ||
                 strcmp(code, "http_5xx") == 0;
        if (!strstr(code, "xx"))
            assert_true(pp_code_parse(code, strlen(code)) != 0);
    }
    assert_int_equal(found, 3);
    assert_true(i >= PP_CODE_COUNT - 1);
    assert_true(json_array_size(api_at(t, "requests")) == PP_API_CODE_COUNT);
}

static void messages_in_a_language(void **state)
{
    static const struct {
        const char *accept;
        bool russian;
    } cases[] = {{NULL, false},
                 {"ru", true},
                 {"RU-ru, en;q=0.5", true},
                 {"de", false},
                 {"", false},
                 {"en, ru", false},
                 {"ru;q=0", false},
                 {"de, ru;q=0.1", true},
                 {"en;q=0.2, ru;q=0.3", true},
                 {"russian", false}};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->accept_language = cases[i].accept;
        assert_int_equal(api_get(t, "/v1/errors?limit=1"), 200);
        const json_t *row = json_array_get(json_object_get(t->json, "errors"), 0);
        assert_string_equal(
            json_string_value(json_object_get(row, "message")),
            pp_code_info(PP_CODE_DNS_NOT_FOUND)->message[cases[i].russian ? PP_RUSSIAN : PP_ENGLISH]);
    }
}

/* --- metrics --- */

static void metrics(void **state)
{
    struct api_run *t = *state;

    t->metrics.batches_accepted = 3;
    assert_int_equal(api_get(t, "/metrics"), 200);
    assert_string_equal(t->server.type, "text/plain; version=0.0.4; charset=utf-8");
    assert_non_null(strstr(t->server.body, "\nphotopool_batches_total{outcome=\"accepted\"} 3\n"));
    assert_non_null(strstr(t->server.body, "\nphotopool_store_roundtrips_total{op=\"claim\"} 7\n"));
    assert_non_null(strstr(t->server.body, "\n# TYPE photopool_http_requests_total counter\n"));
    assert_non_null(strstr(t->server.body, "\n# TYPE process_open_fds gauge\nprocess_open_fds "));
    assert_non_null(strstr(t->server.body, "\nprocess_max_fds "));
}

/* openapi.json must describe every endpoint of the API and no other, each with an example. */
static void openapi(void **state)
{
    static const struct {
        const char *path, *methods;
    } routes[] = {
        {"/v1/batches", "get post"},
        {"/v1/batches/{id}", "get delete"},
        {"/v1/batches/{id}/results", "get"},
        {"/v1/batches/{id}/rejected", "get"},
        {"/v1/batches/{id}/replay", "post"},
        {"/v1/items/{client}/{item}", "get"},
        {"/v1/photos", "get"},
        {"/v1/photos/{sha256}", "get"},
        {"/v1/clients", "get"},
        {"/v1/clients/{id}", "get put patch"},
        {"/v1/clients/{id}/stats", "get"},
        {"/v1/stats", "get"},
        {"/v1/routes", "get"},
        {"/v1/ladder", "delete"},
        {"/v1/workers", "get"},
        {"/v1/workers/drain", "post"},
        {"/v1/hosts", "get"},
        {"/v1/hosts/{host}", "get"},
        {"/v1/hosts/{host}/stats", "get"},
        {"/v1/breakers", "get"},
        {"/v1/breakers/{host}", "post"},
        {"/v1/events", "get"},
        {"/v1/tickets", "post"},
        {"/v1/webhooks", "get"},
        {"/v1/webhooks/{name}", "get put delete"},
        {"/v1/webhooks/{name}/test", "post"},
        {"/v1/webhooks/{name}/deliveries", "get"},
        {"/v1/webhooks/{name}/replay", "post"},
        {"/v1/explain", "get"},
        {"/v1/queue", "get"},
        {"/v1/config", "get"},
        {"/v1/counters", "get post"},
        {"/v1/counters/{key}", "delete"},
        {"/v1/counters/{key}/days", "get"},
        {"/v1/errors", "get"},
        {"/healthz", "get"},
        {"/readyz", "get"},
        {"/metrics", "get"},
        {"/v1/queue/set-aside", "get"},
        {"/v1/queue/set-aside/{id}", "post"},
        {"/v1/items", "get"},
        {"/v1/items/{client}/{item}/refresh", "post"},
        {"/openapi.json", "get"},
        {"/asyncapi.json", "get"},
        {"/", "get"},
        {"/ui/{file}", "get"},
        {"/ui/{folder}/{file}", "get"},
    };
    struct api_run *t = *state;
    const char *method, *status;
    json_t *op, *answer;

    assert_int_equal(api_get(t, "/openapi.json"), 200);
    assert_string_equal(t->server.type, "application/json");
    assert_non_null(t->json);
    json_t *paths = json_object_get(t->json, "paths");
    assert_int_equal(json_object_size(paths), sizeof(routes) / sizeof(*routes));
    for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
        json_t *at = json_object_get(paths, routes[i].path);
        assert_non_null(at);
        char methods[40] = "";
        json_object_foreach(at, method, op)
        {
            if (strcmp(method, "parameters") == 0)
                continue;
            strcat(methods, methods[0] ? " " : "");
            strcat(methods, method);
            size_t examples = 0;
            json_object_foreach(json_object_get(op, "responses"), status, answer)
            {
                char *text = json_dumps(answer, 0);
                examples += strstr(text, "\"example") != NULL || strcmp(status, "204") == 0;
                free(text);
            }
            if (examples == 0)
                fail_msg("%s %s has no example", method, routes[i].path);
            assert_true(json_is_string(json_object_get(op, "operationId")));
            assert_true(json_is_string(json_object_get(op, "summary")));
        }
        assert_string_equal(methods, routes[i].methods);
    }
}

static void dashboard(void **state)
{
    struct api_run *t = *state;
    assert_int_equal(api_get(t, "/"), 200);
    assert_string_equal(t->server.type, "text/html; charset=utf-8");
    assert_true(api_has_header(t, "Content-Security-Policy: default-src 'none'; script-src 'self';"));
    assert_true(api_has_header(t, "Cache-Control: no-cache"));
    assert_true(api_has_header(t, "Vary: Accept-Encoding"));
    assert_false(api_has_header(t, "Content-Encoding"));
    assert_non_null(strstr(t->server.body, "<title>photopool</title>"));
    assert_null(strstr(t->server.body, "<script>"));
    assert_null(strstr(t->server.body, " style="));
    assert_int_equal(api_get(t, "/ui/style.css"), 200);
    assert_string_equal(t->server.type, "text/css; charset=utf-8");
    assert_int_equal(api_get(t, "/ui/pages/hosts.js"), 200);
    assert_string_equal(t->server.type, "text/javascript; charset=utf-8");
    static const char *const absent[] = {"/ui/none.js", "/ui/pages/none.js", "/ui/pages", "/ui/..%2Fapi.h",
                                         "/ui/vendor%2Fx"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
        assert_int_equal(api_get(t, absent[i]), 404);
}

/* Returns the ETag of the last answer. */
static const char *etag_of(struct api_run *t, char tag[100])
{
    const char *at = strstr(t->server.headers, "ETag: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "ETag: %99[^\n]", tag), 1);
    return tag;
}

/* A file is sent packed to those who accept gzip, and not at all to those who have it. */
static void dashboard_packed(void **state)
{
    static const struct {
        const char *accept;
        bool packed;
    } cases[] = {{"gzip, deflate, br", true},
                 {"br;q=1, GZIP;q=0.5", true},
                 {"gzip;q=0, identity", false},
                 {"identity", false},
                 {"x-gzip, gzipped", false},
                 {"deflate,gzip", true},
                 {"", false},
                 {"gzip;q=0.0, deflate", false},
                 {"gzip ;q=1", true}};
    struct api_run *t = *state;
    char plain[100], packed[100];

    assert_int_equal(api_get(t, "/ui/main.js"), 200);
    size_t n = t->server.body_n;
    etag_of(t, plain);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->accept_encoding = cases[i].accept;
        assert_int_equal(api_get(t, "/ui/main.js"), 200);
        assert_int_equal(api_has_header(t, "Content-Encoding: gzip"), cases[i].packed);
        assert_int_equal(t->server.body_n < n, cases[i].packed);
        if (cases[i].packed)
            assert_string_not_equal(etag_of(t, packed), plain);
    }
    t->accept_encoding = "gzip";
    t->if_none_match = packed;
    assert_int_equal(api_get(t, "/ui/main.js"), 304);
    assert_int_equal(t->server.body_n, 0);
    assert_true(api_has_header(t, packed));
    t->if_none_match = packed;
    assert_int_equal(api_get(t, "/ui/main.js"), 200);
    t->if_none_match = plain;
    assert_int_equal(api_get(t, "/ui/style.css"), 200);
}

/* When the HTTP server refuses a request itself, it sends the same problem documents as the API.
 * Every code has its texts. */
static void problems_of_the_server(void **state)
{
    struct api_run *t = *state;
    const struct pp_http_handler *h = pp_api_handler(t->api);
    char buf[1000];

    for (int code = 0; code < PP_API_CODE_COUNT; code++) {
        size_t n = h->problem(h->data, (enum pp_api_code)code, "because", buf, sizeof(buf));
        json_t *json = json_loadb(buf, n, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(json);
        assert_string_equal(json_string_value(json_object_get(json, "detail")), "because");
        assert_true(json_integer_value(json_object_get(json, "status")) >= 400);
        assert_true(json_string_length(json_object_get(json, "title")) > 5);
        assert_int_equal(json_is_string(json_object_get(json, "instance")), code == PP_API_INTERNAL);
        json_decref(json);
    }
    assert_int_equal(h->problem(h->data, PP_API_BAD_REQUEST, NULL, buf, 20), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(paths_and_methods),
        TEST(without_the_api_role),
        TEST(unknown_parameters),
        TEST(scopes),
        TEST(unknown_and_malformed_keys),
        TEST(heads_are_judged),
        TEST(places_for_supervisors),
        TEST(bound_keys_see_their_own),
        TEST(foreign_hosts_are_refused),
        TEST(cross_site_requests_are_refused),
        TEST(requests_are_traced),
        TEST(answers_are_timed),
        TEST(configuration_is_listed),
        TEST(lists_in_pages),
        TEST(photo_bytes),
        TEST(photo_in_pieces),
        TEST(photos_are_private_with_keys),
        TEST(photo_not_modified),
        TEST(photo_ranges),
        TEST(photo_range_of_other_bytes),
        TEST(photo_head_and_failures),
        TEST(photos_of_others),
        TEST(queue),
        TEST(drain),
        TEST(table_of_codes),
        TEST(messages_in_a_language),
        TEST(metrics),
        TEST(openapi),
        TEST(dashboard),
        TEST(dashboard_packed),
        TEST(problems_of_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
