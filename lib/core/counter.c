#include "core/counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/day.h"
#include "photopool/port/counters.h"

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
        const struct pp_counter_month *m = find_month(months, n_months, pp_day_month(day));
        if (m && !(cached->removing && m->flush < cached->flush))
            sums[day - from] += m->days[pp_day_of_month(day) - 1];
    }
    for (size_t i = 0; i < cached->n_processing; i++) {
        const struct pp_counter_month *m =
            find_month(months, n_months, pp_day_month(cached->processing[i].day));
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
        out[i] = (struct pp_cstore_day){pp_day_month(row->days[i].day), pp_day_of_month(row->days[i].day),
                                        row->days[i].n};
    qsort(out, row->n, sizeof(*out), by_day);
}
