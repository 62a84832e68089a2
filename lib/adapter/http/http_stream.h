/* http_stream.h: connections that open_stream() has taken: Server-Sent Events and WebSocket.
 *
 *   OPEN -- end() of a WebSocket: what waits, our close frame ------> WAIT -- theirs ----------+
 *     |                                                                                        |
 *     +----- end() of EVENTS: what waits, FIN ----------------------> SHUT                     |
 *     |                                                               |  the caller's end ---+-> closed
 *     +----- their close frame, a mistake: what waits, ours, FIN ---> SHUT                     |
 *     |                                                                                        |
 *     +----- a reset, their end, nobody reads, nobody answers; close_ms in the others ---------+
 *
 * Memory is the point: what there is for each stream is its connection and one struct pp_stream; what waits
 * to be sent is a list of references, made when the kernel does not take all at once and freed when it has.
 *
 * Invariants: `out` is there exactly while something waits, and then one uv_write() is under way, of the
 * piece in front; nothing else writes meanwhile. A stream is in PP_CONN_STREAM while its phase is OPEN, else
 * in PP_CONN_STREAM_END. closed() is called by pp_conn_close() alone, and never within
 * open_stream() and send(): what breaks there is closed in the next turn.
 *
 * Time: each stream is looked at a few times within keepalive_ms; so sending notes the time and touches no
 * list. */
#ifndef PP_ADAPTER_HTTP_STREAM_H
#define PP_ADAPTER_HTTP_STREAM_H

#include "adapter/http/http_impl.h"
#include "adapter/http/ws_frame.h"

struct pp_stream_out;

enum pp_stream_phase { PP_STREAM_OPEN, PP_STREAM_WAIT, PP_STREAM_SHUT };

struct pp_stream {
    struct pp_conn *conn;
    struct pp_http_stream *st; /* the handler's; NULL until open_stream() has succeeded */
    struct pp_stream_out *out; /* NULL while nothing waits */
    int fd;
    enum pp_stream_kind kind;
    enum pp_stream_phase phase;
    bool full;        /* send() was refused, and what waits has not gone since */
    bool broken;      /* to be closed in the next turn */
    uint16_t frames;  /* received in the present second */
    uint32_t dropped; /* EVENTS: bytes received */
    int64_t said;     /* EVENTS: when something was sent; WEBSOCKET: the latest ping */
    int64_t moved;    /* while something waits: when it last became less */
    size_t unsent;    /* of the piece in front, at the last look */
    int64_t heard;    /* WEBSOCKET: the latest frame */
    int64_t second;   /* when the present second began */
    struct pp_ws_in in;
};

/* --- http_stream.c --- */
/* pp_http_server_ops.open_stream, .end */
enum pp_err pp_stream_open(struct pp_http_server *port, struct pp_http_request *req, enum pp_stream_kind kind,
                           const struct pp_http_response *res, struct pp_http_stream *st);
void pp_stream_end_op(struct pp_http_server *port, struct pp_http_stream *st, enum pp_ws_close code,
                      const char *reason);
/* The same, for a connection in any phase. */
void pp_stream_end(struct pp_conn *c, enum pp_ws_close code, const char *reason);
/* Takes all of what was received. May close the connection. */
void pp_stream_eat(struct pp_conn *c, const char *p, size_t n);
/* Nothing waits any more: drained(), or the next step of the end. */
void pp_stream_emptied(struct pp_conn *c);
/* Keeps it alive, or closes it where its caller shows no life. */
void pp_stream_look(struct pp_conn *c, int64_t now);
/* Of a connection that is about to be closed: gives back all memory; answers the handler's stream, which is
 * due closed(), or NULL. */
struct pp_http_stream *pp_stream_gone(struct pp_conn *c);

/* --- http_stream_out.c --- */
/* pp_http_server_ops.send, .pending */
enum pp_err pp_stream_send(struct pp_http_server *port, struct pp_http_stream *st,
                           struct pp_piece *const *pieces, size_t n);
size_t pp_stream_pending(const struct pp_http_stream *st);
/* Bytes of our own: a head, a comment, a control frame. SOON: before other pieces that wait; a newer one
 * takes the place of one that waits. LAST: after them. False: the connection is broken; the caller closes it.
 */
enum pp_say { PP_SAY_SOON, PP_SAY_LAST };
pp_must_check bool pp_stream_say(struct pp_conn *c, const void *p, size_t n, enum pp_say when);
/* Drops what waits, for good. */
void pp_stream_drop(struct pp_conn *c);

#endif
