/* Tests that the journal in front of a shared ingest queue keeps the queue's contract, over SQLite
 * and over Redis. In more tests the shared queue is unreachable, loses answers, refuses entries, or
 * loses all data. */
#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/journal/journal_queue.h"
#include "adapter/redis/redis_ports.h"
#include "adapter/sqlite/sqlite_store.h"
#include "base/arena.h"
#include "base/list.h"
#include "redis_server.h"
#include "suite_ingest_gate.h"
#include "suite_ingest_queue.h"
#include "test_clock.h"
#include "test_loop.h"

enum { LONG_MS = 30000, CHECK_MS = 20 };

static const char *place(void)
{
    static char places[128][300];
    static const char *dir;
    static int n;
    if (!dir)
        dir = pp_test_tmpdir();
    assert_true(n < 128);
    snprintf(places[n], sizeof places[n], "%s/journal-%d", dir, n);
    return places[n++];
}

static enum pp_err open_sqlite(struct pp_loop *loop, const char *where, const char *what,
                               struct pp_ingest_queue **out)
{
    char path[400];
    enum pp_err err;
    snprintf(path, sizeof path, "%s-%s.db", where, what);
    /* A queue that was closed with requests in flight still has its file open for a moment. */
    while ((err = pp_sqlite_ingest_queue_open(loop, path, out)) == PP_EBUSY)
        pp_loop_turn(loop, true);
    return err;
}

static enum pp_err open_redis(struct pp_loop *loop, const char *url, const char *prefix,
                              struct pp_ingest_queue **out)
{
    return pp_redis_ingest_queue_open(
        loop,
        &(struct pp_redis_ingest_options){
            .url = url, .prefix = prefix, .patience_ms = 100, .timeout_ms = 2000},
        out);
}

/* An answer of these tests names its batch if it is the batch id. */
static bool batch_of(const char *answer, size_t n, char batch_id[PP_BATCH_ID_MAX])
{
    snprintf(batch_id, PP_BATCH_ID_MAX, "%.*s", (int)n, answer);
    return strncmp(batch_id, "b_", 2) == 0;
}

static enum pp_err open_journal(struct pp_loop *loop, struct pp_ingest_queue *inner,
                                struct pp_ingest_queue *own, struct pp_ingest_queue **out)
{
    const struct pp_journal_options options = {
        .inner = inner, .own = own, .check_ms = CHECK_MS, .batch_of = batch_of};
    return pp_journal_queue_open(loop, &options, out);
}

static enum pp_err open_over_sqlite(struct pp_loop *loop, const char *where, struct pp_ingest_queue **out)
{
    struct pp_ingest_queue *own, *inner;
    enum pp_err err = open_sqlite(loop, where, "own", &own);
    if (err == PP_OK)
        err = open_sqlite(loop, where, "inner", &inner);
    return err == PP_OK ? open_journal(loop, inner, own, out) : err;
}

/* Opens the journal's file first. Once that succeeds, the journal that was closed before has
 * returned its entries to Redis. */
static enum pp_err open_over_redis(struct pp_loop *loop, const char *where, struct pp_ingest_queue **out)
{
    struct pp_ingest_queue *own, *inner;
    enum pp_err err = open_sqlite(loop, where, "own", &own);
    if (err == PP_OK)
        err = open_redis(loop, redis_server_shared()->url, strrchr(where, '/') + 1, &inner);
    return err == PP_OK ? open_journal(loop, inner, own, out) : err;
}

/* --- two nodes, each with a journal, and a direct look into Redis --- */

struct node {
    const char *where;
    /* gate: in front of Redis; own_gate: in front of the journal's file */
    struct gate_keeper gate, own_gate;
    struct pp_ingest_queue *queue;
};

struct kit {
    struct pp_loop *loop;
    struct redis_server *server;
    const char *prefix;
    struct node a, b;
    struct pp_ingest_queue *redis; /* Redis without a gate, to see what it has */
    struct pp_arena arena;
    bool done;
};

static void open_node(struct kit *k, struct node *n)
{
    struct pp_ingest_queue *inner, *own;
    assert_int_equal(open_redis(k->loop, k->server->url, k->prefix, &inner), PP_OK);
    assert_int_equal(open_sqlite(k->loop, n->where, "own", &own), PP_OK);
    inner = pp_ingest_gate_open(&n->gate, k->loop, inner);
    own = pp_ingest_gate_open(&n->own_gate, k->loop, own);
    assert_int_equal(open_journal(k->loop, inner, own, &n->queue), PP_OK);
}

static void close_node(struct node *n)
{
    n->queue->ops->close(n->queue);
}

static int open_kit(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->loop = pp_loop_open();
    k->server = redis_server_shared();
    k->a.where = place();
    k->b.where = place();
    k->prefix = strrchr(k->a.where, '/') + 1;
    pp_arena_init(&k->arena, 0);
    open_node(k, &k->a);
    open_node(k, &k->b);
    assert_int_equal(open_redis(k->loop, k->server->url, k->prefix, &k->redis), PP_OK);
    *state = k;
    return 0;
}

static int close_kit(void **state)
{
    struct kit *k = *state;
    close_node(&k->a);
    close_node(&k->b);
    k->redis->ops->close(k->redis);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

static void on_done(struct pp_req *req)
{
    ((struct kit *)req->data)->done = true;
}

static bool is_done(void *arg)
{
    return ((struct kit *)arg)->done;
}

#define RUN(k, queue_, op, r)                                                           \
    do {                                                                                \
        (r)->req = (struct pp_req){.done = on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                              \
        assert_int_equal((queue_)->ops->op((queue_), (r)), PP_OK);                      \
        pp_test_until((k)->loop, is_done, (k), LONG_MS);                                \
    } while (0)
#define DUE(k, queue_, op, r, due)                                        \
    do {                                                                  \
        RUN(k, queue_, op, r);                                            \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)

static struct pp_ingest_append entry(const char *client, const char *batch, const char *payload)
{
    return (struct pp_ingest_append){.entry = {.batch_id = batch,
                                               .client = client,
                                               .created_at = 1000 + atoi(batch + 2),
                                               .n_items = 2,
                                               .n_photos = 10,
                                               .payload = payload,
                                               .payload_n = strlen(payload)},
                                     .now_ms = 5000};
}

/* Returns an append with an Idempotency-Key and the answer stored under it. */
static struct pp_ingest_append keyed(const char *client, const char *batch, const char *key,
                                     const char *answer)
{
    struct pp_ingest_append r = entry(client, batch, batch);
    r.key = key;
    r.answer = answer;
    r.answer_n = strlen(answer);
    return r;
}

static enum pp_err append(struct kit *k, struct pp_ingest_queue *q, const char *client, const char *batch)
{
    struct pp_ingest_append r = entry(client, batch, batch);
    RUN(k, q, append, &r);
    return r.req.err;
}

static uint64_t entries(struct kit *k, struct pp_ingest_queue *q)
{
    struct pp_ingest_stats r = {.entries = 99};
    DUE(k, q, stats, &r, PP_OK);
    return r.entries;
}

/* Asserts that Redis has exactly these entries in this order, given as the last characters of their
 * ids, that no planner has taken one, and that their payloads are whole. */
static void in_redis(struct kit *k, const char *due)
{
    char ids[64] = "";
    struct pp_ingest_queue *q;
    assert_int_equal(open_redis(k->loop, k->server->url, k->prefix, &q), PP_OK);
    struct pp_ingest_take r = {.consumer = "looker", .limit = 50, .max_bytes = SIZE_MAX};
    DUE(k, q, take, &r, PP_OK);
    for (size_t i = 0; i < r.n; i++) {
        assert_int_equal(r.entries[i].payload_n, strlen(r.entries[i].batch_id));
        assert_memory_equal(r.entries[i].payload, r.entries[i].batch_id, r.entries[i].payload_n);
        strcat(ids, r.entries[i].batch_id + 2);
    }
    assert_string_equal(ids, due);
    q->ops->close(q); /* Closing the queue returns the taken entries to it. */
}

struct want {
    struct kit *k;
    struct pp_ingest_queue *q;
    uint64_t n;
    bool busy, right;
    struct pp_ingest_stats r;
    struct pp_arena arena;
};

static void stats_came(struct pp_req *req)
{
    struct want *w = req->data;
    w->right = req->err == PP_OK && w->r.entries == w->n;
    w->busy = false;
    pp_arena_fini(&w->arena);
}

static bool has_n(void *arg)
{
    struct want *w = arg;
    if (w->right || w->busy)
        return w->right;
    w->busy = true;
    pp_arena_init(&w->arena, 0);
    w->r.req = (struct pp_req){.done = stats_came, .data = w, .arena = &w->arena};
    assert_int_equal(w->q->ops->stats(w->q, &w->r), PP_OK);
    return false;
}

static void until_has(struct kit *k, struct pp_ingest_queue *q, uint64_t n)
{
    struct want w = {.k = k, .q = q, .n = n};
    pp_test_until(k->loop, has_n, &w, LONG_MS);
}

/* --- the entries in the file of a node's journal --- */

struct kept {
    const char *where;
    int due;
};

static bool keeps(void *arg)
{
    const struct kept *w = arg;
    char path[400];
    sqlite3 *db;
    sqlite3_stmt *st;
    snprintf(path, sizeof path, "%s-own.db", w->where);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM entries", -1, &st, NULL), SQLITE_OK);
    bool right = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int(st, 0) == w->due;
    sqlite3_finalize(st);
    sqlite3_close(db);
    return right;
}

static void until_kept(struct kit *k, const struct node *n, int due)
{
    struct kept w = {n->where, due};
    pp_test_until(k->loop, keeps, &w, LONG_MS);
}

/* --- the tests --- */

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
    char id[50][8];
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
