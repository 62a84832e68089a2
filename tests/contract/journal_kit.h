/* journal_kit.h: two nodes, each with a journal in front of Redis, and a direct look into Redis and
 * into the journals' files. */
#ifndef PP_TEST_JOURNAL_KIT_H
#define PP_TEST_JOURNAL_KIT_H

#include <hiredis/hiredis.h>
#include <setjmp.h>
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
#include "test_loop.h"

enum { LONG_MS = 30000, CHECK_MS = 20 };

static inline const char *place(void)
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

static inline enum pp_err open_sqlite(struct pp_loop *loop, const char *where, const char *what,
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

static inline enum pp_err open_redis(struct pp_loop *loop, const char *url, const char *prefix,
                                     struct pp_ingest_queue **out)
{
    return pp_redis_ingest_queue_open(
        loop,
        &(struct pp_redis_ingest_options){
            .url = url, .prefix = prefix, .patience_ms = 100, .timeout_ms = 2000},
        out);
}

/* An answer of these tests names its batch if it is the batch id. */
static inline bool batch_of(const char *answer, size_t n, char batch_id[PP_BATCH_ID_MAX])
{
    snprintf(batch_id, PP_BATCH_ID_MAX, "%.*s", (int)n, answer);
    return strncmp(batch_id, "b_", 2) == 0;
}

static inline enum pp_err open_journal(struct pp_loop *loop, struct pp_ingest_queue *inner,
                                       struct pp_ingest_queue *own, struct pp_ingest_queue **out)
{
    const struct pp_journal_options options = {
        .inner = inner, .own = own, .check_ms = CHECK_MS, .batch_of = batch_of};
    return pp_journal_queue_open(loop, &options, out);
}

/* Opens the journal's file first. Once that succeeds, the journal that was closed before has
 * returned its entries to Redis. */
static inline enum pp_err open_over_redis(struct pp_loop *loop, const char *where,
                                          struct pp_ingest_queue **out)
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

static inline void open_node(struct kit *k, struct node *n)
{
    struct pp_ingest_queue *inner, *own;
    assert_int_equal(open_redis(k->loop, k->server->url, k->prefix, &inner), PP_OK);
    assert_int_equal(open_sqlite(k->loop, n->where, "own", &own), PP_OK);
    inner = pp_ingest_gate_open(&n->gate, k->loop, inner);
    own = pp_ingest_gate_open(&n->own_gate, k->loop, own);
    assert_int_equal(open_journal(k->loop, inner, own, &n->queue), PP_OK);
}

static inline void close_node(struct node *n)
{
    n->queue->ops->close(n->queue);
}

static inline int open_kit(void **state)
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

static inline int close_kit(void **state)
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

static inline void on_done(struct pp_req *req)
{
    ((struct kit *)req->data)->done = true;
}

static inline bool is_done(void *arg)
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

static inline struct pp_ingest_append entry(const char *client, const char *batch, const char *payload)
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
static inline struct pp_ingest_append keyed(const char *client, const char *batch, const char *key,
                                            const char *answer)
{
    struct pp_ingest_append r = entry(client, batch, batch);
    r.key = key;
    r.answer = answer;
    r.answer_n = strlen(answer);
    return r;
}

static inline enum pp_err append(struct kit *k, struct pp_ingest_queue *q, const char *client,
                                 const char *batch)
{
    struct pp_ingest_append r = entry(client, batch, batch);
    RUN(k, q, append, &r);
    return r.req.err;
}

static inline uint64_t entries(struct kit *k, struct pp_ingest_queue *q)
{
    struct pp_ingest_stats r = {.entries = 99};
    DUE(k, q, stats, &r, PP_OK);
    return r.entries;
}

/* Asserts that Redis has exactly these entries in this order, given as the last characters of their
 * ids, that no planner has taken one, and that their payloads are whole. */
static inline void in_redis(struct kit *k, const char *due)
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

static inline void stats_came(struct pp_req *req)
{
    struct want *w = req->data;
    w->right = req->err == PP_OK && w->r.entries == w->n;
    w->busy = false;
    pp_arena_fini(&w->arena);
}

static inline bool has_n(void *arg)
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

static inline void until_has(struct kit *k, struct pp_ingest_queue *q, uint64_t n)
{
    struct want w = {.k = k, .q = q, .n = n};
    pp_test_until(k->loop, has_n, &w, LONG_MS);
}

/* --- the entries in the file of a node's journal --- */

struct kept {
    const char *where;
    int due;
};

static inline bool keeps(void *arg)
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

static inline void until_kept(struct kit *k, const struct node *n, int due)
{
    struct kept w = {n->where, due};
    pp_test_until(k->loop, keeps, &w, LONG_MS);
}

#endif
