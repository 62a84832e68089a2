/* Tests the JSON writer (json_out.h), whose output jansson must read back, and the scanner
 * (json_scan.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/json_out.h"
#include "format/json_scan.h"
#include "prng.h"

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

static void commas_and_brackets(void **state)
{
    (void)state;
    pp_json_begin(&out, NULL, '{');
    pp_json_str(&out, "a", "x");
    pp_json_str(&out, "none", NULL);
    pp_json_begin(&out, "list", '[');
    pp_json_end(&out, ']');
    pp_json_begin(&out, "more", '[');
    pp_json_int(&out, NULL, -1);
    pp_json_uint(&out, NULL, UINT64_MAX);
    pp_json_begin(&out, NULL, '{');
    pp_json_end(&out, '}');
    pp_json_begin(&out, NULL, '{');
    pp_json_bool(&out, "t", true);
    pp_json_bool(&out, "f", false);
    pp_json_end(&out, '}');
    pp_json_end(&out, ']');
    pp_json_str(&out, "brackets", "{[:,");
    pp_json_time(&out, "never", 0);
    pp_json_time(&out, "once", 1);
    pp_json_raw(&out, "raw", "[1]", 3);
    pp_json_end(&out, '}');
    assert_string_equal(out.p, "{\"a\":\"x\",\"none\":null,\"list\":[],\"more\":[-1,18446744073709551615,{},"
                               "{\"t\":true,\"f\":false}],\"brackets\":\"{[:,\",\"never\":null,"
                               "\"once\":\"1970-01-01T00:00:00.001Z\",\"raw\":[1]}");
}

static void members_of_every_kind(void **state)
{
    (void)state;
    PP_JSON_OBJECT(&out, NULL, PP_STR("s", "x"), PP_STR("none", NULL), PP_INT("i", -1),
                   PP_UINT("u", UINT64_MAX), PP_NUM("n", 2.5), PP_BOOL("b", true), PP_TIME("t", 1),
                   PP_TIME("never", 0), PP_INT_IF("i_null", false, 3), PP_UINT_IF("u_given", true, 0),
                   PP_NUM_IF("n_null", false, 1));
    assert_string_equal(out.p, "{\"s\":\"x\",\"none\":null,\"i\":-1,\"u\":18446744073709551615,\"n\":2.5,"
                               "\"b\":true,\"t\":\"1970-01-01T00:00:00.001Z\",\"never\":null,"
                               "\"i_null\":null,\"u_given\":0,\"n_null\":null}");
}

static void numbers(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0, "0"},           {1, "1"},      {1.5, "1.5"},     {100, "100"},
                 {0.125, "0.125"},   {2.0004, "2"}, {-3.25, "-3.25"}, {1e15, "1000000000000000"},
                 {INFINITY, "null"}, {NAN, "null"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        pp_buf_reset(&out);
        pp_json_num(&out, NULL, cases[i].v);
        assert_string_equal(out.p, cases[i].text);
    }
}

static void texts_are_escaped(void **state)
{
    static const struct {
        const char *s;
        size_t n;
        const char *json;
    } cases[] = {{"", 0, "\"\""},
                 {"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
                 {"\n\r\t\x01\x1f\x7f", 6, "\"\\n\\r\\t\\u0001\\u001f\x7f\""},
                 {"\0", 1, "\"\\u0000\""},
                 {"gr\xc3\xbc\xc3\x9f \xf0\x9f\x93\xb7", 11, "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x93\xb7\""},
                 {"\xff", 1, "\"\xef\xbf\xbd\""},
                 {"a\xc3", 2, "\"a\xef\xbf\xbd\""},
                 {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        pp_buf_reset(&out);
        pp_json_strn(&out, NULL, cases[i].s, cases[i].n);
        assert_string_equal(out.p, cases[i].json);
    }
}

/* Writes random bytes as a string. The output must be valid JSON, and if the bytes are UTF-8
 * without NUL, jansson must read the same text. */
static void any_text_is_json(void **state)
{
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        char s[40];
        size_t n = (size_t)pp_test_between(&seed, 0, sizeof(s));
        for (size_t i = 0; i < n; i++)
            s[i] = (char)pp_test_between(&seed, round % 2 ? 1 : 0x20, round % 2 ? 255 : 126);
        pp_buf_reset(&out);
        pp_json_begin(&out, NULL, '[');
        pp_json_strn(&out, NULL, s, n);
        pp_json_end(&out, ']');
        json_t *back = json_loadb(out.p, out.n, 0, NULL);
        assert_non_null(back);
        if (round % 2 == 0) {
            assert_int_equal(json_string_length(json_array_get(back, 0)), n);
            assert_memory_equal(json_string_value(json_array_get(back, 0)), s, n);
        }
        json_decref(back);
    }
}

static void values_are_compact_and_keep_their_order(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"{ \"b\" : 1 , \"a\" : [ true , false , null ] }", "{\"b\":1,\"a\":[true,false,null]}"},
        {"[0.1, 1.0, 1e2, -2.5e-3, 1e300, 123456789.125]", "[0.1,1.0,100.0,-0.0025,1e+300,123456789.125]"},
        {"[9223372036854775807, -9223372036854775808]", "[9223372036854775807,-9223372036854775808]"},
        {"\"\\u00e9\\ud83d\\ude00\\n\"", "\"\xc3\xa9\xf0\x9f\x98\x80\\n\""},
        {"{}", "{}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_t *v = json_loads(cases[i].in, JSON_DECODE_ANY, NULL);
        assert_non_null(v);
        pp_buf_reset(&out);
        pp_json_value(&out, NULL, v);
        assert_string_equal(out.p, cases[i].out);
        json_decref(v);
    }
}

static void ceiling(void **state)
{
    struct pp_buf small;
    (void)state;
    pp_buf_init(&small, 8);
    pp_json_begin(&small, NULL, '{');
    pp_json_str(&small, "key", "a long value");
    pp_json_end(&small, '}');
    assert_true(small.failed);
    assert_true(small.n <= 8);
    pp_buf_fini(&small);
}

/* --- the scanner --- */

/* Scans a whole document, and returns the number of its scalars, or -1 if it is not valid. */
static int walk(struct pp_scan *s)
{
    struct pp_slice text;
    int n = 0;

    if (pp_scan_enter(s, '{')) {
        while (pp_scan_key(s, &text)) {
            json_decref(pp_scan_parse(s, text));
            int more = walk(s);
            if (more < 0)
                return -1;
            n += more;
        }
        return s->error ? -1 : n;
    }
    if (pp_scan_enter(s, '[')) {
        while (pp_scan_element(s, &text)) {
            json_decref(pp_scan_parse(s, text));
            n++;
        }
        return s->error ? -1 : n;
    }
    if (!pp_scan_value(s, &text))
        return -1;
    json_t *json = pp_scan_parse(s, text);
    json_decref(json);
    return json ? 1 : -1;
}

static bool scans(const char *text, size_t n, char error[160])
{
    struct pp_scan s;
    pp_scan_begin(&s, text, n);
    bool ok = walk(&s) >= 0 && pp_scan_finish(&s);
    pp_scan_error_text(&s, 1, error, 160);
    return ok;
}

static void scan_finds_errors_where_they_are(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "line 1, column 1: the end, where a value should be"},
        {"{", "line 1, column 2: the end, before a bracket is closed"},
        {"{\"a\"}", "line 1, column 5: no colon after a key"},
        {"{a:1}", "line 1, column 2: no key, where one should be"},
        {"{\"a\":1,}", "line 1, column 8: no key, where one should be"},
        {"{\"a\":1\n \"b\":2}",
         "line 2, column 2: neither a comma nor the closing bracket, where one should be"},
        {"[1,2,]", "line 1, column 6: no value, where one should be"},
        {"[1,\n2,\n  [3,]]", "line 3, column 6: not valid JSON"},
        {"{\"a\":1} x", "line 1, column 9: something after the end of the document"},
        {"[\"abc]", "line 1, column 2: a string without an end"},
        {"[[1]", "line 1, column 5: the end, before a bracket is closed"},
        {"[ [1 ", "line 1, column 3: a bracket that is not closed"},
        {"\xef\xbb\xbf{}", "line 1, column 1: not valid JSON"},
    };
    char error[160];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_false(scans(cases[i].text, strlen(cases[i].text), error));
        assert_string_equal(error, cases[i].error);
    }
}

static void scan_is_strict(void **state)
{
    static const char *const bad[] = {
        "[01]",
        "[1.]",
        "[.5]",
        "[+1]",
        "[0x1]",
        "[1e999]",
        "[-1e999]",
        "[NaN]",
        "[tru]",
        "['a']",
        "[\"\\ud800\"]",
        "[\"\\udc00x\"]",
        "[\"\\x41\"]",
        "[\"a\nb\"]",
        "[\"\xff\"]",
        "[\"\\u0000\"]",
        "[{\"a\":1,\"a\":2}]",
        "{\"x\":[1}",
        "[{]}",
        "[1 2]",
        "[,1]",
        "{\"a\":}",
        "[\"\xed\xa0\x80\"]",
        "[99999999999999999999999]",
        "[\"\xc0\xaf\"]",
        "[1]]",
        "nulll",
        "[1/**/]",
    };
    char error[160];
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (scans(bad[i], strlen(bad[i]), error))
            fail_msg("%s was accepted", bad[i]);
    assert_false(scans("[1,\0]", 5, error));
}

static void scan_takes_what_is_json(void **state)
{
    static const char *const good[] = {
        "{}",
        "[]",
        " [ ] ",
        "\t{\r\n\"a\" : [ 1 , -0.5e-3, \"x\\\"]}\" , {} , [[]] ] }\n",
        "null",
        "17",
        "\"\\ud83d\\ude00\"",
        "{\"a\":{\"b\":{\"c\":[true,false,null]}}}",
    };
    char error[160];
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        if (!scans(good[i], strlen(good[i]), error))
            fail_msg("%s: %s", good[i], error);
}

static void scan_bounds_depth(void **state)
{
    char text[300], error[160];
    (void)state;
    for (int depth = 30; depth <= 34; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        bool ok = scans(text, 2 * (size_t)depth, error);
        assert_int_equal(ok, depth <= PP_JSON_DEPTH);
    }
    /* brackets within strings do not count as nesting */
    memset(text, '[', 200);
    text[0] = text[100] = '"';
    assert_true(scans(text, 101, error));
    size_t n = 200000;
    char *deep = malloc(n);
    memset(deep, '[', n);
    assert_false(scans(deep, n, error));
    assert_string_equal(error, "line 1, column 33: more than 32 levels deep");
    free(deep);
}

static void scan_counts_values(void **state)
{
    static const struct {
        const char *text;
        uint32_t least;
    } cases[] = {{"1", 1}, {"\"a,b:c[\"", 1}, {"[]", 1}, {"[1,2,3]", 4}, {"{\"a\":[1,{}]}", 5}};
    struct pp_scan s;
    struct pp_slice text;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        pp_scan_begin(&s, cases[i].text, strlen(cases[i].text));
        assert_true(pp_scan_value(&s, &text));
        assert_true(text.values >= cases[i].least && text.values <= cases[i].least + 1);
        assert_int_equal(text.n, strlen(cases[i].text));
    }
}

/* The scanner and jansson must agree on every short text made of pieces of JSON. */
static void scan_agrees_with_jansson(void **state)
{
    static const char *const pieces[] = {"{",     "}", "[", "]",    ",",  ":", "\"a\"",
                                         "\"b\"", "1", " ", "null", "\"", "x"};
    uint64_t seed = 11;
    int good = 0;
    (void)state;
    for (int round = 0; round < 200000; round++) {
        char text[80] = "", error[160];
        int n = (int)pp_test_between(&seed, 1, 9);
        for (int i = 0; i < n; i++)
            strcat(text, pieces[pp_test_between(&seed, 0, sizeof(pieces) / sizeof(*pieces) - 1)]);
        json_t *json = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
        bool ours = scans(text, strlen(text), error);
        /* The scanner accepts duplicate keys, because its callers check for them. */
        if (!json && ours)
            json = json_loads(text, JSON_DECODE_ANY, NULL);
        if (ours != (json != NULL))
            fail_msg("%s: %s", text, error);
        good += json != NULL;
        json_decref(json);
    }
    assert_true(good > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(commas_and_brackets, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(members_of_every_kind, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(numbers, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(texts_are_escaped, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(any_text_is_json, buf_open, buf_close),
        cmocka_unit_test_setup_teardown(values_are_compact_and_keep_their_order, buf_open, buf_close),
        cmocka_unit_test(ceiling),
        cmocka_unit_test(scan_finds_errors_where_they_are),
        cmocka_unit_test(scan_is_strict),
        cmocka_unit_test(scan_takes_what_is_json),
        cmocka_unit_test(scan_bounds_depth),
        cmocka_unit_test(scan_counts_values),
        cmocka_unit_test(scan_agrees_with_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
