/* req.h: the shape of every asynchronous request to a port.
 *
 * A request belongs to its caller and must live until `done`. Submit failed: done never fires. Submit
 * succeeded: done fires exactly once, later, on the loop thread that submitted, with `err` set. What the port
 * answers with is allocated in `arena`, which the caller initialises before and frees after; inputs may live
 * there, too. While under way nobody but the port touches the request. */
#ifndef PHOTOPOOL_REQ_H
#define PHOTOPOOL_REQ_H

#include <stdint.h>

#include "photopool/err.h"

struct pp_arena;

struct pp_req {
    enum pp_err err;
    void (*done)(struct pp_req *req);
    void *data; /* the caller's */
    struct pp_arena *arena;
    uint64_t scratch[12]; /* the adapter's, while under way */
};

#endif
