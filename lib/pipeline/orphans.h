/* orphans.h: after a crash, removes orphans: objects whose record was never written (I7: no bytes
 * stay without a record for long).
 *
 * A photo's bytes are stored before its record, so a process that dies in between leaves an object
 * behind. Usually the photo is fetched again with the same bytes, and the object gets its record.
 * That fails if the host sends different bytes each time. So the next process, before it claims
 * anything, asks the store for each object written around the time of the crash, and removes the
 * objects that no record names. */
#ifndef PHOTOPOOL_PIPELINE_ORPHANS_H
#define PHOTOPOOL_PIPELINE_ORPHANS_H

#include <stdbool.h>

#include "base/log.h"
#include "photopool/port/blob_store.h"
#include "photopool/port/task_store.h"
#include "runtime/lane.h"

#define PP_ORPHANS_MAX 100000 /* most objects that are looked up; the others are not removed */

struct pp_orphans_options {
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_task_store *store;
    struct pp_blob_store *blobs;
    struct pp_lane *keep_lane;
    int64_t since_ms; /* objects written since this wall time are looked up */
    /* Called once, on the loop, after pp_orphans_start() has returned, whether removal succeeded or
     * failed. */
    void (*on_removed)(void *data);
    void *data;
};

struct pp_orphans;

/* Starts the search. It frees itself before it calls on_removed(). Returns NULL if out of memory.
 */
struct pp_orphans *pp_orphans_start(const struct pp_orphans_options *options);
/* Ends the search early: removes the orphans found so far, then calls on_removed(). */
void pp_orphans_stop(struct pp_orphans *orphans);

#endif
