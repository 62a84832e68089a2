/* task_rules.h: the rules of a task's life, each written once; stores, claiming, settling and the
 * API use these functions. The functions are pure; any thread may call them.
 *
 *             CLAIM              SUCCEED KEEP FAIL QUARANTINE
 *   WAITING ---------> CLAIMED ------------------------------> STORED UNCHANGED FAILED QUARANTINED
 *    |   ^              |   |
 *    |   '--------------'   '--- CANCEL ---> CANCELLED
 *    |  RELEASE RETRY PROMOTE LAPSE              ^
 *    '------------- CANCEL ----------------------'
 *
 * The table has every transition; a new transition is a new row. A store calls pp_task_after() for
 * each change and writes the change as a compare-and-set on the old state. States without a
 * transition are terminal: the store deletes the task's row, and its waiters have their outcome. */
#ifndef PHOTOPOOL_TASK_RULES_H
#define PHOTOPOOL_TASK_RULES_H

#include "base/check.h"
#include "photopool/code.h"
#include "photopool/shared_constants.h"
#include "photopool/task.h"

/* --- states and transitions --- */

#define PP_TASK_STATES(X)                                                     \
    X(WAITING) /* the task waits for its due time and for a worker */         \
    X(CLAIMED) /* a worker has claimed the task, with an epoch and a lease */ \
    X(STORED)                                                                 \
    X(UNCHANGED)                                                              \
    X(FAILED)                                                                 \
    X(CANCELLED)                                                              \
    X(QUARANTINED)

enum pp_task_state {
#define X(id) PP_TASK_##id,
    PP_TASK_STATES(X)
#undef X
        PP_TASK_STATE_COUNT
};

#define PP_TASK_EVENTS(X)                                                                     \
    X(CLAIM)                                                                                  \
    X(RELEASE)    /* the worker hands the task back; this does not count as an attempt */     \
    X(RETRY)      /* the task waits for another attempt */                                    \
    X(PROMOTE)    /* the task waits for an attempt in another tier */                         \
    X(SUCCEED)    /* the worker has fetched the bytes */                                      \
    X(KEEP)       /* the known bytes are still valid */                                       \
    X(FAIL)       /* the attempt failed, and no other follows */                              \
    X(LAPSE)      /* the lease ended before the worker settled or renewed the task: a loss */ \
    X(CANCEL)     /* the task's last waiter is superseded or cancelled */                     \
    X(QUARANTINE) /* the task has been lost PP_LOSSES_QUARANTINE times */

enum pp_task_event {
#define X(id) PP_EVENT_##id,
    PP_TASK_EVENTS(X)
#undef X
        PP_TASK_EVENT_COUNT
};

/* Every transition: X(state before, event, state after). */
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

/* Returns the state after `event` in state `from`, or PP_TASK_STATE_COUNT if the table has no such
 * transition. */
static inline enum pp_task_state pp_task_next(enum pp_task_state from, enum pp_task_event event)
{
#define X(f, e, to)                                   \
    if (from == PP_TASK_##f && event == PP_EVENT_##e) \
        return PP_TASK_##to;
    PP_TASK_TRANSITIONS(X)
#undef X
    return PP_TASK_STATE_COUNT;
}

/* Returns the state after an event that the caller knows to be legal in state `from`. */
static inline enum pp_task_state pp_task_after(enum pp_task_state from, enum pp_task_event event)
{
    enum pp_task_state to = pp_task_next(from, event);
    pp_assert(to != PP_TASK_STATE_COUNT, "a task changes as the table of transitions does not allow");
    return to;
}

/* --- losses of a task, and the queue in which it waits --- */

/* A loss is a claim whose lease lapsed. Losses are counted since the task was opened. */
enum {
    /* after this many losses the task is a suspect, and a worker runs one suspect at a time */
    PP_LOSSES_SUSPECT = 2,
    /* the task was lost also as a suspect, so it probably crashes workers */
    PP_LOSSES_QUARANTINE = 3
};

static inline bool pp_task_suspect(uint32_t losses)
{
    return losses >= PP_LOSSES_SUSPECT;
}

/* Returns the queue in which a task of `tier` (below PP_QUEUE_SUSPECT) waits after `losses`
 * losses. */
static inline uint8_t pp_queue_of(uint8_t tier, uint32_t losses)
{
    return pp_task_suspect(losses) ? PP_QUEUE_SUSPECT : tier;
}

/* Returns the event for a task that has now been lost `losses` times: LAPSE or QUARANTINE. */
static inline enum pp_task_event pp_task_loss_event(uint32_t losses)
{
    return losses >= PP_LOSSES_QUARANTINE ? PP_EVENT_QUARANTINE : PP_EVENT_LAPSE;
}

/* --- waiting for a host --- */

/* A waiting task can be parked: while its host is open or slow, it is not due. A parked task keeps
 * the time at which it would be due without its host, and is due at that time again once it is
 * unparked. A task also knows until when it waits for its host at most (wait_until_ms; 0: it does
 * not wait). It is due at that time at the latest, unless its own time is later; the worker that
 * claims it then decides what becomes of it.
 *
 * The functions of this section say when a task is due. All times are steady wall times. */
struct pp_task_times {
    int64_t due_ms;
    int64_t own_ms; /* if the task is parked: when it would be due without its host; else 0 */
    int64_t wait_until_ms;
};

/* Returns the times of a task that is due at `own_ms` without its host, and is parked until
 * `park_ms` (0: not). */
static inline struct pp_task_times pp_task_times_of(int64_t own_ms, int64_t park_ms, int64_t wait_until_ms)
{
    if (wait_until_ms != 0 && wait_until_ms < park_ms)
        park_ms = wait_until_ms;
    bool parked = park_ms > own_ms;
    return (struct pp_task_times){
        .due_ms = parked ? park_ms : own_ms, .own_ms = parked ? own_ms : 0, .wait_until_ms = wait_until_ms};
}

/* Parks a task that is due before `park_ms`. The task gets `wait_until_ms` unless it has one; 0: it
 * gets none. It never becomes due earlier. Returns false if nothing changes. */
static inline bool pp_task_park(struct pp_task_times *t, int64_t park_ms, int64_t wait_until_ms)
{
    int64_t until = t->wait_until_ms ? t->wait_until_ms : wait_until_ms;
    int64_t own = t->own_ms ? t->own_ms : t->due_ms;
    struct pp_task_times to = pp_task_times_of(own, park_ms, until);
    if (t->due_ms >= park_ms)
        return false;
    if (to.due_ms < t->due_ms) {
        to.due_ms = t->due_ms;
        to.own_ms = t->own_ms;
    }
    bool changed = to.due_ms != t->due_ms || until != t->wait_until_ms;
    *t = to;
    return changed;
}

/* Lets a task be due without its host, but not before now. Returns false if nothing changes. */
static inline bool pp_task_unpark(struct pp_task_times *t, int64_t now_ms)
{
    int64_t own = t->own_ms > now_ms ? t->own_ms : now_ms;
    bool changed = t->own_ms != 0 || t->wait_until_ms != 0;
    if (t->own_ms != 0 && own < t->due_ms)
        t->due_ms = own;
    t->own_ms = t->wait_until_ms = 0;
    return changed;
}

/* Lets a parked task out as a probe of its host: it is due now, and waits on for its host. Returns
 * false if the task is not parked, or would not be due now without its host. */
static inline bool pp_task_probe(struct pp_task_times *t, int64_t now_ms)
{
    if (t->own_ms == 0 || t->own_ms > now_ms || t->due_ms <= now_ms)
        return false;
    t->due_ms = now_ms;
    t->own_ms = 0;
    return true;
}

/* Sets when a task is due without its host; if it is parked, it stays so. */
static inline void pp_task_retime(struct pp_task_times *t, int64_t own_ms)
{
    bool parked = t->own_ms != 0 && own_ms < t->due_ms;
    t->own_ms = parked ? own_ms : 0;
    t->due_ms = parked ? t->due_ms : own_ms;
}

/* --- why open photos wait --- */

/* The state of an open photo's task, as far as it decides why the photo is open (core/reason.h). */
enum pp_wait_class {
    PP_WAIT_CLAIMED, /* a worker has it, or its outcome is on its way to the item */
    PP_WAIT_HELD,    /* parked until its host is probed, or the task has waited as long as it may */
    PP_WAIT_PARKED,  /* parked until a time that the host has asked for */
    PP_WAIT_RETRY,   /* an attempt failed, and the next one is not due yet */
    PP_WAIT_LATER,   /* not due yet, and never tried */
    PP_WAIT_DUE,     /* due since at most PP_WAIT_NEXT_MS */
    PP_WAIT_OVERDUE, /* due for longer: something holds it back */
    PP_WAIT_CLASSES
};

/* The task of an open photo. */
struct pp_wait_task {
    bool claimed, parked;
    uint8_t queue;
    uint32_t attempts;
    int64_t due_ms, wait_until_ms;
};

/* Open photos whose tasks are in one queue and one class. The times are steady wall times: when the
 * first and the last of these tasks is due. */
struct pp_wait_group {
    uint64_t photos;
    int64_t first_ms, last_ms;
};

/* The open photos of a batch, by the queue and the class of their tasks. */
struct pp_waits {
    struct pp_wait_group at[PP_QUEUES][PP_WAIT_CLASSES];
    uint64_t photos; /* their number in all */
    bool more;       /* the batch has more of them, which were not read */
};

enum { PP_WAIT_NEXT_MS = 2000 }; /* a free worker starts a due task well within this time */

static inline enum pp_wait_class pp_wait_class_of(const struct pp_wait_task *w, int64_t now_ms)
{
    if (w->claimed)
        return PP_WAIT_CLAIMED;
    if (w->due_ms <= now_ms)
        return now_ms - w->due_ms > PP_WAIT_NEXT_MS ? PP_WAIT_OVERDUE : PP_WAIT_DUE;
    if (w->parked)
        return w->wait_until_ms != 0 && w->due_ms >= w->wait_until_ms ? PP_WAIT_HELD : PP_WAIT_PARKED;
    return w->attempts > 0 ? PP_WAIT_RETRY : PP_WAIT_LATER;
}

/* Adds `n` photos that wait for one task to the counts of their batch. */
static inline void pp_waits_add(struct pp_waits *waits, const struct pp_wait_task *w, uint64_t n,
                                int64_t now_ms)
{
    pp_assert(w->queue < PP_QUEUES, "a photo waits in an unknown queue");
    struct pp_wait_group *g = &waits->at[w->queue][pp_wait_class_of(w, now_ms)];
    if (g->photos == 0 || w->due_ms < g->first_ms)
        g->first_ms = w->due_ms;
    if (g->photos == 0 || w->due_ms > g->last_ms)
        g->last_ms = w->due_ms;
    g->photos += n;
    waits->photos += n;
}

/* Returns true if the attempt timed out (PROMOTE in code.h), so that the task goes to the next
 * tier. */
static inline bool pp_code_timed_out(uint16_t code)
{
    return pp_code_info(code)->retry == PP_PROMOTE;
}

/* --- items and settlements --- */

/* Returns the final status of an item whose n photos are all terminal. `with_bytes` of these photos
 * have an object. An item without photos is complete. */
static inline enum pp_item_status pp_item_status(uint32_t n, uint32_t with_bytes)
{
    pp_assert(with_bytes <= n, "an item has more photos with bytes than photos");
    if (with_bytes == n)
        return PP_ITEM_COMPLETE;
    return with_bytes == 0 ? PP_ITEM_FAILED : PP_ITEM_PARTIAL;
}

/* Returns the event of a settlement, or PP_TASK_EVENT_COUNT if the settlement is not valid; then
 * the store answers PP_EINVAL and writes none of the settlements of the call. */
static inline enum pp_task_event pp_settlement_event(const struct pp_settlement *s)
{
    if (s->kind == PP_SETTLE_FINAL) {
        switch (s->outcome.kind) {
        case PP_OUTCOME_STORED: return PP_EVENT_SUCCEED;
        case PP_OUTCOME_UNCHANGED: return PP_EVENT_KEEP;
        case PP_OUTCOME_FAILED: return PP_EVENT_FAIL;
        default: return PP_TASK_EVENT_COUNT;
        }
    }
    if (s->tier >= PP_QUEUE_SUSPECT)
        return PP_TASK_EVENT_COUNT;
    if (s->kind == PP_SETTLE_RELEASE)
        return PP_EVENT_RELEASE;
    return s->tier == s->task->tier ? PP_EVENT_RETRY : PP_EVENT_PROMOTE;
}

static inline bool pp_settlements_valid(const struct pp_settlement *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pp_settlement_event(&s[i]) == PP_TASK_EVENT_COUNT)
            return false;
    return true;
}

/* Returns the record of a photo that had two, under two spellings of its URL: the bytes that were
 * fetched later, and the later failure if it came after them. */
static inline struct pp_photo pp_photo_merged(const struct pp_photo *a, const struct pp_photo *b)
{
    struct pp_photo out = a->fetched_at > b->fetched_at ? *a : *b;
    const struct pp_photo *failed = a->failed_at > b->failed_at ? a : b;
    bool fails = failed->fail_code && failed->failed_at > out.fetched_at;
    out.fail_code = fails ? failed->fail_code : 0;
    out.fail_streak = fails ? failed->fail_streak : 0;
    out.skips = fails ? failed->skips : 0;
    out.failed_at = fails ? failed->failed_at : 0;
    out.fail_detail = fails ? failed->fail_detail : NULL;
    out.found = out.object.type != 0 || fails;
    return out;
}

/* Returns the outcome with which an OPEN photo without a task is planned. If another task stored
 * the photo's bytes between its look-up and its planning (`record` is newer), the outcome is
 * UNCHANGED with the object of `record`, as if the photo had waited for that task. In all other
 * cases, and whenever photo->always is set, the outcome is OPEN. */
static inline struct pp_outcome pp_plan_photo_late(const struct pp_plan_photo *photo,
                                                   const struct pp_photo *record)
{
    struct pp_outcome o = {.kind = PP_OUTCOME_OPEN};
    if (photo->always || record->object.type == 0 || record->fetched_at == photo->known_fetched_at)
        return o;
    o.kind = PP_OUTCOME_UNCHANGED;
    o.object = record->object;
    o.fetched_at = record->fetched_at;
    return o;
}

#endif
