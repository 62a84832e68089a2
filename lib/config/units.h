/* units.h: decimal numbers with a unit, "1.5h", "64KiB", "100M". Pure; exact or refused, never rounded. */
#ifndef PP_CONFIG_UNITS_H
#define PP_CONFIG_UNITS_H

#include "photopool/err.h"

#include <stddef.h>
#include <stdint.h>

struct pp_unit {
    const char *name;
    int64_t factor;
};

/* Tables, largest factor first as pp_unit_format needs it, closed by a NULL name. A unit "" allows bare
 * numbers. */
extern const struct pp_unit pp_units_count[];    /* k K M G, bare */
extern const struct pp_unit pp_units_size[];     /* KiB.. KB.. B, bare; in bytes */
extern const struct pp_unit pp_units_duration[]; /* ms s m h d; in milliseconds; bare only 0 */

/* PP_EINVAL: not a number with one of the units, negative, over int64_t, or not a whole number of the base
 * unit. */
pp_must_check enum pp_err pp_unit_parse(const char *text, const struct pp_unit *units, int64_t *out);

/* The shortest exact writing, which pp_unit_parse reads back. value >= 0. */
void pp_unit_format(int64_t value, const struct pp_unit *units, char *buf, size_t n);

#endif
