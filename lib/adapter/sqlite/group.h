/* group.h: requests of a port carried to a lane, run there in groups that share a transaction, and back.
 *
 * A group is tried as one transaction. Where one of its requests fails, all of it is rolled back and each
 * runs again alone, so that one does not spoil the others: a run function therefore sets its outputs from the
 * start each time, and whatever it keeps in memory is dropped by `rollback`. It answers PP_OK or a refusal
 * (pp_sq_refusal()) having written nothing; anything else rolls back. */
#ifndef PP_ADAPTER_SQLITE_GROUP_H
#define PP_ADAPTER_SQLITE_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "photopool/req.h"
#include "runtime/lane.h"

/* A request's place in req.scratch. */
struct pp_sq_call {
    struct pp_job job;
    enum pp_err (*run)(void *state, struct pp_req *req); /* on the lane */
    atomic_uint_fast64_t *count;                         /* of its kind; NULL: not counted */
    bool again;                                          /* out of run: a slice is done, there is more */
    uint64_t carry[2], next[2]; /* what slices hand on: to the one that runs (zero first), and from it */
};
_Static_assert(sizeof(struct pp_sq_call) <= sizeof(((struct pp_req *)0)->scratch),
               "a call fits into scratch");

/* What a group runs in; first member of the lane's state. */
struct pp_sq_group {
    void (*begin)(void *state);
    enum pp_err (*commit)(void *state);
    void (*rollback)(void *state);
    struct pp_sq_call *call; /* the one that runs */
};

/* Sends `req` to run(). As pp_lane_submit(). */
pp_must_check enum pp_err pp_sq_submit(struct pp_lane_home *home, struct pp_req *req,
                                       enum pp_err (*run)(void *state, struct pp_req *req),
                                       atomic_uint_fast64_t *count);
/* The lane's batch function; `state` begins with a struct pp_sq_group. */
void pp_sq_group_batch(void *state, struct pp_job **jobs, size_t n);
/* The request of a job, and the other way. */
struct pp_req *pp_sq_req(struct pp_job *job);

/* Answers that mean: understood, and nothing was written. */
bool pp_sq_refusal(enum pp_err err);

#endif
