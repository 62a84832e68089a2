/* req.h: the part that every asynchronous request to a port begins with.
 *
 * The caller owns the request, which must live until `done` is called. If the submit fails, the
 * port never calls done. Else it calls done exactly once, later, with `err` set, on the loop thread
 * that submitted. The port allocates its answer in `arena`. The caller initialises the arena before
 * the submit and frees it afterwards, and may keep its inputs in the arena. While a request is in
 * flight, only the port may touch it. */
#ifndef PHOTOPOOL_REQ_H
#define PHOTOPOOL_REQ_H

#include <stdint.h>

#include "photopool/err.h"

struct pp_arena;

struct pp_req {
    enum pp_err err;
    void (*done)(struct pp_req *req);
    void *data; /* private data of the caller */
    struct pp_arena *arena;
    uint64_t scratch[14]; /* the adapter uses this memory while the request is in flight */
};

/* Ends a request with `err`; adapters call this. The caller of the port may free the request before
 * this function returns. */
static inline void pp_req_end(struct pp_req *req, enum pp_err err)
{
    req->err = err;
    req->done(req);
}

#endif
