/* body.c: a body as a list of memory pieces: appending, truncating, slicing for writev, copying. */
#include "body.h"

#include <assert.h>
#include <string.h>

void og_body_init(struct og_body *b)
{
    b->count = 0;
    b->n = 0;
}

void og_body_repeat(struct og_body *b, const void *p, uint64_t period, uint64_t n)
{
    if (n == 0)
        return;
    assert(b->count < OG_PIECES && period > 0);
    b->piece[b->count++] = (struct og_piece){p, period, n};
    b->n += n;
}

void og_body_add(struct og_body *b, const void *p, uint64_t n)
{
    og_body_repeat(b, p, n, n);
}

void og_body_truncate(struct og_body *b, uint64_t n)
{
    while (b->n > n) {
        struct og_piece *last = &b->piece[b->count - 1];
        uint64_t over = b->n - n;
        if (over < last->n) {
            last->n -= over;
            b->n = n;
        } else {
            b->n -= last->n;
            b->count--;
        }
    }
}

unsigned og_body_slice(const struct og_body *b, uint64_t from, uint64_t max, uv_buf_t *out, unsigned cap,
                       uint64_t *total)
{
    unsigned k = 0;
    uint64_t sum = 0;
    for (unsigned i = 0; i < b->count; i++) {
        const struct og_piece *x = &b->piece[i];
        if (from >= x->n) {
            from -= x->n;
            continue;
        }
        while (from < x->n && sum < max && k < cap) {
            uint64_t at = from % x->period;
            uint64_t n = x->period - at;
            if (n > x->n - from)
                n = x->n - from;
            if (n > max - sum)
                n = max - sum;
            out[k++] = uv_buf_init((char *)(uintptr_t)(x->p + at), (unsigned)n);
            sum += n;
            from += n;
        }
        if (sum >= max || k >= cap)
            break;
        from = 0;
    }
    *total = sum;
    return k;
}

void og_body_copy(const struct og_body *b, uint8_t *out)
{
    for (unsigned i = 0; i < b->count; i++) {
        const struct og_piece *x = &b->piece[i];
        for (uint64_t done = 0; done < x->n;) {
            uint64_t n = x->n - done < x->period ? x->n - done : x->period;
            memcpy(out + done, x->p, n);
            done += n;
        }
        out += x->n;
    }
}
