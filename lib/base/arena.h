/* arena.h: memory that is freed all at once: the inputs and outputs of one request.
 *
 * Not thread safe, but may be handed from thread to thread with its request. */
#ifndef PP_BASE_ARENA_H
#define PP_BASE_ARENA_H

#include <stddef.h>

struct pp_arena_block;

struct pp_arena {
    struct pp_arena_block *head;
    size_t used; /* bytes handed out */
    size_t max;  /* ceiling of used; 0 means 256 MiB */
};

void pp_arena_init(struct pp_arena *a, size_t max);
/* Frees every block. The arena may be used again. */
void pp_arena_fini(struct pp_arena *a);

/* `n` bytes aligned for any type, zeroed; NULL when the ceiling is reached or memory is out. n == 0 gives a
 * valid pointer. */
void *pp_arena_alloc(struct pp_arena *a, size_t n);
/* n * size with overflow check. */
void *pp_arena_array(struct pp_arena *a, size_t n, size_t size);
/* A copy of `n` bytes and a NUL. NULL as above. */
char *pp_arena_copy(struct pp_arena *a, const void *p, size_t n);
char *pp_arena_strdup(struct pp_arena *a, const char *s);
char *pp_arena_printf(struct pp_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
