/* http_head.h: the head of an HTTP/1.x request, read strictly (RFC 9112). Pure: bytes in, fields out.
 *
 * Two steps: pp_http_scan() finds where a head ends as bytes come in, and refuses at once what can't become
 * one; pp_http_head_parse() then reads the whole head in place. Refused, each with a code and a sentence:
 * bare LF, folded lines, space before a colon, control characters, NUL, an HTTP version other than 1.0
 * and 1.1, a missing or repeated Host, Content-Length that is not one number, Content-Length together with
 * Transfer-Encoding, a transfer coding other than chunked, a target that does not begin with '/', repeated
 * headers that may stand only once, and an opening handshake of WebSocket (RFC 6455 4.2.1) of another version
 * than 13 or without a key. Other upgrades are ignored (RFC 9110 7.8).
 *
 * To let handlers see one more header: a line in the table of http_head.c and a member here. */
#ifndef PP_ADAPTER_HTTP_HEAD_H
#define PP_ADAPTER_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/port/http_server.h"

#define PP_HTTP_MAX_FIELDS 100 /* header lines of a request */

enum pp_http_coding { PP_CODING_IDENTITY, PP_CODING_GZIP, PP_CODING_OTHER };

/* Why a request was refused. */
struct pp_http_refusal {
    enum pp_api_code code;
    const char *detail; /* a constant */
    const char *header; /* a line of the answer, "Name: value", a constant; or NULL */
};

/* Where the search for the end of a head stands; all zero at its beginning. */
struct pp_http_scan {
    size_t at;   /* bytes looked at */
    size_t line; /* where the present line begins */
};

enum pp_http_scan_result { PP_SCAN_MORE, PP_SCAN_DONE, PP_SCAN_BAD };

/* Looks at p[scan->at..n), where p is the beginning of the head in each call. DONE: the head is the first
 * scan->at bytes. BAD: `why` is set. One empty line before the request line is let pass (RFC 9112 2.2). */
enum pp_http_scan_result pp_http_scan(struct pp_http_scan *scan, const char *p, size_t n,
                                      struct pp_http_refusal *why);

struct pp_http_head {
    enum pp_method method;
    const char *path, *query;
    const char *host, *authorization, *content_type, *idempotency_key, *if_none_match, *range, *if_range,
        *accept, *last_event_id, *origin, *ws_key, *ws_version;
    const char *content_length, *transfer_encoding, *content_encoding,
        *expect; /* as sent; the next lines say it */
    bool http10;
    bool websocket;       /* a valid opening handshake */
    bool keep_alive;      /* what the caller wants, its version's default included */
    bool expect_continue; /* waits for 100 before it sends the body */
    bool chunked;
    uint64_t length; /* of the body, by Content-Length; 0 where absent */
    enum pp_http_coding coding;
};

/* Reads the head of `n` bytes that pp_http_scan() found, and puts NULs into it: the strings of `head` point
 * there. p[n] must be writable. False: refused, `why` is set; head->method is right where the method could be
 * read. */
bool pp_http_head_parse(struct pp_http_head *head, char *p, size_t n, struct pp_http_refusal *why);

#endif
