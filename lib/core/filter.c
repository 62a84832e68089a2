/* filter.c: the capacity of a filter of known photos, and when a new one is built. */
#include "core/filter.h"

#include <math.h>

#include "base/check.h"
#include "photopool/port/filter.h"
#include "photopool/shared_constants.h"

/* Two clocks that measure PP_FILTER_SETTLE_MS differ by less than a quarter of it. */
#define LATE_MS (PP_FILTER_SETTLE_MS * 3 / 4)

uint64_t pp_filter_capacity(uint64_t bytes)
{
    return bytes * 8 / PP_FILTER_BITS_A_KEY;
}

double pp_filter_false_share(uint64_t bytes, uint64_t keys)
{
    uint64_t blocks = bytes / PP_FILTER_BLOCK_BYTES > 0 ? bytes / PP_FILTER_BLOCK_BYTES : 1;
    double mean = (double)keys / (double)blocks, share = 0;
    double spread = 10 * sqrt(mean) + 10; /* a block has more or fewer keys with a share below 1e-15 */
    uint64_t from = mean > spread ? (uint64_t)(mean - spread) : 0, to = (uint64_t)(mean + spread);

    if (keys == 0)
        return 0;
    for (uint64_t i = from; i <= to; i++) {
        double n = (double)i;
        double is_set = 1 - pow(1 - 1.0 / PP_FILTER_BLOCK_BITS, n * PP_FILTER_PROBES);
        share += exp(n * log(mean) - mean - lgamma(n + 1)) * pow(is_set, PP_FILTER_PROBES);
    }
    return share < 1 ? share : 1;
}

enum pp_filter_reason pp_filter_due(const struct pp_filter_state *s, uint64_t bytes, int64_t max_age_ms)
{
    uint64_t rounded = bytes / PP_FILTER_BLOCK_BYTES * PP_FILTER_BLOCK_BYTES;

    pp_assert(bytes > 0 && max_age_ms > 0, "a filter without a size or an age");
    if (!s->complete)
        return PP_FILTER_INCOMPLETE;
    if (s->bytes != (rounded > 0 ? rounded : PP_FILTER_BLOCK_BYTES))
        return PP_FILTER_RESIZED;
    if (s->age_ms >= max_age_ms)
        return PP_FILTER_OLD;
    if (s->keys > pp_filter_capacity(s->bytes) && s->age_ms >= max_age_ms / 4)
        return PP_FILTER_FULL;
    return PP_FILTER_GOOD;
}

const char *pp_filter_reason_text(enum pp_filter_reason reason)
{
    static const char *const texts[] = {[PP_FILTER_GOOD] = "good",
                                        [PP_FILTER_INCOMPLETE] = "incomplete",
                                        [PP_FILTER_RESIZED] = "of another size",
                                        [PP_FILTER_OLD] = "too old",
                                        [PP_FILTER_FULL] = "too full"};
    return texts[reason];
}

bool pp_filter_late(int64_t asked_ms, int64_t now_ms)
{
    return now_ms - asked_ms >= LATE_MS;
}
