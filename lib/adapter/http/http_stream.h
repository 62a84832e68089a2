/* http_stream.h: streams: connections that open_stream() has turned into Server-Sent Events
 * (EVENTS) or WebSocket. A stream ends in phases:
 *
 *   phase      event                                  the server sends               next phase
 *   OPEN       end() of a WebSocket                   the queue, a close frame       WAIT
 *   OPEN       end() of EVENTS                        the queue, FIN                 SHUT
 *   OPEN       the client's close frame, or an error  the queue, a close frame, FIN  SHUT
 *   OPEN       the client reads nothing, or no pong                                  closed
 *   WAIT       the client's close frame                                              closed
 *   WAIT, SHUT close_ms have passed                                                  closed
 *   any        the client's FIN or reset                                             closed
 *
 * A stream takes the memory of its connection and of one struct pp_stream. If the kernel does not
 * accept all bytes of a send, the rest is queued as a list of references, which is freed when it is
 * sent.
 *
 * Invariants:
 * - `out` exists exactly while pieces are queued. One uv_write() of the front piece is then in
 *   flight, and nothing else writes.
 * - A stream is in PP_CONN_STREAM while its phase is OPEN, else in PP_CONN_STREAM_END.
 * - Only pp_conn_close() calls closed(), and never within open_stream() or send(): a stream whose
 *   connection breaks there is closed in the loop's next turn.
 *
 * The server checks each stream a few times within keepalive_ms, so sending a piece needs neither a
 * timer nor a list. */
#ifndef PP_ADAPTER_HTTP_STREAM_H
#define PP_ADAPTER_HTTP_STREAM_H

#include "adapter/http/http_impl.h"
#include "adapter/http/ws_frame.h"

struct pp_stream_out;

enum pp_stream_phase { PP_STREAM_OPEN, PP_STREAM_WAIT, PP_STREAM_SHUT };

struct pp_stream {
    struct pp_conn *conn;
    struct pp_http_stream *st; /* the handler's stream; NULL until open_stream() succeeds */
    struct pp_stream_out *out; /* the queue; NULL if nothing is queued */
    struct pp_node in_queued;  /* in server->queued while there is a queue */
    int fd;
    enum pp_stream_kind kind;
    enum pp_stream_phase phase;
    bool full;        /* send() has returned PP_EFULL, and the queue has not been empty since */
    bool broken;      /* the connection has failed; the loop's next turn closes it */
    uint16_t frames;  /* frames that the client sent in the current second */
    uint32_t dropped; /* EVENTS: bytes that the client sent and the server dropped */
    int64_t said;     /* when the server last sent data (EVENTS) or a ping (WEBSOCKET); loop clock, ms */
    int64_t moved;    /* when the queue last became shorter, in ms of the loop's clock */
    size_t unsent;    /* unsent bytes of the front piece at the last check */
    int64_t heard;    /* WEBSOCKET: when the client's last frame arrived, in ms of the loop's clock */
    int64_t second;   /* when the current second began, in ms of the loop's clock */
    struct pp_ws_in in;
};

/* --- http_stream.c --- */
/* pp_stream_open() and pp_stream_end_op() implement open_stream and end of struct
 * pp_http_server_ops. */
enum pp_err pp_stream_open(struct pp_http_server *port, struct pp_http_request *req, enum pp_stream_kind kind,
                           const struct pp_http_response *res, struct pp_http_stream *st);
void pp_stream_end_op(struct pp_http_server *port, struct pp_http_stream *st, enum pp_ws_close code,
                      const char *reason);
/* Ends the connection's stream in an orderly way. Does nothing if it is ending already. */
void pp_stream_end(struct pp_conn *c, enum pp_ws_close code, const char *reason);
/* Consumes all n bytes from the client. May close the connection. */
void pp_stream_eat(struct pp_conn *c, const char *p, size_t n);
/* Called when the queue has become empty: calls drained(), or takes the next step of the end. */
void pp_stream_emptied(struct pp_conn *c);
/* Checks the stream: sends a comment or ping after a silence; closes the stream if its client shows
 * no sign of life. */
void pp_stream_look(struct pp_conn *c, int64_t now);
/* Frees the stream of a connection that is closing. Returns the handler's stream, whose closed()
 * the caller must call, or NULL. */
struct pp_http_stream *pp_stream_gone(struct pp_conn *c);

/* --- http_stream_out.c --- */
/* pp_stream_send() and pp_stream_pending() implement send and pending of struct
 * pp_http_server_ops. */
enum pp_err pp_stream_send(struct pp_http_server *port, struct pp_http_stream *st,
                           struct pp_piece *const *pieces, size_t n);
size_t pp_stream_pending(const struct pp_http_stream *st);
/* Sends bytes that the server itself makes: a head, a comment, a control frame. SOON sends them
 * before the queued pieces, and replaces older SOON bytes that are still queued. LAST sends them
 * after the pieces. Returns false if the connection is broken; the caller must then close it. */
enum pp_say { PP_SAY_SOON, PP_SAY_LAST };
pp_must_check bool pp_stream_say(struct pp_conn *c, const void *p, size_t n, enum pp_say when);
/* Frees the queued pieces without sending them. */
void pp_stream_drop(struct pp_conn *c);

#endif
