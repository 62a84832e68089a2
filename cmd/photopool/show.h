/* show.h: JSON answers for people: an object as lines of name and value, a list of objects as a table; and
 * the pages of a list. What the server adds in later versions is shown without a change here. */
#ifndef PHOTOPOOL_SHOW_H
#define PHOTOPOOL_SHOW_H

#include "client.h"

/* Appends the object: scalars aligned, objects indented below their name, lists of objects as tables. */
void pp_show_object(struct pp_buf *b, const json_t *o, size_t width, bool colour);
/* Appends a table with a column for each name of the first object (at most PP_TABLE_COLUMNS). */
void pp_show_table(struct pp_buf *b, const json_t *list, size_t width, bool colour);

/* The answer of a command that is one object: as JSON in a line, or for people. Takes o. */
void pp_show_answer(const struct pp_cli *cli, json_t *o);

/* A list of the API, page after page. */
struct pp_pages {
    const char *path;   /* with its parameters, without limit and after */
    const char *plural; /* name of the list in the answer */
    int64_t max;        /* elements at most; negative: all */
    /* One element, as text. Another answer than PP_OK ends it. */
    enum pp_err (*element)(void *arg, const char *text, size_t n, uint64_t line);
    void (*page)(void *arg); /* after the elements of a page; may be NULL */
    void *arg;
    bool more; /* out: there are more than max */
};

/* PP_EXIT_DONE, or an exit code after a message. */
int pp_pages_read(struct pp_client *c, struct pp_pages *pages);

/* Element for --json: the text as a line of standard output. */
enum pp_err pp_pages_print(void *arg, const char *text, size_t n, uint64_t line);

#endif
