/* Tests streams of the HTTP server as Server-Sent Events: a handler opens them and sends; the
 * caller reads, slowly or not at all; either side closes. Tests about time hold the clock.
 * test_http_websocket.c tests WebSocket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/ledger.h"
#include "base/text.h"
#include "suite_stream_kit.h"
#include "test_loop.h"

enum { BOUND = 256 * 1024, CHUNK = PP_KIT_CHUNK };

static const struct pp_http_options defaults = {0};

/* --- opening a stream --- */

static void head_and_body(void **state)
{
    struct pp_kit *k = *state;
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
    pp_kit_expect(&c, k->greeting); /* The handler has sent this piece before it returned. */
    struct pp_kit_stream *s = &k->streams[0];
    assert_int_equal(pp_kit_send(s, pieces, 3), PP_OK);
    pp_kit_expect(&c, pieces[0]);
    pp_kit_expect(&c, pieces[2]);
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
}

static bool is_held(void *arg)
{
    return ((struct pp_kit *)arg)->held != NULL;
}

/* The handler opens the stream after handle() has returned. The server drops all bytes that the
 * caller sends after its request. */
static void opened_later(void **state)
{
    struct pp_kit *k = *state;
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
    pp_kit_send_one(&k->streams[0], piece);
    pp_kit_expect(&c, piece);
    assert_int_equal(k->streams[0].closed, 0);
    assert_int_equal(pp_kit_stats(k).requests_total, 1);
    /* A caller that sends so many bytes after its request loses its stream. */
    static char junk[128 * 1024];
    pp_hc_send(&c, junk, sizeof junk);
    pp_kit_wait_closed(&k->streams[0]);
    pp_hc_close(&c);
    pp_piece_unref(piece);
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

/* The server refuses to open a stream. The handler still has the request, and the connection is
 * unchanged. */
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
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_hc_answer a;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    pp_hc_open(&c, k->loop, NULL, k->port);
    pp_hc_puts(&c, "GET /events HTTP/1.0\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, true));
    pp_kit_send_one(&k->streams[0], piece);
    pp_kit_expect(&c, piece);
    pp_kit_end(&k->streams[0], PP_WS_NORMAL, NULL);
    pp_hc_wait_end(&c);
    pp_hc_close(&c);
    pp_kit_wait_closed(&k->streams[0]);
    pp_piece_unref(piece);
}

/* The caller hangs up, or shuts down its sending side, before the handler opens the stream. */
static void gone_before(void **state)
{
    struct pp_kit *k = *state;
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
            pp_kit_wait_idle(k);
        }
        assert_int_equal(pp_kit_open_held(k), PP_ECLOSED);
        if (!half)
            continue;
        assert_true(pp_hc_read(&c, &a, false));
        assert_int_equal(a.status, 503);
        pp_hc_close(&c);
    }
    assert_int_equal(k->n, 0);
}

/* --- fast and slow readers --- */

static void slow_reader_is_refused(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc slow, other;
    struct pp_piece *big = pp_kit_piece(CHUNK, 1), *small = pp_kit_piece(10, 2);
    struct pp_kit_stream *s = pp_kit_events(k, &slow), *o = pp_kit_events(k, &other);
    pp_kit_fill_up(s, big);
    size_t pending = pp_kit_pending(s);
    assert_in_range(pending, BOUND - 2 * CHUNK + 1, BOUND);
    assert_int_equal(big->refs, 1 + (pending + CHUNK - 1) / CHUNK);
    assert_int_equal(pp_kit_send(s, &big, 1), PP_EFULL);
    assert_int_equal(pp_kit_pending(s), pending);
    /* There may still be room for smaller pieces, so the test fills it. */
    while (pp_kit_send(s, &small, 1) == PP_OK)
        continue;
    assert_true(small->refs <= 1 + CHUNK / 64);
    pp_kit_send_one(o, small);
    pp_kit_expect(&other, small);
    assert_int_equal(s->closed, 0);
    /* With this code the server cuts off a caller that does not read. */
    pp_kit_end(s, PP_WS_OVERLOADED, NULL);
    assert_int_equal(s->closed, 1);
    assert_int_equal(big->refs, 1);
    assert_int_equal(small->refs, 1);
    pp_hc_wait_end(&slow);
    /* The connection was reset, so the kernel has dropped the bytes that waited. */
    assert_true(slow.reset);
    assert_int_equal(s->drained, 0);
    pp_hc_close(&slow);
    pp_hc_close(&other);
    pp_kit_wait_closed(o);
    pp_piece_unref(big);
    pp_piece_unref(small);
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
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *big = pp_kit_piece(CHUNK, 1), *last = pp_kit_piece(3, 2);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    for (int round = 0; round < 2; round++) {
        size_t n = pp_kit_fill_up(s, big);
        struct reading r = {s, &c};
        s->drained = 0;
        pp_test_until(k->loop, has_drained, &r, PP_KIT_MS);
        assert_int_equal(s->drained, 1);
        assert_int_equal(pp_kit_pending(s), 0);
        assert_int_equal(big->refs, 1);
        pp_kit_send_one(s, last);
        for (size_t i = 0; i < n; i++)
            pp_kit_expect(&c, big);
        pp_kit_expect(&c, last);
        assert_int_equal(s->drained, 1);
    }
    /* The caller has read everything, so the server can close the connection in good order. */
    pp_kit_end(s, PP_WS_NORMAL, NULL);
    assert_int_equal(s->closed, 0);
    pp_hc_wait_end(&c);
    assert_false(c.reset);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(big);
    pp_piece_unref(last);
}

/* The server accepts a piece of any size if no other piece waits. The list of waiting small pieces
 * has a bound, which also counts their number. */
static void bounds(void **state)
{
    enum { SOME = 1000, MOST = BOUND / 64 };
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *huge = pp_kit_piece(32 << 20, 1), *tiny = pp_kit_piece(1, 2), *many[MOST + 2];
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    for (size_t i = 0; i < MOST + 2; i++)
        many[i] = tiny;
    assert_int_equal(pp_kit_send(s, many, SOME), PP_OK);
    assert_int_equal(pp_kit_pending(s), 0);
    for (int i = 0; i < SOME; i++)
        pp_kit_expect(&c, tiny);
    assert_int_equal(pp_kit_send(s, many, MOST + 2), PP_EFULL);
    pp_kit_send_one(s, huge);
    assert_true(pp_kit_pending(s) > BOUND);
    assert_int_equal(huge->refs, 2);
    assert_int_equal(pp_kit_send(s, many, 1), PP_EFULL);
    assert_int_equal(tiny->refs, 1);
    struct reading r = {s, &c};
    pp_test_until(k->loop, has_drained, &r, PP_KIT_MS);
    pp_kit_expect(&c, huge);
    assert_int_equal(huge->refs, 1);
    pp_kit_fill(s, huge);
    pp_hc_close(&c); /* This resets the connection, because the caller has not read all bytes. */
    pp_kit_wait_closed(s);
    assert_int_equal(huge->refs, 1);
    pp_piece_unref(huge);
    pp_piece_unref(tiny);
}

/* The ledger counts connections and streams, and what is queued for streams. When the queues exceed
 * their limit, the stream whose client has read nothing for longest closes. */
static void charged(void **state)
{
    (void)state;
    struct pp_ledger ledger;
    struct pp_hc first, second;
    struct pp_account *rows = ledger.rows;
    pp_ledger_init(&ledger);
    rows[PP_RES_QUEUED].limit = 40 << 20;
    struct pp_kit *k = pp_kit_open(&(struct pp_http_options){.ledger = &ledger});
    struct pp_kit_stream *slow = pp_kit_events(k, &first), *later = pp_kit_events(k, &second);
    struct pp_piece *huge = pp_kit_piece(32 << 20, 1);
    assert_int_equal(rows[PP_RES_CALLERS].used, 0);
    assert_int_equal(rows[PP_RES_STREAMS].used, 2);
    pp_kit_send_one(slow, huge);
    assert_int_equal(rows[PP_RES_QUEUED].used, huge->n);
    pp_kit_send_one(later, huge);
    pp_kit_wait_closed(slow);
    assert_int_equal(rows[PP_RES_QUEUED].used, huge->n);
    assert_int_equal(rows[PP_RES_QUEUED].refused, 1);
    assert_int_equal(rows[PP_RES_STREAMS].used, 1);
    assert_false(later->closed);
    pp_hc_close(&second);
    pp_kit_wait_closed(later);
    assert_int_equal(rows[PP_RES_QUEUED].used, 0);
    assert_int_equal(rows[PP_RES_STREAMS].used, 0);
    pp_hc_close(&first);
    assert_int_equal(huge->refs, 1);
    pp_piece_unref(huge);
    pp_kit_close(k);
}

struct less {
    struct pp_kit_stream *s;
    struct pp_hc *c;
    size_t before;
};

static bool is_less(void *arg)
{
    struct less *l = arg;
    pp_hc_ended(l->c);
    return pp_kit_pending(l->s) < l->before;
}

/* Pieces that the server has sent make room for new ones while others still wait. All pieces
 * together are more than the kernel takes in one write. */
static void room_comes_back(void **state)
{
    (void)state;
    enum { LARGE = 8 << 20, N = 600, SORTS = 5 };
    struct pp_http_options o = {.max_stream_bytes = LARGE};
    struct pp_kit *k = pp_kit_open(&o);
    struct pp_hc c;
    struct pp_piece *pieces[SORTS];
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    int n = 0, moves = 0;
    for (unsigned i = 0; i < SORTS; i++)
        pieces[i] = pp_kit_piece(CHUNK - i, i);
    while (n < N) {
        size_t pending = pp_kit_pending(s);
        enum pp_err err = pp_kit_send(s, &pieces[n % SORTS], 1);
        if (pending + 2 * CHUNK <= LARGE)
            assert_int_equal(err, PP_OK);
        if (pending + CHUNK > LARGE)
            assert_int_equal(err, PP_EFULL);
        n += err == PP_OK;
        if (err == PP_OK)
            continue;
        struct less l = {s, &c, pending};
        pp_test_until(k->loop, is_less, &l, PP_KIT_MS);
        moves += pp_kit_pending(s) > 0;
    }
    assert_true(moves > 0);
    for (int i = 0; i < N; i++)
        pp_kit_expect(&c, pieces[i % SORTS]);
    for (int i = 0; i < SORTS; i++) {
        assert_int_equal(pieces[i]->refs, 1);
        pp_piece_unref(pieces[i]);
    }
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_kit_close(k);
}

static void reset_while_pieces_wait(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_kit_fill_up(s, piece);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    assert_int_equal(piece->refs, 1);
    assert_int_equal(s->drained, 0);
    pp_piece_unref(piece);
}

/* send() finds that the caller has reset the connection. The server calls closed() later, or within
 * the call that ends the stream. */
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
        /* The loop does not turn meanwhile, so only send() can notice the reset. */
        while (pp_kit_send(s, &piece, 1) == PP_OK)
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

/* A stream whose bytes the test compares. It sends pieces of many sizes, singly or many in one
 * call, to a caller that stops reading and continues. */
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
    static const size_t sizes[8] = {0, 1, 2, 63, 300, 5000, 70000, 200000};
    struct pp_kit *k = *state;
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
            pp_hc_ended(&c); /* The caller reads all bytes that have arrived. */
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PP_KIT_TEST(head_and_body, &defaults),
        PP_KIT_TEST(opened_later, &defaults),
        cmocka_unit_test(refused),
        PP_KIT_TEST(http10, &defaults),
        PP_KIT_TEST(gone_before, &defaults),
        PP_KIT_TEST(slow_reader_is_refused, &defaults),
        PP_KIT_TEST(slow_reader_goes_on, &defaults),
        PP_KIT_TEST(bounds, &defaults),
        cmocka_unit_test(charged),
        cmocka_unit_test(room_comes_back),
        PP_KIT_TEST(reset_while_pieces_wait, &defaults),
        cmocka_unit_test(reset_found_by_sending),
        PP_KIT_TEST(same_bytes, &defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
