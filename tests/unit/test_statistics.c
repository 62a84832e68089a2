/* Tests that each result is counted exactly once: while the store fails or loses its answers, and
 * while two processes both believe that they lead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/memory/delivery.h"
#include "fake_delivery.h"
#include "pipeline/deliver/deliver_internal.h"
#include "prng.h"
#include "test_clock.h"
#include "test_loop.h"

enum { TURNS = 30, PROCESSES = 2 };

/* A delivery store that forwards requests, and fails some of them before or after they took
 * effect. */
struct faulty {
    struct pp_delivery_store base, *inner;
    uint64_t rng;
    unsigned of_100; /* so many of 100 requests fail */
    bool lose_answer;
    struct pp_req was; /* the `req` of the request in flight */
};

struct kit {
    struct pp_loop *loop;
    struct pp_params params;
    struct fake_outbox store;
    struct pp_memory_delivery *server;
    struct pp_election *lease;
    struct faulty faulty[PROCESSES];
    struct pp_deliverer_options o[PROCESSES];
    struct pp_statistics *statistics[PROCESSES];
    uint64_t items[3]; /* of client "0", of client "1", and of all: as stored */
};

static void on_done(struct pp_req *req)
{
    struct faulty *f = req->data;
    enum pp_err err = f->lose_answer ? PP_EUNKNOWN : req->err;
    *req = f->was;
    req->err = err;
    req->done(req);
}

static bool strikes(struct faulty *f)
{
    return pp_test_between(&f->rng, 0, 99) < (int64_t)f->of_100;
}

static enum pp_err forward(struct faulty *f, struct pp_req *req)
{
    if (strikes(f))
        return PP_EIO;
    f->lose_answer = strikes(f);
    f->was = *req;
    req->done = on_done;
    req->data = f;
    return PP_OK;
}

#define FORWARD(op, type)                                                 \
    static enum pp_err op(struct pp_delivery_store *base, struct type *r) \
    {                                                                     \
        struct faulty *f = (struct faulty *)base;                         \
        enum pp_err err = forward(f, &r->req);                            \
        return err == PP_OK ? f->inner->ops->op(f->inner, r) : err;       \
    }
FORWARD(days_begin, pp_days_begin)
FORWARD(days_add, pp_days_add)

static void pass(struct kit *k, int64_t ms)
{
    for (; ms > 0; ms -= 50) {
        pp_test_clock_pass(k->loop, 50);
        for (int i = 0; i < TURNS; i++)
            (void)pp_loop_turn(k->loop, false);
    }
}

static void open_process(struct kit *k, int i)
{
    k->statistics[i] = pp_statistics_open(&k->o[i], k->lease);
    assert_non_null(k->statistics[i]);
}

static void close_process(struct kit *k, int i)
{
    pp_statistics_stop(k->statistics[i]);
    while (pp_statistics_busy(k->statistics[i]) > 0)
        pass(k, 50);
    pp_statistics_close(k->statistics[i]);
}

static int setup(void **state)
{
    static const struct pp_delivery_store_ops ops = {.days_begin = days_begin, .days_add = days_add};
    struct kit *k = calloc(1, sizeof(*k));
    *state = k;
    k->loop = pp_loop_open();
    pp_test_clock_hold(k->loop);
    fake_outbox_open(&k->store, k->loop);
    k->server = pp_memory_delivery_new(NULL);
    assert_non_null(k->server);
    k->lease = pp_election_open(
        &(struct pp_election_options){.loop = k->loop, .name = "deliver/test", .alone = true});
    for (int i = 0; i < PROCESSES; i++) {
        struct faulty *f = &k->faulty[i];
        *f = (struct faulty){.base.ops = &ops};
        f->rng = (uint64_t)i + 1;
        assert_int_equal(pp_memory_delivery_open(k->loop, k->server, NULL, &f->inner), PP_OK);
        k->o[i] = (struct pp_deliverer_options){
            .loop = k->loop, .params = &k->params, .store = &k->store.base, .deliveries = &f->base};
        open_process(k, i);
    }
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;
    for (int i = 0; i < PROCESSES; i++) {
        close_process(k, i);
        k->faulty[i].inner->ops->close(k->faulty[i].inner);
    }
    pp_election_close(k->lease);
    pp_memory_delivery_free(k->server);
    fake_outbox_close(&k->store);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

static void note_day(void *data, const struct pp_day *day)
{
    struct kit *k = data;
    if (day->of == PP_DAY_OF_ALL)
        k->items[2] += day->n[PP_DAY_items];
    else if (day->of == PP_DAY_OF_CLIENT)
        k->items[day->name[0] - '0'] += day->n[PP_DAY_items];
}

static void look(struct kit *k)
{
    memset(k->items, 0, sizeof(k->items));
    pp_memory_delivery_each_day(k->server, note_day, k);
}

/* Finishes n items, of both clients in turn. */
static void finish(struct kit *k, uint64_t n)
{
    static const char *const clients[] = {"0", "1"};
    for (uint64_t i = 0; i < n; i++)
        fake_outbox_put(&k->store, clients[k->store.n % 2]);
}

static void all_are_counted(struct kit *k)
{
    look(k);
    assert_int_equal(k->items[2], k->store.n);
    assert_int_equal(k->items[0], (k->store.n + 1) / 2);
    assert_int_equal(k->items[1], k->store.n / 2);
}

/* Without faults, results are in the statistics within 3 s, also more of them than one read of the
 * outbox returns. */
static void soon_and_once(void **state)
{
    static const uint64_t amounts[] = {1, 2, 1100, 7};
    struct kit *k = *state;
    pass(k, 500);
    for (size_t i = 0; i < sizeof(amounts) / sizeof(*amounts); i++) {
        finish(k, amounts[i]);
        pass(k, 2900);
        all_are_counted(k);
    }
}

static void with_faults(void **state)
{
    struct kit *k = *state;
    for (unsigned of_100 = 10; of_100 <= 50; of_100 += 20) {
        for (int i = 0; i < PROCESSES; i++)
            k->faulty[i].of_100 = of_100;
        for (int round = 0; round < 20; round++) {
            finish(k, (uint64_t)round);
            pass(k, 1000);
            look(k);
            assert_true(k->items[2] <= k->store.n);
        }
    }
    for (int i = 0; i < PROCESSES; i++)
        k->faulty[i].of_100 = 0;
    pass(k, 20000);
    all_are_counted(k);
}

/* Processes end at any moment, and new ones go on. */
static void with_restarts(void **state)
{
    struct kit *k = *state;
    for (int round = 0; round < 40; round++) {
        finish(k, 5);
        pass(k, 150 + round * 37 % 1500);
        close_process(k, round % PROCESSES);
        open_process(k, round % PROCESSES);
    }
    pass(k, 5000);
    all_are_counted(k);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {T(soon_and_once), T(with_faults), T(with_restarts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
