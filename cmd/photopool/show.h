/* show.h: shows JSON answers to people: an object as lines of name and value, a list of objects as
 * a table; and reads all pages of a list. Members that a newer server adds are shown without a
 * change here. */
#ifndef PHOTOPOOL_SHOW_H
#define PHOTOPOOL_SHOW_H

#include "client.h"

/* Appends the object: scalars aligned, objects indented below their name, and lists of objects as
 * tables. */
void pp_show_object(struct pp_buf *b, const json_t *o, size_t width, bool colour);
/* Appends a table with a column for each name in the first object (at most PP_TABLE_COLUMNS). */
void pp_show_table(struct pp_buf *b, const json_t *list, size_t width, bool colour);

/* Prints the answer of a command: as JSON in one line, or as text for people. Releases o. */
void pp_show_answer(const struct pp_cli *cli, json_t *o);

/* A list of the API that is read page after page. */
struct pp_pages {
    const char *path;   /* path of the list, with its parameters but without limit and after */
    const char *plural; /* name of the list in the answer */
    int64_t max;        /* maximum number of elements; negative: no limit */
    /* Receives one element as text. Any result other than PP_OK ends the reading. */
    enum pp_err (*element)(void *arg, const char *text, size_t n, uint64_t line);
    void (*page)(void *arg); /* called after the elements of each page; may be NULL */
    void *arg;
    bool more; /* set by the reader: the list has more than `max` elements */
};

/* Reads the pages. Returns PP_EXIT_DONE, or an exit code after a message. */
int pp_pages_read(struct pp_api_client *c, struct pp_pages *pages);

/* Prints an element as a line on standard output; used as `element` with --json. */
enum pp_err pp_pages_print(void *arg, const char *text, size_t n, uint64_t line);

#endif
