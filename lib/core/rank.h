/* rank.h: the order in which the workers of a fleet should get the shares of a client. Workers are
 * of one kind if they serve the same tiers. First comes the best worker of each kind, so that with
 * a share for each kind no tier is without a worker; then come all others. "Best" is the highest
 * score (core/rendezvous.h).
 *
 * Each worker computes its own rank: it adds all other workers, and then asks how many come before
 * it. All workers that know the same fleet compute the same order, so no two have the same rank.
 * Beyond PP_RANK_KINDS kinds, workers count as not the best of theirs. */
#ifndef PHOTOPOOL_CORE_RANK_H
#define PHOTOPOOL_CORE_RANK_H

#include <stdbool.h>
#include <stdint.h>

#define PP_RANK_KINDS 8

/* A number of workers, and how many of them are settled: they have been there for a while. */
struct pp_rank_count {
    uint32_t all, settled;
};

struct pp_rank {
    double score; /* of the worker that ranks itself */
    struct pp_rank_kind {
        const char *tiers;
        double best;        /* the highest score of the other workers of this kind; 0: there is none */
        bool settled;       /* true: the worker with this score is settled */
    } kinds[PP_RANK_KINDS]; /* kinds[0] is the kind of the worker that ranks itself */
    uint32_t n_kinds;
    struct pp_rank_count higher; /* the workers with a higher score */
    struct pp_rank_count foreign_or_higher;
};

/* Begins the rank of a worker that serves `tiers` and has this score. The caller keeps all texts
 * until it has asked. */
void pp_rank_init(struct pp_rank *r, const char *tiers, double score);

/* Adds another worker; its score is above 0. */
void pp_rank_add(struct pp_rank *r, const char *tiers, double score, bool settled);

/* Returns the workers that come before this one. */
struct pp_rank_count pp_rank_before(const struct pp_rank *r);

/* Returns the workers that come before this one if it leaves the shares to workers of other
 * kinds. */
struct pp_rank_count pp_rank_before_last(const struct pp_rank *r);

#endif
