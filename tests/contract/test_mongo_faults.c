/* Tests the MongoDB task store when messages are lost: in turn, each command of an operation or its
 * answer is lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/mongo/mongo_store.h"
#include "photopool/code.h"
#include "suite_mongo_kit.h"

enum { MAX_COMMANDS = 60 };

struct operation {
    const char *name;
    void (*prepare)(struct trial *t);
    /* the operation itself, which the test repeats until PP_OK, unless `once` */
    enum pp_err (*run)(struct trial *t);
    void (*check)(struct trial *t);
    bool once;
};

/* The proxy loses two messages each time, because the driver repeats some commands once. */
static const struct {
    enum mongo_proxy_fault fault;
    const char *text;
} faults[] = {
    {MONGO_LOSE_REPLY, "two answers lost"},
    {MONGO_LOSE_REQUEST, "two commands lost"},
};

/* Runs the operation while one of its commands, or the answer to it, is lost. Returns false if the
 * operation has fewer commands. */
static bool one_trial(struct store_kit *k, const struct operation *o, size_t fault, unsigned command,
                      unsigned number)
{
    struct trial t = {.k = k,
                      .client = pp_arena_printf(&k->arena, "c%u", number),
                      .batch = pp_arena_printf(&k->arena, "b_%u", number),
                      .batch2 = pp_arena_printf(&k->arena, "b_%u_2", number)};
    if (getenv("V"))
        print_message("%s fault %zu command %u\n", o->name, fault, command);
    o->prepare(&t);
    mongo_proxy_fault(mk_proxy, NULL, NULL, faults[fault].fault, command, 2);
    enum pp_err err = o->run(&t);
    for (int i = 0; i < MK_TRIES && err != PP_OK && !o->once; i++) {
        assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
        err = o->run(&t);
    }
    assert_true(o->once || err == PP_OK);
    bool struck = mongo_proxy_calm(mk_proxy) > 0;
    o->check(&t);
    return struck;
}

static void every_command(void **state, const struct operation *o)
{
    struct store_kit *k = *state;
    unsigned number = 0;
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        unsigned command = 0;
        while (one_trial(k, o, f, command, number++))
            assert_true(++command < MAX_COMMANDS);
        print_message("%s: %s: %u commands\n", o->name, faults[f].text, command);
        assert_true(command > 0);
    }
}

/* --- reap, cancel, clean --- */

/* Prepares a reap: photo p loses its lease for the third time, photo q for the first. */
static void two_lost(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch2, "a: p");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sk_claim(t->k, t->client, 0, 1)->n, 1);
        t->k->now += KIT_LEASE_MS + 1;
        assert_int_equal(mk_reap(t->k), PP_OK);
    }
    sk_plan(t->k, t->client, t->batch, "b: p q; c: r");
    assert_int_equal(sk_claim(t->k, t->client, PP_QUEUE_SUSPECT, 1)->n, 1);
    assert_int_equal(sk_claim(t->k, t->client, 0, 1)->n, 1);
    t->k->now += KIT_LEASE_MS + 1;
}

static enum pp_err reap_them(struct trial *t)
{
    return mk_reap(t->k);
}

static void quarantined_once(struct trial *t)
{
    mk_let_others_mend(t->k);
    struct pp_item a = sk_item(t->k, t->client, "a");
    assert_int_equal(a.status, PP_ITEM_FAILED);
    assert_int_equal(a.photos[0].outcome.code, PP_CODE_QUARANTINED);
    mk_claim_all(t, 2);
    assert_int_equal(mk_task(t, "q")->losses, 1);
    assert_int_equal(mk_task(t, "q")->attempts, 2);
    assert_int_equal(mk_task(t, "r")->losses, 0);
    mk_store_all(t);
    mk_expect_item(t, "b", PP_ITEM_PARTIAL, 1);
    mk_expect_finished(t, t->batch, 2, PP_BATCH_FINISHED);
    mk_expect_finished(t, t->batch2, 1, PP_BATCH_FINISHED);
}

static void half_done(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch2, "z: q");
    struct pp_task *q = sk_claim_photo(t->k, t->client, "q");
    sk_plan(t->k, t->client, t->batch, "a: p q; b: q r; c: s=stored; d: t");
    assert_false(sk_final(t->k, KIT_WORKER, q, PP_OUTCOME_STORED));
}

static enum pp_err cancel_it(struct trial *t)
{
    struct pp_store_cancel r = {.batch_id = t->batch, .date_ms = t->k->now};
    KIT_RUN(t->k, cancel, &r);
    return r.req.err;
}

static void cancelled_once(struct trial *t)
{
    mk_let_others_mend(t->k);
    mk_expect_item(t, "a", PP_ITEM_CANCELLED, 1);
    mk_expect_item(t, "b", PP_ITEM_CANCELLED, 1);
    mk_expect_item(t, "c", PP_ITEM_COMPLETE, 1);
    mk_expect_item(t, "d", PP_ITEM_CANCELLED, 1);
    mk_claim_all(t, 0);
    mk_expect_finished(t, t->batch, 4, PP_BATCH_CANCELLED);
}

static void two_old(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch, "a: p=stored; b: q=failed");
    sk_plan(t->k, t->client, t->batch2, "a: p=stored");
}

static enum pp_err forget_them(struct trial *t)
{
    struct pp_store_clean r;
    do {
        r = (struct pp_store_clean){.finished_before_ms = t->k->now + 1, .limit = 2};
        KIT_RUN(t->k, clean, &r);
    } while (r.req.err == PP_OK && r.items == r.limit);
    return r.req.err;
}

static void forgotten(struct trial *t)
{
    const char *ids[] = {t->batch, t->batch2};
    for (int i = 0; i < 2; i++) {
        struct pp_store_batch r = {.batch_id = ids[i]};
        KIT_RUN(t->k, batch, &r);
        assert_int_equal(r.req.err, PP_ENOTFOUND);
    }
    struct pp_store_plan *r = sk_plan(t->k, t->client, t->batch, "a: p=stored; b: q=failed; c: r=stored");
    assert_int_equal(r->items[0].revision, 3);
    assert_int_equal(r->items[1].revision, 2);
    assert_int_equal(r->items[2].revision, 1);
    assert_int_equal(forget_them(t), PP_OK);
}

/* --- forgetting an item --- */

static void three_revisions(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch, "a: p=stored; b: q=failed");
    sk_plan(t->k, t->client, t->batch2, "a: p=stored");
    sk_plan(t->k, t->client, pp_arena_printf(&t->k->arena, "%s_3", t->batch), "a: p=stored");
}

static enum pp_err forget_one(struct trial *t)
{
    struct pp_store_forget_item r = {
        .client = t->client, .id = "a", .finished_before_ms = INT64_MAX, .upto_seq = UINT64_MAX};
    KIT_RUN(t->k, forget_item, &r);
    return r.req.err == PP_ENOTFOUND ? PP_OK : r.req.err; /* a call whose answer was lost has done it */
}

static void nothing_left(struct trial *t)
{
    size_t n;
    struct pp_store_item a = {.client = t->client, .id = "a"};
    KIT_RUN(t->k, item, &a);
    assert_int_equal(a.req.err, PP_ENOTFOUND);
    struct pp_item *items = sk_results(t->k, t->batch, 10, &n);
    assert_true(n == 1 && !strcmp(items[0].id, "b"));
    sk_results(t->k, t->batch2, 10, &n);
    assert_int_equal(n, 0);
    assert_int_equal(sk_batch(t->k, t->batch).items[PP_ITEM_COMPLETE], 1);
    assert_int_equal(sk_batch(t->k, t->batch2).items[PP_ITEM_COMPLETE], 1);
    const char *later = pp_arena_printf(&t->k->arena, "%s_4", t->batch);
    assert_int_equal(sk_plan(t->k, t->client, later, "a: p=stored")->items[0].revision, 4);
}

/* --- the tests, one for each operation --- */

static void claim_loses_any(void **state)
{
    every_command(state, &(const struct operation){"claim", mk_six_tasks, mk_claim_four, mk_six_once, true});
}

static void settle_loses_any(void **state)
{
    every_command(
        state, &(const struct operation){"settle", mk_four_claimed, mk_settle_four, mk_settled_once, false});
}

static void the_last_settle_loses_any(void **state)
{
    every_command(state, &(const struct operation){"settle all", mk_four_claimed, mk_settle_all,
                                                   mk_all_ended_once, false});
}

static void plan_loses_any(void **state)
{
    every_command(
        state, &(const struct operation){"plan", mk_one_batch_before, mk_plan_more, mk_planned_once, false});
}

static void reap_loses_any(void **state)
{
    every_command(state, &(const struct operation){"reap", two_lost, reap_them, quarantined_once, false});
}

static void cancel_loses_any(void **state)
{
    every_command(state, &(const struct operation){"cancel", half_done, cancel_it, cancelled_once, false});
}

static void clean_loses_any(void **state)
{
    every_command(state, &(const struct operation){"clean", two_old, forget_them, forgotten, false});
}

static void forget_item_loses_any(void **state)
{
    every_command(state,
                  &(const struct operation){"forget item", three_revisions, forget_one, nothing_left, false});
}

#define P(f)                                                                  \
    {                                                                         \
        cmocka_unit_test_setup_teardown(f, mk_open_proxied, mk_close_proxied) \
    }

static int run(const struct CMUnitTest *test)
{
    int failed = _cmocka_run_group_tests(test->name, test, 1, NULL, NULL);
    pp_mongo_cleanup();
    return failed;
}

int main(int argc, char **argv)
{
    (void)argc;
    mongo_server_start(argv);
    sk_use(&mk_subject);
    const struct CMUnitTest tests[][1] = {
        P(claim_loses_any), P(settle_loses_any), P(the_last_settle_loses_any), P(plan_loses_any),
        P(reap_loses_any),  P(cancel_loses_any), P(clean_loses_any),           P(forget_item_loses_any),
    };
    enum { N = sizeof tests / sizeof *tests };
    pid_t pids[N];
    int failed = 0, status;
    for (int i = 0; i < N; i++) {
        fflush(stdout);
        pids[i] = fork();
        if (pids[i] == 0)
            exit(run(tests[i]));
    }
    for (int i = 0; i < N; i++)
        failed += pids[i] < 0 || waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    return failed;
}
