/* making.h: what answer.c and content.c share: the state of an answer while they make it, and the
 * functions that write its head. */
#ifndef OG_MAKING_H
#define OG_MAKING_H

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

/* Returns `n` bytes that live until the answer ends. They lie in its scratch memory or on the heap.
 * Returns NULL when out of memory. */
void *og_answer_mem(struct og_answer *a, size_t n);

const char *og_reason(unsigned status);

/* The state of one answer while answer.c and content.c make it. */
struct making {
    struct og_answer *a;
    const struct og_world *w;
    const struct og_request *r;
    struct og_behaviour *b;
    uint64_t hash, id;
    unsigned status;
    struct og_body body; /* the content, before any transfer coding */
    const char *mime;
    const char *encoding; /* the content coding, such as "gzip"; NULL if there is none */
};

/* Percent-decodes `n` bytes to `out`, which has room for n. Returns the length of the result. */
size_t og_unescape(char *out, const char *p, size_t n);

/* ---- content.c ---- */

/* Sets `body` and `mime` according to status and behaviour. If a file is missing, sets the status
 * to 404. */
void og_content(struct making *m);
/* Compresses the body with gzip. Leaves the body unchanged if it is empty or too large, or when out
 * of memory. */
void og_code_gzip(struct making *m);
void og_code_bomb(struct making *m);

#endif
