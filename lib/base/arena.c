/* arena.c: an arena is a list of zeroed blocks, the newest first. Each is twice as large as
 * the one before up to HEAP_BLOCK; the blocks after that one have MAPPED_BLOCK bytes. These are
 * mapped and unmapped one by one (pp_process_return_memory()), and the pages of them that nothing
 * was cut from take no memory. Sizes between the two would leave large holes in the heap.
 *
 * Invariants: small requests are cut from the block `head`; a request that is too big for it gets
 * its own block, which is linked in behind `head`. All blocks together take at most about twice
 * `used` bytes, plus the size of the first block. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum {
    FIRST_BLOCK_BYTES = 1024,
    HEAP_BLOCK = 64 * 1024,
    MAPPED_BLOCK = 512 * 1024,
    DEFAULT_MAX = 256 * 1024 * 1024
};

struct pp_arena_block {
    struct pp_arena_block *next;
    size_t n, cap;
    max_align_t data[];
};

void pp_arena_init(struct pp_arena *a, size_t max)
{
    *a = (struct pp_arena){.max = max ? max : DEFAULT_MAX};
}

void pp_arena_fini(struct pp_arena *a)
{
    while (a->head) {
        struct pp_arena_block *b = a->head;
        a->head = b->next;
        free(b);
    }
    a->used = 0;
}

/* Returns zeroed memory. Most arenas have only a first block. malloc() takes that from the thread's
 * cache; calloc() of glibc does not use the cache. */
static void *new_block(size_t bytes)
{
    if (bytes > FIRST_BLOCK_BYTES)
        return calloc(1, bytes);
    void *p = malloc(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

/* Links in a new block with room for `n` bytes. */
static struct pp_arena_block *grow(struct pp_arena *a, size_t n)
{
    size_t usual = a->head ? a->head->cap * 2 : FIRST_BLOCK_BYTES - sizeof(struct pp_arena_block);
    if (usual > HEAP_BLOCK)
        usual = MAPPED_BLOCK;
    size_t cap = n > usual ? n : usual;
    struct pp_arena_block *b = new_block(sizeof *b + cap);
    if (!b)
        return NULL;
    b->cap = cap;
    struct pp_arena_block **link = n > usual && a->head ? &a->head->next : &a->head;
    b->next = *link;
    *link = b;
    return b;
}

void *pp_arena_alloc(struct pp_arena *a, size_t n)
{
    const size_t align = _Alignof(max_align_t);
    size_t max = a->max ? a->max : DEFAULT_MAX;
    if (n > SIZE_MAX / 4)
        return NULL;
    n = n ? (n + align - 1) & ~(align - 1) : align;
    if (a->used > max || n > max - a->used)
        return NULL;
    struct pp_arena_block *b = a->head;
    if (!b || n > b->cap - b->n)
        b = grow(a, n);
    if (!b)
        return NULL;
    pp_assert(b->n <= b->cap && n <= b->cap - b->n, "a block of an arena has less room than was asked for");
    void *p = (char *)b->data + b->n;
    b->n += n;
    a->used += n;
    return p;
}

void *pp_arena_array(struct pp_arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return pp_arena_alloc(a, bytes);
}

char *pp_arena_copy(struct pp_arena *a, const void *p, size_t n)
{
    char *copy = n < SIZE_MAX ? pp_arena_alloc(a, n + 1) : NULL;
    if (copy && n)
        memcpy(copy, p, n);
    return copy; /* the memory is zeroed, so the NUL is there */
}

char *pp_arena_strdup(struct pp_arena *a, const char *s)
{
    return pp_arena_copy(a, s, strlen(s));
}

char *pp_arena_printf(struct pp_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = n < 0 ? NULL : pp_arena_alloc(a, (size_t)n + 1);
    if (p)
        (void)vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return p;
}
