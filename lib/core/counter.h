/* counter.h: the rules of counters: which keys are valid, who may use them, and how the cached and
 * the stored part of a counter are put together. */
#ifndef PHOTOPOOL_CORE_COUNTER_H
#define PHOTOPOOL_CORE_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/port/counter_store.h"

/* Returns true if a key is valid: 1..PP_COUNTER_KEY_MAX of [A-Za-z0-9_.:-]. */
bool pp_counter_key_valid(const char *key);
/* Returns true if a caller that is bound to `client` may use the counter: "view:<client>:...". With
 * NULL, the caller is not bound and may use any. */
bool pp_counter_may_use(const char *client, const char *key);

/* Sums up what the cache and, read after it, the store have of the days from..to of a counter.
 * `months` are the stored months of these days, in order. `sums` has a zero for each day. Returns
 * false if a later flush has reached the store in between: the caller reads both again. */
bool pp_counter_merge(const struct pp_cache_days *cached, const struct pp_counter_month *months,
                      size_t n_months, int32_t from, int32_t to, int64_t *sums);
/* Sorts the days of a row of a flush, and writes each with its month to `out`, which has room for
 * row->n. */
void pp_counter_flush_row(const struct pp_flush_row *row, struct pp_cstore_day *out);

#endif
