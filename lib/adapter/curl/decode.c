/* decode.c: decodes bodies with Content-Encoding gzip or deflate, one layer (answer.c refuses
 * answers with more).
 *
 * libcurl's decoder can not pause within a piece that it has read: it inflates the whole piece, to
 * up to 1032 times its size, and keeps the result. This decoder keeps at most one buffer of output
 * during a pause. After the pause libcurl delivers the same compressed piece again, and `used` says
 * how many of its bytes are already decoded. */
#include <stdlib.h>

#include "adapter/curl/internal.h"
#include "base/check.h"
#include "photopool/code.h"

/* Returns the window bits for inflateInit2(). "deflate" should mean zlib's format (RFC 1950), but
 * some servers send raw deflate (RFC 1951); the first byte of the body shows which. */
static int window_bits(unsigned char first)
{
    bool gzip = first == 0x1f, zlib = (first & 0x0f) == 8 && first >> 4 <= 7;
    return gzip || zlib ? 15 + 32 : -15;
}

static struct pp_curl_decoder *decoder_open(unsigned char first)
{
    struct pp_curl_decoder *d = calloc(1, sizeof(*d));

    if (d && inflateInit2(&d->z, window_bits(first)) != Z_OK) {
        free(d);
        d = NULL;
    }
    return d;
}

void pp_curl_decoder_close(struct pp_curl_decoder *d)
{
    if (!d)
        return;
    (void)inflateEnd(&d->z);
    free(d);
}

/* Decodes the next bytes into d->out. Returns false if the body is not encoded as its head says, or
 * if memory is short. */
static bool more_output(struct pp_curl_decoder *d)
{
    d->z.next_out = d->out;
    d->z.avail_out = sizeof(d->out);
    int rc = inflate(&d->z, Z_NO_FLUSH);
    d->out_n = sizeof(d->out) - d->z.avail_out;
    d->ended = rc == Z_STREAM_END;
    return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR;
}

enum pp_flow pp_curl_decode(struct pp_curl_transfer *t, const void *p, size_t n)
{
    struct pp_curl_decoder *d = t->decoder;

    if (n == 0)
        return PP_FLOW_GO;
    if (!d)
        d = t->decoder = decoder_open(*(const unsigned char *)p);
    if (!d) {
        t->verdict = PP_CODE_INTERNAL;
        return PP_FLOW_STOP;
    }
    pp_assert(d->used <= n && d->out_n <= sizeof(d->out), "libcurl delivers less than before the pause");
    d->z.next_in = (unsigned char *)p + d->used;
    d->z.avail_in = (uInt)(n - d->used);
    for (bool full = true; full || d->z.avail_in > 0;) {
        if (d->out_n == 0 && (d->ended || !more_output(d))) {
            if (d->ended)
                break; /* bytes after the end of the encoded body are ignored */
            t->bad_coding = true;
            return PP_FLOW_STOP;
        }
        full = d->out_n == sizeof(d->out);
        enum pp_flow flow = d->out_n > 0 ? pp_curl_give(t, d->out, d->out_n) : PP_FLOW_GO;
        if (flow == PP_FLOW_PAUSE)
            d->used = n - d->z.avail_in;
        if (flow != PP_FLOW_GO || !t->x)
            return flow;
        d->out_n = 0;
    }
    d->used = 0;
    return PP_FLOW_GO;
}

bool pp_curl_decoded_whole(const struct pp_curl_transfer *t)
{
    return !t->decoder || (t->decoder->ended && t->decoder->out_n == 0);
}
