/* event_line.h: an event for people, as one line.
 *
 * An event of a type that is not known here is shown with the names and values of its data: what the server
 * adds in later versions needs no change. A new kind of its own: a function and a row in event_line.c. */
#ifndef PHOTOPOOL_EVENT_LINE_H
#define PHOTOPOOL_EVENT_LINE_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>

/* Appends time, number, key and what has happened, cut to `width` columns where they leave room for some
 * words, and a line break. */
void pp_put_event(struct pp_buf *b, const json_t *event, size_t width, bool colour);

#endif
