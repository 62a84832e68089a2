/* memory_store.h: a fleet's task store in memory, for the simulator and for tests.
 *
 * The server has the data. Any number of processes share it, each through a port of its own. As on
 * MongoDB, an answer can be lost (call.h), and the processes' clocks may differ: leases and due
 * times are kept by the server's clock. The following functions must be called on one thread. */
#ifndef PP_ADAPTER_MEMORY_STORE_H
#define PP_ADAPTER_MEMORY_STORE_H

#include "adapter/memory/call.h"
#include "photopool/port/task_store.h"
#include "photopool/task_rules.h"
#include "runtime/loop.h"

struct pp_memory_store;

/* A change of a task's state that the server has made. */
struct pp_memory_task_change {
    const char *client;
    struct pp_key key;
    uint64_t handle;
    enum pp_task_state from, to; /* from: PP_TASK_STATE_COUNT if the task is new */
    uint32_t epoch;              /* of the photo, after the change */
    const char *worker;          /* if CLAIMED afterwards: who has claimed it; else NULL */
    /* A settlement made the change: the claim that its caller named. Else by_worker is NULL. */
    const char *by_worker;
    uint32_t by_epoch;
    uint64_t by_handle;
    const struct pp_settlement *by; /* if by_worker is set: the settlement */
    bool always;                    /* of the task (task.h) */
    bool held;                      /* the task waits for its host */
    uint16_t last_code;             /* of the task (task.h) */
    uint8_t losses;                 /* number of its claims that lapsed */
};

/* What a test sees of the server, at once. Must not use the store. */
struct pp_memory_observer {
    void (*task)(void *data, const struct pp_memory_task_change *change);
    /* An item has a new status, or is new: `from` is then PP_ITEM_STATUS_COUNT. */
    void (*item)(void *data, const struct pp_item *item, enum pp_item_status from);
    /* A photo of an open item has got its outcome; it had `from`. */
    void (*photo)(void *data, const struct pp_item *item, uint32_t idx, enum pp_outcome_kind from);
    void *data;
};

struct pp_memory_store_options {
    /* The server's clock, in ms. A port compares it with pp_loop_wall() of its loop, and converts
     * all leases and due times. NULL: the processes' clocks agree, and nothing is converted. */
    int64_t (*now_ms)(void *data);
    void *data;
    const struct pp_memory_observer *observer; /* outlives the server; NULL: none */
    /* Forgets the photos of an item with the item, and its revision number with its last revision:
     * for more photos than the memory has room for, if no later item has them. */
    bool forgets;
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
