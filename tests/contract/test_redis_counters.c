/* Tests that the counters of a fleet keep their contract with the cache on Redis, and the store in
 * memory; and how much memory of Redis a cached counter takes. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/counters.h"
#include "adapter/redis/redis_ports.h"
#include "redis_server.h"
#include "suite_counters_fleet.h"
#include "test_loop.h"

enum { PLACES = 64 };

static struct pp_memory_counter_store *stores[PLACES];
static int n_places;

static const char *place(void)
{
    static char names[PLACES][32];
    assert_true(n_places < PLACES);
    stores[n_places] = pp_memory_counter_store_new();
    assert_non_null(stores[n_places]);
    snprintf(names[n_places], sizeof names[n_places], "test:counters-%d", n_places);
    return names[n_places++];
}

static struct pp_memory_counter_store *store_at(const char *where)
{
    return stores[strtol(strchr(where, '-') + 1, NULL, 10)];
}

static enum pp_err open_cache(struct pp_loop *loop, const char *where, struct pp_counter_cache **out)
{
    const struct pp_redis_counters_options o = {.url = redis_server_shared()->url, .prefix = where};
    return pp_redis_counters_open(loop, &o, out);
}

static enum pp_err open_store(struct pp_loop *loop, const char *where, struct pp_counter_store **out)
{
    return pp_memory_counter_store_open(loop, store_at(where), NULL, out);
}

static void lose_cache(const char *where)
{
    (void)where;
    redis_server_do(redis_server_shared(), "FLUSHALL");
}

static void store_away(const char *where, bool away)
{
    pp_memory_counter_store_away(store_at(where), away);
}

static int64_t used_memory(void)
{
    struct redisReply *reply = redis_server_ask(redis_server_shared(), "INFO memory");
    const char *at = strstr(reply->str, "used_memory:");
    assert_non_null(at);
    int64_t n = strtoll(at + strlen("used_memory:"), NULL, 10);
    freeReplyObject(reply);
    return n;
}

/* A cached counter takes at most 100 bytes. */
static void memory(void **state)
{
    enum { N = 60, EACH = PP_COUNTER_ROWS_MAX };
    struct counters_kit *k = *state;
    static char names[N * EACH][24];
    static const char *keys[N * EACH];
    static struct pp_counters_read r[N];
    redis_server_do(redis_server_shared(), "FLUSHALL");
    int64_t before = used_memory();
    for (int i = 0; i < N * EACH; i++) {
        snprintf(names[i], sizeof names[i], "view:42:ad-%d", 1000000 + i);
        keys[i] = names[i];
    }
    for (int i = 0; i < N; i++) {
        r[i] = (struct pp_counters_read){.keys = keys + i * EACH, .n = EACH, .now_ms = CNT_NOW};
        CNT_SEND(k, 0, read, &r[i]);
    }
    cnt_wait(k);
    assert_in_range(used_memory() - before, N * EACH, 100 * N * EACH);
}

static void a_wrong_prefix(void **state)
{
    struct counters_kit *k = *state;
    struct pp_counter_cache *cache;
    assert_int_equal(open_cache(k->loop, "a{b", &cache), PP_EINVAL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, cnt_open, cnt_close)

int main(void)
{
    static const struct pp_fleet_counters_subject subject = {"redis",    place,      open_cache,
                                                             open_store, lose_cache, store_away};
    int failed = pp_suite_counters_fleet(&subject);
    const struct CMUnitTest own_tests[] = {T(memory), T(a_wrong_prefix)};
    failed += cmocka_run_group_tests_name("Redis' own", own_tests, NULL, NULL);
    for (int i = 0; i < n_places; i++)
        pp_memory_counter_store_free(stores[i]);
    return failed;
}
