/* buf.h: a byte buffer that grows up to a ceiling, with sticky failure.
 *
 * Builders call put after put and check `failed` once, at the end; after a failure a put does
 * nothing. The content is always followed by a NUL that is not counted, so that `p` can be printed.
 * Not thread safe. */
#ifndef PP_BASE_BUF_H
#define PP_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"

struct pp_buf {
    char *p;    /* the content, followed by a NUL; NULL while nothing was put */
    size_t n;   /* number of bytes of content, without the NUL */
    size_t cap; /* number of bytes allocated */
    size_t max; /* ceiling of n, in bytes */
    bool failed;
};

/* Makes an empty buffer that will hold at most `max` bytes. Allocates nothing. */
void pp_buf_init(struct pp_buf *b, size_t max);
/* Frees the content; the buffer may be used again with the same ceiling. */
void pp_buf_fini(struct pp_buf *b);
/* Empties the buffer and resets `failed`, but keeps the memory. */
void pp_buf_reset(struct pp_buf *b);

void pp_buf_put(struct pp_buf *b, const void *p, size_t n);
void pp_buf_puts(struct pp_buf *b, const char *s);
void pp_buf_putc(struct pp_buf *b, char c);
void pp_buf_printf(struct pp_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* These append little-endian integers and length-prefixed strings, for photopool's own record
 * formats. */
void pp_buf_u8(struct pp_buf *b, uint8_t v);
void pp_buf_u16(struct pp_buf *b, uint16_t v);
void pp_buf_u32(struct pp_buf *b, uint32_t v);
void pp_buf_u64(struct pp_buf *b, uint64_t v);
/* Appends the length as u32, then the bytes. */
void pp_buf_str(struct pp_buf *b, const void *p, size_t n);

/* Reads the output of the functions above. Reading past the end sets `failed` and returns 0 or an
 * empty string. */
struct pp_reader {
    const char *p;
    size_t n;
    bool failed;
};
uint8_t pp_read_u8(struct pp_reader *r);
uint16_t pp_read_u16(struct pp_reader *r);
uint32_t pp_read_u32(struct pp_reader *r);
uint64_t pp_read_u64(struct pp_reader *r);
/* Returns a slice of `n` bytes of the reader's memory, without a NUL; NULL if fewer bytes
 * remain. */
const char *pp_read_bytes(struct pp_reader *r, size_t n);
/* Reads a length and returns a slice of `*n` bytes of the reader's memory, without a NUL. */
const char *pp_read_str(struct pp_reader *r, size_t *n);

#endif
