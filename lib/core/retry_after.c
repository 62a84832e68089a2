/* retry_after.c: reads dates and waiting times of HTTP headers. */
#include "core/retry_after.h"

#include <string.h>

#include "base/text.h"

/* The bytes that are not read yet. If the bytes differ from what a function expects, the function
 * sets `bad`, which stays set. */
struct cursor {
    const char *p, *end;
    bool bad;
};

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const days[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
static const char *const long_days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                        "Friday", "Saturday", "Sunday"};

static bool accept(struct cursor *c, const char *text, size_t n)
{
    if (c->bad || (size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0)
        return false;
    c->p += n;
    return true;
}

/* Reads one of `names` and returns its index; sets `bad` if the bytes are none of them. */
static int one_of(struct cursor *c, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (accept(c, names[i], strlen(names[i])))
            return i;
    c->bad = true;
    return 0;
}

/* Reads exactly n digits, and returns the number. */
static int digits(struct cursor *c, int n)
{
    int value = 0;
    for (int i = 0; i < n; i++) {
        if (c->bad || c->p == c->end || *c->p < '0' || *c->p > '9') {
            c->bad = true;
            return 0;
        }
        value = value * 10 + (*c->p++ - '0');
    }
    return value;
}

/* Returns the latest year with these two last digits that is at most 50 years ahead of now. */
static int full_year(int two_digits, int64_t now_ms)
{
    /* the current year, by the length of a mean Gregorian year */
    int64_t this_year = 1970 + now_ms / (int64_t)31556952000;
    int year = two_digits + 1900;
    while (year + 100 <= this_year + 50 && year < 9900)
        year += 100;
    return year;
}

/* Reads a date of this form. Letters stand for: w, W a short or long day of the week; d, D a day of
 * two characters, with 0 or a blank before a single digit; m a month; y, Y a year of two or four
 * digits; t a time of day. All other characters stand for themselves. */
static bool read_date(struct cursor c, const char *form, int64_t now_ms, int64_t *out_ms)
{
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    for (; *form != '\0'; form++) {
        switch (*form) {
        case 'w': one_of(&c, days, 7); break;
        case 'W': one_of(&c, long_days, 7); break;
        case 'd': day = digits(&c, 2); break;
        case 'D': day = digits(&c, accept(&c, " ", 1) ? 1 : 2); break;
        case 'm': month = one_of(&c, months, 12) + 1; break;
        case 'y': year = full_year(digits(&c, 2), now_ms); break;
        case 'Y': year = digits(&c, 4); break;
        case 't':
            hour = digits(&c, 2);
            c.bad |= !accept(&c, ":", 1);
            minute = digits(&c, 2);
            c.bad |= !accept(&c, ":", 1);
            second = digits(&c, 2);
            break;
        default: c.bad |= !accept(&c, form, 1);
        }
    }
    return !c.bad && c.p == c.end && year > 0 && hour <= 23 && minute <= 59 && second <= 60 &&
           pp_time_of(year, month, day, (hour * 60 + minute) * 60 + second, out_ms);
}

bool pp_http_date_parse(const char *s, size_t n, int64_t now_ms, int64_t *out_ms)
{
    struct cursor c = {s, s + n, false};
    return read_date(c, "w, d m Y t GMT", now_ms, out_ms) || read_date(c, "W, d-m-y t GMT", now_ms, out_ms) ||
           read_date(c, "w m D t Y", now_ms, out_ms);
}

/* Reads a number of seconds that has only digits. Drops further digits once the number is above
 * max_ms. */
static bool seconds(const char *s, size_t n, int64_t max_ms, int64_t *out_ms)
{
    int64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        if (value <= max_ms / 1000)
            value = value * 10 + (s[i] - '0');
    }
    *out_ms = value * 1000;
    return n > 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

int64_t pp_retry_after_ms(const char *s, size_t n, int64_t now_ms)
{
    return pp_retry_after_upto(s, n, now_ms, PP_RETRY_AFTER_MAX_MS);
}

int64_t pp_retry_after_upto(const char *s, size_t n, int64_t now_ms, int64_t max_ms)
{
    int64_t ms;
    for (; n > 0 && is_blank(s[0]); n--)
        s++;
    while (n > 0 && is_blank(s[n - 1]))
        n--;
    if (n == 0)
        return -1;
    if (s[0] == '-')
        return seconds(s + 1, n - 1, max_ms, &ms) ? 0 : -1;
    if (!seconds(s, n, max_ms, &ms)) {
        if (!pp_http_date_parse(s, n, now_ms, &ms))
            return -1;
        ms = ms <= now_ms ? 0 : ms - now_ms;
    }
    return ms < max_ms ? ms : max_ms;
}
