/* lane.h: a bounded number of threads for calls that block: to a database driver, to the disk, for
 * hashing.
 *
 * A lane has `threads` threads and one queue of jobs. A thread takes up to `max_batch` jobs
 * together and hands them to the lane's batch function, so that a database can put them into one
 * transaction. Jobs that are done go back in one batch to the loop that sent them, where each job's
 * callback fires exactly once.
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
struct pp_lane_home; /* a loop that submits jobs to a lane, and to which they come back */

struct pp_job {
    struct pp_mail mail;       /* used by the lane while the job is in flight */
    struct pp_lane_home *home; /* set when the job is submitted */
    /* Does the work on one of the lane's threads; may be NULL if the lane has batch(). */
    void (*work)(void *state, struct pp_job *job);
    void (*done)(struct pp_job *job); /* called on the loop that submitted the job */
};

struct pp_lane_options {
    const char *name; /* name of the threads, at most 15 characters; copied */
    unsigned threads; /* number of threads, 1..64 */
    size_t capacity;  /* number of jobs that may wait */
    size_t max_batch; /* jobs per call of batch(), 1..4096 */
    /* Does the work of n jobs on one of the lane's threads; NULL: the thread calls each job's
     * work() in turn. Each thread has its own `state`. */
    void (*batch)(void *state, struct pp_job **jobs, size_t n);
    /* Make and free a thread's state, for example a database connection, on that thread. May be
     * NULL: `state` is then `data`. If open() returns NULL, pp_lane_open() fails. */
    void *(*open)(void *data);
    void (*close)(void *state);
    void *data;
    /* Called on the thread whenever no job has come for idle_ms, for example to keep a connection
     * alive. May be NULL; only for lanes with one thread. */
    void (*idle)(void *state);
    int64_t idle_ms;
};

/* Starts the threads and waits until each has opened its state. NULL: a thread or a state
 * failed. */
struct pp_lane *pp_lane_open(const struct pp_lane_options *options);
/* Makes a home, through which `loop` submits jobs to the lane; a loop needs one for each lane. Must
 * be called on the loop's thread. Returns NULL when out of memory or descriptors. */
struct pp_lane_home *pp_lane_home_open(struct pp_lane *lane, struct pp_loop *loop);
/* Closes a home after its last job has come back; the done() of that job may already call it. The
 * lane may be closed before. Does nothing for NULL. */
void pp_lane_home_close(struct pp_lane_home *home);

/* Submits a job, on the home's loop thread. PP_OK: job->done fires exactly once, later, on the
 * loop. PP_EFULL, PP_ECLOSED: it does not fire. */
pp_must_check enum pp_err pp_lane_submit(struct pp_lane_home *home, struct pp_job *job);
/* Submits a request of a port: a thread sets req->err = run(state, req), then req->done fires like
 * a job's done(). Returns what pp_lane_submit() would. Not for lanes with a batch(). */
pp_must_check enum pp_err pp_lane_request(struct pp_lane_home *home, struct pp_req *req,
                                          enum pp_err (*run)(void *state, struct pp_req *req));
/* Returns how many jobs and requests of this home have not come back; one whose done() runs counts
 * as back. Must be called on the home's loop thread. */
size_t pp_lane_in_flight(const struct pp_lane_home *home);
/* Refuses new jobs, finishes the submitted ones, and joins the threads; blocks until then. The done
 * callbacks fire when the homes' loops turn next. Does nothing for NULL. */
void pp_lane_close(struct pp_lane *lane);

/* Returns milliseconds of CLOCK_MONOTONIC, read now, for deadlines on a lane's thread. Any thread
 * may call it. */
int64_t pp_lane_clock_ms(void);

#endif
