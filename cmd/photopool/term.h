/* term.h: output for terminals: colours, widths, readable numbers, and untrusted text, which must
 * not control the terminal.
 *
 * Renderers write into a struct pp_buf, so that tests can read the output; pp_term_put writes it to
 * the terminal. */
#ifndef PHOTOPOOL_TERM_H
#define PHOTOPOOL_TERM_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pp_term {
    FILE *f;  /* the output stream; the caller owns it */
    bool tty; /* f is a terminal */
    /* colours are used: f is a terminal, NO_COLOR is not set, and TERM is not "dumb" */
    bool colour;
};

enum pp_style { PP_PLAIN, PP_BOLD, PP_DIM, PP_RED, PP_GREEN, PP_YELLOW };

void pp_term_init(struct pp_term *t, FILE *f);
/* Returns the current width of the window in columns, or 80 if it is unknown. A pipe or file has so
 * many columns that texts are not cut. */
size_t pp_term_width(const struct pp_term *t);
/* Writes the buffer to the terminal and frees it. */
void pp_term_put(const struct pp_term *t, struct pp_buf *b);

/* Appends the text in a style; without colour, appends the plain text. */
void pp_put_styled(struct pp_buf *b, bool colour, enum pp_style style, const char *text);
/* Appends untrusted text: harmful characters (pp_char_harmful) and invalid UTF-8 become \xNN. */
void pp_put_clean(struct pp_buf *b, const char *text);
/* Appends the first characters of `text` that fit into `width` columns; if it cuts the text, the
 * last character is "…". Returns the columns used. */
size_t pp_put_fit(struct pp_buf *b, const char *text, size_t width);
/* Appends a list such as "150: 90 this, 60 that". If it is too wide, cuts it between two parts, so
 * that no number is cut: "150: 90 this …". If not even the first part fits, cuts it like any text.
 */
size_t pp_put_fit_list(struct pp_buf *b, const char *text, size_t width);
/* Returns the number of columns that valid UTF-8 text takes. */
size_t pp_columns(const char *text);

/* Appends a number in the form "12,345". */
void pp_put_count(struct pp_buf *b, int64_t n);
/* Appends whole seconds in the form "8s", "3m05s", "2h01m" or "3d04h". A negative number counts as
 * 0. */
void pp_put_seconds(struct pp_buf *b, int64_t seconds);

/* Returns the style for a state or an outcome, such as complete, failed, stored or running. */
enum pp_style pp_style_of(const char *state);

/* Prints "photopool: ..." as one line on standard error, cleaned by pp_put_clean. */
void pp_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
