/* suite_task_store.h: the contract of port/task_store.h, run on each adapter. */
#ifndef PP_SUITE_TASK_STORE_H
#define PP_SUITE_TASK_STORE_H

#include "photopool/port/task_store.h"
#include "runtime/loop.h"

struct pp_store_subject {
    const char *name;
    /* Makes a new, empty place for a store (a path, a database's name); valid until the process
     * ends. */
    const char *(*place)(void);
    /* Opens the store in that place; opened again after ops->close(), it has its former content. */
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_task_store **out);
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_task_store(const struct pp_store_subject *subject);

#endif
