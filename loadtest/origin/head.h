/* head.h: builds the head of an answer in a fixed piece of memory. Private to answer*.c. */
#ifndef OG_HEAD_H
#define OG_HEAD_H

#include <assert.h>
#include <string.h>

#include "answer.h"

#define OG_HEAD_MAX 4096

struct og_out {
    char *p, *end;
};

static inline void out_put(struct og_out *o, const char *p, size_t n)
{
    assert((size_t)(o->end - o->p) >= n);
    memcpy(o->p, p, n);
    o->p += n;
}

static inline void out_str(struct og_out *o, const char *s)
{
    out_put(o, s, strlen(s));
}

static inline void out_number(struct og_out *o, uint64_t v)
{
    char d[20];
    int n = 20;
    do
        d[--n] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    out_put(o, d + n, (size_t)(20 - n));
}

static inline void out_hex(struct og_out *o, uint64_t v)
{
    char d[16];
    int n = 16;
    do
        d[--n] = "0123456789abcdef"[v & 15];
    while ((v >>= 4) > 0);
    out_put(o, d + n, (size_t)(16 - n));
}

/* `n` bytes that live as long as the answer: from its scratch, or the heap. NULL when out of memory. */
void *og_answer_mem(struct og_answer *a, size_t n);

const char *og_reason(unsigned status);

#endif
