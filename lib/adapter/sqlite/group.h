/* group.h: carries requests of a port to a lane, runs them there in groups, and carries them
 * back.
 *
 * A group is one transaction. If one of its requests fails, all are rolled back and each runs
 * again alone, so that one failure does not affect the others. A run function therefore
 * initializes its outputs first, and rolled_back() drops what the state keeps in memory. A run
 * function returns PP_OK, or a refusal (is_refusal()) if it has written nothing; any other error
 * rolls back. */
#ifndef PP_ADAPTER_SQLITE_GROUP_H
#define PP_ADAPTER_SQLITE_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "db.h"
#include "photopool/req.h"
#include "runtime/lane.h"
#include "runtime/mailbox.h"

/* How a store uses the scratch space of a request. */
struct pp_sq_call {
    struct pp_job job;
    enum pp_err (*run)(void *state, struct pp_req *req); /* runs on the lane */
    atomic_uint_fast64_t *count;                         /* counts requests of this operation */
    bool again; /* set by run: true: this slice is done, and the request has more slices */
    /* state of a sliced request: `carry` comes from the slice before (zeros in the first),
     * `next` goes to the next */
    uint64_t carry[2], next[2];
};
_Static_assert(sizeof(struct pp_sq_call) <= sizeof(((struct pp_req *)0)->scratch),
               "a call fits into scratch");

/* What a writer does around its requests. Each hook gets the lane's state and may be NULL. */
struct pp_sq_hooks {
    void (*start)(void *state);            /* prepares for the next request */
    void (*flush)(void *state);            /* writes what is kept in memory, before the commit */
    enum pp_err (*committed)(void *state); /* a failure counts as a failure of the transaction */
    void (*rolled_back)(void *state);      /* drops what is kept in memory */
};

/* The connection of a lane's groups. First member of the lane's state. */
struct pp_sq_group {
    struct pp_sq_db *db;
    const struct pp_sq_hooks *hooks; /* NULL: the lane only reads */
    struct pp_sq_call *call;         /* the request that runs now */
    bool appended;                   /* set by run: the commit wakes the watcher */
    /* The watcher is a callback on the loop. If the writer wakes it several times before the loop
     * runs, the callback is called once. */
    struct pp_mailbox *mailbox;
    struct pp_mail letter;
    atomic_bool in_flight;
    void (*watch)(void *data); /* NULL: nobody watches */
    void *watch_data;
};

/* Sends `req` to run(); returns as pp_lane_submit() does. */
pp_must_check enum pp_err pp_sq_submit(struct pp_lane_home *home, struct pp_req *req,
                                       enum pp_err (*run)(void *state, struct pp_req *req),
                                       atomic_uint_fast64_t *count);
/* Runs a batch of the lane's jobs; `state` begins with a struct pp_sq_group. */
void pp_sq_group_batch(void *state, struct pp_job **jobs, size_t n);

#endif
