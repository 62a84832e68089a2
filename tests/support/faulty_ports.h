/* faulty_ports.h: wrappers of a task store, an ingest queue, a coordinator and a filter of known
 * photos. They fail, delay or change the requests that the test chooses, and pass on all other
 * requests.
 *
 * A fault strikes a request at one of three moments: when it is submitted, so that done() never
 * runs; before the real port has done the work, which then stays undone; or after the real port has
 * done the work, as if only the answer was lost. A rule ignores the first `skip` requests of its
 * operation and strikes the next `times`. Use the wrappers on one loop. */
#ifndef PP_TEST_FAULTY_PORTS_H
#define PP_TEST_FAULTY_PORTS_H

#include "photopool/port/coordinator.h"
#include "photopool/port/filter.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

enum faulty_op {
#define X(name, type) FAULTY_STORE_##name,
    PP_STORE_OPS(X)
#undef X
#define X(name, type) FAULTY_INGEST_##name,
        PP_INGEST_OPS(X)
#undef X
#define X(name, type) FAULTY_COORD_##name,
            PP_COORD_OPS(X)
#undef X
#define X(name, type) FAULTY_FILTER_##name,
                PP_FILTER_OPS(X)
#undef X
                    FAULTY_OPS
};

enum faulty_where { FAULTY_NOWHERE, FAULTY_AT_SUBMIT, FAULTY_BEFORE, FAULTY_AFTER };

struct faulty_rule {
    enum faulty_where where;
    enum pp_err err;
    unsigned skip, times;
    int64_t delay_ms; /* Every request of this operation is delayed by this many ms. */
};

struct faulty_ports {
    struct faulty_rule rules[FAULTY_OPS];
    unsigned calls[FAULTY_OPS], struck[FAULTY_OPS];
    unsigned n_pending; /* number of requests that have not returned to their caller */
    /* Every granted slot carries these marks; NULL: the marks that the coordinator has recorded. */
    const struct pp_slot_mark *marks;
    size_t n_marks;
    /* If true, the next renewal reports every slot as lost, and sets this member to false. */
    bool lose_slots;
    /* While true, the coordinator refuses every slot, as if another worker had it. */
    bool refuse_slots;
    bool drop_announcements;
    /* If not 0, the coordinator reports this value as its reserve_ahead_ms, in ms. */
    int64_t ahead_ms;
    /* number of requests in flight that the latest recorded renewal reported for its last client */
    uint32_t in_flight;

    struct pp_loop *loop;
    struct pp_task_store store, *real_store;
    struct pp_ingest_queue ingest, *real_ingest;
    struct pp_coordinator coordinator, *real_coordinator;
    struct pp_filter filter, *real_filter;
    struct pp_task_store_ops store_ops;
    struct pp_ingest_queue_ops ingest_ops;
    struct pp_coordinator_ops coordinator_ops;
    struct pp_filter_ops filter_ops;
};

/* Opens wrappers of these ports. Use f->store, f->ingest and f->coordinator in place of the
 * ports, which still belong to the caller. */
void faulty_open(struct faulty_ports *f, struct pp_loop *loop, struct pp_task_store *store,
                 struct pp_ingest_queue *ingest, struct pp_coordinator *coordinator);
/* Opens a wrapper of the filter, f->filter, after faulty_open(). */
void faulty_open_filter(struct faulty_ports *f, struct pp_filter *filter);
/* The next requests of this operation, after the first `skip`, fail in this way, `times` times. */
void faulty_fail(struct faulty_ports *f, enum faulty_op op, enum faulty_where where, enum pp_err err,
                 unsigned skip, unsigned times);

#endif
