/* buf.c: a buffer grows by doubling, so that n puts cost O(n); it checks the ceiling before it
 * allocates.
 *
 * Invariants: n <= max; p is NULL or holds cap bytes with cap > n and p[n] == 0. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { FIRST_CAP = 256 };

void pp_buf_init(struct pp_buf *b, size_t max)
{
    *b = (struct pp_buf){.max = max < SIZE_MAX ? max : SIZE_MAX - 1};
}

void pp_buf_fini(struct pp_buf *b)
{
    free(b->p);
    pp_buf_init(b, b->max);
}

void pp_buf_reset(struct pp_buf *b)
{
    b->n = 0;
    b->failed = false;
    if (b->p)
        b->p[0] = '\0';
}

static bool grow(struct pp_buf *b, size_t n)
{
    if (b->failed)
        return false;
    pp_assert(b->n <= b->max && (b->p ? b->n < b->cap : b->cap == 0), "a buffer with more than its room");
    if (n > b->max - b->n) {
        b->failed = true;
        return false;
    }
    size_t need = b->n + n + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : FIRST_CAP;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (cap > b->max + 1)
        cap = b->max + 1;
    char *p = realloc(b->p, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

/* Makes room for `n` more bytes and the NUL. Returns false if the buffer has failed. */
static inline bool reserve(struct pp_buf *b, size_t n)
{
    if (!b->failed && n < b->cap - b->n && n <= b->max - b->n)
        return true;
    return grow(b, n);
}

void pp_buf_put(struct pp_buf *b, const void *p, size_t n)
{
    if (n == 0 || !reserve(b, n))
        return;
    memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
}

void pp_buf_puts(struct pp_buf *b, const char *s)
{
    pp_buf_put(b, s, strlen(s));
}

void pp_buf_putc(struct pp_buf *b, char c)
{
    pp_buf_put(b, &c, 1);
}

__attribute__((format(printf, 2, 0))) static void put_format(struct pp_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    size_t room = b->cap - b->n;
    int n = vsnprintf(b->p ? b->p + b->n : NULL, room, fmt, ap);
    if (n < 0) {
        b->failed = true;
    } else if (!reserve(b, (size_t)n)) {
        if (b->p)
            /* removes the part of the text that was written before it did not fit */
            b->p[b->n] = '\0';
    } else {
        if ((size_t)n >= room)
            (void)vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

void pp_buf_printf(struct pp_buf *b, const char *fmt, ...)
{
    if (b->failed)
        return;
    va_list ap;
    va_start(ap, fmt);
    put_format(b, fmt, ap);
    va_end(ap);
}

static void put_le(struct pp_buf *b, uint64_t v, size_t n)
{
    uint8_t le[8];
    for (size_t i = 0; i < n; i++)
        le[i] = (uint8_t)(v >> (8 * i));
    pp_buf_put(b, le, n);
}

void pp_buf_str(struct pp_buf *b, const void *p, size_t n)
{
    if (n > UINT32_MAX) {
        b->failed = true;
        return;
    }
    pp_buf_u32(b, (uint32_t)n);
    pp_buf_put(b, p, n);
}

/* Returns the next `n` bytes. If fewer remain, returns NULL, now and in every later call. */
const char *pp_read_bytes(struct pp_reader *r, size_t n)
{
    pp_assert(r->p || r->n == 0, "a reader of nothing has bytes left");
    if (r->failed || n > r->n) {
        r->failed = true;
        return NULL;
    }
    const char *p = r->p;
    if (n) { /* C forbids adding even 0 to the NULL of an empty reader */
        r->p += n;
        r->n -= n;
    }
    return p;
}

static uint64_t read_le(struct pp_reader *r, size_t n)
{
    const char *p = pp_read_bytes(r, n);
    uint64_t v = 0;
    for (size_t i = 0; p && i < n; i++)
        v |= (uint64_t)(uint8_t)p[i] << (8 * i);
    return v;
}

#define INTEGER(bits)                                       \
    void pp_buf_u##bits(struct pp_buf *b, uint##bits##_t v) \
    {                                                       \
        put_le(b, v, (bits) / 8);                           \
    }                                                       \
    uint##bits##_t pp_read_u##bits(struct pp_reader *r)     \
    {                                                       \
        return (uint##bits##_t)read_le(r, (bits) / 8);      \
    }
INTEGER(8)
INTEGER(16)
INTEGER(32)
INTEGER(64)
#undef INTEGER

const char *pp_read_str(struct pp_reader *r, size_t *n)
{
    size_t len = pp_read_u32(r);
    const char *p = pp_read_bytes(r, len);
    *n = p ? len : 0;
    return p ? p : "";
}
