/* event.h: events for consumers; each has a number and a key.
 *
 * A key is an array of strings, written with colons: "results:42", "batch:b_...", "ops". A consumer
 * of a key gets all events whose key begins with the same parts: "results" includes "results:42".
 * Plain data; the request's arena owns the strings. */
#ifndef PHOTOPOOL_EVENT_H
#define PHOTOPOOL_EVENT_H

#include <stddef.h>
#include <stdint.h>

#define PP_EVENT_KEY_MAX 256          /* size of a key in bytes, with its NUL */
#define PP_EVENT_SEQ_MAX (1ull << 53) /* exclusive bound: every number is safe in JavaScript */

struct pp_event {
    uint64_t seq;     /* the event's number from the log; a later event has a higher one */
    int64_t at_ms;    /* time when the event was created, wall */
    const char *key;  /* parts of [A-Za-z0-9_-], joined by colons */
    const char *type; /* such as "photopool.item.finished" */
    const char *data; /* text of a JSON object */
    size_t data_n;
};

#endif
