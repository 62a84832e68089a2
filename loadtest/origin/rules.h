/* rules.h: the hosts file: `HOST key=value key=value`, one line a host; `#` starts a comment.
 *
 * HOST is a name without port, in lower case, or a pattern with `*` for any run of characters. An exact name
 * wins over patterns, of patterns the first in the file. Loaded as a whole and never changed; a reload makes
 * a new one. */
#ifndef OG_RULES_H
#define OG_RULES_H

#include "behave.h"

struct og_rules;

/* Reads `path` over the defaults. NULL, with a sentence in `why` (with the line), if it is wrong or can't be
 * read. */
struct og_rules *og_rules_load(const char *path, const struct og_behaviour *defaults, char *why,
                               size_t why_n);
void og_rules_free(struct og_rules *r);
/* The behaviour of a host; NULL when no line speaks of it. Lives as long as `r`. */
const struct og_behaviour *og_rules_find(const struct og_rules *r, const char *host, size_t n);

#endif
