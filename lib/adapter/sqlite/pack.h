/* pack.h: outcomes, photo records and what a task knows, as compact blobs.
 *
 * Little endian (base/buf.h), first byte says what follows, so that a later version can add to the end:
 * readers stop where their knowledge ends. */
#ifndef PP_ADAPTER_SQLITE_PACK_H
#define PP_ADAPTER_SQLITE_PACK_H

#include "base/arena.h"
#include "base/buf.h"
#include "photopool/task.h"

/* Appends. The first byte of an outcome is its kind: queries look at it. */
void pp_pack_outcome(struct pp_buf *b, const struct pp_outcome *o);
/* PP_ECORRUPT: the blob is damaged; PP_ENOMEM: the arena is full. n == 0 is an OPEN outcome. */
enum pp_err pp_unpack_outcome(const void *p, size_t n, struct pp_arena *a, struct pp_outcome *o);
/* The code of a packed SKIPPED or FAILED outcome; 0 of others. */
uint16_t pp_packed_code(const void *p, size_t n);

void pp_pack_photo(struct pp_buf *b, const struct pp_photo *p);
enum pp_err pp_unpack_photo(const void *p, size_t n, struct pp_arena *a, struct pp_photo *photo);

/* What a task brings along for a conditional request. */
struct pp_known {
    struct pp_object object;
    int64_t fetched_at;
    const char *etag, *last_modified;
};
/* Appends nothing when nothing is known. */
void pp_pack_known(struct pp_buf *b, const struct pp_known *k);
enum pp_err pp_unpack_known(const void *p, size_t n, struct pp_arena *a, struct pp_known *k);

#endif
