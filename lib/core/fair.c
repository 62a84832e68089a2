/* fair.c: see fair.h. First the water level: clients sorted by how soon they are full; those below the level
 * get all they can take, the others share what is left by weight, rounded down to quanta. Then the transfers
 * lost in rounding, less than a quantum for each client above the level, go by the quantum to those with the
 * largest deficit. */
#include "core/fair.h"

#include <assert.h>
#include <stdlib.h>

/* A deficit is bounded, so that a client that was long without permits does not take over later: in quanta.
 */
#define DEFICIT_MAX 8

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

static int32_t clamp_deficit(int64_t d, uint32_t quantum)
{
    int64_t most = (int64_t)DEFICIT_MAX * PP_FAIR_UNIT * quantum;
    return (int32_t)(d > most ? most : d < -most ? -most : d);
}

/* What is still to be dealt out, and the weight of those who are still to get. */
struct rest {
    uint32_t slots, quantum;
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

/* Those above it: their shares, rounded down; the rest of each is owed. */
static void deal_above(struct pp_fair_client *c, const uint32_t *order, size_t n, struct rest *rest)
{
    uint32_t slots = rest->slots;
    for (size_t i = 0; i < n; i++) {
        struct pp_fair_client *p = &c[order[i]];
        uint64_t share = (uint64_t)slots * weight_of(p);
        uint64_t fraction = (unsigned __int128)(share % rest->weights) * PP_FAIR_UNIT / rest->weights;
        uint32_t whole = (uint32_t)(share / rest->weights), odd = whole % rest->quantum;
        p->allot = whole - odd;
        p->deficit =
            clamp_deficit(p->deficit + (int64_t)odd * PP_FAIR_UNIT + (int64_t)fraction, rest->quantum);
        rest->slots -= p->allot;
    }
}

/* One quantum each, from the front of `order`. All of it goes: each of them can take more than he is owed by
 * this cycle's rounding, and that is less than a quantum. */
static void deal_rounded(struct pp_fair_client *c, const uint32_t *order, size_t n, struct rest *rest)
{
    for (size_t i = 0; i < n && rest->slots > 0; i++) {
        struct pp_fair_client *p = &c[order[i]];
        uint32_t more = can_take(p) - p->allot;
        more = more < rest->quantum ? more : rest->quantum;
        more = more < rest->slots ? more : rest->slots;
        p->allot += more;
        p->deficit = clamp_deficit(p->deficit - (int64_t)more * PP_FAIR_UNIT, rest->quantum);
        rest->slots -= more;
    }
    assert(rest->slots == 0);
}

uint32_t pp_fair_allot(struct pp_fair_client *c, size_t n, uint32_t slots, uint32_t quantum,
                       uint32_t *scratch)
{
    assert(n <= UINT32_MAX && quantum > 0 && quantum <= PP_FAIR_QUANTUM_MAX);
    struct rest rest = {.slots = slots, .quantum = quantum};
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
    qsort_r(scratch, n, sizeof *scratch, by_deficit, c);
    deal_rounded(c, scratch, n, &rest);
    return slots;
}
