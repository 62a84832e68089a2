/* body.h: the bytes of an answer as a list of pieces of memory, which all requests share.
 *
 * A piece has `n` bytes: the `period` bytes at `p`, repeated. So 10 GiB of padding cost the memory
 * of one period, and the origin sends a 75 KB picture without copying it: it writes only the few
 * bytes that differ from picture to picture. A caller can get any range of the body as slices for
 * writev; cutting, dripping and chunking an answer use this.
 *
 * A body only borrows its pieces: the memory at `p` must outlive the body. */
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
    uint64_t n; /* length of all pieces together, in bytes */
};

void og_body_init(struct og_body *b);
/* Appends `n` bytes at `p`, or nothing if n is 0. Asserts that there is room for a piece. */
void og_body_add(struct og_body *b, const void *p, uint64_t n);
/* Appends `n` bytes that repeat the `period` bytes at `p`. */
void og_body_repeat(struct og_body *b, const void *p, uint64_t period, uint64_t n);
/* Removes all bytes after the first `n`. */
void og_body_truncate(struct og_body *b, uint64_t n);
/* Fills at most `cap` slices with the bytes from offset `from`, at most `max` bytes together.
 * Returns the number of slices; `*total` is set to the sum of their lengths. */
unsigned og_body_slice(const struct og_body *b, uint64_t from, uint64_t max, uv_buf_t *out, unsigned cap,
                       uint64_t *total);
/* Copies all bytes to `out`, which has room for b->n bytes. */
void og_body_copy(const struct og_body *b, uint8_t *out);

#endif
