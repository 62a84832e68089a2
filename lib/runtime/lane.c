/* lane.c: one queue under one mutex, threads that take from it in batches, and a mailbox per home for the way
 * back.
 *
 * Invariants:
 *  1. A job is in exactly one place: the queue, a thread's batch, or its home's mailbox. Nothing is allocated
 * for it.
 *  2. Jobs of one home come back in the order they were submitted in, where the lane has one thread.
 *  3. A home counts its jobs under way on its loop's thread; it closes only at 0. It holds the lane's memory,
 * so that submitting to a lane that is closed answers PP_ECLOSED.
 *  4. Threads don't get signals: those are for the loops. */
#include "runtime/lane.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { MAX_THREADS = 64, MAX_BATCH = 4096 };

struct pp_lane {
    struct pp_lane_options options;
    char name[16];
    uv_mutex_t mutex;
    uv_cond_t wake;        /* work has come, or the lane is closing */
    uv_cond_t opened_cond; /* a thread has opened its state, or failed to */
    /* under mutex */
    struct pp_list queue;
    unsigned opened, failed;
    size_t refs; /* the owner and the homes */
    bool closing;

    atomic_size_t load; /* jobs submitted whose work has not ended */
    unsigned threads_n;
    uv_thread_t threads[MAX_THREADS];
};

struct pp_lane_home {
    struct pp_lane *lane;
    struct pp_mailbox *mailbox;
    size_t under_way; /* jobs submitted and not yet back; on the loop's thread */
};

/* --- the threads --- */

/* Under the mutex: returns with a job in the queue, or when the lane is closing. */
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

/* Waits for jobs; 0 when the lane is closing and its queue is empty. */
static size_t take(struct pp_lane *lane, struct pp_job **jobs, void *state)
{
    uv_mutex_lock(&lane->mutex);
    wait_for_jobs(lane, state);
    size_t want = lane->options.max_batch;
    if (!lane->options.batch) { /* nothing is gained by one thread taking what others could do meanwhile */
        size_t share = (lane->queue.n + lane->threads_n - 1) / lane->threads_n;
        if (want > share)
            want = share;
    }
    size_t n = 0;
    while (n < want && !pp_list_empty(&lane->queue))
        jobs[n++] = pp_container_of(pp_list_pop(&lane->queue), struct pp_job, mail.node);
    uv_mutex_unlock(&lane->mutex);
    return n;
}

/* Posts the jobs back, one post per home; empties `jobs`. */
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
    while ((n = take(lane, jobs, state)) > 0) {
        if (lane->options.batch) {
            lane->options.batch(state, jobs, n);
        } else {
            for (size_t i = 0; i < n; i++)
                jobs[i]->work(state, jobs[i]);
        }
        atomic_fetch_sub_explicit(&lane->load, n, memory_order_relaxed);
        give_back(jobs, n);
    }
}

static void thread_main(void *arg)
{
    struct pp_lane *lane = arg;
    const struct pp_lane_options *o = &lane->options;
    pthread_setname_np(pthread_self(), lane->name);
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

/* --- life --- */

static void unref(struct pp_lane *lane)
{
    uv_mutex_lock(&lane->mutex);
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
    atomic_init(&lane->load, 0);
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

/* Starts the threads with all signals blocked but those that a fault of their own raises. */
static void start_threads(struct pp_lane *lane)
{
    sigset_t block, before;
    sigfillset(&block);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&block, faults[i]);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    uv_mutex_lock(&lane->mutex); /* threads_n belongs to the threads, too, once they run */
    while (lane->threads_n < lane->options.threads &&
           uv_thread_create(&lane->threads[lane->threads_n], thread_main, lane) == 0)
        lane->threads_n++;
    uv_mutex_unlock(&lane->mutex);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct pp_lane *pp_lane_open(const struct pp_lane_options *options)
{
    assert(options->threads >= 1 && options->threads <= MAX_THREADS);
    assert(options->max_batch >= 1 && options->max_batch <= MAX_BATCH);
    assert(!options->idle || (options->threads == 1 && options->idle_ms >= 1));
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
    assert(!lane->closing);
    lane->closing = true;
    uv_cond_broadcast(&lane->wake);
    uv_mutex_unlock(&lane->mutex);
    for (unsigned i = 0; i < lane->threads_n; i++)
        uv_thread_join(&lane->threads[i]);
    assert(pp_list_empty(&lane->queue));
    unref(lane);
}

/* --- the homes --- */

static void on_done(void *data, struct pp_list *mail)
{
    struct pp_lane_home *home = data;
    struct pp_node *node;
    while ((node = pp_list_pop(mail))) {
        struct pp_job *job = pp_container_of(node, struct pp_job, mail.node);
        home->under_way--;
        job->done(job); /* may free the job, and after the last one close the home */
    }
}

struct pp_lane_home *pp_lane_home_open(struct pp_lane *lane, struct pp_loop *loop)
{
    struct pp_lane_home *home = calloc(1, sizeof *home);
    if (!home)
        return NULL;
    home->mailbox = pp_mailbox_open(loop, 0, on_done, home);
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
    assert(home->under_way == 0);
    pp_mailbox_close(home->mailbox);
    unref(home->lane);
    free(home);
}

enum pp_err pp_lane_submit(struct pp_lane_home *home, struct pp_job *job)
{
    struct pp_lane *lane = home->lane;
    assert(job->done && (job->work || lane->options.batch));
    enum pp_err err = PP_OK;
    uv_mutex_lock(&lane->mutex);
    if (lane->closing) {
        err = PP_ECLOSED;
    } else if (lane->queue.n >= lane->options.capacity) {
        err = PP_EFULL;
    } else {
        job->home = home;
        pp_list_push(&lane->queue, &job->mail.node);
        atomic_fetch_add_explicit(&lane->load, 1, memory_order_relaxed);
        home->under_way++;
        uv_cond_signal(&lane->wake);
    }
    uv_mutex_unlock(&lane->mutex);
    return err;
}

size_t pp_lane_under_way(const struct pp_lane_home *home)
{
    return home->under_way;
}

size_t pp_lane_load(const struct pp_lane *lane)
{
    return atomic_load_explicit(&lane->load, memory_order_relaxed);
}

/* --- requests --- */

/* A request's place in req.scratch. */
struct call {
    struct pp_job job;
    enum pp_err (*run)(void *state, struct pp_req *req);
};
_Static_assert(sizeof(struct call) <= sizeof(((struct pp_req *)0)->scratch), "a call fits into scratch");

static struct pp_req *req_of(struct pp_job *job)
{
    return (struct pp_req *)((char *)job - offsetof(struct pp_req, scratch));
}

static void run_request(void *state, struct pp_job *job)
{
    struct pp_req *req = req_of(job);
    req->err = ((struct call *)job)->run(state, req);
}

static void request_done(struct pp_job *job)
{
    struct pp_req *req = req_of(job);
    req->done(req);
}

enum pp_err pp_lane_request(struct pp_lane_home *home, struct pp_req *req,
                            enum pp_err (*run)(void *state, struct pp_req *req))
{
    assert(!home->lane->options.batch);
    struct call *c = (struct call *)req->scratch;
    *c = (struct call){.job = {.work = run_request, .done = request_done}, .run = run};
    return pp_lane_submit(home, &c->job);
}
