/* base64url.c: see base64url.h. */
#include "api/base64url.h"

#include <string.h>

#include "base/check.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

size_t pp_base64url(char *out, const uint8_t *p, size_t n)
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
    pp_assert(len < PP_BASE64URL_MAX(n), "a base64url text is longer than its bound");
    return len;
}

size_t pp_base64url_read(uint8_t *out, size_t cap, const char *s, size_t n)
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
    return bits & ((1u << have) - 1) ? 0 : len; /* unused bits must be zero */
}
