/* suite_coordinator.h: the contract of port/coordinator.h, run on each adapter. */
#ifndef PP_SUITE_COORDINATOR_H
#define PP_SUITE_COORDINATOR_H

#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

struct pp_coord_subject {
    const char *name;
    /* Makes a new, empty place for the workers' shared state. The returned name is valid until
     * the process ends. */
    const char *(*place)(void);
    /* Opens a coordinator in that place. A coordinator that is opened again after ops->close()
     * has the recorded state. Closing without a release has the effect of a crash. */
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_coordinator **out);
    /* True if several processes, each with its own coordinator in the same place, share the
     * slots. If false, one worker gets every slot. */
    bool many;
    /* Sets the clock of all coordinators to now_ms. NULL: the adapter has no clock of its own
     * and uses the time in each request. */
    void (*at)(int64_t now_ms);
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_coordinator(const struct pp_coord_subject *subject);

#endif
