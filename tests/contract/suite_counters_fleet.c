/* suite_counters_fleet.c: tests the counters of a fleet: flushes that are repeated, a cache that
 * loses its data, a store that is away, sums that leave the cache. */
#include "suite_counters_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters/counters.h"
#include "test_loop.h"

enum { FLUSH_MS = 100 };

/* A process: the two lower ports, and the counters that are made of them. Its port stands in front
 * of the fleet's, because the suite closes it. */
struct node {
    struct pp_counters base;
    struct pp_loop *loop;
    struct pp_params params;
    struct pp_metrics metrics;
    struct pp_counter_cache *cache;
    struct pp_counter_store *store;
    struct pp_fleet_counters *fleet;
    bool leads;
};

static const struct pp_fleet_counters_subject *under_test;
static struct node *nodes[2]; /* the open ones */
static bool new_nodes_lead = true;

static bool node_leads(void *data)
{
    return ((struct node *)data)->leads;
}

static struct node *node_of(struct pp_counters *base)
{
    return (struct node *)base;
}

#define X(name, type)                                                            \
    static enum pp_err node_##name(struct pp_counters *base, struct type *r)     \
    {                                                                            \
        struct pp_counters *port = pp_fleet_counters_port(node_of(base)->fleet); \
        return port->ops->name(port, r);                                         \
    }
PP_COUNTERS_OPS(X)
#undef X

static bool node_roundtrips(struct pp_counters *base, size_t i, const char **name, uint64_t *n)
{
    struct pp_counters *port = pp_fleet_counters_port(node_of(base)->fleet);
    return port->ops->roundtrips(port, i, name, n);
}

static bool flushes_nothing(void *arg)
{
    return pp_fleet_counters_flushing(((struct node *)arg)->fleet) == 0;
}

static void node_close(struct pp_counters *base)
{
    struct node *n = node_of(base);
    pp_fleet_counters_stop(n->fleet);
    pp_test_until(n->loop, flushes_nothing, n, CNT_LONG_MS);
    pp_fleet_counters_close(n->fleet);
    n->cache->ops->close(n->cache);
    n->store->ops->close(n->store);
    for (int i = 0; i < 2; i++)
        nodes[i] = nodes[i] == n ? NULL : nodes[i];
    free(n);
}

static const struct pp_counters_ops node_ops = {
#define X(name, type) .name = node_##name,
    PP_COUNTERS_OPS(X)
#undef X
        .roundtrips = node_roundtrips,
    .close = node_close};

static enum pp_err open_node(struct pp_loop *loop, const char *place, struct pp_counters **out)
{
    struct node *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->base.ops = &node_ops;
    n->loop = loop;
    n->leads = new_nodes_lead;
    n->params.counters_flush_ms = FLUSH_MS;
    assert_int_equal(under_test->open_cache(loop, place, &n->cache), PP_OK);
    assert_int_equal(under_test->open_store(loop, place, &n->store), PP_OK);
    n->fleet = pp_fleet_counters_open(&(struct pp_fleet_counters_options){.loop = loop,
                                                                          .params = &n->params,
                                                                          .metrics = &n->metrics,
                                                                          .cache = n->cache,
                                                                          .store = n->store,
                                                                          .leads = node_leads,
                                                                          .data = n});
    assert_non_null(n->fleet);
    nodes[nodes[0] ? 1 : 0] = n;
    *out = &n->base;
    return PP_OK;
}

/* --- requests to the lower ports, which tests make instead of the flusher --- */

#define LOWER(k, port, op, r, due)                                                          \
    do {                                                                                    \
        (r)->req = (struct pp_req){.done = cnt_on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->waits++;                                                                       \
        assert_int_equal((port)->ops->op((port), (r)), PP_OK);                              \
        cnt_wait(k);                                                                        \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due));                   \
    } while (0)

static struct pp_cache_take take(struct counters_kit *k, int64_t floor)
{
    struct pp_cache_take r = {.floor = floor};
    LOWER(k, nodes[0]->cache, take, &r, PP_OK);
    return r;
}

/* Stores a flush of one row, on the 28th of November. */
static void store_flush(struct counters_kit *k, int64_t flush, const char *key, int64_t n,
                        const char *removed)
{
    struct pp_cstore_day day = {202611, 28, n};
    struct pp_cstore_row row = {key, &day, 1};
    struct pp_cstore_flush r = {
        .flush = flush, .rows = &row, .n = key != NULL, .removed = &removed, .n_removed = removed != NULL};
    LOWER(k, nodes[0]->store, flush, &r, PP_OK);
}

static void ack(struct counters_kit *k, int64_t flush)
{
    struct pp_cache_ack r = {.flush = flush};
    LOWER(k, nodes[0]->cache, ack, &r, PP_OK);
}

static int64_t stored(struct counters_kit *k, const char *key)
{
    struct pp_cstore_sums r = {.keys = &key, .n = 1};
    LOWER(k, nodes[0]->store, sums, &r, PP_OK);
    return r.sums[0].sum;
}

static int64_t stored_day(struct counters_kit *k, const char *key)
{
    struct pp_cstore_months r = {.key = key, .from = 202611, .to = 202611};
    LOWER(k, nodes[0]->store, months, &r, PP_OK);
    return r.n ? r.months[0].days[27] : 0;
}

/* Drops all cached sums that need not stay. After the first request tells how large a part is, the
 * others go at once, until one has come to the first part again. */
static uint64_t sweep_all(struct counters_kit *k)
{
    enum { PARTS_MAX = 4096, IN_FLIGHT = 1024 };
    static struct pp_cache_sweep r[PARTS_MAX];
    const struct pp_cache_sweep begin = {.before_ms = CNT_NOW + INT64_C(7200000)};
    uint32_t n = 1;
    r[0] = begin;
    LOWER(k, nodes[0]->cache, sweep, &r[0], PP_OK);
    uint64_t dropped = r[0].n;
    for (uint32_t step = r[0].part; r[n - 1].part != 0;) {
        uint32_t first = n;
        for (; n < first + IN_FLIGHT; n++) {
            assert_true(n < PARTS_MAX);
            r[n] = begin;
            r[n].req = (struct pp_req){.done = cnt_on_done, .data = k, .arena = &k->arena};
            r[n].part = n * step;
            k->waits++;
            assert_int_equal(nodes[0]->cache->ops->sweep(nodes[0]->cache, &r[n]), PP_OK);
        }
        cnt_wait(k);
        for (uint32_t i = first; i < n; i++) {
            assert_int_equal(r[i].req.err, PP_OK);
            dropped += r[i].n;
            if (r[i].part == 0)
                return dropped;
        }
    }
    return dropped;
}

/* --- flushes --- */

/* No process flushes by itself. The cache knows that a flusher is there. */
static int open_quiet(void **state)
{
    new_nodes_lead = false;
    int rc = cnt_open(state);
    assert_int_equal(take(*state, 0).flush, 0);
    return rc;
}

static int close_quiet(void **state)
{
    new_nodes_lead = true;
    return cnt_close(state);
}

/* A flusher dies before its flush is stored, while it is stored, after it, and after the ack. */
static void a_flush_is_applied_once(void **state)
{
    struct counters_kit *k = *state;
    cnt_add(k, 0, "a", 5);
    struct pp_cache_take first = take(k, 0), again;
    assert_true(first.flush > 0);
    assert_int_equal(first.n, 1);
    assert_string_equal(first.rows[0].key, "a");
    assert_int_equal(first.rows[0].days[0].n, 5);
    cnt_add(k, 0, "a", 2); /* it is pending for the next flush */
    again = take(k, 0);
    assert_int_equal(again.flush, first.flush);
    assert_int_equal(again.rows[0].days[0].n, 5);
    for (int i = 0; i < 3; i++)
        store_flush(k, first.flush, "a", 5, NULL);
    assert_int_equal(stored(k, "a"), 5);
    assert_int_equal(stored_day(k, "a"), 5);
    assert_int_equal(cnt_read(k, 0, "a"), 7);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 7); /* stored, and not acked */
    ack(k, first.flush);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 7);
    struct pp_cache_take second = take(k, 0);
    assert_true(second.flush > first.flush);
    assert_int_equal(second.rows[0].days[0].n, 2);
    ack(k, first.flush); /* of a flusher that is late: changes nothing */
    assert_int_equal(take(k, 0).flush, second.flush);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 7); /* neither stored nor acked */
    store_flush(k, second.flush, "a", 2, NULL);
    store_flush(k, first.flush, "a", 5, NULL); /* late, too */
    ack(k, second.flush);
    assert_int_equal(take(k, 0).flush, 0);
    assert_int_equal(stored(k, "a"), 7);
    assert_int_equal(stored_day(k, "a"), 7);
    assert_int_equal(take(k, 1000).flush, 0);
    cnt_add(k, 0, "a", 1);
    assert_int_equal(take(k, 1000).flush, 1001);
}

static void removal_and_flushes(void **state)
{
    struct counters_kit *k = *state;
    cnt_add(k, 0, "a", 5);
    struct pp_cache_take first = take(k, 0);
    cnt_add(k, 0, "a", 6);
    cnt_remove(k, 0, "a");
    cnt_add(k, 0, "a", 1);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 1);
    store_flush(k, first.flush, "a", 5, NULL);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 1);
    ack(k, first.flush);
    struct pp_cache_take second = take(k, 0);
    assert_int_equal(second.n_removed, 1);
    assert_string_equal(second.removed[0], "a");
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 1);
    for (int i = 0; i < 2; i++) {
        store_flush(k, second.flush, "a", 1, "a");
        assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 1);
    }
    ack(k, second.flush);
    assert_int_equal(stored(k, "a"), 1);
    assert_int_equal(stored_day(k, "a"), 1);
    assert_int_equal(cnt_read(k, 0, "a"), 1);
}

/* A flush that was already stored arrives once more, after the counter's removal. */
static void a_late_flush_of_a_removed_counter(void **state)
{
    struct counters_kit *k = *state;
    store_flush(k, 1, "a", 5, NULL);
    store_flush(k, 2, NULL, 0, "a");
    store_flush(k, 1, "a", 5, NULL);
    assert_int_equal(stored(k, "a"), 0);
    assert_int_equal(stored_day(k, "a"), 0);
    store_flush(k, 3, "a", 2, NULL); /* it exists again */
    store_flush(k, 2, NULL, 0, "a");
    assert_int_equal(stored(k, "a"), 2);
    assert_int_equal(stored_day(k, "a"), 2);
    store_flush(k, 4, NULL, 0, "a");
    store_flush(k, 5000, "b", 1, "b"); /* over 1,000 flushes later: the store may forget "a" */
    assert_int_equal(stored(k, "a"), 0);
    assert_int_equal(stored(k, "b"), 1);
}

/* A flush takes thousands of counters at most; what is left follows. */
static void many_counters(void **state)
{
    enum { N = 9, EACH = PP_COUNTER_ROWS_MAX };
    struct counters_kit *k = *state;
    static char names[EACH][16];
    static const char *keys[EACH];
    static int64_t by[EACH];
    for (int part = 0; part < N; part++) {
        for (int i = 0; i < EACH; i++) {
            snprintf(names[i], sizeof names[i], "c%d", part * EACH + i);
            keys[i] = names[i];
            by[i] = 1;
        }
        struct pp_counters_add r = {.keys = keys, .by = by, .n = EACH, .day = CNT_DAY, .now_ms = CNT_NOW};
        CNT_DUE(k, 0, add, &r, PP_OK);
    }
    size_t n = 0;
    bool more = true;
    for (int i = 0; more; i++) {
        struct pp_cache_take r = take(k, 0);
        assert_in_range(r.n, 1, 4000);
        assert_true(i < 4);
        n += r.n;
        more = r.more;
        ack(k, r.flush);
    }
    assert_int_equal(n, N * EACH);
    assert_int_equal(take(k, 0).flush, 0);
}

/* --- the cache --- */

static void unused_sums_leave_the_cache(void **state)
{
    struct counters_kit *k = *state;
    cnt_add(k, 0, "a", 5);
    cnt_add(k, 0, "b", 6);
    assert_int_equal(sweep_all(k), 0); /* both are pending */
    struct pp_cache_take first = take(k, 0);
    assert_int_equal(sweep_all(k), 0); /* both are processing */
    store_flush(k, first.flush, "a", 5, NULL);
    store_flush(k, first.flush, "b", 6, NULL);
    ack(k, first.flush);
    cnt_add(k, 0, "a", 1);
    assert_int_equal(sweep_all(k), 1);
    assert_int_equal(cnt_read(k, 0, "b"), 6);
    assert_int_equal(cnt_add(k, 0, "b", 1), 7);
    assert_int_equal(cnt_read(k, 0, "a"), 6);
}

/* A sum that was read from the store before something changed must not be cached. */
static void a_stored_sum_that_is_out_of_date(void **state)
{
    struct counters_kit *k = *state;
    const char *key = "a";
    struct pp_cache_read r = {.keys = &key, .n = 1, .now_ms = CNT_NOW};
    LOWER(k, nodes[0]->cache, read, &r, PP_OK);
    assert_int_equal(r.sums[0], PP_COUNTER_UNKNOWN);
    const struct pp_counter_stored none = {0, 0};
    cnt_add(k, 0, "a", 5);
    struct pp_cache_take t = take(k, 0);
    store_flush(k, t.flush, "a", 5, NULL);
    ack(k, t.flush);
    assert_int_equal(sweep_all(k), 1);
    r.stored = &none;
    LOWER(k, nodes[0]->cache, read, &r, PP_OK);
    assert_int_equal(r.sums[0], PP_COUNTER_UNKNOWN);
    const struct pp_counter_stored good = {5, t.flush};
    r.stored = &good;
    LOWER(k, nodes[0]->cache, read, &r, PP_OK);
    assert_int_equal(r.sums[0], 5);
}

/* The cache has lost everything. What was flushed is in the store, and later flushes count. */
static void the_cache_loses_its_data(void **state)
{
    struct counters_kit *k = *state;
    cnt_add(k, 0, "a", 5);
    struct pp_cache_take t = take(k, 0);
    store_flush(k, t.flush, "a", 5, NULL);
    ack(k, t.flush);
    under_test->lose_cache(k->place);
    assert_int_equal(take(k, t.flush).flush, 0); /* so the cache learns of the flushes in the store */
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 5);
    under_test->lose_cache(k->place);
    assert_int_equal(cnt_add(k, 0, "a", 2), 7);
    struct pp_cstore_last last = {.flush = -1};
    LOWER(k, nodes[0]->store, last, &last, PP_OK);
    assert_int_equal(last.flush, t.flush);
    t = take(k, last.flush);
    assert_true(t.flush > last.flush);
    store_flush(k, t.flush, "a", 2, NULL);
    ack(k, t.flush);
    assert_int_equal(stored(k, "a"), 7);
    assert_int_equal(cnt_day(k, 0, "a", CNT_DAY), 7);
}

/* It loses them while a flush is on its way to the store. What is read there before the flush
 * arrives must not stay in the cache. */
static void the_cache_loses_its_data_during_a_flush(void **state)
{
    struct counters_kit *k = *state;
    store_flush(k, 1, "a", 5, NULL);
    under_test->lose_cache(k->place);
    assert_int_equal(cnt_read(k, 0, "a"), 5);
    assert_int_equal(cnt_add(k, 0, "a", 1), 6);
    store_flush(k, 2, "a", 10, NULL);
    assert_int_equal(cnt_read(k, 0, "a"), 16);
    assert_int_equal(cnt_add(k, 0, "a", 1), 17);
    struct pp_cache_take t = take(k, 2);
    store_flush(k, t.flush, "a", 2, NULL);
    ack(k, t.flush);
    assert_int_equal(cnt_read(k, 0, "a"), 17);
    under_test->store_away(k->place, true);
    assert_int_equal(cnt_read(k, 0, "a"), 17); /* it is cached now */
    under_test->store_away(k->place, false);
}

/* --- the store is away --- */

static void without_the_store(void **state)
{
    struct counters_kit *k = *state;
    const char *key = "old";
    cnt_add(k, 0, "old", 5);
    cnt_add(k, 0, "used", 1);
    struct pp_cache_take t = take(k, 0);
    store_flush(k, t.flush, "old", 5, NULL);
    store_flush(k, t.flush, "used", 1, NULL);
    ack(k, t.flush);
    cnt_add(k, 0, "used", 1); /* so it stays */
    assert_int_equal(sweep_all(k), 1);
    under_test->store_away(k->place, true);
    assert_int_equal(cnt_add(k, 0, "used", 1), 3);
    assert_int_equal(cnt_read(k, 0, "used"), 3);
    assert_int_equal(cnt_add(k, 0, "old", 2), PP_COUNTER_UNKNOWN);
    assert_int_equal(cnt_add(k, 0, "new", 3), PP_COUNTER_UNKNOWN);
    struct pp_counters_read r = {.keys = &key, .n = 1, .now_ms = CNT_NOW};
    CNT_DUE(k, 0, read, &r, PP_EIO);
    t = take(k, 0);
    cnt_add(k, 0, "old", 4);
    cnt_close_port(k, 0); /* the port that is opened now does not pause after the failures */
    under_test->store_away(k->place, false);
    cnt_open_port(k, 0);
    /* It has been stored, and the ack is missing: the store has 2 of what is processing. */
    store_flush(k, t.flush, "old", 2, NULL);
    assert_int_equal(cnt_read(k, 0, "old"), 11); /* 7 stored, 4 pending */
    assert_int_equal(cnt_day(k, 0, "old", CNT_DAY), 11);
    assert_int_equal(cnt_add(k, 0, "new", 1), 4); /* 3 processing, and not stored */
    assert_int_equal(cnt_day(k, 0, "new", CNT_DAY), 4);
}

/* Without the store counters were incremented that are not cached. A sum that was read before their
 * flush is out of date after it. */
static void a_flush_of_missing_counters(void **state)
{
    struct counters_kit *k = *state;
    const char *key = "a";
    const int64_t by = 5;
    struct pp_cache_add add = {
        .keys = &key, .by = &by, .n = 1, .day = CNT_DAY, .now_ms = CNT_NOW, .force = true};
    LOWER(k, nodes[0]->cache, add, &add, PP_OK);
    assert_true(add.applied);
    assert_int_equal(add.sums[0], PP_COUNTER_UNKNOWN);
    const struct pp_counter_stored none = {0, 0};
    struct pp_cache_read early = {
        .keys = &key, .n = 1, .now_ms = CNT_NOW, .stored = &none, .generation = add.generation};
    struct pp_cache_take t = take(k, 0);
    store_flush(k, t.flush, "a", 5, NULL);
    ack(k, t.flush);
    LOWER(k, nodes[0]->cache, read, &early, PP_OK);
    assert_int_equal(early.sums[0], PP_COUNTER_UNKNOWN);
    assert_int_equal(cnt_read(k, 0, "a"), 5);
}

/* --- the flusher --- */

struct expected {
    struct counters_kit *k;
    const char *key;
    int64_t sum;
};

static bool is_stored(void *arg)
{
    struct expected *e = arg;
    return stored(e->k, e->key) == e->sum;
}

static void the_flusher_flushes(void **state)
{
    struct counters_kit *k = *state;
    for (int i = 1; i <= 3; i++) {
        cnt_add(k, 0, "a", 1);
        struct expected e = {k, "a", i};
        pp_test_until(k->loop, is_stored, &e, CNT_LONG_MS);
    }
}

#define T(f)     cmocka_unit_test_setup_teardown(f, cnt_open, cnt_close)
#define QUIET(f) cmocka_unit_test_setup_teardown(f, open_quiet, close_quiet)

int pp_suite_counters_fleet(const struct pp_fleet_counters_subject *subject)
{
    static struct pp_counters_subject whole; /* tests use it also after the suite */
    whole = (struct pp_counters_subject){subject->name, subject->place, open_node, true};
    const struct CMUnitTest tests[] = {
        QUIET(a_flush_is_applied_once),
        QUIET(removal_and_flushes),
        QUIET(a_late_flush_of_a_removed_counter),
        QUIET(many_counters),
        QUIET(unused_sums_leave_the_cache),
        QUIET(a_stored_sum_that_is_out_of_date),
        QUIET(the_cache_loses_its_data),
        QUIET(the_cache_loses_its_data_during_a_flush),
        QUIET(without_the_store),
        QUIET(a_flush_of_missing_counters),
        T(the_flusher_flushes),
    };
    under_test = subject;
    int failed = pp_suite_counters(&whole);
    return failed + cmocka_run_group_tests_name(subject->name, tests, NULL, NULL);
}
