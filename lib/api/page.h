/* page.h: reads `limit` and `after` for all list endpoints, and writes
 * {"KIND": [rows...], "next": cursor or null}.
 *
 *   pp_page_read()                   parameters; `after` says where the port begins
 *   pp_page_open()                   once the rows are there
 *     write a row; set `last` or `last_number` to its position
 *   pp_page_close() or pp_page_send() */
#ifndef PHOTOPOOL_API_PAGE_H
#define PHOTOPOOL_API_PAGE_H

#include "api/call.h"

/* A page gets no further rows once it has this many bytes. */
#define PP_PAGE_BYTES (8u << 20)

struct pp_page {
    const char *kind; /* name of the array, a plural noun */
    /* filter of the list; a cursor that was made with another filter is refused */
    const char *context;
    size_t limit;
    /* position of the last row before the page; NULL: the page begins at the start of the list */
    const char *after;
    /* the same as `after` for positions that are numbers; 0: the start of the list */
    uint64_t after_number;
    /* Position of the last row written; the handler sets one of the two. */
    const char *last;
    uint64_t last_number; /* 0: not set */
    uint64_t seen;        /* elements counted by pp_page_has() */
};

/* Reads the parameters. Returns false if the call has been answered. `context` may be the NULL of a
 * failed pp_call_printf(), which has answered. */
bool pp_page_read(struct pp_call *call, struct pp_page *page, const char *kind, const char *context);
void pp_page_open(struct pp_call *call, const struct pp_page *page);
/* Returns true if the page can take another row. */
bool pp_page_has_room(const struct pp_call *call);
/* Ends the array. Adds "next" if `more` says that rows follow the last one written. */
void pp_page_close(struct pp_call *call, const struct pp_page *page, bool more);
/* Does pp_page_close() and sends the answer. */
void pp_page_send(struct pp_call *call, const struct pp_page *page, bool more);

/* Counts one more element of a list in memory, whose positions are the numbers of its elements.
 * Returns true if this element is on the page. */
bool pp_page_has(struct pp_page *page);
/* Returns true if elements were counted behind this page. */
bool pp_page_more(const struct pp_page *page);

/* Answers that the cursor is bad. Always returns false. */
bool pp_page_bad_cursor(struct pp_call *call);
/* Reads only `limit`. Returns false if the call has been answered. */
bool pp_call_limit(struct pp_call *call, size_t *limit);

#endif
