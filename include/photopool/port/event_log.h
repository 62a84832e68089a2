/* event_log.h: keeps events for a while, in order of their numbers; the hub (events/hub.h) reads
 * the events and passes them to consumers.
 *
 * Any number of processes append and read. Rules that the contract suite
 * (tests/contract/suite_event_log.c) checks on every adapter:
 *  - Numbers grow from 1; the numbers of one append follow each other. A read after N returns every
 *    event kept above N, up to the last one returned: a reader that has seen event 7 can't miss
 *    event 6. A writer that dies leaves no unused number for which readers wait.
 *  - The log gives each number once, also after a restart, a kill -9 or a loss of its data. A log
 *    that can lose data (or go back in time) apart from the store has ops->begin: such a log gives
 *    only numbers of blocks that the store reserved for it (pp_store_numbers), and begins a new
 *    block when its data are new or may be older than before.
 *  - `cleaned` is the highest number that was cleaned away, or lost with everything below it. If
 *    only the latest events may be lost (a server came back with older data), the log has a gap
 *    event in their place: without key and type, with data {"from": first, "to": last} and number
 *    `to`.
 *
 * Requests are asynchronous as req.h says, and fail as task_store.h says. */
#ifndef PHOTOPOOL_PORT_EVENT_LOG_H
#define PHOTOPOOL_PORT_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "photopool/event.h"
#include "photopool/req.h"

/* Appends all events or none. PP_EUNKNOWN: the log may have the events; repeating the append then
 * adds them a second time, with new numbers. PP_ESTALE: the log has no numbers left; nothing was
 * appended; the caller calls begin() and repeats the append. PP_EFULL at done: the log has no room
 * (a Redis at its maxmemory). */
struct pp_log_append {
    struct pp_req req;
    struct pp_event *events; /* the events to append; the log sets the seq of each */
    size_t n;                /* number of events, up to 1000; 0: the log only checks whether it has numbers */
    uint64_t stale;          /* out, at PP_ESTALE: the caller passes this to begin() */
};

/* Gives the log the numbers first..end-1 (at least 1000, up to PP_EVENT_SEQ_MAX), which the caller
 * reserved in the store after PP_ESTALE. Returns PP_OK even if the log does not use them, because
 * another process was first or the log needs other numbers by now: the next append tells the caller
 * whether the log has numbers. */
struct pp_log_begin {
    struct pp_req req;
    uint64_t first, end;
    uint64_t stale; /* from the append that failed with PP_ESTALE; 0: from the latest append */
};

struct pp_log_read {
    struct pp_req req;
    uint64_t after;
    size_t limit; /* reads at most this many events, 1..1000 */
    /* the data of all events read have at most this many bytes, except if one event alone has
     * more */
    size_t max_bytes;
    /* The log sets the following fields. */
    struct pp_event *events;
    size_t n;
    uint64_t last;    /* the highest number that the log has given; 0: none yet */
    uint64_t cleaned; /* events up to this number may be missing; 0: none */
};

/* Deletes events older than `before_ms`, and the oldest while all data exceed max_bytes. */
struct pp_log_clean {
    struct pp_req req;
    int64_t before_ms;
    uint64_t max_bytes;
    size_t limit;   /* deletes at most this many events in one call */
    uint64_t n;     /* out: number of events deleted; if it equals `limit`, call again */
    uint64_t bytes; /* out: bytes of data that the log still has */
};

/* The asynchronous requests of every log: X(name, type of the request). */
#define PP_LOG_OPS(X)        \
    X(append, pp_log_append) \
    X(read, pp_log_read)     \
    X(clean, pp_log_clean)

struct pp_event_log;

struct pp_event_log_ops {
#define X(name, type) pp_must_check enum pp_err (*name)(struct pp_event_log * l, struct type * r);
    PP_LOG_OPS(X)
    /* Gives the log new numbers. NULL if append() never answers PP_ESTALE. */
    X(begin, pp_log_begin)
#undef X
    /* Calls cb(data) on the loop thread when any process may have appended, and when a lost
     * connection is back. A process has at most one watcher; cb NULL removes it. */
    void (*watch)(struct pp_event_log *l, void (*cb)(void *data), void *data);
    /* Returns the name and the number of the i-th kind of round trip, for metrics; false past the
     * last kind. */
    bool (*roundtrips)(struct pp_event_log *l, size_t i, const char **name, uint64_t *n);
    /* Frees the log. The caller calls this on the loop thread, after the last done(). May block
     * briefly. */
    void (*close)(struct pp_event_log *l);
};

/* Adapters embed this as their first member. */
struct pp_event_log {
    const struct pp_event_log_ops *ops;
};

#endif
