/* test_api_rejected.c: tests of GET /v1/batches/{id}/rejected: rejected items stay visible before a
 * batch is planned, and afterwards. */
#include "api/api.h"
#include "api/handler.h"
#include "api_batches.h"
#include "core/entry.h"
#include "format/ids.h"
#include "pipeline/accept/rejected.h"

/* --- rejected items --- */

/* Gives the store 250 verdicts, in three parts. */
static void reject_250(struct api_run *t, struct pp_buf packed[3])
{
    struct pp_buf part;
    char text[40];

    for (uint32_t i = 0; i < 3; i++) {
        pp_buf_init(&part, 1 << 20);
        pp_buf_init(&packed[i], 1 << 20);
        for (uint32_t k = i * 100; k < 250 && k < (i + 1) * 100; k++)
            pp_rejected_add(&part, text, (size_t)snprintf(text, sizeof(text), "{\"index\":%u}", k));
        pp_rejected_pack(&packed[i], &part);
        pp_buf_fini(&part);
        t->store.rejected[t->store.n_rejected++] = (struct pp_rejected_part){i, packed[i].p, packed[i].n};
    }
}

static void rejected_in_pages(void **state)
{
    struct api_run *t = *state;
    struct pp_buf packed[3];
    char url[300];
    long long seen = 0;

    reject_250(t, packed);
    t->store.batches[t->store.n_batches++] = planned(ID_A, "42", PP_BATCH_FINISHED);
    snprintf(url, sizeof(url), "/v1/batches/" ID_A "/rejected?limit=30");
    for (bool more = true; more;) {
        assert_int_equal(api_get(t, url), 200);
        size_t n = json_array_size(api_at(t, "rejected"));
        for (size_t i = 0; i < n; i++, seen++)
            assert_int_equal(
                json_integer_value(json_object_get(json_array_get(api_at(t, "rejected"), i), "index")), seen);
        more = !json_is_null(api_at(t, "next"));
        assert_int_equal(n, more ? 30 : 10);
        snprintf(url, sizeof(url), "/v1/batches/" ID_A "/rejected?limit=30&after=%s", api_str(t, "next"));
    }
    assert_int_equal(seen, 250);
    assert_int_equal(api_get(t, "/v1/batches/" ID_A "/rejected?limit=1000"), 200);
    assert_int_equal(json_array_size(api_at(t, "rejected")), 250);
    t->store.rejected[1].n--; /* a damaged part */
    assert_int_equal(api_get(t, "/v1/batches/" ID_A "/rejected?limit=1000"), 500);
    assert_int_equal(api_get(t, "/v1/batches/" ID_B "/rejected"), 404);
    for (int i = 0; i < 3; i++)
        pp_buf_fini(&packed[i]);
}

static void rejected_before_planning(void **state)
{
    struct api_run *t = *state;
    struct pp_buf packed[3];
    char id[PP_BATCH_ID_MAX];

    reject_250(t, packed);
    t->content_type = "application/x-ndjson";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches?client=42", "{\"id\":\"a\",\"photos\":[]}\nno\n"), 202);
    assert_int_equal(api_int(t, "rejected_total"), 1);
    snprintf(id, sizeof(id), "%s", api_str(t, "batch_id"));
    assert_int_equal(api_get(t, batch_path(id, "")), 200);
    assert_int_equal(api_int(t, "items.rejected"), 1);

    /* The request waits until the batch is planned. */
    t->server.replies = 0;
    api_begin(t, &t->request, PP_GET, batch_path(id, "/rejected"), NULL, 0);
    for (int i = 0; i < 5; i++) {
        pp_test_clock_pass(t->loop, 60);
        pp_loop_turn(t->loop, false);
    }
    assert_int_equal(t->server.replies, 0);
    t->store.batches[t->store.n_batches++] = planned(strdup(id), "42", PP_BATCH_RUNNING);
    plan_entry(t);
    while (t->server.replies == 0) {
        pp_test_clock_pass(t->loop, 60);
        pp_loop_turn(t->loop, false);
    }
    assert_int_equal(t->server.status, 200);
    free((char *)t->store.batches[0].id);
    for (int i = 0; i < 3; i++)
        pp_buf_fini(&packed[i]);
}

static void rejected_of_a_batch_that_is_never_planned(void **state)
{
    struct api_run *t = *state;

    t->content_type = "application/x-ndjson";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches?client=42", "{\"id\":\"a\",\"photos\":[]}\nno\n"), 202);
    t->server.replies = 0;
    api_begin(t, &t->request, PP_GET, batch_path(api_str(t, "batch_id"), "/rejected"), NULL, 0);
    while (t->server.replies == 0) {
        pp_test_clock_pass(t->loop, 60);
        pp_loop_turn(t->loop, false);
    }
    assert_int_equal(t->server.status, 503);
}

static void a_repeated_post_rejects_again(void **state)
{
    static const char body[] = "{\"id\":\"a\",\"photos\":[]}\nno\n";
    struct api_run *t = *state;

    for (int i = 0; i < 2; i++) {
        t->content_type = "application/x-ndjson";
        t->key = "k";
        assert_int_equal(api_ask(t, PP_POST, "/v1/batches?client=42", body), 202);
        assert_int_equal(api_int(t, "rejected_total"), 1);
        assert_int_equal(api_int(t, "rejected.0.index"), 1);
    }
    assert_true(api_has_header(t, "Idempotency-Replayed: true\n"));
    assert_null(strstr(t->ingest.entries[0].answer, "rejected")); /* The queue keeps the answer only. */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rejected_in_pages),
        TEST(rejected_before_planning),
        TEST(rejected_of_a_batch_that_is_never_planned),
        TEST(a_repeated_post_rejects_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
