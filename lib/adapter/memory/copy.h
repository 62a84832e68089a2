/* copy.h: helpers that copy the inputs of requests, for the copy() of an operation (call.h). */
#ifndef PP_ADAPTER_MEMORY_COPY_H
#define PP_ADAPTER_MEMORY_COPY_H

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"

/* Lets *text be a copy of itself; NULL stays NULL. Returns false when out of memory. */
static inline bool pp_memory_copy_text(struct pp_arena *arena, const char **text)
{
    if (!*text)
        return true;
    *text = pp_arena_strdup(arena, *text);
    return *text;
}

/* Returns a copy of `n` elements of `size` bytes each; NULL when out of memory. */
static inline void *pp_memory_copy_array(struct pp_arena *arena, const void *from, size_t n, size_t size)
{
    void *copy = pp_arena_array(arena, n, size);
    if (copy && n > 0)
        memcpy(copy, from, n * size);
    return copy;
}

#endif
