/* memory_store.h: a fleet's task store in memory, for the simulator and for tests.
 *
 * The server has the data. Any number of processes share it, each through a port of its own. As on
 * MongoDB, an answer can be lost (call.h), and the processes' clocks may differ: leases and due
 * times are kept by the server's clock. The following functions must be called on one thread. */
#ifndef PP_ADAPTER_MEMORY_STORE_H
#define PP_ADAPTER_MEMORY_STORE_H

#include "adapter/memory/call.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

struct pp_memory_store;

struct pp_memory_store_options {
    /* The server's clock, in ms. A port compares it with pp_loop_wall() of its loop, and converts
     * all leases and due times. NULL: the processes' clocks agree, and nothing is converted. */
    int64_t (*now_ms)(void *data);
    void *data;
};

/* Makes an empty server. `o` may be NULL. Returns NULL when out of memory. */
struct pp_memory_store *pp_memory_store_new(const struct pp_memory_store_options *o);
/* Frees the server, when all its ports are closed and no call can reach it any more. `server` may
 * be NULL. */
void pp_memory_store_free(struct pp_memory_store *server);

/* Opens a process's port to the server. `line` carries its requests, and must outlive the port.
 * NULL: the port has a plain line of its own. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_task_store_open(struct pp_loop *loop, struct pp_memory_store *server,
                                                    struct pp_memory_line *line, struct pp_task_store **out);

/* --- a look at all data, for checks of invariants --- */

/* An open task. Times are by the server's clock. */
struct pp_memory_task {
    const char *client, *domain; /* domain: "" if the planner gave none */
    struct pp_key key;
    enum pp_task_state state; /* WAITING or CLAIMED */
    uint8_t queue, tier, losses;
    uint32_t attempts, epoch;
    int64_t due_ms;
    const char *worker; /* if CLAIMED; else NULL */
    int64_t lease_ms;   /* if CLAIMED: the end of the lease */
    size_t waiters;     /* number of open photos of items that wait for the task */
};

/* The record of a photo, or its epoch alone if the photo has no record yet. */
struct pp_memory_photo {
    const char *client;
    struct pp_key key;
    const struct pp_photo *record;
    uint32_t epoch; /* number of claims of the photo's tasks so far */
    bool open;      /* the photo has a task */
};

/* Call cb() for each task and each item revision in the order in which they were planned, and for
 * each photo in that order client by client. cb() must not change the store; what it gets is valid
 * until it returns. */
void pp_memory_store_each_task(const struct pp_memory_store *server,
                               void (*cb)(void *data, const struct pp_memory_task *task), void *data);
void pp_memory_store_each_item(const struct pp_memory_store *server,
                               void (*cb)(void *data, const struct pp_item *item), void *data);
void pp_memory_store_each_photo(const struct pp_memory_store *server,
                                void (*cb)(void *data, const struct pp_memory_photo *photo), void *data);

#endif
