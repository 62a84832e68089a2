/* Tests the endpoints of clients' settings, over fake ports. */
#include "api_run.h"

static void client_settings(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(api_get(t, "/v1/clients/42"), 200);
    assert_string_equal(t->server.body, "{\"client\":\"42\",\"rpm\":600,\"concurrency\":16,\"weight\":1,"
                                        "\"paused\":false,\"headers\":{},"
                                        "\"defaults\":[\"rpm\",\"concurrency\",\"weight\"]}");
    assert_int_equal(api_ask(t, PP_PUT, "/v1/clients/42",
                             "{\"rpm\":null,\"concurrency\":3,\"weight\":2,\"paused\":true,\"client\":\"42\","
                             "\"headers\":{ \"User-Agent\" : \"x/1\" }}"),
                     200);
    assert_string_equal(t->server.body,
                        "{\"client\":\"42\",\"rpm\":null,\"concurrency\":3,\"weight\":2,"
                        "\"paused\":true,\"headers\":{\"User-Agent\":\"set\"},\"defaults\":[]}");
    assert_string_equal(t->store.put_headers, "{\"User-Agent\":\"x/1\"}");
    assert_string_equal(t->store.put_client, "42");
    /* PUT replaces the settings: an empty object sets all of them to their defaults. */
    assert_int_equal(api_ask(t, PP_PUT, "/v1/clients/42", "{}"), 200);
    assert_int_equal(api_int(t, "rpm"), 600);
    assert_int_equal(api_get(t, "/v1/clients/a%3Ab"), 400);
    assert_string_equal(api_code(t), "bad_client");
    t->params.client_rpm = 0;
    assert_int_equal(api_get(t, "/v1/clients/43"), 200);
    assert_true(json_is_null(api_at(t, "rpm")));
}

#define BOUND "{\"value\":\"Basic x\",\"hosts\":[\"img.shop.example\"]}"

/* The API stores the values of headers, but never shows them; a PUT with "set" keeps them. */
static void header_values_are_write_only(void **state)
{
    struct api_run *t = *state;

    t->store.clients[t->store.n_clients++] =
        (struct pp_client){.id = "42", .headers = "{\"Authorization\":" BOUND ",\"X-Key\":\"k1\"}"};
    assert_int_equal(api_get(t, "/v1/clients/42"), 200);
    assert_non_null(strstr(t->server.body, "\"headers\":{\"Authorization\":\"set\",\"X-Key\":\"set\"},"));
    assert_int_equal(api_get(t, "/v1/clients"), 200);
    assert_non_null(strstr(t->server.body, "\"headers\":{\"Authorization\":\"set\",\"X-Key\":\"set\"},"));
    assert_null(strstr(t->server.body, "Basic"));

    assert_int_equal(api_ask(t, PP_PUT, "/v1/clients/42",
                             "{\"headers\":{\"Authorization\":\"set\",\"X-New\":\"n\",\"X-Key\":\"k2\"}}"),
                     200);
    assert_string_equal(t->store.put_headers,
                        "{\"Authorization\":" BOUND ",\"X-New\":\"n\",\"X-Key\":\"k2\"}");
    assert_non_null(strstr(t->server.body, "\"Authorization\":\"set\",\"X-New\":\"set\",\"X-Key\":\"set\""));
    /* Without a new value, only the hosts change. */
    assert_int_equal(api_ask(t, PP_PUT, "/v1/clients/42",
                             "{\"headers\":{\"Authorization\":{\"value\":\"set\",\"hosts\":[\"b.example\"]},"
                             "\"X-Key\":{\"value\":\"set\",\"hosts\":[\"c.example\"]}}}"),
                     200);
    assert_string_equal(t->store.put_headers,
                        "{\"Authorization\":{\"value\":\"Basic x\",\"hosts\":[\"b.example\"]},"
                        "\"X-Key\":{\"value\":\"k1\",\"hosts\":[\"c.example\"]}}");
    assert_int_equal(api_ask(t, PP_PUT, "/v1/clients/42", "{\"headers\":{\"X-Other\":\"set\"}}"), 422);
    assert_string_equal(api_code(t), "bad_value");
    assert_string_equal(api_str(t, "field"), "headers.X-Other");
}

static void client_settings_refused(void **state)
{
    static const struct {
        const char *body;
        int status;
        const char *code, *field;
    } cases[] = {
        {"{\"rpm\":0}", 422, "bad_value", "rpm"},
        {"{\"rpm\":1000001}", 422, "bad_value", "rpm"},
        {"{\"rpm\":\"600\"}", 422, "bad_value", "rpm"},
        {"{\"rpm\":1.5}", 422, "bad_value", "rpm"},
        {"{\"concurrency\":0}", 422, "bad_value", "concurrency"},
        {"{\"concurrency\":null}", 422, "bad_value", "concurrency"},
        {"{\"weight\":-1}", 422, "bad_value", "weight"},
        {"{\"paused\":1}", 422, "bad_value", "paused"},
        {"{\"client\":\"43\"}", 422, "bad_value", "client"},
        {"{\"headers\":[]}", 422, "bad_value", "headers"},
        {"{\"headers\":{\"Host\":\"x\"}}", 422, "bad_value", "headers.Host"},
        {"{\"headers\":{\"X\":\"a\\r\\nb\"}}", 422, "bad_value", "headers.X"},
        {"{\"headers\":{\"X\":1}}", 422, "bad_value", "headers.X"},
        {"{\"headers\":{\"X\":{\"value\":\"v\",\"hosts\":[\"*.a\"]}}}", 422, "bad_value", "headers.X"},
        {"{\"defaults\":17}", 400, "bad_type", "defaults"},
        {"{\"defaults\":[\"rmp\"]}", 422, "bad_value", "defaults"},
        {"{\"reset\":[\"rpm\"]}", 400, "unknown_field", "reset"},
        {"{\"rmp\":1}", 400, "unknown_field", "rmp"},
        {"{\"rpm\":1,\"rpm\":2}", 400, "bad_json", ""},
        {"{\"rpm\":", 400, "bad_json", ""},
        {"", 415, "unsupported_media_type", ""},
        {"[]", 400, "bad_type", ""},
    };
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int status = api_ask(t, PP_PUT, "/v1/clients/42", cases[i].body);
        if (status != cases[i].status)
            fail_msg("%s: %d %s", cases[i].body, status, t->server.body);
        assert_string_equal(api_code(t), cases[i].code);
        assert_string_equal(api_str(t, "field"), cases[i].field);
    }
    char *big = malloc(70000);
    memset(big, ' ', 70000);
    assert_int_equal(api_ask_n(t, PP_PUT, "/v1/clients/42", big, 70000), 413);
    free(big);
    assert_int_equal(t->store.puts, 0);
}

/* PATCH changes what it names; what was never set stays the default. */
static void client_settings_patched(void **state)
{
    struct api_run *t = *state;
    const struct pp_client *put = &t->store.put;
    struct pp_client *c = &t->store.clients[t->store.n_clients++];

    *c = (struct pp_client){.id = "42", .concurrency = 3, .updated_at = 5, .headers = "{\"X-A\":\"1\"}"};
    assert_int_equal(api_ask(t, PP_PATCH, "/v1/clients/42", "{\"paused\":true}"), 200);
    assert_true(put->paused && !put->rpm_set && put->concurrency == 3 && put->weight == 0);
    assert_string_equal(t->store.put_headers, "{\"X-A\":\"1\"}");
    assert_true(put->updated_at > 5);
    assert_non_null(strstr(t->server.body, "\"defaults\":[\"rpm\",\"weight\"]}"));
    assert_int_equal(
        api_ask(t, PP_PATCH, "/v1/clients/42", "{\"rpm\":null,\"reset\":[\"concurrency\",\"headers\"]}"),
        200);
    assert_true(!put->paused && put->rpm_set && put->rpm_unlimited && put->concurrency == 0);
    assert_string_equal(t->store.put_headers, "");
    *c = (struct pp_client){.id = "42", .rpm_set = true, .rpm = 7, .weight = 9, .paused = true};
    assert_int_equal(api_ask(t, PP_PATCH, "/v1/clients/42", "{\"reset\":[\"rpm\",\"weight\",\"paused\"]}"),
                     200);
    assert_true(!put->paused && !put->rpm_set && put->rpm == 0 && put->weight == 0);
    assert_int_equal(api_ask(t, PP_PATCH, "/v1/clients/42", "{\"headers\":{\"X-B\":\"2\"}}"), 200);
    assert_string_equal(t->store.put_headers, "{\"X-B\":\"2\"}");
    size_t puts = t->store.puts;
    assert_int_equal(api_ask(t, PP_PATCH, "/v1/clients/42", "{\"rpm\":5,\"reset\":[\"rpm\"]}"), 422);
    assert_string_equal(api_str(t, "field"), "reset");
    assert_int_equal(api_ask(t, PP_PATCH, "/v1/clients/42", "{\"defaults\":[]}"), 400);
    assert_int_equal(t->store.puts, puts);
}

/* A PUT of what GET returned stores no default as a setting, and does store what was changed. */
static void put_of_a_get_keeps_defaults(void **state)
{
    struct api_run *t = *state;
    const struct pp_client *put = &t->store.put;

    assert_int_equal(api_get(t, "/v1/clients/42"), 200);
    char *body = strdup(t->server.body);
    assert_int_equal(api_ask(t, PP_PUT, "/v1/clients/42", body), 200);
    free(body);
    assert_true(!put->rpm_set && put->concurrency == 0 && put->weight == 0);
    assert_int_equal(
        api_ask(t, PP_PUT, "/v1/clients/42", "{\"rpm\":800,\"weight\":1,\"defaults\":[\"rpm\",\"weight\"]}"),
        200);
    assert_true(put->rpm_set && put->rpm == 800 && put->weight == 0);
}

static void changes_compare_etags(void **state)
{
    struct api_run *t = *state;

    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "42", .updated_at = 5};
    assert_int_equal(api_get(t, "/v1/clients/42"), 200);
    assert_true(api_has_header(t, "ETag: \"5\""));
    static const struct {
        const char *path, *if_match;
        int status;
    } cases[] = {{"/v1/clients/42", "\"5\"", 200},   {"/v1/clients/42", "\"4\", \"5\"", 200},
                 {"/v1/clients/42", "*", 200},       {"/v1/clients/42", "\"4\"", 412},
                 {"/v1/clients/42", "W/\"5\"", 412}, {"/v1/clients/43", "*", 412},
                 {"/v1/clients/43", "\"0\"", 200}};
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        t->if_match = cases[i / 2].if_match;
        int status = api_ask(t, i % 2 ? PP_PUT : PP_PATCH, cases[i / 2].path, "{\"rpm\":9}");
        if (status != cases[i / 2].status)
            fail_msg("%s: %d %s", cases[i / 2].if_match, status, t->server.body);
        if (status == 412)
            assert_string_equal(api_code(t), "precondition_failed");
    }
    /* Others change the same settings meanwhile: the API reads them again, but not for ever. */
    t->store.stale = 9;
    assert_int_equal(api_ask(t, PP_PATCH, "/v1/clients/42", "{\"rpm\":9}"), 200);
    t->store.stale = 10;
    assert_int_equal(api_ask(t, PP_PATCH, "/v1/clients/42", "{\"rpm\":9}"), 503);
    assert_string_equal(api_code(t), "overloaded");
}

static void clients_filtered(void **state)
{
    struct api_run *t = *state;

    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "41", .paused = true};
    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "42"};
    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "5", .paused = true};
    assert_int_equal(api_get(t, "/v1/clients?paused=true"), 200);
    assert_int_equal(json_array_size(api_at(t, "clients")), 2);
    assert_int_equal(api_get(t, "/v1/clients?q=4&paused=true"), 200);
    assert_int_equal(json_array_size(api_at(t, "clients")), 1);
    assert_string_equal(json_string_value(api_at(t, "clients.0.client")), "41");
    assert_int_equal(api_get(t, "/v1/clients?paused=false"), 200);
    assert_int_equal(json_array_size(api_at(t, "clients")), 1);
    assert_string_equal(json_string_value(api_at(t, "clients.0.client")), "42");
    assert_true(t->store.clients_batches);
    assert_int_equal(api_get(t, "/v1/clients?paused=yes"), 400);
    assert_int_equal(api_get(t, "/v1/clients?q=%C3%A9"), 400);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(client_settings),         TEST(header_values_are_write_only), TEST(client_settings_refused),
        TEST(client_settings_patched), TEST(put_of_a_get_keeps_defaults),  TEST(changes_compare_etags),
        TEST(clients_filtered),
    };
    return cmocka_run_group_tests_name("api_clients", tests, NULL, NULL);
}
