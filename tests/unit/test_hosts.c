/* Tests what a process does with breakers, as one that leads and as one that does not: how long it
 * believes the leader, and how a task that a redirect leads to a half-open host becomes its
 * probe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/hosts/hosts.h"
#include "test_clock.h"

#define HOST "photos.example"

enum { TURNS = 4 };

struct kit {
    struct pp_loop *loop;
    struct pp_params params;
    struct pp_metrics metrics;
    struct pp_coordinator coordinator;
    struct pp_task_store store; /* has no tasks */
    struct pp_store_host_clients *asked;
    struct pp_hosts *hosts;
    bool leads;
    struct pp_notice told; /* the last notice about the breaker */
    unsigned wishes;
};

static void notify(struct pp_coordinator *c, const struct pp_notice *notices, size_t n)
{
    struct kit *k = pp_container_of(c, struct kit, coordinator);

    for (size_t i = 0; i < n; i++)
        if (notices[i].kind == PP_NOTICE_BREAKER) {
            k->told = notices[i];
            k->wishes += strcmp(notices[i].b, "wish") == 0;
        }
}

static enum pp_err host_clients(struct pp_task_store *s, struct pp_store_host_clients *r)
{
    struct kit *k = pp_container_of(s, struct kit, store);

    assert_null(k->asked);
    k->asked = r;
    return PP_OK;
}

/* Answers the store's request, if there is one. */
static void answer(struct kit *k)
{
    struct pp_store_host_clients *r = k->asked;

    k->asked = NULL;
    if (r) {
        r->n = 0;
        r->more = false;
        pp_req_end(&r->req, PP_OK);
    }
}

static int64_t slow_until(struct pp_coordinator *c, const char *host, int64_t now_ms)
{
    (void)c, (void)host, (void)now_ms;
    return 0;
}

static bool leads(void *data)
{
    return ((struct kit *)data)->leads;
}

static void pass(struct kit *k, int64_t ms)
{
    for (; ms > 0; ms -= 250) {
        pp_test_clock_pass(k->loop, 250);
        for (int i = 0; i < TURNS; i++)
            (void)pp_loop_turn(k->loop, false);
        answer(k);
    }
}

static int setup(void **state)
{
    static const struct pp_coordinator_ops ops = {.notify = notify, .host_slow_until = slow_until};
    static const struct pp_task_store_ops store = {.host_clients = host_clients};
    struct kit *k = calloc(1, sizeof(*k));

    *state = k;
    k->loop = pp_loop_open();
    pp_test_clock_hold(k->loop);
    k->coordinator.ops = &ops;
    k->store.ops = &store;
    k->params = (struct pp_params){.hosts_wait_ms = 900000, .hosts_believe_ms = 7200000};
    k->hosts = pp_hosts_open(&(struct pp_hosts_options){.loop = k->loop,
                                                        .params = &k->params,
                                                        .metrics = &k->metrics,
                                                        .roles = PP_ROLE_WORKER | PP_ROLE_CRON,
                                                        .store = &k->store,
                                                        .coordinator = &k->coordinator,
                                                        .leads = leads,
                                                        .data = k});
    assert_non_null(k->hosts);
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;

    pp_hosts_stop(k->hosts);
    answer(k);
    pp_hosts_close(k->hosts);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

/* The leader says that the breaker is in this state, for errors, since now, and that the task with
 * this number may be a probe after a redirect. */
static void hear(struct kit *k, enum pp_breaker_state state, double granted)
{
    const struct pp_notice n = {.kind = PP_NOTICE_BREAKER,
                                .a = HOST,
                                .b = "",
                                .v = {state, PP_BREAKER_ERRORS, PP_BREAKER_AUTO, 0, 0, PP_BREAKER_PROBE_MS,
                                      PP_BREAKER_PROBE_MS, -1, 0, granted}};

    pp_hosts_noticed(k->hosts, &n);
}

static void hear_open(struct kit *k)
{
    hear(k, PP_BREAKER_OPEN, 0);
}

static bool goes(struct kit *k)
{
    return pp_hosts_gate(k->hosts, HOST, 0, NULL).verdict == PP_HOST_GO;
}

static void what_is_repeated_is_believed(void **state)
{
    struct kit *k = *state;

    for (int i = 0; i < 10; i++) {
        hear_open(k);
        pass(k, PP_HOSTS_HEARD_MS - 10000);
        assert_false(goes(k));
    }
}

/* Another process leads, and does not know the breaker: it may have started anew. */
static void what_is_not_repeated_is_forgotten(void **state)
{
    struct kit *k = *state;

    hear_open(k);
    pass(k, PP_HOSTS_HEARD_MS - 5000);
    assert_false(goes(k));
    pass(k, 15000);
    assert_true(goes(k));
    assert_int_equal(k->metrics.breakers[PP_BREAKER_OPEN], 0);
}

static const struct pp_key FIRST = {.b = {3, 1}}, SECOND = {.b = {5}};

enum { FIRST_NUMBER = 3 + 256, SECOND_NUMBER = 5 };

static struct pp_host_gate hop(struct kit *k, const struct pp_key *task, int64_t wait_until_ms)
{
    return pp_hosts_gate(k->hosts, HOST, wait_until_ms, task);
}

/* A task that has waited at a redirect before has no permission from that. */
static void a_redirect_to_a_half_open_host_asks_the_leader(void **state)
{
    struct kit *k = *state;
    int64_t now = pp_loop_wall(k->loop), until = now + 600000;

    pass(k, 2000);
    hear(k, PP_BREAKER_HALF_OPEN, 0);
    struct pp_host_gate g = hop(k, &FIRST, until);
    assert_int_equal(g.verdict, PP_HOST_WAIT);
    assert_int_equal(g.wait_until_ms, until);
    assert_in_range(g.until_ms, now + 1, now + 20000);
    assert_int_equal(k->wishes, 1);
    assert_true(k->told.v[0] == FIRST_NUMBER);
    hop(k, &SECOND, 0); /* at most one wish a second */
    assert_int_equal(k->wishes, 1);
    hear(k, PP_BREAKER_HALF_OPEN, FIRST_NUMBER);
    assert_int_equal(hop(k, &SECOND, until).verdict, PP_HOST_WAIT);
    assert_int_equal(hop(k, &FIRST, until).verdict, PP_HOST_GO);
    hear_open(k);
    assert_int_equal(hop(k, &FIRST, until).verdict, PP_HOST_WAIT);
    assert_int_equal(hop(k, &FIRST, now).verdict, PP_HOST_GIVE_UP);
}

static void wish(struct kit *k, double task)
{
    pp_hosts_noticed(k->hosts,
                     &(struct pp_notice){.kind = PP_NOTICE_BREAKER, .a = HOST, .b = "wish", .v = {task}});
}

/* Makes the kit lead, with a half-open host that has no tasks. */
static void lead_half_open(struct kit *k)
{
    k->leads = true;
    assert_true(pp_hosts_order(k->hosts, HOST, PP_BREAKER_FORCE_OPEN, 0));
    pass(k, 1000);
    assert_true(pp_hosts_order(k->hosts, HOST, PP_BREAKER_AUTO, 0));
    wish(k, FIRST_NUMBER); /* the leader has not looked yet whether the host has tasks */
    assert_true(k->told.v[9] == 0);
    pass(k, 5000);
}

static void the_leader_grants_one_task_at_a_time(void **state)
{
    struct kit *k = *state;

    lead_half_open(k);
    wish(k, FIRST_NUMBER);
    assert_true(k->told.v[9] == FIRST_NUMBER);
    wish(k, SECOND_NUMBER);
    assert_true(k->told.v[9] == FIRST_NUMBER);
    assert_int_equal(hop(k, &SECOND, 0).verdict, PP_HOST_WAIT);
    assert_int_equal(hop(k, &FIRST, 0).verdict, PP_HOST_GO);
    pp_hosts_answered(k->hosts, HOST, 0, 100);
    pass(k, 2000);
    assert_true(k->told.v[9] == 0);
    wish(k, SECOND_NUMBER);
    assert_true(k->told.v[9] == SECOND_NUMBER);
}

static void a_granted_task_that_does_not_come_is_forgotten(void **state)
{
    struct kit *k = *state;

    lead_half_open(k);
    wish(k, FIRST_NUMBER);
    pass(k, 50000);
    assert_int_equal(hop(k, &FIRST, 0).verdict, PP_HOST_GO);
    pass(k, 20000);
    assert_int_equal(hop(k, &SECOND, 0).verdict, PP_HOST_GO); /* the leader's own wish */
    assert_int_equal(hop(k, &FIRST, 0).verdict, PP_HOST_WAIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_repeated_is_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_repeated_is_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(a_redirect_to_a_half_open_host_asks_the_leader, setup, teardown),
        cmocka_unit_test_setup_teardown(the_leader_grants_one_task_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_granted_task_that_does_not_come_is_forgotten, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
