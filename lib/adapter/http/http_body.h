/* http_body.h: the body of a request, from the bytes on the wire to the bytes that a handler reads.
 *
 *   wire -> [Content-Length | chunked, RFC 9112 7.1] -> [gzip, RFC 1952] -> content, one block that grows
 *
 * Invariants: the content never exceeds `max` bytes, nor do the coded bytes; all memory is charged to a
 * budget that all bodies share; what was declared but not sent costs nothing; each byte is copied a bounded
 * number of times (doubling). Pure but for the allocator and zlib. */
#ifndef PP_ADAPTER_HTTP_BODY_H
#define PP_ADAPTER_HTTP_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/http/http_head.h"

struct z_stream_s;

/* Bytes that bodies may take together. */
struct pp_http_budget {
    size_t used, max;
    /* Called where it does not suffice; true: something was given back, try again. May be NULL. */
    bool (*reclaim)(void *data);
    void *data;
};

enum pp_http_chunk_state {
    PP_CHUNK_SIZE,      /* hex digits */
    PP_CHUNK_EXTENSION, /* after them, up to CR */
    PP_CHUNK_SIZE_LF,
    PP_CHUNK_DATA,
    PP_CHUNK_DATA_CR,
    PP_CHUNK_DATA_LF,
    PP_CHUNK_TRAILER, /* within a trailer line, or at its beginning */
    PP_CHUNK_TRAILER_LF,
};

struct pp_http_body {
    char *p; /* the content; NUL after it once done */
    size_t n, cap, max;
    struct pp_http_budget *budget;
    size_t charged;
    bool chunked;
    uint64_t left;  /* bytes still to come: of the body, or of the chunk */
    uint64_t coded; /* bytes of the body before gzip was undone */
    enum pp_http_chunk_state chunk;
    unsigned digits;            /* of the chunk's size */
    size_t overhead;            /* bytes of extensions and trailers, bounded */
    size_t line;                /* bytes of the present trailer line */
    bool gzip, gzip_end;        /* coded by gzip; the last member is complete */
    struct z_stream_s *z;       /* made with the first byte */
    struct pp_http_refusal why; /* after PP_BODY_REFUSED */
};

enum pp_http_body_result { PP_BODY_MORE, PP_BODY_DONE, PP_BODY_REFUSED };

/* A body as `head` announces it, of at most `max` bytes of content. Allocates nothing. MORE, DONE where there
 * is none, REFUSED where its length or its coding is not taken. */
enum pp_http_body_result pp_http_body_init(struct pp_http_body *b, const struct pp_http_head *head,
                                           size_t max, struct pp_http_budget *budget);
/* Takes up to `n` bytes; `*used` says how many (all of them, unless DONE or REFUSED). */
enum pp_http_body_result pp_http_body_feed(struct pp_http_body *b, const char *p, size_t n, size_t *used);
/* Frees, and gives the budget back. */
void pp_http_body_fini(struct pp_http_body *b);

#endif
