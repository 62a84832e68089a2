/* term.h: what a terminal needs: colours, widths, numbers for people, and text that can't drive the terminal.
 *
 * Renderers write into a struct pp_buf, so that tests read what a terminal would get; pp_term_put writes it
 * out. */
#ifndef PHOTOPOOL_TERM_H
#define PHOTOPOOL_TERM_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pp_term {
    FILE *f;     /* not owned */
    bool tty;    /* f is a terminal */
    bool colour; /* it is, and neither NO_COLOR is set nor TERM=dumb */
};

enum pp_style { PP_PLAIN, PP_BOLD, PP_DIM, PP_RED, PP_GREEN, PP_YELLOW };

void pp_term_init(struct pp_term *t, FILE *f);
/* Columns now: a window may be resized. 80 where it can't be known. */
size_t pp_term_width(const struct pp_term *t);
/* Writes and empties the buffer. */
void pp_term_put(const struct pp_term *t, struct pp_buf *b);

/* The text in a style; without colour the text alone. */
void pp_put_styled(struct pp_buf *b, bool colour, enum pp_style style, const char *text);
/* What came from outside: control characters, changes of direction and invalid UTF-8 are escaped as \xNN. */
void pp_put_clean(struct pp_buf *b, const char *text);
/* The first characters of `text` that fit into `width` columns; where some are left out, the last one is "…".
 * Returns the columns used. */
size_t pp_put_fit(struct pp_buf *b, const char *text, size_t width);
/* The same for a list, "150: 90 this, 60 that": cut between its parts, so that no number is cut in two:
 * "150: 90 this …". Where not even the first part fits it is cut as any text. */
size_t pp_put_fit_list(struct pp_buf *b, const char *text, size_t width);
/* Columns that valid UTF-8 takes. */
size_t pp_columns(const char *text);

/* "12,345" */
void pp_put_count(struct pp_buf *b, int64_t n);
/* Whole seconds for people: "8s", "3m05s", "2h01m", "3d04h". Negative is taken as 0. */
void pp_put_seconds(struct pp_buf *b, int64_t seconds);

/* The style of a word that says how something went: complete, failed, stored, running ... */
enum pp_style pp_style_of(const char *state);

/* "photopool: ..." as one line on standard error, made safe by pp_put_clean. */
void pp_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
