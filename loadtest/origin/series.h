/* series.h: the arithmetic of the checker: pure, on sorted microseconds. */
#ifndef OG_SERIES_H
#define OG_SERIES_H

#include <stddef.h>
#include <stdint.h>

/* The most of `t` (n values, ascending) in any half-open window [x, x + window). `*at` is where the first
 * such starts. */
size_t og_worst_window(const int64_t *t, size_t n, int64_t window, int64_t *at);
/* The most intervals [start, end) that overlap. Both arrays ascending, not paired. `*at` is when. */
size_t og_worst_overlap(const int64_t *start, const int64_t *end, size_t n, int64_t *at);
/* How many of `t` lie in [from, to). */
size_t og_count_between(const int64_t *t, size_t n, int64_t from, int64_t to);
/* How many requests a client that always has work could have sent in [from, to) without exceeding `limit` in
 * any window, given what of `t` came before `from`: as early as possible, each. */
size_t og_reachable(const int64_t *t, size_t n, int64_t from, int64_t to, size_t limit, int64_t window);

#endif
