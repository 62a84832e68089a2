/* http_server.h: the HTTP/1.1 server behind photopool/port/http_server.h.
 *
 *   TCP -> [limits by address] -> [http_head] -> [http_body: framing, gzip] -> handler->handle()
 *       <- [http_answer: head, body, back-pressure] <------------------------- ops->reply()
 *
 * Why not libwebsockets: release 4.1 reads Content-Length with atoll(), ends lines at a bare LF,
 * knows neither chunked request bodies nor Expect (lib/roles/http/server/server.c,
 * lib/roles/http/parsers.c). Strictness protects this server, so it reads heads itself. ws_frame.h
 * says why it also reads WebSocket frames itself.
 *
 * Invariants:
 * - The server reads a request whole before the handler sees it, within header_timeout_ms and
 *   body_timeout_ms. A connection has one request at a time, and the server keeps at most 32 KiB
 *   of the bytes behind it.
 * - The server refuses a message whose framing is unclear, for example with bad_request, and then
 *   closes the connection.
 * - At max_per_address or max_connections, the server closes one connection to make room for a new
 *   one. It prefers idle connections, then those whose client is sending a head, then sending a
 *   body, then not reading its answer; within a group, the least recently active. It first searches
 *   among connections that were inactive for a second, then among all. If handlers are at work for
 *   all connections, it closes the new one. Unread bytes in the kernel count as activity.
 * - No stream is closed to make room, and streams count towards max_streams only. An idle stream
 *   needs less than 1 KiB (tests/contract/test_http_streams.c); a slow reader's stream references
 *   at most max_stream_bytes.
 * - All bodies together need at most max_body_memory; slow ones give way to others. A connection
 *   without a request needs a few hundred bytes.
 * - All functions and callbacks run on the loop's thread. */
#ifndef PP_ADAPTER_HTTP_SERVER_H
#define PP_ADAPTER_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"
#include "photopool/port/http_server.h"
#include "runtime/loop.h"

struct pp_log;

/* 0 or NULL chooses the default, which is the first value in each comment. */
struct pp_http_options {
    const char *host;          /* 127.0.0.1: a numeric address, or "localhost"; copied */
    uint16_t port;             /* 0: any free port; ops->port returns it */
    uint32_t max_connections;  /* 10,000; at most three quarters of the process's descriptors */
    uint32_t max_per_address;  /* 256; an IPv6 /64 is one address */
    int64_t header_timeout_ms; /* 10,000: time from the first byte to the end of a head */
    int64_t body_timeout_ms;   /* 30,000: time from the end of the head to the end of the body */
    /* 60,000: time between requests, and time without progress while the client does not read its
     * answer */
    int64_t idle_timeout_ms;
    /* 32 MiB: size of one body, before and after gzip; the server refuses a larger one with 413 */
    size_t max_body;
    /* 16 KiB: size of a head; a larger one is refused with 431, or 400 if it is the request line */
    size_t max_header_bytes;
    /* 256 MiB: memory of all bodies together, with gzip state; at the limit the server answers
     * 503 */
    size_t max_body_memory;
    uint32_t max_streams;    /* 50,000; leaves a 16th of the descriptors and 512 free */
    size_t max_stream_bytes; /* 256 KiB: bytes queued for one stream whose client does not read */
    /* 25,000: silence on a stream before the server sends a comment (events) or a ping
     * (WebSocket) */
    int64_t keepalive_ms;
    /* 60,000: the server closes a WebSocket without a frame, or events that the client does not
     * read, after this */
    int64_t pong_ms;
    /* 5,000: time that the client has to close after the handler called end() */
    int64_t close_ms;
    struct pp_log *log; /* may be NULL */
};

/* Listens. Copies `handler`. PP_OK: requests may come with the next turn of the loop. PP_EINVAL:
 * host is not a numeric address. PP_EBUSY: the address is in use. PP_EIO: it can not be bound
 * (logged). PP_ENOMEM: out of memory. ops->close() closes the listener and all connections at once.
 * The memory is freed in a later turn of the loop, after handlers have answered the requests that
 * they still hold. */
pp_must_check enum pp_err pp_http_server_open(struct pp_loop *loop, const struct pp_http_options *options,
                                              const struct pp_http_handler *handler,
                                              struct pp_http_server **out);

#endif
