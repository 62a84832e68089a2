/* suite_fetcher.c: the contract of port/fetcher.h: connections, the address policy, requests, TLS, and what
 * must leave no trace. Pausing and aborting are in suite_fetcher_flow.c, what hosts may answer in
 * suite_fetcher_answers.c. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite_fetcher_kit.h"

/* --- connections --- */

static void a_connection_is_used_again(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, kit_serve, NULL, NULL);
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

static void many_at_once(void **state)
{
    enum { N = 200, ROUNDS = 3 };
    struct get *gs = calloc(N + 1, sizeof(*gs));
    struct kit k;

    (void)state;
    kit_open(&k, kit_serve, NULL, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            get_init(&gs[i], &k, "/");
            get_start(&gs[i]);
        }
        kit_until(&k, gets_done, gs);
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
        kit_until(&k, origin_idle, k.o);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
        kit_until(&k, origin_idle, k.o);
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
        kit_until(&k, gets_done, gs);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
    kit_open(&k, kit_serve, NULL, NULL);
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

/* The first address does not answer: the second gets its share of the time. How long a machine needs for that
 * share is not known; it is found. */
static void the_second_address_is_tried_in_time(void **state)
{
    struct sockaddr_in sa = {.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    struct deaf d;
    struct kit k;
    struct get g = {.x.code = PP_CODE_CONNECT_TIMEOUT};

    (void)state;
    kit_open(&k, kit_serve, NULL, NULL);
    sa.sin_port = htons(pp_origin_port(k.o));
    deaf_open(&d, &sa);
    for (uint32_t ms = 200; g.x.code == PP_CODE_CONNECT_TIMEOUT; ms *= 2) {
        assert_true(ms < 60000);
        get_init(&g, &k, "/");
        g.addrs[1] = g.addrs[0];
        memcpy(&g.addrs[0], &sa, sizeof(sa));
        g.x.n_addrs = 2;
        g.x.connect_ms = ms;
        get_start(&g);
        get_wait(&g);
        assert_string_equal(g.body, g.x.code == 0 ? "ok" : "");
        get_fini(&g);
    }
    assert_int_equal(g.x.code, 0);
    kit_close(&k);
    deaf_close(&d);
}

static bool is_set(const bool *flag)
{
    return *flag;
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
    kit_until(&k, origin_idle, k.o);
    timer = pp_timer_open(k.loop, set_flag, &over);
    pp_timer_start(timer, 100, 0);
    while (!is_set(&over)) {
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
    kit_open(&k, kit_serve, NULL, NULL);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
    kit_open(&k, kit_serve, NULL, NULL);
    get_init(&g, &k, "/");
    g.deny_at = 2;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_DENIED_ADDRESS);
    assert_int_equal(g.sents, 0);
    get_fini(&g);
    kit_until(&k, origin_idle, k.o);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
        kit_open(&k, kit_serve, NULL, ctx);
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
    kit_open(&k, kit_serve, NULL, ctx);
    get_init(&g, &k, "/big");
    g.pause_at = 300000;
    get_start(&g);
    kit_until(&k, get_paused, &g);
    kit_turn(&k);
    get_unpause(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_int_equal(g.n, KIT_BIG);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
    kit_open(&k, kit_serve, NULL, NULL);
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
        cmocka_unit_test(certificates_are_verified),
        cmocka_unit_test(a_large_body_over_tls),
        cmocka_unit_test(hosts_without_tls),
        cmocka_unit_test(plain_http_on_the_tls_port),
    };
    int failed;

    pp_fetcher_subject = subject;
    failed = cmocka_run_group_tests_name(subject->name, tests, bait, NULL);
    return failed + pp_suite_fetcher_flow() + pp_suite_fetcher_answers();
}
