/* suite_store_outbox.c: the outbox returns the finished items of all clients in order of seq. It
 * skips none, adds none below a seq that a reader has passed, and returns each as it is in the
 * results. The store never gives out a number twice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite_store_tests.h"
#include "test_loop.h"

static struct pp_store_outbox page_after(struct store_kit *k, uint64_t after, size_t limit)
{
    struct pp_store_outbox r = {.after_seq = after, .limit = limit};
    KIT_OK(k, outbox, &r);
    assert_true(r.n <= limit);
    for (size_t i = 0; i < r.n; i++) {
        assert_true(r.items[i].seq > after);
        assert_true(r.items[i].seq <= r.end);
        assert_int_not_equal(r.items[i].status, PP_ITEM_OPEN);
        after = r.items[i].seq;
    }
    return r;
}

/* Returns all items above `after`, as "client/item" with a space after each. */
static const char *names_after(struct store_kit *k, uint64_t after, size_t limit)
{
    char *names = pp_arena_alloc(&k->arena, 4096);
    struct pp_store_outbox r;
    do {
        r = page_after(k, after, limit);
        for (size_t i = 0; i < r.n; i++) {
            size_t n = strlen(names);
            snprintf(names + n, 4096 - n, "%s/%s ", r.items[i].client, r.items[i].id);
            after = r.items[i].seq;
        }
    } while (r.n > 0);
    return names;
}

static void nothing_yet(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_outbox r = page_after(k, 0, 10);
    assert_true(r.n == 0 && r.end == 0);
    sk_plan(k, "c", "b_1", "a: p q");
    r = page_after(k, 0, 10);
    assert_true(r.n == 0 && r.end == 0);
    struct pp_outbox_count count = {.messages = 77, .oldest_at = 77};
    struct pp_store_outbox_counts counts = {.counts = &count, .n = 1};
    KIT_OK(k, outbox_counts, &counts);
    assert_true(count.messages == 0 && count.oldest_at == 0);
    counts.n = 0;
    KIT_OK(k, outbox_counts, &counts);
}

static void same_photos(const struct pp_item *a, const struct pp_item *b)
{
    assert_int_equal(a->n_photos, b->n_photos);
    for (uint32_t i = 0; i < a->n_photos; i++) {
        const struct pp_item_photo *p = &a->photos[i], *q = &b->photos[i];
        assert_int_equal(p->url_n, q->url_n);
        assert_memory_equal(p->url, q->url, p->url_n);
        assert_memory_equal(&p->key, &q->key, sizeof p->key);
        assert_int_equal(p->outcome.kind, q->outcome.kind);
        assert_int_equal(p->outcome.code, q->outcome.code);
        assert_int_equal(p->outcome.fetched_at, q->outcome.fetched_at);
        assert_int_equal(p->outcome.retry_at, q->outcome.retry_at);
        assert_int_equal(p->outcome.attempts, q->outcome.attempts);
        assert_int_equal(p->outcome.ms, q->outcome.ms);
        assert_memory_equal(&p->outcome.object, &q->outcome.object, sizeof p->outcome.object);
        assert_true(!p->outcome.detail == !q->outcome.detail);
        if (p->outcome.detail)
            assert_string_equal(p->outcome.detail, q->outcome.detail);
    }
}

static void same_item(const struct pp_item *a, const struct pp_item *b)
{
    assert_string_equal(a->client, b->client);
    assert_string_equal(a->id, b->id);
    assert_int_equal(a->revision, b->revision);
    assert_string_equal(a->batch_id, b->batch_id);
    assert_true(!a->meta == !b->meta);
    if (a->meta)
        assert_string_equal(a->meta, b->meta);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->created_at, b->created_at);
    assert_int_equal(a->finished_at, b->finished_at);
    assert_int_equal(a->seq, b->seq);
    same_photos(a, b);
}

/* Items of several clients and batches finish with every status. The outbox must list them in
 * order, each equal to its stored result. */
static void everybody_in_order(void **state)
{
    struct store_kit *k = *state;
    static const char *const batches[] = {"b_1", "b_2", "b_3"};
    struct pp_store_plan *r =
        sk_plan_of(k, "c1", "b_1", "a: p q; b: r=stored s=skipped; open: z; d: r=failed");
    r->items[0].meta = "{\"x\": 1}";
    KIT_OK(k, plan, r);
    sk_plan(k, "c2", "b_2", "a: p; e: y");
    struct pp_store_claim *c = sk_claim(k, "c1", 0, 2);
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c2", "p"), PP_OUTCOME_STORED);
    sk_fail(k, &c->tasks[0], 404, true);
    k->now += 7;
    sk_final(k, KIT_WORKER, &c->tasks[1], PP_OUTCOME_STORED);
    sk_plan(k, "c1", "b_3", "open: w"); /* This batch supersedes item "open" of b_1. */
    sk_cancel(k, NULL, "b_2");
    sk_cancel(k, NULL, "b_3");
    for (size_t limit = 1; limit < 9; limit += 3)
        assert_string_equal(names_after(k, 0, limit), "c1/b c1/d c2/a c1/a c1/open c2/e c1/open ");
    size_t seen = 0, n;
    struct pp_store_outbox all = page_after(k, 0, 100);
    for (size_t b = 0; b < 3; b++) {
        struct pp_item *items = sk_results(k, batches[b], 100, &n);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < all.n; j++)
                if (all.items[j].seq == items[i].seq) {
                    same_item(&all.items[j], &items[i]);
                    seen++;
                }
    }
    assert_int_equal(seen, 7);
    sk_reopen(k);
    assert_string_equal(names_after(k, all.items[4].seq, 10), "c2/e c1/open ");
}

/* Items finish while a reader reads the outbox. The reader must see each item once, and none
 * below a seq that it has passed. */
static void read_while_they_finish(void **state)
{
    struct store_kit *k = *state;
    enum { ITEMS = 30 };
    char text[1024] = "";
    for (int i = 0; i < ITEMS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%si%d: p%d", i ? "; " : "", i, i);
    sk_plan(k, "c", "b_1", text);
    uint64_t after = 0, end = 0;
    size_t seen = 0, finished = 0;
    bool had[ITEMS] = {false};
    while (seen < ITEMS) {
        struct pp_store_claim *c = finished < ITEMS ? sk_claim(k, "c", 0, 2) : NULL;
        for (size_t i = 0; c && i < c->n; i++, finished++)
            sk_final(k, KIT_WORKER, &c->tasks[c->n - 1 - i], PP_OUTCOME_STORED);
        struct pp_store_outbox r = page_after(k, after, 3);
        assert_true(r.end >= end);
        assert_int_equal(r.n, finished - seen < 3 ? finished - seen : 3);
        for (size_t i = 0; i < r.n; i++) {
            int number = atoi(r.items[i].id + 1);
            assert_false(had[number]);
            had[number] = true;
            after = r.items[i].seq;
        }
        end = r.end;
        seen += r.n;
    }
    assert_int_equal(page_after(k, after, 3).n, 0);
    sk_plan(k, "c", "b_2", "later: x=stored");
    /* The new item has a higher seq than any reader could have reached. */
    struct pp_store_outbox r = page_after(k, end, 3);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.items[0].id, "later");
}

static void only_the_requested_ones(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c1", "b_1", "a: p=stored; b: p=failed; c: q; d: p=stored");
    sk_plan(k, "c2", "b_2", "e: p=stored");
    struct pp_store_outbox all = page_after(k, 0, 10);
    assert_int_equal(all.n, 4);
    uint64_t seqs[] = {all.items[3].seq, all.items[0].seq, all.end + 1000, all.items[2].seq,
                       all.items[0].seq};
    struct pp_store_outbox r = {.after_seq = all.end, .limit = 1, .seqs = seqs, .n_seqs = 5};
    KIT_OK(k, outbox, &r);
    assert_int_equal(r.n, 3);
    same_item(&r.items[0], &all.items[0]);
    same_item(&r.items[1], &all.items[2]);
    same_item(&r.items[2], &all.items[3]);
    k->now += 1000;
    struct pp_store_clean clean = {.finished_before_ms = k->now, .limit = 100};
    KIT_OK(k, clean, &clean);
    KIT_OK(k, outbox, &r);
    assert_int_equal(r.n, 2); /* b_1 has not ended, so the store keeps its two finished items. */
    assert_string_equal(r.items[0].id, "a");
    assert_string_equal(r.items[1].id, "d");
}

static void counted(void **state)
{
    struct store_kit *k = *state;
    int64_t began = k->now;
    for (int i = 0; i < 12; i++) {
        sk_plan(k, i % 2 ? "c1" : "c2", pp_arena_printf(&k->arena, "b_%d", i),
                "a: p=stored; b: q; c: r=failed");
        k->now += 10;
    }
    struct pp_store_outbox all = page_after(k, 0, 100);
    size_t n = all.n;
    /* Items a and c finish in each batch. Item b stays open in the last batch of each client, and
     * is superseded in the others. */
    assert_int_equal(n, 24 + 10);
    struct pp_outbox_count c[] = {{.after_seq = all.items[n - 1].seq}, {.after_seq = 0},
                                  {.after_seq = all.items[9].seq},     {.after_seq = all.items[n - 2].seq},
                                  {.after_seq = all.items[9].seq},     {.after_seq = all.end + 5000}};
    static const size_t from[] = {0, 0, 10, 0, 10, 0};
    const size_t due[] = {0, n, n - 10, 1, n - 10, 0};
    struct pp_store_outbox_counts r = {.counts = c, .n = 6};
    KIT_OK(k, outbox_counts, &r);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(c[i].messages, due[i]);
        if (from[i] || due[i] == n)
            assert_int_equal(c[i].oldest_at, all.items[from[i]].finished_at);
    }
    assert_int_equal(c[0].oldest_at, 0);
    assert_int_equal(c[1].oldest_at, began);
    assert_int_equal(c[3].oldest_at, all.items[n - 1].finished_at);
    assert_int_equal(c[5].oldest_at, 0);
}

/* The store removes finished items. Later items must get higher seqs than any that a reader has
 * seen. */
static void forgotten_ones(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p=stored; b: p=stored");
    struct pp_store_outbox before = page_after(k, 0, 10);
    k->now += 1000;
    sk_plan(k, "c", "b_2", "a: p=stored; open: q");
    struct pp_store_clean clean = {.finished_before_ms = k->now, .limit = 100};
    KIT_OK(k, clean, &clean);
    assert_int_equal(clean.items, 2);
    assert_string_equal(names_after(k, 0, 10), "c/a ");
    sk_cancel(k, "c", "b_2");
    uint64_t end = page_after(k, 0, 10).end;
    clean.finished_before_ms = INT64_MAX;
    KIT_OK(k, clean, &clean);
    for (int round = 0; round < 2; round++) {
        struct pp_store_outbox none = page_after(k, 0, 10);
        assert_int_equal(none.n, 0);
        assert_true(none.end >= end && end > before.end);
        struct pp_outbox_count count = {.after_seq = 0};
        struct pp_store_outbox_counts counts = {.counts = &count, .n = 1};
        KIT_OK(k, outbox_counts, &counts);
        assert_true(count.messages == 0 && count.oldest_at == 0);
        sk_reopen(k);
    }
    sk_plan(k, "c", "b_3", "a: p=stored");
    assert_string_equal(names_after(k, end, 10), "c/a ");
}

/* --- numbers that the store gives out --- */

static uint64_t take(struct store_kit *k, const char *name, uint64_t n)
{
    struct pp_store_numbers r = {.name = name, .n = n};
    KIT_OK(k, numbers, &r);
    return r.first;
}

static void numbers_by_name(void **state)
{
    struct store_kit *k = *state;
    assert_int_equal(take(k, "events", 1000), 1);
    /* A caller may also use the name "seq" for its numbers. */
    assert_int_equal(take(k, "seq", 1), 1);
    uint64_t second = take(k, "events", 5), third = take(k, "events", 1ull << 40);
    assert_true(second >= 1001 && third >= second + 5);
    sk_reopen(k);
    assert_true(take(k, "events", 1) >= third + (1ull << 40));
    assert_true(take(k, "seq", 1) >= 2);
    assert_int_equal(take(k, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk", 1), 1);
    /* The seqs of items are independent of the numbers that callers take. */
    sk_plan(k, "c", "b_1", "a: p=stored");
    assert_int_equal(page_after(k, 0, 9).n, 1);
}

struct takers {
    int left;
};

static void taken(struct pp_req *req)
{
    ((struct takers *)req->data)->left--;
}

static bool all_taken(void *arg)
{
    return ((struct takers *)arg)->left == 0;
}

static int by_first(const void *a, const void *b)
{
    const struct pp_store_numbers *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* The store keeps the first id that it was given. */
static void the_id_of_the_installation(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_installation first = {.mine = "a"}, second = {.mine = "b"};
    KIT_OK(k, installation, &first);
    assert_string_equal(first.id, "a");
    KIT_OK(k, installation, &second);
    assert_string_equal(second.id, "a");
    sk_reopen(k);
    struct pp_store_installation later = {.mine = "c"};
    KIT_OK(k, installation, &later);
    assert_string_equal(later.id, "a");
    sk_plan(k, "a", "b_1", "a: p=stored"); /* a client may have the same name */
    assert_string_equal(names_after(k, 0, 10), "a/a ");
}

static void numbers_for_many_at_once(void **state)
{
    struct store_kit *k = *state;
    enum { N = 40 };
    struct takers t = {N};
    struct pp_store_numbers r[N];
    for (int i = 0; i < N; i++) {
        r[i] = (struct pp_store_numbers){
            .req = {.done = taken, .data = &t, .arena = sk_arena(k)}, .name = "x", .n = (uint64_t)i + 1};
        assert_int_equal(k->store->ops->numbers(k->store, &r[i]), PP_OK);
    }
    pp_test_until(k->loop, all_taken, &t, 20000);
    for (int i = 0; i < N; i++)
        assert_string_equal(pp_err_text(r[i].req.err), pp_err_text(PP_OK));
    qsort(r, N, sizeof *r, by_first);
    for (int i = 1; i < N; i++)
        assert_true(r[i].first >= r[i - 1].first + r[i - 1].n);
    assert_true(take(k, "x", 1) >= r[N - 1].first + r[N - 1].n);
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)
static const struct CMUnitTest tests[] = {
    T(nothing_yet),
    T(everybody_in_order),
    T(read_while_they_finish),
    T(only_the_requested_ones),
    T(counted),
    T(forgotten_ones),
    T(numbers_by_name),
    T(numbers_for_many_at_once),
    T(the_id_of_the_installation),
};
const struct store_tests store_outbox_tests = {tests, sizeof tests / sizeof *tests};
