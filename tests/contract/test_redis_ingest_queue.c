/* Tests that the ingest queue on Redis keeps its contract. More tests have several planners, some
 * of them silent or idle; the keys in Redis; and the durability of a 202. */
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

#include "base/clock.h"
#include "suite_ingest_queue.h"
#include "suite_redis_kit.h"
#include "test_loop.h"

static enum pp_err open_shared(struct pp_loop *loop, const char *prefix, struct pp_ingest_queue **out)
{
    return pp_redis_ingest_queue_open(
        loop, &(struct pp_redis_ingest_options){.url = redis_server_shared()->url, .prefix = prefix}, out);
}

static bool planner_1_is_woken(void *arg)
{
    return ((struct rik *)arg)->woken[1] > 0;
}

/* --- several planners --- */

static void a_client_is_planned_by_one(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    rik_append(k, 0, "c", "b_1");
    rik_append(k, 0, "c", "b_2");
    rik_append(k, 0, "d", "b_3");
    rik_append(k, 0, "c", "b_4");
    rik_takes(k, 0, 1, "1");
    rik_takes(k, 1, 9, "3");
    rik_takes(k, 1, 9, "");
    rik_takes(k, 0, 1, "2");
    rik_ack(k, 0, "b_1");
    rik_takes(k, 1, 9, "");
    rik_ack(k, 0, "b_2");
    rik_takes(k, 1, 9, "4");
    rik_takes(k, 0, 9, "");
    rik_close_kit(k);
}

/* A planner gets no entry, because another planner has an entry of the same client. It must wake up
 * once that entry is acked. */
static void a_free_client_wakes_a_planner(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    rik_append(k, 0, "c", "b_1");
    rik_takes(k, 0, 1, "1");
    rik_append(k, 0, "c", "b_2");
    rik_watch(k, 1);
    rik_settle(k, 1, 1);
    rik_ack(k, 0, "b_1");
    pp_test_until(k->loop, planner_1_is_woken, k, RIK_LONG_MS);
    rik_takes(k, 1, 9, "2");
    rik_close_kit(k);
}

static void one_is_woken_not_all(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 3, (struct pp_redis_ingest_options){0});
    for (int i = 0; i < 3; i++)
        rik_watch(k, i);
    rik_settle(k, 0, 2);
    uint64_t before =
        rik_sent(k, 0, "ingest_take") + rik_sent(k, 1, "ingest_take") + rik_sent(k, 2, "ingest_take");
    rik_append(k, 0, "c", "b_1");
    while (k->woken[0] + k->woken[1] + k->woken[2] == 0)
        pp_loop_turn(k->loop, true);
    for (int i = 0; i < 20; i++)
        pp_loop_turn(k->loop, true);
    assert_int_equal(k->woken[0] + k->woken[1] + k->woken[2], 1);
    assert_int_equal(rik_sent(k, 0, "ingest_take") + rik_sent(k, 1, "ingest_take") +
                         rik_sent(k, 2, "ingest_take"),
                     before);
    rik_close_kit(k);
}

/* Asserts that exactly one entry is taken, that this planner has it, and how often the queue has
 * delivered it. */
static void held_by(struct rik *k, const char *planner, long long deliveries)
{
    char words[200];
    snprintf(words, sizeof words, "XPENDING {%s}:stream planners - + 10", k->prefix);
    struct redisReply *r = redis_server_ask(k->server, words);
    assert_int_equal(r->elements, 1);
    assert_string_equal(r->element[0]->element[1]->str, planner);
    assert_int_equal(r->element[0]->element[3]->integer, deliveries);
    freeReplyObject(r);
}

/* A planner works on an entry for long. Its heartbeats keep the entry for it. */
static void slow_is_not_silent(void **state)
{
    (void)state;
    struct pp_redis_ingest_options o = {.silence_ms = 300};
    struct rik *k = rik_open_with(redis_server_shared(), 1, o);
    rik_append(k, 0, "c", "b_1");
    rik_takes(k, 0, 1, "1");
    while (rik_sent(k, 0, "ingest_refresh") < 5)
        pp_loop_turn(k->loop, true);
    rik_takes(k, 0, 1, "");
    held_by(k, "p0", 1);
    rik_ack(k, 0, "b_1");
    uint64_t before = rik_sent(k, 0, "ingest_refresh");
    /* While the planner has no entry it sends no heartbeat. */
    int64_t until = pp_loop_now(k->loop) + 300;
    while (pp_loop_now(k->loop) < until)
        pp_loop_turn(k->loop, true);
    assert_int_equal(rik_sent(k, 0, "ingest_refresh"), before);
    rik_close_kit(k);
}

/* A process that does not run for a while loses its entries to another one. When the process
 * continues, it may still finish its work. */
static void silent_ones_lose_what_they_have(void **state)
{
    (void)state;
    struct pp_redis_ingest_options o = {.silence_ms = 300};
    struct rik *k = rik_open_with(redis_server_shared(), 2, o);
    struct pp_loop *still = k->loops[0] = pp_loop_open();
    rik_close_planner(k, 0);
    rik_open_planner(k, 0, o);
    rik_append(k, 0, "c", "b_1");
    rik_append(k, 0, "c", "b_2");
    rik_takes(k, 0, 1, "1");
    rik_watch(k, 1); /* From here on the loop of planner 0 does not turn. */
    struct pp_ingest_entry e = rik_take_when_woken(k, 1);
    assert_string_equal(e.batch_id, "b_1");
    assert_int_equal(e.deliveries, 2);
    held_by(k, "p1", 2);
    uint64_t before = rik_sent(k, 0, "ingest_refresh");
    while (rik_sent(k, 0, "ingest_refresh") == before)
        pp_loop_turn(still, true);
    held_by(k, "p1", 2); /* The heartbeat of planner 0 must not take the entry back. */
    rik_ack(k, 0, "b_1");
    rik_ack(k, 1, "b_1");
    rik_takes(k, 1, 9, "2");
    rik_close_planner(k, 0);
    rik_close_kit(k);
    pp_loop_close(still);
}

/* A planner that closes returns its entries to the queue, and its deliveries are not counted. The
 * deliveries of a silent planner are counted. */
static void a_planner_that_closes_returns_its_entries(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 3, (struct pp_redis_ingest_options){0});
    rik_append(k, 0, "c", "b_1");
    rik_append(k, 0, "c", "b_2");
    rik_takes(k, 0, 9, "12");
    rik_takes(k, 1, 9, "");
    rik_close_planner(k, 0);
    struct pp_ingest_entry e = rik_take_at_last(k, 1);
    assert_string_equal(e.batch_id, "b_1");
    assert_int_equal(e.deliveries, 1);
    rik_takes(k, 1, 9, "2");
    rik_ack(k, 1, "b_2");
    char words[200];
    snprintf(words, sizeof words, "XPENDING {%s}:stream planners - + 1", k->prefix);
    struct redisReply *r = redis_server_ask(k->server, words);
    snprintf(words, sizeof words, "XCLAIM {%s}:stream planners p1 0 %s RETRYCOUNT 7", k->prefix,
             r->element[0]->element[0]->str);
    freeReplyObject(r);
    redis_server_do(k->server, words);
    rik_close_planner(k, 1);
    e = rik_take_at_last(k, 2);
    assert_string_equal(e.batch_id, "b_1");
    assert_int_equal(e.deliveries, 7);
    held_by(k, "p2", 7);
    rik_close_kit(k);
}

/* An idle planner sends no commands to Redis, and still wakes up for a new entry. */
static void an_idle_queue_is_not_polled(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    rik_watch(k, 0);
    rik_settle(k, 0, 0);
    uint64_t takes_before = rik_sent(k, 0, "ingest_take");
    int64_t until = pp_loop_now(k->loop) + 1500;
    while (pp_loop_now(k->loop) < until)
        pp_loop_turn(k->loop, true);
    assert_int_equal(k->woken[0], 0);
    assert_int_equal(rik_sent(k, 0, "ingest_take"), takes_before);
    rik_append(k, 0, "c", "b_1");
    while (k->woken[0] == 0)
        pp_loop_turn(k->loop, true);
    rik_takes(k, 0, 9, "1");
    rik_close_kit(k);
}

/* --- the keys in Redis --- */

/* --- the keys in Redis --- */

static void nothing_is_left(void **state)
{
    (void)state;
    struct redis_server s = {0};
    char id[16];
    redis_server_start(&s);
    struct rik *k = rik_open_with(&s, 1, (struct pp_redis_ingest_options){0});
    char *payload = rik_noise(1 << 20);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "b_%d", i);
        struct pp_ingest_append r = rik_entry(i % 2 ? "c" : "d", id);
        r.key = i < 2 ? "key" : NULL;
        r.entry.payload = payload;
        r.entry.payload_n = i % 3 ? 100 : 1 << 20;
        RIK_DUE(k, 0, append, &r, PP_OK);
        if (i % 4 == 0)
            rik_ack(k, 0, id); /* planner 0 may ack entries that no planner has taken */
    }
    struct pp_ingest_take t = rik_take_request(0, 100);
    RIK_DUE(k, 0, take, &t, PP_OK);
    assert_int_equal(t.n, 15);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "b_%d", i);
        rik_ack(k, 0, id);
    }
    rik_takes(k, 0, 9, "");
    struct redisReply *r = redis_server_ask(&s, "KEYS *");
    for (size_t i = 0; i < r->elements; i++) {
        char tag[64], words[300];
        snprintf(tag, sizeof tag, "{%s}:", k->prefix);
        const char *name = r->element[i]->str + strlen(tag);
        /* Every key begins with this tag, so one node of a cluster has all keys. */
        assert_memory_equal(r->element[i]->str, tag, strlen(tag));
        snprintf(words, sizeof words, "TTL %s", r->element[i]->str);
        if (strncmp(name, "done:", 5) == 0 || strncmp(name, "key:", 4) == 0 || strncmp(name, "keys:", 5) == 0)
            assert_in_range(redis_server_number(&s, words), 1, 2 * 86400);
        else if (strcmp(name, "stream") != 0 && strcmp(name, "state") != 0)
            fail_msg("%s is left", name);
    }
    freeReplyObject(r);
    char words[100];
    snprintf(words, sizeof words, "XLEN {%s}:stream", k->prefix);
    assert_int_equal(redis_server_number(&s, words), 0);
    assert_int_equal(rik_stats(k, 0).photos, 0);
    free(payload);
    rik_close_kit(k);
    redis_server_kill(&s);
}

static const char *text_of(struct redis_server *s, const char *words)
{
    static char text[500];
    struct redisReply *r = redis_server_ask(s, words);
    snprintf(text, sizeof text, "%s", r->str ? r->str : "");
    freeReplyObject(r);
    return text;
}

static void at_most_256_entries_are_set_aside(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    char id[16];
    for (int i = 0; i < 260; i++) {
        snprintf(id, sizeof id, "b_%03d", i);
        rik_append(k, 0, "c", id);
        struct pp_ingest_poison r = {.batch_id = id, .reason = "reasons with words"};
        RIK_DUE(k, 0, poison, &r, PP_OK);
    }
    assert_int_equal(rik_stats(k, 0).poisoned, 256);
    assert_int_equal(rik_stats(k, 0).entries, 0);
    struct pp_ingest_get g = {.batch_id = "b_003"};
    RIK_DUE(k, 0, get, &g, PP_ENOTFOUND);
    g.batch_id = "b_004";
    RIK_DUE(k, 0, get, &g, PP_OK);
    assert_string_equal(g.entry.client, "c");
    char words[200];
    snprintf(words, sizeof words, "HGET {%s}:parts:b_004 0", k->prefix);
    /* Redis keeps the payload of this entry for some days. */
    assert_true(text_of(k->server, words)[0]);
    snprintf(words, sizeof words, "TTL {%s}:parts:b_004", k->prefix);
    assert_in_range(redis_server_number(k->server, words), 86400, 8 * 86400);
    rik_close_kit(k);
}

/* An older version has written the reason into the entry's line. */
static void set_aside_by_an_older_version(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    char words[200];
    rik_append(k, 0, "c", "b_1");
    struct pp_ingest_poison r = {.batch_id = "b_1", .reason = "x"};
    RIK_DUE(k, 0, poison, &r, PP_OK);
    snprintf(words, sizeof words, "HDEL {%s}:state why:b_1", k->prefix);
    assert_int_equal(redis_server_number(k->server, words), 1);
    snprintf(words, sizeof words, "HGET {%s}:meta b_1", k->prefix);
    const char *meta = text_of(k->server, words);
    char line[600], key[200];
    snprintf(line, sizeof line, "%s the entry is damaged", meta);
    snprintf(key, sizeof key, "{%s}:meta", k->prefix);
    redisContext *c = redisConnect("127.0.0.1", k->server->port);
    assert_non_null(c);
    freeReplyObject(redisCommand(c, "HSET %s b_1 %s", key, line));
    redisFree(c);
    struct pp_ingest_list_aside l = {.limit = 9};
    RIK_DUE(k, 0, list_aside, &l, PP_OK);
    assert_int_equal(l.n, 1);
    assert_string_equal(l.entries[0].reason, "");
    assert_true(l.entries[0].since_ms > 1700000000000);
    struct pp_ingest_put_back b = {.batch_id = "b_1"};
    RIK_DUE(k, 0, put_back, &b, PP_OK);
    rik_takes(k, 0, 9, "1");
    rik_close_kit(k);
}

/* What an entry leaves that was set aside and put back: nothing that is not there for others. */
static void put_back_leaves_nothing(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    char words[200];
    char *payload = rik_noise(1 << 20);
    struct pp_ingest_append a = rik_entry("c", "b_1");
    a.entry.payload = payload;
    a.entry.payload_n = 1 << 20;
    RIK_DUE(k, 0, append, &a, PP_OK);
    rik_append(k, 0, "c", "b_2");
    for (int i = 1; i <= 2; i++) {
        struct pp_ingest_poison r = {.batch_id = i == 1 ? "b_1" : "b_2", .reason = "x"};
        struct pp_ingest_put_back b = {.batch_id = r.batch_id};
        RIK_DUE(k, 0, poison, &r, PP_OK);
        RIK_DUE(k, 0, put_back, &b, PP_OK);
        snprintf(words, sizeof words, "HEXISTS {%s}:state why:b_%d", k->prefix, i);
        assert_int_equal(redis_server_number(k->server, words), 0);
        snprintf(words, sizeof words, "TTL {%s}:parts:b_%d", k->prefix, i);
        /* -1: the parts of the large entry do not expire. -2: the small entry has none. */
        assert_int_equal(redis_server_number(k->server, words), i == 1 ? -1 : -2);
    }
    struct pp_ingest_take t = rik_take_request(0, 9);
    RIK_DUE(k, 0, take, &t, PP_OK);
    assert_int_equal(t.n, 2);
    assert_memory_equal(t.entries[0].payload, payload, 1 << 20);
    rik_ack(k, 0, "b_1");
    rik_ack(k, 0, "b_2");
    snprintf(words, sizeof words, "EXISTS {%s}:parts:b_1", k->prefix);
    assert_int_equal(redis_server_number(k->server, words), 0);
    free(payload);
    rik_close_kit(k);
}

static void planners_that_are_gone(void **state)
{
    (void)state;
    struct rik *k = rik_open_with(redis_server_shared(), 2, (struct pp_redis_ingest_options){0});
    char words[200];
    rik_append(k, 0, "c", "b_1");
    rik_takes(k, 0, 1, "1");
    rik_ack(k, 0, "b_1");
    rik_append(k, 0, "c", "b_2");
    rik_takes(k, 1, 1, "2");
    snprintf(words, sizeof words, "XINFO CONSUMERS {%s}:stream planners", k->prefix);
    struct pp_ingest_clean c = {.before_ms = 0};
    RIK_DUE(k, 0, clean, &c, PP_OK);
    struct redisReply *r = redis_server_ask(k->server, words);
    /* Both planners are still known, because neither was silent for long enough. */
    assert_int_equal(r->elements, 2);
    freeReplyObject(r);
    rik_close_kit(k);
}

/* --- the durability of a 202 --- */

static void says(struct redis_server *s, const char *url, const char *due)
{
    struct rik *k = rik_open_with(s, 1, (struct pp_redis_ingest_options){.url = url});
    assert_non_null(strstr(k->q[0]->ops->durability(k->q[0]), "not known"));
    while (strstr(k->q[0]->ops->durability(k->q[0]), "not known"))
        pp_loop_turn(k->loop, true);
    if (!strstr(k->q[0]->ops->durability(k->q[0]), due))
        fail_msg("%s", k->q[0]->ops->durability(k->q[0]));
    rik_close_kit(k);
}

/* Opens the queue of planner 0 in a process whose clock is ahead of Redis' by `ahead`. */
static void open_ahead(struct rik *k, int64_t ahead)
{
    rik_close_planner(k, 0);
    pp_clock_set_anchor(pp_clock_date_ms() - pp_clock_boot_ms() + ahead);
    rik_open_planner(k, 0, (struct pp_redis_ingest_options){0});
    (void)rik_stats(k, 0); /* the greeting has asked for Redis' clock */
}

/* The clock of the process that appends is two days behind Redis' clock, the clock of the process
 * that cleans is a day ahead of it, and a day ago is too old. */
static void clocks_need_not_agree(void **state)
{
    (void)state;
    const int64_t day = 86400000, anchor = pp_clock_anchor_ms();
    struct rik *k = rik_open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
    struct pp_ingest_append r = rik_entry("c", "b_1");
    r.key = "key";
    open_ahead(k, -2 * day);
    r.now_ms = pp_loop_wall(k->loop);
    RIK_DUE(k, 0, append, &r, PP_OK);
    open_ahead(k, day);
    struct pp_ingest_clean clean = {.before_ms = pp_loop_wall(k->loop) - day};
    RIK_DUE(k, 0, clean, &clean, PP_OK);
    RIK_DUE(k, 0, append, &r, PP_EEXISTS);
    r.entry.batch_id = "b_2";
    r.now_ms = pp_loop_wall(k->loop);
    RIK_DUE(k, 0, append, &r, PP_EEXISTS);
    /* Redis' clock was ahead by a month when somebody cleaned: no record is older than that. */
    clean.before_ms = pp_loop_wall(k->loop) + 30 * day;
    RIK_DUE(k, 0, clean, &clean, PP_OK);
    RIK_DUE(k, 0, append, &r, PP_EEXISTS);
    clean.before_ms = pp_loop_wall(k->loop) + 30000;
    RIK_DUE(k, 0, clean, &clean, PP_OK);
    RIK_DUE(k, 0, append, &r, PP_OK);
    rik_close_kit(k);
    pp_clock_set_anchor(anchor);
}

static void durability_is_reported(void **state)
{
    (void)state;
    struct redis_server s = {0};
    char url[100];
    redis_server_start(&s);
    says(&s, NULL, "syncs each write");
    redis_server_do(&s, "CONFIG SET appendfsync everysec");
    says(&s, NULL, "may lose the last seconds");
    redis_server_do(&s, "CONFIG SET maxmemory-policy allkeys-lru");
    says(&s, NULL, "may drop accepted batches when its memory is full (maxmemory-policy allkeys-lru)");
    redis_server_do(&s, "CONFIG SET maxmemory-policy noeviction");
    redis_server_do(&s, "ACL SETUSER joe on >pw ~* &* +@all -config");
    snprintf(url, sizeof url, "redis://joe:pw@127.0.0.1:%u", s.port);
    says(&s, url, "does not say how often");
    redis_server_do(&s, "CONFIG SET appendonly no");
    says(&s, NULL, "lost back to its last snapshot");
    redis_server_kill(&s);
}

/* --- closing --- */

static void closed_in_the_middle(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        struct rik *k = rik_open_with(redis_server_shared(), 1, (struct pp_redis_ingest_options){0});
        rik_append(k, 0, "c", "b_1");
        struct pp_ingest_append r = rik_entry("c", "b_2");
        struct pp_ingest_take t = rik_take_request(0, 1), u = rik_take_request(0, 1);
        struct pp_ingest_stats n = {0};
        int left = 4;
        struct pp_req req = {.done = rik_count_down, .data = &left, .arena = &k->arena};
        r.req = t.req = u.req = n.req = req;
        struct pp_ingest_queue *q = k->q[0];
        assert_int_equal(q->ops->append(q, &r), PP_OK);
        assert_int_equal(q->ops->take(q, &t), PP_OK);
        assert_int_equal(q->ops->take(q, &u), PP_OK);
        assert_int_equal(q->ops->stats(q, &n), PP_OK);
        for (int i = 0; i < turns; i++)
            pp_loop_turn(k->loop, false);
        rik_close_planner(k, 0);
        rik_close_kit(k);
        assert_int_equal(left, 0);
    }
}

static void wrong_options(void **state)
{
    (void)state;
    static const struct pp_redis_ingest_options bad[] = {{.url = "http://h"},
                                                         {.url = "redis://h", .prefix = ""},
                                                         {.url = "redis://h", .prefix = "a{b"},
                                                         {.url = "redis://h", .prefix = "a b"},
                                                         {.url = "redis://h", .prefix = "a\n"}};
    struct pp_loop *loop = pp_loop_open();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pp_ingest_queue *q;
        assert_int_equal(pp_redis_ingest_queue_open(loop, &bad[i], &q), PP_EINVAL);
    }
    pp_loop_close(loop);
}

int main(void)
{
    static const struct pp_ingest_subject subject = {"redis", rik_place, open_shared, false};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(a_client_is_planned_by_one),
        cmocka_unit_test(a_free_client_wakes_a_planner),
        cmocka_unit_test(one_is_woken_not_all),
        cmocka_unit_test(slow_is_not_silent),
        cmocka_unit_test(silent_ones_lose_what_they_have),
        cmocka_unit_test(a_planner_that_closes_returns_its_entries),
        cmocka_unit_test(an_idle_queue_is_not_polled),
        cmocka_unit_test(at_most_256_entries_are_set_aside),
        cmocka_unit_test(set_aside_by_an_older_version),
        cmocka_unit_test(put_back_leaves_nothing),
        cmocka_unit_test(nothing_is_left),
        cmocka_unit_test(planners_that_are_gone),
        cmocka_unit_test(clocks_need_not_agree),
        cmocka_unit_test(durability_is_reported),
        cmocka_unit_test(closed_in_the_middle),
        cmocka_unit_test(wrong_options),
    };
    signal(SIGPIPE, SIG_IGN);
    int failed = pp_suite_ingest_queue(&subject);
    return failed + cmocka_run_group_tests_name("redis's own", own, NULL, NULL);
}
