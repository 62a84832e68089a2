/* Tests the URL parser: tables of good and bad texts, the examples of redirects in RFC 3986, and
 * properties of generated texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/url.h"
#include "photopool/code.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint16_t parse(struct pp_url *u, const char *s)
{
    return pp_url_parse(u, s, strlen(s));
}

static const struct {
    const char *in, *host, *path, *text;
    uint16_t port;
} good[] = {
    {"http://shop.example/1.jpg", "shop.example", "/1.jpg", "http://shop.example/1.jpg", 80},
    {"HTTPS://Shop.EXAMPLE:443/A", "shop.example", "/A", "https://shop.example/A", 443},
    {"http://shop.example", "shop.example", "/", "http://shop.example/", 80},
    {"http://shop.example#x", "shop.example", "/", "http://shop.example/", 80},
    {"http://shop.example?a=/b", "shop.example", "?a=/b", "http://shop.example/?a=/b", 80},
    {"http://shop.example/a?b?c#d?e", "shop.example", "/a?b?c", "http://shop.example/a?b?c", 80},
    {"http://shop.example/a?#d", "shop.example", "/a?", "http://shop.example/a?", 80},
    {"https://shop.example:80/", "shop.example", "/", "https://shop.example:80/", 80},
    {"http://shop.example:00080/", "shop.example", "/", "http://shop.example/", 80},
    {"http://shop.example:65535/", "shop.example", "/", "http://shop.example:65535/", 65535},
    {"http://shop.example:1/", "shop.example", "/", "http://shop.example:1/", 1},
    {"http://shop.example./x", "shop.example", "/x", "http://shop.example/x", 80},
    {"http://my_shop-1.example/", "my_shop-1.example", "/", "http://my_shop-1.example/", 80},
    {"http://xn--80aqecdr1a.xn--p1ai/", "xn--80aqecdr1a.xn--p1ai", "/", "http://xn--80aqecdr1a.xn--p1ai/",
     80},
    {"http://localhost/", "localhost", "/", "http://localhost/", 80},
    {"http://1.example/", "1.example", "/", "http://1.example/", 80},
    {"http://0x7f.example/", "0x7f.example", "/", "http://0x7f.example/", 80},
    {"http://a.0xg/", "a.0xg", "/", "http://a.0xg/", 80},
    {"http://h/a@b:c", "h", "/a@b:c", "http://h/a@b:c", 80},
    {"http://h/?u=http://x@y/", "h", "/?u=http://x@y/", "http://h/?u=http://x@y/", 80},
    {"http://h/\xd1\x84.jpg?\xc3\xa9", "h", "/\xd1\x84.jpg?\xc3\xa9", "http://h/%D1%84.jpg?%C3%A9", 80},
    {"http://h/%d1%84%00%zz%", "h", "/%d1%84%00%zz%", "http://h/%d1%84%00%zz%", 80},
    {"http://h/a|b{c}\"<>^`", "h", "/a|b{c}\"<>^`", "http://h/a%7Cb%7Bc%7D%22%3C%3E%5E%60", 80},
    {"http://h/!$&'()*+,;=:@[]~-._", "h", "/!$&'()*+,;=:@[]~-._", "http://h/!$&'()*+,;=:@[]~-._", 80},
    {"http://h/a/./b/../c/..", "h", "/a/./b/../c/..", "http://h/a/", 80},
    {"http://h/../../etc", "h", "/../../etc", "http://h/etc", 80},
    {"http://h/a?x/../y", "h", "/a?x/../y", "http://h/a?x/../y", 80},
    {"http://h/...//a..b/.c", "h", "/...//a..b/.c", "http://h/...//a..b/.c", 80},
    {"http://h//x//..//y", "h", "//x//..//y", "http://h//x//y", 80},
};

static void good_urls(void **state)
{
    struct pp_url u;
    char buf[PP_URL_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (parse(&u, good[i].in) != 0)
            fail_msg("refused: %s", good[i].in);
        assert_string_equal(u.host, good[i].host);
        assert_string_equal(u.host, good[i].host);
        assert_int_equal(u.port, good[i].port);
        assert_int_equal(u.path_n, strlen(good[i].path));
        assert_memory_equal(u.path, good[i].path, u.path_n);
        assert_int_equal(u.https, good[i].text[4] == 's');
        assert_false(u.host_is_ip);
        assert_int_equal(pp_url_format(&u, buf, sizeof(buf)), strlen(good[i].text));
        assert_string_equal(buf, good[i].text);
    }
}

/* The parser turns every spelling of an address into the same address, which the address policy
 * then checks. */
static void ip_hosts(void **state)
{
    static const struct {
        const char *in, *host;
        uint8_t family;
    } t[] = {
        {"http://127.0.0.1/", "127.0.0.1", 4},
        {"http://127.0.0.1./", "127.0.0.1", 4},
        {"http://0x7f000001/", "127.0.0.1", 4},
        {"http://0X7F000001/", "127.0.0.1", 4},
        {"http://2130706433/", "127.0.0.1", 4},
        {"http://017700000001/", "127.0.0.1", 4},
        {"http://0177.0.0.1/", "127.0.0.1", 4},
        {"http://127.1/", "127.0.0.1", 4},
        {"http://127.0.1/", "127.0.0.1", 4},
        {"http://127.1./", "127.0.0.1", 4},
        {"http://0x7f.1/", "127.0.0.1", 4},
        {"http://0x7f.0x0.0x0.0x1/", "127.0.0.1", 4},
        {"http://0x.0x.0/", "0.0.0.0", 4},
        {"http://0/", "0.0.0.0", 4},
        {"http://00000000000000000000000177.1/", "127.0.0.1", 4},
        {"http://0x00000000000000000000007f.1/", "127.0.0.1", 4},
        {"http://4294967295/", "255.255.255.255", 4},
        {"http://1.16777215/", "1.255.255.255", 4},
        {"http://1.2.65535/", "1.2.255.255", 4},
        {"http://169.254.169.254/latest", "169.254.169.254", 4},
        {"http://0xa9fea9fe/", "169.254.169.254", 4},
        {"http://8.8.8.8:8080/", "8.8.8.8", 4},
        {"http://[::1]/", "::1", 6},
        {"http://[::ffff:127.0.0.1]/", "::ffff:127.0.0.1", 6},
        {"http://[::FFFF:7F00:1]:81/", "::ffff:127.0.0.1", 6},
        {"http://[0:0:0:0:0:0:0:1]/", "::1", 6},
        {"https://[2001:DB8::1]:8443/x", "2001:db8::1", 6},
        {"http://[64:ff9b::7f00:1]/", "64:ff9b::7f00:1", 6},
    };
    struct pp_url u;
    (void)state;
    for (size_t i = 0; i < COUNT(t); i++) {
        struct pp_addr want;
        if (parse(&u, t[i].in) != 0)
            fail_msg("refused: %s", t[i].in);
        assert_true(u.host_is_ip);
        assert_string_equal(u.host, t[i].host);
        assert_int_equal(u.addr.family, t[i].family);
        assert_true(pp_addr_from_text(&want, t[i].host, strlen(t[i].host)));
        assert_memory_equal(&u.addr, &want, sizeof(want));
    }
    char buf[64];
    assert_int_equal(parse(&u, "HTTPS://[2001:DB8::1]:8443/x"), 0);
    assert_true(pp_url_format(&u, buf, sizeof(buf)) > 0);
    assert_string_equal(buf, "https://[2001:db8::1]:8443/x");
}

static void bad_urls(void **state)
{
    static const char *const bad[] = {
        "",
        "/x",
        "//host/x",
        "host/x",
        "shop.example",
        "shop.example:80/1.jpg",
        "?x",
        "#",
        ":",
        "://h/",
        "1http://h/",
        "http",
        "http:",
        "http:/",
        "http://",
        "http:///x",
        "http:/h/x",
        "http:h",
        "http://?x",
        "http://#x",
        "http://:80/",
        "http://user:pw@host/",
        "http://user@host/",
        "http://@host/",
        "http://good.example@127.0.0.1/",
        "http://h:80@x/",
        "http://h\\x/",
        "http:\\\\h\\x",
        "http://h/a\\b",
        "http://h/#\\",
        "http://h/?\\",
        " http://h/",
        "http://h/ ",
        "http://h/a b",
        "http:// h/",
        "http://h /",
        "http://h/\t",
        "http://h/\n",
        "http://h/\r\nX: y",
        "http://h/\x01",
        "http://h/\x7f",
        "http://h/\xc2\x80",
        "http://h/\xc2\x9f",
        "\xef\xbb\xbfhttp://h/",
        "http://h%00/",
        "http://h%2e/",
        "http://%68/",
        "http://127.0.0.1%2f@h/",
        "http://h%/",
        "http://h:0/",
        "http://h:65536/",
        "http://h:80a/",
        "http://h:/",
        "http://h:-1/",
        "http://h:+80/",
        "http://h:000080/",
        "http://h:80:80/",
        "http://h: 80/",
        "http://h:99999999999999999999/",
        "http://h:\xd9\xa1/",
        "http://h::80/",
        "http://./",
        "http://../",
        "http://a..b/",
        "http://.a/",
        "http://a../",
        "http://a.b../",
        "http://h*/",
        "http://h,x/",
        "http://h;x/",
        "http://h|x/",
        "http://h<x/",
        "http://h^x/",
        "http://a~b/",
        "http://$/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[::1]:/",
        "http://[::1]:0/",
        "http://[]/",
        "http://[127.0.0.1]/",
        "http://[::1%25eth0]/",
        "http://[::1%eth0]/",
        "http://[v1.x]/",
        "http://[:::1]/",
        "http://[1:2:3:4:5:6:7:8:9]/",
        "http://[[::1]]/",
        "http://::1/",
        "http://h[::1]/",
        "http://[::1/]",
        "http://[::g]/",
        "http://[::1]@h/",
        "http://]/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://1.2.3.256/",
        "http://4294967296/",
        "http://1.16777216/",
        "http://0x100000000/",
        "http://0x1000000007f000001/",
        "http://18446744075840258049/",
        "http://08.1/",
        "http://1.2.3.09/",
        "http://a.1/",
        "http://shop.example.123/",
        "http://1..2/",
        "http://99999999999999999999999999/",
        "http://a.0x1/",
        "http://0xffffffffffffffffffffffff/",
        "http://1.2.3.4.0x/",
        "http://\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.\xe2\x93\xaa.\xe2\x93\xaa.\xe2\x91\xa0/",
        ("http://127\xe3\x80\x82"
         "0\xe3\x80\x82"
         "0\xe3\x80\x82"
         "1/"),
        "http://\xef\xbc\x91.1/",
        "http://m\xc3\xbcller.example/",
        "http://h\xc2\xad.example/",
        "http://h/\xff",
        "http://h/\xc3",
        "http://h/\xc0\xaf",
        "http://h/\xed\xa0\x80",
        "http://h/\xf4\x90\x80\x80",
        "http://h/?\x80",
        "http://h/#\xfe",
    };
    static const char *const schemes[] = {"file:///etc/passwd",
                                          "ftp://h/x",
                                          "gopher://h/",
                                          "dict://h:11211/",
                                          "data:image/png;base64,x",
                                          "javascript:alert(1)",
                                          "FILE:///x",
                                          "httpx://h/",
                                          "httpss://h/",
                                          "htt://h/",
                                          "ws://h/",
                                          "blob:http://h/",
                                          "view-source:http://h/",
                                          "h+ttp://h/",
                                          "ldap://h",
                                          "jar:http://h!/",
                                          "localhost:80/x"};
    struct pp_url u;
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint16_t code = parse(&u, bad[i]);
        if (code != PP_CODE_BAD_URL)
            fail_msg("%s: %u", bad[i], code);
    }
    for (size_t i = 0; i < COUNT(schemes); i++) {
        uint16_t code = parse(&u, schemes[i]);
        if (code != PP_CODE_DENIED_SCHEME)
            fail_msg("%s: %u", schemes[i], code);
    }
    assert_int_equal(pp_url_parse(&u, "http://h/\0x", 11), PP_CODE_BAD_URL);
    assert_int_equal(pp_url_parse(&u, "http://h\0/", 10), PP_CODE_BAD_URL);
}

/* Tries every byte at every position of a host. The parser must accept only letters, digits, "-",
 * "_", "." and the bytes that end a host. */
static void host_bytes(void **state)
{
    struct pp_url u;
    (void)state;
    for (int c = 0; c < 256; c++) {
        char s[] = "http://ab?cd.example/";
        s[9] = (char)c;
        bool name = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '_' || c == '.';
        bool ends = c == '/' || c == '?' || c == '#';
        assert_int_equal(pp_url_parse(&u, s, sizeof(s) - 1), name || ends ? 0 : PP_CODE_BAD_URL);
        if (ends)
            assert_string_equal(u.host, "ab");
    }
}

static void lengths(void **state)
{
    char *s = malloc(PP_URL_MAX + 2), *buf = malloc(PP_URL_TEXT_MAX);
    struct pp_url u;
    (void)state;
    for (size_t n = 60; n <= 64; n++) {
        int len = snprintf(s, PP_URL_MAX, "http://%0*d.example/", (int)n, 0);
        memset(s + 7, 'a', n);
        assert_int_equal(pp_url_parse(&u, s, (size_t)len), n <= 63 ? 0 : PP_CODE_BAD_URL);
    }
    for (size_t n = 250; n <= 256; n++) { /* Every label of this host has one letter. */
        memcpy(s, "http://", 7);
        for (size_t i = 0; i < n; i++)
            s[7 + i] = i % 2 && i + 1 < n ? '.' : 'a';
        assert_int_equal(pp_url_parse(&u, s, 7 + n), n <= 253 ? 0 : PP_CODE_BAD_URL);
        s[7 + n] = '.';
        assert_int_equal(pp_url_parse(&u, s, 8 + n), n <= 253 ? 0 : PP_CODE_BAD_URL);
    }
    memset(s, 'x', PP_URL_MAX + 1);
    memcpy(s, "http://h/", 9);
    assert_int_equal(pp_url_parse(&u, s, PP_URL_MAX), 0);
    assert_int_equal(pp_url_parse(&u, s, PP_URL_MAX + 1), PP_CODE_BAD_URL);
    memset(s + 9, '"', PP_URL_MAX - 9); /* each quote becomes three bytes */
    assert_int_equal(pp_url_parse(&u, s, PP_URL_MAX), 0);
    assert_int_equal(pp_url_format(&u, buf, PP_URL_TEXT_MAX), 9 + 3 * (PP_URL_MAX - 9));
    free(s);
    free(buf);
}

static void format_needs_room(void **state)
{
    static const char want[] = "http://h.example:81/a%20b?c";
    struct pp_url u;
    char buf[64];
    (void)state;
    assert_int_equal(parse(&u, "http://h.example:81/./a%20b?c#d"), 0);
    for (size_t cap = 0; cap < sizeof(buf); cap++) {
        memset(buf, 'Z', sizeof(buf));
        size_t n = pp_url_format(&u, buf, cap);
        if (n > 0)
            assert_string_equal(buf, want);
        /* pp_url_format() needs room for two bytes more than the result, for the dot segment that
         * it removes. */
        if (cap < sizeof(want))
            assert_int_equal(n, 0);
        if (cap >= sizeof(want) + 2)
            assert_int_equal(n, sizeof(want) - 1);
        for (size_t i = cap; i < sizeof(buf); i++)
            assert_int_equal(buf[i], 'Z');
    }
}

static uint16_t resolve(const char *base, const char *location, size_t n, char *scratch, struct pp_url *out)
{
    struct pp_url b;
    /* exactly as long as the text, so that ASan sees an access past the end */
    char *own = malloc(n + 1), *end = own + 1;
    memcpy(end, location, n);
    assert_int_equal(parse(&b, base), 0);
    uint16_t code = pp_url_resolve(out, &b, end, n, scratch, PP_URL_TEXT_MAX);
    free(own);
    return code;
}

static void redirects(void **state)
{
    static const char rfc[] = "http://a/b/c/d;p?q";
    static const struct {
        const char *base, *location, *want;
    } t[] = {
        /* The examples of RFC 3986 sections 5.4.1 and 5.4.2, without fragments. */
        {rfc, "g", "http://a/b/c/g"},
        {rfc, "./g", "http://a/b/c/g"},
        {rfc, "g/", "http://a/b/c/g/"},
        {rfc, "/g", "http://a/g"},
        {rfc, "//g", "http://g/"},
        {rfc, "?y", "http://a/b/c/d;p?y"},
        {rfc, "g?y", "http://a/b/c/g?y"},
        {rfc, "#s", "http://a/b/c/d;p?q"},
        {rfc, "g#s", "http://a/b/c/g"},
        {rfc, "g?y#s", "http://a/b/c/g?y"},
        {rfc, ";x", "http://a/b/c/;x"},
        {rfc, "g;x", "http://a/b/c/g;x"},
        {rfc, ".", "http://a/b/c/"},
        {rfc, "./", "http://a/b/c/"},
        {rfc, "..", "http://a/b/"},
        {rfc, "../", "http://a/b/"},
        {rfc, "../g", "http://a/b/g"},
        {rfc, "../..", "http://a/"},
        {rfc, "../../", "http://a/"},
        {rfc, "../../g", "http://a/g"},
        {rfc, "../../../g", "http://a/g"},
        {rfc, "../../../../g", "http://a/g"},
        {rfc, "/./g", "http://a/g"},
        {rfc, "/../g", "http://a/g"},
        {rfc, "g.", "http://a/b/c/g."},
        {rfc, ".g", "http://a/b/c/.g"},
        {rfc, "g..", "http://a/b/c/g.."},
        {rfc, "..g", "http://a/b/c/..g"},
        {rfc, "./../g", "http://a/b/g"},
        {rfc, "./g/.", "http://a/b/c/g/"},
        {rfc, "g/./h", "http://a/b/c/g/h"},
        {rfc, "g/../h", "http://a/b/c/h"},
        {rfc, "g;x=1/./y", "http://a/b/c/g;x=1/y"},
        {rfc, "g;x=1/../y", "http://a/b/c/y"},
        {rfc, "g?y/./x", "http://a/b/c/g?y/./x"},
        {rfc, "g?y/../x", "http://a/b/c/g?y/../x"},
        {rfc, "http://G:80/x", "http://g/x"},
        {rfc, "HTTPS://g", "https://g/"},
        /* cases that are not in the RFC */
        {"https://h:8443/a", "//g/x", "https://g/x"},
        {"https://h:8443/a", "//g:8443/x", "https://g:8443/x"},
        {"https://h:8443/a", "b", "https://h:8443/b"},
        {"https://h:8443/a", "http://h/b", "http://h/b"},
        {"http://h", "x", "http://h/x"},
        {"http://h?q", "x", "http://h/x"},
        {"http://h?q", "?r", "http://h/?r"},
        {"http://h/a?b/c", "d", "http://h/d"},
        {"http://h/\xc3\xa9/a", "b", "http://h/%C3%A9/b"},
        {"http://h/a", "/my photo.jpg", "http://h/my%20photo.jpg"},
        {"http://h/a", " \t/b \t", "http://h/b"},
        {"http://h/a", "/\xe9\xff", "http://h/%E9%FF"},
        {"http://h/a", "/%7e%2f", "http://h/%7e%2f"},
        {"http://h/a", "http://0x7f.1/", "http://127.0.0.1/"},
        {"http://[::1]:81/a", "/b", "http://[::1]:81/b"},
        {"http://h/a", "?", "http://h/a?"},
        {"http://h/a", "//[::1]", "http://[::1]/"},
        {"http://h/a/b", "x:y/z", NULL},
    };
    struct pp_url u;
    char *scratch = malloc(PP_URL_TEXT_MAX);
    (void)state;
    for (size_t i = 0; i < COUNT(t); i++) {
        uint16_t code = resolve(t[i].base, t[i].location, strlen(t[i].location), scratch, &u);
        if (t[i].want == NULL) {
            assert_int_equal(code, PP_CODE_DENIED_SCHEME);
            continue;
        }
        if (code != 0)
            fail_msg("%s + %s: %u", t[i].base, t[i].location, code);
        assert_string_equal(scratch, t[i].want);
        assert_ptr_equal(u.path + u.path_n, scratch + strlen(scratch));
    }
    free(scratch);
}

static void bad_redirects(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "\t",
                                      "http:x",
                                      "http:/x",
                                      "http://",
                                      "http:///x",
                                      "http://u@h/",
                                      "//u:p@h/",
                                      "//",
                                      "//:80/",
                                      "http://h:0/",
                                      "http://h:99999/",
                                      "//h:x/",
                                      "http://h h/",
                                      "//h\xc3\xa9/",
                                      "//[::1",
                                      "//a..b/",
                                      "/a\rb",
                                      "/a\nb",
                                      "/a\r\nSet-Cookie: x",
                                      "/a\\b",
                                      "\\\\h\\x",
                                      "/a\x1b[1m",
                                      "/a\x7f",
                                      "//256.1.1.1/",
                                      "//h%00/",
                                      "https:"};
    static const char *const schemes[] = {"file:///etc/passwd", "ftp://h/", "gopher://h/", "data:,x",
                                          "javascript:x",       "FILE:/x",  "a:b"};
    char *scratch = malloc(PP_URL_TEXT_MAX), *longer = malloc(PP_URL_MAX + 1);
    struct pp_url u;
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint16_t code = resolve("http://h/a", bad[i], strlen(bad[i]), scratch, &u);
        if (code != PP_CODE_BAD_RESPONSE)
            fail_msg("%s: %u", bad[i], code);
    }
    for (size_t i = 0; i < COUNT(schemes); i++)
        assert_int_equal(resolve("http://h/a", schemes[i], strlen(schemes[i]), scratch, &u),
                         PP_CODE_DENIED_SCHEME);
    assert_int_equal(resolve("http://h/a", "/a\0b", 4, scratch, &u), PP_CODE_BAD_RESPONSE);
    memset(longer, 'a', PP_URL_MAX + 1);
    assert_int_equal(resolve("http://h/a", longer, PP_URL_MAX, scratch, &u), 0);
    assert_int_equal(resolve("http://h/a", longer, PP_URL_MAX + 1, scratch, &u), PP_CODE_BAD_RESPONSE);
    free(longer);
    free(scratch);
}

/* A chain of relative redirects makes the URL longer. Once the URL would exceed the ceiling, the
 * parser must refuse the redirect. `out` and `base` may be the same. */
static void redirects_are_bounded(void **state)
{
    char *scratch[2] = {malloc(PP_URL_TEXT_MAX), malloc(PP_URL_TEXT_MAX)}, *step = malloc(PP_URL_MAX);
    struct pp_url u;
    uint16_t code = 0;
    int hops = 0;
    (void)state;
    memset(step, 'a', PP_URL_MAX);
    step[PP_URL_MAX - 1] = '/';
    assert_int_equal(parse(&u, "http://h/"), 0);
    for (; code == 0 && hops < 10; hops++)
        code = pp_url_resolve(&u, &u, step, PP_URL_MAX, scratch[hops % 2], PP_URL_TEXT_MAX);
    assert_int_equal(code, PP_CODE_BAD_RESPONSE);
    assert_int_equal(hops, 4);
    for (size_t cap = 0; cap < 20; cap++) {
        assert_int_equal(parse(&u, "http://h/"), 0);
        assert_int_equal(pp_url_resolve(&u, &u, "abc", 3, scratch[0], cap),
                         cap < sizeof("http://h/abc") ? PP_CODE_BAD_RESPONSE : 0);
    }
    for (int i = 0; i < 2; i++)
        free(scratch[i]);
    free(step);
}

/* Builds texts from pieces that confuse parsers. If the parser accepts a text, it must also accept
 * the text's canonical form, which means the same and is its own canonical form. */
static void canonical_text_is_stable(void **state)
{
    static const char *const pieces[] = {
        "http://", "https://", "h",        "a.example", "127.1", "[::1]", ":80", ":81", "/",   "//",
        ".",       "..",       "/../",     "/./",       "?",     "#",     "@",   "%",   "%2e", "%00",
        "x",       "X",        "\xc3\xa9", "\xc3",      "|",     "\"",    "&",   "=",   "0x",  "0",
        "1",       ":",        "-",        "_",         "xn--a", " ",     "\\"};
    struct pp_rng rng;
    char s[512], one[4096], two[4096];
    unsigned accepted = 0;
    (void)state;
    pp_rng_seed(&rng, 3986);
    for (int round = 0; round < 60000; round++) {
        size_t n = 0, count = 1 + pp_rng_below(&rng, 12);
        n += (size_t)snprintf(s, sizeof(s), "%s", pp_rng_below(&rng, 4) ? "http://a.example/" : "");
        for (size_t i = 0; i < count; i++)
            n += (size_t)snprintf(s + n, sizeof(s) - n, "%s", pieces[pp_rng_below(&rng, COUNT(pieces))]);
        struct pp_url u, again, moved;
        if (pp_url_parse(&u, s, n) != 0)
            continue;
        accepted++;
        size_t n1 = pp_url_format(&u, one, sizeof(one));
        assert_true(n1 > 0);
        assert_int_equal(pp_url_parse(&again, one, n1), 0);
        assert_string_equal(u.host, again.host);
        assert_int_equal(u.port, again.port);
        assert_int_equal(u.https, again.https);
        assert_memory_equal(&u.addr, &again.addr, sizeof(u.addr));
        assert_int_equal(pp_url_format(&again, two, sizeof(two)), n1);
        assert_string_equal(one, two);
        assert_int_equal(pp_url_resolve(&moved, &again, s, n, two, sizeof(two)), 0);
        assert_string_equal(one, two);
    }
    assert_true(accepted > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls),
        cmocka_unit_test(ip_hosts),
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(host_bytes),
        cmocka_unit_test(lengths),
        cmocka_unit_test(format_needs_room),
        cmocka_unit_test(redirects),
        cmocka_unit_test(bad_redirects),
        cmocka_unit_test(redirects_are_bounded),
        cmocka_unit_test(canonical_text_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
