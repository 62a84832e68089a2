/* route.c: learns and decides the tier of a (client, domain) from its transfer times. */
#include "core/route.h"

#include <math.h>

#include "base/check.h"

void pp_route_batch_add(struct pp_route_batch *batch, const struct pp_tier *tiers, size_t n, double margin,
                        struct pp_route_sample s)
{
    pp_assert(n >= 1 && n <= PP_TIERS_MAX, "no such list of tiers");
    size_t tier = s.tier < n ? s.tier : n - 1;
    double value = s.ms > 0 ? (double)s.ms : 0;
    if (s.timed_out) {
        batch->over |= (uint8_t)(1u << tier);
        if (!s.first)
            return;
        value = fmax(value, (double)tiers[tier].timeout_ms) * margin;
    } else {
        batch->done |= (uint8_t)(1u << pp_tier_cover(tiers, n, value));
    }
    if (batch->count < UINT32_MAX)
        batch->count++;
    batch->sum_ms += value;
}

static uint32_t add_capped(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* Lowers the sums to their values at now_ms, because old samples lose weight. The sum of weights
 * does not become less than the weight of one sample. */
static void decay(struct pp_route *r, const struct pp_route_params *p, int64_t now_ms)
{
    if (now_ms <= r->updated_ms || r->weight_sum <= 0) {
        if (now_ms > r->updated_ms)
            r->updated_ms = now_ms;
        return;
    }
    double factor =
        exp2(-(double)(now_ms - r->updated_ms) / (double)(p->half_life_ms > 0 ? p->half_life_ms : 1));
    double least = r->weight_sum < 1 ? 1 : 1 / r->weight_sum;
    if (factor < least)
        factor = least;
    r->weight_sum *= factor;
    r->value_sum *= factor;
    r->updated_ms = now_ms;
}

void pp_route_merge(struct pp_route *r, const struct pp_route_params *p, const struct pp_route_batch *batch,
                    int64_t now_ms)
{
    if (batch->count > 0)
        decay(r, p, now_ms);
    r->weight_sum += batch->count;
    r->value_sum += batch->sum_ms;
    r->samples = add_capped(r->samples, batch->count);
    r->lately.count = add_capped(r->lately.count, batch->count);
    r->lately.sum_ms += batch->sum_ms;
    r->lately.over |= batch->over;
    r->lately.done |= batch->done;
}

void pp_route_add(struct pp_route *r, const struct pp_tier *tiers, size_t n, const struct pp_route_params *p,
                  struct pp_route_sample s, int64_t now_ms)
{
    struct pp_route_batch one = {0};
    pp_route_batch_add(&one, tiers, n, p->margin, s);
    pp_route_merge(r, p, &one, now_ms);
}

double pp_route_mean_ms(const struct pp_route *r)
{
    return r->weight_sum > 0 ? r->value_sum / r->weight_sum : 0;
}

/* Returns the least mean that recent timeouts allow. It comes from the highest tier in which a
 * transfer timed out lately and for which no transfer was quick enough; 0: there is no such
 * tier. */
static double floor_ms(const struct pp_route_batch *lately, const struct pp_tier *tiers, size_t n,
                       double margin)
{
    for (size_t t = n; t-- > 0;) {
        uint32_t up_to_t = (2u << t) - 1;
        if ((lately->over >> t & 1) && !(lately->done & up_to_t))
            return (double)tiers[t].timeout_ms * margin;
    }
    return 0;
}

uint8_t pp_route_decide(struct pp_route *r, const struct pp_tier *tiers, size_t n,
                        const struct pp_route_params *p)
{
    if (r->tier >= n)
        r->tier = (uint8_t)(n - 1);
    if (r->samples < p->min_samples || r->weight_sum <= 0)
        return r->tier;
    if (r->lately.count >= p->min_samples) {
        double least = floor_ms(&r->lately, tiers, n, p->margin);
        if (pp_route_mean_ms(r) < least) {
            r->weight_sum = r->lately.count;
            r->value_sum = fmax(r->lately.sum_ms, least * r->lately.count);
        }
        r->lately = (struct pp_route_batch){0};
    }
    double need = pp_route_mean_ms(r) * p->margin;
    uint8_t up = pp_tier_cover(tiers, n, need), down = pp_tier_cover(tiers, n, need * PP_ROUTE_DOWN);
    if (up > r->tier)
        r->tier = up;
    else if (down < r->tier)
        r->tier = down;
    return r->tier;
}

uint8_t pp_route_early(const struct pp_route *r, const struct pp_tier *tiers, size_t n,
                       const struct pp_route_params *p)
{
    if (r->samples == 0 || r->weight_sum <= 0)
        return r->tier < n ? r->tier : (uint8_t)(n - 1);
    double mean = pp_route_mean_ms(r), least = floor_ms(&r->lately, tiers, n, p->margin);
    return pp_tier_cover(tiers, n, (mean > least ? mean : least) * p->margin);
}
