/* Tests that the MongoDB delivery store keeps its contract. More tests have several stores on one
 * database, and lost messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/mongo/mongo_store.h"
#include "mongo_proxy.h"
#include "mongo_server.h"
#include "suite_delivery_kit.h"
#include "test_loop.h"

/* the proxy between store and server; NULL: the stores connect directly */
static struct mongo_proxy *proxy;

static enum pp_err open_store(struct pp_loop *loop, const char *url, struct pp_delivery_store **out)
{
    char error[PP_MONGO_ERROR_MAX];
    struct pp_mongo_options o = {.uri = url, .timeout_ms = MONGO_SERVER_PATIENCE_MS};
    if (proxy)
        o.uri = mongo_server_by_way_of(url, mongo_proxy_port(proxy));
    enum pp_err err = pp_mongo_delivery_store_open(loop, &o, out, error);
    if (err != PP_OK)
        print_message("%s: %s\n", o.uri, error);
    return err;
}

/* --- several stores on one database --- */

enum { STORES = 3, ROUNDS = 12, ROWS = 30 };

struct several {
    struct delivery_kit *k;
    struct pp_delivery_store *stores[STORES];
    struct pp_arena arenas[STORES];
};

static void open_several(struct several *s, struct delivery_kit *k)
{
    s->k = k;
    for (int i = 0; i < STORES; i++) {
        pp_arena_init(&s->arenas[i], 0);
        assert_int_equal(open_store(k->loop, k->place, &s->stores[i]), PP_OK);
    }
}

static void close_several(struct several *s)
{
    for (int i = 0; i < STORES; i++) {
        s->stores[i]->ops->close(s->stores[i]);
        pp_arena_fini(&s->arenas[i]);
    }
}

#define EACH(s, op, r, i)                                                      \
    do {                                                                       \
        (r)->req = dk_request((s)->k, &(s)->arenas[i]);                        \
        assert_int_equal((s)->stores[i]->ops->op((s)->stores[i], (r)), PP_OK); \
    } while (0)

/* Several relays save for one sink, because none of them knows that another has replaced it. The
 * highest cursor must count, and each row must exist once. */
static void relays_of_one_sink(void **state)
{
    struct delivery_kit *k = *state;
    struct several s;
    struct pp_delivery rows[ROWS];
    open_several(&s, k);
    dk_make_sink(k, "hub", 0);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        struct pp_delivery_save save[STORES];
        for (size_t i = 0; i < ROWS; i++)
            rows[i] = dk_row(round * 10 + i, PP_DELIVERY_PENDING, DK_NOW);
        for (int i = 0; i < STORES; i++) {
            save[i] = (struct pp_delivery_save){
                .sink = "hub", .cursor = round * 10 + ROWS - 1 - (uint64_t)i, .rows = rows, .n = ROWS};
            EACH(&s, save, &save[i], i);
        }
        dk_wait(k);
        /* The outcome is unknown where two stores inserted the same row together. */
        for (int i = 0; i < STORES; i++) {
            assert_true(save[i].req.err == PP_OK || save[i].req.err == PP_EUNKNOWN);
            if (save[i].req.err != PP_OK)
                dk_save(k, "hub", save[i].cursor, rows, ROWS);
        }
        assert_int_equal(dk_cursor(k, "hub"), round * 10 + ROWS - 1);
    }
    assert_int_equal(dk_sink(k, "hub").pending, ROUNDS * 10 + ROWS - 10);
    close_several(&s);
}

static void first_ones_at_once(void **state)
{
    struct delivery_kit *k = *state;
    struct several s;
    open_several(&s, k);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const char *sink = pp_arena_printf(&k->arena, "s%d", (int)round);
        struct pp_delivery_cursor r[STORES];
        uint64_t at[STORES];
        for (int i = 0; i < STORES; i++) {
            at[i] = 100 + (uint64_t)i;
            r[i] = (struct pp_delivery_cursor){.sink = sink, .start_at = &at[i]};
            EACH(&s, cursor, &r[i], i);
        }
        dk_wait(k);
        uint64_t cursor = dk_cursor(k, sink);
        assert_in_range(cursor, 100, 100 + STORES - 1);
        for (int i = 0; i < STORES; i++) {
            assert_int_equal(r[i].req.err, PP_OK);
            assert_int_equal(r[i].cursor, cursor);
        }
    }
    close_several(&s);
}

/* Several stores change one endpoint. Each change is made on the result of the change before, so
 * none is lost. */
static void endpoints_are_changed_in_turn(void **state)
{
    struct delivery_kit *k = *state;
    struct several s;
    uint64_t version = 0, won = 0;
    open_several(&s, k);
    while (version < ROUNDS) {
        struct pp_webhook_put put[STORES];
        for (int i = 0; i < STORES; i++) {
            put[i] = (struct pp_webhook_put){.webhook = dk_endpoint("shop"), .start_at = 5};
            put[i].webhook.version = version;
            EACH(&s, put_webhook, &put[i], i);
        }
        dk_wait(k);
        for (int i = 0; i < STORES; i++) {
            assert_true(put[i].req.err == PP_OK || put[i].req.err == PP_ESTALE);
            won += put[i].req.err == PP_OK;
        }
        assert_int_equal(won, ++version);
    }
    struct pp_webhooks r = {.name = "shop"};
    DK_OK(k, webhooks, &r);
    assert_int_equal(r.webhooks[0].version, version);
    close_several(&s);
}

/* A relay saves rows while another process deletes the endpoint, at any moment. No row must
 * remain. */
static void saved_while_it_is_deleted(void **state)
{
    struct delivery_kit *k = *state;
    struct several s;
    enum { MANY = 300, TIMES = 6 }; /* So many rows that a save takes longer than the deletion. */
    struct pp_delivery *rows = pp_arena_array(&k->arena, MANY, sizeof *rows);
    open_several(&s, k);
    for (size_t i = 0; i < MANY; i++)
        rows[i] = dk_row(10 + i, PP_DELIVERY_PENDING, DK_NOW);
    for (int round = 0; round < TIMES; round++) {
        struct pp_webhook_put put = {.webhook = dk_endpoint("shop"), .start_at = 5};
        struct pp_delivery_save save[2];
        struct pp_webhook_delete gone = {.name = "shop"};
        DK_OK(k, put_webhook, &put);
        for (int i = 0; i < 2; i++)
            save[i] = (struct pp_delivery_save){
                .sink = PP_SINK_WEBHOOK "shop", .cursor = i ? MANY : 0, .rows = rows, .n = MANY};
        EACH(&s, save, &save[0], 0);
        if (round % 2)
            EACH(&s, save, &save[1], 1);
        EACH(&s, delete_webhook, &gone, 2);
        if (round % 2 == 0)
            EACH(&s, save, &save[1], 1);
        dk_wait(k);
        assert_int_equal(gone.req.err, PP_OK);
        for (int i = 0; i < 2; i++)
            assert_true(save[i].req.err == PP_OK || save[i].req.err == PP_ENOTFOUND ||
                        save[i].req.err == PP_EUNKNOWN);
        for (int i = 0; i < 2; i++)
            /* The outcome is unknown where two stores inserted the same row together. */
            if (save[i].req.err == PP_EUNKNOWN)
                DK_EXPECT(k, save, &save[i], PP_ENOTFOUND);
        assert_int_equal(dk_list(k, PP_SINK_WEBHOOK "shop", -1, 0, MANY).n, 0);
        struct pp_delivery_cursor cursor = {.sink = PP_SINK_WEBHOOK "shop"};
        DK_EXPECT(k, cursor, &cursor, PP_ENOTFOUND);
    }
    close_several(&s);
}

/* --- lost messages --- */

struct trial {
    struct delivery_kit *k;
    /* This run's endpoint and its sink, which has ROWS rows with all statuses, from seq 10 on. */
    const char *name, *sink;
    struct pp_delivery rows[ROWS];
    uint64_t upto; /* of statistics: the end of the range; 0: not known yet */
};

static void prepare(struct trial *t)
{
    struct pp_webhook_put put = {.webhook = dk_endpoint(t->name), .start_at = 5};
    DK_OK(t->k, put_webhook, &put);
    for (size_t i = 0; i < ROWS; i++)
        t->rows[i] = dk_row(10 + i, (enum pp_delivery_status)(i % 3), i % 3 ? 0 : DK_NOW);
    dk_save(t->k, t->sink, 8, t->rows, ROWS);
}

static enum pp_err save_more(struct trial *t)
{
    struct pp_delivery rows[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        rows[i] = dk_row(20 + i, PP_DELIVERY_DEAD, 0);
    struct pp_delivery_save r = {.sink = t->sink, .cursor = 49, .rows = rows, .n = ROWS};
    DK_RUN(t->k, save, &r);
    return r.req.err;
}

static void more_is_saved(struct trial *t)
{
    struct pp_delivery_list l = dk_list(t->k, t->sink, PP_DELIVERY_DEAD, 0, 100);
    assert_int_equal(l.n, ROWS + 3);
    assert_int_equal(dk_list(t->k, t->sink, -1, 0, 100).n, ROWS + 10);
    assert_int_equal(dk_cursor(t->k, t->sink), 49);
}

static enum pp_err replay_dead(struct trial *t)
{
    struct pp_delivery_replay r = {
        .sink = t->sink, .status = PP_DELIVERY_DEAD, .to_ms = INT64_MAX, .now_ms = DK_NOW};
    DK_RUN(t->k, replay, &r);
    return r.req.err;
}

static void dead_are_replayed(struct trial *t)
{
    struct pp_delivery_sink s = dk_sink(t->k, t->sink);
    assert_int_equal(s.pending, ROWS / 3 * 2);
    assert_int_equal(s.dead, 0);
    assert_int_equal(dk_due(t->k, t->sink, DK_NOW, 100).n, ROWS / 3 * 2);
}

static enum pp_err clean_all(struct trial *t)
{
    struct pp_delivery_clean r = {.finished_before_ms = INT64_MAX, .limit = 1000};
    DK_RUN(t->k, clean, &r);
    return r.req.err;
}

static void pending_are_left(struct trial *t)
{
    struct pp_delivery_list l = dk_list(t->k, t->sink, -1, 0, 100);
    assert_int_equal(l.n, ROWS / 3);
    assert_int_equal(dk_sink(t->k, t->sink).pending, ROWS / 3);
}

/* Changes the endpoint, unless an earlier attempt with an unknown outcome has changed it. */
static enum pp_err change_endpoint(struct trial *t)
{
    struct pp_webhooks r = {.name = t->name};
    DK_RUN(t->k, webhooks, &r);
    if (r.req.err != PP_OK || !strcmp(r.webhooks[0].url, "https://changed.example/"))
        return r.req.err;
    struct pp_webhook_put put = {.webhook = r.webhooks[0]};
    put.webhook.url = "https://changed.example/";
    DK_RUN(t->k, put_webhook, &put);
    return put.req.err;
}

static void changed_once(struct trial *t)
{
    struct pp_webhooks r = {.name = t->name};
    DK_OK(t->k, webhooks, &r);
    assert_int_equal(r.webhooks[0].version, 2);
    assert_string_equal(r.webhooks[0].url, "https://changed.example/");
    assert_int_equal(dk_list(t->k, t->sink, -1, 0, 100).n, ROWS);
    assert_int_equal(dk_cursor(t->k, t->sink), 8);
}

static enum pp_err delete_endpoint(struct trial *t)
{
    struct pp_webhook_delete r = {.name = t->name};
    DK_RUN(t->k, delete_webhook, &r);
    return r.req.err == PP_ENOTFOUND ? PP_OK : r.req.err;
}

static void nothing_is_left(struct trial *t)
{
    struct pp_delivery_cursor cursor = {.sink = t->sink};
    DK_EXPECT(t->k, cursor, &cursor, PP_ENOTFOUND);
    assert_int_equal(dk_list(t->k, t->sink, -1, 0, 100).n, 0);
}

/* Adds a range of results to 300 days. Each attempt begins as a consumer does that has lost
 * everything. */
enum { DAYS = 300 };
static enum pp_err add_days(struct trial *t)
{
    struct pp_day days[DAYS];
    struct pp_days_begin begin = {.upto = t->upto};
    DK_RUN(t->k, days_begin, &begin);
    if (begin.req.err != PP_OK)
        return begin.req.err;
    if (t->upto == 0) { /* the first attempt learns where the trial before has ended */
        t->upto = begin.cursor + 10;
        return PP_EIO;
    }
    if (begin.cursor == begin.end) /* an earlier attempt, whose outcome was unknown, has moved the cursor */
        return PP_OK;
    assert_int_equal(begin.end, t->upto);
    for (int i = 0; i < DAYS; i++)
        days[i] = (struct pp_day){.of = PP_DAY_OF_CLIENT, .name = t->name, .day = i, .n = {1, 2}};
    struct pp_days_add r = {.cursor = begin.cursor, .end = begin.end, .days = days, .n = DAYS};
    DK_RUN(t->k, days_add, &r);
    return r.req.err;
}

static void days_are_added_once(struct trial *t)
{
    struct pp_days r = {.of = PP_DAY_OF_CLIENT, .name = t->name, .to = DAYS};
    DK_OK(t->k, days, &r);
    assert_int_equal(r.n, DAYS);
    for (size_t i = 0; i < DAYS; i++)
        assert_int_equal(r.days[i].n[PP_DAY_items], 2);
    assert_int_equal(dk_cursor(t->k, PP_SINK_STATISTICS), t->upto);
}

static const struct operation {
    const char *name;
    /* the operation itself, which the test repeats until PP_OK */
    enum pp_err (*run)(struct trial *t);
    void (*check)(struct trial *t);
} operations[] = {
    {"save", save_more, more_is_saved},           {"replay", replay_dead, dead_are_replayed},
    {"clean", clean_all, pending_are_left},       {"change", change_endpoint, changed_once},
    {"delete", delete_endpoint, nothing_is_left}, {"statistics", add_days, days_are_added_once},
};

/* Runs the operation while one of its commands, or the answer to it, is lost. Returns false if the
 * operation has fewer commands. */
static bool one_trial(struct delivery_kit *k, const struct operation *o, enum mongo_proxy_fault fault,
                      unsigned command)
{
    enum { TRIES = 30 };
    struct trial t = {.k = k, .name = pp_arena_printf(&k->arena, "%s-%d-%u", o->name, (int)fault, command)};
    t.sink = pp_arena_printf(&k->arena, PP_SINK_WEBHOOK "%s", t.name);
    prepare(&t);
    /* Two commands fail, because the driver repeats some commands once. */
    mongo_proxy_fault(proxy, NULL, NULL, fault, command, 2);
    enum pp_err err = o->run(&t);
    for (int i = 0; i < TRIES && err != PP_OK; i++) {
        assert_true(err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT);
        err = o->run(&t);
    }
    assert_int_equal(err, PP_OK);
    bool struck = mongo_proxy_calm(proxy) > 0;
    o->check(&t);
    /* The next run is shorter without this sink, because some commands go to every sink. */
    assert_int_equal(delete_endpoint(&t), PP_OK);
    return struck;
}

static const struct operation *operation_here;

static void every_command_is_lost(void **state)
{
    static const enum mongo_proxy_fault faults[] = {MONGO_LOSE_REPLY, MONGO_LOSE_REQUEST};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        unsigned command = 0;
        while (one_trial(*state, operation_here, faults[f], command))
            assert_true(++command < 20);
        print_message("%s: %u commands\n", operation_here->name, command);
        assert_true(command > 0);
    }
}

static int open_proxied(void **state)
{
    proxy = mongo_proxy_open(mongo_server_port());
    return dk_open(state);
}

static int close_proxied(void **state)
{
    int rc = dk_close(state);
    mongo_proxy_close(proxy);
    proxy = NULL;
    return rc;
}

/* Runs one operation in a process of its own, so that the operations wait in parallel: after a lost
 * message the driver waits half a second. Returns the process id. */
static pid_t run_operation(const struct operation *o)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_command_is_lost, open_proxied, close_proxied),
    };
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    operation_here = o;
    int failed = cmocka_run_group_tests_name(o->name, tests, NULL, NULL);
    pp_mongo_cleanup();
    exit(failed != 0);
}

int main(int argc, char **argv)
{
    static const struct pp_delivery_subject subject = {"mongo", mongo_server_emptied, open_store};
    const struct CMUnitTest own[] = {
        DK_TEST(relays_of_one_sink),
        DK_TEST(first_ones_at_once),
        DK_TEST(endpoints_are_changed_in_turn),
        DK_TEST(saved_while_it_is_deleted),
    };
    enum { N = sizeof operations / sizeof *operations };
    pid_t pids[N];
    int failed, status;
    (void)argc;
    mongo_server_start(argv);
    dk_use(&subject);
    for (int i = 0; i < N; i++)
        pids[i] = run_operation(&operations[i]);
    failed = pp_suite_delivery_store(&subject);
    failed += cmocka_run_group_tests_name("mongo's own", own, NULL, NULL);
    for (int i = 0; i < N; i++)
        failed += pids[i] < 0 || waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    pp_mongo_cleanup();
    return failed;
}
