/* Streams of the HTTP server, as Server-Sent Events: opened, sent to, read slowly or not at all, kept alive,
 * ended by either side, and very many. WebSocket: test_http_websocket.c. Where time matters the clock is
 * held. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "adapter/http/http_stream.h"
#include "base/text.h"
#include "suite_stream_kit.h"
#include "test_clock.h"
#include "test_loop.h"

enum { KEEPALIVE_MS = 25000, STUCK_MS = 60000, CLOSE_MS = 5000, BOUND = 256 * 1024, CHUNK = 64 * 1024 };

static const struct pp_http_options defaults = {0};

static void expect(struct pp_hc *c, const struct pp_piece *piece)
{
    assert_memory_equal(pp_kit_take(c, piece->n), piece->bytes, piece->n);
}

static void send_ok(struct pp_kit_stream *s, struct pp_piece *piece)
{
    assert_int_equal(pp_kit_send(s, &piece, 1), PP_OK);
}

/* --- opening --- */

static void head_and_body(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_hc_answer a;
    char v[64];
    struct pp_piece *pieces[3] = {pp_kit_piece(10, 1), pp_kit_piece(0, 2), pp_kit_piece(5000, 3)};
    k->greeting = pp_piece_of("data: hello\n\n", 13);
    pp_hc_open(&c, k->loop, NULL, k->port);
    pp_hc_puts(&c, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, true));
    assert_int_equal(strncmp(a.head, "HTTP/1.1 200 OK\r\n", 17), 0);
    assert_string_equal(pp_hc_header(&a, "Content-Type", v, sizeof v), "text/event-stream");
    assert_string_equal(pp_hc_header(&a, "Cache-Control", v, sizeof v), "no-store");
    assert_string_equal(pp_hc_header(&a, "Connection", v, sizeof v), "close");
    assert_null(pp_hc_header(&a, "Content-Length", v, sizeof v));
    assert_null(pp_hc_header(&a, "Transfer-Encoding", v, sizeof v));
    assert_null(pp_hc_header(&a, "X-Evil", v, sizeof v));
    expect(&c, k->greeting); /* sent from within the handler */
    struct pp_kit_stream *s = &k->streams[0];
    assert_int_equal(pp_kit_send(s, pieces, 3), PP_OK);
    expect(&c, pieces[0]);
    expect(&c, pieces[2]);
    assert_int_equal(pp_kit_send(s, NULL, 0), PP_OK);
    assert_int_equal(pp_kit_pending(s), 0);
    assert_int_equal(pp_kit_stats(k).streams, 1);
    assert_int_equal(pp_kit_stats(k).connections, 1);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    assert_int_equal(s->drained, 0);
    assert_int_equal(pp_kit_stats(k).streams, 0);
    assert_int_equal(pp_kit_stats(k).connections, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pieces[i]->refs, 1);
        pp_piece_unref(pieces[i]);
    }
    assert_int_equal(k->greeting->refs, 1);
    pp_piece_unref(k->greeting);
    pp_kit_close(k);
}

static bool is_held(void *arg)
{
    return ((struct pp_kit *)arg)->held != NULL;
}

/* Opened after handle() has returned; what came with the request is dropped, as what comes later. */
static void opened_later(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_hc_answer a;
    struct pp_piece *piece = pp_kit_piece(100, 1);
    pp_hc_open(&c, k->loop, NULL, k->port);
    pp_hc_puts(&c, "GET /hold-events HTTP/1.1\r\nHost: a\r\n\r\nGET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    pp_test_until(k->loop, is_held, k, PP_KIT_MS);
    assert_int_equal(pp_kit_open_held(k), PP_OK);
    assert_true(pp_hc_read(&c, &a, true));
    pp_hc_puts(&c, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    pp_kit_settle(k, &c);
    send_ok(&k->streams[0], piece);
    expect(&c, piece);
    assert_int_equal(k->streams[0].closed, 0);
    assert_int_equal(pp_kit_stats(k).requests_total, 1);
    static char junk[128 * 1024]; /* more than anybody needs */
    pp_hc_send(&c, junk, sizeof junk);
    pp_kit_wait_closed(&k->streams[0]);
    pp_hc_close(&c);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

static void ask(struct pp_hc *c, const char *request, int status, const char *body)
{
    struct pp_hc_answer a;
    pp_hc_puts(c, request);
    assert_true(pp_hc_read(c, &a, false));
    assert_int_equal(a.status, status);
    if (!body)
        return;
    assert_int_equal(a.body_n, strlen(body));
    assert_memory_equal(a.body, body, a.body_n);
}

/* A refusal leaves the request with the handler, and the connection as it was. */
static void refused(void **state)
{
    (void)state;
    struct pp_http_options o = {.max_streams = 2};
    struct pp_kit *k = pp_kit_open(&o);
    struct pp_hc c[3];
    struct pp_hc_answer a;
    pp_kit_events(k, &c[0]);
    pp_hc_open(&c[2], k->loop, NULL, k->port);
    ask(&c[2], "GET /ws HTTP/1.1\r\nHost: a\r\n\r\n", 503, pp_err_text(PP_EINVAL));
    pp_hc_puts(&c[2], "HEAD /events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(pp_hc_read(&c[2], &a, true));
    assert_int_equal(a.status, 503);
    pp_kit_events(k, &c[1]);
    ask(&c[2], "GET /events HTTP/1.1\r\nHost: a\r\n\r\n", 503, pp_err_text(PP_EFULL));
    ask(&c[2], pp_kit_handshake("/ws"), 503, pp_err_text(PP_EFULL));
    ask(&c[2], "GET /echo HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n", 200, "http://b a 0");
    pp_hc_close(&c[0]);
    pp_kit_wait_closed(&k->streams[0]);
    pp_hc_close(&c[2]);
    pp_kit_events(k, &c[2]);
    pp_hc_close(&c[1]);
    pp_hc_close(&c[2]);
    pp_kit_wait_closed(&k->streams[1]);
    pp_kit_wait_closed(&k->streams[2]);
    pp_kit_close(k);
}

static void http10(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_hc_answer a;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    pp_hc_open(&c, k->loop, NULL, k->port);
    pp_hc_puts(&c, "GET /events HTTP/1.0\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, true));
    send_ok(&k->streams[0], piece);
    expect(&c, piece);
    pp_kit_end(&k->streams[0], PP_WS_NORMAL, NULL);
    pp_hc_wait_end(&c);
    pp_hc_close(&c);
    pp_kit_wait_closed(&k->streams[0]);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

static bool no_connection(void *arg)
{
    return pp_kit_stats(arg).connections == 0;
}

/* Who has hung up before the stream began, or has said that no more will come. */
static void gone_before(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_hc_answer a;
    for (int half = 0; half < 2; half++) {
        pp_hc_open(&c, k->loop, NULL, k->port);
        pp_hc_puts(&c, "GET /hold-events HTTP/1.1\r\nHost: a\r\n\r\n");
        pp_test_until(k->loop, is_held, k, PP_KIT_MS);
        if (half) {
            pp_hc_shutdown(&c);
            pp_kit_settle(k, &c);
        } else {
            struct linger at_once = {1, 0};
            setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            pp_hc_close(&c);
            pp_test_until(k->loop, no_connection, k, PP_KIT_MS);
        }
        assert_int_equal(pp_kit_open_held(k), PP_ECLOSED);
        if (!half)
            continue;
        assert_true(pp_hc_read(&c, &a, false));
        assert_int_equal(a.status, 503);
        pp_hc_close(&c);
    }
    assert_int_equal(k->n, 0);
    pp_kit_close(k);
}

/* --- readers --- */

/* Sends `piece` until the kernel takes no more: something waits. Answers how often. */
static size_t fill(struct pp_kit_stream *s, struct pp_piece *piece)
{
    size_t n = 0;
    while (pp_kit_pending(s) == 0) {
        send_ok(s, piece);
        n++;
    }
    return n;
}

/* Sends until it is refused: answers how often it was not. */
static size_t fill_up(struct pp_kit_stream *s, struct pp_piece *piece)
{
    size_t n = fill(s, piece);
    enum pp_err err;
    for (; (err = pp_kit_send(s, &piece, 1)) == PP_OK; n++)
        assert_true(pp_kit_pending(s) <= BOUND + piece->n);
    assert_int_equal(err, PP_EFULL);
    return n;
}

static void slow_reader_is_refused(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc slow, other;
    struct pp_piece *big = pp_kit_piece(CHUNK, 1), *small = pp_kit_piece(10, 2);
    struct pp_kit_stream *s = pp_kit_events(k, &slow), *o = pp_kit_events(k, &other);
    fill_up(s, big);
    size_t pending = pp_kit_pending(s);
    assert_true(pending > BOUND - 2 * CHUNK);
    assert_int_equal(big->refs, 1 + (pending + CHUNK - 1) / CHUNK);
    assert_int_equal(pp_kit_send(s, &big, 1), PP_EFULL);
    assert_int_equal(pp_kit_pending(s), pending);
    while (pp_kit_send(s, &small, 1) == PP_OK) /* there is room for less */
        continue;
    assert_true(small->refs <= 1 + CHUNK / 64);
    send_ok(o, small);
    expect(&other, small);
    assert_int_equal(s->closed, 0);
    pp_kit_end(s, PP_WS_OVERLOADED, NULL); /* from within: it does not read */
    assert_int_equal(s->closed, 1);
    assert_int_equal(big->refs, 1);
    assert_int_equal(small->refs, 1);
    pp_hc_wait_end(&slow);
    assert_int_equal(s->drained, 0);
    pp_hc_close(&slow);
    pp_hc_close(&other);
    pp_kit_wait_closed(o);
    pp_piece_unref(big);
    pp_piece_unref(small);
    pp_kit_close(k);
}

struct reading {
    struct pp_kit_stream *s;
    struct pp_hc *c;
};

static bool has_drained(void *arg)
{
    struct reading *r = arg;
    pp_hc_ended(r->c);
    return r->s->drained > 0;
}

static void slow_reader_goes_on(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *big = pp_kit_piece(CHUNK, 1), *last = pp_kit_piece(3, 2);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    for (int round = 0; round < 2; round++) {
        size_t n = fill_up(s, big);
        struct reading r = {s, &c};
        s->drained = 0;
        pp_test_until(k->loop, has_drained, &r, PP_KIT_MS);
        assert_int_equal(s->drained, 1);
        assert_int_equal(pp_kit_pending(s), 0);
        assert_int_equal(big->refs, 1);
        send_ok(s, last);
        for (size_t i = 0; i < n; i++)
            expect(&c, big);
        expect(&c, last);
        assert_int_equal(s->drained, 1);
    }
    pp_kit_end(s, PP_WS_NORMAL, NULL); /* it reads again: gently */
    assert_int_equal(s->closed, 0);
    pp_hc_wait_end(&c);
    assert_false(c.reset);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(big);
    pp_piece_unref(last);
    pp_kit_close(k);
}

/* Any piece can be sent where nothing waits; the list of small ones has a bound, too. */
static void bounds(void **state)
{
    (void)state;
    enum { SOME = 1000, MOST = BOUND / 64 };
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *huge = pp_kit_piece(32 << 20, 1), *tiny = pp_kit_piece(1, 2), *many[MOST + 2];
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    for (size_t i = 0; i < MOST + 2; i++)
        many[i] = tiny;
    assert_int_equal(pp_kit_send(s, many, SOME), PP_OK);
    assert_int_equal(pp_kit_pending(s), 0);
    for (int i = 0; i < SOME; i++)
        expect(&c, tiny);
    assert_int_equal(pp_kit_send(s, many, MOST + 2), PP_EFULL);
    send_ok(s, huge);
    assert_true(pp_kit_pending(s) > BOUND);
    assert_int_equal(huge->refs, 2);
    assert_int_equal(pp_kit_send(s, many, 1), PP_EFULL);
    assert_int_equal(tiny->refs, 1);
    struct reading r = {s, &c};
    pp_test_until(k->loop, has_drained, &r, PP_KIT_MS);
    expect(&c, huge);
    assert_int_equal(huge->refs, 1);
    fill(s, huge);
    pp_hc_close(&c); /* with unread bytes: a reset */
    pp_kit_wait_closed(s);
    assert_int_equal(huge->refs, 1);
    pp_piece_unref(huge);
    pp_piece_unref(tiny);
    pp_kit_close(k);
}

static void reset_while_pieces_wait(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    fill_up(s, piece);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    assert_int_equal(piece->refs, 1);
    assert_int_equal(s->drained, 0);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* The reset is found by send(): closed() still comes later, or from within end(). */
static void reset_found_by_sending(void **state)
{
    (void)state;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    for (int ended = 0; ended < 2; ended++) {
        struct pp_kit *k = pp_kit_open(&defaults);
        struct pp_hc c;
        struct pp_kit_stream *s = pp_kit_events(k, &c);
        struct linger at_once = {1, 0};
        setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        pp_hc_close(&c);
        while (pp_kit_send(s, &piece, 1) == PP_OK) /* the loop does not turn */
            continue;
        assert_int_equal(pp_kit_send(s, &piece, 1), PP_ECLOSED);
        assert_int_equal(pp_kit_pending(s), 0);
        assert_int_equal(s->closed, 0);
        if (ended) {
            pp_kit_end(s, PP_WS_NORMAL, NULL);
            assert_int_equal(s->closed, 1);
        }
        pp_kit_wait_closed(s);
        assert_int_equal(piece->refs, 1);
        pp_kit_close(k);
    }
    pp_piece_unref(piece);
}

/* Pieces of many sizes, one after another or many at once, to a reader that stops and goes on: the same bytes
 * in the same order. */
struct stream_of {
    struct pp_kit_stream *s;
    struct pp_hc *c;
    struct pp_rng rng;
    struct pp_piece *pool[8];
    char *sent;
    size_t n, cap;
};

static void send_some(struct stream_of *o)
{
    struct pp_piece *pieces[200];
    size_t n = 1 + pp_rng_below(&o->rng, pp_rng_below(&o->rng, 4) ? 5 : 200), bytes = 0;
    for (size_t i = 0; i < n; i++) {
        pieces[i] = o->pool[pp_rng_below(&o->rng, n > 5 ? 5 : 8)];
        bytes += pieces[i]->n;
    }
    if (o->n + bytes > o->cap || pp_kit_send(o->s, pieces, n) != PP_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        memcpy(o->sent + o->n, pieces[i]->bytes, pieces[i]->n);
        o->n += pieces[i]->n;
    }
}

static bool all_read(void *arg)
{
    struct stream_of *o = arg;
    pp_hc_ended(o->c);
    return o->c->n - o->c->at == o->n;
}

static void same_bytes(void **state)
{
    (void)state;
    static const size_t sizes[8] = {0, 1, 2, 63, 300, 5000, 70000, 200000};
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct stream_of o = {.cap = 24 << 20};
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    o.s = s;
    o.c = &c;
    o.sent = malloc(o.cap);
    assert_non_null(o.sent);
    pp_rng_seed(&o.rng, 1);
    for (unsigned i = 0; i < 8; i++)
        o.pool[i] = pp_kit_piece(sizes[i], i);
    size_t waited = 0;
    for (int i = 0; i < 3000; i++) {
        send_some(&o);
        waited += pp_kit_pending(s) > 0;
        if (pp_rng_below(&o.rng, 10) == 0)
            pp_loop_turn(k->loop, false);
        if (pp_rng_below(&o.rng, 100) == 0)
            pp_hc_ended(&c); /* reads what is there */
    }
    assert_true(waited > 100);
    pp_test_until(k->loop, all_read, &o, PP_KIT_MS);
    assert_memory_equal(pp_kit_take(&c, o.n), o.sent, o.n);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(o.pool[i]->refs, 1);
        pp_piece_unref(o.pool[i]);
    }
    free(o.sent);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_kit_close(k);
}

/* --- by the clock --- */

static void turn(struct pp_kit *k)
{
    for (int i = 0; i < 3; i++)
        pp_loop_turn(k->loop, false);
}

/* Passes `ms`, in steps, so that what is due on the way comes on the way. */
static void pass(struct pp_kit *k, int64_t ms)
{
    for (int64_t step; ms > 0; ms -= step) {
        step = ms < 500 ? ms : 500;
        pp_test_clock_pass(k->loop, step);
        turn(k);
    }
}

static void comments(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pass(k, KEEPALIVE_MS / 2);
    send_ok(s, piece); /* no silence */
    expect(&c, piece);
    pass(k, KEEPALIVE_MS * 3 / 4);
    pp_hc_ended(&c);
    assert_int_equal(c.n, c.at);
    pass(k, KEEPALIVE_MS / 4);
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(pp_kit_take(&c, 3), ":\n\n", 3);
        pass(k, KEEPALIVE_MS);
    }
    pp_hc_ended(&c);
    assert_in_range(c.n - c.at, 3, 6); /* not many more than one each */
    assert_int_equal(s->closed, 0);    /* who only reads lives */
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* All are looked at, also those that open while others are there, or after all have gone. */
static void comments_to_all(void **state)
{
    (void)state;
    enum { N = 50 };
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c[N];
    pp_test_clock_hold(k->loop);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            pp_kit_events(k, &c[i]);
            pass(k, 100);
        }
        pass(k, KEEPALIVE_MS);
        for (int i = 0; i < N; i++)
            assert_memory_equal(pp_kit_take(&c[i], 3), ":\n\n", 3);
        for (int i = 0; i < N; i++)
            pp_kit_end(&k->streams[round * N + i], PP_WS_NORMAL, NULL);
        for (int i = 0; i < N; i++) {
            pp_hc_wait_end(&c[i]);
            if (round == 0)
                pp_hc_close(&c[i]);
        }
        if (round == 0)
            pass(k, KEEPALIVE_MS); /* nobody to look at */
    }
    pass(k, CLOSE_MS); /* they do not end their side */
    for (int i = 0; i < N; i++) {
        pp_kit_wait_closed(&k->streams[N + i]);
        pp_hc_close(&c[i]);
    }
    assert_int_equal(pp_kit_stats(k).connections, 0);
    pp_test_clock_release(k->loop);
    pp_kit_close(k);
}

/* Also those that open while the only other one is being ended. */
static void comments_after_the_last(void **state)
{
    (void)state;
    struct pp_http_options o = {.close_ms = 10 * KEEPALIVE_MS};
    struct pp_kit *k = pp_kit_open(&o);
    struct pp_hc ending, c;
    pp_test_clock_hold(k->loop);
    pp_kit_end(pp_kit_events(k, &ending), PP_WS_NORMAL, NULL);
    pass(k, KEEPALIVE_MS);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pass(k, KEEPALIVE_MS);
    assert_memory_equal(pp_kit_take(&c, 3), ":\n\n", 3);
    assert_int_equal(k->streams[0].closed, 0);
    pp_test_clock_release(k->loop);
    pp_hc_close(&ending);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_kit_wait_closed(&k->streams[0]);
    pp_kit_close(k);
}

/* True once the server has got rid of some more. */
struct progress {
    struct pp_kit_stream *s;
    struct pp_hc *c;
    size_t before;
};

static bool has_moved(void *arg)
{
    static char some[CHUNK];
    struct progress *p = arg;
    (void)!recv(p->c->fd, some, sizeof some, MSG_DONTWAIT);
    return pp_kit_pending(p->s) < p->before;
}

/* Who reads, however slowly, lives. */
static void slow_readers_are_not_stuck(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(32 << 20, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    fill(s, piece);
    for (int i = 0; i < 4; i++) {
        struct progress p = {s, &c, pp_kit_pending(s)};
        pp_test_until(k->loop, has_moved, &p, PP_KIT_MS);
        assert_int_equal(piece->refs, 2); /* not all of it */
        pass(k, STUCK_MS / 2);
        assert_int_equal(s->closed, 0);
    }
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* No comments behind what waits; and it does not wait for ever. */
static void stuck_readers_are_closed(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    fill(s, piece);
    size_t pending = pp_kit_pending(s);
    pass(k, STUCK_MS - 1000);
    assert_int_equal(s->closed, 0);
    assert_int_equal(pp_kit_pending(s), pending);
    pass(k, KEEPALIVE_MS);
    assert_int_equal(s->closed, 1);
    assert_int_equal(piece->refs, 1);
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* --- ending --- */

static void ended_after_what_waits(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    size_t n = fill(s, piece);
    pp_kit_end(s, PP_WS_NORMAL, "any");
    pp_kit_end(s, PP_WS_NORMAL, "any");
    assert_int_equal(pp_kit_send(s, &piece, 1), PP_ECLOSED);
    assert_int_equal(s->closed, 0);
    pp_hc_wait_end(&c);
    assert_false(c.reset);
    for (size_t i = 0; i < n; i++)
        expect(&c, piece);
    assert_int_equal(c.n, c.at);
    assert_int_equal(piece->refs, 1);
    assert_int_equal(s->drained, 0);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* Who neither reads nor ends its side is cut off. */
static void ended_in_time(void **state)
{
    (void)state;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    for (int waiting = 0; waiting < 2; waiting++) {
        struct pp_kit *k = pp_kit_open(&defaults);
        struct pp_hc c;
        pp_test_clock_hold(k->loop);
        struct pp_kit_stream *s = pp_kit_events(k, &c);
        if (waiting)
            fill(s, piece);
        pp_kit_end(s, PP_WS_NORMAL, NULL);
        pass(k, CLOSE_MS - 1);
        assert_int_equal(s->closed, 0);
        pass(k, 1);
        assert_int_equal(s->closed, 1);
        assert_int_equal(piece->refs, 1);
        pp_test_clock_release(k->loop);
        pp_hc_close(&c);
        pp_kit_close(k);
    }
    pp_piece_unref(piece);
}

static void half_closed_is_gone(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_hc_shutdown(&c);
    pp_kit_wait_closed(s);
    pp_hc_close(&c);
    pp_kit_close(k);
}

static void drained_server(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c[3], held;
    struct pp_hc_answer a;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    for (int i = 0; i < 3; i++)
        pp_kit_events(k, &c[i]);
    k->streams[0].ends = &k->streams[1];
    pp_hc_open(&held, k->loop, NULL, k->port);
    pp_hc_puts(&held, "GET /hold-events HTTP/1.1\r\nHost: a\r\n\r\n");
    pp_test_until(k->loop, is_held, k, PP_KIT_MS);
    send_ok(&k->streams[1], piece);
    k->server->ops->drain(k->server);
    k->server->ops->drain(k->server);
    assert_int_equal(pp_kit_open_held(k), PP_EFULL); /* none begins that would have to end */
    assert_true(pp_hc_read(&held, &a, false));
    assert_int_equal(a.status, 503);
    for (int i = 0; i < 3; i++) {
        pp_hc_wait_end(&c[i]);
        assert_false(c[i].reset);
        assert_int_equal(c[i].n - c[i].at, i == 1 ? 10 : 0);
        pp_hc_close(&c[i]);
    }
    pp_hc_close(&held);
    pp_test_until(k->loop, no_connection, k, PP_KIT_MS);
    assert_int_equal(pp_kit_stats(k).streams, 0);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* ops->close() with streams in every phase: closed() comes from within. */
static void closed_at_once(void **state)
{
    (void)state;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    for (int by_stream = 0; by_stream < 2; by_stream++) {
        struct pp_kit *k = pp_kit_open(&defaults);
        struct pp_hc c[5];
        for (int i = 0; i < 5; i++)
            pp_kit_events(k, &c[i]);
        fill(&k->streams[1], piece);
        fill_up(&k->streams[2], piece);
        fill(&k->streams[3], piece);
        pp_kit_end(&k->streams[3], PP_WS_NORMAL, NULL);
        pp_kit_end(&k->streams[4], PP_WS_NORMAL, NULL);
        if (by_stream) { /* from within closed() */
            k->streams[0].ends_server = true;
            k->streams[0].ends = &k->streams[2];
            pp_hc_close(&c[0]);
            pp_kit_wait_closed(&k->streams[0]);
        } else {
            k->streams[0].ends = &k->streams[1];
            k->is_closed = true;
            k->server->ops->close(k->server);
        }
        for (int i = 0; i < 5; i++)
            assert_int_equal(k->streams[i].closed, 1);
        assert_int_equal(piece->refs, 1);
        pp_kit_close(k);
        for (int i = by_stream; i < 5; i++)
            pp_hc_close(&c[i]);
    }
    pp_piece_unref(piece);
}

/* --- many --- */

enum { MANY = 2000, PLAIN = 16, STREAM_MEMORY = 1024 };

/* Streams count neither in their address's connections nor in all, and make room for nobody. */
static void many_from_one_address(void **state)
{
    (void)state;
    struct pp_http_options o = {.max_per_address = PLAIN, .max_connections = PLAIN};
    struct pp_hc *c = calloc(MANY, sizeof *c), idle[PLAIN + 4];
    struct pp_piece *piece = pp_kit_piece(100, 1);
    struct rlimit fds;
    assert_non_null(c);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &fds), 0);
    fds.rlim_cur = fds.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &fds), 0);
    if (fds.rlim_cur < 3 * MANY) {
        free(c);
        pp_piece_unref(piece);
        skip(); /* both ends of all connections are in this process */
    }
    struct pp_kit *k = pp_kit_open(&o);
    for (int i = 0; i < MANY; i++) {
        pp_kit_events(k, &c[i]);
        free(c[i].in); /* the head of the answer */
        c[i].in = NULL;
        c[i].n = c[i].cap = c[i].at = 0;
    }
    for (int i = 0; i < PLAIN + 4; i++) { /* the first four go for the last four */
        pp_hc_open(&idle[i], k->loop, NULL, k->port);
        ask(&idle[i], "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", 200, NULL);
    }
    struct pp_http_stats stats = pp_kit_stats(k);
    assert_int_equal(stats.streams, MANY);
    assert_int_equal(stats.connections, MANY + PLAIN);
    assert_int_equal(stats.evicted_total, 4);
    assert_int_equal(stats.refused_total, 0);
    for (int i = 0; i < MANY; i++)
        send_ok(&k->streams[i], piece);
    for (int i = 0; i < MANY; i++) {
        expect(&c[i], piece);
        assert_int_equal(k->streams[i].closed, 0);
        pp_hc_close(&c[i]);
    }
    for (int i = 0; i < PLAIN + 4; i++)
        pp_hc_close(&idle[i]);
    pp_test_until(k->loop, no_connection, k, PP_KIT_MS);
    pp_kit_close(k);
    pp_piece_unref(piece);
    free(c);
}

/* What an idle stream holds of our memory. mallinfo2() says nothing of a sanitizer's allocator: there it is
 * the sizes alone. */
static void memory_of_idle_streams(void **state)
{
    (void)state;
    enum { N = 400 };
    static struct pp_hc c[N];
    assert_in_range(sizeof(struct pp_conn) + sizeof(struct pp_stream), 1, STREAM_MEMORY);
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    size_t before = 0;
    for (int i = 0; i < N; i++) {
        if (i == N / 2) /* tables that are shared have grown */
            before = mallinfo2().uordblks;
        struct pp_kit_stream *s = pp_kit_events(k, &c[i]);
        if (i % 10 == 0) { /* also one that had to wait */
            fill(s, piece);
            struct reading r = {s, &c[i]};
            pp_test_until(k->loop, has_drained, &r, PP_KIT_MS);
        }
        free(c[i].in);
        c[i].in = NULL;
        c[i].n = c[i].cap = c[i].at = 0;
    }
    size_t after = mallinfo2().uordblks;
    assert_true(after - before < (size_t)(N - N / 2) * STREAM_MEMORY);
    for (int i = 0; i < N; i++)
        pp_hc_close(&c[i]);
    pp_test_until(k->loop, no_connection, k, PP_KIT_MS);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_and_body),
        cmocka_unit_test(opened_later),
        cmocka_unit_test(refused),
        cmocka_unit_test(http10),
        cmocka_unit_test(gone_before),
        cmocka_unit_test(slow_reader_is_refused),
        cmocka_unit_test(slow_reader_goes_on),
        cmocka_unit_test(bounds),
        cmocka_unit_test(reset_while_pieces_wait),
        cmocka_unit_test(reset_found_by_sending),
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(comments),
        cmocka_unit_test(comments_to_all),
        cmocka_unit_test(comments_after_the_last),
        cmocka_unit_test(slow_readers_are_not_stuck),
        cmocka_unit_test(stuck_readers_are_closed),
        cmocka_unit_test(ended_after_what_waits),
        cmocka_unit_test(ended_in_time),
        cmocka_unit_test(half_closed_is_gone),
        cmocka_unit_test(drained_server),
        cmocka_unit_test(closed_at_once),
        cmocka_unit_test(many_from_one_address),
        cmocka_unit_test(memory_of_idle_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
