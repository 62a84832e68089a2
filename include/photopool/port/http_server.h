/* http_server.h: HTTP as the API's handlers see it: whole requests in, whole answers out.
 *
 * The server (adapter/http) speaks the protocol: parsing, strictness, timeouts, limits by address, gzip of
 * request bodies, keep-alive. It calls `handle` on the loop thread once a request is complete. The handler
 * answers by pp_http_server.ops->reply exactly once, now or later; the request lives until then. If the
 * caller hangs up meanwhile, reply() is still due and its answer is dropped. Instead of a whole answer it may
 * open a stream. */
#ifndef PHOTOPOOL_PORT_HTTP_SERVER_H
#define PHOTOPOOL_PORT_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"

/* Request codes of API.md section 1: identifier, name, status, what to do about it. */
#define PP_API_CODE_TABLE(X)                                                                          \
    X(BAD_JSON, "bad_json", 400,                                                                      \
      "Send valid JSON (RFC 8259) without duplicate keys, at most 32 levels deep.")                   \
    X(BAD_REQUEST, "bad_request", 400, "Send a correct HTTP/1.1 message (RFC 9112).")                 \
    X(BAD_ENCODING, "bad_encoding", 400, "Send a body that is what its Content-Encoding says.")       \
    X(BAD_CLIENT, "bad_client", 400, "Use 1 to 64 of A-Z a-z 0-9 _ - for the client.")                \
    X(BAD_PARAMETER, "bad_parameter", 400, "Correct the named parameter.")                            \
    X(BAD_CURSOR, "bad_cursor", 400,                                                                  \
      "Start again without `after`, or use `next` of an earlier answer as it is.")                    \
    X(BAD_IDEMPOTENCY_KEY, "bad_idempotency_key", 400, "Use 1 to 255 visible ASCII characters.")      \
    X(UNKNOWN_FIELD, "unknown_field", 400, "Remove the named field or correct its spelling.")         \
    X(BAD_TYPE, "bad_type", 400, "Send the named field with the right type.")                         \
    X(MISSING_FIELD, "missing_field", 400, "Add the named field.")                                    \
    X(BAD_VALUE, "bad_value", 422, "Correct the named field.")                                        \
    X(UNAUTHORIZED, "unauthorized", 401, "Send Authorization: Bearer with a key of this server.")     \
    X(FORBIDDEN, "forbidden", 403, "Use a key that has the named scope.")                             \
    X(NOT_FOUND, "not_found", 404, "Check the id and the path; /openapi.json lists what there is.")   \
    X(METHOD_NOT_ALLOWED, "method_not_allowed", 405, "Use one of the methods in Allow.")              \
    X(IDEMPOTENCY_IN_PROGRESS, "idempotency_in_progress", 409,                                        \
      "Wait for the first request with this key to end.")                                             \
    X(BODY_TOO_LARGE, "body_too_large", 413, "Send smaller batches; the limit is http.max_body.")     \
    X(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", 415,                                          \
      "Send application/json or application/x-ndjson, plain or with Content-Encoding: gzip.")         \
    X(RANGE_NOT_SATISFIABLE, "range_not_satisfiable", 416, "Ask for a range within the object.")      \
    X(TOO_MANY_ITEMS, "too_many_items", 422, "Split the batch; the limit is http.max_items.")         \
    X(ALL_REJECTED, "all_rejected", 422, "Correct the items as `rejected` says.")                     \
    X(IDEMPOTENCY_MISMATCH, "idempotency_mismatch", 422, "Use a new Idempotency-Key for a new body.") \
    X(RATE_LIMITED, "rate_limited", 429, "Send again after Retry-After.")                             \
    X(HEADER_TOO_LARGE, "header_too_large", 431, "Send fewer or shorter headers.")                    \
    X(INTERNAL, "internal", 500, "Report the incident id to the operator, who finds it in the log.")  \
    X(OVERLOADED, "overloaded", 503, "Send again after Retry-After.")

enum pp_api_code {
#define X(id, name, status, remedy) PP_API_##id,
    PP_API_CODE_TABLE(X)
#undef X
        PP_API_CODE_COUNT
};

enum pp_method { PP_GET, PP_HEAD, PP_POST, PP_PUT, PP_DELETE, PP_OPTIONS, PP_PATCH, PP_METHOD_OTHER };

struct pp_http_request {
    enum pp_method method;
    const char *path;  /* not decoded; begins with '/' */
    const char *query; /* after '?', not decoded; "" where none */
    /* Headers that handlers look at; NULL where absent. */
    const char *authorization, *content_type, *idempotency_key, *if_none_match, *range, *if_range, *accept,
        *last_event_id, *origin, *host;
    bool websocket;   /* a valid WebSocket handshake (RFC 6455 4.2.1): open_stream() may take it */
    const char *body; /* decoded, NUL after it; "" where none */
    size_t body_n;
    char peer[64]; /* address of the caller, text */
    bool peer_loopback;
    int64_t received_ms; /* monotonic, when the head was complete */
    bool hung_up;        /* the caller has hung up, or will send no more */
    /* The handler's: once that is so, at most once, on the loop and neither from within handle() nor after
     * the answer, which is still due and may come from within. Not while a caller sends the next request
     * already. NULL: it does not matter. */
    void (*on_hang_up)(struct pp_http_request *req);
    void *handler; /* the handler's */
    void *impl;    /* the server's */
};

struct pp_http_response {
    int status;
    const char *content_type; /* a constant; NULL with no body */
    const char *body;         /* copied, or with `release` borrowed until release(release_data) */
    size_t body_n;
    void (*release)(void *data);
    void *release_data;
    /* Extra header lines as "Name: value", at most 12, copied. */
    const char *const *headers;
    size_t n_headers;
    bool close; /* close the connection afterwards */
};

struct pp_http_handler {
    void (*handle)(void *data, struct pp_http_request *req);
    /* A request that the server refuses by itself (bad_request, body_too_large, ...): writes the problem
     * document into buf and answers its length, so that all errors look alike. */
    size_t (*problem)(void *data, enum pp_api_code code, const char *detail, char *buf, size_t cap);
    void *data;
};

/* --- answers without end: Server-Sent Events, and connections upgraded to WebSocket (RFC 6455) ---
 *
 * A stream belongs to the handler, who embeds it; it holds its connection until closed() has fired, exactly
 * once. What is sent are pieces (base/piece.h): encoded once, shared by all streams that they go to. */

struct pp_piece;

enum pp_stream_kind {
    PP_STREAM_EVENTS,   /* res->status, content_type and headers, then a body that ends with the connection;
                           a comment (":") after each 25 s without anything sent. What the caller sends is
                           dropped; that it will send no more is its end */
    PP_STREAM_WEBSOCKET /* the handshake's 101 with res->headers; each piece becomes a text frame; a ping each
                           25 s, closed where nothing comes for 60 s; the caller may send control frames only,
                           and not more than 100 a second (else 1008) */
};

struct pp_http_stream;

struct pp_http_stream_events {
    /* The connection is gone, whoever ended it; the memory is the handler's again. Never from within
     * open_stream() or send(); may come from within end(). After it the stream is none any more: no send(),
     * pending() or end(). */
    void (*closed)(struct pp_http_stream *st);
    /* All that was sent has been handed to the kernel, after pending() was above 0. Never from within
     * another function. May be NULL. */
    void (*drained)(struct pp_http_stream *st);
};

struct pp_http_stream {
    const struct pp_http_stream_events *events;
    /* The server's: */
    void *impl;
};

enum pp_ws_close {
    PP_WS_NORMAL = 1000,
    PP_WS_GOING_AWAY = 1001,
    PP_WS_POLICY = 1008,
    PP_WS_OVERLOADED = 1013
};

struct pp_http_stats {
    uint64_t connections, accepted_total, refused_total, requests_total, evicted_total;
    uint64_t streams; /* open now; part of connections, but of no limit for these */
};

struct pp_http_server;

struct pp_http_server_ops {
    void (*reply)(struct pp_http_server *s, struct pp_http_request *req, const struct pp_http_response *res);
    /* Answers by a stream in place of reply(); the request is gone afterwards. `res` has no body; it may be
     * NULL: 200, no headers. PP_OK: closed() follows one day. Else nothing was answered, and reply() is still
     * due. PP_EINVAL: a WebSocket was asked for and the request is no handshake, or EVENTS for HEAD.
     * PP_EFULL: as many streams as there may be, out of memory, or drain() has been called. PP_ECLOSED: the
     * caller has hung up, or will send no more. */
    pp_must_check enum pp_err (*open_stream)(struct pp_http_server *s, struct pp_http_request *req,
                                             enum pp_stream_kind kind, const struct pp_http_response *res,
                                             struct pp_http_stream *st);
    /* Sends pieces in order, taking a reference to each that the kernel does not take at once. One system
     * call for each 64 of them (32 to a WebSocket), one more where something is left; none where pieces wait
     * already. PP_EFULL: more than max_stream_bytes would wait at worst, or out of memory; nothing was taken:
     * end it. A piece counts as 64 bytes at least; the first of those that nothing waits in front of counts
     * as nothing, so that any piece can be sent. PP_ECLOSED: it is ending, closed() follows. */
    pp_must_check enum pp_err (*send)(struct pp_http_server *s, struct pp_http_stream *st,
                                      struct pp_piece *const *pieces, size_t n);
    /* Bytes that wait for the caller to read. */
    size_t (*pending)(const struct pp_http_stream *st);
    /* Closes: at once where the last send() was refused and what waits has not gone since; else after what
     * was sent, and for a WebSocket after the caller's close frame, too; at most a few seconds later. A
     * WebSocket with this code and reason (UTF-8, cut at 123 bytes; NULL: none; EVENTS: both ignored).
     * closed() follows, or comes from within. Again: no effect. */
    void (*end)(struct pp_http_server *s, struct pp_http_stream *st, enum pp_ws_close code,
                const char *reason);
    uint16_t (*port)(struct pp_http_server *s); /* the one bound, where 0 was asked for */
    void (*stats)(struct pp_http_server *s, struct pp_http_stats *out);
    /* No new connections and requests; those under way are answered. Streams end, WebSockets with
     * PP_WS_GOING_AWAY. Then close. */
    void (*drain)(struct pp_http_server *s);
    /* All connections at once; closed() comes from within. */
    void (*close)(struct pp_http_server *s);
};

struct pp_http_server {
    const struct pp_http_server_ops *ops;
};

#endif
