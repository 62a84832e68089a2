/* suite_fetcher.c: tests the contract of port/fetcher.h: connections, the address policy,
 * requests, TLS, and that no transfer sees traces of another. suite_fetcher_flow.c tests pauses
 * and aborts; suite_fetcher_answers.c tests the answers of hosts. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite_fetcher_kit.h"

/* --- connections --- */

static void a_connection_is_used_again(void **state)
{
    struct kit *k = *state;

    for (int i = 0; i < 20; i++) {
        struct get g;
        get_run(&g, k, "/");
        assert_int_equal(g.x.code, 0);
        assert_int_equal(g.x.reused, i > 0);
        assert_int_equal(g.sents, 1);
        assert_string_equal(g.body, "ok");
        get_fini(&g);
    }
    assert_int_equal(pp_origin_connections(k->o), 1);
    assert_int_equal(pp_origin_requests(k->o), 20);
}

static void many_at_once(void **state)
{
    struct kit *k = *state;
    enum { N = 200, ROUNDS = 3 };
    struct get *gs = calloc(N + 1, sizeof(*gs));

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            get_init(&gs[i], k, "/");
            get_start(&gs[i]);
        }
        kit_until(k, gets_done, gs);
        for (int i = 0; i < N; i++) {
            assert_int_equal(gs[i].x.code, 0);
            assert_string_equal(gs[i].body, "ok");
            get_fini(&gs[i]);
        }
    }
    assert_int_equal(pp_origin_requests(k->o), N * ROUNDS);
    assert_true(pp_origin_connections(k->o) <= N * ROUNDS);
    free(gs);
}

static enum pp_origin_next once_each(struct pp_origin_conn *c, const char *request, void *data)
{
    (void)request;
    (void)data;
    /* The origin resets a kept connection when a second request comes. */
    if (pp_origin_nth(c) > 1)
        return PP_ORIGIN_RESET;
    (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    return PP_ORIGIN_KEEP;
}

static void a_kept_connection_that_died_is_replaced(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_run(&g, k, "/");
    get_fini(&g);
    get_run(&g, k, "/");
    assert_int_equal(g.x.code, 0);
    assert_int_equal(g.sents, 2); /* The fetcher sent the request twice, and reported both. */
    assert_int_equal(pp_origin_requests(k->o), 3);
    assert_false(g.x.reused);
    get_fini(&g);
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
    struct kit *k = *state;

    for (int i = 1; i <= 5; i++) {
        struct get g;
        get_run(&g, k, "/");
        assert_int_equal(g.x.code, 0);
        get_fini(&g);
        kit_until(k, origin_idle, k->o);
        assert_int_equal(pp_origin_connections(k->o), i);
    }
}

static void the_addresses_given_are_connected_to(void **state)
{
    struct kit *k = *state;
    struct get g;
    struct sockaddr_in *v4;

    /* The first three addresses refuse connections; the fourth is the origin's. */
    get_init(&g, k, "/");
    for (int i = 3; i >= 0; i--) {
        g.addrs[i] = g.addrs[0];
        v4 = (struct sockaddr_in *)&g.addrs[i];
        if (i < 3)
            v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)i);
    }
    g.x.n_addrs = 4;
    /* The time limit is so long that one failing address can't use all of it. */
    g.x.connect_ms = 60000;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    /* The fetcher asks allow() once for each of the four sockets, and once more before it sends the
     * request. */
    assert_int_equal(g.allows, 5);
    get_fini(&g);
}

/* The addresses of a name change between two requests. The fetcher must connect to the new ones. */
static void changed_addresses_are_told(void **state)
{
    struct kit *k = *state;
    struct get g;

    for (int i = 0; i < 4; i++) {
        get_init(&g, k, "/");
        if (i % 2)
            ((struct sockaddr_in *)&g.addrs[0])->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
        get_start(&g);
        get_wait(&g);
        assert_int_equal(g.x.code, i % 2 ? PP_CODE_CONNECT_REFUSED : 0);
        get_fini(&g);
        kit_until(k, origin_idle, k->o);
    }
}

/* The fetcher gets more names than it can remember. It must lose none, and must not mistake one
 * for another. */
static void many_names(void **state)
{
    struct kit *k = *state;
    enum { NAMES = 9000, AT_ONCE = 50 };
    struct get *gs = calloc(AT_ONCE + 1, sizeof(*gs));
    char(*hosts)[64] = calloc(AT_ONCE, sizeof(*hosts));

    for (int name = 0; name < NAMES; name += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            /* allow() refuses most connections, because this test needs only the names. */
            get_init(&gs[i], k, "/");
            (void)snprintf(hosts[i], sizeof(hosts[i]), "h%d.test", (name + i) % (NAMES / 2));
            (void)snprintf(gs[i].url, sizeof(gs[i].url), "http://%s:%u/", hosts[i], pp_origin_port(k->o));
            gs[i].x.host = hosts[i];
            if (i != 0)
                gs[i].deny_at = 1;
            get_start(&gs[i]);
        }
        kit_until(k, gets_done, gs);
        for (int i = 0; i < AT_ONCE; i++) {
            assert_int_equal(gs[i].x.code, i == 0 ? 0 : PP_CODE_DENIED_ADDRESS);
            get_fini(&gs[i]);
        }
    }
    free(hosts);
    free(gs);
}

static void hosts_may_be_addresses(void **state)
{
    struct kit *k = *state;
    struct get g;

    for (int i = 0; i < 2; i++) {
        get_init(&g, k, "/");
        (void)snprintf(g.url, sizeof(g.url), "http://127.0.0.1:%u/", pp_origin_port(k->o));
        g.x.host = "127.0.0.1";
        g.x.n_addrs = 0;
        get_start(&g);
        get_wait(&g);
        assert_int_equal(g.x.code, 0);
        assert_int_equal(g.x.reused, i);
        get_fini(&g);
    }
}

static void nobody_listens(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/");
    ((struct sockaddr_in *)&g.addrs[0])->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_CONNECT_REFUSED);
    assert_int_equal(g.sents, 0);
    assert_int_equal(g.x.phase, PP_PHASE_CONNECT);
    get_fini(&g);
}

/* A listener whose queue is full, so that it answers no SYN. deaf_open() takes port 0 for any
 * free port and stores the port in *sa. */
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
    struct kit *k = *state;
    struct sockaddr_in sa = {.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct deaf d;
    struct get g;

    deaf_open(&d, &sa);
    get_init(&g, k, "/");
    g.x.port = ntohs(sa.sin_port);
    (void)snprintf(g.url, sizeof(g.url), "http://" KIT_HOST ":%u/", g.x.port);
    ((struct sockaddr_in *)&g.addrs[0])->sin_port = sa.sin_port;
    g.x.connect_ms = 150;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_CONNECT_TIMEOUT);
    assert_int_equal(g.sents, 0);
    get_fini(&g);
    deaf_close(&d);
}

/* The first address does not answer, so the fetcher must try the second one before the time is
 * over. The test measures how long this machine needs for that. */
static void the_second_address_is_tried_in_time(void **state)
{
    struct kit *k = *state;
    struct sockaddr_in sa = {.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    struct deaf d;
    struct get g = {.x.code = PP_CODE_CONNECT_TIMEOUT};

    sa.sin_port = htons(pp_origin_port(k->o));
    deaf_open(&d, &sa);
    for (uint32_t ms = 200; g.x.code == PP_CODE_CONNECT_TIMEOUT; ms *= 2) {
        assert_true(ms < 60000);
        get_init(&g, k, "/");
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

/* The host closes an idle connection. It must not keep the loop busy. */
static void an_idle_connection_costs_nothing(void **state)
{
    struct kit *k = *state;
    bool over = false;
    int turns = 0;
    struct pp_timer *timer;
    struct get g;

    get_run(&g, k, "/");
    kit_until(k, origin_idle, k->o);
    timer = pp_timer_open(k->loop, set_flag, &over);
    pp_timer_start(timer, 100, 0);
    while (!is_set(&over)) {
        (void)pp_loop_turn(k->loop, true);
        turns++;
    }
    assert_in_range(turns, 1, 30);
    pp_timer_close(timer);
    get_fini(&g);
}

/* --- the address policy --- */

static void a_denied_address_gets_no_connection(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/");
    g.deny_at = 1;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_DENIED_ADDRESS);
    assert_int_equal(g.sents, 0);
    assert_int_equal(pp_origin_connections(k->o), 0);
    get_fini(&g);
}

static void a_kept_connection_is_judged_again(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_run(&g, k, "/");
    assert_int_equal(g.x.code, 0);
    get_fini(&g);
    get_init(&g, k, "/");
    g.deny_at = 1;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_DENIED_ADDRESS);
    assert_int_equal(g.allows, 1);
    assert_int_equal(g.sents, 0);
    assert_int_equal(pp_origin_requests(k->o), 1);
    get_fini(&g);
}

/* The policy denies some addresses of a name. The fetcher must use the others. */
static void only_good_addresses_are_used(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/");
    g.denied_ip = INADDR_LOOPBACK + 1;
    for (int i = 3; i >= 0; i--)
        g.addrs[i] = g.addrs[0];
    for (int i = 0; i < 3; i++)
        ((struct sockaddr_in *)&g.addrs[i])->sin_addr.s_addr = htonl(g.denied_ip);
    g.x.n_addrs = 4;
    /* The time limit is so long that one failing address can't use all of it. */
    g.x.connect_ms = 60000;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_int_equal(pp_origin_connections(k->o), 1);
    get_fini(&g);
}

/* allow() accepts the socket but refuses the request. The fetcher must close the connection
 * without sending anything. */
static void a_new_connection_is_judged_again(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/");
    g.deny_at = 2;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_DENIED_ADDRESS);
    assert_int_equal(g.sents, 0);
    get_fini(&g);
    kit_until(k, origin_idle, k->o);
    assert_int_equal(pp_origin_requests(k->o), 0);
}

/* --- the request --- */

static void the_request_carries_what_it_should(void **state)
{
    struct kit *k = *state;
    static const char *const lines[] = {"User-Agent: ours/1", "X-Client: 42", NULL};
    char head[4096];
    struct get g;

    get_init(&g, k, "/a/../b?q=%20");
    g.x.headers = lines;
    g.x.etag = "\"v1\"";
    g.x.last_modified = "Mon, 01 Jan 2024 00:00:00 GMT";
    get_start(&g);
    get_wait(&g);
    pp_origin_last(k->o, head, sizeof(head));
    /* The fetcher sends the URL unchanged. */
    assert_non_null(strstr(head, "GET /a/../b?q=%20 HTTP/1.1\r\n"));
    assert_non_null(strstr(head, "\r\nUser-Agent: ours/1\r\n"));
    assert_non_null(strstr(head, "\r\nX-Client: 42\r\n"));
    assert_non_null(strstr(head, "\r\nIf-None-Match: \"v1\"\r\n"));
    assert_non_null(strstr(head, "\r\nIf-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n"));
    assert_non_null(strstr(head, "\r\nAccept-Encoding: identity\r\n"));
    get_fini(&g);
    /* The next request must have none of these headers. */
    get_run(&g, k, "/");
    pp_origin_last(k->o, head, sizeof(head));
    assert_null(strstr(head, "ours/1"));
    assert_null(strstr(head, "X-Client"));
    assert_null(strstr(head, "If-"));
    get_fini(&g);
}

static void lines_that_are_none_are_refused(void **state)
{
    struct kit *k = *state;
    static const char *const bad[] = {"no colon", ": no name", "X: a\r\nY: b", "X: a\nb", ""};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const char *const lines[] = {bad[i], NULL};
        struct get g;
        get_init(&g, k, "/");
        g.x.headers = lines;
        assert_int_equal(k->f->ops->start(k->f, &g.x), PP_EINVAL);
        get_fini(&g);
    }
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
            /* The fetcher must not read the .netrc that pp_suite_fetcher() provides. */
            assert_null(strstr(head, "Authorization"));
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

/* The fetcher opens an https URL on a host that speaks no TLS, or that closes during the
 * handshake. */
static void hosts_without_tls(void **state)
{
    struct kit *k = *state;
    static const enum pp_origin_next ends[] = {PP_ORIGIN_CLOSE, PP_ORIGIN_RESET};

    for (size_t i = 0; i < 2; i++) {
        struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(sa);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), fd = -1;
        struct linger hard = {ends[i] == PP_ORIGIN_RESET, 0};
        struct get g;
        assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
        assert_int_equal(listen(listener, 4), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
        get_init(&g, k, "/");
        g.x.https = true;
        g.x.port = ntohs(sa.sin_port);
        ((struct sockaddr_in *)&g.addrs[0])->sin_port = sa.sin_port;
        (void)snprintf(g.url, sizeof(g.url), "https://" KIT_HOST ":%u/", g.x.port);
        get_start(&g);
        while (!g.dones) {
            char byte;
            (void)pp_loop_turn(k->loop, fd < 0 ? false : true);
            if (fd < 0)
                fd = accept(listener, NULL, NULL);
            if (fd >= 0 && recv(fd, &byte, 1, MSG_DONTWAIT) == 1) {
                (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
                (void)close(fd);
                /* This number is not an open descriptor, so each later recv() of the fetcher
                 * fails. */
                fd = 1 << 20;
            }
        }
        assert_int_equal(g.x.code, PP_CODE_CONNECTION_LOST);
        get_fini(&g);
        (void)close(listener);
    }
}

static void plain_http_on_the_tls_port(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/");
    (void)snprintf(g.url, sizeof(g.url), "https://" KIT_HOST ":%u/", pp_origin_port(k->o));
    g.x.https = true;
    get_start(&g);
    /* The origin waits for the rest of a request, so only the fetcher's connect timeout ends the
     * transfer. */
    get_abort(&g);
    g.x.connect_ms = 200;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, PP_CODE_CONNECT_TIMEOUT);
    get_fini(&g);
}

/* Adds a .netrc and proxies to the environment of every test of the suite. The fetcher must use
 * none of them. */
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
        KIT_TEST(a_connection_is_used_again, kit_serve),
        KIT_TEST(many_at_once, kit_serve),
        KIT_TEST(a_kept_connection_that_died_is_replaced, once_each),
        KIT_TEST(an_idle_connection_that_the_host_closed_is_replaced, answer_and_close),
        KIT_TEST(the_addresses_given_are_connected_to, kit_serve),
        KIT_TEST(changed_addresses_are_told, answer_and_close),
        KIT_TEST(many_names, answer_and_close),
        KIT_TEST(hosts_may_be_addresses, kit_serve),
        KIT_TEST(nobody_listens, kit_serve),
        KIT_TEST(connecting_takes_too_long, kit_serve),
        KIT_TEST(the_second_address_is_tried_in_time, kit_serve),
        KIT_TEST(an_idle_connection_costs_nothing, answer_and_close),
        KIT_TEST(a_denied_address_gets_no_connection, kit_serve),
        KIT_TEST(a_kept_connection_is_judged_again, kit_serve),
        KIT_TEST(only_good_addresses_are_used, kit_serve),
        KIT_TEST(a_new_connection_is_judged_again, kit_serve),
        KIT_TEST(the_request_carries_what_it_should, kit_serve),
        KIT_TEST(lines_that_are_none_are_refused, kit_serve),
        cmocka_unit_test(answers_leave_no_trace),
        cmocka_unit_test(certificates_are_verified),
        cmocka_unit_test(a_large_body_over_tls),
        KIT_TEST(hosts_without_tls, kit_serve),
        KIT_TEST(plain_http_on_the_tls_port, kit_serve),
    };
    int failed;

    pp_fetcher_subject = subject;
    failed = cmocka_run_group_tests_name(subject->name, tests, bait, NULL);
    return failed + pp_suite_fetcher_flow() + pp_suite_fetcher_answers();
}
