/* series.h: the arithmetic of `origin check`: pure functions on sorted times in microseconds. */
#ifndef OG_SERIES_H
#define OG_SERIES_H

#include <stddef.h>
#include <stdint.h>

/* Returns the largest number of times in any half-open window [x, x + window). `t` has `n`
 * ascending times. Sets `*at` to the start of the first window with that number. */
size_t og_worst_window(const int64_t *t, size_t n, int64_t window, int64_t *at);
/* Returns the largest number of intervals [start, end) that overlap at one moment. Both arrays
 * ascend, so start[i] and end[i] need not belong to the same interval. Sets `*at` to that
 * moment. */
size_t og_worst_overlap(const int64_t *start, const int64_t *end, size_t n, int64_t *at);
/* Returns how many values of `t` are in [from, to). */
size_t og_count_between(const int64_t *t, size_t n, int64_t from, int64_t to);
/* Returns how many requests a client with endless work could send in [from, to) without more than
 * `limit` in any window. The times in `t` before `from` are requests already sent; the client sends
 * each new request as early as possible. */
size_t og_reachable(const int64_t *t, size_t n, int64_t from, int64_t to, size_t limit, int64_t window);

#endif
