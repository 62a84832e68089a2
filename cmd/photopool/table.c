/* table.c: computes the widths of a table's columns, and renders its rows. */
#include "table.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 2, FLEXIBLE_MIN = 8, CELL_MAX = 64 * 1024, ARENA_MAX = 64 * 1024 * 1024 };

void pp_table_init(struct pp_table *t, const struct pp_column *columns, size_t n)
{
    pp_assert(n > 0 && n <= PP_TABLE_COLUMNS, "a table has no column or too many");
    *t = (struct pp_table){.columns = columns, .n_columns = n};
    pp_arena_init(&t->arena, ARENA_MAX);
    for (size_t i = 0; i < n; i++)
        t->widths[i] = pp_columns(columns[i].title);
}

void pp_table_fini(struct pp_table *t)
{
    free(t->cells);
    pp_arena_fini(&t->arena);
}

static bool grow(struct pp_table *t)
{
    if (t->n < t->cap)
        return true;
    size_t cap = t->cap ? 2 * t->cap : 256;
    struct pp_cell *p = realloc(t->cells, cap * sizeof *p);
    if (!p)
        return false;
    t->cells = p;
    t->cap = cap;
    return true;
}

void pp_table_cell(struct pp_table *t, enum pp_style style, const char *text)
{
    struct pp_buf clean;
    pp_buf_init(&clean, CELL_MAX);
    pp_put_clean(&clean, text ? text : "-");
    const char *copy = pp_arena_copy(&t->arena, clean.p ? clean.p : "", clean.n);
    pp_buf_fini(&clean);
    if (t->failed || !copy || !grow(t)) {
        t->failed = true;
        return;
    }
    size_t w = pp_columns(copy), *widest = &t->widths[t->n % t->n_columns];
    if (w > *widest)
        *widest = w;
    t->cells[t->n++] = (struct pp_cell){copy, style};
}

void pp_table_count(struct pp_table *t, int64_t n)
{
    struct pp_buf b;
    pp_buf_init(&b, 64);
    pp_put_count(&b, n);
    pp_table_cell(t, PP_PLAIN, b.p);
    pp_buf_fini(&b);
}

void pp_table_time(struct pp_table *t, const char *time)
{
    char text[20] = "-";
    if (time && strlen(time) >= 19) {
        memcpy(text, time, 19);
        text[10] = ' ';
        text[19] = 0;
    }
    pp_table_cell(t, PP_PLAIN, text);
}

void pp_table_printf(struct pp_table *t, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pp_table_cell(t, PP_PLAIN, text);
}

/* Returns the width of a row in which each flexible column is cut to its `keep` columns. */
static size_t worth(const struct pp_table *t)
{
    size_t sum = 0;
    for (size_t i = 0; i < t->n_columns; i++) {
        size_t keep = t->columns[i].keep ? t->columns[i].keep : FLEXIBLE_MIN, w = t->widths[i];
        if (!t->dropped[i])
            sum += (sum ? GAP : 0) + (t->columns[i].flexible && w > keep ? keep : w);
    }
    return sum;
}

static void drop(struct pp_table *t, size_t width)
{
    while (worth(t) > width) {
        size_t first = t->n_columns;
        for (size_t i = 0; i < t->n_columns; i++)
            if (t->columns[i].drop && !t->dropped[i] &&
                (first == t->n_columns || t->columns[i].drop < t->columns[first].drop))
                first = i;
        if (first == t->n_columns)
            return;
        t->dropped[first] = true;
    }
}

/* Returns the index of the widest flexible column that can become narrower, or n_columns if there
 * is none. A column can shrink to its `keep`, or to FLEXIBLE_MIN if the argument `keep` is false.
 */
static size_t widest_above(const struct pp_table *t, const size_t *w, bool keep)
{
    size_t widest = t->n_columns;
    for (size_t i = 0; i < t->n_columns; i++) {
        size_t least = keep && t->columns[i].keep ? t->columns[i].keep : FLEXIBLE_MIN;
        if (t->columns[i].flexible && !t->dropped[i] && w[i] > least &&
            (widest == t->n_columns || w[i] > w[widest]))
            widest = i;
    }
    return widest;
}

/* Narrows the widest flexible column again and again, until the row fits or no column can become
 * narrower. */
static void narrow(const struct pp_table *t, size_t width, size_t *w)
{
    size_t sum = 0;
    for (size_t i = 0; i < t->n_columns; i++) {
        w[i] = t->widths[i];
        if (!t->dropped[i])
            sum += (sum ? GAP : 0) + w[i];
    }
    for (; sum > width; sum--) {
        size_t widest = widest_above(t, w, true);
        if (widest == t->n_columns)
            widest = widest_above(t, w, false);
        if (widest == t->n_columns)
            return;
        w[widest]--;
    }
}

static void put_row(const struct pp_table *t, struct pp_buf *b, const size_t *w, const struct pp_cell *row,
                    bool colour)
{
    bool first = true;
    for (size_t i = 0; i < t->n_columns; i++) {
        struct pp_buf cut;
        if (t->dropped[i])
            continue;
        pp_buf_init(&cut, CELL_MAX);
        size_t used = (t->columns[i].list ? pp_put_fit_list : pp_put_fit)(&cut, row[i].text, w[i]);
        int pad = (int)(w[i] - used);
        bool right = t->columns[i].right, last = i + 1 == t->n_columns;
        if (!first)
            pp_buf_puts(b, "  ");
        first = false;
        if (right)
            pp_buf_printf(b, "%*s", pad, "");
        pp_put_styled(b, colour, row[i].style, cut.p ? cut.p : "");
        if (!right && !last)
            pp_buf_printf(b, "%*s", pad, "");
        pp_buf_fini(&cut);
    }
    pp_buf_putc(b, '\n');
}

bool pp_table_render(struct pp_table *t, struct pp_buf *b, size_t width, bool colour)
{
    size_t w[PP_TABLE_COLUMNS];
    if (!t->titled)
        drop(t, width);
    narrow(t, width, w);
    if (!t->titled) {
        struct pp_cell titles[PP_TABLE_COLUMNS];
        for (size_t i = 0; i < t->n_columns; i++)
            titles[i] = (struct pp_cell){t->columns[i].title, PP_BOLD};
        put_row(t, b, w, titles, colour);
        t->titled = true;
    }
    for (size_t at = 0; at + t->n_columns <= t->n; at += t->n_columns)
        put_row(t, b, w, t->cells + at, colour);
    bool ok = !t->failed && !b->failed;
    t->n = 0;
    t->failed = false;
    pp_arena_fini(&t->arena);
    return ok;
}
