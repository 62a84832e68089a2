/* http_body.h: turns the body of a request from the bytes on the wire into the bytes that a handler
 * reads.
 *
 *   wire -> [Content-Length | chunked, RFC 9112 7.1] -> [gzip, RFC 1952] -> one growing block
 *
 * Invariants: neither the content nor the encoded bytes exceed `max`; each body charges its memory
 * to an account; bytes that the client announced but did not send take no memory; each byte is
 * copied a bounded number of times (doubling); in one turn of the loop all bodies together cause a
 * bounded amount of work. Uses only the allocator and zlib. */
#ifndef PP_ADAPTER_HTTP_BODY_H
#define PP_ADAPTER_HTTP_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/http/http_head.h"

struct z_stream_s;

struct pp_account;

/* What all bodies of a server share. */
struct pp_http_bodies {
    /* Number of bytes that bodies may still decode before the server turns to other work. A byte
     * that needs no decoding counts as an eighth. */
    size_t work;
    /* Called when the ledger has no memory left for bodies. It returns true if it has freed memory,
     * so that the body tries again. May be NULL. */
    bool (*reclaim)(void *data);
    void *data;
};

enum pp_http_chunk_state {
    PP_CHUNK_SIZE,      /* the hexadecimal size of a chunk comes next */
    PP_CHUNK_EXTENSION, /* a chunk extension, up to its CR, comes next */
    PP_CHUNK_SIZE_LF,
    PP_CHUNK_DATA,
    PP_CHUNK_DATA_CR,
    PP_CHUNK_DATA_LF,
    PP_CHUNK_TRAILER, /* a trailer line comes next */
    PP_CHUNK_TRAILER_LF,
};

struct pp_http_body {
    char *p; /* the content; once the body is complete, a NUL follows it */
    size_t n, cap, max;
    struct pp_http_bodies *shared;
    struct pp_account *account; /* has taken `charged` bytes for this body */
    size_t charged;
    bool share_full; /* the account's own limit, not the memory of all bodies, has refused memory */
    bool chunked;
    uint64_t left;  /* bytes of the body or of the current chunk that have not come yet */
    uint64_t coded; /* bytes received so far, before gzip is decoded */
    enum pp_http_chunk_state chunk;
    unsigned digits;            /* digits read so far of the chunk's size */
    size_t overhead;            /* bytes of chunk extensions and trailers so far */
    size_t line;                /* bytes of the current trailer line so far */
    bool gzip;                  /* the body is encoded by gzip */
    bool gzip_end;              /* the last gzip member is complete */
    struct z_stream_s *z;       /* the state of zlib; made when the first byte arrives */
    struct pp_http_refusal why; /* why the body is refused; valid after PP_BODY_REFUSED */
};

/* PAUSED: `work` is used up, and input is left. */
enum pp_http_body_result { PP_BODY_MORE, PP_BODY_DONE, PP_BODY_PAUSED, PP_BODY_REFUSED };

/* Prepares to read the body that `head` announces, with at most `max` bytes of content. Allocates
 * nothing. `account` lives until pp_http_body_fini(). Returns MORE, DONE if there is no body, or
 * REFUSED if the server does not accept its length or encoding. */
enum pp_http_body_result pp_http_body_init(struct pp_http_body *b, const struct pp_http_head *head,
                                           size_t max, struct pp_account *account,
                                           struct pp_http_bodies *shared);
/* Consumes received bytes, and sets `*used` to their number: n, unless the result is DONE, PAUSED
 * or REFUSED. */
enum pp_http_body_result pp_http_body_feed(struct pp_http_body *b, const char *p, size_t n, size_t *used);
/* Frees the body's memory and gives it back to the account. */
void pp_http_body_fini(struct pp_http_body *b);

#endif
