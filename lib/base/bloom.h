/* bloom.h: a blocked Bloom filter over the keys of photos, and the pair of filters that an adapter
 * of port/filter.h in memory has: the complete one, and the one that is being built.
 *
 * Keys are hashes already. The first 4 bytes of a key choose a block; the other 12 bytes are 8
 * numbers of 12 bits, which are positions of bits within the block; sums of these are the other
 * positions. A filter of 20 bits a key calls some 0.008 % of the keys known that it does not have.
 * The bits of a byte count from the highest, as in Redis' SETBIT, so the scripts of adapter/redis
 * do the same on Redis' strings.
 *
 * Source: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007. A
 * block is a page's part of 512 bytes instead of a cache line: that halves the false positives of
 * 20 bits a key.
 *
 * One thread at a time may use a filter. */
#ifndef PP_BASE_BLOOM_H
#define PP_BASE_BLOOM_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/port/filter.h"
#include "photopool/shared_constants.h"
#include "photopool/task.h"

struct pp_bloom {
    uint8_t *bits; /* `blocks` times PP_FILTER_BLOCK_BYTES */
    uint64_t blocks;
    uint64_t keys; /* number of keys that were added, without those that it already had */
};

/* Makes an empty filter of at most `bytes`, in whole blocks, but at least one. Returns false when
 * out of memory. */
bool pp_bloom_init(struct pp_bloom *b, uint64_t bytes);
/* Frees the bits. The filter may be zeroed memory. */
void pp_bloom_fini(struct pp_bloom *b);
/* Returns true if the key was added, and for some keys that were not. */
bool pp_bloom_has(const struct pp_bloom *b, const struct pp_key *key);
/* Adds a key. Returns true if the filter did not have it. */
bool pp_bloom_add(struct pp_bloom *b, const struct pp_key *key);

/* A pair begins as zeroed memory: without a complete filter, and without a build. */
struct pp_bloom_pair {
    struct pp_bloom current; /* if `complete` */
    struct pp_bloom next;    /* if build[0] */
    bool complete;
    int64_t built_ms;                /* when the build of `current` has finished */
    char build[PP_FILTER_BUILD_MAX]; /* "": nothing is being built */
};

/* These carry out the requests of port/filter.h, without ending them. `now_ms` is of any clock that
 * does not go back. They return PP_OK or PP_ENOMEM. */
enum pp_err pp_bloom_pair_ask(struct pp_bloom_pair *p, struct pp_filter_ask *r);
void pp_bloom_pair_look(const struct pp_bloom_pair *p, struct pp_filter_look *r, int64_t now_ms);
enum pp_err pp_bloom_pair_build(struct pp_bloom_pair *p, struct pp_filter_build *r, int64_t now_ms);
/* Discards both filters, and frees their memory. */
void pp_bloom_pair_discard(struct pp_bloom_pair *p);

#endif
