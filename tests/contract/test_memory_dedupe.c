/* Tests that the dedupe port in memory keeps its contract, with three servers; and that late calls,
 * crashes and lost data do no harm. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/dedupe.h"
#include "runtime/dedupe_shards.h"
#include "suite_dedupe.h"
#include "test_clock.h"
#include "test_loop.h"

static struct pp_memory_dedupe *servers[3];
static int64_t now;
static struct pp_loop *loop_of_ports;
static struct pp_memory_line *line_of_ports;

static int64_t now_of(void *data)
{
    return *(const int64_t *)data;
}

static void place(void)
{
    line_of_ports = NULL;
    for (int i = 0; i < 3; i++) {
        pp_memory_dedupe_free(servers[i]);
        servers[i] = pp_memory_dedupe_new(
            &(struct pp_memory_dedupe_options){.window_ms = DK_WINDOW_MS, .now_ms = now_of, .data = &now});
        assert_non_null(servers[i]);
    }
}

static const char *server(int i)
{
    static const char *const names[] = {"0", "1", "2"};
    return names[i];
}

static enum pp_err open_server(void *data, const char *name, struct pp_dedupe **out)
{
    (void)data;
    return pp_memory_dedupe_open(loop_of_ports, servers[name[0] - '0'], line_of_ports, out);
}

static enum pp_err open_port(struct pp_loop *loop, struct pp_dedupe **out)
{
    const char *first = server(0);
    loop_of_ports = loop;
    enum pp_err err = pp_dedupe_shards_open(loop, 2 * DK_WINDOW_MS, open_server, NULL, out);
    return err == PP_OK ? (*out)->ops->servers(*out, &first, 1) : err;
}

static void pass(struct pp_loop *loop, int64_t ms)
{
    now += ms;
    pp_test_clock_pass(loop, ms);
}

/* --- lost data, late calls --- */

static void a_server_forgets(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = dup_rows(k, 50, 1);

    assert_int_equal(dup_ask(k, 0, rows, 50, 1), 0);
    pp_memory_dedupe_forget(servers[0]);
    assert_int_equal(dup_ask(k, 1, rows, 50, 2), 0);
    assert_int_equal(dup_ask(k, 0, rows, 50, 1), 50);
}

struct hands {
    struct pp_memory_line line;
    struct pp_list calls;
};

static void keep_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    pp_list_push(&((struct hands *)line)->calls, &call->node);
}

static struct pp_memory_call *next_call(struct hands *h)
{
    struct pp_node *node = pp_list_pop(&h->calls);
    assert_non_null(node);
    return pp_container_of(node, struct pp_memory_call, node);
}

static void calls_that_arrive_late(void **state)
{
    struct dedupe_kit *k = *state;
    struct hands h = {.line.send = keep_call};
    struct pp_dedupe *port;
    bool gone;

    pp_list_init(&h.calls);
    assert_int_equal(pp_memory_dedupe_open(k->loop, servers[0], &h.line, &port), PP_OK);
    struct pp_dedupe_row *rows = dup_rows(k, 2, 7), mine[2];
    memcpy(mine, rows, sizeof mine);
    struct pp_dedupe_ask ask = {
        .req = {.done = dup_on_done, .data = k, .arena = &k->arena}, .rows = mine, .n = 2};
    assert_int_equal(port->ops->ask(port, &ask), PP_OK);
    struct pp_memory_call *call = next_call(&h);
    k->done = false;
    pp_memory_end(call, PP_ETIMEOUT, &gone);
    assert_true(k->done && !gone && ask.req.err == PP_ETIMEOUT);
    memset(mine, 0, sizeof mine);
    pp_memory_run(call); /* frees the call */
    assert_int_equal(dup_ask(k, 0, rows, 2, 8), 2);
    assert_int_equal(rows[0].other, 7);
    port->ops->close(port);
}

static void a_process_crashes(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe *port;
    struct pp_dedupe_row *rows = dup_rows(k, 2, 7);
    struct pp_dedupe_ask ask = {
        .req = {.done = dup_on_done, .data = k, .arena = &k->arena}, .rows = rows, .n = 2};

    assert_int_equal(pp_memory_dedupe_open(k->loop, servers[0], NULL, &port), PP_OK);
    assert_int_equal(port->ops->ask(port, &ask), PP_OK);
    k->done = false;
    pp_memory_dedupe_cut(port);
    struct hands h = {.line.send = keep_call};
    bool gone;
    pp_list_init(&h.calls);
    assert_int_equal(pp_memory_dedupe_open(k->loop, servers[0], &h.line, &port), PP_OK);
    assert_int_equal(port->ops->ask(port, &ask), PP_OK);
    struct pp_memory_call *call = next_call(&h);
    pp_memory_dedupe_cut(port);
    pp_memory_run(call);
    pp_memory_end(call, PP_OK, &gone);
    assert_false(k->done);
}

/* One of three servers fails: its keys have no other owner, and the rest of the answer is right. */
static void one_server_fails(void **state)
{
    struct dedupe_kit *k = *state;
    struct hands h = {.line.send = keep_call};
    enum { N = 300 };
    struct pp_dedupe *port;
    struct pp_dedupe_row *rows = dup_rows(k, N, 2);
    const char *const all[] = {"0", "1", "2"};
    bool gone;

    for (int i = 0; i < DK_PORTS; i++)
        assert_int_equal(k->ports[i]->ops->servers(k->ports[i], all, 3), PP_OK);
    pass(k->loop, 3 * DK_WINDOW_MS);
    assert_int_equal(dup_ask(k, 0, rows, N, 1), 0);
    pp_list_init(&h.calls);
    line_of_ports = &h.line;
    assert_int_equal(pp_dedupe_shards_open(k->loop, DK_WINDOW_MS, open_server, NULL, &port), PP_OK);
    struct pp_dedupe_ask ask = {
        .req = {.done = dup_on_done, .data = k, .arena = &k->arena}, .rows = rows, .n = N};
    for (size_t i = 0; i < N; i++)
        rows[i].owner = 2;
    assert_int_equal(port->ops->ask(port, &ask), PP_EIO); /* there are no servers yet */
    for (int fail = 1; fail <= 3; fail += 2) {            /* one server, or all */
        if (fail == 1)
            assert_int_equal(port->ops->servers(port, all, 3), PP_OK);
        assert_int_equal(port->ops->ask(port, &ask), PP_OK);
        assert_int_equal(h.calls.n, 3);
        k->done = false;
        for (int i = 0; i < 3; i++) {
            struct pp_memory_call *call = next_call(&h);
            pp_memory_run(call);
            pp_memory_end(call, i < fail ? PP_EIO : PP_OK, &gone);
        }
        assert_true(k->done);
        assert_int_equal(ask.req.err, fail == 3 ? PP_EIO : PP_OK);
        if (fail == 1)
            assert_in_range(ask.duplicates, N / 3, N - 50);
        else
            assert_int_equal(ask.duplicates, 0);
    }
    port->ops->close(port);
}

int main(void)
{
    static const struct pp_dedupe_subject subject = {
        .name = "memory", .place = place, .open = open_port, .pass = pass, .server = server, .shared = true};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_server_forgets, dup_open, dup_close),
        cmocka_unit_test_setup_teardown(calls_that_arrive_late, dup_open, dup_close),
        cmocka_unit_test_setup_teardown(a_process_crashes, dup_open, dup_close),
        cmocka_unit_test_setup_teardown(one_server_fails, dup_open, dup_close),
    };
    int failed = pp_suite_dedupe(&subject);

    dup_use(&subject);
    failed += cmocka_run_group_tests_name("memory dedupe", tests, NULL, NULL);
    for (int i = 0; i < 3; i++)
        pp_memory_dedupe_free(servers[i]);
    return failed;
}
