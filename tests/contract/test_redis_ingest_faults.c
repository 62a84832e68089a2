/* Tests the ingest queue on Redis with faults: answers are lost, connections are cut, or Redis is
 * killed, wiped, full, or one node of several. */
#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "suite_redis_kit.h"
#include "test_loop.h"

/* --- lost answers --- */

static void a_take_whose_answer_was_lost(void **state)
{
    (void)state;
    struct redis_server s = {0};
    redis_server_start(&s);
    struct rik *k = rik_open_with(&s, 1, (struct pp_redis_ingest_options){.timeout_ms = 300});
    rik_takes(k, 0, 1, ""); /* This take makes Redis load the script. */
    rik_append(k, 0, "c", "b_1");
    rik_append(k, 0, "c", "b_2");
    redis_server_freeze(&s);
    struct pp_ingest_take r = rik_take_request(0, 1);
    RIK_SUBMIT(k, 0, take, &r);
    RIK_WAIT(k, 0);
    assert_int_equal(r.req.err, PP_ETIMEOUT);
    assert_int_equal(r.n, 0);
    redis_server_thaw(&s);
    struct pp_ingest_entry e = rik_take_at_last(k, 0);
    assert_string_equal(e.batch_id, "b_1");
    assert_int_equal(e.deliveries, 2);
    rik_takes(k, 0, 9, "2");
    rik_close_kit(k);
    redis_server_kill(&s);
}

/* Turns the loop until a request is refused because there is no connection. */
static void until_given_up(struct rik *k)
{
    struct pp_ingest_get g;
    do {
        int left = 1;
        g = (struct pp_ingest_get){.req = {.done = rik_count_down, .data = &left, .arena = &k->arena},
                                   .batch_id = "b_1"};
        assert_int_equal(k->q[0]->ops->get(k->q[0], &g), PP_OK);
        while (left)
            pp_loop_turn(k->loop, true);
    } while (g.req.err != PP_EIO);
}

/* Redis does the append, but its answer is lost. The queue sends the append again: the entry exists
 * once, and the caller gets the answer. */
static void an_append_whose_answer_was_lost(void **state)
{
    (void)state;
    struct redis_server s = {0};
    redis_server_start(&s);
    struct rik *k =
        rik_open_with(&s, 1, (struct pp_redis_ingest_options){.timeout_ms = 300, .patience_ms = RIK_LONG_MS});
    rik_append(k, 0, "c", "b_0"); /* This append makes Redis load the script. */
    for (int with_key = 0; with_key < 2; with_key++) {
        struct pp_ingest_append r = rik_entry("c", with_key ? "b_2" : "b_1");
        r.key = with_key ? "key" : NULL;
        r.answer = "the answer";
        r.answer_n = 10;
        redis_server_freeze(&s);
        RIK_SUBMIT(k, 0, append, &r);
        uint64_t before = rik_sent(k, 0, "ingest_append");
        while (rik_sent(k, 0, "ingest_append") == before) /* Waits until the request is sent. */
            pp_loop_turn(k->loop, true);
        until_given_up(k);
        redis_server_thaw(&s);
        RIK_WAIT(k, 0);
        assert_int_equal(r.req.err, PP_OK);
    }
    assert_int_equal(rik_stats(k, 0).entries, 3);
    rik_takes(k, 0, 9, "012");
    rik_close_kit(k);
    redis_server_kill(&s);
}

/* Appends entries while Redis restarts. No call must fail, and no entry must be lost. */
struct writer {
    struct rik *k;
    struct pp_ingest_append r;
    struct pp_arena arena;
    char id[16];
    int next, step, end, done, failed;
};

static void written(struct pp_req *req);

static void write_next(struct writer *w)
{
    snprintf(w->id, sizeof w->id, "b_%06d", w->next);
    w->r = rik_entry("c", w->id);
    w->r.req = (struct pp_req){.done = written, .data = w, .arena = &w->arena};
    assert_int_equal(w->k->q[0]->ops->append(w->k->q[0], &w->r), PP_OK);
}

static void written(struct pp_req *req)
{
    struct writer *w = req->data;
    w->failed += req->err != PP_OK;
    w->done++;
    w->next += w->step;
    if (w->next < w->end)
        write_next(w);
}

static void redis_is_restarted(void **state)
{
    (void)state;
    enum { WRITERS = 8, N = 400 };
    struct redis_server s = {0};
    redis_server_start(&s);
    struct rik *k = rik_open_with(&s, 1, (struct pp_redis_ingest_options){.patience_ms = RIK_LONG_MS});
    struct writer w[WRITERS];
    int done = 0, killed = 0;
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct writer){.k = k, .next = i, .step = WRITERS, .end = N};
        pp_arena_init(&w[i].arena, 0);
        write_next(&w[i]);
    }
    while (done < N) {
        pp_loop_turn(k->loop, true);
        done = 0;
        for (int i = 0; i < WRITERS; i++)
            done += w[i].done;
        if (done >= (killed + 1) * N / 4 && killed < 3) {
            redis_server_kill(&s);
            redis_server_restart(&s);
            killed++;
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(w[i].failed, 0);
        pp_arena_fini(&w[i].arena);
    }
    assert_int_equal(rik_stats(k, 0).entries, N);
    assert_int_equal(rik_stats(k, 0).photos, 10 * N);
    rik_close_kit(k);
    redis_server_kill(&s);
}

/* --- large entries --- */

/* Connections are cut while the queue sends and reads the parts of an entry. The entry is whole or
 * absent. */
static void large_ones_and_cut_connections(void **state)
{
    (void)state;
    enum { N = 4 << 20 };
    struct redis_server s = {0};
    redis_server_start(&s);
    struct rik *k = rik_open_with(&s, 1, (struct pp_redis_ingest_options){.patience_ms = RIK_LONG_MS});
    char *payload = rik_noise(N), id[16];
    int there = 0;
    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "b_%d", i);
        struct pp_ingest_append r = rik_entry("c", id);
        r.entry.payload = payload;
        r.entry.payload_n = N;
        uint64_t before = rik_sent(k, 0, "ingest_part");
        RIK_SUBMIT(k, 0, append, &r);
        while (!k->done && rik_sent(k, 0, "ingest_part") < before + 2 + (uint64_t)i)
            pp_loop_turn(k->loop, true);
        redis_server_do(&s, "CLIENT KILL TYPE normal SKIPME yes");
        RIK_WAIT(k, 0);
        assert_int_equal(r.req.err, PP_OK);
        there++;
    }
    assert_int_equal(rik_stats(k, 0).entries, there);
    for (int i = 0; i < there; i++) {
        struct pp_ingest_take t = rik_take_request(0, 1);
        uint64_t before = rik_sent(k, 0, "HGET");
        RIK_SUBMIT(k, 0, take, &t);
        while (!k->done && rik_sent(k, 0, "HGET") < before + 3 && i == 0)
            pp_loop_turn(k->loop, true);
        if (i == 0)
            redis_server_do(&s, "CLIENT KILL TYPE normal SKIPME yes");
        RIK_WAIT(k, 0);
        struct pp_ingest_entry e = t.req.err == PP_OK && t.n ? t.entries[0] : rik_take_at_last(k, 0);
        assert_int_equal(e.payload_n, N);
        assert_memory_equal(e.payload, payload, N);
        rik_ack(k, 0, e.batch_id);
        pp_arena_fini(&k->arena);
        pp_arena_init(&k->arena, 0);
    }
    free(payload);
    rik_close_kit(k);
    redis_server_kill(&s);
}

/* Parts whose entry was never appended expire. No part exceeds the limit of a part. */
static void parts_without_an_entry_expire(void **state)
{
    (void)state;
    enum { N = 3 << 20 };
    struct redis_server s = {0};
    char words[200];
    redis_server_start(&s);
    struct rik *k = rik_open_with(&s, 2, (struct pp_redis_ingest_options){.patience_ms = 1});
    char *payload = rik_noise(N);
    struct pp_ingest_append r = rik_entry("c", "b_1");
    r.entry.payload = payload;
    r.entry.payload_n = N;
    RIK_SUBMIT(k, 0, append, &r);
    while (rik_sent(k, 0, "ingest_part") < 3)
        pp_loop_turn(k->loop, true);
    rik_close_planner(k, 0); /* The planner closes while it sends the parts of the entry. */
    assert_true(k->done);
    assert_int_not_equal(r.req.err, PP_OK);
    assert_int_equal(rik_stats(k, 1).entries, 0);
    snprintf(words, sizeof words, "TTL {%s}:parts:b_1", k->prefix);
    assert_in_range(redis_server_number(&s, words), 1, 3600);
    RIK_DUE(k, 1, append, &r, PP_OK);
    assert_int_equal(redis_server_number(&s, words), -1);
    snprintf(words, sizeof words, "HSTRLEN {%s}:parts:b_1 0", k->prefix);
    assert_in_range(redis_server_number(&s, words), 1, (512 << 10) - 1);
    /* The queue is full, so the planner must not send the payload of this entry. */
    r.high_water = 5;
    r.entry.batch_id = "b_2";
    uint64_t before = rik_sent(k, 1, "ingest_part");
    RIK_DUE(k, 1, append, &r, PP_EFULL);
    assert_int_equal(rik_sent(k, 1, "ingest_part"), before);
    rik_ack(k, 1, "b_1");
    free(payload);
    rik_close_kit(k);
    redis_server_kill(&s);
}

/* --- Redis loses data --- */

/* Redis has lost a payload, by eviction or because an operator deleted it. The planner gets the
 * entry without a payload, and sets it aside. */
static void a_payload_that_is_gone(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    char *payload = rik_noise(1 << 20), words[200];
    struct pp_ingest_append r = rik_entry("c", "b_1");
    r.entry.payload = payload;
    r.entry.payload_n = 1 << 20;
    RIK_DUE(k, 0, append, &r, PP_OK);
    rik_append(k, 0, "c", "b_2");
    rik_append(k, 0, "d", "b_3");
    snprintf(words, sizeof words, "HDEL {%s}:parts:b_1 1", k->prefix);
    redis_server_do(k->server, words);
    snprintf(words, sizeof words, "XTRIM {%s}:stream MAXLEN = 1", k->prefix);
    redis_server_do(k->server, words);
    struct pp_ingest_take t = rik_take_request(0, 9);
    RIK_DUE(k, 0, take, &t, PP_OK);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.entries[0].payload_n, 0);
    assert_int_equal(t.entries[1].payload_n, 0);
    assert_int_equal(t.entries[2].payload_n, 3);
    for (int i = 0; i < 2; i++) {
        struct pp_ingest_poison bad = {.batch_id = t.entries[i].batch_id, .reason = "damaged"};
        RIK_DUE(k, 0, poison, &bad, PP_OK);
    }
    rik_ack(k, 0, "b_3");
    assert_int_equal(rik_stats(k, 0).entries, 0);
    assert_int_equal(rik_stats(k, 0).photos, 0);
    free(payload);
    rik_close_kit(k);
}

/* The stream in Redis has a line that photopool did not write. A planner must continue with the
 * other entries. */
static void a_line_that_makes_no_sense(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    char words[200];
    rik_append(k, 0, "c", "b_1");
    rik_append(k, 0, "c", "b_2");
    rik_append(k, 0, "d", "b_3");
    snprintf(words, sizeof words, "HSET {%s}:meta b_1 nonsense", k->prefix);
    redis_server_do(k->server, words);
    rik_takes(k, 0, 9, "23");
    rik_ack(k, 0, "b_1");
    rik_ack(k, 0, "b_2");
    rik_ack(k, 0, "b_3");
    rik_takes(k, 0, 9, "");
    rik_close_kit(k);
}

/* All keys in Redis are deleted while a planner works. */
static void wiped(void **state)
{
    (void)state;
    struct redis_server s = {0};
    redis_server_start(&s);
    struct rik *k = rik_open_with(&s, 2, (struct pp_redis_ingest_options){.silence_ms = 300});
    rik_append(k, 0, "c", "b_1");
    rik_append(k, 0, "c", "b_2");
    rik_takes(k, 0, 1, "1");
    redis_server_do(&s, "FLUSHALL");
    redis_server_do(&s, "SCRIPT FLUSH");
    uint64_t before = rik_sent(k, 0, "ingest_refresh");
    while (rik_sent(k, 0, "ingest_refresh") == before)
        pp_loop_turn(k->loop, true);
    rik_takes(k, 0, 9, "");
    rik_takes(k, 1, 9, "");
    assert_int_equal(rik_stats(k, 0).entries, 0);
    rik_append(k, 0, "c", "b_3");
    rik_ack(k, 0, "b_1");
    assert_int_equal(rik_stats(k, 0).entries, 1);
    rik_takes(k, 1, 9, "3");
    rik_close_kit(k);
    redis_server_kill(&s);
}

/* Only the consumer group in Redis is deleted. Planners get entries again that were already
 * taken. */
static void the_group_is_made_anew(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    char words[200];
    rik_append(k, 0, "c", "b_1");
    rik_append(k, 0, "c", "b_2");
    rik_append(k, 0, "d", "b_3");
    rik_takes(k, 0, 1, "1");
    snprintf(words, sizeof words, "XGROUP DESTROY {%s}:stream planners", k->prefix);
    redis_server_do(k->server, words);
    rik_takes(k, 1, 9, "123");
    rik_close_kit(k);
}

static void memory_is_full(void **state)
{
    (void)state;
    struct redis_server s = {.options = {"--maxmemory", "4mb"}};
    redis_server_start(&s);
    struct rik *k = rik_open_with(&s, 1, (struct pp_redis_ingest_options){0});
    char *payload = rik_noise(1 << 20), id[16];
    enum pp_err err = PP_OK;
    int n = 0;
    for (; err == PP_OK && n < 100; n++) {
        snprintf(id, sizeof id, "b_%d", n);
        struct pp_ingest_append r = rik_entry("c", id);
        r.entry.payload = payload;
        r.entry.payload_n = 400 << 10;
        RIK_SUBMIT(k, 0, append, &r);
        RIK_WAIT(k, 0);
        err = r.req.err;
    }
    assert_int_equal(err, PP_ENOSPC);
    assert_int_equal(rik_stats(k, 0).entries, n - 1);
    free(payload);
    rik_close_kit(k);
    redis_server_kill(&s);
}

/* --- Redis Cluster --- */

static bool cluster_is_up(struct redis_server *s)
{
    struct redisReply *r = redis_server_ask(s, "CLUSTER INFO");
    bool up = r->str && strstr(r->str, "cluster_state:ok") && strstr(r->str, "cluster_known_nodes:2");
    freeReplyObject(r);
    return up;
}

static void one_node_of_several(void **state)
{
    (void)state;
    struct redis_server s[2] = {{.options = {"--cluster-enabled", "yes"}},
                                {.options = {"--cluster-enabled", "yes"}}};
    char words[200];
    redis_server_start(&s[0]);
    redis_server_start(&s[1]);
    redis_server_do(&s[0], "CLUSTER ADDSLOTSRANGE 0 8191");
    redis_server_do(&s[1], "CLUSTER ADDSLOTSRANGE 8192 16383");
    snprintf(words, sizeof words, "CLUSTER MEET 127.0.0.1 %u", s[1].port);
    redis_server_do(&s[0], words);
    struct rik *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->loop = pp_loop_open();
    while (!cluster_is_up(&s[0]) || !cluster_is_up(&s[1]))
        pp_loop_turn(k->loop, true);
    pp_arena_init(&k->arena, 0);
    int on[2] = {0};
    /* The planner connects to the first node, whichever node has the keys. */
    for (int i = 0; i < 6; i++) {
        k->prefix = rik_place();
        k->server = &s[0];
        rik_open_planner(k, 0, (struct pp_redis_ingest_options){0});
        rik_watch(k, 0);
        for (int j = 0; j < 4; j++) { /* All of these entries go to the queue at once. */
            char id[16];
            snprintf(id, sizeof id, "b_%d", j);
            rik_append(k, 0, "c", id);
        }
        while (k->woken[0] == 0)
            pp_loop_turn(k->loop, true);
        rik_takes(k, 0, 9, "0123");
        snprintf(words, sizeof words, "CLUSTER KEYSLOT {%s}:stream", k->prefix);
        on[redis_server_number(&s[0], words) > 8191]++;
        rik_close_planner(k, 0);
    }
    assert_true(on[0] > 0 && on[1] > 0);
    rik_close_kit(k);
    redis_server_kill(&s[0]);
    redis_server_kill(&s[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_take_whose_answer_was_lost),
        cmocka_unit_test(an_append_whose_answer_was_lost),
        cmocka_unit_test(redis_is_restarted),
        cmocka_unit_test(large_ones_and_cut_connections),
        cmocka_unit_test(parts_without_an_entry_expire),
        cmocka_unit_test(a_payload_that_is_gone),
        cmocka_unit_test(a_line_that_makes_no_sense),
        cmocka_unit_test(wiped),
        cmocka_unit_test(the_group_is_made_anew),
        cmocka_unit_test(memory_is_full),
        cmocka_unit_test(one_node_of_several),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("redis ingest queue, faults", tests, NULL, NULL);
}
