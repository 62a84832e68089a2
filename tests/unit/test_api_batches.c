/* Tests /v1/batches over fake ports: accepting, idempotency, reading, cancelling and listing. */
#include "api/api.h"
#include "api/handler.h"
#include "api_batches.h"
#include "format/ids.h"
#include "pipeline/accept/rejected.h"

#define ONE "{\"client\":\"42\",\"items\":[{\"id\":\"a\",\"photos\":[\"http://x.example/1\"]}]}"
#define TWO "{\"client\":\"42\",\"items\":[{\"id\":\"b\",\"photos\":[\"http://x.example/1\"]}]}"

/* --- POST --- */

static void accepted(void **state)
{
    struct api_run *t = *state;
    char location[100];

    assert_int_equal(
        api_ask(t, PP_POST, "/v1/batches",
                "{\"client\":\"42\",\"refresh\":\"always\",\"items\":[{\"id\":\"a\",\"photos\":["
                "\"http://x.example/1\",\"http://x.example/2\"]},{\"id\":\"b\",\"photos\":[17]}]}"),
        202);
    assert_string_equal(t->server.type, "application/json");
    assert_true(pp_batch_id_valid(api_str(t, "batch_id")));
    assert_string_equal(api_str(t, "client"), "42");
    assert_int_equal(api_int(t, "accepted"), 1);
    assert_int_equal(api_int(t, "rejected.0.index"), 1);
    assert_string_equal(json_string_value(api_at(t, "rejected.0.detail")), "expected a string, got 17");
    snprintf(location, sizeof(location), "Location: /v1/batches/%s\n", api_str(t, "batch_id"));
    assert_true(api_has_header(t, location));

    const struct pp_ingest_entry *e = &t->ingest.entries[0].entry;
    assert_int_equal(t->ingest.n, 1);
    assert_string_equal(e->batch_id, api_str(t, "batch_id"));
    assert_string_equal(e->client, "42");
    assert_int_equal(e->refresh, PP_REFRESH_ALWAYS);
    assert_int_equal(e->n_items, 1);
    assert_int_equal(e->n_photos, 2);
    assert_false(e->replay);
    assert_int_equal(t->metrics.batches_accepted, 1);
}

static void accepted_as_lines(void **state)
{
    struct api_run *t = *state;

    t->content_type = "application/x-ndjson; charset=utf-8";
    assert_int_equal(
        api_ask(t, PP_POST, "/v1/batches?client=7&refresh=changed", "{\"id\":\"a\",\"photos\":[]}\nnope\n"),
        202);
    assert_int_equal(api_int(t, "accepted"), 1);
    assert_int_equal(api_int(t, "rejected.0.index"), 1);
    assert_string_equal(t->ingest.entries[0].entry.client, "7");
    assert_int_equal(t->ingest.entries[0].entry.refresh, PP_REFRESH_CHANGED);
}

static void no_answer_before_the_queue_has_the_batch(void **state)
{
    struct api_run *t = *state;

    t->ingest.back.hold = true;
    t->server.replies = 0;
    api_begin(t, &t->request, PP_POST, "/v1/batches", ONE, strlen(ONE));
    while (t->ingest.n == 0)
        pp_loop_turn(t->loop, true);
    for (int i = 0; i < 5; i++)
        pp_loop_turn(t->loop, false);
    assert_int_equal(t->server.replies, 0);
    assert_false(pp_api_idle(t->api));
    fake_release(&t->ingest.back);
    pp_test_until(t->loop, api_replied, t, 5000);
    assert_int_equal(t->server.status, 202);
}

static void refusals(void **state)
{
    static const struct {
        const char *path, *type, *key, *body;
        int status;
        const char *code, *field;
    } cases[] = {
        {"/v1/batches", "application/json", NULL, "{", 400, "bad_json", ""},
        {"/v1/batches", "application/json", NULL, "{\"client\":\"a b\",\"items\":[]}", 400, "bad_client",
         "client"},
        {"/v1/batches", "application/json", NULL, "{\"x\":1}", 400, "unknown_field", "x"},
        {"/v1/batches", "application/json", NULL, "{\"client\":\"1\",\"items\":[]}", 422, "all_rejected", ""},
        {"/v1/batches", "text/plain", NULL, ONE, 415, "unsupported_media_type", ""},
        {"/v1/batches", "application/jsonx", NULL, ONE, 415, "unsupported_media_type", ""},
        {"/v1/batches", "application/json; charset=latin1", NULL, ONE, 415, "unsupported_media_type", ""},
        {"/v1/batches", "application/json", "with blank", ONE, 400, "bad_idempotency_key", ""},
        {"/v1/batches", "application/json", "", ONE, 400, "bad_idempotency_key", ""},
        {"/v1/batches", "application/json", "k\x7f", ONE, 400, "bad_idempotency_key", ""},
        {"/v1/batches?client=1", "application/json", NULL, ONE, 400, "bad_parameter", "client"},
        {"/v1/batches?nope=1", "application/json", NULL, ONE, 400, "bad_parameter", "nope"},
        {"/v1/batches", "application/x-ndjson", NULL, "{}", 400, "bad_parameter", "client"},
        {"/v1/batches?client=a:b", "application/x-ndjson", NULL, "{}", 400, "bad_client", "client"},
        {"/v1/batches?client=1&refresh=x", "application/x-ndjson", NULL, "{}", 400, "bad_parameter",
         "refresh"},
        {"/v1/batches?client=1&client=1", "application/x-ndjson", NULL, "{}", 400, "bad_parameter", "client"},
        {"/v1/batches?client=%zz", "application/x-ndjson", NULL, "{}", 400, "bad_parameter", "client"},
        {"/v1/batches?client=1", "application/x-ndjson", NULL, "nope", 422, "all_rejected", ""},
    };
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->content_type = cases[i].type;
        t->key = cases[i].key;
        int status = api_ask(t, PP_POST, cases[i].path, cases[i].body);
        if (status != cases[i].status || strcmp(api_code(t), cases[i].code) != 0 ||
            strcmp(api_str(t, "field"), cases[i].field) != 0)
            fail_msg("case %zu: %d %s", i, status, t->server.body);
    }
    assert_int_equal(t->ingest.n, 0);
    char key[300];
    memset(key, 'k', sizeof(key));
    key[256] = '\0';
    t->key = key;
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 400);
    assert_string_equal(api_code(t), "bad_idempotency_key");
    key[255] = '\0';
    t->key = key;
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 202);
}

static void all_rejected_says_why(void **state)
{
    struct api_run *t = *state;
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", "{\"client\":\"1\",\"items\":[{\"id\":1}]}"), 422);
    assert_string_equal(api_code(t), "all_rejected");
    assert_string_equal(json_string_value(api_at(t, "rejected.0.code")), "bad_type");
    assert_int_equal(t->metrics.batches_rejected, 1);
}

/* A caller finds its item again by the id that it sent, of whatever type. */
static void a_rejected_id_is_echoed(void **state)
{
    static const struct {
        const char *sent, *echoed;
    } cases[] = {{"17", "17"},    {"1.5", "1.5"},           {"true", "true"}, {"null", "null"},
                 {"[1]", "null"}, {"\"a\\n\"", "\"a\\n\""}, {"{}", "null"}};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"client\":\"1\",\"items\":[{\"id\":%s,\"photos\":[]}]}",
                 cases[i].sent);
        assert_int_equal(api_ask(t, PP_POST, "/v1/batches", body), 422);
        char *id = json_dumps(api_at(t, "rejected.0.id"), JSON_ENCODE_ANY);
        assert_string_equal(id, cases[i].echoed);
        free(id);
    }
}

static void a_key_makes_one_batch(void **state)
{
    struct api_run *t = *state;
    char first[PP_BATCH_ID_MAX], location[100];

    t->key = "k-1";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 202);
    assert_false(api_has_header(t, "Idempotency-Replayed"));
    snprintf(first, sizeof(first), "%s", api_str(t, "batch_id"));
    t->key = "k-1";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 202);
    assert_true(api_has_header(t, "Idempotency-Replayed: true\n"));
    assert_string_equal(api_str(t, "batch_id"), first);
    snprintf(location, sizeof(location), "Location: /v1/batches/%s\n", first);
    assert_true(api_has_header(t, location));
    assert_int_equal(t->ingest.n, 1);
    assert_int_equal(t->metrics.batches_replayed, 1);

    t->key = "k-1";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", TWO), 422);
    assert_string_equal(api_code(t), "idempotency_mismatch");
    /* clients do not share keys: when another client sends the same text, it is a new key */
    t->key = "k-1";
    assert_int_equal(
        api_ask(t, PP_POST, "/v1/batches", "{\"client\":\"43\",\"items\":[{\"id\":\"a\",\"photos\":[]}]}"),
        202);
    assert_false(api_has_header(t, "Idempotency-Replayed"));
}

/* A client sends the same lines with other parameters. This is a different request, so the API
 * refuses the key of the first one. */
static void a_key_covers_the_query(void **state)
{
    static const char line[] = "{\"id\":\"a\",\"photos\":[]}";
    struct api_run *t = *state;

    for (int i = 0; i < 3; i++) {
        t->content_type = "application/x-ndjson";
        t->key = "k";
        int status =
            api_ask(t, PP_POST, i < 2 ? "/v1/batches?client=1" : "/v1/batches?client=1&refresh=always", line);
        assert_int_equal(status, i < 2 ? 202 : 422);
    }
}

static void a_key_in_progress(void **state)
{
    struct api_run *t = *state;
    struct pp_http_request second;

    t->ingest.back.hold = true;
    t->server.replies = 0;
    t->key = "k";
    api_begin(t, &t->request, PP_POST, "/v1/batches", ONE, strlen(ONE));
    while (t->ingest.n == 0)
        pp_loop_turn(t->loop, true);
    t->key = "k";
    api_begin(t, &second, PP_POST, "/v1/batches", ONE, strlen(ONE));
    pp_test_until(t->loop, api_replied, t, 5000);
    assert_int_equal(t->server.status, 409);
    assert_non_null(strstr(t->server.body, "idempotency_in_progress"));
    t->server.replies = 0;
    fake_release(&t->ingest.back);
    pp_test_until(t->loop, api_replied, t, 5000);
    assert_int_equal(t->server.status, 202);
    t->key = "k";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 202);
    assert_true(api_has_header(t, "Idempotency-Replayed: true\n"));
}

static void the_queue_fails(void **state)
{
    static const struct {
        enum pp_err err;
        int status;
        const char *code;
    } cases[] = {{PP_EFULL, 503, "overloaded"},     {PP_ENOSPC, 503, "overloaded"},
                 {PP_ETIMEOUT, 503, "unavailable"}, {PP_EIO, 503, "unavailable"},
                 {PP_EUNKNOWN, 503, "unavailable"}, {PP_ECORRUPT, 500, "internal"}};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->ingest.append_err = cases[i].err;
        t->key = "k";
        assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), cases[i].status);
        assert_string_equal(api_code(t), cases[i].code);
        assert_int_equal(api_has_header(t, "Retry-After: "), cases[i].status == 503);
        assert_int_equal(strncmp(api_str(t, "instance"), "urn:photopool:incident:", 23) == 0,
                         strcmp(cases[i].code, "overloaded") != 0);
    }
    t->ingest.append_err = PP_OK; /* The failed request has not used up its key. */
    t->key = "k";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 202);
}

static void too_many_keys(void **state)
{
    struct api_run *t = *state;
    char line[40];

    t->ingest.append_err = PP_EBUSY;
    t->key = "k";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 429);
    assert_string_equal(api_code(t), "rate_limited");
    snprintf(line, sizeof(line), "Retry-After: %lld\n", 3600 - pp_loop_date(t->loop) / 1000 % 3600LL);
    assert_true(api_has_header(t, line));
}

static void bodies_are_bounded(void **state)
{
    struct api_run *t = *state;
    struct pp_http_request more[6];
    static char big[100];

    t->params.max_body = 20;
    memset(big, ' ', sizeof(big));
    t->server.replies = 0;
    for (int i = 0; i < 6; i++) /* The API accepts the first request whatever its size. */
        api_begin(t, &more[i], PP_POST, "/v1/batches", big, sizeof(big));
    assert_int_equal(t->server.replies, 5);
    assert_int_equal(t->server.status, 503);
    assert_true(api_has_header(t, "Retry-After: "));
    t->server.replies = 0;
    pp_test_until(t->loop, api_replied, t, 5000);
    assert_int_equal(t->server.status, 400);
}

/* A draining process still accepts a batch. It then closes the connection, so that the caller's
 * next request goes to another process. */
static void draining_accepts(void **state)
{
    struct api_run *t = *state;
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 202);
    assert_false(t->server.close);
    pp_api_drain(t->api);
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 202);
    assert_true(t->server.close);
    assert_int_equal(api_ask(t, PP_GET, "/readyz", NULL), 503);
}

/* --- GET, DELETE --- */

static void an_accepted_batch_is_readable_at_once(void **state)
{
    struct api_run *t = *state;
    char id[PP_BATCH_ID_MAX];

    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", ONE), 202);
    snprintf(id, sizeof(id), "%s", api_str(t, "batch_id"));
    assert_int_equal(api_get(t, batch_path(id, "")), 200);
    assert_string_equal(api_str(t, "batch_id"), id);
    assert_string_equal(api_str(t, "state"), "accepted");
    assert_int_equal(api_int(t, "items.total"), 1);
    assert_int_equal(api_int(t, "items.open"), 1);
    assert_int_equal(api_int(t, "photos.open"), 1);
    assert_true(json_is_null(api_at(t, "finished_at")));
    assert_true(json_is_null(api_at(t, "eta_seconds")));
    assert_int_equal(api_get(t, batch_path(id, "/results")), 200);
    assert_int_equal(json_array_size(api_at(t, "results")), 0);
    assert_int_equal(api_get(t, batch_path(id, "")), 200);
    assert_int_equal(api_int(t, "waiting.queued"), 1);
    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "42", .paused = true};
    assert_int_equal(api_get(t, batch_path(id, "")), 200);
    assert_int_equal(api_int(t, "waiting.paused"), 1);
    assert_int_equal(api_get(t, "/v1/batches?state=accepted"), 200);
    assert_int_equal(api_int(t, "batches.0.waiting.paused"), 1);
    /* The store fails. The API still finds the batch in the ingest queue, but no results. */
    t->store.err = PP_ETIMEOUT;
    assert_int_equal(api_get(t, batch_path(id, "")), 200);
    assert_int_equal(api_get(t, batch_path(id, "/results")), 503);
    assert_int_equal(api_get(t, "/v1/batches?state=accepted"), 200);
    assert_int_equal(api_int(t, "batches.0.waiting.queued"), 1);
}

/* GET /v1/batches/{id} says why the open photos of a batch wait. */
static void reasons_of_a_batch(void **state)
{
    struct api_run *t = *state;
    int64_t now = pp_loop_wall(t->loop);
    const struct pp_wait_task retry = {.attempts = 1, .due_ms = now + 60000}, old = {.due_ms = now - 60000};

    t->params.n_tiers = 1;
    t->params.tiers[0].timeout_ms = 1000;
    t->coordinator.workers[t->coordinator.n++] =
        (struct pp_worker_info){.id = "w", .tiers = "1", .capacity = 9, .seen_at = now};
    pp_waits_add(&t->store.waits, &retry, 1, now);
    pp_waits_add(&t->store.waits, &old, 2, now);
    t->store.batches[t->store.n_batches++] = planned(ID_A, "42", PP_BATCH_RUNNING);
    assert_int_equal(api_get(t, batch_path(ID_A, "")), 200);
    assert_int_equal(api_int(t, "waiting.retry"), 1);
    assert_int_equal(api_int(t, "waiting.limit"), 2);
    assert_in_range(json_number_value(api_at(t, "eta_seconds")), 30, 61);
    assert_int_equal(api_get(t, "/v1/batches"), 200);
    const json_t *listed = json_array_get(api_at(t, "batches"), 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(listed, "waiting"), "limit")), 2);
    t->coordinator.workers[0].in_flight = 9; /* busy */
    assert_int_equal(api_get(t, batch_path(ID_A, "")), 200);
    assert_int_equal(api_int(t, "waiting.queued"), 2);
    assert_true(json_is_string(api_at(t, "next_at")));
    t->coordinator.workers[0].draining = true;
    assert_int_equal(api_get(t, batch_path(ID_A, "")), 200);
    assert_int_equal(api_int(t, "waiting.unserved"), 3);
    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "42", .paused = true};
    assert_int_equal(api_get(t, batch_path(ID_A, "")), 200);
    assert_int_equal(api_int(t, "waiting.paused"), 3);
    assert_true(json_is_null(api_at(t, "next_at")) && json_is_null(api_at(t, "eta_seconds")));
}

static void a_planned_batch(void **state)
{
    struct api_run *t = *state;

    t->store.batches[t->store.n_batches++] = planned(ID_A, "42", PP_BATCH_RUNNING);
    assert_int_equal(api_get(t, batch_path(ID_A, "")), 200);
    json_t *expected = json_loads(
        "{\"batch_id\":\"" ID_A "\",\"client\":\"42\",\"label\":null,\"state\":\"running\","
        "\"created_at\":\"1970-01-01T00:00:01.000Z\",\"finished_at\":null,"
        "\"items\":{\"total\":10,\"open\":3,\"complete\":1,\"partial\":2,\"failed\":3,\"superseded\":0,"
        "\"cancelled\":1,\"rejected\":250},\"photos\":{\"total\":20,\"open\":3,\"stored\":5,\"unchanged\":0,"
        "\"skipped\":2,"
        "\"failed\":10,\"cancelled\":0},\"waiting\":{\"queued\":3,\"in_flight\":0,\"limit\":0,\"paused\":0,"
        "\"retry\":0,\"host\":0,\"unserved\":0},\"next_at\":null,\"errors\":{\"http_404\":12,\"body_"
        "timeout\":3},"
        "\"photos_per_second\":0,\"eta_seconds\":null}",
        0, NULL);
    assert_true(json_equal(t->json, expected));
    json_decref(expected);
    assert_int_equal(api_get(t, batch_path(ID_B, "")), 404);
    assert_int_equal(api_get(t, "/v1/batches/nope"), 404);
    t->store.err = PP_EIO;
    t->ingest.err = PP_OK;
    assert_int_equal(api_get(t, batch_path(ID_A, "")), 503);
}

static void cancel_before_planning(void **state)
{
    struct api_run *t = *state;
    char id[PP_BATCH_ID_MAX];

    api_ask(t, PP_POST, "/v1/batches", ONE);
    snprintf(id, sizeof(id), "%s", api_str(t, "batch_id"));
    for (int i = 0; i < 2; i++) { /* A second DELETE has the same answer. */
        assert_int_equal(api_ask(t, PP_DELETE, batch_path(id, ""), NULL), 200);
        assert_string_equal(api_str(t, "state"), "cancelled");
    }
    assert_true(t->ingest.entries[0].entry.cancelled);
    assert_string_equal(t->store.cancelled.owner, "42");
    assert_int_equal(t->store.cancelled.photos, 1);
    assert_true(t->store.cancelled.created_at > 0);
    free((char *)t->store.batches[0].id);
    free((char *)t->store.batches[0].client);
}

static void cancel_after_planning(void **state)
{
    struct api_run *t = *state;

    t->store.batches[t->store.n_batches++] = planned(ID_A, "42", PP_BATCH_RUNNING);
    assert_int_equal(api_ask(t, PP_DELETE, batch_path(ID_A, ""), NULL), 200);
    assert_string_equal(api_str(t, "state"), "cancelled");
    assert_int_equal(t->store.cancelled.created_at, 0);
    assert_int_equal(api_ask(t, PP_DELETE, batch_path(ID_B, ""), NULL), 404);
}

static void entry(struct api_run *t, const char *id, const char *client)
{
    t->ingest.entries[t->ingest.n++] = (struct fake_entry){
        .entry = {
            .batch_id = strdup(id), .client = strdup(client), .created_at = 1, .n_items = 1, .n_photos = 2}};
}

/* The store cancels the batch and then can't be read. An entry that the queue still has says that
 * the batch was accepted, which is no answer to a cancel. */
static void cancelled_but_not_readable(void **state)
{
    struct api_run *t = *state;

    entry(t, ID_A, "42");
    t->ingest.unseen = 1;
    t->store.batches[t->store.n_batches++] = planned(ID_A, "42", PP_BATCH_RUNNING);
    t->store.err_after_cancel = PP_EIO;
    assert_int_equal(api_ask(t, PP_DELETE, batch_path(ID_A, ""), NULL), 503);
    assert_string_equal(api_code(t), "unavailable");
    t->store.err = PP_OK;
    t->ingest.unseen = 1;
    t->store.err_after_cancel = PP_OK;
    assert_int_equal(api_ask(t, PP_DELETE, batch_path(ID_A, ""), NULL), 200);
    assert_string_equal(api_str(t, "state"), "cancelled");
}

/* --- the list of batches --- */

static void assert_ids(struct api_run *t, const char *const *ids)
{
    size_t i = 0;
    for (; ids[i]; i++) {
        char at[40];
        snprintf(at, sizeof(at), "batches.%zu.batch_id", i);
        const char *got = json_string_value(api_at(t, at));
        assert_string_equal(got ? got : "none", ids[i]);
    }
    assert_int_equal(json_array_size(api_at(t, "batches")), i);
}

static void list_merges_queue_and_store(void **state)
{
    struct api_run *t = *state;

    t->store.batches[t->store.n_batches++] = planned(ID_A, "42", PP_BATCH_FINISHED);
    t->store.batches[t->store.n_batches++] = planned(ID_B, "43", PP_BATCH_RUNNING);
    entry(t, ID_B, "43"); /* The store already has the batch of this queue entry. */
    entry(t, ID_C, "42");
    assert_int_equal(api_get(t, "/v1/batches"), 200);
    assert_ids(t, (const char *const[]){ID_C, ID_B, ID_A, NULL});
    assert_string_equal(json_string_value(api_at(t, "batches.1.state")), "running");
    assert_true(json_is_null(api_at(t, "next")));
    assert_int_equal(api_get(t, "/v1/batches?client=42"), 200);
    assert_ids(t, (const char *const[]){ID_C, ID_A, NULL});
    assert_int_equal(api_get(t, "/v1/batches?state=accepted&client=42"), 200);
    assert_ids(t, (const char *const[]){ID_C, NULL});
    assert_int_equal(api_get(t, "/v1/batches?state=running"), 200);
    assert_ids(t, (const char *const[]){ID_B, NULL});

    const char *const all[] = {ID_C, ID_B, ID_A};
    snprintf(path, sizeof(path), "/v1/batches?limit=1");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(api_get(t, path), 200);
        assert_ids(t, (const char *const[]){all[i], NULL});
        if (i < 2)
            snprintf(path, sizeof(path), "/v1/batches?limit=1&after=%s", api_str(t, "next"));
    }
    assert_true(json_is_null(api_at(t, "next")));
}

static void list_parameters(void **state)
{
    static const struct {
        const char *path, *code, *field;
    } cases[] = {{"/v1/batches?limit=0", "bad_parameter", "limit"},
                 {"/v1/batches?limit=1001", "bad_parameter", "limit"},
                 {"/v1/batches?limit=+5", "bad_parameter", "limit"},
                 {"/v1/batches?limit=", "bad_parameter", "limit"},
                 {"/v1/batches?state=done", "bad_parameter", "state"},
                 {"/v1/batches?client=", "bad_client", "client"},
                 {"/v1/batches?after=", "bad_cursor", "after"},
                 {"/v1/batches?after=AAAA", "bad_cursor", "after"},
                 {"/v1/batches?after=b_0000000010000000000aa", "bad_cursor", "after"},
                 {"/v1/batches?x", "bad_parameter", "x"}};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(api_get(t, cases[i].path), 400);
        assert_string_equal(api_code(t), cases[i].code);
        assert_string_equal(api_str(t, "field"), cases[i].field);
    }
    /* A cursor is valid for one list with one filter. The API refuses it for another list or
     * filter, and refuses a cursor that the caller has changed. */
    entry(t, ID_A, "42");
    entry(t, ID_B, "42");
    assert_int_equal(api_get(t, "/v1/batches?limit=1"), 200);
    char next[100];
    snprintf(next, sizeof(next), "%s", api_str(t, "next"));
    snprintf(path, sizeof(path), "/v1/batches?client=42&after=%s", next);
    assert_int_equal(api_get(t, path), 400);
    snprintf(path, sizeof(path), "/v1/clients?after=%s", next);
    assert_int_equal(api_get(t, path), 400);
    for (size_t i = 0; i < strlen(next); i++) {
        char other[100];
        snprintf(other, sizeof(other), "%s", next);
        other[i] = other[i] == 'A' ? 'B' : 'A';
        snprintf(path, sizeof(path), "/v1/batches?after=%s", other);
        assert_int_equal(api_get(t, path), 400);
        other[i] = '\0';
        snprintf(path, sizeof(path), "/v1/batches?after=%s", other);
        assert_int_equal(api_get(t, path), 400);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(accepted),
        TEST(accepted_as_lines),
        TEST(no_answer_before_the_queue_has_the_batch),
        TEST(refusals),
        TEST(all_rejected_says_why),
        TEST(a_rejected_id_is_echoed),
        TEST(a_key_makes_one_batch),
        TEST(a_key_covers_the_query),
        TEST(a_key_in_progress),
        TEST(the_queue_fails),
        TEST(too_many_keys),
        TEST(bodies_are_bounded),
        TEST(draining_accepts),
        TEST(an_accepted_batch_is_readable_at_once),
        TEST(a_planned_batch),
        TEST(reasons_of_a_batch),
        TEST(cancel_before_planning),
        TEST(cancel_after_planning),
        TEST(cancelled_but_not_readable),
        TEST(list_merges_queue_and_store),
        TEST(list_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
