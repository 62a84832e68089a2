/* Tests that the journal in front of a shared ingest queue keeps the queue's contract, over
 * SQLite and over Redis. In more tests the shared queue is unreachable, loses answers, or loses
 * all data. */
#include <signal.h>

#include "journal_kit.h"
#include "suite_ingest_queue.h"

static enum pp_err open_over_sqlite(struct pp_loop *loop, const char *where, struct pp_ingest_queue **out)
{
    struct pp_ingest_queue *own, *inner;
    enum pp_err err = open_sqlite(loop, where, "own", &own);
    if (err == PP_OK)
        err = open_sqlite(loop, where, "inner", &inner);
    return err == PP_OK ? open_journal(loop, inner, own, out) : err;
}

static void accepted_while_inner_is_away(void **state)
{
    struct kit *k = *state;
    k->a.gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    assert_int_equal(append(k, k->a.queue, "d", "b_2"), PP_OK);
    assert_int_equal(append(k, k->a.queue, "c", "b_3"), PP_OK);
    /* The shared queue is unreachable, so the journal sends no further append to it. */
    assert_int_equal(k->a.gate.appends, 1);
    assert_int_equal(entries(k, k->redis), 0);
    assert_int_equal(entries(k, k->a.queue), 3);
    struct pp_ingest_get g = {.batch_id = "b_3"};
    DUE(k, k->a.queue, get, &g, PP_OK);
    assert_int_equal(g.entry.n_items, 2);
    g.client = "other";
    DUE(k, k->a.queue, get, &g, PP_ENOTFOUND);
    struct pp_ingest_list l = {.limit = 2};
    DUE(k, k->a.queue, list, &l, PP_OK);
    assert_true(l.n == 2 && l.more);
    assert_string_equal(l.entries[0].batch_id, "b_3");
    k->a.gate.mode = GATE_OPEN;
    until_has(k, k->redis, 3);
    in_redis(k, "123");
    assert_int_equal(entries(k, k->a.queue), 3);
}

/* The journal sends a client's waiting entries before newer ones, because a later list must
 * supersede an earlier one. */
static void a_clients_batches_stay_in_order(void **state)
{
    struct kit *k = *state;
    k->a.gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_OK);
    /* The shared queue answers again, but the journal does not know this yet. */
    k->a.gate.mode = GATE_OPEN;
    assert_int_equal(append(k, k->a.queue, "c", "b_3"), PP_OK);
    assert_int_equal(append(k, k->a.queue, "d", "b_4"), PP_OK);
    until_has(k, k->redis, 4);
    in_redis(k, "1234");
    assert_int_equal(append(k, k->a.queue, "c", "b_5"), PP_OK);
    /* Without older entries that wait, the journal sends an entry to Redis immediately. */
    assert_int_equal(entries(k, k->redis), 5);
}

static void answers_that_were_lost(void **state)
{
    struct kit *k = *state;
    k->a.gate.mode = GATE_LOSES_ANSWERS;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    k->a.gate.mode = GATE_OPEN;
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_OK);
    until_has(k, k->redis, 2);
    in_redis(k, "12");
    assert_int_equal(entries(k, k->a.queue), 2);
}

static void everything_in_redis_is_lost(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = keyed("c", "b_1", "key", "first");
    r.entry.refresh = PP_REFRESH_ALWAYS;
    r.entry.replay = true;
    DUE(k, k->a.queue, append, &r, PP_OK);
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_OK);
    assert_int_equal(append(k, k->b.queue, "d", "b_3"), PP_OK);

    redis_server_do(k->server, "FLUSHALL");
    until_has(k, k->redis, 3);
    struct pp_ingest_get g = {.batch_id = "b_1"};
    DUE(k, k->redis, get, &g, PP_OK);
    assert_int_equal(g.entry.refresh, PP_REFRESH_ALWAYS);
    assert_true(g.entry.replay);
    struct pp_ingest_append again = r;
    again.entry.batch_id = "b_9";
    /* The journal has appended the entry's Idempotency-Key again, too. */
    DUE(k, k->redis, append, &again, PP_EEXISTS);
    assert_int_equal(again.old_answer_n, 5);
    assert_int_equal(entries(k, k->redis), 3);
}

static void until_asked(struct kit *k, const struct node *n, int times)
{
    int checks = n->gate.checks;
    while (n->gate.checks < checks + times)
        pp_loop_turn(k->loop, true);
}

/* Redis loses all entries. The journal appends all of them again in order, and entries that it
 * accepts meanwhile follow. If the journal appended only the entry that it knows to be lost, an
 * older entry would come after newer ones. */
static void what_was_lost_comes_back_in_order(void **state)
{
    struct kit *k = *state;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    until_asked(k, &k->a, 5);
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_OK);
    k->a.gate.mode = GATE_HOLDS;
    redis_server_do(k->server, "FLUSHALL");
    pp_test_until(k->loop, pp_ingest_gate_holds, &k->a.gate, LONG_MS);
    assert_int_equal(append(k, k->a.queue, "c", "b_3"), PP_OK);
    pp_ingest_gate_let_through(&k->a.gate);
    until_has(k, k->redis, 3);
    in_redis(k, "123");
}

/* Redis loses its data while the journal can't reach it. The journal must not assume that Redis
 * still has its entries: it appends all of them again, even if it has not asked for a lost one
 * yet. */
static void away_and_back_with_nothing(void **state)
{
    struct kit *k = *state;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    until_asked(k, &k->a, 5);
    k->a.gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_OK);
    redis_server_do(k->server, "FLUSHALL");
    k->a.gate.mode = GATE_OPEN;
    until_has(k, k->redis, 2);
    in_redis(k, "12");
}

static bool says_away(const struct node *n)
{
    return strstr(n->queue->ops->durability(n->queue), "does not answer now");
}

/* A shared queue that answers reads but refuses appends counts as unreachable until it accepts an
 * append. */
static void only_reads_are_answered(void **state)
{
    struct kit *k = *state;
    k->a.gate.mode = GATE_REFUSES;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    while (k->a.gate.appends < 3 || pp_ingest_gate_refusing(&k->a.gate)) {
        assert_true(says_away(&k->a));
        pp_loop_turn(k->loop, true);
    }
    /* The journal tries to append its entry, and gets the answer late. */
    k->a.gate.mode = GATE_HOLDS;
    pp_test_until(k->loop, pp_ingest_gate_holds, &k->a.gate, LONG_MS);
    assert_int_equal(append(k, k->a.queue, "d", "b_2"), PP_OK);
    assert_true(says_away(&k->a));
    pp_ingest_gate_let_through(&k->a.gate);
    until_has(k, k->redis, 2);
    while (says_away(&k->a))
        pp_loop_turn(k->loop, true);
    in_redis(k, "12");
}

/* Another node acks an entry: this node's journal removes it. The journal does not append planned
 * entries again. */
static void planned_ones_are_released(void **state)
{
    struct kit *k = *state;
    const char *const ids[] = {"b_1", "b_2"};
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_OK);
    assert_int_equal(append(k, k->a.queue, "c", "b_3"), PP_OK);
    struct pp_ingest_ack ack = {.batch_ids = ids, .n = 1};
    DUE(k, k->b.queue, ack, &ack, PP_OK);
    struct pp_ingest_poison bad = {.batch_id = "b_2", .reason = "it can't be read"};
    DUE(k, k->b.queue, poison, &bad, PP_OK);
    until_kept(k, &k->a, 1);
    close_node(&k->a);
    open_node(k, &k->a);
    until_asked(k, &k->a, 3); /* The journal still asks the shared queue for its entries. */
    until_kept(k, &k->a, 1);
    assert_int_equal(k->a.gate.appends, 3);
    in_redis(k, "3");
}

static void left_from_before(void **state)
{
    struct kit *k = *state;
    k->a.gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    assert_int_equal(append(k, k->a.queue, "d", "b_2"), PP_OK);
    close_node(&k->a); /* The node closes before it could send the entry to Redis. */
    open_node(k, &k->a);
    /* The journal must send b_1 first, because both are entries of one client. */
    assert_int_equal(append(k, k->a.queue, "c", "b_3"), PP_OK);
    k->a.gate.mode = GATE_OPEN;
    until_has(k, k->redis, 3);
    in_redis(k, "123");
}

static void bounded_while_inner_is_away(void **state)
{
    struct kit *k = *state;
    k->a.gate.mode = GATE_SHUT;
    struct pp_ingest_append r = entry("c", "b_1", "b_1");
    r.high_water = 15;
    DUE(k, k->a.queue, append, &r, PP_OK);
    r.entry.batch_id = "b_2";
    r.entry.payload = "b_2";
    DUE(k, k->a.queue, append, &r, PP_OK);
    r.entry.batch_id = "b_3";
    DUE(k, k->a.queue, append, &r, PP_EFULL);
    k->a.gate.mode = GATE_OPEN;
    until_has(k, k->redis, 2);
    in_redis(k, "12");
}

static bool is_cancelled_in_redis(struct kit *k, const char *batch)
{
    struct pp_ingest_get g = {.batch_id = batch};
    DUE(k, k->redis, get, &g, PP_OK);
    return g.entry.cancelled;
}

static void until_cancelled_in_redis(struct kit *k, const char *batch)
{
    int64_t until = pp_loop_now(k->loop) + 2 * LONG_MS;
    while (!is_cancelled_in_redis(k, batch)) {
        assert_true(pp_loop_now(k->loop) < until);
        pp_loop_turn(k->loop, true);
    }
}

static void cancelled_while_inner_is_away(void **state)
{
    struct kit *k = *state;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    k->a.gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_OK);
    struct pp_ingest_cancel c = {.batch_id = "b_1"};
    DUE(k, k->a.queue, cancel, &c, PP_OK);
    c.batch_id = "b_2";
    DUE(k, k->a.queue, cancel, &c, PP_OK);
    c.batch_id = "b_3";
    RUN(k, k->a.queue, cancel, &c);
    assert_int_not_equal(c.req.err, PP_OK);
    k->a.gate.mode = GATE_OPEN;
    until_has(k, k->redis, 2);
    until_cancelled_in_redis(k, "b_1");
    assert_true(is_cancelled_in_redis(k, "b_2"));
}

/* Plans the only entry of Redis, as another node does. */
static void plan_in_redis(struct kit *k, const char *batch)
{
    struct pp_ingest_take t = {.consumer = "planner", .limit = 1, .max_bytes = SIZE_MAX};
    DUE(k, k->redis, take, &t, PP_OK);
    struct pp_ingest_ack ack = {.batch_ids = &batch, .n = 1};
    DUE(k, k->redis, ack, &ack, PP_OK);
}

/* The entry is in the journal's file, but another node has planned it while this node was down. So
 * the journal asks before it answers, whether it has read its file by then or not. */
static void planned_while_the_node_was_down(void **state)
{
    struct kit *k = *state;
    for (int read = 0; read < 2; read++) {
        const char *const id = read ? "b_2" : "b_1";
        struct pp_ingest_cancel c = {.batch_id = id};
        struct pp_ingest_get g = {.batch_id = id};
        assert_int_equal(append(k, k->a.queue, "c", id), PP_OK);
        close_node(&k->a);
        plan_in_redis(k, id);
        open_node(k, &k->a);
        if (read) /* an append waits until the file was read; the round is not answered yet */
            assert_int_equal(append(k, k->a.queue, "d", "b_3"), PP_OK);
        DUE(k, k->a.queue, cancel, &c, PP_ENOTFOUND);
        DUE(k, k->a.queue, get, &g, PP_ENOTFOUND);
        until_kept(k, &k->a, read);
    }
}

/* Redis has lost the entries while the node was down, so those of the journal count. */
static void lost_while_the_node_was_down(void **state)
{
    struct kit *k = *state;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_OK);
    close_node(&k->a);
    redis_server_do(k->server, "FLUSHALL");
    open_node(k, &k->a);
    struct pp_ingest_cancel c = {.batch_id = "b_1"};
    DUE(k, k->a.queue, cancel, &c, PP_OK);
    c.batch_id = "b_2";
    DUE(k, k->a.queue, cancel, &c, PP_OK);
    until_has(k, k->redis, 2);
    until_cancelled_in_redis(k, "b_1");
    until_cancelled_in_redis(k, "b_2");
}

/* Redis was away when the process before cancelled the batch. */
static void cancelled_by_the_process_before(void **state)
{
    struct kit *k = *state;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    k->a.gate.mode = GATE_SHUT;
    struct pp_ingest_cancel c = {.batch_id = "b_1"};
    DUE(k, k->a.queue, cancel, &c, PP_OK);
    close_node(&k->a);
    k->a.gate.mode = GATE_OPEN;
    open_node(k, &k->a);
    until_cancelled_in_redis(k, "b_1");
}

/* Cancels that were kept for Redis reach it one by one: as many at once as there may be would leave
 * no room for appends. */
static void cancels_come_one_by_one(void **state)
{
    enum { BATCHES = 30 };
    struct kit *k = *state;
    char id[BATCHES][16];

    for (int i = 0; i < BATCHES; i++) {
        snprintf(id[i], sizeof id[i], "b_%02d", i);
        assert_int_equal(append(k, k->a.queue, "c", id[i]), PP_OK);
    }
    k->a.gate.mode = GATE_SHUT;
    for (int i = 0; i < BATCHES; i++) {
        struct pp_ingest_cancel c = {.batch_id = id[i]};
        DUE(k, k->a.queue, cancel, &c, PP_OK);
    }
    k->a.gate.mode = GATE_OPEN;
    for (int i = 0; i < BATCHES; i++)
        until_cancelled_in_redis(k, id[i]);
    assert_int_equal(k->a.gate.cancels_most, 1);
}

/* Redis is killed, and had written no file. The journals keep the promises that Redis has
 * forgotten. */
static void redis_forgets_when_it_ends(void **state)
{
    struct kit *k = *state;
    struct redis_server s = {.options = {"--appendonly", "no"}};
    char id[50][16];
    redis_server_start(&s);
    close_node(&k->a);
    k->server = &s;
    k->a.where = place();
    open_node(k, &k->a);
    for (int i = 0; i < 50; i++) {
        snprintf(id[i], sizeof id[i], "b_%02d", i);
        if (i == 20)
            redis_server_kill(&s);
        if (i == 40)
            redis_server_restart(&s);
        assert_int_equal(append(k, k->a.queue, i % 2 ? "c" : "d", id[i]), PP_OK);
    }
    until_has(k, k->a.queue, 50);
    struct pp_ingest_queue *q;
    assert_int_equal(open_redis(k->loop, s.url, k->prefix, &q), PP_OK);
    until_has(k, q, 50);
    q->ops->close(q);
    close_node(&k->a);
    k->server = redis_server_shared();
    k->a.where = place();
    open_node(k, &k->a);
    redis_server_kill(&s);
}

static void says_what_a_202_is_worth(void **state)
{
    struct kit *k = *state;
    const char *text = k->a.queue->ops->durability(k->a.queue);
    assert_non_null(strstr(text, "journal"));
    assert_non_null(strstr(text, "as the gate has it"));
}

int main(void)
{
    static const struct pp_ingest_subject sqlite = {"journal over sqlite", place, open_over_sqlite, false};
    static const struct pp_ingest_subject redis = {"journal over redis", place, open_over_redis, false};
#define T(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
    const struct CMUnitTest own[] = {
        T(accepted_while_inner_is_away),
        T(a_clients_batches_stay_in_order),
        T(answers_that_were_lost),
        T(everything_in_redis_is_lost),
        T(what_was_lost_comes_back_in_order),
        T(away_and_back_with_nothing),
        T(only_reads_are_answered),
        T(planned_ones_are_released),
        T(left_from_before),
        T(bounded_while_inner_is_away),
        T(cancelled_while_inner_is_away),
        T(planned_while_the_node_was_down),
        T(lost_while_the_node_was_down),
        T(cancelled_by_the_process_before),
        T(cancels_come_one_by_one),
        T(redis_forgets_when_it_ends),
        T(says_what_a_202_is_worth),
    };
#undef T
    signal(SIGPIPE, SIG_IGN);
    int failed = pp_suite_ingest_queue(&sqlite);
    failed += pp_suite_ingest_queue(&redis);
    return failed + cmocka_run_group_tests_name("the journal's own", own, NULL, NULL);
}
