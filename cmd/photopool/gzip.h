/* gzip.h: compresses a body in one call. The same input always gives the same bytes, because the
 * header has neither time nor name. */
#ifndef PHOTOPOOL_GZIP_H
#define PHOTOPOOL_GZIP_H

#include "base/buf.h"

/* Appends the compressed bytes to `out`. Returns PP_ENOMEM, or PP_EFULL if they exceed out's
 * ceiling. */
pp_must_check enum pp_err pp_gzip(struct pp_buf *out, const void *p, size_t n);

#endif
