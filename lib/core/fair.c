/* fair.c: see fair.h. First the water level: clients sorted by how soon they are full; those below the level
 * get all they can take, the others share what is left by weight, rounded down. Then the transfers lost in
 * rounding, fewer than there are clients above the level, go one each to those with the largest deficit. */
#include "core/fair.h"

#include <assert.h>
#include <stdlib.h>

/* A deficit is bounded, so that a client that was long without permits does not take over later. */
#define PP_FAIR_DEFICIT_MAX (8 * PP_FAIR_UNIT)

static uint32_t weight_of(const struct pp_fair_client *c)
{
    return c->weight ? c->weight : 1;
}

static uint32_t can_take(const struct pp_fair_client *c)
{
    uint32_t least = c->want;
    if (c->permits < least)
        least = c->permits;
    if (c->concurrency_left < least)
        least = c->concurrency_left;
    return least;
}

/* Soonest full first: can_take / weight, ascending. */
static int by_fill(const void *pa, const void *pb, void *ctx)
{
    const struct pp_fair_client *c = ctx;
    uint32_t ia = *(const uint32_t *)pa, ib = *(const uint32_t *)pb;
    uint64_t a = (uint64_t)can_take(&c[ia]) * weight_of(&c[ib]);
    uint64_t b = (uint64_t)can_take(&c[ib]) * weight_of(&c[ia]);
    if (a != b)
        return a < b ? -1 : 1;
    return ia < ib ? -1 : 1;
}

/* Most owed first. */
static int by_deficit(const void *pa, const void *pb, void *ctx)
{
    const struct pp_fair_client *c = ctx;
    uint32_t ia = *(const uint32_t *)pa, ib = *(const uint32_t *)pb;
    if (c[ia].deficit != c[ib].deficit)
        return c[ia].deficit > c[ib].deficit ? -1 : 1;
    return ia < ib ? -1 : 1;
}

static int32_t clamp_deficit(int64_t d)
{
    if (d > PP_FAIR_DEFICIT_MAX)
        return PP_FAIR_DEFICIT_MAX;
    return d < -PP_FAIR_DEFICIT_MAX ? -PP_FAIR_DEFICIT_MAX : (int32_t)d;
}

/* What is still to be dealt out, and the weight of those who are still to get. */
struct rest {
    uint32_t slots;
    uint64_t weights;
};

/* Those below the level, from the front of `order`: all they can take, and nothing owed. Returns how many
 * they are. */
static size_t deal_below(struct pp_fair_client *c, const uint32_t *order, size_t n, struct rest *rest)
{
    size_t at = 0;
    for (; at < n; at++) {
        struct pp_fair_client *p = &c[order[at]];
        if ((unsigned __int128)can_take(p) * rest->weights > (uint64_t)rest->slots * weight_of(p))
            break;
        p->allot = can_take(p);
        if (p->allot == p->want)
            p->deficit = 0;
        rest->slots -= p->allot;
        rest->weights -= weight_of(p);
    }
    return at;
}

/* Those above it: their shares, rounded down; the fraction is owed. */
static void deal_above(struct pp_fair_client *c, const uint32_t *order, size_t n, struct rest *rest)
{
    uint32_t slots = rest->slots;
    for (size_t i = 0; i < n; i++) {
        struct pp_fair_client *p = &c[order[i]];
        uint64_t share = (uint64_t)slots * weight_of(p);
        uint64_t fraction = (unsigned __int128)(share % rest->weights) * PP_FAIR_UNIT / rest->weights;
        p->allot = (uint32_t)(share / rest->weights);
        p->deficit = clamp_deficit(p->deficit + (int64_t)fraction);
        rest->slots -= p->allot;
    }
}

uint32_t pp_fair_allot(struct pp_fair_client *c, size_t n, uint32_t slots, uint32_t *scratch)
{
    assert(n <= UINT32_MAX);
    struct rest rest = {slots, 0};
    for (size_t i = 0; i < n; i++) {
        scratch[i] = (uint32_t)i;
        rest.weights += weight_of(&c[i]);
    }
    qsort_r(scratch, n, sizeof *scratch, by_fill, c);
    size_t below = deal_below(c, scratch, n, &rest);
    if (below == n)
        return slots - rest.slots;
    scratch += below;
    n -= below;
    deal_above(c, scratch, n, &rest);
    assert(rest.slots < n);
    qsort_r(scratch, n, sizeof *scratch, by_deficit, c);
    for (size_t i = 0; i < rest.slots; i++) {
        c[scratch[i]].allot++;
        c[scratch[i]].deficit = clamp_deficit((int64_t)c[scratch[i]].deficit - PP_FAIR_UNIT);
    }
    return slots;
}
