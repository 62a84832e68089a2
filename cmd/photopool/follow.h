/* follow.h: waiting for batches, with a progress bar on a terminal and lines of JSON elsewhere. */
#ifndef PHOTOPOOL_FOLLOW_H
#define PHOTOPOOL_FOLLOW_H

#include "client.h"
#include "tally.h"

/* Asks for the batches until all are done: once a second, quicker in the first seconds and towards the end,
 * at most PP_FOLLOW_ASK batches at a time. A server that does not answer is tried for PP_FOLLOW_PATIENCE_S
 * seconds. PP_EXIT_DONE and *out (pp_tally_fini, always), or an exit code after a message that says how to
 * go on. */
enum { PP_FOLLOW_ASK = 16, PP_FOLLOW_PATIENCE_S = 60 };
int pp_follow(struct pp_client *c, const struct pp_cli *cli, char *const *ids, size_t n,
              struct pp_tally *out);

/* A line that is written over and over on a terminal; nothing elsewhere. */
void pp_status_line(const struct pp_term *t, struct pp_buf *line);
/* Takes it away; before anything else is written. */
void pp_status_clear(const struct pp_term *t);

/* How jansson writes our lines: numbers with as many digits as they were given with. */
#define PP_JSON_LINE (JSON_COMPACT | JSON_REAL_PRECISION(15))

/* One object as a line of standard output; takes it. */
void pp_print_json(json_t *o);

#endif
