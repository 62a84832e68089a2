/* Tests streams of the HTTP server as WebSocket (RFC 6455): the handshake, frames in both
 * directions, every mistake of the caller and its close code, closing by either side, pings. Tests
 * about time hold the clock. test_http_streams.c tests what all streams share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/text.h"
#include "suite_stream_kit.h"
#include "test_clock.h"
#include "test_loop.h"

enum { FIN = 0x80, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };
enum { KEEPALIVE_MS = 25000, PONG_MS = 60000, CLOSE_MS = 5000, CHUNK = PP_KIT_CHUNK };

static const struct pp_http_options defaults = {0};

static void expect_frame(struct pp_hc *c, unsigned opcode, const void *payload, size_t n)
{
    struct pp_kit_frame f;
    assert_true(pp_kit_get_frame(c, &f));
    assert_int_equal(f.opcode, opcode);
    assert_int_equal(f.n, n);
    if (n > 0)
        assert_memory_equal(f.payload, payload, n);
}

static void expect_text(struct pp_hc *c, const struct pp_piece *piece)
{
    expect_frame(c, TEXT, piece->bytes, piece->n);
}

static void put_close(struct pp_hc *c, unsigned code, const char *reason)
{
    char payload[125] = {(char)(code >> 8), (char)code};
    size_t n = strlen(reason);
    memcpy(payload + 2, reason, n);
    pp_kit_put_frame(c, FIN | CLOSE, payload, 2 + n);
}

/* Resets the caller's connection, and waits until the server has closed the stream. */
static void leave(struct pp_hc *c, struct pp_kit_stream *s)
{
    pp_hc_close(c);
    pp_kit_wait_closed(s);
}

/* --- the opening handshake --- */

static void handshake(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_hc_answer a;
    char v[64];
    pp_hc_open(&c, k->loop, NULL, k->port);
    pp_hc_puts(&c, "GET /ws HTTP/1.1\r\nHost: shop.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Protocol: chat, superchat\r\nOrigin: http://shop.example\r\n"
                   "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n");
    assert_true(pp_hc_read(&c, &a, true));
    assert_int_equal(strncmp(a.head, "HTTP/1.1 101 Switching Protocols\r\n", 34), 0);
    assert_string_equal(pp_hc_header(&a, "Upgrade", v, sizeof v), "websocket");
    assert_string_equal(pp_hc_header(&a, "Connection", v, sizeof v), "Upgrade");
    assert_string_equal(pp_hc_header(&a, "Sec-WebSocket-Accept", v, sizeof v),
                        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_string_equal(pp_hc_header(&a, "Cache-Control", v, sizeof v), "no-store");
    assert_null(pp_hc_header(&a, "Sec-WebSocket-Protocol", v, sizeof v));
    assert_null(pp_hc_header(&a, "Sec-WebSocket-Extensions", v, sizeof v));
    assert_null(pp_hc_header(&a, "Content-Length", v, sizeof v));
    assert_null(pp_hc_header(&a, "Content-Type", v, sizeof v));
    assert_null(pp_hc_header(&a, "X-Evil", v, sizeof v));
    assert_int_equal(pp_kit_stats(k).streams, 1);
    leave(&c, &k->streams[0]);
}

#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define V13 "Sec-WebSocket-Version: 13\r\n"

/* Asserts which requests are handshakes, and what the handler learns of each. The server must
 * answer any other request as an ordinary one. */
static void what_is_a_handshake(void **state)
{
    static const struct {
        const char *line, *fields;
        int status;
        const char *body;
    } table[] = {
        {"GET / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgrade\r\n" KEY V13, 200, "- a 1"},
        {"GET / HTTP/1.1", "Upgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n" KEY V13, 200, "- a 1"},
        {"GET / HTTP/1.1", "Upgrade: h2c, websocket\r\nConnection: Upgrade\r\n" KEY V13, 200, "- a 1"},
        {"GET / HTTP/1.1",
         "Upgrade: h2c\r\nUpgrade: websocket\r\nConnection: x\r\nConnection: upgrade\r\n" KEY V13, 200,
         "- a 1"},
        {"GET / HTTP/1.1", "Origin: null\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" KEY V13, 200,
         "null a 1"},
        {"GET / HTTP/1.1", "", 200, "- a 0"},
        {"GET / HTTP/1.1", "Connection: Upgrade\r\n" KEY V13, 200, "- a 0"},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\n" KEY V13, 200, "- a 0"},
        {"GET / HTTP/1.1", "Upgrade: h2c\r\nConnection: Upgrade\r\n" KEY V13, 200, "- a 0"},
        {"GET / HTTP/1.1", "Upgrade: websocket/13\r\nConnection: Upgrade\r\n" KEY V13, 200, "- a 0"},
        {"GET / HTTP/1.1", "Upgrade: websockets\r\nConnection: Upgrade\r\n" KEY V13, 200, "- a 0"},
        {"POST / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgrade\r\n" KEY V13, 200, "- a 0"},
        {"GET / HTTP/1.0", "Upgrade: websocket\r\nConnection: Upgrade\r\n" KEY V13, 200, "- a 0"},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgrade\r\n" KEY, 400,
         "a WebSocket version other than 13"},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgrade\r\n" KEY "Sec-WebSocket-Version: 8\r\n",
         400, "a WebSocket version other than 13"},
        {"GET / HTTP/1.1",
         "Upgrade: websocket\r\nConnection: Upgrade\r\n" KEY "Sec-WebSocket-Version: 13, 8\r\n", 400,
         "a WebSocket version other than 13"},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgrade\r\n" V13, 400,
         "Sec-WebSocket-Key is not 16 bytes in base64"},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: short\r\n" V13,
         400, "Sec-WebSocket-Key is not 16 bytes in base64"},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgrade\r\n" KEY KEY V13, 400,
         "a header that may stand only once is repeated"},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgrade\r\n" KEY V13 V13, 400,
         "a header that may stand only once is repeated"},
    };
    struct pp_kit *k = *state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct pp_hc c;
        struct pp_hc_answer a;
        char request[512], v[16];
        snprintf(request, sizeof request, "%s\r\nHost: a\r\n%s\r\n", table[i].line, table[i].fields);
        pp_hc_open(&c, k->loop, NULL, k->port);
        pp_hc_puts(&c, request);
        assert_true(pp_hc_read(&c, &a, false));
        assert_int_equal(a.status, table[i].status);
        assert_int_equal(a.body_n, strlen(table[i].body));
        assert_memory_equal(a.body, table[i].body, a.body_n);
        bool version = strstr(table[i].body, "version") != NULL;
        assert_int_equal(pp_hc_header(&a, "Sec-WebSocket-Version", v, sizeof v) != NULL, version);
        if (version)
            assert_string_equal(v, "13");
        pp_hc_close(&c);
    }
}

/* --- frames --- */

static void pieces_are_text_frames(void **state)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 65535, 65536, 300000};
    enum { N = sizeof sizes / sizeof *sizes, MANY = 100 };
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *pieces[MANY];
    k->greeting = pp_kit_piece(20, 0);
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    expect_text(&c, k->greeting);
    for (unsigned i = 0; i < N; i++) {
        struct pp_piece *piece = pp_kit_piece(sizes[i], i);
        assert_int_equal(pp_kit_send(s, &piece, 1), PP_OK);
        expect_text(&c, piece);
        while (piece->refs > 1) /* the server learns later than the client that all was read */
            (void)pp_loop_turn(k->loop, true);
        pp_piece_unref(piece);
    }
    for (unsigned i = 0; i < MANY; i++)
        pieces[i] = pp_kit_piece(i * 2, i);
    assert_int_equal(pp_kit_send(s, pieces, MANY), PP_OK);
    for (unsigned i = 0; i < MANY; i++) {
        expect_text(&c, pieces[i]);
        assert_int_equal(pieces[i]->refs, 1);
        pp_piece_unref(pieces[i]);
    }
    leave(&c, s);
    assert_int_equal(k->greeting->refs, 1);
    pp_piece_unref(k->greeting);
}

/* The caller stops reading and continues. Every frame arrives whole, even if the kernel had taken
 * only a part of it. */
static void frames_stay_whole(void **state)
{
    static const size_t sizes[8] = {0, 1, 2, 124, 126, 5000, 70000, 200000};
    enum { MOST = 4000 };
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *pool[8], **sent = calloc(MOST, sizeof *sent);
    struct pp_rng rng;
    size_t n = 0, got = 0, waited = 0, pongs = 0;
    assert_non_null(sent);
    for (unsigned i = 0; i < 8; i++)
        pool[i] = pp_kit_piece(sizes[i], i);
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    pp_rng_seed(&rng, 3);
    for (int i = 0; i < 1500; i++) {
        struct pp_piece *some[50];
        size_t m = 1 + pp_rng_below(&rng, pp_rng_below(&rng, 4) ? 3 : 50);
        for (size_t j = 0; j < m; j++)
            some[j] = pool[pp_rng_below(&rng, m > 3 ? 5 : 8)];
        if (n + m <= MOST && pp_kit_send(s, some, m) == PP_OK) {
            memcpy(sent + n, some, m * sizeof *some);
            n += m;
        }
        waited += pp_kit_pending(s) > 0;
        if (i % 100 == 50)
            pp_kit_put_frame(&c, FIN | PING, "p", 1);
        if (pp_rng_below(&rng, 10) == 0)
            pp_loop_turn(k->loop, false);
        if (pp_rng_below(&rng, 100) == 0)
            pp_hc_ended(&c); /* The caller reads all bytes that have arrived. */
    }
    assert_true(waited > 100);
    while (got < n) {
        struct pp_kit_frame f;
        assert_true(pp_kit_get_frame(&c, &f));
        if (f.opcode == PONG) {
            pongs++;
            continue;
        }
        assert_int_equal(f.opcode, TEXT);
        assert_int_equal(f.n, sent[got]->n);
        if (f.n > 0)
            assert_memory_equal(f.payload, sent[got]->bytes, f.n);
        got++;
    }
    assert_in_range(pongs, 1, 15);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pool[i]->refs, 1);
        pp_piece_unref(pool[i]);
    }
    free(sent);
    leave(&c, s);
}

static void pings_are_answered(void **state)
{
    static const size_t sizes[] = {0, 1, 124, 125};
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    struct pp_piece *payload = pp_kit_piece(125, 1);
    for (size_t i = 0; i < 4; i++) {
        /* A pong that nobody has asked for has no effect. */
        pp_kit_put_frame(&c, FIN | PONG, payload->bytes, sizes[i]);
        pp_kit_put_frame(&c, FIN | PING, payload->bytes, sizes[i]);
        expect_frame(&c, PONG, payload->bytes, sizes[i]);
    }
    /* The caller sends this ping byte by byte. */
    static const char ping[] = "\x89\x83\x01\x02\x03\x04`ae";
    for (size_t i = 0; i < sizeof ping - 1; i++) {
        pp_hc_send(&c, ping + i, 1);
        pp_kit_settle(k, &c);
    }
    expect_frame(&c, PONG, "acf", 3);
    assert_int_equal(s->closed, 0);
    pp_piece_unref(payload);
    leave(&c, s);
}

/* The caller sends frames together with the handshake, or before the server has answered it. The
 * server answers them. */
static void early_frames(void **state)
{
    (void)state;
    static const char ping[] = "\x89\x82\0\0\0\0hi";
    for (int hold = 0; hold < 2; hold++) {
        struct pp_kit *k = pp_kit_open(&defaults);
        struct pp_hc c;
        struct pp_hc_answer a;
        char request[512];
        size_t n =
            (size_t)snprintf(request, sizeof request, "%s", pp_kit_handshake(hold ? "/hold-ws" : "/ws"));
        memcpy(request + n, ping, sizeof ping - 1);
        pp_hc_open(&c, k->loop, NULL, k->port);
        pp_hc_send(&c, request, n + sizeof ping - 1);
        if (hold) {
            pp_kit_settle(k, &c);
            /* The close frame comes with the handshake, but closed() must not run within
             * open_stream(). */
            pp_hc_send(&c, "\x88\x80\0\0\0\0", 6);
            pp_kit_settle(k, &c);
            assert_int_equal(pp_kit_open_held(k), PP_OK);
        }
        assert_true(pp_hc_read(&c, &a, true));
        assert_int_equal(a.status, 101);
        expect_frame(&c, PONG, "hi", 2);
        if (hold)
            pp_kit_expect_close(&c, 0);
        leave(&c, &k->streams[0]);
        pp_kit_close(k);
    }
}

/* --- mistakes of the caller --- */

#define M       "\x37\xfa\x21\x3d"
#define Z       "\0\0\0\0"
#define S(text) (text), sizeof(text) - 1

static void mistakes(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        unsigned code;
    } table[] = {/* frames without a mask */
                 {S("\x89\x00"), 1002},
                 {S("\x88\x02\x03\xe8"), 1002},
                 /* frames with reserved bits */
                 {S("\xc9\x80" M), 1002},
                 {S("\x99\x80" M), 1002},
                 /* frames with unknown opcodes */
                 {S("\x83\x80" M), 1002},
                 {S("\x8b\x80" M), 1002},
                 /* a control frame that is fragmented */
                 {S("\x09\x80" M), 1002},
                 /* a control frame of 126 bytes, one more than permitted */
                 {S("\x89\xfe\x00\x7e" M), 1002},
                 /* continuation frames without a first frame */
                 {S("\x80\x80" M), 1002},
                 {S("\x00\x81" M "a"), 1002},
                 /* data frames, which the server refuses: text, binary, and in fragments */
                 {S("\x81\x85" Z "hello"), 1008},
                 {S("\x82\x80" M), 1008},
                 {S("\x01\x81" Z "a\x80\x81" Z "b"), 1008},
                 {S("\x01\x81" Z "a\x89\x80" Z "\x80\x80" Z), 1008},
                 {S("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff" M), 1008},
                 /* a close frame with half a code */
                 {S("\x88\x81" Z "\x03"), 1002},
                 /* close frames with codes that a caller may not send: 0, 999, 1004 and so on */
                 {S("\x88\x82" Z "\x00\x00"), 1002},
                 {S("\x88\x82" Z "\x03\xe7"), 1002},
                 {S("\x88\x82" Z "\x03\xec"), 1002},
                 {S("\x88\x82" Z "\x03\xed"), 1002},
                 {S("\x88\x82" Z "\x03\xee"), 1002},
                 {S("\x88\x82" Z "\x03\xf7"), 1002},
                 {S("\x88\x82" Z "\x03\xf8"), 1002},
                 {S("\x88\x82" Z "\x0b\xb7"), 1002},
                 {S("\x88\x82" Z "\x13\x88"), 1002},
                 /* close frames whose reason is not UTF-8 */
                 {S("\x88\x84" Z "\x03\xe8\xc3("), 1007},
                 {S("\x88\x85" Z "\x03\xe8\xed\xa0\x80"), 1007}};
    struct pp_kit *k = *state;
    for (size_t i = 0; i < 2 * sizeof table / sizeof *table; i++) {
        struct pp_hc c;
        struct pp_kit_stream *s = pp_kit_ws(k, &c);
        const char *bytes = table[i / 2].bytes;
        size_t n = table[i / 2].n, step = i % 2 ? 1 : n;
        for (size_t at = 0; at < n; at += step) {
            pp_hc_send(&c, bytes + at, step);
            if (i % 2)
                pp_loop_turn(k->loop, false);
        }
        /* After a mistake the server ignores all further frames. */
        pp_kit_put_frame(&c, FIN | PING, "no", 2);
        pp_kit_expect_close(&c, table[i / 2].code);
        leave(&c, s);
    }
    assert_int_equal(pp_kit_stats(k).connections, 0);
}

/* After a mistake the server's close frame has the code and a reason. The reason is UTF-8 and fits
 * into the frame. */
static void mistakes_have_reasons(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_kit_frame f;
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    pp_kit_put_frame(&c, FIN | TEXT, "hello", 5);
    assert_true(pp_kit_get_frame(&c, &f));
    static const char reason[] = "\x03\xf0subscribers send control frames only";
    assert_int_equal(f.n, sizeof reason - 1);
    assert_memory_equal(f.payload, reason, sizeof reason - 1);
    leave(&c, s);
}

/* --- closing --- */

static void closed_by_the_caller(void **state)
{
    static const struct {
        unsigned code;
        const char *reason;
    } table[] = {{1000, ""},  {1000, "bye"}, {1001, "\xe2\x82\xac"}, {1014, ""}, {3000, ""},
                 {4999, "x"}, {0, ""}};
    struct pp_kit *k = *state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct pp_hc c;
        struct pp_kit_stream *s = pp_kit_ws(k, &c);
        pp_kit_put_frame(&c, FIN | PING, "last", 4);
        if (table[i].code)
            put_close(&c, table[i].code, table[i].reason);
        else
            pp_kit_put_frame(&c, FIN | CLOSE, NULL, 0);
        expect_frame(&c, PONG, "last", 4);
        /* The server answers the close frame with its own, and closes the connection. */
        pp_kit_expect_close(&c, table[i].code);
        leave(&c, s);
    }
}

static void closed_by_us(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    assert_int_equal(pp_kit_send(s, &piece, 1), PP_OK);
    pp_kit_end(s, PP_WS_OVERLOADED, "too slow");
    pp_kit_end(s, PP_WS_NORMAL, "again");
    assert_int_equal(pp_kit_send(s, &piece, 1), PP_ECLOSED);
    assert_int_equal(s->closed, 0);
    expect_text(&c, piece);
    expect_frame(&c, CLOSE, "\x03\xf5too slow", 10);
    /* The caller has sent this ping before it got the close frame, so the server ignores it. */
    pp_kit_put_frame(&c, FIN | PING, "x", 1);
    pp_kit_settle(k, &c);
    assert_false(pp_hc_ended(&c));
    put_close(&c, 1013, "");
    /* The caller has answered the close frame: the server sends nothing more and closes. */
    pp_hc_wait_end(&c);
    assert_false(c.reset);
    assert_int_equal(c.n, c.at);
    pp_kit_wait_closed(s);
    pp_hc_close(&c);
    pp_piece_unref(piece);
}

/* The server sends the first close frame. One caller answers with a malformed frame, another does
 * not answer at all. */
static void closed_by_us_alone(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c[2];
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *wrong = pp_kit_ws(k, &c[0]), *silent = pp_kit_ws(k, &c[1]);
    pp_kit_end(wrong, PP_WS_NORMAL, NULL);
    pp_kit_end(silent, PP_WS_NORMAL, NULL);
    pp_kit_put_frame(&c[0], FIN | TEXT, "hello", 5);
    pp_kit_wait_closed(wrong);
    for (int i = 0; i < 5; i++) {
        pp_kit_put_frame(&c[1], FIN | PING, "x", 1);
        pp_kit_pass(k, i < 4 ? CLOSE_MS / 5 : CLOSE_MS / 5 - 1);
    }
    assert_int_equal(silent->closed, 0);
    pp_kit_pass(k, 1);
    assert_int_equal(silent->closed, 1);
    pp_test_clock_release(k->loop);
    expect_frame(&c[1], CLOSE, "\x03\xe8", 2);
    pp_hc_close(&c[0]);
    pp_hc_close(&c[1]);
}

/* While data waits, the server sends its close frame after the data, whether it closes first or
 * answers the caller's close frame. */
static void closed_while_data_waits(void **state)
{
    struct pp_kit *k = *state;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1), *next = pp_kit_piece(10, 2);
    pp_test_clock_hold(k->loop); /* The clock is held so that no timeout fires. */
    for (int by = 0; by < 4;
         /* Who sends a close frame: 0 the server, 1 the caller, 2 both, 3 the server, and the
          * caller then makes a mistake. */
         by++) {
        struct pp_hc c;
        struct pp_kit_stream *s = pp_kit_ws(k, &c);
        size_t n = pp_kit_fill(s, piece);
        assert_int_equal(pp_kit_send(s, &next, 1), PP_OK);
        if (by != 1)
            pp_kit_end(s, PP_WS_GOING_AWAY, NULL);
        if (by == 1 || by == 2) {
            /* The server's pong does not wait for data. */
            pp_kit_put_frame(&c, FIN | PING, "x", 1);
            put_close(&c, 3001, "");
        }
        if (by == 3)
            pp_kit_put_frame(&c, FIN | BINARY, "x", 1);
        pp_kit_settle(k, &c);
        assert_int_equal(s->closed, 0);
        for (size_t i = 0; i < n; i++)
            expect_text(&c, piece);
        if (by == 1)
            expect_frame(&c, PONG, "x", 1);
        expect_text(&c, next);
        if (by == 0) {
            expect_frame(&c, CLOSE, "\x03\xe9", 2);
            put_close(&c, 1001, "");
            pp_hc_wait_end(&c);
        } else {
            pp_kit_expect_close(&c, by == 1 ? 3001 : 1001);
        }
        leave(&c, s);
        assert_int_equal(piece->refs, 1);
        assert_int_equal(next->refs, 1);
        assert_int_equal(s->drained, 0);
    }
    pp_test_clock_release(k->loop);
    pp_piece_unref(piece);
    pp_piece_unref(next);
}

/* The caller resets the connection while the server still has pieces, a pong and a close frame to
 * send. */
static void reset_while_frames_wait(void **state)
{
    struct pp_kit *k = *state;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    struct pp_hc c;
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    pp_kit_fill(s, piece);
    assert_int_equal(pp_kit_send(s, &piece, 1), PP_OK);
    pp_kit_put_frame(&c, FIN | PING, "x", 1);
    pp_kit_settle(k, &c);
    pp_kit_end(s, PP_WS_NORMAL, NULL);
    assert_int_equal(piece->refs, 3);
    leave(&c, s);
    assert_int_equal(piece->refs, 1);
    pp_piece_unref(piece);
}

static void drained_and_closed(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c[2];
    struct pp_kit_stream *first = pp_kit_ws(k, &c[0]);
    pp_kit_ws(k, &c[1]);
    k->server->ops->drain(k->server);
    for (int i = 0; i < 2; i++)
        expect_frame(&c[i], CLOSE, "\x03\xe9", 2);
    put_close(&c[0], 1001, "");
    pp_kit_wait_closed(first);
    assert_int_equal(k->streams[1].closed, 0);
    /* The second caller has not answered: closing the server must still end its stream. */
    pp_kit_close(k);
    for (int i = 0; i < 2; i++)
        pp_hc_close(&c[i]);
}

/* --- keep-alive pings of the server --- */

static void pings_of_ours(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    /* Together the rounds last twice as long as a caller may be silent. */
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 5; i++) {
            pp_kit_pass(k, KEEPALIVE_MS / 5);
            /* The server must send its pings although it sends data all the time. */
            assert_int_equal(pp_kit_send(s, &piece, 1), PP_OK);
        }
        struct pp_kit_frame f;
        int pings = 0;
        for (int texts = 0; texts < 5;) {
            assert_true(pp_kit_get_frame(&c, &f));
            texts += f.opcode == TEXT;
            pings += f.opcode == PING;
        }
        assert_in_range(pings, 1, 2);
        pp_kit_put_frame(&c, FIN | PONG, f.payload, 0);
        pp_kit_settle(k, &c);
        assert_int_equal(s->closed, 0);
    }
    pp_kit_pass(k, PONG_MS - 500);
    assert_int_equal(s->closed, 0);
    pp_kit_pass(k, KEEPALIVE_MS / 5);
    /* The caller sent no pong, so the server has closed the stream. */
    assert_int_equal(s->closed, 1);
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_piece_unref(piece);
}

static bool is_there(void *arg)
{
    char byte;
    return recv(*(int *)arg, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* A server that has not run for a long time reads the pong before it decides that none came. A
 * frame of which only a part has arrived does not count as activity. */
static void unread_pongs_count(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c[2];
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_ws(k, &c[0]), *half = pp_kit_ws(k, &c[1]);
    pp_kit_pass(k, KEEPALIVE_MS);
    pp_test_until(k->loop, is_there, &c[0].fd, PP_KIT_MS);
    /* The connection is local, so the pong has arrived before this call returns. */
    pp_kit_put_frame(&c[0], FIN | PONG, NULL, 0);
    pp_test_clock_pass(k->loop, PONG_MS);
    pp_kit_turn(k);
    assert_int_equal(s->closed, 0);
    assert_int_equal(half->closed, 1);
    pp_hc_close(&c[1]);
    half = pp_kit_ws(k, &c[1]);
    /* This frame announces 125 bytes, of which the caller then sends only a few. */
    pp_hc_send(&c[1], "\x8a\xfd", 2);
    for (int i = 0; i < 13; i++) {
        pp_hc_send(&c[1], "x", 1);
        pp_kit_settle(k, &c[1]);
        pp_kit_pass(k, 5000);
    }
    assert_int_equal(half->closed, 1);
    pp_test_clock_release(k->loop);
    leave(&c[0], s);
    pp_hc_close(&c[1]);
}

static void put_pings(struct pp_hc *c, int n)
{
    char frames[7 * 400];
    assert_true(n <= 400);
    for (int i = 0; i < n; i++)
        memcpy(frames + 7 * i, (char[]){(char)0x89, (char)0x81, 0, 0, 0, 0, (char)i}, 7);
    pp_hc_send(c, frames, 7 * (size_t)n);
}

/* The server answers only the newest of pings that arrive together. It closes the stream of a
 * caller that sends too many. */
static void floods(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    for (int i = 0; i < 3; i++) {
        put_pings(&c, 100);
        /* The caller sent all pings in one segment, so the server answers only the newest. */
        expect_frame(&c, PONG, "\x63", 1);
        pp_kit_pass(k, 1000);
    }
    assert_int_equal(s->closed, 0);
    put_pings(&c, 400);
    struct pp_kit_frame f;
    assert_true(pp_kit_get_frame(&c, &f));
    if (f.opcode == PONG)
        pp_kit_expect_close(&c, 1008);
    else
        assert_int_equal(f.payload[0] << 8 | f.payload[1], 1008);
    leave(&c, s);
    pp_test_clock_release(k->loop);
}

/* A caller that does not read sends pings without end. Only one pong waits for it. */
static void one_pong_waits(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_ws(k, &c);
    size_t n = pp_kit_fill(s, piece), pending = pp_kit_pending(s);
    for (int i = 0; i < 50; i++) {
        put_pings(&c, 1 + i);
        pp_kit_settle(k, &c);
        pp_test_clock_pass(k->loop, 1000);
    }
    assert_int_equal(pp_kit_pending(s), pending);
    for (size_t i = 0; i < n; i++)
        expect_text(&c, piece);
    expect_frame(&c, PONG, "\x31", 1);
    pp_kit_put_frame(&c, FIN | PING, "z", 1);
    expect_frame(&c, PONG, "z", 1);
    assert_int_equal(s->drained, 1);
    pp_test_clock_release(k->loop);
    leave(&c, s);
    pp_piece_unref(piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PP_KIT_TEST(handshake, &defaults),
        PP_KIT_TEST(what_is_a_handshake, &defaults),
        PP_KIT_TEST(pieces_are_text_frames, &defaults),
        PP_KIT_TEST(frames_stay_whole, &defaults),
        PP_KIT_TEST(pings_are_answered, &defaults),
        cmocka_unit_test(early_frames),
        PP_KIT_TEST(mistakes, &defaults),
        PP_KIT_TEST(mistakes_have_reasons, &defaults),
        PP_KIT_TEST(closed_by_the_caller, &defaults),
        PP_KIT_TEST(closed_by_us, &defaults),
        PP_KIT_TEST(closed_by_us_alone, &defaults),
        PP_KIT_TEST(closed_while_data_waits, &defaults),
        PP_KIT_TEST(reset_while_frames_wait, &defaults),
        cmocka_unit_test(drained_and_closed),
        PP_KIT_TEST(pings_of_ours, &defaults),
        PP_KIT_TEST(unread_pongs_count, &defaults),
        PP_KIT_TEST(floods, &defaults),
        PP_KIT_TEST(one_pong_waits, &defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
