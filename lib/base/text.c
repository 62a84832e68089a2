/* text.c: small conversions of texts, times and numbers. The result of each function depends only
 * on its arguments. */
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

void pp_hex(char *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool pp_unhex(uint8_t *out, size_t n, const char *hex, size_t hex_n)
{
    if (hex_n / 2 != n || hex_n % 2)
        return false;
    for (size_t i = 0; i < n; i++) {
        int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

bool pp_url_unescape(char *out, size_t size, const char *s, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)s[i];
        if (c == '%') {
            if (i + 2 >= n || !pp_unhex(&c, 1, s + i + 1, 2))
                return false;
            i += 2;
        }
        if (c == '\0' || k + 1 >= size)
            return false;
        out[k++] = (char)c;
    }
    out[k] = '\0';
    return true;
}

/* --- converting times --- */

/* Writes `v` with `n` digits, then `after`; returns the end. */
static char *put_digits(char *p, unsigned v, int n, char after)
{
    for (int i = n; i-- > 0; v /= 10)
        p[i] = (char)('0' + v % 10);
    pp_assert(v == 0, "a number of a date has too many digits");
    p[n] = after;
    return p + n + 1;
}

/* This is civil_from_days of Howard Hinnant, "chrono-compatible low-level date algorithms". Years
 * begin in March, so that the leap day comes last. */
void pp_date_of(int64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    int64_t z = days + 719468; /* number of days since 0000-03-01 */
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    unsigned doe = (unsigned)(z - era * 146097); /* day within the era, which has 400 years */
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153; /* month; 0 is March */
    *day = doy - (153 * mp + 2) / 5 + 1;
    *month = mp < 10 ? mp + 3 : mp - 9;
    *year = (unsigned)(era * 400 + yoe + (*month <= 2));
    pp_assert(*month >= 1 && *month <= 12 && *day >= 1 && *day <= 31, "a date that is in no calendar");
}

char *pp_time_text(char buf[PP_TIME_MAX], int64_t wall_ms)
{
    /* RFC 3339 has years of four digits, so times outside 0000 to 9999 are clamped. */
    const int64_t day_ms = 86400000, first = -62167219200000, last = 253402300799999;
    int64_t t = wall_ms < first ? first : wall_ms > last ? last : wall_ms;
    int64_t days = t / day_ms - (t % day_ms < 0);
    unsigned ms = (unsigned)(t - days * day_ms), year, month, day;
    pp_date_of(days, &year, &month, &day);
    char *p = put_digits(buf, year, 4, '-');
    p = put_digits(p, month, 2, '-');
    p = put_digits(p, day, 2, 'T');
    p = put_digits(p, ms / 3600000, 2, ':');
    p = put_digits(p, ms / 60000 % 60, 2, ':');
    p = put_digits(p, ms / 1000 % 60, 2, '.');
    p = put_digits(p, ms % 1000, 3, 'Z');
    *p = '\0';
    return buf;
}

bool pp_time_of(int year, int month, int day, int64_t seconds, int64_t *wall_ms)
{
    struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    /* If the date does not exist, timegm() returns a time on another date. */
    int64_t midnight = timegm(&tm);
    if (tm.tm_mday != day || tm.tm_mon != month - 1)
        return false;
    *wall_ms = (midnight + seconds) * 1000;
    return true;
}

/* Returns the number that the `n` digits at s make, or -1 if one of the characters is not a
 * digit. */
static int digits(const char *s, int n)
{
    int v = 0;
    for (int i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        v = v * 10 + (s[i] - '0');
    }
    return v;
}

static bool time_fields(const char *s, int f[6])
{
    static const struct {
        int at, n, min, max;
        char after;
    } fields[6] = {{0, 4, 1970, 9999, '-'}, {5, 2, 1, 12, '-'},  {8, 2, 1, 31, 'T'},
                   {11, 2, 0, 23, ':'},     {14, 2, 0, 59, ':'}, {17, 2, 0, 60, 0}};
    if (strlen(s) < 20)
        return false;
    for (int i = 0; i < 6; i++) {
        f[i] = digits(s + fields[i].at, fields[i].n);
        char after = s[fields[i].at + fields[i].n];
        if (f[i] < fields[i].min || f[i] > fields[i].max)
            return false;
        if (fields[i].after && after != fields[i].after &&
            !(fields[i].after == 'T' && (after == 't' || after == ' ')))
            return false;
    }
    return true;
}

bool pp_time_parse(const char *s, int64_t *wall_ms)
{
    int f[6], ms = 0, scale = 100;

    if (!time_fields(s, f))
        return false;
    s += 19;
    if (*s == '.') {
        if (digits(++s, 1) < 0)
            return false;
        for (; *s >= '0' && *s <= '9'; s++, scale /= 10)
            ms += (*s - '0') * scale;
    }
    if (strcmp(s, "Z") != 0 && strcmp(s, "z") != 0 && strcmp(s, "+00:00") != 0)
        return false;
    if (!pp_time_of(f[0], f[1], f[2], (f[3] * 60 + f[4]) * 60 + f[5], wall_ms))
        return false;
    *wall_ms += ms;
    return true;
}

/* --- reading UTF-8 --- */

size_t pp_utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const uint8_t *p = (const uint8_t *)s;
    if (n == 0)
        return 0;
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > n)
        return 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t v = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (p[i] & 0x3f);
    }
    if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return 0;
    *cp = v;
    return len;
}

bool pp_char_harmful(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || cp == 0x61c || (cp >= 0x200b && cp <= 0x200f) ||
           (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff ||
           (cp >= 0xfff9 && cp <= 0xfffb) || (cp >= 0xe0000 && cp <= 0xe007f);
}

/* Returns true if a text is valid UTF-8. Control characters are valid only if they are
 * `allowed`. */
static bool valid_text(const char *p, size_t n, bool allowed)
{
    uint32_t cp;
    for (size_t i = 0, len; i < n; i += len) {
        len = 1;
        if ((uint8_t)p[i] >= 0x20 && (uint8_t)p[i] < 0x7f) /* most bytes */
            continue;
        len = pp_utf8_decode(p + i, n - i, &cp);
        if (len == 0 || (!allowed && (cp < 0x20 || (cp >= 0x7f && cp <= 0x9f))))
            return false;
    }
    return true;
}

bool pp_utf8_valid(const char *p, size_t n)
{
    return valid_text(p, n, true);
}

bool pp_item_id_valid(const char *p, size_t n)
{
    return n >= 1 && n <= 256 && valid_text(p, n, false);
}

bool pp_label_valid(const char *p, size_t n)
{
    return n >= 1 && n <= 128 && valid_text(p, n, false);
}

bool pp_client_valid(const char *p, size_t n)
{
    if (n < 1 || n > 64)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = p[i], lower = (char)(c | 0x20);
        if (!((c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z') || c == '_' || c == '-'))
            return false;
    }
    return true;
}

/* --- random numbers --- */

void pp_rng_seed(struct pp_rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) { /* seeds the state by splitmix64 */
        seed += 0x9e3779b97f4a7c15;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        r->s[i] = z ^ z >> 31;
    }
}

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t pp_rng_next(struct pp_rng *r)
{
    uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t pp_rng_below(struct pp_rng *r, uint64_t bound)
{
    pp_assert(bound > 0, "no number is below 0");
    /* 2^64 mod bound; values below it are drawn again, because they would favour low remainders */
    uint64_t least = -bound % bound;
    for (;;) {
        uint64_t v = pp_rng_next(r);
        if (v >= least)
            return v % bound;
    }
}
