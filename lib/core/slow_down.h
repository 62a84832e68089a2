/* slow_down.h: how long a host gets no requests after a 429, a 503 or a Retry-After.
 *
 * With Retry-After the pause is what the host asks for, at least 1 s. Without, it is 1 s at first.
 * It doubles with each answer that asks again after a pause, up to 5 min, and halves with each full
 * minute without such an answer, counted from the end of the pause. Answers that arrive during a
 * pause belong to requests sent before it, maybe by other workers: they don't double it again.
 *
 * Pure: all times are wall time, in ms. */
#ifndef PHOTOPOOL_CORE_SLOW_DOWN_H
#define PHOTOPOOL_CORE_SLOW_DOWN_H

#include <stdbool.h>
#include <stdint.h>

enum { PP_SLOW_DOWN_FIRST_MS = 1000, PP_SLOW_DOWN_MAX_MS = 5 * 60 * 1000, PP_SLOW_DOWN_HALF_MS = 60 * 1000 };

/* A host. All zero: it has never asked. */
struct pp_slow_down {
    int64_t until_ms; /* no request before this time */
    int64_t step_ms;  /* length of the last pause without Retry-After; 0: none */
    int64_t last_ms;  /* the last answer that asked for patience arrived at this time */
};

/* Notes an answer that asks for patience. retry_after_ms: what it asks for, or -1 without a usable
 * Retry-After; more than PP_RETRY_AFTER_MAX_MS counts as that. Returns until_ms. */
int64_t pp_slow_down_hit(struct pp_slow_down *s, int64_t retry_after_ms, int64_t now_ms);
/* Returns when the next request may go out; 0: now. */
int64_t pp_slow_down_until(const struct pp_slow_down *s, int64_t now_ms);

#endif
