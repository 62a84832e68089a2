/* pack.h: packs outcomes, photo records and attempts into compact blobs.
 *
 * Numbers are little-endian (base/buf.h). The first bytes of an outcome or a record say which
 * fields follow. A later version appends fields; an older reader ignores these. */
#ifndef PP_ADAPTER_SQLITE_PACK_H
#define PP_ADAPTER_SQLITE_PACK_H

#include "base/arena.h"
#include "base/buf.h"
#include "photopool/task_rules.h"

/* Appends an outcome to `b`. The first byte of the blob is the outcome's kind, which queries
 * read. */
void pp_pack_outcome(struct pp_buf *b, const struct pp_outcome *o);
/* Unpacks an outcome. An empty blob is the outcome OPEN. Returns PP_ECORRUPT if the blob is
 * damaged, or PP_ENOMEM if the arena is full. */
enum pp_err pp_unpack_outcome(struct pp_reader r, struct pp_arena *a, struct pp_outcome *o);
/* Returns the code of a packed outcome that is SKIPPED or FAILED, or 0 for other outcomes. */
uint16_t pp_packed_code(struct pp_reader r);

/* Returns the first 8 bytes of a SHA-256, which are the key of the index photos_sha. */
int64_t pp_packed_sha(const uint8_t *sha256);

/* Pack and unpack the record of a photo. An empty blob stands for a photo without a record. A task
 * has such a blob, too, with the known object and the validators for a conditional request. */
void pp_pack_photo(struct pp_buf *b, const struct pp_photo *p);
enum pp_err pp_unpack_photo(struct pp_reader r, struct pp_arena *a, struct pp_photo *photo);

/* A packed attempt always has this many bytes, so that a query can cut a row of them. */
enum { PP_PACKED_ATTEMPT = 34 };

/* Appends an attempt to `b`. An address that is not one of IPv4 or IPv6 is left out. */
void pp_pack_attempt(struct pp_buf *b, const struct pp_attempt *attempt);
/* Unpacks a row of attempts into the arena. Returns PP_ECORRUPT if the last one is not whole, or
 * PP_ENOMEM. */
enum pp_err pp_unpack_attempts(struct pp_reader r, struct pp_arena *a, struct pp_attempt **attempts,
                               uint32_t *n);

#endif
