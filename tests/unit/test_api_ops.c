/* Tests what the API has beside batches and photos, over fake ports: routing, lists, the
 * endpoints of operators, metrics, openapi.json and the dashboard. */
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
        {"/v1/items/{client}/{item}", "get delete"},
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
        TEST(requests_are_traced),
        TEST(answers_are_timed),
        TEST(configuration_is_listed),
        TEST(lists_in_pages),
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
