/* piece.h: bytes that several owners share, with a reference count. Releasing the last reference
 * frees them. Only one thread at a time may use a piece. */
#ifndef PHOTOPOOL_BASE_PIECE_H
#define PHOTOPOOL_BASE_PIECE_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

struct pp_piece {
    uint32_t refs;
    uint32_t n;
    char bytes[];
};

/* Makes a piece of n bytes, not initialized (n < 4 GiB), with one reference, which the caller owns.
 * Returns NULL when out of memory. */
struct pp_piece *pp_piece_new(size_t n);
/* Makes a piece that holds a copy of p[0..n); otherwise works like pp_piece_new(). */
struct pp_piece *pp_piece_of(const void *p, size_t n);
static inline struct pp_piece *pp_piece_ref(struct pp_piece *piece)
{
    pp_assert(piece->refs > 0 && piece->refs < UINT32_MAX,
              "a reference to a piece that is freed, or too many");
    piece->refs++;
    return piece;
}
/* Releases a reference. Does nothing for NULL. */
void pp_piece_unref(struct pp_piece *piece);

#endif
