/* suite_fetcher.c: the contract of port/fetcher.h: connections, order of events, pausing, aborting, TLS, and
 * what must leave no trace. What hosts may answer is in suite_fetcher_answers.c. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite_fetcher_kit.h"

static bool is_path(const char *request, const char *path)
{
    size_t n = strlen(path);

    return strncmp(request, "GET ", 4) == 0 && strncmp(request + 4, path, n) == 0 && request[4 + n] == ' ';
}

#define BIG_BYTES (8u << 20)

/* "/hang": silence. "/endless": a body without end. "/begin": a head and a few bytes, then silence. "/big": 8
 * MiB. "/head": a head, then silence. Else "ok". */
static enum pp_origin_next serve(struct pp_origin_conn *c, const char *request, void *data)
{
    static char block[65536];

    (void)data;
    if (is_path(request, "/hang"))
        return PP_ORIGIN_HANG;
    if (is_path(request, "/head")) {
        (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        return PP_ORIGIN_HANG;
    }
    if (is_path(request, "/begin")) {
        (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        return PP_ORIGIN_HANG;
    }
    if (is_path(request, "/endless")) {
        bool alive = pp_origin_puts(c, "HTTP/1.1 200 OK\r\n\r\n");
        while (alive)
            alive = pp_origin_write(c, block, sizeof(block));
        return PP_ORIGIN_CLOSE;
    }
    if (is_path(request, "/big")) {
        bool alive = pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
        for (size_t sent = 0; alive && sent < BIG_BYTES; sent += sizeof(block))
            alive = pp_origin_write(c, block, sizeof(block));
        return alive ? PP_ORIGIN_KEEP : PP_ORIGIN_CLOSE;
    }
    if (is_path(request, "/empty")) {
        (void)pp_origin_puts(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        return PP_ORIGIN_KEEP;
    }
    (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    return PP_ORIGIN_KEEP;
}

/* --- connections --- */

static void a_connection_is_used_again(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    for (int i = 0; i < 20; i++) {
        struct get g;
        get_run(&g, &k, "/");
        assert_int_equal(g.x.code, 0);
        assert_int_equal(g.x.reused, i > 0);
        assert_int_equal(g.sents, 1);
        assert_string_equal(g.body, "ok");
        get_fini(&g);
    }
    assert_int_equal(pp_origin_connections(k.o), 1);
    assert_int_equal(pp_origin_requests(k.o), 20);
    kit_close(&k);
}

static bool all_done(void *data)
{
    for (struct get *g = data; g->kit; g++)
        if (!g->dones)
            return false;
    return true;
}

static void many_at_once(void **state)
{
    enum { N = 200, ROUNDS = 3 };
    struct get *gs = calloc(N + 1, sizeof(*gs));
    struct kit k;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            get_init(&gs[i], &k, "/");
            get_start(&gs[i]);
        }
        kit_until(&k, all_done, gs);
        for (int i = 0; i < N; i++) {
            assert_int_equal(gs[i].x.code, 0);
            assert_string_equal(gs[i].body, "ok");
            get_fini(&gs[i]);
        }
    }
    assert_int_equal(pp_origin_requests(k.o), N * ROUNDS);
    assert_true(pp_origin_connections(k.o) <= N * ROUNDS);
    kit_close(&k);
    free(gs);
}

static enum pp_origin_next once_each(struct pp_origin_conn *c, const char *request, void *data)
{
    (void)request;
    (void)data;
    if (pp_origin_nth(c) > 1)
        return PP_ORIGIN_RESET; /* a kept connection dies under the request */
    (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    return PP_ORIGIN_KEEP;
}

static void a_kept_connection_that_died_is_replaced(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, once_each, NULL, NULL);
    get_run(&g, &k, "/");
    get_fini(&g);
    get_run(&g, &k, "/");
    assert_int_equal(g.x.code, 0);
    assert_int_equal(g.sents, 2); /* it went out twice, and was said twice */
    assert_int_equal(pp_origin_requests(k.o), 3);
    assert_false(g.x.reused);
    get_fini(&g);
    kit_close(&k);
}

static enum pp_origin_next answer_and_close(struct pp_origin_conn *c, const char *request, void *data)
{
    (void)request;
    (void)data;
    (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    return PP_ORIGIN_CLOSE;
}

static bool none_open(void *o)
{
    return pp_origin_open_connections(o) == 0;
}

static void an_idle_connection_that_the_host_closed_is_replaced(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, answer_and_close, NULL, NULL);
    for (int i = 1; i <= 5; i++) {
        struct get g;
        get_run(&g, &k, "/");
        assert_int_equal(g.x.code, 0);
        get_fini(&g);
        kit_until(&k, none_open, k.o);
        assert_int_equal(pp_origin_connections(k.o), i);
    }
    kit_close(&k);
}

static void the_addresses_given_are_connected_to(void **state)
{
    struct kit k;
    struct get g;
    struct sockaddr_in *v4;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    /* three where nobody listens first, then the origin's */
    get_init(&g, &k, "/");
    for (int i = 3; i >= 0; i--) {
        g.addrs[i] = g.addrs[0];
        v4 = (struct sockaddr_in *)&g.addrs[i];
        if (i < 3)
            v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)i);
    }
    g.x.n_addrs = 4;
    g.x.connect_ms = 60000; /* no failing address may wait for the end of it */
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_int_equal(g.allows, 5); /* four sockets, and before the request */
    get_fini(&g);
    kit_close(&k);
}

/* The name's addresses change: new connections go to the new ones. */
static void changed_addresses_are_told(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, answer_and_close, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        get_init(&g, &k, "/");
        if (i % 2)
            ((struct sockaddr_in *)&g.addrs[0])->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
        get_start(&g);
        get_wait(&g);
        assert_int_equal(g.x.code, i % 2 ? PP_CODE_CONNECT_REFUSED : 0);
        get_fini(&g);
        kit_until(&k, none_open, k.o);
    }
    kit_close(&k);
}

/* More names than the fetcher can remember: none gets lost, none is mistaken for another. */
static void many_names(void **state)
{
    enum { NAMES = 9000, AT_ONCE = 50 };
    struct get *gs = calloc(AT_ONCE + 1, sizeof(*gs));
    char(*hosts)[64] = calloc(AT_ONCE, sizeof(*hosts));
    struct kit k;

    (void)state;
    kit_open(&k, answer_and_close, NULL, NULL);
    for (int name = 0; name < NAMES; name += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            /* refused at the socket, mostly: it is the names that count */
            get_init(&gs[i], &k, "/");
            (void)snprintf(hosts[i], sizeof(hosts[i]), "h%d.test", (name + i) % (NAMES / 2));
            (void)snprintf(gs[i].url, sizeof(gs[i].url), "http://%s:%u/", hosts[i], pp_origin_port(k.o));
            gs[i].x.host = hosts[i];
            if (i != 0)
                gs[i].deny_at = 1;
            get_start(&gs[i]);
        }
        kit_until(&k, all_done, gs);
        for (int i = 0; i < AT_ONCE; i++) {
            assert_int_equal(gs[i].x.code, i == 0 ? 0 : PP_CODE_DENIED_ADDRESS);
            get_fini(&gs[i]);
        }
    }
    kit_close(&k);
    free(hosts);
    free(gs);
}

static void hosts_may_be_addresses(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        get_init(&g, &k, "/");
        (void)snprintf(g.url, sizeof(g.url), "http://127.0.0.1:%u/", pp_origin_port(k.o));
        g.x.host = "127.0.0.1";
        g.x.n_addrs = 0;
        get_start(&g);
        get_wait(&g);
        assert_int_equal(g.x.code, 0);
        assert_int_equal(g.x.reused, i);
        get_fini(&g);
    }
    kit_close(&k);
}

static void nobody_listens(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/");
    ((struct sockaddr_in *)&g.addrs[0])->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_CONNECT_REFUSED);
    assert_int_equal(g.sents, 0);
    assert_int_equal(g.x.phase, PP_PHASE_CONNECT);
    get_fini(&g);
    kit_close(&k);
}

/* A listener whose queue is full: it answers no SYN. Port 0: any; the number is in *sa. */
struct deaf {
    int listener, fill[8];
};

static void deaf_open(struct deaf *d, struct sockaddr_in *sa)
{
    socklen_t len = sizeof(*sa);

    sa->sin_family = AF_INET;
    d->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(d->listener, (struct sockaddr *)sa, len), 0);
    assert_int_equal(listen(d->listener, 0), 0);
    assert_int_equal(getsockname(d->listener, (struct sockaddr *)sa, &len), 0);
    for (int i = 0; i < 8; i++) {
        d->fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(d->fill[i], (struct sockaddr *)sa, len);
    }
}

static void deaf_close(struct deaf *d)
{
    for (int i = 0; i < 8; i++)
        (void)close(d->fill[i]);
    (void)close(d->listener);
}

static void connecting_takes_too_long(void **state)
{
    struct sockaddr_in sa = {.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct deaf d;
    struct kit k;
    struct get g;

    (void)state;
    deaf_open(&d, &sa);
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/");
    g.x.port = ntohs(sa.sin_port);
    (void)snprintf(g.url, sizeof(g.url), "http://" KIT_HOST ":%u/", g.x.port);
    ((struct sockaddr_in *)&g.addrs[0])->sin_port = sa.sin_port;
    g.x.connect_ms = 150;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_CONNECT_TIMEOUT);
    assert_int_equal(g.sents, 0);
    get_fini(&g);
    kit_close(&k);
    deaf_close(&d);
}

/* The first address does not answer: the second gets its share of the time. */
static void the_second_address_is_tried_in_time(void **state)
{
    struct sockaddr_in sa = {.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    struct deaf d;
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    sa.sin_port = htons(pp_origin_port(k.o));
    deaf_open(&d, &sa);
    get_init(&g, &k, "/");
    g.addrs[1] = g.addrs[0];
    memcpy(&g.addrs[0], &sa, sizeof(sa));
    g.x.n_addrs = 2;
    g.x.connect_ms = 800;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_string_equal(g.body, "ok");
    get_fini(&g);
    kit_close(&k);
    deaf_close(&d);
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

/* An idle connection that the host closed must not keep the loop busy. */
static void an_idle_connection_costs_nothing(void **state)
{
    bool over = false;
    int turns = 0;
    struct pp_timer *timer;
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, answer_and_close, NULL, NULL);
    get_run(&g, &k, "/");
    kit_until(&k, none_open, k.o);
    timer = pp_timer_open(k.loop, set_flag, &over);
    pp_timer_start(timer, 100, 0);
    while (!over) {
        (void)pp_loop_turn(k.loop, true);
        turns++;
    }
    assert_in_range(turns, 1, 30);
    pp_timer_close(timer);
    get_fini(&g);
    kit_close(&k);
}

/* --- the address policy --- */

static void a_denied_address_gets_no_connection(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/");
    g.deny_at = 1;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_DENIED_ADDRESS);
    assert_int_equal(g.sents, 0);
    assert_int_equal(pp_origin_connections(k.o), 0);
    get_fini(&g);
    kit_close(&k);
}

static void a_kept_connection_is_judged_again(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_run(&g, &k, "/");
    assert_int_equal(g.x.code, 0);
    get_fini(&g);
    get_init(&g, &k, "/");
    g.deny_at = 1;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_DENIED_ADDRESS);
    assert_int_equal(g.allows, 1);
    assert_int_equal(g.sents, 0);
    assert_int_equal(pp_origin_requests(k.o), 1);
    get_fini(&g);
    kit_close(&k);
}

/* Some addresses denied: the others are used. */
static void only_good_addresses_are_used(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/");
    g.denied_ip = INADDR_LOOPBACK + 1;
    for (int i = 3; i >= 0; i--)
        g.addrs[i] = g.addrs[0];
    for (int i = 0; i < 3; i++)
        ((struct sockaddr_in *)&g.addrs[i])->sin_addr.s_addr = htonl(g.denied_ip);
    g.x.n_addrs = 4;
    g.x.connect_ms = 60000; /* no failing address may wait for the end of it */
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_int_equal(pp_origin_connections(k.o), 1);
    get_fini(&g);
    kit_close(&k);
}

/* Allowed at the socket, refused before the request: the connection is closed unused. */
static void a_new_connection_is_judged_again(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/");
    g.deny_at = 2;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_DENIED_ADDRESS);
    assert_int_equal(g.sents, 0);
    get_fini(&g);
    kit_until(&k, none_open, k.o);
    assert_int_equal(pp_origin_requests(k.o), 0);
    kit_close(&k);
}

/* --- the request --- */

static void the_request_carries_what_it_should(void **state)
{
    static const char *const lines[] = {"User-Agent: ours/1", "X-Client: 42", NULL};
    char head[4096];
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/a/../b?q=%20");
    g.x.headers = lines;
    g.x.etag = "\"v1\"";
    g.x.last_modified = "Mon, 01 Jan 2024 00:00:00 GMT";
    get_start(&g);
    get_wait(&g);
    pp_origin_last(k.o, head, sizeof(head));
    assert_non_null(strstr(head, "GET /a/../b?q=%20 HTTP/1.1\r\n")); /* the URL is not touched */
    assert_non_null(strstr(head, "\r\nUser-Agent: ours/1\r\n"));
    assert_non_null(strstr(head, "\r\nX-Client: 42\r\n"));
    assert_non_null(strstr(head, "\r\nIf-None-Match: \"v1\"\r\n"));
    assert_non_null(strstr(head, "\r\nIf-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n"));
    assert_non_null(strstr(head, "\r\nAccept-Encoding: identity\r\n"));
    get_fini(&g);
    /* and the next one nothing of it */
    get_run(&g, &k, "/");
    pp_origin_last(k.o, head, sizeof(head));
    assert_null(strstr(head, "ours/1"));
    assert_null(strstr(head, "X-Client"));
    assert_null(strstr(head, "If-"));
    get_fini(&g);
    kit_close(&k);
}

static void lines_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {"no colon", ": no name", "X: a\r\nY: b", "X: a\nb", ""};
    struct kit k;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const char *const lines[] = {bad[i], NULL};
        struct get g;
        get_init(&g, &k, "/");
        g.x.headers = lines;
        assert_int_equal(k.f->ops->start(k.f, &g.x), PP_EINVAL);
        get_fini(&g);
    }
    kit_close(&k);
}

static enum pp_origin_next sticky(struct pp_origin_conn *c, const char *request, void *data)
{
    (void)request;
    (void)data;
    (void)pp_origin_puts(
        c, "HTTP/1.1 401 Unauthorized\r\nSet-Cookie: id=1; Path=/\r\nAlt-Svc: h2=\":1\"; ma=86400\r\n"
           "Strict-Transport-Security: max-age=86400\r\nWWW-Authenticate: NTLM\r\n"
           "WWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n");
    return PP_ORIGIN_KEEP;
}

static void answers_leave_no_trace(void **state)
{
    struct kit k;
    struct get g;
    char head[4096];

    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        SSL_CTX *ctx = tls ? pp_test_tls(KIT_HOST, PP_CERT_GOOD) : NULL;
        kit_open(&k, sticky, NULL, ctx);
        for (int i = 0; i < 3; i++) {
            get_run(&g, &k, "/");
            assert_int_equal(g.x.code, 0);
            assert_int_equal(g.x.status, 401);
            pp_origin_last(k.o, head, sizeof(head));
            assert_null(strstr(head, "Cookie"));
            assert_null(strstr(head, "Authorization")); /* nor from a .netrc, see pp_suite_fetcher() */
            assert_null(strstr(head, "Alt-"));
            assert_int_equal(g.sents, 1);
            get_fini(&g);
        }
        assert_int_equal(pp_origin_connections(k.o), 1);
        kit_close(&k);
        SSL_CTX_free(ctx);
    }
}

/* --- flow --- */

static void stop_at_the_head(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/begin");
    g.head_flow = PP_FLOW_STOP;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_true(g.x.stopped);
    assert_int_equal(g.bodies, 0);
    get_fini(&g);
    kit_until(&k, none_open, k.o); /* bytes remained: closed */
    /* nothing remained: kept */
    for (int i = 0; i < 3; i++) {
        get_init(&g, &k, "/empty");
        g.head_flow = PP_FLOW_STOP;
        get_start(&g);
        get_wait(&g);
        assert_true(g.x.stopped);
        assert_int_equal(g.x.status, 404);
        get_fini(&g);
    }
    assert_int_equal(pp_origin_connections(k.o), 2);
    kit_close(&k);
}

static void stop_in_the_body(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/big");
    g.stop_at = 100000;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_true(g.x.stopped);
    assert_true(g.n >= 100000 && g.n < BIG_BYTES);
    get_fini(&g);
    kit_until(&k, none_open, k.o);
    kit_close(&k);
}

static bool is_paused(void *g)
{
    return ((struct get *)g)->paused;
}

static void unpause(struct get *g)
{
    int before = g->bodies;

    g->paused = false;
    g->kit->f->ops->resume(g->kit->f, &g->x);
    assert_int_equal(g->bodies, before); /* not from within resume() */
}

static void turn_some(struct kit *k)
{
    struct get g; /* another get comes and goes meanwhile */

    get_run(&g, k, "/");
    assert_int_equal(g.x.code, 0);
    get_fini(&g);
}

static void pause_at(size_t where, const char *path, size_t total)
{
    struct kit k;
    struct get g;

    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, path);
    if (where)
        g.pause_at = where;
    else
        g.head_flow = PP_FLOW_PAUSE;
    get_start(&g);
    kit_until(&k, is_paused, &g);
    turn_some(&k);
    assert_int_equal(g.dones, 0);
    unpause(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_int_equal(g.n, total);
    get_fini(&g);
    kit_close(&k);
}

static void pause_and_resume(void **state)
{
    (void)state;
    pause_at(0, "/big", BIG_BYTES);
    pause_at(1, "/big", BIG_BYTES);
    pause_at(1000000, "/big", BIG_BYTES);
    pause_at(BIG_BYTES, "/big", BIG_BYTES);
    pause_at(0, "/", 2);
    pause_at(1, "/", 2);
    pause_at(0, "/empty", 0); /* over for the host, not for the caller */
}

static void stop_after_a_pause(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/begin");
    g.pause_at = 1;
    g.stop_at = 1;
    get_start(&g);
    kit_until(&k, is_paused, &g);
    unpause(&g);
    get_wait(&g);
    assert_true(g.x.stopped);
    get_fini(&g);
    kit_until(&k, none_open, k.o);
    kit_close(&k);
}

/* --- abort --- */

static bool has_sent(void *g)
{
    return ((struct get *)g)->sents > 0;
}

static bool has_head(void *g)
{
    return ((struct get *)g)->heads > 0;
}

static bool has_body(void *g)
{
    return ((struct get *)g)->bodies > 0;
}

static bool has_request(void *o)
{
    return pp_origin_requests(o) > 0;
}

static void abort_when(const char *path, bool (*when)(void *))
{
    struct kit k;
    struct get g;

    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, path);
    if (when == is_paused)
        g.pause_at = 1;
    get_start(&g);
    if (when == has_request)
        kit_until(&k, when, k.o);
    else if (when)
        kit_until(&k, when, &g);
    get_abort(&g);
    memset(&g.x, 0xee, sizeof(g.x)); /* nobody looks at it again */
    turn_some(&k);
    assert_int_equal(g.dones, 0);
    get_fini(&g);
    kit_close(&k);
}

static void abort_in_every_phase(void **state)
{
    (void)state;
    abort_when("/hang", NULL);
    abort_when("/hang", has_sent);
    abort_when("/hang", has_request);
    abort_when("/head", has_head);
    abort_when("/begin", has_body);
    abort_when("/endless", has_body);
    abort_when("/big", is_paused);
    abort_when("/begin", is_paused);
}

static void abort_closes_the_connection(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/hang");
    get_start(&g);
    kit_until(&k, has_request, k.o);
    get_abort(&g);
    kit_until(&k, none_open, k.o);
    get_fini(&g);
    kit_close(&k);
}

static void abort_other(struct get *g)
{
    struct get *other = g->data;

    if (!other)
        return;
    g->data = NULL;
    get_abort(other);
    memset(&other->x, 0xee, sizeof(other->x));
}

/* From within each callback of one, another that is at some phase of its own. */
static void abort_from_a_callback(void **state)
{
    static const struct {
        const char *path;
        bool (*when)(void *);
    } others[] = {{"/hang", NULL},
                  {"/hang", has_sent},
                  {"/begin", has_body},
                  {"/begin", is_paused},
                  {"/big", is_paused}};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        for (int from = 0; from < 4; from++) {
            struct kit k;
            struct get a, b;
            kit_open(&k, serve, NULL, NULL);
            get_init(&b, &k, others[i].path);
            if (others[i].when == is_paused)
                b.pause_at = 1;
            get_start(&b);
            if (others[i].when)
                kit_until(&k, others[i].when, &b);
            get_init(&a, &k, "/");
            a.data = &b;
            *(from == 0   ? &a.on_sent
              : from == 1 ? &a.on_head
              : from == 2 ? &a.on_body
                          : &a.on_done) = abort_other;
            get_start(&a);
            get_wait(&a);
            assert_int_equal(a.x.code, 0);
            turn_some(&k);
            assert_int_equal(b.dones, 0);
            get_fini(&a);
            get_fini(&b);
            kit_close(&k);
        }
    }
}

/* Two end in the same turn, whichever is first aborts the other: exactly one done(). */
static void abort_of_one_that_is_over(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct kit k;
        struct get a, b;
        kit_open(&k, serve, NULL, NULL);
        get_init(&a, &k, "/");
        get_init(&b, &k, "/");
        a.data = &b;
        b.data = &a;
        a.head_flow = b.head_flow = PP_FLOW_PAUSE;
        get_start(&a);
        get_start(&b);
        kit_until(&k, is_paused, &a);
        kit_until(&k, is_paused, &b);
        a.on_done = b.on_done = abort_other;
        unpause(&a);
        unpause(&b);
        while (a.dones + b.dones == 0)
            (void)pp_loop_turn(k.loop, true);
        turn_some(&k);
        assert_int_equal(a.dones + b.dones, 1);
        get_fini(&a);
        get_fini(&b);
        kit_close(&k);
    }
}

static void start_again(struct get *g)
{
    struct get fresh;

    if (g->data == NULL)
        return;
    g->data = NULL;
    get_init(&fresh, g->kit, "/");
    g->allows = g->sents = g->heads = g->bodies = g->dones = 0;
    g->n = 0;
    memcpy(g->url, fresh.url, sizeof(g->url));
    get_fini(&fresh);
    get_start(g);
}

/* As a redirect does: the same exchange, with another URL, from within its done(). */
static void an_exchange_may_start_again_in_done(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/empty");
    g.data = &g;
    g.on_done = start_again;
    get_start(&g);
    get_wait(&g);
    kit_until(&k, all_done, ((struct get[2]){g, {.kit = NULL}}));
    assert_int_equal(g.x.status, 200);
    assert_int_equal(g.dones, 1);
    assert_int_equal(pp_origin_connections(k.o), 1);
    get_fini(&g);
    kit_close(&k);
}

static void start_other(struct get *g)
{
    struct get *other = g->data;

    if (other)
        get_start(other);
    g->data = NULL;
}

static void an_exchange_may_start_in_a_callback(void **state)
{
    (void)state;
    for (int from = 0; from < 3; from++) {
        struct kit k;
        struct get a, b;
        kit_open(&k, serve, NULL, NULL);
        get_init(&a, &k, "/");
        get_init(&b, &k, "/");
        a.data = &b;
        *(from == 0 ? &a.on_head : from == 1 ? &a.on_body : &a.on_done) = start_other;
        get_start(&a);
        get_wait(&a);
        get_wait(&b);
        assert_int_equal(a.x.code + b.x.code, 0);
        get_fini(&a);
        get_fini(&b);
        kit_close(&k);
    }
}

/* --- TLS --- */

static void certificates_are_verified(void **state)
{
    static const struct {
        enum pp_test_cert kind;
        uint16_t code;
        const char *says;
    } cases[] = {{PP_CERT_GOOD, 0, ""},
                 {PP_CERT_OTHER_NAME, PP_CODE_TLS_FAILED, "another name"},
                 {PP_CERT_EXPIRED, PP_CODE_TLS_FAILED, "expired"},
                 {PP_CERT_SELF_SIGNED, PP_CODE_TLS_FAILED, "self-signed"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        SSL_CTX *ctx = pp_test_tls(KIT_HOST, cases[i].kind);
        struct kit k;
        kit_open(&k, serve, NULL, ctx);
        for (int again = 0; again < 2; again++) {
            struct get g;
            get_run(&g, &k, "/");
            assert_int_equal(g.x.code, cases[i].code);
            if (!strstr(g.x.detail, cases[i].says))
                fail_msg("certificate %zu: \"%s\"", i, g.x.detail);
            assert_int_equal(g.sents, cases[i].code ? 0 : 1);
            get_fini(&g);
        }
        assert_int_equal(pp_origin_requests(k.o), cases[i].code ? 0 : 2);
        kit_close(&k);
        SSL_CTX_free(ctx);
    }
}

static void a_large_body_over_tls(void **state)
{
    SSL_CTX *ctx = pp_test_tls(KIT_HOST, PP_CERT_GOOD);
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, ctx);
    get_init(&g, &k, "/big");
    g.pause_at = 300000;
    get_start(&g);
    kit_until(&k, is_paused, &g);
    turn_some(&k);
    unpause(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_int_equal(g.n, BIG_BYTES);
    get_fini(&g);
    kit_close(&k);
    SSL_CTX_free(ctx);
}

/* https to a host that speaks none, or goes away in the middle. */
static void hosts_without_tls(void **state)
{
    static const enum pp_origin_next ends[] = {PP_ORIGIN_CLOSE, PP_ORIGIN_RESET};
    struct kit k;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    for (size_t i = 0; i < 2; i++) {
        struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(sa);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), fd = -1;
        struct linger hard = {ends[i] == PP_ORIGIN_RESET, 0};
        struct get g;
        assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
        assert_int_equal(listen(listener, 4), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
        get_init(&g, &k, "/");
        g.x.https = true;
        g.x.port = ntohs(sa.sin_port);
        ((struct sockaddr_in *)&g.addrs[0])->sin_port = sa.sin_port;
        (void)snprintf(g.url, sizeof(g.url), "https://" KIT_HOST ":%u/", g.x.port);
        get_start(&g);
        while (!g.dones) {
            char byte;
            (void)pp_loop_turn(k.loop, fd < 0 ? false : true);
            if (fd < 0)
                fd = accept(listener, NULL, NULL);
            if (fd >= 0 && recv(fd, &byte, 1, MSG_DONTWAIT) == 1) {
                (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
                (void)close(fd);
                fd = 1 << 20; /* no number of ours: recv() fails from now on */
            }
        }
        assert_int_equal(g.x.code, PP_CODE_CONNECTION_LOST);
        get_fini(&g);
        (void)close(listener);
    }
    kit_close(&k);
}

static void plain_http_on_the_tls_port(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/");
    (void)snprintf(g.url, sizeof(g.url), "https://" KIT_HOST ":%u/", pp_origin_port(k.o));
    g.x.https = true;
    get_start(&g);
    /* the origin waits for the end of a head that never comes: the fetcher's time for connecting ends it */
    get_abort(&g);
    g.x.connect_ms = 200;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_CONNECT_TIMEOUT);
    get_fini(&g);
    kit_close(&k);
}

/* A .netrc and proxies in the environment: every test of the suite runs with them, and none may be used. */
static int bait(void **state)
{
    const char *dir = pp_test_tmpdir();
    char path[600];
    FILE *f;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/.netrc", dir);
    f = fopen(path, "w");
    if (!f)
        return -1;
    (void)fputs("default login user password secret\n", f);
    (void)fclose(f);
    return setenv("HOME", dir, 1) || setenv("http_proxy", "http://127.0.0.1:1", 1) ||
           setenv("https_proxy", "http://127.0.0.1:1", 1) || setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1) ||
           setenv("ALL_PROXY", "socks5://127.0.0.1:1", 1) || setenv("no_proxy", "", 1);
}

int pp_suite_fetcher(const struct pp_fetcher_subject *subject)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_is_used_again),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(a_kept_connection_that_died_is_replaced),
        cmocka_unit_test(an_idle_connection_that_the_host_closed_is_replaced),
        cmocka_unit_test(the_addresses_given_are_connected_to),
        cmocka_unit_test(changed_addresses_are_told),
        cmocka_unit_test(many_names),
        cmocka_unit_test(hosts_may_be_addresses),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(connecting_takes_too_long),
        cmocka_unit_test(the_second_address_is_tried_in_time),
        cmocka_unit_test(an_idle_connection_costs_nothing),
        cmocka_unit_test(a_denied_address_gets_no_connection),
        cmocka_unit_test(a_kept_connection_is_judged_again),
        cmocka_unit_test(only_good_addresses_are_used),
        cmocka_unit_test(a_new_connection_is_judged_again),
        cmocka_unit_test(the_request_carries_what_it_should),
        cmocka_unit_test(lines_that_are_none_are_refused),
        cmocka_unit_test(answers_leave_no_trace),
        cmocka_unit_test(stop_at_the_head),
        cmocka_unit_test(stop_in_the_body),
        cmocka_unit_test(pause_and_resume),
        cmocka_unit_test(stop_after_a_pause),
        cmocka_unit_test(abort_in_every_phase),
        cmocka_unit_test(abort_closes_the_connection),
        cmocka_unit_test(abort_from_a_callback),
        cmocka_unit_test(abort_of_one_that_is_over),
        cmocka_unit_test(an_exchange_may_start_again_in_done),
        cmocka_unit_test(an_exchange_may_start_in_a_callback),
        cmocka_unit_test(certificates_are_verified),
        cmocka_unit_test(a_large_body_over_tls),
        cmocka_unit_test(hosts_without_tls),
        cmocka_unit_test(plain_http_on_the_tls_port),
    };
    int failed;

    pp_fetcher_subject = subject;
    failed = cmocka_run_group_tests_name(subject->name, tests, bait, NULL);
    return failed + pp_suite_fetcher_answers();
}
