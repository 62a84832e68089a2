/* Tests that no webhook endpoint keeps others waiting: endpoints share the posts that may be in
 * flight. The test decides when each post ends, and the clock stands still until it moves it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_delivery.h"
#include "fake_fetcher.h"
#include "pipeline/deliver/deliver_internal.h"
#include "pipeline/deliver/webhook_post.h"
#include "test_clock.h"
#include "test_loop.h"

#define SECRET "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
#define TURNS  30 /* A post needs fewer turns of the loop than this after a timer fires. */

enum { ITEMS = 200 };

struct kit {
    struct pp_loop *loop;
    struct pp_params params;
    struct pp_rng rng;
    struct fake_outbox store;
    struct fake_deliveries deliveries;
    struct fake_fetcher fetcher;
    struct pp_deliverer_options o;
    struct pp_metrics metrics;
    struct pp_election *lease;
    struct pp_to_webhooks *driver;
    struct {
        char name[32], url[64];
    } hooks[FAKE_HOOKS];
    size_t ended[FAKE_HOOKS]; /* how many posts to each endpoint were answered */
    const char *filter;       /* of endpoints that are added */
};

static void pass(struct kit *k, int64_t ms)
{
    for (; ms > 0; ms -= 50) {
        pp_test_clock_pass(k->loop, 50);
        for (int i = 0; i < TURNS; i++)
            (void)pp_loop_turn(k->loop, false);
    }
}

static int setup(void **state)
{
    static const struct pp_port_range ports[] = {{80, 80}};
    struct kit *k = calloc(1, sizeof(*k));

    *state = k;
    k->loop = pp_loop_open();
    pp_test_clock_hold(k->loop);
    pp_rng_seed(&k->rng, 1);
    k->params.webhook_policy = (struct pp_address_policy){.ports = ports, .n_ports = 1};
    fake_outbox_open(&k->store, k->loop);
    fake_deliveries_open(&k->deliveries, k->loop);
    fake_fetcher_init(&k->fetcher);
    k->o = (struct pp_deliverer_options){.metrics = &k->metrics,
                                         .loop = k->loop,
                                         .params = &k->params,
                                         .rng = &k->rng,
                                         .store = &k->store.base,
                                         .deliveries = &k->deliveries.base};
    k->o.poster = pp_poster_open(&(struct pp_poster_options){
        .loop = k->loop, .params = &k->params, .factory = {fake_fetcher_open, &k->fetcher}});
    assert_non_null(k->o.poster);
    k->lease = pp_election_open(
        &(struct pp_election_options){.loop = k->loop, .name = "deliver/test", .alone = true});
    k->driver = pp_to_webhooks_open(&k->o, k->lease);
    assert_non_null(k->driver);
    for (size_t i = 0; i < ITEMS; i++)
        fake_outbox_put(&k->store, "42");
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;

    pp_to_webhooks_stop(k->driver);
    pp_to_webhooks_give_up(k->driver);
    while (pp_to_webhooks_busy(k->driver) > 0)
        pass(k, 50);
    pp_to_webhooks_close(k->driver);
    pp_election_close(k->lease);
    pp_poster_close(k->o.poster);
    fake_deliveries_close(&k->deliveries);
    fake_outbox_close(&k->store);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

/* Adds endpoints until there are n, and lets the driver find them. */
static void add_hooks(struct kit *k, size_t n)
{
    for (size_t i = k->deliveries.n_webhooks; i < n; i++) {
        snprintf(k->hooks[i].name, sizeof(k->hooks[i].name), "%02zu", i);
        snprintf(k->hooks[i].url, sizeof(k->hooks[i].url), "http://93.184.216.34/%02zu", i);
        k->deliveries.webhooks[k->deliveries.n_webhooks++] = (struct pp_webhook){.name = k->hooks[i].name,
                                                                                 .url = k->hooks[i].url,
                                                                                 .filter = k->filter,
                                                                                 .secret = SECRET,
                                                                                 .created_at = 1,
                                                                                 .version = 1};
    }
    pp_to_webhooks_look(k->driver);
    pass(k, 200);
}

static size_t hook_of(const struct pp_exchange *x)
{
    return (size_t)strtoul(strrchr(x->url, '/') + 1, NULL, 10);
}

/* Answers 200 to the posts that are in flight now, to one endpoint, or to all if `hook` is
 * FAKE_HOOKS. */
static void answer(struct kit *k, size_t hook)
{
    size_t i = 0;

    for (size_t n = k->fetcher.n; n > 0; n--) {
        size_t of = hook_of(k->fetcher.held[i]);
        if (hook != FAKE_HOOKS && of != hook) {
            i++;
            continue;
        }
        k->ended[of]++;
        fake_fetcher_end(&k->fetcher, i, 200);
    }
    pass(k, 50);
}

static size_t held(const struct kit *k, size_t hook)
{
    size_t n = 0;

    for (size_t i = 0; i < k->fetcher.n; i++)
        n += hook_of(k->fetcher.held[i]) == hook;
    return n;
}

/* Two endpoints answer each post, but late, and could use all posts together. A third one gets its
 * messages while those hold theirs. */
static void slow_endpoints_delay_no_other(void **state)
{
    struct kit *k = *state;

    k->params.max_posts = 40;
    add_hooks(k, 2);
    for (int i = 0; i < 6; i++)
        answer(k, FAKE_HOOKS);
    size_t slow = k->fetcher.n, ended = k->ended[0] + k->ended[1];
    assert_true(slow >= 32);
    add_hooks(k, 3);
    for (int i = 0; i < ITEMS && k->ended[2] < ITEMS; i++)
        answer(k, 2);
    assert_int_equal(k->ended[2], ITEMS);
    assert_int_equal(k->ended[0] + k->ended[1], ended);
    assert_int_equal(k->fetcher.n, slow);
}

/* Ends one post to the endpoint with this status, once there is one. */
static void answer_one(struct kit *k, int status)
{
    for (int i = 0; i < 4000 && k->fetcher.n == 0; i++)
        pass(k, 500); /* an endpoint that fails gets pauses */
    assert_true(k->fetcher.n > 0);
    fake_fetcher_end(&k->fetcher, 0, status);
    pass(k, 50);
}

/* The log says once that an endpoint fails, and once that it works again. */
static void an_endpoint_that_fails_is_named(void **state)
{
    struct kit *k = *state;
    FILE *f = tmpfile();
    char text[4000];

    k->params.max_posts = 1;
    k->o.log = pp_log_open(fileno(f), PP_LOG_INFO, false, 0);
    add_hooks(k, 1);
    for (int i = 0; i < 4; i++)
        answer_one(k, 500);
    answer_one(k, 200); /* four failures in a row are too few */
    for (int i = 0; i < 6; i++)
        answer_one(k, 500);
    for (int i = 0; i < 2; i++)
        answer_one(k, 204);
    assert_int_equal(k->metrics.webhook_tries[PP_WEBHOOK_DELIVERED], 3);
    assert_int_equal(k->metrics.webhook_tries[PP_WEBHOOK_RETRY], 10);
    rewind(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    const char *fails = strstr(text, " warn webhook fails webhook=00 failures=5 error=\"HTTP 500\"\n");
    const char *works = strstr(text, " info webhook recovered webhook=00 failures=6\n");
    assert_true(fails && works && fails < works);
    assert_null(strstr(fails + 20, "webhook fails"));
    assert_null(strstr(works + 20, "webhook recovered"));
    pp_log_close(k->o.log);
    k->o.log = NULL;
    fclose(f);
}

static void one_alone_gets_its_window(void **state)
{
    struct kit *k = *state;

    k->params.max_posts = 40;
    add_hooks(k, 1);
    for (int i = 0; i < 6; i++)
        answer(k, FAKE_HOOKS);
    assert_int_equal(held(k, 0), PP_PACE_MAX);
}

/* An endpoint gets results of the statuses in its filter; all items of this test are complete. */
static void a_filter_chooses_results(void **state)
{
    static const char *const filters[] = {"{\"statuses\":[\"failed\",\"complete\"]}",
                                          "{\"statuses\":[\"failed\",\"partial\"]}"};
    struct kit *k = *state;

    k->params.max_posts = 40;
    for (size_t i = 0; i < 2; i++) {
        k->filter = filters[i];
        add_hooks(k, i + 1);
    }
    for (int i = 0; i < 6; i++)
        answer(k, FAKE_HOOKS);
    assert_true(k->ended[0] > 0);
    assert_int_equal(k->ended[1] + held(k, 1), 0);
}

/* There are far more endpoints than posts may be in flight: each gets one in its turn. */
static void the_turn_of_each_comes(void **state)
{
    struct kit *k = *state;

    k->params.max_posts = 3;
    add_hooks(k, 30);
    assert_int_equal(k->fetcher.n, 3);
    for (int i = 0; i < 40; i++)
        answer(k, FAKE_HOOKS);
    for (size_t i = 0; i < 30; i++)
        assert_in_range(k->ended[i], 3, 5);
}

/* An endpoint is deleted while others wait for its place. */
static void a_deleted_endpoint_frees_its_place(void **state)
{
    struct kit *k = *state;

    k->params.max_posts = 1;
    add_hooks(k, 2);
    size_t first = hook_of(k->fetcher.held[0]);
    if (first == 0)
        k->deliveries.webhooks[0] = k->deliveries.webhooks[1];
    k->deliveries.n_webhooks = 1;
    pp_to_webhooks_look(k->driver);
    pass(k, 200);
    answer(k, first);
    assert_int_equal(held(k, 1 - first), 1);
    for (int i = 0; i < 5; i++)
        answer(k, FAKE_HOOKS);
    assert_int_equal(k->ended[first], 1);
    assert_int_equal(k->ended[1 - first], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(slow_endpoints_delay_no_other, setup, teardown),
        cmocka_unit_test_setup_teardown(one_alone_gets_its_window, setup, teardown),
        cmocka_unit_test_setup_teardown(an_endpoint_that_fails_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_filter_chooses_results, setup, teardown),
        cmocka_unit_test_setup_teardown(the_turn_of_each_comes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deleted_endpoint_frees_its_place, setup, teardown),
    };
    return cmocka_run_group_tests_name("to_webhooks", tests, NULL, NULL);
}
