/* Tests the HTTP server as callers see it: good and bad requests, sent byte by byte over raw
 * sockets. test_http_limits.c tests limits and timeouts, test_http_evict.c who gives way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/text.h"
#include "http_client.h"
#include "http_echo.h"
#include "test_loop.h"

enum { MAX_BODY = 64 * 1024, MAX_HEAD = 4096 };

static const struct pp_http_options options = {.max_body = MAX_BODY, .max_header_bytes = MAX_HEAD};

static int setup(void **state)
{
    struct pp_echo *e = malloc(sizeof *e);
    pp_echo_open(e, &options);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    pp_echo_close(*state);
    free(*state);
    return 0;
}

static void open_client(struct pp_hc *c, struct pp_echo *e)
{
    pp_hc_open(c, e->loop, NULL, e->port);
}

static void expect_answer(struct pp_hc *c, int status, const char *body)
{
    struct pp_hc_answer a;
    assert_true(pp_hc_read(c, &a, false));
    assert_int_equal(a.status, status);
    assert_int_equal(a.body_n, strlen(body));
    assert_memory_equal(a.body, body, a.body_n);
}

/* --- answers --- */

static void headers_of_an_answer(void **state)
{
    struct pp_hc c;
    struct pp_hc_answer a;
    char v[128];
    open_client(&c, *state);
    pp_hc_puts(&c, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, false));
    assert_int_equal(strncmp(a.head, "HTTP/1.1 200 OK\r\n", 17), 0);
    assert_string_equal(pp_hc_header(&a, "Server", v, sizeof v), "photopool");
    assert_string_equal(pp_hc_header(&a, "X-Content-Type-Options", v, sizeof v), "nosniff");
    assert_string_equal(pp_hc_header(&a, "Content-Type", v, sizeof v), "text/plain");
    assert_string_equal(pp_hc_header(&a, "Content-Length", v, sizeof v), "1");
    assert_int_equal(strlen(pp_hc_header(&a, "Date", v, sizeof v)), strlen("Sun, 06 Nov 1994 08:49:37 GMT"));
    pp_hc_puts(&c, "GET /headers HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, false));
    assert_int_equal(a.status, 201);
    assert_string_equal(pp_hc_header(&a, "Location", v, sizeof v), "/a");
    assert_string_equal(pp_hc_header(&a, "X-Last", v, sizeof v), "\tz");
    assert_null(
        /* The value has a line break, which would split the answer, so the server drops the
         * header. */
        pp_hc_header(&a, "X-Bad", v, sizeof v));
    assert_null(pp_hc_header(&a, "X-Evil", v, sizeof v));
    pp_hc_close(&c);
}

static void what_a_handler_sees(void **state)
{
    static const struct {
        const char *request, *seen;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / - - - -"},
        {"\r\nPUT /a/%41?x=1&y=%20? HTTP/1.1\r\nHOST:a:80\r\nauthorization:\t Bearer k \t\r\n\r\n",
         "PUT /a/%41 x=1&y=%20? Bearer k - -"},
        {"DELETE /? HTTP/1.1\r\nHost:\r\nContent-Type: application/json; charset=utf-8\r\nIdempotency-Key: "
         "\"k 1\"\r\n\r\n",
         "DELETE / - - application/json; charset=utf-8 \"k 1\""},
        {"OPTIONS / HTTP/1.1\r\nHost: [::1]:8080\r\nContent-Length: 0\r\n\r\n", "OPTIONS / - - - -"},
        {"PATCH / HTTP/1.1\r\nHost: a\r\nX: caf\xc3\xa9\r\nEmpty:\r\n\r\n", "PATCH / - - - -"},
        {"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", "GET / - - - -"},
        {"GET http://a?x=1 HTTP/1.1\r\nHost: a\r\n\r\n", "GET / x=1 - - -"},
        {"GET http://[::1]:80/b?x=?/ HTTP/1.1\r\nHost:\r\n\r\n", "GET /b x=?/ - - -"},
        {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", "OTHER / - - - -"},
        {"get / HTTP/1.1\r\nHost: a\r\n\r\n", "OTHER / - - - -"},
        {"GET /n HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\n\r\n", "GET /n - - - -"},
    };
    struct pp_hc c;
    open_client(&c, *state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pp_hc_puts(&c, cases[i].request);
        expect_answer(&c, 200, cases[i].seen);
    }
    assert_false(pp_hc_ended(&c));
    pp_hc_close(&c);
}

static void no_body_where_none_may_be(void **state)
{
    struct pp_hc c;
    struct pp_hc_answer a;
    char v[32];
    open_client(&c, *state);
    pp_hc_puts(&c, "HEAD /big?70000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, true));
    assert_int_equal(a.status, 200);
    assert_string_equal(pp_hc_header(&a, "Content-Length", v, sizeof v), "70000");
    static const int bodyless[] = {204, 304};
    for (int i = 0; i < 2; i++) {
        char request[64];
        snprintf(request, sizeof request, "GET /status?%d HTTP/1.1\r\nHost: a\r\n\r\n", bodyless[i]);
        pp_hc_puts(&c, request);
        assert_true(pp_hc_read(&c, &a, false));
        assert_int_equal(a.status, bodyless[i]);
        assert_null(pp_hc_header(&a, "Content-Length", v, sizeof v));
    }
    pp_hc_puts(&c,
               "HEAD /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, true));
    assert_int_equal(a.status, 400);
    pp_hc_wait_end(&c);
    assert_int_equal(c.at, c.n);
    pp_hc_close(&c);
}

static void persistence(void **state)
{
    static const struct {
        const char *request;
        bool kept;
    } cases[] = {
        {"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: x , Close\r\n\r\n", false},
        {"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false},
        {"GET /echo HTTP/1.0\r\n\r\n", false},
        {"GET /echo HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n", true},
        {"GET /close HTTP/1.1\r\nHost: a\r\n\r\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_hc c;
        struct pp_hc_answer a;
        char v[32];
        open_client(&c, *state);
        pp_hc_puts(&c, cases[i].request);
        assert_true(pp_hc_read(&c, &a, false));
        assert_int_equal(a.status, 200);
        assert_string_equal(pp_hc_header(&a, "Connection", v, sizeof v),
                            cases[i].kept ? "keep-alive" : "close");
        if (cases[i].kept) {
            pp_hc_puts(&c, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
            expect_answer(&c, 200, "-");
        } else {
            pp_hc_wait_end(&c);
            assert_false(c.reset);
        }
        pp_hc_close(&c);
    }
}

static void pipelining(void **state)
{
    enum { REQUESTS = 400 };
    struct pp_echo *e = *state;
    struct pp_hc c;
    char text[256];
    open_client(&c, e);
    for (int i = 0; i < REQUESTS; i++) {
        int n = snprintf(text, sizeof text,
                         i % 3 == 0   ? "GET /n?%d HTTP/1.1\r\nHost: a\r\n\r\n"
                         : i % 3 == 1 ? "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nb%05d"
                                      : "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                        "1\r\nc\r\n5\r\n%05d\r\n0\r\n\r\n",
                         i);
        pp_hc_send(&c, text, (size_t)n);
    }
    for (int i = 0; i < REQUESTS; i++) {
        snprintf(text, sizeof text, i % 3 == 0 ? "GET /n %d - - -" : i % 3 == 1 ? "b%05d" : "c%05d", i);
        expect_answer(&c, 200, text);
    }
    pp_hc_close(&c);
}

static bool two_held(void *arg)
{
    return ((struct pp_echo *)arg)->n_held == 2;
}

static bool one_held(void *arg)
{
    return ((struct pp_echo *)arg)->n_held == 1;
}

/* The server answers in the order of the requests, even if the first takes longest. A caller that
 * has shut down its sending side still gets all answers. */
static void pipelining_waits(void **state)
{
    struct pp_echo *e = *state;
    struct pp_hc c;
    open_client(&c, e);
    pp_hc_puts(&c, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\nGET /echo HTTP/1.1\r\nHost: a\r\n\r\n"
                   "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    pp_hc_shutdown(&c);
    pp_test_until(e->loop, one_held, e, 5000);
    assert_false(pp_hc_ended(&c));
    assert_int_equal(c.n, 0);
    pp_echo_release(e);
    expect_answer(&c, 200, "held");
    expect_answer(&c, 200, "-");
    pp_test_until(e->loop, one_held, e, 5000);
    pp_echo_release(e);
    expect_answer(&c, 200, "held");
    pp_hc_wait_end(&c);
    assert_false(c.reset);
    pp_hc_close(&c);
}

static bool no_connection(void *arg)
{
    return pp_echo_stats(arg).connections == 0;
}

static void caller_gone_before_the_answer(void **state)
{
    struct pp_echo *e = *state;
    struct pp_hc c[2];
    for (int i = 0; i < 2; i++) {
        open_client(&c[i], e);
        pp_hc_puts(&c[i], "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy");
    }
    pp_test_until(e->loop, two_held, e, 5000);
    /* Closing this socket sends a reset, which the server sees before it answers. */
    struct linger at_once = {1, 0};
    setsockopt(c[0].fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    pp_hc_close(&c[0]);
    pp_hc_close(&c[1]);
    pp_echo_release(e);
    pp_echo_release(e);
    pp_test_until(e->loop, no_connection, e, 5000);
    assert_int_equal(pp_echo_stats(e).requests_total, 2);
}

static void large_answers(void **state)
{
    struct pp_echo *e = *state;
    static const char *const requests[] = {"GET /big?33554432 HTTP/1.1\r\nHost: a\r\n\r\n",
                                           "GET /big-copy?33554432 HTTP/1.1\r\nHost: a\r\n\r\n",
                                           "GET /pieces?33554432 HTTP/1.1\r\nHost: a\r\n\r\n"};
    for (int i = 0; i < 3; i++) {
        struct pp_hc c;
        struct pp_hc_answer a;
        open_client(&c, e);
        pp_hc_puts(&c, requests[i]);
        pp_hc_puts(&c, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_true(pp_hc_read(&c, &a, false));
        assert_int_equal(a.body_n, 32 << 20);
        assert_memory_equal(a.body, pp_echo_pattern(e), a.body_n);
        expect_answer(&c, 200, "-");
        assert_int_equal(e->borrowed + e->sources, 0);
        pp_hc_close(&c);
    }
}

static bool no_source(void *arg)
{
    return ((struct pp_echo *)arg)->sources == 0;
}

/* A body in pieces: for HEAD the server asks for none; a source that fails ends the connection; the
 * server gives the source up once, however the connection ends. */
static void bodies_in_pieces(void **state)
{
    struct pp_echo *e = *state;
    struct pp_hc c;
    struct pp_hc_answer a;
    char v[32];
    open_client(&c, e);
    pp_hc_puts(&c, "HEAD /pieces?300000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, true));
    assert_string_equal(pp_hc_header(&a, "Content-Length", v, sizeof v), "300000");
    assert_int_equal(e->sources, 0);
    e->slow = true;
    pp_hc_puts(&c, "GET /pieces?150000 HTTP/1.1\r\nHost: a\r\n\r\nGET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 0; i < 2; i++) {
        while (!e->waiting)
            pp_loop_turn(e->loop, true);
        assert_int_equal(e->sources, 1);
        pp_echo_feed(e);
    }
    assert_true(pp_hc_read(&c, &a, false));
    assert_int_equal(a.body_n, 150000);
    assert_memory_equal(a.body, pp_echo_pattern(e), a.body_n);
    expect_answer(&c, 200, "-");
    pp_hc_puts(&c, "GET /pieces?300000 HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!e->waiting)
        pp_loop_turn(e->loop, true);
    pp_hc_close(&c); /* while the source owes a piece */
    pp_test_until(e->loop, no_source, e, 5000);
    e->slow = false;
    open_client(&c, e);
    pp_hc_puts(&c, "GET /broken?300000 HTTP/1.1\r\nHost: a\r\n\r\n");
    pp_hc_wait_end(&c);
    assert_int_equal(e->sources, 0);
    assert_true(c.n > 200000 && c.n < 300000);
    pp_hc_close(&c);
}

static bool is_borrowed(void *arg)
{
    return ((struct pp_echo *)arg)->borrowed > 0;
}

static bool is_returned(void *arg)
{
    return ((struct pp_echo *)arg)->borrowed == 0;
}

static void caller_gone_within_an_answer(void **state)
{
    struct pp_echo *e = *state;
    struct pp_hc c;
    open_client(&c, e);
    pp_hc_puts(&c, "GET /big?33554432 HTTP/1.1\r\nHost: a\r\n\r\n");
    pp_test_until(e->loop, is_borrowed, e, 5000);
    pp_hc_close(&c);
    pp_test_until(e->loop, is_returned, e, 5000);
    pp_test_until(e->loop, no_connection, e, 5000);
}

/* --- bodies --- */

static size_t gzip_of(const char *p, size_t n, char *out, size_t cap)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)p;
    z.avail_in = (unsigned)n;
    z.next_out = (unsigned char *)out;
    z.avail_out = (unsigned)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    n = z.total_out;
    deflateEnd(&z);
    return n;
}

static const char chunked[] = "Transfer-Encoding: Chunked\r\n";

/* Sends a head and a body of `n` bytes, `step` bytes at a time. Turns the loop between the
 * steps. */
static void post(struct pp_hc *c, const char *fields, const char *body, size_t n, size_t step)
{
    char head[256];
    int head_n = snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    pp_hc_send(c, head, (size_t)head_n);
    for (size_t at = 0; at < n; at += step) {
        pp_loop_turn(c->loop, false);
        pp_hc_send(c, body + at, step < n - at ? step : n - at);
    }
}

static void bodies_in_chunks(void **state)
{
    static const struct {
        const char *wire, *body;
    } cases[] = {
        {"0\r\n\r\n", "-"},
        {"3\r\nabc\r\n0\r\n\r\n", "abc"},
        {"1\r\na\r\n00002\r\nbc\r\nA\r\n0123456789\r\n0000\r\n\r\n", "abc0123456789"},
        {"3;name=value;x=\"y\"\r\nabc\r\n0;last\r\n\r\n", "abc"},
        {"2\r\n\r\n\r\n0\r\nX-Trailer: 1\r\nY: 2\r\n\r\n", "\r\n"},
    };
    struct pp_hc c;
    open_client(&c, *state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 1; step < 8; step += 2) {
            post(&c, chunked, cases[i].wire, strlen(cases[i].wire), step);
            expect_answer(&c, 200, cases[i].body);
        }
    }
    pp_hc_close(&c);
}

/* The handler gets the same content however the body is cut, chunked and compressed. */
static void bodies_at_random(void **state)
{
    static char content[MAX_BODY + 1], coded[2 * MAX_BODY], wire[8 * MAX_BODY], fields[128];
    struct pp_rng rng;
    struct pp_hc c;
    pp_rng_seed(&rng, 7);
    open_client(&c, *state);
    for (int round = 0; round < 60; round++) {
        size_t n = 1 + pp_rng_below(&rng, round < 50 ? 2000 : MAX_BODY);
        n = round == 59 ? MAX_BODY : n; /* This is the largest body that the server accepts. */
        for (size_t i = 0; i < n; i++)
            content[i] = (char)('a' + pp_rng_below(&rng, 3));
        content[n] = '\0';
        bool gzip = round % 2, chunks = round % 4 < 2;
        const char *p = content;
        size_t p_n = n;
        if (gzip) { /* A gzip file may have several members, so the body gets two. */
            size_t cut = pp_rng_below(&rng, n);
            p_n = gzip_of(content, cut, coded, sizeof coded);
            p_n += gzip_of(content + cut, n - cut, coded + p_n, sizeof coded - p_n);
            p = coded;
        }
        size_t wire_n = 0;
        for (size_t at = 0; chunks && at < p_n;) {
            size_t step = 1 + pp_rng_below(&rng, p_n - at < 700 ? p_n - at : 700);
            wire_n += (size_t)sprintf(wire + wire_n, "%zX\r\n", step);
            memcpy(wire + wire_n, p + at, step);
            memcpy(wire + wire_n + step, "\r\n", 2);
            wire_n += step + 2;
            at += step;
        }
        if (chunks) {
            memcpy(wire + wire_n, "0\r\n\r\n", 5);
            p = wire;
            p_n = wire_n + 5;
        }
        int at = chunks ? snprintf(fields, sizeof fields, "%s", chunked)
                        : snprintf(fields, sizeof fields, "Content-Length: %zu\r\n", p_n);
        snprintf(fields + at, sizeof fields - (size_t)at, "%s", gzip ? "Content-Encoding: gzip\r\n" : "");
        post(&c, fields, p, p_n, 1 + pp_rng_below(&rng, 3000));
        expect_answer(&c, 200, content);
    }
    pp_hc_close(&c);
}

static void expect_refusal(struct pp_hc *c, int status, const char *code)
{
    struct pp_hc_answer a;
    char v[64];
    assert_true(pp_hc_read(c, &a, false));
    assert_int_equal(a.status, status);
    assert_int_equal(strncmp(a.body, code, strlen(code)), 0);
    assert_string_equal(pp_hc_header(&a, "Content-Type", v, sizeof v), "application/problem+json");
    assert_string_equal(pp_hc_header(&a, "Connection", v, sizeof v), "close");
    pp_hc_wait_end(c);
    assert_int_equal(c->n, c->at); /* the server sent exactly one answer */
}

static void bodies_refused(void **state)
{
    static const struct {
        const char *fields, *body;
        int status;
        const char *code;
    } cases[] = {
        {chunked, "x\r\n", 400, "bad_request"},
        {chunked, "\r\n", 400, "bad_request"},
        {chunked, "-1\r\n", 400, "bad_request"},
        {chunked, "+1\r\n", 400, "bad_request"},
        {chunked, " 1\r\n", 400, "bad_request"},
        {chunked, "1 \r\n", 400, "bad_request"},
        {chunked, "0x1\r\n", 400, "bad_request"},
        {chunked, "1\n", 400, "bad_request"},
        {chunked, "1\ra", 400, "bad_request"},
        {chunked, "1;a\nb", 400, "bad_request"},
        {chunked, "3\r\nabcd\r\n", 400, "bad_request"},
        {chunked, "3\r\nabc\n", 400, "bad_request"},
        {chunked, "3\r\nabc\rX", 400, "bad_request"},
        {chunked, "0\r\nX: a\x01\r\n", 400, "bad_request"},
        {chunked, "0\r\nX: a\n", 400, "bad_request"},
        {chunked, "0\r\n\rX", 400, "bad_request"},
        {chunked, "0000000000000000\r\n", 400, "bad_request"},
        {chunked, "FFFFFFFFFFFFFFFF\r\n", 400, "bad_request"},
        {chunked, "7FFFFFFFFFFFFFF\r\n", 413, "body_too_large"},
        {chunked, "10001\r\n", 413, "body_too_large"},
        {chunked, "1\r\na\r\n10000\r\n", 413, "body_too_large"},
        {"Content-Length: 65537\r\n", "", 413, "body_too_large"},
        {"Content-Length: 999999999999999999\r\n", "", 413, "body_too_large"},
        {"Content-Length: 65537\r\nExpect: 100-continue\r\n", "", 413, "body_too_large"},
        {"Content-Length: 3\r\nContent-Encoding: br\r\n", "", 415, "unsupported_media_type"},
        {"Content-Length: 3\r\nContent-Encoding: gzip, gzip\r\n", "abc", 415, "unsupported_media_type"},
        {"Content-Length: 3\r\nContent-Encoding: gzip\r\n", "abc", 400, "bad_encoding"},
        {"Content-Length: 0\r\nContent-Encoding: gzip\r\n", "", 400, "bad_encoding"},
        {"Content-Length: 3\r\nContent-Encoding: x-gzip\r\n", "\x1f\x8b\x08", 400, "bad_encoding"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_hc c;
        open_client(&c, *state);
        post(&c, cases[i].fields, cases[i].body, strlen(cases[i].body), 1 + i % 3);
        expect_refusal(&c, cases[i].status, cases[i].code);
        pp_hc_close(&c);
    }
}

static void post_gzip(struct pp_hc *c, const char *p, size_t n)
{
    char fields[96];
    snprintf(fields, sizeof fields, "Content-Encoding: gzip\r\nContent-Length: %zu\r\n", n);
    post(c, fields, p, n, n ? n : 1);
}

static void gzip_bodies_refused(void **state)
{
    static char zeros[MAX_BODY * 64], coded[MAX_BODY * 2];
    struct pp_hc c;
    memset(zeros, 'z', sizeof zeros);
    /* One byte more than the server accepts after decompression. */
    size_t n = gzip_of(zeros, MAX_BODY + 1, coded, sizeof coded);
    open_client(&c, *state);
    post_gzip(&c, coded, n);
    expect_refusal(&c, 413, "body_too_large");
    pp_hc_close(&c);
    /* A small compressed body becomes 64 times as large as the server accepts. */
    n = gzip_of(zeros, sizeof zeros, coded, sizeof coded);
    open_client(&c, *state);
    post_gzip(&c, coded, n);
    expect_refusal(&c, 413, "body_too_large");
    pp_hc_close(&c);
    n = gzip_of(zeros, 50, coded, sizeof coded - 1);
    /* The compressed body is cut after each possible number of bytes. */
    for (size_t cut = 0; cut < n; cut++) {
        open_client(&c, *state);
        post_gzip(&c, coded, cut);
        expect_refusal(&c, 400, "bad_encoding");
        pp_hc_close(&c);
    }
    coded[n] = 'x'; /* A byte follows the end of the compressed body. */
    open_client(&c, *state);
    post_gzip(&c, coded, n + 1);
    expect_refusal(&c, 400, "bad_encoding");
    pp_hc_close(&c);
    coded[n - 6] ^= 1; /* The checksum of the compressed body is wrong. */
    open_client(&c, *state);
    post_gzip(&c, coded, n);
    expect_refusal(&c, 400, "bad_encoding");
    pp_hc_close(&c);
}

static void expect_continue(void **state)
{
    struct pp_hc c;
    struct pp_hc_answer a;
    open_client(&c, *state);
    post(&c, "Content-Length: 3\r\nExpect: 100-Continue\r\n", "", 0, 1);
    assert_true(pp_hc_read(&c, &a, false));
    assert_int_equal(a.status, 100);
    pp_hc_puts(&c, "abc");
    expect_answer(&c, 200, "abc");
    post(&c, "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", "", 0, 1);
    assert_true(pp_hc_read(&c, &a, false));
    assert_int_equal(a.status, 100);
    pp_hc_puts(&c, "1\r\nx\r\n0\r\n\r\n");
    expect_answer(&c, 200, "x");
    /* The server sends no interim answer if the whole body has arrived or there is no body. */
    pp_hc_puts(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\ny");
    expect_answer(&c, 200, "y");
    post(&c, "Content-Length: 0\r\nExpect: 100-continue\r\n", "", 0, 1);
    expect_answer(&c, 200, "-");
    pp_hc_close(&c);
}

/* The server answers 413 before it reads the body. The answer reaches a caller that continues to
 * send. */
static void too_large_while_sending(void **state)
{
    static char block[1 << 20];
    struct pp_hc c;
    open_client(&c, *state);
    post(&c, "Content-Length: 16777216\r\n", "", 0, 1);
    for (int i = 0; i < 16; i++)
        pp_hc_send(&c, block, sizeof block);
    pp_hc_shutdown(&c);
    expect_refusal(&c, 413, "body_too_large");
    assert_false(c.reset);
    pp_hc_close(&c);
}

/* A handler that refuses by the head answers before a byte of the body has come. The server reads
 * none of the body, sends no "100 Continue", and closes the connection. */
static void refused_by_the_head(void **state)
{
    static const char *const fields[] = {
        "Content-Length: 50\r\nContent-Encoding: gzip\r\n",
        "Content-Length: 50\r\nExpect: 100-continue\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 50\r\nContent-Encoding: br\r\n",
        "Content-Length: 99999999\r\n",
    };
    struct pp_echo *e = *state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        struct pp_hc c;
        struct pp_hc_answer a;
        char head[256], v[32];
        snprintf(head, sizeof head, "POST /refuse HTTP/1.1\r\nHost: a\r\n%s\r\n", fields[i]);
        open_client(&c, e);
        pp_hc_puts(&c, head);
        assert_true(pp_hc_read(&c, &a, false));
        assert_int_equal(a.status, 403);
        assert_string_equal(pp_hc_header(&a, "Connection", v, sizeof v), "close");
        pp_hc_puts(&c, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"); /* is the body, and no request */
        pp_hc_shutdown(&c);
        pp_hc_wait_end(&c);
        assert_false(c.reset);
        assert_int_equal(c.n, c.at);
        pp_hc_close(&c);
    }
    assert_int_equal(e->heads, 0);
    /* Without a body, the connection stays open. */
    struct pp_hc c;
    open_client(&c, e);
    pp_hc_puts(&c, "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
                   "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_answer(&c, 403, "");
    expect_answer(&c, 200, "-");
    pp_hc_close(&c);
}

/* The handler hears of each accepted head whose body does not arrive as a whole. */
static void requests_dropped(void **state)
{
    struct pp_echo *e = *state;
    struct pp_hc c;
    open_client(&c, e);
    post(&c, "Content-Length: 65537\r\n", "", 0, 1);
    expect_refusal(&c, 413, "body_too_large");
    assert_int_equal(e->dropped, 1);
    pp_hc_close(&c);
    open_client(&c, e);
    post(&c, "Content-Length: 3\r\n", "a", 1, 1);
    pp_hc_shutdown(&c);
    expect_refusal(&c, 400, "bad_request");
    assert_int_equal(e->dropped, 2);
    pp_hc_close(&c);
    open_client(&c, e);
    post(&c, "Content-Length: 3\r\n", "a", 1, 1);
    while (e->heads < 3)
        pp_loop_turn(e->loop, true);
    pp_hc_close(&c);
    pp_test_until(e->loop, no_connection, e, 5000);
    assert_int_equal(e->dropped, 3);
    assert_int_equal(e->handled, 0);
}

static void what_a_handler_hears_of_the_caller(void **state)
{
    struct pp_hc c;
    open_client(&c, *state);
    pp_hc_puts(&c, "GET /peer HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_answer(&c, 200, "127.0.0.1 - 0 a");
    pp_hc_puts(&c,
               "POST /peer HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 1\r\n\r\nx");
    expect_answer(&c, 200, "127.0.0.1 cross-site 1 a");
    /* The host of a target in absolute form replaces that of the header. */
    pp_hc_puts(&c, "GET HTTPS://b:8080/peer HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_answer(&c, 200, "127.0.0.1 - 0 b:8080");
    pp_hc_close(&c);
}

/* --- heads --- */

#define REST         " HTTP/1.1\r\nHost: a\r\n\r\n"
#define HEAD(fields) "POST /echo HTTP/1.1\r\nHost: a\r\n" fields "\r\n"

static const struct bad_head {
    const char *wire;
    size_t n; /* length of the text; 0: it ends with its NUL */
} bad_heads[] = {
    {"\r\n\r\n", 0},
    {" GET /" REST, 0},
    {"GET  /" REST, 0},
    {"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 0},
    {"GET / \r\nHost: a\r\n\r\n", 0},
    {"GET /\r\nHost: a\r\n\r\n", 0},
    {"GET\r\nHost: a\r\n\r\n", 0},
    {"GET\t/" REST, 0},
    {"G(T /" REST, 0},
    {"G\xc3\xa9T /" REST, 0},
    {"GET http:///" REST, 0},
    {"GET http://u@a/" REST, 0},
    {"GET http:/a" REST, 0},
    {"GET ftp://a/" REST, 0},
    {"GET http://a/#f" REST, 0},
    {"GET http://a/ HTTP/1.1\r\n\r\n", 0},
    {"GET http://a/ HTTP/1.1\r\nHost: a/b\r\n\r\n", 0},
    {"GET *" REST, 0},
    {"OPTIONS *" REST, 0},
    {"CONNECT a:80" REST, 0},
    {"GET a" REST, 0},
    {"GET /#f" REST, 0},
    {"GET /\xc3\xa9" REST, 0},
    {"GET /a b" REST, 0},
    {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 0},
    {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 0},
    {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 0},
    {"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 0},
    {"GET / http/1.1\r\nHost: a\r\n\r\n", 0},
    {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 0},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0},
    {"\x16\x03\x01\x02", 0},
    {"GET / HTTP/1.1\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 0},
    {"GET / HTTP/1.1\n", 0},
    {"GET / HTTP/1.1\r\nHost: a\n", 0},
    {"\n", 0},
    {"GET / HTTP/1.1\r\nHost: a\r\n\n", 0},
    {"GET / HTTP/1.1\rHost: a\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\r\n", 0},
    {"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", sizeof "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n" - 1},
    {"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", sizeof "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n" - 1},
    {HEAD("X: \x01\r\n"), 0},
    {HEAD("X: \x7f\r\n"), 0},
    {HEAD("X: a\r\n b\r\n"), 0},
    {HEAD("X: a\r\n\tb\r\n"), 0},
    {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 0},
    {HEAD("X : a\r\n"), 0},
    {HEAD("X\t: a\r\n"), 0},
    {HEAD(": a\r\n"), 0},
    {HEAD("X\r\n"), 0},
    {HEAD("X Y: a\r\n"), 0},
    {HEAD("X(: a\r\n"), 0},
    {HEAD("\xc3\xa9: a\r\n"), 0},
    {HEAD("Content-Length: +5\r\n"), 0},
    {HEAD("Content-Length: -5\r\n"), 0},
    {HEAD("Content-Length: 5, 5\r\n"), 0},
    {HEAD("Content-Length: 5 5\r\n"), 0},
    {HEAD("Content-Length: 0x5\r\n"), 0},
    {HEAD("Content-Length: 5.0\r\n"), 0},
    {HEAD("Content-Length: five\r\n"), 0},
    {HEAD("Content-Length:\r\n"), 0},
    {HEAD("Content-Length: 9999999999999999999999\r\n"), 0},
    {HEAD("Content-Length: 5\r\nContent-Length: 5\r\n"), 0},
    {HEAD("Content-Length: 5\r\ncontent-length: 6\r\n"), 0},
    {HEAD("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 0},
    {HEAD("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"), 0},
    {HEAD("Transfer-Encoding: gzip, chunked\r\n"), 0},
    {HEAD("Transfer-Encoding: chunked, identity\r\n"), 0},
    {HEAD("Transfer-Encoding: identity\r\n"), 0},
    {HEAD("Transfer-Encoding: xchunked\r\n"), 0},
    {HEAD("Transfer-Encoding:\r\n"), 0},
    {HEAD("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 0},
    {HEAD("Content-Type: a/b\r\nContent-Type: c/d\r\n"), 0},
    {HEAD("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), 0},
    {HEAD("Idempotency-Key: a\r\nIdempotency-Key: b\r\n"), 0},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 0},
};

static void heads_refused(void **state)
{
    struct pp_echo *e = *state;
    for (size_t i = 0; i < sizeof bad_heads / sizeof *bad_heads; i++) {
        size_t n = bad_heads[i].n ? bad_heads[i].n : strlen(bad_heads[i].wire);
        for (size_t step = 1; step <= n; step = step == n ? n + 1 : step * 5 < n ? step * 5 : n) {
            struct pp_hc c;
            open_client(&c, e);
            for (size_t at = 0; at < n && !pp_hc_ended(&c); at += step) {
                pp_hc_send(&c, bad_heads[i].wire + at, step < n - at ? step : n - at);
                pp_loop_turn(e->loop, false);
            }
            expect_refusal(&c, 400, "bad_request");
            pp_hc_close(&c);
        }
    }
    assert_int_equal(pp_echo_stats(e).requests_total, 0);
}

static void heads_too_large(void **state)
{
    static char text[2 * MAX_HEAD];
    struct pp_hc c;
    int n = snprintf(text, sizeof text, "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n", MAX_HEAD, 0);
    open_client(&c, *state);
    pp_hc_send(&c, text, (size_t)n);
    expect_refusal(&c, 400, "bad_request");
    pp_hc_close(&c);
    n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n", MAX_HEAD, 0);
    open_client(&c, *state);
    pp_hc_send(&c, text, (size_t)n);
    expect_refusal(&c, 431, "header_too_large");
    pp_hc_close(&c);
    n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 100; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "X%d: y\r\n", i);
    memcpy(text + n, "\r\n", 2);
    open_client(&c, *state);
    pp_hc_send(&c, text, (size_t)n + 2);
    expect_refusal(&c, 431, "header_too_large");
    pp_hc_close(&c);
    /* This head has exactly the largest size that the server accepts. */
    n = snprintf(text, sizeof text, "GET /echo HTTP/1.1\r\nHost: a\r\nX: ");
    memset(text + n, 'x', (size_t)(MAX_HEAD - n - 4));
    memcpy(text + MAX_HEAD - 4, "\r\n\r\n", 4);
    open_client(&c, *state);
    pp_hc_send(&c, text, MAX_HEAD);
    expect_answer(&c, 200, "-");
    pp_hc_close(&c);
}

/* Several good requests are cut at any byte. The server answers the complete ones and refuses the
 * incomplete one. */
static void cut_anywhere(void **state)
{
    static const char wire[] =
        "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nc\r\n0\r\n\r\n";
    size_t ends[3] = {(size_t)(strstr(wire, "POST") - wire), (size_t)(strstr(wire, "abPOST") - wire) + 2,
                      sizeof wire - 1};
    for (size_t cut = 0; cut < sizeof wire; cut++) {
        struct pp_hc c;
        size_t whole = 0;
        open_client(&c, *state);
        pp_hc_send(&c, wire, cut);
        pp_hc_shutdown(&c);
        for (size_t i = 0; i < 3 && ends[i] <= cut; i++, whole = ends[i - 1])
            expect_answer(&c, 200, i == 0 ? "-" : i == 1 ? "ab" : "c");
        if (whole < cut)
            expect_refusal(&c, 400, "bad_request");
        pp_hc_wait_end(&c);
        assert_int_equal(c.at, c.n);
        pp_hc_close(&c);
    }
}

/* --- libcurl as the client --- */

static void libcurl_agrees(void **state)
{
    struct pp_echo *e = *state;
    static char body[MAX_BODY];
    char url[64];
    static const char *const headers[] = {"Expect: 100-continue", "Transfer-Encoding: chunked"};
    memset(body, 'q', sizeof body);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/echo", e->port);
    for (size_t n_headers = 0; n_headers <= 2; n_headers++) {
        struct pp_hc_fetch f = {.method = "POST",
                                .url = url,
                                .body = body,
                                .body_n = sizeof body,
                                .headers = headers,
                                .n_headers = n_headers};
        pp_hc_fetch(e->loop, &f);
        assert_int_equal(f.status, 200);
        assert_int_equal(f.answer_n, sizeof body);
        assert_memory_equal(f.answer, body, sizeof body);
        free(f.answer);
    }
    struct pp_hc_fetch head = {.method = "HEAD", .url = url};
    pp_hc_fetch(e->loop, &head);
    assert_int_equal(head.status, 200);
    assert_int_equal(head.answer_n, 0);
    free(head.answer);
}

static void opening_fails(void **state)
{
    struct pp_echo *e = *state;
    struct pp_http_server *out = NULL;
    struct pp_http_handler none = {0};
    struct pp_http_options o = {.host = "shop.example"};
    assert_int_equal(pp_http_server_open(e->loop, &o, &none, &out), PP_EINVAL);
    o = (struct pp_http_options){.host = "127.0.0.1", .port = e->port};
    assert_int_equal(pp_http_server_open(e->loop, &o, &none, &out), PP_EBUSY);
    o = (struct pp_http_options){.host = "192.0.2.1"};
    assert_int_equal(pp_http_server_open(e->loop, &o, &none, &out), PP_EIO);
    assert_null(out);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(headers_of_an_answer),
        TEST(what_a_handler_sees),
        TEST(no_body_where_none_may_be),
        TEST(persistence),
        TEST(pipelining),
        TEST(pipelining_waits),
        TEST(caller_gone_before_the_answer),
        TEST(large_answers),
        TEST(bodies_in_pieces),
        TEST(caller_gone_within_an_answer),
        TEST(bodies_in_chunks),
        TEST(bodies_at_random),
        TEST(bodies_refused),
        TEST(gzip_bodies_refused),
        TEST(expect_continue),
        TEST(refused_by_the_head),
        TEST(requests_dropped),
        TEST(what_a_handler_hears_of_the_caller),
        TEST(too_large_while_sending),
        TEST(heads_refused),
        TEST(heads_too_large),
        TEST(cut_anywhere),
        TEST(libcurl_agrees),
        TEST(opening_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
