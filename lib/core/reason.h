/* reason.h: says why open photos are open, and when the next of them starts.
 *
 *   classes of tasks (task_rules.h) + what the fleet does now (pp_reason_facts) --> reasons
 *
 * The facts are those of the whole fleet, so every process gives the same reasons: the client's
 * settings, and which tiers live workers serve, with room for more transfers. A task that has been
 * due for a while, although a worker of its tier has room, is held back by its client's limit:
 * workers serve a client whose limit permits it at once. Pure. All times are steady wall times in
 * ms. */
#ifndef PHOTOPOOL_CORE_REASON_H
#define PHOTOPOOL_CORE_REASON_H

#include "photopool/task_rules.h"

/* X(name, name in JSON) */
#define PP_REASONS(X)                                                             \
    X(QUEUED, "queued") /* next in line, or the workers are busy */               \
    X(IN_FLIGHT, "in_flight")                                                     \
    X(LIMIT, "limit")       /* the client's rate or concurrency is used up */     \
    X(PAUSED, "paused")     /* the client is paused */                            \
    X(RETRY, "retry")       /* an attempt failed, and the next is scheduled */    \
    X(HOST, "host")         /* the host's breaker is open, or the host is slow */ \
    X(UNSERVED, "unserved") /* no live worker serves the tier */

enum pp_reason {
#define X(id, name) PP_REASON_##id,
    PP_REASONS(X)
#undef X
        PP_REASON_COUNT
};

/* Returns the name of a reason, such as "in_flight". */
const char *pp_reason_name(enum pp_reason reason);

/* What is known of a client and of the fleet. */
struct pp_reason_facts {
    bool paused;
    /* The bits of queues: no live worker serves the queue; no worker of the queue has room. */
    uint32_t unserved, busy;
    uint32_t rpm;      /* the client's rate; 0: it has none */
    int64_t permit_ms; /* when the client's next permit is free; 0: this process does not know it */
    int64_t now_ms;
    /* how long a transfer of each queue takes at most */
    int64_t transfer_ms[PP_QUEUES];
};

/* Returns true if the list of tiers of a worker, "all" or seconds as in "1,5", has a tier with this
 * timeout. */
bool pp_reason_serves(const char *tiers, int64_t timeout_ms);

/* Returns why a task of this class in this queue has not ended. Of several reasons it is the one
 * that decides when the task starts. */
enum pp_reason pp_reason_of(const struct pp_reason_facts *f, uint8_t queue, enum pp_wait_class class);
/* Returns when a task of this reason and class starts that is due at due_ms. 0: nobody knows, or it
 * has started. */
int64_t pp_reason_start(const struct pp_reason_facts *f, enum pp_reason reason, enum pp_wait_class class,
                        int64_t due_ms);

struct pp_reasons {
    uint64_t photos[PP_REASON_COUNT];
    int64_t next_ms; /* the next start; 0: none, or nobody knows */
    /* By this time the last photo that waits for a time will have ended; 0: none waits so. */
    int64_t last_ms;
    bool held; /* some photos wait for a host to be up again; nobody knows when that is */
};

/* Sets *out for a batch with `open` open photos. The numbers add up to `open` exactly: photos that
 * are not planned yet are `queued`, and if only a part of the photos was counted, or the counts are
 * of different moments, the numbers are scaled. */
void pp_reasons_of(struct pp_reasons *out, const struct pp_reason_facts *f, const struct pp_waits *waits,
                   uint64_t open);

/* Returns in how many seconds the open photos will probably have ended, or -1 if nothing can be
 * said. `rate`: photos settled per second lately. While the client's limit holds photos back, the
 * limit counts, else `rate`; but no photo ends before it is due. */
double pp_reasons_eta(const struct pp_reasons *r, const struct pp_reason_facts *f, uint64_t open,
                      double rate);

#endif
