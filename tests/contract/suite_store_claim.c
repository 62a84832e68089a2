/* suite_store_claim.c: tests claims, settlements and leases: which worker may change a task, and
 * to which state. */
#include <stdio.h>
#include <string.h>

#include "photopool/code.h"
#include "photopool/task_rules.h"
#include "suite_store_tests.h"

static void earliest_due_first(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a: p q r s");
    static const int64_t due[] = {30, 10, 20, 500};
    for (int i = 0; i < 4; i++)
        r->items[0].photos[i].due_ms = k->now + due[i];
    KIT_OK(k, plan, r);
    assert_int_equal(r->backlog[0].due_ms, k->now + 10);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 0);
    assert_int_equal(c->next[0].due_ms, k->now + 10);
    k->now += 100;
    c = sk_claim(k, "c", 0, 2);
    assert_int_equal(c->n, 2);
    assert_string_equal(c->tasks[0].url, "https://d/q.jpg");
    assert_string_equal(c->tasks[1].url, "https://d/r.jpg");
    assert_int_equal(c->next[0].due_ms, k->now - 70);
    c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 1);
    assert_int_equal(c->next[0].due_ms, k->now + 400);
    k->now += 1000;
    c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 1);
    assert_true(c->next[0].due_ms == INT64_MAX);
    assert_int_equal(sk_claim(k, "nobody", 0, 10)->n, 0);
    assert_int_equal(sk_claim(k, "c", 1, 10)->n, 0);
}

static void task_knows_everything(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a: p/h.example q");
    struct pp_plan_photo *p = &r->items[0].photos[0];
    p->tier = 2;
    p->always = true;
    p->known = sk_object("before");
    p->known_fetched_at = 4711;
    p->etag = "W/\"x\"";
    p->last_modified = "yesterday";
    KIT_OK(k, plan, r);
    assert_int_equal(r->n_backlog, 2);
    struct pp_store_claim *c = sk_claim(k, "c", 2, 5);
    assert_int_equal(c->n, 1);
    const struct pp_task *t = &c->tasks[0];
    assert_string_equal(t->client, "c");
    assert_string_equal(t->domain, "h.example");
    assert_string_equal(t->url, "https://h.example/p.jpg");
    assert_memory_equal(&t->key, &p->key, sizeof t->key);
    assert_memory_equal(&t->known, &p->known, sizeof t->known);
    assert_int_equal(t->known_fetched_at, 4711);
    assert_string_equal(t->etag, p->etag);
    assert_string_equal(t->last_modified, p->last_modified);
    assert_int_equal(t->tier, 2);
    assert_int_equal(t->attempts, 1);
    assert_int_equal(t->losses, 0);
    assert_true(t->always);
    t = sk_claim(k, "c", 0, 5)->tasks;
    assert_null(t->etag);
    assert_int_equal(t->known.type, 0);
    assert_false(t->always);
}

static void own_range_first(void **state)
{
    struct store_kit *k = *state;
    char text[512] = "a:";
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " r%d", i);
    sk_plan(k, "c", "b_1", text);
    uint32_t lo = 0x40000000, hi = 0xa0000000;
    size_t own = 0;
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        struct pp_key key = sk_key("c", name);
        uint32_t hash =
            (uint32_t)key.b[0] << 24 | (uint32_t)key.b[1] << 16 | (uint32_t)key.b[2] << 8 | key.b[3];
        own += hash >= lo && hash <= hi;
    }
    assert_in_range(own, 5, 35);
    struct pp_claim_want want = {.client = "c", .n = (uint32_t)own + 3, .hash_lo = lo, .hash_hi = hi};
    struct pp_store_claim r = {
        .worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .wants = &want, .n_wants = 1, .now_ms = k->now};
    KIT_OK(k, claim, &r);
    assert_int_equal(r.n, own + 3);
    for (size_t i = 0; i < r.n; i++) {
        const uint8_t *b = r.tasks[i].key.b;
        uint32_t hash = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        assert_int_equal(hash >= lo && hash <= hi, i < own);
    }
    KIT_OK(k, claim, &r);
    assert_int_equal(r.n, 40 - own - 3 < own + 3 ? 40 - own - 3 : own + 3);
}

static void many_wants_in_one_call(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c1", "b_1", "a: p q r");
    sk_plan(k, "c2", "b_2", "a: p q r");
    struct pp_claim_want wants[] = {{"c2", 0, 2, 0, UINT32_MAX},
                                    {"none", 0, 2, 0, UINT32_MAX},
                                    {"c1", 0, 9, 0, UINT32_MAX},
                                    {"c2", 0, 0, 0, UINT32_MAX},
                                    {"c2", 1, 9, 0, UINT32_MAX}};
    struct pp_store_claim r = {
        .worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .wants = wants, .n_wants = 5, .now_ms = k->now};
    KIT_OK(k, claim, &r);
    assert_int_equal(r.n, 5);
    size_t c2 = 0;
    for (size_t i = 0; i < r.n; i++)
        c2 += !strcmp(r.tasks[i].client, "c2");
    assert_int_equal(c2, 2);
    assert_int_equal(r.next[0].due_ms, k->now);
    assert_true(r.next[1].due_ms == INT64_MAX);
    assert_true(r.next[2].due_ms == INT64_MAX);
    assert_int_equal(r.next[3].due_ms, k->now);
    assert_true(r.next[4].due_ms == INT64_MAX);
}

static void outcomes_reach_the_item(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q r");
    struct pp_store_claim *c = sk_claim(k, "c", 0, 3);
    struct pp_settlement s[3] = {sk_settlement(&c->tasks[0], PP_OUTCOME_STORED),
                                 sk_settlement(&c->tasks[1], PP_OUTCOME_FAILED),
                                 sk_settlement(&c->tasks[2], PP_OUTCOME_UNCHANGED)};
    struct pp_store_settle *r = sk_settle(k, KIT_WORKER, s, 3);
    assert_int_equal(r->items_finished, 1);
    assert_int_equal(r->n_batches, 1);
    assert_string_equal(r->batches[0].batch_id, "b_1");
    assert_int_equal(r->batches[0].photos, 3);
    assert_int_equal(r->batches[0].items, 1);
    assert_true(r->batches[0].finished);
    struct pp_item item = sk_item(k, "c", "a");
    assert_int_equal(item.status, PP_ITEM_PARTIAL);
    assert_int_equal(item.finished_at, k->now);
    for (int i = 0; i < 3; i++) {
        const struct pp_outcome *o = &item.photos[i].outcome;
        assert_int_equal(o->kind, s[i].outcome.kind);
        assert_int_equal(o->attempts, 1);
        assert_int_equal(o->ms, 120);
        assert_memory_equal(&o->object, &s[i].outcome.object, sizeof o->object);
        assert_int_equal(o->fetched_at, s[i].outcome.fetched_at);
    }
    assert_int_equal(item.photos[1].outcome.code, 404);
    assert_string_equal(item.photos[1].outcome.detail, "answered 404 Not Found");
    struct pp_batch b = sk_batch(k, "b_1");
    assert_int_equal(b.n_errors, 1);
    assert_int_equal(b.errors[0].code, 404);
    sk_check_counts(k, "c", "b_1", "");
}

static void photos_remember(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED);
    struct pp_photo p = sk_photo(k, "c", "p")->photo;
    struct pp_object object = sk_object(t->url);
    assert_true(p.found);
    assert_memory_equal(&p.object, &object, sizeof object);
    assert_int_equal(p.fetched_at, 1234567);
    assert_string_equal(p.etag, "\"e1\"");
    assert_int_equal(p.fail_code, 0);
    /* Each failure that the ladder counts increases the streak in the record. The other failure, a
     * 503, leaves the record unchanged. The record keeps its object. */
    for (uint16_t streak = 1; streak <= 3; streak++) {
        sk_plan(k, "c", pp_arena_printf(&k->arena, "b_f%d", streak), "a: p");
        k->now += 1000;
        sk_fail(k, sk_claim_photo(k, "c", "p"), (uint16_t)(402 + streak), true);
        sk_plan(k, "c", pp_arena_printf(&k->arena, "b_t%d", streak), "a: p");
        sk_fail(k, sk_claim_photo(k, "c", "p"), 503, false);
        p = sk_photo(k, "c", "p")->photo;
        assert_int_equal(p.fail_streak, streak);
        assert_int_equal(p.fail_code, 402 + streak);
        assert_int_equal(p.failed_at, k->now);
        assert_string_equal(p.fail_detail, "answered 404 Not Found");
        assert_memory_equal(&p.object, &object, sizeof object);
        assert_string_equal(p.last_modified, "Sat, 21 Nov 2026 10:00:00 GMT");
    }
    /* The record counts the imports that are answered from it, until the next failure. */
    sk_plan(k, "c", "b_s", "a: p=skipped");
    assert_int_equal(sk_photo(k, "c", "p")->photo.skips, 1);
    sk_plan(k, "c", "b_s2", "a: p");
    sk_fail(k, sk_claim_photo(k, "c", "p"), 404, true);
    assert_int_equal(sk_photo(k, "c", "p")->photo.skips, 0);
    /* A success clears the failure in the record. */
    sk_plan(k, "c", "b_4", "a: p");
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_UNCHANGED);
    p = sk_photo(k, "c", "p")->photo;
    assert_int_equal(p.fail_code, 0);
    assert_int_equal(p.fail_streak, 0);
    assert_null(p.fail_detail);
    /* A failure that may pass, like a 503, creates no record of the photo. */
    sk_plan(k, "c", "b_5", "a: q");
    sk_fail(k, sk_claim_photo(k, "c", "q"), 503, false);
    assert_false(sk_photo(k, "c", "q")->photo.found);
}

static void retry_and_release(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    assert_false(sk_back(k, KIT_WORKER, t, PP_SETTLE_RELEASE, 0, k->now));
    struct pp_task *u = sk_claim_photo(k, "c", "p");
    assert_int_equal(u->attempts, 1);
    assert_true(u->epoch > t->epoch);
    assert_false(sk_back(k, KIT_WORKER, u, PP_SETTLE_RETRY, 1, k->now + 500));
    struct pp_store_photo *p = sk_photo(k, "c", "p");
    assert_true(p->open && !p->claimed);
    assert_int_equal(p->tier, 1);
    assert_int_equal(p->due_ms, k->now + 500);
    assert_int_equal(p->attempts, 1);
    assert_int_equal(sk_claim(k, "c", 0, 1)->n, 0);
    assert_int_equal(sk_claim(k, "c", 1, 1)->n, 0);
    k->now += 500;
    struct pp_store_claim *c = sk_claim(k, "c", 1, 1);
    assert_int_equal(c->n, 1);
    assert_int_equal(c->tasks[0].attempts, 2);
    assert_int_equal(c->tasks[0].tier, 1);
    struct pp_item item = sk_item(k, "c", "a");
    assert_true(item.photos[0].claimed);
    assert_int_equal(item.photos[0].tier, 1);
}

/* A settlement has the wrong worker, epoch or task. It must change nothing, whatever its
 * outcome. */
static void stale_settlements_change_nothing(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task old = *sk_claim_photo(k, "c", "p");
    sk_back(k, KIT_WORKER, &old, PP_SETTLE_RELEASE, 0, k->now);
    struct pp_task now = *sk_claim_photo(k, "c", "p");
    struct pp_task none = now;
    none.handle += 1000;
    const struct {
        const struct pp_task *task;
        const char *worker;
    } wrong[] = {{&old, KIT_WORKER}, {&now, "host-2-bbbb"}, {&none, KIT_WORKER}};
    for (size_t i = 0; i < 3; i++) {
        for (int kind = 0; kind < 4; kind++) {
            struct pp_settlement s =
                sk_settlement(wrong[i].task, kind == 3 ? PP_OUTCOME_FAILED : PP_OUTCOME_STORED);
            s.kind = kind == 3 ? PP_SETTLE_FINAL : (enum pp_settle_kind)kind;
            s.ladder = true;
            struct pp_store_settle *r = sk_settle(k, wrong[i].worker, &s, 1);
            assert_true(s.stale);
            assert_int_equal(r->n_batches, 0);
            assert_int_equal(r->items_finished, 0);
            struct pp_store_photo *p = sk_photo(k, "c", "p");
            assert_true(p->open && p->claimed && !p->photo.found);
            assert_int_equal(p->attempts, 1);
        }
    }
    assert_false(sk_final(k, KIT_WORKER, &now, PP_OUTCOME_STORED));
    /* The worker repeats its settlement with another outcome, which is stale. */
    assert_true(sk_final(k, KIT_WORKER, &now, PP_OUTCOME_FAILED));
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_COMPLETE);
    /* A later batch opens a new task for the same photo. The old settlement must not change it. */
    sk_plan(k, "c", "b_2", "a: p");
    sk_claim_photo(k, "c", "p");
    assert_true(sk_final(k, KIT_WORKER, &now, PP_OUTCOME_FAILED));
    sk_reopen(k);
    assert_true(sk_final(k, KIT_WORKER, &now, PP_OUTCOME_FAILED));
    sk_check_counts(k, "c", "b_2", "a");
}

static void stale_ones_beside_good_ones(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q r");
    struct pp_store_claim *c = sk_claim(k, "c", 0, 3);
    sk_final(k, KIT_WORKER, &c->tasks[1], PP_OUTCOME_STORED);
    struct pp_settlement s[3];
    for (int i = 0; i < 3; i++)
        s[i] = sk_settlement(&c->tasks[i], PP_OUTCOME_FAILED);
    struct pp_store_settle *r = sk_settle(k, KIT_WORKER, s, 3);
    assert_false(s[0].stale);
    assert_true(s[1].stale);
    assert_false(s[2].stale);
    assert_int_equal(r->batches[0].photos, 2);
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_PARTIAL);
}

/* --- leases --- */

static void leases_lapse(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q");
    struct pp_store_claim *c = sk_claim(k, "c", 0, 2);
    struct pp_store_renew r = {.worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .now_ms = k->now + 9000};
    KIT_OK(k, renew, &r);
    assert_int_equal(r.n, 2);
    k->now += KIT_LEASE_MS + 5000;
    assert_int_equal(sk_reap(k, NULL)->lapsed, 0);
    r.worker = "host-2-bbbb";
    KIT_OK(k, renew, &r);
    assert_int_equal(r.n, 0);
    k->now += 5000;
    struct pp_store_reap *reap = sk_reap(k, NULL);
    assert_int_equal(reap->lapsed, 2);
    assert_int_equal(reap->quarantined, 0);
    assert_int_equal(reap->n_backlog, 1);
    assert_string_equal(reap->backlog[0].client, "c");
    assert_int_equal(reap->backlog[0].queue, 0);
    assert_true(sk_final(k, KIT_WORKER, &c->tasks[0], PP_OUTCOME_STORED));
    assert_true(sk_back(k, KIT_WORKER, &c->tasks[1], PP_SETTLE_RELEASE, 0, 0));
    r.worker = KIT_WORKER;
    KIT_OK(k, renew, &r);
    assert_int_equal(r.n, 0);
    c = sk_claim(k, "c", 0, 2);
    assert_int_equal(c->n, 2);
    assert_int_equal(c->tasks[0].losses, 1);
    assert_int_equal(c->tasks[0].attempts, 2);
}

static void claims_of_the_dead_return(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q r");
    sk_claim_as(k, "host-1-old", "c", 0, 2);
    struct pp_task *mine = sk_claim_as(k, KIT_WORKER, "c", 0, 1)->tasks;
    assert_int_equal(sk_reap(k, KIT_WORKER)->lapsed, 2);
    assert_int_equal(sk_reap(k, KIT_WORKER)->lapsed, 0);
    assert_false(sk_final(k, KIT_WORKER, mine, PP_OUTCOME_STORED));
    /* The reaper is told that only "host-1-new" is alive, so the claims of all other workers
     * lapse. */
    sk_claim_as(k, "host-1-old", "c", 0, 2);
    assert_int_equal(sk_reap(k, "host-1-new")->lapsed, 2);
}

static void suspects_and_quarantine(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q=stored");
    sk_plan(k, "c", "b_2", "b: p");
    for (int loss = 1; loss <= 3; loss++) {
        uint8_t queue = loss == 3 ? PP_QUEUE_SUSPECT : 0;
        struct pp_store_claim *c = sk_claim(k, "c", queue, 1);
        assert_int_equal(c->n, 1);
        assert_int_equal(c->tasks[0].losses, loss - 1);
        assert_int_equal(c->tasks[0].tier, 0);
        k->now += KIT_LEASE_MS;
        struct pp_store_reap *r = sk_reap(k, NULL);
        assert_int_equal(r->lapsed, loss < 3);
        assert_int_equal(r->quarantined, loss == 3);
        assert_int_equal(r->items_finished, loss == 3 ? 2 : 0);
        if (loss == 2)
            assert_int_equal(r->backlog[0].queue, PP_QUEUE_SUSPECT);
    }
    struct pp_item a = sk_item(k, "c", "a");
    assert_int_equal(a.status, PP_ITEM_PARTIAL);
    assert_int_equal(a.photos[0].outcome.kind, PP_OUTCOME_FAILED);
    assert_int_equal(a.photos[0].outcome.code, PP_CODE_QUARANTINED);
    assert_int_equal(a.photos[0].outcome.attempts, 3);
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_FAILED);
    assert_false(sk_photo(k, "c", "p")->open);
    sk_check_counts(k, "c", "b_1", "");
    sk_check_counts(k, "c", "b_2", "");
}

static void a_suspect_stays_one(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    for (int loss = 0; loss < 2; loss++) {
        sk_claim(k, "c", 0, 1);
        k->now += KIT_LEASE_MS;
        sk_reap(k, NULL);
    }
    struct pp_task *t = sk_claim(k, "c", PP_QUEUE_SUSPECT, 1)->tasks;
    assert_false(sk_back(k, KIT_WORKER, t, PP_SETTLE_RETRY, 2, k->now));
    assert_int_equal(sk_claim(k, "c", 2, 1)->n, 0);
    struct pp_store_claim *c = sk_claim(k, "c", PP_QUEUE_SUSPECT, 1);
    assert_int_equal(c->n, 1);
    assert_int_equal(c->tasks[0].tier, 2);
    assert_false(sk_final(k, KIT_WORKER, c->tasks, PP_OUTCOME_STORED));
}

static void reaping_has_a_limit(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q r s t");
    sk_claim(k, "c", 0, 5);
    k->now += KIT_LEASE_MS;
    struct pp_store_reap r = {.now_ms = k->now, .date_ms = k->now, .limit = 2};
    uint64_t left = 5;
    do {
        KIT_OK(k, reap, &r);
        assert_int_equal(r.lapsed, left < 2 ? left : 2);
        left -= r.lapsed;
    } while (r.lapsed == r.limit);
    assert_int_equal(left, 0);
}

/* The claim of a task lapses after its batch was cancelled. The store must delete the task,
 * because no item waits for it. */
static void lapsed_orphans_are_gone(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    sk_claim_photo(k, "c", "p");
    sk_cancel(k, NULL, "b_1");
    k->now += KIT_LEASE_MS;
    assert_int_equal(sk_reap(k, NULL)->lapsed, 1);
    assert_false(sk_photo(k, "c", "p")->open);
    assert_int_equal(sk_claim(k, "c", 0, 1)->n, 0);
}

/* --- every transition of the table, with its result in the store --- */

struct subject {
    struct pp_task task; /* the task as the latest claim returned it */
    const char *batch, *item, *photo;
};

static enum pp_task_state observe(struct store_kit *k, const struct subject *s)
{
    struct pp_item item = sk_item(k, "c", s->item);
    const struct pp_outcome *o = &item.photos[0].outcome;
    switch (o->kind) {
    case PP_OUTCOME_STORED: return PP_TASK_STORED;
    case PP_OUTCOME_UNCHANGED: return PP_TASK_UNCHANGED;
    case PP_OUTCOME_CANCELLED: return PP_TASK_CANCELLED;
    case PP_OUTCOME_FAILED: return o->code == PP_CODE_QUARANTINED ? PP_TASK_QUARANTINED : PP_TASK_FAILED;
    default: break;
    }
    struct pp_store_photo *p = sk_photo(k, "c", s->photo);
    assert_true(p->open);
    return p->claimed ? PP_TASK_CLAIMED : PP_TASK_WAITING;
}

static bool claim_it(struct store_kit *k, struct subject *s)
{
    for (uint8_t q = 0; q < PP_QUEUES; q++) {
        struct pp_store_claim *c = sk_claim(k, "c", q, 100);
        assert_true(c->n <= 1);
        if (c->n == 1) {
            s->task = c->tasks[0];
            return true;
        }
    }
    return false;
}

static void lapse(struct store_kit *k)
{
    k->now += KIT_LEASE_MS;
    sk_reap(k, NULL);
}

static void apply(struct store_kit *k, struct subject *s, enum pp_task_event event)
{
    switch (event) {
    case PP_EVENT_CLAIM: claim_it(k, s); break;
    case PP_EVENT_RELEASE: sk_back(k, KIT_WORKER, &s->task, PP_SETTLE_RELEASE, s->task.tier, k->now); break;
    case PP_EVENT_RETRY: sk_back(k, KIT_WORKER, &s->task, PP_SETTLE_RETRY, s->task.tier, k->now); break;
    case PP_EVENT_PROMOTE: sk_back(k, KIT_WORKER, &s->task, PP_SETTLE_RETRY, 1, k->now); break;
    case PP_EVENT_SUCCEED: sk_final(k, KIT_WORKER, &s->task, PP_OUTCOME_STORED); break;
    case PP_EVENT_KEEP: sk_final(k, KIT_WORKER, &s->task, PP_OUTCOME_UNCHANGED); break;
    case PP_EVENT_FAIL: sk_final(k, KIT_WORKER, &s->task, PP_OUTCOME_FAILED); break;
    case PP_EVENT_LAPSE:
    case PP_EVENT_QUARANTINE: lapse(k); break;
    case PP_EVENT_CANCEL: sk_cancel(k, NULL, s->batch); break;
    default: fail_msg("an event without a test: %d", event);
    }
}

/* Makes a task in `state` with `losses` lost claims. The task has been claimed once, so that the
 * test has its key and epoch. */
static struct subject subject_in(struct store_kit *k, enum pp_task_state state, int losses, int number)
{
    struct subject s = {.batch = pp_arena_printf(&k->arena, "b_%06d", number),
                        .item = pp_arena_printf(&k->arena, "i%d", number),
                        .photo = pp_arena_printf(&k->arena, "p%d", number)};
    sk_plan(k, "c", s.batch, pp_arena_printf(&k->arena, "%s: %s", s.item, s.photo));
    for (int i = 0; i < losses; i++) {
        assert_true(claim_it(k, &s));
        lapse(k);
    }
    assert_true(claim_it(k, &s));
    static const enum pp_task_event way[] = {[PP_TASK_WAITING] = PP_EVENT_RELEASE,
                                             [PP_TASK_STORED] = PP_EVENT_SUCCEED,
                                             [PP_TASK_UNCHANGED] = PP_EVENT_KEEP,
                                             [PP_TASK_FAILED] = PP_EVENT_FAIL,
                                             [PP_TASK_CANCELLED] = PP_EVENT_CANCEL};
    if (state == PP_TASK_QUARANTINED) {
        for (int i = losses; i < 3; i++) {
            lapse(k);
            claim_it(k, &s);
        }
    } else if (state == PP_TASK_CANCELLED) {
        apply(k, &s, PP_EVENT_RELEASE);
        apply(k, &s, PP_EVENT_CANCEL);
    } else if (state != PP_TASK_CLAIMED) {
        apply(k, &s, way[state]);
    }
    assert_int_equal(observe(k, &s), state);
    return s;
}

static void every_transition(void **state)
{
    struct store_kit *k = *state;
    int number = 0;
    for (int from = 0; from < PP_TASK_STATE_COUNT; from++) {
        for (int event = 0; event < PP_TASK_EVENT_COUNT; event++) {
            struct subject s =
                subject_in(k, (enum pp_task_state)from, event == PP_EVENT_QUARANTINE ? 2 : 0, ++number);
            enum pp_task_state to = pp_task_next((enum pp_task_state)from, (enum pp_task_event)event);
            /* PP_TASK_STATE_COUNT means that the table does not allow the event, so the state must
             * not change. */
            if (to == PP_TASK_STATE_COUNT)
                to = (enum pp_task_state)from;
            apply(k, &s, (enum pp_task_event)event);
            if (observe(k, &s) != to)
                fail_msg("state %d, event %d: now %d, not %d", from, event, observe(k, &s), to);
            sk_check_counts(k, "c", s.batch, s.item);
            /* Cancels the batch, so that no task remains for the next pair of state and event. */
            sk_cancel(k, NULL, s.batch);
            lapse(k);
        }
    }
}

static void settling_nonsense_is_refused(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_task *t = sk_claim_photo(k, "c", "p");
    static const enum pp_outcome_kind kinds[] = {PP_OUTCOME_OPEN, PP_OUTCOME_SKIPPED, PP_OUTCOME_CANCELLED};
    for (size_t i = 0; i < 3; i++) {
        struct pp_settlement s = {.task = t, .outcome = {.kind = kinds[i]}};
        struct pp_store_settle r = {
            .worker = KIT_WORKER, .settlements = &s, .n = 1, .now_ms = k->now, .date_ms = k->now};
        KIT_RUN(k, settle, &r);
        assert_int_equal(r.req.err, PP_EINVAL);
    }
    assert_true(sk_photo(k, "c", "p")->claimed);
}

/* A due time that no delay can have comes from a wrong clock. */
static void a_due_time_beyond_all_delays_is_now(void **state)
{
    enum { HOUR = 3600000 };
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p");
    struct pp_claim_want want = {.client = "c", .n = 1, .hash_hi = UINT32_MAX};
    const struct pp_store_claim bounded = {.worker = KIT_WORKER,
                                           .lease_ms = KIT_LEASE_MS,
                                           .wants = &want,
                                           .n_wants = 1,
                                           .now_ms = k->now,
                                           .latest_ms = k->now + 2 * HOUR};
    for (int hours = 1; hours <= 30; hours += 29) {
        struct pp_settlement s = sk_settlement(sk_claim_photo(k, "c", "p"), PP_OUTCOME_FAILED);
        s.kind = PP_SETTLE_RETRY;
        s.due_ms = k->now + hours * (int64_t)HOUR;
        sk_settle(k, KIT_WORKER, &s, 1);
        struct pp_store_claim r = bounded;
        KIT_OK(k, claim, &r);
        if (r.n == 0 && r.next[0].due_ms <= k->now) /* the store has corrected the time */
            KIT_OK(k, claim, &r);
        assert_int_equal(r.n, hours > 2);
        if (hours > 2)
            return;
        assert_int_equal(r.next[0].due_ms, s.due_ms);
        k->now = s.due_ms;
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)
static const struct CMUnitTest tests[] = {
    T(earliest_due_first),
    T(task_knows_everything),
    T(own_range_first),
    T(many_wants_in_one_call),
    T(outcomes_reach_the_item),
    T(photos_remember),
    T(retry_and_release),
    T(stale_settlements_change_nothing),
    T(stale_ones_beside_good_ones),
    T(leases_lapse),
    T(claims_of_the_dead_return),
    T(suspects_and_quarantine),
    T(a_suspect_stays_one),
    T(reaping_has_a_limit),
    T(lapsed_orphans_are_gone),
    T(every_transition),
    T(settling_nonsense_is_refused),
    T(a_due_time_beyond_all_delays_is_now),
};
const struct store_tests store_claim_tests = {tests, sizeof tests / sizeof *tests};
