/* filter.h: a fleet's filter of known photos in memory, for the simulator and for tests.
 *
 * The server has the filter. Any number of processes share it, each through a port of its own. All
 * functions must be called on one thread. */
#ifndef PP_ADAPTER_MEMORY_FILTER_H
#define PP_ADAPTER_MEMORY_FILTER_H

#include "adapter/memory/call.h"
#include "photopool/port/filter.h"
#include "runtime/loop.h"

struct pp_memory_filter;

struct pp_memory_filter_options {
    /* The server's clock, in ms, which never goes back; NULL: the boot time. */
    int64_t (*now_ms)(void *data);
    void *data;
};

/* Makes a server without a filter. `o` may be NULL. Returns NULL when out of memory. */
struct pp_memory_filter *pp_memory_filter_new(const struct pp_memory_filter_options *o);
/* Frees the server, when all its ports are closed and no call can reach it any more. `server` may
 * be NULL. */
void pp_memory_filter_free(struct pp_memory_filter *server);

/* Opens a process's port to the server. `line` carries its requests, and must outlive the port.
 * NULL: the port has a plain line of its own. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_filter_open(struct pp_loop *loop, struct pp_memory_filter *server,
                                                struct pp_memory_line *line, struct pp_filter **out);

/* The server loses its data: the filter is incomplete, and no build is in progress. */
void pp_memory_filter_forget(struct pp_memory_filter *server);

/* Returns true if the filter is complete and says that the key is absent. For checks of
 * invariants: a key in the store never is. */
bool pp_memory_filter_absent(const struct pp_memory_filter *server, const struct pp_key *key);

#endif
