/* faulty_ports.h: wrappers around a task store, an ingest queue and a coordinator that fail, delay or change
 * requests on demand, and pass on all others.
 *
 * A fault strikes where a request is submitted (done never fires), where it comes back without having been
 * done, or where it comes back after it was done (the answer was lost). What a rule says holds for `times`
 * requests of its operation after the first `skip`. One loop. */
#ifndef PP_TEST_FAULTY_PORTS_H
#define PP_TEST_FAULTY_PORTS_H

#include "photopool/port/coordinator.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

enum faulty_op {
    /* store */
    FAULTY_LOOKUP,
    FAULTY_PLAN,
    FAULTY_CLAIM,
    FAULTY_SETTLE,
    FAULTY_STORE_RENEW,
    FAULTY_REAP,
    FAULTY_BACKLOG,
    FAULTY_RETIER,
    FAULTY_CLIENTS,
    FAULTY_ROUTES,
    FAULTY_SAVE_ROUTES,
    /* ingest queue */
    FAULTY_TAKE,
    FAULTY_ACK,
    FAULTY_POISON,
    /* coordinator */
    FAULTY_ACQUIRE,
    FAULTY_RENEW,
    FAULTY_RELEASE,
    FAULTY_OPS
};

enum faulty_where { FAULTY_NOWHERE, FAULTY_AT_SUBMIT, FAULTY_BEFORE, FAULTY_AFTER };

struct faulty_rule {
    enum faulty_where where;
    enum pp_err err;
    unsigned skip, times;
    int64_t delay_ms; /* of every request of this operation */
};

struct faulty_ports {
    struct faulty_rule rules[FAULTY_OPS];
    unsigned calls[FAULTY_OPS], struck[FAULTY_OPS];
    unsigned under_way;
    /* Marks that every granted slot brings with it; NULL: what is recorded. */
    const struct pp_slot_mark *marks;
    size_t n_marks;
    bool lose_slots;   /* the next renewals say `lost` */
    bool refuse_slots; /* while it is set, somebody else holds each that is asked for */
    bool drop_announcements;
    int64_t ahead_ms;   /* where it is not 0: the coordinator's reserve_ahead_ms */
    uint32_t in_flight; /* what the last renewal that was written says of its last client */

    struct pp_loop *loop;
    struct pp_task_store store, *real_store;
    struct pp_ingest_queue ingest, *real_ingest;
    struct pp_coordinator coordinator, *real_coordinator;
    struct pp_task_store_ops store_ops;
    struct pp_ingest_queue_ops ingest_ops;
    struct pp_coordinator_ops coordinator_ops;
};

/* Use f->store, f->ingest and f->coordinator in place of these, which stay the caller's. */
void faulty_open(struct faulty_ports *f, struct pp_loop *loop, struct pp_task_store *store,
                 struct pp_ingest_queue *ingest, struct pp_coordinator *coordinator);
/* `times` requests fail so. */
void faulty_fail(struct faulty_ports *f, enum faulty_op op, enum faulty_where where, enum pp_err err,
                 unsigned skip, unsigned times);
const char *faulty_name(enum faulty_op op);

#endif
