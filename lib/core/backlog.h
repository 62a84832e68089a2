/* backlog.h: which client has something due in which queue, and when: the index that claiming starts from, so
 * that an idle cycle costs nothing however many clients there are.
 *
 * It is a hint, rebuilt from the store: a due time that is too early costs a query that finds nothing, one
 * that is missing is put by the next announcement or rebuild. It holds one row per client, with the earliest
 * due time of each of its PP_QUEUES queues (port/task_store.h).
 *
 * Invariant: a client is in exactly one of two places: `ready`, a ring of those with something due, handed
 * out in turn so that a limited cycle starts where the last one stopped; or `later`, a heap ordered by due
 * time. Put, remove and due cost O(log clients). Times are milliseconds of the caller's clock. One thread at
 * a time. */
#ifndef PHOTOPOOL_CORE_BACKLOG_H
#define PHOTOPOOL_CORE_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"
#include "photopool/port/task_store.h"

/* A due time that never comes: the queue is empty. */
#define PP_BACKLOG_NEVER INT64_MAX
/* Every queue, as a mask. */
#define PP_BACKLOG_ALL ((1u << PP_QUEUES) - 1)

struct pp_backlog;

struct pp_backlog_due {
    const char *client; /* the index's; valid until it changes */
    uint32_t queues;    /* bit q: queue q has something due */
};

/* An empty index for at most max_clients clients (at least 1). NULL: out of memory. */
struct pp_backlog *pp_backlog_new(size_t max_clients);
void pp_backlog_free(struct pp_backlog *b);

/* Something of `queue` is due at due_ms: the earlier of this and what is there stays. PP_EFULL (a new client
 * beyond the bound), PP_ENOMEM: nothing has changed. */
pp_must_check enum pp_err pp_backlog_put(struct pp_backlog *b, const char *client, uint8_t queue,
                                         int64_t due_ms);

/* The queue's due time is due_ms, later or not; PP_BACKLOG_NEVER removes it. Errors as put, none where the
 * client is known already or due_ms is PP_BACKLOG_NEVER. */
pp_must_check enum pp_err pp_backlog_set(struct pp_backlog *b, const char *client, uint8_t queue,
                                         int64_t due_ms);

/* The queue has nothing. */
void pp_backlog_remove(struct pp_backlog *b, const char *client, uint8_t queue);

/* The client has nothing. */
void pp_backlog_drop(struct pp_backlog *b, const char *client);

/* The queue's due time, PP_BACKLOG_NEVER where it has nothing. */
int64_t pp_backlog_get(const struct pp_backlog *b, const char *client, uint8_t queue);

/* Clients with something due at now_ms in a queue of `mask`, at most cap, into out; returns how many. Each
 * moves to the end of the ring, so that calls go round all of them. Nothing is removed: the caller sets what
 * it learns. */
size_t pp_backlog_due(struct pp_backlog *b, int64_t now_ms, uint32_t mask, struct pp_backlog_due *out,
                      size_t cap);

/* When something is next due: now_ms if something is already; PP_BACKLOG_NEVER if there is nothing. */
int64_t pp_backlog_next_ms(const struct pp_backlog *b, int64_t now_ms);

/* Clients in the index. */
size_t pp_backlog_count(const struct pp_backlog *b);

#endif
