/* suggest.h: "did you mean": the name that was probably meant by one that does not exist. */
#ifndef PHOTOPOOL_SUGGEST_H
#define PHOTOPOOL_SUGGEST_H

/* names ends with NULL. The one that begins with `name`, or is the fewest edits away and not more than a
 * third of its letters and one; the first of equals. NULL: none is near. */
const char *pp_suggest(const char *name, const char *const *names);

#endif
