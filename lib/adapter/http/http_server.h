/* http_server.h: the HTTP/1.1 server that implements the port photopool/port/http_server.h.
 *
 *   socket -> [limits by address] -> [tls] -> [http_head] -> [http_body: framing, gzip]
 *                                                                  -> handler->handle()
 *          <- [tls] <- [http_answer: head, body, back-pressure]    <- ops->reply()
 *
 * Why not libwebsockets: release 4.1 reads Content-Length with atoll(), ends lines at a bare LF,
 * knows neither chunked request bodies nor Expect (lib/roles/http/server/server.c,
 * lib/roles/http/parsers.c). Strictness protects this server, so it parses heads itself. ws_frame.h
 * says why it also parses WebSocket frames itself.
 *
 * Invariants:
 * - The server reads a whole request before the handler sees it, within header_timeout_ms and
 *   body_timeout_ms. A connection has one request at a time, and the server keeps at most 32 KiB
 *   of the bytes that follow it.
 * - The server refuses a message whose framing is unclear, for example with bad_request, and then
 *   closes the connection.
 * - At max_per_address or max_connections, the server closes the connection that is least useful to
 *   make room for a new one (http_evict.c). If none may be closed, a few new connections are open
 *   nevertheless, for the requests of supervisors only.
 * - The server closes no stream to make room, and streams count towards max_streams only. An idle
 *   stream needs less than 1 KiB (tests/contract/test_http_streams.c); a slow reader's stream
 *   references at most max_stream_bytes. When all queues together exceed stream_bytes, the
 *   stream whose client has read nothing for longest closes.
 * - The ledger bounds the memory of all bodies; the server closes slow ones to make room. A
 *   connection without a request needs a few hundred bytes; TLS adds what tls.h says.
 * - The handshake of TLS is a part of header_timeout_ms, and a connection counts from its
 *   acceptance on.
 * - In one turn of the loop all bodies together decode at most 128 KiB of gzip, or take 1 MiB.
 * - All functions and callbacks run on the loop's thread. */
#ifndef PP_ADAPTER_HTTP_SERVER_H
#define PP_ADAPTER_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"
#include "photopool/port/http_server.h"
#include "runtime/loop.h"

struct pp_ledger;
struct pp_log;
struct pp_tls_context;

/* The options of a server. 0 or NULL stands for the default that each comment names. */
struct pp_http_options {
    const char *host; /* address to listen on, numeric or "localhost"; default 127.0.0.1; copied */
    uint16_t port;    /* port to listen on; 0: any free port, which ops->port returns */
    /* The path of a unix socket to listen on instead; copied. NULL: host and port. The server makes
     * the file with mode 0660, in place of one that nobody listens on, and removes it when it stops
     * listening. All its callers count as one address, "unix". */
    const char *unix_path;
    /* New connections speak TLS with this context; NULL: none. The server owns it if it opens. */
    struct pp_tls_context *tls;
    bool defer;                /* the server sees a connection when its first byte comes, or a second later */
    uint32_t max_connections;  /* most connections; default 10,000, but at most 3/4 of the file descriptors */
    uint32_t max_per_address;  /* most connections of one address; default 256; an IPv6 /64 is one address */
    int64_t header_timeout_ms; /* ms from a head's first byte to its end; default 10,000 */
    int64_t body_timeout_ms;   /* ms from the end of the head to the end of the body; default 30,000 */
    int64_t idle_timeout_ms;   /* longest time between two requests, in ms; default 60,000 */
    /* The server closes a connection whose client reads less than 4 KiB a second of its answer on
     * average of this many ms. Default: 30,000. */
    int64_t write_timeout_ms;
    /* Most bytes of one body, before and after gzip; the server refuses a larger one with 413.
     * Default: 32 MiB. */
    size_t max_body;
    /* Most bytes of a head; the server refuses a larger one with 431, or with 400 if the request
     * line alone is too long. Default: 16 KiB. */
    size_t max_header_bytes;
    uint32_t max_streams;    /* most streams; default 50,000 */
    uint32_t max_all;        /* most connections and streams together; default: the sum of both limits */
    size_t max_stream_bytes; /* most bytes queued for one stream; default 256 KiB */
    /* After this many ms without data on a stream the server sends a comment (events) or a ping
     * (WebSocket). Default: 25,000. */
    int64_t keepalive_ms;
    /* The server closes a WebSocket after this many ms without a frame from the client, and any
     * stream after this many ms in which the client read none of the queued bytes. Default:
     * 60,000. */
    int64_t pong_ms;
    /* ms in which the client must close after the handler called end(); default 5,000 */
    int64_t close_ms;
    /* The ledger. The server charges its rows callers, streams, body_bytes, answer_bytes and
     * stream_bytes. NULL: the server has a ledger of its own, without limits. */
    struct pp_ledger *ledger;
    struct pp_log *log; /* the log; NULL: nothing is logged */
};

/* Opens a server that listens. Copies `handler`. Returns PP_OK (requests may come from the loop's
 * next turn on), PP_EINVAL if the host is not a numeric address, PP_EBUSY if the address is in use,
 * PP_EIO if it can not be bound (logged), or PP_ENOMEM. ops->close() closes the listener and all
 * connections at once. The memory is freed in a later turn of the loop, after handlers have
 * answered the requests that they still hold. */
pp_must_check enum pp_err pp_http_server_open(struct pp_loop *loop, const struct pp_http_options *options,
                                              const struct pp_http_handler *handler,
                                              struct pp_http_server **out);

/* New connections speak TLS with `context`, which the server owns from now on; open ones keep
 * theirs. The caller has called pp_http_server_prepare_tls(), unless the server has TLS already.
 * Must be called on the loop's thread. */
void pp_http_server_set_tls(struct pp_http_server *server, struct pp_tls_context *context);
/* Allocates what the server needs for TLS. May be called again. Returns PP_ENOMEM. */
pp_must_check enum pp_err pp_http_server_prepare_tls(struct pp_http_server *server);

#endif
