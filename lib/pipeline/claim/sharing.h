/* sharing.h: one URL, one request: a worker's tasks ask who fetches their URL, follow the owner,
 * and take its outcome (core/shared.h, photopool/port/dedupe.h).
 *
 *   claimed --pp_sharing_ask--> owner: fetches, settles, --pp_sharing_tell--> the dedupe port
 *                        \--> follower: waits here, looks at the port --> takes the outcome,
 *                                                                     \-> or fetches after all
 *
 * Followers in this process hear of an outcome at once. For others a poll asks the port about all
 * followers together, SHARE_POLL_MS after the last answer. While the port fails, tasks fetch as if
 * there was no other. Everything runs on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_CLAIM_SHARING_H
#define PHOTOPOOL_PIPELINE_CLAIM_SHARING_H

#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "core/shared.h"
#include "photopool/task.h"
#include "pipeline/common/params.h"
#include "runtime/loop.h"

struct pp_sharing;

/* A task's part in sharing. It lives as long as the task's transfer. */
struct pp_sharing_task {
    struct pp_dedupe_row row; /* its key, its own name, and the port's latest answer */
    const struct pp_task *task;
    bool asked; /* false: the task does not share, and the other fields mean nothing */
    bool owns;  /* the task tells its outcome */
    bool told;  /* it has done so */
    /* The outcome that a follower has taken. Its texts are in `arena`. */
    bool taken;
    struct pp_shared outcome;
    struct pp_arena *arena; /* of the claim */
    /* While it follows: */
    struct pp_follow follow;
    struct pp_node node; /* in the list of the followers of its key */
    struct pp_sharing_key *key;
    size_t polled_at; /* 1 + its place in the poll in flight; 0: none */
    bool over;        /* its owner is to be replaced */
    void *data;       /* for the caller */
};

struct pp_sharing_options {
    struct pp_loop *loop;
    struct pp_log *log;
    const struct pp_params *params;
    struct pp_dedupe *dedupe;
    /* A follower ends: task->taken says whether it has an outcome; else it must be fetched. */
    void (*on_followed)(void *data, struct pp_sharing_task *t);
    void *data;
};

/* Opens the sharing of a worker. Everything in the options must outlive it. Returns NULL when out
 * of memory. */
struct pp_sharing *pp_sharing_open(const struct pp_sharing_options *options);
/* Closes it, when no task follows and pp_sharing_busy() is 0. `share` may be NULL. */
void pp_sharing_close(struct pp_sharing *share);
/* Returns the number of requests in flight. */
size_t pp_sharing_busy(const struct pp_sharing *share);
size_t pp_sharing_followers(const struct pp_sharing *share);

/* Fills in a task that may share. Copies nothing: `task` and `arena` must live as long as `t`. */
void pp_sharing_init(struct pp_sharing_task *t, const struct pp_task *task, struct pp_arena *arena);
/* Asks for all of the n tasks that were filled in, in one request; then calls then(data), later.
 * Returns false if there is nothing to ask or the port fails: then all tasks fetch, and `then` is
 * not called. */
bool pp_sharing_ask(struct pp_sharing *share, struct pp_sharing_task *tasks, size_t n,
                    void (*then)(void *data), void *data);

/* Decides about a task that could start now. Returns PP_FOLLOW_FETCH or PP_FOLLOW_TAKE, which ends
 * its part; or PP_FOLLOW_WAIT: it follows, and on_followed() tells its end. */
enum pp_follow_next pp_sharing_follow(struct pp_sharing *share, struct pp_sharing_task *t);
/* Ends all followers without an outcome, to hand their tasks back: calls each(data, t). */
void pp_sharing_give_up(struct pp_sharing *share, void (*each)(void *data, struct pp_sharing_task *t),
                        void *data);

/* An owner's task has ended. `outcome`: what it may share; NULL: nothing, so the key has no owner
 * from now on. The outcomes go out at the next pp_sharing_send(). */
void pp_sharing_tell(struct pp_sharing *share, const struct pp_sharing_task *t,
                     const struct pp_shared *outcome);
void pp_sharing_send(struct pp_sharing *share);

#endif
