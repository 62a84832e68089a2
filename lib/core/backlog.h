/* backlog.h: an index of due tasks: which client has a task due in which queue, and when. Each
 * claim cycle starts from the index, so a cycle with nothing due costs nothing, even with many
 * clients.
 *
 * The index is a hint and can be rebuilt from the store. A due time that is too early costs a query
 * that finds nothing; the next announcement or rebuild adds a missing due time. The index has one
 * row per client, with the earliest due time of each of its PP_QUEUES queues.
 *
 * Invariant: a client is in exactly one of two places: `ready`, a ring of clients with something
 * due, or `later`, a heap ordered by due time. pp_backlog_due() returns the clients of the ring in
 * turn, so that a cycle that can serve only some of them starts where the last one stopped. Put,
 * remove and due cost O(log clients). Times are in ms of the caller's clock. Only one thread at a
 * time may use an index. */
#ifndef PHOTOPOOL_CORE_BACKLOG_H
#define PHOTOPOOL_CORE_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"
#include "photopool/port/task_store.h"

/* The due time of an empty queue. */
#define PP_BACKLOG_NEVER INT64_MAX
/* The mask that selects all queues of a client. */
#define PP_BACKLOG_ALL ((1u << PP_QUEUES) - 1)

struct pp_backlog;

struct pp_backlog_due {
    /* id of the client; the index owns the text, which is valid until the index changes */
    const char *client;
    uint32_t queues; /* bit q is set if queue q has a due task */
};

/* Returns an empty index for at most max_clients clients (at least 1), or NULL when out of memory.
 */
struct pp_backlog *pp_backlog_new(size_t max_clients);
void pp_backlog_free(struct pp_backlog *b);

/* Notes that a task of `queue` is due at due_ms; if the queue has an earlier due time, that stays.
 * PP_EFULL (a new client beyond max_clients) and PP_ENOMEM change nothing. */
pp_must_check enum pp_err pp_backlog_put(struct pp_backlog *b, const char *client, uint8_t queue,
                                         int64_t due_ms);

/* Replaces the queue's due time; PP_BACKLOG_NEVER removes it. For a client that is not in the
 * index, this can fail like pp_backlog_put(). */
pp_must_check enum pp_err pp_backlog_set(struct pp_backlog *b, const char *client, uint8_t queue,
                                         int64_t due_ms);

/* Removes the queue's due time. */
void pp_backlog_remove(struct pp_backlog *b, const char *client, uint8_t queue);

/* Removes all due times of the client. */
void pp_backlog_drop(struct pp_backlog *b, const char *client);

/* Returns the queue's due time, or PP_BACKLOG_NEVER if there is none. */
int64_t pp_backlog_get(const struct pp_backlog *b, const char *client, uint8_t queue);

/* Returns the client's queues with a due time of due_ms or earlier, one bit for each. */
uint32_t pp_backlog_queues(const struct pp_backlog *b, const char *client, int64_t due_ms);

/* Finds clients with a task due at now_ms in a queue of `mask`. Writes at most `cap` of them into
 * `out` and returns how many. Each moves to the end of the ring. Their due times stay; the caller
 * sets new ones. */
size_t pp_backlog_due(struct pp_backlog *b, int64_t now_ms, uint32_t mask, struct pp_backlog_due *out,
                      size_t cap);

/* Returns the earliest due time, at least now_ms; PP_BACKLOG_NEVER if the index is empty. */
int64_t pp_backlog_next_ms(const struct pp_backlog *b, int64_t now_ms);

#endif
