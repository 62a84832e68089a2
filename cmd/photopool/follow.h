/* follow.h: waits for batches, and shows a progress bar on a terminal or lines of JSON elsewhere.
 */
#ifndef PHOTOPOOL_FOLLOW_H
#define PHOTOPOOL_FOLLOW_H

#include "client.h"
#include "tally.h"

/* Opens the client if necessary, and asks for the batches until all are finished: once a second,
 * faster in the first seconds and towards the end, and for at most PP_FOLLOW_ASK batches at a time.
 * Gives up when the server has not answered for PP_FOLLOW_PATIENCE_S seconds. Returns PP_EXIT_DONE,
 * or an exit code after a message that says how to continue. The caller always calls
 * pp_tally_fini(out). */
enum { PP_FOLLOW_ASK = 16, PP_FOLLOW_PATIENCE_S = 60 };
int pp_follow(struct pp_cli *cli, char *const *ids, size_t n, struct pp_tally *out);

/* Replaces the status line on a terminal; writes nothing elsewhere. Frees the buffer. */
void pp_status_line(const struct pp_term *t, struct pp_buf *line);
/* Erases the status line. Call it before any other output. */
void pp_status_clear(const struct pp_term *t);

#endif
