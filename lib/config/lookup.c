/* lookup.c: finds parameters by their name or a similar name. */
#include "config/params.h"

#include <ctype.h>
#include <stdint.h>
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

/* Computes the distance with three rows of the matrix: a swap of two neighbouring letters looks two
 * rows back. */
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

/* Brings names of parameters and variables into one form, so they can be compared: lower case, with
 * '.' and '-' as '_', and without the prefix PHOTOPOOL_. */
static void plain_name(const char *name, char *buf, size_t n)
{
    if (strncmp(name, "PHOTOPOOL_", 10) == 0)
        name += 10;
    size_t i = 0;
    for (; name[i] && i + 1 < n; i++)
        buf[i] = name[i] == '.' || name[i] == '-' ? '_' : (char)tolower((unsigned char)name[i]);
    buf[i] = '\0';
}

/* Returns the edit distance from `given` to the full name, or 1 if `given` is the name without its
 * section. */
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
    /* A name is suggested only if its distance is less than this. */
    size_t least = strlen(given) / 3 < 2 ? strlen(given) / 3 + 1 : 3;
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
