/* Tests the connection to Redis: errors when answers are lost or servers stop, restart or change;
 * scripts; subscriptions; the clock. */
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

#include "adapter/redis/redis_conn.h"
#include "adapter/redis/redis_internal.h"
#include "adapter/redis/redis_look.h"
#include "redis_server.h"
#include "test_loop.h"

enum { LONG_MS = 30000 };

struct answer {
    bool done;
    enum pp_err err;
    int type;
    long long number;
    char text[200];
};

struct kit {
    struct pp_loop *loop;
    struct pp_redis *r;
    int ups, downs;
};

static void on_state(void *data, bool up)
{
    struct kit *k = data;
    k->ups += up;
    k->downs += !up;
}

static void open_kit(struct kit *k, struct pp_redis_options o)
{
    *k = (struct kit){.loop = pp_loop_open()};
    o.on_state = on_state;
    o.data = k;
    assert_int_equal(pp_redis_open(k->loop, &o, &k->r), PP_OK);
}

static void close_kit(struct kit *k)
{
    pp_redis_close(k->r);
    pp_loop_close(k->loop);
}

static void on_answer(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct answer *a = data;
    assert_false(a->done);
    a->done = true;
    a->err = err;
    a->type = reply ? reply->type : 0;
    a->number = reply ? reply->integer : 0;
    snprintf(a->text, sizeof a->text, "%s", reply && reply->str ? reply->str : "");
}

static bool is_done(void *arg)
{
    return ((struct answer *)arg)->done;
}

static bool is_up(void *arg)
{
    return pp_redis_up(((struct kit *)arg)->r);
}

static bool is_down(void *arg)
{
    return !is_up(arg);
}

static enum pp_err command(struct kit *k, struct answer *a, const char *w1, const char *w2, const char *w3)
{
    const char *argv[] = {w1, w2, w3};
    *a = (struct answer){0};
    return pp_redis_command(k->r, w3 ? 3 : w2 ? 2 : 1, argv, NULL, on_answer, a);
}

static struct answer ask(struct kit *k, const char *w1, const char *w2, const char *w3)
{
    struct answer a;
    assert_int_equal(command(k, &a, w1, w2, w3), PP_OK);
    /* The connection must never call the callback before the function returns. */
    assert_false(a.done);
    pp_test_until(k->loop, is_done, &a, LONG_MS);
    return a;
}

static void urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host, *user, *password;
        int port, db; /* expected values of a good URL; port 0: the URL is refused */
    } cases[] = {
        {"redis://h", "h", "", "", 6379, 0},
        {"redis://h:1", "h", "", "", 1, 0},
        {"redis://h:65535/15", "h", "", "", 65535, 15},
        {"redis://h/", "h", "", "", 6379, 0},
        {"redis://:p@h", "h", "", "p", 6379, 0},
        {"redis://u:p%40%2f@h:7/2", "h", "u", "p@/", 7, 2},
        {"redis://u:a@b:c@h", "h", "u", "a@b:c", 6379, 0},
        {"redis://[::1]", "::1", "", "", 6379, 0},
        {"redis://[::1]:7", "::1", "", "", 7, 0},
        {"redis://u:p@[fe80::1]:7/1", "fe80::1", "u", "p", 7, 1},
        {"rediss://h", "h", "", "", 6379, 0},
        {"rediss://u:p@h:1/2", "h", "u", "p", 1, 2},
        {"rediss://:p%3f@h/2?ca=/etc/a.pem", "h", "", "p?", 6379, 2},
        {"rediss://[::1]:7?cert=c&key=k", "::1", "", "", 7, 0},
        {"rediss://h:7/?ca=%20/a%26b&cert=c&key=k", "h", "", "", 7, 0},
        {"", 0},
        {"redis://", 0},
        {"redis:h", 0},
        {"redis+sentinel://", 0},
        {"redis+sentinel://h", 0},
        {"redis+sentinel://h/", 0},
        {"redis+sentinel:///m", 0},
        {"redis+sentinel://h,/m", 0},
        {"redis+sentinel://,h/m", 0},
        {"redis+sentinel://h,,i/m", 0},
        {"redis+sentinel://h:0/m", 0},
        {"redis+sentinel://h:x,i/m", 0},
        {"redis+sentinel://h/m/x", 0},
        {"redis+sentinel://h/m/1/2", 0},
        {"redis+sentinel://u@h/m", 0},
        {"redis+sentinel://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q/m", 0},
        {"redis://h?ca=a", 0},
        {"redis://h?1", 0},
        {"redis://h/1?ca=a", 0},
        {"rediss://", 0},
        {"rediss://?ca=a", 0},
        {"rediss://h?ca", 0},
        {"rediss://h?ca=", 0},
        {"rediss://h?ca=a&ca=b", 0},
        {"rediss://h?cert=c", 0},
        {"rediss://h?key=k", 0},
        {"rediss://h?xy=z", 0},
        {"rediss://h?=z", 0},
        {"rediss://h/123456789?ca=a", 0},
        {"redis:///1", 0},
        {"http://h", 0},
        {"redis://h:0", 0},
        {"redis://h:65536", 0},
        {"redis://h:", 0},
        {"redis://h:x", 0},
        {"redis://:7", 0},
        {"redis://h/x", 0},
        {"redis://h/1/2", 0},
        {"redis://h/-1", 0},
        {"redis://u@h", 0},
        {"redis://u:@h", 0},
        {"redis://:%4@h", 0},
        {"redis://:%zz@h", 0},
        {"redis://:%00@h", 0},
        {"redis://[::1", 0},
        {"redis://::1]", 0},
        {"redis://::1", 0},
        {"redis://[::1]x", 0},
        {"redis://[::1]x:7", 0},
        {"redis://[]", 0},
        {"redis://h h", 0},
        {"redis://h\n", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pp_redis_address a;
        enum pp_err err = pp_redis_parse_url(cases[i].url, &a);
        if (err != (cases[i].port ? PP_OK : PP_EINVAL))
            fail_msg("%s", cases[i].url);
        if (err != PP_OK)
            continue;
        assert_string_equal(a.host, cases[i].host);
        assert_string_equal(a.user, cases[i].user);
        assert_string_equal(a.password, cases[i].password);
        assert_int_equal(a.port, cases[i].port);
        assert_int_equal(a.db, cases[i].db);
    }
    char host[600] = "redis://";
    memset(host + 8, 'h', 500);
    struct pp_redis_address a;
    assert_int_equal(pp_redis_parse_url(host, &a), PP_EINVAL);
}

static void urls_of_sentinels(void **state)
{
    static const struct {
        const char *url, *password, *master, *hosts[4];
        int ports[4], db;
    } cases[] = {
        {"redis+sentinel://a/m", "", "m", {"a"}, {26379}, 0},
        {"redis+sentinel://a,b:1,[::1],[::2]:7/m",
         "",
         "m",
         {"a", "b", "::1", "::2"},
         {26379, 1, 26379, 7},
         0},
        {"redis+sentinel://u:p%2f,@a:1,b:2/my%20m/3", "p/,", "my m", {"a", "b"}, {1, 2}, 3},
        {"redis+sentinel://:p@a/m/", "p", "m", {"a"}, {26379}, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct pp_redis_address a;
        size_t n = 0;
        assert_int_equal(pp_redis_parse_url(cases[i].url, &a), PP_OK);
        for (; n < 4 && cases[i].hosts[n]; n++) {
            assert_string_equal(a.sentinels[n].host, cases[i].hosts[n]);
            assert_int_equal(a.sentinels[n].port, cases[i].ports[n]);
        }
        assert_int_equal(a.n_sentinels, n);
        assert_string_equal(a.password, cases[i].password);
        assert_string_equal(a.master, cases[i].master);
        assert_int_equal(a.db, cases[i].db);
    }
}

/* --- a healthy server --- */

static void answers_come_in_order(void **state)
{
    (void)state;
    struct kit k;
    struct answer a[200];
    char n[8];
    open_kit(&k, (struct pp_redis_options){.url = redis_server_shared()->url});
    /* The first commands are submitted before there is a connection. */
    for (int i = 0; i < 200; i++) {
        if (i == 100)
            pp_test_until(k.loop, is_up, &k, LONG_MS);
        snprintf(n, sizeof n, "%d", i);
        assert_int_equal(command(&k, &a[i], "ECHO", n, NULL), PP_OK);
    }
    pp_test_until(k.loop, is_done, &a[199], LONG_MS);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(a[i].err, PP_OK);
        assert_int_equal(atoi(a[i].text), i);
    }
    assert_int_equal(k.ups, 1);
    close_kit(&k);
}

static void refusals_and_bytes(void **state)
{
    (void)state;
    struct kit k;
    open_kit(&k, (struct pp_redis_options){.url = redis_server_shared()->url});
    struct answer a = ask(&k, "GET", NULL, NULL);
    assert_int_equal(a.err, PP_EIO);
    assert_non_null(strstr(a.text, "wrong number"));
    const char *argv[] = {"SET", "t:bytes", "a\0b\r\n"};
    const size_t lens[] = {3, 7, 5};
    a = (struct answer){0};
    assert_int_equal(pp_redis_command(k.r, 3, argv, lens, on_answer, &a), PP_OK);
    pp_test_until(k.loop, is_done, &a, LONG_MS);
    assert_int_equal(a.err, PP_OK);
    assert_int_equal(redis_server_number(redis_server_shared(), "STRLEN t:bytes"), 5);
    close_kit(&k);
}

static void what_a_server_says_of_itself(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    struct pp_redis_look look;
    char why[PP_REDIS_WHY_MAX], url[64];
    assert_int_equal(pp_redis_look(loop, redis_server_shared()->url, LONG_MS, &look, why), PP_OK);
    assert_true(atoi(look.server.version) >= 6);
    assert_false(pp_redis_server_old(&look.server) || pp_redis_server_evicts(&look.server));
    assert_true(strlen(look.server.aof) > 0 && strlen(look.server.fsync) > 0);
    /* The server runs on this machine, so its clock is read between the two moments. */
    assert_true(look.clock_ms >= look.asked_ms - 2 && look.clock_ms <= look.heard_ms + 2);
    assert_int_equal(pp_redis_look(loop, "http://127.0.0.1", LONG_MS, &look, why), PP_EINVAL);
    snprintf(url, sizeof url, "redis://u:secret@127.0.0.1:%u", pp_test_port());
    assert_int_equal(pp_redis_look(loop, url, LONG_MS, &look, why), PP_EIO);
    assert_non_null(strstr(why, "refused"));
    assert_null(strstr(why, "secret"));
    snprintf(url, sizeof url, "redis://u:secret@%s", redis_server_shared()->url + strlen("redis://"));
    assert_int_equal(pp_redis_look(loop, url, LONG_MS, &look, why), PP_EIO);
    assert_null(strstr(why, "secret"));
    pp_loop_close(loop);
}

/* Old and careless servers are recognised by their words. */
static void words_of_servers(void **state)
{
    static const struct {
        const char *info, *fsync, *durability;
        bool old, evicts;
    } cases[] = {
        {"redis_version:6.0.16\r\naof_enabled:0\r\n", "", "appendonly is off", true, false},
        {"redis_version:6.2.0\r\naof_enabled:1\r\n", "always", "syncs each write", false, false},
        {"redis_version:7.0.15\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n", "everysec",
         "the last seconds", false, false},
        {"redis_version:7.0.15\r\nmaxmemory_policy:allkeys-lru\r\n", "", "does not say", false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_redis_server s = {.version = ""};
        pp_redis_server_read(&s, cases[i].info);
        snprintf(s.fsync, sizeof s.fsync, "%s", cases[i].fsync);
        assert_int_equal(pp_redis_server_old(&s), cases[i].old);
        assert_int_equal(pp_redis_server_evicts(&s), cases[i].evicts);
        assert_non_null(strstr(pp_redis_server_durability(&s), cases[i].durability));
    }
}

static void bounded(void **state)
{
    (void)state;
    struct kit k;
    struct answer a[4];
    open_kit(&k, (struct pp_redis_options){.url = redis_server_shared()->url, .max_in_flight = 3});
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            assert_int_equal(command(&k, &a[i], "PING", NULL, NULL), PP_OK);
        assert_int_equal(command(&k, &a[3], "PING", NULL, NULL), PP_EFULL);
        pp_test_until(k.loop, is_done, &a[2], LONG_MS);
        assert_false(a[3].done);
    }
    close_kit(&k);
}

static void scripts_are_sent_once_and_again(void **state)
{
    (void)state;
    static const unsigned char sum[] = "return #KEYS * 10 + #ARGV[1]",
                               bad[] = "return redis.call('SET', KEYS[1])";
    static const struct pp_redis_script t = {"sum", sum, sizeof sum - 1,
                                             "3e89385f224126fc9acab4d15d3436a9dee04e68"},
                                        s = {"bad", bad, sizeof bad - 1,
                                             "b2ff587b7a308d63c678b5092e6d854d12908911"};
    struct redis_server *server = redis_server_shared();
    struct kit k;
    open_kit(&k, (struct pp_redis_options){.url = server->url});
    for (int round = 0; round < 3; round++) {
        struct answer a[50];
        char arg[50];
        memset(arg, 'x', sizeof arg);
        redis_server_do(server, "SCRIPT FLUSH SYNC");
        /* These calls are sent together, so several of them may find that Redis has lost the
         * script. */
        for (size_t i = 0; i < 50; i++) {
            struct pp_redis_call call = {0};
            pp_redis_call_begin(&call, "sum", &t);
            pp_redis_put_text(&call, "k1");
            pp_redis_put_text(&call, "k2");
            pp_redis_call_keys_end(&call);
            if (i % 2) {
                pp_redis_put(&call, arg, i);
            } else {
                pp_buf_put(pp_redis_word_open(&call), arg, i);
                pp_redis_word_close(&call);
            }
            a[i] = (struct answer){0};
            assert_int_equal(pp_redis_send(k.r, &call, on_answer, &a[i]), PP_OK);
            pp_redis_call_fini(&call);
        }
        for (size_t i = 0; i < 50; i++) {
            pp_test_until(k.loop, is_done, &a[i], LONG_MS);
            assert_int_equal(a[i].err, PP_OK);
            assert_int_equal(a[i].number, 20 + i);
        }
    }
    const char *name;
    uint64_t n, sums = 0;
    for (size_t i = 0; pp_redis_roundtrips(k.r, i, &name, &n); i++)
        sums += strcmp(name, "sum") == 0 ? n : 0;
    assert_in_range(sums, 150 + 3, 300);
    struct answer a = {0};
    struct pp_redis_call call = {0};
    pp_redis_call_begin(&call, "bad", &s);
    pp_redis_put_text(&call, "k");
    pp_redis_call_keys_end(&call);
    assert_int_equal(pp_redis_send(k.r, &call, on_answer, &a), PP_OK);
    pp_redis_call_fini(&call);
    pp_test_until(k.loop, is_done, &a, LONG_MS);
    assert_int_equal(a.err, PP_EIO);
    close_kit(&k);
}

static void login_and_database(void **state)
{
    (void)state;
    struct redis_server s = {.options = {"--requirepass", "se cret"}};
    struct kit k;
    char url[100];
    /* The fixture's answers() sends no password, so the test sets the password after the start. */
    s.options[0] = NULL;
    redis_server_start(&s);
    redis_server_do(&s, "ACL SETUSER joe on >pw%d ~* +@all");
    redis_server_do(&s, "CONFIG SET requirepass secret");
    static const struct {
        const char *login;
        bool ok;
    } cases[] = {{":secret@", true},
                 {"joe:pw%25d@", true},
                 {"default:secret@", true},
                 {":wrong@", false},
                 {"", false}};
    for (size_t i = 0; i < 5; i++) {
        snprintf(url, sizeof url, "redis://%s127.0.0.1:%u/3", cases[i].login, s.port);
        open_kit(&k, (struct pp_redis_options){.url = url});
        struct answer a = ask(&k, "SET", "k", "v");
        assert_int_equal(a.err, cases[i].ok ? PP_OK : PP_EIO);
        assert_int_equal(k.ups, cases[i].ok);
        if (cases[i].ok)
            assert_string_equal(ask(&k, "DBSIZE", NULL, NULL).err == PP_OK ? "1" : "", "1");
        close_kit(&k);
    }
    snprintf(url, sizeof url, "redis://:secret@127.0.0.1:%u/4", s.port);
    open_kit(&k, (struct pp_redis_options){.url = url});
    assert_int_equal(ask(&k, "DBSIZE", NULL, NULL).number, 0);
    close_kit(&k);
    redis_server_kill(&s);
}

static void the_clock(void **state)
{
    (void)state;
    struct kit k;
    open_kit(&k, (struct pp_redis_options){.url = redis_server_shared()->url});
    pp_test_until(k.loop, is_up, &k, LONG_MS);
    /* Redis runs on the same machine, so the offset is at most the duration of the call. */
    assert_in_range(llabs((pp_redis_now(k.r) - pp_loop_wall(k.loop))), 0, LONG_MS);
    close_kit(&k);
}

/* Readings of Redis' clock narrow its offset down. After a clock was set, the new reading
 * counts. */
static void readings_of_the_clock(void **state)
{
    (void)state;
    struct kit k;
    open_kit(&k, (struct pp_redis_options){.url = redis_server_shared()->url});
    static const struct {
        int64_t took, ahead,
            /* All in ms. took: the duration of the call; ahead: how far Redis' clock is ahead in
             * the middle of the call; due: the offset that must count afterwards. */
            due;
    } cases[] = {{100, 5030, 5030}, {10, 5001, 5001},  {100, 5040, 5001}, {4, 4999, 4999},
                 {4, 9000, 9000},   {500, 9100, 9000}, {500, 9400, 9400}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char s[32], us[32];
        int64_t wall = pp_loop_wall(k.loop), at = wall - cases[i].took / 2 + cases[i].ahead;
        snprintf(s, sizeof s, "%lld", (long long)(at / 1000));
        snprintf(us, sizeof us, "%lld", (long long)(at % 1000 * 1000));
        redisReply parts[2] = {{.type = REDIS_REPLY_STRING, .str = s},
                               {.type = REDIS_REPLY_STRING, .str = us}};
        redisReply *elements[] = {&parts[0], &parts[1]},
                   reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};
        pp_redis_clock_set(k.r, wall - cases[i].took, &reply);
        assert_int_equal((pp_redis_now(k.r) - pp_loop_wall(k.loop)), cases[i].due);
    }
    close_kit(&k);
}

/* --- a server that fails --- */

static void no_server(void **state)
{
    (void)state;
    char url[64];
    struct kit k;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", pp_test_port());
    open_kit(&k, (struct pp_redis_options){.url = url});
    /* The first command waits for the attempt to connect. The other two fail immediately. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(&k, "PING", NULL, NULL).err, PP_EIO);
    assert_int_equal(k.ups + k.downs, 0);
    close_kit(&k);
    open_kit(&k, (struct pp_redis_options){.url = "redis://no.such.host.invalid"});
    assert_int_equal(ask(&k, "PING", NULL, NULL).err, PP_EIO);
    close_kit(&k);
    open_kit(&k, (struct pp_redis_options){.url = "redis://no.such.host.invalid"});
    pp_loop_turn(k.loop, false);
    close_kit(&k); /* The connection closes while it resolves the name of the host. */
}

static void killed_and_back(void **state)
{
    (void)state;
    struct redis_server s = {0};
    struct kit k;
    struct answer a;
    redis_server_start(&s);
    open_kit(&k, (struct pp_redis_options){.url = s.url});
    assert_int_equal(ask(&k, "SET", "k", "v").err, PP_OK);
    redis_server_freeze(&s); /* The command below is sent, but the frozen server does not answer. */
    assert_int_equal(command(&k, &a, "GET", "k", NULL), PP_OK);
    for (int i = 0; i < 3; i++)
        pp_loop_turn(k.loop, false);
    redis_server_kill(&s);
    pp_test_until(k.loop, is_done, &a, LONG_MS);
    assert_int_equal(a.err, PP_EUNKNOWN);
    assert_int_equal(k.downs, 1);
    do
        a = ask(&k, "GET", "k", NULL);
    while (a.err == PP_EUNKNOWN);
    assert_int_equal(a.err, PP_EIO);
    redis_server_restart(&s);
    pp_test_until(k.loop, is_up, &k, LONG_MS);
    a = ask(&k, "GET", "k", NULL);
    assert_string_equal(a.text, "v");
    assert_int_equal(k.ups, 2);
    close_kit(&k);
    redis_server_kill(&s);
}

static void a_connection_cut_in_passing(void **state)
{
    (void)state;
    struct redis_server *s = redis_server_shared();
    struct kit k;
    open_kit(&k, (struct pp_redis_options){.url = s->url});
    for (int i = 0; i < 5; i++) {
        pp_test_until(k.loop, is_up, &k, LONG_MS);
        redis_server_do(s, "CLIENT KILL TYPE normal SKIPME yes");
        pp_test_until(k.loop, is_down, &k, LONG_MS);
        /* The command waits for the next connection. */
        assert_int_equal(ask(&k, "PING", NULL, NULL).err, PP_OK);
    }
    assert_int_equal(k.ups, 6);
    assert_int_equal(k.downs, 5);
    close_kit(&k);
}

/* Asks until there is an answer, because on a slow machine the connection's timeout may be too
 * short. */
static struct answer ask_at_last(struct kit *k, const char *w1, const char *w2, const char *w3)
{
    struct answer a;
    do
        a = ask(k, w1, w2, w3);
    while (a.err != PP_OK);
    return a;
}

static void frozen(void **state)
{
    (void)state;
    struct redis_server s = {0};
    struct kit k;
    struct answer a, b;
    redis_server_start(&s);
    open_kit(&k, (struct pp_redis_options){.url = s.url, .timeout_ms = 300});
    assert_int_equal(ask(&k, "PING", NULL, NULL).err, PP_OK);
    redis_server_freeze(&s);
    assert_int_equal(command(&k, &a, "INCR", "n", NULL), PP_OK);
    pp_test_until(k.loop, is_done, &a, LONG_MS);
    assert_int_equal(a.err, PP_ETIMEOUT);
    assert_int_equal(command(&k, &b, "INCR", "n", NULL), PP_OK);
    pp_test_until(k.loop, is_done, &b, LONG_MS);
    /* The command was not sent, because the connection had been given up. */
    assert_int_equal(b.err, PP_EIO);
    redis_server_thaw(&s);
    while (strcmp(ask_at_last(&k, "GET", "n", NULL).text, "1") != 0)
        ; /* The first INCR timed out, but Redis executes it. */
    close_kit(&k);
    redis_server_kill(&s);
}

/* The connection drops an answer that arrives after the timeout. */
static void late_answers_are_dropped(void **state)
{
    (void)state;
    struct redis_server *s = redis_server_shared();
    struct kit k;
    struct answer late;
    redis_server_do(s, "DEL t:list");
    open_kit(&k, (struct pp_redis_options){.url = s->url, .timeout_ms = 500});
    pp_test_until(k.loop, is_up, &k, LONG_MS);
    assert_int_equal(command(&k, &late, "BLPOP", "t:list", "0"), PP_OK);
    pp_test_until(k.loop, is_done, &late, LONG_MS);
    assert_int_not_equal(late.err, PP_OK);
    redis_server_do(s, "LPUSH t:list x");
    ask_at_last(&k, "PING", NULL, NULL);
    close_kit(&k);
    redis_server_do(s, "DEL t:list");
}

static void loading_is_not_up(void **state)
{
    (void)state;
    struct redis_server s = {0};
    struct kit k;
    redis_server_start(&s);
    open_kit(&k, (struct pp_redis_options){.url = s.url});
    assert_int_equal(ask(&k, "SET", "k", "v").err, PP_OK);
    /* From here on the server is a replica, which refuses writes. */
    redis_server_do(&s, "REPLICAOF 127.0.0.1 1");
    assert_int_equal(ask(&k, "SET", "k", "w").err, PP_EIO);
    /* The connection resolves the name again and finds the same server. */
    pp_test_until(k.loop, is_up, &k, LONG_MS);
    assert_true(k.ups >= 2);
    redis_server_do(&s, "REPLICAOF NO ONE");
    assert_int_equal(ask(&k, "SET", "k", "w").err, PP_OK);
    close_kit(&k);
    redis_server_kill(&s);
}

/* --- closing with commands in flight --- */

struct closer {
    struct kit *k;
    int called;
    enum pp_err errs[8];
};

static void close_now(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct closer *c = data;
    (void)reply;
    c->errs[c->called++] = err;
    if (c->k->r) {
        struct pp_redis *r = c->k->r;
        c->k->r = NULL;
        pp_redis_close(r);
        /* close() has called the callbacks of all four commands before it returned. */
        assert_int_equal(c->called, 4);
    }
}

static void closed_by_a_callback(void **state)
{
    (void)state;
    static const char *const ping[] = {"PING"};
    for (int how = 0; how < 3; how++) {
        struct redis_server s = {0};
        struct kit k;
        struct closer c = {.k = &k};
        redis_server_start(&s);
        open_kit(&k, (struct pp_redis_options){.url = s.url, .timeout_ms = how == 2 ? 300 : 0});
        pp_test_until(k.loop, is_up, &k, LONG_MS);
        if (how > 0)
            redis_server_freeze(&s);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pp_redis_command(k.r, 1, ping, NULL, close_now, &c), PP_OK);
        if (how == 1) { /* In this round the server dies, so the connection is lost. */
            for (int i = 0; i < 3; i++)
                pp_loop_turn(k.loop, false);
            redis_server_kill(&s);
        }
        while (c.called < 4)
            pp_loop_turn(k.loop, true);
        static const enum pp_err first[] = {PP_OK, PP_EUNKNOWN, PP_ETIMEOUT};
        assert_int_equal(c.errs[0], first[how]);
        assert_int_equal(c.errs[3], how == 2 ? PP_ETIMEOUT : PP_EUNKNOWN);
        pp_loop_close(k.loop);
        redis_server_kill(&s);
    }
}

static void closed_with_calls_left(void **state)
{
    (void)state;
    struct kit k;
    struct answer sent, waiting;
    open_kit(&k, (struct pp_redis_options){.url = redis_server_shared()->url});
    pp_test_until(k.loop, is_up, &k, LONG_MS);
    assert_int_equal(command(&k, &sent, "INCR", "t:closed", NULL), PP_OK);
    close_kit(&k);
    assert_true(sent.done);
    assert_int_equal(sent.err, PP_EUNKNOWN);
    open_kit(&k, (struct pp_redis_options){.url = redis_server_shared()->url});
    assert_int_equal(command(&k, &waiting, "PING", NULL, NULL), PP_OK);
    close_kit(&k);
    assert_int_equal(waiting.err, PP_ECLOSED);
    /* Commands that were submitted before the close must still be sent. */
    for (int i = 0; i < 4000; i++) {
        struct redisReply *r = redis_server_ask(redis_server_shared(), "GET t:closed");
        bool there = r->type == REDIS_REPLY_STRING && strcmp(r->str, "1") == 0;
        freeReplyObject(r);
        if (there)
            return;
    }
    fail();
}

/* --- subscriptions --- */

struct heard {
    int begun, n;
    char last[64];
};

static void on_push(void *data, const char *message, size_t n)
{
    struct heard *h = data;
    if (!message) {
        h->begun++;
        return;
    }
    h->n++;
    snprintf(h->last, sizeof h->last, "%.*s", (int)n, message);
}

static bool begun_once(void *arg)
{
    return ((struct heard *)arg)->begun == 1;
}

static bool begun_twice(void *arg)
{
    return ((struct heard *)arg)->begun == 2;
}

static bool heard_one(void *arg)
{
    return ((struct heard *)arg)->n == 1;
}

static bool heard_two(void *arg)
{
    return ((struct heard *)arg)->n == 2;
}

static void messages(void **state)
{
    (void)state;
    struct redis_server s = {0};
    struct kit k;
    struct heard a = {0}, b = {0};
    redis_server_start(&s);
    open_kit(&k, (struct pp_redis_options){.url = s.url});
    assert_int_equal(pp_redis_subscribe(k.r, "a", on_push, &a), PP_OK);
    pp_test_until(k.loop, begun_once, &a, LONG_MS);
    assert_int_equal(pp_redis_subscribe(k.r, "b", on_push, &b), PP_OK);
    pp_test_until(k.loop, begun_once, &b, LONG_MS);
    redis_server_do(&s, "PUBLISH a one");
    pp_test_until(k.loop, heard_one, &a, LONG_MS);
    assert_string_equal(a.last, "one");
    redis_server_do(&s, "CLIENT KILL TYPE pubsub");
    pp_test_until(k.loop, begun_twice, &a, LONG_MS);
    pp_test_until(k.loop, begun_twice, &b, LONG_MS);
    redis_server_do(&s, "PUBLISH a two");
    redis_server_do(&s, "PUBLISH b three");
    pp_test_until(k.loop, heard_two, &a, LONG_MS);
    pp_test_until(k.loop, heard_one, &b, LONG_MS);
    assert_string_equal(b.last, "three");
    assert_int_equal(ask(&k, "PING", NULL, NULL).err, PP_OK);
    for (int i = 2; i < PP_REDIS_CHANNELS; i++)
        assert_int_equal(pp_redis_subscribe(k.r, "c", on_push, &b), PP_OK);
    assert_int_equal(pp_redis_subscribe(k.r, "d", on_push, &b), PP_EFULL);
    close_kit(&k);
    redis_server_kill(&s);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls),
        cmocka_unit_test(urls_of_sentinels),
        cmocka_unit_test(answers_come_in_order),
        cmocka_unit_test(refusals_and_bytes),
        cmocka_unit_test(what_a_server_says_of_itself),
        cmocka_unit_test(words_of_servers),
        cmocka_unit_test(bounded),
        cmocka_unit_test(scripts_are_sent_once_and_again),
        cmocka_unit_test(login_and_database),
        cmocka_unit_test(the_clock),
        cmocka_unit_test(readings_of_the_clock),
        cmocka_unit_test(no_server),
        cmocka_unit_test(killed_and_back),
        cmocka_unit_test(a_connection_cut_in_passing),
        cmocka_unit_test(frozen),
        cmocka_unit_test(late_answers_are_dropped),
        cmocka_unit_test(loading_is_not_up),
        cmocka_unit_test(closed_by_a_callback),
        cmocka_unit_test(closed_with_calls_left),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests_name("redis connection", tests, NULL, NULL);
}
