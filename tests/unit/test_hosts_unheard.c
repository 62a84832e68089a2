/* Tests how long a process that does not lead believes a breaker: while the leader repeats it. */
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
    struct pp_task_store store; /* a process that does not lead asks it nothing */
    struct pp_hosts *hosts;
};

static void notify(struct pp_coordinator *c, const struct pp_notice *notices, size_t n)
{
    (void)c, (void)notices, (void)n;
}

static int64_t slow_until(struct pp_coordinator *c, const char *host, int64_t now_ms)
{
    (void)c, (void)host, (void)now_ms;
    return 0;
}

static bool leads(void *data)
{
    (void)data;
    return false;
}

static void pass(struct kit *k, int64_t ms)
{
    for (; ms > 0; ms -= 250) {
        pp_test_clock_pass(k->loop, 250);
        for (int i = 0; i < TURNS; i++)
            (void)pp_loop_turn(k->loop, false);
    }
}

static int setup(void **state)
{
    static const struct pp_coordinator_ops ops = {.notify = notify, .host_slow_until = slow_until};
    struct kit *k = calloc(1, sizeof(*k));

    *state = k;
    k->loop = pp_loop_open();
    pp_test_clock_hold(k->loop);
    k->coordinator.ops = &ops;
    k->params = (struct pp_params){.hosts_wait_ms = 900000, .hosts_believe_ms = 7200000};
    k->hosts = pp_hosts_open(&(struct pp_hosts_options){.loop = k->loop,
                                                        .params = &k->params,
                                                        .metrics = &k->metrics,
                                                        .roles = PP_ROLE_WORKER,
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
    pp_hosts_close(k->hosts);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

/* The leader says that the breaker is open, for errors, since now, with a probe in 5 min. */
static void hear_open(struct kit *k)
{
    const struct pp_notice n = {.kind = PP_NOTICE_BREAKER,
                                .a = HOST,
                                .b = "",
                                .v = {PP_BREAKER_OPEN, PP_BREAKER_ERRORS, PP_BREAKER_AUTO, 0, 0,
                                      PP_BREAKER_PROBE_MS, PP_BREAKER_PROBE_MS, -1, 0}};

    pp_hosts_noticed(k->hosts, &n);
}

static bool goes(struct kit *k)
{
    return pp_hosts_gate(k->hosts, HOST, 0).verdict == PP_HOST_GO;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_repeated_is_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_repeated_is_forgotten, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
