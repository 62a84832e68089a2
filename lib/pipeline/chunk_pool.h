/* chunk_pool.h: the memory that bodies are gathered in: chunks of one size, carved from slabs of
 * PP_SLAB_BYTES on huge pages.
 *
 * Hashing and writing walk through much of this memory for each photo; on huge pages they miss the address
 * cache far less (some 3 % of all the time of a photo in a virtual machine). Chunks come back in last-in,
 * first-out order, warm. Slabs go back to the system when no chunk is in use and more than PP_SLABS_KEPT are
 * held. One thread at a time. */
#ifndef PHOTOPOOL_PIPELINE_CHUNK_POOL_H
#define PHOTOPOOL_PIPELINE_CHUNK_POOL_H

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

/* Zeros: an empty pool. */
struct pp_chunk_pool {
    struct pp_chunk *free;
    struct pp_slab *slabs;
    size_t n_slabs, used;
};

/* An empty chunk, or NULL when out of memory. */
struct pp_chunk *pp_chunk_get(struct pp_chunk_pool *pool);
void pp_chunk_put(struct pp_chunk_pool *pool, struct pp_chunk *chunk);
/* With no chunk in use. */
void pp_chunk_pool_fini(struct pp_chunk_pool *pool);

#endif
