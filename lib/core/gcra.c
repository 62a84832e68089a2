/* gcra.c: limits a rate by the generic cell rate algorithm. */
#include "core/gcra.h"

#include "base/check.h"

int64_t pp_gcra_take(struct pp_gcra *g, uint32_t rate, uint32_t burst, uint32_t n, int64_t now_ms)
{
    const int64_t second_us = 1000000;
    int64_t now_us = now_ms * 1000;
    int64_t full_us = g->full_us > now_us ? g->full_us : now_us;

    pp_assert(rate >= 1 && n >= 1 && n <= burst, "a limit is asked for more than it can ever give");
    full_us += n * second_us / rate;
    /* An empty bucket is full again after this time. */
    int64_t wait_us = full_us - now_us - burst * second_us / rate;
    if (wait_us > 0)
        return (wait_us + 999) / 1000;
    g->full_us = full_us;
    return 0;
}
