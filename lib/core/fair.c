/* fair.c: deals free transfers to clients by water-filling. The water level is the number of
 * transfers per weight at which all are dealt. Clients are sorted by the level at which they can
 * take no more. Clients below the water level get all they can take; the others share the rest by
 * weight, rounded down to quanta. The transfers left over by rounding, less than a quantum for each
 * client above the level, then go in quanta to the clients with the largest deficits. */
#include "core/fair.h"

#include <stdlib.h>

#include "base/check.h"

/* The largest deficit, in quanta. Without this bound, a client that had no permits for a long time
 * would take all transfers afterwards. */
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

/* Orders clients by can_take / weight, ascending. */
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

/* Orders clients by deficit, largest first. */
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

/* The transfers still to be dealt, and the sum of the weights of the clients that still get some.
 */
struct rest {
    uint32_t slots, quantum;
    uint64_t weights;
};

/* Gives the clients below the water level, which come first in `order`, all they can take. Returns
 * their number. */
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

/* Gives the clients above the water level their shares, rounded down to quanta. Adds the part that
 * rounding cut off to the client's deficit. */
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

/* Gives one quantum to each client, in the order of `order`, until no transfer is left. There are
 * enough clients: rounding cut off less than a quantum from each, and each can still take that
 * much. */
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
    pp_assert(rest->slots == 0, "transfers stay free that somebody could take");
}

uint32_t pp_fair_allot(struct pp_fair_client *c, size_t n, uint32_t slots, uint32_t quantum,
                       uint32_t *scratch)
{
    pp_assert(n <= UINT32_MAX && quantum > 0 && quantum <= PP_FAIR_QUANTUM_MAX, "no such quantum");
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
