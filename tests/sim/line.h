/* line.h: the simulator's lines between a process and the servers (adapter/memory/call.h): requests
 * and answers take time, come late, or are lost.
 *
 *   send --way--> the server carries the request out --way--> the caller has its answer
 *     \                                                        /
 *      +---------- patience_ms: the caller gives up ----------+
 *
 * A caller that gives up is told PP_EUNKNOWN; its request may still arrive: a stale request. A
 * server that is down refuses at once (PP_EIO), and so does a line that is cut. What a process has
 * sent arrives also after its crash; answers to it go nowhere. */
#ifndef PP_SIM_LINE_H
#define PP_SIM_LINE_H

#include "adapter/memory/call.h"
#include "adapter/memory/message.h"
#include "adapter/memory/notice.h"
#include "runtime/sim/sim.h"
#include "trace.h"

/* How the network between processes and one server behaves. The world changes it while it runs. */
struct sim_weather {
    struct pp_sim_world *world;
    int64_t way_us, jitter_us; /* one way takes way_us, and up to jitter_us more */
    /* Of 10,000 requests so many never arrive; get their answer lost; take up to late_ms. */
    unsigned lose_requests, lose_answers, late;
    int64_t late_ms;
    unsigned stale; /* of 10,000 requests so many arrive after the caller has given up */
    /* Called after such a request has run; data is stale_data. */
    void (*on_stale)(void *stale_data, const struct pp_sim_process *sender);
    void *stale_data;
    bool down;               /* the server refuses all requests */
    bool inside;             /* it is part of its only process: what has not arrived ends with it */
    const char *name;        /* of the server */
    struct sim_trace *trace; /* gets a note for each call */
    uint64_t faults;         /* number of requests that were lost, late or refused */
    /* Called when a call has arrived, with the `owner` of its line. */
    void (*arrived)(void *owner);
};

struct sim_line {
    struct pp_memory_line line; /* must be the first member */
    struct pp_sim_process *process;
    struct sim_weather *weather;
    void *owner;
    size_t in_flight;    /* calls that the process waits for */
    int64_t patience_ms; /* the process gives up a call after this time */
    bool cut;            /* this process does not reach the server */
};

/* Returns the post that carries messages of a server to processes, in its weather. */
struct pp_memory_post sim_post(struct sim_weather *weather);
/* Carries notices of a server in the same way; `weather` is a struct sim_weather. */
void sim_carry(void *weather, struct pp_memory_notice *notice);

/* Opens a line of the current process. */
void sim_line_open(struct sim_line *l, struct pp_loop *loop, struct sim_weather *weather,
                   int64_t patience_ms);

#endif
