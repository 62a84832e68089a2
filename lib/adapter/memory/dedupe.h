/* dedupe.h: a fleet's dedupe port (port/dedupe.h) in memory, for the simulator and for tests.
 *
 * Each server has keys and outcomes. Any number of processes share the servers, each through a port
 * of its own, which divides its requests by servers (runtime/dedupe_shards.h). All functions must
 * be called on one thread. */
#ifndef PP_ADAPTER_MEMORY_DEDUPE_H
#define PP_ADAPTER_MEMORY_DEDUPE_H

#include "adapter/memory/call.h"
#include "photopool/port/dedupe.h"
#include "runtime/loop.h"

struct pp_memory_dedupe;

/* Any member but window_ms may be zero. */
struct pp_memory_dedupe_options {
    int64_t window_ms;
    int64_t (*now_ms)(void *data); /* the server's clock, which never goes back; NULL: the boot time */
    void *data;
    size_t keys_max; /* most keys a window; 0: a million */
};

/* Makes an empty server. Returns NULL when out of memory. */
struct pp_memory_dedupe *pp_memory_dedupe_new(const struct pp_memory_dedupe_options *o);
/* Frees the server, when all its ports are closed or cut and no call can reach it any more.
 * `server` may be NULL. */
void pp_memory_dedupe_free(struct pp_memory_dedupe *server);
/* The server loses all keys and outcomes. */
void pp_memory_dedupe_forget(struct pp_memory_dedupe *server);

/* Opens a process's port to one server. `line` carries its requests, and must outlive the port.
 * NULL: the port has a plain line of its own. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_dedupe_open(struct pp_loop *loop, struct pp_memory_dedupe *server,
                                                struct pp_memory_line *line, struct pp_dedupe **out);
/* Detaches the port of a process that has crashed, and frees it. The requests in flight never end:
 * the line may run them, but must not end them, or may end them without effect as long as their
 * memory is there. */
void pp_memory_dedupe_cut(struct pp_dedupe *port);

#endif
