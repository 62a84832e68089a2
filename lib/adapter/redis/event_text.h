/* event_text.h: an event as it stands in a message of the stream: "<at> <key> <type> <data>". A gap has dots
 * for key and type. */
#ifndef PP_ADAPTER_REDIS_EVENT_TEXT_H
#define PP_ADAPTER_REDIS_EVENT_TEXT_H

#include <stddef.h>

#include "base/arena.h"
#include "photopool/err.h"
#include "photopool/event.h"

/* The texts of n events, one behind the other, in memory that is the caller's to free(); at[i], len[i]:
 * where. NULL: out of memory, or more than `most` bytes. */
char *pp_event_texts(const struct pp_event *events, size_t n, size_t most, const char **at, size_t *len);

/* The inverse, without the number; `text` ends with a NUL behind its n bytes. PP_ECORRUPT, PP_ENOMEM. */
pp_must_check enum pp_err pp_event_parse(struct pp_arena *a, const char *text, size_t n, struct pp_event *e);

#endif
