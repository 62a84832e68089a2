/* store.h: opens a store on MongoDB, for either port, and carries requests to its threads. */
#ifndef PP_ADAPTER_MONGO_STORE_INTERNAL_H
#define PP_ADAPTER_MONGO_STORE_INTERNAL_H

#include "run.h"

/* Opens the store; arguments and errors as for pp_mongo_task_store_open(). */
pp_must_check enum pp_err pp_mg_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                     struct pp_mg **out, char error[PP_MONGO_ERROR_MAX]);
/* Closes the store; every request must have come back. */
void pp_mg_close(struct pp_mg *m);

/* An operation that threads run. Its number (above 0, below PP_MG_OPS_MAX) selects the counter
 * of its round trips. */
struct pp_mg_op {
    unsigned number;
    const char *name; /* for the log */
    enum pp_err (*run)(struct pp_mg_thread *t, struct pp_req *req);
};
/* Sends `req` to a thread; returns as pp_lane_submit() does. `op` must be static. */
pp_must_check enum pp_err pp_mg_submit(struct pp_mg *m, struct pp_req *req, const struct pp_mg_op *op);

/* Defines submit_NAME for the port's struct of functions. `run` is the operation, `label` its
 * name in the log. The file that uses it defines an enumerator OP_NAME and a function
 * mg_of(store). */
#define PP_MG_OPERATION(name, type, run, store, label)                        \
    static enum pp_err run_##name(struct pp_mg_thread *t, struct pp_req *req) \
    {                                                                         \
        return run(t, (struct type *)req);                                    \
    }                                                                         \
    static enum pp_err submit_##name(struct store *s, struct type *r)         \
    {                                                                         \
        static const struct pp_mg_op op = {OP_##name, label, run_##name};     \
        return pp_mg_submit(mg_of(s), &r->req, &op);                          \
    }
/* Reads the name and the number of round trips of the i-th of n_names operations; false if i is
 * too large. The ports' roundtrips functions call it. */
bool pp_mg_roundtrips(struct pp_mg *m, const char *const *names, size_t n_names, size_t i, const char **name,
                      uint64_t *n);

#endif
