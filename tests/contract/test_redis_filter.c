/* Tests that the filter of known photos on Redis keeps its contract. A Redis that may have lost
 * keys has no complete filter. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_ports.h"
#include "redis_server.h"
#include "suite_filter.h"
#include "test_loop.h"

static struct redis_server own; /* the Redis server that only one test uses */

static const char *place(void)
{
    static char places[64][32];
    static int n;
    assert_true(n < 64);
    snprintf(places[n], sizeof places[n], "test:filter-%d", n);
    return places[n++];
}

static enum pp_err open_at(const struct redis_server *s, struct pp_loop *loop, const char *prefix,
                           struct pp_filter **out)
{
    const struct pp_redis_filter_options o = {.url = s->url, .prefix = prefix};
    return pp_redis_filter_open(loop, &o, out);
}

static enum pp_err open_shared(struct pp_loop *loop, const char *prefix, struct pp_filter **out)
{
    return open_at(redis_server_shared(), loop, prefix, out);
}

static enum pp_err open_own(struct pp_loop *loop, const char *prefix, struct pp_filter **out)
{
    return open_at(&own, loop, prefix, out);
}

static int open_kit(void **state)
{
    static const struct pp_filter_subject subject = {"redis", place, open_own, true};
    own = (struct redis_server){0};
    redis_server_start(&own);
    fk_use(&subject);
    return fk_open(state);
}

static int close_kit(void **state)
{
    fk_close(state);
    redis_server_kill(&own);
    return 0;
}

/* Waits until the filter is connected again. */
static void until_up(struct filter_kit *k)
{
    int64_t until = pp_loop_now(k->loop) + 60000;
    struct pp_filter_look r = {.req.err = PP_EIO};
    while (r.req.err != PP_OK) {
        assert_true(pp_loop_now(k->loop) < until);
        FK_RUN(k, 0, look, &r);
    }
}

/* With an append-only file that is synced at each write, Redis has all keys; but the filter can't
 * know that. */
static void a_restart_ends_the_filter(void **state)
{
    struct filter_kit *k = *state;
    fk_build(k, 0, "1", 1, 10);
    fk_begin(k, 0, "2", FK_BYTES);
    redis_server_kill(&own);
    redis_server_restart(&own);
    until_up(k);
    fk_incomplete(k, 0);
    assert_true(fk_finish(k, 0, "2", FK_BYTES, 0));
    fk_build(k, 0, "3", 1, 10);
    fk_absent(k, 0, 1, 20, 10);
}

static void drop(struct filter_kit *k, const char *key)
{
    char words[100];
    snprintf(words, sizeof words, "DEL {%s}:%s", k->place, key);
    redis_server_do(&own, words);
}

static void lost_keys_end_the_filter(void **state)
{
    struct filter_kit *k = *state;
    fk_build(k, 0, "1", 1, 10); /* its bits are at `a` */
    drop(k, "b");
    fk_absent(k, 0, 1, 20, 10);
    drop(k, "a");
    fk_incomplete(k, 0);
    fk_build(k, 0, "2", 1, 10);
    drop(k, "meta");
    fk_incomplete(k, 0);
    fk_build(k, 0, "3", 1, 10);
    fk_begin(k, 0, "4", FK_BYTES);
    drop(k, "b");
    assert_true(fk_add(k, 0, "4", FK_BYTES, 1, 10));
    fk_begin(k, 0, "5", FK_BYTES);
    fk_add(k, 0, "5", FK_BYTES, 1, 10);
    drop(k, "pieces");
    assert_true(fk_finish(k, 0, "5", FK_BYTES, 10));
    fk_absent(k, 0, 1, 20, 10); /* build 3 is still there */
    redis_server_do(&own, "FLUSHALL");
    fk_incomplete(k, 0);
}

/* Somebody looks at each filter that is in use, so one that nobody looks at ends. */
static void ends_when_nobody_looks(void **state)
{
    struct filter_kit *k = *state;
    const char *const names[] = {"meta", "a"};
    char words[100];
    fk_build(k, 0, "1", 1, 10);
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "PEXPIRE {%s}:%s 100000", k->place, names[i]);
        redis_server_do(&own, words);
    }
    fk_absent(k, 0, 1, 10, 0);
    for (int i = 0; i < 4; i++) {
        snprintf(words, sizeof words, "PTTL {%s}:%s", k->place, names[i % 2]);
        int64_t left = redis_server_number(&own, words);
        assert_in_range(left, i < 2 ? 1 : 300000, i < 2 ? 100000 : 600000);
        if (i == 1)
            fk_look(k, 0);
    }
}

/* Without free memory nothing can be added; but the filter can be discarded. */
static void without_memory(void **state)
{
    struct filter_kit *k = *state;
    fk_build(k, 0, "1", 1, 10);
    redis_server_do(&own, "CONFIG SET maxmemory 1");
    struct pp_filter_ask ask = {.keys = fk_keys(k, 50, 10), .n = 10};
    FK_DUE(k, 0, ask, &ask, PP_EIO);
    struct pp_filter_discard r = {0};
    FK_DUE(k, 0, discard, &r, PP_OK);
    fk_incomplete(k, 0);
    redis_server_do(&own, "CONFIG SET maxmemory 0");
    fk_build(k, 0, "2", 1, 10);
    fk_absent(k, 0, 1, 20, 10);
}

static void a_wrong_prefix(void **state)
{
    struct filter_kit *k = *state;
    struct pp_filter *f;
    assert_int_equal(open_shared(k->loop, "a{b", &f), PP_EINVAL);
    assert_int_equal(
        pp_redis_filter_open(k->loop, &(struct pp_redis_filter_options){.url = "http://127.0.0.1"}, &f),
        PP_EINVAL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int main(void)
{
    static const struct pp_filter_subject subject = {"redis", place, open_shared, true};
    const struct CMUnitTest own_tests[] = {
        T(a_restart_ends_the_filter),
        T(lost_keys_end_the_filter),
        T(ends_when_nobody_looks),
        T(without_memory),
        T(a_wrong_prefix),
    };
    int failed = pp_suite_filter(&subject);
    return failed + cmocka_run_group_tests_name("Redis' own", own_tests, NULL, NULL);
}
