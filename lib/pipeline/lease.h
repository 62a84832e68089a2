/* lease.h: standing for election: of all processes that hold a pp_lease of one name, one leads at a time.
 *
 * Where a process is alone it always leads. A leader that is cut off stops leading well before another can
 * begin; what it has under way then may still arrive, so whatever leaders write must stand being written
 * twice. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_LEASE_H
#define PHOTOPOOL_PIPELINE_LEASE_H

#include "pipeline/pipeline.h"

struct pp_lease;

/* `name` is copied, at most 63 bytes. */
struct pp_lease *pp_lease_open(struct pp_pipeline *p, const char *name);
/* NULL: no. */
bool pp_lease_leads(const struct pp_lease *l);
/* Lets go of it; nothing new. */
void pp_lease_stop(struct pp_lease *l);
/* Requests that have not come back. */
size_t pp_lease_busy(const struct pp_lease *l);
void pp_lease_close(struct pp_lease *l);

#endif
