/* arena.h: memory that is freed all at once; a request keeps its inputs and outputs there.
 *
 * An arena is not thread safe, but a thread may hand it to another one together with its
 * request. */
#ifndef PP_BASE_ARENA_H
#define PP_BASE_ARENA_H

#include <stddef.h>

struct pp_arena_block;

struct pp_arena {
    struct pp_arena_block *head;
    size_t used; /* number of bytes handed out */
    size_t max;  /* ceiling of `used` in bytes; 0 stands for 256 MiB */
};

void pp_arena_init(struct pp_arena *a, size_t max);
/* Frees every block. The arena may be used again. */
void pp_arena_fini(struct pp_arena *a);

/* Returns `n` zeroed bytes, aligned for any type. Returns NULL if the ceiling is reached or memory
 * runs out. If n is 0, the pointer is valid. */
void *pp_arena_alloc(struct pp_arena *a, size_t n);
/* Returns n * size zeroed bytes like pp_arena_alloc(). NULL also if the product overflows. */
void *pp_arena_array(struct pp_arena *a, size_t n, size_t size);
/* Returns a copy of `n` bytes, followed by a NUL. Returns NULL as pp_arena_alloc() does. */
char *pp_arena_copy(struct pp_arena *a, const void *p, size_t n);
char *pp_arena_strdup(struct pp_arena *a, const char *s);
char *pp_arena_printf(struct pp_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
