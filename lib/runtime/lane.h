/* lane.h: bounded threads for what blocks: a database driver, the disk, hashing.
 *
 * A lane has `threads` threads and one queue of jobs. A thread takes up to `max_batch` jobs at once and hands
 * them to the lane's batch function, so that a database can put them into one transaction. Done jobs go back,
 * in one batch, to the loop that sent them, where each job's callback fires exactly once.
 *
 *   loop --pp_lane_submit--> [queue, bounded] --batch()--> thread --mailbox--> loop: job->done(job)
 *
 * Jobs are owned by the caller and embed struct pp_job. A lane serves several loops. */
#ifndef PP_RUNTIME_LANE_H
#define PP_RUNTIME_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "photopool/req.h"
#include "runtime/loop.h"
#include "runtime/mailbox.h"

struct pp_lane;
struct pp_lane_home; /* a loop's return address on a lane */

struct pp_job {
    struct pp_mail mail;       /* the lane's while the job is under way */
    struct pp_lane_home *home; /* set by submit */
    void (*work)(void *state,
                 struct pp_job *job); /* on the lane's thread; may be NULL where batch() is given */
    void (*done)(struct pp_job *job); /* on the loop that submitted */
};

struct pp_lane_options {
    const char *name; /* of the threads, at most 15 characters; copied */
    unsigned threads; /* 1..64 */
    size_t capacity;  /* jobs waiting, at most */
    size_t max_batch; /* jobs per call of batch(), 1..4096 */
    /* Runs the jobs on the lane's thread; NULL: each job's work() in turn. `state` is per thread. */
    void (*batch)(void *state, struct pp_job **jobs, size_t n);
    /* Makes and frees a thread's state, on that thread (a database connection). May be NULL: state is then
     * `data`. open() answering NULL makes pp_lane_open() fail. */
    void *(*open)(void *data);
    void (*close)(void *state);
    void *data;
    /* Called on the thread whenever no job has come for idle_ms: the heartbeats of a connection. May be NULL;
     * for lanes of one thread. */
    void (*idle)(void *state);
    int64_t idle_ms;
};

/* Starts the threads and waits until each has opened its state. NULL on failure. */
struct pp_lane *pp_lane_open(const struct pp_lane_options *options);
/* The return address for jobs that `loop` submits; one per loop and lane. On the loop's thread. */
struct pp_lane_home *pp_lane_home_open(struct pp_lane *lane, struct pp_loop *loop);
/* After the last of its jobs has come back; also within that job's done(), and after pp_lane_close(). NULL is
 * fine. */
void pp_lane_home_close(struct pp_lane_home *home);

/* PP_OK: job->done fires exactly once, later, on the loop. PP_EFULL, PP_ECLOSED: it never fires. On the
 * home's loop thread. */
pp_must_check enum pp_err pp_lane_submit(struct pp_lane_home *home, struct pp_job *job);
/* A request of a port: req->err = run(state, req) on a thread, then req->done as a job's. Answers as
 * pp_lane_submit(); not for lanes with a batch(). */
pp_must_check enum pp_err pp_lane_request(struct pp_lane_home *home, struct pp_req *req,
                                          enum pp_err (*run)(void *state, struct pp_req *req));
/* Jobs and requests of this home that have not come back; one whose done() runs has. On the home's loop
 * thread. */
size_t pp_lane_under_way(const struct pp_lane_home *home);
/* Jobs waiting or running now. Any thread. */
size_t pp_lane_load(const struct pp_lane *lane);
/* Refuses new jobs, finishes those submitted, joins the threads. May block: at the end of a process, or from
 * a thread that may. The done callbacks fire when the homes' loops turn next. */
void pp_lane_close(struct pp_lane *lane);

#endif
