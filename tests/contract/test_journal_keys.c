/* Tests that the journal accepts a batch once when its caller repeats it: at another node, after a
 * crash of a node, late, and while Redis or the journal's file refuses entries. */
#include <signal.h>

#include "journal_kit.h"
#include "test_clock.h"

/* The shared queue refuses an entry. The journal keeps neither the entry nor its key. */
static void refused_by_inner(void **state)
{
    struct kit *k = *state;
    assert_int_equal(append(k, k->b.queue, "c", "b_1"), PP_OK);
    struct pp_ingest_append r = keyed("c", "b_2", "key", "second");
    r.high_water = 10;
    DUE(k, k->a.queue, append, &r, PP_EFULL);
    DUE(k, k->a.queue, append, &r, PP_EFULL);
    until_kept(k, &k->a, 0);
    close_node(&k->a);
    open_node(k, &k->a);
    until_has(k, k->a.queue, 1); /* This is the entry that node b appended. */
    in_redis(k, "1");
    r.high_water = 0;
    DUE(k, k->a.queue, append, &r, PP_OK);
    r.entry.batch_id = "b_3";
    DUE(k, k->a.queue, append, &r, PP_EEXISTS);
    in_redis(k, "12");
}

static void keys_of_other_nodes(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = keyed("c", "b_1", "key", "first"), again = keyed("c", "b_2", "key", "other");
    DUE(k, k->b.queue, append, &r, PP_OK);
    for (int i = 0; i < 2; i++) {
        DUE(k, k->a.queue, append, &again, PP_EEXISTS);
        assert_memory_equal(again.old_answer, "first", 5);
    }
    again.body_hash[0] = 1;
    DUE(k, k->a.queue, append, &again, PP_EMISMATCH);
    until_kept(k, &k->a, 0);
    again.body_hash[0] = 0;
    again.only_key = true;
    DUE(k, k->a.queue, append, &again, PP_EEXISTS);
    assert_memory_equal(again.old_answer, "first", 5);
    again.key = "fresh";
    DUE(k, k->a.queue, append, &again, PP_OK);
    until_kept(k, &k->a, 0);
    in_redis(k, "1");
    k->a.gate.mode = GATE_SHUT;
    /* Only the shared queue knows the key, and it is unreachable. */
    DUE(k, k->a.queue, append, &again, PP_EIO);
    /* While the shared queue is unreachable, each node accepts an append with the same key.
     * Afterwards each node must still return its own answer for the key. */
    struct pp_ingest_append x = keyed("e", "b_3", "both", "third"), y = keyed("e", "b_4", "both", "forth");
    DUE(k, k->a.queue, append, &x, PP_OK);
    DUE(k, k->b.queue, append, &y, PP_OK);
    k->a.gate.mode = GATE_OPEN;
    until_has(k, k->redis, 3);
    in_redis(k, "143");
    DUE(k, k->a.queue, append, &x, PP_EEXISTS);
    assert_memory_equal(x.old_answer, "third", 5);
    DUE(k, k->b.queue, append, &y, PP_EEXISTS);
    assert_memory_equal(y.old_answer, "forth", 5);
}

/* Node a gets a batch with the key that `due` has, and answers `due`. */
static void sent_again(struct kit *k, const char *due)
{
    struct pp_ingest_append again = keyed("c", "b_2", "key", "b_2");
    again.entry.payload = due; /* in_redis() expects the id */
    DUE(k, k->a.queue, append, &again, PP_EEXISTS);
    assert_int_equal(again.old_answer_n, strlen(due));
    assert_memory_equal(again.old_answer, due, strlen(due));
}

/* A caller gets the answer 202 of a node that crashed before it wrote its journal. The node that
 * gives this answer keeps the batch, too. */
static void a_batch_of_a_crashed_node_is_kept(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = keyed("c", "b_1", "key", "b_1");
    struct pp_ingest_cancel c = {.batch_id = "b_1"};
    DUE(k, k->redis, append, &r, PP_OK);
    DUE(k, k->redis, cancel, &c, PP_OK);
    sent_again(k, "b_1");
    until_kept(k, &k->a, 1);
    redis_server_do(k->server, "FLUSHALL");
    until_has(k, k->redis, 1);
    in_redis(k, "1");
    struct pp_ingest_get g = {.batch_id = "b_1"};
    DUE(k, k->redis, get, &g, PP_OK);
    assert_true(g.entry.cancelled);
    assert_int_equal(g.entry.created_at, 1001);
    close_node(&k->a);
    open_node(k, &k->a);
    sent_again(k, "b_1"); /* The local log has the key with this answer. */
    until_kept(k, &k->a, 1);
}

/* The same, but Redis can't say whether the batch still waits. */
static void a_batch_of_a_crashed_node_is_kept_in_doubt(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = keyed("c", "b_1", "key", "b_1");
    DUE(k, k->redis, append, &r, PP_OK);
    k->a.gate.mode = GATE_ONLY_APPENDS;
    sent_again(k, "b_1");
    redis_server_do(k->server, "FLUSHALL");
    k->a.gate.mode = GATE_OPEN;
    until_has(k, k->redis, 1);
    in_redis(k, "1");
}

/* The crashed node's batch is planned: nobody needs to keep it. If Redis loses it between two
 * questions, the caller gets a new batch. */
static void a_batch_of_a_crashed_node_is_gone(void **state)
{
    struct kit *k = *state;
    const char *const ids[] = {"b_1"};
    struct pp_ingest_append r = keyed("c", "b_1", "key", "b_1"), again = keyed("c", "b_2", "key", "b_2");
    struct pp_ingest_ack ack = {.batch_ids = ids, .n = 1};
    DUE(k, k->redis, append, &r, PP_OK);
    DUE(k, k->redis, ack, &ack, PP_OK);
    sent_again(k, "b_1");
    assert_true(keeps(&(struct kept){k->a.where, 0}));
    assert_int_equal(entries(k, k->redis), 0);

    redis_server_do(k->server, "FLUSHALL");
    DUE(k, k->redis, append, &r, PP_OK);
    k->a.gate.forgets = k->server;
    DUE(k, k->a.queue, append, &again, PP_OK);
    until_kept(k, &k->a, 1);
    in_redis(k, "2");
}

/* A node that stops while it waits for Redis must have no entry in its journal that Redis does not
 * know, because the client may have repeated the request with its key at another node. */
static void nothing_is_kept_before_redis_has_answered(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = keyed("c", "b_1", "key", "first"), again = keyed("c", "b_2", "key", "other");
    struct kept nothing = {k->a.where, 0};
    r.req = (struct pp_req){.done = on_done, .data = k, .arena = &k->arena};
    k->done = false;
    k->a.gate.mode = GATE_HOLDS;
    assert_int_equal(k->a.queue->ops->append(k->a.queue, &r), PP_OK);
    pp_test_until(k->loop, pp_ingest_gate_holds, &k->a.gate, LONG_MS);
    assert_true(keeps(&nothing));
    DUE(k, k->b.queue, append, &again, PP_OK);
    k->done = false;
    pp_ingest_gate_let_through(&k->a.gate);
    pp_test_until(k->loop, is_done, k, LONG_MS);
    assert_int_equal(r.req.err, PP_EEXISTS);
    assert_memory_equal(r.old_answer, "other", 5);
    assert_true(keeps(&nothing));
    in_redis(k, "2");
}

/* A node is stopped for 10 s while it waits for Redis. Meanwhile its caller sends the batch to
 * another node. The first node must not accept the batch, too. */
static void a_node_that_was_stopped_accepts_nothing(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = keyed("c", "b_1", "key", "first"), again = keyed("c", "b_2", "key", "other");
    r.req = (struct pp_req){.done = on_done, .data = k, .arena = &k->arena};
    pp_test_clock_hold(k->loop);
    k->a.gate.mode = GATE_HOLDS;
    assert_int_equal(k->a.queue->ops->append(k->a.queue, &r), PP_OK);
    pp_test_until(k->loop, pp_ingest_gate_holds, &k->a.gate, LONG_MS);
    DUE(k, k->b.queue, append, &again, PP_OK);
    pp_test_clock_pass(k->loop, 10000);
    k->done = false;
    pp_ingest_gate_lose(&k->a.gate);
    pp_test_until(k->loop, is_done, k, LONG_MS);
    assert_int_equal(r.req.err, PP_EUNKNOWN);
    pp_test_clock_release(k->loop);
    assert_true(keeps(&(struct kept){k->a.where, 0}));
    in_redis(k, "2");
}

/* Returns an append with a key, of a request that has come 10 s before. */
static struct pp_ingest_append late(struct kit *k, const char *client, const char *batch)
{
    struct pp_ingest_append r = keyed(client, batch, "key", "late");
    r.begun_ms = pp_loop_now(k->loop) - 10000;
    return r;
}

/* A node is stopped for 10 s before a request reaches its journal, and takes Redis for away.
 * Meanwhile the caller sends the batch to another node. The first node must not accept it, too. */
static void a_late_append_while_inner_is_away(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = late(k, "c", "b_2"), again = keyed("c", "b_3", "key", "other");
    k->a.gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    DUE(k, k->a.queue, append, &r, PP_EIO);
    DUE(k, k->b.queue, append, &again, PP_OK);
    assert_true(keeps(&(struct kept){k->a.where, 1}));
    r.key = NULL;
    DUE(k, k->a.queue, append, &r, PP_OK);
    assert_true(keeps(&(struct kept){k->a.where, 2}));
}

/* The same, but the node asks Redis about the key, and its journal would get the entry first. */
static void a_late_append_that_own_gets_first(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = late(k, "d", "b_2");
    k->a.own_gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_EIO);
    k->a.own_gate.mode = GATE_OPEN;
    DUE(k, k->a.queue, append, &r, PP_ETIMEOUT);
    assert_true(keeps(&(struct kept){k->a.where, 0}));
    r.begun_ms = 0;
    DUE(k, k->a.queue, append, &r, PP_OK);
    assert_true(keeps(&(struct kept){k->a.where, 1}));
}

/* The journal's file can't be written, so appends fail and clients get no 202. An append that was
 * in flight when the file failed is in Redis, and its key finds it there. */
static void the_journal_cannot_be_written(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = keyed("c", "b_1", "key", "first"), other = keyed("c", "b_6", "new", "other");
    k->a.gate.mode = GATE_HOLDS;
    r.req = (struct pp_req){.done = on_done, .data = k, .arena = &k->arena};
    k->done = false;
    assert_int_equal(k->a.queue->ops->append(k->a.queue, &r), PP_OK);
    pp_test_until(k->loop, pp_ingest_gate_holds, &k->a.gate, LONG_MS);
    k->a.own_gate.mode = GATE_SHUT;
    pp_ingest_gate_let_through(&k->a.gate);
    pp_test_until(k->loop, is_done, k, LONG_MS);
    assert_int_equal(r.req.err, PP_EIO);
    assert_int_equal(append(k, k->a.queue, "c", "b_2"), PP_EIO);
    assert_int_equal(append(k, k->a.queue, "d", "b_3"), PP_EIO);
    in_redis(k, "1");
    k->a.own_gate.mode = GATE_OPEN;
    r.entry.batch_id = "b_9";
    r.answer = "again";
    DUE(k, k->a.queue, append, &r, PP_EEXISTS);
    assert_memory_equal(r.old_answer, "first", 5);
    assert_int_equal(append(k, k->a.queue, "c", "b_4"), PP_OK);
    until_has(k, k->redis, 2);
    assert_int_equal(append(k, k->a.queue, "d", "b_5"), PP_OK);
    in_redis(k, "145");
    k->a.own_gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_7"), PP_EIO);
    k->a.own_gate.mode = GATE_OPEN;
    DUE(k, k->a.queue, append, &other, PP_OK); /* Neither queue knows the key, so node a accepts the entry. */
    until_has(k, k->redis, 5);
    in_redis(k, "14576");
    until_kept(k, &k->a, 3);
}

static void keys_in_the_journal_alone(void **state)
{
    struct kit *k = *state;
    k->a.gate.mode = GATE_SHUT;
    struct pp_ingest_append r = keyed("c", "b_1", "key", "first");
    DUE(k, k->a.queue, append, &r, PP_OK);
    for (int i = 0; i < 2; i++) {
        struct pp_ingest_append again = r;
        again.entry.batch_id = "b_2";
        DUE(k, k->a.queue, append, &again, PP_EEXISTS);
        assert_memory_equal(again.old_answer, "first", 5);
        again.body_hash[0] = 1;
        DUE(k, k->a.queue, append, &again, PP_EMISMATCH);
        close_node(&k->a);
        open_node(k, &k->a);
    }
    k->a.gate.mode = GATE_OPEN;
    until_has(k, k->redis, 1);
    in_redis(k, "1");
}

/* After a crash a client's batches wait in the journal. Redis has entries from before the crash:
 * they are the same batches, and their keys must be found. */
static void keys_in_redis_while_the_client_waits(void **state)
{
    struct kit *k = *state;
    struct pp_ingest_append r = keyed("c", "b_2", "key", "first");
    k->a.gate.mode = GATE_SHUT;
    assert_int_equal(append(k, k->a.queue, "c", "b_1"), PP_OK);
    close_node(&k->a);
    DUE(k, k->b.queue, append, &r, PP_OK);
    k->a.gate.mode = GATE_OPEN;
    open_node(k, &k->a);
    r.entry.batch_id = "b_3";
    r.answer = "again";
    DUE(k, k->a.queue, append, &r, PP_EEXISTS);
    assert_memory_equal(r.old_answer, "first", 5);
    until_has(k, k->redis, 2);
    in_redis(k, "21");
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(refused_by_inner),
        T(keys_of_other_nodes),
        T(a_batch_of_a_crashed_node_is_kept),
        T(a_batch_of_a_crashed_node_is_kept_in_doubt),
        T(a_batch_of_a_crashed_node_is_gone),
        T(nothing_is_kept_before_redis_has_answered),
        T(a_node_that_was_stopped_accepts_nothing),
        T(a_late_append_while_inner_is_away),
        T(a_late_append_that_own_gets_first),
        T(the_journal_cannot_be_written),
        T(keys_in_the_journal_alone),
        T(keys_in_redis_while_the_client_waits),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
