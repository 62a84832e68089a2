/* Tests base64 (secrets) and base64url (cursors, tickets): texts of every length are read back, and
 * the readers refuse every text that the encoders never write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/base64.h"

static void every_length_comes_back(void **state)
{
    uint8_t bytes[70], back[sizeof(bytes)];
    char text[PP_BASE64_MAX(sizeof(bytes))];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 + 250);
    for (size_t n = 1; n <= sizeof(bytes); n++) {
        size_t len = pp_base64url(text, bytes, n);
        assert_int_equal(strlen(text), len);
        assert_int_equal(len, (n * 8 + 5) / 6);
        assert_null(strpbrk(text, "+/="));
        assert_int_equal(pp_base64url_read(back, n, text, len), n);
        assert_memory_equal(back, bytes, n);
        /* the buffer is one byte too short */
        assert_int_equal(pp_base64url_read(back, n - 1, text, len), 0);

        len = pp_base64(text, bytes, n);
        assert_int_equal(strlen(text), len);
        assert_int_equal(len, (n + 2) / 3 * 4);
        assert_null(strpbrk(text, "-_"));
        assert_int_equal(pp_base64_read(back, n, text, len), n);
        assert_memory_equal(back, bytes, n);
        assert_int_equal(pp_base64_read(back, n - 1, text, len), 0);
    }
    assert_int_equal(pp_base64url(text, (const uint8_t *)"\xfb\xff\xfe", 3), 4);
    assert_string_equal(text, "-__-");
}

static void refuses_texts_that_encode_never_writes(void **state)
{
    static const char *const bad[] = {"", "A", "AAAAA", "+__-", "-/_-", "AA==", "AA A", "AB", "AAB"};
    uint8_t out[20];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(pp_base64url_read(out, sizeof(out), bad[i], strlen(bad[i])), 0);
    assert_int_equal(pp_base64url_read(out, sizeof(out), "AAA\0", 4), 0);

    static const char *const bad_padded[] = {"",     "AA",   "AAA",  "A===", "=AAA",
                                             "AA=A", "AB==", "AAB=", "====", "-__-"};
    for (size_t i = 0; i < sizeof(bad_padded) / sizeof(*bad_padded); i++)
        assert_int_equal(pp_base64_read(out, sizeof(out), bad_padded[i], strlen(bad_padded[i])), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_comes_back),
        cmocka_unit_test(refuses_texts_that_encode_never_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
