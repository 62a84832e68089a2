/* rank.c: counts the workers with a higher rank, kind by kind. */
#include "core/rank.h"

#include <string.h>

#include "base/check.h"

static void count(struct pp_rank_count *n, bool settled)
{
    n->all++;
    n->settled += settled;
}

/* Returns the kind of workers that serve these tiers, and adds it if it is new; NULL if there is no
 * room. */
static struct pp_rank_kind *kind_of(struct pp_rank *r, const char *tiers)
{
    for (uint32_t k = 0; k < r->n_kinds; k++)
        if (strcmp(r->kinds[k].tiers, tiers) == 0)
            return &r->kinds[k];
    if (r->n_kinds == PP_RANK_KINDS)
        return NULL;
    r->kinds[r->n_kinds] = (struct pp_rank_kind){.tiers = tiers};
    return &r->kinds[r->n_kinds++];
}

void pp_rank_init(struct pp_rank *r, const char *tiers, double score)
{
    pp_assert(score > 0, "a score is not above 0");
    *r = (struct pp_rank){.score = score};
    (void)kind_of(r, tiers);
}

void pp_rank_add(struct pp_rank *r, const char *tiers, double score, bool settled)
{
    struct pp_rank_kind *kind = kind_of(r, tiers);

    pp_assert(score > 0, "a score is not above 0");
    if (score > r->score)
        count(&r->higher, settled);
    if (score > r->score || kind != &r->kinds[0])
        count(&r->foreign_or_higher, settled);
    if (kind && score > kind->best) {
        kind->best = score;
        kind->settled = settled;
    }
}

struct pp_rank_count pp_rank_before(const struct pp_rank *r)
{
    struct pp_rank_count best = {0}, best_higher = {0};

    for (uint32_t k = 0; k < r->n_kinds; k++) {
        if (r->kinds[k].best > 0)
            count(&best, r->kinds[k].settled);
        if (r->kinds[k].best > r->score)
            count(&best_higher, r->kinds[k].settled);
    }
    if (r->kinds[0].best < r->score) /* this worker is the best of its kind */
        return best_higher;
    return (struct pp_rank_count){best.all + r->higher.all - best_higher.all,
                                  best.settled + r->higher.settled - best_higher.settled};
}

struct pp_rank_count pp_rank_before_last(const struct pp_rank *r)
{
    return r->foreign_or_higher;
}
