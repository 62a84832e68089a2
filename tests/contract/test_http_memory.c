/* Tests how the HTTP server bounds the memory of bodies and of answers, and the work of decoding
 * gzip. Tests about time hold the clock, and move it once the server has read all sent bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/ledger.h"
#include "suite_http_kit.h"

enum { PIECE = 128 * 1024 }; /* all bodies together decode at most this many bytes in one turn */

/* --- answers --- */

static bool gave_back(void *arg)
{
    return ((struct pp_echo *)arg)->borrowed == 0;
}

/* Reads exactly `n` bytes while the server continues to send. */
static void read_some(struct pp_hc *c, size_t n)
{
    static char block[64 * 1024];
    while (n > 0) {
        ssize_t got = recv(c->fd, block, n < sizeof block ? n : sizeof block, MSG_DONTWAIT);
        n -= got > 0 ? (size_t)got : 0;
        pp_loop_turn(c->loop, false);
    }
    for (int i = 0; i < 3; i++)
        pp_loop_turn(c->loop, false);
}

/* A caller must read its answer at 4 KiB a second, also if the answer comes in pieces. */
static void callers_that_do_not_read(void **state)
{
    (void)state;
    enum { MS = 30000, ENOUGH = 60 * 4096, ROUNDS = 20, SOCKET = 32 * 1024 };
    static const char *const requests[] = {"GET /big?33554432 HTTP/1.1\r\nHost: a\r\n\r\n",
                                           "GET /pieces?33554432 HTTP/1.1\r\nHost: a\r\n\r\n"};
    for (int i = 0; i < 2; i++) {
        struct pp_http_options o = patient();
        o.write_timeout_ms = MS;
        struct pp_echo e;
        struct pp_hc c;
        int small = SOCKET;
        pp_echo_open(&e, &o);
        pp_echo_pattern(&e);
        pp_test_clock_hold(e.loop);
        pp_hc_open(&c, e.loop, NULL, e.port);
        /* With a small buffer, the kernel acknowledges little more than the caller reads. */
        assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
        pp_hc_puts(&c, requests[i]);
        while (e.lent + e.sources == 0)
            pp_loop_turn(e.loop, true);
        read_some(&c, 10 * SOCKET);
        for (int round = 0; round < ROUNDS; round++) {
            pp_test_clock_pass(e.loop, MS);
            read_some(&c, ENOUGH); /* the kernel acknowledges in steps */
            assert_int_equal(pp_echo_stats(&e).connections, 1);
        }
        for (int round = 0; pp_echo_stats(&e).connections > 0; round++) {
            assert_in_range(round, 0, 3);
            pp_test_clock_pass(e.loop, MS);
            read_some(&c, 1000);
        }
        pp_test_until(e.loop, gave_back, &e, 10000);
        pp_test_clock_release(e.loop);
        pp_hc_close(&c);
        pp_echo_close(&e);
    }
}

/* Returns the status of a GET of another caller. */
static int get_beside(struct pp_echo *e, const char *path)
{
    char request[100];
    struct pp_hc c;
    struct pp_hc_answer a;
    pp_hc_open(&c, e->loop, NULL, e->port);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    pp_hc_puts(&c, request);
    assert_true(pp_hc_read(&c, &a, false));
    pp_hc_close(&c);
    while (pp_echo_stats(e).connections > 1)
        pp_loop_turn(e->loop, true);
    return a.status;
}

/* All answers share a budget. When it is used up, a caller that has read slowly for a second gives
 * way, but no other; an answer in pieces needs the memory of one piece. */
static void answers_share_a_budget(void **state)
{
    (void)state;
    struct pp_http_options o = patient();
    struct pp_ledger ledger;
    struct pp_echo e;
    struct pp_hc c;
    pp_ledger_init(&ledger);
    struct pp_account *answers = &ledger.rows[PP_RES_ANSWERS];
    answers->limit = 32 << 20;
    o.ledger = &ledger;
    o.body_timeout_ms = 30000; /* so that callers are judged over one second */
    pp_echo_open(&e, &o);
    pp_echo_pattern(&e);
    pp_test_clock_hold(e.loop);
    join(&c, &e, NULL, "GET /big?33000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    while (e.lent == 0)
        pp_loop_turn(e.loop, true);
    assert_int_equal(answers->used, 33000000);
    assert_int_equal(get_beside(&e, "/big?1000000"), 503);
    assert_int_equal(get_beside(&e, "/echo"), 200); /* is small */
    assert_int_equal(get_beside(&e, "/pieces?33000000"), 200);
    pp_test_clock_pass(e.loop, 999);
    assert_int_equal(get_beside(&e, "/big?1000000"), 503);
    pp_test_clock_pass(e.loop, 1);
    assert_int_equal(get_beside(&e, "/big?1000000"), 200);
    pp_hc_wait_end(&c);
    assert_int_equal(answers->used, 0);
    pp_test_clock_release(e.loop);
    pp_hc_close(&c);
    pp_echo_close(&e);
}

/* A caller whose own share is used up loses its own slow answer, and no other's. */
static void answers_count_for_their_caller(void **state)
{
    (void)state;
    struct pp_http_options o = patient();
    struct pp_ledger ledger;
    struct pp_echo e;
    struct pp_hc other, own;
    pp_ledger_init(&ledger);
    o.ledger = &ledger;
    o.body_timeout_ms = 30000;
    pp_echo_open(&e, &o);
    pp_echo_pattern(&e);
    e.answers.limit = 33 << 20;
    pp_test_clock_hold(e.loop);
    join(&other, &e, NULL, "GET /big?33000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    join(&own, &e, NULL, "GET /big?33000001 HTTP/1.1\r\nHost: a\r\nAuthorization: share\r\n\r\n");
    while (e.lent < 2)
        pp_loop_turn(e.loop, true);
    assert_int_equal(e.answers.used, 33000001);
    struct pp_hc c;
    for (int i = 0; i < 2; i++) {
        pp_hc_open(&c, e.loop, NULL, e.port);
        pp_hc_puts(&c, "GET /big?2000000 HTTP/1.1\r\nHost: a\r\nAuthorization: share\r\n\r\n");
        expect_status(&c, i == 0 ? 429 : 200);
        pp_hc_close(&c);
        pp_test_clock_pass(e.loop, 1000);
    }
    pp_hc_wait_end(&own);
    assert_false(pp_hc_ended(&other));
    pp_test_clock_release(e.loop);
    pp_hc_close(&own);
    pp_hc_close(&other);
    pp_echo_close(&e);
    assert_int_equal(e.answers.used, 0);
}

/* --- bodies --- */

static void bodies_share_a_budget(void **state)
{
    (void)state;
    enum { BODY = 200 * 1000 };
    static char body[BODY];
    static const char head[] = "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
    struct pp_http_options o = patient();
    struct pp_http_stats before;
    struct pp_echo e;
    struct pp_hc c[4];
    struct pp_hc_answer a;
    char v[16];
    struct pp_ledger ledger;
    pp_ledger_init(&ledger);
    ledger.rows[PP_RES_BODIES].limit = 2 * BODY + 1000;
    o.ledger = &ledger;
    pp_echo_open(&e, &o);
    for (int i = 0; i < 2; i++) {
        join(&c[i], &e, NULL, head);
        pp_hc_send(&c[i], body, BODY);
    }
    while (e.n_held < 2)
        pp_loop_turn(e.loop, true);
    before = pp_echo_stats(&e);
    /* The announced length of a body costs no memory: only received bytes do. */
    join(&c[2], &e, NULL, head);
    assert_int_equal(pp_echo_stats(&e).requests_total, before.requests_total);
    pp_hc_send(&c[2], body, BODY);
    assert_true(pp_hc_read(&c[2], &a, false));
    assert_int_equal(a.status, 503);
    assert_int_equal(strncmp(a.body, "overloaded", 10), 0);
    assert_string_equal(pp_hc_header(&a, "Retry-After", v, sizeof v), "1");
    pp_hc_wait_end(&c[2]);
    pp_echo_release(&e); /* The answer frees the memory of this request. */
    join(&c[3], &e, NULL, head);
    pp_hc_send(&c[3], body, BODY);
    while (e.n_held < 2)
        pp_loop_turn(e.loop, true);
    pp_echo_release(&e);
    pp_echo_release(&e);
    expect_status(&c[3], 200);
    for (int i = 0; i < 4; i++)
        pp_hc_close(&c[i]);
    pp_echo_close(&e);
}

/* Sends a POST whose body needs more memory than the slow body has left. Returns the status of the
 * answer. */
static int post_beside(struct pp_echo *e)
{
    static const char body[10000];
    struct pp_hc c;
    struct pp_hc_answer a;
    pp_hc_open(&c, e->loop, NULL, e->port);
    pp_hc_puts(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n");
    pp_hc_send(&c, body, sizeof body);
    assert_true(pp_hc_read(&c, &a, false));
    pp_hc_close(&c);
    return a.status;
}

/* A fast body takes memory from slow bodies, but only after they have been slow for a while. */
static void slow_bodies_give_way(void **state)
{
    (void)state;
    enum { WINDOW = 1000 };
    struct pp_http_options o = patient();
    static const char some[30000];
    struct pp_echo e;
    struct pp_hc c;
    /* This is enough for a body of 30,000 bytes, but not for another 10,000 beside it. */
    struct pp_ledger ledger;
    pp_ledger_init(&ledger);
    ledger.rows[PP_RES_BODIES].limit = 34000;
    o.ledger = &ledger;
    o.body_timeout_ms = 30 * WINDOW;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    join(&c, &e, NULL, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 31000\r\n\r\n");
    pp_hc_send(&c, some, sizeof some);
    be_read(&c);
    assert_int_equal(post_beside(&e), 503);
    /* With 30,000 bytes the body counts as fast for one window. After a second window it is
     * slow. */
    pp_test_clock_pass(e.loop, 2 * WINDOW - 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(post_beside(&e), 503);
    pp_test_clock_pass(e.loop, 1);
    assert_int_equal(post_beside(&e), 200);
    pp_hc_wait_end(&c);
    assert_int_equal(pp_echo_stats(&e).evicted_total, 1);
    pp_test_clock_release(e.loop);
    pp_hc_close(&c);
    pp_echo_close(&e);
}

/* Compresses `n` bytes with the level, and flushes them, so that a decoder can decode all of them.
 * Returns the number of bytes in `out`. */
static size_t deflate_some(z_stream *z, int flush, const void *p, size_t n, char *out, size_t cap)
{
    z->next_in = (unsigned char *)(uintptr_t)p;
    z->avail_in = (unsigned)n;
    z->next_out = (unsigned char *)out;
    z->avail_out = (unsigned)cap;
    assert_int_equal(deflate(z, flush), flush == Z_FINISH ? Z_STREAM_END : Z_OK);
    assert_int_equal(z->avail_in, 0);
    assert_true(z->avail_out > 0);
    return cap - z->avail_out;
}

static void gzip_begin(z_stream *z, int level)
{
    *z = (z_stream){0};
    assert_int_equal(deflateInit2(z, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
}

static const char gzip_head[] =
    "POST %s HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n";

/* Several small bodies become large. The server decodes them in pieces, and serves others in
 * between. */
static void gzip_is_decoded_in_pieces(void **state)
{
    (void)state;
    enum { SIZE = 8 << 20, BODIES = 4 };
    char head[200];
    char *zeros = calloc(1, SIZE), *coded = malloc(SIZE / 100);
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc c[BODIES], other;
    z_stream z;
    assert_true(zeros && coded);
    gzip_begin(&z, 9);
    size_t n = deflate_some(&z, Z_FINISH, zeros, SIZE, coded, SIZE / 100);
    deflateEnd(&z);
    pp_echo_open(&e, &o);
    snprintf(head, sizeof head, gzip_head, "/hold", n);
    for (int i = 0; i < BODIES; i++) {
        join(&c[i], &e, NULL, NULL);
        pp_hc_puts(&c[i], head);
        pp_hc_send(&c[i], coded, n);
        arrive(&c[i]);
    }
    pp_hc_open(&other, e.loop, NULL, e.port);
    pp_hc_puts(&other, get);
    expect_status(&other, 200);
    assert_int_equal(e.n_held, 0);
    int turns = 0;
    for (; e.n_held < BODIES; turns++)
        pp_loop_turn(e.loop, true);
    assert_in_range(turns, BODIES * SIZE / PIECE / 2, 10 * BODIES * SIZE / PIECE);
    while (e.n_held > 0) {
        assert_int_equal(e.held[0]->body_n, SIZE);
        assert_memory_equal(e.held[0]->body, zeros, SIZE);
        pp_echo_release(&e);
    }
    for (int i = 0; i < BODIES; i++)
        pp_hc_close(&c[i]);
    pp_hc_close(&other);
    pp_echo_close(&e);
    free(zeros);
    free(coded);
}

/* A gzip body whose bytes decode to nothing is slow, however many of them come. */
static void gzip_without_content_gives_way(void **state)
{
    (void)state;
    enum { WINDOW = 1000, SOME = 30000, EMPTY = 40000 };
    static const char some[SOME];
    static char wire[SOME + 2 * EMPTY];
    char head[200];
    struct pp_http_options o = patient();
    struct pp_ledger ledger;
    struct pp_echo e;
    struct pp_hc c;
    z_stream z;
    pp_ledger_init(&ledger);
    ledger.rows[PP_RES_BODIES].limit = 48 * 1024 + 34000; /* with the state of gzip */
    o.ledger = &ledger;
    o.body_timeout_ms = 30 * WINDOW;
    gzip_begin(&z, 0);
    size_t n = deflate_some(&z, Z_SYNC_FLUSH, some, SOME, wire, sizeof wire);
    deflateEnd(&z);
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    snprintf(head, sizeof head, gzip_head, "/echo", (size_t)1 << 20);
    join(&c, &e, NULL, head);
    pp_hc_send(&c, wire, n);
    be_read(&c);
    assert_int_equal(post_beside(&e), 503);
    for (size_t i = 0; i < EMPTY; i += 5)
        memcpy(wire + i, "\0\0\0\xff\xff", 5); /* an empty stored block */
    for (int i = 0; i < 2; i++) {
        pp_test_clock_pass(e.loop, WINDOW);
        pp_hc_send(&c, wire, EMPTY);
        be_read(&c);
    }
    pp_test_clock_pass(e.loop, WINDOW - 1);
    assert_int_equal(post_beside(&e), 200);
    pp_hc_wait_end(&c);
    pp_test_clock_release(e.loop);
    pp_hc_close(&c);
    pp_echo_close(&e);
}

/* A caller whose own share is used up is refused with rate_limited. No other body gives way. */
static void bodies_count_for_their_caller(void **state)
{
    (void)state;
    static const char body[10000];
    static const char head[] = "POST /share HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n";
    struct pp_http_options o = patient();
    struct pp_ledger ledger;
    struct pp_echo e;
    struct pp_hc first, second;
    struct pp_hc_answer a;
    char v[16];
    pp_ledger_init(&ledger);
    ledger.rows[PP_RES_BODIES].limit = 25000;
    o.ledger = &ledger;
    pp_echo_open(&e, &o);
    e.share.limit = 12000;
    join(&first, &e, NULL, head);
    pp_hc_send(&first, body, sizeof body - 1);
    be_read(&first);
    pp_hc_open(&second, e.loop, NULL, e.port);
    pp_hc_puts(&second, head);
    pp_hc_send(&second, body, sizeof body);
    assert_true(pp_hc_read(&second, &a, false));
    assert_int_equal(a.status, 429);
    assert_int_equal(strncmp(a.body, "rate_limited", 12), 0);
    assert_string_equal(pp_hc_header(&a, "Retry-After", v, sizeof v), "1");
    assert_int_equal(post_beside(&e), 200);
    pp_hc_puts(&first, "x");
    expect_status(&first, 200);
    assert_int_equal(e.share.used, 0);
    assert_int_equal(ledger.rows[PP_RES_BODIES].used, 0);
    pp_hc_close(&first);
    pp_hc_close(&second);
    pp_echo_close(&e);
}

/* While the handler has a request, the server does not read the next one. The bytes fill the
 * kernel's buffers, and then the caller can't send more. */
static void requests_wait_outside(void **state)
{
    (void)state;
    enum { BLOCK = 64 * 1024, FAR_TOO_MUCH = 64 * 1024 * 1024 };
    static const char block[BLOCK];
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc c;
    size_t sent = 0;
    pp_echo_open(&e, &o);
    join(&c, &e, NULL, hold);
    for (int idle = 0; idle < 100 && sent < FAR_TOO_MUCH; idle++) {
        ssize_t n = send(c.fd, block, BLOCK, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
            idle = 0;
        }
        pp_loop_turn(e.loop, false);
    }
    assert_true(sent < FAR_TOO_MUCH);
    pp_echo_release(&e);
    expect_status(&c, 200);
    /* The server reads the rest as a second request, which is malformed: it has only zeros. */
    expect_status(&c, 400);
    pp_hc_close(&c);
    pp_echo_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_that_do_not_read),       cmocka_unit_test(answers_share_a_budget),
        cmocka_unit_test(answers_count_for_their_caller), cmocka_unit_test(bodies_share_a_budget),
        cmocka_unit_test(slow_bodies_give_way),           cmocka_unit_test(gzip_is_decoded_in_pieces),
        cmocka_unit_test(gzip_without_content_gives_way), cmocka_unit_test(bodies_count_for_their_caller),
        cmocka_unit_test(requests_wait_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
