/* retry_after.c: see retry_after.h. A cursor moves over the bytes. Once a step does not find what
 * it expects, all later steps fail. */
#include "core/retry_after.h"

#include <string.h>

struct cursor {
    const char *p, *end;
    bool bad;
};

struct date {
    int64_t year;
    int month, day; /* from 1 */
    int hour, minute, second;
};

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const days[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
static const char *const long_days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                        "Friday", "Saturday", "Sunday"};

static bool accept(struct cursor *c, const char *text)
{
    size_t n = strlen(text);
    if (c->bad || (size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0)
        return false;
    c->p += n;
    return true;
}

static void expect(struct cursor *c, const char *text)
{
    if (!accept(c, text))
        c->bad = true;
}

/* Reads one of `names` and returns its index; fails if there is none. */
static int one_of(struct cursor *c, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (accept(c, names[i]))
            return i;
    c->bad = true;
    return 0;
}

/* Reads exactly n digits. */
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

static void time_of_day(struct cursor *c, struct date *d)
{
    d->hour = digits(c, 2);
    expect(c, ":");
    d->minute = digits(c, 2);
    expect(c, ":");
    d->second = digits(c, 2);
}

static bool is_leap(int64_t y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

/* Converts the date to ms since 1970. Returns false if there is no such date. */
static bool to_ms(const struct date *d, int64_t *out_ms)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    bool leap = is_leap(d->year);
    int last = before[d->month] - before[d->month - 1] + (leap && d->month == 2);
    if (d->day < 1 || d->day > last || d->hour > 23 || d->minute > 59 || d->second > 60)
        return false;
    int64_t y = d->year - 1; /* complete years since year 1, to count the leap days */
    int64_t day =
        d->year * 365 + y / 4 - y / 100 + y / 400 - (1970 * 365 + 1969 / 4 - 1969 / 100 + 1969 / 400);
    day += before[d->month - 1] + (leap && d->month > 2) + d->day - 1;
    *out_ms = (((day * 24 + d->hour) * 60 + d->minute) * 60 + d->second) * 1000;
    return true;
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool imf_fixdate(struct cursor c, struct date *d)
{
    one_of(&c, days, 7);
    expect(&c, ", ");
    d->day = digits(&c, 2);
    expect(&c, " ");
    d->month = one_of(&c, months, 12) + 1;
    expect(&c, " ");
    d->year = digits(&c, 4);
    expect(&c, " ");
    time_of_day(&c, d);
    expect(&c, " GMT");
    return !c.bad && c.p == c.end && d->year > 0;
}

/* The year is the latest one with these two digits that is at most 50 years ahead of now. */
static bool rfc850_date(struct cursor c, struct date *d, int64_t now_ms)
{
    one_of(&c, long_days, 7);
    expect(&c, ", ");
    d->day = digits(&c, 2);
    expect(&c, "-");
    d->month = one_of(&c, months, 12) + 1;
    expect(&c, "-");
    d->year = digits(&c, 2) + 1900;
    expect(&c, " ");
    time_of_day(&c, d);
    expect(&c, " GMT");
    if (c.bad || c.p != c.end)
        return false;
    int64_t this_year = 1970 + now_ms / (int64_t)31556952000; /* of a mean Gregorian year */
    while (d->year + 100 <= this_year + 50 && d->year < 9900)
        d->year += 100;
    return true;
}

/* Sun Nov  6 08:49:37 1994 */
static bool asctime_date(struct cursor c, struct date *d)
{
    one_of(&c, days, 7);
    expect(&c, " ");
    d->month = one_of(&c, months, 12) + 1;
    expect(&c, " ");
    d->day = accept(&c, " ") ? digits(&c, 1) : digits(&c, 2);
    expect(&c, " ");
    time_of_day(&c, d);
    expect(&c, " ");
    d->year = digits(&c, 4);
    return !c.bad && c.p == c.end && d->year > 0;
}

bool pp_http_date_parse(const char *s, size_t n, int64_t now_ms, int64_t *out_ms)
{
    struct cursor c = {s, s + n, false};
    struct date d;
    if (!imf_fixdate(c, &d) && !rfc850_date(c, &d, now_ms) && !asctime_date(c, &d))
        return false;
    return to_ms(&d, out_ms);
}

/* Reads a number of digits only; stops counting at the maximum. */
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
    int64_t ms, at_ms;
    for (; n > 0 && is_blank(s[0]); s++, n--) {
    }
    while (n > 0 && is_blank(s[n - 1]))
        n--;
    if (n == 0)
        return -1;
    if (s[0] == '-')
        return seconds(s + 1, n - 1, max_ms, &ms) ? 0 : -1;
    if (!seconds(s, n, max_ms, &ms)) {
        if (!pp_http_date_parse(s, n, now_ms, &at_ms))
            return -1;
        ms = at_ms <= now_ms ? 0 : at_ms - now_ms;
    }
    return ms < max_ms ? ms : max_ms;
}
