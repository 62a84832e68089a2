/* tasks.h: shared by the operations on tasks (claim.c, settle.c, reap.c). */
#ifndef PP_ADAPTER_MONGO_TASKS_H
#define PP_ADAPTER_MONGO_TASKS_H

#include "run.h"

/* --- candidates.c --- */

/* A waiting task as the claim's query returned it. */
struct pp_mg_candidate {
    /* the task with the epoch and attempts that the claim will give it; without client and handle
     */
    struct pp_task task;
    double due; /* due time in ms; its fraction keeps the order of planning */
    uint32_t hash;
    uint8_t queue;
    bool conditional; /* the fetch may be conditional, by the photo's validators */
};

/* The state of one want during a claim. */
struct pp_mg_wanted {
    const struct pp_claim_want *want;
    uint32_t left;  /* tasks still wanted, at most PP_MG_COMMAND_DOCS */
    uint32_t reach; /* most tasks of other ranges that a round takes; 0: its fair share */
    /* candidates to claim in this round, in t->tmp: own range first */
    struct pp_mg_candidate *found;
    size_t n_found, n_own;
    bool had_own;    /* the own range had due tasks in some round of this call */
    bool more;       /* other ranges have more due tasks, not taken because of `reach` */
    int64_t next_ms; /* first due time of the tasks that are not in `found`; INT64_MAX: none */
};

/* Finds the tasks that each want may claim: due tasks of its own range, earliest first, then tasks
 * of other ranges if its own has too few. The caller passes at most PP_MG_WANTS wants, no two of
 * the same queue. Strings are in `arena`. */
enum { PP_MG_WANTS = 200 };
void pp_mg_candidates(struct pp_mg_thread *t, struct pp_arena *arena, int64_t now_ms,
                      struct pp_mg_wanted *const *wanted, size_t n);

/* If nobody has finished a settled task after this time, the reaper finishes it. The time is longer
 * than a slow server needs for finishing. */
enum { PP_MG_FINISH_MS = 10000 };

/* --- lost.c --- */

/* Remembers a claim whose outcome is unknown: of the tasks with its nonce, only `known` were
 * handed out. pp_mg_lost_release() returns the others to waiting, as if never claimed, until
 * until_ms and once after. */
void pp_mg_lost_add(struct pp_mg_thread *t, const char *worker, int64_t nonce, int64_t until_ms,
                    const struct pp_key *known, size_t n);
/* Hands back tasks of remembered claims; costs little when there are none. */
void pp_mg_lost_release(struct pp_mg_thread *t, int64_t now_ms);
void pp_mg_lost_free(struct pp_mg *m);

#endif
