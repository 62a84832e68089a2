/* suite_stream_kit.h: a server whose handler opens streams, and callers that follow them. What the
 * handler does with a path:
 *
 * - /events and /ws: calls open_stream() at once, and sends `greeting`. If the server refuses the
 * stream, the handler answers 503 with the error's name as body.
 * - /hold-events and /hold-ws: does the same, but not before the test calls pp_kit_open_held().
 * - any other path: answers 200 with the body "origin host websocket", the values of these fields
 * of the request ("-" for an absent one, 0 or 1 for `websocket`). */
#ifndef PP_SUITE_STREAM_KIT_H
#define PP_SUITE_STREAM_KIT_H

#include "adapter/http/http_server.h"
#include "base/piece.h"
#include "http_client.h"

enum { PP_KIT_STREAMS = 2048, PP_KIT_MS = 60000, PP_KIT_CHUNK = 64 * 1024 };

struct pp_kit;

struct pp_kit_stream {
    struct pp_http_stream st;
    struct pp_kit *kit;
    int closed, drained;
    /* closed() of this stream also ends the stream `ends`; may be NULL */
    struct pp_kit_stream *ends;
    bool ends_server; /* true if closed() of this stream closes the server */
};

struct pp_kit {
    struct pp_loop *loop;
    struct pp_http_server *server;
    uint16_t port;
    struct pp_kit_stream streams[PP_KIT_STREAMS];
    size_t n; /* number of streams opened so far */
    /* the first piece that each stream sends; owned by the test; may be NULL */
    struct pp_piece *greeting;
    struct pp_http_request *held;
    bool held_ws;
    bool busy;      /* true while open_stream() or send() runs, within which no callback may come */
    bool is_closed; /* true once ops->close() was called */
};

struct pp_kit *pp_kit_open(const struct pp_http_options *options);
/* Asserts that each stream has been closed exactly once. */
void pp_kit_close(struct pp_kit *k);
/* A row of a table of tests. The state of the test is a kit with these options. */
#define PP_KIT_TEST(test, options)                                                \
    cmocka_unit_test_prestate_setup_teardown(test, pp_kit_setup, pp_kit_teardown, \
                                             (void *)(uintptr_t)(options))
int pp_kit_setup(void **state);
int pp_kit_teardown(void **state);
enum pp_err pp_kit_open_held(struct pp_kit *k);
struct pp_http_stats pp_kit_stats(struct pp_kit *k);
/* Each of these functions calls the server, and asserts that no callback comes within the call
 * where the contract forbids it. */
enum pp_err pp_kit_send(struct pp_kit_stream *s, struct pp_piece *const *pieces, size_t n);
void pp_kit_end(struct pp_kit_stream *s, enum pp_ws_close code, const char *reason);
size_t pp_kit_pending(struct pp_kit_stream *s);
/* Waits until the server has called closed() of this stream. */
void pp_kit_wait_closed(struct pp_kit_stream *s);
/* Makes a piece of `n` bytes that depend on `seed`. */
struct pp_piece *pp_kit_piece(size_t n, unsigned seed);
void pp_kit_send_one(struct pp_kit_stream *s, struct pp_piece *piece);
/* Sends `piece` until the kernel's buffer is full and the server has bytes to send. Returns how
 * often it sent the piece. */
size_t pp_kit_fill(struct pp_kit_stream *s, struct pp_piece *piece);
/* Sends `piece` until the server refuses it. Returns how often the server accepted it. */
size_t pp_kit_fill_up(struct pp_kit_stream *s, struct pp_piece *piece);
/* Turns the loop until it has nothing more to do. */
void pp_kit_turn(struct pp_kit *k);
/* Moves the held clock by `ms` in steps, so that timers fire in their order. */
void pp_kit_pass(struct pp_kit *k, int64_t ms);
/* Waits until the server has no connection. */
void pp_kit_wait_idle(struct pp_kit *k);

/* Each of these two functions connects a client, sends the request and reads the head of the
 * answer. Returns the new stream. */
struct pp_kit_stream *pp_kit_events(struct pp_kit *k, struct pp_hc *c);
struct pp_kit_stream *pp_kit_ws(struct pp_kit *k, struct pp_hc *c);
/* Returns the text of a WebSocket handshake for this path. */
const char *pp_kit_handshake(const char *path);
/* Waits until `n` bytes have arrived, and consumes them. The returned pointer is valid until the
 * next call. */
const char *pp_kit_take(struct pp_hc *c, size_t n);
/* Asserts that the next bytes are those of the piece. */
void pp_kit_expect(struct pp_hc *c, const struct pp_piece *piece);
/* Sends a masked frame. `first` is its first byte: FIN, reserved bits and opcode. */
void pp_kit_put_frame(struct pp_hc *c, unsigned first, const void *payload, size_t n);
/* One frame. pp_kit_get_frame() reads the next frame, whose payload is valid until the next call.
 * It returns false if the connection ended first. */
struct pp_kit_frame {
    unsigned opcode;
    const uint8_t *payload;
    size_t n;
};
bool pp_kit_get_frame(struct pp_hc *c, struct pp_kit_frame *f);
/* Asserts that a close frame with `code` (0: without payload) comes next, and that the
 * connection then ends without a reset. */
void pp_kit_expect_close(struct pp_hc *c, unsigned code);
/* Waits until the server has read all bytes that the client has sent, or until it stops reading. */
void pp_kit_settle(struct pp_kit *k, struct pp_hc *c);

#endif
