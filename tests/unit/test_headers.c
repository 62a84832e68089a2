/* Tests a client's request headers: which are accepted, and which are sent to a host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/fetch/headers.h"

static void check_lines(const char *json, const char *const *lines)
{
    struct pp_headers *h;
    char bad[65];
    size_t i;

    assert_int_equal(pp_headers_parse(json, &h, bad), PP_OK);
    assert_non_null(h);
    for (i = 0; lines[i]; i++)
        assert_string_equal(h->lines[i], lines[i]);
    assert_null(h->lines[i]);
    pp_headers_unref(h);
}

static void lines_are_made(void **state)
{
    (void)state;
    check_lines("{}", (const char *[]){NULL});
    check_lines("{\"Authorization\": \"Basic eDp5\"}", (const char *[]){"Authorization: Basic eDp5", NULL});
    check_lines("{\"X-A\": \"\", \"x.b!#$%&'*+^_`|~1\": \"a, b; c=\\\"d\\\"\"}",
                (const char *[]){"X-A: ", "x.b!#$%&'*+^_`|~1: a, b; c=\"d\"", NULL});
    check_lines("{\"Cookie\": \"a=\\u00e9\"}", (const char *[]){"Cookie: a=\xc3\xa9", NULL});
}

static void an_empty_object_gives_no_headers(void **state)
{
    struct pp_headers *h = (struct pp_headers *)1;
    char bad[65] = "x";

    (void)state;
    assert_int_equal(pp_headers_parse(NULL, &h, bad), PP_OK);
    assert_null(h);
    assert_string_equal(bad, "");
    assert_null(pp_headers_ref(NULL));
    pp_headers_unref(NULL);
}

static const struct {
    const char *json, *bad;
} refused[] = {
    {"", ""},
    {"[]", ""},
    {"\"x\"", ""},
    {"{", ""},
    {"{\"a\": \"1\", \"a\": \"2\"}", ""},
    {"{\"A\": 1}", "A"},
    {"{\"A\": null}", "A"},
    {"{\"A\": [\"x\"]}", "A"},
    {"{\"A\": {}}", "A"},
    {"{\"A\": {\"value\": 1, \"hosts\": [\"a\"]}}", "A"},
    {"{\"A\": {\"value\": \"x\\ny\", \"hosts\": [\"a\"]}}", "A"},
    {"{\"A\": {\"value\": \"x\", \"hosts\": [\"a\"], \"b\": 1}}", "A"},
    {"{\"Host\": {\"value\": \"x\", \"hosts\": [\"a\"]}}", "Host"},
    {"{\"\": \"x\"}", ""},
    {"{\"A B\": \"x\"}", "A B"},
    {"{\"A:\": \"x\"}", "A:"},
    {"{\"A\\r\\nB\": \"x\"}", "A\r\nB"},
    {"{\"\\u00e9\": \"x\"}", "\xc3\xa9"},
    {"{\"A\": \"x\\r\\nHost: evil\"}", "A"},
    {"{\"A\": \"x\\nB: y\"}", "A"},
    {"{\"A\": \"x\\u0000y\"}", ""},
    {"{\"A\": \"x\\ty\"}", "A"},
    {"{\"A\": \"\\u007f\"}", "A"},
    {"{\"Ok\": \"1\", \"Host\": \"evil\"}", "Host"},
    {"{\"hOsT\": \"x\"}", "hOsT"},
    {"{\"Content-Length\": \"5\"}", "Content-Length"},
    {"{\"transfer-encoding\": \"chunked\"}", "transfer-encoding"},
    {"{\"Connection\": \"close\"}", "Connection"},
    {"{\"Keep-Alive\": \"x\"}", "Keep-Alive"},
    {"{\"Upgrade\": \"h2c\"}", "Upgrade"},
    {"{\"TE\": \"trailers\"}", "TE"},
    {"{\"Trailer\": \"x\"}", "Trailer"},
    {"{\"Expect\": \"100-continue\"}", "Expect"},
    {"{\"Range\": \"bytes=0-\"}", "Range"},
    {"{\"If-Range\": \"x\"}", "If-Range"},
    {"{\"If-Match\": \"x\"}", "If-Match"},
    {"{\"If-None-Match\": \"x\"}", "If-None-Match"},
    {"{\"If-Modified-Since\": \"x\"}", "If-Modified-Since"},
    {"{\"If-Unmodified-Since\": \"x\"}", "If-Unmodified-Since"},
    {"{\"Proxy-Authorization\": \"x\"}", "Proxy-Authorization"},
    {"{\"Proxy-Connection\": \"x\"}", "Proxy-Connection"},
    {"{\"Accept-Encoding\": \"br\"}", "Accept-Encoding"},
    {"{\"Content-Encoding\": \"x\"}", "Content-Encoding"},
};

static void refuses_forbidden_headers_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        struct pp_headers *h = (struct pp_headers *)1;
        char bad[65];
        if (pp_headers_parse(refused[i].json, &h, bad) != PP_EINVAL)
            fail_msg("accepted: %s", refused[i].json);
        assert_null(h);
        assert_string_equal(bad, refused[i].bad);
    }
}

/* Writes the object {"H-0": "v", ...} with names of name_n bytes and values of value_n bytes. */
static char *object_of(unsigned n, size_t name_n, size_t value_n)
{
    char *json = malloc(n * (name_n + value_n + 16) + 16), *p = json;

    *p++ = '{';
    for (unsigned i = 0; i < n; i++) {
        int at = sprintf(p, "%s\"H%02u", i ? "," : "", i);
        memset(p + at, 'n', name_n - 3);
        p += at + name_n - 3;
        p += sprintf(p, "\":\"");
        memset(p, 'v', value_n);
        p += value_n;
        *p++ = '"';
    }
    strcpy(p, "}");
    return json;
}

static void refuses_too_many_and_too_long(void **state)
{
    static const struct {
        unsigned n;
        size_t name_n, value_n;
        enum pp_err err;
    } cases[] = {{PP_CLIENT_HEADERS_MAX, 10, 10, PP_OK},
                 {PP_CLIENT_HEADERS_MAX + 1, 10, 10, PP_EINVAL},
                 {1, 64, 10, PP_OK},
                 {1, 65, 10, PP_EINVAL},
                 {1, 10, 1024, PP_OK},
                 {1, 10, 1025, PP_EINVAL},
                 {1, 5000, 1, PP_EINVAL}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *json = object_of(cases[i].n, cases[i].name_n, cases[i].value_n), bad[65];
        struct pp_headers *h;
        assert_int_equal(pp_headers_parse(json, &h, bad), cases[i].err);
        assert_true(strlen(bad) <= 64);
        pp_headers_unref(h);
        free(json);
    }
}

static void sets_are_shared(void **state)
{
    struct pp_headers *h;
    char bad[65];

    (void)state;
    assert_int_equal(pp_headers_parse("{\"A\": \"b\"}", &h, bad), PP_OK);
    assert_ptr_equal(pp_headers_ref(h), h);
    pp_headers_unref(h);
    assert_string_equal(h->lines[0], "A: b"); /* the other set of headers is unchanged */
    pp_headers_unref(h);
}

/* Asserts that `host` gets exactly these lines. */
static void check_host(const struct pp_headers *h, const char *host, bool other_host, const char *const *want)
{
    const char *out[PP_CLIENT_HEADERS_MAX + 1];
    size_t i;

    pp_headers_for_host(h, host, other_host, out);
    for (i = 0; want[i] && out[i]; i++)
        assert_string_equal(out[i], want[i]);
    assert_true(!want[i] && !out[i]);
}

#define LINES(...) ((const char *[]){__VA_ARGS__, NULL})

static void only_harmless_ones_go_to_another_host(void **state)
{
    const struct pp_headers h = {.lines = {"Authorization: x", "User-Agent: me", "Cookie: c", "accept: */*",
                                           "X-Key: k", "ACCEPT-LANGUAGE: de", "Accept-X: y",
                                           "Referer: http://x", "User: x"}};

    (void)state;
    check_host(&h, "shop.example", false, h.lines);
    check_host(&h, "shop.example", true,
               LINES("User-Agent: me", "accept: */*", "ACCEPT-LANGUAGE: de", "Referer: http://x"));
    check_host(NULL, "shop.example", true, LINES(NULL));
    check_host(NULL, "shop.example", false, LINES(NULL));
}

static void bound_headers_go_to_their_hosts_only(void **state)
{
    struct pp_headers *h;
    char bad[65];

    (void)state;
    assert_int_equal(
        pp_headers_parse("{\"Authorization\": {\"value\": \"Basic x\", \"hosts\": "
                         "[\"IMG.shop.example\", \"[2001:DB8::1]\", \"127.1\"]}, \"Accept\": \"a\"}",
                         &h, bad),
        PP_OK);
    for (int other = 0; other < 2; other++) {
        check_host(h, "img.shop.example", other, LINES("Authorization: Basic x", "Accept: a"));
        check_host(h, "2001:db8::1", other, LINES("Authorization: Basic x", "Accept: a"));
        check_host(h, "127.0.0.1", other, LINES("Authorization: Basic x", "Accept: a"));
        check_host(h, "shop.example", other, LINES("Accept: a"));
        check_host(h, "x.img.shop.example", other, LINES("Accept: a"));
        check_host(h, "img.shop.exampl", other, LINES("Accept: a"));
    }
    pp_headers_unref(h);
}

static void refuses_hosts_that_are_no_names(void **state)
{
    static const char *const hosts[] = {
        "",          "[]",        "[1]",      "[\"\"]",    "[\"a b\"]",    "[\"a/b\"]",      "[\"a:80\"]",
        "[\"u@a\"]", "[\"a?b\"]", "[\"a#\"]", "[\"*.a\"]", "[\"a\\\\b\"]", "[\"[::1]:80\"]", "[\"[::1\"]",
        "\"a\""};

    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        char json[200], bad[65];
        struct pp_headers *h;
        snprintf(json, sizeof(json), "{\"X-A\": {\"value\": \"v\"%s%s}}", hosts[i][0] ? ", \"hosts\": " : "",
                 hosts[i]);
        if (pp_headers_parse(json, &h, bad) != PP_EINVAL)
            fail_msg("accepted: %s", json);
        assert_string_equal(bad, "X-A");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_made),
        cmocka_unit_test(an_empty_object_gives_no_headers),
        cmocka_unit_test(refuses_forbidden_headers_by_name),
        cmocka_unit_test(refuses_too_many_and_too_long),
        cmocka_unit_test(sets_are_shared),
        cmocka_unit_test(only_harmless_ones_go_to_another_host),
        cmocka_unit_test(bound_headers_go_to_their_hosts_only),
        cmocka_unit_test(refuses_hosts_that_are_no_names),
    };

    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
