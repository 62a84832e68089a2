/* Tests routes (the tier learned for a client and domain) over a small task store in memory: they
 * probe an unknown domain, its first answers move its tasks to another tier, and the cron decides
 * tiers and saves routes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "pipeline/routes/routes.h"
#include "test_clock.h"
#include "test_loop.h"

enum { ROWS = 3000, MOVES = 100, AT_ONCE = 16 };

struct move {
    char client[80], domain[80];
    uint8_t tier;
    int64_t due_ms;
};

/* A fake store of routes that answers in the next turn of the loop. */
struct store {
    struct pp_task_store base;
    struct pp_timer *timer;
    struct pp_req *pending[64];
    size_t n_pending;
    bool hold;
    enum pp_err submit_err, err;
    struct pp_route_row rows[ROWS]; /* sorted by client and domain */
    size_t n_rows, reads, saves;
    bool endless; /* true: each read returns a whole page of rows that were not read before */
    struct pp_route_row saved[ROWS];
    size_t n_saved;
    struct move moves[MOVES];
    size_t n_moves;
    /* how many tasks the store reports as moved at each change of a domain's tier */
    uint64_t moved;
};

struct kit {
    struct pp_loop *loop;
    struct pp_params params;
    struct store store;
    struct pp_coordinator coordinator;
    struct pp_backlog_row announced;
    char announced_client[80];
    int announcements;
    int noticed[PP_NOTICE_KINDS];
    bool follows; /* true: another process is the leader, and this one follows */
    struct pp_routes *routes;
    struct pp_arena names; /* memory for the names of saved rows */
};

static struct kit *kit_of(struct pp_task_store *s)
{
    return (struct kit *)((char *)s - offsetof(struct kit, store));
}

static void give_back(void *data)
{
    struct store *s = data;
    size_t n = s->n_pending;
    struct pp_req *pending[64];

    if (s->hold)
        return;
    memcpy(pending, s->pending, sizeof(pending));
    s->n_pending = 0;
    for (size_t i = 0; i < n; i++) {
        pending[i]->err = s->err;
        pending[i]->done(pending[i]);
    }
}

static enum pp_err later(struct store *s, struct pp_req *req)
{
    if (s->submit_err != PP_OK)
        return s->submit_err;
    assert_true(s->n_pending < 64);
    s->pending[s->n_pending++] = req;
    pp_timer_start(s->timer, 0, 0);
    return PP_OK;
}

static int compare(const struct pp_route_row *row, const char *client, const char *domain)
{
    int by_client = strcmp(row->client, client);

    return by_client || !domain ? by_client : strcmp(row->domain, domain);
}

static void read_endless(const struct store *s, struct pp_store_routes *r)
{
    assert_true(s->reads <= PP_ROUTES_MAX / r->limit);
    r->n = r->limit;
    r->more = true;
    r->rows = pp_arena_array(r->req.arena, r->n, sizeof(*r->rows));
    assert_non_null(r->rows);
    for (size_t i = 0; i < r->n; i++)
        r->rows[i] = (struct pp_route_row){
            .client = "42",
            .domain = pp_arena_printf(r->req.arena, "%08zu.test", s->reads * r->limit + i),
            .tier_ms = 5000,
            .weight_sum = 1,
            .value_sum = 1,
            .samples = 100};
}

static enum pp_err store_routes(struct pp_task_store *base, struct pp_store_routes *r)
{
    struct store *s = &kit_of(base)->store;
    size_t from = 0;

    s->reads++;
    assert_int_equal(!r->after_client, !r->after_domain);
    if (s->endless) {
        read_endless(s, r);
        return later(s, &r->req);
    }
    while (from < s->n_rows && r->after_client &&
           compare(&s->rows[from], r->after_client, r->after_domain) <= 0)
        from++;
    r->n = s->n_rows - from < r->limit ? s->n_rows - from : r->limit;
    r->rows = s->rows + from;
    r->more = from + r->n < s->n_rows;
    return later(s, &r->req);
}

static enum pp_err store_save(struct pp_task_store *base, struct pp_store_save_routes *r)
{
    struct kit *k = kit_of(base);

    k->store.saves++;
    for (size_t i = 0; i < r->n; i++) {
        struct pp_route_row *row = &k->store.saved[k->store.n_saved++];
        *row = r->rows[i];
        row->client = pp_arena_strdup(&k->names, row->client);
        row->domain = pp_arena_strdup(&k->names, row->domain);
    }
    return later(&k->store, &r->req);
}

static enum pp_err store_retier(struct pp_task_store *base, struct pp_store_retier *r)
{
    struct store *s = &kit_of(base)->store;

    assert_true(s->n_moves < MOVES);
    struct move *m = &s->moves[s->n_moves++];
    (void)snprintf(m->client, sizeof(m->client), "%s", r->client);
    (void)snprintf(m->domain, sizeof(m->domain), "%s", r->domain);
    m->tier = r->tier;
    m->due_ms = r->due_ms;
    r->n = s->moved;
    return later(s, &r->req);
}

static const struct pp_task_store_ops store_ops = {
    .routes = store_routes, .save_routes = store_save, .retier = store_retier};

static void announce(struct pp_coordinator *c, const struct pp_backlog_row *rows, size_t n)
{
    struct kit *k = (struct kit *)((char *)c - offsetof(struct kit, coordinator));

    assert_int_equal(n, 1);
    k->announced = rows[0];
    (void)snprintf(k->announced_client, sizeof(k->announced_client), "%s", rows[0].client);
    k->announcements++;
}

static void notify(struct pp_coordinator *c, const struct pp_notice *notices, size_t n)
{
    struct kit *k = (struct kit *)((char *)c - offsetof(struct kit, coordinator));

    assert_int_equal(n, 1);
    k->noticed[notices[0].kind]++;
}

static const struct pp_coordinator_ops coordinator_ops = {.announce = announce, .notify = notify};

static bool idle(void *routes)
{
    return pp_routes_busy(routes) == 0;
}

static void settle(struct kit *k)
{
    pp_test_until(k->loop, idle, k->routes, 5000);
}

/* Returns a kit whose routes are not open yet, so that the test can change it first. */
static struct kit *kit_new(void)
{
    struct kit *k = calloc(1, sizeof(*k));

    k->loop = pp_loop_open();
    pp_test_clock_hold(k->loop); /* the clock stands still, so that due times are exact */
    k->params = (struct pp_params){.sole_worker = true,
                                   .tiers = {{1000, 8}, {5000, 8}, {30000, 8}},
                                   .n_tiers = 3,
                                   .router_min_samples = 5,
                                   .router_half_life_ms = 600000,
                                   .router_margin = 1.5};
    k->store.base.ops = &store_ops;
    k->store.timer = pp_timer_open(k->loop, give_back, &k->store);
    k->store.moved = 1;
    k->coordinator.ops = &coordinator_ops;
    pp_arena_init(&k->names, 0);
    return k;
}

static bool leads(void *kit)
{
    return !((struct kit *)kit)->follows;
}

static void open_routes(struct kit *k)
{
    k->routes = pp_routes_open(&(struct pp_routes_options){.loop = k->loop,
                                                           .params = &k->params,
                                                           .store = &k->store.base,
                                                           .coordinator = &k->coordinator,
                                                           .leads = leads,
                                                           .data = k});
    assert_non_null(k->routes);
    pp_routes_load(k->routes);
}

static struct kit *kit_open(void)
{
    struct kit *k = kit_new();

    open_routes(k);
    settle(k);
    return k;
}

static void kit_close(struct kit *k)
{
    settle(k);
    pp_routes_close(k->routes);
    pp_timer_close(k->store.timer);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->names);
    free(k);
}

struct placed {
    uint8_t tier;
    int64_t wait_ms;
};

static struct placed place(struct kit *k, const char *client, const char *domain)
{
    int64_t wall = pp_loop_wall(k->loop), due;
    struct placed p;

    pp_routes_place(k->routes, client, domain, wall, &p.tier, &due);
    p.wait_ms = due - wall;
    return p;
}

static void sample(struct kit *k, uint8_t tier, int64_t ms, bool timed_out)
{
    pp_routes_sample(k->routes, "42", "a.test",
                     (struct pp_route_sample){.tier = tier, .first = true, .timed_out = timed_out, .ms = ms});
}

/* Asks for as many tasks as may start while the domain is probed. A further task must wait. */
static void start_probes(struct kit *k)
{
    for (int i = 0; i < PP_ROUTE_PROBES; i++)
        assert_int_equal(place(k, "42", "a.test").wait_ms, 0);
    assert_true(place(k, "42", "a.test").wait_ms > 0);
}

static uint8_t tier_of(struct kit *k)
{
    struct pp_route r;

    assert_true(pp_routes_get(k->routes, "42", "a.test", &r));
    return r.tier;
}

/* --- probing a domain whose speed is unknown --- */

static void a_new_domain_is_probed(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    for (int i = 0; i < 50; i++) {
        struct placed p = place(k, "42", "a.test");
        assert_int_equal(p.tier, 0);
        if (i < PP_ROUTE_PROBES)
            assert_int_equal(p.wait_ms, 0);
        else
            /* The task waits for the tier's timeout, and up to a second more. */
            assert_in_range(p.wait_ms, 1000, 2000);
    }
    assert_int_equal(place(k, "42", "b.test").wait_ms, 0); /* each domain is probed separately */
    assert_int_equal(place(k, "43", "a.test").wait_ms, 0);
    assert_int_equal(k->store.n_moves, 0);
    kit_close(k);
}

static void the_first_answer_lets_the_others_go(void **state)
{
    static const struct {
        int64_t ms;
        uint8_t tier;
        /* The route's tier is the first whose timeout covers the time multiplied by the margin of
         * 1.5. */
    } cases[] = {{100, 0}, {600, 0}, {900, 1}, {1000, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kit *k = kit_open();
        start_probes(k);
        int64_t before = pp_loop_wall(k->loop);
        sample(k, 0, cases[i].ms, false);
        assert_int_equal(k->store.n_moves, 1);
        assert_string_equal(k->store.moves[0].client, "42");
        assert_string_equal(k->store.moves[0].domain, "a.test");
        assert_int_equal(k->store.moves[0].tier, cases[i].tier);
        assert_int_equal(k->store.moves[0].due_ms, before); /* The moved tasks are due now. */
        settle(k);
        assert_int_equal(k->announcements, 1);
        assert_string_equal(k->announced_client, "42");
        assert_int_equal(k->announced.queue, cases[i].tier);
        assert_int_equal(k->announced.due_ms, k->store.moves[0].due_ms);
        struct placed p = place(k, "42", "a.test");
        assert_int_equal(p.tier, cases[i].tier);
        assert_int_equal(p.wait_ms, 0);
        sample(k, 0, cases[i].ms, false);
        /* only the first answer moves tasks; after it only the cron changes the tier */
        assert_int_equal(k->store.n_moves, 1);
        kit_close(k);
    }
}

/* Tasks are already due in the right tier. The routes must not write them again, however many there
 * are. */
static void due_tasks_are_not_moved(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct kit *k = kit_open();
        start_probes(k);
        int64_t held = place(k, "42", "a.test").wait_ms;
        pp_test_clock_pass(k->loop, held);
        sample(k, 0, slow ? 900 : 100, false);
        assert_int_equal(tier_of(k), slow);
        assert_int_equal(k->store.n_moves, slow);
        kit_close(k);
    }
}

/* The store fails to move tasks. The routes must repeat the move, and must not assume that the
 * tasks are in the new tier. */
static void a_failed_move_is_repeated(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    start_probes(k);
    k->store.err = PP_EUNKNOWN;
    sample(k, 0, 1000, true);
    sample(k, 0, 1000, true);
    settle(k);
    k->store.err = PP_OK;
    pp_test_clock_pass(k->loop, 10000);
    sample(k, 1, 2000, false);
    assert_int_equal(tier_of(k), 1);
    assert_int_equal(k->store.n_moves, 2);
    assert_int_equal(k->store.moves[1].tier, 1);
    kit_close(k);
}

static void without_tasks_held_back_nothing_moves(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    assert_int_equal(place(k, "42", "a.test").wait_ms, 0);
    sample(k, 0, 900, false);
    assert_int_equal(k->store.n_moves, 0);
    assert_int_equal(place(k, "42", "a.test").tier, 1);
    kit_close(k);
}

/* The tasks of many domains are moved by a few requests at a time, and each domain's only once. */
static void many_moves_take_turns(void **state)
{
    enum { DOMAINS = 3 * AT_ONCE };
    struct kit *k = kit_open();
    char domain[24];

    (void)state;
    k->store.hold = true;
    for (int i = 0; i < DOMAINS; i++) {
        (void)snprintf(domain, sizeof(domain), "%d.test", i);
        for (int n = 0; n <= PP_ROUTE_PROBES; n++)
            (void)place(k, "42", domain);
        pp_routes_sample(k->routes, "42", domain, (struct pp_route_sample){.first = true, .ms = 100});
    }
    assert_int_equal(k->store.n_moves, AT_ONCE);
    assert_int_equal(pp_routes_busy(k->routes), DOMAINS);
    k->store.hold = false;
    give_back(&k->store);
    settle(k);
    assert_int_equal(k->store.n_moves, DOMAINS);
    assert_string_equal(k->store.moves[DOMAINS - 1].domain, "47.test");
    assert_int_equal(pp_routes_busy(k->routes), 0);
    kit_close(k);
}

static void timeouts_move_the_probing_up(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    start_probes(k);
    sample(k, 0, 1000, true);
    assert_int_equal(k->store.n_moves, 0); /* One timeout is not enough to move tasks. */
    int64_t before = pp_loop_wall(k->loop);
    sample(k, 0, 1000, true);
    assert_int_equal(k->store.n_moves, 1);
    assert_int_equal(k->store.moves[0].tier, 1);
    /* The moved tasks are due only after the answers of the next probes. */
    assert_true(k->store.moves[0].due_ms - before >= 5000);
    assert_int_equal(tier_of(k), 1);
    struct placed p = place(k, "42", "a.test");
    assert_int_equal(p.tier, 1);
    assert_in_range(p.wait_ms, 5000, 6000);
    /* a late answer from the previous tier does not count for the new tier */
    sample(k, 0, 1000, true);
    sample(k, 0, 1000, true);
    assert_int_equal(tier_of(k), 1);
    sample(k, 1, 5000, true);
    sample(k, 1, 5000, true);
    assert_int_equal(tier_of(k), 2); /* this is the last tier, so probing ends */
    assert_int_equal(k->store.n_moves, 2);
    assert_int_equal(k->store.moves[1].tier, 2);
    assert_in_range(k->store.moves[1].due_ms - before, 0, 2000);
    assert_int_equal(place(k, "42", "a.test").wait_ms, 0);
    kit_close(k);
}

static void an_answer_in_the_next_tier_settles_it(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    start_probes(k);
    sample(k, 0, 1000, true);
    sample(k, 0, 1000, true);
    sample(k, 1, 2000, false);
    assert_int_equal(tier_of(k), 1);
    assert_int_equal(k->store.moves[k->store.n_moves - 1].tier, 1);
    assert_int_equal(place(k, "42", "a.test").wait_ms, 0);
    kit_close(k);
}

static void a_single_tier_has_nothing_to_probe_for(void **state)
{
    struct kit *k = kit_new();

    (void)state;
    k->params.n_tiers = 1;
    open_routes(k);
    settle(k);
    for (int i = 0; i < 200; i++) { /* no task is held back until others have ended */
        struct placed p = place(k, "42", "a.test");
        assert_int_equal(p.tier, 0);
        assert_int_equal(p.wait_ms, 0);
    }
    sample(k, 0, 1000, true);
    sample(k, 0, 1000, true);
    assert_int_equal(tier_of(k), 0);
    assert_int_equal(place(k, "42", "a.test").wait_ms, 0);
    settle(k);
    assert_int_equal(k->store.n_moves, 0); /* nothing was held back, so nothing is moved */
    kit_close(k);
}

/* --- the cron --- */

static void the_cron_decides_moves_and_saves(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    sample(k, 0, 100, false);
    assert_int_equal(tier_of(k), 0);
    pp_routes_tick(k->routes);
    assert_int_equal(k->store.n_saved, 1);
    assert_string_equal(k->store.saved[0].client, "42");
    assert_string_equal(k->store.saved[0].domain, "a.test");
    assert_int_equal(k->store.saved[0].tier_ms, 1000);
    assert_int_equal(k->store.saved[0].samples, 1);
    settle(k);
    pp_routes_tick(k->routes);
    assert_int_equal(k->store.saves, 1); /* a tick without new samples saves nothing */
    for (int i = 0; i < 50; i++)
        sample(k, 0, 1000, true);
    assert_int_equal(tier_of(k), 0); /* only the cron changes the tier */
    pp_routes_tick(k->routes);
    assert_int_equal(tier_of(k), 1);
    assert_int_equal(k->store.n_moves, 1);
    assert_int_equal(k->store.moves[0].tier, 1);
    assert_int_equal(k->store.n_saved, 2);
    assert_int_equal(k->store.saved[1].tier_ms, 5000);
    kit_close(k);
}

/* In a fleet, the leader saves samples only from time to time. It must save a new tier immediately,
 * and everything when it closes. */
static void saves_samples_rarely(void **state)
{
    struct kit *k = kit_new();

    (void)state;
    k->params.router_save_ms = 60000;
    open_routes(k);
    settle(k);
    sample(k, 0, 100, false);
    k->store.err = PP_EIO;
    pp_routes_tick(k->routes);
    settle(k);
    k->store.err = PP_OK;
    pp_routes_tick(k->routes); /* no new samples, but the last save failed */
    settle(k);
    assert_int_equal(k->store.saves, 2);
    for (int i = 0; i < 6; i++) {
        sample(k, 0, 100, false);
        pp_test_clock_pass(k->loop, 9999);
        pp_routes_tick(k->routes);
        assert_int_equal(k->store.saves, 2);
    }
    pp_test_clock_pass(k->loop, 10000);
    pp_routes_tick(k->routes);
    assert_int_equal(k->store.saves, 3);
    assert_int_equal(k->store.saved[k->store.n_saved - 1].samples, 7);
    for (int i = 0; i < 50; i++)
        sample(k, 0, 1000, true);
    pp_routes_tick(k->routes);
    assert_int_equal(tier_of(k), 1);
    assert_int_equal(k->store.saves, 4);
    sample(k, 1, 2000, false);
    pp_routes_tick(k->routes);
    assert_int_equal(k->store.saves, 4);
    k->store.submit_err = PP_EFULL;
    pp_routes_drain(k->routes);
    assert_int_equal(k->store.saves, 5);
    k->store.submit_err = PP_OK;
    pp_routes_tick(k->routes); /* the store refused the last save */
    assert_int_equal(k->store.saves, 6);
    kit_close(k);
}

static void saves_many_routes_in_batches(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    for (int i = 0; i < 1201; i++) {
        char domain[40];
        (void)snprintf(domain, sizeof(domain), "d%d.test", i);
        pp_routes_sample(k->routes, "42", domain, (struct pp_route_sample){.ms = 10});
    }
    pp_routes_tick(k->routes);
    assert_int_equal(k->store.n_saved, 1201);
    assert_int_equal(k->store.saves, 3);
    kit_close(k);
}

static void unlearned_routes_are_not_saved(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    start_probes(k);
    sample(k, 0, 1000, true);
    pp_routes_tick(k->routes);
    assert_int_equal(k->store.saves, 0);
    kit_close(k);
}

/* --- saved routes, which are read at the start --- */

static void add_row(struct kit *k, const char *client, const char *domain, int64_t tier_ms)
{
    k->store.rows[k->store.n_rows++] = (struct pp_route_row){.client = client,
                                                             .domain = domain,
                                                             .tier_ms = tier_ms,
                                                             .weight_sum = 10,
                                                             .value_sum = 20000,
                                                             .samples = 100,
                                                             .updated_at = pp_loop_wall(k->loop)};
}

static void routes_are_read_at_start(void **state)
{
    struct kit *k = kit_new();
    static char domains[2500][24];

    (void)state;
    add_row(k, "42", "a.test", 5000);
    /* fetch.tiers has changed since the route was saved: the route gets the next tier that covers 4
     * s. */
    add_row(k, "42", "b.test", 4000);
    add_row(k, "42", "c.test", 999999); /* No tier covers this time. */
    for (int i = 0; i < 2500; i++) {
        (void)snprintf(domains[i], sizeof(domains[i]), "d%04d.test", i);
        add_row(k, "43", domains[i], 30000);
    }
    open_routes(k);
    settle(k);
    assert_int_equal(k->store.reads, 3); /* one read per 1000 rows */
    assert_int_equal(place(k, "42", "a.test").tier, 1);
    assert_int_equal(place(k, "42", "b.test").tier, 1);
    assert_int_equal(place(k, "42", "c.test").tier, 2);
    assert_int_equal(place(k, "43", "d0000.test").tier, 2);
    assert_int_equal(place(k, "43", "d2499.test").tier, 2);
    /* the route is known, so the domain is not probed */
    for (int i = 0; i < 10; i++)
        assert_int_equal(place(k, "42", "a.test").wait_ms, 0);
    struct pp_route r;
    assert_true(pp_routes_get(k->routes, "42", "a.test", &r));
    assert_int_equal(r.samples, 100);
    assert_false(pp_routes_get(k->routes, "42", "x.test", &r));
    kit_close(k);
}

/* The store may have more routes than the table keeps; the rest is not read. */
static void no_more_routes_are_read_than_kept(void **state)
{
    struct kit *k = kit_new();

    (void)state;
    k->store.endless = true;
    open_routes(k);
    pp_test_until(k->loop, idle, k->routes, 60000);
    assert_int_equal(k->store.reads, PP_ROUTES_MAX / 1000); /* one read per 1000 rows */
    kit_close(k);
}

static void a_late_read_undoes_nothing(void **state)
{
    struct kit *k = kit_new();

    (void)state;
    add_row(k, "42", "a.test", 30000);
    add_row(k, "42", "b.test", 30000);
    k->store.hold = true;
    open_routes(k);
    sample(k, 0, 100, false); /* The read of the saved routes has no answer yet. */
    /* The domain is being probed, so the last of these tasks must wait. */
    for (int i = 0; i <= PP_ROUTE_PROBES; i++)
        (void)place(k, "42", "b.test");
    k->store.hold = false;
    pp_timer_start(k->store.timer, 0, 0);
    settle(k);
    assert_int_equal(tier_of(k), 0);
    assert_int_equal(place(k, "42", "b.test").tier, 2);
    /* The answer of the read ends the probe, so the task that waited may start. */
    assert_int_equal(k->store.n_moves, 1);
    assert_string_equal(k->store.moves[0].domain, "b.test");
    assert_int_equal(k->store.moves[0].tier, 2);
    kit_close(k);
}

/* --- several processes --- */

static void only_the_leader_decides_and_saves(void **state)
{
    struct kit *k = kit_new();
    const struct pp_notice samples = {
        .kind = PP_NOTICE_SAMPLES, .a = "42", .b = "a.test", .v = {1, 100, 0, 0}};

    (void)state;
    k->params.sole_worker = false;
    k->follows = true;
    open_routes(k);
    settle(k);
    sample(k, 0, 100, false); /* this process sends the routes that it learns to all processes */
    assert_int_equal(k->noticed[PP_NOTICE_ROUTE], 1);
    sample(k, 0, 100, false);
    pp_routes_tick(k->routes);
    assert_int_equal(k->noticed[PP_NOTICE_SAMPLES], 1);
    pp_routes_noticed(k->routes, &samples); /* another process sends its samples to the leader */
    pp_routes_tick(k->routes);
    assert_int_equal(k->noticed[PP_NOTICE_SAMPLES], 1);
    pp_routes_drain(k->routes);
    assert_int_equal(k->store.saves, 0);
    k->follows = false;
    pp_routes_noticed(k->routes, &samples);
    pp_routes_tick(k->routes);
    assert_int_equal(k->store.saves, 1);
    assert_int_equal(k->noticed[PP_NOTICE_ROUTE], 2);
    kit_close(k);
}

/* --- a store that fails --- */

static void a_failing_store_does_no_harm(void **state)
{
    struct kit *k = kit_new();

    (void)state;
    k->store.err = PP_EIO;
    open_routes(k);
    settle(k);
    start_probes(k);
    sample(k, 0, 900, false);
    pp_routes_tick(k->routes);
    settle(k);
    /* The routes announce the tasks, because the write may have succeeded although its answer is an
     * error. */
    assert_int_equal(k->announcements, 1);
    assert_int_equal(place(k, "42", "a.test").tier, 1);
    k->store.submit_err = PP_EFULL;
    for (int i = 0; i < 50; i++)
        sample(k, 1, 5000, true);
    pp_routes_tick(k->routes);
    assert_int_equal(tier_of(k), 2);
    k->store.submit_err = k->store.err = PP_OK;
    kit_close(k);
}

static void an_empty_move_is_not_announced(void **state)
{
    struct kit *k = kit_open();

    (void)state;
    k->store.moved = 0;
    start_probes(k);
    sample(k, 0, 100, false);
    settle(k);
    assert_int_equal(k->store.n_moves, 1);
    assert_int_equal(k->announcements, 0);
    kit_close(k);
}

static void names_that_are_too_long_are_not_kept(void **state)
{
    struct kit *k = kit_open();
    char domain[600];
    struct pp_route r;

    (void)state;
    memset(domain, 'd', sizeof(domain));
    domain[599] = '\0';
    struct placed p = place(k, "42", domain);
    assert_int_equal(p.tier, 0);
    assert_int_equal(p.wait_ms, 0);
    pp_routes_sample(k->routes, "42", domain, (struct pp_route_sample){.ms = 10});
    assert_false(pp_routes_get(k->routes, "42", domain, &r));
    kit_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_domain_is_probed),
        cmocka_unit_test(the_first_answer_lets_the_others_go),
        cmocka_unit_test(due_tasks_are_not_moved),
        cmocka_unit_test(a_failed_move_is_repeated),
        cmocka_unit_test(many_moves_take_turns),
        cmocka_unit_test(without_tasks_held_back_nothing_moves),
        cmocka_unit_test(timeouts_move_the_probing_up),
        cmocka_unit_test(an_answer_in_the_next_tier_settles_it),
        cmocka_unit_test(a_single_tier_has_nothing_to_probe_for),
        cmocka_unit_test(the_cron_decides_moves_and_saves),
        cmocka_unit_test(saves_samples_rarely),
        cmocka_unit_test(saves_many_routes_in_batches),
        cmocka_unit_test(unlearned_routes_are_not_saved),
        cmocka_unit_test(routes_are_read_at_start),
        cmocka_unit_test(no_more_routes_are_read_than_kept),
        cmocka_unit_test(a_late_read_undoes_nothing),
        cmocka_unit_test(only_the_leader_decides_and_saves),
        cmocka_unit_test(a_failing_store_does_no_harm),
        cmocka_unit_test(an_empty_move_is_not_announced),
        cmocka_unit_test(names_that_are_too_long_are_not_kept),
    };

    return cmocka_run_group_tests_name("routes", tests, NULL, NULL);
}
