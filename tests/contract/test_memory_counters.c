/* Tests that the counters of a fleet keep their contract with the cache and the store in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/counters.h"
#include "suite_counters_fleet.h"
#include "test_loop.h"

enum { PLACES = 64 };

static struct pp_memory_counter_cache *caches[PLACES];
static struct pp_memory_counter_store *stores[PLACES];
static int n_places;

static const char *place(void)
{
    static char names[PLACES][8];
    assert_true(n_places < PLACES);
    caches[n_places] = pp_memory_counter_cache_new();
    stores[n_places] = pp_memory_counter_store_new();
    assert_true(caches[n_places] && stores[n_places]);
    snprintf(names[n_places], sizeof names[n_places], "%d", n_places);
    return names[n_places++];
}

static enum pp_err open_cache(struct pp_loop *loop, const char *where, struct pp_counter_cache **out)
{
    return pp_memory_counter_cache_open(loop, caches[strtol(where, NULL, 10)], NULL, out);
}

static enum pp_err open_store(struct pp_loop *loop, const char *where, struct pp_counter_store **out)
{
    return pp_memory_counter_store_open(loop, stores[strtol(where, NULL, 10)], NULL, out);
}

static void lose_cache(const char *where)
{
    pp_memory_counter_cache_forget(caches[strtol(where, NULL, 10)]);
}

static void store_away(const char *where, bool away)
{
    pp_memory_counter_store_away(stores[strtol(where, NULL, 10)], away);
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

/* Ends the call, spoils what its caller has put into the arena, and lets the call arrive. */
static void arrive_late(struct slow_line *slow, struct pp_arena *arena, bool *done)
{
    bool gone = false;
    pp_memory_end(slow->call, PP_ETIMEOUT, &gone);
    assert_true(*done && !gone);
    pp_arena_fini(arena);
    pp_memory_run(slow->call);
    slow->call = NULL;
}

/* The callers have given up and freed their inputs; the requests arrive all the same. */
static void requests_arrive_late(void **state)
{
    struct counters_kit *k = *state;
    int at = (int)strtol(k->place, NULL, 10);
    struct slow_line slow = {.line = {.loop = k->loop, .send = keep_call}};
    struct pp_counter_cache *cache;
    struct pp_counter_store *store;
    struct pp_arena arena;
    bool done = false;
    assert_int_equal(pp_memory_counter_cache_open(k->loop, caches[at], &slow.line, &cache), PP_OK);
    assert_int_equal(pp_memory_counter_store_open(k->loop, stores[at], &slow.line, &store), PP_OK);
    pp_arena_init(&arena, 0);
    const struct pp_req req = {.done = on_done, .data = &done, .arena = &arena};

    const char **key = pp_arena_alloc(&arena, sizeof *key);
    int64_t *by = pp_arena_alloc(&arena, sizeof *by);
    *key = pp_arena_strdup(&arena, "a");
    *by = 5;
    struct pp_counter_token token = cnt_token("t", "x");
    struct pp_cache_add add = {.req = req, .keys = key, .by = by, .n = 1, .day = CNT_DAY};
    add.force = true;
    add.token = &token;
    assert_int_equal(cache->ops->add(cache, &add), PP_OK);
    arrive_late(&slow, &arena, &done);

    struct pp_cstore_day day = {202611, 28, 7};
    struct pp_cstore_row row = {pp_arena_strdup(&arena, "b"), &day, 1};
    struct pp_cstore_flush flush = {.req = req, .flush = 1, .rows = &row, .n = 1};
    assert_int_equal(store->ops->flush(store, &flush), PP_OK);
    arrive_late(&slow, &arena, &done);

    cache->ops->close(cache);
    store->ops->close(store);
    assert_int_equal(cnt_read(k, 0, "a"), 5);
    assert_int_equal(cnt_read(k, 0, "b"), 7);
}

int main(void)
{
    static const struct pp_fleet_counters_subject subject = {"memory",   place,      open_cache,
                                                             open_store, lose_cache, store_away};
    int failed = pp_suite_counters_fleet(&subject);
    const struct CMUnitTest own_tests[] = {
        cmocka_unit_test_setup_teardown(requests_arrive_late, cnt_open, cnt_close)};
    failed += cmocka_run_group_tests_name("memory's own", own_tests, NULL, NULL);
    for (int i = 0; i < n_places; i++) {
        pp_memory_counter_cache_free(caches[i]);
        pp_memory_counter_store_free(stores[i]);
    }
    return failed;
}
