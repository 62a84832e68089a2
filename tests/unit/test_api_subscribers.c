/* Tests that streams and long-polls end when a reload removes or changes the key that opened
 * them. */
#include "api_events.h"
#include "photopool/scope.h"

#define MANY 250 /* more than one turn of the loop ends */

struct subscribers {
    struct polls p;
    struct pp_api_key keys[2];
    struct pp_http_request requests[MANY];
};

/* Opens the events with the keys "one" and "two", which have the numbers 1 and 2. */
static void open_with_keys(struct api_run *t, struct subscribers *s)
{
    open_events(t, &s->p);
    t->params.max_subscribers = 2 * MANY;
    s->keys[0] = api_key("one", PP_SCOPE_READ);
    s->keys[1] = api_key("two", PP_SCOPE_READ);
    s->keys[0].number = 1;
    s->keys[1].number = 2;
    t->params.keys = s->keys;
    t->params.n_keys = 2;
    t->server.replies = 0;
}

static void begin(struct api_run *t, struct pp_http_request *r, const char *authorization, const char *path)
{
    t->authorization = authorization;
    api_begin(t, r, PP_GET, path, NULL, 0);
}

/* Opens a stream: a WebSocket. */
static void begin_stream(struct api_run *t, struct pp_http_request *r, const char *authorization,
                         const char *path)
{
    t->websocket = true;
    begin(t, r, authorization, path);
    t->websocket = false;
}

/* Waits until this many subscriptions are left, and then for some turns of the loop. */
static void until_left(struct api_run *t, size_t left)
{
    while (pp_hub_subscribers(t->options.hub) > left)
        (void)pp_loop_turn(t->loop, true);
    for (int i = 0; i < 3; i++)
        (void)pp_loop_turn(t->loop, true);
    assert_int_equal(pp_hub_subscribers(t->options.hub), left);
}

/* Ends all subscriptions and closes the events. */
static void close_with_keys(struct api_run *t, struct subscribers *s)
{
    s->keys[0].number += 10;
    s->keys[1].number += 10;
    pp_api_reloaded(t->api);
    until_left(t, 0);
    assert_int_equal(t->server.streams, 0);
    close_events(t, &s->p);
}

static void a_removed_key_ends_its_subscriptions(void **state)
{
    struct api_run *t = *state;
    struct subscribers s;

    open_with_keys(t, &s);
    for (int i = 0; i < 2; i++) {
        const char *key = i == 0 ? "Bearer one" : "Bearer two";
        begin(t, &s.requests[2 * i], key, "/v1/events?key=results&wait=60");
        begin_stream(t, &s.requests[2 * i + 1], key, "/v1/events?key=results");
    }
    assert_int_equal(pp_hub_subscribers(t->options.hub), 4);
    pp_api_reloaded(t->api); /* nothing has changed */
    until_left(t, 4);
    assert_int_equal(t->server.replies, 0);
    t->params.n_keys = 1;
    pp_api_reloaded(t->api);
    until_left(t, 2);
    assert_int_equal(t->server.streams, 1);
    assert_int_equal(t->server.code, PP_WS_POLICY);
    assert_int_equal(t->server.replies, 1);
    assert_ptr_equal(t->server.request, &s.requests[2]);
    assert_int_equal(t->server.status, 401);
    assert_true(api_has_header(t, "WWW-Authenticate: Bearer"));
    assert_int_equal(t->metrics.auth_failures, 0);
    /* The other key still gets events. */
    fake_log_put(&s.p.log, "results:42", "photopool.item.finished", "{}");
    while (t->server.replies < 2 || t->server.pieces < 1)
        (void)pp_loop_turn(t->loop, true);
    assert_int_equal(t->server.status, 200);
    close_with_keys(t, &s);
}

/* The reload is in force at once: no event is delivered before the check of all subscribers. */
static void nothing_is_delivered_after_the_reload(void **state)
{
    struct api_run *t = *state;
    struct subscribers s;

    open_with_keys(t, &s);
    for (int i = 0; i < MANY; i++)
        begin_stream(t, &s.requests[i], "Bearer two", "/v1/events?key=results");
    begin(t, &s.requests[0], "Bearer two", "/v1/events?key=results&wait=60");
    fake_log_put(&s.p.log, "results:42", "photopool.item.finished", "{}");
    s.keys[1].number = 3;
    pp_api_reloaded(t->api);
    until_left(t, 0);
    assert_int_equal(t->server.pieces, 0);
    assert_int_equal(t->server.streams, 0);
    assert_int_equal(t->server.status, 401);
    close_with_keys(t, &s);
}

/* Without keys everybody may read. That ends when keys are set. */
static void the_first_keys_end_all_subscriptions(void **state)
{
    struct api_run *t = *state;
    struct subscribers s;

    open_with_keys(t, &s);
    t->params.n_keys = 0;
    begin(t, &s.requests[0], NULL, "/v1/events?key=results&wait=60");
    begin_stream(t, &s.requests[1], NULL, "/v1/events?key=results");
    pp_api_reloaded(t->api);
    until_left(t, 2);
    t->params.n_keys = 2;
    pp_api_reloaded(t->api);
    until_left(t, 0);
    assert_int_equal(t->server.status, 401);
    close_with_keys(t, &s);
}

/* The reload comes while the API asks whether the number is known. */
static void a_subscription_does_not_begin_after_the_reload(void **state)
{
    struct api_run *t = *state;
    struct subscribers s;

    open_with_keys(t, &s);
    fake_log_put(&s.p.log, "results:42", "photopool.item.finished", "{}"); /* the hub has not read it */
    begin(t, &s.requests[0], "Bearer two", "/v1/events?key=results&after=1&wait=60");
    assert_int_equal(t->server.replies + pp_hub_subscribers(t->options.hub), 0);
    t->params.n_keys = 1;
    pp_test_until(t->loop, api_replied, t, 20000);
    assert_int_equal(t->server.status, 401);
    close_with_keys(t, &s);
}

/* A ticket, and what was opened with it, counts as the key that made it. */
static void tickets_end_with_their_key(void **state)
{
    struct api_run *t = *state;
    struct subscribers s;
    char path[900];

    open_with_keys(t, &s);
    t->authorization = "Bearer two";
    assert_int_equal(api_ask(t, PP_POST, "/v1/tickets", "{\"keys\":[\"results\"]}"), 201);
    snprintf(path, sizeof(path), "/v1/events?ticket=%s", api_str(t, "ticket"));
    t->websocket = true;
    begin(t, &s.requests[0], NULL, path);
    t->websocket = false;
    while (t->server.streams == 0)
        (void)pp_loop_turn(t->loop, true);
    snprintf(s.keys[1].client, sizeof(s.keys[1].client), "42");
    s.keys[1].number = 3;
    pp_api_reloaded(t->api);
    until_left(t, 0);
    assert_int_equal(t->server.streams, 0);
    assert_int_equal(api_get(t, path), 401);
    close_with_keys(t, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_removed_key_ends_its_subscriptions, api_open, api_close),
        cmocka_unit_test_setup_teardown(nothing_is_delivered_after_the_reload, api_open, api_close),
        cmocka_unit_test_setup_teardown(the_first_keys_end_all_subscriptions, api_open, api_close),
        cmocka_unit_test_setup_teardown(a_subscription_does_not_begin_after_the_reload, api_open, api_close),
        cmocka_unit_test_setup_teardown(tickets_end_with_their_key, api_open, api_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
