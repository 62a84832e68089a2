/* Tests the HTTP server's limits: timeouts, connections per address and in total, draining, and
 * thousands of idle and slow connections that delay no other request. test_http_evict.c tests who
 * gives way at a limit, test_http_memory.c the memory of bodies and answers. Tests about time hold
 * the clock, and move it once the server has read all sent bytes. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/http/http_peer.h"
#include "suite_http_kit.h"

/* --- timeouts --- */

/* What dripped_to_the_end() gets. That function sends `byte`, lets a millisecond pass, and returns
 * true once the connection has ended. */
struct drip {
    struct pp_hc *c;
    char byte; /* '\0': the function sends nothing */
};

static bool dripped_to_the_end(void *arg)
{
    struct drip *d = arg;
    if (pp_hc_ended(d->c))
        return true;
    if (d->byte)
        (void)!send(d->c->fd, &d->byte, 1, MSG_NOSIGNAL);
    pp_loop_turn(d->c->loop, false);
    pp_test_clock_pass(d->c->loop, 1);
    return false;
}

static void slow_callers_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *first;
        char drip;
        int which; /* number of the timeout that is short: 0 header, 1 body, 2 idle */
    } cases[] = {
        {"", '\0', 0},
        {"", 'G', 0},
        {"GET / HT", 'x', 0},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: ", 'x', 0},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", '\0', 1},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", 'x', 1},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFF\r\n", 'x', 1},
        {"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", '\0', 2},
        {"GET /echo HTTP/1.1\r\nHost: a\r\n\r\nG", 'x', 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_http_options o = patient();
        *(cases[i].which == 0   ? &o.header_timeout_ms
          : cases[i].which == 1 ? &o.body_timeout_ms
                                : &o.idle_timeout_ms) = SHORT_MS;
        struct pp_echo e;
        struct pp_hc c;
        pp_echo_open(&e, &o);
        pp_test_clock_hold(e.loop);
        join(&c, &e, NULL, cases[i].first);
        struct drip d = {&c, cases[i].drip};
        for (int ms = 0; ms < SHORT_MS; ms++)
            assert_false(dripped_to_the_end(&d));
        pp_test_until(e.loop, dripped_to_the_end, &d, 10000);
        assert_int_equal(pp_echo_stats(&e).connections, 0);
        pp_test_clock_release(e.loop);
        pp_hc_close(&c);
        pp_echo_close(&e);
    }
}

/* The handler may take longer than every timeout of the caller: the connection stays open
 * meanwhile. */
static void handlers_have_time(void **state)
{
    (void)state;
    struct pp_http_options o = {
        .header_timeout_ms = SHORT_MS, .body_timeout_ms = SHORT_MS, .idle_timeout_ms = SHORT_MS};
    struct pp_echo e;
    struct pp_hc busy, idle;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    join(&busy, &e, NULL, hold);
    assert_int_equal(e.n_held, 1);
    join(&idle, &e, NULL, NULL);
    pp_test_clock_pass(e.loop, SHORT_MS);
    pp_hc_wait_end(&idle);
    pp_test_clock_pass(e.loop, 100 * SHORT_MS);
    for (int i = 0; i < 3; i++)
        pp_loop_turn(e.loop, false);
    assert_false(pp_hc_ended(&busy));
    pp_test_clock_release(e.loop);
    pp_echo_release(&e);
    expect_status(&busy, 200);
    pp_hc_close(&busy);
    pp_hc_close(&idle);
    pp_echo_close(&e);
}

/* --- limits on connections --- */

static void keys_of_peers(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        int like; /* number of the first case with an address that the server counts as the same */
    } cases[] = {
        {"::1", 0},
        {"::ffff:127.0.0.1", 1},
        {"::ffff:192.0.2.7", 2},
        {"2001:db8:0:1::1", 3},
        {"2001:db8:0:1:ffff::2", 3},
        {"2001:db8:0:2::1", 5},
    };
    static const char *const texts[] = {
        "::/64", "127.0.0.1", "192.0.2.7", "2001:db8:0:1::/64", "2001:db8:0:1::/64", "2001:db8:0:2::/64"};
    enum { N = sizeof cases / sizeof *cases };
    struct pp_http_peer_key keys[N];
    for (int i = 0; i < N; i++) {
        struct sockaddr_in6 sa = {.sin6_family = AF_INET6};
        struct sockaddr_storage any = {0};
        assert_int_equal(inet_pton(AF_INET6, cases[i].address, &sa.sin6_addr), 1);
        memcpy(&any, &sa, sizeof sa);
        keys[i] = pp_http_peer_key(&any);
        char text[PP_HTTP_PEER_TEXT];
        pp_http_peer_text(&keys[i], text);
        assert_string_equal(text, texts[i]);
        assert_int_equal(keys[i].family, cases[i].like == 1 || cases[i].like == 2 ? 4 : 6);
        for (int k = 0; k < i; k++)
            assert_int_equal(memcmp(&keys[i], &keys[k], sizeof keys[i]) == 0, cases[i].like == k);
    }
}

static void connections_in_all(void **state)
{
    (void)state;
    enum { PLACES = 6 };
    struct pp_http_options o = patient();
    o.max_connections = PLACES;
    struct pp_echo e;
    struct pp_hc c[2 * PLACES];
    char source[32];
    pp_echo_open(&e, &o);
    for (int i = 0; i < 2 * PLACES; i++) {
        snprintf(source, sizeof source, "127.0.1.%d", i + 1);
        join(&c[i], &e, source, i == 0 ? "POST /echo HTTP/1.1\r\n" : NULL);
    }
    /* Each address has one connection, so the server closes the oldest that has not sent a byte. */
    for (int i = 1; i <= PLACES; i++)
        pp_hc_wait_end(&c[i]);
    struct pp_http_stats s = pp_echo_stats(&e);
    assert_int_equal(s.connections, PLACES);
    assert_int_equal(s.evicted_total, PLACES);
    pp_hc_puts(&c[0], "Host: a\r\nContent-Length: 0\r\n\r\n");
    expect_status(&c[0], 200);
    for (int i = PLACES + 1; i < 2 * PLACES; i++) {
        pp_hc_puts(&c[i], get);
        expect_status(&c[i], 200);
    }
    for (int i = 0; i < 2 * PLACES; i++)
        pp_hc_close(&c[i]);
    pp_echo_close(&e);
}

/* --- descriptors --- */

/* When the process has no descriptor left, callers wait until one is free: a connection of the
 * server closes, or the server tries again. */
static void callers_wait_for_descriptors(void **state)
{
    (void)state;
    enum { FDS = 256, RETRY_MS = 1000 };
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct rlimit before, few;
    struct pp_hc first, c[2];
    int fds[FDS] = {0}, n = 0;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    join(&first, &e, NULL, get);
    expect_status(&first, 200);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = FDS;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while ((fds[n] = dup(0)) >= 0)
        n++;
    assert_true(n > 3);
    for (int i = 0; i < 2; i++) {
        close(fds[--n]);
        pp_hc_open(&c[i], e.loop, NULL, e.port); /* takes this descriptor */
        pp_hc_puts(&c[i], get);
    }
    for (int i = 0; i < 10; i++)
        pp_loop_turn(e.loop, false);
    assert_int_equal(pp_echo_stats(&e).accepted_total, 1);
    for (int i = 0; i < 2; i++)
        assert_false(pp_hc_ended(&c[i]));
    shutdown(first.fd, SHUT_RDWR); /* the server closes its end of this connection */
    expect_status(&c[0], 200);
    assert_false(pp_hc_ended(&c[1]));
    close(fds[--n]);
    for (int i = 0; i < 10; i++)
        pp_loop_turn(e.loop, false);
    assert_int_equal(pp_echo_stats(&e).accepted_total, 2);
    pp_test_clock_pass(e.loop, RETRY_MS);
    expect_status(&c[1], 200);
    while (n > 0)
        close(fds[--n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    pp_test_clock_release(e.loop);
    pp_hc_close(&first);
    for (int i = 0; i < 2; i++)
        pp_hc_close(&c[i]);
    pp_echo_close(&e);
}

/* --- draining --- */

/* Returns true if this server accepts a connection at its former port. Another process may have the
 * port by now. */
static bool accepts(struct pp_echo *e)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(e->port)};
    uint64_t before = pp_echo_stats(e).accepted_total;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)!connect(fd, (struct sockaddr *)&sa, sizeof sa);
    for (int i = 0; i < 3; i++)
        pp_loop_turn(e->loop, false);
    close(fd);
    return pp_echo_stats(e).accepted_total > before;
}

static void a_drain_answers_what_has_arrived(void **state)
{
    (void)state;
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc idle, fresh, busy, body, sent;
    struct pp_hc_answer a;
    char v[16];
    pp_echo_open(&e, &o);
    join(&idle, &e, NULL, get);
    expect_status(&idle, 200);
    join(&fresh, &e, NULL, NULL);
    join(&busy, &e, NULL, hold);
    join(&body, &e, NULL, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx");
    join(&sent, &e, NULL, NULL);
    /* The server has not read this request: its bytes are in the kernel's buffer. */
    pp_hc_puts(&sent, get);
    arrive(&sent);
    e.server->ops->drain(e.server);
    e.server->ops->drain(e.server);
    pp_hc_wait_end(&idle);
    pp_hc_wait_end(&fresh);
    assert_int_equal(pp_echo_stats(&e).connections, 3);
    pp_hc_puts(&body, "y");
    assert_true(pp_hc_read(&body, &a, false));
    assert_int_equal(a.status, 200);
    assert_string_equal(pp_hc_header(&a, "Connection", v, sizeof v), "close");
    pp_hc_wait_end(&body);
    assert_true(pp_hc_read(&sent, &a, false));
    assert_int_equal(a.status, 200);
    pp_hc_wait_end(&sent);
    pp_echo_release(&e);
    assert_true(pp_hc_read(&busy, &a, false));
    assert_string_equal(pp_hc_header(&a, "Connection", v, sizeof v), "close");
    pp_hc_wait_end(&busy);
    struct pp_hc *all[] = {&idle, &fresh, &busy, &body, &sent};
    for (size_t i = 0; i < 5; i++)
        pp_hc_close(all[i]);
    while (pp_echo_stats(&e).connections > 0)
        pp_loop_turn(e.loop, true);
    assert_false(accepts(&e));
    pp_echo_close(&e);
}

/* The server closes without a drain, with connections in every state. A handler may still answer
 * its request afterwards. */
static void closed_at_once(void **state)
{
    (void)state;
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc c[5];
    static const char *const first[] = {NULL, "GET",
                                        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx", hold,
                                        "GET /big?33554432 HTTP/1.1\r\nHost: a\r\n\r\n"};
    pp_echo_open(&e, &o);
    for (int i = 0; i < 5; i++)
        join(&c[i], &e, NULL, first[i]);
    assert_int_equal(e.n_held, 1);
    assert_int_equal(e.borrowed, 1);
    pp_echo_close(&e); /* answers the held requests after ops->close() */
    for (int i = 0; i < 5; i++) {
        while (!pp_hc_ended(&c[i]))
            continue;
        pp_hc_close(&c[i]);
    }
}

/* --- thousands of connections --- */

enum { IDLE_ONE = 6000, IDLE_OTHERS = 4000, OTHERS = 20, SLOW = 1000, POSTS = 50 };

struct crowd {
    struct pp_echo e;
    struct pp_hc idle[IDLE_ONE + IDLE_OTHERS], slow[SLOW];
    int n_idle, n_slow;
    int posts;
};

static const char *source_of(int i)
{
    static char text[32];
    if (i % 2 == 0)
        return NULL;
    snprintf(text, sizeof text, "127.0.2.%d", i / 2 % OTHERS + 1);
    return text;
}

/* Sends a POST from `source`, an address of the crowd or another one. Asserts that the server
 * answers it. */
static void post_in_between(struct crowd *w, const char *source)
{
    struct pp_hc c;
    pp_hc_open(&c, w->e.loop, source, w->e.port);
    pp_hc_puts(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
    pp_loop_turn(w->e.loop, false);
    pp_hc_puts(&c, "llo");
    expect_status(&c, 200);
    pp_hc_close(&c);
    w->posts++;
}

static void add_some(struct crowd *w)
{
    static const char *const starts[] = {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx",
                                         "GET /echo HTTP/1.1\r\nHo"};
    int idle_max = IDLE_ONE + IDLE_OTHERS;
    for (int i = 0; i < 100 && w->n_idle < idle_max; i++, w->n_idle++)
        pp_hc_open(&w->idle[w->n_idle], w->e.loop, w->n_idle < IDLE_ONE ? NULL : source_of(w->n_idle * 2 + 1),
                   w->e.port);
    for (int i = 0; i < 10 && w->n_slow < SLOW; i++, w->n_slow++) {
        pp_hc_open(&w->slow[w->n_slow], w->e.loop, source_of(w->n_slow), w->e.port);
        pp_hc_puts(&w->slow[w->n_slow], starts[w->n_slow / 2 % 2]);
    }
    /* Every seventh slow connection sends a byte from time to time. */
    for (int i = 0; i < w->n_slow; i += 7)
        (void)!send(w->slow[i].fd, "x", 1, MSG_NOSIGNAL);
}

static void thousands_delay_nobody(void **state)
{
    (void)state;
    struct rlimit fds;
    struct pp_http_options o = patient();
    struct crowd *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &fds), 0);
    fds.rlim_cur = fds.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &fds), 0);
    if (fds.rlim_cur < 18000) {
        free(w);
        /* The test needs 18,000 descriptors, because it has both ends of all connections. */
        skip();
    }
    o.max_connections = 4000; /* The addresses open more connections than this limit. */
    pp_echo_open(&w->e, &o);
    while (w->n_idle < IDLE_ONE + IDLE_OTHERS || w->n_slow < SLOW) {
        add_some(w);
        post_in_between(w, NULL);
        post_in_between(w, "127.0.2.1");
        post_in_between(w, "127.0.3.1");
    }
    for (int i = 0; i < POSTS; i++)
        post_in_between(w, i % 2 ? "127.0.2.7" : NULL);
    struct pp_http_stats s = pp_echo_stats(&w->e);
    assert_int_equal(s.requests_total, w->posts);
    assert_int_equal(s.refused_total, 0);
    assert_true(s.connections <= 4000);
    for (int i = 0; i < w->n_idle; i++)
        pp_hc_close(&w->idle[i]);
    for (int i = 0; i < w->n_slow; i++)
        pp_hc_close(&w->slow[i]);
    pp_echo_close(&w->e);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_callers_are_cut),
        cmocka_unit_test(handlers_have_time),
        cmocka_unit_test(connections_in_all),
        cmocka_unit_test(keys_of_peers),
        cmocka_unit_test(callers_wait_for_descriptors),
        cmocka_unit_test(a_drain_answers_what_has_arrived),
        cmocka_unit_test(closed_at_once),
        cmocka_unit_test(thousands_delay_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
