/* units.h: decimal numbers with a unit, such as "1.5h", "64KiB", "100M". Values are exact: a number
 * that would have to be rounded is refused. Pure. */
#ifndef PP_BASE_UNITS_H
#define PP_BASE_UNITS_H

#include "photopool/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pp_unit {
    const char *name;
    int64_t factor;
};

/* Tables of units, the largest factor first (pp_unit_format needs this order), ended by a NULL
 * name. The unit "" allows numbers without a unit. */
extern const struct pp_unit pp_units_count[]; /* allows k, K, M, G, or no unit */
/* allows KiB.., KB.., B, or no unit; values are in bytes */
extern const struct pp_unit pp_units_size[];
/* Allows ms, s, m, h and d; only 0 may have no unit. Values are in milliseconds. */
extern const struct pp_unit pp_units_duration[];

/* Reads a number with one of the units. Returns PP_EINVAL if the text is something else, negative,
 * larger than int64_t, or not a whole number of the base unit. */
pp_must_check enum pp_err pp_unit_parse(const char *text, const struct pp_unit *units, int64_t *out);

/* Reads a duration above 0, such as "30d", in milliseconds. Returns false for any other text. */
bool pp_duration_parse(const char *text, int64_t *ms);

/* Writes the shortest exact form, which pp_unit_parse reads back. `value` must not be negative. */
void pp_unit_format(int64_t value, const struct pp_unit *units, char *buf, size_t n);

#endif
