/* The MongoDB task store when the server, or the way to it, fails.
 *
 * "Every command": an operation is run again and again, and each time another one of the commands that it
 * sends is lost on its way, or its answer is, until there is none left. Whatever the operation then says, its
 * caller does what it would do in the product (repeat it, renew, reap), and the result is the same as without
 * any fault, exactly once. The others are about the server itself: it steps down, is killed, freezes,
 * refuses. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/mongo/mongo_store.h"
#include "mongo_proxy.h"
#include "mongo_server.h"
#include "photopool/code.h"
#include "suite_store_kit.h"
#include "test_loop.h"

enum { TIMEOUT_MS = 3000, TRIES = 30, MAX_COMMANDS = 60, OTHER_QUEUES_MS = 60000 };

/* --- stores that are reached through the proxy --- */

static struct mongo_proxy *proxy;

static enum pp_err open_store(struct pp_loop *loop, const char *url, struct pp_task_store **out)
{
    char error[PP_MONGO_ERROR_MAX];
    struct pp_mongo_options o = {.uri = url, .timeout_ms = TIMEOUT_MS};
    if (proxy)
        o.uri = mongo_server_by_way_of(url, mongo_proxy_port(proxy));
    enum pp_err err = pp_mongo_task_store_open(loop, &o, out, error);
    if (err != PP_OK)
        print_message("%s: %s\n", o.uri, error);
    return err;
}

static const struct pp_store_subject subject = {"mongo", mongo_server_database, open_store};

struct expected {
    const char *client, *batch;
    size_t items;
    enum pp_batch_state state;
};

static struct expected expected[256];
static size_t n_expected;

static int open_any(void **state)
{
    n_expected = 0;
    return sk_open(state);
}

static int open_proxied(void **state)
{
    proxy = mongo_proxy_open(mongo_server_port());
    n_expected = 0;
    return sk_open(state);
}

static int close_proxied(void **state)
{
    int rc = sk_close(state);
    mongo_proxy_close(proxy);
    proxy = NULL;
    return rc;
}

/* --- every command --- */

/* One run: clients and batches of its own, so that runs share a database. */
struct trial {
    struct store_kit *k;
    const char *client, *other, *batch, *batch2;
    struct pp_task tasks[16];
    size_t n;
};

struct operation {
    const char *name;
    void (*prepare)(struct trial *t);
    enum pp_err (*run)(struct trial *t); /* again until PP_OK, unless `once` */
    void (*check)(struct trial *t);
    bool once;
};

static const struct {
    enum mongo_proxy_fault fault;
    unsigned times;
    const char *text;
} faults[] = {
    {MONGO_LOSE_REPLY, 1, "answer lost"},
    {MONGO_LOSE_REPLY, 2, "answer lost, and that of the next"}, /* the driver repeats some commands once */
    {MONGO_LOSE_REQUEST, 2, "two commands lost"},
};

/* False: the operation has fewer commands. */
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
    mongo_proxy_fault(proxy, NULL, NULL, faults[fault].fault, command, faults[fault].times);
    enum pp_err err = o->run(&t);
    for (int i = 0; i < TRIES && err != PP_OK && !o->once; i++) {
        assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
        err = o->run(&t);
    }
    assert_true(o->once || err == PP_OK);
    bool struck = mongo_proxy_calm(proxy) > 0;
    o->check(&t);
    return struck;
}

static void look_at_results(struct store_kit *k);

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
    look_at_results(k);
}

static enum pp_err run_reap(struct store_kit *k)
{
    struct pp_store_reap r;
    do {
        r = (struct pp_store_reap){.now_ms = k->now, .limit = 1000};
        KIT_RUN(k, reap, &r);
    } while (r.req.err == PP_OK && r.lapsed + r.quarantined == r.limit);
    return r.req.err;
}

/* What somebody left half done is taken up by the reaper. */
static void let_others_mend(struct store_kit *k)
{
    k->now += OTHER_QUEUES_MS;
    assert_int_equal(run_reap(k), PP_OK);
}

static const struct pp_task *task_of(const struct trial *t, const char *photo)
{
    struct pp_key key = sk_key(t->client, photo);
    for (size_t i = 0; i < t->n; i++)
        if (!memcmp(&t->tasks[i].key, &key, sizeof key))
            return &t->tasks[i];
    fail_msg("%s is not there", photo);
    return NULL;
}

static void keep_tasks(struct trial *t, const struct pp_store_claim *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (size_t j = 0; j < t->n; j++)
            assert_memory_not_equal(&t->tasks[j].key, &c->tasks[i].key, sizeof c->tasks[i].key);
        assert_true(t->n < sizeof t->tasks / sizeof *t->tasks);
        t->tasks[t->n++] = c->tasks[i];
    }
}

static void claim_all(struct trial *t, size_t count)
{
    t->n = 0;
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        keep_tasks(t, sk_claim(t->k, t->client, q, 16));
    assert_int_equal(t->n, count);
}

/* Everything that is claimed is stored. */
static void store_all(struct trial *t)
{
    for (size_t i = 0; i < t->n; i++)
        assert_false(sk_final(t->k, KIT_WORKER, &t->tasks[i], PP_OUTCOME_STORED));
    t->n = 0;
}

static void expect_item(struct trial *t, const char *id, enum pp_item_status status, uint32_t revision)
{
    struct pp_item item = sk_item(t->k, t->client, id);
    assert_int_equal(item.status, status);
    assert_int_equal(item.revision, revision);
    assert_int_equal(item.seq > 0, status != PP_ITEM_OPEN);
}

/* --- results: numbers that somebody took and lost hold them up for some seconds, so all are looked at in the
 * end --- */

static void expect_finished(struct trial *t, const char *batch, size_t items, enum pp_batch_state state)
{
    struct pp_batch b = sk_batch(t->k, batch);
    assert_int_equal(b.state, state);
    assert_int_equal(b.items[PP_ITEM_OPEN], 0);
    assert_true(b.finished_at > 0);
    assert_true(n_expected < sizeof expected / sizeof *expected);
    expected[n_expected++] = (struct expected){t->client, batch, items, state};
}

struct look {
    struct store_kit *k;
    const struct expected *e;
};

static bool all_items_are_shown(void *arg)
{
    struct look *l = arg;
    size_t n;
    struct pp_item *all = sk_results(l->k, l->e->batch, 3, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(strcmp(all[i].id, all[j].id) != 0);
    assert_true(n <= l->e->items);
    return n == l->e->items;
}

static void look_at_results(struct store_kit *k)
{
    for (size_t i = 0; i < n_expected; i++) {
        struct look l = {k, &expected[i]};
        pp_test_until(k->loop, all_items_are_shown, &l, 60000);
        sk_check_counts(k, expected[i].client, expected[i].batch, "");
    }
    n_expected = 0;
}

/* --- claim --- */

static void six_tasks(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch, "a: p1 p2 p3 p4 p5 p6");
}

static enum pp_err claim_four(struct trial *t)
{
    struct pp_claim_want want = {.client = t->client, .n = 4, .hash_hi = UINT32_MAX};
    struct pp_store_claim r = {
        .worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .wants = &want, .n_wants = 1, .now_ms = t->k->now};
    KIT_RUN(t->k, claim, &r);
    if (r.req.err == PP_OK)
        keep_tasks(t, &r);
    else
        assert_true(r.req.err == PP_EUNKNOWN || r.req.err == PP_EIO || r.req.err == PP_ETIMEOUT);
    return r.req.err;
}

/* What nobody was told of is there for the next one at once, as if it had not been claimed. */
static void six_once(struct trial *t)
{
    struct pp_store_renew renew = {.worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .now_ms = t->k->now};
    KIT_OK(t->k, renew, &renew);
    for (size_t had = t->n + 1; had != t->n;) {
        had = t->n;
        keep_tasks(t, sk_claim(t->k, t->client, 0, 16));
    }
    assert_int_equal(t->n, 6);
    for (size_t i = 0; i < t->n; i++) {
        assert_int_equal(t->tasks[i].attempts, 1);
        assert_int_equal(t->tasks[i].losses, 0);
    }
    store_all(t);
    expect_finished(t, t->batch, 1, PP_BATCH_FINISHED);
}

static void claim_loses_any(void **state)
{
    every_command(state, &(const struct operation){"claim", six_tasks, claim_four, six_once, true});
}

/* --- settle --- */

static void four_claimed(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch, "a: p q; b: p r; c: s");
    claim_all(t, 4);
}

static enum pp_err settle_four(struct trial *t)
{
    struct pp_settlement s[4] = {sk_settlement(task_of(t, "p"), PP_OUTCOME_STORED),
                                 sk_settlement(task_of(t, "q"), PP_OUTCOME_FAILED),
                                 {.task = task_of(t, "r"), .kind = PP_SETTLE_RETRY, .due_ms = t->k->now},
                                 {.task = task_of(t, "s"), .kind = PP_SETTLE_RELEASE, .due_ms = t->k->now}};
    struct pp_store_settle r = {.worker = KIT_WORKER, .settlements = s, .n = 4, .now_ms = t->k->now};
    s[1].ladder = true;
    KIT_RUN(t->k, settle, &r);
    return r.req.err;
}

static void settled_once(struct trial *t)
{
    let_others_mend(t->k);
    assert_int_equal(sk_photo(t->k, t->client, "q")->photo.fail_streak, 1);
    claim_all(t, 2);
    assert_int_equal(task_of(t, "r")->attempts, 2);
    assert_int_equal(task_of(t, "s")->attempts, 1);
    store_all(t);
    expect_item(t, "a", PP_ITEM_PARTIAL, 1);
    expect_item(t, "b", PP_ITEM_COMPLETE, 1);
    expect_item(t, "c", PP_ITEM_COMPLETE, 1);
    expect_finished(t, t->batch, 3, PP_BATCH_FINISHED);
    assert_false(sk_photo(t->k, t->client, "p")->open);
}

static void settle_loses_any(void **state)
{
    every_command(state, &(const struct operation){"settle", four_claimed, settle_four, settled_once, false});
}

/* The same for outcomes that end items and their batch. */
static enum pp_err settle_all(struct trial *t)
{
    struct pp_settlement s[4];
    for (size_t i = 0; i < t->n; i++)
        s[i] = sk_settlement(&t->tasks[i], PP_OUTCOME_STORED);
    struct pp_store_settle r = {.worker = KIT_WORKER, .settlements = s, .n = t->n, .now_ms = t->k->now};
    KIT_RUN(t->k, settle, &r);
    return r.req.err;
}

static void all_ended_once(struct trial *t)
{
    let_others_mend(t->k);
    claim_all(t, 0);
    expect_item(t, "a", PP_ITEM_COMPLETE, 1);
    expect_item(t, "b", PP_ITEM_COMPLETE, 1);
    expect_item(t, "c", PP_ITEM_COMPLETE, 1);
    expect_finished(t, t->batch, 3, PP_BATCH_FINISHED);
    for (const char *p = "p\0q\0r\0s\0"; *p; p += 2) {
        assert_false(sk_photo(t->k, t->client, p)->open);
        assert_int_equal(sk_photo(t->k, t->client, p)->photo.object.type, 1);
    }
}

static void the_last_settle_loses_any(void **state)
{
    every_command(state,
                  &(const struct operation){"settle all", four_claimed, settle_all, all_ended_once, false});
}

/* --- plan --- */

static void one_batch_before(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch, "z: v");
    assert_false(sk_fail(t->k, sk_claim(t->k, t->client, 0, 1)->tasks, 404, true));
    sk_plan(t->k, t->client, t->batch2, "a: p q; b: r");
}

static enum pp_err plan_more(struct trial *t)
{
    const char *batch = pp_arena_printf(&t->k->arena, "%s_3", t->batch);
    struct pp_store_plan *r =
        sk_plan_of(t->k, t->client, batch, "a: q s; c: t x=stored; d: u=failed; e: v=skipped");
    KIT_RUN(t->k, plan, r);
    if (r->req.err == PP_OK) {
        assert_int_equal(r->items[0].revision, 2);
        for (size_t i = 1; i < 4; i++)
            assert_int_equal(r->items[i].revision, 1);
    }
    return r->req.err;
}

static void planned_once(struct trial *t)
{
    const char *batch = pp_arena_printf(&t->k->arena, "%s_3", t->batch);
    let_others_mend(t->k);
    expect_item(t, "a", PP_ITEM_OPEN, 2);
    expect_item(t, "d", PP_ITEM_FAILED, 1);
    expect_item(t, "e", PP_ITEM_FAILED, 1);
    assert_false(sk_photo(t->k, t->client, "p")->open);                 /* nobody wants it any more */
    assert_in_range(sk_photo(t->k, t->client, "v")->photo.skips, 0, 1); /* counted at most once */
    claim_all(t, 4);                                                    /* q r s t */
    store_all(t);
    expect_finished(t, t->batch2, 2, PP_BATCH_FINISHED);
    expect_finished(t, batch, 4, PP_BATCH_FINISHED);
}

static void plan_loses_any(void **state)
{
    every_command(state, &(const struct operation){"plan", one_batch_before, plan_more, planned_once, false});
}

/* --- reap, cancel, clean --- */

/* p for the third time, q for the first. */
static void two_lost(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch2, "a: p");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sk_claim(t->k, t->client, 0, 1)->n, 1);
        t->k->now += KIT_LEASE_MS + 1;
        assert_int_equal(run_reap(t->k), PP_OK);
    }
    sk_plan(t->k, t->client, t->batch, "b: p q; c: r");
    assert_int_equal(sk_claim(t->k, t->client, PP_QUEUE_SUSPECT, 1)->n, 1);
    assert_int_equal(sk_claim(t->k, t->client, 0, 1)->n, 1);
    t->k->now += KIT_LEASE_MS + 1;
}

static enum pp_err reap_them(struct trial *t)
{
    return run_reap(t->k);
}

static void quarantined_once(struct trial *t)
{
    let_others_mend(t->k);
    struct pp_item a = sk_item(t->k, t->client, "a");
    assert_int_equal(a.status, PP_ITEM_FAILED);
    assert_int_equal(a.photos[0].outcome.code, PP_CODE_QUARANTINED);
    claim_all(t, 2);
    assert_int_equal(task_of(t, "q")->losses, 1);
    assert_int_equal(task_of(t, "q")->attempts, 2);
    assert_int_equal(task_of(t, "r")->losses, 0);
    store_all(t);
    expect_item(t, "b", PP_ITEM_PARTIAL, 1);
    expect_finished(t, t->batch, 2, PP_BATCH_FINISHED);
    expect_finished(t, t->batch2, 1, PP_BATCH_FINISHED);
}

static void reap_loses_any(void **state)
{
    every_command(state, &(const struct operation){"reap", two_lost, reap_them, quarantined_once, false});
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
    struct pp_store_cancel r = {.batch_id = t->batch, .now_ms = t->k->now};
    KIT_RUN(t->k, cancel, &r);
    return r.req.err;
}

static void cancelled_once(struct trial *t)
{
    let_others_mend(t->k);
    expect_item(t, "a", PP_ITEM_CANCELLED, 1);
    expect_item(t, "b", PP_ITEM_CANCELLED, 1);
    expect_item(t, "c", PP_ITEM_COMPLETE, 1);
    expect_item(t, "d", PP_ITEM_CANCELLED, 1);
    claim_all(t, 0);
    expect_finished(t, t->batch, 4, PP_BATCH_CANCELLED);
}

static void cancel_loses_any(void **state)
{
    every_command(state, &(const struct operation){"cancel", half_done, cancel_it, cancelled_once, false});
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

static void clean_loses_any(void **state)
{
    every_command(state, &(const struct operation){"clean", two_old, forget_them, forgotten, false});
}

/* --- the way is cut --- */

/* Nothing can be asked after the update: the claim is unknown; its tasks come back as soon as the store
 * answers. */
static void claims_of_a_lost_answer_are_handed_back(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    six_tasks(&t);
    mongo_proxy_fault(proxy, "update", "photos", MONGO_LOSE_REPLY, 0, 1);
    mongo_proxy_fault(proxy, "find", "photos", MONGO_LOSE_REQUEST, 0, 100);
    assert_int_equal(claim_four(&t), PP_EUNKNOWN);
    mongo_proxy_calm(proxy);
    struct pp_store_queue q = {0};
    KIT_OK(k, queue, &q);
    assert_int_equal(q.claimed, 4);
    struct pp_store_renew renew = {.worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .now_ms = k->now};
    KIT_OK(k, renew, &renew);
    KIT_OK(k, queue, &q);
    assert_int_equal(q.claimed, 0);
    assert_int_equal(q.counts[0].photos, 6);
    six_once(&t);
    look_at_results(k);
}

/* The server has the command and says nothing. */
static void an_answer_that_does_not_come(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    six_tasks(&t);
    mongo_proxy_fault(proxy, "update", "photos", MONGO_HOLD_REPLY, 0, 1);
    enum pp_err err = claim_four(&t);
    assert_int_equal(mongo_proxy_calm(proxy), 1);
    assert_true(err == PP_OK ? t.n == 4 : t.n == 0);
    six_once(&t);
    look_at_results(k);
}

static void cut_for_a_while(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    four_claimed(&t);
    mongo_proxy_cut(proxy, true);
    struct pp_store_item item = {.client = "c", .id = "a"};
    KIT_RUN(k, item, &item);
    assert_true(item.req.err == PP_EIO || item.req.err == PP_ETIMEOUT);
    enum pp_err err = settle_all(&t);
    assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
    mongo_proxy_cut(proxy, false);
    assert_int_equal(settle_all(&t), PP_OK);
    all_ended_once(&t);
    look_at_results(k);
}

/* --- the server --- */

enum { AT_ONCE = 12, CYCLES = 240, PER_CYCLE = 4 };

/* Cycles of plan, claim, settle go on while something happens to the server; a request that fails is
 * repeated. */
struct crowd {
    struct store_kit *k;
    struct trial *trials[CYCLES];
    unsigned begun, ended, under_way, repeated;
    pthread_t thread;
    const char *what;
    int status;
    atomic_bool happened;
    bool stop;
};

struct cycle {
    struct crowd *crowd;
    struct trial *t;
    struct pp_store_plan *plan;
    struct pp_store_claim claim;
    struct pp_claim_want want;
    struct pp_store_settle settle;
    struct pp_settlement settlements[PER_CYCLE];
};

static bool tolerable(enum pp_err err)
{
    return err == PP_OK || err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT;
}

static void next_step(struct pp_req *req);

static struct pp_req request(struct cycle *c)
{
    c->crowd->under_way++;
    return (struct pp_req){.done = next_step, .data = c, .arena = &c->crowd->k->arena};
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
                                         .now_ms = c->crowd->k->now};
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
    c->crowd->under_way--;
    assert_true(tolerable(req->err));
    c->crowd->repeated += req->err != PP_OK;
    if (req == &c->plan->req)
        (req->err == PP_OK ? submit_claim : submit_plan)(c);
    if (req == &c->claim.req) {
        if (req->err == PP_OK)
            keep_tasks(c->t, &c->claim);
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

static bool under_way_for_a_while(void *arg)
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
        cycles[i] = (struct cycle){.crowd = all};
        begin(&cycles[i]);
    }
    pp_test_until(k->loop, under_way_for_a_while, all, 60000);
    assert_int_equal(pthread_create(&all->thread, NULL, make_it_happen, all), 0);
    pp_test_until(k->loop, has_happened, all, 120000);
    pthread_join(all->thread, NULL);
    assert_int_equal(all->status, 0);
    all->stop = true;
    pp_test_until(k->loop, has_gone_on, all, 120000);
    assert_int_equal(all->under_way, 0);
    print_message("%s: %u cycles, %u requests were repeated\n", what, all->ended, all->repeated);
    let_others_mend(k);
    for (unsigned i = 0; i < all->ended; i++)
        all_ended_once(all->trials[i]);
    look_at_results(k);
}

static void steps_down_in_the_middle(void **state)
{
    through(state, "stepdown");
}

static void killed_and_restarted(void **state)
{
    through(state, "restart");
}

/* Gone for longer than anybody waits, then there again. */
static void killed_for_a_while(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    if (!mongo_server_is_ours())
        skip();
    four_claimed(&t);
    mongo_server_do("kill", NULL);
    enum pp_err err = settle_all(&t);
    assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
    mongo_server_do("start", NULL);
    for (int i = 0; i < TRIES && err != PP_OK; i++)
        err = settle_all(&t);
    assert_int_equal(err, PP_OK);
    all_ended_once(&t);
    look_at_results(k);
}

static void frozen_for_a_while(void **state)
{
    struct store_kit *k = *state;
    struct trial t = {.k = k, .client = "c", .batch = "b_1"};
    if (!mongo_server_is_ours())
        skip();
    four_claimed(&t);
    mongo_server_do("stop", NULL);
    enum pp_err err = settle_all(&t);
    mongo_server_do("cont", NULL);
    assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
    for (int i = 0; i < TRIES && err != PP_OK; i++)
        err = settle_all(&t);
    assert_int_equal(err, PP_OK);
    all_ended_once(&t);
    look_at_results(k);
}

/* --- the server says no --- */

static void refusals(void **state)
{
    /* What a command is answered with, and in which ones; the driver repeats what is labelled once. */
    static const char *const points[] = {
        /* shutting down, before anything is done */
        "{\"mode\": {\"times\": 1}, \"data\": {\"failCommands\": [\"update\", \"findAndModify\", \"insert\", "
        "\"delete\"], "
        "\"errorCode\": 91, \"errorLabels\": [\"RetryableWriteError\"]}}",
        "{\"mode\": {\"times\": 3}, \"data\": {\"failCommands\": [\"update\", \"findAndModify\", \"insert\", "
        "\"delete\"], "
        "\"errorCode\": 91, \"errorLabels\": [\"RetryableWriteError\"]}}",
        /* done, but not on a majority in time */
        "{\"mode\": {\"times\": 2}, \"data\": {\"failCommands\": [\"update\", \"findAndModify\", \"insert\", "
        "\"delete\"], "
        "\"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting for replication timed out\"}}}",
        /* not the primary any more */
        "{\"mode\": {\"times\": 3}, \"data\": {\"failCommands\": [\"update\", \"find\", \"aggregate\", "
        "\"insert\"], "
        "\"errorCode\": 10107}}",
        /* took too long */
        "{\"mode\": {\"times\": 2}, \"data\": {\"failCommands\": [\"update\", \"find\", \"aggregate\", "
        "\"insert\"], "
        "\"errorCode\": 50}}",
        /* the connection closes */
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
        one_batch_before(&t);
        mongo_server_do("fail", points[i]);
        enum pp_err err = PP_EIO;
        for (int n = 0; n < TRIES && err != PP_OK; n++) {
            err = plan_more(&t);
            assert_true(tolerable(err));
        }
        mongo_server_do("fail-off", NULL);
        assert_int_equal(err, PP_OK);
        planned_once(&t);
        t.batch = pp_arena_printf(&k->arena, "b_%zu_4", i);
        t.client = pp_arena_printf(&k->arena, "d%zu", i);
        four_claimed(&t);
        mongo_server_do("fail", points[i]);
        err = PP_EIO;
        for (int n = 0; n < TRIES && err != PP_OK; n++) {
            err = settle_four(&t);
            assert_true(tolerable(err));
        }
        mongo_server_do("fail-off", NULL);
        assert_int_equal(err, PP_OK);
        settled_once(&t);
    }
    look_at_results(k);
}

#define P(f) cmocka_unit_test_setup_teardown(f, open_proxied, close_proxied)
#define T(f) cmocka_unit_test_setup_teardown(f, open_any, sk_close)

int main(int argc, char **argv)
{
    (void)argc;
    mongo_server_start(argv);
    sk_use(&subject);
    const struct CMUnitTest lost[] = {
        P(claim_loses_any),
        P(settle_loses_any),
        P(the_last_settle_loses_any),
        P(plan_loses_any),
        P(reap_loses_any),
        P(cancel_loses_any),
        P(clean_loses_any),
        P(claims_of_a_lost_answer_are_handed_back),
        P(an_answer_that_does_not_come),
        P(cut_for_a_while),
    };
    const struct CMUnitTest server[] = {
        T(steps_down_in_the_middle),
        T(killed_and_restarted),
        T(killed_for_a_while),
        T(frozen_for_a_while),
        T(refusals),
    };
    int failed = cmocka_run_group_tests_name("messages lost", lost, NULL, NULL);
    failed += cmocka_run_group_tests_name("the server fails", server, NULL, NULL);
    pp_mongo_cleanup();
    return failed;
}
