/* lane.c: a lane is one queue under one mutex, and the threads that take batches of jobs from it.
 * Each home (a loop that submits jobs) has a mailbox, by which its jobs come back.
 *
 * Invariants:
 *  1. A job is in exactly one place: the queue, a thread's batch, or its home's mailbox. No memory
 *     is allocated for it.
 *  2. If the lane has one thread, the jobs of a home come back in the order of their submission.
 *  3. A home counts its jobs in flight on its loop's thread; it closes only at 0. A home holds a
 *     reference to the lane, so that submitting to a lane that is closed answers PP_ECLOSED.
 *  4. Signals are blocked on the lane's threads, so that loops get them. */
#include "runtime/lane.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include "base/check.h"
#include "base/process.h"

struct pp_lane {
    struct pp_lane_options options;
    char name[16];
    uv_mutex_t mutex;
    uv_cond_t wake; /* signalled when work has come or the lane is closing */
    /* signalled when a thread has opened its state, or has failed to open it */
    uv_cond_t opened_cond;
    /* The mutex guards the following fields. */
    struct pp_list queue;
    unsigned opened, failed;
    size_t refs; /* number of references to the lane: one of its owner, and one of each home */
    bool closing;

    unsigned threads_n;
    uv_thread_t threads[PP_LANE_MAX_THREADS];
};

struct pp_lane_home {
    struct pp_lane *lane;
    struct pp_mailbox *mailbox;
    /* number of jobs submitted and not yet back; only the loop's thread uses it */
    size_t in_flight;
};

/* --- the lane's threads --- */

/* Waits until the queue has a job or the lane is closing. The caller holds the mutex. */
static void wait_for_jobs(struct pp_lane *lane, void *state)
{
    const struct pp_lane_options *o = &lane->options;
    while (pp_list_empty(&lane->queue) && !lane->closing) {
        if (!o->idle) {
            uv_cond_wait(&lane->wake, &lane->mutex);
        } else if (uv_cond_timedwait(&lane->wake, &lane->mutex, (uint64_t)o->idle_ms * 1000000) != 0) {
            uv_mutex_unlock(&lane->mutex);
            o->idle(state);
            uv_mutex_lock(&lane->mutex);
        }
    }
}

/* Waits for jobs and takes a batch of them. Returns their number, or 0 when the lane is closing and
 * its queue is empty. */
static size_t take_jobs(struct pp_lane *lane, struct pp_job **jobs, void *state)
{
    uv_mutex_lock(&lane->mutex);
    wait_for_jobs(lane, state);
    /* A thread takes only its share of the jobs, so that all threads work. */
    size_t share = (lane->queue.n + lane->threads_n - 1) / lane->threads_n;
    size_t want = share < lane->options.max_batch ? share : lane->options.max_batch, n = 0;
    while (n < want && !pp_list_empty(&lane->queue))
        jobs[n++] = pp_container_of(pp_list_pop(&lane->queue), struct pp_job, mail.node);
    uv_mutex_unlock(&lane->mutex);
    return n;
}

/* Posts jobs back to their homes, with one post for each home. Empties `jobs`. */
static void give_back(struct pp_job **jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!jobs[i])
            continue;
        struct pp_lane_home *home = jobs[i]->home;
        struct pp_list done;
        pp_list_init(&done);
        for (size_t j = i; j < n; j++) {
            if (!jobs[j] || jobs[j]->home != home)
                continue;
            pp_list_push(&done, &jobs[j]->mail.node);
            jobs[j] = NULL;
        }
        pp_mailbox_post_all(home->mailbox, &done);
    }
}

static void run_batches(struct pp_lane *lane, struct pp_job **jobs, void *state)
{
    size_t n;
    while ((n = take_jobs(lane, jobs, state)) > 0) {
        if (lane->options.batch) {
            lane->options.batch(state, jobs, n);
        } else {
            for (size_t i = 0; i < n; i++)
                jobs[i]->work(state, jobs[i]);
        }
        give_back(jobs, n);
    }
}

static void thread_main(void *arg)
{
    struct pp_lane *lane = arg;
    const struct pp_lane_options *o = &lane->options;
    pthread_setname_np(pthread_self(), lane->name);
    if (o->bulk)
        pp_thread_long_slices();
    struct pp_job **jobs = calloc(o->max_batch, sizeof(*jobs));
    void *state = o->open && jobs ? o->open(o->data) : o->data;
    bool ok = jobs && (state || !o->open);
    uv_mutex_lock(&lane->mutex);
    if (ok)
        lane->opened++;
    else
        lane->failed++;
    uv_cond_signal(&lane->opened_cond);
    uv_mutex_unlock(&lane->mutex);
    if (ok) {
        run_batches(lane, jobs, state);
        if (o->close)
            o->close(state);
    }
    free(jobs);
}

/* --- opening and closing a lane --- */

static void unref(struct pp_lane *lane)
{
    uv_mutex_lock(&lane->mutex);
    pp_assert(lane->refs > 0, "a lane is released more often than it was taken");
    size_t left = --lane->refs;
    uv_mutex_unlock(&lane->mutex);
    if (left > 0)
        return;
    uv_cond_destroy(&lane->opened_cond);
    uv_cond_destroy(&lane->wake);
    uv_mutex_destroy(&lane->mutex);
    free(lane);
}

static struct pp_lane *lane_new(const struct pp_lane_options *options)
{
    struct pp_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->options = *options;
    snprintf(lane->name, sizeof lane->name, "%.15s", options->name ? options->name : "lane");
    lane->options.name = lane->name;
    lane->refs = 1;
    pp_list_init(&lane->queue);
    if (uv_mutex_init(&lane->mutex) != 0)
        goto err_free;
    if (uv_cond_init(&lane->wake) != 0)
        goto err_mutex;
    if (uv_cond_init(&lane->opened_cond) != 0)
        goto err_wake;
    return lane;
err_wake:
    uv_cond_destroy(&lane->wake);
err_mutex:
    uv_mutex_destroy(&lane->mutex);
err_free:
    free(lane);
    return NULL;
}

/* Starts the threads. All signals are blocked on them, except those that a fault in a thread
 * raises. */
static void start_threads(struct pp_lane *lane)
{
    sigset_t block, before;
    sigfillset(&block);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&block, faults[i]);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    /* Threads that already run read threads_n, so the mutex is held. */
    uv_mutex_lock(&lane->mutex);
    while (lane->threads_n < lane->options.threads &&
           uv_thread_create(&lane->threads[lane->threads_n], thread_main, lane) == 0)
        lane->threads_n++;
    uv_mutex_unlock(&lane->mutex);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct pp_lane *pp_lane_open(const struct pp_lane_options *options)
{
    pp_assert(options->threads >= 1 && options->threads <= PP_LANE_MAX_THREADS,
              "a lane's threads are out of range");
    pp_assert(options->max_batch >= 1 && options->max_batch <= PP_LANE_MAX_BATCH,
              "a lane's batch is out of range");
    pp_assert(!options->idle || (options->threads == 1 && options->idle_ms >= 1), "idle() needs one thread");
    struct pp_lane *lane = lane_new(options);
    if (!lane)
        return NULL;
    start_threads(lane);
    uv_mutex_lock(&lane->mutex);
    while (lane->opened + lane->failed < lane->threads_n)
        uv_cond_wait(&lane->opened_cond, &lane->mutex);
    bool ok = lane->opened == options->threads;
    uv_mutex_unlock(&lane->mutex);
    if (ok)
        return lane;
    pp_lane_close(lane);
    return NULL;
}

void pp_lane_close(struct pp_lane *lane)
{
    if (!lane)
        return;
    uv_mutex_lock(&lane->mutex);
    pp_assert(!lane->closing, "a lane is closed twice");
    lane->closing = true;
    uv_cond_broadcast(&lane->wake);
    uv_mutex_unlock(&lane->mutex);
    for (unsigned i = 0; i < lane->threads_n; i++)
        uv_thread_join(&lane->threads[i]);
    pp_assert(pp_list_empty(&lane->queue), "the threads have left jobs in the queue");
    unref(lane);
}

/* --- homes: submitting jobs, and getting them back --- */

static void on_jobs_done(void *data, struct pp_list *mail)
{
    struct pp_lane_home *home = data;
    struct pp_node *node;
    while ((node = pp_list_pop(mail))) {
        struct pp_job *job = pp_container_of(node, struct pp_job, mail.node);
        pp_assert(job->home == home && home->in_flight > 0, "a job comes back that this home has not sent");
        home->in_flight--;
        job->done(job); /* done() may free the job, and close the home after the last job */
    }
}

struct pp_lane_home *pp_lane_home_open(struct pp_lane *lane, struct pp_loop *loop)
{
    struct pp_lane_home *home = calloc(1, sizeof *home);
    if (!home)
        return NULL;
    home->mailbox = pp_mailbox_open(loop, on_jobs_done, home);
    if (!home->mailbox) {
        free(home);
        return NULL;
    }
    home->lane = lane;
    uv_mutex_lock(&lane->mutex);
    lane->refs++;
    uv_mutex_unlock(&lane->mutex);
    return home;
}

void pp_lane_home_close(struct pp_lane_home *home)
{
    if (!home)
        return;
    pp_assert(home->in_flight == 0, "a home closes while its jobs are in flight");
    pp_mailbox_close(home->mailbox);
    unref(home->lane);
    free(home);
}

enum pp_err pp_lane_submit(struct pp_lane_home *home, struct pp_job *job)
{
    struct pp_lane *lane = home->lane;
    pp_assert(job->done && (job->work || lane->options.batch), "a job without work or without done()");
    enum pp_err err = PP_OK;
    uv_mutex_lock(&lane->mutex);
    if (lane->closing) {
        err = PP_ECLOSED;
    } else if (lane->queue.n >= lane->options.capacity) {
        err = PP_EFULL;
    } else {
        job->home = home;
        pp_list_push(&lane->queue, &job->mail.node);
        home->in_flight++;
        uv_cond_signal(&lane->wake);
    }
    uv_mutex_unlock(&lane->mutex);
    return err;
}

size_t pp_lane_in_flight(const struct pp_lane_home *home)
{
    return home->in_flight;
}

int64_t pp_lane_clock_ms(void)
{
    struct timespec ts;
    pp_assert(clock_gettime(CLOCK_MONOTONIC, &ts) == 0, "a clock that Linux always has can not be read");
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
