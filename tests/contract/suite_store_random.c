/* suite_store_random.c: runs random histories from a seed: all operations in any order, with
 * restarts between them.
 *
 * Invariants after every step: a claim returns only unclaimed tasks; a settlement is stale
 * exactly when its claim has been revoked; an item finishes once and never changes afterwards;
 * counters match the items. At the end the test settles all remaining tasks, and every item must
 * be terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "suite_store_tests.h"

enum { SEEDS = 6, STEPS = 250, HELD = 400, CLIENTS = 2, PHOTOS = 14, ITEMS = 8, BATCHES = 120 };

struct claim_held {
    struct pp_task task;
    const char *worker;
    int64_t lease;
    bool lost;
};

struct history {
    struct store_kit *k;
    uint64_t rng;
    struct claim_held held[HELD];
    size_t n_held;
    char batch[BATCHES][16];
    int owner[BATCHES];
    int n_batches;
    uint64_t last_seq;
};

static const char *const clients[CLIENTS] = {"c0", "c1"};
static const char *const workers[2] = {"host-1-aaaa", "host-2-bbbb"};
static const char all_items[] = "i0 i1 i2 i3 i4 i5 i6 i7";

static int64_t below(struct history *h, int64_t n)
{
    return pp_test_between(&h->rng, 0, n - 1);
}

static void step_plan(struct history *h)
{
    char text[512] = "";
    bool used[ITEMS] = {false};
    if (h->n_batches == BATCHES)
        return;
    int n = h->n_batches++;
    h->owner[n] = (int)below(h, CLIENTS);
    snprintf(h->batch[n], sizeof h->batch[n], "b_%04d", n);
    for (int64_t i = 1 + below(h, 3); i > 0; i--) {
        int item = (int)below(h, ITEMS);
        if (used[item])
            continue;
        used[item] = true;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%si%d:", *text ? "; " : "", item);
        for (int64_t p = below(h, 5); p > 0; p--) {
            static const char *const ends[] = {"", "", "", "=stored", "=failed", "=skipped"};
            snprintf(text + strlen(text), sizeof text - strlen(text), " p%d%s", (int)below(h, PHOTOS),
                     ends[below(h, 6)]);
        }
    }
    struct pp_store_plan *old = sk_plan_of(h->k, clients[h->owner[n]], h->batch[n], text);
    if (below(h, 4) == 0) /* This plan is sent without a look-up, so it knows of no stored photo. */
        KIT_OK(h->k, plan, old);
    else
        sk_plan(h->k, clients[h->owner[n]], h->batch[n], text);
    if (below(h, 4) == 0)
        sk_plan(h->k, clients[h->owner[n]], h->batch[n], text);
}

static void step_claim(struct history *h)
{
    const char *worker = workers[below(h, 2)];
    uint8_t queues[] = {0, 0, 1, PP_QUEUE_SUSPECT};
    struct pp_claim_want want = {.client = clients[below(h, CLIENTS)],
                                 .queue = queues[below(h, 4)],
                                 .n = (uint32_t)below(h, 5),
                                 .hash_hi = UINT32_MAX};
    if (below(h, 2)) {
        want.hash_lo = (uint32_t)pp_test_rnd(&h->rng);
        want.hash_hi = want.hash_lo + (UINT32_MAX - want.hash_lo) / 2;
    }
    struct pp_store_claim r = {
        .worker = worker, .lease_ms = KIT_LEASE_MS, .wants = &want, .n_wants = 1, .now_ms = h->k->now};
    KIT_OK(h->k, claim, &r);
    assert_true(r.n <= want.n);
    for (size_t i = 0; i < r.n; i++) {
        for (size_t j = 0; j < h->n_held; j++) {
            const struct pp_task *t = &h->held[j].task;
            bool same =
                !memcmp(&t->key, &r.tasks[i].key, sizeof t->key) && !strcmp(t->client, r.tasks[i].client);
            assert_false(same && !h->held[j].lost);
        }
        assert_true(h->n_held < HELD);
        h->held[h->n_held++] = (struct claim_held){r.tasks[i], worker, h->k->now + KIT_LEASE_MS, false};
    }
}

static void step_settle(struct history *h)
{
    if (h->n_held == 0)
        return;
    size_t at = (size_t)below(h, (int64_t)h->n_held);
    struct claim_held held = h->held[at];
    h->held[at] = h->held[--h->n_held];
    static const enum pp_outcome_kind kinds[] = {PP_OUTCOME_STORED, PP_OUTCOME_UNCHANGED, PP_OUTCOME_FAILED};
    struct pp_settlement s = sk_settlement(&held.task, kinds[below(h, 3)]);
    s.kind = (enum pp_settle_kind)below(h, 3);
    s.ladder = below(h, 2);
    s.tier = (uint8_t)below(h, 2);
    s.due_ms = h->k->now + below(h, 3000);
    sk_settle(h->k, held.worker, &s, 1);
    assert_int_equal(s.stale, held.lost);
}

static void step_time(struct history *h)
{
    h->k->now += below(h, 8000);
    struct pp_store_reap *r = sk_reap(h->k, NULL);
    uint64_t lost = 0;
    for (size_t i = 0; i < h->n_held; i++) {
        if (h->held[i].lost || h->held[i].lease > h->k->now)
            continue;
        h->held[i].lost = true;
        lost++;
    }
    assert_int_equal(r->lapsed + r->quarantined, lost);
}

static void step_cancel(struct history *h)
{
    if (h->n_batches)
        sk_cancel(h->k, NULL, h->batch[below(h, h->n_batches)]);
}

static void check(struct history *h, int batch)
{
    sk_check_counts(h->k, clients[h->owner[batch]], h->batch[batch], all_items);
}

static void step(struct history *h)
{
    int64_t what = below(h, 100);
    if (what < 25)
        step_plan(h);
    else if (what < 55)
        step_claim(h);
    else if (what < 85)
        step_settle(h);
    else if (what < 93)
        step_time(h);
    else if (what < 96)
        step_cancel(h);
    else if (what < 98)
        sk_reopen(h->k);
    else if (h->n_batches)
        check(h, (int)below(h, h->n_batches));
}

static void drain(struct history *h)
{
    for (int round = 0; round < 100; round++) {
        size_t n = 0;
        h->k->now += KIT_LEASE_MS;
        sk_reap(h->k, NULL);
        for (int c = 0; c < CLIENTS; c++) {
            for (uint8_t q = 0; q < PP_QUEUES; q++) {
                struct pp_store_claim *r = sk_claim(h->k, clients[c], q, 100);
                n += r->n;
                for (size_t i = 0; i < r->n; i++)
                    assert_false(sk_final(h->k, KIT_WORKER, &r->tasks[i], PP_OUTCOME_STORED));
            }
        }
        if (n == 0)
            return;
    }
    fail_msg("photos stay open");
}

static void check_end(struct history *h)
{
    struct pp_store_queue q = {0};
    KIT_OK(h->k, queue, &q);
    assert_int_equal(q.claimed, 0);
    for (int i = 0; i < PP_QUEUES; i++)
        assert_int_equal(q.counts[i].photos, 0);
    for (int i = 0; i < h->n_batches; i++) {
        struct pp_batch b = sk_batch(h->k, h->batch[i]);
        assert_true(b.finished_at > 0);
        assert_int_equal(b.items[PP_ITEM_OPEN], 0);
        assert_int_equal(b.photos[PP_OUTCOME_OPEN], 0);
        size_t n;
        sk_results(h->k, h->batch[i], 7, &n);
        assert_int_equal(n, b.items_total);
        check(h, i);
    }
    for (int c = 0; c < CLIENTS; c++) {
        for (int p = 0; p < PHOTOS; p++)
            assert_false(sk_photo(h->k, clients[c], pp_arena_printf(&h->k->arena, "p%d", p))->open);
    }
}

static void random_histories(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        print_message("seed %d\n", (int)seed);
        struct history *h = calloc(1, sizeof *h);
        assert_non_null(h);
        h->rng = seed;
        sk_close(state);
        sk_open(state);
        h->k = *state;
        for (int i = 0; i < STEPS; i++)
            step(h);
        drain(h);
        check_end(h);
        free(h);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(random_histories, sk_open, sk_close),
};
const struct store_tests store_random_tests = {tests, sizeof tests / sizeof *tests};
