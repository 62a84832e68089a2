/* suite_store_plan.c: tests planning, superseding and cancelling. */
#include <string.h>

#include "photopool/code.h"
#include "suite_store_tests.h"

static void photos_open_and_answered(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *r =
        sk_plan(k, "c", "b_1", "a: p1 p2/x; b: p3=stored; c: p4=failed p5; d:; e: p6=failed");
    assert_int_equal(r->tasks_opened, 3);
    assert_int_equal(r->items_finished, 3);
    assert_int_equal(r->n_backlog, 1);
    assert_string_equal(r->backlog[0].client, "c");
    assert_int_equal(r->backlog[0].queue, 0);
    assert_int_equal(r->backlog[0].due_ms, k->now);
    for (size_t i = 0; i < r->n; i++) {
        assert_int_equal(r->items[i].revision, 1);
        assert_false(r->items[i].repeated);
    }
    struct pp_item a = sk_item(k, "c", "a");
    assert_int_equal(a.status, PP_ITEM_OPEN);
    assert_int_equal(a.seq, 0);
    assert_int_equal(a.finished_at, 0);
    assert_int_equal(a.n_photos, 2);
    assert_string_equal(a.photos[1].url, "https://x/p2.jpg");
    assert_int_equal(a.photos[1].outcome.kind, PP_OUTCOME_OPEN);
    assert_int_equal(a.photos[1].due_ms, k->now);
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_COMPLETE);
    assert_int_equal(sk_item(k, "c", "c").status, PP_ITEM_OPEN);
    assert_int_equal(sk_item(k, "c", "d").status, PP_ITEM_COMPLETE);
    struct pp_item e = sk_item(k, "c", "e");
    assert_int_equal(e.status, PP_ITEM_FAILED);
    assert_int_equal(e.photos[0].outcome.code, PP_CODE_BAD_URL);
    assert_string_equal(e.photos[0].outcome.detail, "no scheme");
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_RUNNING);
    assert_int_equal(b.items_total, 5);
    assert_int_equal(b.photos_total, 6);
    assert_int_equal(b.created_at, k->now - 50);
    sk_check_counts(k, "c", "b_1", "a b c d e");
}

/* Nothing could be read of the batch's entry: it ends without items. */
static void a_batch_without_items(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a: p1");
    r->n = 0;
    r->batch_items = r->batch_photos = 0;
    for (int i = 0; i < 2; i++) {
        KIT_OK(k, plan, r);
        struct pp_batch b = sk_batch(k, "b_1");
        assert_int_equal(b.state, PP_BATCH_FINISHED);
        assert_int_equal(b.items_total, 0);
        assert_int_equal(b.photos_total, 0);
    }
}

/* The first chunk of a damaged entry is planned; then it is given up, and planned up to the damage.
 */
static void a_batch_that_gets_smaller(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a: p1=stored; b: p2=stored");
    r->batch_items = 5;
    r->batch_photos = 9;
    r->last = false;
    KIT_OK(k, plan, r);
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_RUNNING);
    r->batch_items = r->batch_photos = 2;
    r->last = true;
    KIT_OK(k, plan, r);
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_FINISHED);
    assert_int_equal(b.items_total, 2);
    assert_int_equal(b.items[PP_ITEM_COMPLETE], 2);
}

static void texts_come_back_as_they_went(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "x: p=failed");
    static const char url[] = "http://\0\xff\xfe odd";
    r->items[0].id = "\xd0\xb6 '; DROP TABLE items;--";
    r->items[0].meta = "{\"a\":[1,\"\xe2\x82\xac\"]}";
    r->items[0].photos[0].url = url;
    r->items[0].photos[0].url_n = sizeof url - 1;
    KIT_OK(k, plan, r);
    struct pp_item item = sk_item(k, "c", r->items[0].id);
    assert_string_equal(item.meta, r->items[0].meta);
    assert_string_equal(item.batch_id, "b_1");
    assert_int_equal(item.photos[0].url_n, sizeof url - 1);
    assert_memory_equal(item.photos[0].url, url, sizeof url);
    assert_memory_equal(&item.photos[0].key, &r->items[0].photos[0].key, sizeof(struct pp_key));
    r = sk_plan_of(k, "c", "b_2", "y: q");
    r->items[0].photos[0].url_n = 0;
    KIT_OK(k, plan, r);
    assert_int_equal(sk_item(k, "c", "y").photos[0].url_n, 0);
    assert_null(sk_item(k, "c", "y").meta);
}

static void planning_again_changes_nothing(void **state)
{
    struct store_kit *k = *state;
    static const char text[] = "a: p1 p2; b: p3=skipped; c:";
    sk_plan(k, "c", "b_1", text);
    struct pp_task *t = sk_claim(k, "c", 0, 1)->tasks;
    assert_false(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
    struct pp_batch before = sk_batch(k, "b_1");
    for (int round = 0; round < 2; round++) {
        struct pp_store_plan *r = sk_plan(k, "c", "b_1", text);
        assert_int_equal(r->tasks_opened, 0);
        assert_int_equal(r->items_finished, 0);
        for (size_t i = 0; i < r->n; i++) {
            assert_true(r->items[i].repeated);
            assert_int_equal(r->items[i].revision, 1);
        }
        struct pp_batch after = sk_batch(k, "b_1");
        assert_memory_equal(after.items, before.items, sizeof before.items);
        assert_memory_equal(after.photos, before.photos, sizeof before.photos);
    }
    /* A repeated plan returns its old revision even if a newer one exists. */
    sk_plan(k, "c", "b_2", "a: p9");
    struct pp_store_plan *r = sk_plan(k, "c", "b_1", text);
    assert_true(r->items[0].repeated);
    assert_int_equal(r->items[0].revision, 1);
    assert_int_equal(sk_item(k, "c", "a").revision, 2);
}

/* A batch is planned again within the millisecond in which its item finished. The result must
 * keep its seq, by which consumers recognise a result that they already have. */
static void a_result_keeps_its_number(void **state)
{
    struct store_kit *k = *state;
    size_t n;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task *t = sk_claim(k, "c", 0, 1)->tasks;
    assert_false(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
    uint64_t seq = sk_results(k, "b_1", 9, &n)->seq;
    assert_int_equal(n, 1);
    assert_true(sk_plan(k, "c", "b_1", "a: p")->items[0].repeated);
    assert_int_equal(sk_results(k, "b_1", 9, &n)->seq, seq);
    assert_int_equal(n, 1);
}

static void chunks_make_one_batch(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *one = sk_plan_of(k, "c", "b_1", "a: p1=stored"),
                         *two = sk_plan_of(k, "c", "b_1", "b:");
    one->last = false;
    one->batch_items = two->batch_items = 2;
    one->batch_photos = two->batch_photos = 1;
    KIT_OK(k, plan, one);
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_RUNNING);
    assert_int_equal(b.finished_at, 0);
    /* The item of the second chunk counts as open, although that chunk is not planned yet. */
    assert_int_equal(b.items[PP_ITEM_OPEN], 1);
    k->now += 7;
    two->date_ms = k->now;
    KIT_OK(k, plan, two);
    b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_FINISHED);
    assert_int_equal(b.finished_at, k->now);
    assert_int_equal(b.items[PP_ITEM_COMPLETE], 2);
    assert_int_equal(b.items[PP_ITEM_OPEN], 0);
}

static void repeated_url_is_fetched_once(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *r = sk_plan(k, "c", "b_1", "a: p p q p; b: p");
    assert_int_equal(r->tasks_opened, 2);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 2);
    for (size_t i = 0; i < c->n; i++)
        assert_false(sk_final(k, KIT_WORKER, &c->tasks[i], PP_OUTCOME_STORED));
    struct pp_item a = sk_item(k, "c", "a");
    assert_int_equal(a.status, PP_ITEM_COMPLETE);
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_COMPLETE);
    assert_memory_equal(&a.photos[0].outcome.object, &a.photos[3].outcome.object, sizeof(struct pp_object));
    sk_check_counts(k, "c", "b_1", "");
    assert_int_equal(sk_batch(k, "b_1").photos[PP_OUTCOME_STORED], 5);
}

static void many_wait_for_one_task(void **state)
{
    struct store_kit *k = *state;
    char text[512] = "a:";
    for (int i = 0; i < 100; i++)
        strcat(text, " p");
    sk_plan(k, "c", "b_1", text);
    text[0] = 'b';
    sk_plan(k, "c", "b_2", text);
    struct pp_settlement s = sk_settlement(sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED);
    struct pp_store_settle *r = sk_settle(k, KIT_WORKER, &s, 1);
    assert_int_equal(r->items_finished, 2);
    assert_int_equal(r->batches[0].photos, 100);
    assert_int_equal(r->batches[1].photos, 100);
    assert_int_equal(sk_batch(k, "b_2").photos[PP_OUTCOME_STORED], 100);
}

static void two_revisions_wait_for_one_task(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_store_plan *r = sk_plan(k, "c", "b_2", "b: p q");
    assert_int_equal(r->tasks_opened, 1);
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    struct pp_settlement s = sk_settlement(t, PP_OUTCOME_STORED);
    struct pp_store_settle *settle = sk_settle(k, KIT_WORKER, &s, 1);
    assert_int_equal(settle->items_finished, 1);
    assert_int_equal(settle->n_batches, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct pp_batch_delta *d = &settle->batches[i];
        bool first = !strcmp(d->batch_id, "b_1");
        assert_int_equal(d->photos, 1);
        assert_int_equal(d->items, first);
        assert_int_equal(d->finished, first);
    }
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
    assert_int_equal(sk_batch(k, "b_2").photos[PP_OUTCOME_STORED], 1);
    assert_int_equal(sk_item(k, "c", "b").photos[0].outcome.kind, PP_OUTCOME_STORED);
}

static void newer_list_supersedes(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q r=stored; other: q2");
    k->now += 10;
    struct pp_store_plan *r = sk_plan(k, "c", "b_2", "a: q s");
    assert_int_equal(r->items[0].revision, 2);
    /* Photo q has a task already, so only photo s gets a new one. */
    assert_int_equal(r->tasks_opened, 1);
    assert_int_equal(r->items_finished, 1);
    struct pp_item now = sk_item(k, "c", "a");
    assert_int_equal(now.revision, 2);
    assert_int_equal(now.status, PP_ITEM_OPEN);
    size_t n;
    struct pp_item *old = sk_results(k, "b_1", 10, &n);
    assert_int_equal(n, 1);
    assert_int_equal(old->status, PP_ITEM_SUPERSEDED);
    assert_int_equal(old->revision, 1);
    assert_int_equal(old->finished_at, k->now);
    assert_int_equal(old->photos[0].outcome.kind, PP_OUTCOME_CANCELLED);
    assert_int_equal(old->photos[1].outcome.kind, PP_OUTCOME_CANCELLED);
    assert_int_equal(old->photos[2].outcome.kind, PP_OUTCOME_UNCHANGED);
    /* No item needs photo p any more, so the store has removed its task. */
    assert_false(sk_photo(k, "c", "p")->open);
    assert_true(sk_photo(k, "c", "q")->open);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 3); /* The claim returns the tasks of the photos q, q2 and s. */
    for (size_t i = 0; i < c->n; i++)
        sk_final(k, KIT_WORKER, &c->tasks[i], PP_OUTCOME_STORED);
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_COMPLETE);
    sk_check_counts(k, "c", "b_1", "a other");
    sk_check_counts(k, "c", "b_2", "a");
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
    /* A newer revision must not supersede a finished one. */
    r = sk_plan(k, "c", "b_3", "a: z");
    assert_int_equal(r->items[0].revision, 3);
    assert_int_equal(r->items_finished, 0);
    assert_int_equal(sk_batch(k, "b_2").items[PP_ITEM_COMPLETE], 1);
}

static void superseded_in_flight(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    sk_plan(k, "c", "b_2", "a: q");
    assert_true(sk_photo(k, "c", "p")->claimed); /* The worker still has its claim. */
    assert_int_equal(sk_batch(k, "b_1").state, PP_BATCH_FINISHED);
    /* The store records the outcome for the next import, but changes no result. */
    assert_false(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
    assert_true(sk_photo(k, "c", "p")->photo.found);
    assert_false(sk_photo(k, "c", "p")->open);
    sk_check_counts(k, "c", "b_1", "");
    /* A worker returns a task without an outcome, and no item waits for it. The store must
     * delete the task. */
    t = sk_claim_photo(k, "c", "q");
    sk_plan(k, "c", "b_3", "a: p=stored");
    assert_false(sk_back(k, KIT_WORKER, t, PP_SETTLE_RETRY, 1, k->now + 1000));
    assert_false(sk_photo(k, "c", "q")->open);
    k->now += 100000;
    assert_int_equal(sk_claim(k, "c", 1, 10)->n, 0);
}

static void joins_a_claimed_task(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    sk_cancel(k, NULL, "b_1"); /* After the cancellation no item waits for the task. */
    assert_int_equal(sk_plan(k, "c", "b_2", "b: p")->tasks_opened, 0);
    assert_int_equal(sk_claim(k, "c", 0, 10)->n, 0);
    assert_false(sk_back(k, KIT_WORKER, t, PP_SETTLE_RETRY, 0, k->now));
    t = sk_claim_photo(k, "c", "p");
    assert_string_equal(t->url, "https://d/p.jpg");
    assert_int_equal(t->attempts, 2);
    assert_false(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_COMPLETE);
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_CANCELLED);
}

/* A photo is stored after the planner has looked it up. The store must open no second task for
 * it, with or without other open tasks. */
static void stored_since_it_was_looked_up(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *late = sk_plan_of(k, "c", "b_2", "b: p; d: p q; e: q");
    struct pp_store_plan *always = sk_plan_of(k, "c", "b_3", "f: p");
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    assert_false(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
    KIT_OK(k, plan, late);
    assert_int_equal(late->tasks_opened, 1);
    assert_int_equal(late->items_finished, 1);
    assert_false(sk_photo(k, "c", "p")->open);
    struct pp_item b = sk_item(k, "c", "b"), d = sk_item(k, "c", "d");
    assert_int_equal(b.status, PP_ITEM_COMPLETE);
    assert_int_equal(b.photos[0].outcome.kind, PP_OUTCOME_UNCHANGED);
    assert_int_equal(b.photos[0].outcome.fetched_at, 1234567);
    struct pp_object object = sk_object(t->url);
    assert_memory_equal(&b.photos[0].outcome.object, &object, sizeof object);
    assert_int_equal(d.status, PP_ITEM_OPEN);
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "q"), PP_OUTCOME_STORED));
    assert_int_equal(sk_item(k, "c", "d").status, PP_ITEM_COMPLETE);
    assert_int_equal(sk_batch(k, "b_2").state, PP_BATCH_FINISHED);
    sk_check_counts(k, "c", "b_2", "b d e");
    /* An item that asks for a fresh fetch must get one. */
    always->refresh = PP_REFRESH_ALWAYS;
    always->items[0].photos[0].always = true;
    KIT_OK(k, plan, always);
    assert_int_equal(always->tasks_opened, 1);
    assert_true(sk_photo(k, "c", "p")->open);
}

/* The items that wait for a task are cancelled in every order. The task must exist until the
 * last one is cancelled. */
static void waiters_leave(void **state)
{
    struct store_kit *k = *state;
    static const char *const items[] = {"x: p", "y: p p", "z: p"};
    static const uint8_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t o = 0; o < 6; o++) {
        char *batch[3];
        for (int i = 0; i < 3; i++) {
            batch[i] = pp_arena_printf(&k->arena, "b_%zu%d", o, i);
            sk_plan(k, "c", batch[i], items[i]);
        }
        for (int i = 0; i < 3; i++) {
            assert_true(sk_photo(k, "c", "p")->open);
            assert_int_equal(sk_cancel(k, NULL, batch[orders[o][i]])->items_cancelled, 1);
        }
        assert_false(sk_photo(k, "c", "p")->open);
        assert_int_equal(sk_claim(k, "c", 0, 10)->n, 0);
        for (int i = 0; i < 3; i++)
            sk_check_counts(k, "c", batch[i], "");
    }
}

static void cancelling_a_batch(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q=stored; b: r; e: s=stored");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    k->now += 5;
    struct pp_store_cancel *r = sk_cancel(k, "c", "b_1");
    assert_int_equal(r->req.err, PP_OK);
    assert_int_equal(r->items_cancelled, 2);
    assert_int_equal(r->photos_cancelled, 2);
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_CANCELLED);
    assert_int_equal(b.finished_at, k->now);
    sk_check_counts(k, "c", "b_1", "");
    r = sk_cancel(k, NULL, "b_1");
    assert_int_equal(r->req.err, PP_OK);
    assert_int_equal(r->items_cancelled, 0);
    assert_false(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
    sk_check_counts(k, "c", "b_1", "");
    assert_int_equal(sk_cancel(k, "other", "b_1")->req.err, PP_ENOTFOUND);
    assert_int_equal(sk_cancel(k, NULL, "b_9")->req.err, PP_ENOTFOUND);
    /* A cancellation must not change a finished batch. */
    sk_plan(k, "c", "b_2", "a: p=stored");
    assert_int_equal(sk_cancel(k, "c", "b_2")->req.err, PP_OK);
    assert_int_equal(sk_batch(k, "b_2").state, PP_BATCH_FINISHED);
}

static void cancelled_before_it_is_planned(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_cancel r = {.batch_id = "b_1",
                                .client = "c",
                                .owner = "c",
                                .created_at = 77,
                                .items = 3,
                                .photos = 3,
                                .date_ms = k->now};
    r.client = "other";
    KIT_RUN(k, cancel, &r);
    assert_int_equal(r.req.err, PP_ENOTFOUND);
    r.client = "c";
    KIT_OK(k, cancel, &r);
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_CANCELLED);
    assert_int_equal(b.items_total, 3);
    assert_int_equal(b.items[PP_ITEM_OPEN], 3);
    assert_int_equal(b.created_at, 77);
    assert_string_equal(b.client, "c");
    struct pp_store_plan *plan = sk_plan(k, "c", "b_1", "a: p; b: q=stored; c: s=skipped");
    assert_int_equal(plan->tasks_opened, 0);
    assert_int_equal(plan->items_finished, 3);
    b = sk_batch(k, "b_1");
    assert_int_equal(b.state, PP_BATCH_CANCELLED);
    assert_int_equal(b.finished_at, k->now);
    assert_int_equal(b.items[PP_ITEM_CANCELLED], 3);
    assert_int_equal(b.photos[PP_OUTCOME_CANCELLED], 1);
    assert_int_equal(sk_claim(k, "c", 0, 10)->n, 0);
    size_t n;
    struct pp_item *items = sk_results(k, "b_1", 10, &n);
    assert_int_equal(n, 3);
    assert_true(items[0].finished_at == k->now && items[0].seq > 0);
    sk_check_counts(k, "c", "b_1", "");
}

static void cancelling_between_chunks(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *one = sk_plan_of(k, "c", "b_1", "a: p"), *two = sk_plan_of(k, "c", "b_1", "b: q");
    one->last = false;
    one->batch_items = two->batch_items = one->batch_photos = two->batch_photos = 2;
    KIT_OK(k, plan, one);
    sk_cancel(k, NULL, "b_1");
    assert_int_equal(sk_batch(k, "b_1").finished_at, 0);
    KIT_OK(k, plan, two);
    assert_int_equal(sk_batch(k, "b_1").finished_at, k->now);
    assert_int_equal(sk_batch(k, "b_1").items[PP_ITEM_CANCELLED], 2);
    sk_check_counts(k, "c", "b_1", "");
}

/* A batch has more items than the store cancels in one step. The store must cancel each item
 * exactly once. */
static void cancelling_a_large_batch(void **state)
{
    struct store_kit *k = *state;
    enum { ITEMS = 1500, PHOTOS = 3 };
    struct pp_store_plan r = {.client = "c", .batch_id = "b_1", .last = true, .date_ms = k->now, .n = ITEMS};
    r.batch_items = ITEMS;
    r.batch_photos = ITEMS * PHOTOS;
    r.items = pp_arena_array(&k->arena, ITEMS, sizeof *r.items);
    for (size_t i = 0; i < ITEMS; i++) {
        char *text = pp_arena_printf(&k->arena, "i%zu: %zua %zub %zuc", i, i, i, i);
        r.items[i] = sk_plan_of(k, "c", "b_1", text)->items[0];
    }
    KIT_OK(k, plan, &r);
    struct pp_store_cancel *c = sk_cancel(k, "c", "b_1");
    assert_int_equal(c->items_cancelled, ITEMS);
    assert_int_equal(c->photos_cancelled, ITEMS * PHOTOS);
    assert_int_equal(sk_batch(k, "b_1").finished_at, k->now);
    struct pp_store_queue q = {0};
    KIT_OK(k, queue, &q);
    assert_int_equal(q.counts[0].photos, 0);
    sk_check_counts(k, "c", "b_1", "");
}

static void skips_are_counted(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    assert_false(sk_fail(k, sk_claim_photo(k, "c", "p"), 404, true));
    assert_int_equal(sk_photo(k, "c", "p")->photo.skips, 0);
    sk_plan(k, "c", "b_2", "a: p=skipped p=skipped; b: q=skipped");
    /* An item that names the photo twice counts as one import. */
    assert_int_equal(sk_photo(k, "c", "p")->photo.skips, 1);
    sk_plan(k, "c", "b_2", "a: p=skipped p=skipped; b: q=skipped");
    assert_int_equal(sk_photo(k, "c", "p")->photo.skips, 1);
    sk_plan(k, "c", "b_3", "a: p=skipped");
    struct pp_photo p = sk_photo(k, "c", "p")->photo;
    assert_int_equal(p.skips, 2);
    assert_int_equal(p.fail_streak, 1);
    assert_false(sk_photo(k, "c", "q")->photo.found);
    assert_int_equal(sk_batch(k, "b_3").photos[PP_OUTCOME_SKIPPED], 1);
    assert_int_equal(sk_item(k, "c", "a").photos[0].outcome.retry_at, k->now + 5000);
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)
static const struct CMUnitTest tests[] = {
    T(photos_open_and_answered),
    T(a_batch_without_items),
    T(a_batch_that_gets_smaller),
    T(texts_come_back_as_they_went),
    T(planning_again_changes_nothing),
    T(a_result_keeps_its_number),
    T(chunks_make_one_batch),
    T(repeated_url_is_fetched_once),
    T(many_wait_for_one_task),
    T(two_revisions_wait_for_one_task),
    T(newer_list_supersedes),
    T(superseded_in_flight),
    T(joins_a_claimed_task),
    T(stored_since_it_was_looked_up),
    T(waiters_leave),
    T(cancelling_a_batch),
    T(cancelled_before_it_is_planned),
    T(cancelling_between_chunks),
    T(cancelling_a_large_batch),
    T(skips_are_counted),
};
const struct store_tests store_plan_tests = {tests, sizeof tests / sizeof *tests};
