/* http_head.h: parses the head of an HTTP/1.x request strictly (RFC 9112). Pure: bytes in, fields
 * out.
 *
 * Two steps: pp_http_scan() finds the end of a head as bytes arrive, and refuses input as soon as
 * it can not become a valid head; pp_http_head_parse() then parses the whole head in place. Both
 * refuse, with a code and a sentence: bare LF, folded lines, space before a colon, control
 * characters, NUL, an HTTP version other than 1.0 and 1.1, a missing or repeated Host,
 * Content-Length that is not one number, Content-Length together with Transfer-Encoding, a transfer
 * coding other than chunked, a target that is neither a path nor an http(s) URL, repetition of a
 * header that must be unique, and a WebSocket handshake (RFC 6455 4.2.1) of another version than 13
 * or without a key. They ignore other upgrades (RFC 9110 7.8).
 *
 * To show handlers one more header, add a member to struct pp_http_request, and a row to the table
 * of http_head.c. */
#ifndef PP_ADAPTER_HTTP_HEAD_H
#define PP_ADAPTER_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/port/http_server.h"

#define PP_HTTP_MAX_FIELDS 100 /* most header lines of a request */

enum pp_http_coding { PP_CODING_IDENTITY, PP_CODING_GZIP, PP_CODING_OTHER };

/* The reason for which the server refuses a request. */
struct pp_http_refusal {
    enum pp_api_code code;
    const char *detail; /* a sentence for the client; a constant string */
    const char *header; /* a header line "Name: value" for the answer, a constant string; or NULL */
};

/* Progress of the search for the end of a head. The caller zeroes it before the search. */
struct pp_http_scan {
    size_t at;   /* number of bytes searched */
    size_t line; /* offset at which the current line begins */
};

enum pp_http_scan_result { PP_SCAN_MORE, PP_SCAN_DONE, PP_SCAN_BAD };

/* Searches p[scan->at..n) for the end of the head; p is the start of the head in each call. Returns
 * DONE if the head is the first scan->at bytes, MORE if its end has not arrived, or BAD with `why`.
 * Accepts one empty line before the request line (RFC 9112 2.2). */
enum pp_http_scan_result pp_http_scan(struct pp_http_scan *scan, const char *p, size_t n,
                                      struct pp_http_refusal *why);

struct pp_http_head {
    struct pp_http_request req; /* the members that handlers see: method, path, query and headers */
    /* Headers that only the server reads, as the client sent them. NULL if absent. */
    const char *content_length, *transfer_encoding, *content_encoding, *expect, *ws_key, *ws_version;
    const char *authority; /* the host of a target in absolute form, which replaces Host; else NULL */
    bool http10;
    bool keep_alive;      /* the client's headers or its HTTP version let the connection stay open */
    bool expect_continue; /* the client waits for "100 Continue" before it sends the body */
    bool chunked;
    uint64_t length; /* bytes of the body, from Content-Length; 0 without that header */
    enum pp_http_coding coding;
};

/* Parses the head of `n` bytes that pp_http_scan() has found, and writes NULs into it: the strings
 * of `head` point there. p[n] must be writable. Returns false and sets `why` if the request must be
 * refused; head->req.method is then valid if it could be parsed. */
bool pp_http_head_parse(struct pp_http_head *head, char *p, size_t n, struct pp_http_refusal *why);

#endif
