/* orphans.h: after a crash, objects that were written and whose records were not (I7: no bytes that nobody
 * knows of).
 *
 * A photo's bytes are stored before its record. A process that dies in between leaves an object behind; as a
 * rule the photo is fetched again, gets the same bytes and so its record, but not where the host sends other
 * bytes each time. So the next process, before it claims anything, asks the store for each object written
 * around the time of the crash, and removes those that no record names. */
#ifndef PHOTOPOOL_PIPELINE_ORPHANS_H
#define PHOTOPOOL_PIPELINE_ORPHANS_H

#include "pipeline/pipeline.h"

#define PP_ORPHANS_MAX 100000 /* objects looked at; more are left where they are */

struct pp_orphans;

/* Looks at objects written since params->orphans_since_ms, then calls done(data) once, later, on the loop,
 * whatever came of it, and frees itself. False: could not be started (out of memory). The worker role's keep
 * lane must be open. */
bool pp_orphans_start(struct pp_pipeline *p, void (*done)(void *data), void *data);

#endif
