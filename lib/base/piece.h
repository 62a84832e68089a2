/* piece.h: bytes that many share: made once, counted, freed with the last. Not for several threads at once.
 */
#ifndef PHOTOPOOL_BASE_PIECE_H
#define PHOTOPOOL_BASE_PIECE_H

#include <stddef.h>
#include <stdint.h>

struct pp_piece {
    uint32_t refs;
    uint32_t n;
    char bytes[];
};

/* One reference, the caller's, to n bytes that are not set yet (n < 4 GiB); NULL: out of memory. */
struct pp_piece *pp_piece_new(size_t n);
/* The same with a copy of p[0..n). */
struct pp_piece *pp_piece_of(const void *p, size_t n);
static inline struct pp_piece *pp_piece_ref(struct pp_piece *piece)
{
    piece->refs++;
    return piece;
}
/* NULL is fine. */
void pp_piece_unref(struct pp_piece *piece);

#endif
