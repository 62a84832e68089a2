/* counter.c: keys of counters, and days. */
#include "core/counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "photopool/port/counters.h"

#define DAY_MS INT64_C(86400000)

bool pp_counter_key_valid(const char *key)
{
    size_t n = strlen(key);

    return n >= 1 && n <= PP_COUNTER_KEY_MAX &&
           strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-") == n;
}

bool pp_counter_may_use(const char *client, const char *key)
{
    static const char view[] = "view:";
    size_t n = client ? strlen(client) : 0;

    if (!client)
        return true;
    if (strncmp(key, view, sizeof(view) - 1) != 0)
        return false;
    key += sizeof(view) - 1;
    return strncmp(key, client, n) == 0 && key[n] == ':';
}

int32_t pp_day_of(int64_t date_ms)
{
    return (int32_t)(date_ms / DAY_MS - (date_ms % DAY_MS < 0));
}

/* Splits a day into year, month and day of the month. */
static void split_day(int32_t day, int *year, int *month, int *of_month)
{
    int64_t z = (int64_t)day + 719468; /* days since 0000-03-01 */
    int64_t era = z / 146097, doe = z % 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;

    *of_month = (int)(doy - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = (int)(yoe + era * 400 + (*month <= 2));
}

int32_t pp_month_of(int32_t day)
{
    int year, month, of_month;

    split_day(day, &year, &month, &of_month);
    return year * 100 + month;
}

static uint32_t day_of_month(int32_t day)
{
    int year, month, of_month;

    split_day(day, &year, &month, &of_month);
    return (uint32_t)of_month;
}

char *pp_day_text(char buf[PP_DAY_TEXT_MAX], int32_t day)
{
    int year, month, of_month;

    split_day(day, &year, &month, &of_month);
    snprintf(buf, PP_DAY_TEXT_MAX, "%04u-%02u-%02u", (unsigned)year % 10000, (unsigned)month % 100,
             (unsigned)of_month % 100);
    return buf;
}

bool pp_day_parse(const char *text, int32_t *day)
{
    char all[PP_DAY_TEXT_MAX + sizeof("T00:00:00Z")];
    int64_t ms;

    if (strlen(text) != PP_DAY_TEXT_MAX - 1)
        return false;
    snprintf(all, sizeof(all), "%sT00:00:00Z", text);
    if (!pp_time_parse(all, &ms) || ms < 0)
        return false;
    *day = pp_day_of(ms);
    return true;
}

static const struct pp_counter_month *find_month(const struct pp_counter_month *months, size_t n,
                                                 int32_t month)
{
    for (size_t i = 0; i < n; i++)
        if (months[i].month == month)
            return &months[i];
    return NULL;
}

static void add_days(const struct pp_counter_day *days, size_t n, int32_t from, int32_t to, int64_t *sums)
{
    for (size_t i = 0; i < n; i++)
        if (days[i].day >= from && days[i].day <= to)
            sums[days[i].day - from] += days[i].n;
}

bool pp_counter_merge(const struct pp_cache_days *cached, const struct pp_counter_month *months,
                      size_t n_months, int32_t from, int32_t to, int64_t *sums)
{
    for (size_t i = 0; i < n_months; i++)
        if (months[i].flush > cached->flush)
            return false;
    add_days(cached->pending, cached->n_pending, from, to, sums);
    if (cached->removed) /* all else is from before the removal */
        return true;
    for (int32_t day = from; day <= to; day++) {
        const struct pp_counter_month *m = find_month(months, n_months, pp_month_of(day));
        if (m && !(cached->removing && m->flush < cached->flush))
            sums[day - from] += m->days[day_of_month(day) - 1];
    }
    for (size_t i = 0; i < cached->n_processing; i++) {
        const struct pp_counter_month *m =
            find_month(months, n_months, pp_month_of(cached->processing[i].day));
        if (!m || m->flush < cached->flush)
            add_days(&cached->processing[i], 1, from, to, sums);
    }
    return true;
}

static int by_day(const void *a, const void *b)
{
    const struct pp_cstore_day *x = a, *y = b;

    return x->month != y->month ? (x->month > y->month) - (x->month < y->month)
                                : (x->day_of_month > y->day_of_month) - (x->day_of_month < y->day_of_month);
}

void pp_counter_flush_row(const struct pp_flush_row *row, struct pp_cstore_day *out)
{
    for (size_t i = 0; i < row->n; i++)
        out[i] = (struct pp_cstore_day){pp_month_of(row->days[i].day), day_of_month(row->days[i].day),
                                        row->days[i].n};
    qsort(out, row->n, sizeof(*out), by_day);
}
