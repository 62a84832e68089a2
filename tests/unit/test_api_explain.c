/* Tests GET /v1/explain over fake ports: what photopool would do with a photo, and why. */
#include "api_run.h"
#include "core/sniff.h"
#include "photopool/code.h"

static char path[1000];

#define EXPLAIN "/v1/explain?client=42&url=http%3A%2F%2Fx.example%2F1.jpg"

static void explain(void **state)
{
    struct api_run *t = *state;
    int64_t now = pp_loop_wall(t->loop);

    t->coordinator.workers[t->coordinator.n++] =
        (struct pp_worker_info){.id = "w", .tiers = "1,5", .seen_at = now};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "url"), "http://x.example/1.jpg");
    assert_string_equal(api_str(t, "would"), "fetch");
    assert_string_equal(api_str(t, "verdict"), "fetch");
    assert_string_equal(json_string_value(api_at(t, "host.state")), "closed");
    assert_int_equal(api_int(t, "limit.rpm"), 600);
    assert_string_equal(json_string_value(api_at(t, "host.host")), "x.example");
    assert_true(json_is_null(api_at(t, "host.slow_until")));
    assert_true(json_is_null(api_at(t, "slot")) && json_is_null(api_at(t, "known")));

    t->store.photo.photo = (struct pp_photo){
        .found = true, .fail_code = 404, .fail_streak = 3, .skips = 0, .failed_at = now - 1000};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "would"), "skip");
    assert_true(json_is_string(api_at(t, "when")));
    assert_string_equal(json_string_value(api_at(t, "ladder.code")), "http_404");

    t->store.photo.photo = (struct pp_photo){.found = true, .object = {.bytes = 5, .type = PP_IMAGE_PNG}};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "would"), "known");
    assert_string_equal(json_string_value(api_at(t, "known.type")), "image/png");

    t->store.photo = (struct pp_store_photo){.open = true, .tier = 1, .attempts = 1, .due_ms = now + 60000};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "would"), "wait");
    assert_int_equal(api_int(t, "task.tier"), 5);
    t->store.photo.due_ms = now;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "would"), "fetch");
    t->coordinator.slow_until = now + 100000;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "would"), "wait");
    t->store.photo.claimed = true;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "would"), "fetch");
    t->store.photo.claimed = false;
    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "42", .paused = true};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "would"), "wait");
    assert_true(json_is_null(api_at(t, "when")));
}

/* A photo waits for its host, and says why. */
static void explain_breakers(void **state)
{
    struct api_run *t = *state;
    int64_t now = pp_loop_wall(t->loop);

    assert_true(pp_hosts_order(t->hosts, "x.example", PP_BREAKER_FORCE_OPEN, 600000));
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "verdict"), "wait");
    assert_non_null(strstr(api_str(t, "why"), "operator"));
    assert_string_equal(json_string_value(api_at(t, "host.state")), "open");
    assert_string_equal(json_string_value(api_at(t, "host.reason")), "operator");
    assert_true(json_is_string(api_at(t, "host.since")));
    assert_true(json_is_null(api_at(t, "attempts")) && json_is_false(api_at(t, "unserved")));
    t->coordinator.workers[t->coordinator.n++] =
        (struct pp_worker_info){.id = "w", .tiers = "all", .capacity = 9, .seen_at = now};
    t->store.photo =
        (struct pp_store_photo){.open = true, .attempts = 2, .due_ms = now, .wait_until_ms = now + 5000};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "verdict"), "wait");
    assert_true(json_is_string(api_at(t, "next_at")));
    assert_int_equal(api_int(t, "attempts"), 2);
    assert_non_null(strstr(api_str(t, "why"), "operator"));
    /* A pause and a tier that nobody serves come before the host, as in core/reason.h. */
    t->coordinator.workers[0].draining = true;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_true(json_is_true(api_at(t, "unserved")) && json_is_null(api_at(t, "next_at")));
    assert_non_null(strstr(api_str(t, "why"), "No live worker"));
    t->coordinator.workers[0].draining = false;
    /* A task whose own time is later than the next probe waits for its time. */
    t->params.retry.max_attempts = 4;
    t->store.photo = (struct pp_store_photo){
        .open = true, .attempts = 1, .last_code = PP_CODE_CONNECT_REFUSED, .due_ms = now + 7200000};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_non_null(strstr(api_str(t, "why"), "Tried once"));
    /* What is known is answered without the host. */
    t->store.photo =
        (struct pp_store_photo){.photo = {.found = true, .object = {.bytes = 5, .type = PP_IMAGE_PNG}}};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "verdict"), "known");
}

/* A task whose tier no live worker serves waits. */
static void explain_unserved(void **state)
{
    struct api_run *t = *state;
    int64_t now = pp_loop_wall(t->loop);

    t->coordinator.workers[0] = (struct pp_worker_info){.id = "a", .tiers = "1,30", .seen_at = now};
    t->coordinator.workers[1] =
        (struct pp_worker_info){.id = "b", .tiers = "all", .seen_at = now, .draining = true};
    t->coordinator.n = 2;
    t->store.photo = (struct pp_store_photo){.open = true, .tier = 1, .due_ms = pp_loop_wall(t->loop)};
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "verdict"), "wait");
    assert_true(json_is_true(api_at(t, "unserved")));
    t->store.photo.tier = 2;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "verdict"), "fetch");
    t->store.photo.tier = 1;
    t->coordinator.workers[1].draining = false;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "verdict"), "fetch");
    assert_true(json_is_false(api_at(t, "unserved")));
    /* A worker serves its tiers until it is lost, as GET /v1/workers says. */
    t->coordinator.workers[1].seen_at = now - PP_WORKER_LOST_MS + 1;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_true(json_is_false(api_at(t, "unserved")));
    t->coordinator.workers[1].seen_at = now - PP_WORKER_LOST_MS;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_true(json_is_true(api_at(t, "unserved")));
    t->coordinator.err = PP_EIO; /* nothing is known of the workers */
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_true(json_is_false(api_at(t, "unserved")));
}

/* The answer names the reason that decides when the next try starts, on a process that is no
 * worker as well. */
static void explain_waits(void **state)
{
    struct api_run *t = *state;
    int64_t now = pp_loop_wall(t->loop);

    t->params.retry.max_attempts = 4;
    t->coordinator.workers[t->coordinator.n++] =
        (struct pp_worker_info){.id = "w", .tiers = "all", .capacity = 9, .seen_at = now};
    t->store.photo = (struct pp_store_photo){
        .open = true, .attempts = 2, .last_code = PP_CODE_CONNECT_REFUSED, .due_ms = now + 40000};
    t->coordinator.slow_until = now + 5000;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_non_null(
        strstr(api_str(t, "why"), "Tried twice; the last try failed: connect_refused. Next try in "));
    assert_non_null(strstr(api_str(t, "why"), " s. After 4 tries it fails."));
    t->coordinator.slow_until = now + 90000;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "why"), "The host asked for patience.");
    t->coordinator.slow_until = 0;
    t->store.photo.parked = true; /* for a place of its host */
    t->store.photo.due_ms = now + 1000;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "why"), "The host gets no further request for now.");
    assert_true(json_is_string(api_at(t, "next_at")));
    t->store.photo.due_ms = now - 60000;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "verdict"), "wait");
    assert_non_null(strstr(api_str(t, "why"), "rate or concurrency"));
    t->coordinator.workers[0].in_flight = 9;
    assert_int_equal(api_get(t, EXPLAIN), 200);
    assert_string_equal(api_str(t, "verdict"), "fetch");
}

static void explain_bad_urls(void **state)
{
    static const struct {
        const char *url, *code;
    } cases[] = {{"ftp%3A%2F%2Fx.example%2F", "denied_scheme"},
                 {"http%3A%2F%2F127.1%2F", "denied_address"},
                 {"http%3A%2F%2Fx.example%3A22%2F", "denied_port"},
                 {"nope", "bad_url"},
                 {"", "bad_url"}};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(path, sizeof(path), "/v1/explain?client=42&url=%s", cases[i].url);
        assert_int_equal(api_get(t, path), 200);
        assert_string_equal(api_str(t, "would"), "fail");
        assert_string_equal(api_str(t, "code"), cases[i].code);
    }
    assert_int_equal(t->store.lookups, 0);
    assert_int_equal(api_get(t, "/v1/explain?client=42"), 400);
    assert_string_equal(api_str(t, "field"), "url");
    assert_int_equal(api_get(t, "/v1/explain?url=x"), 400);
    assert_string_equal(api_str(t, "field"), "client");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(explain),       TEST(explain_breakers), TEST(explain_unserved),
        TEST(explain_waits), TEST(explain_bad_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
