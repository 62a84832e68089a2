/* event.h: an event for consumers, with a number and a key.
 *
 * A key is an array of strings, written with colons: "results:42", "batch:b_...", "ops". A consumer
 * of a key gets all events whose key begins with the same parts: "results" includes "results:42".
 * The struct is plain data; the request's arena owns the strings. */
#ifndef PHOTOPOOL_EVENT_H
#define PHOTOPOOL_EVENT_H

#include <stddef.h>
#include <stdint.h>

#define PP_EVENT_KEY_MAX 256 /* size of a key in bytes, with its NUL */
/* every event's number is below this bound, so JavaScript can represent it exactly */
#define PP_EVENT_SEQ_MAX (1ull << 53)

struct pp_event {
    uint64_t seq;     /* the event's number from the log; a later event has a higher one */
    int64_t at_ms;    /* the event was created at this wall time, in ms since 1970 */
    const char *key;  /* the key's parts of [A-Za-z0-9_-], joined by colons */
    const char *type; /* type of the event, such as "photopool.item.finished" */
    const char *data; /* the event's data, as the text of a JSON object */
    size_t data_n;
};

#endif
