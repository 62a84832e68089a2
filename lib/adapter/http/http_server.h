/* http_server.h: the HTTP/1.1 server behind photopool/port/http_server.h.
 *
 *   TCP -> [limits by address] -> [http_head: strict head] -> [http_body: framing, gzip] -> handler->handle()
 *       <- [http_answer: status line, headers, body, back-pressure] <----------------------- ops->reply()
 *
 * Why not libwebsockets for plain requests: release 4.1 reads Content-Length with atoll(), ends lines at a
 * bare LF, knows neither chunked request bodies nor Expect (lib/roles/http/server/server.c,
 * lib/roles/http/parsers.c), and a check in front of it would have to parse every head a second time, and
 * hold back pipelined ones. Strictness is what protects this server, so it reads heads itself. Upgraded
 * connections: ws_frame.h.
 *
 * What holds:
 * - A request is read whole before its handler sees it, within header_timeout_ms and body_timeout_ms; a
 * connection has one request at a time, and at most some 32 KiB of what comes after it.
 * - A message that is not clearly framed is answered (bad_request and the like) and its connection closed.
 * - An address at its limit, or a server at max_connections, gives up a connection for the newcomer: the
 * least recently active that is idle, sending a head, sending a body or not reading its answer, in this order
 * among those inactive for a second, else of all. Only where all are being handled is the newcomer closed.
 * What has arrived, but was not read yet, counts as activity.
 * - A stream is given up for nobody, and counts in neither of these limits; streams have max_streams. One
 * that is idle holds well below 1 KiB (tests/contract/test_http_streams.c), one that is read too slowly
 * references to at most max_stream_bytes of pieces.
 * - Memory: bodies together at most max_body_memory, and those that come too slowly give way to others; a
 * connection without a request holds a few hundred bytes.
 * - All functions and callbacks run on the loop's thread. */
#ifndef PP_ADAPTER_HTTP_SERVER_H
#define PP_ADAPTER_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"
#include "photopool/port/http_server.h"
#include "runtime/loop.h"

struct pp_log;

/* A member that is 0 or NULL has the default named. */
struct pp_http_options {
    const char *host; /* a numeric address, or "localhost"; 127.0.0.1. Copied */
    uint16_t port;    /* 0: any free one, see ops->port */
    uint32_t
        max_connections; /* 10,000; at most three quarters of the descriptors that the process may have */
    uint32_t max_per_address;  /* 256; an IPv6 /64 is one address */
    int64_t header_timeout_ms; /* 10,000: from the connection, or the first byte, to the end of the head */
    int64_t body_timeout_ms;   /* 30,000: from the end of the head to the end of the body */
    int64_t idle_timeout_ms; /* 60,000: between requests; also for an answer that the caller does not read */
    size_t max_body;         /* 32 MiB: of one body, before and after gzip; beyond: 413 */
    size_t max_header_bytes; /* 16 KiB: of a head; beyond: 431, or 400 for a request line */
    size_t max_body_memory;  /* 256 MiB: all bodies together, gzip state included; beyond: 503 */
    uint32_t max_streams;    /* 50,000; at most what descriptors permit: a 16th of them and 512 are left */
    size_t max_stream_bytes; /* 256 KiB: what may wait for a stream's caller to read */
    int64_t keepalive_ms;    /* 25,000: a comment after this silence, a ping each */
    int64_t pong_ms;         /* 60,000: a WebSocket that says nothing, a stream that reads nothing: closed */
    int64_t close_ms;        /* 5,000: from end() to the caller's end */
    struct pp_log *log;      /* may be NULL */
};

/* Listens. `handler` is copied.
 * PP_OK      requests may come with the next turn of the loop
 * PP_EINVAL  host is not a numeric address
 * PP_EBUSY   the address is in use
 * PP_EIO     it can't be bound (logged)
 * PP_ENOMEM  out of memory
 * ops->close() ends listening and all connections at once; the memory goes with the last turn of the loop
 * that it needs, and after the last request that a handler still holds has been answered. */
pp_must_check enum pp_err pp_http_server_open(struct pp_loop *loop, const struct pp_http_options *options,
                                              const struct pp_http_handler *handler,
                                              struct pp_http_server **out);

#endif
