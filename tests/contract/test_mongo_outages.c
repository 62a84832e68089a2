/* Tests the MongoDB task store when the server fails: its connections are cut, or the server steps
 * down, is killed, freezes, or refuses commands. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "adapter/mongo/mongo_store.h"
#include "suite_mongo_kit.h"
#include "test_loop.h"

/* --- cut connections --- */

/* The connection breaks after the claim's update, so the store can't ask what was written, and the
 * outcome is unknown. It hands the tasks back once the server answers again. */
static void claims_of_a_lost_answer_are_handed_back(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    mk_six_tasks(&t);
    mongo_proxy_fault(mk_proxy, "update", "photos", MONGO_LOSE_REPLY_AND_CUT, 0, 1);
    assert_int_equal(mk_claim_four(&t), PP_EUNKNOWN);
    assert_int_equal(mongo_proxy_calm(mk_proxy), 1);
    mongo_proxy_cut(mk_proxy, false);
    struct pp_store_queue q = {0};
    KIT_OK(k, queue, &q);
    assert_int_equal(q.claimed, 4);
    struct pp_store_renew renew = {.worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .now_ms = k->now};
    KIT_OK(k, renew, &renew);
    KIT_OK(k, queue, &q);
    assert_int_equal(q.claimed, 0);
    assert_int_equal(q.counts[0].photos, 6);
    mk_six_once(&t);
}

static int64_t claimed(struct store_kit *k)
{
    struct pp_store_queue q = {0};
    KIT_OK(k, queue, &q);
    return q.claimed;
}

static bool renewed_without_them(void *data)
{
    struct store_kit *k = data;
    struct pp_store_renew renew = {.worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .now_ms = k->now};
    KIT_OK(k, renew, &renew);
    return claimed(k) == 0;
}

/* The store is unreachable for longer than the lease. Once the server is back, the worker renews
 * its tasks before any process reaps them. It must not renew the tasks of the claim whose answer
 * was lost. */
static void claims_of_a_lost_answer_are_not_renewed_for_ever(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    struct pp_store_renew renew = {.worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS};
    mk_six_tasks(&t);
    mongo_proxy_fault(mk_proxy, "update", "photos", MONGO_LOSE_REPLY_AND_CUT, 0, 1);
    assert_int_equal(mk_claim_four(&t), PP_EUNKNOWN);
    assert_int_equal(mongo_proxy_calm(mk_proxy), 1);
    k->now += 2 * KIT_LEASE_MS;
    renew.now_ms = k->now;
    KIT_RUN(k, renew, &renew);
    assert_true(mk_tolerable(renew.req.err) && renew.req.err != PP_OK);
    mongo_proxy_cut(mk_proxy, false);
    pp_test_until(k->loop, renewed_without_them, k, 20000);
    mk_six_once(&t);
}

/* The store opens although no server is running. It writes nothing until a server runs, and then
 * works as usual. */
static void opened_while_there_is_none(void **state)
{
    struct store_kit *k = *state;
    char error[PP_MONGO_ERROR_MAX];
    struct pp_mongo_options o = {.uri = mongo_server_by_way_of(k->place, mongo_proxy_port(mk_proxy)),
                                 .timeout_ms = 4000};
    struct pp_task_store *strict;
    struct pp_store_queue q = {0};
    mongo_proxy_cut(mk_proxy, true);
    k->store->ops->close(k->store);
    k->store = NULL;
    assert_int_equal(pp_mongo_task_store_open(k->loop, &o, &strict, error), PP_EIO);
    o.later = true;
    assert_int_equal(pp_mongo_task_store_open(k->loop, &o, &k->store, error), PP_OK);
    KIT_RUN(k, queue, &q);
    assert_int_equal(q.req.err, PP_EIO);
    mongo_proxy_cut(mk_proxy, false);
    /* The store asks the server again, although the request just before has failed. */
    KIT_RUN(k, queue, &q);
    assert_string_equal(pp_err_text(q.req.err), pp_err_text(PP_OK));
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    mk_six_tasks(&t);
    assert_int_equal(mk_claim_four(&t), PP_OK);
    mk_six_once(&t);
}

/* The server executes the command, but its answer does not arrive. */
static void an_answer_that_does_not_come(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    mk_six_tasks(&t);
    mongo_proxy_fault(mk_proxy, "update", "photos", MONGO_HOLD_REPLY, 0, 1);
    enum pp_err err = mk_claim_four(&t);
    assert_int_equal(mongo_proxy_calm(mk_proxy), 1);
    assert_true(err == PP_OK ? t.n == 4 : t.n == 0);
    mk_six_once(&t);
}

static void cut_for_a_while(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    mk_four_claimed(&t);
    mongo_proxy_cut(mk_proxy, true);
    struct pp_store_item item = {.client = "c", .id = "a"};
    KIT_RUN(k, item, &item);
    assert_true(item.req.err == PP_EIO || item.req.err == PP_ETIMEOUT);
    enum pp_err err = mk_settle_all(&t);
    assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
    mongo_proxy_cut(mk_proxy, false);
    assert_int_equal(mk_settle_all(&t), PP_OK);
    mk_all_ended_once(&t);
}

/* --- faults of the server --- */

enum { AT_ONCE = 12, CYCLES = 240, PER_CYCLE = 4 };

/* Cycles of plan, claim and settle, which continue while the server has a fault. A cycle repeats a
 * request that failed. */
struct crowd {
    struct store_kit *k;
    struct trial *trials[CYCLES];
    unsigned begun, ended, in_flight, repeated;
    pthread_t thread;
    const char *what;
    int status;
    atomic_bool happened;
    bool stop;
};

struct cycle {
    struct crowd *crowd;
    struct pp_arena *arena;
    struct trial *t;
    struct pp_store_plan *plan;
    struct pp_store_claim claim;
    struct pp_claim_want want;
    struct pp_store_settle settle;
    struct pp_settlement settlements[PER_CYCLE];
};

static void next_step(struct pp_req *req);

static struct pp_req request(struct cycle *c)
{
    c->crowd->in_flight++;
    return (struct pp_req){.done = next_step, .data = c, .arena = c->arena};
}

static void submit_plan(struct cycle *c)
{
    struct pp_task_store *s = c->crowd->k->store;
    c->plan = sk_plan_of(c->crowd->k, c->t->client, c->t->batch, "a: p q; b: p r; c: s");
    c->plan->req = request(c);
    assert_int_equal(s->ops->plan(s, c->plan), PP_OK);
}

static void submit_claim(struct cycle *c)
{
    struct pp_task_store *s = c->crowd->k->store;
    c->want = (struct pp_claim_want){.client = c->t->client, .n = PER_CYCLE, .hash_hi = UINT32_MAX};
    c->claim = (struct pp_store_claim){.req = request(c),
                                       .worker = KIT_WORKER,
                                       .lease_ms = KIT_LEASE_MS,
                                       .wants = &c->want,
                                       .n_wants = 1,
                                       .now_ms = c->crowd->k->now};
    assert_int_equal(s->ops->claim(s, &c->claim), PP_OK);
}

static void submit_settle(struct cycle *c)
{
    struct pp_task_store *s = c->crowd->k->store;
    for (size_t n = 0; n < c->t->n; n++)
        c->settlements[n] = sk_settlement(&c->t->tasks[n], PP_OUTCOME_STORED);
    c->settle = (struct pp_store_settle){.req = request(c),
                                         .worker = KIT_WORKER,
                                         .settlements = c->settlements,
                                         .n = c->t->n,
                                         .now_ms = c->crowd->k->now,
                                         .date_ms = c->crowd->k->now};
    assert_int_equal(s->ops->settle(s, &c->settle), PP_OK);
}

static void begin(struct cycle *c)
{
    struct crowd *all = c->crowd;
    if (all->stop || all->begun == CYCLES)
        return;
    struct pp_arena *a = &all->k->arena;
    c->t = all->trials[all->begun++] = pp_arena_alloc(a, sizeof *c->t);
    *c->t = (struct trial){.k = all->k,
                           .client = pp_arena_printf(a, "c%u", all->begun),
                           .batch = pp_arena_printf(a, "b_%u", all->begun)};
    submit_plan(c);
}

static void next_step(struct pp_req *req)
{
    struct cycle *c = req->data;
    c->crowd->in_flight--;
    assert_true(mk_tolerable(req->err));
    c->crowd->repeated += req->err != PP_OK;
    if (req == &c->plan->req)
        (req->err == PP_OK ? submit_claim : submit_plan)(c);
    if (req == &c->claim.req) {
        if (req->err == PP_OK)
            mk_keep(c->t, &c->claim);
        (c->t->n == PER_CYCLE ? submit_settle : submit_claim)(c);
    }
    if (req != &c->settle.req)
        return;
    if (req->err != PP_OK) {
        submit_settle(c);
    } else {
        c->crowd->ended++;
        begin(c);
    }
}

static void *make_it_happen(void *arg)
{
    struct crowd *all = arg;
    all->status = mongo_server_try(all->what, NULL);
    atomic_store(&all->happened, true);
    return NULL;
}

static bool in_flight_for_a_while(void *arg)
{
    return ((struct crowd *)arg)->ended >= AT_ONCE;
}

static bool has_happened(void *arg)
{
    return atomic_load(&((struct crowd *)arg)->happened);
}

static bool has_gone_on(void *arg)
{
    const struct crowd *all = arg;
    return all->begun == all->ended || all->ended >= CYCLES;
}

static void through(void **state, const char *what)
{
    struct store_kit *k = *state;
    struct cycle cycles[AT_ONCE];
    if (!mongo_server_is_ours())
        skip();
    struct crowd *all = pp_arena_alloc(&k->arena, sizeof *all);
    *all = (struct crowd){.k = k, .what = what};
    for (int i = 0; i < AT_ONCE; i++) {
        cycles[i] = (struct cycle){.crowd = all, .arena = sk_arena(k)};
        begin(&cycles[i]);
    }
    pp_test_until(k->loop, in_flight_for_a_while, all, 60000);
    assert_int_equal(pthread_create(&all->thread, NULL, make_it_happen, all), 0);
    pp_test_until(k->loop, has_happened, all, 120000);
    pthread_join(all->thread, NULL);
    assert_int_equal(all->status, 0);
    all->stop = true;
    pp_test_until(k->loop, has_gone_on, all, 120000);
    assert_int_equal(all->in_flight, 0);
    print_message("%s: %u cycles, %u requests were repeated\n", what, all->ended, all->repeated);
    mk_let_others_mend(k);
    for (unsigned i = 0; i < all->ended; i++)
        mk_all_ended_once(all->trials[i]);
}

static void steps_down_in_the_middle(void **state)
{
    through(state, "stepdown");
}

static void killed_and_restarted(void **state)
{
    through(state, "restart");
}

/* The server is down for longer than any timeout, and then starts again. */
static void killed_for_a_while(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    if (!mongo_server_is_ours())
        skip();
    mk_four_claimed(&t);
    mongo_server_do("kill", NULL);
    enum pp_err err = mk_settle_all(&t);
    assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
    mongo_server_do("start", NULL);
    for (int i = 0; i < MK_TRIES && err != PP_OK; i++)
        err = mk_settle_all(&t);
    assert_int_equal(err, PP_OK);
    mk_all_ended_once(&t);
}

static void frozen_for_a_while(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    if (!mongo_server_is_ours())
        skip();
    mk_four_claimed(&t);
    mongo_server_do("stop", NULL);
    enum pp_err err = mk_settle_all(&t);
    mongo_server_do("cont", NULL);
    assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
    for (int i = 0; i < MK_TRIES && err != PP_OK; i++)
        err = mk_settle_all(&t);
    assert_int_equal(err, PP_OK);
    mk_all_ended_once(&t);
}

/* --- the server refuses --- */

static void refusals(void **state)
{
    /* Each point is an error and the commands that the server answers with this error. The driver
     * repeats a command once if the error has a certain label. */
    static const char *const points[] = {
        /* The server is shutting down and has done nothing. */
        "{\"mode\": {\"times\": 1}, \"data\": {\"failCommands\": [\"update\", \"findAndModify\", \"insert\", "
        "\"delete\"], "
        "\"errorCode\": 91, \"errorLabels\": [\"RetryableWriteError\"]}}",
        "{\"mode\": {\"times\": 3}, \"data\": {\"failCommands\": [\"update\", \"findAndModify\", \"insert\", "
        "\"delete\"], "
        "\"errorCode\": 91, \"errorLabels\": [\"RetryableWriteError\"]}}",
        /* The server has done the write, but no majority has acknowledged it in time. */
        "{\"mode\": {\"times\": 2}, \"data\": {\"failCommands\": [\"update\", \"findAndModify\", \"insert\", "
        "\"delete\"], "
        "\"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting for replication timed out\"}}}",
        /* The server is no longer the primary. */
        "{\"mode\": {\"times\": 3}, \"data\": {\"failCommands\": [\"update\", \"find\", \"aggregate\", "
        "\"insert\"], "
        "\"errorCode\": 10107}}",
        /* The command took too long. */
        "{\"mode\": {\"times\": 2}, \"data\": {\"failCommands\": [\"update\", \"find\", \"aggregate\", "
        "\"insert\"], "
        "\"errorCode\": 50}}",
        /* The server closes the connection. */
        "{\"mode\": {\"times\": 3}, \"data\": {\"failCommands\": [\"update\", \"find\", \"aggregate\", "
        "\"insert\"], "
        "\"closeConnection\": true}}",
    };
    struct store_kit *k = *state;
    if (!mongo_server_is_ours())
        skip();
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        struct trial t = {.k = k,
                          .client = pp_arena_printf(&k->arena, "c%zu", i),
                          .batch = pp_arena_printf(&k->arena, "b_%zu", i),
                          .batch2 = pp_arena_printf(&k->arena, "b_%zu_2", i)};
        mk_one_batch_before(&t);
        mongo_server_do("fail", points[i]);
        enum pp_err err = PP_EIO;
        for (int n = 0; n < MK_TRIES && err != PP_OK; n++) {
            err = mk_plan_more(&t);
            assert_true(mk_tolerable(err));
        }
        mongo_server_do("fail-off", NULL);
        assert_int_equal(err, PP_OK);
        mk_planned_once(&t);
        t.batch = pp_arena_printf(&k->arena, "b_%zu_4", i);
        t.client = pp_arena_printf(&k->arena, "d%zu", i);
        mk_four_claimed(&t);
        mongo_server_do("fail", points[i]);
        err = PP_EIO;
        for (int n = 0; n < MK_TRIES && err != PP_OK; n++) {
            err = mk_settle_four(&t);
            assert_true(mk_tolerable(err));
        }
        mongo_server_do("fail-off", NULL);
        assert_int_equal(err, PP_OK);
        mk_settled_once(&t);
    }
}

#define P(f) cmocka_unit_test_setup_teardown(f, mk_open_proxied, mk_close_proxied)
#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)

int main(int argc, char **argv)
{
    (void)argc;
    mongo_server_start(argv);
    mk_timeout_ms = 5000;
    sk_use(&mk_subject);
    const struct CMUnitTest tests[] = {
        P(opened_while_there_is_none),
        P(claims_of_a_lost_answer_are_handed_back),
        P(claims_of_a_lost_answer_are_not_renewed_for_ever),
        P(an_answer_that_does_not_come),
        P(cut_for_a_while),
        T(steps_down_in_the_middle),
        T(killed_and_restarted),
        T(killed_for_a_while),
        T(frozen_for_a_while),
        T(refusals),
    };
    int failed = cmocka_run_group_tests_name("mongo: outages", tests, NULL, NULL);
    pp_mongo_cleanup();
    return failed;
}
