/* gcra.h: limits a rate by the generic cell rate algorithm (ITU-T I.371, annex A), the leaky bucket
 * as a meter: at most `burst` units at once, and `rate` units a second in the long run. One number
 * is the whole state, and it does not change while nothing is taken. Pure; `now` is monotonic. */
#ifndef PP_CORE_GCRA_H
#define PP_CORE_GCRA_H

#include <stdbool.h>
#include <stdint.h>

/* The state of one limit. Zeroed, nothing has been taken. */
struct pp_gcra {
    int64_t full_us; /* all units are available again at this time */
};

/* Takes `n` units at the time `now_ms`, or nothing if fewer are available. Returns 0, or the time
 * in ms, at least 1, after which `n` units are available. 1 <= n <= burst; rate >= 1. */
int64_t pp_gcra_take(struct pp_gcra *g, uint32_t rate, uint32_t burst, uint32_t n, int64_t now_ms);

#endif
