/* chunk_pool.h: the memory of bodies: chunks of one size, carved from slabs of PP_SLAB_BYTES on
 * huge pages.
 *
 * Hashing and writing read all of this memory for each photo; on huge pages this causes far fewer
 * TLB misses (in a virtual machine that saves some 3 % of a photo's total time). The chunk that was
 * freed last is reused first, while it is in the CPU's cache. Slabs return to the system when no
 * chunk is in use and more than PP_SLABS_KEPT are held. One thread at a time. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_CHUNK_POOL_H
#define PHOTOPOOL_PIPELINE_FETCH_CHUNK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PP_CHUNK_BYTES 32768
#define PP_SLAB_BYTES  (2u << 20)
#define PP_SLABS_KEPT  4

struct pp_chunk {
    struct pp_chunk *next;
    uint32_t n; /* bytes of content */
    uint8_t p[PP_CHUNK_BYTES];
};

struct pp_slab;

/* A pool of chunks. All zero: an empty pool. */
struct pp_chunk_pool {
    struct pp_chunk *free;
    struct pp_slab *slabs;
    size_t n_slabs, used;
};

/* Returns an empty chunk, or NULL when out of memory. */
struct pp_chunk *pp_chunk_get(struct pp_chunk_pool *pool);
void pp_chunk_put(struct pp_chunk_pool *pool, struct pp_chunk *chunk);
/* Frees the pool's memory. No chunk may be in use. */
void pp_chunk_pool_fini(struct pp_chunk_pool *pool);

#endif
