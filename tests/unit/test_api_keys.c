/* Tests who may ask the API what, over fake ports: API keys, and web pages of other sites. */
#include "api_keys.h"

#define ONE "{\"client\":\"42\",\"items\":[{\"id\":\"a\",\"photos\":[]}]}"

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

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(scopes),
        TEST(unknown_and_malformed_keys),
        TEST(heads_are_judged),
        TEST(places_for_supervisors),
        TEST(bound_keys_see_their_own),
        TEST(foreign_hosts_are_refused),
        TEST(cross_site_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
