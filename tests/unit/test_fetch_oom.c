/* Tests that a lack of memory in fetch is never the fault of a photo: the transfer is handed back,
 * and the gate hears of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool no_memory;

#define strdup(p) (no_memory ? NULL : (strdup)(p))
#include "../../lib/pipeline/fetch/redirect.c"
#undef strdup

static int resolved;

static bool resolve(struct pp_resolver *resolver, struct pp_query *q)
{
    (void)resolver;
    (void)q;
    resolved++;
    return false; /* the answer comes later, which is never in this test */
}

static void on_event(void *data, struct pp_transfer *t, enum pp_transfer_event event)
{
    (void)t;
    *(enum pp_transfer_event *)data = event;
}

static void a_target_without_memory_is_handed_back(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    const struct pp_port_range http = {80, 80};
    struct pp_params params = {
        .n_tiers = 1, .tiers = {{.timeout_ms = 1000}}, .policy = {.ports = &http, .n_ports = 1}};
    struct pp_task task = {.url = "http://a.example/1.jpg"};
    struct pp_transfer t = {.task = &task};
    const struct pp_resolver_ops ops = {.resolve = resolve};
    struct pp_resolver resolver = {.ops = &ops};
    enum pp_transfer_event event = PP_TRANSFER_SENT;
    struct pp_runner *runner =
        pp_runner_open(&(struct pp_runner_options){.loop = loop,
                                                   .params = &params,
                                                   .fetcher = (struct pp_fetcher *)&resolver,
                                                   .resolver = &resolver,
                                                   .keep = (struct pp_keep *)&resolver,
                                                   .on_event = on_event,
                                                   .data = &event});

    no_memory = true;
    pp_runner_start(runner, &t);
    no_memory = false;
    assert_int_equal(event, PP_TRANSFER_FINISHED);
    assert_int_equal(t.handed_back, PP_BACK_MEMORY);
    assert_int_equal(resolved, 0);
    assert_int_equal(pp_runner_in_flight(runner), 0);
    pp_runner_close(runner);
    pp_loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_target_without_memory_is_handed_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
