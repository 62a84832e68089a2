/* tasks.h: what the operations on tasks share (claim.c, settle.c, renew.c, reap.c). */
#ifndef PP_ADAPTER_MONGO_TASKS_H
#define PP_ADAPTER_MONGO_TASKS_H

#include "run.h"

/* Of one call: random and positive, so that no two claims and no two settlements are taken for each other. */
int64_t pp_mg_nonce(void);

/* --- candidates.c --- */

/* A waiting task as the claim's query found it. */
struct pp_mg_candidate {
    struct pp_task task; /* epoch and attempts as they are once it is claimed; without client and handle */
    double due;          /* when, in ms; fractions are the order of planning */
    uint32_t hash;
    uint8_t queue;
};

/* One want of a claim, while it is worked off. */
struct pp_mg_wanted {
    const struct pp_claim_want *want;
    uint32_t left;                 /* tasks still wanted, at most PP_MG_COMMAND_DOCS */
    uint32_t reach;                /* of others' tasks, so many at once; 0: its fair share of what there is */
    struct pp_mg_candidate *found; /* to be claimed now, in t->tmp: own ones, then others' */
    size_t n_found, n_own;
    bool had_own;    /* in this call */
    bool more;       /* others have more that is due; not taken because of `reach` */
    int64_t next_ms; /* the first due time of what is not among `found`; INT64_MAX: there is nothing */
};

/* What each of these wants, at most PP_MG_WANTS of them and no queue twice, may claim: due tasks of its own
 * range, earliest first, then others' where these are too few. Strings are in `arena`. */
enum { PP_MG_WANTS = 200 };
pp_must_check enum pp_err pp_mg_candidates(struct pp_mg_thread *t, struct pp_arena *arena, int64_t now_ms,
                                           struct pp_mg_wanted *const *wanted, size_t n);

/* --- settle.c --- */

enum { PP_MG_SUSPECT = 2, PP_MG_QUARANTINE = 3 }; /* losses */

/* How a claimed task goes back to waiting. */
struct pp_mg_back {
    uint8_t tier, losses;
    int64_t due_ms, nonce;
    bool uncounted; /* the attempt */
};
/* Appends the operators of the update. */
void pp_mg_build_back(bson_t *update, const struct pp_mg_back *back);

/* --- forget.c --- */

/* A settled task that is finished: all items have its outcome. */
struct pp_mg_settled {
    const char *client;
    struct pp_key key;
    int64_t nonce; /* t.n, as the settlement left it */
};
/* Deletes them, unless somebody has settled another one of the same photo since. Failure is not told: who is
 * left is found again. */
void pp_mg_forget(struct pp_mg_thread *t, const struct pp_mg_settled *settled, size_t n);

/* --- lost.c --- */

/* Remembers that tasks with this nonce may be `worker`'s, though only `known` of them were handed out: the
 * others go back, as if never claimed, with the next pp_mg_lost_release() that gets through before until_ms.
 */
void pp_mg_lost_add(struct pp_mg_thread *t, const char *worker, int64_t nonce, int64_t until_ms,
                    const struct pp_key *known, size_t n);
/* Cheap when there are none. */
void pp_mg_lost_release(struct pp_mg_thread *t, int64_t now_ms);

#endif
