/* gzip.h: a body compressed in one go. The same input gives the same bytes: no time, no name. */
#ifndef PHOTOPOOL_GZIP_H
#define PHOTOPOOL_GZIP_H

#include "base/buf.h"

/* Appends to `out`. PP_ENOMEM, PP_EFULL: the result is larger than out's ceiling. */
pp_must_check enum pp_err pp_gzip(struct pp_buf *out, const void *p, size_t n);

#endif
