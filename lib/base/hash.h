/* hash.h: hash tables (uthash) under a secret key. Callers choose the keys of many tables: client
 * ids, host names, addresses. With a public hash function they could choose keys that all fall into
 * one bucket, and each look-up would walk through all of them. This header makes uthash hash under
 * random bytes that each process draws at its start. Everybody includes it instead of <uthash.h>.
 *
 * uthash iterates in the order of insertion, which the random bytes do not change. A file that
 * handles a failed HASH_ADD defines HASH_NONFATAL_OOM before it includes this header. */
#ifndef PP_BASE_HASH_H
#define PP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Returns the hash of `n` bytes under this process's key. It differs in each process: never store
 * it, and never send it. Any thread. */
uint64_t pp_hash(const void *p, size_t n);

#define HASH_FUNCTION(key, n, hash) ((hash) = (unsigned)pp_hash((key), (n)))
#include <uthash.h>

#endif
