/* handler.h: what the files with handlers share: parameters, JSON bodies, lists, and members that
 * several endpoints write. If a function that reads, checks or answers returns false, it has
 * answered the call with a problem document. */
#ifndef PHOTOPOOL_API_HANDLER_H
#define PHOTOPOOL_API_HANDLER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/endpoints.h"
#include "base/check.h"
#include "base/text.h"

/* --- query.c: parameters and ids, read strictly --- */

/* Returns the value of a query parameter, or NULL if it is absent; if it is repeated, the first
 * value. */
const char *pp_call_param(const struct pp_call *call, const char *name);
/* Returns true if the If-None-Match header (NULL: there is none) names this entity tag, which
 * includes its quotes, or "*" (RFC 9110 section 13.1.2). */
bool pp_etag_matches(const char *if_none_match, const char *tag);
/* Stores at most `cap` values of a repeated parameter; returns how many. */
size_t pp_call_params(const struct pp_call *call, const char *name, const char **values, size_t cap);
/* Parses a decimal number of at most 16 digits. */
bool pp_number_parse(const char *text, uint64_t *out);

/* Reads a parameter that is true or false; false without it. */
bool pp_call_switch(struct pp_call *call, const char *name, bool *on);
/* Reads the parameter `wait`, how long the answer may take, in seconds; *wait_ms is 0 without
 * it. */
bool pp_call_wait(struct pp_call *call, int64_t *wait_ms);
/* Reads the parameters `from` and `to`, days. Without `to` the range ends today, without `from` it
 * has `usual` days. Returns false if the call has been answered, because a text is no day or the
 * range does not have 1..most days. */
bool pp_call_days(struct pp_call *call, int32_t usual, int32_t most, int32_t *from, int32_t *to);
/* Sets *client from the parameter `client`. If that is absent, sets *client to the client to which
 * the key is bound, or to NULL (any client). */
bool pp_call_client(struct pp_call *call, const char **client);
/* Checks that `client` is a client id, and that the key may see this client. `field` names the
 * field for the problem document; NULL: the id is in the path. */
bool pp_call_may_see(struct pp_call *call, const char *client, const char *field);

/* --- body.c: JSON bodies that hold settings, read strictly by a table of their fields --- */

/* A field that a body may have. read() checks the value and stores it in `out`; the value lives as
 * long as the call. */
struct pp_body_field {
    const char *name;
    bool (*read)(struct pp_call *call, const char *name, const json_t *value, void *out);
};

/* Reads the body into call->body, then its members by the table, in the order in which they were
 * sent. `what` names the object in a problem document, such as "a webhook". */
bool pp_call_fields(struct pp_call *call, const char *what, const struct pp_body_field *fields, size_t n,
                    void *out);

/* These two functions answer that a field has a bad value or a bad type. */
bool pp_bad_value(struct pp_call *call, const char *field, const char *why);
bool pp_bad_type(struct pp_call *call, const char *field, const char *expected);

/* Returns true if the body's media type is `type`, in UTF-8. */
bool pp_content_type_is(const char *content_type, const char *type);

/* --- page.c: lists ---
 *
 * All lists read `limit` and `after`, and answer {"KIND": [rows...], "next": cursor or null}:
 *
 *   pp_page_read()    reads the parameters into call->page; page.after is where the port begins
 *   pp_page_open()    begins the answer, when the port has given the rows
 *     then the handler writes each row, and sets page.last or page.last_number to its position
 *   pp_page_close() or pp_page_send() ends the answer */

/* A page gets no further rows once it has this many bytes, so that writing it never holds the loop
 * for more than a few ms. */
#define PP_PAGE_BYTES (1u << 20)

/* A page counts for this many bytes in the account of answers while it is read and built: the rows
 * from the store, and the answer, whose buffer grows by doubling. */
#define PP_PAGE_MEMORY (10 * PP_PAGE_BYTES)

/* Reads the parameters of a list. `context` is NULL if the pp_call_printf() that made it has
 * failed; then the call has been answered, and this function returns false. */
bool pp_page_read(struct pp_call *call, const char *kind, const char *context);
void pp_page_open(struct pp_call *call);
/* Returns how many bytes an answer has at most: a page and one more row. The largest row is the
 * result of an item that fills a body. */
size_t pp_page_max(const struct pp_params *params);
/* Returns true if the page can take another row. */
bool pp_page_has_room(const struct pp_call *call);
/* Charges `n` more bytes for the page. Returns false if there is not enough memory; the call has
 * then been answered. */
bool pp_page_charge(struct pp_call *call, uint64_t n);
/* Ends the array. Adds "next" if `more` says that rows follow the last one written. */
void pp_page_close(struct pp_call *call, bool more);
/* Does pp_page_close() and sends the answer. */
void pp_page_send(struct pp_call *call, bool more);

/* Counts one more element of a list in memory, whose positions are the numbers of its elements.
 * Returns true if this element is on the page. */
bool pp_page_has(struct pp_call *call);
/* Returns true if elements were counted behind this page. */
bool pp_page_more(const struct pp_call *call);

/* Answers that the parameter `after` is not a cursor of this list. */
bool pp_page_bad_cursor(struct pp_call *call);
/* Reads the parameter `limit`, the maximum number of rows. */
bool pp_call_limit(struct pp_call *call, size_t *limit);

/* --- shown.c: members that several endpoints write in the same way --- */

/* "rpm" and "concurrency": the client's limits, or the defaults if it has not set them. "rpm" is
 * null if there is no limit. */
struct pp_json_member pp_shown_rpm(const struct pp_call *call, const struct pp_client *client);
struct pp_json_member pp_shown_concurrency(const struct pp_call *call, const struct pp_client *client);
/* "tier": the timeout of the tier in seconds; null for a tier that is no longer configured. */
struct pp_json_member pp_shown_tier(const struct pp_call *call, uint32_t tier);
/* "oldest_seconds": `age_ms` in seconds, but never negative. */
struct pp_json_member pp_shown_age(int64_t age_ms);
/* Return how long ago a date or a steady wall time is, in ms; 0 if there is no such time (0). */
int64_t pp_age_of_date(const struct pp_call *call, int64_t date_ms);
int64_t pp_age_of_wall(const struct pp_call *call, int64_t wall_ms);
/* Converts a steady wall time (due times, waits) to the date that callers read. 0, no time, stays.
 */
int64_t pp_shown_date(const struct pp_call *call, int64_t wall_ms);
/* Write members about a photo; null if there is nothing to say. pp_put_known(): "known", its bytes,
 * when they were fetched, and their validators. pp_put_ladder(): "ladder", the failures in a row
 * that imports are answered with. pp_put_task(): "task", what is to be fetched. */
void pp_put_known(struct pp_call *call, const struct pp_photo *photo);
void pp_put_ladder(struct pp_call *call, const struct pp_photo *photo);
void pp_put_task(struct pp_call *call, const struct pp_store_photo *photo);

#endif
