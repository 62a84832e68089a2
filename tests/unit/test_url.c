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

static char text[PP_URL_TEXT_MAX];
static char why[PP_URL_WHY_MAX];

static uint16_t read_n(struct pp_url *u, const char *s, size_t n)
{
    return pp_url_read(u, NULL, s, n, text, why);
}

static uint16_t parse(struct pp_url *u, const char *s)
{
    return read_n(u, s, strlen(s));
}

static const struct {
    const char *in, *host, *text;
    uint16_t port;
} good[] = {
    {"http://shop.example/1.jpg", "shop.example", "http://shop.example/1.jpg", 80},
    {"HTTPS://Shop.EXAMPLE:443/A", "shop.example", "https://shop.example/A", 443},
    {"http://shop.example", "shop.example", "http://shop.example/", 80},
    {"http://shop.example#x", "shop.example", "http://shop.example/", 80},
    {"http://shop.example?a=/b", "shop.example", "http://shop.example/?a=/b", 80},
    {"http://shop.example/a?b?c#d?e", "shop.example", "http://shop.example/a?b?c", 80},
    {"http://shop.example/a?#d", "shop.example", "http://shop.example/a?", 80},
    {"https://shop.example:80/", "shop.example", "https://shop.example:80/", 80},
    {"http://shop.example:00080/", "shop.example", "http://shop.example/", 80},
    {"http://shop.example:65535/", "shop.example", "http://shop.example:65535/", 65535},
    {"http://shop.example:1/", "shop.example", "http://shop.example:1/", 1},
    {"http://shop.example./x", "shop.example", "http://shop.example/x", 80},
    {"http://my_shop-1.example/", "my_shop-1.example", "http://my_shop-1.example/", 80},
    {"http://localhost/", "localhost", "http://localhost/", 80},
    {"http://1.example/", "1.example", "http://1.example/", 80},
    {"http://0x7f.example/", "0x7f.example", "http://0x7f.example/", 80},
    {"http://a.0xg/", "a.0xg", "http://a.0xg/", 80},
    {"http://h/a@b:c", "h", "http://h/a@b:c", 80},
    {"http://h/?u=http://x@y/", "h", "http://h/?u=http://x@y/", 80},
    {"http://h/a|b{c}\"<>^`", "h", "http://h/a%7Cb%7Bc%7D%22%3C%3E%5E%60", 80},
    {"http://h/!$&'()*+,;=:@[]~-._", "h", "http://h/!$&'()*+,;=:@[]~-._", 80},
    {"http://h/a/./b/../c/..", "h", "http://h/a/", 80},
    {"http://h/../../etc", "h", "http://h/etc", 80},
    {"http://h/a?x/../y", "h", "http://h/a?x/../y", 80},
    {"http://h/...//a..b/.c", "h", "http://h/...//a..b/.c", 80},
    {"http://h//x//..//y", "h", "http://h//x//y", 80},
    /* white space around it, and spaces inside */
    {" http://h/", "h", "http://h/", 80},
    {"\t\r\n\v\f http://h/a \r\n", "h", "http://h/a", 80},
    {"http://h/ ", "h", "http://h/", 80},
    {"http://h ", "h", "http://h/", 80},
    {"http://h/my photo  1.jpg", "h", "http://h/my%20photo%20%201.jpg", 80},
    {"http://h/ /a", "h", "http://h/%20/a", 80},
    {"http://h/a?b c#d e", "h", "http://h/a?b%20c", 80},
    /* other letters in path, query and fragment */
    {"http://h/\xd1\x84.jpg?\xc3\xa9#\xd1\x84", "h", "http://h/%D1%84.jpg?%C3%A9", 80},
    {"http://h/\xf0\x9f\x98\x80\xc2\xa0", "h", "http://h/%F0%9F%98%80%C2%A0", 80},
    /* escapes: case, unreserved characters, dots, and what is no escape */
    {"http://h/%d1%84%00", "h", "http://h/%D1%84%00", 80},
    {"http://h/%7Euser/%61%5a%30%2D%2e%5f", "h", "http://h/~user/aZ0-._", 80},
    {"http://h/a%2fb%3f%23%25%40", "h", "http://h/a%2Fb%3F%23%25%40", 80},
    {"http://h/?%41=%7e&b=%26", "h", "http://h/?A=~&b=%26", 80},
    {"http://h/a/%2e%2E/b/%2e/c", "h", "http://h/b/c", 80},
    {"http://h/a/.%2e/b", "h", "http://h/b", 80},
    {"http://h/100%", "h", "http://h/100%", 80},
    {"http://h/%zz%4", "h", "http://h/%zz%4", 80},
    {"http://h/%%341", "h", "http://h/%%341", 80},
    {"http://h/%4%31", "h", "http://h/%4%31", 80},
    {"http://h/%%2541", "h", "http://h/%%2541", 80},
    {"http://h/%4%67", "h", "http://h/%4g", 80},
    {"http://h/%% %\xd1\x84", "h", "http://h/%%%20%%D1%84", 80},
    {"http://h/%25%34%31", "h", "http://h/%2541", 80},
    /* host names with other letters: "bücher", "faß", "ПриМер.рф", mixed, marks, ignored ones */
    {"http://xn--80aqecdr1a.xn--p1ai/", "xn--80aqecdr1a.xn--p1ai", "http://xn--80aqecdr1a.xn--p1ai/", 80},
    {"http://B\xc3\x9c"
     "CHER.example/",
     "xn--bcher-kva.example", "http://xn--bcher-kva.example/", 80},
    {"http://fa\xc3\x9f.example/", "xn--fa-hia.example", "http://xn--fa-hia.example/", 80},
    {"http://\xd0\x9f\xd1\x80\xd0\xb8\xd0\x9c\xd0\xb5\xd1\x80.\xd1\x80\xd1\x84:81/\xd1\x84",
     "xn--e1afmkfd.xn--p1ai", "http://xn--e1afmkfd.xn--p1ai:81/%D1%84", 81},
    {"http://xn--e1afmkfd.\xd1\x80\xd1\x84", "xn--e1afmkfd.xn--p1ai", "http://xn--e1afmkfd.xn--p1ai/", 80},
    {"http://\xd1\x80\xd1\x84./", "xn--p1ai", "http://xn--p1ai/", 80},
    {"http://a\xe3\x80\x82"
     "example/",
     "a.example", "http://a.example/", 80}, /* ideographic full stop */
    {"http://e\xcc\x81.example/", "xn--9ca.example", "http://xn--9ca.example/", 80},
    {"http://a\xc2\xad"
     "b\xe2\x80\x8b.example/",
     "ab.example", "http://ab.example/", 80},
    {"http://\xef\xbd\x87\xef\xbd\x8f.example/", "go.example", "http://go.example/", 80}, /* full width */
};

static void good_urls(void **state)
{
    struct pp_url u;
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (parse(&u, good[i].in) != 0)
            fail_msg("refused: %s: %s", good[i].in, why);
        assert_string_equal(u.host, good[i].host);
        assert_int_equal(u.port, good[i].port);
        assert_int_equal(u.https, good[i].text[4] == 's');
        assert_false(u.host_is_ip);
        assert_string_equal(u.text, good[i].text);
        assert_int_equal(u.n, strlen(good[i].text));
        assert_ptr_equal(u.text, text);
        assert_int_equal(u.text[u.path], '/');
        assert_ptr_equal(strchr(u.text + 8, '/'), u.text + u.path);
        /* the canonical form is its own canonical form */
        assert_int_equal(parse(&u, good[i].text), 0);
        assert_string_equal(u.text, good[i].text);
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
        /* "①②⑦.⓪.⓪.①" and "１２７．１": full-width and circled digits, and full-width dots */
        {"http://\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.\xe2\x93\xaa.\xe2\x93\xaa.\xe2\x91\xa0/", "127.0.0.1",
         4},
        {"http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97\xef\xbc\x8e\xef\xbc\x91/", "127.0.0.1", 4},
        {"http://\xef\xbc\x90x7f\xe3\x80\x82"
         "1/",
         "127.0.0.1", 4},
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
    assert_int_equal(parse(&u, "HTTPS://[2001:DB8::1]:8443/x"), 0);
    assert_string_equal(u.text, "https://[2001:db8::1]:8443/x");
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
        "http:// h/",
        " ",
        "http://h/a\tb",
        "http://h/a\nb",
        "http://h/\xe9",
        "http://h/\xd1",
        "http://h/\xe2\x82",
        "http://h/\xed\xa0\x80",
        "http://h/\xc0\xaf",
        "http://h /",
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
        /* hosts that libidn2 refuses: a symbol, hyphens, an A-label that is none, two directions, a
         * joiner, an escape */
        "http://\xe2\x98\x83.example/",
        "http://-\xd1\x84.example/",
        "http://\xd1\x84-.example/",
        "http://ab--\xd1\x84.example/",
        "http://xn--a.\xd1\x80\xd1\x84/",
        "http://\xd7\x90z.example/",
        "http://\xe2\x80\x8d.example/",
        "http://\xd1\x84%00.example/",
        "http://\xd1.example/",
        /* hosts whose A-labels the strict rules refuse: "_", "@", "%", "/", a/c, nothing, labels,
         * addresses */
        "http://a_b.\xd1\x80\xd1\x84/",
        "http://good.example\xef\xbc\xa0h.example/",
        "http://\xef\xbc\x85zz.example/",
        "http://h\xef\xbc\x8f.example/",
        "http://\xe2\x84\x80.example/",
        "http://\xe3\x80\x82/",
        "http://\xe2\x80\x8b/",
        "http://\xc2\xad.example/",
        "http://\xd1\x84..example/",
        "http://h\xef\xbc\x9ax/",
        "http://h \xd1\x84/",
        "http://\xe2\x91\xa0.\xe2\x91\xa0.\xe2\x91\xa0.\xe2\x91\xa0.\xe2\x91\xa0/",
        "http://\xd1\x84.1/",
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
    assert_int_equal(read_n(&u, "http://h/\0x", 11), PP_CODE_BAD_URL);
    assert_int_equal(read_n(&u, "http://h\0/", 10), PP_CODE_BAD_URL);
}

/* The cause and the place of what is wrong. Characters are counted from 1, in the text as sent. */
static void says_what_is_wrong(void **state)
{
    static const struct {
        const char *in, *why;
    } t[] = {
        {"", "an empty text"},
        {" \n", "an empty text"},
        {"shop.example/1.jpg", "no http:// or https:// at the start"},
        {"//shop.example/1.jpg", "no http:// or https:// at the start"},
        {"shop.example:80/1.jpg", "no http:// or https:// at the start"},
        {"http:/shop.example/", "no http:// or https:// at the start"},
        {"http:\\\\shop.example/", "a backslash at character 6"},
        {" http:\\\\shop.example/", "a backslash at character 7"},
        {"http://h/\xd1\x84\xd1\x84\\", "a backslash at character 12"},
        {"http://h/a\tb", "a control character at character 11"},
        {"http://h/a\x7f", "a control character at character 11"},
        {"http://h/\xf0\x9f\x98\x80\xc2\x85", "a control character at character 11"},
        {"http://h/\xd1\x84\xff", "bytes that are not UTF-8 at character 11"},
        {"http://h/\xd1", "bytes that are not UTF-8 at character 10"},
        {"http://user:pw@h/", "user and password are not supported"},
        {"http://good.example@127.0.0.1/", "user and password are not supported"},
        {"http://a b.example/", "a space in the host name at character 9"},
        {"http://h%00/", "a percent sign in the host name at character 9"},
        {"http://h*/", "a character that host names can't have at character 9"},
        {"http://", "no host name at character 8"},
        {"http:///x", "no host name at character 8"},
        {"http://:80/", "no host name at character 8"},
        {"http://a..b/", "an empty label in the host name at character 10"},
        {"http://a../", "an empty label in the host name at character 10"},
        {"http://h:/", "a port that is no number from 1 to 65535 at character 10"},
        {"http://h:", "a port that is no number from 1 to 65535 at character 10"},
        {"http://h:0/", "a port that is no number from 1 to 65535 at character 10"},
        {"http://h:65536/", "a port that is no number from 1 to 65535 at character 10"},
        {"http://\xd1\x84.\xd1\x84:80a/", "a port that is no number from 1 to 65535 at character 12"},
        {"http://[::g]/", "an IPv6 address that can't be read at character 8"},
        {"http://256.1.1.1/", "an IPv4 address that can't be read at character 8"},
        {"http://a_b.\xd1\x80\xd1\x84/", "a host name that is not valid at character 8"},
        {"http://\xe2\x98\x83.example/", "a host name that is not valid at character 8"},
        {"ftp://h/", "Only http and https addresses are fetched."},
    };
    struct pp_url u;
    (void)state;
    for (size_t i = 0; i < COUNT(t); i++) {
        assert_int_not_equal(parse(&u, t[i].in), 0);
        if (strcmp(why, t[i].why) != 0)
            fail_msg("%s: %s", t[i].in, why);
    }
}

/* The spellings of one URL have one canonical form; each row is another URL. */
static void spellings_of_one_url(void **state)
{
    static const char *const rows[][12] = {
        {"http://shop.example/~a/1.jpg?q", "HTTP://SHOP.example:80/~a/1.jpg?q",
         " http://shop.example/~a/1.jpg?q\n", "http://shop.example./%7Ea/1.jpg?q#part",
         "http://shop.example/x/../%7ea/%31.jpg?q", "http://shop.example/./~%61/1%2ejpg?%71",
         "http://shop.example/%2E/~a/1.jpg?q"},
        {"http://shop.example/", "http://shop.example", "http://shop.example#", "http://shop.example/.",
         "http://shop.example/a/.."},
        {"https://shop.example/", "https://shop.example:443", "HTTPS://shop.example:0443/"},
        {"http://shop.example/my%20photo.jpg", "http://shop.example/my photo.jpg"},
        {"http://shop.example/my+photo.jpg"},
        {"http://shop.example/my%2Bphoto.jpg", "http://shop.example/my%2bphoto.jpg"},
        {"http://shop.example/a%2Fb", "http://shop.example/a%2fb"},
        {"http://shop.example/a/b"},
        {"http://shop.example/a//b"},
        {"http://shop.example/A/b", "http://shop.example/%41/b"},
        {"http://shop.example/a?"},
        {"http://shop.example/a"},
        {"http://shop.example:8080/a"},
        {"http://xn--e1afmkfd.xn--p1ai/%D1%84",
         "http://\xd0\xbf\xd1\x80\xd0\xb8\xd0\xbc\xd0\xb5\xd1\x80.\xd1\x80\xd1\x84/\xd1\x84",
         "http://\xd0\x9f\xd0\xa0\xd0\x98\xd0\x9c\xd0\x95\xd0\xa0.\xd0\xa0\xd0\xa4:80/%d1%84",
         "http://XN--E1AFMKFD.xn--p1ai/%d1%84"},
    };
    struct pp_url u;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t k = 0; k < 12 && rows[i][k]; k++) {
            uint16_t code = parse(&u, rows[i][k]);
            if (code != 0 || strcmp(u.text, rows[i][0]) != 0)
                fail_msg("%s: %s", rows[i][k], code ? why : u.text);
        }
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rows[i][0], rows[k][0]);
    }
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
        assert_int_equal(read_n(&u, s, sizeof(s) - 1), name || ends ? 0 : PP_CODE_BAD_URL);
        if (ends)
            assert_string_equal(u.host, "ab");
    }
}

static void lengths(void **state)
{
    char *s = malloc(PP_URL_MAX + 2);
    struct pp_url u;
    (void)state;
    for (size_t n = 60; n <= 64; n++) {
        int len = snprintf(s, PP_URL_MAX, "http://%0*d.example/", (int)n, 0);
        memset(s + 7, 'a', n);
        assert_int_equal(read_n(&u, s, (size_t)len), n <= 63 ? 0 : PP_CODE_BAD_URL);
    }
    for (size_t n = 250; n <= 256; n++) { /* Every label of this host has one letter. */
        memcpy(s, "http://", 7);
        for (size_t i = 0; i < n; i++)
            s[7 + i] = i % 2 && i + 1 < n ? '.' : 'a';
        assert_int_equal(read_n(&u, s, 7 + n), n <= 253 ? 0 : PP_CODE_BAD_URL);
        s[7 + n] = '.';
        assert_int_equal(read_n(&u, s, 8 + n), n <= 253 ? 0 : PP_CODE_BAD_URL);
    }
    memset(s, 'x', PP_URL_MAX + 1);
    memcpy(s, "http://h/", 9);
    assert_int_equal(read_n(&u, s, PP_URL_MAX), 0);
    assert_int_equal(u.n, PP_URL_MAX);
    assert_int_equal(read_n(&u, s, PP_URL_MAX + 1), PP_CODE_BAD_URL);
    assert_string_equal(why, "over 8192 bytes");
    memset(s + 9, '"', PP_URL_MAX - 9); /* each quote becomes three bytes */
    assert_int_equal(read_n(&u, s, 9 + (PP_URL_MAX - 9) / 3), 0);
    assert_int_equal(u.n, PP_URL_MAX - (PP_URL_MAX - 9) % 3);
    assert_int_equal(read_n(&u, s, 9 + (PP_URL_MAX - 9) / 3 + 1), PP_CODE_BAD_URL);
    assert_string_equal(why, "over 8192 bytes with its escapes");
    assert_int_equal(read_n(&u, s, PP_URL_MAX), PP_CODE_BAD_URL);
    /* hosts of letters that become A-labels */
    memcpy(s, "http://", 7);
    for (size_t i = 0; i < 2000; i++)
        memcpy(s + 7 + 2 * i, "\xd1\x84", 2);
    assert_int_equal(read_n(&u, s, 7 + 2 * 30), 0);
    for (size_t n = 60; n < 2000; n += 97)
        assert_int_equal(read_n(&u, s, 7 + 2 * n), PP_CODE_BAD_URL);
    free(s);
}

/* A failed read leaves the URL alone. */
static void failures_change_nothing(void **state)
{
    static char other[PP_URL_TEXT_MAX];
    struct pp_url u, was;
    (void)state;
    assert_int_equal(parse(&u, "http://h.example:81/a"), 0);
    was = u;
    assert_int_equal(pp_url_read(&u, NULL, "https://x.example:0/", 20, other, why), PP_CODE_BAD_URL);
    assert_memory_equal(&u, &was, sizeof(u));
    assert_int_equal(pp_url_read(&u, &u, "//x.example:0/", 14, other, why), PP_CODE_BAD_URL);
    assert_memory_equal(&u, &was, sizeof(u));
}

static uint16_t resolve(const char *base, const char *location, size_t n, char *scratch, struct pp_url *out)
{
    struct pp_url b;
    /* exactly as long as the text, so that ASan sees an access past the end */
    char *own = malloc(n + 1), *end = own + 1;
    memcpy(end, location, n);
    assert_int_equal(parse(&b, base), 0);
    uint16_t code = pp_url_read(out, &b, end, n, scratch, why);
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
        {"http://h/a", "/%7e%2f", "http://h/~%2F"},
        {"http://h/a", "\t/my photo\xe9.jpg\n", "http://h/my%20photo%E9.jpg"},
        {"http://h/a%2fb/c", "%7e?%61", "http://h/a%2Fb/~?a"},
        {"http://h/a", "//h\xc3\xa9/", "http://xn--h-bga/"},
        {"http://h/a", "http://\xd0\xbf\xd1\x80\xd0\xb8\xd0\xbc\xd0\xb5\xd1\x80.\xd1\x80\xd1\x84/\xd1\x84",
         "http://xn--e1afmkfd.xn--p1ai/%D1%84"},
        {"http://h/a", "//\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97\xef\xbc\x8e\xef\xbc\x91/",
         "http://127.0.0.1/"},
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
        assert_ptr_equal(u.text, scratch);
        assert_int_equal(u.n, strlen(scratch));
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
                                      "//h\xe9/",
                                      "//a_b.\xd1\x84/",
                                      "/a\tb",
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
        if (code != PP_CODE_BAD_URL)
            fail_msg("%s: %u", bad[i], code);
    }
    for (size_t i = 0; i < COUNT(schemes); i++)
        assert_int_equal(resolve("http://h/a", schemes[i], strlen(schemes[i]), scratch, &u),
                         PP_CODE_DENIED_SCHEME);
    assert_int_equal(resolve("http://h/a", "/a\0b", 4, scratch, &u), PP_CODE_BAD_URL);
    memset(longer, 'a', PP_URL_MAX + 1);
    assert_int_equal(resolve("http://h/a", longer, PP_URL_MAX - 9, scratch, &u), 0);
    assert_int_equal(resolve("http://h/a", longer, PP_URL_MAX - 8, scratch, &u), PP_CODE_BAD_URL);
    assert_int_equal(resolve("http://h/a", longer, PP_URL_MAX + 1, scratch, &u), PP_CODE_BAD_URL);
    free(longer);
    free(scratch);
}

/* A chain of relative redirects makes the URL longer. Once the URL would exceed the ceiling, the
 * parser must refuse the redirect. The URL may be its own base. */
static void redirects_are_bounded(void **state)
{
    char *scratch[2] = {malloc(PP_URL_TEXT_MAX), malloc(PP_URL_TEXT_MAX)}, step[1000];
    struct pp_url u;
    uint16_t code = 0;
    int hops = 0;
    (void)state;
    memset(step, 'a', sizeof(step));
    step[sizeof(step) - 1] = '/';
    assert_int_equal(parse(&u, "http://h/"), 0);
    for (; code == 0 && hops < 20; hops++)
        code = pp_url_read(&u, &u, step, sizeof(step), scratch[hops % 2], why);
    assert_int_equal(code, PP_CODE_BAD_URL);
    assert_int_equal(hops, 9);
    assert_int_equal(u.n, 9 + 8 * sizeof(step));
    for (int i = 0; i < 2; i++)
        free(scratch[i]);
}

/* Builds texts from pieces that confuse parsers. If the parser accepts a text, it must also accept
 * the text's canonical form, which means the same and is its own canonical form. */
static void canonical_text_is_stable(void **state)
{
    static const char *const pieces[] = {"http://",
                                         "https://",
                                         "h",
                                         "a.example",
                                         "127.1",
                                         "[::1]",
                                         ":80",
                                         ":81",
                                         "/",
                                         "//",
                                         ".",
                                         "..",
                                         "/../",
                                         "/./",
                                         "?",
                                         "#",
                                         "@",
                                         "%",
                                         "%2e",
                                         "%00",
                                         "x",
                                         "X",
                                         "\xc3\xa9",
                                         "\xc3",
                                         "|",
                                         "\"",
                                         "&",
                                         "=",
                                         "0x",
                                         "0",
                                         "1",
                                         ":",
                                         "-",
                                         "_",
                                         "xn--a",
                                         " ",
                                         "\\",
                                         "%4",
                                         "%34",
                                         "%61",
                                         "%%",
                                         "%2F",
                                         "\n",
                                         "\xd1\x84.",
                                         "\xef\xbc\x91",
                                         "\xe3\x80\x82",
                                         "\xef\xbc\x8f",
                                         "%D1"};
    struct pp_rng rng;
    static char s[512], one[PP_URL_TEXT_MAX], two[PP_URL_TEXT_MAX];
    unsigned accepted = 0;
    (void)state;
    pp_rng_seed(&rng, 3986);
    for (int round = 0; round < 60000; round++) {
        size_t n = 0, count = 1 + pp_rng_below(&rng, 12);
        n += (size_t)snprintf(s, sizeof(s), "%s", pp_rng_below(&rng, 4) ? "http://a.example/" : "");
        for (size_t i = 0; i < count; i++)
            n += (size_t)snprintf(s + n, sizeof(s) - n, "%s", pieces[pp_rng_below(&rng, COUNT(pieces))]);
        struct pp_url u, again, moved;
        if (pp_url_read(&u, NULL, s, n, one, why) != 0)
            continue;
        accepted++;
        assert_int_equal(pp_url_read(&again, NULL, one, u.n, two, why), 0);
        assert_string_equal(one, two);
        assert_string_equal(u.host, again.host);
        assert_int_equal(u.port, again.port);
        assert_int_equal(u.https, again.https);
        assert_memory_equal(&u.addr, &again.addr, sizeof(u.addr));
        assert_int_equal(pp_url_read(&moved, &again, s, n, text, why), 0);
        assert_string_equal(one, text);
    }
    assert_true(accepted > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls),
        cmocka_unit_test(ip_hosts),
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(spellings_of_one_url),
        cmocka_unit_test(host_bytes),
        cmocka_unit_test(lengths),
        cmocka_unit_test(failures_change_nothing),
        cmocka_unit_test(redirects),
        cmocka_unit_test(bad_redirects),
        cmocka_unit_test(redirects_are_bounded),
        cmocka_unit_test(canonical_text_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
