/* suite_blob_store.h: the contract of port/blob_store.h, run on each adapter. */
#ifndef PP_SUITE_BLOB_STORE_H
#define PP_SUITE_BLOB_STORE_H

#include "photopool/port/blob_store.h"

struct pp_blob_subject {
    const char *name;
    /* Makes a new, empty place for a store: a folder, or a prefix of a bucket. The returned name is
     * valid until the process ends. */
    const char *(*place)(void);
    /* Opens the store in that place. Several stores may be open in one place. A store that is
     * opened again after ops->close() has its former content. */
    enum pp_err (*open)(const char *place, struct pp_blob_store **out);
    /* Returns the number of files in that place that are not complete objects, such as parts and
     * temporary files. */
    int (*leftovers)(const char *place);
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_blob_store(const struct pp_blob_subject *subject);

#endif
