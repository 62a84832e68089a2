/* Tests that the dedupe port on Redis keeps its contract, on three servers; and what it does when
 * Redis is slow, down, wiped or full. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_ports.h"
#include "redis_server.h"
#include "suite_dedupe.h"
#include "test_clock.h"
#include "test_loop.h"

static struct redis_server servers[3];
static int64_t now = INT64_C(1800000000000);
static uint64_t slots;
static char prefix[32];

static int64_t now_of(void *data)
{
    return *(const int64_t *)data;
}

static void place(void)
{
    static int n;
    snprintf(prefix, sizeof prefix, "test:dedupe-%d", n++);
}

static const char *server(int i)
{
    return servers[i].url;
}

static enum pp_err open_port(struct pp_loop *loop, struct pp_dedupe **out)
{
    const struct pp_redis_dedupe_options o = {.prefix = prefix,
                                              .timeout_ms = 30000,
                                              .window_ms = DK_WINDOW_MS,
                                              .slots = slots,
                                              .test_now = now_of,
                                              .test_data = &now};
    const char *first = server(0);
    enum pp_err err = pp_redis_dedupe_open(loop, &o, out);
    return err == PP_OK ? (*out)->ops->servers(*out, &first, 1) : err;
}

static void pass(struct pp_loop *loop, int64_t ms)
{
    now += ms;
    pp_test_clock_pass(loop, ms);
}

/* --- tables --- */

/* A table is nearly full, so that keys are far from their first slots. */
static void nearly_full(void **state)
{
    struct dedupe_kit *k = *state;
    enum { N = 800 };
    struct pp_dedupe_row *rows = dup_rows(k, N, 1);

    for (uint32_t owner = 1; owner <= 2; owner++)
        for (size_t i = 0; i < N; i += 100)
            assert_int_equal(dup_ask(k, (int)owner, rows + i, 100, owner), owner == 1 ? 0 : 100);
    pass(k->loop, DK_WINDOW_MS);
    assert_int_equal(dup_ask(k, 0, rows, N, 3), N);
}

/* More keys than slots: some keys have no room, and are nobody's. */
static void full(void **state)
{
    struct dedupe_kit *k = *state;
    enum { N = 3000, OWNER = 0x25c3963c }; /* half of its bits are set, as in a hash */
    struct pp_dedupe_row *rows = dup_rows(k, N, 1);

    assert_int_equal(dup_ask(k, 0, rows, N, OWNER), 0);
    size_t known = dup_ask(k, 1, rows, N, 2);
    assert_in_range(known, 1, 1024);
    /* The next table has room for all. */
    pass(k->loop, DK_WINDOW_MS);
    struct pp_dedupe_row *more = dup_rows(k, N, 1);
    assert_int_equal(dup_ask(k, 0, more, N, OWNER), 0);
    assert_int_equal(dup_ask(k, 1, more, N, 2), N);
}

static int open_small(void **state)
{
    slots = 1024;
    int failed = dup_open(state);
    return failed;
}

static int close_small(void **state)
{
    slots = 0;
    return dup_close(state);
}

/* All keys expire by themselves. */
static void keys_expire(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = dup_rows(k, 5, 1);
    struct pp_dedupe_outcome o = {.outcome = "x", .outcome_n = 1};
    struct pp_dedupe_tell tell = {.rows = &o, .n = 1};
    char words[100];

    dup_ask(k, 0, rows, 5, 1);
    DK_DUE(k, 0, tell, &tell, PP_OK);
    snprintf(words, sizeof words, "KEYS {%s}*", prefix);
    struct redisReply *keys = redis_server_ask(&servers[0], words);
    assert_int_equal(keys->elements, 3);
    for (size_t i = 0; i < keys->elements; i++)
        if (!strstr(keys->element[i]->str, "told:")) {
            snprintf(words, sizeof words, "PTTL %s", keys->element[i]->str);
            assert_in_range(redis_server_number(&servers[0], words), 1, 5 * DK_WINDOW_MS);
        }
    freeReplyObject(keys);
}

/* --- faults --- */

static void wiped(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = dup_rows(k, 50, 1);

    dup_ask(k, 0, rows, 50, 1);
    redis_server_do(&servers[0], "FLUSHALL");
    redis_server_do(&servers[0], "SCRIPT FLUSH");
    assert_int_equal(dup_ask(k, 1, rows, 50, 2), 0);
    assert_int_equal(dup_ask(k, 0, rows, 50, 1), 50);
    pass(k->loop, DK_WINDOW_MS);
    assert_int_equal(dup_replace(k, 0, &rows[0], 2, 3), 0);
}

static void down(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = dup_rows(k, 50, 1);
    struct pp_dedupe_ask ask = {.rows = rows, .n = 50};
    int64_t until = pp_test_clock_real_ms() + 60000;

    pp_test_clock_release(k->loop);
    dup_ask(k, 0, rows, 50, 1);
    redis_server_kill(&servers[0]);
    DK_RUN(k, 0, ask, &ask);
    assert_int_not_equal(ask.req.err, PP_OK);
    assert_int_equal(ask.duplicates, 0);
    redis_server_restart(&servers[0]);
    do {
        assert_true(pp_test_clock_real_ms() < until);
        DK_RUN(k, 0, ask, &ask);
        pp_loop_turn(k->loop, true);
    } while (ask.req.err != PP_OK);
}

static void memory_runs_out(void **state)
{
    struct dedupe_kit *k = *state;
    struct pp_dedupe_row *rows = dup_rows(k, 5, 1);
    struct pp_dedupe_ask ask = {.rows = rows, .n = 5};

    redis_server_do(&servers[0], "CONFIG SET maxmemory 1");
    DK_RUN(k, 0, ask, &ask);
    assert_int_not_equal(ask.req.err, PP_OK);
    redis_server_do(&servers[0], "CONFIG SET maxmemory 0");
    assert_int_equal(dup_ask(k, 0, rows, 5, 1), 0);
}

static void bad_options(void **state)
{
    struct pp_loop *loop = pp_loop_open();
    struct pp_dedupe *d;
    const struct pp_redis_dedupe_options bad[] = {{.prefix = "a{b", .window_ms = 1}, {.window_ms = 0}};
    const char *const url = "http://x";

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pp_redis_dedupe_open(loop, &bad[i], &d), PP_EINVAL);
    assert_int_equal(pp_redis_dedupe_open(loop, &(struct pp_redis_dedupe_options){.window_ms = 1}, &d),
                     PP_OK);
    assert_int_equal(d->ops->servers(d, &url, 1), PP_EINVAL);
    d->ops->close(d);
    pp_loop_close(loop);
}

int main(void)
{
    static const struct pp_dedupe_subject subject = {
        .name = "redis", .place = place, .open = open_port, .pass = pass, .server = server, .shared = true};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nearly_full, open_small, close_small),
        cmocka_unit_test_setup_teardown(full, open_small, close_small),
        cmocka_unit_test_setup_teardown(keys_expire, dup_open, dup_close),
        cmocka_unit_test_setup_teardown(wiped, dup_open, dup_close),
        cmocka_unit_test_setup_teardown(down, dup_open, dup_close),
        cmocka_unit_test_setup_teardown(memory_runs_out, dup_open, dup_close),
        cmocka_unit_test(bad_options),
    };

    for (int i = 0; i < 3; i++)
        redis_server_start(&servers[i]);
    int failed = pp_suite_dedupe(&subject);
    dup_use(&subject);
    failed += cmocka_run_group_tests_name("redis dedupe", tests, NULL, NULL);
    for (int i = 0; i < 3; i++)
        redis_server_kill(&servers[i]);
    return failed;
}
