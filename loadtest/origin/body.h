/* body.h: an answer as a list of pieces of memory that are shared between all requests.
 *
 * A piece is `n` bytes that repeat the `period` bytes at `p`, so that 10 GiB of padding cost the memory of
 * one period and a 75 KB picture costs no copying: only its few bytes that differ from picture to picture are
 * written per request. Any range of the whole can be had as slices for writev, which is what cutting,
 * dripping and chunking are made of.
 *
 * Pieces are borrowed: what they point at must outlive the body. */
#ifndef OG_BODY_H
#define OG_BODY_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define OG_PIECES 40

struct og_piece {
    const uint8_t *p;
    uint64_t period;
    uint64_t n;
};

struct og_body {
    struct og_piece piece[OG_PIECES];
    unsigned count;
    uint64_t n; /* bytes in all */
};

void og_body_init(struct og_body *b);
/* `n` bytes at `p`. Nothing when n is 0. Asserts that there is room for a piece. */
void og_body_add(struct og_body *b, const void *p, uint64_t n);
/* `n` bytes of endless repetition of the `period` bytes at `p`. */
void og_body_repeat(struct og_body *b, const void *p, uint64_t period, uint64_t n);
/* Keeps the first `n` bytes only. */
void og_body_truncate(struct og_body *b, uint64_t n);
/* Fills at most `cap` slices with the bytes from offset `from`, together at most `max` bytes. Returns how
 * many slices; their lengths sum to `*total`. */
unsigned og_body_slice(const struct og_body *b, uint64_t from, uint64_t max, uv_buf_t *out, unsigned cap,
                       uint64_t *total);
/* Copies the whole to `out`, which has room for b->n bytes. */
void og_body_copy(const struct og_body *b, uint8_t *out);

#endif
