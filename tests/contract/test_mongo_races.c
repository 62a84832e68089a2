/* Tests several stores on one database that do everything at the same time: imports that supersede
 * each other, one batch planned by two stores, claims, settlements, cancels, reaping. Meanwhile
 * readers page through results and follow the outbox. A second test does the same while commands
 * fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "adapter/mongo/mongo_store.h"
#include "mongo_server.h"
#include "suite_store_kit.h"
#include "test_loop.h"

/* This time limit is longer than any wait on a slow machine, in ms. */
#define PATIENCE_MS 240000

enum {
    STORES = 3,
    AT_ONCE = 14,
    CLIENTS = 2,
    ITEMS = 8,
    PHOTOS = 12,
    BATCHES = 90,
    STEPS = 420,
    HELD = 2000
};

static const char *const clients[CLIENTS] = {"c0", "c1"};
static const char *const workers[STORES] = {"host-1-aaaa", "host-2-bbbb", "host-3-cccc"};
static const char all_items[] = "i0 i1 i2 i3 i4 i5 i6 i7";

struct batch {
    char id[16];
    int client;
    bool paging, planned;
    uint64_t after_seq;
    unsigned seen[ITEMS];
    unsigned followed[ITEMS]; /* how often the outbox has shown each item */
};

struct claimed {
    struct pp_task task;
    int store;
};

struct world {
    struct store_kit *k;
    struct pp_task_store *stores[STORES];
    uint64_t rng;
    bool faults;
    unsigned in_flight, failures;
    /* The first error that a callback saw. The test reports it outside the loop, because cmocka
     * must not longjmp out of a callback. */
    const char *wrong;
    struct batch batches[BATCHES];
    int n_batches;
    bool following;
    uint64_t followed; /* the seq up to which the test has read the outbox */
    struct claimed held[HELD];
    size_t n_held;
};

struct op {
    struct world *w;
    struct pp_arena arena;
    int store;
    struct batch *batch;
    union {
        struct pp_req req;
        struct pp_store_plan plan;
        struct pp_store_claim claim;
        struct pp_store_settle settle;
        struct pp_store_cancel cancel;
        struct pp_store_reap reap;
        struct pp_store_results results;
        struct pp_store_outbox outbox;
    } r;
    struct pp_store_plan *rest; /* the second chunk of the batch */
    struct pp_claim_want want;
    struct pp_task task;
    struct pp_settlement settlement;
};

static enum pp_err open_store(struct pp_loop *loop, const char *url, struct pp_task_store **out)
{
    char error[PP_MONGO_ERROR_MAX];
    char *named = NULL;
    assert_true(asprintf(&named, "%s%sappname=races", url, strchr(url, '?') ? "&" : "?") > 0);
    enum pp_err err = pp_mongo_task_store_open(
        loop, &(struct pp_mongo_options){.uri = named, .timeout_ms = MONGO_SERVER_PATIENCE_MS}, out, error);
    if (err != PP_OK)
        print_message("%s: %s\n", named, error);
    free(named);
    return err;
}

static const struct pp_store_subject subject = {"mongo", mongo_server_emptied, open_store};

static int64_t below(struct world *w, int64_t n)
{
    return pp_test_between(&w->rng, 0, n - 1);
}

static void expect_that(struct world *w, bool yes, const char *what)
{
    if (!yes && !w->wrong)
        w->wrong = what;
}
#define EXPECT(w, cond) expect_that((w), (cond), #cond)

/* --- requests in flight --- */

static struct op *new_op(struct world *w)
{
    struct op *op = calloc(1, sizeof *op);
    assert_non_null(op);
    op->w = w;
    op->store = (int)below(w, STORES);
    pp_arena_init(&op->arena, 0);
    return op;
}

static void prepare(struct op *op, struct pp_req *req, void (*done)(struct pp_req *))
{
    *req = (struct pp_req){.done = done, .data = op, .arena = &op->arena};
    op->w->in_flight++;
}

static void end_op(struct op *op)
{
    pp_arena_fini(&op->arena);
    free(op);
}

/* Looks at the answer of a request. Returns true if the request must be repeated. Only faults may
 * make a request fail. */
static bool failed(struct op *op, enum pp_err err)
{
    op->w->in_flight--;
    if (err == PP_OK)
        return false;
    expect_that(op->w, op->w->faults && (err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT),
                pp_err_text(err));
    op->w->failures++;
    return !op->w->wrong;
}

#define SUBMIT(op, name, request, done)                          \
    do {                                                         \
        struct pp_task_store *s_ = (op)->w->stores[(op)->store]; \
        prepare((op), &(request)->req, (done));                  \
        assert_int_equal(s_->ops->name(s_, (request)), PP_OK);   \
    } while (0)

/* --- planning --- */

static void planned(struct pp_req *req)
{
    struct op *op = req->data;
    if (failed(op, req->err)) {
        SUBMIT(op, plan, &op->r.plan, planned);
        return;
    }
    if (op->rest) {
        op->r.plan = *op->rest;
        op->rest = NULL;
        SUBMIT(op, plan, &op->r.plan, planned);
        return;
    }
    op->batch->planned = true;
    end_op(op);
}

static void batch_text(struct world *w, char *text, size_t size)
{
    bool used[ITEMS] = {false};
    *text = '\0';
    for (int64_t i = 1 + below(w, 4); i > 0; i--) {
        int item = (int)below(w, ITEMS);
        if (used[item])
            continue;
        used[item] = true;
        snprintf(text + strlen(text), size - strlen(text), "%si%d:", *text ? "; " : "", item);
        for (int64_t p = below(w, 5); p > 0; p--) {
            static const char *const ends[] = {"", "", "", "", "=stored", "=skipped"};
            snprintf(text + strlen(text), size - strlen(text), " p%d%s", (int)below(w, PHOTOS),
                     ends[below(w, 6)]);
        }
    }
}

/* Plans a batch, in one chunk or in two. Sometimes two requests plan the same batch at the same
 * time. */
static void step_plan(struct world *w)
{
    char text[512];
    if (w->n_batches == BATCHES)
        return;
    struct batch *b = &w->batches[w->n_batches];
    b->client = (int)below(w, CLIENTS);
    snprintf(b->id, sizeof b->id, "b_%04d", w->n_batches++);
    batch_text(w, text, sizeof text);
    bool cut = below(w, 3) == 0;
    for (int64_t twice = below(w, 4) == 0; twice >= 0; twice--) {
        struct op *op = new_op(w);
        op->batch = b;
        op->r.plan = *sk_plan_of(w->k, clients[b->client], b->id, text);
        if (cut && op->r.plan.n > 1) {
            op->rest = pp_arena_alloc(&w->k->arena, sizeof *op->rest);
            *op->rest = op->r.plan;
            op->r.plan.n = 1;
            op->r.plan.last = false;
            op->rest->items++;
            op->rest->n--;
        }
        SUBMIT(op, plan, &op->r.plan, planned);
    }
}

/* --- claiming and settling --- */

static struct pp_task keep_task(struct world *w, const struct pp_task *from)
{
    struct pp_task t = *from;
    t.client = pp_arena_strdup(&w->k->arena, from->client);
    t.url = pp_arena_strdup(&w->k->arena, from->url);
    t.domain = pp_arena_strdup(&w->k->arena, from->domain);
    t.etag = t.last_modified = NULL;
    return t;
}

static void claimed(struct pp_req *req)
{
    struct op *op = req->data;
    struct world *w = op->w;
    /* If the answer is lost, the tasks come back when their leases expire. */
    bool lost = failed(op, req->err);
    for (size_t i = 0; !lost && i < op->r.claim.n; i++) {
        EXPECT(w, w->n_held < HELD);
        w->held[w->n_held++] = (struct claimed){keep_task(w, &op->r.claim.tasks[i]), op->store};
    }
    end_op(op);
}

static void step_claim(struct world *w)
{
    static const uint8_t queues[] = {0, 0, 0, 1, PP_QUEUE_SUSPECT};
    struct op *op = new_op(w);
    op->want = (struct pp_claim_want){.client = clients[below(w, CLIENTS)],
                                      .queue = queues[below(w, 5)],
                                      .n = 1 + (uint32_t)below(w, 5),
                                      .hash_hi = UINT32_MAX};
    op->r.claim = (struct pp_store_claim){.worker = workers[op->store],
                                          .lease_ms = KIT_LEASE_MS,
                                          .wants = &op->want,
                                          .n_wants = 1,
                                          .now_ms = w->k->now};
    SUBMIT(op, claim, &op->r.claim, claimed);
}

static void settled(struct pp_req *req)
{
    struct op *op = req->data;
    if (failed(op, req->err))
        SUBMIT(op, settle, &op->r.settle, settled);
    else
        end_op(op);
}

static void step_settle(struct world *w)
{
    static const enum pp_outcome_kind kinds[] = {PP_OUTCOME_STORED, PP_OUTCOME_UNCHANGED, PP_OUTCOME_FAILED};
    if (w->n_held == 0)
        return;
    struct op *op = new_op(w);
    size_t at = (size_t)below(w, (int64_t)w->n_held);
    op->task = w->held[at].task;
    op->store = w->held[at].store;
    w->held[at] = w->held[--w->n_held];
    op->settlement = sk_settlement(&op->task, kinds[below(w, 3)]);
    op->settlement.kind = (enum pp_settle_kind)(below(w, 3) ? 0 : below(w, 3));
    op->settlement.ladder = below(w, 2);
    op->settlement.tier = (uint8_t)below(w, 2);
    op->settlement.due_ms = w->k->now;
    op->r.settle = (struct pp_store_settle){.worker = workers[op->store],
                                            .settlements = &op->settlement,
                                            .n = 1,
                                            .now_ms = w->k->now,
                                            .date_ms = w->k->now};
    SUBMIT(op, settle, &op->r.settle, settled);
}

/* --- cancels, reaping and readers --- */

static void cancelled(struct pp_req *req)
{
    struct op *op = req->data;
    /* PP_ENOTFOUND means that the batch has not been planned yet. */
    enum pp_err err = req->err == PP_ENOTFOUND ? PP_OK : req->err;
    if (failed(op, err))
        SUBMIT(op, cancel, &op->r.cancel, cancelled);
    else
        end_op(op);
}

static void step_cancel(struct world *w)
{
    if (w->n_batches == 0)
        return;
    struct op *op = new_op(w);
    int recent = w->n_batches > 4 ? w->n_batches - 4 : 0;
    op->r.cancel = (struct pp_store_cancel){
        .batch_id = w->batches[recent + below(w, w->n_batches - recent)].id, .date_ms = w->k->now};
    SUBMIT(op, cancel, &op->r.cancel, cancelled);
}

static void reaped(struct pp_req *req)
{
    struct op *op = req->data;
    failed(op, req->err);
    end_op(op);
}

static void step_time(struct world *w)
{
    w->k->now += below(w, 4000);
    struct op *op = new_op(w);
    op->r.reap = (struct pp_store_reap){.now_ms = w->k->now, .date_ms = w->k->now, .limit = 1000};
    SUBMIT(op, reap, &op->r.reap, reaped);
}

static void read_page(struct world *w, struct batch *b, const struct pp_store_results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_item *item = &r->items[i];
        EXPECT(w, item->seq > b->after_seq);
        EXPECT(w, item->status != PP_ITEM_OPEN);
        EXPECT(w, !strcmp(item->batch_id, b->id));
        b->after_seq = item->seq;
        b->seen[item->id[1] - '0']++;
    }
}

static void paged(struct pp_req *req)
{
    struct op *op = req->data;
    bool none = req->err == PP_ENOTFOUND;
    if (!failed(op, none ? PP_OK : req->err) && !none)
        read_page(op->w, op->batch, &op->r.results);
    op->batch->paging = false;
    end_op(op);
}

static void step_page(struct world *w)
{
    struct batch *b = w->n_batches ? &w->batches[below(w, w->n_batches)] : NULL;
    if (!b || b->paging)
        return;
    struct op *op = new_op(w);
    b->paging = true;
    op->batch = b;
    op->r.results = (struct pp_store_results){
        .batch_id = b->id, .status = -1, .after_seq = b->after_seq, .limit = 1 + (size_t)below(w, 3)};
    SUBMIT(op, results, &op->r.results, paged);
}

static void follow(struct world *w, const struct pp_store_outbox *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_item *item = &r->items[i];
        int b = 0;
        EXPECT(w, item->seq > w->followed && item->seq <= r->end);
        EXPECT(w, item->status != PP_ITEM_OPEN);
        while (b < w->n_batches && strcmp(w->batches[b].id, item->batch_id) != 0)
            b++;
        EXPECT(w, b < w->n_batches);
        w->followed = item->seq;
        if (b < w->n_batches)
            w->batches[b].followed[item->id[1] - '0']++;
    }
}

static void followed(struct pp_req *req)
{
    struct op *op = req->data;
    if (!failed(op, req->err))
        follow(op->w, &op->r.outbox);
    op->w->following = false;
    end_op(op);
}

static void step_follow(struct world *w)
{
    if (w->following)
        return;
    struct op *op = new_op(w);
    w->following = true;
    op->r.outbox = (struct pp_store_outbox){.after_seq = w->followed, .limit = 1 + (size_t)below(w, 20)};
    SUBMIT(op, outbox, &op->r.outbox, followed);
}

static void step(struct world *w)
{
    int64_t what = below(w, 100);
    if (what < 22)
        step_plan(w);
    else if (what < 45)
        step_claim(w);
    else if (what < 72)
        step_settle(w);
    else if (what < 77)
        step_time(w);
    else if (what < 81)
        step_cancel(w);
    else if (what < 94)
        step_page(w);
    else
        step_follow(w);
}

/* --- the end of a test --- */

static bool has_room(void *arg)
{
    return ((struct world *)arg)->in_flight < AT_ONCE;
}

static bool nothing_in_flight(void *arg)
{
    return ((struct world *)arg)->in_flight == 0;
}

/* Finishes all tasks. Tasks that a store has claimed come back when their leases expire. */
static void drain(struct world *w)
{
    struct store_kit *k = w->k;
    for (int round = 0; round < 20; round++) {
        size_t n = 0;
        k->now += 2 * KIT_LEASE_MS;
        sk_reap(k, NULL);
        for (int c = 0; c < CLIENTS; c++) {
            for (uint8_t q = 0; q < PP_QUEUES; q++) {
                struct pp_store_claim *r = sk_claim(k, clients[c], q, 100);
                n += r->n;
                for (size_t i = 0; i < r->n; i++)
                    assert_false(sk_final(k, KIT_WORKER, &r->tasks[i], PP_OUTCOME_STORED));
            }
        }
        if (n == 0)
            return;
    }
    fail_msg("it never ends");
}

/* A request for the results of a batch, which the test repeats until all of them are shown. If a
 * write has an unknown outcome, its numbers stop readers of results until the numbers expire, after
 * some seconds. */
struct shown {
    struct store_kit *k;
    struct pp_store_results r;
    struct pp_arena arena;
    uint64_t wanted;
    bool asked, answered;
};

static void on_shown(struct pp_req *req)
{
    ((struct shown *)req->data)->answered = true;
}

static bool all_shown(void *arg)
{
    struct shown *s = arg;
    if (s->asked && !s->answered)
        return false;
    if (s->answered && s->r.req.err == PP_OK && s->r.n >= s->wanted)
        return true;
    pp_arena_fini(&s->arena);
    s->r.req = (struct pp_req){.done = on_shown, .data = s, .arena = &s->arena};
    s->asked = true;
    s->answered = false;
    assert_int_equal(s->k->store->ops->results(s->k->store, &s->r), PP_OK);
    return false;
}

static void wait_for_all(struct store_kit *k, const char *batch, uint64_t items)
{
    struct shown s = {.k = k, .r = {.batch_id = batch, .status = -1, .limit = 100}, .wanted = items};
    pp_arena_init(&s.arena, 0);
    pp_test_until(k->loop, all_shown, &s, PATIENCE_MS);
    pp_arena_fini(&s.arena);
}

static void check_batch(struct world *w, struct batch *b)
{
    struct store_kit *k = w->k;
    struct pp_batch row = sk_batch(k, b->id);
    assert_true(row.finished_at > 0);
    assert_int_equal(row.items[PP_ITEM_OPEN], 0);
    assert_int_equal(row.photos[PP_OUTCOME_OPEN], 0);
    wait_for_all(k, b->id, row.items_total);
    struct pp_store_results r = {.batch_id = b->id, .status = -1, .after_seq = b->after_seq, .limit = 100};
    KIT_OK(k, results, &r);
    read_page(w, b, &r);
    unsigned items[ITEMS] = {0};
    size_t n;
    struct pp_item *all = sk_results(k, b->id, 100, &n);
    assert_int_equal(n, row.items_total);
    for (size_t i = 0; i < n; i++) {
        int item = all[i].id[1] - '0';
        assert_int_equal(items[item]++, 0);
        assert_int_equal(b->seen[item], 1);
    }
    sk_check_counts(k, clients[b->client], b->id, all_items);
}

/* Returns true once the outbox has shown every item that readers of results have seen. Unused
 * numbers stop the outbox until they expire. */
static bool nothing_is_missing(void *arg)
{
    struct world *w = arg;
    for (int b = 0; b < w->n_batches; b++)
        for (int i = 0; i < ITEMS; i++)
            if (w->batches[b].seen[i] > w->batches[b].followed[i]) {
                step_follow(w);
                return false;
            }
    return w->in_flight == 0;
}

static void check_end(struct world *w)
{
    struct store_kit *k = w->k;
    struct pp_store_queue q = {0};
    uint32_t revisions[CLIENTS][ITEMS] = {{0}};
    KIT_OK(k, queue, &q);
    assert_int_equal(q.claimed, 0);
    for (int i = 0; i < PP_QUEUES; i++)
        assert_int_equal(q.counts[i].photos, 0);
    for (int i = 0; i < w->n_batches; i++) {
        struct batch *b = &w->batches[i];
        assert_true(b->planned);
        check_batch(w, b);
        for (int item = 0; item < ITEMS; item++)
            revisions[b->client][item] += b->seen[item];
    }
    pp_test_until(k->loop, nothing_is_missing, w, PATIENCE_MS);
    if (w->wrong)
        fail_msg("%s", w->wrong);
    for (int c = 0; c < CLIENTS; c++) {
        for (int i = 0; i < ITEMS; i++)
            if (revisions[c][i])
                assert_int_equal(sk_item(k, clients[c], pp_arena_printf(&k->arena, "i%d", i)).revision,
                                 revisions[c][i]);
        for (int p = 0; p < PHOTOS; p++)
            assert_false(sk_photo(k, clients[c], pp_arena_printf(&k->arena, "p%d", p))->open);
    }
}

static int open_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    sk_open(state);
    w->k = *state;
    w->stores[0] = w->k->store;
    for (int i = 1; i < STORES; i++)
        assert_int_equal(open_store(w->k->loop, w->k->place, &w->stores[i]), PP_OK);
    *state = w;
    return 0;
}

/* Waits for all requests before it frees the memory, because requests may be in flight after a
 * failed test. */
static int close_world(void **state)
{
    struct world *w = *state;
    pp_test_until(w->k->loop, nothing_in_flight, w, PATIENCE_MS);
    for (int i = 1; i < STORES; i++)
        w->stores[i]->ops->close(w->stores[i]);
    *state = w->k;
    free(w);
    return sk_close(state);
}

static void history(struct world *w, uint64_t seed, bool faults)
{
    print_message("seed %d%s\n", (int)seed, faults ? ", with faults" : "");
    w->rng = seed;
    w->faults = faults;
    if (faults)
        mongo_server_do("fail",
                        "{\"mode\": {\"activationProbability\": 0.02}, \"data\": {\"appName\": \"races\","
                        " \"failCommands\": [\"insert\", \"update\", \"findAndModify\"],"
                        " \"writeConcernError\": {\"code\": 64, \"errmsg\": \"no majority\"}}}");
    for (int i = 0; i < STEPS; i++) {
        step(w);
        pp_test_until(w->k->loop, has_room, w, PATIENCE_MS);
        if (w->wrong)
            break;
    }
    if (faults)
        mongo_server_do("fail-off", NULL);
    pp_test_until(w->k->loop, nothing_in_flight, w, PATIENCE_MS);
    if (w->wrong)
        fail_msg("%s", w->wrong);
    assert_true(!faults || w->failures > 0);
    drain(w);
    check_end(w);
}

static void everything_at_once(void **state)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        close_world(state);
        open_world(state);
        history(*state, seed, false);
    }
}

/* The server does one write in fifty, but answers that no majority has acknowledged it. */
static void while_commands_fail(void **state)
{
    if (!mongo_server_is_ours())
        skip();
    for (uint64_t seed = 11; seed <= 12; seed++) {
        close_world(state);
        open_world(state);
        history(*state, seed, true);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    mongo_server_start(argv);
    sk_use(&subject);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_at_once, open_world, close_world),
        cmocka_unit_test_setup_teardown(while_commands_fail, open_world, close_world),
    };
    int failures = cmocka_run_group_tests_name("mongo races", tests, NULL, NULL);
    pp_mongo_cleanup();
    return failures;
}
