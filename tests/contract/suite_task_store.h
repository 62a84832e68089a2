/* suite_task_store.h: the contract of port/task_store.h, run on each adapter. */
#ifndef PP_SUITE_TASK_STORE_H
#define PP_SUITE_TASK_STORE_H

#include "photopool/port/task_store.h"
#include "runtime/loop.h"

struct pp_store_subject {
    const char *name;
    /* Makes a new, empty place for a store: a path, or the name of a database. The returned name is
     * valid until the process ends. */
    const char *(*place)(void);
    /* Opens the store in that place. A store that is opened again after ops->close() has its former
     * content. */
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_task_store **out);
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_task_store(const struct pp_store_subject *subject);

#endif
