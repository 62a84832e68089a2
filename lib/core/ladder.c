/* ladder.c: see ladder.h. */
#include "core/ladder.h"

bool pp_ladder_counts(uint16_t code)
{
    return code == 403 || code == 404 || code == 410;
}

bool pp_ladder_skip(struct pp_ladder l, int64_t now_ms, int64_t *retry_at_ms)
{
    if (l.streak == 0 || l.skips >= l.streak - 1)
        return false;
    if (now_ms < l.failed_at_ms || now_ms - l.failed_at_ms >= PP_LADDER_MAX_MS)
        return false;
    *retry_at_ms = l.failed_at_ms + PP_LADDER_MAX_MS;
    return true;
}
