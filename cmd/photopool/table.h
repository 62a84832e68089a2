/* table.h: a table for a terminal: columns as wide as their content, the flexible ones cut with "…" where the
 * window is too narrow. Before a flexible column gets less than its `keep`, columns with a `drop` go, the
 * lowest first; which ones is decided with the titles.
 *
 * Cells are copied. A long list is shown in parts: render, then fill again; columns keep at least the width
 * they had, and the titles are shown once. Memory has a ceiling: cells beyond it are lost and pp_table_render
 * answers false. */
#ifndef PHOTOPOOL_TABLE_H
#define PHOTOPOOL_TABLE_H

#include "base/arena.h"
#include "term.h"

enum { PP_TABLE_COLUMNS = 12 };

struct pp_column {
    const char *title;
    bool right; /* numbers */
    bool flexible;
    bool list;     /* cut between its parts: pp_put_fit_list */
    size_t keep;   /* of a flexible one: not less, while others can be dropped */
    unsigned drop; /* 0: never */
};

struct pp_cell {
    const char *text;
    enum pp_style style;
};

struct pp_table {
    const struct pp_column *columns; /* not owned */
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

/* Cells from left to right, row after row. The text is cleaned (pp_put_clean); NULL is shown as "-". */
void pp_table_cell(struct pp_table *t, enum pp_style style, const char *text);
void pp_table_count(struct pp_table *t, int64_t n);
void pp_table_printf(struct pp_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends the rows to b, at most `width` columns each, and forgets them. */
bool pp_table_render(struct pp_table *t, struct pp_buf *b, size_t width, bool colour);

#endif
