/* event_log.h: a fleet's event log in memory, for the simulator and for tests.
 *
 * The server has the data. Any number of processes share it, each through a port of its own. The
 * log can lose its latest data apart from the store, as the log on Redis can. So it gives only
 * numbers of blocks that the store has reserved, and each block is valid in one life of the server:
 * a loss begins a new life (adapter/redis/README.md, "The event log"). All functions must be called
 * on one thread. */
#ifndef PP_ADAPTER_MEMORY_EVENT_LOG_H
#define PP_ADAPTER_MEMORY_EVENT_LOG_H

#include "adapter/memory/call.h"
#include "adapter/memory/notice.h"
#include "photopool/port/event_log.h"
#include "runtime/loop.h"

struct pp_memory_event_log;

/* Any member may be zero. */
struct pp_memory_event_log_options {
    int64_t (*now_ms)(void *data); /* the server's clock, which never goes back; NULL: the boot time */
    /* The server's date. It protects events from a process whose date is ahead. NULL: the log
     * believes each process. */
    int64_t (*date_ms)(void *data);
    pp_memory_carry *carry; /* carries notices to watchers; NULL: they arrive at once */
    void *data;             /* for all functions of this struct */
    /* Called for each event that the log takes, with its number; NULL: not. */
    void (*appended)(void *data, const struct pp_event *e);
    uint64_t max_bytes; /* an append that would exceed this fails with PP_EFULL; 0: no bound */
};

/* The server can go back by at most this time, in ms. */
#define PP_MEMORY_EVENT_LOG_BACK_MS 5000

/* Makes an empty server. `o` may be NULL. Returns NULL when out of memory. */
struct pp_memory_event_log *pp_memory_event_log_new(const struct pp_memory_event_log_options *o);
/* Frees the server, when all its ports are closed or cut and no call can reach it any more.
 * `server` may be NULL. */
void pp_memory_event_log_free(struct pp_memory_event_log *server);

/* Opens a process's port to the server. `line` carries its requests, and must outlive the port.
 * NULL: the port has a plain line of its own. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_event_log_open(struct pp_loop *loop, struct pp_memory_event_log *server,
                                                   struct pp_memory_line *line, struct pp_event_log **out);
/* Detaches the port of a process that has crashed, and frees it. The requests in flight never end:
 * the line may run them, but must not end them, or may end them without effect as long as their
 * memory is there. */
void pp_memory_event_log_cut(struct pp_event_log *port);
/* The port has lost its connection to the server and has a new one: notices may be lost, so the
 * port calls its watcher. */
void pp_memory_event_log_reconnected(struct pp_event_log *port);

/* The server goes back to its state at the time `since_ms` of its clock, at most
 * PP_MEMORY_EVENT_LOG_BACK_MS ago: what was done later is undone. INT64_MIN: it loses all data. A
 * restart without a loss is a forget with the present time. All ports get a new connection. */
void pp_memory_event_log_forget(struct pp_memory_event_log *server, int64_t since_ms);

/* Returns the number of bytes of the data of all events, as pp_log_clean counts them. */
uint64_t pp_memory_event_log_bytes(const struct pp_memory_event_log *server);
/* Returns the number of bytes of the data of all events that were ever appended. */
uint64_t pp_memory_event_log_appended(const struct pp_memory_event_log *server);
/* Returns true if the log now has an event with a number in from..to, which is not a gap event. For
 * checks of invariants. */
bool pp_memory_event_log_has(const struct pp_memory_event_log *server, uint64_t from, uint64_t to);

#endif
