/* Tests hex, times, UTF-8, ids, and the random generator against published values. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"

static void hex(void **state)
{
    (void)state;
    char out[9];
    uint8_t back[4];
    pp_hex(out, (const uint8_t[]){0x00, 0x9f, 0xa0, 0xff}, 4);
    assert_string_equal(out, "009fa0ff");
    assert_true(pp_unhex(back, 4, "009FA0fF", 8));
    assert_memory_equal(back, ((uint8_t[]){0x00, 0x9f, 0xa0, 0xff}), 4);
    assert_true(pp_unhex(back, 0, "", 0));
    static const char *const bad[] = {"009fa0f",  "009fa0ff0", "009fa0fg", "009fa0f ",
                                      "009fa0f/", "@09fa0ff",  "0`9fa0ff", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pp_unhex(back, 4, bad[i], strlen(bad[i])));
}

static void times_are_written_in_rfc_3339(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {951868799999, "2000-02-29T23:59:59.999Z"},
        {1795168800000, "2026-11-20T10:00:00.000Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {-62167219200000, "0000-01-01T00:00:00.000Z"},
        {INT64_MIN, "0000-01-01T00:00:00.000Z"},
    };
    char buf[PP_TIME_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(pp_time_text(buf, cases[i].ms), cases[i].text);
}

static void time_like_libc(void **state)
{
    (void)state;
    struct pp_rng rng;
    pp_rng_seed(&rng, 42);
    for (int i = 0; i < 20000; i++) {
        time_t t = (time_t)pp_rng_below(&rng, 253402300800 + 62167219200) - 62167219200;
        struct tm tm;
        char want[64], got[PP_TIME_MAX];
        assert_non_null(gmtime_r(&t, &tm));
        snprintf(want, sizeof want, "%04d-%02d-%02dT%02d:%02d:%02d.007Z", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        assert_string_equal(pp_time_text(got, (int64_t)t * 1000 + 7), want);
    }
}

static size_t encode(char *p, uint32_t cp)
{
    if (cp < 0x80)
        return p[0] = (char)cp, 1;
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; cp >>= 6)
        p[i] = (char)(0x80 | (cp & 0x3f));
    p[0] = (char)((0xf00u >> n & 0xf0) | cp);
    return n;
}

static void utf8_every_character(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < 0x120000; cp++) {
        char p[4];
        size_t n = encode(p, cp);
        uint32_t got = UINT32_MAX;
        if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
            assert_int_equal(pp_utf8_decode(p, n, &got), 0);
            continue;
        }
        assert_int_equal(pp_utf8_decode(p, n, &got), n);
        assert_int_equal(got, cp);
        assert_false(pp_utf8_valid(p, n - 1) && n > 1); /* the character is cut short */
    }
}

static void refuses_bad_utf8(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc3",
        "\xc3(",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xe2\x82",
        "\xe2(\xa1",
        "\xe2\x82(",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xfe",
        "\xf8\x88\x80\x80\x80",
        "ok\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pp_utf8_valid(bad[i], strlen(bad[i])));
    assert_true(pp_utf8_valid("", 0));
    assert_true(pp_utf8_valid("a\0b", 3));
    assert_true(pp_utf8_valid("Gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x93\xb7", 15));
}

static void ids_have_their_alphabet_and_length(void **state)
{
    (void)state;
    static const char long64[] = "0123456789012345678901234567890123456789012345678901234567890123";
    static const char *const good[] = {"a", "Z-_9", long64};
    static const char *const bad[] = {"", "a b", "a.b", "a/b", "\xc3\xbc", "a\n", "a@", "[", "`", "{", "a:b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(pp_client_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pp_client_valid(bad[i], strlen(bad[i])));
    assert_false(pp_client_valid("a\0", 2));
    char more[300];
    memset(more, 'a', sizeof more);
    assert_false(pp_client_valid(more, 65));
    assert_true(pp_item_id_valid(more, 256));
    assert_false(pp_item_id_valid(more, 257));
    assert_false(pp_item_id_valid("", 0));
    static const struct {
        const char *s;
        bool ok;
    } items[] = {
        {"SKU 12/\"x\"", true}, {"\xc3\xbc", true},     {"a\x1f", false},    {"a\x7f", false},
        {"\xc2\x80", false},    {"\xc2\x9f", false},    {"\xc2\xa0", true},  {"\xff", false},
        {"\n", false},          {"\xe2\x82\xac", true}, {"\xe2\x82", false},
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        assert_int_equal(pp_item_id_valid(items[i].s, strlen(items[i].s)), items[i].ok);
    assert_false(pp_item_id_valid("a\0b", 3));
}

static void the_generator_matches_published_values(void **state)
{
    (void)state;
    struct pp_rng r;
    pp_rng_seed(&r, 0); /* the published values of splitmix64 with seed 0 */
    assert_true(r.s[0] == 0xe220a8397b1dcdaf && r.s[1] == 0x6e789e6aa1b965f4 && r.s[2] == 0x06c45d188009454f);
    r = (struct pp_rng){{1, 2, 3, 4}};
    assert_true(pp_rng_next(&r) == 11520);
    assert_true(pp_rng_next(&r) == 0);
    assert_true(pp_rng_next(&r) == 1509978240);
    assert_true(pp_rng_next(&r) == 1215971899390074240);
    unsigned seen[10] = {0};
    for (int i = 0; i < 10000; i++)
        seen[pp_rng_below(&r, 10)]++;
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 850, 1150);
    assert_int_equal(pp_rng_below(&r, 1), 0);
    for (int i = 0; i < 1000; i++)
        assert_true(pp_rng_below(&r, (UINT64_MAX >> 1) + 2) <= (UINT64_MAX >> 1) + 1);
}

static void random_bytes_differ(void **state)
{
    (void)state;
    uint8_t a[32] = {0}, b[32] = {0};
    pp_random_bytes(a, sizeof a);
    pp_random_bytes(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    pp_random_bytes(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex),
        cmocka_unit_test(times_are_written_in_rfc_3339),
        cmocka_unit_test(time_like_libc),
        cmocka_unit_test(utf8_every_character),
        cmocka_unit_test(refuses_bad_utf8),
        cmocka_unit_test(ids_have_their_alphabet_and_length),
        cmocka_unit_test(the_generator_matches_published_values),
        cmocka_unit_test(random_bytes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
