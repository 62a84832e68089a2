/* rejected.h: the verdicts on a batch's rejected items, in parts of PP_REJECTED_PART verdicts (the
 * last part may have fewer). Verdict number n is in part n / PP_REJECTED_PART.
 *
 * Each verdict is the text of a JSON object. A small body can have very many rejected items, whose
 * verdicts are nearly equal; therefore each part is packed by zlib. The entry, and later the store,
 * keeps the parts as bytes. Any thread may call these functions. */
#ifndef PHOTOPOOL_PIPELINE_ACCEPT_REJECTED_H
#define PHOTOPOOL_PIPELINE_ACCEPT_REJECTED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define PP_REJECTED_PART 100
/* A verdict has at most this many bytes: id, field and detail, each of their bytes escaped. */
#define PP_VERDICT_MAX 4096

/* Appends a verdict to the unpacked bytes of a part, an initialized buffer. */
void pp_rejected_add(struct pp_buf *part, const char *verdict, size_t n);
/* Packs a part. The caller initializes `out` and frees it; out->failed: out of memory. */
void pp_rejected_pack(struct pp_buf *out, const struct pp_buf *part);
/* Unpacks a part into `part`, which the caller initializes and frees. Returns false if the bytes
 * are damaged, or if part->failed: out of memory. */
bool pp_rejected_unpack(struct pp_buf *part, const void *p, size_t n);

#endif
