/* lane.c: replaces runtime/lane.c. A thread of a lane is an event of the process:
 *
 *   idle --submit--> woken --a later step--> takes its share of the jobs --options.lane_us-->
 *     works on them, and posts them back --> woken, if more jobs wait; else idle
 *
 * Invariants, as in runtime/lane.c: a job is in exactly one place. If the lane has one thread, the
 * jobs of a home come back in order. */
#include "runtime/lane.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "runtime/sim/sim_internal.h"

struct sim_lane_thread {
    struct pp_lane *lane;
    void *state;
    struct pp_sim_event event; /* it wakes up, it ends its work, or it has been idle for idle_ms */
    bool woken;
    size_t n; /* number of jobs that it has taken */
    struct pp_job **jobs;
};

struct pp_lane {
    struct pp_lane_options options;
    char name[16];
    struct pp_sim_process *process;
    struct pp_list queue;
    size_t refs; /* number of references to the lane: one of its owner, and one of each home */
    bool closing;
    unsigned threads_n;
    struct sim_lane_thread threads[];
};

struct pp_lane_home {
    struct pp_lane *lane;
    struct pp_mailbox *mailbox;
    size_t in_flight; /* number of jobs submitted and not yet back */
};

/* --- the threads --- */

/* Takes a thread's share of the jobs that wait. */
static void take_jobs(struct sim_lane_thread *t)
{
    struct pp_lane *lane = t->lane;
    size_t share = (lane->queue.n + lane->threads_n - 1) / lane->threads_n;
    size_t want = share < lane->options.max_batch ? share : lane->options.max_batch;

    pp_assert(t->n == 0, "a thread takes jobs while it works");
    while (t->n < want)
        t->jobs[t->n++] = pp_container_of(pp_list_pop(&lane->queue), struct pp_job, mail.node);
}

/* Posts the jobs of a thread back to their homes, with one post for each home. */
static void give_back(struct sim_lane_thread *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct pp_list done;
        if (!t->jobs[i])
            continue;
        struct pp_lane_home *home = t->jobs[i]->home;
        pp_list_init(&done);
        for (size_t j = i; j < t->n; j++) {
            if (!t->jobs[j] || t->jobs[j]->home != home)
                continue;
            pp_list_push(&done, &t->jobs[j]->mail.node);
            t->jobs[j] = NULL;
        }
        pp_mailbox_post_all(home->mailbox, &done);
    }
    t->n = 0;
}

static void work(struct sim_lane_thread *t)
{
    const struct pp_lane_options *o = &t->lane->options;

    if (o->batch && t->n > 0) {
        o->batch(t->state, t->jobs, t->n);
    } else {
        for (size_t i = 0; i < t->n; i++)
            t->jobs[i]->work(t->state, t->jobs[i]);
    }
    give_back(t);
}

/* Lets a thread that has no job wait, or wake up for the jobs that wait. */
static void go_on(struct sim_lane_thread *t)
{
    const struct pp_lane_options *o = &t->lane->options;

    t->woken = !pp_list_empty(&t->lane->queue);
    if (t->woken)
        pp_sim_event_in(&t->event, 0);
    else if (o->idle)
        pp_sim_event_in(&t->event, o->idle_ms * SIM_US_PER_MS);
}

static void on_event(void *data)
{
    struct sim_lane_thread *t = data;
    struct pp_lane *lane = t->lane;
    const struct pp_sim_options *o = &lane->process->world->options;

    if (t->n == 0 && !t->woken) {
        lane->options.idle(t->state);
    } else if (t->n == 0) {
        take_jobs(t);
        int64_t us = o->lane_us && t->n > 0 ? o->lane_us(o->data, lane->process, lane->name, t->n) : 0;
        if (us > 0) {
            pp_sim_event_in(&t->event, us);
            return;
        }
    }
    if (t->n > 0)
        work(t);
    go_on(t);
}

static void wake_thread(struct pp_lane *lane)
{
    for (unsigned i = 0; i < lane->threads_n; i++) {
        struct sim_lane_thread *t = &lane->threads[i];
        if (t->n > 0 || t->woken)
            continue;
        t->woken = true;
        pp_sim_event_in(&t->event, 0);
        return;
    }
}

/* --- opening and closing a lane --- */

static void unref(struct pp_lane *lane)
{
    pp_assert(lane->refs > 0, "a lane is released more often than it was taken");
    if (--lane->refs > 0)
        return;
    for (unsigned i = 0; i < lane->threads_n; i++)
        free(lane->threads[i].jobs);
    free(lane);
}

static struct pp_lane *lane_new(const struct pp_lane_options *options)
{
    struct pp_lane *lane = calloc(1, sizeof *lane + options->threads * sizeof lane->threads[0]);

    if (!lane)
        return NULL;
    lane->options = *options;
    snprintf(lane->name, sizeof lane->name, "%.15s", options->name ? options->name : "lane");
    lane->options.name = lane->name;
    lane->process = sim_process_here();
    lane->refs = 1;
    pp_list_init(&lane->queue);
    return lane;
}

/* Opens the state of one thread. As in runtime/lane.c, every thread tries, even if one has
 * failed. */
static bool open_thread(struct pp_lane *lane, struct sim_lane_thread *t)
{
    const struct pp_lane_options *o = &lane->options;

    t->lane = lane;
    t->jobs = calloc(o->max_batch, sizeof(struct pp_job *));
    t->state = t->jobs && o->open ? o->open(o->data) : o->data;
    if (!t->jobs || (o->open && !t->state)) {
        free(t->jobs);
        return false;
    }
    sim_event_init(&t->event, lane->process, "lane", on_event, t);
    return true;
}

struct pp_lane *pp_lane_open(const struct pp_lane_options *options)
{
    pp_assert(options->threads >= 1 && options->threads <= PP_LANE_MAX_THREADS,
              "a lane's threads are out of range");
    pp_assert(options->max_batch >= 1 && options->max_batch <= PP_LANE_MAX_BATCH,
              "a lane's batch is out of range");
    pp_assert(!options->idle || (options->threads == 1 && options->idle_ms >= 1), "idle() needs one thread");
    struct pp_lane *lane = lane_new(options);

    for (unsigned i = 0; lane && i < options->threads; i++)
        lane->threads_n += open_thread(lane, &lane->threads[lane->threads_n]);
    if (!lane)
        return NULL;
    if (lane->threads_n < options->threads) {
        pp_lane_close(lane);
        return NULL;
    }
    for (unsigned i = 0; i < lane->threads_n; i++)
        go_on(&lane->threads[i]);
    return lane;
}

void pp_lane_close(struct pp_lane *lane)
{
    if (!lane)
        return;
    pp_assert(!lane->closing, "a lane is closed twice");
    lane->closing = true;
    for (unsigned i = 0; i < lane->threads_n; i++) {
        struct sim_lane_thread *t = &lane->threads[i];
        pp_sim_event_cancel(&t->event);
        if (t->n > 0)
            work(t);
    }
    while (!pp_list_empty(&lane->queue)) {
        take_jobs(&lane->threads[0]);
        work(&lane->threads[0]);
    }
    for (unsigned i = 0; i < lane->threads_n && lane->options.close; i++)
        lane->options.close(lane->threads[i].state);
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

    pp_assert(lane->process == loop->process, "a process submits to the lane of another one");
    if (!home)
        return NULL;
    home->mailbox = pp_mailbox_open(loop, on_jobs_done, home);
    if (!home->mailbox) {
        free(home);
        return NULL;
    }
    home->lane = lane;
    lane->refs++;
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
    if (lane->closing)
        return PP_ECLOSED;
    if (lane->queue.n >= lane->options.capacity)
        return PP_EFULL;
    job->home = home;
    pp_list_push(&lane->queue, &job->mail.node);
    home->in_flight++;
    wake_thread(lane);
    return PP_OK;
}

size_t pp_lane_in_flight(const struct pp_lane_home *home)
{
    return home->in_flight;
}

int64_t pp_lane_clock_ms(void)
{
    return pp_clock_boot_ms();
}
