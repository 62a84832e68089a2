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
    if (c->permits < least) least = c->permits;
    if (c->concurrency_left < least) least = c->concurrency_left;
    return least;
}

/* Soonest full first: can_take / weight, ascending. */
static int by_fill(const void *pa, const void *pb, void *ctx)
{
    const struct pp_fair_client *c = ctx;
    uint32_t ia = *(const uint32_t *)pa, ib = *(const uint32_t *)pb;
    uint64_t a = (uint64_t)can_take(&c[ia]) * weight_of(&c[ib]);
    uint64_t b = (uint64_t)can_take(&c[ib]) * weight_of(&c[ia]);
    if (a != b) return a < b ? -1 : 1;
    return ia < ib ? -1 : 1;
}

/* Most owed first. */
static int by_deficit(const void *pa, const void *pb, void *ctx)
{
    const struct pp_fair_client *c = ctx;
    uint32_t ia = *(const uint32_t *)pa, ib = *(const uint32_t *)pb;
    if (c[ia].deficit != c[ib].deficit) return c[ia].deficit > c[ib].deficit ? -1 : 1;
    return ia < ib ? -1 : 1;
}

static int32_t clamp_deficit(int64_t d)
{
    if (d > PP_FAIR_DEFICIT_MAX) return PP_FAIR_DEFICIT_MAX;
    return d < -PP_FAIR_DEFICIT_MAX ? -PP_FAIR_DEFICIT_MAX : (int32_t)d;
}

uint32_t pp_fair_allot(struct pp_fair_client *c, size_t n, uint32_t slots, uint32_t *scratch)
{
    assert(n <= UINT32_MAX);
    uint64_t weights = 0;
    uint32_t left = slots;
    for (size_t i = 0; i < n; i++) {
        scratch[i] = (uint32_t)i;
        weights += weight_of(&c[i]);
    }
    qsort_r(scratch, n, sizeof *scratch, by_fill, c);
    /* Below the level: all they can take, and nothing owed. */
    size_t at = 0;
    for (; at < n; at++) {
        struct pp_fair_client *p = &c[scratch[at]];
        if ((unsigned __int128)can_take(p) * weights > (uint64_t)left * weight_of(p)) break;
        p->allot = can_take(p);
        if (p->allot == p->want) p->deficit = 0;
        left -= p->allot;
        weights -= weight_of(p);
    }
    /* Above it: shares of `level`, rounded down; the fraction is owed. */
    uint32_t level = left;
    for (size_t i = at; i < n; i++) {
        struct pp_fair_client *p = &c[scratch[i]];
        uint64_t share = (uint64_t)level * weight_of(p);
        p->allot = (uint32_t)(share / weights);
        p->deficit = clamp_deficit(p->deficit +
                                   (int64_t)((unsigned __int128)(share % weights) * PP_FAIR_UNIT / weights));
        left -= p->allot;
    }
    if (at == n) return slots - left;
    assert(left < n - at);
    qsort_r(scratch + at, n - at, sizeof *scratch, by_deficit, c);
    for (; left > 0 && at < n; at++, left--) {
        struct pp_fair_client *p = &c[scratch[at]];
        p->allot++;
        p->deficit = clamp_deficit((int64_t)p->deficit - PP_FAIR_UNIT);
    }
    return slots - left;
}
