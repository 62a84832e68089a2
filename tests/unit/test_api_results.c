/* Tests over fake ports what the API says of the items of batches, and fetches again: results,
 * items, refresh and replay. */
#include "api/api.h"
#include "api/handler.h"
#include "api_batches.h"
#include "core/entry.h"
#include "format/ids.h"

/* --- results --- */

static struct pp_item_photo photo = {.url = "http://x.example/1",
                                     .url_n = 18,
                                     .outcome = {.kind = PP_OUTCOME_FAILED, .code = 404, .attempts = 1}};

static void results_of(struct api_run *t, size_t n)
{
    static char ids[FAKE_MAX][32];
    t->store.batches[t->store.n_batches++] = planned(ID_A, "42", PP_BATCH_RUNNING);
    for (size_t i = 0; i < n; i++) {
        snprintf(ids[i], sizeof(ids[i]), "ad-%zu", i);
        t->store.items[t->store.n_items++] =
            (struct pp_item){.client = "42",
                             .id = ids[i],
                             .revision = 1,
                             .batch_id = ID_A,
                             .status = i % 2 ? PP_ITEM_FAILED : PP_ITEM_COMPLETE,
                             .finished_at = 1000,
                             .seq = 10 + i,
                             .photos = &photo,
                             .n_photos = 1};
    }
}

static void results_in_pages(void **state)
{
    struct api_run *t = *state;
    size_t seen = 0, pages = 0;

    results_of(t, 10);
    snprintf(path, sizeof(path), "/v1/batches/" ID_A "/results?limit=3");
    for (;; pages++) {
        assert_int_equal(api_get(t, path), 200);
        for (size_t i = 0; i < json_array_size(api_at(t, "results")); i++, seen++) {
            char at[40], id[32];
            snprintf(at, sizeof(at), "results.%zu.data.item", i);
            snprintf(id, sizeof(id), "ad-%zu", seen);
            assert_string_equal(json_string_value(api_at(t, at)), id);
        }
        if (json_is_null(api_at(t, "next")))
            break;
        snprintf(path, sizeof(path), "/v1/batches/" ID_A "/results?limit=3&after=%s", api_str(t, "next"));
    }
    assert_int_equal(seen, 10);
    assert_int_equal(pages, 3);
}

static void results_filters(void **state)
{
    struct api_run *t = *state;

    results_of(t, 4);
    assert_int_equal(api_get(t, "/v1/batches/" ID_A "/results?status=failed&code=http_404&limit=1"), 200);
    assert_int_equal(t->store.results_asked.status, PP_ITEM_FAILED);
    assert_int_equal(t->store.results_asked.code, 404);
    assert_string_equal(json_string_value(api_at(t, "results.0.data.item")), "ad-1");
    snprintf(path, sizeof(path), "/v1/batches/" ID_A "/results?after=%s", api_str(t, "next"));
    assert_int_equal(api_get(t, path), 400); /* this cursor was made with another filter */
    assert_int_equal(api_get(t, "/v1/batches/" ID_A "/results?status=open"), 400);
    assert_string_equal(api_str(t, "field"), "status");
    assert_int_equal(api_get(t, "/v1/batches/" ID_A "/results?code=http_999"), 400);
    assert_string_equal(api_str(t, "field"), "code");
    assert_int_equal(api_get(t, "/v1/batches/" ID_B "/results"), 404);
}

/* When a page would need too much memory, the API answers with fewer items. All pages together must
 * still contain every item. */
static void results_larger_than_memory(void **state)
{
    struct api_run *t = *state;

    results_of(t, 30);
    t->store.results_enomem_above = 15;
    assert_int_equal(api_get(t, "/v1/batches/" ID_A "/results?limit=100"), 200);
    assert_int_equal(json_array_size(api_at(t, "results")), 12);
    assert_true(json_is_string(api_at(t, "next")));
}

/* An item that is too large for the memory of a page needs memory for an item that fills a body. */
static void a_large_result_is_charged(void **state)
{
    struct api_run *t = *state;
    struct pp_account *answers = &t->ledger.rows[PP_RES_ANSWERS];

    results_of(t, 3);
    t->store.results_enomem_above = 1;
    answers->limit = PP_PAGE_MEMORY + (16 << 20);
    assert_int_equal(api_get(t, "/v1/batches/" ID_A "/results?limit=100"), 503);
    assert_string_equal(api_code(t), "overloaded");
    answers->limit = PP_PAGE_MEMORY + (48 << 20);
    assert_int_equal(api_get(t, "/v1/batches/" ID_A "/results?limit=100"), 200);
    assert_int_equal(json_array_size(api_at(t, "results")), 1);
    assert_int_equal(answers->used, 0);
}

/* A page ends with the row that exceeds PP_PAGE_BYTES, and has at least one row. */
static void pages_have_few_bytes(void **state)
{
    struct api_run *t = *state;
    enum { URL = 300000 };
    char *url = malloc(URL), path_next[300];
    size_t seen = 0;

    memset(url, 'x', URL);
    results_of(t, 10);
    struct pp_item_photo large = {
        .url = url, .url_n = URL, .outcome = {.kind = PP_OUTCOME_FAILED, .code = 404}};
    for (size_t i = 0; i < 10; i++)
        t->store.items[i].photos = &large;
    snprintf(path_next, sizeof(path_next), "/v1/batches/" ID_A "/results?limit=100");
    while (seen < 10) {
        assert_int_equal(api_get(t, path_next), 200);
        size_t n = json_array_size(api_at(t, "results"));
        assert_int_equal(n, seen < 8 ? 4 : 2);
        seen += n;
        assert_int_equal(json_is_null(api_at(t, "next")), seen == 10);
        snprintf(path_next, sizeof(path_next), "/v1/batches/" ID_A "/results?limit=100&after=%s",
                 api_str(t, "next"));
    }
    free(url);
}

static void an_item(void **state)
{
    struct api_run *t = *state;

    results_of(t, 2);
    t->store.items[1].id = "a/b \xc3\xbc";
    t->store.items[1].status = PP_ITEM_OPEN;
    t->store.items[1].photos = &(struct pp_item_photo){.url = "u", .url_n = 1, .tier = 1};
    assert_int_equal(api_get(t, "/v1/items/42/ad-0"), 200);
    assert_string_equal(api_str(t, "subject"), "42/ad-0");
    assert_int_equal(api_get(t, "/v1/items/42/a%2Fb%20%C3%BC"), 200);
    assert_string_equal(api_str(t, "status"), "open");
    assert_int_equal(api_int(t, "photos.0.tier"), 5);
    assert_int_equal(api_get(t, "/v1/items/42/nope"), 404);
    assert_int_equal(api_get(t, "/v1/items/42/a/b"), 404);
    assert_int_equal(api_get(t, "/v1/items/42/%00"), 404);
    assert_int_equal(api_get(t, "/v1/items/42/%ff"), 404);
    assert_int_equal(api_get(t, "/v1/items/4%3A2/ad-0"), 404);
}

/* --- replay --- */

/* Lists items with their photos' reasons, in pages that may be short. */
static void items_listed(void **state)
{
    static struct pp_item_photo open = {.url = "http://h/1", .url_n = 10};
    static const char *const ids[] = {"a", "ab", "b"};
    struct api_run *t = *state;
    char next[300];

    for (size_t i = 0; i < 3; i++)
        t->store.items[t->store.n_items++] =
            (struct pp_item){.client = "42",
                             .id = ids[i],
                             .revision = 1,
                             .batch_id = ID_A,
                             .status = i == 1 ? PP_ITEM_OPEN : PP_ITEM_COMPLETE,
                             .seq = i,
                             .photos = &open,
                             .n_photos = i == 1};
    t->store.clients[t->store.n_clients++] = (struct pp_client){.id = "42", .paused = true};
    assert_int_equal(api_get(t, "/v1/items?client=42&limit=2"), 200);
    assert_int_equal(json_array_size(api_at(t, "items")), 2);
    assert_string_equal(json_string_value(api_at(t, "items.0.data.item")), "a");
    assert_string_equal(json_string_value(api_at(t, "items.1.item")), "ab");
    assert_string_equal(json_string_value(api_at(t, "items.1.photos.0.waiting")), "paused");
    snprintf(next, sizeof(next), "/v1/items?client=42&limit=2&after=%s", api_str(t, "next"));
    assert_int_equal(api_get(t, next), 200);
    assert_int_equal(json_array_size(api_at(t, "items")), 1);
    assert_true(json_is_null(api_at(t, "next")));
    assert_int_equal(api_get(t, "/v1/items?client=42&status=open&q=a"), 200);
    assert_int_equal(json_array_size(api_at(t, "items")), 1);
    t->store.items_scan = 1; /* a page without items has a next one */
    assert_int_equal(api_get(t, "/v1/items?client=42&status=open"), 200);
    assert_int_equal(json_array_size(api_at(t, "items")), 0);
    snprintf(next, sizeof(next), "/v1/items?client=42&status=open&after=%s", api_str(t, "next"));
    assert_int_equal(api_get(t, next), 200);
    assert_int_equal(json_array_size(api_at(t, "items")), 1);
    t->store.items_scan = FAKE_MAX;
    t->store.results_enomem_above = 1; /* a page that does not fit is read with fewer items */
    assert_int_equal(api_get(t, "/v1/items?client=42"), 200);
    assert_int_equal(json_array_size(api_at(t, "items")), 1);
    assert_true(json_is_string(api_at(t, "next")));
    assert_int_equal(api_get(t, "/v1/items"), 400);
    assert_int_equal(api_get(t, "/v1/items?client=42&status=over"), 400);
    assert_int_equal(api_get(t, "/v1/items?client=42&code=nope"), 400);
}

/* A refresh is a batch of the item's newest revision, which fetches all of its photos. */
static void an_item_is_refreshed(void **state)
{
    static struct pp_item_photo photos[] = {{.url = "http://h/1", .url_n = 10},
                                            {.url = "http://h/2", .url_n = 10}};
    struct api_run *t = *state;

    t->store.items[t->store.n_items++] = (struct pp_item){.client = "42",
                                                          .id = "ad-1",
                                                          .revision = 2,
                                                          .batch_id = ID_A,
                                                          .meta = "{\"a\":1}",
                                                          .status = PP_ITEM_PARTIAL,
                                                          .seq = 7,
                                                          .photos = photos,
                                                          .n_photos = 2};
    t->key = "k";
    assert_int_equal(api_ask(t, PP_POST, "/v1/items/42/ad-1/refresh", NULL), 202);
    assert_true(api_has_header(t, "Location: /v1/batches/b_"));
    assert_int_equal(t->ingest.n, 1);
    assert_string_equal(t->ingest.entries[0].entry.batch_id, api_str(t, "batch_id"));
    assert_int_equal(t->ingest.entries[0].entry.refresh, PP_REFRESH_ALWAYS);
    assert_int_equal(t->ingest.entries[0].entry.n_photos, 2);
    t->key = "k";
    assert_int_equal(api_ask(t, PP_POST, "/v1/items/42/ad-1/refresh", NULL), 202);
    assert_true(api_has_header(t, "Idempotency-Replayed: true"));
    assert_int_equal(t->ingest.n, 1);
    assert_int_equal(api_ask(t, PP_POST, "/v1/items/42/nobody/refresh", NULL), 404);
}

static void replay(void **state)
{
    struct api_run *t = *state;
    struct pp_entry_reader r;
    struct pp_entry_item it;
    char id[PP_BATCH_ID_MAX];

    results_of(t, 3);
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay",
                             "{\"codes\":[\"http_404\",\"body_timeout\"],\"domains\":[\"x.example\"],"
                             "\"dry_run\":true}"),
                     200);
    assert_int_equal(api_int(t, "photos"), 3);
    assert_true(json_is_null(api_at(t, "batch_id")));
    assert_int_equal(t->ingest.n, 0);
    assert_int_equal(t->store.replay_asked.n_codes, 2);
    assert_int_equal(t->store.replay_asked.n_domains, 1);

    t->key = "again";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 202);
    assert_int_equal(api_int(t, "photos"), 3);
    snprintf(id, sizeof(id), "%s", api_str(t, "batch_id"));
    assert_true(pp_batch_id_valid(id));
    assert_int_equal(t->ingest.n, 1);
    const struct pp_ingest_entry *e = &t->ingest.entries[0].entry;
    assert_true(e->replay);
    assert_string_equal(e->client, "42");
    assert_int_equal(e->n_items, 3);
    assert_true(pp_entry_open(&r, e->payload, e->payload_n));
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(pp_entry_next(&r, &it));
        assert_int_equal(it.index, i);
        assert_int_equal(it.n_photos, 1);
    }
    t->key = "again";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 202);
    assert_string_equal(api_str(t, "batch_id"), id);
    assert_int_equal(t->ingest.n, 1);

    plan_entry(t);
    t->store.n_items = 0; /* From here on the store finds no photo to replay. */
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 200);
    t->key = "fresh";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 200);
    assert_true(json_is_null(api_at(t, "batch_id")));
    t->key = "again";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 202);
    assert_string_equal(api_str(t, "batch_id"), id);
    assert_true(api_has_header(t, "Idempotency-Replayed: true\n"));
    t->key = "again";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", "{}"), 422);
    assert_string_equal(api_code(t), "idempotency_mismatch");
    assert_int_equal(t->ingest.n, 1);
    assert_int_equal(t->metrics.batches_accepted, 1);
}

/* Of a batch that has finished, the answer says how many photos have a newer revision of their
 * item. */
static void a_replay_says_what_it_leaves_out(void **state)
{
    static struct pp_code_count errors[] = {{404, 5}, {PP_CODE_BODY_TIMEOUT, 2}};
    struct api_run *t = *state;
    struct pp_batch *batch = &t->store.batches[t->store.n_batches++];

    *batch = (struct pp_batch){.id = ID_A, .client = "42", .errors = errors, .n_errors = 2};
    static const struct {
        int64_t finished_at;
        const char *body;
        int left_out;
    } cases[] = {{9, "{\"dry_run\":true}", 7},
                 {9, "{\"dry_run\":true,\"codes\":[\"http_404\"]}", 5},
                 {9, "{\"dry_run\":true,\"codes\":[\"http_403\"]}", 0},
                 {9, "{\"dry_run\":true,\"domains\":[\"a.example\"]}", 0},
                 {0, "{\"dry_run\":true}", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        batch->finished_at = cases[i].finished_at;
        assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", cases[i].body), 200);
        const json_t *n = api_at(t, "not_replayed.newer_revision");
        assert_true(json_is_object(api_at(t, "not_replayed")));
        assert_int_equal(n ? json_integer_value(n) : 0, cases[i].left_out);
    }
}

static void one_replay_at_a_time(void **state)
{
    struct api_run *t = *state;
    struct pp_http_request first;

    results_of(t, 3);
    t->ingest.back.hold = true; /* The first request ends only when its append is answered. */
    api_begin(t, &first, PP_POST, "/v1/batches/" ID_A "/replay", NULL, 0);
    while (t->ingest.n == 0)
        pp_loop_turn(t->loop, true);
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 409);
    assert_string_equal(api_code(t), "replay_in_progress");
    assert_true(api_has_header(t, "Retry-After: 1\n"));
    t->server.replies = 0;
    fake_release(&t->ingest.back);
    pp_test_until(t->loop, api_replied, t, 5000);
    assert_int_equal(t->server.status, 202);

    /* It is in progress until its entry is planned; then the next one may begin. */
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 409);
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", "{\"dry_run\":true}"), 200);
    assert_int_equal(t->ingest.n, 1);
    plan_entry(t);
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 202);
    assert_int_equal(t->ledger.rows[PP_RES_REPLAYS].used, 0);
}

static void replays_have_bounded_memory(void **state)
{
    struct api_run *t = *state;
    struct pp_account *row = &t->ledger.rows[PP_RES_REPLAYS];

    results_of(t, 3);
    row->limit = pp_api_replay_memory(&t->params);
    uint64_t others = row->limit - (4 << 20) - 4096;
    pp_account_force(row, others); /* A page and a small entry still fit. */
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 202);
    assert_int_equal(row->used, others);
    plan_entry(t);
    pp_account_force(row, 1);
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 503);
    assert_string_equal(api_code(t), "overloaded");
    assert_true(api_has_header(t, "Retry-After: 5\n"));
    assert_int_equal(row->used, others + 1);
    assert_int_equal(t->ingest.n, 1);
    pp_account_give(row, others + 1);
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 202);
}

static void a_page_of_a_replay_that_is_too_large(void **state)
{
    struct api_run *t = *state;

    results_of(t, 3);
    t->store.replay_enomem_above = 62;
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", NULL), 202);
    assert_int_equal(api_int(t, "photos"), 3);
    assert_int_equal(t->store.replay_asked.limit, 62);
    assert_int_equal(t->ledger.rows[PP_RES_REPLAYS].used, 0);
}

static void replay_bodies(void **state)
{
    static const struct {
        const char *body;
        int status;
        const char *code;
    } cases[] = {{"{\"codes\":\"http_404\"}", 400, "bad_type"},
                 {"{\"codes\":[17]}", 400, "bad_type"},
                 {"{\"codes\":[\"nope\"]}", 422, "bad_value"},
                 {"{\"domains\":[17]}", 400, "bad_type"},
                 {"{\"dry_run\":1}", 400, "bad_type"},
                 {"{\"dryrun\":true}", 400, "unknown_field"},
                 {"[]", 400, "bad_type"},
                 {"{\"codes\":[],\"codes\":[]}", 400, "bad_json"}};
    struct api_run *t = *state;

    results_of(t, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_A "/replay", cases[i].body), cases[i].status);
        assert_string_equal(api_code(t), cases[i].code);
    }
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches/" ID_B "/replay", NULL), 404);
    assert_int_equal(t->ingest.n, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(results_in_pages),
        TEST(results_filters),
        TEST(results_larger_than_memory),
        TEST(a_large_result_is_charged),
        TEST(pages_have_few_bytes),
        TEST(an_item),
        TEST(items_listed),
        TEST(an_item_is_refreshed),
        TEST(replay),
        TEST(one_replay_at_a_time),
        TEST(a_replay_says_what_it_leaves_out),
        TEST(replays_have_bounded_memory),
        TEST(a_page_of_a_replay_that_is_too_large),
        TEST(replay_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
