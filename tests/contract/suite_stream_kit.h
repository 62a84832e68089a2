/* suite_stream_kit.h: a server whose handler opens streams, and callers that follow them. The handler's
 * paths:
 *
 *   /events, /ws         open_stream() at once, sending what `greeting` is; a refusal is answered 503, its
 *                        body the name of the error
 *   /hold-events, /hold-ws   the same when the test calls pp_kit_open_held()
 *   any other            200, "origin host websocket" ("-" where absent, 0 or 1) */
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
    struct pp_kit_stream *ends; /* from within closed() */
    bool ends_server;           /* the same: ops->close() */
};

struct pp_kit {
    struct pp_loop *loop;
    struct pp_http_server *server;
    uint16_t port;
    struct pp_kit_stream streams[PP_KIT_STREAMS];
    size_t n;                  /* opened */
    struct pp_piece *greeting; /* the test's; may be NULL */
    struct pp_http_request *held;
    bool held_ws;
    bool busy;      /* within open_stream() or send() */
    bool is_closed; /* ops->close() was called */
};

struct pp_kit *pp_kit_open(const struct pp_http_options *options);
/* Asserts that each stream has been closed, once. */
void pp_kit_close(struct pp_kit *k);
enum pp_err pp_kit_open_held(struct pp_kit *k);
struct pp_http_stats pp_kit_stats(struct pp_kit *k);
/* Each asserts that nothing is called from within that may not be. */
enum pp_err pp_kit_send(struct pp_kit_stream *s, struct pp_piece *const *pieces, size_t n);
void pp_kit_end(struct pp_kit_stream *s, enum pp_ws_close code, const char *reason);
size_t pp_kit_pending(struct pp_kit_stream *s);
/* Waits for closed(). */
void pp_kit_wait_closed(struct pp_kit_stream *s);
/* A piece of `n` bytes that depend on `seed`. */
struct pp_piece *pp_kit_piece(size_t n, unsigned seed);
void pp_kit_send_one(struct pp_kit_stream *s, struct pp_piece *piece);
/* Sends `piece` until the kernel takes no more: something waits. Answers how often. */
size_t pp_kit_fill(struct pp_kit_stream *s, struct pp_piece *piece);
/* Sends it until it is refused: answers how often it was not. */
size_t pp_kit_fill_up(struct pp_kit_stream *s, struct pp_piece *piece);
/* What can be done now is done. */
void pp_kit_turn(struct pp_kit *k);
/* With the clock held: passes `ms`, in steps, so that what is due on the way comes on the way. */
void pp_kit_pass(struct pp_kit *k, int64_t ms);
/* Waits until there is no connection. */
void pp_kit_wait_idle(struct pp_kit *k);

/* Callers: connected, and the head of the answer read; the stream is the newest of k->streams. */
struct pp_kit_stream *pp_kit_events(struct pp_kit *k, struct pp_hc *c);
struct pp_kit_stream *pp_kit_ws(struct pp_kit *k, struct pp_hc *c);
/* The request of a handshake, for this path. */
const char *pp_kit_handshake(const char *path);
/* Waits until `n` bytes are there, and takes them: they are at the answer until the next call. */
const char *pp_kit_take(struct pp_hc *c, size_t n);
/* The next bytes are the piece's. */
void pp_kit_expect(struct pp_hc *c, const struct pp_piece *piece);
/* A frame, masked; `first` is FIN, reserved bits, opcode. */
void pp_kit_put_frame(struct pp_hc *c, unsigned first, const void *payload, size_t n);
/* The next frame; its payload is valid until the next call. False: the connection ended before. */
struct pp_kit_frame {
    unsigned opcode;
    const uint8_t *payload;
    size_t n;
};
bool pp_kit_get_frame(struct pp_hc *c, struct pp_kit_frame *f);
/* A close frame of `code` (0: no payload) comes next, then the end, without a reset. */
void pp_kit_expect_close(struct pp_hc *c, unsigned code);
/* What was sent has been read by the server, as far as it reads. */
void pp_kit_settle(struct pp_kit *k, struct pp_hc *c);

#endif
