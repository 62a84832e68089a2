/* local_fault.h: when a worker whose own resource fails (blob store, disk, descriptors, memory)
 * tries the resource again, and when it tells the operator.
 *
 *          seen                    probed well, work waits          well
 *   WELL ---------> FAILING -------------------------------> TRYING ------> WELL
 *                   ^  |  |  <------------ seen --------------'               ^
 *     probed badly  '--'  '----------- probed well, nothing waits ------------'
 *
 * While the state is not WELL the worker claims nothing. In TRYING it repeats the work that waits
 * for the resource, such as photos in memory; only when that works does it claim again. Pure: all
 * times are monotonic, in ms. */
#ifndef PHOTOPOOL_CORE_LOCAL_FAULT_H
#define PHOTOPOOL_CORE_LOCAL_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PP_LOCAL_PAUSE_MS = 1000,     /* the first probe comes this long after the failure */
    PP_LOCAL_PAUSE_MAX_MS = 3000, /* pauses between probes grow up to this length */
    /* If the resource fails again within this time, and nothing has worked in between, the probes
     * do not show what is wrong. The pause then doubles with each such relapse. */
    PP_LOCAL_RELAPSE_MS = 10000,
    PP_LOCAL_RELAPSE_MAX_MS = 60000,
    PP_LOCAL_SAY_MS = 60000 /* while it lasts, a failure is logged at this interval */
};

enum pp_local_state { PP_LOCAL_WELL, PP_LOCAL_FAILING, PP_LOCAL_TRYING };

/* A resource. All zeros: it is well, and has never failed. */
struct pp_local_fault {
    enum pp_local_state state;
    uint32_t relapses;
    int64_t since_ms; /* not WELL: the failure began at this time */
    int64_t well_ms;  /* the last failure ended at this time */
    int64_t pause_ms; /* FAILING: the pause before the next probe */
    int64_t probe_ms; /* FAILING: the next probe is due at this time */
    int64_t said_ms;  /* the failure was last logged at this time */
    bool said;
};

/* Notes that the resource has failed. `worked`: something has worked since the last failure ended.
 * Returns true if the resource was well until now. */
bool pp_local_fault_seen(struct pp_local_fault *f, int64_t now, bool worked);
/* Returns true if a probe is due. */
bool pp_local_fault_probe_due(const struct pp_local_fault *f, int64_t now);
/* Notes the result of a probe. `waits`: there is work to repeat before the resource counts as well.
 * Returns the new state. */
enum pp_local_state pp_local_fault_probed(struct pp_local_fault *f, int64_t now, bool ok, bool waits);
/* Notes that all repeated work is done; does nothing unless the state is TRYING. */
void pp_local_fault_done(struct pp_local_fault *f, int64_t now);
/* Returns true if the failure must be logged now, and counts it as logged. */
bool pp_local_fault_say(struct pp_local_fault *f, int64_t now);

/* Returns how many free bytes a file system of `total` bytes must have: min_free, but at most a
 * twentieth of the file system. If an operator has set min_free, it holds as it is, up to seven
 * eighths: more is never free, since systems keep some space back. */
uint64_t pp_local_min_free(uint64_t min_free, bool is_set, uint64_t total);
/* Returns true if the free bytes are too few. After they were too few (`low`), it takes a sixteenth
 * more than the minimum to be enough again. */
bool pp_local_space_low(uint64_t free_bytes, uint64_t minimum, bool low);

#endif
