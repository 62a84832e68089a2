/* suite_ingest_queue.h: the contract of port/ingest_queue.h, run on each adapter. */
#ifndef PP_SUITE_INGEST_QUEUE_H
#define PP_SUITE_INGEST_QUEUE_H

#include "photopool/port/ingest_queue.h"
#include "runtime/loop.h"

struct pp_ingest_subject {
    const char *name;
    /* Makes a new, empty place for a queue. The returned name is valid until the process ends. */
    const char *(*place)(void);
    /* Opens the queue in that place. A queue that is opened again after ops->close() has its
     * former content. */
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_ingest_queue **out);
    /* true if the queue has ops->read, so that it can be the file of a journal */
    bool can_be_journal;
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_ingest_queue(const struct pp_ingest_subject *subject);

#endif
