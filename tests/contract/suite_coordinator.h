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
    /* Several processes, each with a coordinator of its own in the same place, share what there is. Else one
     * worker is granted everything. */
    bool many;
    /* From here on it is now_ms, for all coordinators: time passes in the test's hand. NULL: the only time is
     * that of the requests. */
    void (*at)(int64_t now_ms);
};

/* Runs the suite; the number of failed tests. */
int pp_suite_coordinator(const struct pp_coord_subject *subject);

#endif
