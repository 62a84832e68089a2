/* piece.c: bytes with a reference count; releasing the last reference frees them. */
#include "base/piece.h"

#include <stdlib.h>
#include <string.h>

struct pp_piece *pp_piece_new(size_t n)
{
    pp_assert(n < UINT32_MAX, "a piece of 4 GiB");
    struct pp_piece *piece = malloc(sizeof(*piece) + n);
    if (!piece)
        return NULL;
    piece->refs = 1;
    piece->n = (uint32_t)n;
    return piece;
}

struct pp_piece *pp_piece_of(const void *p, size_t n)
{
    struct pp_piece *piece = pp_piece_new(n);
    if (piece && n)
        memcpy(piece->bytes, p, n);
    return piece;
}

void pp_piece_unref(struct pp_piece *piece)
{
    if (!piece)
        return;
    pp_assert(piece->refs > 0, "a piece is let go more often than it was taken");
    if (--piece->refs == 0)
        free(piece);
}
