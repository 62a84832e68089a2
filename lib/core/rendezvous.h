/* rendezvous.h: weighted rendezvous hashing: decides which node a key belongs to. All processes
 * decide alike, without a shared table.
 *
 * Each node has a score for the key, -weight / ln(h), where h in (0, 1) is a hash of node and key;
 * the highest score wins. A node gets keys in proportion to its weight; if a node leaves, only its
 * keys move, evenly to the others; if a node joins, only the keys that it gets move. Sources:
 * Thaler and Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM Transactions
 * on Networking 6(1), 1998; weights: Schindelhauer and Schomaker, "Weighted distributed hash
 * tables", SPAA 2005. */
#ifndef PHOTOPOOL_CORE_RENDEZVOUS_H
#define PHOTOPOOL_CORE_RENDEZVOUS_H

#include <stdint.h>

/* Returns the score of `node` for `key`, above 0. A weight of 0 counts as 1. */
double pp_rendezvous_score(const char *key, const char *node, uint32_t weight);

#endif
