/* delivery.h: a fleet's delivery store in memory, for the simulator and for tests.
 *
 * The server has the data. Any number of processes share it, each through a port of its own. As on
 * MongoDB, a request or its answer can be lost (call.h), and the processes' clocks may differ: due
 * times are kept by the server's clock. Each operation is atomic, so a save writes its rows and
 * moves the cursor, or does nothing. All functions must be called on one thread. */
#ifndef PP_ADAPTER_MEMORY_DELIVERY_H
#define PP_ADAPTER_MEMORY_DELIVERY_H

#include "adapter/memory/call.h"
#include "photopool/port/delivery_store.h"
#include "runtime/loop.h"

struct pp_memory_delivery;

struct pp_memory_delivery_options {
    /* The server's clock, in ms. A port compares it with pp_loop_wall() of its loop, and converts
     * all due times. NULL: the processes' clocks agree, and nothing is converted. */
    int64_t (*now_ms)(void *data);
    void *data;
};

/* Makes an empty server. `o` may be NULL. Returns NULL when out of memory. */
struct pp_memory_delivery *pp_memory_delivery_new(const struct pp_memory_delivery_options *o);
/* Frees the server, when all its ports are closed and no call can reach it any more. `server` may
 * be NULL. */
void pp_memory_delivery_free(struct pp_memory_delivery *server);

/* Opens a process's port to the server. `line` carries its requests, and must outlive the port.
 * NULL: the port has a plain line of its own. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_delivery_open(struct pp_loop *loop, struct pp_memory_delivery *server,
                                                  struct pp_memory_line *line,
                                                  struct pp_delivery_store **out);

/* --- a look at all data, for checks of invariants --- */

/* Call cb() for each sink in the order of the names, and for each row of a sink in the order of
 * `seq`. An unknown sink has no rows. Due times are by the server's clock. cb() must not change the
 * store; what it gets is valid until it returns. */
void pp_memory_delivery_each_sink(const struct pp_memory_delivery *server,
                                  void (*cb)(void *data, const struct pp_delivery_sink *sink), void *data);
void pp_memory_delivery_each_row(const struct pp_memory_delivery *server, const char *sink,
                                 void (*cb)(void *data, const struct pp_delivery *row), void *data);
/* The same for each day of the statistics, in the order of (of, name, day). */
void pp_memory_delivery_each_day(const struct pp_memory_delivery *server,
                                 void (*cb)(void *data, const struct pp_day *day), void *data);

#endif
