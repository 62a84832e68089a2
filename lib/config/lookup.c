/* lookup.c: finding parameters by name, by near name, and saying what they allow. */
#include "config/params.h"

#include "config/units.h"
#include "config/value.h"

#include <ctype.h>
#include <string.h>

#define EDIT_MAX 63

const struct pp_param *pp_param_find(const char *name)
{
    size_t n;
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(p[i].name, name) == 0)
            return &p[i];
    return NULL;
}

bool pp_param_is_section(const char *name)
{
    size_t n, len = strlen(name);
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++)
        if (strncmp(p[i].name, name, len) == 0 && p[i].name[len] == '.')
            return true;
    return false;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Three rows of the matrix: a swap of neighbours looks two rows back. */
size_t pp_edit_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b), rows[3][EDIT_MAX + 1];
    if (na > EDIT_MAX || nb > EDIT_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = min3(row[j - 1] + 1, up[j] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < row[j])
                row[j] = up2[j - 2] + 1;
        }
    }
    return rows[na % 3][nb];
}

/* Names and variables are compared in one form: lower case, '.' and '-' as '_', without the prefix of
 * variables. */
static void plain_name(const char *name, char *buf, size_t n)
{
    if (strncmp(name, "PHOTOPOOL_", 10) == 0)
        name += 10;
    size_t i = 0;
    for (; name[i] && i + 1 < n; i++)
        buf[i] = name[i] == '.' || name[i] == '-' ? '_' : (char)tolower((unsigned char)name[i]);
    buf[i] = '\0';
}

/* The name with and without its section; where the latter is meant, a little worse. */
static size_t name_distance(const char *given, const char *name)
{
    char full[EDIT_MAX + 2];
    plain_name(name, full, sizeof full);
    size_t d = pp_edit_distance(given, full), leaf = pp_edit_distance(given, strchr(name, '.') + 1);
    return leaf == 0 && d > 1 ? 1 : d;
}

const struct pp_param *pp_param_near(const char *name)
{
    char given[EDIT_MAX + 2];
    size_t n;
    const struct pp_param *p = pp_params(&n), *best = NULL;
    plain_name(name, given, sizeof given);
    size_t least = strlen(given) / 3 < 2 ? strlen(given) / 3 + 1 : 3; /* exclusive */
    for (size_t i = 0; i < n; i++) {
        size_t d = name_distance(given, p[i].name);
        if (d >= least)
            continue;
        least = d;
        best = &p[i];
    }
    return best;
}

void pp_param_env(const struct pp_param *p, char *buf, size_t n)
{
    snprintf(buf, n, "PHOTOPOOL_%s", p->name);
    for (; *buf; buf++)
        *buf = *buf == '.' ? '_' : (char)toupper((unsigned char)*buf);
}

static void put_bound(FILE *f, const struct pp_unit *units, double x)
{
    char text[40];
    if (units)
        pp_unit_format((int64_t)x, units, text, sizeof text);
    else
        snprintf(text, sizeof text, "%.15g", x);
    fputs(text, f);
}

static void put_range(FILE *f, const struct pp_param *p, const struct pp_type *t)
{
    const char *list = p->type == PP_TYPE_TIERS ? " with timeouts from " : " of ";
    fputs(t->item_size ? list : " from ", f);
    put_bound(f, t->units, p->min);
    fputs(" to ", f);
    put_bound(f, t->units, p->max);
    if (p->type == PP_TYPE_STRING)
        fputs(" bytes", f);
}

void pp_param_allowed(const struct pp_param *p, FILE *f)
{
    const struct pp_type *t = pp_type(p->type);
    if (p->choices) {
        for (const char *c = p->choices; *c; c++)
            *c == '|' ? (void)fputs(" or ", f) : (void)fputc(*c, f);
        return;
    }
    if (p->type == PP_TYPE_BOOL) {
        fputs(t->example, f);
        return;
    }
    fputs(t->noun, f);
    if (p->min != 0 || p->max != 0)
        put_range(f, p, t);
    if (t->example)
        fprintf(f, ", as %s", t->example);
}
