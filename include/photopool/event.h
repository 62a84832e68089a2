/* event.h: what consumers follow: numbered events, each under a key.
 *
 * A key is an array of strings, written with colons: "results:42", "batch:b_...", "ops". Whoever follows a
 * key gets every event whose key begins with the same parts: "results" is also "results:42". Plain data;
 * strings belong to the arena of the request that carries them. */
#ifndef PHOTOPOOL_EVENT_H
#define PHOTOPOOL_EVENT_H

#include <stddef.h>
#include <stdint.h>

#define PP_EVENT_KEY_MAX 256          /* bytes of a key, NUL included */
#define PP_EVENT_SEQ_MAX (1ull << 53) /* numbers stay below it: JavaScript has no larger whole ones */

struct pp_event {
    uint64_t seq;     /* only grows; given by the log */
    int64_t at_ms;    /* wall: when it was made */
    const char *key;  /* parts of [A-Za-z0-9_-], joined by colons */
    const char *type; /* "photopool.item.finished" */
    const char *data; /* a JSON object's text */
    size_t data_n;
};

#endif
