/* suite_store_forget.c: tests the deletion of one item: what goes, what stays, and when the store
 * refuses it. */
#include <stdio.h>
#include <string.h>

#include "suite_store_tests.h"

static struct pp_store_forget_item request(const char *client, const char *id)
{
    return (struct pp_store_forget_item){
        .client = client, .id = id, .finished_before_ms = INT64_MAX, .upto_seq = UINT64_MAX};
}

/* Deletes the item, and asserts the number of its revisions. */
static void forget(struct store_kit *k, const char *client, const char *id, uint64_t revisions)
{
    struct pp_store_forget_item r = request(client, id);
    KIT_OK(k, forget_item, &r);
    assert_int_equal(r.revisions, revisions);
}

static void refused(struct store_kit *k, struct pp_store_forget_item r, enum pp_err due)
{
    KIT_RUN(k, forget_item, &r);
    assert_string_equal(pp_err_text(r.req.err), pp_err_text(due));
    assert_int_equal(r.revisions, 0);
}

static void is_gone(struct store_kit *k, const char *client, const char *id)
{
    struct pp_store_item item = {.client = client, .id = id};
    KIT_RUN(k, item, &item);
    assert_int_equal(item.req.err, PP_ENOTFOUND);
    refused(k, request(client, id), PP_ENOTFOUND);
}

/* Returns the items of an array, such as "c/a2 c/b1 ": each with its client and revision. */
static const char *named(struct store_kit *k, const struct pp_item *items, size_t n)
{
    char *text = pp_arena_printf(&k->arena, "%400s", "");
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), 400 - strlen(text), "%s/%s%u ", items[i].client, items[i].id,
                 items[i].revision);
    return text;
}

/* Returns the finished items of a batch, read in pages. */
static const char *results(struct store_kit *k, const char *batch, size_t limit)
{
    size_t n;
    const struct pp_item *items = sk_results(k, batch, limit, &n);
    return named(k, items, n);
}

/* Returns the finished items of all clients above `after`, read in pages. Asserts that every page
 * but the last is full, and that the seqs ascend. */
static const char *outbox(struct store_kit *k, uint64_t after, size_t limit)
{
    struct pp_item all[100];
    size_t n = 0;
    struct pp_store_outbox r = {.after_seq = after, .limit = limit};
    do {
        KIT_OK(k, outbox, &r);
        for (size_t i = 0; i < r.n; i++) {
            assert_true(r.items[i].seq > r.after_seq && r.items[i].seq <= r.end && n < 100);
            r.after_seq = r.items[i].seq;
            all[n++] = r.items[i];
        }
    } while (r.n == limit);
    return named(k, all, n);
}

static const char *listed(struct store_kit *k, const char *client)
{
    struct pp_store_items r = {.client = client, .status = -1, .limit = 50, .scan = 200};
    KIT_OK(k, items, &r);
    assert_false(r.more);
    return named(k, r.items, r.n);
}

static void same_counts(const struct pp_batch *a, const struct pp_batch *b)
{
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->finished_at, b->finished_at);
    assert_int_equal(a->items_total, b->items_total);
    assert_int_equal(a->photos_total, b->photos_total);
    assert_memory_equal(a->items, b->items, sizeof a->items);
    assert_memory_equal(a->photos, b->photos, sizeof a->photos);
    assert_int_equal(a->n_errors, b->n_errors);
    for (size_t i = 0; i < a->n_errors; i++)
        assert_int_equal(a->errors[i].n, b->errors[i].n);
}

/* All revisions go, also from the batches' results and from the outbox. The batches' counts, the
 * records of the photos, and the other items stay. A later import gets the next revision number. */
static void all_revisions_go(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q=failed; a-1: p=stored");
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED);
    sk_plan(k, "c", "b_2", "a: p=stored; b: q=failed");
    sk_plan(k, "other", "b_3", "a: p=stored");
    struct pp_batch before[2] = {sk_batch(k, "b_1"), sk_batch(k, "b_2")};
    uint64_t seq = sk_item(k, "c", "a").seq;
    assert_string_equal(outbox(k, 0, 9), "c/a-11 c/a1 c/a2 c/b1 other/a1 ");
    forget(k, "c", "a", 2);
    for (int round = 0; round < 2; round++) {
        is_gone(k, "c", "a");
        assert_string_equal(results(k, "b_1", 9), "c/a-11 ");
        assert_string_equal(results(k, "b_2", 9), "c/b1 ");
        assert_string_equal(listed(k, "c"), "c/a-11 c/b1 ");
        assert_string_equal(listed(k, "other"), "other/a1 ");
        assert_string_equal(outbox(k, 0, 2), "c/a-11 c/b1 other/a1 ");
        struct pp_store_outbox one = {.seqs = &seq, .n_seqs = 1};
        KIT_OK(k, outbox, &one);
        assert_int_equal(one.n, 0);
        same_counts(&before[0], &(struct pp_batch[]){sk_batch(k, "b_1")}[0]);
        same_counts(&before[1], &(struct pp_batch[]){sk_batch(k, "b_2")}[0]);
        assert_true(sk_photo(k, "c", "p")->photo.object.type != 0);
        sk_reopen(k);
    }
    uint64_t end = sk_item(k, "other", "a").seq;
    assert_int_equal(sk_plan(k, "c", "b_4", "a: p=stored")->items[0].revision, 3);
    assert_string_equal(outbox(k, end, 2), "c/a3 ");
    sk_check_counts(k, "c", "b_4", "");
    forget(k, "c", "a", 1);
    is_gone(k, "c", "a");
}

static void an_open_item_is_kept(void **state)
{
    struct store_kit *k = *state;
    refused(k, request("nobody", "a"), PP_ENOTFOUND);
    sk_plan(k, "c", "b_1", "a: p=stored");
    refused(k, request("c", "x"), PP_ENOTFOUND);
    refused(k, request("nobody", "a"), PP_ENOTFOUND);
    sk_plan(k, "c", "b_2", "a: p=stored q; b: r=stored");
    refused(k, request("c", "a"), PP_EBUSY);
    refused(k, request("c", "b"), PP_EBUSY); /* b has finished, its batch has not */
    assert_string_equal(outbox(k, 0, 9), "c/a1 c/b1 ");
    assert_int_equal(sk_item(k, "c", "a").revision, 2);
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "q"), PP_OUTCOME_FAILED);
    forget(k, "c", "a", 2);
    assert_string_equal(results(k, "b_2", 9), "c/b1 ");

    struct pp_store_plan *half = sk_plan_of(k, "c", "b_3", "d: p=stored");
    half->last = false;
    KIT_OK(k, plan, half);
    refused(k, request("c", "d"), PP_EBUSY); /* the rest of the batch is not planned yet */
    sk_plan(k, "c", "b_4", "e: s");
    sk_cancel(k, "c", "b_4");
    forget(k, "c", "e", 1);
    is_gone(k, "c", "e");
    assert_int_equal(sk_batch(k, "b_4").items[PP_ITEM_CANCELLED], 1);
}

/* The bounds hold for every revision, not only for the newest one. */
static void an_undelivered_item_is_kept(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p=stored");
    struct pp_item old = sk_item(k, "c", "a");
    k->now += 1000;
    sk_plan(k, "c", "b_2", "a: p=stored");
    struct pp_item newest = sk_item(k, "c", "a");
    struct pp_store_forget_item r = request("c", "a");
    r.finished_before_ms = newest.finished_at;
    refused(k, r, PP_ESTALE);
    r.finished_before_ms = old.finished_at;
    refused(k, r, PP_ESTALE);
    r = request("c", "a");
    r.upto_seq = newest.seq - 1;
    refused(k, r, PP_ESTALE);
    assert_string_equal(outbox(k, 0, 9), "c/a1 c/a2 ");
    r.upto_seq = newest.seq;
    r.finished_before_ms = newest.finished_at + 1;
    KIT_OK(k, forget_item, &r);
    assert_int_equal(r.revisions, 2);
    is_gone(k, "c", "a");
}

/* A planner that crashed before it acknowledged its batch, or that was slow, plans the batch
 * again. */
static void a_repeated_plan_brings_no_item_back(void **state)
{
    static const char text[] = "a: p=stored; b: q; c:";
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", text);
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "q"), PP_OUTCOME_STORED);
    struct pp_batch before = sk_batch(k, "b_1");
    forget(k, "c", "a", 1);
    forget(k, "c", "b", 1);
    struct pp_store_plan *again = sk_plan_of(k, "c", "b_1", text);
    KIT_OK(k, plan, again);
    for (size_t i = 0; i < 3; i++)
        assert_true(again->items[i].repeated);
    assert_int_equal(again->tasks_opened, 0);
    is_gone(k, "c", "a");
    is_gone(k, "c", "b");
    assert_int_equal(sk_claim(k, "c", 0, 9)->n, 0);
    assert_string_equal(outbox(k, 0, 9), "c/c1 ");
    struct pp_batch after = sk_batch(k, "b_1");
    same_counts(&before, &after);
}

/* Readers of results and of the outbox pass the numbers that are missing. */
static void readers_pass_the_gaps(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p=stored; b: p=stored; c: p=stored; d: p=stored; e: p=stored; f: p=stored");
    uint64_t of_b = sk_item(k, "c", "b").seq, of_f = sk_item(k, "c", "f").seq;
    struct pp_outbox_count c[] = {{.after_seq = 0}, {.after_seq = of_b}, {.after_seq = of_f - 1}};
    struct pp_store_outbox_counts counts = {.counts = c, .n = 3};
    forget(k, "c", "a", 1);
    forget(k, "c", "c", 1);
    forget(k, "c", "d", 1);
    forget(k, "c", "f", 1);
    for (size_t limit = 1; limit < 4; limit++) {
        assert_string_equal(results(k, "b_1", limit), "c/b1 c/e1 ");
        assert_string_equal(outbox(k, 0, limit), "c/b1 c/e1 ");
        assert_string_equal(outbox(k, of_b, limit), "c/e1 ");
        assert_string_equal(outbox(k, of_b + 1, limit), "c/e1 ");
    }
    KIT_OK(k, outbox_counts, &counts);
    assert_true(c[0].messages == 2 && c[1].messages == 1 && c[2].messages == 0);
    /* The end stays where it was, so that a relay saves no cursor below one that it has saved. */
    struct pp_store_outbox end = {.after_seq = of_f, .limit = 5};
    KIT_OK(k, outbox, &end);
    assert_true(end.n == 0 && end.end >= of_f);
    sk_plan(k, "c", "b_2", "g: p=stored");
    assert_string_equal(outbox(k, of_f, 1), "c/g1 ");
}

/* Old batches are deleted as before, whatever of them is deleted already. */
static void retention_goes_on(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p=stored; b: p=stored");
    sk_plan(k, "c", "b_2", "x: p=stored");
    k->now += 1000;
    struct pp_store_clean clean = {.finished_before_ms = k->now, .limit = 100};
    forget(k, "c", "a", 1);
    forget(k, "c", "x", 1);
    KIT_OK(k, clean, &clean);
    assert_int_equal(clean.items, 1);
    struct pp_store_batch b = {.batch_id = "b_2"};
    KIT_RUN(k, batch, &b);
    assert_int_equal(b.req.err, PP_ENOTFOUND);
    is_gone(k, "c", "b"); /* what retention has left of it is not an item */
    assert_int_equal(sk_plan(k, "c", "b_3", "a: p=stored; b: p=stored")->items[0].revision, 2);
    forget(k, "c", "a", 1);
    forget(k, "c", "b", 1);
    assert_int_equal(sk_plan(k, "c", "b_4", "b: p=stored")->items[0].revision, 3);
    clean.finished_before_ms = INT64_MAX;
    KIT_OK(k, clean, &clean);
    assert_int_equal(clean.items, 1);
    assert_string_equal(listed(k, "c"), "");
}

/* An item has more revisions than a store deletes at once. */
static void many_revisions(void **state)
{
    struct store_kit *k = *state;
    for (int i = 0; i < 70; i++)
        sk_plan(k, "c", pp_arena_printf(&k->arena, "b_%02d", i), "a: p=stored");
    forget(k, "c", "a", 70);
    is_gone(k, "c", "a");
    assert_string_equal(outbox(k, 0, 9), "");
    assert_string_equal(results(k, "b_00", 9), "");
}

/* A task goes on for the items that still wait for it. */
static void others_wait_on(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    sk_plan(k, "c", "b_2", "b: p");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    sk_cancel(k, "c", "b_1");
    forget(k, "c", "a", 1);
    assert_false(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
    is_gone(k, "c", "a");
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_COMPLETE);
    assert_string_equal(outbox(k, 0, 9), "c/b1 ");
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)
static const struct CMUnitTest tests[] = {
    T(all_revisions_go),
    T(an_open_item_is_kept),
    T(an_undelivered_item_is_kept),
    T(a_repeated_plan_brings_no_item_back),
    T(readers_pass_the_gaps),
    T(retention_goes_on),
    T(many_revisions),
    T(others_wait_on),
};
const struct store_tests store_forget_tests = {tests, sizeof tests / sizeof *tests};
