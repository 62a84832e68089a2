/* task_state.h: the states of a task and the one table of transitions between them (rule I9).
 *
 *             CLAIM              SUCCEED KEEP FAIL QUARANTINE
 *   WAITING ---------> CLAIMED ------------------------------> STORED UNCHANGED FAILED QUARANTINED
 *    |   ^              |   |
 *    |   '--------------'   '--- CANCEL ---> CANCELLED
 *    |  RELEASE RETRY PROMOTE LAPSE              ^
 *    '------------- CANCEL ----------------------'
 *
 * core/task.h decides by this table; a store applies a transition as compare-and-set on the state it starts
 * from, and refuses what pp_task_legal() does not list. States without a way out are terminal. The table is
 * all there is: a new transition is a new row. State numbers may be stored: append, never renumber. */
#ifndef PHOTOPOOL_TASK_STATE_H
#define PHOTOPOOL_TASK_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Identifier, name. */
#define PP_TASK_STATES(X)                                              \
    X(WAITING, "waiting") /* for its due time and a worker */          \
    X(CLAIMED, "claimed") /* by a worker, with an epoch and a lease */ \
    X(STORED, "stored")                                                \
    X(UNCHANGED, "unchanged")                                          \
    X(FAILED, "failed")                                                \
    X(CANCELLED, "cancelled") /* nobody waits for it any more */       \
    X(QUARANTINED, "quarantined")

enum pp_task_state {
#define X(id, name) PP_TASK_##id,
    PP_TASK_STATES(X)
#undef X
        PP_TASK_STATE_COUNT
};

#define PP_TASK_EVENTS(X)                                              \
    X(CLAIM, "claim")                                                  \
    X(RELEASE, "release") /* handed back, not counted as an attempt */ \
    X(RETRY, "retry")     /* again, later */                           \
    X(PROMOTE, "promote") /* again, in the next tier */                \
    X(SUCCEED, "succeed") /* bytes were fetched */                     \
    X(KEEP, "keep")       /* the bytes known before are still right */ \
    X(FAIL, "fail")       /* for good */                               \
    X(LAPSE, "lapse")     /* the lease ran out: a loss */              \
    X(CANCEL, "cancel")                                                \
    X(QUARANTINE, "quarantine") /* lost once too often */

enum pp_task_event {
#define X(id, name) PP_EVENT_##id,
    PP_TASK_EVENTS(X)
#undef X
        PP_TASK_EVENT_COUNT
};

/* From, event, to. */
#define PP_TASK_TRANSITIONS(X)    \
    X(WAITING, CLAIM, CLAIMED)    \
    X(WAITING, CANCEL, CANCELLED) \
    X(CLAIMED, RELEASE, WAITING)  \
    X(CLAIMED, RETRY, WAITING)    \
    X(CLAIMED, PROMOTE, WAITING)  \
    X(CLAIMED, LAPSE, WAITING)    \
    X(CLAIMED, SUCCEED, STORED)   \
    X(CLAIMED, KEEP, UNCHANGED)   \
    X(CLAIMED, FAIL, FAILED)      \
    X(CLAIMED, CANCEL, CANCELLED) \
    X(CLAIMED, QUARANTINE, QUARANTINED)

/* The states that a task in `from` may go to, as a mask of 1 << state; 0: terminal, or no state. */
static inline uint32_t pp_task_ways_out(enum pp_task_state from)
{
    uint32_t mask = 0;
#define X(f, event, to)      \
    if (from == PP_TASK_##f) \
        mask |= UINT32_C(1) << PP_TASK_##to;
    PP_TASK_TRANSITIONS(X)
#undef X
    return mask;
}

/* May a task go from one state to the other? Staying is no transition. */
static inline bool pp_task_legal(enum pp_task_state from, enum pp_task_state to)
{
    return (unsigned)to < PP_TASK_STATE_COUNT && (pp_task_ways_out(from) >> to & 1);
}

static inline bool pp_task_terminal(enum pp_task_state state)
{
    return pp_task_ways_out(state) == 0;
}

#endif
