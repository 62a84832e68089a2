/* Tests the RESULT object (result.h) against API.md section 2, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/sniff.h"
#include "format/ids.h"
#include "format/result.h"
#include "photopool/code.h"

static struct pp_buf out;

static int buf_open(void **state)
{
    (void)state;
    pp_buf_init(&out, 1 << 20);
    return 0;
}

static int buf_close(void **state)
{
    (void)state;
    pp_buf_fini(&out);
    return 0;
}

#define URL(text) .url = text, .url_n = sizeof(text) - 1

static struct pp_item example(void)
{
    static struct pp_item_photo photos[6];
    const struct pp_item_photo all[6] = {
        {URL("https://shop.example/1.jpg"), .outcome = {.kind = PP_OUTCOME_STORED,
                                                        .object = {.sha256 = {0xab, 0xcd, [31] = 1},
                                                                   .bytes = 75123,
                                                                   .width = 1200,
                                                                   .height = 900,
                                                                   .type = PP_IMAGE_JPEG},
                                                        .fetched_at = 1795168800000,
                                                        .attempts = 1,
                                                        .ms = 412}},
        {URL("https://shop.example/\"2\".jpg"), .outcome = {.kind = PP_OUTCOME_FAILED,
                                                            .attempts = 2,
                                                            .code = 404,
                                                            .detail = "shop.example answered 404 Not Found"}},
        {URL("u"), .outcome = {.kind = PP_OUTCOME_FAILED, .code = PP_CODE_BAD_URL}},
        {URL("s"),
         .outcome = {.kind = PP_OUTCOME_SKIPPED, .code = 410, .detail = "gone", .retry_at = 1795168800001}},
        {URL("c"), .outcome = {.kind = PP_OUTCOME_CANCELLED}},
        {URL("k"),
         .outcome = {.kind = PP_OUTCOME_UNCHANGED,
                     .object = {.sha256 = {1}, .bytes = 5, .width = 1, .height = 2, .type = PP_IMAGE_PNG},
                     .fetched_at = 1000}},
    };
    memcpy(photos, all, sizeof(all));
    return (struct pp_item){.client = "42",
                            .id = "ad-1",
                            .revision = 3,
                            .batch_id = "b_x",
                            .meta = "{\"k\":[1,0.1]}",
                            .status = PP_ITEM_PARTIAL,
                            .finished_at = 1795168800000,
                            .seq = 9,
                            .photos = photos,
                            .n_photos = 6};
}

static void bytes_are_as_documented(void **state)
{
    struct pp_item item = example();
    char id[PP_RESULT_ID_MAX], expected[4096];
    (void)state;
    pp_result_id(id, "42", "ad-1", 3);
    snprintf(
        expected, sizeof(expected),
        "{\"specversion\":\"1.0\",\"id\":\"%s\",\"source\":\"photopool\",\"type\":\"photopool.item."
        "finished\","
        "\"subject\":\"42/ad-1\",\"time\":\"2026-11-20T10:00:00.000Z\","
        "\"datacontenttype\":\"application/"
        "json\",\"data\":{\"client\":\"42\",\"item\":\"ad-1\",\"revision\":3,"
        "\"batch_id\":\"b_x\",\"status\":\"partial\",\"meta\":{\"k\":[1,0.1]},\"photos\":["
        "{\"url\":\"https://shop.example/1.jpg\",\"outcome\":\"stored\",\"sha256\":"
        "\"abcd000000000000000000000000000000000000000000000000000000000001\",\"bytes\":75123,"
        "\"type\":\"image/jpeg\",\"width\":1200,\"height\":900,\"object\":"
        "\"sha256/ab/cd/abcd000000000000000000000000000000000000000000000000000000000001.jpg\","
        "\"fetched_at\":\"2026-11-20T10:00:00.000Z\",\"attempts\":1,\"ms\":412},"
        "{\"url\":\"https://shop.example/\\\"2\\\".jpg\",\"outcome\":\"failed\",\"attempts\":2,\"error\":"
        "{\"code\":\"http_404\",\"detail\":\"shop.example answered 404 Not Found\",\"fault\":\"merchant\","
        "\"message\":\"The photo was not found at this address.\",\"http_status\":404,"
        "\"retry_at\":null}},"
        "{\"url\":\"u\",\"outcome\":\"failed\",\"attempts\":0,\"error\":{\"code\":\"bad_url\","
        "\"detail\":\"The URL is not written correctly.\",\"fault\":\"merchant\","
        "\"message\":\"The URL is not written correctly.\",\"http_status\":null,\"retry_at\":null}},"
        "{\"url\":\"s\",\"outcome\":\"skipped\",\"attempts\":0,\"error\":{\"code\":\"http_410\","
        "\"detail\":\"gone\",\"fault\":\"merchant\","
        "\"message\":\"The photo was not found at this "
        "address.\",\"http_status\":410,\"retry_at\":\"2026-11-20T10:00:00.001Z\"}},"
        "{\"url\":\"c\",\"outcome\":\"cancelled\",\"attempts\":0},"
        "{\"url\":\"k\",\"outcome\":\"unchanged\",\"sha256\":"
        "\"0100000000000000000000000000000000000000000000000000000000000000\",\"bytes\":5,"
        "\"type\":\"image/png\",\"width\":1,\"height\":2,\"object\":"
        "\"sha256/01/00/0100000000000000000000000000000000000000000000000000000000000000.png\","
        "\"fetched_at\":\"1970-01-01T00:00:01.000Z\",\"attempts\":0,\"ms\":0}]}}",
        id);
    pp_result_write(&out, NULL, &item, PP_ENGLISH);
    assert_false(out.failed);
    assert_string_equal(out.p, expected);
    pp_buf_reset(&out);
    pp_result_write(&out, NULL, &item, PP_ENGLISH); /* one id always has the same payload (rule I2) */
    assert_string_equal(out.p, expected);
}

static void without_meta_or_photos(void **state)
{
    struct pp_item item = {.client = "1",
                           .id = "x",
                           .revision = 1,
                           .batch_id = "b",
                           .status = PP_ITEM_COMPLETE,
                           .finished_at = 1};
    (void)state;
    pp_result_write(&out, NULL, &item, PP_ENGLISH);
    assert_non_null(strstr(out.p, "\"status\":\"complete\",\"photos\":[]}}"));
    assert_null(strstr(out.p, "meta"));
}

static void ids_depend_on_client_item_and_revision_only(void **state)
{
    struct pp_item item = example(), other = item;
    json_t *a, *b;
    (void)state;
    other.batch_id = "b_other";
    other.status = PP_ITEM_FAILED;
    pp_result_write(&out, NULL, &item, PP_ENGLISH);
    a = json_loads(out.p, 0, NULL);
    pp_buf_reset(&out);
    pp_result_write(&out, NULL, &other, PP_ENGLISH);
    b = json_loads(out.p, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(a, "id")),
                        json_string_value(json_object_get(b, "id")));
    json_decref(b);
    other.revision++;
    pp_buf_reset(&out);
    pp_result_write(&out, NULL, &other, PP_ENGLISH);
    b = json_loads(out.p, 0, NULL);
    assert_string_not_equal(json_string_value(json_object_get(a, "id")),
                            json_string_value(json_object_get(b, "id")));
    json_decref(a);
    json_decref(b);
}

static void an_open_item_says_what_it_waits_for(void **state)
{
    struct pp_item item = example();
    (void)state;
    item.status = PP_ITEM_OPEN;
    item.created_at = 1000;
    item.photos[4] =
        (struct pp_item_photo){URL("w"), .tier = 1, .due_ms = 2000, .attempts = 2, .last_code = 503};
    item.photos[5] = (struct pp_item_photo){URL("x"), .claimed = true, .tier = 7, .attempts = 1};
    const struct pp_open_from from = {.facts = {.now_ms = 1500, .transfer_ms = {1000, 5000}},
                                      .date_ms = 11500};
    pp_result_write_open(&out, NULL, &item, &from);
    json_t *json = json_loads(out.p, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "status")), "open");
    json_decref(json);
    assert_non_null(strstr(out.p, "\"meta\":{\"k\":[1,0.1]},\"created_at\":\"1970-01-01T00:00:01.000Z\""));
    assert_non_null(strstr(out.p, "{\"url\":\"w\",\"outcome\":\"open\",\"attempts\":2,\"state\":\"waiting\","
                                  "\"tier\":5,\"due_at\":\"1970-01-01T00:00:12.000Z\",\"waiting\":\"retry\","
                                  "\"last_error\":\"http_503\",\"next_at\":\"1970-01-01T00:00:12.000Z\"}"));
    assert_non_null(strstr(out.p, "{\"url\":\"x\",\"outcome\":\"open\",\"attempts\":1,\"state\":\"claimed\","
                                  "\"tier\":null,\"due_at\":null,\"waiting\":\"in_flight\","
                                  "\"last_error\":null,\"next_at\":null}"));
}

static void names(void **state)
{
    (void)state;
    for (int i = PP_ITEM_OPEN + 1; i < PP_ITEM_STATUS_COUNT; i++)
        assert_int_equal(pp_item_status_parse(pp_item_status_name(i)), i);
    assert_int_equal(pp_item_status_parse("open"), -1);
    assert_int_equal(pp_item_status_parse(""), -1);
    assert_string_equal(pp_outcome_name(PP_OUTCOME_UNCHANGED), "unchanged");
}

/* --- the schemas and the table have the same members --- */

#define VALUE_code   404
#define VALUE_u32    7
#define VALUE_time   1795168800000
#define VALUE_text   "words"
#define VALUE_flag   true
#define VALUE_object ((struct pp_object){.bytes = 5, .width = 1, .height = 2, .type = PP_IMAGE_PNG})

/* Writes the photo of a result, with a value in every field or with the code only. */
static json_t *photo_of(enum pp_outcome_kind kind, bool every_field)
{
    struct pp_outcome all = {.kind = kind};
#define X(member, type, shown, place, stored, bson) all.member = VALUE_##type;
    PP_OUTCOME_FIELDS(X)
#undef X
    struct pp_item_photo photo = {
        URL("u"), .outcome = {.kind = kind, .object = {.type = PP_IMAGE_PNG}, .code = PP_CODE_BAD_URL}};
    if (every_field)
        photo.outcome = all;
    struct pp_item item = {.client = "1", .id = "x", .batch_id = "b", .photos = &photo, .n_photos = 1};
    pp_buf_reset(&out);
    if (kind == PP_OUTCOME_OPEN)
        pp_result_write_open(&out, NULL, &item, &(const struct pp_open_from){.facts.transfer_ms = {1000}});
    else
        pp_result_write(&out, NULL, &item, PP_ENGLISH);
    json_t *result = json_loads(out.p, 0, NULL);
    assert_non_null(result);
    json_t *data = kind == PP_OUTCOME_OPEN ? result : json_object_get(result, "data");
    json_t *copy = json_incref(json_array_get(json_object_get(data, "photos"), 0));
    json_decref(result);
    return copy;
}

/* Checks the member names; `names` is an object with these keys or an array of strings. */
static bool is_among(const char *key, json_t *names)
{
    if (json_is_object(names))
        return json_object_get(names, key);
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), key) == 0)
            return true;
    return false;
}

static void has_exactly(json_t *object, json_t *names, const char *what)
{
    const char *key;
    json_t *value;
    size_t n = json_is_object(names) ? json_object_size(names) : json_array_size(names);
    json_object_foreach(object, key, value) if (!is_among(key, names))
        fail_msg("%s: \"%s\" is not in the schema, or not required there", what, key);
    if (json_object_size(object) != n)
        fail_msg("%s: the schema has members that no result has", what);
}

static void check_schema(json_t *schemas, const char *name, enum pp_outcome_kind kind)
{
    json_t *schema = json_object_get(schemas, name), *properties = json_object_get(schema, "properties");
    json_t *full = photo_of(kind, true), *bare = photo_of(kind, false);
    assert_non_null(properties);
    has_exactly(full, properties, name);
    has_exactly(bare, json_object_get(schema, "required"), name);
    json_t *error = json_object_get(properties, "error");
    if (error) {
        has_exactly(json_object_get(full, "error"), json_object_get(error, "properties"), "error");
        has_exactly(json_object_get(bare, "error"), json_object_get(error, "required"), "error");
    }
    json_decref(full);
    json_decref(bare);
}

static void schemas_have_these_members(void **state)
{
    static const struct {
        const char *file, *name;
        enum pp_outcome_kind kind;
    } cases[] = {
        {"openapi.json", "StoredPhoto", PP_OUTCOME_STORED},
        {"openapi.json", "StoredPhoto", PP_OUTCOME_UNCHANGED},
        {"openapi.json", "FailedPhoto", PP_OUTCOME_FAILED},
        {"openapi.json", "FailedPhoto", PP_OUTCOME_SKIPPED},
        {"openapi.json", "CancelledPhoto", PP_OUTCOME_CANCELLED},
        {"openapi.json", "OpenPhoto", PP_OUTCOME_OPEN},
        {"asyncapi.json", "StoredPhoto", PP_OUTCOME_STORED},
        {"asyncapi.json", "FailedPhoto", PP_OUTCOME_FAILED},
        {"asyncapi.json", "CancelledPhoto", PP_OUTCOME_CANCELLED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_t *file = json_load_file(cases[i].file, 0, NULL);
        assert_non_null(file);
        check_schema(json_object_get(json_object_get(file, "components"), "schemas"), cases[i].name,
                     cases[i].kind);
        json_decref(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_are_as_documented, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(without_meta_or_photos, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(ids_depend_on_client_item_and_revision_only, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(an_open_item_says_what_it_waits_for, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(schemas_have_these_members, buf_open, buf_close),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
