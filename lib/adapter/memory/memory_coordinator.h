/* memory_coordinator.h: a fleet's coordinator in memory, for the simulator and for tests.
 *
 * The server has the data. Any number of processes share it, each through a port of its own. The
 * rules are those of adapter/redis, whose README.md explains them: the scripts there are the
 * operations here. As on Redis, a request or its answer can be lost (call.h), a message between
 * processes too (message.h), all clocks may differ, and the data may be gone.
 *
 * A port repeats what it could not tell the server (announcements, slow hosts) after 200 ms. After
 * a lost message it acts as after a lost subscription: it reads the backlog index and slow hosts,
 * and tells its watcher that notices were lost. All functions must be called on one thread. */
#ifndef PP_ADAPTER_MEMORY_COORDINATOR_H
#define PP_ADAPTER_MEMORY_COORDINATOR_H

#include "adapter/memory/call.h"
#include "adapter/memory/message.h"
#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

struct pp_memory_coordinator_server;

/* All members may be zero. */
struct pp_memory_coordinator_options {
    /* The server's clock, in ms. Ports translate all times between it and the clocks of their
     * loops. NULL: the steady wall time. */
    int64_t (*now_ms)(void *data);
    void *data;
    /* True: now_ms() is also the clock of all processes, instead of those of their loops. For tests
     * that set the time. */
    bool for_all;
    uint64_t seed;              /* data sets of servers with another seed have other names */
    int64_t longest_ms;         /* as in struct pp_redis_coordinator_options */
    struct pp_memory_post post; /* carries the messages to the ports */
};

/* Makes a server without data. `o` may be NULL. Returns NULL when out of memory. */
struct pp_memory_coordinator_server *
pp_memory_coordinator_server_new(const struct pp_memory_coordinator_options *o);
/* Frees the server and the ports that were cut, when all other ports are closed and neither a call
 * nor a message can arrive any more. `server` may be NULL. */
void pp_memory_coordinator_server_free(struct pp_memory_coordinator_server *server);
/* All data are gone, as if somebody had wiped Redis. The next request begins a new data set with
 * a new name. Ports notice it by the answer to their next request. */
void pp_memory_coordinator_forget(struct pp_memory_coordinator_server *server);

/* Opens a process's port to the server. `line` carries its requests, and must outlive the port and
 * the calls that are in flight when it closes. NULL: the port has a plain line of its own. The port
 * is connected after the next turn of the loop. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_coordinator_open(struct pp_loop *loop,
                                                     struct pp_memory_coordinator_server *server,
                                                     struct pp_memory_line *line,
                                                     struct pp_coordinator **out);

/* The port's connections are lost, or back again. While they are lost, no message arrives, the name
 * of the data set is unknown, and the port sends only the requests of its callers. */
void pp_memory_coordinator_connect(struct pp_coordinator *c, bool up);

/* The port's process has crashed: the server drops the port, which calls nobody any more and closes
 * its timers. Its requests may still run, and end without done(). The memory of the port belongs to
 * the server; closing the port is allowed, and does nothing. */
void pp_memory_coordinator_cut(struct pp_coordinator *c);

#endif
