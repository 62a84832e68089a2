/* Tests redis+sentinel:// against a real sentinel. Most tests tell the sentinel where the master is
 * (SENTINEL MONITOR), so they need not wait until it finds out. With PP_FAIL_OVER=1 in the
 * environment, another test kills the master. */
#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_look.h"
#include "redis_server.h"
#include "test_loop.h"

enum { LONG_MS = 180000 /* longer than a sentinel rests (TILT) on a machine that stood still */ };

/* Two servers, of which one is the master at first, and a sentinel. */
struct group {
    struct redis_server master, replica, sentinel;
    char file[300], url[200];
};

/* Starts the servers. The sentinel takes a server for down after down_ms without an answer. */
static void start(struct group *g, int down_ms)
{
    char of[40];
    *g = (struct group){0};
    redis_server_start(&g->master);
    snprintf(of, sizeof of, "127.0.0.1 %u", g->master.port);
    g->replica.options[0] = "--replicaof";
    g->replica.options[1] = of;
    g->replica.options[2] = "--repl-diskless-sync-delay";
    g->replica.options[3] = "0";
    redis_server_start(&g->replica);
    snprintf(g->file, sizeof g->file, "%s/sentinel.conf", pp_test_tmpdir());
    FILE *f = fopen(g->file, "w");
    assert_non_null(f);
    fprintf(f,
            "sentinel monitor m 127.0.0.1 %u 1\n"
            "sentinel down-after-milliseconds m %d\n"
            "sentinel failover-timeout m 5000\n",
            g->master.port, down_ms);
    fclose(f);
    g->sentinel.file = g->file;
    g->sentinel.options[0] = "--sentinel";
    redis_server_start(&g->sentinel);
    /* the first sentinel is not there */
    snprintf(g->url, sizeof g->url, "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/m/1", pp_test_port(),
             g->sentinel.port);
}

static void stop(struct group *g)
{
    redis_server_kill(&g->sentinel);
    redis_server_kill(&g->replica);
    redis_server_kill(&g->master);
}

/* Makes the sentinel name another server. */
static void name(struct group *g, const struct redis_server *s)
{
    char words[80];
    redis_server_do(&g->sentinel, "SENTINEL REMOVE m");
    snprintf(words, sizeof words, "SENTINEL MONITOR m 127.0.0.1 %u 1", s->port);
    redis_server_do(&g->sentinel, words);
}

/* Returns true if the server holds the key. */
static bool has(const struct redis_server *s, const char *key)
{
    redisContext *c = redisConnect("127.0.0.1", s->port);
    assert_true(c && !c->err);
    freeReplyObject(redisCommand(c, "SELECT 1"));
    redisReply *r = redisCommand(c, "EXISTS %s", key);
    bool yes = r && r->integer == 1;
    freeReplyObject(r);
    redisFree(c);
    return yes;
}

/* --- a connection --- */

struct kit {
    struct pp_loop *loop;
    struct pp_redis *r;
    const char *key;
    bool pending, written; /* a SET is in flight; one has succeeded */
    size_t begun, pushes;  /* how often the subscription began; its messages */
};

static void on_answer(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct kit *k = data;
    (void)reply;
    k->pending = false;
    k->written |= err == PP_OK;
}

/* Sends one SET after the other, until one succeeds. */
static bool is_written(void *arg)
{
    struct kit *k = arg;
    const char *argv[] = {"SET", k->key, "v"};
    if (!k->pending && !k->written) {
        assert_int_equal(pp_redis_command(k->r, 3, argv, NULL, on_answer, k), PP_OK);
        k->pending = true;
    }
    return k->written;
}

static void write_key(struct kit *k, const char *key)
{
    k->key = key;
    k->written = false;
    pp_test_until(k->loop, is_written, k, LONG_MS);
}

static void on_push(void *data, const char *message, size_t n)
{
    struct kit *k = data;
    (void)n;
    k->begun += !message;
    k->pushes += message != NULL;
}

static bool has_begun(void *arg)
{
    return ((struct kit *)arg)->begun > 0;
}

static bool has_begun_again(void *arg)
{
    return ((struct kit *)arg)->begun > 1;
}

static bool has_push(void *arg)
{
    return ((struct kit *)arg)->pushes > 0;
}

static void open_kit(struct kit *k, const char *url)
{
    const struct pp_redis_options o = {.url = url};
    *k = (struct kit){.loop = pp_loop_open()};
    assert_int_equal(pp_redis_open(k->loop, &o, &k->r), PP_OK);
}

static void close_kit(struct kit *k)
{
    pp_redis_close(k->r);
    pp_loop_close(k->loop);
}

/* --- tests --- */

static void says(const char *url, const char *reason)
{
    struct pp_loop *loop = pp_loop_open();
    struct pp_redis_look look;
    char why[PP_REDIS_WHY_MAX];
    enum pp_err err = pp_redis_look(loop, url, LONG_MS, &look, why);
    if (reason ? err != PP_EIO || !strstr(why, reason) : err != PP_OK)
        fail_msg("%d: %s", err, why);
    assert_null(strstr(why, "hunter2"));
    pp_loop_close(loop);
}

/* The master changes while both servers run. The old one refuses writes, or closes connections. */
static void follows_the_master(void **state)
{
    struct group g;
    struct kit k;
    char url[300], words[60];
    (void)state;
    start(&g, 600000);
    says(g.url, NULL);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%u/other", g.sentinel.port);
    says(url, "no master called other");
    snprintf(url, sizeof url, "redis+sentinel://:hunter2@127.0.0.1:%u/m", g.sentinel.port);
    says(url, "AUTH"); /* the sentinel without a password names the master, which refuses the login */

    open_kit(&k, g.url);
    assert_int_equal(pp_redis_subscribe(k.r, "c", on_push, &k), PP_OK);
    write_key(&k, "before");
    assert_true(has(&g.master, "before"));
    pp_test_until(k.loop, has_begun, &k, LONG_MS);

    snprintf(words, sizeof words, "REPLICAOF 127.0.0.1 %u", g.replica.port);
    redis_server_do(&g.replica, "REPLICAOF NO ONE");
    redis_server_do(&g.master, words);
    says(g.url, "not the master (ROLE says slave)"); /* the sentinel is late */
    name(&g, &g.replica);
    write_key(&k, "after");
    assert_true(has(&g.replica, "after"));
    pp_test_until(k.loop, has_begun_again, &k, LONG_MS);
    redis_server_do(&g.replica, "PUBLISH c hi");
    pp_test_until(k.loop, has_push, &k, LONG_MS);
    close_kit(&k);
    stop(&g);
}

/* Returns true if the sentinel has heard from the replica, so that it can make it the master. */
static bool knows_the_replica(void *arg)
{
    struct group *g = arg;
    bool known = false;
    redisReply *r = redis_server_ask(&g->sentinel, "SENTINEL REPLICAS m"),
               *info = redis_server_ask(&g->replica, "INFO replication");
    for (size_t i = 0; r->elements == 1 && i + 1 < r->element[0]->elements; i += 2)
        known |=
            strcmp(r->element[0]->element[i]->str, "runid") == 0 && r->element[0]->element[i + 1]->len > 0;
    known = known && info->str && strstr(info->str, "master_link_status:up");
    freeReplyObject(r);
    freeReplyObject(info);
    return known;
}

/* The master is killed; the sentinel notices it and makes the replica the master. */
static void survives_a_fail_over(void **state)
{
    struct group g;
    struct kit k;
    (void)state;
    start(&g, 300);
    open_kit(&k, g.url);
    write_key(&k, "before");
    pp_test_until(k.loop, knows_the_replica, &g, LONG_MS);
    redis_server_kill(&g.master);
    write_key(&k, "after");
    assert_true(has(&g.replica, "after"));
    close_kit(&k);
    stop(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(follows_the_master)},
                            slow[] = {cmocka_unit_test(survives_a_fail_over)};
    int failed = cmocka_run_group_tests_name("redis+sentinel://", tests, NULL, NULL);
    /* takes some 8 s: a sentinel does nothing at once */
    if (getenv("PP_FAIL_OVER"))
        failed += cmocka_run_group_tests_name("fail-over", slow, NULL, NULL);
    return failed;
}
