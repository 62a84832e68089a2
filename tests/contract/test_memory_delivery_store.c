/* Tests that the delivery store in memory keeps its contract. More tests cover what several
 * processes share: their clocks differ, and requests are lost or late. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nth_alloc.h"

#include "adapter/memory/delivery_rows.c"
#include "adapter/memory/delivery_webhook.c"
#include "adapter/memory/sorted.c"

#include "suite_delivery_kit.h"
#include "test_loop.h"

enum { PLACES = 64 };

static struct pp_memory_delivery *servers[PLACES];

static const char *place(void)
{
    static char names[PLACES][8];
    static int n;
    assert_true(n < PLACES);
    servers[n] = pp_memory_delivery_new(NULL);
    assert_non_null(servers[n]);
    snprintf(names[n], sizeof names[n], "%d", n);
    return names[n++];
}

static struct pp_memory_delivery *server_at(const char *place)
{
    return servers[strtol(place, NULL, 10)];
}

static enum pp_err open_store(struct pp_loop *loop, const char *place, struct pp_delivery_store **out)
{
    return pp_memory_delivery_open(loop, server_at(place), NULL, out);
}

/* --- clocks that differ --- */

static int64_t now_of(void *data)
{
    return pp_loop_wall(data) + 5000; /* The server's clock is 5 s ahead. */
}

static void note_due(void *data, const struct pp_delivery *row)
{
    *(int64_t *)data = row->due_ms;
}

/* The server keeps due times by its own clock, and each process reads them by its own. */
static void clocks_may_differ(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_delivery_store *before = k->store;
    struct pp_memory_delivery *server =
        pp_memory_delivery_new(&(struct pp_memory_delivery_options){.now_ms = now_of, .data = k->loop});
    assert_non_null(server);
    assert_int_equal(pp_memory_delivery_open(k->loop, server, NULL, &k->store), PP_OK);
    dk_make_sink(k, "hub", 0);
    const struct pp_delivery rows[] = {dk_row(1, PP_DELIVERY_PENDING, DK_NOW),
                                       dk_row(2, PP_DELIVERY_PENDING, INT64_MAX),
                                       dk_row(3, PP_DELIVERY_DEAD, 7)};
    dk_save(k, "hub", 3, rows, 3);
    struct pp_delivery_list list = dk_list(k, "hub", -1, 0, 10);
    assert_int_equal(list.rows[0].due_ms, 0);
    assert_int_equal(list.rows[1].due_ms, INT64_MAX);
    assert_int_equal(list.rows[2].due_ms, DK_NOW);
    assert_int_equal(dk_due(k, "hub", DK_NOW - 1, 10).next_ms, DK_NOW);
    struct pp_delivery_due due = dk_due(k, "hub", DK_NOW, 10);
    assert_int_equal(due.n, 1);
    assert_int_equal(due.rows[0].due_ms, DK_NOW);
    int64_t kept = 0;
    struct pp_delivery_replay replay = {
        .sink = "hub", .status = PP_DELIVERY_DEAD, .to_ms = INT64_MAX, .now_ms = DK_NOW + 9};
    DK_OK(k, replay, &replay);
    pp_memory_delivery_each_row(server, "hub", note_due, &kept);
    assert_int_equal(kept, DK_NOW + 9 + 5000);
    k->store->ops->close(k->store);
    k->store = before;
    pp_memory_delivery_free(server);
}

/* --- requests that arrive late --- */

/* A line that keeps its only call until the test runs it. */
struct slow_line {
    struct pp_memory_line line;
    struct pp_memory_call *call;
};

static void keep_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    struct slow_line *slow = (struct slow_line *)line;
    assert_null(slow->call);
    slow->call = call;
}

/* Ends the call that is on its way, as if its caller had given up. Returns whether the call can
 * still arrive. */
static bool give_up(struct delivery_kit *k, struct slow_line *slow)
{
    bool gone;
    struct pp_memory_call *call = slow->call;
    pp_memory_end(call, PP_ETIMEOUT, &gone);
    if (gone)
        slow->call = NULL;
    assert_int_equal(k->left, 0);
    return !gone;
}

static void arrive(struct slow_line *slow)
{
    pp_memory_run(slow->call);
    slow->call = NULL;
}

/* Submits a request, lets its caller give up, overwrites its inputs, and lets it arrive. */
#define LATE(k, slow, store, op, r, overwrite)                   \
    do {                                                         \
        (r)->req = dk_request((k), &(k)->arena);                 \
        assert_int_equal((store)->ops->op((store), (r)), PP_OK); \
        assert_true(give_up((k), (slow)));                       \
        assert_int_equal((r)->req.err, PP_ETIMEOUT);             \
        overwrite;                                               \
        memset((r), 0xa5, sizeof *(r));                          \
        arrive(slow);                                            \
    } while (0)

static void late_writes_have_their_inputs(void **state)
{
    struct delivery_kit *k = *state;
    struct slow_line slow = {.line = {.loop = k->loop, .send = keep_call}};
    struct pp_delivery_store *s;
    char sink[] = "hub", name[] = "shop", error[] = "refused";
    uint64_t start_at = 4;
    assert_int_equal(pp_memory_delivery_open(k->loop, server_at(k->place), &slow.line, &s), PP_OK);

    struct pp_delivery_cursor cursor = {.sink = sink, .start_at = &start_at};
    LATE(k, &slow, s, cursor, &cursor, (sink[0] = '?', start_at = 99));
    assert_int_equal(dk_cursor(k, "hub"), 4);

    struct pp_delivery row = dk_row(5, PP_DELIVERY_DEAD, 0), same = row;
    row.error = error;
    same.error = "refused";
    struct pp_delivery_save save = {.sink = "hub", .cursor = 6, .rows = &row, .n = 1};
    LATE(k, &slow, s, save, &save, (error[0] = '?', row.seq = 77));
    struct pp_delivery_list list = dk_list(k, "hub", -1, 0, 10);
    assert_int_equal(list.n, 1);
    dk_same_row(&list.rows[0], &same);
    assert_int_equal(dk_cursor(k, "hub"), 6);

    sink[0] = 'h';
    struct pp_delivery_replay replay = {.sink = sink, .status = -1, .to_ms = INT64_MAX, .now_ms = DK_NOW};
    LATE(k, &slow, s, replay, &replay, sink[0] = '?');
    assert_int_equal(dk_sink(k, "hub").pending, 1);

    struct pp_webhook_put put = {.webhook = dk_endpoint("shop"), .start_at = 8};
    put.webhook.name = name;
    LATE(k, &slow, s, put_webhook, &put, name[0] = '?');
    assert_int_equal(dk_cursor(k, "webhook:shop"), 8);

    name[0] = 's';
    struct pp_webhook_delete gone = {.name = name};
    LATE(k, &slow, s, delete_webhook, &gone, name[0] = '?');
    struct pp_delivery_sinks sinks = {.n = 0};
    DK_OK(k, sinks, &sinks);
    assert_int_equal(sinks.n, 1);

    row = dk_row(9, PP_DELIVERY_DELIVERED, 0);
    dk_save(k, "hub", 9, &row, 1);
    struct pp_delivery_clean clean = {.finished_before_ms = INT64_MAX, .limit = 9};
    LATE(k, &slow, s, clean, &clean, (void)0);
    assert_int_equal(dk_list(k, "hub", -1, 0, 10).n, 1);
    s->ops->close(s);
}

/* A read is dropped when its caller gives up. */
static void late_reads_are_dropped(void **state)
{
    struct delivery_kit *k = *state;
    struct slow_line slow = {.line = {.loop = k->loop, .send = keep_call}};
    struct pp_delivery_store *s;
    struct pp_delivery_sinks sinks = {.req = dk_request(k, &k->arena)};
    assert_int_equal(pp_memory_delivery_open(k->loop, server_at(k->place), &slow.line, &s), PP_OK);
    assert_int_equal(s->ops->sinks(s, &sinks), PP_OK);
    assert_false(give_up(k, &slow));
    s->ops->close(s);
}

/* --- a look at the data --- */

static void add_text(void *data, const struct pp_delivery_sink *sink)
{
    strcat(data, sink->sink);
    strcat(data, " ");
}

static void sinks_in_order(void **state)
{
    struct delivery_kit *k = *state;
    char text[100] = "";
    dk_make_sink(k, "webhook:b", 0);
    dk_make_sink(k, "hub", 0);
    dk_make_sink(k, "webhook:a", 0);
    pp_memory_delivery_each_sink(server_at(k->place), add_text, text);
    assert_string_equal(text, "hub webhook:a webhook:b ");
}

/* A request whose answer does not fit into its arena fails. */
static void answers_may_not_fit(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_arena small;
    pp_arena_init(&small, 64);
    const struct pp_delivery row = dk_row(1, PP_DELIVERY_PENDING, DK_NOW);
    struct pp_webhook hook = dk_endpoint("shop");
    struct pp_webhook_put put = {.webhook = hook};
    struct pp_delivery_list list = {.sink = "hub", .status = -1, .limit = 5};
    struct pp_delivery_due due = {.sink = "hub", .now_ms = DK_NOW, .limit = 5};
    struct pp_delivery_sinks sinks = {.n = 0};
    struct pp_webhooks hooks = {.limit = 5};
    dk_make_sink(k, "hub", 0);
    dk_save(k, "hub", 1, &row, 1);
    DK_OK(k, put_webhook, &put);
    list.req = dk_request(k, &small);
    due.req = dk_request(k, &small);
    sinks.req = dk_request(k, &small);
    hooks.req = dk_request(k, &small);
    assert_int_equal(k->store->ops->list(k->store, &list), PP_OK);
    assert_int_equal(k->store->ops->due(k->store, &due), PP_OK);
    assert_int_equal(k->store->ops->sinks(k->store, &sinks), PP_OK);
    assert_int_equal(k->store->ops->webhooks(k->store, &hooks), PP_OK);
    dk_wait(k);
    assert_int_equal(list.req.err, PP_ENOMEM);
    assert_int_equal(due.req.err, PP_ENOMEM);
    assert_int_equal(sinks.req.err, PP_ENOMEM);
    assert_int_equal(hooks.req.err, PP_ENOMEM);
    pp_arena_fini(&small);
}

static bool sink_exists(struct delivery_kit *k, const char *sink)
{
    struct pp_delivery_cursor r = {.sink = sink};
    DK_RUN(k, cursor, &r);
    return r.req.err == PP_OK;
}

/* A write that runs out of memory changes nothing. */
static void failed_writes_change_nothing(void **state)
{
    struct delivery_kit *k = *state;
    enum { N = 20 };
    struct pp_delivery rows[N];
    uint64_t at = 3;
    struct pp_delivery_cursor cursor = {.sink = "hub", .start_at = &at};
    struct pp_delivery_save save = {.sink = "hub", .cursor = 9, .rows = rows, .n = N};
    struct pp_webhook_put put = {.webhook = dk_endpoint("shop")};
    int failures = 0;
    for (size_t i = 0; i < N; i++)
        rows[i] = dk_row(i, (enum pp_delivery_status)(i % 3), DK_NOW);
    for (bool ok = false; !ok; failures++) {
        alloc_left = failures;
        DK_RUN(k, cursor, &cursor);
        alloc_left = -1;
        ok = cursor.req.err == PP_OK;
        assert_int_equal(sink_exists(k, "hub"), ok);
    }
    assert_in_range(failures, 2, 5);
    failures = 0;
    for (bool ok = false; !ok; failures++) {
        alloc_left = failures;
        DK_RUN(k, save, &save);
        alloc_left = -1;
        ok = save.req.err == PP_OK;
        assert_int_equal(dk_list(k, "hub", -1, 0, N).n, ok ? N : 0);
        assert_int_equal(dk_cursor(k, "hub"), ok ? 9 : 3);
    }
    assert_in_range(failures, N + 1, N + 5);
    failures = 0;
    for (bool ok = false; !ok; failures++) {
        alloc_left = failures;
        DK_RUN(k, put_webhook, &put);
        alloc_left = -1;
        ok = put.req.err == PP_OK;
        assert_int_equal(put.webhook.version, ok);
        assert_int_equal(sink_exists(k, "webhook:shop"), ok);
    }
    assert_in_range(failures, 3, 6);
}

int main(void)
{
    static const struct pp_delivery_subject subject = {"memory", place, open_store};
    const struct CMUnitTest own[] = {
        DK_TEST(clocks_may_differ), DK_TEST(late_writes_have_their_inputs), DK_TEST(late_reads_are_dropped),
        DK_TEST(sinks_in_order),    DK_TEST(failed_writes_change_nothing),  DK_TEST(answers_may_not_fit),
    };
    int failed = pp_suite_delivery_store(&subject);
    failed += cmocka_run_group_tests_name("memory's own", own, NULL, NULL);
    for (int i = 0; i < PLACES; i++)
        pp_memory_delivery_free(servers[i]);
    return failed;
}
