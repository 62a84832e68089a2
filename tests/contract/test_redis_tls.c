/* Tests rediss:// against a real server: answers of any size, subscriptions, reconnects, and whose
 * certificate is accepted. */
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
#include "raw_origin.h"
#include "redis_server.h"
#include "test_loop.h"

enum { LONG_MS = 30000, BIG = 3000000 };

/* A server with a TLS port beside the plain one. */
struct secure {
    struct redis_server s;
    char port[8], cert[300], key[300];
};

static void start(struct secure *t, enum pp_test_cert kind, const char *auth_clients)
{
    *t = (struct secure){0};
    const char *dir = pp_test_tmpdir();
    snprintf(t->port, sizeof t->port, "%u", pp_test_port());
    snprintf(t->cert, sizeof t->cert, "%s/cert.pem", dir);
    snprintf(t->key, sizeof t->key, "%s/key.pem", dir);
    pp_test_tls_files("127.0.0.1", kind, t->cert, t->key);
    const char *const options[] = {"--tls-port",         t->port,     "--tls-cert-file",    t->cert,
                                   "--tls-key-file",     t->key,      "--tls-ca-cert-file", pp_test_ca_file(),
                                   "--tls-auth-clients", auth_clients};
    memcpy(t->s.options, options, sizeof options);
    redis_server_start(&t->s);
}

/* Writes the URL of the server, with `more` at its end. */
static void url_of(const struct secure *t, char url[1000], const char *more)
{
    snprintf(url, 1000, "rediss://127.0.0.1:%s/1%s%s", t->port,
             *more == '?' ? "" : "?ca=", *more ? more : pp_test_ca_file());
}

/* --- a connection --- */

struct kit {
    struct pp_loop *loop;
    struct pp_redis *r;
    size_t answered, good, text_n; /* answers; those without an error; bytes of the last one */
    size_t pushes, begun;          /* messages of the channel; how often the subscription began */
};

static void open_kit(struct kit *k, const char *url)
{
    *k = (struct kit){.loop = pp_loop_open()};
    const struct pp_redis_options o = {.url = url};
    assert_int_equal(pp_redis_open(k->loop, &o, &k->r), PP_OK);
}

static void close_kit(struct kit *k)
{
    pp_redis_close(k->r);
    pp_loop_close(k->loop);
}

static void on_answer(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct kit *k = data;
    k->answered++;
    k->good += err == PP_OK;
    k->text_n = reply && reply->str ? (size_t)reply->len : 0;
}

static bool has_answers(void *arg)
{
    struct kit *k = arg;
    return k->answered == 0;
}

/* Sends a command and waits for its answer. Returns true if it has no error. */
static bool ask(struct kit *k, const char *w1, const char *w2, const char *w3)
{
    const char *argv[] = {w1, w2, w3};
    size_t good = k->good;
    k->answered = (size_t)-1; /* one answer makes it 0 */
    assert_int_equal(pp_redis_command(k->r, w3 ? 3 : w2 ? 2 : 1, argv, NULL, on_answer, k), PP_OK);
    pp_test_until(k->loop, has_answers, k, LONG_MS);
    return k->good > good;
}

static void on_push(void *data, const char *message, size_t n)
{
    struct kit *k = data;
    k->begun += !message;
    k->pushes += message && n == 2;
}

static bool is_subscribed(void *arg)
{
    return ((struct kit *)arg)->begun == 1;
}

static bool is_subscribed_again(void *arg)
{
    return ((struct kit *)arg)->begun == 2;
}

static bool has_push(void *arg)
{
    return ((struct kit *)arg)->pushes == 1;
}

/* --- tests --- */

static void answers(void **state)
{
    struct secure t;
    struct kit k;
    char url[1000];
    (void)state;
    start(&t, PP_CERT_GOOD, "no");
    url_of(&t, url, "");
    open_kit(&k, url);
    assert_true(ask(&k, "SET", "k", "v"));
    assert_true(ask(&k, "GET", "k", NULL));
    assert_int_equal(k.text_n, 1);
    assert_false(ask(&k, "GET", NULL, NULL)); /* Redis refuses it, and the connection stays */
    /* Many records, in both directions. */
    char *big = malloc(BIG + 1);
    assert_non_null(big);
    memset(big, 'x', BIG);
    big[BIG] = '\0';
    assert_true(ask(&k, "SET", "big", big));
    assert_true(ask(&k, "GET", "big", NULL));
    assert_int_equal(k.text_n, BIG);
    free(big);
    const char *argv[] = {"INCR", "n"};
    k.answered = (size_t)-1000;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(pp_redis_command(k.r, 2, argv, NULL, on_answer, &k), PP_OK);
    pp_test_until(k.loop, has_answers, &k, LONG_MS);
    assert_int_equal(redis_server_number(&t.s, "DBSIZE"), 0); /* all of it is in database 1 */
    close_kit(&k);
    redis_server_kill(&t.s);
}

/* The connection comes back after the server has gone, with the subscription. */
static void comes_back(void **state)
{
    struct secure t;
    struct kit k;
    char url[1000];
    (void)state;
    start(&t, PP_CERT_GOOD, "no");
    url_of(&t, url, "");
    open_kit(&k, url);
    assert_int_equal(pp_redis_subscribe(k.r, "c", on_push, &k), PP_OK);
    pp_test_until(k.loop, is_subscribed, &k, LONG_MS);
    assert_true(ask(&k, "PUBLISH", "c", "hi"));
    pp_test_until(k.loop, has_push, &k, LONG_MS);
    redis_server_kill(&t.s);
    redis_server_restart(&t.s);
    pp_test_until(k.loop, is_subscribed_again, &k, LONG_MS);
    while (!ask(&k, "SET", "k", "v")) {
    }
    close_kit(&k);
    redis_server_kill(&t.s);
}

/* photopool sends no command to a server with a bad certificate, and says why. */
static void refused_certificates(void **state)
{
    static const struct {
        enum pp_test_cert kind;
        const char *ca, *says; /* ca: "": the test's authority; else a query without it */
    } cases[] = {{PP_CERT_OTHER_NAME, "", "IP address mismatch"},
                 {PP_CERT_EXPIRED, "", "expired"},
                 {PP_CERT_SELF_SIGNED, "", "self-signed"},
                 {PP_CERT_GOOD, "?", "self-signed certificate in"}};
    struct pp_loop *loop = pp_loop_open();
    struct pp_redis_look look;
    char url[1000], why[PP_REDIS_WHY_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct secure t;
        start(&t, cases[i].kind, "no");
        url_of(&t, url, cases[i].ca);
        assert_int_equal(pp_redis_look(loop, url, LONG_MS, &look, why), PP_EIO);
        if (!strstr(why, cases[i].says))
            fail_msg("%s", why);
        redis_server_kill(&t.s);
    }
    pp_loop_close(loop);
}

/* The server asks for a certificate of ours. */
static void own_certificate(void **state)
{
    struct pp_loop *loop = pp_loop_open();
    struct pp_redis_look look;
    struct secure t;
    char url[1000], more[800], why[PP_REDIS_WHY_MAX];
    (void)state;
    start(&t, PP_CERT_GOOD, "yes");
    snprintf(more, sizeof more, "?ca=%s&cert=%s&key=%s", pp_test_ca_file(), t.cert, t.key);
    url_of(&t, url, more);
    assert_int_equal(pp_redis_look(loop, url, LONG_MS, &look, why), PP_OK);
    assert_true(look.clock_ms > 0);
    url_of(&t, url, "");
    assert_int_equal(pp_redis_look(loop, url, LONG_MS, &look, why), PP_EIO);
    pp_loop_close(loop);
    redis_server_kill(&t.s);
}

static void files_that_are_no_good(void **state)
{
    char cert[300], key[300], other[300], url[1000], why[PP_REDIS_WHY_MAX];
    const char *dir = pp_test_tmpdir();
    struct pp_redis *r;
    (void)state;
    snprintf(cert, sizeof cert, "%s/cert.pem", dir);
    snprintf(key, sizeof key, "%s/key.pem", dir);
    snprintf(other, sizeof other, "%s/other.pem", dir);
    pp_test_tls_files("127.0.0.1", PP_CERT_GOOD, cert, other);
    pp_test_tls_files("127.0.0.1", PP_CERT_GOOD, cert, key);
    const struct {
        const char *ca, *cert, *key, *says; /* says: NULL: there is no problem */
    } cases[] = {{cert, cert, key, NULL},
                 {"/no/such/file", cert, key, "ca=/no/such/file can't be used: No such file"},
                 {key, cert, key, "ca="},
                 {cert, key, key, "cert="},
                 {cert, cert, other, "key="},
                 {cert, cert, cert, "key="}};
    struct pp_loop *loop = pp_loop_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(url, sizeof url, "rediss://:hunter2@h?ca=%s&cert=%s&key=%s", cases[i].ca, cases[i].cert,
                 cases[i].key);
        assert_int_equal(pp_redis_url_problem(url, why), cases[i].says != NULL);
        const struct pp_redis_options o = {.url = url};
        assert_int_equal(pp_redis_open(loop, &o, &r), cases[i].says ? PP_EINVAL : PP_OK);
        if (!cases[i].says)
            pp_redis_close(r);
        else if (!strstr(why, cases[i].says) || strstr(why, "hunter2"))
            fail_msg("%s", why);
    }
    assert_true(pp_redis_url_problem("redis://:hunter2@h/x", why));
    assert_non_null(strstr(why, "not redis://"));
    assert_false(pp_redis_url_problem("redis://h", why));
    pp_loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers), cmocka_unit_test(comes_back), cmocka_unit_test(refused_certificates),
        cmocka_unit_test(own_certificate), cmocka_unit_test(files_that_are_no_good)};
    return cmocka_run_group_tests_name("rediss://", tests, NULL, NULL);
}
