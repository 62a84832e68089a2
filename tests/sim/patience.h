/* patience.h: what is due of photo hosts with outages (API.md section 5). A part of the judge:
 *
 *   I12    A photo that its host has is not recorded as missing because the host answers for a
 *          while that all its photos are gone. A worker that knows of the outage never does it.
 *          Nor does any worker after PP_BREAKER_PHOTOS photos in a row, if all processes heard each
 *          other, if the host had photos before, and if it is its first such outage. After
 *          hosts.believe all may be recorded.
 *   hosts  A host whose breaker is open gets no request that began GRACE_MS after that; while it is
 *          half-open, it gets 1, 2, 4, ... at a time, checked in its first minute. An open breaker
 *          is half-open after its interval. The view of the leader counts.
 *
 * A fault that keeps processes from hearing each other excuses what follows in DISTURBED_MS; after
 * it, the judge counts the photos of hosts anew, as a new leader does. */
#ifndef PP_SIM_PATIENCE_H
#define PP_SIM_PATIENCE_H

#include "fleet.h"

struct sim_patience;

/* Aborts if out of memory. f->judge gets the violations. */
struct sim_patience *sim_patience_open(struct sim_fleet *f);
/* A request arrives at its origin, or has ended there. */
void sim_patience_request(struct sim_patience *p, const struct sim_request *q, bool ended);
/* A photo of an item has its outcome, by a settlement of the worker `by`; NULL: of nobody. */
void sim_patience_outcome(struct sim_patience *p, const char *by, const struct pp_item *it, uint32_t idx);
/* Looks at the breakers of the leader. */
void sim_patience_look(struct sim_patience *p);

#endif
