/* Tests DELETE /v1/items/{client}/{item} over a fake store: what it asks the store to delete, and
 * how it answers when the store refuses. */
#include <openssl/sha.h>

#include "api_keys.h"
#include "api_run.h"
#include "fake_delivery.h"

#define PATH "/v1/items/42/ad-1"

struct kit {
    struct api_run *t;
    struct fake_deliveries deliveries;
};

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));
    void *run;

    *state = k;
    api_open(&run);
    k->t = run;
    fake_deliveries_open(&k->deliveries, k->t->loop);
    snprintf(k->deliveries.cursors[0].sink, PP_SINK_NAME_MAX, "statistics");
    snprintf(k->deliveries.cursors[1].sink, PP_SINK_NAME_MAX, "batches");
    k->deliveries.cursors[0].cursor = k->deliveries.cursors[1].cursor = k->t->store.outbox = 9;
    k->deliveries.n_cursors = 2;
    k->t->options.deliveries = &k->deliveries.base;
    api_restart(k->t, PP_ROLE_API);
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;
    void *run = k->t;

    fake_deliveries_close(&k->deliveries);
    api_close(&run);
    free(k);
    return 0;
}

static void an_item_is_forgotten(void **state)
{
    struct api_run *t = ((struct kit *)*state)->t;

    assert_int_equal(api_ask(t, PP_DELETE, "/v1/items/42/ad%2F1", NULL), 200);
    assert_string_equal(t->server.body, "{\"client\":\"42\",\"item\":\"ad/1\",\"revisions\":2}");
    /* Everything is delivered, up to the end that was read before. */
    assert_true(t->store.forget_item.finished_before_ms == INT64_MAX);
    assert_int_equal(t->store.forget_item.upto_seq, 9);
}

/* The store deletes only what has been delivered: also to the reader of batches, which is no
 * sink. */
static void what_waits_is_kept(void **state)
{
    struct kit *k = *state;
    struct api_run *t = k->t;

    t->store.outbox_oldest_at = 1000000;
    for (size_t i = 0; i < 2; i++) {
        k->deliveries.cursors[0].cursor = k->deliveries.cursors[1].cursor = 9;
        k->deliveries.cursors[i].cursor = 8;
        assert_int_equal(api_ask(t, PP_DELETE, PATH "?force=false", NULL), 200);
        assert_int_equal(t->store.forget_item.finished_before_ms, 1000000 - 60000);
        assert_int_equal(t->store.forget_item.upto_seq, 9);
    }
    assert_int_equal(api_ask(t, PP_DELETE, PATH "?force=true", NULL), 200);
    assert_true(t->store.forget_item.finished_before_ms == INT64_MAX);
    assert_true(t->store.forget_item.upto_seq == UINT64_MAX);
    k->deliveries.n_cursors = 0; /* no sink has begun */
    assert_int_equal(api_ask(t, PP_DELETE, PATH, NULL), 200);
    assert_true(t->store.forget_item.finished_before_ms == INT64_MIN);
}

static void requests_are_refused(void **state)
{
    static const struct {
        enum pp_err err;
        int status;
        const char *code;
    } cases[] = {{PP_EBUSY, 409, "item_open"},
                 {PP_ESTALE, 409, "undelivered"},
                 {PP_ENOTFOUND, 404, "not_found"},
                 {PP_EIO, 503, "unavailable"},
                 {PP_EUNKNOWN, 503, "unavailable"}};
    struct api_run *t = ((struct kit *)*state)->t;

    assert_int_equal(api_ask(t, PP_DELETE, PATH "?force=1", NULL), 400);
    assert_string_equal(api_code(t), "bad_parameter");
    assert_int_equal(api_ask(t, PP_DELETE, PATH "?client=42", NULL), 400);
    assert_int_equal(api_ask(t, PP_DELETE, "/v1/items/a%3Ab/ad-1", NULL), 404);
    assert_null(t->store.forget_item.id);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->store.forget_err = cases[i].err;
        assert_int_equal(api_ask(t, PP_DELETE, PATH, NULL), cases[i].status);
        assert_string_equal(api_code(t), cases[i].code);
    }
    t->store.forget_err = PP_OK;
    t->store.err = PP_EIO; /* the outbox can't be read */
    t->store.forget_item.id = NULL;
    assert_int_equal(api_ask(t, PP_DELETE, PATH, NULL), 503);
    assert_null(t->store.forget_item.id);
}

/* An administrator's key may do it, a bound one only for its own client. */
static void keys_limit_it(void **state)
{
    struct api_run *t = ((struct kit *)*state)->t;
    struct pp_api_key keys[6];
    static const struct {
        const char *key;
        int own, other;
    } cases[] = {{"submitter", 403, 403},
                 {"reader", 403, 403},
                 {"bound", 403, 403},
                 {"boundadmin", 200, 404},
                 {"administrator", 200, 200}};

    use_keys(t, keys);
    assert_int_equal(api_ask(t, PP_DELETE, PATH, NULL), 401);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[64];
        snprintf(text, sizeof(text), "Bearer %s", cases[i].key);
        t->authorization = text;
        assert_int_equal(api_ask(t, PP_DELETE, PATH, NULL), cases[i].own);
        t->authorization = text;
        assert_int_equal(api_ask(t, PP_DELETE, "/v1/items/43/ad-1", NULL), cases[i].other);
    }
}

/* Without deliveries there are no sinks to wait for. */
static void results_that_nobody_gets(void **state)
{
    struct api_run *t = ((struct kit *)*state)->t;

    t->options.deliveries = NULL;
    api_restart(t, PP_ROLE_API);
    assert_int_equal(api_ask(t, PP_DELETE, PATH, NULL), 200);
    assert_true(t->store.forget_item.upto_seq == UINT64_MAX);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_item_is_forgotten), TEST(what_waits_is_kept),       TEST(requests_are_refused),
        TEST(keys_limit_it),        TEST(results_that_nobody_gets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
