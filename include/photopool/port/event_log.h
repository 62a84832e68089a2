/* event_log.h: events in the order of their numbers, kept for a while: what the hub (pipeline/hub.h) reads.
 *
 * Any number of processes append and read. Rules that the contract suite (tests/contract/suite_event_log.c)
 * checks on every adapter:
 *  - Numbers only grow, from 1; those of one append follow each other. What is read after N is everything
 * kept above N up to the last one returned: a reader that has seen 7 never misses a 6. A writer that dies
 * leaves no hole that anybody waits for.
 *  - A number that was handed out once is never handed out again: not after a restart, not after kill -9, not
 * where the log's data were lost. A log whose data can be lost (or go back in time) apart from the store's
 * (ops->begin is not NULL) only hands out numbers of blocks that the store has reserved for it
 * (pp_store_numbers); with new data, or where its own may have gone back, it begins with a new block.
 *  - What was cleaned away is known by its highest number, `cleaned`; so is what was lost, where all below it
 * was lost, too. Where only the latest may be lost (a server came back with what it had some moments before),
 * what is below is still there, and a gap stands in the place of what isn't: an event with neither key nor
 * type, its data {"from": first, "to": last} of the numbers that may be missing, its own number `to`.
 *
 * Requests are asynchronous as req.h says. Permitted errors everywhere: PP_OK, PP_EFULL and PP_ECLOSED at
 * submit; PP_EIO, PP_ENOSPC, PP_ETIMEOUT, PP_EUNKNOWN, PP_ENOMEM, PP_ECORRUPT at done. */
#ifndef PHOTOPOOL_PORT_EVENT_LOG_H
#define PHOTOPOOL_PORT_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "photopool/event.h"
#include "photopool/req.h"

/* All or none of them. PP_EUNKNOWN: they may have been appended; appended again they have a second number.
 * PP_ESTALE: nothing was appended, the log needs numbers: begin(), then again. PP_EFULL at done: beyond what
 * the log can hold (a Redis at its maxmemory). */
struct pp_log_append {
    struct pp_req req;
    struct pp_event *events; /* out: their seq */
    size_t n;                /* up to 1000; 0: only asks whether there are numbers */
    uint64_t stale;          /* out, at PP_ESTALE: what is needed, for begin() */
};

/* Numbers first..end-1 (1000 at least, up to PP_EVENT_SEQ_MAX) are this log's: reserved in the store after an
 * append's PP_ESTALE, and never given to anybody before. Where the log has enough numbers meanwhile (another
 * process was quicker), or needs other ones by now, they are left unused, with PP_OK: the next append says
 * so.
 */
struct pp_log_begin {
    struct pp_req req;
    uint64_t first, end;
    uint64_t stale; /* of that append; 0: of the latest one */
};

struct pp_log_read {
    struct pp_req req;
    uint64_t after;
    size_t limit;     /* events, 1..1000 */
    size_t max_bytes; /* of their data together; at least one event is read */
    /* out */
    struct pp_event *events;
    size_t n;
    uint64_t last; /* the highest number handed out; 0: none yet. The reader is up to date where it has all up
                      to here */
    uint64_t cleaned; /* events up to this number may be missing; 0: nothing was ever cleaned away */
};

/* Forgets what is older than `before_ms`, and the oldest while all data together are more than max_bytes. */
struct pp_log_clean {
    struct pp_req req;
    int64_t before_ms;
    uint64_t max_bytes;
    size_t limit;   /* events a call, at most */
    uint64_t n;     /* out: forgotten; == limit: call again */
    uint64_t bytes; /* out: of data kept */
};

struct pp_event_log;

struct pp_event_log_ops {
    pp_must_check enum pp_err (*append)(struct pp_event_log *l, struct pp_log_append *r);
    /* NULL where append() never answers PP_ESTALE. */
    pp_must_check enum pp_err (*begin)(struct pp_event_log *l, struct pp_log_begin *r);
    pp_must_check enum pp_err (*read)(struct pp_event_log *l, struct pp_log_read *r);
    pp_must_check enum pp_err (*clean)(struct pp_event_log *l, struct pp_log_clean *r);
    /* cb(data): something may have been appended, by this process or another. On the loop thread; may come
     * for nothing, and where a connection was lost it comes once it is back. One watcher a process; NULL:
     * none. */
    void (*watch)(struct pp_event_log *l, void (*cb)(void *data), void *data);
    /* Round trips so far by kind, for metrics: any thread; false past the last. */
    bool (*roundtrips)(struct pp_event_log *l, size_t i, const char **name, uint64_t *n);
    /* After every request has come back, on the loop thread. May block briefly. */
    void (*close)(struct pp_event_log *l);
};

/* Adapters embed this as their first member. */
struct pp_event_log {
    const struct pp_event_log_ops *ops;
};

#endif
