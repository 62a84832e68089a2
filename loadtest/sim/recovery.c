/* recovery.c: how long after a crash the disturbed clients reach their rate again: from then on
 * each minute has as many of their requests as are permitted in a minute. */
#include "recovery.h"

#include <stdlib.h>

#include "base/check.h"

enum { SECOND_MS = 1000, MINUTE = 60 };

void scale_recovery_begin(struct scale_recovery *r, int64_t now_ms, int64_t end_ms)
{
    r->began_ms = now_ms;
    r->n = (size_t)((end_ms - now_ms) / SECOND_MS);
    r->seconds = calloc(r->n + 1, sizeof *r->seconds);
    pp_assert(r->seconds, "the simulator needs memory");
}

void scale_recovery_request(struct scale_recovery *r, int64_t now_ms)
{
    size_t second = (size_t)((now_ms - r->began_ms) / SECOND_MS);

    if (second < r->n)
        r->seconds[second]++;
}

int64_t scale_recovery_seconds(const struct scale_recovery *r)
{
    uint64_t sum = 0;
    int64_t since = 0; /* no minute that begins at this second or later has too few */

    if (r->permitted == 0 || r->n < MINUTE)
        return -1;
    for (size_t i = 0; i < r->n; i++) {
        sum += r->seconds[i];
        if (i >= MINUTE)
            sum -= r->seconds[i - MINUTE];
        if (i + 1 >= MINUTE && 100 * sum < SCALE_RECOVERED_PERCENT * r->permitted)
            since = (int64_t)(i + 1 - MINUTE) + 1;
    }
    return since > (int64_t)(r->n - MINUTE) ? -1 : since;
}
