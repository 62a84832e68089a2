/* Tests that the store of counters on MongoDB keeps the contract of port/counter_store.h. All tests
 * share one database, and each uses keys of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/mongo/mongo_store.h"
#include "mongo_proxy.h"
#include "mongo_server.h"
#include "suite_counters.h"
#include "test_loop.h"

static struct counters_kit kit;
static struct pp_counter_store *store;
static struct mongo_proxy *proxy; /* between the store and the server */

static int open_store(void **state)
{
    char error[PP_MONGO_ERROR_MAX];
    struct pp_mongo_options o = {.timeout_ms = MONGO_SERVER_PATIENCE_MS};
    (void)state;
    proxy = mongo_proxy_open(mongo_server_port());
    o.uri = mongo_server_by_way_of(mongo_server_database(), mongo_proxy_port(proxy));
    kit.loop = pp_loop_open();
    pp_arena_init(&kit.arena, 0);
    assert_int_equal(pp_mongo_counter_store_open(kit.loop, &o, &store, error), PP_OK);
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    store->ops->close(store);
    mongo_proxy_close(proxy);
    pp_loop_close(kit.loop);
    pp_arena_fini(&kit.arena);
    return 0;
}

/* Submits a request, and turns the loop until it is answered. */
#define RUN(op, r)                                                                          \
    do {                                                                                    \
        (r)->req = (struct pp_req){.done = cnt_on_done, .data = &kit, .arena = &kit.arena}; \
        kit.waits++;                                                                        \
        assert_int_equal(store->ops->op(store, (r)), PP_OK);                                \
        cnt_wait(&kit);                                                                     \
    } while (0)
#define DUE(op, r)                                                          \
    do {                                                                    \
        RUN(op, r);                                                         \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(PP_OK)); \
    } while (0)

static void flush(int64_t number, const char *key, const struct pp_cstore_day *days, size_t n)
{
    struct pp_cstore_row row = {key, days, n};
    struct pp_cstore_flush r = {.flush = number, .rows = &row, .n = 1};
    DUE(flush, &r);
}

static struct pp_counter_stored stored(const char *key)
{
    struct pp_cstore_sums r = {.keys = &key, .n = 1};
    DUE(sums, &r);
    return r.sums[0];
}

static struct pp_cstore_months months(const char *key, int32_t from, int32_t to)
{
    struct pp_cstore_months r = {.key = key, .from = from, .to = to};
    DUE(months, &r);
    return r;
}

static void each_flush_once(void **state)
{
    (void)state;
    const struct pp_cstore_day one[] = {{202611, 28, 5}}, two[] = {{202611, 28, 1}, {202611, 30, 2}};
    for (int i = 0; i < 3; i++)
        flush(1, "once", one, 1);
    flush(3, "once", two, 2);
    flush(2, "once", one, 1); /* of a flusher that is late */
    flush(3, "once", two, 2);
    assert_int_equal(stored("once").sum, 8);
    assert_int_equal(stored("once").flush, 3);
    struct pp_cstore_months m = months("once", 202611, 202611);
    assert_int_equal(m.n, 1);
    assert_int_equal(m.months[0].flush, 3);
    assert_int_equal(m.months[0].days[27], 6);
    assert_int_equal(m.months[0].days[29], 2);
    struct pp_cstore_last last = {.flush = 0};
    DUE(last, &last);
    assert_int_equal(last.flush, 3);
}

static void months_of_a_counter(void **state)
{
    (void)state;
    const struct pp_cstore_day days[] = {{202512, 31, 1}, {202601, 1, 2}, {202601, 31, 3}, {202612, 9, 4}};
    flush(10, "m", days, 4);
    flush(11, "m:b", days, 1); /* keys that begin alike */
    flush(11, "m-", days, 1);
    struct pp_cstore_months m = months("m", 202512, 202611);
    assert_int_equal(m.n, 2);
    assert_int_equal(m.months[0].month, 202512);
    assert_int_equal(m.months[0].days[30], 1);
    assert_int_equal(m.months[1].month, 202601);
    assert_int_equal(m.months[1].days[0], 2);
    assert_int_equal(m.months[1].days[30], 3);
    assert_int_equal(months("m", 202601, 202612).n, 2);
    assert_int_equal(months("none", 202512, 202612).n, 0);
    assert_int_equal(stored("m").sum, 10);
}

static void sums_of_many_keys(void **state)
{
    enum { N = 1500 };
    (void)state;
    static char names[N][16];
    static const char *keys[2 * N];
    static struct pp_cstore_day days[N];
    static struct pp_cstore_row rows[N];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "s%d", i);
        days[i] = (struct pp_cstore_day){202611, 1, i + 1};
        rows[i] = (struct pp_cstore_row){names[i], &days[i], 1};
        keys[i] = keys[2 * N - 1 - i] = names[i];
    }
    struct pp_cstore_flush r = {.flush = 20, .rows = rows, .n = N};
    DUE(flush, &r);
    keys[7] = "none";
    struct pp_cstore_sums s = {.keys = keys, .n = 2 * N};
    DUE(sums, &s);
    for (int i = 0; i < N; i++) {
        assert_int_equal(s.sums[i].sum, i == 7 ? 0 : i + 1);
        assert_int_equal(s.sums[2 * N - 1 - i].sum, i + 1);
    }
}

static void removal(void **state)
{
    (void)state;
    const char *key = "gone";
    const struct pp_cstore_day old[] = {{202610, 1, 5}, {202611, 28, 5}}, new[] = {{202611, 28, 1}};
    struct pp_cstore_row row = {key, new, 1};
    flush(30, "gone", old, 2);
    flush(30, "gone:b", old, 2);
    flush(30, "gone0", old, 2);
    for (int i = 0; i < 2; i++) {
        struct pp_cstore_flush r = {.flush = 31, .rows = &row, .n = 1, .removed = &key, .n_removed = 1};
        DUE(flush, &r);
        flush(30, "gone", old, 2); /* late, and once more */
        struct pp_cstore_months m = months("gone", 202601, 202612);
        assert_int_equal(m.n, 2);
        assert_int_equal(m.months[0].days[0], 0);
        assert_int_equal(m.months[1].days[27], 1);
        assert_int_equal(stored("gone").sum, 1);
    }
    key = "other";
    struct pp_cstore_flush later = {.flush = 2000, .removed = &key, .n_removed = 1};
    DUE(flush, &later); /* forgets the month that is empty */
    assert_int_equal(months("gone", 202601, 202612).n, 1);
    assert_int_equal(stored("gone").sum, 1);
    assert_int_equal(stored("gone:b").sum, 10);
    assert_int_equal(months("gone0", 202601, 202612).n, 2);
}

/* The answer to the bulk is lost, after the server has done a part of it or all. */
static void a_lost_answer(void **state)
{
    (void)state;
    const struct pp_cstore_day day = {202611, 28, 5};
    struct pp_cstore_row row = {"lost", &day, 1};
    struct pp_cstore_flush r = {.flush = 40, .rows = &row, .n = 1};
    mongo_proxy_fault(proxy, "update", "counters", MONGO_LOSE_REPLY, 0, 1);
    RUN(flush, &r);
    mongo_proxy_calm(proxy);
    for (int i = 0; i < 2; i++)
        DUE(flush, &r);
    assert_int_equal(stored("lost").sum, 5);
    assert_int_equal(months("lost", 202611, 202611).months[0].days[27], 5);
}

int main(int argc, char **argv)
{
    (void)argc;
    mongo_server_start(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_flush_once), cmocka_unit_test(months_of_a_counter),
        cmocka_unit_test(sums_of_many_keys), cmocka_unit_test(removal), cmocka_unit_test(a_lost_answer)};
    return cmocka_run_group_tests_name("mongo", tests, open_store, close_store);
}
