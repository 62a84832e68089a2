/* chunk_pool.c: see chunk_pool.h. A slab begins with its header; its chunks follow. */
#include "pipeline/fetch/chunk_pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/check.h"

struct pp_slab {
    struct pp_slab *next;
};

#define SLAB_CHUNKS ((PP_SLAB_BYTES - sizeof(struct pp_slab)) / sizeof(struct pp_chunk))

static bool add_slab(struct pp_chunk_pool *pool)
{
    struct pp_slab *slab = aligned_alloc(PP_SLAB_BYTES, PP_SLAB_BYTES);
    if (!slab)
        return false;
    (void)madvise(slab, PP_SLAB_BYTES, MADV_HUGEPAGE); /* a failure costs only speed */
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->n_slabs++;
    struct pp_chunk *chunks = (struct pp_chunk *)(slab + 1);
    for (size_t i = SLAB_CHUNKS; i > 0; i--) {
        chunks[i - 1].next = pool->free;
        pool->free = &chunks[i - 1];
    }
    return true;
}

static void free_slabs(struct pp_chunk_pool *pool)
{
    while (pool->slabs) {
        struct pp_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    pool->free = NULL;
    pool->n_slabs = 0;
}

struct pp_chunk *pp_chunk_get(struct pp_chunk_pool *pool)
{
    if (!pool->free && !add_slab(pool))
        return NULL;
    struct pp_chunk *chunk = pool->free;
    pool->free = chunk->next;
    pool->used++;
    chunk->next = NULL;
    chunk->n = 0;
    return chunk;
}

void pp_chunk_put(struct pp_chunk_pool *pool, struct pp_chunk *chunk)
{
    pp_assert(pool->used > 0, "a chunk comes back twice");
    pp_assert(chunk->n <= PP_CHUNK_BYTES, "a chunk holds more than it can");
    chunk->next = pool->free;
    pool->free = chunk;
    if (--pool->used == 0 && pool->n_slabs > PP_SLABS_KEPT)
        free_slabs(pool);
}

void pp_chunk_pool_fini(struct pp_chunk_pool *pool)
{
    pp_assert(pool->used == 0, "chunks are in use at the end");
    free_slabs(pool);
}
