/* rendezvous.h: weighted rendezvous hashing: which of some nodes a key belongs to, the same wherever it is
 * asked, without a table.
 *
 * Each node has a score for the key, -weight / ln(h) with h in (0, 1) from a hash of both; the highest wins.
 * A node gets keys in proportion to its weight; when one goes, only its keys move, and evenly; when one
 * comes, it takes its part and nothing else moves. Sources: Thaler and Ravishankar, "Using name-based
 * mappings to increase hit rates", IEEE/ACM Transactions on Networking 6(1), 1998; weights: Schindelhauer and
 * Schomaker, "Weighted distributed hash tables", SPAA 2005. */
#ifndef PHOTOPOOL_CORE_RENDEZVOUS_H
#define PHOTOPOOL_CORE_RENDEZVOUS_H

#include <stdint.h>

/* The score of `node` for `key`, above 0; weight 0 is taken as 1. */
double pp_rendezvous_score(const char *key, const char *node, uint32_t weight);

#endif
