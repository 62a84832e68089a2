/* lane.h: a bounded number of threads for calls that block: to a database driver, to the disk, for
 * hashing.
 *
 * A lane has `threads` threads and one queue of jobs. A thread takes its share of the jobs that
 * wait, up to `max_batch`, and hands them to the lane's batch function together, so that a database
 * can put them into one transaction. Jobs that are done go back in one batch to the loop that sent
 * them, where each job's callback fires exactly once.
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
struct pp_lane_home; /* a loop that submits jobs to a lane, and to which these jobs come back */

struct pp_job {
    struct pp_mail mail;       /* the lane uses this while the job is in flight */
    struct pp_lane_home *home; /* the home that submitted the job; the lane sets this */
    /* Does the work on one of the lane's threads; may be NULL if the lane has batch(). */
    void (*work)(void *state, struct pp_job *job);
    void (*done)(struct pp_job *job); /* the lane calls this on the loop that submitted the job */
};

#define PP_LANE_MAX_THREADS 64
#define PP_LANE_MAX_BATCH   4096

struct pp_lane_options {
    const char *name; /* name of the lane's threads, at most 15 characters; copied */
    unsigned threads; /* number of threads, 1..PP_LANE_MAX_THREADS */
    size_t capacity;  /* at most this many jobs may wait */
    size_t max_batch; /* one call of batch() gets at most this many jobs, 1..PP_LANE_MAX_BATCH */
    /* Does the work of n jobs on one of the lane's threads; NULL: the thread calls each job's
     * work() in turn. Each thread has its own `state`. */
    void (*batch)(void *state, struct pp_job **jobs, size_t n);
    /* These make and free a thread's state, for example a database connection, on that thread. If
     * `open` is NULL, `state` is `data`. If open() returns NULL, pp_lane_open() fails. */
    void *(*open)(void *data);
    void (*close)(void *state);
    void *data;
    /* The lane calls this on its thread whenever no job has come for idle_ms, for example to keep a
     * connection alive. May be NULL; only for lanes with one thread. */
    void (*idle)(void *state);
    int64_t idle_ms;
    bool bulk; /* the jobs compute for long, so other threads may interrupt them (base/process.h) */
};

/* Starts the threads and waits until each has opened its state. Returns NULL if a thread can't
 * start or a state can't be opened. */
struct pp_lane *pp_lane_open(const struct pp_lane_options *options);
/* Makes a home, through which `loop` submits jobs to the lane. A loop needs one home for each lane.
 * Must be called on the loop's thread. Returns NULL when out of memory or descriptors. */
struct pp_lane_home *pp_lane_home_open(struct pp_lane *lane, struct pp_loop *loop);
/* Closes a home. All its jobs must have come back; the done() of the last job may call this. The
 * lane may be closed before the home. `home` may be NULL. */
void pp_lane_home_close(struct pp_lane_home *home);

/* Submits a job, on the home's loop thread. If it returns PP_OK, job->done fires exactly once,
 * later, on the loop. If it returns PP_EFULL or PP_ECLOSED, job->done does not fire. */
pp_must_check enum pp_err pp_lane_submit(struct pp_lane_home *home, struct pp_job *job);
/* Submits a request of a port: a thread sets req->err = run(state, req), then req->done fires like
 * a job's done(). Returns the same errors as pp_lane_submit(). Not for lanes with a batch(). */
pp_must_check enum pp_err pp_lane_request(struct pp_lane_home *home, struct pp_req *req,
                                          enum pp_err (*run)(void *state, struct pp_req *req));
/* Returns how many jobs and requests of this home have not come back. A job whose done() is running
 * has come back. Must be called on the home's loop thread. */
size_t pp_lane_in_flight(const struct pp_lane_home *home);
/* Refuses new jobs, finishes the submitted jobs, and joins the threads; blocks until then. The done
 * callbacks fire when the homes' loops turn next. `lane` may be NULL. */
void pp_lane_close(struct pp_lane *lane);

/* Returns milliseconds of CLOCK_MONOTONIC, read now, for deadlines on a lane's thread. Any thread
 * may call it. */
int64_t pp_lane_clock_ms(void);

#endif
