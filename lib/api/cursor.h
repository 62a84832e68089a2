/* cursor.h: encodes positions in lists as opaque text. Has no side effects. */
#ifndef PHOTOPOOL_API_CURSOR_H
#define PHOTOPOOL_API_CURSOR_H

#include "base/arena.h"

/* Returns the text for a position in the list named by kind and context. Returns NULL if out of
 * memory, or if the position is longer than 768 bytes. */
const char *pp_cursor_make(struct pp_arena *a, const char *kind, const char *context, const char *position);
/* Returns the position in a cursor. Returns NULL if pp_cursor_make() has not made it for this list.
 */
const char *pp_cursor_read(struct pp_arena *a, const char *kind, const char *context, const char *cursor);

#endif
