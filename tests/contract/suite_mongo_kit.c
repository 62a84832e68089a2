/* suite_mongo_kit.c: operations on MongoDB stores, their preparations, and the checks of their
 * results. */
#include "suite_mongo_kit.h"

#include <string.h>

#include "adapter/mongo/mongo_store.h"
#include "test_loop.h"

enum { OTHERS_MS = 60000 };

/* --- stores --- */

struct mongo_proxy *mk_proxy;
int64_t mk_timeout_ms = MONGO_SERVER_PATIENCE_MS;

static enum pp_err open_store(struct pp_loop *loop, const char *url, struct pp_task_store **out)
{
    char error[PP_MONGO_ERROR_MAX];
    struct pp_mongo_options o = {.uri = url, .timeout_ms = mk_timeout_ms, .key_of = sk_key_of};
    if (mk_proxy)
        o.uri = mongo_server_by_way_of(url, mongo_proxy_port(mk_proxy));
    enum pp_err err = pp_mongo_task_store_open(loop, &o, out, error);
    if (err != PP_OK)
        print_message("%s: %s\n", o.uri, error);
    return err;
}

const struct pp_store_subject mk_subject = {"mongo", mongo_server_emptied, open_store};

int mk_open_proxied(void **state)
{
    mk_proxy = mongo_proxy_open(mongo_server_port());
    return sk_open(state);
}

int mk_close_proxied(void **state)
{
    int rc = sk_close(state);
    mongo_proxy_close(mk_proxy);
    mk_proxy = NULL;
    return rc;
}

bool mk_tolerable(enum pp_err err)
{
    return err == PP_OK || err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT;
}

/* --- other processes --- */

enum pp_err mk_reap(struct store_kit *k)
{
    struct pp_store_reap r;
    do {
        r = (struct pp_store_reap){.now_ms = k->now, .date_ms = k->now, .limit = 1000};
        KIT_RUN(k, reap, &r);
    } while (r.req.err == PP_OK && r.lapsed + r.quarantined == r.limit);
    return r.req.err;
}

void mk_let_others_mend(struct store_kit *k)
{
    k->now += OTHERS_MS;
    assert_int_equal(mk_reap(k), PP_OK);
}

const struct pp_task *mk_task(const struct trial *t, const char *photo)
{
    struct pp_key key = sk_key(t->client, photo);
    for (size_t i = 0; i < t->n; i++)
        if (!memcmp(&t->tasks[i].key, &key, sizeof key))
            return &t->tasks[i];
    fail_msg("%s is missing", photo);
    return NULL;
}

void mk_keep(struct trial *t, const struct pp_store_claim *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (size_t j = 0; j < t->n; j++)
            assert_memory_not_equal(&t->tasks[j].key, &c->tasks[i].key, sizeof c->tasks[i].key);
        assert_true(t->n < sizeof t->tasks / sizeof *t->tasks);
        t->tasks[t->n++] = c->tasks[i];
    }
}

void mk_claim_all(struct trial *t, size_t count)
{
    t->n = 0;
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        mk_keep(t, sk_claim(t->k, t->client, q, 16));
    assert_int_equal(t->n, count);
}

/* Settles every task that the run has claimed, each as stored. */
void mk_store_all(struct trial *t)
{
    for (size_t i = 0; i < t->n; i++)
        assert_false(sk_final(t->k, KIT_WORKER, &t->tasks[i], PP_OUTCOME_STORED));
    t->n = 0;
}

void mk_expect_item(struct trial *t, const char *id, enum pp_item_status status, uint32_t revision)
{
    struct pp_item item = sk_item(t->k, t->client, id);
    assert_int_equal(item.status, status);
    assert_int_equal(item.revision, revision);
    assert_int_equal(item.seq > 0, status != PP_ITEM_OPEN);
}

void mk_expect_finished(struct trial *t, const char *batch, size_t items, enum pp_batch_state state)
{
    size_t n;
    struct pp_batch b = sk_batch(t->k, batch);
    assert_int_equal(b.state, state);
    assert_int_equal(b.items[PP_ITEM_OPEN], 0);
    assert_true(b.finished_at > 0);
    struct pp_item *all = sk_results(t->k, batch, 3, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(strcmp(all[i].id, all[j].id) != 0);
    assert_int_equal(n, items);
    sk_check_counts(t->k, t->client, batch, "");
}

/* --- claim --- */

void mk_six_tasks(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch, "a: p1 p2 p3 p4 p5 p6");
}

enum pp_err mk_claim_four(struct trial *t)
{
    struct pp_claim_want want = {.client = t->client, .n = 4, .hash_hi = UINT32_MAX};
    struct pp_store_claim r = {
        .worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .wants = &want, .n_wants = 1, .now_ms = t->k->now};
    KIT_RUN(t->k, claim, &r);
    if (r.req.err == PP_OK)
        mk_keep(t, &r);
    else
        assert_true(r.req.err == PP_EUNKNOWN || r.req.err == PP_EIO || r.req.err == PP_ETIMEOUT);
    return r.req.err;
}

/* Checks that each of the six tasks can be claimed exactly once. If the answer to a claim was lost,
 * its tasks can be claimed again before their lease ends. */
void mk_six_once(struct trial *t)
{
    struct pp_store_renew renew = {.worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .now_ms = t->k->now};
    KIT_OK(t->k, renew, &renew);
    for (size_t had = t->n + 1; had != t->n;) {
        had = t->n;
        mk_keep(t, sk_claim(t->k, t->client, 0, 16));
    }
    assert_int_equal(t->n, 6);
    for (size_t i = 0; i < t->n; i++) {
        assert_int_equal(t->tasks[i].attempts, 1);
        assert_int_equal(t->tasks[i].losses, 0);
    }
    mk_store_all(t);
    mk_expect_finished(t, t->batch, 1, PP_BATCH_FINISHED);
}

/* --- settle --- */

void mk_four_claimed(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch, "a: p q; b: p r; c: s");
    mk_claim_all(t, 4);
}

enum pp_err mk_settle_four(struct trial *t)
{
    struct pp_settlement s[4] = {sk_settlement(mk_task(t, "p"), PP_OUTCOME_STORED),
                                 sk_settlement(mk_task(t, "q"), PP_OUTCOME_FAILED),
                                 {.task = mk_task(t, "r"), .kind = PP_SETTLE_RETRY, .due_ms = t->k->now},
                                 {.task = mk_task(t, "s"), .kind = PP_SETTLE_RELEASE, .due_ms = t->k->now}};
    struct pp_store_settle r = {
        .worker = KIT_WORKER, .settlements = s, .n = 4, .now_ms = t->k->now, .date_ms = t->k->now};
    s[1].ladder = true;
    KIT_RUN(t->k, settle, &r);
    return r.req.err;
}

void mk_settled_once(struct trial *t)
{
    mk_let_others_mend(t->k);
    assert_int_equal(sk_photo(t->k, t->client, "q")->photo.fail_streak, 1);
    mk_claim_all(t, 2);
    assert_int_equal(mk_task(t, "r")->attempts, 2);
    assert_int_equal(mk_task(t, "s")->attempts, 1);
    mk_store_all(t);
    mk_expect_item(t, "a", PP_ITEM_PARTIAL, 1);
    mk_expect_item(t, "b", PP_ITEM_COMPLETE, 1);
    mk_expect_item(t, "c", PP_ITEM_COMPLETE, 1);
    mk_expect_finished(t, t->batch, 3, PP_BATCH_FINISHED);
    assert_false(sk_photo(t->k, t->client, "p")->open);
}

enum pp_err mk_settle_all(struct trial *t)
{
    struct pp_settlement s[4];
    for (size_t i = 0; i < t->n; i++)
        s[i] = sk_settlement(&t->tasks[i], PP_OUTCOME_STORED);
    struct pp_store_settle r = {
        .worker = KIT_WORKER, .settlements = s, .n = t->n, .now_ms = t->k->now, .date_ms = t->k->now};
    KIT_RUN(t->k, settle, &r);
    return r.req.err;
}

void mk_all_ended_once(struct trial *t)
{
    mk_let_others_mend(t->k);
    mk_claim_all(t, 0);
    mk_expect_item(t, "a", PP_ITEM_COMPLETE, 1);
    mk_expect_item(t, "b", PP_ITEM_COMPLETE, 1);
    mk_expect_item(t, "c", PP_ITEM_COMPLETE, 1);
    mk_expect_finished(t, t->batch, 3, PP_BATCH_FINISHED);
    for (const char *p = "p\0q\0r\0s\0"; *p; p += 2) {
        assert_false(sk_photo(t->k, t->client, p)->open);
        assert_int_equal(sk_photo(t->k, t->client, p)->photo.object.type, 1);
    }
}

/* --- plan --- */

void mk_one_batch_before(struct trial *t)
{
    sk_plan(t->k, t->client, t->batch, "z: v");
    assert_false(sk_fail(t->k, sk_claim(t->k, t->client, 0, 1)->tasks, 404, true));
    sk_plan(t->k, t->client, t->batch2, "a: p q; b: r");
}

enum pp_err mk_plan_more(struct trial *t)
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

void mk_planned_once(struct trial *t)
{
    const char *batch = pp_arena_printf(&t->k->arena, "%s_3", t->batch);
    mk_let_others_mend(t->k);
    mk_expect_item(t, "a", PP_ITEM_OPEN, 2);
    mk_expect_item(t, "d", PP_ITEM_FAILED, 1);
    mk_expect_item(t, "e", PP_ITEM_FAILED, 1);
    /* No item needs photo p any more, so the store has removed its task. */
    assert_false(sk_photo(t->k, t->client, "p")->open);
    /* The store counts the skip of photo v at most once, although the plan may be repeated. */
    assert_in_range(sk_photo(t->k, t->client, "v")->photo.skips, 0, 1);
    mk_claim_all(t, 4); /* The claim must return the tasks of the photos q, r, s and t. */
    mk_store_all(t);
    mk_expect_finished(t, t->batch2, 2, PP_BATCH_FINISHED);
    mk_expect_finished(t, batch, 4, PP_BATCH_FINISHED);
}
