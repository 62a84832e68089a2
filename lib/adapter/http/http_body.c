/* http_body.c: reads the body of a request: its framing, gzip, and the memory for its content. */
#include "adapter/http/http_body.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/check.h"
#include "base/ledger.h"

enum {
    FIRST_BLOCK = 8 * 1024,
    GZIP_MEMORY = 48 * 1024,  /* zlib allocates at most this many bytes for one stream */
    MAX_OVERHEAD = 16 * 1024, /* a body may have at most this many bytes of chunk extensions and trailers */
    MAX_CHUNK_DIGITS = 15,
    /* When all input is consumed, zlib holds at most the rest of one match, of 258 bytes. */
    MATCH_ROOM = 512,
    PLAIN_BYTES = 8, /* as many bytes are copied in the time in which zlib decodes one */
};

static enum pp_http_body_result refuse_body(struct pp_http_body *b, enum pp_api_code code, const char *detail)
{
    b->why = (struct pp_http_refusal){.code = code, .detail = detail};
    return PP_BODY_REFUSED;
}

static enum pp_http_body_result bad(struct pp_http_body *b, const char *detail)
{
    return refuse_body(b, PP_API_BAD_REQUEST, detail);
}

static enum pp_http_body_result too_large(struct pp_http_body *b)
{
    return refuse_body(b, PP_API_BODY_TOO_LARGE, "the body is larger than this server takes");
}

static enum pp_http_body_result overloaded(struct pp_http_body *b)
{
    if (b->share_full)
        return refuse_body(b, PP_API_RATE_LIMITED, "this caller's bodies take all memory that it may have");
    return refuse_body(b, PP_API_OVERLOADED, "too many bodies are being received");
}

/* --- memory --- */

static bool charge(struct pp_http_body *b, size_t n)
{
    const struct pp_account *all = b->account;
    while (all->parent)
        all = all->parent;
    while (!pp_account_take(b->account, n)) {
        b->share_full = pp_account_left(all) >= n;
        if (b->share_full || !b->shared->reclaim || !b->shared->reclaim(b->shared->data))
            return false;
    }
    b->charged += n;
    return true;
}

/* Enlarges the block, normally to double its size, so that it has room for at least one more byte
 * of content and the NUL. */
static bool grow(struct pp_http_body *b)
{
    /* One byte more than `max` shows that a body is too large; another byte is for the NUL. */
    size_t ceiling = b->max + 2;
    if (!b->gzip && !b->chunked)
        ceiling = b->n + (size_t)b->left + 1;
    size_t cap = b->cap ? 2 * b->cap : FIRST_BLOCK;
    if (cap > ceiling)
        cap = ceiling;
    pp_assert(cap > b->n + 1, "a body that is full is to grow");
    if (!charge(b, cap - b->cap))
        return false;
    char *p = realloc(b->p, cap);
    if (!p) /* pp_http_body_fini() gives the charged memory back */
        return false;
    b->p = p;
    b->cap = cap;
    return true;
}

static enum pp_http_body_result put(struct pp_http_body *b, const char *p, size_t n)
{
    while (n > 0) {
        if (b->cap - b->n < 2 && !grow(b))
            return overloaded(b);
        size_t room = b->cap - b->n - 1;
        size_t step = n < room ? n : room;
        memcpy(b->p + b->n, p, step);
        b->n += step;
        b->left -= step;
        p += step;
        n -= step;
    }
    return PP_BODY_MORE;
}

/* --- gzip --- */

static bool gzip_open(struct pp_http_body *b)
{
    if (!charge(b, GZIP_MEMORY))
        return false;
    z_stream *z = calloc(1, sizeof *z);
    if (!z)
        return false;
    if (inflateInit2(z, 16 + MAX_WBITS) != Z_OK) {
        free(z);
        return false;
    }
    b->z = z;
    return true;
}

static void gzip_close(struct pp_http_body *b)
{
    if (!b->z)
        return;
    inflateEnd(b->z);
    free(b->z);
    b->z = NULL;
}

/* Decodes into the free part of the block, at most as many bytes as this turn permits. Returns
 * MORE, also if zlib could go on, or REFUSED. */
static enum pp_http_body_result inflate_step(struct pp_http_body *b)
{
    size_t *left = &b->shared->work;
    size_t room = b->cap - b->n - 1, most = *left > MATCH_ROOM ? *left : MATCH_ROOM;
    b->z->next_out = (unsigned char *)b->p + b->n;
    b->z->avail_out = (unsigned)(room < most ? room : most);
    unsigned before = b->z->avail_out;
    int err = inflate(b->z, Z_NO_FLUSH);
    size_t made = before - b->z->avail_out;
    *left -= made < *left ? made : *left;
    b->n += made;
    if (b->n > b->max)
        return too_large(b);
    b->gzip_end = err == Z_STREAM_END;
    if (err == Z_MEM_ERROR)
        return overloaded(b);
    if (err != Z_OK && err != Z_STREAM_END && err != Z_BUF_ERROR)
        return refuse_body(b, PP_API_BAD_ENCODING, "the body is not gzip");
    return PP_BODY_MORE;
}

/* Decodes gzip, and sets `*used` to the number of bytes that zlib has consumed. A gzip body may
 * consist of several members, one after another (RFC 1952 2.2). */
static enum pp_http_body_result inflate_some(struct pp_http_body *b, const char *p, size_t n, size_t *used)
{
    enum pp_http_body_result r = PP_BODY_MORE;
    if (!b->z && !gzip_open(b))
        return overloaded(b);
    b->z->next_in = (unsigned char *)(uintptr_t)p;
    b->z->avail_in = (unsigned)n;
    while (r == PP_BODY_MORE) {
        if (b->z->avail_in > 0 && b->shared->work == 0) {
            r = PP_BODY_PAUSED;
            break;
        }
        if (b->gzip_end) {
            if (b->z->avail_in == 0)
                break;
            if (inflateReset(b->z) != Z_OK)
                return refuse_body(b, PP_API_BAD_ENCODING, "the body is not gzip");
            b->gzip_end = false;
        }
        if (b->cap - b->n < 2 && !grow(b))
            return overloaded(b);
        r = inflate_step(b);
        if (b->z->avail_in == 0 && b->z->avail_out > 0)
            break;
    }
    *used = n - b->z->avail_in;
    return r;
}

/* --- framing --- */

/* Adds content: n bytes, which must lie within the body or the current chunk. Sets `*used` to the
 * number of bytes consumed: n, unless the result is PAUSED or REFUSED. */
static enum pp_http_body_result content(struct pp_http_body *b, const char *p, size_t n, size_t *used)
{
    size_t *work = &b->shared->work;
    enum pp_http_body_result r;
    pp_assert(n <= b->left, "bytes beyond the body or the chunk");
    *used = 0;
    if (*work == 0)
        return PP_BODY_PAUSED;
    if (b->gzip) {
        r = inflate_some(b, p, n, used);
        b->left -= *used;
    } else {
        size_t cost = n / PLAIN_BYTES + 1;
        *work -= cost < *work ? cost : *work;
        *used = n;
        r = put(b, p, n);
    }
    b->coded += *used;
    return r;
}

static enum pp_http_body_result complete(struct pp_http_body *b)
{
    if (b->gzip && !b->gzip_end)
        return refuse_body(b, PP_API_BAD_ENCODING, "the gzip body ends too early");
    gzip_close(b);
    if (b->p)
        b->p[b->n] = '\0';
    return PP_BODY_DONE;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

static enum pp_http_body_result chunk_size(struct pp_http_body *b, char c)
{
    int v = hex_value(c);
    if (v >= 0) {
        if (++b->digits > MAX_CHUNK_DIGITS)
            return bad(b, "a chunk's size has too many digits");
        b->left = b->left * 16 + (uint64_t)v;
        return PP_BODY_MORE;
    }
    if (b->digits == 0 || (c != '\r' && c != ';'))
        return bad(b, "a chunk's size is not a hexadecimal number");
    if (b->left > b->max - b->coded)
        return too_large(b);
    b->chunk = c == '\r' ? PP_CHUNK_SIZE_LF : PP_CHUNK_EXTENSION;
    return PP_BODY_MORE;
}

/* Consumes one byte of a chunk extension or a trailer line, up to and including the CR that ends
 * it. */
static enum pp_http_body_result chunk_extra(struct pp_http_body *b, char c, enum pp_http_chunk_state at_cr)
{
    if (++b->overhead > MAX_OVERHEAD)
        return refuse_body(b, PP_API_HEADER_TOO_LARGE, "chunk extensions and trailers are too long");
    if (c == '\r')
        b->chunk = at_cr;
    else if (control(c))
        return bad(b, "a control character in a chunk extension or a trailer");
    else
        b->line++;
    return PP_BODY_MORE;
}

static enum pp_http_body_result chunk_begin(struct pp_http_body *b)
{
    b->line = 0;
    b->chunk = b->left > 0 ? PP_CHUNK_DATA : PP_CHUNK_TRAILER;
    return PP_BODY_MORE;
}

static enum pp_http_body_result trailer_end(struct pp_http_body *b)
{
    if (b->line == 0)
        return complete(b);
    b->line = 0;
    b->chunk = PP_CHUNK_TRAILER;
    return PP_BODY_MORE;
}

static enum pp_http_body_result chunk_end(struct pp_http_body *b)
{
    b->digits = 0;
    b->left = 0;
    b->chunk = PP_CHUNK_SIZE;
    return PP_BODY_MORE;
}

/* Consumes one byte of the chunked framing, outside of chunk data. */
static enum pp_http_body_result chunk_step(struct pp_http_body *b, char c)
{
    switch (b->chunk) {
    case PP_CHUNK_SIZE: return chunk_size(b, c);
    case PP_CHUNK_EXTENSION: return chunk_extra(b, c, PP_CHUNK_SIZE_LF);
    case PP_CHUNK_TRAILER: return chunk_extra(b, c, PP_CHUNK_TRAILER_LF);
    case PP_CHUNK_SIZE_LF: return c == '\n' ? chunk_begin(b) : bad(b, "a chunk's size line ends wrongly");
    case PP_CHUNK_TRAILER_LF: return c == '\n' ? trailer_end(b) : bad(b, "a trailer line ends wrongly");
    case PP_CHUNK_DATA_LF: return c == '\n' ? chunk_end(b) : bad(b, "a chunk is longer than its size");
    case PP_CHUNK_DATA_CR:
        b->chunk = PP_CHUNK_DATA_LF;
        return c == '\r' ? PP_BODY_MORE : bad(b, "a chunk is longer than its size");
    case PP_CHUNK_DATA: break;
    }
    pp_assert(false, "no state of a chunk's frame");
    return PP_BODY_REFUSED;
}

static enum pp_http_body_result feed_chunked(struct pp_http_body *b, const char *p, size_t n, size_t *used)
{
    enum pp_http_body_result r = PP_BODY_MORE;
    size_t at = 0;
    while (at < n && r == PP_BODY_MORE) {
        if (b->chunk != PP_CHUNK_DATA) {
            r = chunk_step(b, p[at++]);
            continue;
        }
        size_t step = b->left < n - at ? (size_t)b->left : n - at;
        r = content(b, p + at, step, &step);
        at += step;
        if (b->left == 0)
            b->chunk = PP_CHUNK_DATA_CR;
    }
    *used = at;
    return r;
}

enum pp_http_body_result pp_http_body_init(struct pp_http_body *b, const struct pp_http_head *head,
                                           size_t max, struct pp_account *account,
                                           struct pp_http_bodies *shared)
{
    *b = (struct pp_http_body){.max = max, .account = account, .shared = shared, .chunked = head->chunked};
    if (!head->chunked && !head->content_length)
        return PP_BODY_DONE;
    if (head->coding == PP_CODING_OTHER)
        return refuse_body(b, PP_API_UNSUPPORTED_MEDIA_TYPE, "the only Content-Encoding taken is gzip");
    b->gzip = head->coding == PP_CODING_GZIP;
    b->left = head->length;
    if (b->left > max)
        return too_large(b);
    return !b->chunked && b->left == 0 ? complete(b) : PP_BODY_MORE;
}

enum pp_http_body_result pp_http_body_feed(struct pp_http_body *b, const char *p, size_t n, size_t *used)
{
    if (b->chunked)
        return feed_chunked(b, p, n, used);
    enum pp_http_body_result r = content(b, p, b->left < n ? (size_t)b->left : n, used);
    return r == PP_BODY_MORE && b->left == 0 ? complete(b) : r;
}

void pp_http_body_fini(struct pp_http_body *b)
{
    gzip_close(b);
    free(b->p);
    if (b->charged > 0)
        pp_account_give(b->account, b->charged);
    b->p = NULL;
    b->charged = 0;
}
