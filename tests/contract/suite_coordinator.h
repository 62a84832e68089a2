/* suite_coordinator.h: the contract of port/coordinator.h, run on each adapter. */
#ifndef PP_SUITE_COORDINATOR_H
#define PP_SUITE_COORDINATOR_H

#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

struct pp_coord_subject {
    const char *name;
    /* A new, empty place for what workers agree on; valid until the process ends. */
    const char *(*place)(void);
    /* Opens a coordinator there; again after ops->close(), with what was recorded. Closing without a release
     * is what a crash leaves. */
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_coordinator **out);
};

/* Runs the suite; the number of failed tests. */
int pp_suite_coordinator(const struct pp_coord_subject *subject);

#endif
