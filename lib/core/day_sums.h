/* day_sums.h: adds finished items up to the statistics of days (photopool/day.h).
 *
 * The sums depend only on the items: the same items give the same sums in every process. Pure; a
 * struct pp_day_sums belongs to one thread. */
#ifndef PP_CORE_DAY_SUMS_H
#define PP_CORE_DAY_SUMS_H

#include <stdbool.h>

#include "photopool/day.h"
#include "photopool/err.h"

struct pp_day_sums;

/* Opens empty sums. Returns NULL when out of memory. */
struct pp_day_sums *pp_day_sums_open(void);
/* Adds a finished item. Returns false when out of memory: the item may then be counted in part, and
 * the caller must clear the sums. */
pp_must_check bool pp_day_sums_add(struct pp_day_sums *s, const struct pp_item *item);
/* Returns how many days the sums have. One item adds at most two, and one for each of its
 * photos. */
size_t pp_day_sums_n(const struct pp_day_sums *s);
/* Writes all days, in the order in which they were met, to `out`, which has room for
 * pp_day_sums_n(). Names and errors belong to `s`, and are valid until it changes. The errors are
 * in no order. */
void pp_day_sums_get(const struct pp_day_sums *s, struct pp_day *out);
void pp_day_sums_clear(struct pp_day_sums *s);
/* `s` may be NULL. */
void pp_day_sums_close(struct pp_day_sums *s);

#endif
