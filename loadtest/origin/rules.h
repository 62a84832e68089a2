/* rules.h: the hosts file, which says how the origin behaves for each host name. A line is `HOST
 * key=value key=value`; `#` starts a comment.
 *
 * HOST is a name in lower case without a port, or a pattern in which `*` stands for any characters.
 * An exact name wins over patterns; of several matching patterns, the first wins. Rules never
 * change once they are loaded: a reload makes new ones. */
#ifndef OG_RULES_H
#define OG_RULES_H

#include "behave.h"

struct og_rules;

/* Reads the hosts file. A line changes only the keys that it names; the others come from
 * `defaults`. Returns NULL if the file is wrong or unreadable, and writes a sentence that names the
 * line to `why`. */
struct og_rules *og_rules_load(const char *path, const struct og_behaviour *defaults, char *why,
                               size_t why_n);
void og_rules_free(struct og_rules *r);
/* Returns the behaviour of a host, or NULL if no line matches. The result is valid until `r` is
 * freed. */
const struct og_behaviour *og_rules_find(const struct og_rules *r, const char *host, size_t n);

#endif
