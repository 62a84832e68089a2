/* Tests that the filter of known photos in memory keeps its contract. More tests cover requests
 * that arrive late, and a server that loses its data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/filter.h"
#include "suite_filter.h"

enum { PLACES = 64 };

static struct pp_memory_filter *servers[PLACES];
static int n_places;

static const char *place(void)
{
    static char names[PLACES][8];
    assert_true(n_places < PLACES);
    servers[n_places] = pp_memory_filter_new(NULL);
    assert_non_null(servers[n_places]);
    snprintf(names[n_places], sizeof names[n_places], "%d", n_places);
    return names[n_places++];
}

static struct pp_memory_filter *server_at(const char *where)
{
    return servers[strtol(where, NULL, 10)];
}

static enum pp_err open_filter(struct pp_loop *loop, const char *where, struct pp_filter **out)
{
    return pp_memory_filter_open(loop, server_at(where), NULL, out);
}

static void the_server_loses_its_data(void **state)
{
    struct filter_kit *k = *state;
    fk_build(k, 0, "1", 1, 10);
    fk_begin(k, 0, "2", FK_BYTES);
    pp_memory_filter_forget(server_at(k->place));
    fk_incomplete(k, 0);
    assert_true(fk_finish(k, 0, "2", FK_BYTES, 0));
    fk_build(k, 0, "3", 1, 10);
    fk_absent(k, 0, 1, 20, 10);
}

static void a_look_at_the_server(void **state)
{
    struct filter_kit *k = *state;
    const struct pp_key here = fk_key(1), other = fk_key(2);
    assert_false(pp_memory_filter_absent(server_at(k->place), &here));
    fk_build(k, 0, "1", 1, 1);
    assert_false(pp_memory_filter_absent(server_at(k->place), &here));
    assert_true(pp_memory_filter_absent(server_at(k->place), &other));
}

/* A line that keeps its only call until the test runs it. */
struct slow_line {
    struct pp_memory_line line;
    struct pp_memory_call *call;
};

static void keep_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    struct slow_line *slow = pp_container_of(line, struct slow_line, line);
    assert_null(slow->call);
    slow->call = call;
}

static void on_done(struct pp_req *req)
{
    *(bool *)req->data = true;
}

/* Its caller has given up and freed its inputs; the request arrives all the same. */
static void a_request_arrives_late(void **state)
{
    struct filter_kit *k = *state;
    struct slow_line slow = {.line = {.loop = k->loop, .send = keep_call}};
    struct pp_filter *port;
    bool done = false, gone;
    assert_int_equal(pp_memory_filter_open(k->loop, server_at(k->place), &slow.line, &port), PP_OK);
    fk_build(k, 0, "b", 1, 10);
    struct pp_filter_ask *ask = malloc(sizeof *ask);
    struct pp_key *key = malloc(sizeof *key);
    *key = fk_key(77);
    *ask = (struct pp_filter_ask){
        .req = {.done = on_done, .data = &done, .arena = &k->arena}, .keys = key, .n = 1};
    assert_int_equal(port->ops->ask(port, ask), PP_OK);
    pp_memory_end(slow.call, PP_ETIMEOUT, &gone);
    assert_true(done && !gone && ask->req.err == PP_ETIMEOUT);
    free(key), free(ask);
    pp_memory_run(slow.call);
    fk_absent(k, 0, 77, 1, 0);

    slow.call = NULL;
    struct pp_filter_build *begin = malloc(sizeof *begin);
    char *id = strdup("late");
    *begin = (struct pp_filter_build){.req = {.done = on_done, .data = &done, .arena = &k->arena},
                                      .step = PP_FILTER_BEGIN,
                                      .build = id,
                                      .bytes = FK_BYTES};
    assert_int_equal(port->ops->build(port, begin), PP_OK);
    pp_memory_end(slow.call, PP_ETIMEOUT, &gone);
    assert_false(gone);
    free(id), free(begin);
    pp_memory_run(slow.call);
    assert_string_equal(fk_look(k, 0).build, "late");
    port->ops->close(port);
}

#define T(f) cmocka_unit_test_setup_teardown(f, fk_open, fk_close)

int main(void)
{
    static const struct pp_filter_subject subject = {"memory", place, open_filter, true};
    const struct CMUnitTest own[] = {
        T(the_server_loses_its_data),
        T(a_look_at_the_server),
        T(a_request_arrives_late),
    };
    int failed = pp_suite_filter(&subject);
    failed += cmocka_run_group_tests_name("the memory's own", own, NULL, NULL);
    for (int i = 0; i < n_places; i++)
        pp_memory_filter_free(servers[i]);
    return failed;
}
