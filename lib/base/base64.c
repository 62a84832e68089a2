/* base64.c: encodes bytes as base64 and base64url, and decodes them strictly. */
#include "base/base64.h"

#include <string.h>

#include "base/check.h"

#define LETTERS_AND_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
static const char plain[] = LETTERS_AND_DIGITS "+/", for_urls[] = LETTERS_AND_DIGITS "-_";

static size_t encode(const char *digits, char *out, const uint8_t *p, size_t n)
{
    uint32_t bits = 0;
    unsigned have = 0;
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | p[i];
        for (have += 8; have >= 6; have -= 6)
            out[len++] = digits[bits >> (have - 6) & 63];
    }
    if (have > 0)
        out[len++] = digits[bits << (6 - have) & 63];
    out[len] = '\0';
    pp_assert(len < PP_BASE64_MAX(n), "a base64 text is longer than its bound");
    return len;
}

static size_t decode(const char *digits, uint8_t *out, size_t cap, const char *s, size_t n)
{
    uint32_t bits = 0;
    unsigned have = 0;
    size_t len = 0;

    if (n % 4 == 1 || n * 3 / 4 > cap)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const char *digit = s[i] ? strchr(digits, s[i]) : NULL;
        if (!digit)
            return 0;
        bits = bits << 6 | (uint32_t)(digit - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[len++] = (uint8_t)(bits >> have);
        }
    }
    pp_assert(len <= cap, "more bytes were decoded than fit");
    /* a strict decoder requires unused bits to be zero */
    return bits & ((1u << have) - 1) ? 0 : len;
}

size_t pp_base64(char *out, const uint8_t *p, size_t n)
{
    size_t len = encode(plain, out, p, n);
    while (len % 4 != 0)
        out[len++] = '=';
    out[len] = '\0';
    return len;
}

size_t pp_base64url(char *out, const uint8_t *p, size_t n)
{
    return encode(for_urls, out, p, n);
}

size_t pp_base64_read(uint8_t *out, size_t cap, const char *s, size_t n)
{
    if (n == 0 || n % 4 != 0)
        return 0;
    size_t padding = s[n - 1] != '=' ? 0 : s[n - 2] != '=' ? 1 : 2;
    return decode(plain, out, cap, s, n - padding);
}

size_t pp_base64url_read(uint8_t *out, size_t cap, const char *s, size_t n)
{
    return decode(for_urls, out, cap, s, n);
}
