/* http_server.h: HTTP as the API's handlers see it: heads and whole requests in, whole answers out.
 *
 * The server (adapter/http) does the protocol: parsing, strictness, timeouts, limits by address,
 * gzip of request bodies, keep-alive. Everything here runs on the loop thread.
 *
 * The server calls head() when the head of a request is complete, and handle() when its body is,
 * too. So the handler refuses a request before the server reads or decodes a byte of its body. The
 * handler answers exactly once: from within head(), or after handle(), now or later, by reply() or
 * open_stream(). The request lives until then. If the caller hangs up first, the handler still
 * calls reply(), and the server drops the answer. */
#ifndef PHOTOPOOL_PORT_HTTP_SERVER_H
#define PHOTOPOOL_PORT_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/api_code.h"
#include "photopool/err.h"

struct pp_account;

enum pp_method { PP_GET, PP_HEAD, PP_POST, PP_PUT, PP_DELETE, PP_OPTIONS, PP_PATCH, PP_METHOD_OTHER };

struct pp_http_request {
    enum pp_method method;
    const char *path;  /* as in the request, not decoded; begins with '/' */
    const char *query; /* the part after '?', not decoded; "" if there is none */
    /* The headers that handlers read; NULL if the request does not have the header. */
    const char *authorization, *content_type, *idempotency_key, *if_match, *if_none_match, *range, *if_range,
        *accept, *last_event_id, *origin, *host, *sec_fetch_site, *request_id, *traceparent;
    const char *peer; /* the caller's address as text; an IPv6 address as "2001:db8:0:1::/64" */
    bool websocket;   /* true: a valid WebSocket handshake (RFC 6455 4.2.1), so open_stream() may take it */
    bool has_body;    /* the head announces a body */
    /* The connection has one of the few places that the server keeps for supervisors when all
     * others are taken: head() refuses the request unless it is one of theirs. The connection
     * closes after the answer. */
    bool spare;
    /* The header Accept-Encoding; NULL if the request does not have it. */
    const char *accept_encoding;
    const char *accept_language;
    const char *body; /* from handle() on: decoded, with a NUL after it; "" if there is no body */
    size_t body_n;
    /* head() may set these accounts: the server charges the memory of the body and of the answer to
     * them. Their ancestors are the ledger's rows BODIES and ANSWERS; NULL: the rows themselves.
     * body_account lives until the request is gone, answer_account as long as its `used` is not 0.
     * At the limit of a body_account, the server refuses the body with rate_limited. */
    struct pp_account *body_account, *answer_account;
    bool hung_up; /* true: the caller has closed the connection, or its sending side */
    /* The handler may set this callback; NULL: none. The server calls it once when it sets hung_up,
     * but not before or within handle(), not after the answer, and not if bytes of a next request
     * wait.
     * The handler still has to answer, and may do so from within this callback. */
    void (*on_hang_up)(struct pp_http_request *req);
    void *handler; /* private data of the handler */
    void *impl;    /* private data of the server */
};

/* A body that the handler gives in pieces. The handler owns and embeds the source, which must live
 * until gone(). At most one want() is unanswered at a time. */
struct pp_http_source {
    /* The server can send more: the handler calls ops->feed() once, from within this call or later,
     * unless gone() comes first. The server may call this from within reply() and feed(). */
    void (*want)(struct pp_http_source *src);
    /* Called exactly once, maybe from within reply() or feed(): all bytes are sent, or the
     * connection has ended. The handler may free the source, and calls feed() no more. */
    void (*gone)(struct pp_http_source *src);
    void *impl; /* private data of the server */
};

#define PP_HTTP_PIECE_MAX (256u << 10) /* most bytes of one piece */

struct pp_http_response {
    int status;
    const char *content_type; /* a constant text; NULL if there is no body */
    const char *body; /* copied; if `release` is set, borrowed until the server calls release(release_data) */
    size_t body_n;
    void (*release)(void *data);
    void *release_data;
    /* Gives the body in pieces, in place of `body`; then body_n is the whole length. NULL: none. */
    struct pp_http_source *source;
    /* extra header lines "Name: value", at most 12; the server copies them */
    const char *const *headers;
    size_t n_headers;
    bool close; /* true: the server closes the connection afterwards */
};

struct pp_http_handler {
    /* The head of a request is complete, and the server has not read a byte of the body. Returns
     * true if the server is to read the body; then exactly one call of handle() or dropped()
     * follows. Returns false if the handler has answered by reply(); if the request has a body, the
     * connection closes after that answer. */
    bool (*head)(void *data, struct pp_http_request *req);
    /* The request is complete. */
    void (*handle)(void *data, struct pp_http_request *req);
    /* The connection has ended, or the server has refused the body, before the request was
     * complete. The request is gone after this call; the handler does not answer. */
    void (*dropped)(void *data, struct pp_http_request *req);
    /* The server is at its limit of connections of `peer` (NULL: of all), and asks the handler to
     * answer one waiting request (a long-poll) now, the oldest. Returns true if it has answered
     * one. May be NULL. */
    bool (*give_way)(void *data, const char *peer);
    /* The server calls this when it refuses a request itself (bad_request, body_too_large, ...), so
     * that all errors look alike. Writes the problem document, at most `cap` bytes, into buf and
     * returns its length. */
    size_t (*problem)(void *data, enum pp_api_code code, const char *detail, char *buf, size_t cap);
    void *data;
};

/* --- endless answers: Server-Sent Events and WebSocket connections (RFC 6455) ---
 *
 * The handler owns and embeds the stream, which must live until closed(), called exactly once. A
 * stream sends pieces (base/piece.h): encoded once, shared by all streams that send them. */

struct pp_piece;

enum pp_stream_kind {
    /* The answer has the response's status, content type and headers, then a body until the
     * connection closes. After 25 s without a piece the server sends a comment (":"). The server
     * drops what the caller sends, and closes the stream when the caller closes its sending
     * side. */
    PP_STREAM_EVENTS,
    /* The answer is 101 with the response's headers; each piece becomes a text frame. The server
     * pings every 25 s and closes after 60 s without a frame. The caller may send only control
     * frames, at most 100 a second; else the server closes with code 1008. */
    PP_STREAM_WEBSOCKET
};

struct pp_http_stream;

struct pp_http_stream_events {
    /* The server calls this when the connection is closed; the handler may free the stream, and may
     * no longer use it. The server never calls this from within open_stream() or send(), but may
     * from within end(). */
    void (*closed)(struct pp_http_stream *st);
    /* The server calls this when pending() was above 0 and the kernel has now taken all bytes, but
     * never from within another function. May be NULL. */
    void (*drained)(struct pp_http_stream *st);
};

struct pp_http_stream {
    const struct pp_http_stream_events *events;
    void *impl; /* private data of the server */
};

enum pp_ws_close {
    PP_WS_NORMAL = 1000,
    PP_WS_GOING_AWAY = 1001,
    PP_WS_POLICY = 1008,
    PP_WS_OVERLOADED = 1013
};

struct pp_http_stats {
    uint64_t connections, accepted_total, refused_total, requests_total, evicted_total;
    /* number of open streams; `connections` counts them, too, but the limit of connections does
     * not */
    uint64_t streams;
};

struct pp_http_server;

struct pp_http_server_ops {
    /* Sends the answer. If the ledger has no memory left for it, and no slow reader can be closed,
     * the server sends `overloaded` instead, or `rate_limited` if only answer_account is full. */
    void (*reply)(struct pp_http_server *s, struct pp_http_request *req, const struct pp_http_response *res);
    /* Gives the next piece of a body, after want(): `bytes` is malloc'ed memory that the server
     * frees, of 1 to PP_HTTP_PIECE_MAX bytes, and never more than are left. With an error the
     * connection ends; `bytes` may then be NULL. */
    void (*feed)(struct pp_http_server *s, struct pp_http_source *src, void *bytes, size_t n,
                 enum pp_err err);
    /* Answers by a stream instead of reply(). `res` has no body; NULL stands for status 200 and no
     * headers.
     * PP_OK       the request is gone, and the server will call closed().
     * On error nothing was sent, and the handler still has to call reply():
     * PP_EINVAL   a WebSocket without a handshake, or PP_STREAM_EVENTS for a HEAD request
     * PP_EFULL    too many streams, out of memory, or after drain()
     * PP_ECLOSED  the caller has hung up */
    pp_must_check enum pp_err (*open_stream)(struct pp_http_server *s, struct pp_http_request *req,
                                             enum pp_stream_kind kind, const struct pp_http_response *res,
                                             struct pp_http_stream *st);
    /* Sends pieces in order, and references each piece that the kernel does not take at once. If no
     * piece waits, sending costs one system call for each 64 pieces (WebSocket: 32), and one more
     * if some are left.
     * PP_EFULL    more than max_stream_bytes could wait, or out of memory: nothing was taken; the
     *             handler calls end(). A piece counts as at least 64 bytes; the first one does
     *             not count while none waits, so a piece of any size can be sent.
     * PP_ECLOSED  the stream is closing; the server will call closed(). */
    pp_must_check enum pp_err (*send)(struct pp_http_server *s, struct pp_http_stream *st,
                                      struct pp_piece *const *pieces, size_t n);
    /* Returns the number of bytes that wait until the caller reads. */
    size_t (*pending)(const struct pp_http_stream *st);
    /* Closes the stream when the caller has got all pieces (and, on a WebSocket, its close frame
     * has come), or after a few seconds. Closes the stream immediately if the last send() was
     * refused and the same bytes still wait. `code` and `reason` (UTF-8, cut at 123 bytes, may be
     * NULL) are for a WebSocket. The server calls closed() later, or from within end(). A second
     * call has no effect. */
    void (*end)(struct pp_http_server *s, struct pp_http_stream *st, enum pp_ws_close code,
                const char *reason);
    /* Returns the port on which the server listens, also if the configured port was 0. */
    uint16_t (*port)(struct pp_http_server *s);
    void (*stats)(struct pp_http_server *s, struct pp_http_stats *out);
    /* Accepts no more connections and requests, answers the requests in flight, and ends the
     * streams (WebSockets with PP_WS_GOING_AWAY). The caller calls close() next. */
    void (*drain)(struct pp_http_server *s);
    /* Closes all connections and frees the server. Calls closed() of each open stream before it
     * returns. */
    void (*close)(struct pp_http_server *s);
};

struct pp_http_server {
    const struct pp_http_server_ops *ops;
};

#endif
