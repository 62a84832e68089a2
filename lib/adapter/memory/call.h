/* call.h: how a request of a port travels to data in memory and back.
 *
 * The data of each adapter in memory are in a server: a struct that any number of processes share,
 * each through a port of its own. An operation on a server is a function that runs at one moment,
 * so it is atomic. A line connects a process with servers. It decides when an operation runs, when
 * its answer arrives, and whether either is lost:
 *
 *   port op --pp_memory_submit--> line --pp_memory_run--> server        the request arrives
 *                                   |
 *                                   +--pp_memory_end--> req->done()     the answer arrives, or the
 *                                                                       caller gives up
 *
 * A plain line runs each call in the next turn of its loop, in the order of submission, and answers
 * at once. The simulator has lines of its own (send()), with delays and losses.
 *
 * A caller may free its request as soon as it has given up, although the request may still arrive
 * at the server. So pp_memory_end() copies the inputs of a call that has not run yet.
 *
 * To add an operation: write its run() and, if it changes data, its copy(). All functions must be
 * called on the thread of the loop. */
#ifndef PP_ADAPTER_MEMORY_CALL_H
#define PP_ADAPTER_MEMORY_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/list.h"
#include "photopool/req.h"
#include "runtime/loop.h"

struct pp_memory_op {
    const char *name; /* as in the port's table of operations */
    size_t size;      /* size of the request's struct, which begins with its struct pp_req */
    /* Carries the request out on the server's data, and puts the answer into req->arena. Returns
     * the request's error. */
    enum pp_err (*run)(void *server, struct pp_req *req);
    /* `req` is a copy of a request's struct. Copies into `arena` all inputs that it points to, and
     * lets it point to the copies. Returns false if out of memory. NULL: the operation only reads,
     * so nothing is lost if it does not run after its caller has given up. */
    bool (*copy)(struct pp_req *req, struct pp_arena *arena);
};

struct pp_memory_call {
    struct pp_node node; /* for the line */
    const struct pp_memory_op *op;
    void *server;
    struct pp_req *req; /* the caller's request; after the caller has given up, the copy */
    enum pp_err err;    /* what run() returned */
    bool ran, ended;
    struct pp_arena copied; /* has the copy of the request, and what run() then answers */
};

struct pp_memory_line {
    struct pp_loop *loop;
    /* Takes over a call. It must later end the call exactly once, and may run it once before or
     * after that; a call that it never runs it must drop. NULL: a plain line. */
    void (*send)(struct pp_memory_line *line, struct pp_memory_call *call);
    /* A plain line uses the following members. */
    struct pp_timer *timer;
    struct pp_list waiting;
};

/* Makes a plain line. Returns PP_ENOMEM if there is no memory for its timer. */
pp_must_check enum pp_err pp_memory_line_open(struct pp_memory_line *line, struct pp_loop *loop);
/* Closes a plain line, when all its calls have ended. */
void pp_memory_line_close(struct pp_memory_line *line);

/* Sends a request to `server`. Returns PP_ENOMEM, after which req->done never fires; else PP_OK,
 * and req->done fires exactly once, later, on the line's loop. */
pp_must_check enum pp_err pp_memory_submit(struct pp_memory_line *line, const struct pp_memory_op *op,
                                           void *server, struct pp_req *req);

/* Lines call the following functions. */

/* The call reaches the server: carries it out. At most once. If the caller has given up, frees the
 * call. */
void pp_memory_run(struct pp_memory_call *call);
/* Ends the caller's request: with what run() returned if `err` is PP_OK, which requires that the
 * call has run; else with `err`: the caller gives up. If the call has run, frees it; else it must
 * be run or dropped later. An operation without copy() is freed at once: *gone is then true. */
void pp_memory_end(struct pp_memory_call *call, enum pp_err err, bool *gone);
/* Frees a call that has ended and will never run. */
void pp_memory_drop(struct pp_memory_call *call);

#endif
