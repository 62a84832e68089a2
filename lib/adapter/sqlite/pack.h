/* pack.h: packs outcomes and photo records into compact blobs.
 *
 * Numbers are little endian (base/buf.h). The first bytes say which fields follow. A later
 * version appends fields, and an older reader ignores them. */
#ifndef PP_ADAPTER_SQLITE_PACK_H
#define PP_ADAPTER_SQLITE_PACK_H

#include "base/arena.h"
#include "base/buf.h"
#include "photopool/task_rules.h"

/* Appends an outcome. Its first byte is its kind: queries use it. */
void pp_pack_outcome(struct pp_buf *b, const struct pp_outcome *o);
/* Reads an outcome; an empty blob is OPEN. PP_ECORRUPT: damaged blob. PP_ENOMEM: the arena is
 * full. */
enum pp_err pp_unpack_outcome(struct pp_reader r, struct pp_arena *a, struct pp_outcome *o);
/* Returns the code of a packed SKIPPED or FAILED outcome; 0 for other outcomes. */
uint16_t pp_packed_code(struct pp_reader r);

/* Returns the first 8 bytes of a hash, the key of index photos_sha. */
int64_t pp_packed_sha(const uint8_t *sha256);

/* Append and read a photo's record; an empty blob is a photo without a record. A task carries such
 * a blob, too: the object and the validators for a conditional request. */
void pp_pack_photo(struct pp_buf *b, const struct pp_photo *p);
enum pp_err pp_unpack_photo(struct pp_reader r, struct pp_arena *a, struct pp_photo *photo);

#endif
