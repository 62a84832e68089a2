/* http_stream.h: connections that open_stream() has taken: Server-Sent Events and WebSocket.
 *
 *   OPEN -- end() of a WebSocket: queue, our close frame ---------> WAIT -- theirs ----+
 *     +----- end() of EVENTS: queue, FIN -------------------------> SHUT               |
 *     +----- their close frame, or an error: queue, our frame, FIN > SHUT -- their FIN -+-> closed
 *     +----- a reset, their FIN, no read or no pong; close_ms in the other phases -----+
 *
 * A stream takes the memory of its connection and of one struct pp_stream. If the kernel does not
 * accept everything, the rest is queued as a list of references, which is freed when it is sent.
 *
 * Invariants:
 * - `out` exists exactly while pieces are queued; then one uv_write() of the front piece is in
 *   flight, and nothing else writes.
 * - A stream is in PP_CONN_STREAM while its phase is OPEN, else in PP_CONN_STREAM_END.
 * - Only pp_conn_close() calls closed(), never within open_stream() and send(): a stream that
 *   breaks there is closed in the next turn.
 *
 * The server looks at each stream a few times within keepalive_ms, so sending a piece needs
 * neither a timer nor a list. */
#ifndef PP_ADAPTER_HTTP_STREAM_H
#define PP_ADAPTER_HTTP_STREAM_H

#include "adapter/http/http_impl.h"
#include "adapter/http/ws_frame.h"

struct pp_stream_out;

enum pp_stream_phase { PP_STREAM_OPEN, PP_STREAM_WAIT, PP_STREAM_SHUT };

struct pp_stream {
    struct pp_conn *conn;
    struct pp_http_stream *st; /* the handler's object; NULL before open_stream() succeeds */
    struct pp_stream_out *out; /* the queue; NULL if nothing is queued */
    int fd;
    enum pp_stream_kind kind;
    enum pp_stream_phase phase;
    bool full;        /* send() has answered PP_EFULL, and the queue has not been empty since */
    bool broken;      /* the connection failed; the next turn of the loop closes it */
    uint16_t frames;  /* frames received in the current second */
    uint32_t dropped; /* EVENTS: bytes that the client sent, and the server dropped */
    int64_t said;     /* EVENTS: time of the last send; WEBSOCKET: time of the last ping */
    int64_t moved;    /* while pieces are queued: time when the queue last became shorter */
    size_t unsent;    /* unsent bytes of the front piece at the last look at the stream */
    int64_t heard;    /* WEBSOCKET: time when the last frame arrived */
    int64_t second;   /* time when the current second began */
    struct pp_ws_in in;
};

/* --- http_stream.c --- */
/* These functions implement open_stream and end of struct pp_http_server_ops. */
enum pp_err pp_stream_open(struct pp_http_server *port, struct pp_http_request *req, enum pp_stream_kind kind,
                           const struct pp_http_response *res, struct pp_http_stream *st);
void pp_stream_end_op(struct pp_http_server *port, struct pp_http_stream *st, enum pp_ws_close code,
                      const char *reason);
/* Ends the stream of a connection in any phase, like pp_stream_end(). */
void pp_stream_end(struct pp_conn *c, enum pp_ws_close code, const char *reason);
/* Consumes all input of the stream. May close the connection. */
void pp_stream_eat(struct pp_conn *c, const char *p, size_t n);
/* Called when the queue is empty: calls drained(), or takes the next step of the end. */
void pp_stream_emptied(struct pp_conn *c);
/* Keeps the stream alive, or closes it if its client shows no sign of life. */
void pp_stream_look(struct pp_conn *c, int64_t now);
/* Frees the stream of a connection that is closing. Returns the handler's stream, for which the
 * caller must call closed(), or NULL. */
struct pp_http_stream *pp_stream_gone(struct pp_conn *c);

/* --- http_stream_out.c --- */
/* These functions implement send and pending of struct pp_http_server_ops. */
enum pp_err pp_stream_send(struct pp_http_server *port, struct pp_http_stream *st,
                           struct pp_piece *const *pieces, size_t n);
size_t pp_stream_pending(const struct pp_http_stream *st);
/* Sends bytes of the server's own: a head, a comment, a control frame. SOON sends them before the
 * queued pieces, and replaces older SOON bytes that are still queued. LAST sends them after the
 * pieces. Returns false if the connection is broken; the caller must then close it. */
enum pp_say { PP_SAY_SOON, PP_SAY_LAST };
pp_must_check bool pp_stream_say(struct pp_conn *c, const void *p, size_t n, enum pp_say when);
/* Frees the queued pieces without sending them. */
void pp_stream_drop(struct pp_conn *c);

#endif
