/* units.c: reads and writes numbers with units. It gathers all digits in one integer and counts the
 * decimals, so it needs no floating point. */
#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* The units of counts. If a unit has two spellings, both can be read, and the first one is
 * written. */
const struct pp_unit pp_units_count[] = {
    {"G", 1000000000}, {"M", 1000000}, {"k", 1000}, {"K", 1000}, {"", 1}, {NULL, 0},
};

const struct pp_unit pp_units_size[] = {
    {"TiB", INT64_C(1) << 40},
    {"TB", 1000000000000},
    {"GiB", 1 << 30},
    {"GB", 1000000000},
    {"MiB", 1 << 20},
    {"MB", 1000000},
    {"KiB", 1 << 10},
    {"KB", 1000},
    {"kB", 1000},
    {"", 1},
    {"B", 1},
    {NULL, 0},
};

const struct pp_unit pp_units_duration[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0},
};

/* Reads [0-9]+(.[0-9]+)? as *mantissa / *scale, where *scale is a power of 10. Returns the end of
 * the number. */
static const char *parse_decimal(const char *s, int64_t *mantissa, int64_t *scale)
{
    bool point = false, digit = false;
    *mantissa = 0;
    *scale = 1;
    for (; (*s >= '0' && *s <= '9') || (*s == '.' && !point && digit); s++) {
        digit = *s != '.';
        if (!digit) {
            point = true;
            continue;
        }
        if (__builtin_mul_overflow(*mantissa, 10, mantissa) ||
            __builtin_add_overflow(*mantissa, *s - '0', mantissa))
            return NULL;
        if (point && __builtin_mul_overflow(*scale, 10, scale))
            return NULL;
    }
    return digit ? s : NULL; /* NULL: there is no digit, or a point at the end */
}

static const struct pp_unit *find_unit(const struct pp_unit *units, const char *name)
{
    for (; units->name; units++)
        if (strcmp(units->name, name) == 0)
            return units;
    return NULL;
}

enum pp_err pp_unit_parse(const char *text, const struct pp_unit *units, int64_t *out)
{
    int64_t mantissa, scale, value;
    const char *rest = parse_decimal(text, &mantissa, &scale);
    if (!rest)
        return PP_EINVAL;
    if (*rest == ' ')
        rest++;
    const struct pp_unit *unit = find_unit(units, rest);
    if (!unit) {
        if (*rest || mantissa)
            return PP_EINVAL;
        *out = 0; /* 0 is written without a unit */
        return PP_OK;
    }
    if (__builtin_mul_overflow(mantissa, unit->factor, &value) || value % scale)
        return PP_EINVAL;
    *out = value / scale;
    return PP_OK;
}

bool pp_duration_parse(const char *text, int64_t *ms)
{
    return pp_unit_parse(text, pp_units_duration, ms) == PP_OK && *ms > 0;
}

void pp_unit_format(int64_t value, const struct pp_unit *units, char *buf, size_t n)
{
    const struct pp_unit *best = units;
    size_t shortest = SIZE_MAX;
    for (const struct pp_unit *u = units; u->name; u++) {
        if (value % u->factor)
            continue;
        char tmp[40];
        size_t len = (size_t)snprintf(tmp, sizeof tmp, "%lld%s", (long long)(value / u->factor), u->name);
        if (len < shortest) {
            shortest = len;
            best = u;
        }
    }
    snprintf(buf, n, "%lld%s", (long long)(value / best->factor), best->name);
}
