/* Tests the parser of POST /v1/batches: which bodies and items it accepts, which it rejects, and
 * why (parse.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/entry.h"
#include "pipeline/accept/parse.h"
#include "pipeline/accept/rejected.h"

static struct pp_batch_parsed out;

static void parse_n(const char *text, size_t n, bool ndjson)
{
    const struct pp_batch_body body = {.p = text, .n = n, .ndjson = ndjson, .max_items = 10, .max_photos = 3};
    pp_batch_parsed_fini(&out);
    pp_batch_parse(&body, &out);
}

static void parse(const char *text)
{
    parse_n(text, strlen(text), false);
}

static void lines(const char *text)
{
    parse_n(text, strlen(text), true);
}

/* Puts one item into a batch and parses it. */
static void item(const char *text)
{
    char body[4096];
    snprintf(body, sizeof(body), "{\"client\":\"42\",\"items\":[%s]}", text);
    parse(body);
}

static json_t *verdict(size_t i)
{
    json_t *all = json_loadb(out.rejected.p, out.rejected.n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(all);
    assert_int_equal(json_array_size(all), out.n_rejected);
    json_t *v = json_incref(json_array_get(all, i));
    json_decref(all);
    assert_non_null(v);
    return v;
}

static const char *text_of(const json_t *v, const char *name)
{
    const char *s = json_string_value(json_object_get(v, name));
    return s ? s : "null";
}

static void assert_rejected(size_t i, int index, const char *id, const char *code, const char *field)
{
    json_t *v = verdict(i);
    assert_int_equal(json_integer_value(json_object_get(v, "index")), index);
    assert_string_equal(text_of(v, "id"), id);
    assert_string_equal(text_of(v, "code"), code);
    assert_string_equal(text_of(v, "field"), field);
    assert_true(strlen(text_of(v, "detail")) > 4);
    assert_int_equal(json_object_size(v), 5);
    json_decref(v);
}

static void a_batch_is_taken(void **state)
{
    struct pp_entry_reader r;
    struct pp_entry_item it;
    const char *url;
    size_t n;
    (void)state;
    parse("{\"client\": \"42\", \"refresh\": \"changed\", \"items\": [{\"id\": \"ad-1\", \"photos\": "
          "[\"https://a.example/1.jpg\", \"https://a.example/1.jpg\"], \"meta\": {\"k\": [1, 0.1]}},"
          "{\"photos\": [], \"id\": \"\\u00fc\"}]}");
    assert_false(out.refused);
    assert_string_equal(out.client, "42");
    assert_int_equal(out.refresh, PP_REFRESH_CHANGED);
    assert_string_equal(out.label, "");
    assert_int_equal(out.max_age_ms, 0);
    assert_int_equal(out.n_items, 2);
    assert_int_equal(out.n_photos, 2);
    assert_string_equal(out.rejected.p, "[]");

    assert_true(pp_entry_open(&r, out.entry.p, out.entry.n));
    assert_true(pp_entry_next(&r, &it));
    assert_int_equal(it.index, 0);
    assert_memory_equal(it.id, "ad-1", it.id_n);
    assert_int_equal(it.meta_n, strlen("{\"k\":[1,0.1]}"));
    assert_memory_equal(it.meta, "{\"k\":[1,0.1]}", it.meta_n);
    assert_int_equal(it.n_photos, 2);
    assert_true(pp_entry_next_photo(&r, &url, &n));
    assert_memory_equal(url, "https://a.example/1.jpg", n);
    assert_true(pp_entry_next(&r, &it));
    assert_int_equal(it.index, 1);
    assert_int_equal(it.id_n, 2);
    assert_null(it.meta);
    assert_int_equal(it.n_photos, 0);
    assert_false(pp_entry_next(&r, &it));
    assert_false(r.r.failed);
}

static void items_may_come_first_and_refresh_is_known_by_default(void **state)
{
    (void)state;
    parse("{\"items\":[{\"id\":\"a\",\"photos\":[]}],\"client\":\"Shop_1-x\"}");
    assert_false(out.refused);
    assert_string_equal(out.client, "Shop_1-x");
    assert_int_equal(out.refresh, PP_REFRESH_KNOWN);
    assert_int_equal(out.n_items, 1);
    parse("{\"max_age\":\"2h\",\"items\":[],\"label\":\"\\u00fc\",\"client\":\"1\"}");
    assert_false(out.refused);
    assert_string_equal(out.label, "\xc3\xbc");
    assert_int_equal(out.max_age_ms, 7200000);
    parse("{\"it\\u0065ms\":[],\"client\":\"1\"}"); /* an escaped key is the same key */
    assert_false(out.refused);
}

static void documents_are_refused(void **state)
{
    static const struct {
        const char *text;
        enum pp_api_code code;
        const char *field;
    } cases[] = {
        {"", PP_API_BAD_JSON, ""},
        {"{", PP_API_BAD_JSON, ""},
        {"nope", PP_API_BAD_JSON, ""},
        {"{} {}", PP_API_BAD_JSON, ""},
        {"\xef\xbb\xbf{\"client\":\"1\",\"items\":[]}", PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"client\":\"1\",\"items\":[]}", PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"items\":[],\"items\":[]}", PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"items\":[{\"id\":\"a\",\"id\":\"a\",\"photos\":[]}]}", PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"items\":[{\"id\":\"a\",\"photos\":[],\"meta\":{\"x\":1,\"x\":2}}]}",
         PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"items\":[{\"id\":\"a\",\"photos\":[],\"meta\":{\"x\":1e999}}]}",
         PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"items\":[{\"id\":\"\\ud800\",\"photos\":[]}]}", PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"items\":[{\"id\":\"a\\u0000\",\"photos\":[]}]}", PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"items\":[{\"id\":\"\xff\",\"photos\":[]}]}", PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"items\":[{\"id\":\"a\"]}", PP_API_BAD_JSON, ""},
        {"[]", PP_API_BAD_TYPE, ""},
        {"17", PP_API_BAD_TYPE, ""},
        {"{\"items\":[]}", PP_API_MISSING_FIELD, "client"},
        {"{\"client\":\"1\"}", PP_API_MISSING_FIELD, "items"},
        {"{\"client\":1,\"items\":[]}", PP_API_BAD_TYPE, "client"},
        {"{\"client\":{},\"items\":[]}", PP_API_BAD_TYPE, "client"},
        {"{\"client\":\"1\",\"items\":{}}", PP_API_BAD_TYPE, "items"},
        {"{\"client\":\"\",\"items\":[]}", PP_API_BAD_CLIENT, "client"},
        {"{\"client\":\"a:b\",\"items\":[]}", PP_API_BAD_CLIENT, "client"},
        {"{\"client\":\"a\\nb\",\"items\":[]}", PP_API_BAD_CLIENT, "client"},
        {"{\"client\":\"*\",\"items\":[]}", PP_API_BAD_CLIENT, "client"},
        {"{\"client\":\"{}\",\"items\":[]}", PP_API_BAD_CLIENT, "client"},
        {"{\"client\":\"a/b\",\"items\":[]}", PP_API_BAD_CLIENT, "client"},
        {"{\"client\":\"12345678901234567890123456789012345678901234567890123456789012345\",\"items\":[]}",
         PP_API_BAD_CLIENT, "client"},
        {"{\"client\":\"1\",\"refresh\":\"often\",\"items\":[]}", PP_API_BAD_VALUE, "refresh"},
        {"{\"client\":\"1\",\"refresh\":null,\"items\":[]}", PP_API_BAD_TYPE, "refresh"},
        {"{\"client\":\"1\",\"label\":17,\"items\":[]}", PP_API_BAD_TYPE, "label"},
        {"{\"client\":\"1\",\"label\":{},\"items\":[]}", PP_API_BAD_TYPE, "label"},
        {"{\"client\":\"1\",\"label\":\"\",\"items\":[]}", PP_API_BAD_VALUE, "label"},
        {"{\"client\":\"1\",\"label\":\"\\u007f\",\"items\":[]}", PP_API_BAD_VALUE, "label"},
        {"{\"client\":\"1\",\"label\":\"a\",\"label\":\"b\",\"items\":[]}", PP_API_BAD_JSON, ""},
        {"{\"client\":\"1\",\"max_age\":\"30\",\"items\":[]}", PP_API_BAD_VALUE, "max_age"},
        {"{\"client\":\"1\",\"max_age\":\"0s\",\"items\":[]}", PP_API_BAD_VALUE, "max_age"},
        {"{\"client\":\"1\",\"$where\":{},\"items\":[]}", PP_API_UNKNOWN_FIELD, "$where"},
        {"{\"client\":\"1\",\"items\":[{},{},{},{},{},{},{},{},{},{},{}]}", PP_API_TOO_MANY_ITEMS, "items"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        parse(cases[i].text);
        if (!out.refused || out.code != cases[i].code || strcmp(out.field, cases[i].field) != 0)
            fail_msg("%s: refused %d, code %d, field %s, %s", cases[i].text, out.refused, out.code, out.field,
                     out.detail);
    }
    parse_n("{\"client\":\"1\",\0\"items\":[]}", 27, false);
    assert_int_equal(out.code, PP_API_BAD_JSON);
    parse("{\"client\": \"1\",\n \"items\": [\n  {\"id\": \"a\" \"photos\": []}]}");
    assert_int_equal(out.code, PP_API_BAD_JSON);
    assert_non_null(strstr(out.detail, "line 3, column "));
}

static void items_are_rejected(void **state)
{
    static const struct {
        const char *item, *id, *code, *field;
    } cases[] = {
        {"17", "null", "bad_type", "null"},
        {"\"a\"", "null", "bad_type", "null"},
        {"[]", "null", "bad_type", "null"},
        {"{}", "null", "missing_field", "id"},
        {"{\"photos\":[]}", "null", "missing_field", "id"},
        {"{\"id\":\"a\"}", "a", "missing_field", "photos"},
        {"{\"id\":17,\"photos\":[]}", "null", "bad_type", "id"},
        {"{\"id\":null,\"photos\":[]}", "null", "bad_type", "id"},
        {"{\"id\":\"\",\"photos\":[]}", "", "bad_id", "id"},
        {"{\"id\":\"a\\nb\",\"photos\":[]}", "a\nb", "bad_id", "id"},
        {"{\"id\":\"a\\u0085\",\"photos\":[]}", "a\xc2\x85", "bad_id", "id"},
        {"{\"id\":\"a\",\"photos\":\"http://x/\"}", "a", "bad_type", "photos"},
        {"{\"id\":\"a\",\"photos\":{\"$where\":1}}", "a", "bad_type", "photos"},
        {"{\"id\":\"a\",\"photos\":[\"x\",17]}", "a", "bad_type", "photos[1]"},
        {"{\"id\":\"a\",\"photos\":[null]}", "a", "bad_type", "photos[0]"},
        {"{\"id\":\"a\",\"photos\":[\"1\",\"2\",\"3\",\"4\"]}", "a", "too_many_photos", "photos"},
        {"{\"id\":\"a\",\"photos\":[],\"meta\":17}", "a", "bad_type", "meta"},
        {"{\"id\":\"a\",\"photos\":[],\"meta\":null}", "a", "bad_type", "meta"},
        {"{\"id\":\"a\",\"photos\":[],\"mata\":{}}", "a", "unknown_field", "mata"},
        {"{\"id\":\"a\",\"photos\":[],\"a.b\":{}}", "a", "unknown_field", "a.b"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        item(cases[i].item);
        assert_false(out.refused);
        assert_int_equal(out.n_items, 0);
        assert_int_equal(out.n_rejected, 1);
        assert_rejected(0, 0, cases[i].id, cases[i].code, cases[i].field);
    }
    item("{\"id\":\"ad-4\",\"photos\":[\"x\",17]}");
    json_t *v = verdict(0);
    assert_string_equal(text_of(v, "detail"), "expected a string, got 17");
    json_decref(v);
}

static void one_bad_item_harms_no_other(void **state)
{
    (void)state;
    item("{\"id\":\"a\",\"photos\":[]},{\"id\":\"b\",\"photos\":[1]},{\"id\":\"a\",\"photos\":[]},"
         "{\"id\":\"b\",\"photos\":[\"u\"]}");
    assert_false(out.refused);
    assert_int_equal(out.n_items, 2); /* the rejected item "b" does not count */
    assert_int_equal(out.n_photos, 1);
    assert_rejected(0, 1, "b", "bad_type", "photos[0]");
    assert_rejected(1, 2, "a", "duplicate_item", "id");
}

static void meta_is_measured_compact(void **state)
{
    char text[3000], blanks[1500];
    (void)state;
    memset(blanks, ' ', sizeof(blanks));
    blanks[sizeof(blanks) - 1] = '\0';
    for (int n = 1017; n <= 1018; n++) { /* {"a":"..."} is 8 bytes longer than its text */
        snprintf(text, sizeof(text), "{\"id\":\"a\",\"photos\":[],\"meta\":{%s\"a\":\"%0*d\"}}", blanks,
                 n - 1, 0);
        item(text);
        assert_int_equal(out.n_items, n - 1 + 8 <= PP_META_MAX);
        if (out.n_rejected)
            assert_rejected(0, 0, "a", "meta_too_large", "meta");
    }
}

/* The parser keeps only the beginning of a URL that is too long. This part must still be too long,
 * and must not end within a character. */
static void long_urls_are_kept_up_to_a_point(void **state)
{
    static const size_t lengths[] = {8191, 8192, 8193, 8194, 20000};
    size_t cap = 40000, n;
    char *text = malloc(cap);
    const char *url;
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        for (int wide = 0; wide < 2; wide++) {
            struct pp_entry_reader r;
            struct pp_entry_item it;
            size_t at = (size_t)sprintf(text, "{\"client\":\"1\",\"items\":[{\"id\":\"a\",\"photos\":[\"");
            for (size_t k = 0; k < lengths[i]; k += 1 + (size_t)(wide && k > 0))
                at += (size_t)sprintf(text + at, "%s", wide && k > 0 ? "\xc3\xbc" : "u");
            at += (size_t)sprintf(text + at, "\"]}]}");
            parse_n(text, at, false);
            assert_int_equal(out.n_photos, 1);
            assert_true(pp_entry_open(&r, out.entry.p, out.entry.n) && pp_entry_next(&r, &it));
            assert_true(pp_entry_next_photo(&r, &url, &n));
            if (lengths[i] <= PP_URL_FIT)
                assert_true(n == lengths[i] || (wide && n == lengths[i] + 1));
            else
                assert_true(n > PP_URL_FIT && n <= PP_URL_FIT + 4);
            /* The URL that was kept is one "u" and whole characters of two bytes, so its length is
             * odd. */
            assert_true(n % 2 == 1 || !wide);
        }
    }
    free(text);
}

static void lines_are_items(void **state)
{
    (void)state;
    lines("{\"id\":\"a\",\"photos\":[\"u\"]}\n\n  \r\n{\"id\":\"b\",\"photos\":[]}\r\nnope\n{\"id\":\"c\"\n"
          "[1]\n{\"id\":\"d\",\"photos\":[]} {}\n{\"id\":\"e\",\"photos\":[]}");
    assert_false(out.refused);
    assert_int_equal(out.n_items, 3);
    assert_rejected(0, 2, "null", "bad_json", "null");
    assert_rejected(1, 3, "null", "bad_json", "null");
    assert_rejected(2, 4, "null", "bad_type", "null");
    assert_rejected(3, 5, "null", "bad_json", "null");
    assert_int_equal(out.n_rejected, 4);
    json_t *v = verdict(0);
    assert_non_null(strstr(text_of(v, "detail"), "line 5, column 1"));
    json_decref(v);

    lines("");
    assert_false(out.refused);
    assert_int_equal(out.n_items + out.n_rejected, 0);
    lines("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n\n");
    assert_false(out.refused);
    lines("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n");
    assert_true(out.refused);
    assert_int_equal(out.code, PP_API_TOO_MANY_ITEMS);
}

/* An item has a million URLs, or a million brackets. The parser must reject it without building it
 * in memory. */
static void bombs_are_small(void **state)
{
    static const char *const values[] = {"\"\",", "[],", "{},", "[[[[[[[]]]]]]],"};
    size_t cap = 16 << 20;
    char *text = malloc(cap);
    (void)state;
    for (size_t v = 0; v < 4; v++) {
        size_t at = (size_t)sprintf(text, "{\"client\":\"1\",\"items\":[{\"id\":\"a\",\"photos\":[");
        while (at < cap - 100)
            at += (size_t)sprintf(text + at, "%s", values[v]);
        at += (size_t)sprintf(text + at, "\"\"]},{\"id\":\"b\",\"photos\":[]}]}");
        parse_n(text, at, false);
        assert_false(out.refused);
        assert_int_equal(out.n_items, 1);
        assert_rejected(0, 0, "null", "too_many_photos", "null");
        assert_true(out.entry.n < 300);
    }
    memset(text, '[', cap);
    parse_n(text, cap, false);
    assert_int_equal(out.code, PP_API_BAD_JSON);
    parse_n(text, cap, true);
    assert_int_equal(out.n_rejected, 1);
    free(text);
}

/* An answer shows the first verdicts; the entry has all, and few bytes for each. */
static void all_verdicts_are_in_the_entry(void **state)
{
    enum { LINES = 5050 };
    struct pp_batch_body body = {.ndjson = true, .max_items = LINES, .max_photos = 3};
    struct pp_entry_reader r;
    struct pp_entry_item item;
    struct pp_buf text, part;
    size_t n, seen = 0;

    (void)state;
    pp_buf_init(&text, 1 << 20);
    for (int i = 0; i < LINES; i++)
        pp_buf_puts(&text, i == 2000 ? "{\"id\":\"ok\",\"photos\":[]}\n" : "[\n");
    body.p = text.p;
    body.n = text.n;
    pp_batch_parsed_fini(&out);
    pp_batch_parse(&body, &out);
    assert_false(out.refused);
    assert_int_equal(out.n_items, 1);
    assert_int_equal(out.n_rejected, LINES - 1);
    json_t *shown = json_loadb(out.rejected.p, out.rejected.n, JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(json_array_size(shown), PP_REJECTED_SHOWN);
    json_decref(shown);
    assert_true(out.entry.n < LINES * 20);

    assert_true(pp_entry_open(&r, out.entry.p, out.entry.n));
    while (pp_entry_next(&r, &item)) {
        if (!item.rejected)
            continue;
        assert_int_equal(item.index, seen / PP_REJECTED_PART);
        pp_buf_init(&part, 1 << 20);
        assert_true(pp_rejected_unpack(&part, item.rejected, item.rejected_n));
        assert_false(pp_rejected_unpack(&part, item.rejected, item.rejected_n - 1));
        struct pp_reader in = {.p = part.p, .n = part.n};
        while (in.n > 0 && !in.failed) {
            const char *p = pp_read_str(&in, &n);
            json_t *v = json_loadb(p, n, 0, NULL);
            size_t index = seen < 2000 ? seen : seen + 1;
            assert_int_equal(json_integer_value(json_object_get(v, "index")), index);
            json_decref(v);
            seen++;
        }
        pp_buf_fini(&part);
    }
    assert_false(r.r.failed);
    assert_int_equal(seen, LINES - 1);
    pp_buf_fini(&text);
}

static void ids_that_are_too_long_are_echoed_in_part(void **state)
{
    char text[1200];
    (void)state;
    snprintf(text, sizeof(text), "{\"id\":\"%0300d\",\"photos\":[]}", 0);
    item(text);
    json_t *v = verdict(0);
    assert_string_equal(text_of(v, "code"), "bad_id");
    assert_int_equal(strlen(text_of(v, "id")), 256);
    json_decref(v);
}

/* Returns the processor time in ns to parse a batch of `items` items with 10 photos each. */
static int64_t parse_many(int items)
{
    const struct pp_batch_body limits = {.max_items = 10000, .max_photos = 100};
    struct pp_batch_body body = limits;
    size_t cap = 16 << 20, at;
    char *text = malloc(cap);
    struct timespec a, b;
    assert_non_null(text);
    at = (size_t)sprintf(text, "{\"client\":\"1\",\"items\":[");
    for (int i = 0; i < items; i++) {
        at += (size_t)sprintf(text + at, "%s{\"id\":\"ad-%d\",\"photos\":[", i ? "," : "", i);
        for (int k = 0; k < 10; k++)
            at += (size_t)sprintf(text + at, "%s\"https://shop.example/catalogue/photos/%d/%d.jpg\"",
                                  k ? "," : "", i, k);
        at += (size_t)sprintf(text + at, "]}");
    }
    at += (size_t)sprintf(text + at, "]}");
    body.p = text;
    body.n = at;
    pp_batch_parsed_fini(&out);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    pp_batch_parse(&body, &out);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    assert_int_equal(out.n_photos, 10 * items);
    free(text);
    return (b.tv_sec - a.tv_sec) * INT64_C(1000000000) + b.tv_nsec - a.tv_nsec;
}

/* The work must grow with the number of items, not with its square: 25 times as many items take
 * about 25 times as long. The best of a few runs counts, so that the test holds on any machine. */
static void large_batches_are_quick(void **state)
{
    int64_t small = INT64_MAX, large = INT64_MAX;
    (void)state;
    for (int i = 0; i < 5; i++) {
        int64_t ns = parse_many(400);
        small = ns < small ? ns : small;
    }
    for (int i = 0; i < 5 && large > 125 * small; i++) {
        int64_t ns = parse_many(10000);
        large = ns < large ? ns : large;
    }
    print_message("%.0f photos/s\n", 100000 / ((double)large / 1e9));
    /* work that grows with the square would give a factor of 625 */
    assert_true(large <= 125 * small);
}

static int done(void **state)
{
    (void)state;
    pp_batch_parsed_fini(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_taken),
        cmocka_unit_test(items_may_come_first_and_refresh_is_known_by_default),
        cmocka_unit_test(documents_are_refused),
        cmocka_unit_test(items_are_rejected),
        cmocka_unit_test(one_bad_item_harms_no_other),
        cmocka_unit_test(meta_is_measured_compact),
        cmocka_unit_test(long_urls_are_kept_up_to_a_point),
        cmocka_unit_test(lines_are_items),
        cmocka_unit_test(bombs_are_small),
        cmocka_unit_test(all_verdicts_are_in_the_entry),
        cmocka_unit_test(ids_that_are_too_long_are_echoed_in_part),
        cmocka_unit_test(large_batches_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
