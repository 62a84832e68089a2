/* Tests the driver of webhook endpoints where tests/scenario/test_webhooks.py can't: an endpoint
 * answers 410 while the delivery store can't be written, or just before somebody PUTs it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "fake_delivery.h"
#include "pipeline/deliver/deliver_internal.h"
#include "pipeline/deliver/webhook_post.h"
#include "test_loop.h"

struct kit {
    struct pp_loop *loop;
    struct fake_outbox store;
    struct fake_deliveries deliveries;
    struct pp_delivery_store_ops ops;
    struct pp_webhook row; /* the only endpoint */
    unsigned puts, fail;   /* writes of the endpoint so far; number of the next writes that fail */
    bool hold;             /* the next read of one endpoint is held, and not answered */
    struct pp_webhooks *held;
    struct pp_election *lease;
    struct pp_params params;
    struct pp_poster *poster;
    struct pp_rng rng;
    struct pp_deliverer_options options;
    struct pp_metrics metrics;
    struct pp_to_webhooks *webhooks;
    struct pp_fetcher fetcher;
    struct pp_resolver resolver;
    struct pp_timer *answer;
    struct pp_exchange *x; /* the exchange in flight */
    int status;            /* of the answers */
    unsigned posts;
};

static struct kit *kit_of(struct pp_delivery_store *s)
{
    return (struct kit *)((char *)s - offsetof(struct kit, deliveries));
}

static enum pp_err read_webhooks(struct pp_delivery_store *s, struct pp_webhooks *r)
{
    struct kit *k = kit_of(s);

    r->webhooks = &k->row;
    r->n = 1;
    r->more = false;
    if (r->name && k->hold) {
        k->hold = false;
        k->held = r;
        return PP_OK;
    }
    return fake_later(&k->deliveries.back, &r->req, PP_OK);
}

static enum pp_err put_webhook(struct pp_delivery_store *s, struct pp_webhook_put *r)
{
    struct kit *k = kit_of(s);
    bool fails = k->fail > 0;

    k->puts++;
    k->fail -= fails;
    if (!fails) {
        assert_int_equal(r->webhook.version, k->row.version);
        k->row.disabled = r->webhook.disabled;
        k->row.version++;
    }
    return fake_later(&k->deliveries.back, &r->req, fails ? PP_EIO : PP_OK);
}

/* --- an internet of one endpoint --- */

static void on_answer(void *data)
{
    struct kit *k = data;
    struct pp_exchange *x = k->x;

    k->x = NULL;
    x->status = k->status;
    (void)x->events->head(x);
    x->events->done(x);
}

static enum pp_err start(struct pp_fetcher *f, struct pp_exchange *x)
{
    struct kit *k = (struct kit *)((char *)f - offsetof(struct kit, fetcher));

    assert_null(k->x);
    k->x = x;
    k->posts++;
    pp_timer_start(k->answer, 0, 0);
    return PP_OK;
}

static void close_fetcher(struct pp_fetcher *f)
{
    (void)f;
}

static void close_resolver(struct pp_resolver *r)
{
    (void)r;
}

static enum pp_err open_net(void *data, struct pp_loop *loop, struct pp_fetcher **fetcher,
                            struct pp_resolver **resolver)
{
    static const struct pp_fetcher_ops fetcher_ops = {.start = start, .close = close_fetcher};
    static const struct pp_resolver_ops resolver_ops = {.close = close_resolver};
    struct kit *k = data;

    (void)loop;
    k->fetcher.ops = &fetcher_ops;
    k->resolver.ops = &resolver_ops;
    *fetcher = &k->fetcher;
    *resolver = &k->resolver;
    return PP_OK;
}

static int setup(void **state)
{
    static const struct pp_port_range web[] = {{.lo = 80, .hi = 80}};
    struct kit *k = calloc(1, sizeof(*k));

    *state = k;
    k->loop = pp_loop_open();
    fake_outbox_open(&k->store, k->loop);
    fake_deliveries_open(&k->deliveries, k->loop);
    k->ops = *k->deliveries.base.ops;
    k->ops.webhooks = read_webhooks;
    k->ops.put_webhook = put_webhook;
    k->deliveries.base.ops = &k->ops;
    k->row = (struct pp_webhook){.name = "shop",
                                 .url = "http://93.184.216.1/",
                                 .secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
                                 .created_at = 1,
                                 .version = 1};
    k->status = 410;
    k->params.webhook_policy.ports = web;
    k->params.webhook_policy.n_ports = 1;
    k->params.max_posts = 4;
    k->answer = pp_timer_open(k->loop, on_answer, k);
    k->lease = pp_election_open(
        &(struct pp_election_options){.loop = k->loop, .name = "deliver/webhooks", .alone = true});
    k->poster = pp_poster_open(
        &(struct pp_poster_options){.loop = k->loop, .params = &k->params, .factory = {open_net, k}});
    k->options = (struct pp_deliverer_options){.metrics = &k->metrics,
                                               .loop = k->loop,
                                               .params = &k->params,
                                               .rng = &k->rng,
                                               .store = &k->store.base,
                                               .deliveries = &k->deliveries.base,
                                               .poster = k->poster};
    k->webhooks = pp_to_webhooks_open(&k->options, k->lease);
    assert_non_null(k->webhooks);
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;

    pp_to_webhooks_stop(k->webhooks);
    while (pp_to_webhooks_busy(k->webhooks) > 0)
        (void)pp_loop_turn(k->loop, true);
    pp_to_webhooks_close(k->webhooks);
    pp_poster_close(k->poster);
    pp_election_close(k->lease);
    fake_outbox_close(&k->store);
    fake_deliveries_close(&k->deliveries);
    pp_timer_close(k->answer);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

static bool is_disabled(void *arg)
{
    return ((struct kit *)arg)->row.disabled;
}

/* Otherwise the endpoint would get nothing more, and callers of the API would see it as enabled. */
static void gone_while_the_store_fails(void **state)
{
    struct kit *k = *state;

    k->fail = 2;
    fake_outbox_put(&k->store, "1");
    pp_test_until(k->loop, is_disabled, k, 5000);
    assert_int_equal(k->puts, 3);
    assert_int_equal(k->posts, 1);
}

static bool holds_a_read(void *arg)
{
    return ((struct kit *)arg)->held;
}

static bool has_posted_again(void *arg)
{
    return ((struct kit *)arg)->posts == 2;
}

/* A caller PUTs the endpoint between the 410 and the write that disables it, and the driver sees
 * the PUT first. Otherwise the endpoint would stay disabled, although it works. */
static void put_again_while_it_is_disabled(void **state)
{
    struct kit *k = *state;

    k->hold = true;
    fake_outbox_put(&k->store, "1");
    pp_test_until(k->loop, holds_a_read, k, 5000);
    k->row.version++;
    k->status = 204;
    pp_to_webhooks_look(k->webhooks);
    pp_test_until(k->loop, has_posted_again, k, 5000);
    pp_req_end(&k->held->req, PP_OK);
    assert_int_equal(k->puts, 0);
    assert_false(k->row.disabled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gone_while_the_store_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(put_again_while_it_is_disabled, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
