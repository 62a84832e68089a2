/* Tests requests of a port on a lane with one thread, which also works between requests, as a
 * driver's connection does. Each request returns once, on the loop; the caller can see whether one
 * is in flight; closing waits for all. This test also runs under ThreadSanitizer. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/lane.h"
#include "test_loop.h"

enum { BOUND_MS = 10000 };

/* State of the lane's thread. idle() waits while idle_gate is set, and run() waits while run_gate
 * is set. */
struct driver {
    struct pp_loop *loop;
    struct pp_lane *lane;
    struct pp_lane_home *home;
    atomic_bool idle_gate, run_gate, closed;
    atomic_int ran;
    sem_t entered, leave, idled;
    /* these fields are used by the lane's thread only */
    int calls, runs;
    pthread_t thread;
    bool wrong_thread;
};

struct ask {
    struct pp_req req;
    struct driver *d;
    pthread_t loop_thread;
    int number, done, again;
    size_t in_flight;
    bool wrong_thread;
};

static void on_lane(struct driver *d)
{
    if (d->calls++ == 0)
        d->thread = pthread_self();
    d->wrong_thread |= !pthread_equal(pthread_self(), d->thread);
}

static void pass(struct driver *d, atomic_bool *gate)
{
    if (!atomic_load(gate))
        return;
    sem_post(&d->entered);
    sem_wait(&d->leave);
}

static enum pp_err run(void *state, struct pp_req *req)
{
    struct driver *d = state;
    struct ask *a = (struct ask *)req;
    on_lane(d);
    pass(d, &d->run_gate);
    a->number = ++d->runs;
    atomic_fetch_add(&d->ran, 1);
    return a->number % 2 ? PP_OK : PP_EIO;
}

static void idle(void *state)
{
    struct driver *d = state;
    on_lane(d);
    sem_post(&d->idled);
    pass(d, &d->idle_gate);
}

static void closed(void *state)
{
    on_lane(state);
    atomic_store(&((struct driver *)state)->closed, true);
}

static void answered(struct pp_req *req)
{
    struct ask *a = (struct ask *)req;
    a->done++;
    a->wrong_thread |= !pthread_equal(pthread_self(), a->loop_thread);
    a->in_flight = pp_lane_in_flight(a->d->home);
    if (a->again > 0 && a->again--)
        assert_int_equal(pp_lane_request(a->d->home, req, run), PP_OK);
}

static void open_driver(struct driver *d, int64_t idle_ms)
{
    memset(d, 0, sizeof *d);
    sem_init(&d->entered, 0, 0);
    sem_init(&d->leave, 0, 0);
    sem_init(&d->idled, 0, 0);
    d->loop = pp_loop_open();
    d->lane = pp_lane_open(&(struct pp_lane_options){"driver", 1, 1, 1, .close = closed, .data = d,
                                                     .idle = idle_ms ? idle : NULL, .idle_ms = idle_ms});
    assert_true(d->loop && d->lane);
    d->home = pp_lane_home_open(d->lane, d->loop);
    assert_non_null(d->home);
}

/* Closes what the test opened; the test may have closed the lane already. */
static void close_driver(struct driver *d)
{
    pp_lane_home_close(d->home);
    pp_lane_close(d->lane);
    pp_loop_close(d->loop);
    assert_true(atomic_load(&d->closed));
    assert_false(d->wrong_thread);
    sem_destroy(&d->entered);
    sem_destroy(&d->leave);
    sem_destroy(&d->idled);
}

static struct ask ask_of(struct driver *d)
{
    return (struct ask){.req.done = answered, .d = d, .loop_thread = pthread_self()};
}

static bool has_all(void *arg)
{
    struct ask *a = arg;
    return a->done > 0 && a->again == 0 && pp_lane_in_flight(a->d->home) == 0;
}

static void answered_once_on_the_loop(void **state)
{
    (void)state;
    struct driver d;
    open_driver(&d, 0);
    struct ask a = ask_of(&d);
    assert_int_equal(pp_lane_request(d.home, &a.req, run), PP_OK);
    assert_int_equal(a.done, 0);
    pp_test_until(d.loop, has_all, &a, BOUND_MS);
    assert_int_equal(a.done, 1);
    assert_int_equal(a.number, 1);
    assert_int_equal(a.req.err, PP_OK);
    assert_false(a.wrong_thread);
    assert_false(pthread_equal(d.thread, a.loop_thread));
    a.again = 99; /* The request submits itself 99 times more, from its own done(). */
    assert_int_equal(pp_lane_request(d.home, &a.req, run), PP_OK);
    pp_test_until(d.loop, has_all, &a, BOUND_MS);
    assert_int_equal(a.done, 101);
    assert_int_equal(a.number, 101);
    close_driver(&d);
}

static void in_flight_until_it_is_back(void **state)
{
    (void)state;
    struct driver d;
    open_driver(&d, 0);
    struct ask a = ask_of(&d), b = a, c = a;
    atomic_store(&d.run_gate, true);
    assert_int_equal(pp_lane_in_flight(d.home), 0);
    assert_int_equal(pp_lane_request(d.home, &a.req, run), PP_OK);
    sem_wait(&d.entered);
    assert_int_equal(pp_lane_in_flight(d.home), 1);
    assert_int_equal(pp_lane_request(d.home, &b.req, run), PP_OK);
    assert_int_equal(pp_lane_request(d.home, &c.req, run), PP_EFULL);
    assert_int_equal(pp_lane_in_flight(d.home), 2);
    atomic_store(&d.run_gate, false);
    sem_post(&d.leave);
    while (atomic_load(&d.ran) < 2)
        sched_yield();
    /* The lane has run both requests, but the loop has not called their done() yet. */
    assert_int_equal(pp_lane_in_flight(d.home), 2);
    assert_int_equal(a.done + b.done, 0);
    pp_test_until(d.loop, has_all, &b, BOUND_MS);
    assert_int_equal(a.in_flight, 1);
    assert_int_equal(b.in_flight, 0);
    assert_int_equal(b.req.err, PP_EIO);
    assert_int_equal(c.done, 0);
    close_driver(&d);
}

static void idle_in_between(void **state)
{
    (void)state;
    struct driver d;
    open_driver(&d, 1);
    for (int i = 0; i < 3; i++)
        sem_wait(&d.idled);
    struct ask a = ask_of(&d);
    /* Work that the lane's thread does between requests is not a request in flight. */
    assert_int_equal(pp_lane_in_flight(d.home), 0);
    for (int i = 0; i < 20; i++) {
        a.done = 0;
        assert_int_equal(pp_lane_request(d.home, &a.req, run), PP_OK);
        pp_test_until(d.loop, has_all, &a, BOUND_MS);
        assert_int_equal(a.done, 1);
        while (sem_trywait(&d.idled) == 0)
            ;
        sem_wait(&d.idled);
    }
    close_driver(&d);
    assert_int_equal(d.runs, 20);
}

static void a_request_waits_for_idle(void **state)
{
    (void)state;
    struct driver d;
    open_driver(&d, 1);
    struct ask a = ask_of(&d);
    atomic_store(&d.idle_gate, true);
    sem_wait(&d.entered);
    /* idle() runs on the lane's thread, and submitting a request does not wait for it. */
    assert_int_equal(pp_lane_request(d.home, &a.req, run), PP_OK);
    assert_int_equal(pp_lane_in_flight(d.home), 1);
    pp_loop_turn(d.loop, false);
    assert_int_equal(a.done, 0);
    atomic_store(&d.idle_gate, false);
    sem_post(&d.leave);
    pp_test_until(d.loop, has_all, &a, BOUND_MS);
    close_driver(&d);
}

/* --- closing the lane --- */

static void *close_lane(void *lane)
{
    pp_lane_close(lane);
    return NULL;
}

static void closing_waits(void **state)
{
    (void)state;
    for (int in_idle = 0; in_idle < 2; in_idle++) {
        struct driver d;
        open_driver(&d, in_idle);
        struct ask a = ask_of(&d), b = a, late = a;
        atomic_store(in_idle ? &d.idle_gate : &d.run_gate, true);
        if (in_idle)
            sem_wait(&d.entered);
        assert_int_equal(pp_lane_request(d.home, &a.req, run), PP_OK);
        if (!in_idle) {
            sem_wait(&d.entered);
            assert_int_equal(pp_lane_request(d.home, &b.req, run), PP_OK);
        }
        pthread_t closer;
        assert_int_equal(pthread_create(&closer, NULL, close_lane, d.lane), 0);
        enum pp_err err;
        while ((err = pp_lane_request(d.home, &late.req, run)) == PP_EFULL)
            sched_yield();
        assert_int_equal(err, PP_ECLOSED);
        assert_false(atomic_load(&d.closed));
        atomic_store(in_idle ? &d.idle_gate : &d.run_gate, false);
        sem_post(&d.leave);
        pthread_join(closer, NULL);
        assert_true(atomic_load(&d.closed));
        d.lane = NULL;
        assert_int_equal(a.done, 0);
        pp_test_until(d.loop, has_all, &a, BOUND_MS);
        assert_int_equal(a.done, 1);
        assert_int_equal(b.done, !in_idle);
        assert_int_equal(late.done, 0);
        close_driver(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answered_once_on_the_loop),
        cmocka_unit_test(in_flight_until_it_is_back),
        cmocka_unit_test(idle_in_between),
        cmocka_unit_test(a_request_waits_for_idle),
        cmocka_unit_test(closing_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
