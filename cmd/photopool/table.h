/* table.h: a table for a terminal. Columns are as wide as their content; flexible columns are cut
 * with "…" if the window is too narrow. Columns with a `drop` are left out, lowest first, before a
 * flexible column gets narrower than its `keep`; the first rendering decides which.
 *
 * Cells are copied. To show a long list in parts, render and fill again: columns never get
 * narrower, and the titles appear once. Memory has a ceiling: the table drops cells beyond it, and
 * pp_table_render returns false. */
#ifndef PHOTOPOOL_TABLE_H
#define PHOTOPOOL_TABLE_H

#include "base/arena.h"
#include "term.h"

enum { PP_TABLE_COLUMNS = 12 };

struct pp_column {
    const char *title;
    bool right; /* the column is aligned to the right, as numbers are */
    bool flexible;
    bool list;     /* each cell is a list, which is cut between two of its parts (pp_put_fit_list) */
    size_t keep;   /* minimum width of a flexible column as long as other columns can be dropped */
    unsigned drop; /* columns with a low number are dropped first; 0: the column is never dropped */
};

struct pp_cell {
    const char *text;
    enum pp_style style;
};

struct pp_table {
    const struct pp_column *columns; /* the caller owns the array */
    size_t n_columns;
    size_t widths[PP_TABLE_COLUMNS];
    bool dropped[PP_TABLE_COLUMNS];
    struct pp_cell *cells;
    size_t n, cap;
    struct pp_arena arena;
    bool titled, failed;
};

void pp_table_init(struct pp_table *t, const struct pp_column *columns, size_t n);
void pp_table_fini(struct pp_table *t);

/* Adds the next cell: from left to right, row after row. The cell shows the text as pp_put_clean
 * cleans it, and "-" for NULL. */
void pp_table_cell(struct pp_table *t, enum pp_style style, const char *text);
void pp_table_count(struct pp_table *t, int64_t n);
/* Adds a time in RFC 3339 form as a cell, to the second: "2026-11-20 10:00:00". NULL and other
 * texts are shown as "-". */
void pp_table_time(struct pp_table *t, const char *time);
void pp_table_printf(struct pp_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends the rows to b, at most `width` columns each, and removes them from the table. */
bool pp_table_render(struct pp_table *t, struct pp_buf *b, size_t width, bool colour);

#endif
