/* series.c: counts requests in sliding windows, overlapping requests, and requests that a limit
 * would have allowed. */
#include "series.h"

#include <stdbool.h>
#include <stdlib.h>

size_t og_worst_window(const int64_t *t, size_t n, int64_t window, int64_t *at)
{
    size_t worst = 0;
    for (size_t first = 0, last = 0; last < n; last++) {
        while (t[last] - t[first] >= window)
            first++;
        if (last - first + 1 > worst) {
            worst = last - first + 1;
            *at = t[first];
        }
    }
    return worst;
}

size_t og_worst_overlap(const int64_t *start, const int64_t *end, size_t n, int64_t *at)
{
    size_t worst = 0;
    for (size_t s = 0, e = 0; s < n; s++) {
        while (e < n && end[e] <= start[s])
            e++;
        /* An interval of length 0 ends when it starts, so e may be greater than s here. */
        if (s + 1 > e && s + 1 - e > worst) {
            worst = s + 1 - e;
            *at = start[s];
        }
    }
    return worst;
}

static size_t lower_bound(const int64_t *t, size_t n, int64_t x)
{
    size_t lo = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (t[lo + half] < x) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

size_t og_count_between(const int64_t *t, size_t n, int64_t from, int64_t to)
{
    return to > from ? lower_bound(t, n, to) - lower_bound(t, n, from) : 0;
}

/* Counts by places: a limit has `limit` places, and a request occupies a place for one window. A
 * place that a recorded request occupies is free again one window after that request; the other
 * places are free at `from`. Each place is then used again once per window. */
size_t og_reachable(const int64_t *t, size_t n, int64_t from, int64_t to, size_t limit, int64_t window)
{
    if (limit == 0 || to <= from)
        return 0;
    size_t end = lower_bound(t, n, from);
    size_t begin = lower_bound(t, end, from - window + 1);
    if (end - begin > limit)
        begin = end - limit;
    size_t count = 0;
    for (size_t place = 0; place < limit; place++) {
        /* Free places are used at `from`. The others are used one window after the earlier requests
         * that occupy them, in order. */
        size_t free_places = limit - (end - begin);
        int64_t first = place < free_places ? from : t[begin + place - free_places] + window;
        if (first < to)
            count += 1 + (size_t)((to - 1 - first) / window);
    }
    return count;
}
