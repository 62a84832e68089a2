/* test_pipeline_places.c: hosts.concurrency. The origin never sees more requests to a host at the
 * same time, whatever clients want, through redirects and failing calls; other hosts do not wait,
 * and no photo is lost. */
#include "suite_pipeline_kit.h"

#define HOST  "127.0.0.1"
#define OTHER "localhost"

/* Opens a world with one tier, so that a slow host promotes nothing. */
static void open_world(struct world *w, uint32_t limit)
{
    w->params.tiers[0] = (struct pp_tier){.timeout_ms = 60000, .concurrency = 32};
    w->params.n_tiers = 1;
    w->params.tiers_served = 1;
    w->params.hosts_concurrency = limit;
    world_open(w);
}

static void stored(struct world *w, const char *id, uint64_t n)
{
    assert_int_equal(world_finished(w, id).photos[PP_OUTCOME_STORED], n);
}

static void clients_share_a_host(void **state)
{
    struct world *w = *state;

    open_world(w, 3);
    world_post(w, "42", "b_1", 40, 1, PP_REFRESH_KNOWN, "bytes=700&delay=20");
    world_post(w, "43", "b_2", 40, 1, PP_REFRESH_KNOWN, "bytes=700&delay=20");
    world_post(w, "44", "b_3", 40, 1, PP_REFRESH_KNOWN, "bytes=700&delay=20");
    stored(w, "b_1", 40);
    stored(w, "b_2", 40);
    stored(w, "b_3", 40);
    world_close(w);
    assert_in_range(world_seen(w, NULL).at_once, 2, 3);
}

static void redirects_count(void **state)
{
    struct world *w = *state;
    char query[200];

    open_world(w, 2);
    (void)snprintf(query, sizeof(query),
                   "location=http://" OTHER ":%u/c/there/1.jpg%%3Fbytes=2000%%26delay=20%%26hops=2",
                   w->origin.port);
    world_post(w, "42", "b_1", 20, 1, PP_REFRESH_KNOWN, "bytes=700&hops=3");
    world_post(w, "43", "b_2", 20, 1, PP_REFRESH_KNOWN, query);
    world_post(w, "44", "b_3", 20, 1, PP_REFRESH_KNOWN, "bytes=700&delay=20");
    stored(w, "b_1", 20);
    stored(w, "b_2", 20);
    stored(w, "b_3", 20);
    world_close(w);
    assert_in_range(world_seen(w, "there").at_once, 1, 2);
    assert_in_range(world_seen(w, NULL).at_once, 2, 4); /* two hosts */
}

static bool sits(void *data)
{
    const struct world *w = data;
    return pp_claimer_transfers(w->p.claimer) > 1;
}

/* The host answers so slowly that its photos would take two minutes. Photos of another host pass
 * them, of the same client and of another one. Then the limit is taken away. */
static void other_hosts_do_not_wait(void **state)
{
    struct world *w = *state;

    w->params.client_concurrency = 4;
    open_world(w, 1);
    world_hosts(w, HOST " delay=2000\n");
    world_post(w, "42", "b_1", 60, 1, PP_REFRESH_KNOWN, "bytes=700");
    world_until(w, sits, w);
    world_post_to(w, OTHER, w->origin.port, "42", "b_2", 20, 1, PP_REFRESH_KNOWN, "bytes=700");
    world_post_to(w, OTHER, w->origin.port, "43", "b_3", 20, 1, PP_REFRESH_KNOWN, "bytes=700");
    stored(w, "b_3", 20);
    stored(w, "b_2", 20);
    assert_true(world_batch(w, "b_1").state != PP_BATCH_FINISHED);
    world_hosts(w, "");
    w->params.hosts_concurrency = 0;
    /* b_2 has replaced photos of the first 20 items. */
    struct pp_batch b = world_finished(w, "b_1");
    assert_int_equal(b.photos[PP_OUTCOME_STORED] + b.photos[PP_OUTCOME_CANCELLED], 60);
    assert_in_range(b.photos[PP_OUTCOME_STORED], 40, 60);
}

static void a_drain_ends_the_wait(void **state)
{
    struct world *w = *state;

    open_world(w, 1);
    world_hosts(w, HOST " delay=500\n");
    world_post(w, "42", "b_1", 20, 1, PP_REFRESH_KNOWN, "bytes=700");
    world_until(w, sits, w);
    world_close(w);
    open_world(w, 1);
    world_hosts(w, "");
    stored(w, "b_1", 20);
    world_close(w);
    assert_int_equal(world_seen(w, NULL).at_once, 1);
}

/* Calls for places fail, before or after the coordinator has carried them out. */
static void failing_calls_delay_only(void **state)
{
    static const struct faulty_rule rules[] = {
        {.where = FAULTY_AT_SUBMIT, .err = PP_EFULL, .times = 2},
        {.where = FAULTY_BEFORE, .err = PP_EIO, .times = 2},
        {.where = FAULTY_AFTER, .err = PP_EUNKNOWN, .times = 2},
    };
    struct world *w = *state;

    w->step_ms = 100;
    open_world(w, 3);
    for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        char id[16], client[16];
        w->faulty.rules[FAULTY_COORD_places] = rules[i];
        (void)snprintf(id, sizeof(id), "b_%u", i + 1);
        (void)snprintf(client, sizeof(client), "%u", 42 + i);
        world_post(w, client, id, 10, 1, PP_REFRESH_KNOWN, "bytes=700&delay=20");
        stored(w, id, 10);
        world_run(w, 3000); /* all is given back, so the next photos begin with a call */
    }
    assert_int_equal(w->faulty.struck[FAULTY_COORD_places], 6);
    world_close(w);
    assert_in_range(world_seen(w, NULL).at_once, 2, 3);
}

/* Nobody asks for places while there is no limit. */
static void off_asks_nothing(void **state)
{
    struct world *w = *state;

    open_world(w, 0);
    world_post(w, "42", "b_1", 20, 1, PP_REFRESH_KNOWN, "bytes=700");
    stored(w, "b_1", 20);
    assert_int_equal(w->faulty.calls[FAULTY_COORD_places], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown_open)
        T(clients_share_a_host),  T(redirects_count),          T(other_hosts_do_not_wait),
        T(a_drain_ends_the_wait), T(failing_calls_delay_only), T(off_asks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
