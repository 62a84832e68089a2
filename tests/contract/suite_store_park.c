/* suite_store_park.c: tests tasks that are parked while their host is open or slow, and forgetting
 * recorded failures. */
#include <stdio.h>
#include <string.h>

#include "photopool/task_rules.h"
#include "suite_store_tests.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND };

static struct pp_store_park *park_row(struct store_kit *k, struct pp_park_row row)
{
    struct pp_store_park *r = pp_arena_alloc(&k->arena, sizeof *r);
    struct pp_park_row *copy = pp_arena_alloc(&k->arena, sizeof *copy);
    *copy = row;
    *r = (struct pp_store_park){.rows = copy, .n = 1, .now_ms = k->now};
    KIT_OK(k, park, r);
    return r;
}

/* Parks the tasks of client "c" on host "h" for `ms`, and lets them wait for it for `wait_ms`. */
static struct pp_store_park *park(struct store_kit *k, int64_t ms, int64_t wait_ms)
{
    return park_row(k, (struct pp_park_row){"c", "h", k->now + ms, k->now + wait_ms, false});
}

static struct pp_store_unpark *unpark(struct store_kit *k, const char *client, const char *domain)
{
    struct pp_store_unpark *r = pp_arena_alloc(&k->arena, sizeof *r);
    const char **clients = pp_arena_alloc(&k->arena, sizeof *clients);
    *clients = client;
    *r = (struct pp_store_unpark){.domain = domain, .clients = clients, .n = 1, .now_ms = k->now};
    KIT_OK(k, unpark, r);
    return r;
}

/* Unparks the tasks of all clients on all hosts. */
static struct pp_store_unpark *unpark_all(struct store_kit *k)
{
    struct pp_store_unpark *r = pp_arena_alloc(&k->arena, sizeof *r);
    *r = (struct pp_store_unpark){.now_ms = k->now};
    KIT_OK(k, unpark, r);
    return r;
}

static void is_row(const struct pp_backlog_row *row, const char *client, uint8_t queue, int64_t due_ms)
{
    assert_string_equal(row->client, client);
    assert_int_equal(row->queue, queue);
    assert_int_equal(row->due_ms, due_ms);
}

/* Hands a claimed task back: its host is open. */
static void hand_back(struct store_kit *k, const struct pp_task *t, enum pp_settle_kind kind, int64_t due_ms,
                      int64_t park_ms, int64_t wait_until_ms, uint16_t code)
{
    struct pp_settlement s = {.task = t,
                              .kind = kind,
                              .tier = t->tier,
                              .due_ms = due_ms,
                              .park_ms = park_ms,
                              .wait_until_ms = wait_until_ms,
                              .last_code = code};
    sk_settle(k, KIT_WORKER, &s, 1);
    assert_false(s.stale);
}

static void nobody_claims_a_parked_task(void **state)
{
    struct store_kit *k = *state;
    int64_t start = k->now;
    sk_plan(k, "c", "b_1", "a: p/h q/h r/other");
    sk_plan(k, "other", "b_2", "a: p/h");
    struct pp_store_park *r = park(k, MINUTE, 15 * MINUTE);
    assert_int_equal(r->tasks, 2);
    assert_int_equal(r->n_backlog, 1);
    is_row(&r->backlog[0], "c", 0, start + MINUTE);

    struct pp_store_claim *c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 1);
    assert_string_equal(c->tasks[0].domain, "other");
    assert_int_equal(c->tasks[0].wait_until_ms, 0);
    assert_int_equal(c->next[0].due_ms, start + MINUTE);
    assert_int_equal(sk_claim(k, "other", 0, 10)->n, 1);
    assert_int_equal(sk_photo(k, "c", "p")->wait_until_ms, start + 15 * MINUTE);
    assert_int_equal(sk_photo(k, "c", "p")->due_ms, start + MINUTE);
    assert_true(sk_photo(k, "c", "p")->parked);

    k->now += MINUTE;
    c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 2);
    for (size_t i = 0; i < c->n; i++) {
        assert_int_equal(c->tasks[i].wait_until_ms, start + 15 * MINUTE);
        assert_int_equal(c->tasks[i].attempts, 1);
    }
}

static void parking_may_be_repeated(void **state)
{
    struct store_kit *k = *state;
    int64_t start = k->now;
    sk_plan(k, "c", "b_1", "a: p/h");
    assert_int_equal(park(k, MINUTE, 15 * MINUTE)->tasks, 1);
    assert_int_equal(park(k, MINUTE, 15 * MINUTE)->tasks, 0);
    assert_int_equal(park(k, MINUTE / 2, 15 * MINUTE)->tasks, 0); /* never earlier */
    k->now += SECOND;
    assert_int_equal(park(k, 2 * MINUTE, 20 * MINUTE)->tasks, 1);
    assert_int_equal(sk_photo(k, "c", "p")->due_ms, start + SECOND + 2 * MINUTE);
    assert_int_equal(sk_photo(k, "c", "p")->wait_until_ms, start + 15 * MINUTE); /* the first one */
    assert_int_equal(park_row(k, (struct pp_park_row){"c", "nobody", start, start, false})->tasks, 0);
    assert_int_equal(park_row(k, (struct pp_park_row){"nobody", "h", start, start, false})->tasks, 0);
}

static void a_task_waits_for_its_host_only_so_long(void **state)
{
    struct store_kit *k = *state;
    int64_t end = k->now + 15 * MINUTE;
    sk_plan(k, "c", "b_1", "a: p/h");
    struct pp_store_park *r = park(k, 60 * MINUTE, 15 * MINUTE);
    assert_int_equal(r->tasks, 1);
    is_row(&r->backlog[0], "c", 0, end);
    assert_int_equal(park(k, 120 * MINUTE, 120 * MINUTE)->tasks, 0);
    k->now = end - 1;
    assert_int_equal(sk_claim(k, "c", 0, 1)->n, 0);
    k->now = end + MINUTE;
    assert_int_equal(park(k, 120 * MINUTE, 120 * MINUTE)->tasks, 0);
    assert_int_equal(sk_claim_photo(k, "c", "p")->wait_until_ms, end);
}

static void a_pause_sets_no_end(void **state)
{
    struct store_kit *k = *state;
    struct pp_park_row pause = {"c", "h", k->now + MINUTE, k->now + 2 * MINUTE, true};
    sk_plan(k, "c", "b_1", "a: p/h");
    assert_int_equal(park_row(k, pause)->tasks, 1);
    assert_int_equal(park_row(k, pause)->tasks, 0);
    assert_int_equal(sk_photo(k, "c", "p")->wait_until_ms, 0);
    assert_int_equal(sk_photo(k, "c", "p")->due_ms, k->now + MINUTE);
    assert_int_equal(park(k, 2 * MINUTE, 3 * MINUTE)->tasks, 1);
    pause.due_ms = k->now + 60 * MINUTE;
    assert_int_equal(park_row(k, pause)->tasks, 1);
    assert_int_equal(sk_photo(k, "c", "p")->due_ms, k->now + 3 * MINUTE); /* when its wait ends */
}

static void unparked_tasks_are_due_at_their_own_time(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p/h");
    const struct pp_task *t = sk_claim_photo(k, "c", "p");
    assert_false(sk_back(k, KIT_WORKER, t, PP_SETTLE_RETRY, 1, k->now + 5 * MINUTE));
    sk_plan(k, "c", "b_2", "b: q/h r/h s/other");
    assert_int_equal(park(k, 10 * MINUTE, 15 * MINUTE)->tasks, 3);
    assert_int_equal(park(k, 12 * MINUTE, 15 * MINUTE)->tasks, 3);
    k->now += MINUTE;
    struct pp_store_unpark *r = unpark(k, "c", "h");
    assert_int_equal(r->tasks, 3);
    assert_int_equal(r->n_backlog, 2);
    bool first = r->backlog[0].queue == 0;
    is_row(&r->backlog[!first], "c", 0, k->now);
    is_row(&r->backlog[first], "c", 1, k->now + 4 * MINUTE);
    assert_false(sk_photo(k, "c", "p")->parked);
    assert_int_equal(sk_photo(k, "c", "p")->wait_until_ms, 0);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 3);
    for (size_t i = 0; i < c->n; i++)
        assert_int_equal(c->tasks[i].wait_until_ms, 0);
    assert_int_equal(sk_claim(k, "c", 1, 10)->n, 0);
    assert_int_equal(unpark(k, "c", "h")->tasks, 0);
    assert_int_equal(unpark(k, "nobody", "h")->tasks, 0);
    assert_int_equal(unpark(k, "c", "nobody")->tasks, 0);
    k->now += 4 * MINUTE;
    assert_int_equal(sk_claim(k, "c", 1, 10)->n, 1);
}

/* Its park has ended, but nobody has claimed the task yet. */
static void unparking_a_due_task_lets_it_be_due(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p/h");
    park(k, MINUTE, 15 * MINUTE);
    k->now += 2 * MINUTE;
    struct pp_store_unpark *r = unpark(k, "c", "h");
    assert_int_equal(r->tasks, 1);
    is_row(&r->backlog[0], "c", 0, k->now - MINUTE);
    assert_int_equal(sk_claim_photo(k, "c", "p")->wait_until_ms, 0);
}

/* A few tasks are let out while the others stay parked. */
static void probes_are_let_out(void **state)
{
    struct store_kit *k = *state;
    static const char *const clients[] = {"d", "c"};
    int64_t start = k->now, end = start + 15 * MINUTE;
    sk_plan(k, "c", "b_0", "z: late/h");
    const struct pp_task *late = sk_claim_photo(k, "c", "late");
    assert_false(sk_back(k, KIT_WORKER, late, PP_SETTLE_RETRY, 1, start + 5 * MINUTE));
    sk_plan(k, "c", "b_1", "a: p/h q/h r/h s/other");
    sk_plan(k, "d", "b_2", "a: p/h");
    assert_int_equal(park(k, 10 * MINUTE, 15 * MINUTE)->tasks, 4);
    park_row(k, (struct pp_park_row){"d", "h", start + MINUTE, end, false});
    k->now += SECOND;
    struct pp_store_unpark r = {.domain = "h", .clients = clients, .n = 2, .probes = 3, .now_ms = k->now};
    KIT_OK(k, unpark, &r);
    assert_int_equal(r.tasks, 3); /* one of d, two of c */
    assert_int_equal(r.n_backlog, 2);
    is_row(&r.backlog[0], "d", 0, k->now);
    is_row(&r.backlog[1], "c", 0, k->now);
    struct pp_store_claim *c = sk_claim(k, "c", 0, 10);
    assert_int_equal(c->n, 3);
    for (size_t i = 0; i < c->n; i++)
        assert_int_equal(c->tasks[i].wait_until_ms, strcmp(c->tasks[i].domain, "h") == 0 ? end : 0);
    c = sk_claim(k, "d", 0, 10);
    assert_int_equal(c->n, 1);
    assert_int_equal(c->tasks[0].wait_until_ms, end);
    KIT_OK(k, unpark, &r);
    assert_int_equal(r.tasks, 1); /* `late` would not be due without its host */
    KIT_OK(k, unpark, &r);
    assert_int_equal(r.tasks, 0);
    assert_int_equal(park(k, 10 * MINUTE, 15 * MINUTE)->tasks, 2); /* nobody has claimed the probe */
    assert_int_equal(sk_claim(k, "c", 0, 10)->n, 0);
}

static void claimed_tasks_are_not_parked(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p/h q/h");
    const struct pp_task *t = sk_claim_photo(k, "c", "p");
    assert_int_equal(park(k, MINUTE, 15 * MINUTE)->tasks, 1);
    assert_false(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
    k->now += MINUTE;
    sk_claim_photo(k, "c", "q");
    assert_int_equal(unpark(k, "c", "h")->tasks, 0);
    k->now += KIT_LEASE_MS + 1;
    assert_int_equal(sk_reap(k, NULL)->lapsed, 1);
    assert_int_equal(sk_claim_photo(k, "c", "q")->wait_until_ms, 0); /* a lost task waits anew */
}

static void a_task_is_planned_parked(void **state)
{
    struct store_kit *k = *state;
    int64_t start = k->now;
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a: p/h q/h");
    r->items[0].photos[0].park_ms = start + 60 * MINUTE;
    r->items[0].photos[0].wait_until_ms = start + 15 * MINUTE;
    r->items[0].photos[1].park_ms = start + MINUTE;
    KIT_OK(k, plan, r);
    assert_int_equal(r->n_backlog, 1);
    is_row(&r->backlog[0], "c", 0, start + MINUTE);
    assert_int_equal(sk_claim(k, "c", 0, 10)->n, 0);
    assert_int_equal(sk_photo(k, "c", "p")->due_ms, start + 15 * MINUTE);
    assert_int_equal(sk_photo(k, "c", "q")->wait_until_ms, 0);
    k->now += MINUTE;
    sk_claim_photo(k, "c", "q");
    assert_int_equal(unpark(k, "c", "h")->tasks, 1);
    sk_claim_photo(k, "c", "p");
}

static void a_task_is_handed_back_parked(void **state)
{
    struct store_kit *k = *state;
    int64_t start = k->now, end = start + 15 * MINUTE;
    sk_plan(k, "c", "b_1", "a: p/h");
    hand_back(k, sk_claim_photo(k, "c", "p"), PP_SETTLE_RETRY, start + MINUTE, start + 5 * MINUTE, end, 503);
    struct pp_store_photo *photo = sk_photo(k, "c", "p");
    assert_int_equal(photo->due_ms, start + 5 * MINUTE);
    assert_int_equal(photo->wait_until_ms, end);
    assert_int_equal(photo->last_code, 503);
    assert_int_equal(photo->attempts, 1);
    k->now += 5 * MINUTE;
    const struct pp_task *t = sk_claim_photo(k, "c", "p");
    assert_int_equal(t->last_code, 503);
    assert_int_equal(t->wait_until_ms, end);
    hand_back(k, t, PP_SETTLE_RELEASE, k->now, k->now + 10 * MINUTE, end, 0);
    photo = sk_photo(k, "c", "p");
    assert_int_equal(photo->last_code, 503);
    assert_int_equal(photo->attempts, 1);
    assert_int_equal(photo->due_ms, end);
    k->now += MINUTE;
    assert_int_equal(unpark(k, "c", "h")->tasks, 1);
    t = sk_claim_photo(k, "c", "p");
    assert_int_equal(t->attempts, 2);
    hand_back(k, t, PP_SETTLE_RETRY, k->now, 0, 0, 404);
    t = sk_claim_photo(k, "c", "p");
    assert_int_equal(t->last_code, 404);
    assert_int_equal(t->wait_until_ms, 0);
}

/* A failure that is held back: the attempt does not count, and the photo waits for its host. */
static void failures_are_held_back(void **state)
{
    struct store_kit *k = *state;
    int64_t believe = k->now + 120 * MINUTE;
    sk_plan(k, "c", "b_1", "a: p/h");
    hand_back(k, sk_claim_photo(k, "c", "p"), PP_SETTLE_RELEASE, k->now, believe, believe, 404);
    struct pp_item item = sk_item(k, "c", "a");
    assert_int_equal(item.status, PP_ITEM_OPEN);
    assert_int_equal(item.photos[0].attempts, 0);
    assert_int_equal(item.photos[0].last_code, 404);
    assert_int_equal(item.photos[0].due_ms, believe);
    assert_int_equal(item.photos[0].wait_until_ms, believe);
    assert_int_equal(sk_photo(k, "c", "p")->photo.fail_streak, 0);
    k->now = believe;
    assert_false(sk_fail(k, sk_claim_photo(k, "c", "p"), 404, true));
    assert_int_equal(sk_photo(k, "c", "p")->photo.fail_streak, 1);
    assert_int_equal(sk_item(k, "c", "a").status, PP_ITEM_FAILED);
}

static void another_tier_does_not_unpark(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p/h q/h");
    sk_claim_photo(k, "c", "p");
    park(k, 10 * MINUTE, 15 * MINUTE);
    struct pp_store_retier retier = {
        .client = "c", .domain = "h", .tier = 2, .due_ms = k->now + MINUTE, .now_ms = k->now};
    KIT_OK(k, retier, &retier);
    assert_int_equal(retier.n, 1);
    KIT_OK(k, retier, &retier);
    assert_int_equal(retier.n, 0);
    assert_int_equal(sk_photo(k, "c", "q")->tier, 2);
    assert_int_equal(sk_photo(k, "c", "q")->due_ms, k->now + 10 * MINUTE);
    struct pp_store_unpark *r = unpark(k, "c", "h");
    assert_int_equal(r->n_backlog, 1);
    is_row(&r->backlog[0], "c", 2, k->now + MINUTE);
    k->now += MINUTE;
    assert_int_equal(sk_claim(k, "c", 2, 10)->n, 1);
}

/* As many tasks as take several slices. */
static void many_tasks_are_parked(void **state)
{
    enum { BATCHES = 12, PHOTOS = 100 };
    struct store_kit *k = *state;
    for (int b = 0; b < BATCHES; b++) {
        char text[PHOTOS * 12];
        snprintf(text, sizeof text, "i%d:", b); /* each batch has an item of its own */
        for (int p = 0; p < PHOTOS; p++)
            snprintf(text + strlen(text), sizeof text - strlen(text), " p%d/h", b * PHOTOS + p);
        sk_plan(k, "c", pp_arena_printf(&k->arena, "b_%d", b), text);
    }
    assert_int_equal(park(k, MINUTE, 15 * MINUTE)->tasks, BATCHES * PHOTOS);
    assert_int_equal(park(k, MINUTE, 15 * MINUTE)->tasks, 0);
    assert_int_equal(sk_claim(k, "c", 0, 10)->n, 0);
    struct pp_store_unpark *r = unpark(k, "c", "h");
    assert_int_equal(r->tasks, BATCHES * PHOTOS);
    assert_int_equal(r->n_backlog, 1);
    assert_int_equal(sk_claim(k, "c", 0, 10)->n, 10);
    assert_int_equal(park(k, MINUTE, 15 * MINUTE)->tasks, BATCHES * PHOTOS - 10);
    r = unpark_all(k);
    assert_int_equal(r->tasks, BATCHES * PHOTOS - 10);
    assert_int_equal(r->n_backlog, 1);
    struct pp_store_backlog b = {0};
    KIT_OK(k, backlog, &b);
    assert_int_equal(b.n, 1);
    is_row(&b.rows[0], "c", 0, k->now);
}

static void several_hosts_in_one_call(void **state)
{
    struct store_kit *k = *state;
    int64_t due = k->now + MINUTE, until = k->now + 2 * MINUTE;
    const struct pp_park_row rows[] = {{"c", "h", due, until, false}, {"d", "h", due, until, false}};
    const char *const clients[] = {"c", "d", "nobody"};
    struct pp_store_park r = {.rows = rows, .n = 2, .now_ms = k->now};
    struct pp_store_unpark u = {.domain = "h", .clients = clients, .n = 3, .now_ms = k->now};
    sk_plan(k, "c", "b_1", "a: p/h q/other");
    sk_plan(k, "d", "b_2", "a: p/h q/h");
    KIT_OK(k, park, &r);
    assert_int_equal(r.tasks, 3);
    assert_int_equal(r.n_backlog, 2);
    assert_int_equal(sk_claim(k, "d", 0, 10)->n, 0);
    KIT_OK(k, unpark, &u);
    assert_int_equal(u.tasks, 3);
    assert_int_equal(u.n_backlog, 2);
    assert_int_equal(sk_claim(k, "d", 0, 10)->n, 2);
    r.n = 0;
    KIT_OK(k, park, &r);
    assert_int_equal(r.tasks, 0);
}

static void has_row(const struct pp_store_unpark *r, const char *client, uint8_t queue, int64_t due_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_backlog; i++)
        if (strcmp(r->backlog[i].client, client) == 0 && r->backlog[i].queue == queue) {
            assert_int_equal(r->backlog[i].due_ms, due_ms);
            n++;
        }
    assert_int_equal(n, 1); /* a queue has one row, however many hosts its tasks have */
}

static void all_hosts_are_unparked(void **state)
{
    struct store_kit *k = *state;
    int64_t start = k->now, until = start + 15 * MINUTE;
    assert_int_equal(unpark_all(k)->tasks, 0); /* the store has no task yet */
    sk_plan(k, "c", "b_0", "z: late/h claimed/h");
    const struct pp_task *late = sk_claim_photo(k, "c", "late");
    assert_false(sk_back(k, KIT_WORKER, late, PP_SETTLE_RETRY, 1, start + 5 * MINUTE));
    const struct pp_task *claimed = sk_claim_photo(k, "c", "claimed");
    sk_plan(k, "c", "b_1", "a: p/h q/i r/free");
    sk_plan(k, "d", "b_2", "a: p/i q/paused");
    assert_int_equal(park(k, 10 * MINUTE, 15 * MINUTE)->tasks, 2);
    park_row(k, (struct pp_park_row){"c", "i", until, until, false});
    park_row(k, (struct pp_park_row){"d", "i", until, until, false});
    park_row(k, (struct pp_park_row){"d", "paused", until, 0, true});
    assert_int_equal(sk_claim(k, "d", 0, 10)->n, 0);
    k->now += MINUTE;
    struct pp_store_unpark *r = unpark_all(k);
    assert_int_equal(r->tasks, 5);
    assert_int_equal(r->n_backlog, 3);
    has_row(r, "c", 0, k->now);
    has_row(r, "c", 1, start + 5 * MINUTE);
    has_row(r, "d", 0, k->now);
    assert_int_equal(unpark_all(k)->tasks, 0);
    assert_int_equal(sk_claim(k, "c", 0, 10)->n, 3);
    assert_int_equal(sk_claim(k, "c", 1, 10)->n, 0);
    struct pp_store_claim *c = sk_claim(k, "d", 0, 10);
    assert_int_equal(c->n, 2);
    for (size_t i = 0; i < c->n; i++)
        assert_int_equal(c->tasks[i].wait_until_ms, 0);
    assert_false(sk_final(k, KIT_WORKER, claimed, PP_OUTCOME_STORED));
}

/* Reads the clients of a host in pages of `limit`, and returns how many there are. */
static size_t read_clients(struct store_kit *k, const char *domain, size_t limit, char names[256])
{
    struct pp_store_host_clients r = {.domain = domain, .limit = limit};
    size_t n = 0;
    names[0] = '\0';
    do {
        KIT_OK(k, host_clients, &r);
        assert_true(r.n <= limit && (r.n > 0 || !r.more));
        for (size_t i = 0; i < r.n; i++, n++)
            snprintf(names + strlen(names), 256 - strlen(names), "%s ", r.clients[i]);
        if (r.n > 0)
            r.after = pp_arena_strdup(&k->arena, r.clients[r.n - 1]);
    } while (r.more);
    return n;
}

static void a_host_has_clients(void **state)
{
    struct store_kit *k = *state;
    char names[256];
    sk_plan(k, "c1", "b_1", "a: p/h q/h");
    sk_plan(k, "c2", "b_2", "a: p/other");
    sk_plan(k, "c3", "b_3", "a: p/h");
    sk_plan(k, "c4", "b_4", "a: p/h");
    sk_plan(k, "c5", "b_5", "a: p/h=stored");
    sk_claim_photo(k, "c4", "p");
    park_row(k, (struct pp_park_row){"c3", "h", k->now + MINUTE, k->now + MINUTE, false});
    for (size_t limit = 1; limit <= 3; limit++) {
        assert_int_equal(read_clients(k, "h", limit, names), 2);
        assert_non_null(strstr(names, "c1 "));
        assert_non_null(strstr(names, "c3 "));
    }
    assert_int_equal(read_clients(k, "nobody", 10, names), 0);
    /* The count is of all clients, whatever the page has; it does not count the claimed task. */
    for (uint64_t max = 0; max <= 5; max++) {
        struct pp_store_host_clients r = {.domain = "h", .limit = 1, .count_max = max, .tasks = 99};
        KIT_OK(k, host_clients, &r);
        assert_int_equal(r.tasks, max < 3 ? max : 3);
        assert_int_equal(r.n, 1);
    }
    struct pp_store_host_clients none = {.domain = "nobody", .limit = 1, .count_max = 5, .tasks = 99};
    KIT_OK(k, host_clients, &none);
    assert_int_equal(none.tasks, 0);
}

/* --- recorded failures --- */

static void fail_photos(struct store_kit *k, const char *client, const char *batch, const char *text)
{
    sk_plan(k, client, batch, text);
    struct pp_store_claim *c = sk_claim(k, client, 0, 100);
    for (size_t i = 0; i < c->n; i++)
        assert_false(sk_fail(k, &c->tasks[i], 404, true));
}

static uint64_t forget(struct store_kit *k, const char *client, const char *domain)
{
    struct pp_store_forget_failures r = {.client = client, .domain = domain};
    KIT_OK(k, forget_failures, &r);
    return r.photos;
}

static void failures_are_forgotten(void **state)
{
    struct store_kit *k = *state;
    fail_photos(k, "c", "b_1", "a: p/h q/h r/other");
    fail_photos(k, "d", "b_2", "a: p/h q/other");
    assert_int_equal(forget(k, "nobody", NULL), 0);
    assert_int_equal(forget(k, NULL, "nobody"), 0);
    assert_int_equal(forget(k, "c", "h"), 2);
    assert_int_equal(forget(k, "c", "h"), 0);
    assert_int_equal(sk_photo(k, "c", "p")->photo.fail_code, 0);
    assert_false(sk_photo(k, "c", "p")->photo.found);
    assert_int_equal(sk_photo(k, "c", "r")->photo.fail_streak, 1);
    assert_int_equal(forget(k, NULL, "other"), 2);
    fail_photos(k, "c", "b_3", "b: p/h q/h");
    assert_int_equal(sk_photo(k, "c", "p")->photo.fail_streak, 1);
    assert_int_equal(forget(k, "c", NULL), 2);
    assert_int_equal(forget(k, NULL, NULL), 1);
    assert_int_equal(sk_photo(k, "d", "p")->photo.fail_code, 0);
}

static void forgotten_failures_leave_the_bytes(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p/h");
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED));
    fail_photos(k, "c", "b_2", "a: p/h");
    fail_photos(k, "c", "b_3", "a: p/h");
    assert_int_equal(sk_photo(k, "c", "p")->photo.fail_streak, 2);
    assert_int_equal(forget(k, NULL, NULL), 1);
    const struct pp_photo *photo = &sk_photo(k, "c", "p")->photo;
    assert_true(photo->found && photo->object.type != 0);
    assert_int_equal(photo->fail_streak, 0);
    assert_int_equal(photo->failed_at, 0);
    assert_null(photo->fail_detail);
    assert_string_equal(photo->etag, "\"e1\"");
    fail_photos(k, "c", "b_4", "a: p/h");
    sk_plan(k, "c", "b_5", "a: p/h");
    assert_false(sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED));
    assert_int_equal(forget(k, NULL, NULL), 0); /* a success has ended the failures */
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)
static const struct CMUnitTest tests[] = {
    T(nobody_claims_a_parked_task),
    T(parking_may_be_repeated),
    T(a_task_waits_for_its_host_only_so_long),
    T(a_pause_sets_no_end),
    T(unparked_tasks_are_due_at_their_own_time),
    T(unparking_a_due_task_lets_it_be_due),
    T(probes_are_let_out),
    T(claimed_tasks_are_not_parked),
    T(a_task_is_planned_parked),
    T(a_task_is_handed_back_parked),
    T(failures_are_held_back),
    T(another_tier_does_not_unpark),
    T(many_tasks_are_parked),
    T(several_hosts_in_one_call),
    T(all_hosts_are_unparked),
    T(a_host_has_clients),
    T(failures_are_forgotten),
    T(forgotten_failures_leave_the_bytes),
};
const struct store_tests store_park_tests = {tests, sizeof tests / sizeof *tests};
