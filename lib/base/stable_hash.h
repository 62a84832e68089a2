/* stable_hash.h: a hash of texts that is the same in all processes and versions, for decisions that
 * they must take alike. It is no defence against chosen texts; for hash tables use base/hash.h.
 *
 * FNV-1a of 64 bits (Fowler, Noll, Vo), mixed with the finaliser of splitmix64 (Steele, Lea, Flood,
 * "Fast splittable pseudorandom number generators", OOPSLA 2014), because FNV mixes the high bits
 * of short texts poorly. */
#ifndef PP_BASE_STABLE_HASH_H
#define PP_BASE_STABLE_HASH_H

#include <stdint.h>

#define PP_STABLE_HASH UINT64_C(14695981039346656037) /* the hash of nothing */

/* Adds a text with its NUL to the hash `h`. */
uint64_t pp_stable_hash_add(uint64_t h, const char *text);
/* Mixes the bits, after the last text. */
uint64_t pp_stable_hash_end(uint64_t h);

/* Returns the position of a worker or a client on the hash ring (port/coordinator.h). */
uint32_t pp_ring_position(const char *id);

#endif
