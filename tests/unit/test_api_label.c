/* Tests the label and the max_age of batches, and that a call waits for a batch to end. */
#include "api_batches.h"
#include "api_events.h"
#include "photopool/scope.h"

#define ITEMS "\"items\":[{\"id\":\"a\",\"photos\":[]}]}"

/* --- label and max_age --- */

static const struct pp_ingest_entry *newest_entry(const struct api_run *t)
{
    assert_true(t->ingest.n > 0);
    return &t->ingest.entries[t->ingest.n - 1].entry;
}

static void posted(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", "{\"client\":\"42\"," ITEMS), 202);
    assert_null(newest_entry(t)->label);
    assert_int_equal(newest_entry(t)->max_age_ms, 0);
    assert_int_equal(api_get(t, batch_path(api_str(t, "batch_id"), "")), 200);
    assert_true(json_is_null(json_object_get(t->json, "label")));

    assert_int_equal(
        api_ask(t, PP_POST, "/v1/batches",
                "{\"client\":\"42\",\"label\":\"M\\u00fc \\\"1\\\"\",\"max_age\":\"30d\"," ITEMS),
        202);
    assert_string_equal(newest_entry(t)->label, "M\xc3\xbc \"1\"");
    assert_int_equal(newest_entry(t)->max_age_ms, INT64_C(30) * 86400000);
    assert_int_equal(newest_entry(t)->refresh, PP_REFRESH_KNOWN);
    assert_int_equal(api_get(t, batch_path(api_str(t, "batch_id"), "")), 200);
    assert_string_equal(api_str(t, "label"), "M\xc3\xbc \"1\"");

    t->content_type = "application/x-ndjson";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches?client=1&label=a+%C3%BC&max_age=1.5h",
                             "{\"id\":\"a\",\"photos\":[]}\n"),
                     202);
    assert_string_equal(newest_entry(t)->label, "a \xc3\xbc");
    assert_int_equal(newest_entry(t)->max_age_ms, 5400000);
}

static void refused(void **state)
{
    static const struct {
        const char *path, *body;
        int status;
        const char *code, *field;
    } cases[] = {
        {"", "{\"client\":\"1\",\"label\":\"\"," ITEMS, 422, "bad_value", "label"},
        {"", "{\"client\":\"1\",\"label\":\"a\\nb\"," ITEMS, 422, "bad_value", "label"},
        {"", "{\"client\":\"1\",\"label\":\"a\\u0085\"," ITEMS, 422, "bad_value", "label"},
        {"", "{\"client\":\"1\",\"label\":null," ITEMS, 400, "bad_type", "label"},
        {"", "{\"client\":\"1\",\"label\":[\"a\"]," ITEMS, 400, "bad_type", "label"},
        {"", "{\"client\":\"1\",\"max_age\":30," ITEMS, 400, "bad_type", "max_age"},
        {"", "{\"client\":\"1\",\"max_age\":\"30\"," ITEMS, 422, "bad_value", "max_age"},
        {"", "{\"client\":\"1\",\"max_age\":\"0\"," ITEMS, 422, "bad_value", "max_age"},
        {"", "{\"client\":\"1\",\"max_age\":\"-1d\"," ITEMS, 422, "bad_value", "max_age"},
        {"", "{\"client\":\"1\",\"max_age\":\"999999999999d\"," ITEMS, 422, "bad_value", "max_age"},
        {"?client=1&label=", "{}", 400, "bad_parameter", "label"},
        {"?client=1&label=a%0Ab", "{}", 400, "bad_parameter", "label"},
        {"?client=1&label=a%FF", "{}", 400, "bad_parameter", "label"},
        {"?client=1&max_age=x", "{}", 400, "bad_parameter", "max_age"},
    };
    struct api_run *t = *state;
    char label[200], body[400];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->content_type = cases[i].path[0] ? "application/x-ndjson" : "application/json";
        snprintf(path, sizeof(path), "/v1/batches%s", cases[i].path);
        int status = api_ask(t, PP_POST, path, cases[i].body);
        if (status != cases[i].status || strcmp(api_code(t), cases[i].code) != 0 ||
            strcmp(api_str(t, "field"), cases[i].field) != 0)
            fail_msg("case %zu: %d %s", i, status, t->server.body);
    }
    memset(label, 'x', sizeof(label));
    for (int n = 129; n >= 128; n--) {
        label[n] = '\0';
        snprintf(body, sizeof(body), "{\"client\":\"1\",\"label\":\"%s\"," ITEMS, label);
        assert_int_equal(api_ask(t, PP_POST, "/v1/batches", body), n == 129 ? 422 : 202);
    }
    assert_string_equal(newest_entry(t)->label, label);
}

/* The same lines with another label or max_age are another request. */
static void a_key_covers_them(void **state)
{
    static const char line[] = "{\"id\":\"a\",\"photos\":[]}";
    static const char *const same[] = {"&label=x&max_age=24h", "&label=x&max_age=1d"};
    static const char *const others[] = {"&label=y&max_age=1d", "&max_age=1d", "&label=x", ""};
    struct api_run *t = *state;

    for (size_t i = 0; i < 6; i++) {
        t->content_type = "application/x-ndjson";
        t->key = "k";
        snprintf(path, sizeof(path), "/v1/batches?client=1%s", i < 2 ? same[i] : others[i - 2]);
        assert_int_equal(api_ask(t, PP_POST, path, line), i < 2 ? 202 : 422);
    }
    assert_int_equal(t->ingest.n, 1);
}

static void entry(struct api_run *t, const char *id, const char *client, const char *label)
{
    t->ingest.entries[t->ingest.n++] = (struct fake_entry){.entry = {.batch_id = strdup(id),
                                                                     .client = strdup(client),
                                                                     .label = label ? strdup(label) : NULL,
                                                                     .created_at = 1,
                                                                     .n_items = 1}};
}

static void stored(struct api_run *t, const char *id, const char *label)
{
    struct pp_batch *b = &t->store.batches[t->store.n_batches++];

    *b = planned(id, "42", PP_BATCH_RUNNING);
    b->label = label;
}

/* Lists the batches with this query, page by page, and checks their ids. */
static void assert_listed(struct api_run *t, const char *query, int limit, const char *const *ids)
{
    char at[100] = "";

    for (size_t i = 0;; i += (size_t)limit) {
        snprintf(path, sizeof(path), "/v1/batches?limit=%d%s%s", limit, query, at);
        assert_int_equal(api_get(t, path), 200);
        const json_t *batches = api_at(t, "batches");
        for (size_t k = 0; k < json_array_size(batches); k++)
            assert_string_equal(json_string_value(json_object_get(json_array_get(batches, k), "batch_id")),
                                ids[i + k]);
        if (!api_str(t, "next")[0]) {
            assert_null(ids[i + json_array_size(batches)]);
            return;
        }
        assert_int_equal(json_array_size(batches), limit);
        snprintf(at, sizeof(at), "&after=%s", api_str(t, "next"));
    }
}

/* The queue gives pages of two entries, so that the API searches in several. */
static void listed_by_label(void **state)
{
    static const char *const ids[] = {"b_0000000090000000000aa", "b_0000000080000000000aa",
                                      "b_0000000070000000000aa", "b_0000000060000000000aa",
                                      "b_0000000050000000000aa"};
    struct api_run *t = *state;

    stored(t, ID_A, "x");
    stored(t, ID_B, NULL);
    stored(t, ID_C, "xy");
    entry(t, ids[4], "42", "x");
    entry(t, ids[3], "42", NULL);
    entry(t, ids[2], "43", "y");
    entry(t, ids[1], "43", "x");
    entry(t, ids[0], "42", "x");
    t->ingest.page_max = 2;
    for (int limit = 1; limit <= 5; limit++) {
        assert_listed(t, "&label=x", limit, (const char *const[]){ids[0], ids[1], ids[4], ID_A, NULL});
        assert_listed(t, "&label=x&client=43", limit, (const char *const[]){ids[1], NULL});
        assert_listed(t, "&label=x&state=accepted", limit,
                      (const char *const[]){ids[0], ids[1], ids[4], NULL});
        assert_listed(t, "&label=x&state=running", limit, (const char *const[]){ID_A, NULL});
        assert_listed(t, "&label=none", limit, (const char *const[]){NULL});
    }
    assert_int_equal(api_get(t, "/v1/batches?label=x&limit=1"), 200);
    assert_string_equal(json_string_value(api_at(t, "batches.0.label")), "x");
    snprintf(path, sizeof(path), "/v1/batches?label=y&after=%s", api_str(t, "next"));
    assert_int_equal(api_get(t, path), 400); /* a cursor belongs to one filter */
    assert_int_equal(api_get(t, "/v1/batches?label="), 400);
    assert_string_equal(api_str(t, "field"), "label");
}

/* --- waiting for the end of a batch --- */

static void wait_for(struct api_run *t, struct pp_http_request *r, const char *id)
{
    t->server.replies = 0;
    api_begin(t, r, PP_GET, batch_path(id, "?wait=30"), NULL, 0);
}

/* Turns the loop until the call has read the batch again after its subscription, and so waits. */
static bool waits(void *arg)
{
    struct api_run *t = arg;

    return t->server.replies > 0 || (pp_hub_subscribers(t->options.hub) > 0 && t->store.batch_reads >= 2);
}

static void begin_wait(struct api_run *t, struct pp_http_request *r)
{
    stored(t, ID_A, "x");
    t->store.batch_reads = 0;
    wait_for(t, r, ID_A);
    pp_test_until(t->loop, waits, t, 20000);
    for (int i = 0; i < 5; i++)
        (void)pp_loop_turn(t->loop, false);
    assert_int_equal(t->server.replies, 0);
    assert_int_equal(t->store.batch_reads, 2);
    assert_int_equal(pp_hub_subscribers(t->options.hub), 1);
}

/* Checks that the call has been answered with this state, and holds nothing. */
static void assert_answered(struct api_run *t, const char *expected)
{
    pp_test_until(t->loop, api_replied, t, 20000);
    assert_int_equal(t->server.replies, 1);
    assert_int_equal(t->server.status, 200);
    json_decref(t->json);
    t->json = json_loadb(t->server.body, t->server.body_n, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(api_str(t, "state"), expected);
    assert_int_equal(pp_hub_subscribers(t->options.hub), 0);
}

static void a_wait_is_checked(void **state)
{
    static const char *const wrong[] = {"?wait=61", "?wait=-1", "?wait=x", "?wait="};
    struct api_run *t = *state;
    struct polls p;

    open_events(t, &p);
    stored(t, ID_A, NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(api_get(t, batch_path(ID_A, wrong[i])), 400);
        assert_string_equal(api_code(t), "bad_parameter");
    }
    assert_int_equal(api_get(t, batch_path(ID_A, "?wait=0")), 200);
    assert_string_equal(api_str(t, "state"), "running");
    assert_int_equal(api_get(t, batch_path(ID_B, "?wait=60")), 404);
    t->store.batches[0].state = PP_BATCH_FINISHED;
    assert_int_equal(api_get(t, batch_path(ID_A, "?wait=60")), 200);
    t->store.batches[0].state = PP_BATCH_CANCELLED;
    assert_int_equal(api_get(t, batch_path(ID_A, "?wait=60")), 200);
    close_events(t, &p);
}

/* An event of progress says nothing; the event of the end does. */
static void a_wait_ends_with_the_batch(void **state)
{
    struct api_run *t = *state;
    struct polls p;

    open_events(t, &p);
    begin_wait(t, &t->request);
    fake_log_put(&p.log, "batch:" ID_A, "photopool.batch.progress", "{}");
    for (int i = 0; i < 20; i++)
        (void)pp_loop_turn(t->loop, false);
    assert_int_equal(t->server.replies, 0);
    assert_int_equal(t->store.batch_reads, 2);
    t->store.batches[0].state = PP_BATCH_FINISHED;
    fake_log_put(&p.log, "batch:" ID_A, "photopool.batch.finished", "{}");
    assert_answered(t, "finished");
    assert_int_equal(t->store.batch_reads, 3);
    close_events(t, &p);
}

/* The batch ends between the first reading and the subscription, so no event comes. */
static void an_end_before_the_subscription(void **state)
{
    struct api_run *t = *state;
    struct polls p;

    open_events(t, &p);
    stored(t, ID_A, NULL);
    t->store.finish_after = 1;
    wait_for(t, &t->request, ID_A);
    assert_answered(t, "finished");
    close_events(t, &p);
}

static void a_wait_ends_in_time(void **state)
{
    struct api_run *t = *state;
    struct polls p;

    open_events(t, &p);
    begin_wait(t, &t->request);
    pp_test_clock_pass(t->loop, 29999);
    for (int i = 0; i < 5; i++)
        (void)pp_loop_turn(t->loop, false);
    assert_int_equal(t->server.replies, 0);
    t->store.batches[0].items_total = 77;
    pp_test_clock_pass(t->loop, 1);
    assert_answered(t, "running");
    assert_int_equal(api_int(t, "items.total"), 77); /* the current state */
    close_events(t, &p);
}

/* A caller that goes away frees its place. So does the process that stops. */
static void a_wait_is_given_up(void **state)
{
    struct api_run *t = *state;
    struct polls p;

    open_events(t, &p);
    begin_wait(t, &t->request);
    t->request.hung_up = true;
    t->request.on_hang_up(&t->request);
    assert_answered(t, "running");
    begin_wait(t, &t->request);
    pp_api_end(t->api);
    assert_answered(t, "running");
    close_events(t, &p);
}

static void waits_have_places(void **state)
{
    struct api_run *t = *state;
    struct polls p;
    struct pp_http_request second;

    open_events(t, &p);
    t->params.max_subscribers = 1;
    begin_wait(t, &t->request);
    wait_for(t, &second, ID_A); /* takes the place of the oldest */
    pp_test_until(t->loop, api_replied, t, 20000);
    assert_ptr_equal(t->server.request, &t->request);
    assert_int_equal(t->server.status, 200);
    assert_int_equal(pp_hub_subscribers(t->options.hub), 1);
    t->params.max_subscribers = 0;
    assert_int_equal(api_get(t, batch_path(ID_A, "?wait=1")), 503);
    close_events(t, &p);
}

/* A reload takes the key away, so the call gets no answer. */
static void a_wait_ends_with_its_key(void **state)
{
    struct api_run *t = *state;
    struct polls p;
    struct pp_api_key key = api_key("one", PP_SCOPE_READ);

    open_events(t, &p);
    key.number = 1;
    t->params.keys = &key;
    t->params.n_keys = 1;
    t->authorization = "Bearer one";
    begin_wait(t, &t->request);
    key.number = 2;
    pp_api_reloaded(t->api);
    pp_test_until(t->loop, api_replied, t, 20000);
    assert_int_equal(t->server.status, 401);
    assert_int_equal(pp_hub_subscribers(t->options.hub), 0);
    close_events(t, &p);
}

/* The store fails while the call waits. */
static void a_wait_may_fail(void **state)
{
    struct api_run *t = *state;
    struct polls p;

    open_events(t, &p);
    begin_wait(t, &t->request);
    t->store.err = PP_EIO;
    t->ingest.err = PP_EIO;
    pp_test_clock_pass(t->loop, 30000);
    pp_test_until(t->loop, api_replied, t, 20000);
    assert_int_equal(t->server.status, 503);
    assert_int_equal(pp_hub_subscribers(t->options.hub), 0);
    close_events(t, &p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, api_open, api_close)
    const struct CMUnitTest tests[] = {
        TEST(posted),
        TEST(refused),
        TEST(a_key_covers_them),
        TEST(listed_by_label),
        TEST(a_wait_is_checked),
        TEST(a_wait_ends_with_the_batch),
        TEST(an_end_before_the_subscription),
        TEST(a_wait_ends_in_time),
        TEST(a_wait_is_given_up),
        TEST(waits_have_places),
        TEST(a_wait_ends_with_its_key),
        TEST(a_wait_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
