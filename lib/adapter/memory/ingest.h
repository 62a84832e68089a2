/* ingest.h: a fleet's ingest queue in memory, for the simulator and for tests.
 *
 * The server has the data. Any number of processes share it, each through a port of its own, as the
 * processes of a fleet share the queue on Redis (adapter/redis/README.md): an entry that a planner
 * took goes to another one when that planner has closed its port or was silent for silence_ms; a
 * client's entries go to one planner at a time, oldest first. The queue can be both queues of a
 * journal (adapter/journal). Unlike the queue on Redis, a port never repeats a request.
 *
 * The server can lose its latest data, or all of them, as Redis can. All functions must be called
 * on one thread. */
#ifndef PP_ADAPTER_MEMORY_INGEST_H
#define PP_ADAPTER_MEMORY_INGEST_H

#include "adapter/memory/call.h"
#include "adapter/memory/notice.h"
#include "photopool/port/ingest_queue.h"
#include "runtime/loop.h"

struct pp_memory_ingest;

/* Any member may be zero. */
struct pp_memory_ingest_options {
    int64_t (*now_ms)(void *data); /* the server's clock, which never goes back; NULL: the boot time */
    /* The server's date. Ports translate the times of idempotency records to it. NULL: the queue
     * believes each process. */
    int64_t (*date_ms)(void *data);
    pp_memory_carry *carry; /* carries notices to watchers; NULL: they arrive at once */
    void *data;             /* for the functions above */
    int64_t silence_ms;     /* a planner loses its entries after this silence; 0: 30 s */
    int64_t key_ttl_ms;     /* the server keeps idempotency records for this time; 0: 25 h */
};

/* The server can go back by at most this time, in ms. */
#define PP_MEMORY_INGEST_BACK_MS 5000

/* Makes an empty server. `o` may be NULL. Returns NULL when out of memory. */
struct pp_memory_ingest *pp_memory_ingest_new(const struct pp_memory_ingest_options *o);
/* Frees the server, when all its ports are closed or cut and no call can reach it any more.
 * `server` may be NULL. */
void pp_memory_ingest_free(struct pp_memory_ingest *server);

/* Opens a process's port to the server. `line` carries its requests, and must outlive the port and
 * the requests. NULL: the port has a plain line of its own. All takes of a port must have the same
 * consumer. Closing the port gives the entries that its planner has back to the queue, by a last
 * request on the line. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_ingest_open(struct pp_loop *loop, struct pp_memory_ingest *server,
                                                struct pp_memory_line *line, struct pp_ingest_queue **out);
/* Detaches the port of a process that has crashed, and frees it. The requests in flight never end:
 * the line may run them, but must not end them, or may end them without effect as long as their
 * memory is there. The server takes the entries of the planner for silent after silence_ms. */
void pp_memory_ingest_cut(struct pp_ingest_queue *port);
/* The port has lost its connection to the server and has a new one: notices may be lost, so the
 * port wakes its watcher. */
void pp_memory_ingest_reconnected(struct pp_ingest_queue *port);

/* The server goes back to its state at the time `since_ms` of its clock, at most
 * PP_MEMORY_INGEST_BACK_MS ago: what was done later is undone. INT64_MIN: it loses all data. All
 * ports get a new connection. */
void pp_memory_ingest_forget(struct pp_memory_ingest *server, int64_t since_ms);

/* An entry, for checks of invariants. */
struct pp_memory_ingest_row {
    const struct pp_ingest_entry *entry; /* with its payload, and the number of deliveries so far */
    const char *planner;                 /* who has taken it; NULL: it waits, or is set aside */
    bool aside;                          /* it is poisoned */
};

/* Calls cb() for each entry that is not acked: those that wait or are taken in the order in which
 * they were appended, and then those set aside. cb() must not change the queue; what it gets is
 * valid until it returns. */
void pp_memory_ingest_each(const struct pp_memory_ingest *server,
                           void (*cb)(void *data, const struct pp_memory_ingest_row *row), void *data);

#endif
