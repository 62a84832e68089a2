/* Tests that the task store in memory keeps its contract. More tests have several processes on one
 * server, answers that are lost, requests that arrive late, and clocks that differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/memory_store.h"
#include "suite_store_kit.h"
#include "test_loop.h"

enum { SERVERS = 256 };
static struct pp_memory_store *servers[SERVERS];
static int n_servers;

/* A place is the number of a server. */
static const char *place(void)
{
    static char names[SERVERS][8];
    assert_true(n_servers < SERVERS);
    servers[n_servers] = pp_memory_store_new(NULL);
    assert_non_null(servers[n_servers]);
    snprintf(names[n_servers], sizeof names[0], "%d", n_servers);
    return names[n_servers++];
}

static struct pp_memory_store *server_at(const char *name)
{
    return servers[strtol(name, NULL, 10)];
}

static enum pp_err open_store(struct pp_loop *loop, const char *name, struct pp_task_store **out)
{
    return pp_memory_task_store_open(loop, server_at(name), NULL, out);
}

static const struct pp_store_subject subject = {"memory", place, open_store};

static void use_port(struct store_kit *k, struct pp_memory_line *line)
{
    k->store->ops->close(k->store);
    assert_int_equal(pp_memory_task_store_open(k->loop, server_at(k->place), line, &k->store), PP_OK);
}

/* --- several processes --- */

static void two_processes(void **state)
{
    struct store_kit *k = *state;
    struct pp_task_store *first = k->store;
    struct pp_task *t;
    sk_plan(k, "c", "b_1", "a: p q");
    t = sk_claim(k, "c", 0, 1)->tasks;
    assert_int_equal(open_store(k->loop, k->place, &k->store), PP_OK);
    assert_int_equal(sk_claim_as(k, "host-2-bbbb", "c", 0, 9)->n, 1);
    assert_true(sk_final(k, "host-2-bbbb", t, PP_OUTCOME_STORED));
    assert_int_equal(sk_reap(k, "host-2-bbbb")->lapsed, 1);
    k->store->ops->close(k->store);
    k->store = first;
    assert_true(sk_final(k, KIT_WORKER, t, PP_OUTCOME_STORED));
}

static bool first_name(struct store_kit *k, const char *dataset)
{
    struct pp_store_generation r = {.dataset = dataset};
    KIT_OK(k, generation, &r);
    return r.first;
}

static void the_first_data_set(void **state)
{
    struct store_kit *k = *state;
    for (int i = 0; i < 2; i++) {
        assert_true(first_name(k, "one"));
        assert_false(first_name(k, "two"));
        sk_reopen(k);
    }
}

/* --- answers that are lost, and requests that arrive late --- */

/* A line that fails its calls. It runs each before that, or keeps it until late() runs it. */
struct bad_line {
    struct pp_memory_line line;
    struct pp_loop *loop;
    struct pp_timer *timer;
    bool run_first;
    struct pp_list waiting, late;
};

static void on_bad_turn(void *data)
{
    struct bad_line *l = data;
    struct pp_node *node;
    bool gone;
    while ((node = pp_list_pop(&l->waiting))) {
        struct pp_memory_call *call = pp_container_of(node, struct pp_memory_call, node);
        if (l->run_first)
            pp_memory_run(call);
        pp_memory_end(call, PP_EUNKNOWN, &gone);
        if (!gone)
            pp_list_push(&l->late, node);
    }
}

static void send_badly(struct pp_memory_line *line, struct pp_memory_call *call)
{
    struct bad_line *l = pp_container_of(line, struct bad_line, line);
    pp_list_push(&l->waiting, &call->node);
    pp_timer_start(l->timer, 0, 0);
}

static void late(struct bad_line *l)
{
    for (struct pp_node *node; (node = pp_list_pop(&l->late));)
        pp_memory_run(pp_container_of(node, struct pp_memory_call, node));
}

static void bad_line_open(struct bad_line *l, struct store_kit *k, bool run_first)
{
    *l = (struct bad_line){.line = {.loop = k->loop, .send = send_badly}, .run_first = run_first};
    l->timer = pp_timer_open(k->loop, on_bad_turn, l);
    pp_list_init(&l->waiting);
    pp_list_init(&l->late);
    use_port(k, &l->line);
}

static void bad_line_close(struct bad_line *l)
{
    pp_timer_close(l->timer);
    while (l->late.n > 0)
        pp_memory_drop(pp_container_of(pp_list_pop(&l->late), struct pp_memory_call, node));
}

/* Fails a request, and overwrites its memory as soon as the caller has it back. */
#define RUN_BADLY(k, op, r)                          \
    do {                                             \
        KIT_RUN(k, op, r);                           \
        assert_int_equal((r)->req.err, PP_EUNKNOWN); \
        memset((r), 0x55, sizeof *(r));              \
    } while (0)

/* The answer to each kind of write is lost, and its request arrives late, when the memory of the
 * caller has other content. */
static void late_writes(void **state)
{
    struct store_kit *k = *state;
    struct bad_line bad;
    sk_plan(k, "c", "b_0", "z: p/h q/h r");
    struct pp_task t = *sk_claim_photo(k, "c", "p");
    bad_line_open(&bad, k, false);

    struct pp_settlement s = sk_settlement(&t, PP_OUTCOME_STORED);
    struct pp_store_settle settle = {
        .worker = KIT_WORKER, .settlements = &s, .n = 1, .now_ms = k->now, .date_ms = k->now};
    RUN_BADLY(k, settle, &settle);
    memset(&s, 0x55, sizeof s);
    memset(&t, 0x55, sizeof t);
    struct pp_store_plan *plan = sk_plan_of(k, "c", "b_1", "a: x y=failed; b:");
    struct pp_plan_item *items = plan->items;
    char part[] = "part";
    struct pp_rejected_part rejected = {.number = 0, .bytes = part, .n = sizeof part};
    plan->rejected = &rejected;
    plan->n_rejected = 1;
    RUN_BADLY(k, plan, plan);
    memset(items, 0x55, 2 * sizeof *items);
    memset(part, 0x55, sizeof part);
    char headers[] = "{}";
    struct pp_store_put_client put = {.client = {.id = "c", .headers = headers}};
    RUN_BADLY(k, put_client, &put);
    memset(headers, 0x55, sizeof headers);
    char domain[] = "h";
    struct pp_store_retier retier = {.client = "c", .domain = domain, .tier = 2, .due_ms = k->now};
    RUN_BADLY(k, retier, &retier);
    struct pp_route_row row = {.client = "c", .domain = domain, .tier = 1};
    struct pp_store_save_routes save = {.rows = &row, .n = 1};
    RUN_BADLY(k, save_routes, &save);
    memset(&row, 0x55, sizeof row);
    memset(domain, 0x55, sizeof domain);
    struct pp_store_batch none = {.batch_id = "b_1"};
    RUN_BADLY(k, batch, &none); /* a read that nobody waits for does not arrive */

    assert_int_equal(bad.late.n, 5);
    late(&bad);
    use_port(k, NULL);
    bad_line_close(&bad);
    assert_true(sk_photo(k, "c", "p")->photo.found);
    assert_int_equal(sk_photo(k, "c", "q")->tier, 2);
    assert_int_equal(sk_item(k, "c", "b").status, PP_ITEM_COMPLETE);
    assert_string_equal(sk_item(k, "c", "a").photos[1].outcome.detail, "no scheme");
    assert_string_equal(sk_claim(k, "c", 0, 9)->tasks[1].url, "https://d/x.jpg");
    struct pp_store_rejected parts = {.batch_id = "b_1", .client = "c", .limit = 2};
    KIT_OK(k, rejected, &parts);
    assert_string_equal(parts.parts[0].bytes, "part");
    struct pp_store_clients clients = {.id = "c"};
    KIT_OK(k, clients, &clients);
    assert_string_equal(clients.clients[0].headers, "{}");
    struct pp_store_routes routes = {.limit = 2};
    KIT_OK(k, routes, &routes);
    assert_string_equal(routes.rows[0].domain, "h");
    sk_check_counts(k, "c", "b_1", "a b");
}

static void lose_claim(struct store_kit *k)
{
    struct pp_claim_want want = {.client = "c", .n = 1, .hash_hi = UINT32_MAX};
    struct pp_store_claim r = {
        .worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .wants = &want, .n_wants = 1, .now_ms = k->now};
    RUN_BADLY(k, claim, &r);
}

static void renew(struct store_kit *k, uint64_t n)
{
    struct pp_store_renew r = {.worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .now_ms = k->now};
    KIT_OK(k, renew, &r);
    assert_int_equal(r.n, n);
}

/* The answer to a claim is lost. The tasks go back without a loss, also if the claim arrives after
 * the first renewal that would hand them back. */
static void claims_whose_answer_was_lost(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: p q");
    for (int run_first = 0; run_first < 2; run_first++) {
        struct bad_line bad;
        bad_line_open(&bad, k, run_first);
        struct pp_memory_line *line = &bad.line;
        lose_claim(k);
        line->send = NULL; /* The line works again. */
        assert_int_equal(pp_memory_line_open(line, k->loop), PP_OK);
        assert_int_equal(sk_photo(k, "c", "p")->claimed, run_first);
        renew(k, 0);
        late(&bad);
        assert_int_equal(sk_photo(k, "c", "p")->claimed, !run_first);
        renew(k, 0);
        struct pp_store_photo *p = sk_photo(k, "c", "p");
        assert_true(p->open && !p->claimed && p->losses == 0 && p->attempts == 0);
        /* A task that the worker has got stays its own. */
        struct pp_task *t = sk_claim_photo(k, "c", "p");
        k->now += KIT_LEASE_MS;
        renew(k, 1);
        renew(k, 1);
        sk_back(k, KIT_WORKER, t, PP_SETTLE_RELEASE, 0, k->now - 9999999);
        use_port(k, NULL);
        pp_memory_line_close(line);
        bad_line_close(&bad);
    }
}

/* --- clocks --- */

/* The clock of a server: the time of the loop, and what the clock is ahead of it. */
struct server_time {
    const struct pp_loop *loop;
    int64_t ahead_ms;
};

static int64_t server_clock(void *data)
{
    const struct server_time *t = data;
    return pp_loop_wall(t->loop) + t->ahead_ms;
}

/* The server's clock is an hour behind that of the process. */
static void times_by_the_servers_clock(void **state)
{
    enum { HOUR = 3600000 };
    struct store_kit *k = *state;
    struct pp_task_store *before = k->store;
    k->now = pp_loop_wall(k->loop);
    struct server_time clock = {k->loop, -HOUR};
    struct pp_memory_store_options o = {.now_ms = server_clock, .data = &clock};
    struct pp_memory_store *server = pp_memory_store_new(&o);
    assert_int_equal(pp_memory_task_store_open(k->loop, server, NULL, &k->store), PP_OK);
    sk_plan(k, "c", "b_1", "a: p q");
    assert_in_range(sk_photo(k, "c", "p")->due_ms, k->now - 60000, k->now + 60000);
    struct pp_task *t = sk_claim(k, "c", 0, 1)->tasks;
    sk_back(k, KIT_WORKER, t, PP_SETTLE_RETRY, 0, k->now + 2 * HOUR);
    clock.ahead_ms += HOUR; /* The clocks agree, so the task is due an hour later. */
    assert_in_range(sk_photo(k, "c", "p")->due_ms, k->now + HOUR - 60000, k->now + HOUR + 60000);
    assert_int_equal(sk_claim(k, "c", 0, 9)->n, 1); /* the task of q */
    k->now += HOUR + 60000;
    assert_int_equal(sk_claim(k, "c", 0, 9)->n, 1);
    k->store->ops->close(k->store);
    pp_memory_store_free(server);
    k->store = before;
}

/* --- the look at all data --- */

struct seen {
    size_t tasks, claimed, waiters, items, open, photos, found;
};

static void on_task(void *data, const struct pp_memory_task *task)
{
    struct seen *s = data;
    s->tasks++;
    s->claimed += task->state == PP_TASK_CLAIMED && !strcmp(task->worker, KIT_WORKER) && task->epoch == 1;
    s->waiters += task->waiters;
    assert_string_equal(task->client, "c");
}

static void on_item(void *data, const struct pp_item *item)
{
    struct seen *s = data;
    char id[2] = {(char)('a' + s->items++), '\0'};
    assert_string_equal(item->id, id);
    s->open += item->status == PP_ITEM_OPEN;
}

static void on_photo(void *data, const struct pp_memory_photo *photo)
{
    struct seen *s = data;
    s->photos++;
    s->found += photo->record->found;
    assert_int_equal(photo->open, !photo->record->found);
}

static void everything_is_seen(void **state)
{
    struct store_kit *k = *state;
    struct seen seen = {0};
    sk_plan(k, "c", "b_1", "a: p q r; b: q q; c: s=stored");
    sk_final(k, KIT_WORKER, sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED);
    sk_claim(k, "c", 0, 1);
    pp_memory_store_each_task(server_at(k->place), on_task, &seen);
    pp_memory_store_each_item(server_at(k->place), on_item, &seen);
    pp_memory_store_each_photo(server_at(k->place), on_photo, &seen);
    assert_true(seen.tasks == 2 && seen.claimed == 1 && seen.waiters == 4);
    assert_true(seen.items == 3 && seen.open == 2);
    assert_true(seen.photos == 3 && seen.found == 1);
}

/* Items of two batches finish in turn, and are deleted by several calls. */
static void what_goes_with_an_item(void **state)
{
    struct store_kit *k = *state;
    struct pp_task_store *before = k->store;
    struct pp_memory_store *server = pp_memory_store_new(&(struct pp_memory_store_options){.forgets = true});
    struct seen seen = {0};

    assert_int_equal(pp_memory_task_store_open(k->loop, server, NULL, &k->store), PP_OK);
    sk_plan(k, "c", "b_1", "a: p; b: q; c: r");
    sk_plan(k, "c", "b_2", "d: s; e: t; f: u u");
    struct pp_store_claim *all = sk_claim(k, "c", 0, 9);
    assert_int_equal(all->n, 6);
    for (size_t i = 0; i < 6; i++) /* b_1, b_2, b_1 ... */
        assert_false(sk_final(k, KIT_WORKER, &all->tasks[i / 2 + i % 2 * 3], PP_OUTCOME_STORED));
    for (int calls = 0; calls < 3; calls++) {
        struct pp_store_clean r = {.finished_before_ms = INT64_MAX, .limit = 2};
        pp_memory_store_each_photo(server, on_photo, &seen);
        assert_int_equal(seen.photos, 6 - 2 * calls);
        KIT_OK(k, clean, &r);
        assert_int_equal(r.items, 2);
        seen = (struct seen){0};
    }
    pp_memory_store_each_photo(server, on_photo, &seen);
    pp_memory_store_each_item(server, on_item, &seen);
    assert_true(seen.photos == 0 && seen.items == 0);
    sk_plan(k, "c", "b_3", "a: p"); /* the item and the photo are new */
    assert_false(sk_photo(k, "c", "p")->photo.found);
    k->store->ops->close(k->store);
    pp_memory_store_free(server);
    k->store = before;
}

/* --- many tasks --- */

/* Claims of every range of hashes, from a queue of many tasks with many due times, return the due
 * tasks of their range, earliest first, and then others. */
static void many_tasks(void **state)
{
    enum { PHOTOS = 5000, RANGES = 7 };
    struct store_kit *k = *state;
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a:");
    struct pp_plan_photo *photos = pp_arena_array(&k->arena, PHOTOS, sizeof *photos);
    for (int i = 0; i < PHOTOS; i++) {
        const char *name = pp_arena_printf(&k->arena, "photo-%d", i);
        photos[i] = (struct pp_plan_photo){.url = name, .url_n = (uint32_t)strlen(name), .domain = "d"};
        photos[i].key = sk_key("c", name);
        photos[i].due_ms = k->now + (i * 7919) % 100;
    }
    r->items[0].photos = photos;
    r->items[0].n_photos = PHOTOS;
    r->batch_photos = PHOTOS;
    KIT_OK(k, plan, r);
    size_t claimed = 0;
    for (int i = 0; claimed < PHOTOS; i = (i + 1) % RANGES) {
        struct pp_claim_want want = {.client = "c", .n = 40};
        want.hash_lo = (uint32_t)i * (UINT32_MAX / RANGES);
        want.hash_hi = i == RANGES - 1 ? UINT32_MAX : want.hash_lo + UINT32_MAX / RANGES - 1;
        struct pp_store_claim c = {
            .worker = KIT_WORKER, .lease_ms = KIT_LEASE_MS, .wants = &want, .n_wants = 1, .now_ms = k->now};
        KIT_OK(k, claim, &c);
        int64_t before[2] = {0, 0};
        int others = 0;
        for (size_t n = 0; n < c.n; n++) {
            const uint8_t *b = c.tasks[n].key.b;
            uint32_t hash =
                (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
            bool own = hash >= want.hash_lo && hash <= want.hash_hi;
            int64_t due_ms =
                1700000000000 + (strtol(c.tasks[n].url + strlen("photo-"), NULL, 10) * 7919) % 100;
            assert_true(!own || !others);
            others |= !own;
            assert_true(due_ms <= k->now && due_ms >= before[others]);
            before[others] = due_ms;
        }
        claimed += c.n;
        assert_true(c.n == want.n || c.next[0].due_ms > k->now);
        k->now += 1;
    }
    assert_int_equal(claimed, PHOTOS);
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)

int main(void)
{
    const struct CMUnitTest own[] = {
        T(two_processes),
        T(the_first_data_set),
        T(late_writes),
        T(claims_whose_answer_was_lost),
        T(times_by_the_servers_clock),
        T(everything_is_seen),
        T(what_goes_with_an_item),
        T(many_tasks),
    };
    int failed = pp_suite_task_store(&subject);
    failed += cmocka_run_group_tests_name("memory's own", own, NULL, NULL);
    while (n_servers > 0)
        pp_memory_store_free(servers[--n_servers]);
    return failed;
}
