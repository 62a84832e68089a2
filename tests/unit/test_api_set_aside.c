/* Tests the endpoints of entries that are set aside, over fake ports. */
#include "api_run.h"

#define ID(n) "b_00000000000000000000" #n

/* Sets entries aside: 3, 2 and 1, the newest first. */
static void three_aside(struct api_run *t)
{
    static const char *const ids[] = {ID(3), ID(2), ID(1)};

    t->ingest.n_aside = 3;
    for (size_t i = 0; i < 3; i++)
        t->ingest.aside[i] = (struct pp_ingest_aside){.entry = {.batch_id = ids[i],
                                                                .client = "42",
                                                                .created_at = 1700000000000,
                                                                .n_items = 250,
                                                                .n_photos = 2400,
                                                                .deliveries = 21},
                                                      .since_ms = 1700000001500,
                                                      .reason = i == 1 ? "" : "the entry is damaged"};
}

static void entries_are_listed(void **state)
{
    struct api_run *t = *state;
    char path[1000];

    assert_int_equal(api_get(t, "/v1/queue/set-aside"), 200);
    assert_int_equal(json_array_size(api_at(t, "set_aside")), 0);
    assert_true(json_is_null(api_at(t, "next")));
    three_aside(t);
    assert_int_equal(api_get(t, "/v1/queue/set-aside"), 200);
    assert_int_equal(json_array_size(api_at(t, "set_aside")), 3);
    assert_string_equal(json_string_value(api_at(t, "set_aside.0.id")), ID(3));
    assert_string_equal(json_string_value(api_at(t, "set_aside.0.batch_id")), ID(3));
    assert_string_equal(json_string_value(api_at(t, "set_aside.0.client")), "42");
    assert_int_equal(api_int(t, "set_aside.0.items"), 250);
    assert_int_equal(api_int(t, "set_aside.0.photos"), 2400);
    assert_int_equal(api_int(t, "set_aside.0.deliveries"), 21);
    assert_string_equal(json_string_value(api_at(t, "set_aside.0.created_at")), "2023-11-14T22:13:20.000Z");
    assert_string_equal(json_string_value(api_at(t, "set_aside.0.since")), "2023-11-14T22:13:21.500Z");
    assert_string_equal(json_string_value(api_at(t, "set_aside.0.error")), "the entry is damaged");
    assert_string_equal(json_string_value(api_at(t, "set_aside.1.error")),
                        "not known: an older version has set it aside");
    assert_int_equal(api_get(t, "/v1/queue/set-aside?limit=2"), 200);
    assert_int_equal(json_array_size(api_at(t, "set_aside")), 2);
    snprintf(path, sizeof(path), "/v1/queue/set-aside?limit=2&after=%s", api_str(t, "next"));
    assert_int_equal(api_get(t, path), 200);
    assert_int_equal(json_array_size(api_at(t, "set_aside")), 1);
    assert_string_equal(json_string_value(api_at(t, "set_aside.0.id")), ID(1));
    assert_true(json_is_null(api_at(t, "next")));
    assert_int_equal(api_get(t, "/v1/queue/set-aside?after=x"), 400);
    assert_string_equal(api_code(t), "bad_cursor");
    t->ingest.err = PP_EIO;
    assert_int_equal(api_get(t, "/v1/queue/set-aside"), 503);
    assert_string_equal(api_code(t), "unavailable");
}

static void entries_are_put_back(void **state)
{
    struct api_run *t = *state;

    three_aside(t);
    assert_int_equal(api_ask(t, PP_POST, "/v1/queue/set-aside/" ID(2), "{\"action\":\"retry\"}"), 202);
    assert_string_equal(api_str(t, "id"), ID(2));
    assert_string_equal(api_str(t, "batch_id"), ID(2));
    assert_string_equal(api_str(t, "action"), "retry");
    assert_false(t->ingest.put_back.give_up);
    assert_int_equal(t->ingest.n_aside, 2);
    assert_int_equal(api_ask(t, PP_POST, "/v1/queue/set-aside/" ID(2), "{\"action\":\"fail\"}"), 404);
    assert_string_equal(api_code(t), "not_found");
    assert_string_equal(api_str(t, "detail"), "no entry " ID(2) " is set aside");
    assert_int_equal(api_ask(t, PP_POST, "/v1/queue/set-aside/" ID(3), "{\"action\":\"fail\"}"), 202);
    assert_string_equal(api_str(t, "action"), "fail");
    assert_true(t->ingest.put_back.give_up);
    assert_int_equal(api_ask(t, PP_POST, "/v1/queue/set-aside/nobody", "{\"action\":\"fail\"}"), 404);
    assert_string_equal(api_code(t), "not_found");
    t->ingest.err = PP_EUNKNOWN;
    assert_int_equal(api_ask(t, PP_POST, "/v1/queue/set-aside/" ID(1), "{\"action\":\"fail\"}"), 503);
    assert_string_equal(api_code(t), "unavailable");
    assert_int_equal(t->ingest.n_aside, 1);
}

/* GET /v1/queue shows an answer again for a second, but not one from before the action. */
static void the_queue_is_counted_again(void **state)
{
    struct api_run *t = *state;

    three_aside(t);
    t->ingest.stats.poisoned = 3;
    assert_int_equal(api_get(t, "/v1/queue"), 200);
    assert_int_equal(api_int(t, "ingest.set_aside"), 3);
    t->ingest.stats.poisoned = 2;
    assert_int_equal(api_get(t, "/v1/queue"), 200);
    assert_int_equal(api_int(t, "ingest.set_aside"), 3);
    assert_int_equal(api_ask(t, PP_POST, "/v1/queue/set-aside/" ID(2), "{\"action\":\"retry\"}"), 202);
    assert_int_equal(api_get(t, "/v1/queue"), 200);
    assert_int_equal(api_int(t, "ingest.set_aside"), 2);
}

static void wrong_actions(void **state)
{
    static const struct {
        const char *body;
        int status;
        const char *code;
    } cases[] = {{"{}", 400, "missing_field"},
                 {"{\"action\":\"drop\"}", 422, "bad_value"},
                 {"{\"action\":\"\"}", 422, "bad_value"},
                 {"{\"action\":null}", 400, "bad_type"},
                 {"{\"action\":[\"retry\"]}", 400, "bad_type"},
                 {"{\"action\":\"retry\",\"all\":true}", 400, "unknown_field"}};
    struct api_run *t = *state;

    three_aside(t);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(api_ask(t, PP_POST, "/v1/queue/set-aside/" ID(2), cases[i].body), cases[i].status);
        assert_string_equal(api_code(t), cases[i].code);
    }
    assert_int_equal(t->ingest.n_aside, 3);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)
    const struct CMUnitTest tests[] = {
        T(entries_are_listed),
        T(entries_are_put_back),
        T(the_queue_is_counted_again),
        T(wrong_actions),
    };

    return cmocka_run_group_tests_name("api_set_aside", tests, NULL, NULL);
}
