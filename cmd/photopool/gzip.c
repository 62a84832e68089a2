/* gzip.c: see gzip.h. */
#include "gzip.h"

#include <zlib.h>

enum { GZIP_LEVEL = 6, WINDOW_GZIP = 15 + 16, MEM_LEVEL = 8, GZIP_CHUNK = 64 * 1024 };

enum pp_err pp_gzip(struct pp_buf *out, const void *p, size_t n)
{
    z_stream z = {0};
    unsigned char chunk[GZIP_CHUNK];
    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, WINDOW_GZIP, MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return PP_ENOMEM;
    z.next_in = (z_const Bytef *)p;
    z.avail_in = (uInt)n; /* bodies here are far smaller than 4 GiB */
    int rc;
    do {
        z.next_out = chunk;
        z.avail_out = sizeof chunk;
        rc = deflate(&z, Z_FINISH);
        pp_buf_put(out, chunk, sizeof chunk - z.avail_out);
    } while (rc == Z_OK || rc == Z_BUF_ERROR);
    deflateEnd(&z);
    return rc == Z_STREAM_END && !out->failed ? PP_OK : PP_EFULL;
}
