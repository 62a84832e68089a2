/* event_line.h: shows an event to people as one line.
 *
 * An event of an unknown type is shown as the names and values of its data, so a newer server needs
 * no change here. To show a type in its own way, add a function and a row to event_line.c. */
#ifndef PHOTOPOOL_EVENT_LINE_H
#define PHOTOPOOL_EVENT_LINE_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>

/* Appends time, number, key, a text cut to `width` columns (but never below a few words), and a
 * line break. */
void pp_put_event(struct pp_buf *b, const json_t *event, size_t width, bool colour);

#endif
