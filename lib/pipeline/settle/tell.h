/* tell.h: what the settler shares of its outcomes (claim/sharing.h). */
#ifndef PHOTOPOOL_PIPELINE_SETTLE_TELL_H
#define PHOTOPOOL_PIPELINE_SETTLE_TELL_H

#include "core/route.h"
#include "photopool/task.h"
#include "pipeline/claim/sharing.h"
#include "pipeline/fetch/transfer.h"

/* Returns true if the transfer ended with the outcome of another task's fetch. */
bool pp_tell_taken(const struct pp_transfer *t);
/* Fills in the settlement of such a transfer, as if it had fetched the outcome itself. */
void pp_tell_settle(const struct pp_transfer *t, struct pp_settlement *s);
/* Returns what such a transfer says about its tier, as if it had lasted as long as the fetch. */
struct pp_route_sample pp_tell_sample(const struct pp_transfer *t, const struct pp_params *params);
/* Returns true if the transfer owns its URL and has not told its outcome to the other tasks. */
bool pp_tell_may(const struct pp_transfer *t);
/* Tells the other tasks for the URL what became of a transfer, or that nothing came of it (it is
 * not final, `s` is stale). A photo may be told as soon as its bytes are kept; a failure only after
 * the store has it. Does nothing if pp_tell_may() is false. `share` may be NULL. */
void pp_tell(struct pp_sharing *share, const struct pp_transfer *t, const struct pp_settlement *s);

#endif
