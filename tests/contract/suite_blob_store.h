/* suite_blob_store.h: the contract of port/blob_store.h, run on each adapter. */
#ifndef PP_SUITE_BLOB_STORE_H
#define PP_SUITE_BLOB_STORE_H

#include "photopool/port/blob_store.h"

struct pp_blob_subject {
    const char *name;
    /* A new, empty place for a store; valid until the process ends. */
    const char *(*place)(void);
    /* Opens the store in that place; any number at once, and again after ops->close(), with what it had. */
    enum pp_err (*open)(const char *place, struct pp_blob_store **out);
    /* Things in that place that are no whole objects: parts, temporary files. */
    int (*leftovers)(const char *place);
};

/* Runs the suite; the number of failed tests. */
int pp_suite_blob_store(const struct pp_blob_subject *subject);

#endif
