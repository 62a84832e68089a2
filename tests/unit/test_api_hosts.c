/* Tests the endpoints of photo hosts and their breakers, over fake ports. */
#include "api_run.h"
#include "photopool/code.h"

static char path[1000];

/* Waits until the answers of `host` are counted. */
struct counted {
    struct api_run *t;
    const char *host;
    uint64_t requests;
};

static bool is_counted(void *arg)
{
    const struct counted *c = arg;
    struct pp_host_shown shown;
    return pp_hosts_view(c->t->hosts, c->host, &shown) && shown.stats.requests == c->requests;
}

/* The host gives n answers with this code after `ms` each; then a minute passes. */
static void answers(struct api_run *t, const char *host, unsigned n, uint16_t code, int64_t ms)
{
    struct counted c = {t, host, n};
    struct pp_host_shown shown;

    if (pp_hosts_view(t->hosts, host, &shown))
        c.requests += shown.stats.requests;
    for (unsigned i = 0; i < n; i++)
        pp_hosts_answered(t->hosts, host, code, ms);
    pp_test_clock_pass(t->loop, PP_HOSTS_QUIET_MS);
    pp_test_until(t->loop, is_counted, &c, 20000);
}

/* a: many photos; b: failures; c: slow. */
static void three_hosts(struct api_run *t)
{
    answers(t, "b.example", 10, 0, 100);
    answers(t, "b.example", 3, 503, 100);
    answers(t, "a.example", 40, 0, 100);
    answers(t, "a.example", 1, 404, 100);
    answers(t, "c.shop.example", 2, 0, 900);
}

/* Returns the names of the hosts in the last answer's list. */
static const char *names(const struct api_run *t, const char *list)
{
    static char text[4000];
    size_t i;
    json_t *row;

    text[0] = '\0';
    json_array_foreach(json_object_get(t->json, list), i, row)
    {
        strcat(text, i > 0 ? " " : "");
        strcat(text, json_string_value(json_object_get(row, "host")));
    }
    return text;
}

static void hosts_are_listed(void **state)
{
    static const struct {
        const char *query, *names;
    } cases[] = {{"", "a.example b.example c.shop.example"},
                 {"?sort=errors", "b.example a.example c.shop.example"},
                 {"?sort=requests", "a.example b.example c.shop.example"},
                 {"?sort=latency", "c.shop.example a.example b.example"},
                 {"?q=c", "c.shop.example"},
                 {"?q=B.EX", "b.example"},
                 {"?q=x", ""},
                 {"?q=", "a.example b.example c.shop.example"},
                 {"?state=closed&q=a", "a.example"},
                 {"?state=open", ""},
                 {"?state=half_open&sort=errors", ""}};
    struct api_run *t = *state;

    assert_int_equal(api_get(t, "/v1/hosts"), 200);
    assert_int_equal(json_array_size(api_at(t, "hosts")), 0);
    three_hosts(t);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(path, sizeof(path), "/v1/hosts%s", cases[i].query);
        assert_int_equal(api_get(t, path), 200);
        assert_string_equal(names(t, "hosts"), cases[i].names);
        assert_true(json_is_null(api_at(t, "next")));
    }
    assert_int_equal(api_get(t, "/v1/hosts?sort=errors"), 200);
    assert_int_equal(api_int(t, "hosts.0.requests"), 13);
    assert_int_equal(api_int(t, "hosts.0.latency_ms.median"), 100);
    assert_true(json_is_null(api_at(t, "hosts.0.usual_error_share")));
    assert_true(json_is_null(api_at(t, "hosts.0.clients")));
    assert_int_equal(json_object_size(api_at(t, "hosts.0.errors")), 1);
    assert_int_equal(json_object_size(api_at(t, "hosts.1.errors")), 1); /* absent photos */
    assert_int_equal(json_object_size(api_at(t, "hosts.2.errors")), 0);
}

static void wrong_lists(void **state)
{
    static const char *const cases[] = {"sort=name",  "sort=",   "state=broken",
                                        "state=OPEN", "limit=0", "host=x"};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(path, sizeof(path), "/v1/hosts?%s", cases[i]);
        assert_int_equal(api_get(t, path), 400);
        assert_string_equal(api_code(t), "bad_parameter");
    }
    assert_int_equal(api_get(t, "/v1/breakers?state=open"), 400);
    assert_int_equal(api_get(t, "/v1/hosts?after=x"), 400);
    assert_string_equal(api_code(t), "bad_cursor");
}

/* Reads the list page by page with this limit; returns the names of the hosts on all pages. */
static const char *pages(struct api_run *t, const char *list, const char *query, int limit)
{
    static char all[8000];
    char cursor[900] = "";

    all[0] = '\0';
    do {
        snprintf(path, sizeof(path), "/v1/%s?limit=%d%s%s%s", list, limit, query, cursor[0] ? "&after=" : "",
                 cursor);
        assert_int_equal(api_get(t, path), 200);
        assert_true(json_array_size(api_at(t, list)) <= (size_t)limit);
        strcat(all, all[0] && json_array_size(api_at(t, list)) > 0 ? " " : "");
        strcat(all, names(t, list));
        snprintf(cursor, sizeof(cursor), "%s", api_str(t, "next"));
    } while (cursor[0]);
    return all;
}

static void lists_come_in_pages(void **state)
{
    enum { HOSTS = 40 };
    static const char *const queries[] = {"", "&sort=errors", "&sort=requests", "&sort=latency", "&q=h1"};
    struct api_run *t = *state;
    char host[40], whole[4000];

    for (unsigned i = 0; i < HOSTS; i++) {
        snprintf(host, sizeof(host), "h%u.example", i * 7 % HOSTS);
        for (unsigned n = 0; n <= i % 5; n++)
            pp_hosts_answered(t->hosts, host, n % 2 ? 500 : 0, 100 + 10 * (i % 3));
    }
    answers(t, "last.example", 1, 0, 1);
    for (size_t i = 0; i < sizeof(queries) / sizeof(*queries); i++) {
        snprintf(whole, sizeof(whole), "%s", pages(t, "hosts", queries[i], 1000));
        for (int limit = 1; limit <= HOSTS + 2; limit += limit < 4 ? 1 : 9)
            assert_string_equal(pages(t, "hosts", queries[i], limit), whole);
    }
}

/* A cursor holds its place if hosts come, and if the host that it names moves. */
static void cursors_stay_valid(void **state)
{
    struct api_run *t = *state;
    char next[900];

    three_hosts(t);
    assert_int_equal(api_get(t, "/v1/hosts?sort=requests&limit=1"), 200);
    assert_string_equal(names(t, "hosts"), "a.example");
    snprintf(next, sizeof(next), "%s", api_str(t, "next"));
    answers(t, "a.example", 10, 0, 100);
    answers(t, "new.example", 20, 0, 100);
    snprintf(path, sizeof(path), "/v1/hosts?sort=requests&after=%s", next);
    assert_int_equal(api_get(t, path), 200);
    assert_string_equal(names(t, "hosts"), "new.example b.example c.shop.example");
    snprintf(path, sizeof(path), "/v1/hosts?sort=errors&after=%s", next);
    assert_int_equal(api_get(t, path), 400);
    assert_string_equal(api_code(t), "bad_cursor");
}

/* --- one host --- */

static void one_host(void **state)
{
    struct api_run *t = *state;

    answers(t, "b.example", 8, 0, 100);
    answers(t, "b.example", 2, PP_CODE_BODY_TIMEOUT, 600);
    t->store.waiting[0] = "42";
    t->store.waiting[1] = "43";
    t->store.n_waiting = 2;
    assert_int_equal(api_get(t, "/v1/hosts/b.example"), 200);
    assert_string_equal(api_str(t, "host"), "b.example");
    assert_string_equal(api_str(t, "state"), "closed");
    assert_int_equal(api_int(t, "requests"), 10);
    assert_true(json_real_value(api_at(t, "error_share")) > 0.19);
    assert_true(json_real_value(api_at(t, "error_share")) < 0.21);
    assert_int_equal(api_int(t, "latency_ms.median"), 200);
    assert_string_equal(json_string_value(api_at(t, "clients.1")), "43");
    assert_int_equal(api_int(t, "waiting_photos"), 14);
    for (const char *const *name = (const char *const[]){"forced", "forced_until", "reason", "since",
                                                         "next_probe_at", "slow_until", NULL};
         *name; name++)
        assert_true(json_is_null(api_at(t, *name)));
    t->coordinator.slow_until = pp_loop_wall(t->loop) + 5000;
    t->store.err = PP_EIO; /* the host is shown without its clients */
    assert_int_equal(api_get(t, "/v1/hosts/b.example"), 200);
    assert_true(json_is_null(api_at(t, "clients")) && json_is_null(api_at(t, "waiting_photos")));
    assert_true(json_is_string(api_at(t, "slow_until")));
}

/* All spellings of a host name one host. */
static void hosts_are_found_by_any_spelling(void **state)
{
    static const char *const spelled[][2] = {{"B.Example", "b.example"},
                                             {"b.example.", "b.example"},
                                             {"b%C3%BCcher.example", "xn--bcher-kva.example"},
                                             {"xn--bcher-kva.example", "xn--bcher-kva.example"},
                                             {"%5B2001:DB8::1%5D", "2001:db8::1"},
                                             {"2001:db8:0::1", "2001:db8::1"},
                                             {"3221225985", "192.0.2.1"}};
    static const char *const unknown[] = {"a.example", "b_.example", "a%20b",  "b.example:80", "%5B",
                                          "-",         "x..y",       "::g",    "1.2.3.4.5",    "%2F",
                                          "b%00",      "a/b",        "b%25%32"};
    struct api_run *t = *state;

    answers(t, "b.example", 1, 0, 1);
    answers(t, "xn--bcher-kva.example", 1, 0, 1);
    answers(t, "2001:db8::1", 1, 0, 1);
    answers(t, "192.0.2.1", 1, 0, 1);
    for (size_t i = 0; i < sizeof(spelled) / sizeof(*spelled); i++) {
        snprintf(path, sizeof(path), "/v1/hosts/%s", spelled[i][0]);
        assert_int_equal(api_get(t, path), 200);
        assert_string_equal(api_str(t, "host"), spelled[i][1]);
    }
    for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
        snprintf(path, sizeof(path), "/v1/hosts/%s", unknown[i]);
        if (api_get(t, path) != 404)
            fail_msg("%s: %d", path, t->server.status);
        assert_string_equal(api_code(t), "not_found");
    }
}

/* --- breakers --- */

static void breakers_are_ordered(void **state)
{
    struct api_run *t = *state;

    three_hosts(t);
    assert_int_equal(api_get(t, "/v1/breakers"), 200);
    assert_string_equal(names(t, "breakers"), "");
    assert_int_equal(
        api_ask(t, PP_POST, "/v1/breakers/B.example", "{\"action\":\"open\",\"for_seconds\":600}"), 200);
    assert_string_equal(api_str(t, "host"), "b.example");
    assert_string_equal(api_str(t, "state"), "open");
    assert_string_equal(api_str(t, "forced"), "open");
    assert_string_equal(api_str(t, "reason"), "operator");
    assert_true(json_is_string(api_at(t, "since")) && json_is_string(api_at(t, "forced_until")));
    assert_true(json_is_array(api_at(t, "clients")));
    assert_int_equal(api_ask(t, PP_POST, "/v1/breakers/unheard.example", "{\"action\":\"close\"}"), 200);
    assert_string_equal(api_str(t, "state"), "closed");
    assert_string_equal(api_str(t, "forced"), "closed");
    assert_true(json_is_null(api_at(t, "forced_until")) && json_is_null(api_at(t, "error_share")));
    assert_int_equal(api_get(t, "/v1/breakers"), 200);
    assert_string_equal(names(t, "breakers"), "b.example unheard.example");
    assert_string_equal(pages(t, "breakers", "", 1), "b.example unheard.example");
    assert_int_equal(api_get(t, "/v1/hosts?state=open"), 200);
    assert_string_equal(names(t, "hosts"), "b.example");
    assert_int_equal(api_ask(t, PP_POST, "/v1/breakers/unheard.example", "{\"action\":\"auto\"}"), 200);
    assert_true(json_is_null(api_at(t, "forced")));
    assert_int_equal(api_get(t, "/v1/breakers"), 200);
    assert_string_equal(names(t, "breakers"), "b.example");
}

static bool is_half_open(void *arg)
{
    struct pp_host_shown shown;
    return pp_hosts_view(((struct api_run *)arg)->hosts, "b.example", &shown) &&
           shown.breaker.state == PP_BREAKER_HALF_OPEN;
}

/* An order with a time ends by itself, and then the host is tested. */
static void orders_end(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(
        api_ask(t, PP_POST, "/v1/breakers/b.example", "{\"action\":\"open\",\"for_seconds\":60}"), 200);
    pp_test_clock_pass(t->loop, 61000);
    pp_test_until(t->loop, is_half_open, t, 20000);
    assert_int_equal(api_get(t, "/v1/hosts/b.example"), 200);
    assert_string_equal(api_str(t, "state"), "half_open");
    assert_true(json_is_null(api_at(t, "forced")));
}

static void wrong_orders(void **state)
{
    static const struct {
        const char *host, *body;
        int status;
        const char *code, *field;
    } cases[] = {
        {"b.example", "{}", 400, "missing_field", "action"},
        {"b.example", "{\"action\":\"opn\"}", 422, "bad_value", "action"},
        {"b.example", "{\"action\":\"\"}", 422, "bad_value", "action"},
        {"b.example", "{\"action\":null}", 400, "bad_type", "action"},
        {"b.example", "{\"action\":1}", 400, "bad_type", "action"},
        {"b.example", "{\"action\":\"open\",\"for_seconds\":0}", 422, "bad_value", "for_seconds"},
        {"b.example", "{\"action\":\"open\",\"for_seconds\":-1}", 422, "bad_value", "for_seconds"},
        {"b.example", "{\"action\":\"open\",\"for_seconds\":31536001}", 422, "bad_value", "for_seconds"},
        {"b.example", "{\"action\":\"open\",\"for_seconds\":9223372036854775807}", 422, "bad_value",
         "for_seconds"},
        {"b.example", "{\"action\":\"open\",\"for_seconds\":1.5}", 400, "bad_type", "for_seconds"},
        {"b.example", "{\"action\":\"open\",\"for_seconds\":\"1\"}", 400, "bad_type", "for_seconds"},
        {"b.example", "{\"action\":\"open\",\"for\":1}", 400, "unknown_field", "for"},
        {"b.example", "[]", 400, "bad_type", ""},
        {"b.example", "{\"action\":", 400, "bad_json", ""},
        {"a%20b", "{\"action\":\"open\"}", 422, "bad_value", "host"},
        {"b.example%2F", "{\"action\":\"open\"}", 422, "bad_value", "host"},
        {"b.example:443", "{\"action\":\"open\"}", 422, "bad_value", "host"}};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(path, sizeof(path), "/v1/breakers/%s", cases[i].host);
        if (api_ask(t, PP_POST, path, cases[i].body) != cases[i].status)
            fail_msg("%s: %d %s", cases[i].body, t->server.status, t->server.body);
        assert_string_equal(api_code(t), cases[i].code);
        assert_string_equal(api_str(t, "field"), cases[i].field);
    }
    assert_int_equal(api_get(t, "/v1/breakers"), 200);
    assert_string_equal(names(t, "breakers"), "");
    assert_int_equal(api_ask(t, PP_PUT, "/v1/breakers/b.example", "{\"action\":\"open\"}"), 405);
    assert_int_equal(
        api_ask(t, PP_POST, "/v1/breakers/b.example", "{\"action\":\"auto\",\"for_seconds\":60}"), 200);
    assert_true(json_is_null(api_at(t, "forced_until")));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hosts_are_listed),     TEST(wrong_lists), TEST(lists_come_in_pages),
        TEST(cursors_stay_valid),   TEST(one_host),    TEST(hosts_are_found_by_any_spelling),
        TEST(breakers_are_ordered), TEST(orders_end),  TEST(wrong_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
