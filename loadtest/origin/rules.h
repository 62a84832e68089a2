/* rules.h: the hosts file. Each line is `HOST key=value key=value`; `#` starts a comment.
 *
 * HOST is a name in lower case without a port, or a pattern in which `*` stands for any characters.
 * An exact name wins over patterns; of several matching patterns, the first wins. Rules never
 * change: a reload makes new ones. */
#ifndef OG_RULES_H
#define OG_RULES_H

#include "behave.h"

struct og_rules;

/* Reads the file; each rule starts from the defaults. Returns NULL if the file is wrong or
 * unreadable, with a sentence in `why` that names the line. */
struct og_rules *og_rules_load(const char *path, const struct og_behaviour *defaults, char *why,
                               size_t why_n);
void og_rules_free(struct og_rules *r);
/* Returns the behaviour of a host, or NULL if no line matches. It is valid until `r` is freed. */
const struct og_behaviour *og_rules_find(const struct og_rules *r, const char *host, size_t n);

#endif
