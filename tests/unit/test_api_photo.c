/* Tests GET /v1/photos?client=&url= over fake ports: what is known of a photo, and its attempts. */
#include "api_run.h"
#include "core/sniff.h"
#include "photopool/code.h"

#define PHOTO "/v1/photos?client=42&url=http%3A%2F%2Fx.example%2F1.jpg"

static void a_photo_with_its_attempts(void **state)
{
    struct api_run *t = *state;
    int64_t now = pp_loop_date(t->loop);
    struct pp_attempt ended[] = {
        {.at = now - 2000, .ms = 1000, .code = PP_CODE_CONNECT_TIMEOUT, .tier = 0},
        {.at = now, .ms = 44, .code = 404, .http_status = 404, .tier = 1, .address = "192.0.2.7"},
        {.at = now, .ms = 45, .http_status = 200, .tier = 9, .address = "2001:db8::7"}};

    t->store.photo = (struct pp_store_photo){
        .named = true,
        .photo = {.found = true,
                  .object = {.bytes = 5, .type = PP_IMAGE_PNG},
                  .etag = "\"e\"",
                  .fail_code = 404,
                  .fail_streak = 3,
                  .skips = 1,
                  .failed_at = now - 1000},
        .ended = ended,
        .n_ended = 3,
    };
    assert_int_equal(api_get(t, PHOTO), 200);
    assert_string_equal(api_str(t, "client"), "42");
    assert_string_equal(api_str(t, "url"), "http://x.example/1.jpg");
    assert_string_equal(json_string_value(api_at(t, "known.type")), "image/png");
    assert_string_equal(json_string_value(api_at(t, "known.etag")), "\"e\"");
    assert_int_equal(api_int(t, "ladder.streak"), 3);
    assert_int_equal(api_int(t, "ladder.skips"), 1);
    assert_true(json_is_null(api_at(t, "task")));

    const json_t *list = api_at(t, "attempts"), *a = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(json_string_value(json_object_get(a, "code")), "connect_timeout");
    assert_int_equal(json_number_value(json_object_get(a, "tier")), 1);
    assert_true(json_is_null(json_object_get(a, "address")));
    assert_true(json_is_null(json_object_get(a, "http_status")));
    a = json_array_get(list, 1);
    assert_string_equal(json_string_value(json_object_get(a, "code")), "http_404");
    assert_int_equal(json_integer_value(json_object_get(a, "ms")), 44);
    assert_int_equal(json_integer_value(json_object_get(a, "http_status")), 404);
    assert_string_equal(json_string_value(json_object_get(a, "address")), "192.0.2.7");
    assert_true(json_is_string(json_object_get(a, "at")));
    a = json_array_get(list, 2);
    assert_true(json_is_null(json_object_get(a, "code")));
    assert_true(json_is_null(json_object_get(a, "tier"))); /* it is no longer configured */
}

static void a_photo_that_was_never_tried(void **state)
{
    struct api_run *t = *state;

    t->store.photo =
        (struct pp_store_photo){.named = true, .open = true, .tier = 1, .due_ms = pp_loop_wall(t->loop)};
    assert_int_equal(api_get(t, PHOTO), 200);
    assert_true(json_is_null(api_at(t, "known")) && json_is_null(api_at(t, "ladder")));
    assert_string_equal(json_string_value(api_at(t, "task.state")), "waiting");
    assert_int_equal(json_array_size(api_at(t, "attempts")), 0);
}

static void photos_that_are_not_known(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(api_get(t, PHOTO), 404);
    assert_string_equal(api_str(t, "code"), "not_found");
    assert_non_null(strstr(api_str(t, "remedy"), "/v1/explain"));
    assert_int_equal(api_get(t, "/v1/photos?client=42&url=http%3A%2F%2Fx.example%5Cy"), 400);
    assert_string_equal(api_str(t, "field"), "url");
    assert_non_null(strstr(api_str(t, "detail"), "at character 17"));
    assert_int_equal(api_get(t, "/v1/photos?client=42"), 400);
    assert_string_equal(api_str(t, "field"), "url");
    assert_int_equal(api_get(t, "/v1/photos?url=http%3A%2F%2Fx.example%2F"), 400);
    assert_string_equal(api_str(t, "field"), "client");
    t->store.err = PP_EIO;
    assert_int_equal(api_get(t, PHOTO), 503);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_photo_with_its_attempts, api_open, api_close),
        cmocka_unit_test_setup_teardown(a_photo_that_was_never_tried, api_open, api_close),
        cmocka_unit_test_setup_teardown(photos_that_are_not_known, api_open, api_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
