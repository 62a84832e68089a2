/* Tests lanes: every job returns exactly once, to its own loop; also the bounds, batches, the state
 * of each thread, and closing. This test also runs under ThreadSanitizer. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/lane.h"
#include "test_loop.h"

struct tally {
    int done, wanted, last;
    bool out_of_order, wrong_thread;
    pthread_t thread;
};

struct sum_job {
    struct pp_job job;
    struct tally *tally;
    int number, result;
};

static void do_sum(void *state, struct pp_job *job)
{
    (void)state;
    struct sum_job *s = pp_container_of(job, struct sum_job, job);
    s->result = s->number + 1;
}

static void on_sum(struct pp_job *job)
{
    struct sum_job *s = pp_container_of(job, struct sum_job, job);
    struct tally *t = s->tally;
    t->out_of_order |= s->number != t->last + 1;
    t->wrong_thread |= !pthread_equal(pthread_self(), t->thread) || s->result != s->number + 1;
    t->last = s->number;
    t->done++;
    free(s);
}

static struct sum_job *new_sum(struct tally *t, int number)
{
    struct sum_job *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->job.work = do_sum;
    s->job.done = on_sum;
    s->tally = t;
    s->number = number;
    return s;
}

static bool all_done(void *arg)
{
    struct tally *t = arg;
    return t->done == t->wanted;
}

static void in_order_on_one_thread(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    struct pp_lane *lane = pp_lane_open(&(struct pp_lane_options){"one", 1, 1000, 7, .batch = NULL});
    assert_true(loop && lane);
    struct pp_lane_home *home = pp_lane_home_open(lane, loop);
    assert_non_null(home);
    struct tally t = {.wanted = 1000, .last = -1, .thread = pthread_self()};
    for (int i = 0; i < t.wanted; i++)
        assert_int_equal(pp_lane_submit(home, &new_sum(&t, i)->job), PP_OK);
    assert_int_equal(t.done, 0); /* the job returns in a later turn of the loop */
    pp_test_until(loop, all_done, &t, 10000);
    assert_false(t.out_of_order);
    assert_false(t.wrong_thread);
    assert_int_equal(pp_lane_in_flight(home), 0);
    pp_lane_home_close(home);
    pp_lane_close(lane);
    pp_loop_close(loop);
}

/* --- several loops on one lane --- */

enum { LOOPS = 3, JOBS = 20000, AT_ONCE = 200 };

struct worker {
    struct pp_lane *lane;
    struct pp_loop *loop;
    struct pp_lane_home *home;
    struct tally tally;
    int sent;
    bool failed;
};

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    w->loop = pp_loop_open();
    w->home = w->loop ? pp_lane_home_open(w->lane, w->loop) : NULL;
    if (!w->home) {
        w->failed = true;
        return NULL;
    }
    w->tally.thread = pthread_self();
    while (w->tally.done < JOBS) {
        while (w->sent < JOBS && w->sent - w->tally.done < AT_ONCE) {
            struct sum_job *s = new_sum(&w->tally, w->sent);
            if (pp_lane_submit(w->home, &s->job) != PP_OK) {
                free(s);
                break;
            }
            w->sent++;
        }
        pp_loop_turn(w->loop, true);
    }
    pp_lane_home_close(w->home);
    pp_loop_close(w->loop);
    return NULL;
}

static void echo_batch(void *state, struct pp_job **jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        do_sum(state, jobs[i]);
}

static void run_workers(unsigned threads, size_t max_batch, bool batch)
{
    struct pp_lane *lane = pp_lane_open(&(struct pp_lane_options){
        "many", threads, LOOPS * AT_ONCE / 2, max_batch, .batch = batch ? echo_batch : NULL});
    assert_non_null(lane);
    struct worker w[LOOPS];
    pthread_t tid[LOOPS];
    for (int i = 0; i < LOOPS; i++) {
        w[i] = (struct worker){.lane = lane, .tally.last = -1};
        assert_int_equal(pthread_create(&tid[i], NULL, run_worker, &w[i]), 0);
    }
    for (int i = 0; i < LOOPS; i++) {
        pthread_join(tid[i], NULL);
        assert_false(w[i].failed);
        assert_int_equal(w[i].tally.done, JOBS);
        assert_false(w[i].tally.wrong_thread);
        assert_false(threads == 1 && w[i].tally.out_of_order);
    }
    pp_lane_close(lane);
}

static void jobs_return_to_their_own_loop(void **state)
{
    (void)state;
    run_workers(1, 64, true);
    run_workers(4, 16, true);
    run_workers(3, 8, false);
}

/* --- bounds, batches and closing, while a gate blocks the lane's thread --- */

struct gate {
    sem_t entered, leave;
    atomic_int batches, largest;
};

static void gated_batch(void *state, struct pp_job **jobs, size_t n)
{
    struct gate *g = state;
    atomic_fetch_add(&g->batches, 1);
    if ((int)n > atomic_load(&g->largest))
        atomic_store(&g->largest, (int)n);
    sem_post(&g->entered);
    sem_wait(&g->leave);
    for (size_t i = 0; i < n; i++)
        do_sum(NULL, jobs[i]);
}

static void gate_init(struct gate *g)
{
    memset(g, 0, sizeof *g);
    sem_init(&g->entered, 0, 0);
    sem_init(&g->leave, 0, 0);
}

static void bounds_and_batches(void **state)
{
    (void)state;
    struct gate g;
    gate_init(&g);
    struct pp_loop *loop = pp_loop_open();
    struct pp_lane *lane =
        pp_lane_open(&(struct pp_lane_options){"a name that is too long", 1, 10, 4, gated_batch, .data = &g});
    assert_true(loop && lane);
    struct pp_lane_home *home = pp_lane_home_open(lane, loop);
    assert_non_null(home);
    struct tally t = {.wanted = 11, .last = -1, .thread = pthread_self()};
    assert_int_equal(pp_lane_submit(home, &new_sum(&t, 0)->job), PP_OK);
    sem_wait(&g.entered); /* one job runs, so the lane accepts ten more */
    for (int i = 1; i <= 10; i++)
        assert_int_equal(pp_lane_submit(home, &new_sum(&t, i)->job), PP_OK);
    struct sum_job *over = new_sum(&t, 11);
    assert_int_equal(pp_lane_submit(home, &over->job), PP_EFULL);
    free(over); /* The lane has refused this job, so its callback never runs. */
    assert_int_equal(pp_lane_in_flight(home), 11);
    for (int i = 0; i < 4; i++)
        sem_post(&g.leave);
    pp_test_until(loop, all_done, &t, 5000);
    assert_false(t.out_of_order);
    assert_int_equal(atomic_load(&g.batches), 4); /* batches of 1, 4, 4 and 2 jobs */
    assert_int_equal(atomic_load(&g.largest), 4);
    pp_lane_home_close(home);
    pp_lane_close(lane);
    pp_loop_close(loop);
}

/* With two threads, a batch is half of what waits, so that a job is not held up by an earlier one
 * while the other thread has nothing to do. */
static void threads_share_the_queue(void **state)
{
    (void)state;
    struct gate g;
    gate_init(&g);
    struct pp_loop *loop = pp_loop_open();
    struct pp_lane *lane =
        pp_lane_open(&(struct pp_lane_options){"share", 2, 10, 10, gated_batch, .data = &g});
    assert_true(loop && lane);
    struct pp_lane_home *home = pp_lane_home_open(lane, loop);
    assert_non_null(home);
    struct tally t = {.wanted = 8, .thread = pthread_self()};
    for (int i = 0; i < 2; i++) { /* both threads are busy with one job each */
        assert_int_equal(pp_lane_submit(home, &new_sum(&t, i)->job), PP_OK);
        sem_wait(&g.entered);
    }
    for (int i = 2; i < 8; i++)
        assert_int_equal(pp_lane_submit(home, &new_sum(&t, i)->job), PP_OK);
    sem_post(&g.leave); /* one thread goes on, and takes three of the six */
    sem_wait(&g.entered);
    assert_int_equal(atomic_load(&g.largest), 3);
    for (int i = 0; i < 8; i++)
        sem_post(&g.leave);
    pp_test_until(loop, all_done, &t, 5000);
    pp_lane_home_close(home);
    pp_lane_close(lane);
    pp_loop_close(loop);
}

static void *close_lane(void *lane)
{
    pp_lane_close(lane);
    return NULL;
}

static void close_finishes_jobs(void **state)
{
    (void)state;
    struct gate g;
    gate_init(&g);
    struct pp_loop *loop = pp_loop_open();
    struct pp_lane *lane =
        pp_lane_open(&(struct pp_lane_options){"close", 1, 1000, 1, gated_batch, .data = &g});
    assert_true(loop && lane);
    struct pp_lane_home *home = pp_lane_home_open(lane, loop);
    assert_non_null(home);
    struct tally t = {.last = -1, .thread = pthread_self()};
    assert_int_equal(pp_lane_submit(home, &new_sum(&t, 0)->job), PP_OK);
    sem_wait(&g.entered);
    pthread_t closer;
    assert_int_equal(pthread_create(&closer, NULL, close_lane, lane), 0);
    /* Another thread closes the lane while the test submits jobs. The lane must run every job that
     * it accepts, and refuse every job once it has refused one. */
    int sent = 1;
    enum pp_err err = PP_OK;
    while (err != PP_ECLOSED) {
        struct sum_job *s = new_sum(&t, sent);
        err = pp_lane_submit(home, &s->job);
        if (err == PP_OK)
            sent++;
        else
            free(s);
    }
    for (int i = 0; i < sent; i++)
        sem_post(&g.leave);
    pthread_join(closer, NULL);
    /* Closing the lane runs no callback: the callbacks run in the loop's next turn. */
    assert_int_equal(t.done, 0);
    t.wanted = sent;
    pp_test_until(loop, all_done, &t, 5000);
    assert_false(t.out_of_order);
    struct sum_job *late = new_sum(&t, sent);
    assert_int_equal(pp_lane_submit(home, &late->job), PP_ECLOSED);
    free(late);
    pp_lane_home_close(home);
    pp_lane_home_close(NULL);
    pp_lane_close(NULL);
    pp_loop_close(loop);
}

/* A job's callback closes the job's home, perhaps while the lane's thread has not yet returned from
 * the call that posted the job to the home. This must be safe. */
struct last_job {
    struct pp_job job;
    struct pp_lane_home *home;
    bool done;
};

static void nothing(void *state, struct pp_job *job)
{
    (void)state, (void)job;
}

static void close_home(struct pp_job *job)
{
    struct last_job *l = pp_container_of(job, struct last_job, job);
    pp_lane_home_close(l->home);
    l->done = true;
}

static bool last_done(void *arg)
{
    return ((struct last_job *)arg)->done;
}

static void home_closes_in_callback(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    struct pp_lane *lane = pp_lane_open(&(struct pp_lane_options){"home", 2, 10, 1, .batch = NULL});
    assert_true(loop && lane);
    for (int i = 0; i < 500; i++) {
        struct last_job l = {.job = {.work = nothing, .done = close_home},
                             .home = pp_lane_home_open(lane, loop)};
        assert_non_null(l.home);
        assert_int_equal(pp_lane_submit(l.home, &l.job), PP_OK);
        pp_test_until(loop, last_done, &l, 5000);
    }
    pp_lane_close(lane);
    pp_loop_close(loop);
}

/* --- the state that each thread of a lane opens and closes --- */

struct states {
    atomic_int opened, closed, fail_at;
    atomic_bool wrong;
};

struct one_state {
    struct states *all;
    pthread_t thread;
};

static void *open_state(void *data)
{
    struct states *all = data;
    if (atomic_fetch_add(&all->opened, 1) + 1 == atomic_load(&all->fail_at))
        return NULL;
    struct one_state *s = malloc(sizeof *s);
    if (s)
        *s = (struct one_state){all, pthread_self()};
    return s;
}

static void close_state(void *state)
{
    struct one_state *s = state;
    if (!pthread_equal(s->thread, pthread_self()))
        atomic_store(&s->all->wrong, true);
    atomic_fetch_add(&s->all->closed, 1);
    free(s);
}

static void check_state(void *state, struct pp_job *job)
{
    struct one_state *s = state;
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    if (!pthread_equal(s->thread, pthread_self()) || !sigismember(&set, SIGTERM) ||
        !sigismember(&set, SIGPIPE))
        atomic_store(&s->all->wrong, true);
    do_sum(NULL, job);
}

static void state_per_thread(void **state)
{
    (void)state;
    struct states all = {0};
    struct pp_loop *loop = pp_loop_open();
    struct pp_lane *lane = pp_lane_open(&(struct pp_lane_options){"state", 5, 100, 3, .open = open_state,
                                                                  .close = close_state, .data = &all});
    assert_true(loop && lane);
    assert_int_equal(atomic_load(&all.opened), 5);
    sigset_t mine;
    pthread_sigmask(SIG_BLOCK, NULL, &mine);
    /* The call that made the lane has restored this thread's signal mask. */
    assert_false(sigismember(&mine, SIGTERM));
    struct pp_lane_home *home = pp_lane_home_open(lane, loop);
    assert_non_null(home);
    struct tally t = {.wanted = 100, .last = -1, .thread = pthread_self()};
    for (int i = 0; i < t.wanted; i++) {
        struct sum_job *s = new_sum(&t, i);
        s->job.work = check_state;
        assert_int_equal(pp_lane_submit(home, &s->job), PP_OK);
    }
    pp_test_until(loop, all_done, &t, 5000);
    pp_lane_home_close(home);
    pp_lane_close(lane);
    assert_int_equal(atomic_load(&all.closed), 5);
    assert_false(atomic_load(&all.wrong));
    pp_loop_close(loop);
}

static void open_fails(void **state)
{
    (void)state;
    for (int k = 1; k <= 3; k++) {
        struct states all = {.fail_at = k};
        assert_null(pp_lane_open(&(struct pp_lane_options){"fails", 3, 10, 1, .open = open_state,
                                                           .close = close_state, .data = &all}));
        assert_int_equal(atomic_load(&all.opened), 3);
        assert_int_equal(atomic_load(&all.closed), 2);
        assert_false(atomic_load(&all.wrong));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_on_one_thread), cmocka_unit_test(jobs_return_to_their_own_loop),
        cmocka_unit_test(bounds_and_batches),     cmocka_unit_test(threads_share_the_queue),
        cmocka_unit_test(close_finishes_jobs),    cmocka_unit_test(home_closes_in_callback),
        cmocka_unit_test(state_per_thread),       cmocka_unit_test(open_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
