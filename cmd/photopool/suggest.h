/* suggest.h: finds the name that was probably meant by a name that does not exist ("did you mean").
 */
#ifndef PHOTOPOOL_SUGGEST_H
#define PHOTOPOOL_SUGGEST_H

/* Returns the element of `names` that begins with `name`, or that needs the fewest edits to become
 * it; of equals, the first. Returns NULL if every element needs more edits than a third of the
 * letters plus one. `names` ends with NULL. */
const char *pp_suggest(const char *name, const char *const *names);

#endif
