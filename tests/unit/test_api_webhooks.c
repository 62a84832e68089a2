/* Tests how many tests of webhooks may run at the same time, over fake ports and a fetcher that
 * answers when the test says so. */
#include "api_run.h"
#include "fake_delivery.h"
#include "fake_fetcher.h"
#include "pipeline/deliver/webhook_post.h"

#define PATH "/v1/webhooks/shop/test"

struct kit {
    struct api_run *t;
    struct fake_deliveries deliveries;
    struct fake_fetcher fetcher;
    struct pp_poster *poster;
    struct pp_http_request requests[PP_API_TESTS];
};

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));
    void *run;

    *state = k;
    api_open(&run);
    k->t = run;
    fake_deliveries_open(&k->deliveries, k->t->loop);
    k->deliveries.webhooks[0] = (struct pp_webhook){
        .name = "shop", .url = "http://93.184.216.34/", .secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"};
    k->deliveries.n_webhooks = 1;
    fake_fetcher_init(&k->fetcher);
    k->poster = pp_poster_open(&(struct pp_poster_options){
        .loop = k->t->loop, .params = &k->t->params, .factory = {fake_fetcher_open, &k->fetcher}});
    assert_non_null(k->poster);
    k->t->options.deliveries = &k->deliveries.base;
    k->t->options.poster = k->poster;
    api_restart(k->t, PP_ROLE_API);
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;
    void *run = k->t;

    pp_poster_give_up(k->poster);
    pp_poster_close(k->poster);
    fake_deliveries_close(&k->deliveries);
    api_close(&run);
    free(k);
    return 0;
}

static bool all_posted(void *arg)
{
    return ((struct kit *)arg)->fetcher.n == PP_API_TESTS;
}

/* Begins as many tests as may run at the same time. */
static void begin_all(struct kit *k)
{
    for (size_t i = 0; i < PP_API_TESTS; i++)
        api_begin(k->t, &k->requests[i], PP_POST, PATH, NULL, 0);
    pp_test_until(k->t->loop, all_posted, k, 5000);
}

static void assert_refused(struct kit *k)
{
    assert_int_equal(api_ask(k->t, PP_POST, PATH, NULL), 503);
    assert_string_equal(api_code(k->t), "overloaded");
    assert_true(api_has_header(k->t, "Retry-After: 15\n"));
    assert_int_equal(k->fetcher.n, PP_API_TESTS);
}

/* An endpoint hangs. Further tests are refused at once, and other calls are answered. */
static void few_tests_at_the_same_time(void **state)
{
    struct kit *k = *state;

    begin_all(k);
    for (int i = 0; i < 20; i++)
        assert_refused(k);
    assert_int_equal(api_get(k->t, "/v1/webhooks/shop"), 200);
}

/* Each test that ends, however it does, makes room for another one. */
static void a_test_that_ends_makes_room(void **state)
{
    static const int statuses[] = {200, 500, 410, 204, 302, 429};
    struct kit *k = *state;

    begin_all(k);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        k->t->server.replies = 0;
        fake_fetcher_end(&k->fetcher, 0, statuses[i]);
        assert_int_equal(k->t->server.replies, 1);
        assert_int_equal(k->t->server.status, 200);
        api_begin(k->t, &k->requests[i % PP_API_TESTS], PP_POST, PATH, NULL, 0);
        pp_test_until(k->t->loop, all_posted, k, 5000);
        assert_refused(k);
    }
}

/* A webhook for which messages wait is deleted only by force. */
static void what_waits_is_not_dropped(void **state)
{
    struct kit *k = *state;
    struct fake_deliveries *d = &k->deliveries;

    snprintf(d->cursors[0].sink, PP_SINK_NAME_MAX, "webhook:shop");
    snprintf(d->cursors[1].sink, PP_SINK_NAME_MAX, "webhook:other");
    d->cursors[0].cursor = 7;
    d->n_cursors = 2;
    k->t->store.outbox = 9; /* two items that the webhook has not reached */
    assert_int_equal(api_ask(k->t, PP_DELETE, "/v1/webhooks/shop", NULL), 409);
    assert_string_equal(api_code(k->t), "undelivered");
    assert_non_null(strstr(api_str(k->t, "detail"), "2 messages wait for the webhook shop"));
    assert_int_equal(api_ask(k->t, PP_DELETE, "/v1/webhooks/shop?force=false", NULL), 409);
    assert_int_equal(api_ask(k->t, PP_DELETE, "/v1/webhooks/shop?force=1", NULL), 400);
    assert_int_equal(d->n_webhooks, 1);
    assert_int_equal(api_ask(k->t, PP_DELETE, "/v1/webhooks/nobody", NULL), 404);
    assert_int_equal(api_ask(k->t, PP_DELETE, "/v1/webhooks/shop?force=true", NULL), 204);
    assert_int_equal(d->n_webhooks, 0);
}

static void a_webhook_that_has_got_all_is_deleted(void **state)
{
    struct kit *k = *state;

    snprintf(k->deliveries.cursors[0].sink, PP_SINK_NAME_MAX, "webhook:shop");
    k->deliveries.cursors[0].cursor = k->t->store.outbox = 9;
    k->deliveries.n_cursors = 1;
    assert_int_equal(api_ask(k->t, PP_DELETE, "/v1/webhooks/shop", NULL), 204);
    assert_int_equal(k->deliveries.n_webhooks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_tests_at_the_same_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_test_that_ends_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(what_waits_is_not_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_webhook_that_has_got_all_is_deleted, setup, teardown),
    };
    return cmocka_run_group_tests_name("api_webhooks", tests, NULL, NULL);
}
